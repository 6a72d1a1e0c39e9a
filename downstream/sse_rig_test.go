package downstream

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

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
