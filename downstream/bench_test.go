package downstream

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"taskbridge/session"
)

// discard is a ResponseWriter that costs nothing.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

func (d *discard) SetReadDeadline(time.Time) error  { return nil }
func (d *discard) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkServe is the ordinary call: a request in, one JSON reply out.
func BenchmarkServe(b *testing.B) {
	for _, tt := range []struct {
		name, body string
		lines      []string
	}{
		{"legacy", ping, []string{"Mcp-Session-Id: s", "MCP-Protocol-Version: 2025-11-25"}},
		{"modern", modernList, modernLines},
	} {
		b.Run(tt.name, func(b *testing.B) {
			s, err := New(Options{Hub: &benchHub{}, Loopback: true})
			if err != nil {
				b.Fatal(err)
			}
			q := httptest.NewRequest("POST", "http://localhost/mcp", nil)
			q.Header = req("POST", tt.body, tt.lines...).Header
			q.RemoteAddr = "127.0.0.1:1"
			q.ContentLength = int64(len(tt.body))
			body := strings.NewReader("")
			q.Body = nopCloser{body}
			w := &discard{h: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(tt.body)
				clear(w.h)
				s.ServeHTTP(w, q)
			}
		})
	}
}

type nopCloser struct{ *strings.Reader }

func (nopCloser) Close() error { return nil }

// benchHub keeps nothing.
type benchHub struct{}

func (benchHub) NewStream() *session.ClientStream { return session.NewClientStream("s", 0) }

func (benchHub) Client(_ context.Context, in session.Inbound, s *session.ClientStream) {
	echo(in, s)
}
