package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbridge/session"
)

// suiteRow is the official suite's verdict on one scenario.
type suiteRow struct {
	Scenario                        string
	Passed, Failed, Warned, Skipped int
	Verdict                         string
	Problems                        []string
}

// suite runs the tasks-* scenarios of the official suite against url.
func suite(t *testing.T, url string) []suiteRow {
	t.Helper()
	needNode(t, conformanceDir)
	file := filepath.Join(t.TempDir(), "rows.json")
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(conformanceDir, "run.mjs"), url, "--json", file, "--jobs", "3")
	out, err := cmd.CombinedOutput()
	raw, readErr := os.ReadFile(file)
	if readErr != nil {
		t.Fatalf("the suite gave no table: %v\n%s", err, out)
	}
	var rows []suiteRow
	if err := json.Unmarshal(raw, &rows); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", out)
	return rows
}

// The suite passes a modern tasks server as much through the bridge as without.
func TestSuite_ModernServer(t *testing.T) {
	t.Parallel()
	url := startServer(t, modernServer)
	b := newBridge(t, url, bridgeOptions{})
	direct, bridged := suite(t, url), suite(t, b.URL)
	for i, d := range direct {
		b := bridged[i]
		if d.Scenario != b.Scenario || d.Verdict != b.Verdict || d.Passed != b.Passed || d.Failed != b.Failed || d.Warned != b.Warned || d.Skipped != b.Skipped {
			t.Errorf("%s: through the bridge %+v\ndirect %+v", d.Scenario, b, d)
		}
	}
}

// suiteOnLegacy are scenarios that do not pass with a legacy server behind the
// bridge, each with the reason. One that does has to be taken off.
var suiteOnLegacy = map[string]string{}

func TestSuite_LegacyServer(t *testing.T) {
	t.Parallel()
	b := newBridge(t, startServer(t, legacyServer), bridgeOptions{Policy: session.Policy{RefuseUndeclared: true}})
	for _, row := range suite(t, b.URL) {
		reason, listed := suiteOnLegacy[row.Scenario]
		switch {
		case row.Verdict == "fail" && !listed:
			t.Errorf("%s: %d passed, %d failed: %v", row.Scenario, row.Passed, row.Failed, row.Problems)
		case row.Verdict != "fail" && listed:
			t.Errorf("%s passes now: take it off the list (%s)", row.Scenario, reason)
		}
	}
}

// The inspector lists the tools of a modern server and calls one, in the
// legacy era and in the one it finds.
func TestInspector_ModernServer(t *testing.T) {
	t.Parallel()
	needNode(t, conformanceDir)
	node, err := filepath.Abs(filepath.Join(conformanceDir, "node_modules/.bin/node"))
	if err != nil {
		t.Fatal(err)
	}
	url := startServer(t, modernServer)
	for _, era := range []string{"legacy", "auto"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			b := newBridge(t, url, bridgeOptions{})
			inspect := func(args ...string) string {
				t.Helper()
				argv := append([]string{"node_modules/.bin/mcp-inspector", "--cli", b.URL, "--transport", "http", "--protocol-era", era}, args...)
				cmd := exec.CommandContext(t.Context(), node, argv...)
				cmd.Dir, cmd.WaitDelay = conformanceDir, time.Second
				cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HOME=") }), "HOME="+t.TempDir())
				var said lockedBuffer
				cmd.Stderr = &said
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("inspector: %v\n%s%s", err, out, said.String())
				}
				return string(out)
			}
			var list struct{ Tools []struct{ Name string } }
			if out := inspect("--method", "tools/list"); json.Unmarshal([]byte(out), &list) != nil || len(list.Tools) != 16 {
				t.Errorf("tools/list: %s", out)
			}
			var result struct {
				Content []struct{ Text string }
			}
			out := inspect("--method", "tools/call", "--tool-name", "greet", "--tool-arg", "name=Ada")
			if json.Unmarshal([]byte(out), &result) != nil || len(result.Content) != 1 || result.Content[0].Text != "Hello, Ada!" {
				t.Errorf("tools/call: %s", out)
			}
		})
	}
}
