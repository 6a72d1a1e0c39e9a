package e2e

import (
	"strings"
	"testing"

	"taskbridge/downstream"
)

// The v1 SDK's own HTTP+SSE transports (2024-11-05) on either side.
var (
	legacyClientSSE = nodePeer("legacy-client.mjs", "--sse")
	legacyServerSSE = nodePeer("legacy-server.mjs", "--sse")
)

// sseBridge serves clients of HTTP+SSE; it gives the URL of their stream.
func sseBridge(t testing.TB, serverURL string, o bridgeOptions) string {
	t.Helper()
	o.Options = func(d *downstream.Options) { d.SSEPath = "/sse" }
	return strings.TrimSuffix(newBridge(t, serverURL, o).URL, "/mcp") + "/sse"
}

// sseScenarios are those that do not speak of Streamable HTTP itself; the rest
// with TASKBRIDGE_E2E=full.
func sseScenarios() []string {
	core := []string{"list", "task", "cancel", "question", "ask", "progress", "cancel-call", "subscribe"}
	if !fullE2E() {
		return core
	}
	return append(core, "call", "greet", "unknown-tool", "task-result", "task-immediate", "tasklist", "cancel-waiting", "cancel-finished",
		"unknown-task", "question-decline", "two", "failing", "protocol-error", "ask-decline", "ask-twice", "sample", "roots", "log", "ping",
		"resources", "prompts")
}

func TestReal_LegacyClientSSE_ModernServer(t *testing.T) {
	url := startServer(t, modernServer)
	for _, name := range sseScenarios() {
		want, ok := legacyOnModern[name]
		if !ok {
			t.Errorf("no such scenario: %s", name)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := runClient(t, legacyClientSSE, sseBridge(t, url, patient(bridgeOptions{})), name)
			if d := differs(run, want); d != "" {
				t.Errorf("%s\nall of it:\n%s", d, run)
			}
		})
	}
}

// sameAs holds what a client sees through the bridge against what it sees at
// the server itself.
func sameAs(t *testing.T, client peer, through, direct, name string) {
	t.Helper()
	bridged, plain := runClient(t, client, through, name), runClient(t, client, direct, name)
	if d := differ(steady(bridged.Lines), steady(plain.Lines)); d != "" {
		t.Errorf("%s\nthrough the bridge:\n%s\ndirect:\n%s", d, bridged, plain)
	}
}

// TestReal_LegacyClientSSE_LegacyServer: over the bridge from HTTP+SSE to
// Streamable HTTP a client sees what it sees at a server of HTTP+SSE.
func TestReal_LegacyClientSSE_LegacyServer(t *testing.T) {
	streamable, direct := startServer(t, legacyServer), startServer(t, legacyServerSSE)
	for _, name := range sseScenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sameAs(t, legacyClientSSE, sseBridge(t, streamable, bridgeOptions{}), direct, name)
		})
	}
}

// TestReal_LegacyClient_LegacyServerSSE: a server of HTTP+SSE, found out by
// itself, looks to a client of either transport like what it is.
func TestReal_LegacyClient_LegacyServerSSE(t *testing.T) {
	url, plain := startServer(t, legacyServerSSE), startServer(t, legacyServer)
	for _, name := range sseScenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sameAs(t, legacyClient, newBridge(t, url, bridgeOptions{}).URL, plain, name)
		})
	}
	for _, name := range []string{"list", "question"} {
		t.Run(name+" over HTTP+SSE on both sides", func(t *testing.T) {
			t.Parallel()
			sameAs(t, legacyClientSSE, sseBridge(t, url, bridgeOptions{}), url, name)
		})
	}
}

func TestReal_ModernClient_LegacyServerSSE(t *testing.T) {
	url := startServer(t, legacyServerSSE)
	names := []string{"discover", "list", "greet", "task", "cancel", "question", "two", "failing", "ask"}
	if fullE2E() {
		names = modernCore
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := runClient(t, modernClient, newBridge(t, url, patient(bridgeOptions{})).URL, name)
			if d := differs(run, modernOnLegacy[name]); d != "" {
				t.Errorf("%s\nall of it:\n%s", d, run)
			}
		})
	}
}

// TestReal_EverythingSSE: the reference server in its sse mode, before clients
// of both eras.
func TestReal_EverythingSSE(t *testing.T) {
	url := startServer(t, nodePeer("everything.mjs", "--sse"))
	direct := startServer(t, everythingServer)
	for name, want := range modernOnEverything {
		t.Run("modern "+name, func(t *testing.T) {
			t.Parallel()
			run := runClient(t, modernClient, newBridge(t, url, patient(bridgeOptions{})).URL, name)
			if d := differs(run, want); d != "" {
				t.Errorf("%s\nall of it:\n%s", d, run)
			}
		})
	}
	for _, name := range []string{"list", "everything-question"} {
		t.Run("legacy "+name, func(t *testing.T) {
			t.Parallel()
			sameAs(t, legacyClient, newBridge(t, url, bridgeOptions{}).URL, direct, name)
		})
	}
}
