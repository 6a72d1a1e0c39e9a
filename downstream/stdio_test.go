package downstream

import (
	"bytes"
	"context"
	"errors"
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
	"taskbridge/translate/jsonrpc"
)

// lineHub answers as a runner would, and remembers who said what.
type lineHub struct {
	mu       sync.Mutex // protects the fields below
	seen     []string
	sessions int
	lost     string // the session the server has forgotten
	answer   func(in session.Inbound, s *session.ClientStream) bool
}

func (h *lineHub) NewStream() *session.ClientStream { return session.NewClientStream("s", 0) }

func (h *lineHub) Client(_ context.Context, in session.Inbound, s *session.ClientStream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	what := in.Frame.HTTP.Verb
	m := in.Frame.Msg
	if m != nil {
		what = m.Method
	}
	h.seen = append(h.seen, strings.TrimSpace(in.Caller.Session+" "+what))
	switch {
	case h.answer != nil && h.answer(in, s):
	case in.Frame.HTTP.Verb == http.MethodGet:
		if in.Caller.Session == h.lost {
			s.Send(session.Out{Final: true, Status: http.StatusNotFound})
		}
	case m == nil:
		s.Send(session.Out{Final: true})
	case m.Kind != jsonrpc.Request:
		s.Send(session.Out{Final: true, Status: http.StatusAccepted})
	case m.Method == "initialize":
		h.sessions++
		s.Send(session.Out{
			Final: true, Raw: jsonrpc.NewResult(m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{}}`)),
			Header: http.Header{"Mcp-Session-Id": {fmt.Sprint("S", h.sessions)}},
		})
	case in.Caller.Session == h.lost && h.lost != "":
		s.Send(session.Out{Final: true, Status: http.StatusNotFound, Raw: jsonrpc.NewError(m.ID, -32600, "unknown session", nil)})
	default:
		s.Send(session.Out{Final: true, Raw: jsonrpc.NewResult(m.ID, []byte("{}"))})
	}
}

func (h *lineHub) saw() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// lineConn is a connection to ServeStdio.
type lineConn struct {
	t    *testing.T
	in   *io.PipeWriter
	out  *lockedBuffer
	done chan error
}

type lockedBuffer struct {
	mu   sync.Mutex // protects the fields below
	b    bytes.Buffer
	fail error
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return 0, b.fail
	}
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func connectLines(t *testing.T, h session.Hub) *lineConn {
	t.Helper()
	r, w := io.Pipe()
	c := &lineConn{t: t, in: w, out: &lockedBuffer{}, done: make(chan error, 1)}
	go func() {
		c.done <- ServeStdio(context.Background(), StdioOptions{Hub: h, In: r, Out: c.out, MaxMessage: 1 << 16, Drain: 200 * time.Millisecond})
	}()
	t.Cleanup(func() { w.Close() })
	return c
}

func (c *lineConn) send(lines ...string) {
	c.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(c.in, l+"\n"); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *lineConn) await(what string) {
	c.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if strings.Contains(c.out.String(), what) {
			return
		}
	}
	c.t.Fatalf("no %s in\n%s", what, c.out)
}

func (c *lineConn) end() error {
	c.t.Helper()
	c.in.Close()
	select {
	case err := <-c.done:
		return err
	case <-time.After(10 * time.Second):
		c.t.Fatal("ServeStdio did not return")
		return nil
	}
}

func request(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params)
}

const lineMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// TestServeStdio_LostSession: the server forgets the session, or its process
// ends. A client on stdio knows of no sessions, so a new one is begun for it
// and told what the old one was told; the request that found out runs there.
func TestServeStdio_LostSession(t *testing.T) {
	h := &lineHub{}
	c := connectLines(t, h)
	c.send(request("1", "initialize", ""), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.send(request("2", "logging/setLevel", `"level":"info"`), request("3", "resources/subscribe", `"uri":"a"`))
	c.await(`"id":3`)
	c.send(request("4", "resources/subscribe", `"uri":"b"`))
	c.await(`"id":4`)
	c.send(request("5", "resources/unsubscribe", `"uri":"b"`))
	c.await(`"id":5`)
	h.mu.Lock()
	h.lost = "S1"
	h.seen = nil
	h.mu.Unlock()
	c.send(request("6", "tools/call", `"name":"x"`))
	c.await(`"id":6,"result"`)
	if err := c.end(); err != nil {
		t.Errorf("ended with %v", err)
	}
	saw := h.saw()
	for _, want := range []string{"S1 tools/call", "initialize", "S2 notifications/initialized", "S2 logging/setLevel", "S2 resources/subscribe", "S2 tools/call", "S2 DELETE"} {
		if n := len(slices.DeleteFunc(slices.Clone(saw), func(s string) bool { return s != want })); n != 1 {
			t.Errorf("%q was said %d times: %q", want, n, saw)
		}
	}
	if strings.Count(c.out.String(), `"id":1,`) != 1 {
		t.Errorf("the second handshake was answered too: %s", c.out)
	}
}

// TestServeStdio_RefusedStream: a server that does not know the session says so
// of the session's own stream with a status and an error. It is no message of
// the session: the client would take it for an answer to nothing.
func TestServeStdio_RefusedStream(t *testing.T) {
	h := &lineHub{}
	anew := make(chan struct{})
	h.answer = func(in session.Inbound, s *session.ClientStream) bool {
		switch in.Caller.Session + " " + in.Frame.HTTP.Verb {
		case "S1 GET":
		case "S2 GET":
			close(anew)
			return false
		default:
			return false
		}
		s.Send(session.Out{Status: http.StatusNotFound, Raw: jsonrpc.NewError(jsonrpc.NullID(), -32001, "Session not found", nil)})
		s.Send(session.Out{Final: true, Status: http.StatusNotFound})
		return true
	}
	c := connectLines(t, h)
	c.send(request("1", "initialize", ""), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	<-anew
	c.send(request("2", "tools/call", `"name":"x"`))
	c.await(`"id":2,"result"`)
	if err := c.end(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if strings.Contains(c.out.String(), "Session not found") {
		t.Errorf("the client reads %s", c.out)
	}
}

// slowOut has taken what is written, so that a client may have read it, before
// it lets the writer go on.
type slowOut struct {
	lockedBuffer
	hold chan struct{}
}

func (w *slowOut) Write(p []byte) (int, error) {
	n, err := w.lockedBuffer.Write(p)
	<-w.hold
	return n, err
}

// TestServeStdio_IDAgain: who has read an answer may use its id again.
func TestServeStdio_IDAgain(t *testing.T) {
	h := &lineHub{}
	out := &slowOut{hold: make(chan struct{})}
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- ServeStdio(context.Background(), StdioOptions{Hub: h, In: r, Out: out, MaxMessage: 1 << 16, Drain: time.Second})
	}()
	c := &lineConn{t: t, in: w, out: &out.lockedBuffer, done: done}
	c.send(request("1", "tools/list", lineMeta))
	c.await(`"id":1`)
	c.send(request("1", "tools/list", lineMeta), `{"jsonrpc":"2.0","method":"notifications/none"}`)
	close(out.hold)
	if err := c.end(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if got := out.String(); strings.Contains(got, "still in flight") || strings.Count(got, `"id":1`) != 2 {
		t.Errorf("the client reads %s", got)
	}
}

// TestServeStdio_ModernCancel: the stream of a cancelled request is closed, as
// over HTTP, and nothing more is said of it; its id may be used again.
func TestServeStdio_ModernCancel(t *testing.T) {
	gone := make(chan struct{})
	h := &lineHub{answer: func(in session.Inbound, s *session.ClientStream) bool {
		if m := in.Frame.Msg; m == nil || m.Method != "tools/call" {
			return false
		}
		go func() {
			for s.Send(session.Out{Begin: true}) {
				time.Sleep(time.Millisecond)
			}
			close(gone)
		}()
		return true
	}}
	c := connectLines(t, h)
	c.send(request("1", "tools/call", `"name":"x",`+lineMeta), request("1", "tools/list", lineMeta))
	c.await("still in flight")
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	<-gone
	c.send(request("2", "tools/list", lineMeta))
	c.await(`"id":2`)
	if err := c.end(); err != nil || strings.Count(c.out.String(), "\n") != 2 {
		t.Errorf("%v\n%s", err, c.out)
	}
	if slices.Contains(h.saw(), "notifications/cancelled") {
		t.Error("the hub heard of the cancel, which it knows as a closed stream")
	}
}

// TestServeStdio_ListenTornDown: the result, then the cancel that goes with it
// on stdio (2026-07-28 basic/patterns/cancellation).
func TestServeStdio_ListenTornDown(t *testing.T) {
	c := connectLines(t, &lineHub{})
	c.send(request(`"a"`, "subscriptions/listen", lineMeta))
	c.await(`"notifications/cancelled","params":{"requestId":"a"}`)
	_ = c.end()
	if i, j := strings.Index(c.out.String(), `"result"`), strings.Index(c.out.String(), "cancelled"); i < 0 || i > j {
		t.Errorf("%s", c.out)
	}
}

// TestServeStdio_Refusals: what cannot be handed on is answered here.
func TestServeStdio_Refusals(t *testing.T) {
	h := &lineHub{}
	c := connectLines(t, h)
	c.send(
		request("1", "tools/list", ""),
		request("2", "ping", ""),
		request("3", "tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01","io.modelcontextprotocol/clientCapabilities":{}}`),
		request("4", "tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`),
		request("5", "initialize", lineMeta),
		`{"jsonrpc":"2.0","id":6,"result":{},"params":{}}`,
	)
	for _, want := range []string{`"id":1,"error":{"code":-32600,"message":"send initialize first"`, `"id":2,"result":{}`, `"id":3,"error":{"code":-32022`, `"id":4,"error":{"code":-32602`, `"id":5,"error":{"code":-32601`} {
		c.await(want)
	}
	_ = c.end()
	if saw := h.saw(); !slices.Equal(saw, []string{"ping"}) {
		t.Errorf("the hub saw %q", saw)
	}
}

// TestCaseB59_StdioEndless: a client's line that does not end, in bytes or in
// time, ends the connection; each call in flight gets one error. One that ends
// in time harms nobody.
func TestCaseB59_StdioEndless(t *testing.T) {
	hold := func(in session.Inbound, _ *session.ClientStream) bool {
		return in.Frame.Msg != nil && in.Frame.Msg.Method == "tools/call"
	}
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := connectLines(t, &lineHub{answer: hold})
			c.send(request("1", "initialize", ""), request("2", "tools/call", `"name":"a"`), request("3", "tools/call", `"name":"b"`))
			io.WriteString(c.in, `{"id":4,"method":"ping","x":"`+strings.Repeat("x", 1<<17))
			time.Sleep(59 * time.Second)
			c.send(`"}`, request("5", "ping", ""))
			c.await(`"id":5,"result"`)
			if n := strings.Count(c.out.String(), `"error"`); n != 1 || !strings.Contains(c.out.String(), `"id":4,"error"`) {
				t.Errorf("before the end: %s", c.out)
			}
			began, want := time.Now(), time.Duration(0)
			if late {
				want = time.Minute
				io.WriteString(c.in, `{"id":6,"method":"ping","x":"`+strings.Repeat("x", 1<<17))
			} else {
				go io.WriteString(c.in, `{"id":6,"method":"ping","x":"`+strings.Repeat("x", 1<<20))
			}
			if err := <-c.done; err == nil || !strings.Contains(err.Error(), "limit") {
				t.Errorf("ended with %v", err)
			}
			if took := time.Since(began); took != want {
				t.Errorf("after %v", took)
			}
			for _, id := range []string{"2", "3"} {
				if n := strings.Count(c.out.String(), `"id":`+id+`,"error"`); n != 1 {
					t.Errorf("call %s has %d errors: %s", id, n, c.out)
				}
			}
			if !late && !strings.Contains(c.out.String(), `"id":6,"error"`) {
				t.Errorf("%s", c.out)
			}
			c.in.Close()
		})
	}
}

// TestServeStdio_BrokenOutput: a client that does not listen any more has left.
func TestServeStdio_BrokenOutput(t *testing.T) {
	h := &lineHub{}
	c := connectLines(t, h)
	c.send(request("1", "initialize", ""))
	c.await(`"id":1`)
	c.out.mu.Lock()
	c.out.fail = errors.New("broken pipe")
	c.out.mu.Unlock()
	c.send(request("2", "ping", ""))
	select {
	case err := <-c.done:
		if !errors.Is(err, ErrClientGone) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("ServeStdio did not return")
	}
	if saw := h.saw(); saw[len(saw)-1] != "S1 DELETE" {
		t.Errorf("the session was not ended: %q", saw)
	}
}
