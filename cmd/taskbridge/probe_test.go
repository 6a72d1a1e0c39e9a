package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskbridge/cmd/peers"
)

func TestProbe(t *testing.T) {
	modern := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	legacy := peer(t, peers.NewLegacyServer(peers.ServerOptions{NoTasks: true}))
	code, stdout, stderr := runArgs(t, "probe", modern)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{modern + "\n", "transport     streamable-http\n", "era           modern, 2026-07-28\n", "tasks         yes, the tasks extension\n", "capabilities  ", "server        "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("lacks %q:\n%s", want, stdout)
		}
	}
	code, stdout, _ = runArgs(t, "probe", "--upstream", legacy)
	if code != exitOK || !strings.Contains(stdout, "legacy, 2025-11-25\n") || !strings.Contains(stdout, "tasks         no\n") {
		t.Errorf("exit %d:\n%s", code, stdout)
	}
	code, stdout, _ = runArgs(t, "probe", legacy, "--json")
	var r struct {
		URL, Transport, Era, Version string
		Versions                     []string
		Tasks, Session               bool
		ServerInfo                   struct{ Name string }
		Capabilities                 map[string]any
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exitOK {
		t.Fatalf("exit %d, %v: %s", code, err, stdout)
	}
	if r.URL != legacy || r.Transport != "streamable-http" || r.Era != "legacy" || r.Version != "2025-11-25" || len(r.Versions) != 1 || r.Tasks || !r.Session || r.ServerInfo.Name == "" || r.Capabilities["tools"] == nil {
		t.Errorf("%s", stdout)
	}
	// The variable names a server; an argument wins over it.
	t.Setenv("TASKBRIDGE_UPSTREAM", modern)
	if code, stdout, _ = runArgs(t, "probe"); code != exitOK || !strings.HasPrefix(stdout, modern) {
		t.Errorf("exit %d: %s", code, stdout)
	}
	if code, stdout, _ = runArgs(t, "probe", legacy); code != exitOK || !strings.HasPrefix(stdout, legacy) {
		t.Errorf("exit %d: %s", code, stdout)
	}
}

func TestProbeFailures(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + ln.Addr().String() + "/mcp"
	ln.Close()
	answer := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(s.Close)
		return s.URL + "/mcp"
	}
	for _, tt := range []struct {
		url      string
		code     int
		name     string
		status   int
		contains string
	}{
		{gone, exitUnreachable, "upstream_unreachable", 0, "connection refused"},
		{answer(401), exitRefused, "upstream_refused", 401, "check the credential"},
		{answer(403), exitRefused, "upstream_refused", 403, "check the credential"},
		{answer(503), exitUnreachable, "upstream_undecided", 503, "try again"},
		{answer(404), exitUnreachable, "upstream_unusable", 404, "check the path"},
	} {
		code, stdout, stderr := runArgs(t, "probe", tt.url)
		if code != tt.code || stdout != "" || !strings.HasPrefix(stderr, "taskbridge: probe "+tt.url+": ") || !strings.Contains(stderr, tt.contains) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", tt.name, code, stdout, stderr)
		}
		secret := strings.Replace(tt.url, "http://", "http://me:hunter2@", 1) + "?key=hunter2"
		code, stdout, stderr = runArgs(t, "probe", secret, "--json", "--header", "X-Key: hunter2")
		var e struct {
			Error struct {
				Code, Message, URL string
				Status             *int
			}
		}
		if err := json.Unmarshal([]byte(stderr), &e); err != nil || strings.Count(stderr, "\n") != 1 {
			t.Fatalf("%s: %v: %q", tt.name, err, stderr)
		}
		status := 0
		if e.Error.Status != nil {
			status = *e.Error.Status
		}
		if code != tt.code || stdout != "" || e.Error.Code != tt.name || status != tt.status || e.Error.URL != tt.url || e.Error.Message == "" {
			t.Errorf("exit %d: %s", code, stderr)
		}
		if strings.Contains(stderr, "hunter2") {
			t.Errorf("a secret is shown: %s", stderr)
		}
	}
}

// TestProbe_Transport: which transport answered, found out or named.
func TestProbe_Transport(t *testing.T) {
	s := serve(t, "--upstream", peer(t, peers.NewLegacyServer(peers.ServerOptions{})))
	sse := strings.TrimSuffix(s.url, "/mcp") + "/sse"
	socket := "ws" + strings.TrimPrefix(s.url, "http")
	file := filepath.Join(t.TempDir(), "mcp.json")
	config := fmt.Sprintf(`{"mcpServers":{"old":{"type":"sse","url":%q},"wrong":{"type":"sse","url":%q},"socket":{"type":"sse","url":%q}}}`, sse, s.url, socket)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string // empty: it fails
	}{
		{[]string{s.url}, "streamable-http"},
		{[]string{sse}, "http+sse"},
		{[]string{sse, "--upstream-transport", "sse"}, "http+sse"},
		{[]string{socket}, "websocket"},
		{peerArgs(t, false, true), "stdio"},
		{peerArgs(t, true, true), "stdio"},
		{[]string{"--mcp-config", file, "--server", "old"}, "http+sse"},
		{[]string{"--mcp-config", file, "--server", "wrong"}, ""},
		{[]string{"--mcp-config", file, "--server", "wrong", "--upstream-transport", "http"}, "streamable-http"},
		{[]string{"--mcp-config", file, "--server", "socket"}, "websocket"},
	} {
		code, text, stderr := runArgs(t, append([]string{"probe"}, c.args...)...)
		if c.want == "" {
			if code != exitUnreachable {
				t.Errorf("%q: exit %d, %s", c.args, code, text)
			}
			continue
		}
		if code != exitOK || !strings.Contains(text, "transport     "+c.want+"\n") {
			t.Errorf("%q: exit %d, want %s:\n%s\n%s", c.args, code, c.want, text, stderr)
		}
		_, raw, _ := runArgs(t, append([]string{"probe", "--json"}, c.args...)...)
		var r struct{ Transport string }
		if err := json.Unmarshal([]byte(raw), &r); err != nil || r.Transport != c.want {
			t.Errorf("%q: %v, want %s: %s", c.args, err, c.want, raw)
		}
	}
}
