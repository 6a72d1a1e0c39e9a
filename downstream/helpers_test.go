package downstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// fakeHub answers as its function says and keeps what it was given.
type fakeHub struct {
	on func(in session.Inbound, s *session.ClientStream)

	mu   sync.Mutex
	n    int
	seen []session.Inbound
	live []*session.ClientStream
}

func (h *fakeHub) NewStream() *session.ClientStream {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	s := session.NewClientStream("s"+strconv.Itoa(h.n), 0)
	h.live = append(h.live, s)
	return s
}

func (h *fakeHub) Client(_ context.Context, in session.Inbound, s *session.ClientStream) {
	h.mu.Lock()
	h.seen = append(h.seen, in)
	h.mu.Unlock()
	if h.on != nil {
		h.on(in, s)
		return
	}
	echo(in, s)
}

func (h *fakeHub) calls() []session.Inbound {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]session.Inbound(nil), h.seen...)
}

// left says how many streams refuse to be written to: their reader has gone.
func (h *fakeHub) left() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, s := range h.live {
		if !s.Send(session.Out{}) {
			n++
		}
	}
	return n
}

func result(id string) []byte { return []byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`) }

// echo answers requests with an empty result and everything else with 202.
func echo(in session.Inbound, s *session.ClientStream) {
	if msg := in.Frame.Msg; msg != nil && !msg.ID.IsZero() && msg.Method != "" {
		s.Send(session.Out{Raw: result(msg.ID.String()), Final: true})
		return
	}
	s.Send(session.Out{Status: http.StatusAccepted, Final: true})
}

// silent never answers.
func silent(session.Inbound, *session.ClientStream) {}

// memListener is a listener without a network, so that tests run inside
// synctest bubbles.
type memListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newMemListener() *memListener {
	return &memListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

var memAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}

func (l *memListener) Addr() net.Addr { return memAddr }

type memConn struct{ net.Conn }

func (c memConn) LocalAddr() net.Addr  { return memAddr }
func (c memConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 50000} }

func (l *memListener) Dial() (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- memConn{theirs}:
		return ours, nil
	case <-l.done:
		return nil, errors.New("listener is closed")
	}
}

// rig is a server on a memory listener with a client.
type rig struct {
	t      testing.TB
	hub    *fakeHub
	server *Server
	ln     *memListener
	client *http.Client
}

func newRig(t testing.TB, hub *fakeHub, change func(*Options)) *rig {
	t.Helper()
	if hub == nil {
		hub = &fakeHub{}
	}
	o := Options{Hub: hub, Loopback: true}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, hub: hub, server: s, ln: newMemListener()}
	tr := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return r.ln.Dial() },
		DisableCompression: true,
	}
	r.client = &http.Client{Transport: tr}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, r.ln) }()
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		cancel()
		<-served
	})
	return r
}

// req builds a request to the endpoint: "NAME: VALUE" lines replace headers,
// an empty value removes one.
func req(verb, body string, lines ...string) *http.Request {
	r, err := http.NewRequest(verb, "http://localhost:8080/mcp", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	if body == "" {
		r.Body, r.ContentLength = nil, 0
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	seen := map[string]bool{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		name = strings.TrimSuffix(name, ":")
		switch {
		case name == "Host":
			r.Host = value
		case value == "" && !strings.HasSuffix(line, ": "):
			r.Header.Del(name)
		case seen[name]:
			r.Header.Add(name, value)
		default:
			r.Header.Set(name, value)
		}
		seen[name] = true
	}
	return r
}

type reply struct {
	status int
	header http.Header
	body   string
	close  bool // the connection ends with it
}

func (r *rig) do(q *http.Request) reply {
	r.t.Helper()
	res, err := r.client.Do(q)
	if err != nil {
		r.t.Fatalf("%s: %v", q.Method, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatalf("read reply: %v", err)
	}
	return reply{res.StatusCode, res.Header, string(body), res.Close}
}

func (r *rig) post(body string, lines ...string) reply {
	r.t.Helper()
	return r.do(req("POST", body, lines...))
}

// open sends q and returns the reply with its body still open.
func (r *rig) open(ctx context.Context, q *http.Request) *http.Response {
	r.t.Helper()
	res, err := r.client.Do(q.WithContext(ctx))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { res.Body.Close() })
	return res
}

// raw writes bytes on a connection of their own and reads one reply.
func (r *rig) raw(text string) (reply, *bufio.Reader, net.Conn) {
	r.t.Helper()
	c, err := r.ln.Dial()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	go io.WriteString(c, text)
	c.SetReadDeadline(time.Now().Add(time.Minute))
	br := bufio.NewReader(c)
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		r.t.Fatalf("read reply to %.60q: %v", text, err)
	}
	body, _ := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(body), res.Close}, br, c
}

const (
	ping       = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	notify     = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	modernList = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`
	listen     = `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{},` + modernMeta + `}}`
)

var (
	modernLines = []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list"}
	listenLines = []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen"}
)

// statusOf keeps tests in step with the table.
func statusOf(c translate.Cond, e translate.Era) int {
	status, _ := translate.StatusOf(c, e)
	return status
}

// bubble is synctest.Test with time at the end for connections to close:
// net/http lingers half a second on those it closes early.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(5 * time.Second) })
		f(t)
	})
}
