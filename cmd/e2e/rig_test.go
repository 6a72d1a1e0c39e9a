package e2e

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/upstream"
)

// bridge is a proxy before one server: real sockets on both sides.
type bridge struct {
	URL     string
	Runners []*session.Runner
	Store   session.Store
	Log     *lockedBuffer // warnings and worse
	Losses  *lossCounter
}

type bridgeOptions struct {
	Policy     session.Policy
	Runners    int  // on one store, requests alternate between them
	Forget     bool // forget all but store, credentials and sockets before each request
	Header     http.Header
	MaxMessage int
	Probe      upstream.ProbeOptions
	Options    func(*downstream.Options)
	Store      session.Store // nil: in memory
	Clock      session.Clock // nil: the machine's
	// Unchecked: what passes is not held against the specification, because one of
	// the peers is out to break it.
	Unchecked bool
}

// alternate spreads requests over several servers and makes their runners
// forgetful where asked.
type alternate struct {
	mu      sync.Mutex
	next    int
	servers []*downstream.Server
	runners []*session.Runner
	forget  bool
}

func (a *alternate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	i := a.next % len(a.servers)
	a.next++
	a.mu.Unlock()
	if a.forget {
		for _, run := range a.runners {
			run.Forget()
		}
	}
	a.servers[i].ServeHTTP(w, r)
}

// newRig is a bridge before a server, or for a client, out to break the
// specification.
func newRig(t testing.TB, serverURL string, o bridgeOptions) *bridge {
	t.Helper()
	o.Unchecked = true
	return newBridge(t, serverURL, o)
}

func newBridge(t testing.TB, serverURL string, o bridgeOptions) *bridge {
	t.Helper()
	b := &bridge{Store: o.Store, Log: &lockedBuffer{}, Losses: &lossCounter{losses: map[string]int{}, dropped: map[string]int{}}}
	if b.Store == nil {
		b.Store = memory.New()
	}
	log := slog.New(slog.NewTextHandler(b.Log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var watch *checked
	if !o.Unchecked {
		watch = newChecked(t)
	}
	handles := testHandles(t)
	alt := &alternate{forget: o.Forget}
	for i := range max(o.Runners, 1) {
		var tap session.Tap
		if watch != nil {
			tap = watch.tap(i)
		}
		dialer, err := upstream.NewHTTP(upstream.HTTPOptions{
			Upstreams:  map[string]upstream.HTTPUpstream{"default": {URL: serverURL, Header: o.Header}},
			MaxMessage: o.MaxMessage, Logger: log, Tap: tap,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dialer.Close() })
		runner, err := session.New(session.Options{
			Store: b.Store, Dialer: dialer, Handles: handles, Policy: o.Policy, Logger: log, Metrics: b.Losses, Clock: o.Clock,
			Faces: upstream.NewEras(upstream.EraOptions{Dialer: dialer, Probe: o.Probe}),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { runner.Close() })
		do := downstream.Options{Hub: runner, Loopback: true, Supported: runner.Versions, Logger: log, Tap: tap}
		if o.Options != nil {
			o.Options(&do)
		}
		srv, err := downstream.New(do)
		if err != nil {
			t.Fatal(err)
		}
		alt.servers = append(alt.servers, srv)
		alt.runners = append(alt.runners, runner)
	}
	b.Runners = alt.runners
	b.URL = serveOnLoopback(t, alt, log)
	return b
}

// testHandles seal with one fixed key.
func testHandles(t testing.TB) *session.Handles {
	t.Helper()
	h, err := session.NewHandles([][]byte{[]byte("0123456789abcdef0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// serveOnLoopback serves until the test ends and returns the endpoint's URL.
func serveOnLoopback(t testing.TB, h http.Handler, log *slog.Logger) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hs := &http.Server{Handler: h, MaxHeaderBytes: 128 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	go hs.Serve(ln)
	t.Cleanup(func() { hs.Close() })
	return "http://" + ln.Addr().String() + "/mcp"
}

type lossCounter struct {
	mu      sync.Mutex
	losses  map[string]int
	dropped map[string]int
}

func (c *lossCounter) Loss(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses[what]++
}

func (c *lossCounter) Limited(string) {}

func (c *lossCounter) Dropped(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped[what]++
}

func (c *lossCounter) droppedOf(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped[what]
}

func startPeer(t testing.TB, h interface {
	http.Handler
	Close() error
}) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { h.Close(); s.Close() })
	return s.URL + "/mcp"
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// lockedBuffer is written to and read by several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
