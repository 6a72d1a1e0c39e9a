package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestEncodeHeader(t *testing.T) {
	for in, out := range map[string]string{
		"us-west1":           "us-west1",
		"Hello, 世界":          "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":           "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":       "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
		"":                   "",
	} {
		want(t, in, EncodeHeader(in), out)
		back, ok := DecodeHeader(out)
		if !ok || back != in {
			t.Errorf("decode %q: %q %v", out, back, ok)
		}
	}
}

func TestEvents(t *testing.T) {
	stream := ": comment\r\nid: 1\ndata:\n\nevent: message\ndata: {\"a\":\ndata: 1}\n\ndata:{}\r\n\r\ndata: unfinished\n"
	var got []string
	for event, err := range events(strings.NewReader(stream)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(event))
	}
	want(t, "events", got, []string{"{\"a\":\n1}", "{}"})
}

func TestMembersKeepBytes(t *testing.T) {
	got, err := merge(json.RawMessage(`{"b": 1.00 ,"a":"<"}`), json.RawMessage(`{"a":2,"c":[ ]}`))
	if err != nil || string(got) != `{"b":1.00,"a":"<","c":[ ]}` {
		t.Fatalf("%s %v", got, err)
	}
	if _, err := merge(json.RawMessage(`[]`), nil); err == nil {
		t.Fatal("an array has members")
	}
}

func TestMemListenerClosed(t *testing.T) {
	l := NewMemListener()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Dial(ctx); err == nil {
		t.Fatal("dialled without an Accept")
	}
	l.Close()
	l.Close()
	if _, err := l.Accept(); err == nil {
		t.Fatal("accepted after Close")
	}
	if _, err := l.Dial(t.Context()); err == nil {
		t.Fatal("dialled after Close")
	}
}

// Many tasks at once over real sockets, for the race detector.
func TestConcurrentRunsOverTCP(t *testing.T) {
	legacy, modern := NewLegacyServer(ServerOptions{PollInterval: 5 * time.Millisecond}), NewModernServer(ServerOptions{PollInterval: 5 * time.Millisecond})
	ls, ms := httptest.NewServer(legacy), httptest.NewServer(modern)
	defer ls.Close()
	defer ms.Close()
	defer legacy.Close()
	defer modern.Close()
	lc := &LegacyClient{URL: ls.URL}
	mc := &ModernClient{URL: ms.URL, Tasks: true}
	defer mc.Close()
	defer lc.Close()
	if _, err := lc.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lc.OpenGET(t.Context()); err != nil {
		t.Fatal(err)
	}
	accept := Accept(map[string]any{"confirm": true, "name": "Ada"})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			run, err := lc.RunTask(t.Context(), "confirm_delete", object("filename", "a"), accept)
			if err != nil || run.Text() != "Deleted a." {
				t.Errorf("legacy: %v %+v", err, run)
			}
		})
		wg.Go(func() {
			run, err := mc.RunTask(t.Context(), "multi_input", nil, accept)
			if err != nil || run.Text() != "Ada likes Ada." {
				t.Errorf("modern: %v %+v", err, run)
			}
		})
	}
	wg.Wait()
	want(t, "calls", []int{legacy.Calls("confirm_delete"), modern.Calls("multi_input")}, []int{20, 20})
}

func TestClosedPeers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := modernPair(t, ServerOptions{})
		r, err := c.Call(t.Context(), "tools/call", object("name", "slow_compute", "arguments", object("seconds", 3600)))
		must(t, r, err)
		_ = s.Close()
		_ = s.Close()
		r, err = c.Call(t.Context(), "tools/list", nil)
		wantCode(t, r, err, http.StatusServiceUnavailable, 0)
		if r.Err() == nil {
			t.Fatal("no error of the status")
		}
		_ = c.Close()
		if _, err := c.Call(t.Context(), "tools/list", nil); err == nil {
			t.Fatal("called after Close")
		}
		if _, err := c.Listen(t.Context(), struct{}{}, nil); err == nil {
			t.Fatal("listened after Close")
		}
	})
}

// A client that never reads its answer must not hold up Close.
func TestCloseWithDeafClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := NewLegacyServer(ServerOptions{})
		ln := NewMemListener()
		srv := &http.Server{Handler: s}
		var wg sync.WaitGroup
		wg.Go(func() { _ = srv.Serve(ln) })
		conn, err := ln.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`
		if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
			"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		start := time.Now()
		_ = s.Close()
		if took := time.Since(start); took > closeLimit {
			t.Fatalf("Close took %v", took)
		}
		conn.Close()
		_ = srv.Close()
		wg.Wait()
	})
}

// TestRan: each run of a tool is told once, with its arguments, whatever it
// took to get there; and clients give the name they are told to.
func TestRan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var ran, names []string
		o := ServerOptions{PollInterval: time.Second, Ran: func(tool string, args json.RawMessage) {
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, tool+string(args))
		}, Trace: func(e TraceEntry) {
			mu.Lock()
			defer mu.Unlock()
			for _, name := range []string{"old-one", "new-one"} {
				if !e.Out && strings.Contains(string(e.Message), `"name":"`+name+`"`) && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}}
		answer := Accept(map[string]any{"name": "Ada", "confirm": true})
		legacy := &LegacyClient{URL: testURL, Name: "old-one", HTTP: serve(t, NewLegacyServer(o)), OnRequest: answer}
		modern := &ModernClient{URL: testURL, Name: "new-one", HTTP: serve(t, NewModernServer(o)), Tasks: true}
		defer legacy.Close()
		defer modern.Close()
		if _, err := legacy.Initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err := legacy.Call(t.Context(), "tools/call", object("name", "ask_name", "arguments", object("key", "1")))
		must(t, r, err)
		run, err := legacy.RunTask(t.Context(), "confirm_delete", object("filename", "2"), answer)
		mustRun(t, run, err)
		run, err = modern.RunTask(t.Context(), "ask_name", object("key", "3"), answer)
		mustRun(t, run, err)
		run, err = modern.RunTask(t.Context(), "confirm_delete", object("filename", "4"), answer)
		mustRun(t, run, err)
		mu.Lock()
		defer mu.Unlock()
		want(t, "runs", ran, []string{`ask_name{"key":"1"}`, `confirm_delete{"filename":"2"}`, `ask_name{"key":"3"}`, `confirm_delete{"filename":"4"}`})
		want(t, "names", names, []string{"old-one", "new-one"})
	})
}
