package downstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/session/throttle"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// dueHub is a hub that knows which of a client's messages reached it.
type dueHub struct {
	*fakeHub
	asked bool
}

func (h dueHub) Asked(session.Caller) bool { return h.asked }

func (h dueHub) reached(part string) bool {
	return slices.ContainsFunc(h.calls(), func(in session.Inbound) bool {
		return in.Frame.Msg != nil && strings.Contains(string(in.Frame.Msg.Raw), part)
	})
}

func newDueHub() dueHub { return dueHub{fakeHub: legacyHub(nil)} }

// dueClient sends one message over its transport; out is what came of it:
// "ok", "dropped", or how it was refused.
type dueClient struct {
	send func(body, mark string) (out string)
	// raw sends anything and returns what is said to it, where all share a channel.
	raw func(body string) string
}

// errorOut reads a refusal in a JSON-RPC error.
func errorOut(t testing.TB, raw string) string {
	t.Helper()
	m, err := jsonrpc.Decode([]byte(raw), jsonrpc.Limits{})
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	if m.Kind == jsonrpc.Response {
		return "ok"
	}
	code, _ := m.At("error", "code").Int()
	limit, _ := m.At("error", "data", "limit").Str()
	ms, _ := m.At("error", "data", "retryAfterMs").Int()
	if code != -32603 || ms <= 0 || ms > 60_000 {
		t.Errorf("refused without advice: %s", raw)
	}
	return "error " + limit
}

// linkOut is what came of a message where all share one channel.
func linkOut(t testing.TB, hub dueHub, mark string, request bool, next func() string) string {
	t.Helper()
	if request {
		return errorOut(t, next())
	}
	synctest.Wait()
	if hub.reached(mark) {
		return "ok"
	}
	return "dropped"
}

func isRequest(body string) bool {
	m, err := jsonrpc.Decode([]byte(body), jsonrpc.Limits{})
	return err == nil && m.Kind == jsonrpc.Request
}

var dueTransports = map[string]func(t *testing.T, hub dueHub, lim *throttle.Limiter) dueClient{
	"http": func(t *testing.T, hub dueHub, lim *throttle.Limiter) dueClient {
		r := newRig(t, hub.fakeHub, func(o *Options) { o.Limiter, o.Hub = lim, hub })
		return dueClient{send: func(body, mark string) string {
			lines := []string{"Mcp-Session-Id: s"}
			if strings.Contains(body, translate.MetaVersion) {
				m, _ := jsonrpc.Decode([]byte(body), jsonrpc.Limits{})
				lines = []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: " + m.Method}
				if name, ok := translate.MirroredName(m); ok {
					lines = append(lines, "Mcp-Name: "+name)
				}
			}
			got := r.post(body, lines...)
			if got.status < 300 {
				return "ok"
			}
			if got.status == 429 && got.header.Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
			return fmt.Sprint(got.status, " ", strings.TrimPrefix(errorOut(t, got.body), "error "))
		}}
	},
	"websocket": func(t *testing.T, hub dueHub, lim *throttle.Limiter) dueClient {
		w := newRig(t, hub.fakeHub, func(o *Options) { o.Limiter, o.Hub = lim, hub }).socket()
		w.say(legacyInit)
		w.next()
		return dueClient{func(body, mark string) string {
			w.say(body)
			return linkOut(t, hub, mark, isRequest(body), w.next)
		}, func(body string) string {
			w.say(body)
			return w.next()
		}}
	},
	"stdio": func(t *testing.T, hub dueHub, lim *throttle.Limiter) dueClient {
		in, out := io.Pipe()
		back, answers := io.Pipe()
		go ServeStdio(context.Background(), StdioOptions{Hub: hub, In: in, Out: answers, Limiter: lim})
		t.Cleanup(func() { out.Close(); back.Close() })
		lines := make(chan string, 100)
		go func() {
			buf := make([]byte, 1<<16)
			text := ""
			for {
				n, err := back.Read(buf)
				text += string(buf[:n])
				for line, rest, ok := strings.Cut(text, "\n"); ok; line, rest, ok = strings.Cut(text, "\n") {
					lines <- line
					text = rest
				}
				if err != nil {
					return
				}
			}
		}()
		next := func() string { return <-lines }
		fmt.Fprintln(out, legacyInit)
		next()
		return dueClient{func(body, mark string) string {
			fmt.Fprintln(out, body)
			return linkOut(t, hub, mark, isRequest(body), next)
		}, func(body string) string {
			fmt.Fprintln(out, body)
			return next()
		}}
	},
	"sse": func(t *testing.T, hub dueHub, lim *throttle.Limiter) dueClient {
		c := newRig(t, hub.fakeHub, func(o *Options) { sseServed(o); o.Limiter, o.Hub = lim, hub }).openSSE()
		c.post(initSSE)
		c.next()
		return dueClient{send: func(body, mark string) string {
			if got := c.post(body); got.status != 202 {
				t.Errorf("post of %s: %d", mark, got.status) // a widely used client ends there
			}
			return linkOut(t, hub, mark, isRequest(body), c.next)
		}}
	},
}

// TestDues: what becomes of each kind of message once its sender has used up
// its requests, on every transport.
func TestDues(t *testing.T) {
	const refused = "refused"
	state := `,"requestState":"s","inputResponses":{}`
	messages := []struct{ name, body, want string }{
		{"call", `{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"x"}}`, refused},
		{"list", `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`, refused},
		{"answer", `{"jsonrpc":"2.0","id":"answer","result":{}}`, "ok"},
		{"refusal", `{"jsonrpc":"2.0","id":"refusal","error":{"code":-1,"message":"no"}}`, "ok"},
		{"cancelled", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"cancelled"}}`, "ok"},
		{"progress", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"progress","progress":1}}`, "ok"},
		{"roots", `{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"_meta":{"m":"roots"}}}`, refused},
		{"ping", `{"jsonrpc":"2.0","id":"ping","method":"ping"}`, "ok"},
		{"cancel", `{"jsonrpc":"2.0","id":"cancel","method":"tasks/cancel","params":{"taskId":"t"}}`, "ok"},
		{"modern call", strings.Replace(modernCallAs(`"modern call"`), `"name"`, `"a":1,"name"`, 1), refused},
		{"modern list", strings.Replace(modernList, `"id":1`, `"id":"modern list"`, 1), refused},
		{"modern retry", `{"jsonrpc":"2.0","id":"modern retry","method":"tools/call","params":{"name":"x"` + state + "," + modernMeta + `}}`, "ok"},
		{"modern update", `{"jsonrpc":"2.0","id":"modern update","method":"tasks/update","params":{"taskId":"t",` + strings.Replace(modernMeta, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1) + `}}`, "ok"},
	}
	for name, connect := range dueTransports {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newDueHub()
				// The eased ones of the table fit into their own share.
				c := connect(t, hub, throttle.New(throttle.Limits{Rate: 1, Burst: 6}, 0))
				call := func(i int) string { return c.send(fmt.Sprintf(legacyCall, fmt.Sprint(100+i)), "") }
				over, n := "ok", 0
				for ; over == "ok" && n < 20; n++ {
					over = call(n)
				}
				want := map[string]string{"http": "429 rate"}[name]
				if want == "" {
					want = "error rate"
				}
				if over != want || n > 7 {
					t.Fatalf("call %d: %s, want %s", n, over, want)
				}
				for _, m := range messages {
					if name == "sse" && strings.HasPrefix(m.name, "modern") {
						continue // carries legacy revisions only
					}
					want := m.want
					switch {
					case want != refused:
					case name == "http":
						want = over
					case isRequest(m.body):
						want = over
					default:
						want = "dropped"
					}
					if got := c.send(m.body, m.name); got != want {
						t.Errorf("%s: %s, want %s", m.name, got, want)
					}
					if m.want == "ok" != hub.reached(`"`+m.name+`"`) {
						t.Errorf("%s: wrong thing reached the hub", m.name)
					}
				}
				for range 10 { // they have an end of their own
					over = c.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`, "")
				}
				if over == "ok" {
					t.Error("a flood of pings was let in")
				}
				time.Sleep(time.Second + time.Millisecond)
				if got := call(50); got != "ok" {
					t.Errorf("a second later: %s", got)
				}
			})
		})
	}
}

// endless is a body that says when it was first read from.
type endless struct {
	once sync.Once
	read chan struct{}
	left int64
}

func (e *endless) Read(p []byte) (int, error) {
	e.once.Do(func() { close(e.read) })
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), e.left)
	for i := range p[:n] {
		p[i] = ' '
	}
	e.left -= n
	return int(n), nil
}

// TestDues_Unread: over a limit no memory is given to a body unless it may be an
// answer somebody waits for.
func TestDues_Unread(t *testing.T) {
	const large = 1 << 20
	for _, tt := range []struct {
		name   string
		limits throttle.Limits
		before int64 // bytes of a message sent before
		asked  bool
		lines  []string
		length int64 // -1: chunked
		want   int
		limit  string
	}{
		{"legacy", throttle.Limits{Rate: 1, Burst: 1}, 10, false, nil, large, 429, "rate"},
		{"legacy, chunked", throttle.Limits{Rate: 1, Burst: 1}, 10, false, nil, -1, 429, "rate"},
		{"legacy, an answer may come", throttle.Limits{Rate: 1, Burst: 1}, 10, true, nil, large, 400, ""},
		{"legacy, chunked, an answer may come", throttle.Limits{Rate: 1, Burst: 1}, 10, true, nil, -1, 400, ""},
		{"modern", throttle.Limits{Rate: 1, Burst: 1}, 10, false, modernLines, large, 429, "rate"},
		{"modern, small", throttle.Limits{Rate: 1, Burst: 1}, 10, false, modernLines, 10, 429, "rate"},
		{"modern, answers", throttle.Limits{Rate: 1, Burst: 1}, 10, false, []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tasks/update"}, large, 400, ""},
		{"bytes", throttle.Limits{Bytes: 64 << 10}, 100 << 10, false, nil, large, 429, "bytes"},
		{"bytes, chunked", throttle.Limits{Bytes: 64 << 10}, 100 << 10, false, nil, -1, 429, "bytes"},
		{"bytes, an answer may come", throttle.Limits{Bytes: 64 << 10}, 100 << 10, true, nil, large, 400, ""},
		{"all callers", throttle.Limits{RateTotal: 0.5}, 0, false, nil, large, 429, "rate_total"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newDueHub()
				hub.asked = tt.asked
				budget := session.NewBudget(0)
				r := newRig(t, hub.fakeHub, func(o *Options) { o.Limiter, o.Hub, o.Budget = throttle.New(tt.limits, 0), hub, budget })
				for range 10 {
					if tt.before > 0 || tt.limits.RateTotal > 0 {
						r.post(strings.Repeat(" ", int(tt.before)))
					}
				}
				q := req("POST", ping, tt.lines...)
				body := &endless{read: make(chan struct{}), left: large}
				if tt.length > 0 {
					body.left = tt.length
				}
				q.Body, q.ContentLength = io.NopCloser(body), tt.length
				if tt.length > 0 {
					q.Header.Set("Expect", "100-continue")
					r.client.Transport.(*http.Transport).ExpectContinueTimeout = time.Hour
				}
				got := r.do(q)
				limit := ""
				if got.status == 429 {
					limit = strings.TrimPrefix(errorOut(t, got.body), "error ")
				}
				if got.status != tt.want || limit != tt.limit {
					t.Errorf("%d %s, want %d %s", got.status, got.body, tt.want, tt.limit)
				}
				if read := closed(body.read); read != (tt.want == 400 || tt.length < 0) {
					t.Errorf("body read: %v", read)
				}
				synctest.Wait()
				if budget.InUse() != 0 {
					t.Errorf("%d bytes still taken", budget.InUse())
				}
			})
		})
	}
}

// TestDues_InFlight: bytes under way are given back with the reply, and whoever
// has too many is refused while others are not.
func TestDues_InFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hold := make(chan struct{})
		hub := dueHub{fakeHub: legacyHub(func(in session.Inbound, s *session.ClientStream) {
			if in.Frame.Msg.Kind != jsonrpc.Request {
				echo(in, s)
				return
			}
			go func() { <-hold; echo(in, s) }()
		})}
		r := newRig(t, hub.fakeHub, func(o *Options) { o.Limiter, o.Hub = throttle.New(throttle.Limits{InFlight: 300}, 0), hub })
		call := fmt.Sprintf(legacyCall, "1")
		done := make(chan reply, 10)
		send := func(lines ...string) {
			go func() { done <- r.post(call+strings.Repeat(" ", 200-len(call)), append(lines, "Mcp-Session-Id: s")...) }()
			synctest.Wait()
		}
		send("Authorization: Bearer a")
		send("Authorization: Bearer a")
		if got := <-done; got.status != 429 || !strings.Contains(got.body, `"limit":"in_flight"`) {
			t.Errorf("the second: %d %s", got.status, got.body)
		}
		send("Authorization: Bearer b")
		if len(done) != 0 {
			t.Errorf("another caller: %+v", <-done)
		}
		if got := r.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`+strings.Repeat(" ", 200), "Authorization: Bearer a"); got.status == 429 {
			t.Errorf("a cancel: %+v", got)
		}
		close(hold)
		<-done
		<-done
		send("Authorization: Bearer a")
		if got := <-done; got.status != 200 {
			t.Errorf("after the reply: %+v", got)
		}
	})
}

// TestDues_Verbs: GET finds a stream again, so it has the share of what ends
// work; DELETE is never refused.
func TestDues_Verbs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := legacyHub(func(in session.Inbound, s *session.ClientStream) { s.Send(session.Out{Final: true, Status: 200}) })
		hub.on = func(in session.Inbound, s *session.ClientStream) { s.Send(session.Out{Final: true, Status: 200}) }
		r := newRig(t, hub, func(o *Options) { o.Limiter = throttle.New(throttle.Limits{Rate: 1, Burst: 2}, 0) })
		for i, want := range []int{200, 200, 200, 200, 429} {
			if got := r.do(req("GET", "", "Mcp-Session-Id: s")); got.status != want {
				t.Errorf("GET %d: %d, want %d", i, got.status, want)
			}
		}
		for range 5 {
			if got := r.do(req("DELETE", "", "Mcp-Session-Id: s")); got.status != 200 {
				t.Errorf("DELETE: %+v", got)
			}
		}
		if _, res, err := r.upgrade(); err == nil || res == nil || res.StatusCode != 429 {
			t.Errorf("upgrade: %v", err)
		}
	})
}

// TestDues_Batch: each message of an array counts; it is refused as a whole.
func TestDues_Batch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newDueHub()
		r := newRig(t, hub.fakeHub, func(o *Options) { o.Limiter = throttle.New(throttle.Limits{Rate: 1, Burst: 3}, 0) })
		list := func(n int) string {
			var parts []string
			for i := range n {
				parts = append(parts, fmt.Sprintf(legacyCall, fmt.Sprint(i)))
			}
			return "[" + strings.Join(parts, ",") + "]"
		}
		if got := r.post(list(4), "Mcp-Session-Id: s"); got.status != 429 || len(hub.calls()) != 0 {
			t.Errorf("four: %+v, %d reached the hub", got, len(hub.calls()))
		}
		time.Sleep(3 * time.Second)
		if got := r.post(list(3), "Mcp-Session-Id: s"); got.status != 200 || len(hub.calls()) != 3 {
			t.Errorf("three: %+v, %d reached the hub", got, len(hub.calls()))
		}
		if got := r.post(`[{"jsonrpc":"2.0","id":1,"result":{}}]`, "Mcp-Session-Id: s"); got.status != 202 {
			t.Errorf("an answer: %+v", got)
		}
	})
}
