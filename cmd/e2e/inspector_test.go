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
)

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
