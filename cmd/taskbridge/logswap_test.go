package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"taskbridge/cmd/peers"
)

// TestReload_LogPlace: a reload takes another form and another file of the log,
// and standard error. Lines that are written meanwhile are in one of them, whole.
func TestReload_LogPlace(t *testing.T) {
	up := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	dir := t.TempDir()
	text := func(log string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\n%sroutes:\n  - {path: /mcp, upstream: %q}\n", log, up)
	}
	to := func(name, format string) string {
		return fmt.Sprintf("log: {file: %q, format: %s}\n", filepath.Join(dir, name), format)
	}
	f := startFile(t, text(to("a", "text")))
	stderr := new(buffer)
	var err error
	f.logs, err = f.current.logs.start(&app{stderr: stderr, stdout: io.Discard}, nil)
	must(t, err)
	defer f.logs.close()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var written [3]int
	for i := range written {
		log := f.logs.With("writer", i).WithGroup("g").With("k", "v")
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				log.Info("line")
				written[i]++
			}
		})
	}
	for _, place := range []string{to("b", "json"), to("b", "text"), "log: {format: json}\n", to("c", "json"), to("a", "text")} {
		must(t, f.put(text(place)))
	}
	if err := f.put(text(to(".", "text"))); err == nil || !strings.Contains(err.Error(), f.name+":2:13: log.file: open ") {
		t.Errorf("a file that cannot be had: %v", err)
	}
	f.logs.Info("after all")
	close(stop)
	wg.Wait()
	var all strings.Builder
	all.WriteString(stderr.String())
	for _, name := range []string{"a", "b", "c"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		all.WriteString(string(raw))
		if name == "a" && !strings.Contains(string(raw), "after all") {
			t.Error("the last place is not where the log goes")
		}
	}
	var found [3]int
	for line := range strings.Lines(all.String()) {
		var m struct {
			Writer *int
			G      struct{ K string }
		}
		if json.Unmarshal([]byte(line), &m) != nil || m.Writer == nil {
			m.Writer = new(int)
			if _, err := fmt.Sscanf(line[strings.Index(line, "msg="):], "msg=line writer=%d g.k=v\n", m.Writer); err != nil {
				if !strings.Contains(line, "after all") {
					t.Errorf("line %q: %v", line, err)
				}
				continue
			}
		} else if m.G.K != "v" {
			t.Errorf("line %q", line)
		}
		found[*m.Writer]++
	}
	if found != written {
		t.Errorf("%v lines were written, %v are there", written, found)
	}
}

// TestReload_Audit: a reload takes another place of audit lines: none, a file,
// the log, another file; one that cannot be had changes nothing.
func TestReload_Audit(t *testing.T) {
	up := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	dir := t.TempDir()
	text := func(audit string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\ntelemetry: {audit: %q}\nroutes:\n  - {path: /mcp, upstream: %q}\n", audit, up)
	}
	place := func(name string) string { return "file:" + filepath.Join(dir, name) }
	f := startFile(t, text("off"))
	log := new(buffer)
	f.bridge.audit.main = slog.New(slog.NewJSONHandler(log, nil))
	c := modernClient(t, f.root+"/mcp")
	created := func(raw string) int { return strings.Count(raw, `"what":"created"`) }
	in := func(name string) func() int {
		return func() int {
			raw, _ := os.ReadFile(filepath.Join(dir, name))
			return created(string(raw))
		}
	}
	inLog := func() int { return created(log.String()) }
	one := func(what string, count func() int) {
		t.Helper()
		before := 0
		if count != nil {
			before = count()
		}
		makeTask(t, c, what)
		if count != nil {
			eventually(t, what, func() bool { return count() == before+1 })
		}
	}
	one("none", nil)
	must(t, f.put(text(place("a"))))
	one("a line in a file", in("a"))
	must(t, f.put(text("log")))
	one("a line in the log", inLog)
	must(t, f.put(text(place("b"))))
	one("a line in another file", in("b"))
	if err := f.put(text(place("."))); err == nil || !strings.Contains(err.Error(), f.name+":2:20: telemetry.audit: ") {
		t.Errorf("a file that cannot be had: %v", err)
	}
	if err := f.put(strings.Replace(text(place("c")), "path: /mcp", "path: mcp", 1)); err == nil {
		t.Error("a bad file was taken")
	}
	one("a line where they went before", in("b"))
	must(t, f.put(text(place("a"))))
	one("a line in the first file again", in("a"))
	if a, b, c, l := in("a")(), in("b")(), in("c")(), inLog(); a != 2 || b != 2 || c != 0 || l != 1 {
		t.Errorf("%d, %d and %d lines in files, %d in the log", a, b, c, l)
	}
}
