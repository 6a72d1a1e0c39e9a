package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// socketClient is the v1 SDK's client with its WebSocket transport, which wants
// Node 22.
var socketClient = peer{name: "legacy-client ws", argv: func(t testing.TB) []string {
	t.Helper()
	needNode(t, peersDir)
	node := filepath.Join(conformanceDir, "node_modules/.bin/node")
	if _, err := os.Stat(node); err != nil {
		missing(t, "no Node 22: run `npm ci` in testdata/conformance")
	}
	return []string{node, filepath.Join(peersDir, "legacy-client.mjs")}
}}

// socketScenarios: a list, a call, a task from start to result, questions inside
// calls and tasks, a cancel.
var socketScenarios = []string{"list", "greet", "unknown-tool", "task", "task-result", "question-stream", "cancel", "unknown-task", "ask", "roots", "failing", "progress"}

// TestWebSocket_SDKClient: over WebSocket the SDK's client sees what it sees over
// Streamable HTTP.
func TestWebSocket_SDKClient(t *testing.T) {
	t.Parallel()
	for _, server := range []peer{legacyServer, modernServer} {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			b := newBridge(t, startServer(t, server), bridgeOptions{})
			for _, scenario := range socketScenarios {
				want := runClient(t, legacyClient, b.URL, scenario)
				got := runClient(t, socketClient, "ws"+strings.TrimPrefix(b.URL, "http"), scenario)
				if got.String() != want.String() || !got.OK {
					t.Errorf("%s\nover WebSocket:\n%s\nover HTTP:\n%s", scenario, got, want)
				}
			}
		})
	}
}
