package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestDemoOnce(t *testing.T) {
	code, stdout, stderr := runArgs(t, "demo", "--once")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit %d: %s\n%s", code, stderr, stdout)
	}
	for _, want := range []string{
		"client, legacy 2025-11-25 ", "│ server, modern 2026-07-28", "client, modern 2026-07-28 ", "│ server, legacy 2025-11-25",
		"→ initialize 2025-11-25 ", "│ → server/discover", "← tools/call: task{", "│ ← tools/call: task ",
		`← elicitation/create `, "→ elicitation/create: accept", "│ → tasks/update ", "→ tasks/update ", "│ → elicitation/create: accept",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("lacks %q", want)
		}
	}
	if n := strings.Count(stdout, "\nok: "); n != 2 {
		t.Errorf("%d conversations went well\n%s", n, stdout)
	}
	if strings.Contains(stdout, "\x1b") {
		t.Error("colours without a terminal")
	}
	for line := range strings.Lines(stdout) {
		table := strings.Contains(line, "│") || strings.Contains(line, "┼")
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); table && n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestDemoStays: without --once the bridges stay up, for clients of any era.
func TestDemoStays(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, done := new(buffer), make(chan int, 1)
	go func() { done <- run(ctx, []string{"demo"}, strings.NewReader(""), out, new(buffer)) }()
	eventually(t, "invitation", func() bool { return strings.Contains(out.String(), "--protocol-era modern --method tools/list\n\n") })
	var urls []string
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "before a ") {
			urls = append(urls, strings.Fields(line)[0])
		}
	}
	if len(urls) != 2 {
		t.Fatalf("%s", out)
	}
	before := strings.Count(out.String(), "prompts/list")
	for _, url := range urls {
		if r, err := modernClient(t, url).Call(t.Context(), "prompts/list", nil); err != nil || r.Err() != nil {
			t.Errorf("%s: %v %s", url, err, r.Raw)
		}
		if r, err := legacyClient(t, url).Call(t.Context(), "prompts/list", nil); err != nil || r.Err() != nil {
			t.Errorf("%s: %v %s", url, err, r.Raw)
		}
	}
	// Four requests and answers on each leg.
	eventually(t, "trace", func() bool { return strings.Count(out.String(), "prompts/list") >= before+16 })
	cancel()
	select {
	case code := <-done:
		if code != exitOK {
			t.Errorf("exit %d", code)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the demo does not end")
	}
}

func TestColours(t *testing.T) {
	if colourful(new(buffer)) {
		t.Error("a buffer is no terminal")
	}
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if colourful(f) {
		t.Error("a file is no terminal")
	}
	tr := &trace{colour: true}
	if got := tr.paint("x", errorText); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("%q", got)
	}
	if tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err == nil {
		defer tty.Close()
		t.Setenv("TERM", "xterm")
		t.Setenv("NO_COLOR", "")
		if !colourful(tty) {
			t.Error("a terminal gets colours")
		}
		t.Setenv("NO_COLOR", "1")
		if colourful(tty) {
			t.Error("NO_COLOR is not honoured")
		}
	}
}
