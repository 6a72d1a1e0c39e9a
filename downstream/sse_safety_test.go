package downstream

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
)

// TestSafetyS21_SSESessionOfAnother: another's session is as unknown as one that
// never was, and nothing is executed.
func TestSafetyS21_SSESessionOfAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sseHub(t, nil), sseServed)
		a := r.openSSE("Authorization: Bearer a")
		a.begin()
		synctest.Wait()
		before := len(r.hub.calls())
		call := `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`
		var said []string
		for _, q := range []*http.Request{
			sseReq("POST", a.at, call, "Authorization: Bearer b"),
			sseReq("POST", a.at, call),
			sseReq("POST", "/message?sessionId=unknown", call, "Authorization: Bearer a"),
			sseReq("POST", "/message", call, "Authorization: Bearer a"),
			sseReq("POST", a.at+"&sessionId=x", call, "Authorization: Bearer a"),
			sseReq("POST", "/message?sessionId=", call, "Authorization: Bearer a"),
		} {
			got := r.do(q)
			if got.status != 404 {
				t.Errorf("%s: %d", q.URL, got.status)
			}
			said = append(said, got.body)
		}
		for _, s := range said {
			if s != said[0] {
				t.Errorf("said %s and %s", s, said[0])
			}
		}
		if n := len(r.hub.calls()); n != before {
			t.Errorf("%d calls reached the hub", n-before)
		}
		if a.post(call); a.next() != string(result("1")) {
			t.Error("the owner's own call was not answered")
		}
		// A session of HTTP+SSE is none of Streamable HTTP.
		_, id, _ := strings.Cut(a.at, "sessionId=")
		r.do(req("DELETE", "", "Mcp-Session-Id: "+id, "Authorization: Bearer a"))
		if a.post(call); a.next() != string(result("1")) {
			t.Error("the session was ended from elsewhere")
		}
	})
}

func TestSSE_Refusals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sseHub(t, nil), func(o *Options) {
			sseServed(o)
			o.Limits.Body = 1000
		})
		c := r.openSSE()
		c.begin()
		synctest.Wait()
		before := len(r.hub.calls())
		list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		for _, tc := range []struct {
			q    *http.Request
			want int
		}{
			{sseReq("POST", "/sse", initSSE), 405}, // what makes clients fall back
			{sseReq("DELETE", "/sse", ""), 405},
			{sseReq("GET", c.at, ""), 405},
			{sseReq("DELETE", c.at, ""), 405},
			{sseReq("GET", "/sse", "", "Accept: application/json"), 406},
			{sseReq("POST", c.at, "{", ""), 400},
			{sseReq("POST", c.at, `{"jsonrpc":"2.0","id":1}`), 400},
			{sseReq("POST", c.at, `[`+list+`]`), 400}, // 2024-11-05 has no batches
			{sseReq("POST", c.at, `[]`), 400},
			{sseReq("POST", c.at, modernList), 400},
			{sseReq("POST", c.at, list, "MCP-Protocol-Version: 2026-07-28"), 400},
			{sseReq("POST", c.at, list, "MCP-Protocol-Version: 2019-01-01"), 400},
			{sseReq("POST", c.at, list, "Content-Type: text/plain"), 415},
			{sseReq("POST", c.at, list, "Content-Encoding: gzip"), 415},
			{sseReq("POST", c.at, `{"jsonrpc":"2.0","id":1,"method":"`+strings.Repeat("x", 1000)+`"}`), 413},
			{sseReq("POST", c.at, list, "Origin: https://evil.example"), 403},
			{sseReq("GET", "/sse", "", "Origin: null"), 403},
			{sseReq("GET", "/sse", "", "Host: evil.example"), 403},
			{sseReq("POST", c.at, list, "Authorization: Bearer a", "Authorization: Bearer b"), 400},
		} {
			if got := r.do(tc.q); got.status != tc.want {
				t.Errorf("%s %s %v: %d %s, want %d", tc.q.Method, tc.q.URL, tc.q.Header, got.status, got.body, tc.want)
			}
		}
		if n := len(r.hub.calls()); n != before {
			t.Errorf("%d calls reached the hub", n-before)
		}
		if got := c.post(list); got.status != 202 {
			t.Errorf("%+v", got)
		}
		c.next()
	})
}

// TestSafetyS4_SSECORS: the stream and its messages are under the same rules as
// the endpoint.
func TestSafetyS4_SSECORS(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sseHub(t, nil), func(o *Options) {
			sseServed(o)
			o.AllowedOrigins = []string{"https://app.example"}
		})
		c := r.openSSE("Origin: https://app.example")
		h := c.res.Header
		if h.Get("Access-Control-Allow-Origin") != "https://app.example" || h.Get("Vary") != "Origin" || h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%v", h)
		}
		for _, path := range []string{"/sse", c.at} {
			got := r.do(sseReq("OPTIONS", path, "", "Origin: https://app.example", "Access-Control-Request-Method: POST"))
			if got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != "https://app.example" {
				t.Errorf("%s: %+v", path, got)
			}
			got = r.do(sseReq("OPTIONS", path, "", "Origin: https://evil.example", "Access-Control-Request-Method: POST"))
			if got.status != 403 || got.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: %+v", path, got)
			}
		}
	})
}

// TestCaseB36_SSEChallenge: a server's 401 is the post's own status.
func TestCaseB36_SSEChallenge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		status, slow := 401, time.Duration(0)
		hub := sseHub(t, func(in session.Inbound, s *session.ClientStream) bool {
			if m := in.Frame.Msg; m == nil || m.Method != "tools/list" && m.Method != "initialize" {
				return false
			}
			if status == 0 {
				return false
			}
			go func() {
				time.Sleep(slow)
				s.Send(session.Out{Final: true, Status: status, Header: http.Header{"Www-Authenticate": {`Bearer realm="m"`}}})
			}()
			return true
		})
		r := newRig(t, hub, sseServed)
		c := r.openSSE()
		if got := c.post(initSSE); got.status != 401 || got.header.Get("WWW-Authenticate") != `Bearer realm="m"` {
			t.Errorf("%+v", got)
		}
		status = 0
		c.begin()
		status = 403
		if got := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); got.status != 403 {
			t.Errorf("%+v", got)
		}
		// Too late for a status: the request still gets its one answer.
		slow = time.Minute
		if got := c.post(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); got.status != 202 {
			t.Errorf("%+v", got)
		}
		if got := c.next(); !strings.Contains(got, `"id":2`) || !strings.Contains(got, "403") || strings.Contains(got, "--header") {
			t.Error(got)
		}
	})
}

// TestSafetyS46_SSEStreams: as many as may, a caller and in all.
func TestSafetyS46_SSEStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sseHub(t, nil), func(o *Options) {
			sseServed(o)
			o.Limits.Links, o.Limits.CallerLinks = 3, 2
		})
		a := r.openSSE("Authorization: Bearer a")
		r.openSSE("Authorization: Bearer a")
		refused := func(who string) {
			t.Helper()
			if got := r.do(sseReq("GET", "/sse", "", "Authorization: Bearer "+who)); got.status != 429 || got.header.Get("Retry-After") == "" {
				t.Errorf("%s: %+v", who, got)
			}
		}
		refused("a")
		r.openSSE("Authorization: Bearer b")
		refused("c")
		a.cancel()
		synctest.Wait()
		time.Sleep(2 * time.Second)
		r.openSSE("Authorization: Bearer c")
	})
}
