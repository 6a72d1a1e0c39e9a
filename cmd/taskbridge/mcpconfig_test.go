package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	readmeClient = regexp.MustCompile(`(?m)^### (.+)$`)
	readmeBlock  = regexp.MustCompile("(?s)```(json|toml)\n(.*?)```")
)

// readmeClients are the entries README shows, by client: before and after.
func readmeClients(t *testing.T) map[string][2][]clientServer {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(raw), "## In a client's configuration\n")
	text, _, _ = strings.Cut(text, "\n## ")
	out := map[string][2][]clientServer{}
	heads := readmeClient.FindAllStringSubmatchIndex(text, -1)
	for i, h := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		name, part := text[h[2]:h[3]], text[h[1]:end]
		blocks := readmeBlock.FindAllStringSubmatch(part, -1)
		if len(blocks) != 2 {
			t.Fatalf("%s: %d entries, want one before and one after", name, len(blocks))
		}
		var two [2][]clientServer
		for j, b := range blocks {
			file := filepath.Join(t.TempDir(), "config."+b[1])
			if err := os.WriteFile(file, []byte(b[2]), 0o600); err != nil {
				t.Fatal(err)
			}
			if two[j], err = readMCPConfig(file); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(two[j]) != 1 {
				t.Fatalf("%s: %d servers", name, len(two[j]))
			}
		}
		out[name] = two
	}
	return out
}

// TestReadmeConfigs: each entry parses, and the one after is a command line we
// take that leads to the server of the one before.
func TestReadmeConfigs(t *testing.T) {
	clients := readmeClients(t)
	for _, name := range []string{"Claude Desktop", "Claude Code", "VS Code", "Cursor", "Windsurf", "Gemini CLI", "Codex", "Zed", "Servers that want OAuth"} {
		two, ok := clients[name]
		if !ok {
			t.Errorf("README does not show %s", name)
			continue
		}
		before, after := two[0][0], two[1][0]
		if before.name != after.name || after.command != "taskbridge" || len(after.args) == 0 || after.args[0] != "stdio" {
			t.Errorf("%s: %+v", name, after)
			continue
		}
		t.Setenv("TOKEN", "secret")
		t.Setenv("API_KEY", "…")
		f := &upstreamFlags{}
		cmd := (&app{}).stdioCommand()
		if err := cmd.ParseFlags(after.args[1:]); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rest := f.splitCommand(cmd, cmd.Flags().Args())
		switch {
		case before.command != "":
			if want := append([]string{before.command}, before.args...); !slices.Equal(f.command, want) {
				t.Errorf("%s: runs %q, want %q", name, f.command, want)
			}
		case len(rest) != 1 || rest[0] != before.url:
			t.Errorf("%s: leads to %q, want %q", name, rest, before.url)
		}
		if !reflect.DeepEqual(len(before.env) > 0, slices.Contains(after.args, "-e")) {
			t.Errorf("%s: environment %v is not handed on: %q", name, before.env, after.args)
		}
	}
}

func TestReadMCPConfig(t *testing.T) {
	for _, c := range []struct {
		name, ext, text string
		want            clientServer
		fails           string
	}{
		{"stdio", "json", `{"mcpServers":{"a":{"command":"c","args":["1","2"],"env":{"K":"v"},"cwd":"/d"}}}`,
			clientServer{name: "a", command: "c", args: []string{"1", "2"}, env: map[string]string{"K": "v"}, cwd: "/d"}, ""},
		{"headers", "json", `{"servers":{"a":{"type":"http","url":"https://h/mcp","headers":{"A":"b"}}},"inputs":[]}`,
			clientServer{name: "a", url: "https://h/mcp", headers: map[string]string{"A": "b"}}, ""},
		{"HTTP+SSE", "json", `{"mcpServers":{"a":{"type":"sse","url":"https://h/sse"}}}`, clientServer{name: "a", url: "https://h/sse", sse: true}, ""},
		{"a type of a command says nothing", "json", `{"mcpServers":{"a":{"type":"sse","command":"c"}}}`, clientServer{name: "a", command: "c"}, ""},
		{"VS Code settings", "json", `{"mcp":{"servers":{"a":{"url":"https://h/mcp"}}}}`, clientServer{name: "a", url: "https://h/mcp"}, ""},
		{"older Zed", "json", `{"context_servers":{"a":{"command":{"path":"c","args":["1"],"env":{}}}}}`, clientServer{name: "a", command: "c", args: []string{"1"}}, ""},
		{"Codex over HTTP", "toml", "[mcp_servers.a]\nurl = \"https://h/mcp\"\nbearer_token_env_var = \"T\"\n[mcp_servers.a.env_http_headers]\nX = \"Y\"\n",
			clientServer{name: "a", url: "https://h/mcp", headers: map[string]string{"Authorization": "Bearer ${T}", "X": "${Y}"}}, ""},
		{"comments", "json", "\xef\xbb\xbf// first\n{\"mcpServers\": {/* a \" b */ \"a\": {\"command\": \"http://x // y\", \"args\": [\"1\",\n ],},},}",
			clientServer{name: "a", command: "http://x // y", args: []string{"1"}}, ""},
		{"no list", "json", `{"other":{}}`, clientServer{}, "holds no list of servers"},
		{"no command", "json", `{"mcpServers":{"a":{}}}`, clientServer{}, "neither a command nor a URL"},
		{"no JSON", "json", `{"mcpServers":`, clientServer{}, "unexpected end"},
		{"args", "json", `{"mcpServers":{"a":{"command":"c","args":[1]}}}`, clientServer{}, "list of strings"},
	} {
		file := filepath.Join(t.TempDir(), "x."+c.ext)
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readMCPConfig(file)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		for _, m := range []*map[string]string{&c.want.env, &c.want.headers} {
			if *m == nil {
				*m = map[string]string{}
			}
		}
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], c.want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", c.name, err, got, c.want)
		}
	}
}

func TestProbeMCPConfig(t *testing.T) {
	server := func(era string) map[string]any {
		return map[string]any{"command": os.Args[0], "env": map[string]string{asPeer: era}}
	}
	raw, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"old": server("legacy"), "new": server("modern"), "broken": map[string]any{"command": "no-such-program"}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runArgs(t, "probe", "--mcp-config", file)
	if code != exitUnreachable || !strings.Contains(stdout, "modern, 2026-07-28") || !strings.Contains(stdout, "legacy, 2025-11-25") || !strings.Contains(stdout, "no-such-program") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	code, stdout, stderr = runArgs(t, "probe", "--mcp-config", file, "--server", "old", "--json")
	if code != exitOK || !strings.Contains(stdout, `"era":"legacy"`) {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	if code, _, stderr = runArgs(t, "probe", "--mcp-config", file, "--server", "gone"); code != exitUsage || !strings.Contains(stderr, `"gone": is not in`) {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
