package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"taskbridge/cmd/peers"
	"taskbridge/session/bearer/bearertest"
)

// writeConfig writes a configuration file as an editor does that replaces it.
func writeConfig(t *testing.T, name, text string) string {
	t.Helper()
	if name == "" {
		name = filepath.Join(t.TempDir(), "taskbridge.yaml")
	}
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestServeConfig: several listeners and routes in one process, each with its
// own server, for clients of both eras.
func TestServeConfig(t *testing.T) {
	legacy, modern := peers.NewLegacyServer(peers.ServerOptions{}), peers.NewModernServer(peers.ServerOptions{})
	file := writeConfig(t, "", fmt.Sprintf(`
listeners:
  - {name: one, address: "127.0.0.1:0"}
  - {name: two, address: "127.0.0.1:0"}
routes:
  - {name: old, path: /old/mcp, upstream: %q}
  - {name: new, path: /new/mcp, listeners: [one], upstream: %q}
`, peer(t, legacy), peer(t, modern)))
	s := listening(t, "serve", "--config", file)
	lines := listenLine.FindAllStringSubmatch(s.stderr.String(), -1)
	if len(lines) != 2 || strings.HasSuffix(lines[0][1], "/mcp") || !strings.HasSuffix(lines[1][1], "/old/mcp") {
		t.Fatalf("%s", s.stderr)
	}
	if want := "\nroutes on " + lines[0][1] + ": old /old/mcp, new /new/mcp\n"; strings.Count(s.stderr.String(), "routes on ") != 1 || !strings.Contains(s.stderr.String(), want) {
		t.Errorf("%s\nwant one line %q", s.stderr, want)
	}
	one, two := lines[0][1], strings.TrimSuffix(lines[1][1], "/old/mcp")
	for _, url := range []string{one + "/old/mcp", two + "/old/mcp", one + "/new/mcp"} {
		run, err := legacyClient(t, url).RunTask(t.Context(), "confirm_delete", map[string]any{"filename": "a"}, peers.Accept(map[string]any{"confirm": true}))
		wantDeleted(t, run, err)
		run, err = modernClient(t, url).RunTask(t.Context(), "confirm_delete", map[string]any{"filename": "a"}, peers.Accept(map[string]any{"confirm": true}))
		wantDeleted(t, run, err)
	}
	if n, m := legacy.Calls("confirm_delete"), modern.Calls("confirm_delete"); n != 4 || m != 2 {
		t.Errorf("%d calls at the legacy server, %d at the modern one, want 4 and 2", n, m)
	}
	for _, url := range []string{two + "/new/mcp", one + "/mcp", one + "/"} {
		if status, _, _ := ask(t, http.MethodPost, url, modernHeader, discoverCall); status != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", url, status)
		}
	}
}

// TestServeConfig_SessionsApart: what one route gave means nothing at another.
func TestServeConfig_SessionsApart(t *testing.T) {
	url := peer(t, peers.NewLegacyServer(peers.ServerOptions{}))
	file := writeConfig(t, "", fmt.Sprintf("listen: 127.0.0.1:0\nroutes:\n  - {path: /a, upstream: %q}\n  - {path: /b, upstream: %q}\n", url, url))
	root := listening(t, "serve", "--config", file).url
	a := legacyClient(t, root+"/a")
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {a.SessionID()}, "Mcp-Protocol-Version": {"2025-11-25"}}
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	if status, _, body := ask(t, http.MethodPost, root+"/a", h, call); status != 200 {
		t.Errorf("at its own route: %d %s", status, body)
	}
	if status, _, body := ask(t, http.MethodPost, root+"/b", h, call); status != 404 {
		t.Errorf("at another: %d %s", status, body)
	}
}

// TestServeConfig_Match: routes told apart by host and headers, on a listener
// that knows no other names than theirs.
func TestServeConfig_Match(t *testing.T) {
	a, b, c := peers.NewModernServer(peers.ServerOptions{}), peers.NewModernServer(peers.ServerOptions{}), peers.NewModernServer(peers.ServerOptions{})
	file := writeConfig(t, "", fmt.Sprintf("listen: 127.0.0.1:0\nroutes:\n  - {name: a, upstream: %q}\n  - {name: b, host: b.example, upstream: %q}\n  - {name: c, match-headers: {X-Team: red}, upstream: %q}\n", peer(t, a), peer(t, b), peer(t, c)))
	root := listening(t, "serve", "--config", file).url
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ada"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	for i, tt := range []struct {
		host, team string
		path       string
		status     int
		at         *peers.ModernServer
	}{
		{"", "", "/mcp", 200, a}, {"", "blue", "/mcp", 200, a}, {"", "red", "/mcp/", 200, c}, {"b.example", "", "/mcp", 200, b},
		{"b.example:8080", "red", "/mcp", 200, b}, {"c.example", "", "/mcp", 403, nil}, {"b.example", "", "/other", 404, nil}, {"c.example", "", "/other", 403, nil},
	} {
		h := modernHeader.Clone()
		h.Set("Mcp-Method", "tools/call")
		h.Set("Mcp-Name", "greet")
		if tt.host != "" {
			h.Set("Host", tt.host)
		}
		if tt.team != "" {
			h.Set("X-Team", tt.team)
		}
		before := 0
		if tt.at != nil {
			before = tt.at.Calls("greet")
		}
		status, _, body := ask(t, http.MethodPost, root+tt.path, h, call)
		if status != tt.status || tt.at != nil && tt.at.Calls("greet") != before+1 {
			t.Errorf("%d, %+v: %d %s", i, tt, status, body)
		}
	}
}

// TestServeConfig_Audience: where nobody said whom tokens are for, each route
// takes those for its own URL alone.
func TestServeConfig_Audience(t *testing.T) {
	k := bearertest.Ed(t, "k")
	up := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	file := writeConfig(t, "", fmt.Sprintf("listeners:\n  - {address: \"127.0.0.1:0\", public-url: https://gw.example, allowed-hosts: [127.0.0.1]}\nprincipal: jwt:%s\nroutes:\n  - {path: /a, upstream: %q}\n  - {path: /b, upstream: %q}\n", keyFile(t, k), up, up))
	root := listening(t, "serve", "--config", file).url
	token := k.Sign(t, "EdDSA", map[string]any{"iss": "i", "sub": "s", "aud": "https://gw.example/a", "exp": time.Now().Add(time.Hour).Unix()}, nil)
	h := modernHeader.Clone()
	h.Set("Authorization", "Bearer "+token)
	for path, want := range map[string]int{"/a": 200, "/b": 401} {
		if status, header, body := ask(t, http.MethodPost, root+path, h, discoverCall); status != want {
			t.Errorf("%s: %d %v %s", path, status, header, body)
		}
	}
}

// TestServeConfig_Order: a flag wins over its variable, both over the file, and
// that over the default.
func TestServeConfig_Order(t *testing.T) {
	up := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	file := writeConfig(t, "", fmt.Sprintf("listen: 127.0.0.1:1\nlog: {format: json}\nroutes:\n  - upstream: %q\n", up))
	t.Setenv("TASKBRIDGE_CONFIG", file)
	t.Setenv("TASKBRIDGE_LISTEN", "127.0.0.1:2")
	s := listening(t, "serve", "--listen", "127.0.0.1:0")
	if s.url == "" || strings.HasSuffix(s.url, ":2/mcp") || !strings.Contains(s.stderr.String(), `{"time"`) {
		t.Errorf("%s", s.stderr)
	}
}

// TestServeConfig_Refusals: what cannot go together, and what would let anybody
// in, is refused with the place that says it.
func TestServeConfig_Refusals(t *testing.T) {
	const plain = "listen: 127.0.0.1:0\nroutes:\n  - upstream: http://127.0.0.1:1/mcp\n"
	two := "listeners:\n  - {name: a, address: \"127.0.0.1:0\"}\n  - {name: b, address: \"127.0.0.1:0\"}\nroutes:\n  - upstream: http://127.0.0.1:1/mcp\n"
	own := "listen: 127.0.0.1:0\nroutes:\n  - upstream: {url: \"http://127.0.0.1:1/mcp\", headers: {X-Key: hunter2}}\n"
	for _, tt := range []struct {
		name, file string
		args       []string
		env, want  string
	}{
		{"upstream", plain, []string{"--upstream", "http://127.0.0.1:1/"}, "", "--upstream: the servers and their routes are in FILE, and a flag could not say which one it means; write it there, or leave --config out"},
		{"upstream in the environment", plain, nil, "TASKBRIDGE_UPSTREAM", "TASKBRIDGE_UPSTREAM: the servers and their routes are in FILE"},
		{"command", plain, []string{"--", "node"}, "", "the servers are in the file of --config; a command behind -- would be another one, so leave one of them out"},
		{"policy", plain, []string{"--tool-errors", "completed"}, "", "--tool-errors: the servers"},
		{"which listener", two, []string{"--public-url", "https://x.example"}, "", "--public-url: FILE has 2 listeners, and a flag could not say which one it means; write it there"},
		{"open", own, []string{"--listen", "0.0.0.0:0"}, "", "routes[0]: every caller would use its server as us, and other machines can reach it"},
		{"open admin", plain, []string{"--admin", "0.0.0.0:0"}, "", "admin.address: is open to other machines"},
		{"header without front end", plain, []string{"--principal", "header:X-User"}, "", "anyone could send that header"},
		{"no such file", "", nil, "", "cannot be read: no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "none.yaml")
			if tt.file != "" {
				file = writeConfig(t, "", tt.file)
			}
			if tt.env != "" {
				t.Setenv(tt.env, "http://127.0.0.1:1/")
			}
			code, _, stderr := runArgs(t, append([]string{"serve", "--config", file}, tt.args...)...)
			if want := strings.ReplaceAll(tt.want, "FILE", file); code != exitUsage || !strings.Contains(stderr, want) || strings.Contains(stderr, "hunter2") {
				t.Errorf("exit %d: %s\nwant %s", code, stderr, want)
			}
		})
	}
}

// TestOverrides: every flag of serve either goes over a file or belongs to what
// a flag cannot name; whoever adds one decides.
func TestOverrides(t *testing.T) {
	ofRoutes := regexp.MustCompile(`^(upstream.*|header|header-file|connect-timeout|env|cwd|start-timeout|share-child|max-children|path|sse-path|tool-errors|park|undeclared-tasks|task-handle-after|inline-wait)$`)
	f := &serveFlags{}
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.register(fs)
	over := map[string]bool{}
	for _, o := range slices.Concat(overrides, limitOverrides) {
		over[o.flag] = true
		if fs.Lookup(o.flag) == nil {
			t.Errorf("--%s is no flag of serve", o.flag)
		}
	}
	fs.VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "config" && over[flag.Name] == ofRoutes.MatchString(flag.Name) {
			t.Errorf("--%s: give it a row in overrides, or name it here as one of a route", flag.Name)
		}
	})
}
