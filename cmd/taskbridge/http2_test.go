package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"taskbridge/cmd/peers"
)

// changing is a server that tells of changes.
type changing interface {
	http.Handler
	Close() error
	ToolsChanged()
}

// longStreams is a server over HTTP/2 whose long streams end as a test wants.
type longStreams struct {
	changing
	open chan func(end string) // one for each stream that begins
}

func (l *longStreams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Header.Get("Mcp-Method") != "subscriptions/listen" {
		l.changing.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var once sync.Once
	end := ""
	l.open <- func(how string) { once.Do(func() { end = how; cancel() }) }
	l.changing.ServeHTTP(w, r.WithContext(ctx))
	if end == "reset" {
		panic(http.ErrAbortHandler)
	}
}

// TestCaseB58_LongStreamsOverHTTP2: however a server's long stream ends, reset,
// ended or with its connection, it is opened again, and what changes afterwards
// is heard of.
func TestCaseB58_LongStreamsOverHTTP2(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(eraName(modern)+" server", func(t *testing.T) {
			l := &longStreams{changing: peers.NewLegacyServer(peers.ServerOptions{}), open: make(chan func(string), 8)}
			if modern {
				l.changing = peers.NewModernServer(peers.ServerOptions{})
			}
			var protos sync.Map
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				protos.Store(r.Proto, true)
				for _, name := range []string{"Connection", "Keep-Alive"} {
					if v := r.Header.Get(name); v != "" {
						t.Errorf("%s: %s was sent over %s", name, v, r.Proto)
					}
				}
				l.ServeHTTP(w, r)
			}))
			srv.EnableHTTP2 = true
			srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			srv.StartTLS()
			defer srv.Close()
			defer l.Close()
			ca := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
				t.Fatal(err)
			}
			s := serve(t, "--upstream", srv.URL+"/mcp", "--upstream-ca", ca)
			heard := make(chan string, 1024)
			hear(t, s.url, !modern, func(method string, _ json.RawMessage) {
				select {
				case heard <- method:
				default:
				}
			})
			for i, how := range []string{"ended", "reset", "connection"} {
				end := l.opened(t)
				wantChange(t, fmt.Sprint("stream ", i), l, heard)
				if how == "connection" {
					srv.CloseClientConnections()
				} else {
					end(how)
				}
			}
			l.opened(t)
			wantChange(t, "the last stream", l, heard)
			if _, ok := protos.Load("HTTP/2.0"); !ok {
				t.Error("HTTP/2 was not spoken")
			}
		})
	}
}

// hear opens a client's own stream. It is one of the other era than the server:
// between peers of one era the stream is the client's to open again.
func hear(t *testing.T, url string, modern bool, fn func(method string, params json.RawMessage)) {
	t.Helper()
	if modern {
		if _, err := modernClient(t, url).Listen(t.Context(), map[string]any{"toolsListChanged": true}, fn); err != nil {
			t.Fatal(err)
		}
		return
	}
	c := &peers.LegacyClient{URL: url, OnNotification: fn}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.OpenGET(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// opened waits for the next long stream.
func (l *longStreams) opened(t *testing.T) func(string) {
	t.Helper()
	select {
	case end := <-l.open:
		return end
	case <-time.After(20 * time.Second):
		t.Fatal("the stream was not opened again")
		return nil
	}
}

func wantChange(t *testing.T, what string, l *longStreams, heard chan string) {
	t.Helper()
	for len(heard) > 0 {
		<-heard
	}
	eventually(t, what, func() bool {
		l.ToolsChanged() // the stream may only just be there
		select {
		case method := <-heard:
			return method == "notifications/tools/list_changed"
		default:
			return false
		}
	})
}
