package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// bridgeBinary is the command itself, built once a test run beside the peers.
var bridgeBinary = sync.OnceValues(func() (string, error) {
	file := filepath.Join(goPeersDir, "taskbridge")
	out, err := exec.Command("go", "build", "-o", file, "taskbridge/cmd/taskbridge").CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
	}
	return file, err
})

// stdioAddress is a command as the real clients take one.
func stdioAddress(t testing.TB, argv ...string) string {
	t.Helper()
	raw, err := json.Marshal(argv)
	if err != nil {
		t.Fatal(err)
	}
	return "stdio:" + string(raw)
}

// overStdio is the address of taskbridge stdio before a server.
func overStdio(t testing.TB, server ...string) string {
	t.Helper()
	goPeers(t)
	bin, err := bridgeBinary()
	if err != nil {
		t.Fatal(err)
	}
	return stdioAddress(t, append([]string{bin, "stdio", "--log-level", "warn"}, server...)...)
}

func absoluteScripts(t testing.TB, argv []string) []string {
	t.Helper()
	out := slices.Clone(argv)
	for i, a := range out {
		if filepath.Ext(a) == ".mjs" {
			abs, err := filepath.Abs(a)
			if err != nil {
				t.Fatal(err)
			}
			out[i] = abs
		}
	}
	return out
}

// everythingStdio is the reference server as a desktop client starts it.
var everythingStdio = peer{name: "server-everything stdio", argv: func(t testing.TB) []string {
	t.Helper()
	needNode(t, peersDir)
	return []string{"node", filepath.Join(peersDir, "node_modules/@modelcontextprotocol/server-everything/dist/index.js"), "stdio"}
}}

var (
	legacyServerStdio = nodePeer("legacy-server.mjs", "--stdio")
	modernServerStdio = nodePeer("modern-server.mjs", "--stdio")
)

// TestRealStdio_SameEra: real clients start us, we start real servers: what
// they see is what they see without us.
func TestRealStdio_SameEra(t *testing.T) {
	for name, c := range map[string]struct {
		client, server peer
		names          []string
		quick          int // of them, the first so many, unless all are wanted
	}{
		"TypeScript SDK, legacy": {legacyClient, legacyServerStdio, []string{
			"initialize", "call", "task", "question", "ask-then-task", "roots", "log", "subscribe", "cancel-call",
			"list", "task-result", "cancel", "cancel-waiting", "question-stream", "unknown-task", "failing", "ask", "sample", "progress", "two",
		}, 9},
		"TypeScript SDK, modern": {modernClient, modernServerStdio, []string{"call", "ask", "log", "list", "greet", "ask-decline", "prompts", "resources", "progress"}, 3},
		"server-everything":      {legacyClient, everythingStdio, []string{"everything", "everything-task", "everything-question"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			argv := absoluteScripts(t, c.server.argv(t))
			if !fullE2E() {
				c.names = c.names[:c.quick]
			} else if name == "TypeScript SDK, legacy" {
				c.names = slices.DeleteFunc(slices.Clone(scenariosOf(t, c.client)), everythingOnly)
			}
			bridge := overStdio(t, append([]string{"--"}, argv...)...)
			for _, scenario := range c.names {
				t.Run(scenario, func(t *testing.T) {
					t.Parallel()
					bridged := runClient(t, c.client, bridge, scenario)
					direct := runClient(t, c.client, stdioAddress(t, argv...), scenario)
					if !bridged.OK || !direct.OK {
						t.Errorf("through the bridge:\n%s\ndirect:\n%s", bridged, direct)
						return
					}
					if scenario == "progress" {
						return // the SDK loses progress it reads together with the result
					}
					if d := differ(steady(bridged.Lines), steady(direct.Lines)); d != "" {
						t.Errorf("%s\nthrough the bridge:\n%s\ndirect:\n%s", d, bridged, direct)
					}
				})
			}
		})
	}
}

// TestRealStdio_OtherEra: a real client of one era starts us before a real
// server of the other, as a process and behind HTTP.
func TestRealStdio_OtherEra(t *testing.T) {
	for name, c := range map[string]struct {
		client, process, http peer
		names                 []string
		quick                 int
	}{
		"legacy client, modern server": {legacyClient, modernServerStdio, modernServer, []string{
			"call", "task", "question", "ask", "initialize", "list", "greet", "task-result", "cancel", "ask-twice", "sample", "roots", "failing", "progress", "prompts", "resources",
		}, 4},
		"modern client, legacy server": {modernClient, legacyServerStdio, legacyServer, []string{"call", "ask", "list", "greet", "ask-decline", "sample", "roots", "progress", "prompts", "resources"}, 2},
		"go-sdk client, legacy server": {gosdkClient, legacyServerStdio, legacyServer, []string{"call", "ask", "initialize", "list", "greet"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if !fullE2E() {
				c.names = c.names[:c.quick]
			}
			process := overStdio(t, append([]string{"--"}, absoluteScripts(t, c.process.argv(t))...)...)
			remote := overStdio(t, startServer(t, c.http))
			t.Run("scenarios", func(t *testing.T) {
				for _, scenario := range c.names {
					for at, address := range map[string]string{"process": process, "HTTP": remote} {
						t.Run(scenario+" "+at, func(t *testing.T) {
							t.Parallel()
							if run := runClient(t, c.client, address, scenario); !run.OK {
								t.Errorf("%s", run)
							}
						})
					}
				}
			})
		})
	}
}
