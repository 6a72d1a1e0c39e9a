package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

const discoverCall = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`

var modernHeader = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/list"}}

// challenging answers everything with a challenge and publishes metadata.
func challenging(t *testing.T, metadata http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/", metadata)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("WWW-Authenticate", `Bearer realm="m", error="invalid_token", scope="a b", resource_metadata="http://`+r.Host+`/.well-known/oauth-protected-resource/mcp"`)
		w.Header().Add("WWW-Authenticate", `Basic realm="m"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL + "/mcp"
}

func document(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/.well-known/oauth-protected-resource/mcp" {
		http.NotFound(w, r)
		return
	}
	if r.Header.Get("Authorization") != "" {
		http.Error(w, "a credential was sent for a public document", http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, `{"resource":"http://%s/mcp", "authorization_servers":["https://as.example"],"x":1.0}`, r.Host)
}

// Case B36, with a public URL: only resource_metadata is rewritten, and where
// it points to there is a document about that URL.
func TestCaseB36_ResourceMetadata(t *testing.T) {
	up := challenging(t, document)
	const public = "https://gw.example/team/mcp"
	s := serve(t, "--upstream", up, "--upstream-era", "modern", "--public-url", public, "--allowed-host", "127.0.0.1")
	status, header, _ := ask(t, http.MethodPost, s.url, modernHeader, discoverCall)
	want := []string{`Bearer realm="m", error="invalid_token", scope="a b", resource_metadata="https://gw.example/.well-known/oauth-protected-resource/team/mcp"`, `Basic realm="m"`}
	if got := header["Www-Authenticate"]; status != 401 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("status %d, %q", status, got)
	}
	root := strings.TrimSuffix(s.url, "/mcp")
	for _, place := range []string{"/.well-known/oauth-protected-resource/team/mcp", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"} {
		status, header, body := ask(t, http.MethodGet, root+place, nil, "")
		if want := `{"resource":"` + public + `", "authorization_servers":["https://as.example"],"x":1.0}`; status != 200 || body != want || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", place, status, body)
		}
	}
	if status, _, _ := ask(t, http.MethodGet, root+"/.well-known/oauth-protected-resource/other", nil, ""); status != 404 {
		t.Errorf("another path: %d", status)
	}
	if status, _, _ := ask(t, http.MethodPost, root+"/.well-known/oauth-protected-resource", modernHeader, "{}"); status != 405 {
		t.Errorf("POST: %d", status)
	}
}

// Without a public URL, and with a credential of our own, nothing is served.
func TestCaseB36_NoMetadata(t *testing.T) {
	for name, args := range map[string][]string{
		"no public URL":  nil,
		"own credential": {"--public-url", "https://gw.example/mcp", "--allowed-host", "127.0.0.1", "--header", "Authorization: Bearer ours", "--allow-open"},
	} {
		t.Run(name, func(t *testing.T) {
			up := challenging(t, document)
			s := serve(t, append([]string{"--upstream", up, "--upstream-era", "modern"}, args...)...)
			status, _, _ := ask(t, http.MethodGet, strings.TrimSuffix(s.url, "/mcp")+"/.well-known/oauth-protected-resource/mcp", nil, "")
			if status != 404 {
				t.Errorf("metadata: %d", status)
			}
			if name == "no public URL" {
				_, header, _ := ask(t, http.MethodPost, s.url, modernHeader, discoverCall)
				if !strings.Contains(header.Get("Www-Authenticate"), strings.TrimPrefix(up, "http://")[:9]) {
					t.Errorf("the challenge does not pass whole: %q", header["Www-Authenticate"])
				}
			}
		})
	}
}

// What a challenge names is never fetched: the metadata served is the configured
// server's own.
func TestSafetyS19_NamedInAChallenge(t *testing.T) {
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked.Add(1) }))
	defer elsewhere.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/", document)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+elsewhere.URL+`/latest/meta-data"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	s := serve(t, "--upstream", srv.URL+"/mcp", "--upstream-era", "modern", "--public-url", "https://gw.example/mcp", "--allowed-host", "127.0.0.1")
	status, header, _ := ask(t, http.MethodPost, s.url, modernHeader, discoverCall)
	if got := header.Get("Www-Authenticate"); status != 401 || strings.Contains(got, elsewhere.URL) {
		t.Errorf("%d %q", status, got)
	}
	if status, _, body := ask(t, http.MethodGet, strings.TrimSuffix(s.url, "/mcp")+"/.well-known/oauth-protected-resource/mcp", nil, ""); status != 200 || !strings.Contains(body, "as.example") {
		t.Errorf("metadata: %d %s", status, body)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests went where the challenge points", n)
	}
}

// Metadata that is not the server's own is not passed on.
func TestSafetyS19_MetadataRefused(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		write  http.HandlerFunc
	}{
		"none":     {404, http.NotFound},
		"redirect": {502, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }},
		"other resource": {502, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, `{"resource":"https://other.example/mcp"}`)
		}},
		"other path":   {502, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, `{"resource":"http://%s/mc"}`, r.Host) }},
		"whole origin": {200, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, `{"resource":"http://%s/"}`, r.Host) }},
		"no resource":  {502, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{}`) }},
		"repeated member": {502, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"resource":"http://%s/mcp","resource":"https://x/"}`, r.Host)
		}},
		"not JSON": {502, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `<html>`) }},
		"too large": {502, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"resource":"http://%s/mcp","x":"%s"}`, r.Host, strings.Repeat("x", 64<<10))
		}},
		"server in trouble": {502, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "--upstream", challenging(t, c.write), "--upstream-era", "modern", "--public-url", "https://gw.example/mcp", "--allowed-host", "127.0.0.1")
			status, _, body := ask(t, http.MethodGet, strings.TrimSuffix(s.url, "/mcp")+"/.well-known/oauth-protected-resource/mcp", nil, "")
			if status != c.status {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}
