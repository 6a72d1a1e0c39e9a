package downstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/sse"
)

// sseClient is a client of HTTP+SSE as its revision has it.
type sseClient struct {
	r      *rig
	res    *http.Response
	events *sse.Reader
	cancel context.CancelFunc
	at     string // where messages go, as announced
	lines  []string
}

func sseServed(o *Options) { o.SSEPath = "/sse" }

func sseReq(verb, path, body string, lines ...string) *http.Request {
	q := req(verb, body, lines...)
	at, query, _ := strings.Cut(path, "?")
	q.URL.Path, q.URL.RawQuery = at, query
	return q
}

// openSSE opens a stream and takes its endpoint event.
func (r *rig) openSSE(lines ...string) *sseClient {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(cancel)
	q := sseReq("GET", "/sse", "", lines...)
	res := r.open(ctx, q)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("X-Accel-Buffering") != "no" {
		r.t.Fatalf("GET: %d %v", res.StatusCode, res.Header)
	}
	c := &sseClient{r: r, res: res, events: sse.NewReader(res.Body, 0), cancel: cancel, lines: lines}
	ev, err := c.events.Next()
	if err != nil || ev.Type != "endpoint" || ev.HasID {
		r.t.Fatalf("first event %+v, %v", ev, err)
	}
	to, err := q.URL.Parse(string(ev.Data))
	if err != nil {
		r.t.Fatal(err)
	}
	c.at = to.RequestURI()
	return c
}

func (c *sseClient) post(body string, lines ...string) reply {
	c.r.t.Helper()
	return c.r.do(sseReq("POST", c.at, body, append(append([]string{}, c.lines...), lines...)...))
}

// next is the next message.
func (c *sseClient) next() string {
	c.r.t.Helper()
	ev, err := c.events.Next()
	if err != nil || ev.Type != "message" || ev.HasID {
		c.r.t.Fatalf("event %+v, %v", ev, err)
	}
	return string(ev.Data)
}

// sseHub begins sessions, answers calls and keeps what else it hears.
func sseHub(t testing.TB, more func(in session.Inbound, s *session.ClientStream) bool) *fakeHub {
	n := 0
	var mu sync.Mutex
	return &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
		m := in.Frame.Msg
		switch {
		case more != nil && more(in, s):
		case m == nil && in.Frame.HTTP.Verb == "GET":
			s.Send(session.Out{Begin: true})
		case m == nil:
			s.Send(session.Out{Final: true, Status: 200})
		case m.Method == "initialize":
			mu.Lock()
			n++
			id := fmt.Sprintf("session-%d", n)
			mu.Unlock()
			version, _ := m.At("params", "protocolVersion").Str()
			s.Send(session.Out{Raw: []byte(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":{"protocolVersion":"` + version + `"}}`),
				Final: true, Header: http.Header{translate.HeaderSession: {id}}})
		case m.Method == "never":
		default:
			echo(in, s)
		}
	}}
}

const initSSE = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// begin is the handshake.
func (c *sseClient) begin() {
	c.r.t.Helper()
	if got := c.post(initSSE); got.status != 202 || got.body != "" {
		c.r.t.Fatalf("initialize: %+v", got)
	}
	if got := c.next(); !strings.Contains(got, `"protocolVersion":"2024-11-05"`) {
		c.r.t.Fatalf("initialize result: %s", got)
	}
	if got := c.post(notify); got.status != 202 {
		c.r.t.Fatalf("initialized: %+v", got)
	}
	synctest.Wait() // its own stream is open
}

// count is how many links there are.
func (l *links) count() (open, callers int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open), len(l.counts)
}

func methods(calls []session.Inbound) string {
	var out []string
	for _, in := range calls {
		if in.Frame.Msg == nil {
			out = append(out, in.Frame.HTTP.Verb)
		} else {
			out = append(out, in.Frame.Msg.Method)
		}
	}
	return strings.Join(out, " ")
}

func TestSSE_Conversation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sseHub(t, nil), sseServed)
		c := r.openSSE("Authorization: Bearer a")
		c.begin()
		if got := c.post(`{"jsonrpc":"2.0","id":"x","method":"tools/list"}`, "Traceparent: 00-a-b-01", "Mcp-Name: no"); got.status != 202 || got.body != "" || got.header.Get("Content-Type") != "" {
			t.Errorf("%+v", got)
		}
		if got := c.next(); got != string(result(`"x"`)) {
			t.Error(got)
		}
		synctest.Wait()
		calls := r.hub.calls()
		if got := methods(calls); got != "initialize notifications/initialized GET tools/list" {
			t.Error(got)
		}
		for _, in := range calls {
			if in.Caller.Principal != session.HashPrincipal("token", "Bearer a") || in.Caller.Credential.Get("Authorization") != "Bearer a" || in.Caller.Era != translate.Legacy {
				t.Errorf("%s: caller %+v", in.Frame.Msg.Method, in.Caller)
			}
		}
		if last := calls[3]; last.Caller.Session != "session-1" || last.Caller.Version != "2024-11-05" || last.Caller.Header.Get("Traceparent") == "" || len(last.Caller.Header) != 1 {
			t.Errorf("caller %+v", last.Caller)
		}
	})
}

// TestSSE_ServerSpeaksFirst: what belongs to no request, and questions, come on
// the stream; answers are posted.
func TestSSE_ServerSpeaksFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		get := make(chan *session.ClientStream, 1)
		hub := sseHub(t, func(in session.Inbound, s *session.ClientStream) bool {
			switch {
			case in.Frame.Msg == nil && in.Frame.HTTP.Verb == "GET":
				s.Send(session.Out{Begin: true})
				get <- s
				return true
			case in.Frame.Msg != nil && in.Frame.Msg.Method == "tools/call":
				s.Send(session.Out{Raw: []byte(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create"}`), Asks: true})
				s.Send(session.Out{Raw: result("1"), Final: true})
				return true
			}
			return false
		})
		r := newRig(t, hub, sseServed)
		c := r.openSSE()
		c.begin()
		// Line ends between tokens leave (case S36).
		(<-get).Send(session.Out{Raw: []byte("{\"jsonrpc\":\"2.0\",\r\n\"method\":\r\"notifications/tools/list_changed\"\n}")})
		if got := c.next(); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
			t.Errorf("%q", got)
		}
		c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)
		if got := c.next() + c.next(); !strings.Contains(got, "elicitation/create") || !strings.Contains(got, `"result"`) {
			t.Error(got)
		}
		if got := c.post(`{"jsonrpc":"2.0","id":7,"result":{"action":"accept"}}`); got.status != 202 {
			t.Errorf("%+v", got)
		}
		synctest.Wait()
		calls := hub.calls()
		if last := calls[len(calls)-1]; last.Frame.Msg.ID.String() != "7" || last.Caller.Session != "session-1" {
			t.Errorf("%+v", last)
		}
	})
}

// TestSSE_ClientGone: the stream is the session. Calls are cancelled, the
// session is ended, and its id is worth nothing.
func TestSSE_ClientGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sseHub(t, nil), sseServed)
		c := r.openSSE()
		c.begin()
		c.post(`{"jsonrpc":"2.0","id":5,"method":"never","params":{}}`)
		c.post(`{"jsonrpc":"2.0","id":6,"method":"never","params":{"task":{}}}`)
		c.cancel()
		synctest.Wait()
		time.Sleep(2 * time.Second)
		calls := r.hub.calls()
		if got := methods(calls); got != "initialize notifications/initialized GET never never notifications/cancelled DELETE" {
			t.Error(got)
		}
		if m := calls[5].Frame.Msg; string(m.At("params", "requestId").Raw()) != "5" {
			t.Errorf("%s", m.Raw)
		}
		for _, in := range calls[3:] {
			if in.Caller.Session != "session-1" {
				t.Errorf("caller %+v", in.Caller)
			}
		}
		if n := r.hub.left(); n != len(calls) {
			t.Errorf("%d of %d streams were left", n, len(calls))
		}
		if got := c.post(ping); got.status != 404 {
			t.Errorf("%+v", got)
		}
		if open, callers := r.server.links.count(); open+callers != 0 {
			t.Errorf("%d links are left, of %d callers", open, callers)
		}
		if r.server.o.Budget.InUse() != 0 {
			t.Error("bytes of the budget are held")
		}
	})
}

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

// TestCaseB60_Announced: the endpoint event is right behind any prefix.
func TestCaseB60_Announced(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Options)
		path   string
		lines  []string
		want   string
	}{
		{"relative", nil, "/sse", nil, "message?sessionId="},
		{"stream with a slash", nil, "/sse/", nil, "../message?sessionId="},
		{"public URL without prefix", func(o *Options) { o.PublicURL = "https://h.example/mcp" }, "/sse", []string{"Host: h.example"}, "/message?sessionId="},
		{"public URL with prefix", func(o *Options) { o.PublicURL = "https://h.example/gw/x/mcp" }, "/sse", []string{"Host: h.example"}, "/gw/x/message?sessionId="},
		{"public URL of another path", func(o *Options) { o.PublicURL = "https://h.example/api" }, "/sse", []string{"Host: h.example"}, "message?sessionId="},
		{"own path", func(o *Options) { o.SSEPath = "/old/events" }, "/old/events", nil, "message?sessionId="},
		{"trusted prefix", func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }, "/sse", []string{"X-Forwarded-Prefix: /gw/"}, "/gw/message?sessionId="},
		{"untrusted prefix", nil, "/sse", []string{"X-Forwarded-Prefix: /gw"}, "message?sessionId="},
		{"evil prefixes", func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }, "/sse", []string{"X-Forwarded-Prefix: //evil.example"}, "message?sessionId="},
		{"backslash", func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }, "/sse", []string{`X-Forwarded-Prefix: /\evil.example`}, "message?sessionId="},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, sseHub(t, nil), func(o *Options) {
					sseServed(o)
					if tc.change != nil {
						tc.change(o)
					}
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				res := r.open(ctx, sseReq("GET", tc.path, "", tc.lines...))
				ev, err := sse.NewReader(res.Body, 0).Next()
				got, id, _ := strings.Cut(string(ev.Data), "=")
				if err != nil || ev.Type != "endpoint" || got+"=" != tc.want || len(id) < 22 {
					t.Errorf("%+v %q, %v; want %s", ev, ev.Data, err, tc.want)
				}
			})
		})
	}
}

func TestSSEPath(t *testing.T) {
	for path, ok := range map[string]bool{
		"/sse": true, "/a/b": true, "": true, "sse": false, "/": false, "/sse/": false, "/a?b": false, "/mcp": false, "/message": false, "/a/../b": false, "/a%2fb": false,
	} {
		if err := CheckSSEPath(path, "/mcp"); (err == nil) != ok {
			t.Errorf("%q: %v", path, err)
		}
	}
	if CheckSSEPath("/sse", "/message") == nil {
		t.Error("the endpoint's own path is taken")
	}
	r := newRig(t, nil, nil)
	if got := r.do(sseReq("GET", "/sse", "")); got.status != 404 {
		t.Errorf("switched off: %d", got.status)
	}
}

// TestSSE_KeepAlive: comments fill silence; they say nothing.
func TestSSE_KeepAlive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sseHub(t, nil), sseServed)
		c := r.openSSE()
		c.begin()
		buf := make([]byte, 100)
		n, err := c.res.Body.Read(buf)
		if err != nil || !strings.HasPrefix(string(buf[:n]), ":") {
			t.Errorf("%q, %v", buf[:n], err)
		}
	})
}

// TestSSE_Unused: a stream on which nothing begins is ended.
func TestSSE_Unused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sseHub(t, nil), sseServed)
		c := r.openSSE()
		began := time.Now()
		if ev, err := c.events.Next(); err != io.EOF {
			t.Errorf("%+v, %v", ev, err)
		}
		if d := time.Since(began); d < time.Minute {
			t.Errorf("ended after %v", d)
		}
		if got := c.post(initSSE); got.status != 404 {
			t.Errorf("%+v", got)
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

// TestSSE_SlowReader: a client that does not read is given up, and nobody waits
// for it for ever.
func TestSSE_SlowReader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := sseHub(t, func(in session.Inbound, s *session.ClientStream) bool {
			if in.Frame.Msg == nil || in.Frame.Msg.Method != "big" {
				return false
			}
			s.Send(session.Out{Raw: []byte(`{"jsonrpc":"2.0","id":` + in.Frame.Msg.ID.String() + `,"result":"` + strings.Repeat("x", 700<<10) + `"}`), Final: true})
			return true
		})
		r := newRig(t, hub, sseServed)
		c := r.openSSE()
		c.begin()
		for i := range 8 {
			if got := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"big"}`, i)); got.status != 202 && got.status != 404 {
				t.Errorf("%+v", got)
			}
		}
		time.Sleep(2 * time.Minute)
		if open, _ := r.server.links.count(); open != 0 {
			t.Errorf("%d links are left", open)
		}
		if got := methods(hub.calls()); !strings.HasSuffix(got, "DELETE") {
			t.Error(got)
		}
	})
}

// TestSSE_Drain: calls in flight are answered on the stream, then it ends; new
// ones are refused.
func TestSSE_Drain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var held *session.ClientStream
		hub := sseHub(t, func(in session.Inbound, s *session.ClientStream) bool {
			if in.Frame.Msg == nil || in.Frame.Msg.Method != "hold" {
				return false
			}
			held = s
			return true
		})
		r := newRig(t, hub, sseServed)
		c := r.openSSE()
		c.begin()
		c.post(`{"jsonrpc":"2.0","id":1,"method":"hold"}`)
		stopped := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			stopped <- r.server.Shutdown(ctx)
		}()
		synctest.Wait()
		if got := c.post(ping); got.status != 503 {
			t.Errorf("%+v", got)
		}
		if got := r.do(sseReq("GET", "/sse", "")); got.status != 503 {
			t.Errorf("%+v", got)
		}
		held.Send(session.Out{Raw: result("1"), Final: true})
		if got := c.next(); got != string(result("1")) {
			t.Error(got)
		}
		if _, err := c.events.Next(); err != io.EOF {
			t.Error(err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// TestCaseB28_SSEBatch: 2025-03-26 alone has batches, here as well.
func TestCaseB28_SSEBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sseHub(t, nil), sseServed)
		c := r.openSSE()
		if got := c.post(strings.Replace(initSSE, "2024-11-05", "2025-03-26", 1)); got.status != 202 {
			t.Fatalf("%+v", got)
		}
		c.next()
		if got := c.post(`[` + ping + `,` + notify + `,{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`); got.status != 202 {
			t.Fatalf("%+v", got)
		}
		got := c.next()
		if !strings.HasPrefix(got, "[") || !strings.Contains(got, `"id":1`) || !strings.Contains(got, `"id":2`) {
			t.Error(got)
		}
	})
}

// TestSSE_DuplicateID: the second of two equal ids is refused, the first gets
// its answer, and nothing is kept of either.
func TestSSE_DuplicateID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sseHub(t, nil), sseServed)
		c := r.openSSE()
		c.begin()
		c.post(`{"jsonrpc":"2.0","id":1,"method":"never"}`)
		c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if got := c.next(); !strings.Contains(got, "-32600") {
			t.Error(got)
		}
		synctest.Wait()
		r.server.links.mu.Lock()
		defer r.server.links.mu.Unlock()
		for _, k := range r.server.links.open {
			k.mu.Lock()
			if n := len(k.posts); n != 1 {
				t.Errorf("%d posts are kept", n)
			}
			k.mu.Unlock()
		}
	})
}

// TestCaseB59_SSE: a large message passes unchanged, either way.
func TestCaseB59_SSE(t *testing.T) {
	bubble(t, func(t *testing.T) {
		big := strings.Repeat("YWJj", 3<<20)
		answer := `{"jsonrpc":"2.0","id":1,"result":{"data":"` + big + `"}}`
		hub := sseHub(t, func(in session.Inbound, s *session.ClientStream) bool {
			if in.Frame.Msg == nil || in.Frame.Msg.Method != "big" {
				return false
			}
			s.Send(session.Out{Raw: []byte(answer), Final: true})
			return true
		})
		r := newRig(t, hub, sseServed)
		c := r.openSSE()
		c.begin()
		call := `{"jsonrpc":"2.0","id":1,"method":"big","params":{"data":"` + big + `"}}`
		if got := c.post(call); got.status != 202 {
			t.Fatalf("%d", got.status)
		}
		if c.next() != answer {
			t.Error("the answer was changed")
		}
		calls := hub.calls()
		if string(calls[len(calls)-1].Frame.Msg.Raw) != call {
			t.Error("the call was changed")
		}
	})
}
