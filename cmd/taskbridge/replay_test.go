package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskbridge/cmd/peers"
)

// recordLegacy plays a legacy client before a server, through serve --record, and
// gives back the capture.
func recordLegacy(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "capture.jsonl")
	s := serve(t, "--upstream", server, "--record", file)
	c := &peers.LegacyClient{URL: s.url, OnRequest: peers.Accept(map[string]any{"name": "Ada", "confirm": true})}
	if _, err := c.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	playTools(t, c)
	if _, err := c.RunTask(t.Context(), "confirm_delete", map[string]any{"filename": "a.txt"}, nil); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if code := s.end(); code != exitOK {
		t.Fatalf("serve: exit %d: %s", code, s.stderr)
	}
	return file
}

func recordModern(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "capture.jsonl.gz")
	s := serve(t, "--upstream", server, "--record", file)
	c := &peers.ModernClient{URL: s.url, Tasks: true}
	if _, err := c.Discover(t.Context()); err != nil {
		t.Fatal(err)
	}
	playTools(t, c)
	if _, err := c.RunTask(t.Context(), "confirm_delete", map[string]any{"filename": "a.txt"}, peers.Accept(map[string]any{"confirm": true})); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if code := s.end(); code != exitOK {
		t.Fatalf("serve: exit %d: %s", code, s.stderr)
	}
	return file
}

func playTools(t *testing.T, c interface {
	Call(ctx context.Context, method string, params any) (peers.Reply, error)
}) {
	t.Helper()
	for _, call := range [][2]string{
		{"tools/list", `{}`},
		{"tools/call", `{"name":"greet","arguments":{"name":"Ada"}}`},
		{"tools/call", `{"name":"echo","arguments":{"n":1}}`},
		{"resources/read", `{"uri":"demo://readme"}`},
	} {
		if _, err := c.Call(t.Context(), call[0], json.RawMessage(call[1])); err != nil {
			t.Fatal(err)
		}
	}
}

func legacyPeer(t *testing.T) string {
	return peer(t, peers.NewLegacyServer(peers.ServerOptions{}))
}
func modernPeer(t *testing.T) string {
	return peer(t, peers.NewModernServer(peers.ServerOptions{}))
}

// TestReplayRecorded: what serve records is the same again, before the same kind
// of server and, but for declared losses, before the other.
func TestReplayRecorded(t *testing.T) {
	for _, c := range []struct {
		name     string
		record   func(*testing.T, string) string
		from, to func(*testing.T) string
	}{
		{"legacy client, legacy server", recordLegacy, legacyPeer, legacyPeer},
		{"legacy client, modern server", recordLegacy, modernPeer, modernPeer},
		{"modern client, legacy server", recordModern, legacyPeer, legacyPeer},
		{"modern client, modern server", recordModern, modernPeer, modernPeer},
		{"legacy client, from legacy to modern", recordLegacy, legacyPeer, modernPeer},
		{"legacy client, from modern to legacy", recordLegacy, modernPeer, legacyPeer},
		{"modern client, from legacy to modern", recordModern, legacyPeer, modernPeer},
		{"modern client, from modern to legacy", recordModern, modernPeer, legacyPeer},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := c.record(t, c.from(t))
			page := filepath.Join(t.TempDir(), "report.html")
			args := []string{"replay", file, "--upstream", c.to(t), "--allow-unannotated", "--ignore", "$.result.capabilities.logging", "--json", "-", "--html", page}
			code, stdout, stderr := runArgs(t, args...)
			if code != exitOK {
				t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
			}
			html, err := os.ReadFile(page)
			if err != nil || len(html) == 0 || strings.Contains(string(html)+stdout+stderr, "tb1_") {
				t.Errorf("a handle is in the clear, or there is no page: %v", err)
			}
		})
	}
}

// TestReplaySkips: tools nobody vouches for are left alone, which is no success.
func TestReplaySkips(t *testing.T) {
	server := peers.NewLegacyServer(peers.ServerOptions{})
	url := peer(t, server)
	file := recordLegacy(t, url)
	before := server.Calls("greet")
	code, stdout, stderr := runArgs(t, "replay", file, "--upstream", url, "--allow", "echo")
	if code != exitFailed || !strings.Contains(stderr, "inconclusive") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	if server.Calls("greet") != before || server.Calls("echo") != 2 {
		t.Errorf("greet was called %d times more, echo %d times in all", server.Calls("greet")-before, server.Calls("echo"))
	}
	// What was left out is in the verdict, in whatever form it is told.
	junit := filepath.Join(t.TempDir(), "junit.xml")
	code, stdout, stderr = runArgs(t, "replay", file, "--upstream", url, "--only", "tool:greet", "--junit", junit)
	if code != exitFailed || !strings.Contains(stdout, ": inconclusive\n") || !strings.Contains(stderr, "inconclusive: 0 operations are the same, but 1 were not replayed") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	if raw, err := os.ReadFile(junit); err != nil || !strings.Contains(string(raw), "1 were not replayed") {
		t.Errorf("%v %s", err, raw)
	}
	code, stdout, _ = runArgs(t, "replay", file, "--upstream", url, "--only", "tool:greet", "--json", "-")
	if code != exitFailed || !strings.Contains(stdout, `"verdict": "inconclusive"`) {
		t.Errorf("exit %d\n%s", code, stdout)
	}
	code, stdout, _ = runArgs(t, "replay", file, "--dry-run")
	if code != exitOK || !strings.Contains(stdout, "tools/call greet: nothing says that tool greet only reads; allow it with --allow greet") ||
		!strings.Contains(stdout, "operations would be sent and compared") || !strings.Contains(stdout, "principal ") {
		t.Errorf("exit %d\n%s", code, stdout)
	}
}

// TestReplayDifferent: a difference is exit 1, and told.
func TestReplayDifferent(t *testing.T) {
	file := recordModern(t, modernPeer(t))
	modern := peers.NewModernServer(peers.ServerOptions{NoTasks: true})
	code, stdout, stderr := runArgs(t, "replay", file, "--upstream", peer(t, modern), "--allow-unannotated", "--only", "method:server/discover")
	if code != exitFailed || !strings.Contains(stderr, "different: 1 of 1 operations") || !strings.Contains(stdout, "server/discover") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
}

// TestReplayUpdate: the capture is replaced by what the server says now, if all
// of it was said again, and stays as it is otherwise.
func TestReplayUpdate(t *testing.T) {
	file := recordLegacy(t, legacyPeer(t))
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	modern := modernPeer(t)
	if code, _, stderr := runArgs(t, "replay", file, "--upstream", modern, "--update"); code != exitFailed || !strings.Contains(stderr, "stays as it is") {
		t.Errorf("with skips: exit %d, %s", code, stderr)
	}
	if now, _ := os.ReadFile(file); string(now) != string(was) {
		t.Error("the capture was changed although not all was replayed")
	}
	if code, stdout, stderr := runArgs(t, "replay", file, "--upstream", modern, "--update", "--allow-unannotated"); !strings.Contains(stderr, "holds what the server says now") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if code, stdout, stderr := runArgs(t, "replay", file, "--upstream", modern, "--allow-unannotated"); code != exitOK {
		t.Errorf("against what it was made of: exit %d\n%s\n%s", code, stdout, stderr)
	}
	raw, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(raw), "tb1_") {
		t.Errorf("a handle is in the clear: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

// TestReplayExitCodes: a server that is not there is 3, one that refuses us 4.
func TestReplayExitCodes(t *testing.T) {
	file := recordLegacy(t, legacyPeer(t))
	closed := peer(t, refusing{})
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"unreachable", []string{"--upstream", "http://127.0.0.1:1/mcp"}, exitUnreachable, "127.0.0.1:1"},
		{"refused", []string{"--upstream", closed}, exitRefused, "401"},
		{"our credential refused", []string{"--upstream", closed, "--header", "Authorization: Bearer x"}, exitRefused, "401"},
		{"no server", nil, exitUsage, "no server given"},
		{"filter", []string{"--upstream", closed, "--only", "colour:red"}, exitUsage, "there is no key"},
		{"slower", []string{"--upstream", closed, "--slower", "soon"}, exitUsage, "100ms,2x"},
		{"ignore", []string{"--upstream", closed, "--ignore", "$["}, exitUsage, "JSONPath"},
		{"nothing selected", []string{"--upstream", closed, "--only", "tool:none"}, exitUsage, "no operation"},
		{"update of a part", []string{"--upstream", closed, "--update", "--only", "tool:greet"}, exitUsage, "--update"},
	} {
		code, _, stderr := runArgs(t, append([]string{"replay", file}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, want %d; %s", c.name, code, c.code, stderr)
		}
	}
	for _, name := range []string{"", "nothing-here"} {
		if code, _, _ := runArgs(t, "replay", name, "--upstream", closed); code != exitUsage {
			t.Errorf("capture %q: exit %d", name, code)
		}
	}
}

// refusing is a server that wants a credential nobody has.
type refusing struct{}

func (refusing) Close() error { return nil }

// ServeHTTP implements http.Handler.
func (refusing) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	w.WriteHeader(http.StatusUnauthorized)
}

// TestReplayCredentialsSent: each caller of the capture is sent with the value
// given for it.
func TestReplayCredentialsSent(t *testing.T) {
	file := recordLegacy(t, legacyPeer(t))
	_, stdout, _ := runArgs(t, "replay", file, "--dry-run")
	_, rest, _ := strings.Cut(stdout, "principal ")
	hash, _, ok := strings.Cut(rest, ":")
	if !ok {
		t.Fatalf("no principal is named:\n%s", stdout)
	}
	creds := filepath.Join(t.TempDir(), "creds")
	if err := os.WriteFile(creds, []byte(hash+" Bearer hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	guarded := peer(t, wantsToken{peers.NewLegacyServer(peers.ServerOptions{})})
	args := []string{"replay", file, "--upstream", guarded, "--allow-unannotated"}
	if code, _, stderr := runArgs(t, args...); code != exitRefused {
		t.Errorf("without a credential: exit %d %s", code, stderr)
	}
	code, stdout, stderr := runArgs(t, append(args, "--credentials", creds)...)
	if code != exitOK || strings.Contains(stdout+stderr, "hunter2") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
}

// wantsToken is a server that only one caller may use.
type wantsToken struct{ *peers.LegacyServer }

// ServeHTTP implements http.Handler.
func (s wantsToken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer hunter2" {
		refusing{}.ServeHTTP(w, r)
		return
	}
	s.LegacyServer.ServeHTTP(w, r)
}

// TestReplayCredentials: values never show, whatever is wrong with the file.
func TestReplayCredentials(t *testing.T) {
	a := &app{stdin: strings.NewReader("")}
	file := filepath.Join(t.TempDir(), "creds")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# who\nabc Bearer hunter2\n\ndef: Basic eDp5\n")
	got, err := a.readCredentials(file)
	if err != nil || got["abc"] != "Bearer hunter2" || got["def"] != "Basic eDp5" {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"hunter2", "abc Bearer hunter2\x01", "abc Bearer ${hunter2"} {
		write(bad)
		if _, err := a.readCredentials(file); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestReplayAs: the clients of a capture speak another dialect.
func TestReplayAs(t *testing.T) {
	file := recordLegacy(t, legacyPeer(t))
	code, stdout, stderr := runArgs(t, "replay", file, "--upstream", modernPeer(t), "--allow-unannotated", "--as", "2026-07-28")
	if code != exitOK && code != exitFailed || strings.Contains(stdout+stderr, "panic") || !strings.Contains(stderr, "operations translated") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	t.Logf("exit %d\n%s\n%s", code, stdout, stderr)
}

// TestReplayStdio: what was recorded over standard streams is replayed against a
// process and a URL, of each era.
func TestReplayStdio(t *testing.T) {
	for _, client := range []bool{false, true} {
		for _, from := range []bool{false, true} {
			file := filepath.Join(t.TempDir(), "capture.jsonl")
			c := startStdio(t, client, append([]string{"--record", file}, peerArgs(t, from, true)...)...)
			if !client {
				c.initialize()
			}
			c.must("tools/list", nil, nil)
			c.tool("greet", map[string]any{"name": "Ada"})
			c.tool("ask_name", map[string]any{})
			if code := c.end(); code != exitOK {
				t.Fatalf("stdio: exit %d: %s", code, c.stderr)
			}
			for _, to := range []bool{false, true} {
				for _, process := range []bool{false, true} {
					name := fmt.Sprintf("%s client from %s to %s, process %v", eraName(client), eraName(from), eraName(to), process)
					t.Run(name, func(t *testing.T) {
						args := append([]string{"replay", file, "--allow-unannotated", "--ignore", "$.result.capabilities.logging"}, urlOrCommand(peerArgs(t, to, process))...)
						if code, stdout, stderr := runArgs(t, args...); code != exitOK {
							t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
						}
					})
				}
			}
		}
	}
}

// urlOrCommand gives a URL its flag.
func urlOrCommand(args []string) []string {
	if len(args) == 1 {
		return []string{"--upstream", args[0]}
	}
	return args
}
