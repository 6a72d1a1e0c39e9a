package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/translate"
)

// S9: framing tricks of a client end here; the server sees one request with a
// length of ours.
func TestSafetyS9_OneRequestWithOurOwnLength(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, nil)
			g := newRig(t, server.URL, rigOptions{})
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
			g := newRig(t, server.URL, rigOptions{})
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
			g := newRig(t, server.URL, rigOptions{Header: http.Header{"Authorization": {"Bearer route"}}, Policy: session.Policy{SealSameEra: true}})
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
			g := newRig(t, server.URL, rigOptions{})
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

// S21: a session belongs to its principal. For anybody else it does not exist,
// and its owner notices nothing.
func TestSafetyS21_SessionTheft(t *testing.T) {
	for _, era := range []translate.Era{translate.Legacy, translate.Modern} {
		t.Run(era.String()+" server", func(t *testing.T) {
			push := make(chan string)
			server := newScripted(t, era, func(c *scriptCall) bool {
				if c.R.Method != http.MethodGet {
					return false
				}
				c.Begin()
				for {
					select {
					case m := <-push:
						c.Events(m)
					case <-c.R.Context().Done():
						return true
					}
				}
			})
			g := newRig(t, server.URL, rigOptions{})
			a, b := newCaller(t, g, translate.Legacy, "a"), newCaller(t, g, translate.Legacy, "b")
			get := a.headers("", "")
			get.Del("Content-Type")
			get.Set("Accept", "text/event-stream")
			lines, status, _ := a.stream("GET", get, "")
			if status != 200 {
				t.Fatalf("GET: %d", status)
			}
			thief := &caller{t: t, g: g, era: translate.Legacy, http: b.http, token: "b", session: a.session}
			nobody := &caller{t: t, g: g, era: translate.Legacy, http: b.http, token: "b", session: "AAAAAAAAAAAAAAAAAAAAAAAA"}
			anonymous := &caller{t: t, g: g, era: translate.Legacy, http: b.http, session: a.session}
			for _, verb := range []string{"POST", "GET", "DELETE"} {
				body := ""
				if verb == "POST" {
					body = request("9", "tools/call", `{"name":"ok","arguments":{}}`)
				}
				ask := func(c *caller) rawReply {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					return c.do(ctx, verb, c.headers("", ""), body)
				}
				foreign, unknown, none := ask(thief), ask(nobody), ask(anonymous)
				if foreign.Status != 404 || string(foreign.Body) != string(unknown.Body) || unknown.Status != 404 {
					t.Errorf("%s: foreign %s, unknown %s", verb, foreign, unknown)
				}
				if none.Status != 404 || string(none.Body) != string(unknown.Body) {
					t.Errorf("%s without a credential: %s", verb, none)
				}
			}
			// Answers and cancels of a thief do nothing either.
			for _, body := range []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`} {
				if r := thief.post(thief.headers("", ""), body); r.Status != 404 {
					t.Errorf("thief's %s: %s", body, r)
				}
			}
			if r := a.tool("ok", ""); r.Text() != "fine" {
				t.Errorf("owner afterwards: %s", r)
			}
			if era == translate.Legacy {
				push <- `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
				nextLine(t, lines, "list_changed")
			}
			// A second GET of the owner lives beside the first.
			more, status, _ := a.stream("GET", get, "")
			if status != 200 {
				t.Errorf("second GET: %d", status)
			}
			if era == translate.Legacy {
				push <- `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`
				got := 0
				limit := time.After(patience)
				for got == 0 {
					select {
					case l := <-lines:
						got += strings.Count(l, "prompts/list_changed")
					case l := <-more:
						got += strings.Count(l, "prompts/list_changed")
					case <-limit:
						t.Fatal("the message came on no stream")
					}
				}
			}
		})
	}
}

// S26: a foreign handle and one that never was are told apart by nothing: not
// by the answer, not by a request to the server.
func TestSafetyS26_ForeignTaskHandles(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			url, server := countedPeer(t, pair.server, peers.ServerOptions{})
			// The route's own credential: all callers are one for the server.
			g := newRig(t, url, rigOptions{Header: http.Header{"Authorization": {"Bearer route"}}, Policy: session.Policy{SealSameEra: true}})
			owner := newCaller(t, g, pair.client, "owner")
			augment := ""
			if pair.client == translate.Legacy {
				augment = `,"task":{}`
			}
			r := owner.call("tools/call", `"name":"slow_compute","arguments":{"seconds":60}`+augment)
			handle := taskIDOf(r)
			if handle == "" {
				t.Fatalf("no task: %s", r)
			}
			if r := owner.call("tasks/get", `"taskId":`+quote(handle)); r.field("status") != "working" {
				t.Fatalf("owner: %s", r)
			}
			unknown := handle[:len(handle)-8] + "AAAAAAAA"
			methods := []string{"tasks/get", "tasks/cancel", "tasks/result"}
			if pair.client == translate.Modern {
				methods = []string{"tasks/get", "tasks/cancel", "tasks/update"}
			}
			for i := range 50 {
				thief := newCaller(t, g, pair.client, fmt.Sprintf("thief-%d", i%5))
				thief.tool("greet", "")
				server.Forget()
				for _, method := range methods {
					p := func(id string) string { return thief.params(`"inputResponses":{},"taskId":` + quote(id)) }
					foreign, never := thief.send("7", method, p(handle)), thief.send("7", method, p(unknown))
					if foreign.Status != never.Status || string(foreign.Body) != string(never.Body) || foreign.Code() != -32602 || len(foreign.Answers) != 1 {
						t.Fatalf("%s: foreign %s, unknown %s", method, foreign, never)
					}
					if fmt.Sprint(foreign.Header["Content-Type"], foreign.Header["Content-Length"]) != fmt.Sprint(never.Header["Content-Type"], never.Header["Content-Length"]) {
						t.Errorf("%s: headers %v and %v", method, foreign.Header, never.Header)
					}
				}
				for _, up := range server.Requests("") {
					if strings.HasPrefix(up.Method, "tasks/") {
						t.Fatalf("the server was asked %s", up.Method)
					}
				}
				if pair.client == translate.Legacy {
					if r := thief.call("tasks/list", ""); strings.Contains(string(r.Body), "taskId") {
						t.Fatalf("the thief's list: %s", r)
					}
				} else if pair.server == translate.Legacy {
					lines, status, leave := thief.stream("POST", thief.headers("subscriptions/listen", ""), request("1", "subscriptions/listen", thief.params(`"notifications":{"taskIds":[`+quote(handle)+`,`+quote(unknown)+`]}`)))
					if status != 200 {
						t.Fatalf("listen: %d %s", status, <-lines)
					}
					if l := nextLine(t, lines, "acknowledged"); strings.Contains(l, "tb1_") {
						t.Fatalf("listen acknowledged %s", l)
					}
					leave()
				}
			}
			if r := owner.call("tasks/get", `"taskId":`+quote(handle)); r.field("status") != "working" {
				t.Errorf("owner afterwards: %s", r)
			}
			if pair.client == translate.Legacy {
				if r := owner.call("tasks/list", ""); !strings.Contains(string(r.Body), handle) {
					t.Errorf("owner's list: %s", r)
				}
			}
			if r := owner.call("tasks/cancel", `"taskId":`+quote(handle)); r.Code() != 0 {
				t.Errorf("owner's cancel: %s", r)
			}
		})
	}
}

// S27: where callers share what goes up, a server's requestState and cursors
// serve only whom they were given to.
func TestSafetyS27_SharedUpstreamCredential(t *testing.T) {
	const state, cursor = `{"user":"a","é":"\n"}`, "page-2"
	server := newScripted(t, translate.Modern, func(c *scriptCall) bool {
		var p struct {
			RequestState, Cursor *string
			InputResponses       json.RawMessage
		}
		_ = json.Unmarshal(c.Params, &p)
		switch {
		case c.Method == "tools/list" && p.Cursor == nil:
			c.Result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[],"nextCursor":"` + cursor + `"}`)
		case c.Method == "tools/list" && *p.Cursor == cursor:
			c.Result(c.complete(`"tools":[{"name":"second","inputSchema":{"type":"object"}}]`))
		case c.Tool == "asks" && p.RequestState == nil:
			c.Result(`{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":` + quote(state) + `}`)
		case c.Tool == "asks" && *p.RequestState == state:
			c.Result(c.text("resumed"))
		default:
			return false
		}
		return true
	})
	for _, sealed := range []bool{true, false} {
		g := newRig(t, server.URL, rigOptions{Policy: session.Policy{SealSameEra: sealed}})
		a, b := newCaller(t, g, translate.Modern, "a"), newCaller(t, g, translate.Modern, "b")
		var asks struct{ RequestState, NextCursor string }
		_ = json.Unmarshal(a.tool("asks", "").answer().Result, &asks)
		list := a.call("tools/list", "")
		_ = json.Unmarshal(list.answer().Result, &asks)
		if (asks.RequestState == state) == sealed || (asks.NextCursor == cursor) == sealed {
			t.Fatalf("sealed %v: given %+v", sealed, asks)
		}
		retry := `"inputResponses":{"k":{"action":"accept","content":{}}},"requestState":` + quote(asks.RequestState)
		page := `"cursor":` + quote(asks.NextCursor)
		if sealed {
			server.Forget()
			for _, r := range []rawReply{b.tool("asks", retry), b.call("tools/list", page), b.tool("asks", `"requestState":`+quote(state)), b.call("tools/list", `"cursor":"`+cursor+`"`), b.call("tools/list", `"cursor":5`),
				b.tool("asks", `"requestState":`+quote(asks.NextCursor)), a.tool("asks", `"requestState":`+quote(asks.NextCursor)), a.call("tools/list", `"cursor":`+quote(asks.RequestState))} {
				if r.Status != 200 || r.Code() != -32602 || len(r.Answers) != 1 {
					t.Errorf("replayed: %s", r)
				}
			}
			if n := len(server.Requests("")); n != 1 && n != 0 { // a probe at most
				t.Errorf("%d requests reached the server: %v", n, server.Requests(""))
			}
		}
		if r := a.tool("asks", retry); r.Text() != "resumed" {
			t.Errorf("sealed %v: owner's retry: %s", sealed, r)
		}
		if r := a.call("tools/list", page); !strings.Contains(string(r.Body), "second") {
			t.Errorf("sealed %v: owner's page: %s", sealed, r)
		}
	}
}

// S28: of equal retries over two runners one resumes the call, which runs once.
func TestSafetyS28_SingleUseRaced(t *testing.T) {
	server := peers.NewLegacyServer(peers.ServerOptions{})
	g := newRig(t, startPeer(t, server), rigOptions{Runners: 2})
	c := newCaller(t, g, translate.Modern, "a")
	for round := range 3 {
		var a asked
		_ = json.Unmarshal(c.tool("ask_name", "").answer().Result, &a)
		if a.RequestState == "" || len(a.InputRequests) != 1 {
			t.Fatalf("not asked: %+v", a)
		}
		responses := ""
		for key := range a.InputRequests {
			responses = `{` + quote(key) + `:{"action":"accept","content":{"name":"Ada"}}}`
		}
		p := c.params(`"name":"ask_name","arguments":{},"inputResponses":` + responses + `,"requestState":` + quote(a.RequestState))
		replies := make([]rawReply, 50)
		var wg sync.WaitGroup
		for i := range replies {
			wg.Go(func() { replies[i] = c.send(fmt.Sprint(i), "tools/call", p) })
		}
		wg.Wait()
		resumed, refused, texts := 0, 0, map[string]bool{}
		for _, r := range replies {
			switch r.Code() {
			case 0:
				resumed++
			case -32602:
				refused++
				texts[r.answer().Error.Message] = true
			default:
				t.Errorf("got %s", r)
			}
		}
		if resumed != 1 || refused != 49 || len(texts) != 1 {
			t.Errorf("%d resumed, %d refused in words %v", resumed, refused, texts)
		}
		if n := server.Calls("ask_name"); n != round+1 {
			t.Errorf("the tool ran %d times", n)
		}
	}
}

// S30: two callers use equal ids at once; a server that answers with the
// other's id reaches nobody, and each gets its own answer.
func TestSafetyS30_AnswersOfOthers(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			gate := make(chan struct{})
			server := newScripted(t, pair.server, tools(map[string]func(c *scriptCall){
				"waits": func(c *scriptCall) { <-gate; c.Result(c.text("own")) },
				"lies": func(c *scriptCall) {
					c.SSE(`{"jsonrpc":"2.0","id":100,"result":`+c.text("stolen")+`}`, `{"jsonrpc":"2.0","id":1,"result":`+c.text("stolen")+`}`, `{"jsonrpc":"2.0","id":2,"result":`+c.text("stolen")+`}`)
				},
			}))
			g := newRig(t, server.URL, rigOptions{})
			a, b := newCaller(t, g, pair.client, "a"), newCaller(t, g, pair.client, "b")
			done := make(chan rawReply, 1)
			go func() { done <- a.send("100", "tools/call", a.params(`"name":"waits","arguments":{}`)) }()
			eventually(t, "the call is under way", func() bool { return server.Ran("waits") == 1 })
			r := b.send("200", "tools/call", b.params(`"name":"lies","arguments":{}`))
			close(gate)
			if len(r.Answers) != 1 || r.Code() == 0 && string(r.answer().ID) != "200" {
				t.Errorf("liar's caller: %s", r)
			}
			if got := <-done; got.Text() != "own" || len(got.Answers) != 1 {
				t.Errorf("the other: %s", got)
			}
			if g.Losses.droppedOf("answer") == 0 {
				t.Error("nothing was counted")
			}
		})
	}
}

// S31: what one user was given is never given to another, "public" or not.
func TestSafetyS31_NoCacheAcrossUsers(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				if c.Method != "tools/list" {
					return false
				}
				who := strings.TrimPrefix(c.R.Header.Get("Authorization"), "Bearer ")
				c.Result(`{"resultType":"complete","ttlMs":3600000,"cacheScope":"public","tools":[{"name":"of-` + who + `","inputSchema":{"type":"object"}}]}`)
				return true
			})
			g := newRig(t, server.URL, rigOptions{})
			for _, who := range []string{"a", "b", "a"} {
				c := newCaller(t, g, pair.client, who)
				if r := c.call("tools/list", ""); !strings.Contains(string(r.Body), `"of-`+who+`"`) {
					t.Errorf("%s got %s", who, r)
				}
			}
		})
	}
}

// S40: what a client puts into mirrored members cannot leave its header.
func TestSafetyS40_MirroredMembers(t *testing.T) {
	server := newScripted(t, translate.Modern, nil)
	g := newRig(t, server.URL, rigOptions{})
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

// S42: a server without end meets a bound and the client one clear answer.
func TestSafetyS42_EndlessServers(t *testing.T) {
	t.Run("pages of tools", func(t *testing.T) {
		server := newScripted(t, translate.Legacy, func(c *scriptCall) bool {
			if c.Method == "tools/list" {
				c.Result(`{"tools":[{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"forbidden"}}],"nextCursor":"again"}`)
				return true
			}
			return false
		})
		c := newCaller(t, newRig(t, server.URL, rigOptions{}), translate.Modern, "")
		if r := c.tool("ok", ""); r.Text() != "fine" {
			t.Errorf("got %s", r)
		}
		if n := len(server.Requests("tools/list")); n > 60 {
			t.Errorf("%d pages were asked for", n)
		}
	})
	asks := func(requests, state string) func(c *scriptCall) {
		return func(c *scriptCall) {
			c.Result(`{"resultType":"input_required"` + requests + state + `}`)
		}
	}
	many := make([]string, 100_000)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`, i)
	}
	one := `,"inputRequests":{"k":{"method":"roots/list"}}`
	server := newScripted(t, translate.Modern, tools(map[string]func(c *scriptCall){
		"state for ever": asks("", `,"requestState":"s"`),
		"many keys":      asks(`,"inputRequests":{`+strings.Join(many, ",")+`}`, ""),
		"array":          asks(`,"inputRequests":[{"method":"elicitation/create"}]`, `,"requestState":"s"`),
		"unknown method": asks(`,"inputRequests":{"k":{"method":"x/y","params":{}}}`, ""),
		"no method":      asks(`,"inputRequests":{"k":5}`, ""),
		"undeclared":     asks(one, ""),
		"nothing":        asks("", ""),
		"big state":      asks(one, `,"requestState":"`+strings.Repeat("s", 10<<20)+`"`),
	}))
	g := newRig(t, server.URL, rigOptions{Policy: session.Policy{RetryAfter: time.Millisecond}})
	c, good := newCaller(t, g, translate.Legacy, ""), newCaller(t, g, translate.Legacy, "good")
	for _, tool := range []string{"state for ever", "array", "unknown method", "no method", "undeclared", "nothing", "big state", "many keys"} {
		t.Run(tool, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			c.t = t
			r := c.postIn(ctx, c.headers("tools/call", tool), request(quote(tool), "tools/call", c.params(`"name":`+quote(tool)+`,"arguments":{}`)))
			if len(r.Answers) != 1 || r.Code() != -32603 {
				t.Errorf("got code %d, %d answers: %.300s", r.Code(), len(r.Answers), r)
			}
			if n := server.Ran(tool); n > 12 {
				t.Errorf("the tool was called %d times", n)
			}
			if r := good.tool("ok", ""); r.Text() != "fine" {
				t.Errorf("beside it: %s", r)
			}
		})
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
			c := newCaller(t, newRig(t, server.URL, rigOptions{}), pair.client, "")
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

// S44: large bodies fill their part of the budget; what is over is refused
// with a time to come back, and small calls pass.
func TestSafetyS44_LargeBodiesBesideSmall(t *testing.T) {
	hold := make(chan struct{})
	server := newScripted(t, translate.Modern, tools(map[string]func(c *scriptCall){
		"large": func(c *scriptCall) { <-hold; c.Result(c.text("stored")) },
	}))
	g := newRig(t, server.URL, rigOptions{Down: func(o *downstream.Options) { o.Budget = session.NewBudget(16 << 20) }})
	c, good := newCaller(t, g, translate.Modern, ""), newCaller(t, g, translate.Modern, "good")
	body := `"name":"large","arguments":{"a":"` + strings.Repeat("x", 4<<20) + `"}`
	replies := make(chan rawReply, 12)
	for i := range 12 {
		go func() { replies <- c.send(fmt.Sprint(i), "tools/call", c.params(body)) }()
	}
	// With 12 MiB for large ones two or three are taken; the rest comes back.
	busy := 0
	for busy < 9 {
		r := <-replies
		if busy++; r.Status != 503 || r.Header.Get("Retry-After") == "" || len(r.Answers) != 1 {
			t.Fatalf("over the budget: HTTP %d %v %v", r.Status, r.Header, r.Broken)
		}
		if r := good.tool("ok", ""); r.Text() != "fine" {
			t.Fatalf("a small call: %s", r)
		}
	}
	close(hold)
	for range 3 {
		if r := <-replies; r.Text() != "stored" && r.Status != 503 {
			t.Errorf("within the budget: %s", r)
		}
	}
	if r := c.send("99", "tools/call", c.params(body)); r.Text() != "stored" {
		t.Errorf("afterwards: HTTP %d", r.Status)
	}
}

// S46: streams that wait are capped for each principal and in all, and given
// back when they end.
func TestSafetyS46_SlotlessWaiting(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				switch {
				case c.R.Method == http.MethodGet:
					c.Begin()
				case c.Method == "subscriptions/listen":
					c.SSE(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}`)
				default:
					return false
				}
				c.Wait()
				return true
			})
			g := newRig(t, server.URL, rigOptions{Policy: session.Policy{Streams: session.Limit{Each: 3, All: 5}}})
			open := func(c *caller) (int, func()) {
				if pair.client == translate.Legacy {
					h := c.headers("", "")
					h.Del("Content-Type")
					_, status, leave := c.stream("GET", h, "")
					return status, leave
				}
				_, status, leave := c.stream("POST", c.headers("subscriptions/listen", ""), request("1", "subscriptions/listen", c.params(`"notifications":{"toolsListChanged":true}`)))
				return status, leave
			}
			a, b := newCaller(t, g, pair.client, "a"), newCaller(t, g, pair.client, "b")
			var leave func()
			for range 3 {
				status := 0
				if status, leave = open(a); status != 200 {
					t.Fatalf("within the limit: %d", status)
				}
			}
			if status, _ := open(a); status != 429 {
				t.Errorf("a's fourth: %d", status)
			}
			for range 2 {
				if status, _ := open(b); status != 200 {
					t.Errorf("b within its limit: %d", status)
				}
			}
			if status, _ := open(b); status != 429 {
				t.Errorf("over the limit of all: %d", status)
			}
			if r := a.tool("ok", ""); r.Text() != "fine" {
				t.Errorf("a call at the limit: %s", r)
			}
			leave()
			eventually(t, "a stream that ended makes room", func() bool {
				status, _ := open(a)
				return status == 200
			})
		})
	}
}

// S48: sessions are capped; abandoned ones leave nothing once they are idle.
func TestSafetyS48_AbandonedSessions(t *testing.T) {
	for _, era := range []translate.Era{translate.Legacy, translate.Modern} {
		t.Run(era.String()+" server", func(t *testing.T) {
			server := newScripted(t, era, nil)
			clock := newJumpClock()
			g := newRig(t, server.URL, rigOptions{Clock: clock, Policy: session.Policy{Sessions: session.Limit{Each: 20, All: 30}}})
			keys := func() int {
				list, err := g.Store.List(t.Context(), "", "", 100_000)
				if err != nil {
					t.Fatal(err)
				}
				return len(list)
			}
			start := keys()
			initialize := func(token string) int {
				c := &caller{t: t, g: g, era: translate.Legacy, http: http.DefaultClient, token: token}
				return c.post(c.headers("", ""), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`).Status
			}
			made := map[int]int{}
			for range 25 {
				made[initialize("a")]++
			}
			if made[200] != 20 || made[429] != 5 {
				t.Errorf("a: %v", made)
			}
			for range 25 {
				made[initialize("b")]++
			}
			if made[200] != 30 || made[429] != 20 {
				t.Errorf("in all: %v", made)
			}
			clock.jump(time.Hour)
			eventually(t, "records of idle sessions are gone", func() bool { return keys() <= start+2 })
			if status := initialize("a"); status != 200 {
				t.Errorf("afterwards: %d", status)
			}
			list, _ := g.Store.List(t.Context(), "count/", "", 100)
			for _, e := range list {
				if v := string(e.Value); v != "1" {
					t.Errorf("counter %s is %s with one session", e.Key, v)
				}
			}
			if era == translate.Legacy {
				// The server's sessions are ended with ours.
				deletes := 0
				for _, r := range server.Requests("") {
					if r.Verb == http.MethodDelete {
						deletes++
					}
				}
				if deletes < made[200] {
					t.Errorf("%d sessions of the server were ended, want %d", deletes, made[200])
				}
			}
		})
	}
}

// S50: a server that is down is not asked more than its callers ask.
func TestSafetyS50_RetryStorm(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, tools(map[string]func(c *scriptCall){
				"down": func(c *scriptCall) { c.W.WriteHeader(503) },
			}))
			g := newRig(t, server.URL, rigOptions{})
			callers := make([]*caller, 20)
			for i := range callers {
				callers[i] = newCaller(t, g, pair.client, fmt.Sprint("c", i))
				callers[i].tool("ok", "")
			}
			server.Forget()
			var wg sync.WaitGroup
			for _, c := range callers {
				wg.Go(func() {
					for range 10 {
						if r := c.tool("down", ""); r.Status != 503 || len(r.Answers) != 1 {
							t.Errorf("got %s", r)
						}
					}
				})
			}
			wg.Wait()
			if n := len(server.Requests("")); n > 240 {
				t.Errorf("%d requests for 200 calls", n)
			}
			if n := server.Ran("down"); n != 200 {
				t.Errorf("the tool was called %d times for 200 calls", n)
			}
		})
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
			g := newRig(t, server.URL, rigOptions{Header: http.Header{"X-Api-Key": {"route-secret"}}})
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
	c := &caller{t: t, g: newRig(t, url, rigOptions{}), era: era, http: http.DefaultClient, caps: tasksCaps}
	if era == translate.Legacy {
		r := c.post(c.headers("", ""), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
		if r.Status < 500 || slices.Contains(r.Header["Www-Authenticate"], "x") {
			t.Errorf("initialize: %s", r)
		}
		c.era = translate.Modern // a request without session shows the same
	}
	return c
}
