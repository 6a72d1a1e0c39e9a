package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"taskbridge/session"
	"taskbridge/translate"
)

// S9: framing tricks of a client end here; the server sees one request with a
// length of ours.
func TestSafetyS9_OneRequestWithOurOwnLength(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, nil)
			g := newRig(t, server.URL, bridgeOptions{})
			c := newCaller(t, g, pair.client, "")
			c.tool("ok", "")
			server.Forget()
			body := request("1", "tools/call", c.params(`"name":"ok","arguments":{}`))
			var raw strings.Builder
			raw.WriteString("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n")
			for name, v := range c.headers("tools/call", "ok") {
				raw.WriteString(name + ": " + v[0] + "\r\n")
			}
			raw.WriteString(fmt.Sprintf("\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body))
			raw.WriteString("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
			if r := rawHTTP(t, g.URL, raw.String()); r.Status != 200 && r.Status != 400 {
				t.Errorf("got %s", r)
			}
			calls := server.Requests("tools/call")
			if len(calls) > 1 {
				t.Fatalf("the server saw %d calls", len(calls))
			}
			for _, up := range calls {
				if up.Header.Get("Content-Length") != fmt.Sprint(len(up.Body)) || up.Header.Get("Transfer-Encoding") != "" {
					t.Errorf("sent up with %v for %d bytes", up.Header, len(up.Body))
				}
			}
		})
	}
}

// S11: only listed headers go up, ours are set after.
func TestSafetyS11_HeadersThatGoUp(t *testing.T) {
	allowed := map[string]bool{"Accept": true, "Accept-Encoding": true, "Content-Type": true, "Content-Length": true, "User-Agent": true, "Authorization": true,
		"Mcp-Protocol-Version": true, "Mcp-Session-Id": true, "Mcp-Method": true, "Mcp-Name": true, "Traceparent": true, "Accept-Language": true}
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, nil)
			g := newRig(t, server.URL, bridgeOptions{})
			c := newCaller(t, g, pair.client, "secret-a")
			h := c.headers("tools/call", "ok")
			for name, v := range map[string]string{"Cookie": "a=b", "Proxy-Authorization": "Basic eA==", "Forwarded": "for=1.2.3.4", "X-Forwarded-For": "1.2.3.4", "X-Real-Ip": "1.2.3.4",
				"X_User": "root", "Te": "trailers", "Via": "1.1 x", "Origin": "http://" + strings.TrimPrefix(strings.TrimSuffix(g.URL, "/mcp"), "http://"), "Referer": "http://x/", "Traceparent": "00-1-2-01", "Accept-Language": "en"} {
				h[name] = []string{v}
			}
			if pair.client == translate.Legacy {
				h["Mcp-Param-X"], h["Mcp-Name"], h["Mcp-Method"] = []string{"steer"}, []string{"other"}, []string{"tools/list"}
			}
			r := c.post(h, request("1", "tools/call", c.params(`"name":"ok","arguments":{}`)))
			if r.Text() != "fine" {
				t.Fatal(r)
			}
			for _, up := range server.Requests("") {
				for name, v := range up.Header {
					if !allowed[name] {
						t.Errorf("%s: %s: %v reached the server", up.Method, name, v)
					}
				}
				if v := up.Header["Authorization"]; len(v) != 1 || v[0] != "Bearer secret-a" {
					t.Errorf("%s: Authorization %v", up.Method, v)
				}
				if v := up.Header.Get("Mcp-Session-Id"); v != "" && v == c.session {
					t.Errorf("our session id went up")
				}
				if up.Method == "tools/call" && pair.server == translate.Modern && (up.Header.Get("Mcp-Name") != "ok" || up.Header.Get("Mcp-Method") != "tools/call") {
					t.Errorf("mirrors %v", up.Header)
				}
			}
			if strings.Contains(g.Log.String(), "secret-a") {
				t.Error("the log shows a credential")
			}
		})
	}
}

// S15: a route's own credential is the only one that goes up.
func TestSafetyS15_RoutesOwnCredential(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, nil)
			g := newRig(t, server.URL, bridgeOptions{Header: http.Header{"Authorization": {"Bearer route"}}, Policy: session.Policy{SealSameEra: true}})
			c := newCaller(t, g, pair.client, "mine")
			if r := c.tool("ok", ""); r.Text() != "fine" {
				t.Fatal(r)
			}
			for _, up := range server.Requests("") {
				if v := up.Header["Authorization"]; len(v) != 1 || v[0] != "Bearer route" {
					t.Errorf("%s %s: Authorization %v", up.Verb, up.Method, v)
				}
			}
		})
	}
}

// S18: nothing is sent across origins.
func TestSafetyS18_RedirectsAcrossOrigins(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			other := newScripted(t, pair.server, nil)
			var moved = func(to string, status int) func(c *scriptCall) {
				return func(c *scriptCall) { c.W.Header().Set("Location", to); c.W.WriteHeader(status) }
			}
			server := newScripted(t, pair.server, tools(map[string]func(c *scriptCall){
				"port": moved(other.URL, 307), "scheme": moved("https://127.0.0.1/mcp", 308), "see-other": moved("/mcp", 303), "user": moved("http://x@127.0.0.1:1/mcp", 307),
				"near": func(c *scriptCall) {
					if c.R.URL.Path == "/mcp" {
						moved("/mcp/moved", 307)(c)
						return
					}
					c.Result(c.text("moved"))
				},
			}))
			g := newRig(t, server.URL, bridgeOptions{})
			c := newCaller(t, g, pair.client, "secret")
			for _, tool := range []string{"port", "scheme", "see-other", "user"} {
				if r := c.tool(tool, ""); r.Status != 502 || r.Code() != -32603 || len(r.Answers) != 1 {
					t.Errorf("%s: %s", tool, r)
				}
			}
			if r := c.tool("near", ""); r.Text() != "moved" {
				t.Errorf("within the origin: %s", r)
			}
			if n := len(other.Requests("")); n != 0 {
				t.Errorf("%d requests went to another origin", n)
			}
		})
	}
}

// S40: what a client puts into mirrored members cannot leave its header.
func TestSafetyS40_MirroredMembers(t *testing.T) {
	server := newScripted(t, translate.Modern, nil)
	g := newRig(t, server.URL, bridgeOptions{})
	c := newCaller(t, g, translate.Legacy, "a")
	for _, name := range []string{"x\r\nAuthorization: Bearer y", "é", " x ", "=?base64?x?=", "\x00", "a\tb", strings.Repeat("n", 6000)} {
		server.Forget()
		if r := c.tool(name, ""); r.Status != 200 || len(r.Answers) != 1 {
			t.Errorf("%.40q: %s", name, r)
			continue
		}
		ups := server.Requests("tools/call")
		if len(ups) != 1 {
			t.Fatalf("%.40q: %d calls", name, len(ups))
		}
		got, ok := translate.DecodeHeader(ups[0].Header.Get("Mcp-Name"))
		if !ok || strings.TrimSpace(name) != name && got != name || got != name && name == strings.TrimSpace(name) {
			t.Errorf("%.40q mirrored as %.80q", name, ups[0].Header.Get("Mcp-Name"))
		}
		if v := ups[0].Header["Authorization"]; len(v) != 1 || v[0] != "Bearer a" {
			t.Errorf("%.40q: Authorization %v", name, v)
		}
	}
	server.Forget()
	for _, name := range []string{strings.Repeat("n", 9000), strings.Repeat("é", 1<<19)} {
		if r := c.tool(name, ""); r.Status != 200 || r.Code() != -32602 || len(r.Answers) != 1 {
			t.Errorf("a name of %d bytes: HTTP %d code %d", len(name), r.Status, r.Code())
		}
	}
	if n := len(server.Requests("")); n != 0 {
		t.Errorf("%d requests for names no header can carry", n)
	}
}

// S43: schemas are data: nothing in them is fetched, compiled or changed.
func TestSafetyS43_SchemasAreData(t *testing.T) {
	canary := newScripted(t, translate.Modern, nil)
	schema := `{"type":"object","$ref":"` + canary.URL + `","properties":{"a":{"pattern":"` + strings.Repeat("(a+)+", 20000) + `"},"b":` + strings.Repeat(`{"items":`, 400) + `{}` + strings.Repeat(`}`, 400) + `}}`
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				if c.Method != "tools/list" {
					return false
				}
				c.Result(c.complete(`"tools":[{"name":"ok","inputSchema":` + schema + `,"outputSchema":` + schema + `}]`))
				return true
			})
			c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), pair.client, "")
			r := c.call("tools/list", "")
			if strings.Count(string(r.Body), schema) != 2 {
				t.Errorf("schemas changed: %.300s", r)
			}
			if r := c.tool("ok", ""); r.Text() != "fine" {
				t.Error(r)
			}
		})
	}
	if n := len(canary.Requests("")); n != 0 {
		t.Errorf("%d requests to an address out of a schema", n)
	}
}

// S56: what a caller is told of a failure names nothing of the inside.
func TestSafetyS56_ErrorsTellLittle(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			down := false
			var mu sync.Mutex
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				mu.Lock()
				defer mu.Unlock()
				if down {
					c.Cut("HTTP/1.1 500 key=hunter2\r\nX-Key: hunter2\r\nContent-Type: text/plain\r\nContent-Length: 200\r\n\r\nstack trace key=hunter2 /srv/app.py")
				}
				return down
			})
			g := newRig(t, server.URL, bridgeOptions{Header: http.Header{"X-Api-Key": {"route-secret"}}})
			c := newCaller(t, g, pair.client, "mine")
			c.tool("ok", "")
			mu.Lock()
			down = true
			mu.Unlock()
			host := strings.TrimSuffix(strings.TrimPrefix(server.URL, "http://"), "/mcp")
			for _, r := range []rawReply{c.tool("ok", ""), c.call("tools/list", ""), newRigCaller(t, "http://user:hunter2@127.0.0.1:1/mcp", pair.client).tool("ok", "")} {
				if r.Status < 500 {
					t.Errorf("got %s", r)
				}
				for _, secret := range []string{"hunter2", "route-secret", "mine", "stack trace", host, "127.0.0.1:1", "app.py"} {
					if strings.Contains(string(r.Body), secret) || strings.Contains(fmt.Sprint(r.Header), secret) {
						t.Errorf("the answer tells %q: %s", secret, r)
					}
				}
			}
			if log := g.Log.String(); strings.Contains(log, "hunter2") || strings.Contains(log, "route-secret") {
				t.Errorf("the log tells: %s", log)
			}
		})
	}
}

// newRigCaller is a caller before a server that may not be there.
func newRigCaller(t *testing.T, url string, era translate.Era) *caller {
	c := &caller{t: t, g: newRig(t, url, bridgeOptions{}), era: era, http: http.DefaultClient, caps: tasksCaps}
	if era == translate.Legacy {
		r := c.post(c.headers("", ""), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
		if r.Status < 500 || slices.Contains(r.Header["Www-Authenticate"], "x") {
			t.Errorf("initialize: %s", r)
		}
		c.era = translate.Modern // a request without session shows the same
	}
	return c
}
