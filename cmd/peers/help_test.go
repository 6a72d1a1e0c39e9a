package peers

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const testURL = "http://peer.test/mcp"

// bubble runs a test on a fake clock; a goroutine that outlives the peers'
// Close fails it.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// serve serves h in memory until the test ends and returns a client for it.
func serve(t *testing.T, h interface {
	http.Handler
	Close() error
}) *http.Client {
	t.Helper()
	ln := NewMemListener()
	srv := &http.Server{Handler: h}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(ln) })
	hc := ln.Client()
	t.Cleanup(func() {
		_ = h.Close()
		hc.CloseIdleConnections()
		_ = srv.Close()
		wg.Wait()
	})
	return hc
}

func legacyPair(t *testing.T, o ServerOptions) (*LegacyServer, *LegacyClient) {
	t.Helper()
	s := NewLegacyServer(o)
	c := &LegacyClient{URL: testURL, HTTP: serve(t, s), OnRequest: Accept(map[string]any{"name": "Ada"})}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, c
}

func modernPair(t *testing.T, o ServerOptions) (*ModernServer, *ModernClient) {
	t.Helper()
	s := NewModernServer(o)
	c := &ModernClient{URL: testURL, HTTP: serve(t, s), Tasks: true}
	t.Cleanup(func() { _ = c.Close() })
	return s, c
}

// byMessage answers each question by the message it shows.
func byMessage(m map[string]any) Answer {
	return func(_ string, params json.RawMessage) (any, any) {
		for text, content := range m {
			if strings.Contains(string(params), text) {
				return object("action", "accept", "content", content), nil
			}
		}
		return object("action", "decline"), nil
	}
}

func wantCode(t *testing.T, r Reply, err error, status, code int) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != status || r.Code() != code {
		t.Fatalf("got HTTP %d, code %d, want HTTP %d, code %d: %s", r.Status, r.Code(), status, code, r.Raw)
	}
}

func must(t *testing.T, r Reply, err error) Reply {
	t.Helper()
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustRun(t *testing.T, run TaskRun, err error) TaskRun {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	g, w := string(raw(got)), string(raw(want))
	if g != w {
		t.Fatalf("%s: got %s, want %s", what, g, w)
	}
}

// notifications collects notifications.
type notifications struct {
	mu  sync.Mutex // protects all
	all []message
}

func (n *notifications) add(method string, params json.RawMessage) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, message{Method: method, Params: params})
}

func (n *notifications) params(method string) []json.RawMessage {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := []json.RawMessage{}
	for _, m := range n.all {
		if m.Method == method {
			list = append(list, m.Params)
		}
	}
	return list
}

func field(t *testing.T, obj json.RawMessage, path ...string) json.RawMessage {
	t.Helper()
	for _, key := range path {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(obj, &m); err != nil {
			t.Fatalf("read %s of %s: %v", key, obj, err)
		}
		obj = m[key]
	}
	return obj
}

func taskArgs(name string, args any) json.RawMessage {
	return object("name", name, "arguments", args, "task", struct{}{})
}

func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := wait(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}
