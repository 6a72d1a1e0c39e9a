package downstream

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/sse"
)

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
