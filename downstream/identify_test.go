package downstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
)

// fakeTokens believes "NAME-SECONDS", which is NAME for so long after it was
// made.
type fakeTokens struct{ made time.Time }

func (f *fakeTokens) Verify(_ context.Context, token string) (session.Principal, time.Time, error) {
	name, life, ok := strings.Cut(token, "-")
	secs, err := time.ParseDuration(life + "s")
	switch {
	case name == "undecided":
		return "", time.Time{}, fmt.Errorf("%w: no keys", session.ErrTokenUndecided)
	case !ok || err != nil:
		return "", time.Time{}, fmt.Errorf("%w: its signature is wrong", session.ErrTokenRefused)
	}
	until := f.made.Add(secs)
	if !time.Now().Before(until) {
		return "", time.Time{}, fmt.Errorf("%w: it has expired", session.ErrTokenRefused)
	}
	return session.HashPrincipal("jwt", "iss", name), until, nil
}

func verified(t *testing.T) func(*Options) {
	t.Helper()
	pp, err := session.ParsePrincipalPolicy("jwt:keys.json")
	if err != nil {
		t.Fatal(err)
	}
	tokens := &fakeTokens{time.Now()}
	return func(o *Options) { o.Principal, o.Tokens, o.SSEPath = pp, tokens, "/sse" }
}

const auth = "Authorization: Bearer "

func TestBearer(t *testing.T) {
	const at = "https://gw.example/.well-known/oauth-protected-resource/mcp"
	bubble(t, func(t *testing.T) {
		change := verified(t)
		r := newRig(t, nil, func(o *Options) { change(o); o.ChallengeURL = at })
		for _, c := range []struct {
			name      string
			lines     []string
			status    int
			challenge string
		}{
			{"none", nil, 401, `Bearer resource_metadata="` + at + `"`},
			{"another scheme", []string{"Authorization: Basic c2VjcmV0"}, 401, `Bearer resource_metadata="` + at + `"`},
			{"no token", []string{"Authorization: Bearer"}, 401, `Bearer resource_metadata="` + at + `"`},
			{"bad", []string{auth + "secret"}, 401, `Bearer error="invalid_token", error_description="the token is refused: its signature is wrong", resource_metadata="` + at + `"`},
			{"expired", []string{auth + "secret-0"}, 401, `Bearer error="invalid_token", error_description="the token is refused: it has expired", resource_metadata="` + at + `"`},
			{"two", []string{auth + "ada-60", auth + "ada-60"}, 400, ""},
			{"no keys", []string{auth + "undecided"}, 503, ""},
			{"good", []string{auth + "ada-60"}, 200, ""},
			{"scheme in small letters", []string{"Authorization: bearer  ada-60"}, 200, ""},
		} {
			for _, q := range []*http.Request{
				req("POST", ping, c.lines...), req("GET", "", c.lines...), req("DELETE", "", c.lines...),
				sseReq("GET", "/sse", "", c.lines...), sseReq("POST", "/message?sessionId=x", ping, c.lines...),
				req("GET", "", append(c.lines, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")...),
			} {
				if c.status == 200 && (q.Method != "POST" || q.URL.Path != "/mcp") {
					continue
				}
				got := r.do(q)
				if got.status != c.status || strings.Contains(got.body, "secret") {
					t.Errorf("%s, %s %s: %d %s", c.name, q.Method, q.URL.Path, got.status, got.body)
				}
				if w := got.header.Get("Www-Authenticate"); w != c.challenge {
					t.Errorf("%s, %s %s: challenge\n got %s\nwant %s", c.name, q.Method, q.URL.Path, w, c.challenge)
				}
				if (got.status == 503) != (got.header.Get("Retry-After") != "") {
					t.Errorf("%s: Retry-After %q", c.name, got.header.Get("Retry-After"))
				}
			}
		}
		for _, in := range r.hub.calls() {
			if in.Caller.Principal != session.HashPrincipal("jwt", "iss", "ada") || in.Caller.Open {
				t.Errorf("the hub heard of %+v", in.Caller)
			}
		}
		if n := len(r.hub.calls()); n != 2 {
			t.Errorf("%d messages reached the hub, want 2", n)
		}
	})
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil, verified(t)) // no place of metadata
		if got := r.post(ping); got.header.Get("Www-Authenticate") != "Bearer" {
			t.Errorf("challenge %q", got.header.Get("Www-Authenticate"))
		}
	})
	pp, _ := session.ParsePrincipalPolicy("jwt:keys.json")
	for _, o := range []Options{{Hub: &fakeHub{}, Principal: pp}, {Hub: &fakeHub{}, Tokens: &fakeTokens{}}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// untilEOF reads a stream to its end and says how long that took.
func untilEOF(body io.Reader, since time.Time) (string, time.Duration) {
	raw, _ := io.ReadAll(body)
	return string(raw), time.Since(since)
}

// Every stream ends when the token expires it was opened with, not before.
func TestStreamEndsWithItsToken(t *testing.T) {
	chatty := &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
		s.Send(session.Out{Begin: true})
		go func() {
			for s.Send(session.Out{Raw: []byte(progress)}) { // never silent
				time.Sleep(100 * time.Millisecond)
			}
		}()
	}}
	for _, c := range []struct {
		name string
		hub  *fakeHub
		q    func() *http.Request
		last string // of what the client reads; "" with never: 401
		code int
	}{
		{"GET", drainHub(), func() *http.Request { return req("GET", "", auth+"ada-100") }, ": \n\n", 200},
		{"listen", drainHub(), func() *http.Request { return req("POST", listen, append(listenLines, auth+"ada-100")...) },
			`"io.modelcontextprotocol/subscriptionId":"l"}}}` + "\n\n", 200},
		{"modern call", drainHub(), func() *http.Request { return req("POST", modernCall, append(modernCallLines, auth+"ada-100")...) },
			`data: {"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"the token has expired"}}` + "\n\n", 200},
		{"legacy call", drainHub(), func() *http.Request { return req("POST", fmt.Sprintf(legacyCall, "2"), auth+"ada-100") }, ": \n\n", 200},
		{"reply without a stream", &fakeHub{on: silent}, func() *http.Request { return req("POST", ping, auth+"ada-100", "Accept: application/json") },
			`"message":"the token has expired"}}`, 401},
		{"never silent", chatty, func() *http.Request { return req("GET", "", auth+"ada-100") }, "\n\n", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, c.hub, verified(t))
				start := time.Now()
				res := r.open(t.Context(), c.q())
				body, took := untilEOF(res.Body, start)
				if res.StatusCode != c.code || !strings.HasSuffix(body, c.last) {
					t.Errorf("%d, ends with %.200q", res.StatusCode, body[max(0, len(body)-200):])
				}
				if took.Truncate(time.Second) != 100*time.Second {
					t.Errorf("ended after %v", took)
				}
				synctest.Wait()
				if c.hub.left() == 0 {
					t.Error("the hub does not know that its reader has gone")
				}
			})
		})
	}
}

// What ends before its token does is not touched.
func TestReplyBeforeExpiry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, drainHub(), verified(t))
		if got := r.post(`{"jsonrpc":"2.0","id":4,"method":"tools/list"}`, auth+"ada-6"); !strings.Contains(got.body, `"result":{}`) {
			t.Errorf("%+v", got)
		}
	})
}

func TestWebSocketEndsWithItsToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, legacyHub(silent), verified(t))
		start := time.Now()
		w := r.socket(auth + "ada-100")
		w.say(legacyInit)
		if got := w.next(); !strings.Contains(got, `"id":"i"`) {
			t.Errorf("initialize: %s", got)
		}
		if code := w.code(); code != 1008 || !strings.Contains(w.ended.Error(), "the token has expired") {
			t.Errorf("closed with %d: %v", code, w.ended)
		}
		if took := time.Since(start).Truncate(time.Second); took != 100*time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}

// A message with a newer token lets the stream of an HTTP+SSE client be: it has
// no other way to show one.
func TestSSELinkEndsWithItsNewestToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sseHub(t, nil), verified(t))
		start := time.Now()
		c := r.openSSE(auth + "ada-100")
		c.begin()
		ended := make(chan time.Duration)
		go func() {
			_, took := untilEOF(c.res.Body, start)
			ended <- took
		}()
		time.Sleep(50 * time.Second)
		c.lines = nil
		if got := c.post(ping, auth+"ada-300"); got.status != 202 {
			t.Errorf("newer token: %+v", got)
		}
		if got := c.post(ping, auth+"ada-60"); got.status != 202 { // an older one takes nothing back
			t.Errorf("older token: %+v", got)
		}
		if got := c.post(ping, auth+"bob-900"); got.status != 404 { // and another caller's is nothing here
			t.Errorf("another caller: %+v", got)
		}
		if took := <-ended; took.Truncate(time.Second) != 300*time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}
