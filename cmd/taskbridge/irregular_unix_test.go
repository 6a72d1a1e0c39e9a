//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/cmd/taskbridge/config"
)

// TestReload_Irregular: a pipe nobody writes to and a device without end stand
// where the configuration was. Each is said to be no good at once, what ran goes
// on, and the file is taken again when it is back.
func TestReload_Irregular(t *testing.T) {
	text := fmt.Sprintf("listen: 127.0.0.1:0\nroutes:\n  - {path: /one, upstream: %q}\n", peer(t, peers.NewModernServer(peers.ServerOptions{})))
	f := startFile(t, text)
	defer f.watch()()
	for what, spoil := range map[string]func() error{
		"a pipe":   func() error { return syscall.Mkfifo(f.name, 0o600) },
		"a device": func() error { return os.Symlink("/dev/zero", f.name) },
		"a loop":   func() error { return os.Symlink(f.name, f.name) },
	} {
		if err := os.Remove(f.name); err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- f.reload(t.Context(), "a test") }()
		select {
		case err := <-done:
			if err == nil || what != "a loop" && !strings.Contains(err.Error(), "is no regular file") {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: the reading does not end", what)
		}
		if status, _, _ := ask(t, http.MethodPost, f.root+"/one", modernHeader, discoverCall); status != 200 {
			t.Errorf("%s: what ran does not any more", what)
		}
		_ = os.Remove(f.name)
		writeConfig(t, f.name, text)
		eventually(t, "good again after "+what, func() bool { ok, _ := f.last(); return ok })
	}
}

// TestAppendFile_Pipe: a pipe that nobody reads is refused, at the start and where
// it took the place of a file; one that somebody reads gets the lines.
func TestAppendFile_Pipe(t *testing.T) {
	dir := t.TempDir()
	pipe, name := filepath.Join(dir, "pipe"), filepath.Join(dir, "log")
	must(t, syscall.Mkfifo(pipe, 0o600))
	f, err := openAppend(name)
	must(t, err)
	defer f.close()
	must(t, os.Remove(name))
	must(t, syscall.Mkfifo(name, 0o600))
	got := make(chan error, 2)
	go func() {
		_, err := openAppend(pipe)
		got <- err
		got <- f.reopen()
	}()
	for range 2 {
		select {
		case err := <-got:
			if err == nil {
				t.Error("a pipe nobody reads was opened")
			}
		case <-time.After(30 * time.Second):
			t.Fatal("a pipe nobody reads is waited for")
		}
	}
	r, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer r.Close()
	must(t, f.reopen())
	fmt.Fprint(f, "1\n")
	line := make([]byte, 2)
	if _, err := io.ReadFull(r, line); err != nil || string(line) != "1\n" {
		t.Errorf("%q %v", line, err)
	}
}

// TestConfig_IrregularFiles: none of the files a configuration names is waited for.
func TestConfig_IrregularFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, keys := range []string{
		"state-keys: [pipe]",
		"principal: jwt:pipe\njwt-audience: [a]",
		"admin: {address: '127.0.0.1:1', token-file: pipe}",
		"listeners: [{address: '127.0.0.1:0', tls: {cert: pipe, key: pipe}}]",
		"defaults: {era: auto}\nroutes: [{upstream: {url: 'http://127.0.0.1:1/mcp', header-files: [pipe]}}]",
		"defaults: {era: auto}\nroutes: [{upstream: {url: 'https://127.0.0.1:1/mcp', ca: pipe}}]",
	} {
		text := keys + "\n"
		if !strings.Contains(keys, "routes:") {
			text += "routes: [{upstream: 'http://127.0.0.1:1/mcp'}]\n"
		}
		name := filepath.Join(dir, "c.yaml")
		writeConfig(t, name, text)
		_, problems := config.Load(name, nil, os.LookupEnv, nil)
		if len(problems) == 0 || !strings.Contains(problems[0].Text, "is no regular file") {
			t.Errorf("%s: %v", keys, problems)
		}
	}
	if _, problems := config.Load(pipe, nil, os.LookupEnv, nil); len(problems) != 1 || !strings.Contains(problems[0].Text, "to pipe a configuration in, name it -") {
		t.Errorf("the configuration itself: %v", problems)
	}
}
