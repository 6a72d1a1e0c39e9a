package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/cmd/peers"
)

// buffer is a writer that tests read while it is written.
type buffer struct {
	mu sync.Mutex // protects b
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// eventually waits until f holds.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}

// runArgs runs a command line that ends by itself.
func runArgs(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs buffer
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	code = run(ctx, args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// peer serves h on loopback until the test ends and returns its endpoint.
func peer(t *testing.T, h interface {
	http.Handler
	Close() error
}) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = h.Close()
		_ = srv.Close()
		<-done
	})
	return "http://" + ln.Addr().String() + "/mcp"
}

// serving is a running serve command.
type serving struct {
	t          *testing.T
	url, admin string
	stderr     *buffer
	stop       context.CancelFunc // what SIGTERM does
	done       chan struct{}
	code       int // valid once done is closed
}

var (
	listenLine = regexp.MustCompile(`(?m)^listening on (https?://\S+)$`)
	adminLine  = regexp.MustCompile(`(?m)^admin on (http://\S+)$`)
)

// serve starts serve on a free port and waits until it is ready.
func serve(t *testing.T, args ...string) *serving {
	t.Helper()
	return listening(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
}

// listening starts a command that listens and waits until it is ready.
func listening(t *testing.T, args ...string) *serving {
	t.Helper()
	s := &serving{t: t, stderr: new(buffer), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() {
		defer close(s.done)
		s.code = run(ctx, args, strings.NewReader(""), new(buffer), s.stderr)
	}()
	t.Cleanup(func() { s.end() })
	eventually(t, "listening", func() bool {
		select {
		case <-s.done:
			t.Fatalf("serve ended with %d: %s", s.code, s.stderr)
		default:
		}
		m := listenLine.FindStringSubmatch(s.stderr.String())
		if m != nil {
			s.url = m[1]
		}
		return m != nil
	})
	if m := adminLine.FindStringSubmatch(s.stderr.String()); m != nil {
		s.admin = m[1]
	}
	return s
}

// end stops serve and returns its exit code.
func (s *serving) end() int {
	s.stop()
	select {
	case <-s.done:
	case <-time.After(20 * time.Second):
		s.t.Errorf("serve did not end: %s", s.stderr)
		return -1
	}
	return s.code
}

func legacyClient(t *testing.T, url string) *peers.LegacyClient {
	t.Helper()
	c := &peers.LegacyClient{URL: url, OnRequest: peers.Accept(map[string]any{"name": "Ada", "confirm": true})}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func modernClient(t *testing.T, url string) *peers.ModernClient {
	t.Helper()
	c := &peers.ModernClient{URL: url, Tasks: true}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
