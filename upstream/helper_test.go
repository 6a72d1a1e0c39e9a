package upstream

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"taskbridge/session"
	"taskbridge/translate"
)

const pingMsg = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
const pongMsg = `{"jsonrpc":"2.0","id":1,"result":{}}`
const noteMsg = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// pipeNet is a network of net.Pipe connections: no file descriptors, so it
// works in a synctest bubble.
type pipeNet struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeNet() *pipeNet { return &pipeNet{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipeNet) Close() error { p.once.Do(func() { close(p.done) }); return nil }

func (p *pipeNet) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipeNet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pipeServer serves h in memory and returns an HTTP dialer toward it, called
// "up"; both end with the test.
func pipeServer(t *testing.T, h http.Handler, edit ...func(*HTTPOptions)) *HTTP {
	t.Helper()
	n := newPipeNet()
	srv := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	var wg sync.WaitGroup
	wg.Go(func() { srv.Serve(n) })
	o := HTTPOptions{
		Upstreams:   map[string]HTTPUpstream{"up": {URL: "http://up.test/mcp"}},
		DialContext: n.dial,
	}
	for _, f := range edit {
		f(&o)
	}
	d := mustHTTP(t, o)
	t.Cleanup(func() {
		d.Close()
		srv.Close()
		n.Close()
		wg.Wait()
	})
	return d
}

// realServer is pipeServer over TCP.
func realServer(t *testing.T, h http.Handler, edit ...func(*HTTPOptions)) (*HTTP, *httptest.Server) {
	t.Helper()
	srv := httptest.NewServer(h)
	o := HTTPOptions{Upstreams: map[string]HTTPUpstream{"up": {URL: srv.URL + "/mcp"}}}
	for _, f := range edit {
		f(&o)
	}
	d := mustHTTP(t, o)
	t.Cleanup(func() { d.Close(); srv.Close() })
	return d, srv
}

func mustHTTP(t testing.TB, o HTTPOptions) *HTTP {
	t.Helper()
	d, err := NewHTTP(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func dialUp(t testing.TB, d *HTTP, credential http.Header) session.Conn {
	t.Helper()
	c, err := d.Dial(t.Context(), session.Target{Upstream: "up", Principal: "p", Credential: credential})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func post(msg string) session.Outgoing {
	return session.Outgoing{Verb: "POST", Msg: []byte(msg)}
}

func mustDo(t testing.TB, c session.Conn, out session.Outgoing) session.Stream {
	t.Helper()
	s, err := c.Do(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readAllFrames reads s to its end.
func readAllFrames(s session.Stream) (frames []translate.Frame, err error) {
	for {
		f, err := s.Next()
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
	}
}

func raws(frames []translate.Frame) string {
	var out []string
	for _, f := range frames {
		out = append(out, string(f.Msg.Raw))
	}
	return strings.Join(out, "|")
}

// wantFrames reads s to a clean end and compares the messages.
func wantFrames(t *testing.T, s session.Stream, want ...string) {
	t.Helper()
	frames, err := readAllFrames(s)
	if err != io.EOF {
		t.Errorf("stream ended with %v, want io.EOF", err)
	}
	if got := raws(frames); got != strings.Join(want, "|") {
		t.Errorf("got messages %s\nwant %s", got, strings.Join(want, "|"))
	}
}

func wantFail(t *testing.T, err error, kind session.Fail, texts ...string) *session.DialError {
	t.Helper()
	de, ok := errors.AsType[*session.DialError](err)
	if !ok {
		t.Fatalf("error %v is no *session.DialError", err)
	}
	if de.Fail != kind {
		t.Errorf("fail kind %d, want %d (%v)", de.Fail, kind, err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
	return de
}

func reply(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		} else {
			w.Header()["Content-Type"] = nil
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

type tapLog struct {
	mu     sync.Mutex
	frames []translate.Frame
}

func (l *tapLog) Frame(f translate.Frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frames = append(l.frames, f)
}

// tlsServer is realServer over TLS with HTTP/2, and the dialer trusts it.
func tlsServer(t *testing.T, h http.Handler) (*HTTP, *httptest.Server) {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.StartTLS()
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	d := mustHTTP(t, HTTPOptions{Upstreams: map[string]HTTPUpstream{"up": {URL: srv.URL + "/mcp"}}, RootCAs: pool})
	t.Cleanup(func() { d.Close(); srv.Close() })
	return d, srv
}

// probeCase is a server of the tests, and what a probe has to find out about it.
type probeCase struct {
	how     string
	era     translate.Era
	version string
	dual    bool
	err     string
}

// probeCases are those of every transport that keeps a connection; died is how
// the probe tells that the server ended.
func probeCases(died string) []probeCase {
	return []probeCase{
		{"modern", translate.Modern, "2026-07-28", false, ""},
		{"dual", translate.Modern, "2026-07-28", true, ""},
		{"legacy", translate.Legacy, "2025-11-25", false, ""},
		{"legacy exit-on-discover", translate.Legacy, "2025-11-25", false, ""},
		{"legacy silent-on-discover", translate.Legacy, "2025-11-25", false, ""},
		{"dies", 0, "", false, died},
		{"silent", 0, "", false, "no answer within 1s"},
	}
}
