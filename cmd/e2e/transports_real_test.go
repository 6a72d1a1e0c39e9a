package e2e

import (
	"strings"
	"testing"

	"taskbridge/translate"
)

// realPeers are the real clients and servers of an era that speak a transport.
// None speaks modern revisions over WebSocket; there a built-in one stands in.
type realPeers struct {
	client peer
	server peer
	names  [2]string // for the document; empty: there is none
}

var realTransports = map[translate.Era]map[string]realPeers{
	translate.Legacy: {
		"http":  {legacyClient, legacyServer, [2]string{"TypeScript SDK 1.32.2", "TypeScript SDK 1.32.2"}},
		"stdio": {legacyClient, legacyServerStdio, [2]string{"TypeScript SDK 1.32.2", "TypeScript SDK 1.32.2"}},
		"ws":    {socketClient, peer{}, [2]string{"TypeScript SDK 1.32.2 on Node 22", "the SDK's server behind supergateway 4.0.0"}},
		"sse":   {legacyClientSSE, legacyServerSSE, [2]string{"TypeScript SDK 1.32.2", "TypeScript SDK 1.32.2"}},
	},
	translate.Modern: {
		"http":  {modernClient, modernServer, [2]string{"TypeScript SDK `client` 2.4.0", "TypeScript SDK `server` 2.4.0"}},
		"stdio": {modernClient, modernServerStdio, [2]string{"TypeScript SDK `client` 2.4.0", "TypeScript SDK `server` 2.4.0"}},
		"ws":    {},
	},
}

// pairTests are the tests with real peers that hold a cell besides this list.
var pairTests = map[pairCell][]string{
	{translate.Legacy, translate.Legacy, "http", "http"}:   {"TestReal_LegacyClient_LegacyServer", "TestReal_LegacyClient_Everything", "TestReal_MCPGoClient_MCPGoServer"},
	{translate.Legacy, translate.Legacy, "http", "sse"}:    {"TestReal_LegacyClient_LegacyServerSSE", "TestReal_EverythingSSE"},
	{translate.Legacy, translate.Legacy, "sse", "http"}:    {"TestReal_LegacyClientSSE_LegacyServer"},
	{translate.Legacy, translate.Legacy, "sse", "sse"}:     {"TestReal_LegacyClient_LegacyServerSSE"},
	{translate.Legacy, translate.Legacy, "stdio", "stdio"}: {"TestRealStdio_SameEra"},
	{translate.Legacy, translate.Legacy, "stdio", "ws"}:    {"TestWebSocket_Supergateway"},
	{translate.Legacy, translate.Legacy, "ws", "http"}:     {"TestWebSocket_SDKClient"},
	{translate.Legacy, translate.Modern, "http", "http"}:   {"TestReal_LegacyClient_ModernServer", "TestReal_MCPGoClient_ModernServer"},
	{translate.Legacy, translate.Modern, "sse", "http"}:    {"TestReal_LegacyClientSSE_ModernServer"},
	{translate.Legacy, translate.Modern, "ws", "http"}:     {"TestWebSocket_SDKClient"},
	{translate.Legacy, translate.Modern, "stdio", "stdio"}: {"TestRealStdio_OtherEra"},
	{translate.Legacy, translate.Modern, "stdio", "http"}:  {"TestRealStdio_OtherEra"},
	{translate.Modern, translate.Legacy, "http", "http"}:   {"TestReal_ModernClient_LegacyServer", "TestModernCells_GoSDKClient_LegacyServer"},
	{translate.Modern, translate.Legacy, "http", "sse"}:    {"TestReal_ModernClient_LegacyServerSSE", "TestReal_EverythingSSE"},
	{translate.Modern, translate.Legacy, "stdio", "ws"}:    {"TestWebSocket_Supergateway"},
	{translate.Modern, translate.Legacy, "stdio", "stdio"}: {"TestRealStdio_OtherEra"},
	{translate.Modern, translate.Legacy, "stdio", "http"}:  {"TestRealStdio_OtherEra"},
	{translate.Modern, translate.Modern, "http", "http"}:   {"TestReal_ModernClient_ModernServer"},
	{translate.Modern, translate.Modern, "stdio", "stdio"}: {"TestRealStdio_SameEra"},
}

// real says whether the cell has a real client, and a real server.
func (c pairCell) real() (client, server bool) {
	return realTransports[c.client][c.down].names[0] != "", realTransports[c.server][c.up].names[1] != ""
}

// realFar is a real server as the proxy is told of it.
func realFar(t testing.TB, c pairCell) *far {
	t.Helper()
	switch p := realTransports[c.server][c.up]; c.up {
	case "stdio":
		return &far{args: append([]string{"--"}, absoluteScripts(t, p.server.argv(t))...)}
	case "ws":
		return &far{args: []string{"--upstream", startSupergateway(t, "legacy-server.mjs", "--stdio")}}
	default:
		return &far{args: []string{"--upstream", startServer(t, p.server)}}
	}
}

// TestTransports_RealPeers plays a task with a question from start to result, or
// what of it the peers can, in the cells that no other test holds with real peers; where there is one on one
// side only, a built-in one stands on the other.
func TestTransports_RealPeers(t *testing.T) {
	long(t)
	t.Parallel()
	for _, c := range pairCells() {
		client, server := c.real()
		if len(pairTests[c]) > 0 || !client && !server {
			continue
		}
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			needNode(t, peersDir)
			r := &pairRig{pairCell: c, t: t}
			if server {
				r.far = realFar(t, c)
			} else {
				r.far = fars[c.up](t, c.server)
			}
			if c.down != "stdio" {
				r.proxy = serveBridge(t, r.far.args)
			}
			if client {
				r.realClient(server)
				return
			}
			r.p = r.client()
			r.p.within = 3 * patience // Node starts slowly, and once more for the probe
			if m := r.p.tool("greet", map[string]any{"name": "Ada"}); m.text() != "Hello, Ada!" {
				t.Errorf("greet: %s", m)
			}
			tool, arguments, want := "confirm_delete", map[string]any{"filename": "a.txt"}, "Deleted a.txt"
			if c.up == "ws" { // supergateway keeps a server's questions to itself
				tool, arguments, want = "slow_compute", map[string]any{"seconds": 1, "label": "x"}, "computed x"
			}
			if text := r.finish(r.newTask(tool, arguments)); !strings.HasPrefix(text, want) {
				t.Errorf("%s: %s", tool, text)
			}
		})
	}
}

// realClient has the cell's client play.
func (r *pairRig) realClient(realServer bool) {
	r.t.Helper()
	p := realTransports[r.pairCell.client][r.down].client
	at := ""
	switch r.down {
	case "http":
		at = r.proxy.url
	case "ws":
		at = "ws" + strings.TrimPrefix(r.proxy.url, "http")
	case "sse":
		at = strings.TrimSuffix(r.proxy.url, "/mcp") + "/sse"
	case "stdio":
		at = stdioAddress(r.t, append([]string{builtBridge(r.t), "stdio", "--log-level", "warn"}, r.far.args...)...)
	}
	scenario, want := "question", "Deleted"
	switch legacy := r.pairCell.client == translate.Legacy; {
	case !legacy && r.down == "stdio":
		scenario, want = "ask", `"step":"result"` // the client's tasks speak HTTP themselves
	case r.up == "ws" && realServer:
		scenario, want = "task", `"completed"` // supergateway keeps a server's questions to itself
	case legacy && r.server == translate.Legacy:
		scenario = "question-stream" // on an open tasks/result stream, where the SDK's server asks
	}
	if run := runClient(r.t, p, at, scenario); !run.OK || !strings.Contains(run.String(), want) {
		r.t.Errorf("%s: %s", scenario, run)
	}
}
