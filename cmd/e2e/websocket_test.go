package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
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
	// It takes no port 0.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	ln.Close()
	server := strings.Join(append([]string{"node", absolute(t, filepath.Join(peersDir, script))}, args...), " ")
	cmd := exec.Command("node", gateway, "--stdio", server, "--outputTransport", "ws", "--port", port, "--messagePath", "/message")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "WebSocket endpoint") {
				close(ready)
				break
			}
		}
		io.Copy(io.Discard, out)
		cmd.Wait()
	}()
	t.Cleanup(func() {
		in.Close()
		select {
		case <-done:
		case <-time.After(2 * time.Second):
			cmd.Process.Kill()
			<-done
		}
	})
	select {
	case <-ready:
	case <-done:
		t.Fatal("supergateway ended")
	case <-time.After(startPatience):
		t.Fatal("supergateway was not ready")
	}
	return "ws://127.0.0.1:" + port + "/message"
}
