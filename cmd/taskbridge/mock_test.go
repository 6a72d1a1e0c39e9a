package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestReplayServe: a capture served is the server it was recorded from: for its
// own client's every operation, and for a client of the other era.
func TestReplayServe(t *testing.T) {
	for _, c := range []struct {
		name   string
		record func(*testing.T, string) string
		server func(*testing.T) string
	}{
		{"legacy", recordLegacy, legacyPeer},
		{"modern", recordModern, modernPeer},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := c.record(t, c.server(t))
			mock := listening(t, "replay", file, "--serve", "127.0.0.1:0")
			if code, stdout, stderr := runArgs(t, "replay", file, "--upstream", mock.url, "--allow-unannotated"); code != exitOK {
				t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
			}
			greet := map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}}
			old, err := legacyClient(t, mock.url).Call(t.Context(), "tools/call", greet)
			if err != nil || !strings.Contains(string(old.Raw), "Ada") {
				t.Errorf("legacy client: %s, %v", old.Raw, err)
			}
			now, err := modernClient(t, mock.url).Call(t.Context(), "tools/call", greet)
			if err != nil || !strings.Contains(string(now.Raw), "Ada") {
				t.Errorf("modern client: %s, %v", now.Raw, err)
			}
			if code := mock.end(); code != exitOK {
				t.Errorf("exit %d: %s", code, mock.stderr)
			}
		})
	}
}

func TestReplayServe_MissesAreLoud(t *testing.T) {
	mock := listening(t, "replay", recordLegacy(t, legacyPeer(t)), "--serve", "127.0.0.1:0")
	r, err := legacyClient(t, mock.url).Call(t.Context(), "tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Bob"}})
	const want = `no recorded request has these params; nearest is operation`
	if err == nil && !strings.Contains(string(r.Raw), want) {
		t.Errorf("got %s, %v", r.Raw, err)
	}
	if code := mock.end(); code != exitFailed || !strings.Contains(mock.stderr.String(), want) || !strings.Contains(mock.stderr.String(), "1 requests were not in the capture") {
		t.Errorf("exit %d: %s", code, mock.stderr)
	}
}

// TestTranslate: a translation is what the other server answers, and comes back
// as what it was.
func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		name     string
		record   func(*testing.T, string) string
		from, to func(*testing.T) string
		versions [2]string
	}{
		{"legacy", recordLegacy, legacyPeer, modernPeer, [2]string{"2026-07-28", "2025-11-25"}},
		{"modern", recordModern, modernPeer, legacyPeer, [2]string{"2025-11-25", "2026-07-28"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := c.record(t, c.from(t))
			there, back := filepath.Join(t.TempDir(), "there.jsonl"), filepath.Join(t.TempDir(), "back.jsonl")
			// What each dialect has no words for (docs/mapping.md, losses).
			declared := []string{
				"--ignore", "$.result.cacheScope", "--ignore", "$.result.supportedVersions",
				"--ignore", "$.result.capabilities.logging", "--ignore", "$.result.tools[*].execution",
			}
			for _, args := range [][]string{
				{"translate", file, "--to", c.versions[0], "-o", there},
				{"translate", there, "--to", c.versions[1], "-o", back},
				append([]string{"replay", there, "--upstream", c.to(t), "--allow-unannotated"}, declared...),
				append([]string{"diff", file, back}, declared...),
			} {
				code, stdout, stderr := runArgs(t, args...)
				// The end of a session has no like in the modern dialect.
				if code != exitOK && !strings.Contains(stderr, "different: 1 of") || code != exitOK && !strings.Contains(stdout, "↔ - DELETE") {
					t.Errorf("%v: exit %d\n%s\n%s", args, code, stdout, stderr)
				}
			}
			if code, _, stderr := runArgs(t, "translate", file, "--to", c.versions[0], "-o", there); code != exitUsage || !strings.Contains(stderr, "is there already") {
				t.Errorf("exit %d: %s", code, stderr)
			}
		})
	}
}
