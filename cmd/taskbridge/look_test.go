package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"taskbridge/upstream"
)

// TestLook: what counts as a server that is there.
func TestLook(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		body   string
		there  bool
	}{
		{"modern", 200, `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"serverInfo":{"name":"s","version":"1"},"ttlMs":0,"cacheScope":"private"}}`, true},
		{"wants a credential", 401, "", true},
		{"forbids", 403, "", true},
		{"broken", 500, "", false},
		{"no endpoint", 502, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				_, rest, _ := strings.Cut(string(raw), `"id":`)
				id := rest[:max(strings.IndexAny(rest, ",}"), 0)]
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, strings.ReplaceAll(test.body, "ID", id))
			}))
			defer srv.Close()
			h, err := upstream.NewHTTP(upstream.HTTPOptions{Upstreams: map[string]upstream.HTTPUpstream{"r/s": {URL: srv.URL}}})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			s := &backend{dialer: h}
			s.owner = "r/s"
			if err := s.look(t.Context()); (err == nil) != test.there {
				t.Error(err)
			}
			if srv.Close(); s.look(t.Context()) == nil {
				t.Error("a closed port is there")
			}
		})
	}
}

// TestHealthOfFile: what a file says of health reaches the route, where a 0
// means the default.
func TestHealthOfFile(t *testing.T) {
	f, problems := parsed("", "")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for said, want := range map[int]int{3: 3, 0: -1} {
		in := f.Routes[0].Upstreams[0]
		in.Health.FailAfter = said
		u, err := upstreamOf(&app{}, &f.Routes[0], &in)
		if err != nil {
			t.Fatal(err)
		}
		if h := u.health; h.FailAfter != want || h.Timeout != in.Health.Timeout || h.PassAfter != 2 || h.Interval != 0 {
			t.Errorf("%d: %+v", said, h)
		}
	}
}
