package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskbridge/cmd/peers"
)

func wantFile(t *testing.T, name, want string) {
	t.Helper()
	if raw, err := os.ReadFile(name); err != nil || string(raw) != want {
		t.Errorf("%s: %q %v, want %q", filepath.Base(name), raw, err, want)
	}
}

// A file that was moved away goes on in a new one once it is opened anew; one
// that cannot be opened goes on where it was.
func TestAppendFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	must(t, os.Mkdir(dir, 0o700))
	name := filepath.Join(dir, "log")
	f, err := openAppend(name)
	must(t, err)
	defer f.close()
	fmt.Fprintln(f, "1")
	must(t, os.Rename(name, name+".1"))
	fmt.Fprintln(f, "2")
	must(t, f.reopen())
	fmt.Fprintln(f, "3")
	wantFile(t, name+".1", "1\n2\n")
	wantFile(t, name, "3\n")
	must(t, os.Rename(dir, dir+".old"))
	if err := f.reopen(); err == nil {
		t.Error("a file in a folder that is gone was opened")
	}
	fmt.Fprintln(f, "4")
	wantFile(t, filepath.Join(dir+".old", "log"), "3\n4\n")
}

// What SIGHUP does beside reading the configuration.
func TestReload_Reopens(t *testing.T) {
	up := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	dir := t.TempDir()
	audit := filepath.Join(dir, "audit")
	f := startFile(t, fmt.Sprintf("listen: 127.0.0.1:0\ntelemetry: {audit: %q}\nroutes:\n  - {path: /mcp, upstream: %q}\n", "file:"+audit, up))
	logs, err := (&logFlags{level: "info", format: "text", file: filepath.Join(dir, "log")}).start(&app{}, nil)
	must(t, err)
	defer logs.close()
	f.logs = logs
	for _, name := range []string{audit, logs.file.name} {
		must(t, os.Rename(name, name+".1"))
	}
	f.reopen()
	f.logs.Info("after")
	if raw, err := os.ReadFile(logs.file.name); err != nil || !strings.Contains(string(raw), "after") {
		t.Errorf("the new log holds %q %v", raw, err)
	}
	audited := modernClient(t, f.root+"/mcp")
	_, err = audited.RunTask(t.Context(), "confirm_delete", map[string]any{"filename": "a"}, peers.Accept(map[string]any{"confirm": true}))
	must(t, err)
	eventually(t, "audit lines in the new file", func() bool {
		raw, err := os.ReadFile(audit)
		return err == nil && strings.Contains(string(raw), "created")
	})
	wantFile(t, audit+".1", "")
}

// A reload takes another log level.
func TestReload_LogLevel(t *testing.T) {
	up := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	text := func(level string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nlog: {level: %s}\nroutes:\n  - {path: /mcp, upstream: %q}\n", level, up)
	}
	f := startFile(t, text("warn"))
	var err error
	f.logs, err = f.current.logs.start(&app{stderr: io.Discard}, nil)
	must(t, err)
	for _, tt := range []struct {
		level string
		least slog.Level
	}{{"warn", slog.LevelWarn}, {"debug", slog.LevelDebug}, {"off", levelOff}, {"error", slog.LevelError}} {
		must(t, f.put(text(tt.level)))
		if ctx := context.Background(); !f.logs.Enabled(ctx, tt.least) || f.logs.Enabled(ctx, tt.least-1) {
			t.Errorf("%s: the level is %s", tt.level, f.logs.level.Level())
		}
	}
	if err := f.put("listen: 127.0.0.1:0\nlog: {level: debug}\nroutes: []\n"); err == nil || f.logs.Enabled(context.Background(), slog.LevelInfo) {
		t.Errorf("a file that was refused changed the level, or was not: %v", err)
	}
}

// A reload reads the admin token again: the new one counts, the old one no more.
// Another place, another file or none at all needs a restart.
func TestReload_AdminToken(t *testing.T) {
	up := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	token := func(word string) string { return strings.Repeat(word, 16) }
	put := func(word string) { must(t, os.WriteFile(file, []byte(token(word)), 0o600)) }
	text := func(admin string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\n%sroutes:\n  - {path: /mcp, upstream: %q}\n", admin, up)
	}
	put("a")
	with := text(fmt.Sprintf("admin: {address: \"127.0.0.1:0\", token-file: %q}\n", file))
	f := startFile(t, with)
	f.serveAdmin(newAdmin(adminOptions{metrics: newMetrics(), log: slog.New(slog.DiscardHandler)}.at(f.current.admin)))
	srv, err := f.admin.server()
	must(t, err)
	web := httptest.NewServer(srv.Handler)
	defer web.Close()
	wantToken := func(good, bad string) {
		t.Helper()
		for word, want := range map[string]int{good: 200, bad: 401} {
			if status, _, body := ask(t, http.MethodGet, web.URL+"/status", http.Header{"Authorization": {"Bearer " + token(word)}}, ""); status != want {
				t.Errorf("token %s: %d %s, want %d", word, status, body, want)
			}
		}
	}
	wantToken("a", "b")
	put("b")
	wantToken("a", "b")
	must(t, f.put(with))
	wantToken("b", "a")
	put("c")
	for name, other := range map[string]string{
		"no token": text("admin: {address: \"127.0.0.1:0\"}\n"), "no admin": text(""),
		"another address": strings.Replace(with, "127.0.0.1:0\", token", "127.0.0.1:1\", token", 1),
		"another file":    strings.Replace(with, "/token", "/../"+filepath.Base(dir)+"/token", 1),
		"wrong elsewhere": strings.Replace(with, "path: /mcp", "path: mcp", 1),
	} {
		if err := f.put(other); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
	wantToken("b", "c")
	must(t, os.WriteFile(file, []byte("short"), 0o600))
	if err := f.put(with); err == nil {
		t.Error("a token that could be guessed was taken")
	}
	wantToken("b", "a")
}
