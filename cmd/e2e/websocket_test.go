package e2e

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
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
				if d := differ(steady(got.Lines), steady(want.Lines)); d != "" || !got.OK {
					t.Errorf("%s: %s\nover WebSocket:\n%s\nover HTTP:\n%s", scenario, d, got, want)
				}
			}
		})
	}
}

// TestWebSocket_Supergateway: before a server behind supergateway a client sees
// what it sees before the server.
func TestWebSocket_Supergateway(t *testing.T) {
	t.Parallel()
	url := startSupergateway(t, "legacy-server.mjs", "--stdio")
	direct := startServer(t, legacyServer)
	command, err := json.Marshal([]string{proxyBinary(t), "stdio", url})
	if err != nil {
		t.Fatal(err)
	}
	for _, scenario := range []string{"list", "greet", "unknown-tool", "task", "task-result", "unknown-task", "failing"} {
		want := runClient(t, legacyClient, direct, scenario)
		got := runClient(t, legacyClient, "stdio:"+string(command), scenario)
		if d := differ(steady(got.Lines), steady(want.Lines)); d != "" || !got.OK {
			t.Errorf("%s: %s\nthrough it:\n%s\ndirectly:\n%s", scenario, d, got, want)
		}
	}
	if got := runClient(t, modernClient, "stdio:"+string(command), "greet"); !got.OK {
		t.Errorf("modern client:\n%s", got)
	}
}

// startSupergateway puts a peer on stdio behind WebSocket.
func startSupergateway(t testing.TB, script string, args ...string) string {
	t.Helper()
	needNode(t, peersDir)
	gateway := filepath.Join(peersDir, "node_modules/supergateway/dist/index.js")
	if _, err := os.Stat(gateway); err != nil {
		missing(t, "no supergateway: run `npm ci` in testdata/peers")
	}
	addr := freeAddress(t)
	_, port, _ := net.SplitHostPort(addr)
	server := strings.Join(append([]string{"node", absolute(t, filepath.Join(peersDir, script))}, args...), " ")
	cmd := exec.Command("node", gateway, "--stdio", server, "--outputTransport", "ws", "--port", port, "--messagePath", "/message")
	startPeerProcess(t, "supergateway", cmd, func(line string) bool { return strings.Contains(line, "WebSocket endpoint") })
	return "ws://" + addr + "/message"
}
