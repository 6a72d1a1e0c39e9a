package upstream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"taskbridge/session"
)

func BenchmarkDo(b *testing.B) {
	big := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}}`
	for _, bc := range []struct{ name, contentType, body string }{
		{"json", jsonType, pongMsg},
		{"sse", sseType, "data: " + pongMsg + "\n\n"},
		{"json-1MiB", jsonType, big},
		{"sse-1MiB", sseType, "data: " + big + "\n\n"},
	} {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", bc.contentType)
			if bc.contentType == jsonType {
				w.Header().Set("Content-Length", strconv.Itoa(len(bc.body)))
			}
			io.WriteString(w, bc.body)
		})
		b.Run(bc.name, func(b *testing.B) {
			srv := httptest.NewServer(h)
			defer srv.Close()
			d := mustHTTP(b, HTTPOptions{Upstreams: map[string]HTTPUpstream{"up": {URL: srv.URL}}, Budget: session.NewBudget(0)})
			defer d.Close()
			c := dialUp(b, d, http.Header{"Authorization": {"Bearer t"}})
			out := session.Outgoing{Verb: "POST", Msg: []byte(pingMsg), Version: "2026-07-28", Header: http.Header{"Mcp-Method": {"ping"}}}
			b.ReportAllocs()
			b.SetBytes(int64(len(bc.body)))
			for b.Loop() {
				s, err := c.Do(b.Context(), out)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.Next(); err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
		})
		b.Run(bc.name+"/bare", func(b *testing.B) { // what net/http alone costs
			srv := httptest.NewServer(h)
			defer srv.Close()
			tr := &http.Transport{}
			defer tr.CloseIdleConnections()
			b.ReportAllocs()
			b.SetBytes(int64(len(bc.body)))
			for b.Loop() {
				req, _ := http.NewRequestWithContext(b.Context(), "POST", srv.URL, strings.NewReader(pingMsg))
				resp, err := tr.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadAll(resp.Body); err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
			}
		})
	}
}
