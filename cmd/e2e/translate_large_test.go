//go:build linux

package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTranslate_Large: 200 MB are translated in at most 256 MiB. How that
// compares with jq -c . on the same file is told, and stands in
// docs/performance.md.
func TestTranslate_Large(t *testing.T) {
	long(t)
	name := largeCapture(t, 200<<20)
	ours, memory := costOfProgram(t, builtBridge(t), "translate", name, "--to", "2026-07-28", "-o", filepath.Join(t.TempDir(), "modern.jsonl"))
	t.Logf("translate %v in %d MiB", ours, memory>>20)
	if memory > 256<<20 && !raceEnabled {
		t.Errorf("translate took %d MiB, want at most 256", memory>>20)
	}
	if jq, err := exec.LookPath("jq"); err == nil {
		theirs, _ := costOfProgram(t, "sh", "-c", `exec "$0" -c . "$1" >/dev/null`, jq, name)
		t.Logf("jq %v: translate takes %.1f times as long", theirs, ours.Seconds()/theirs.Seconds())
	}
}
