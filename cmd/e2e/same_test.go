package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"taskbridge/translate/schematest"
)

// sameEra is a pair of real peers of one era: through the bridge the client
// must see what it sees without it, byte for byte on the wire.
type sameEra struct {
	client, server peer
	era            string
	only           []string          // scenarios; nil: all
	except         map[string]string // scenarios and why they are left out
	quick          []string          // the ones that run without TASKBRIDGE_E2E=full; nil: all
}

func TestReal_LegacyClient_LegacyServer(t *testing.T) {
	sameEra{client: legacyClient, server: legacyServer, era: "legacy"}.run(t)
}

func TestReal_ModernClient_ModernServer(t *testing.T) {
	sameEra{client: modernClient, server: modernServer, era: "modern", except: map[string]string{
		"legacy-era": "the server is modern only, so the bridge makes the difference",
	}}.run(t)
	t.Run("legacy-era", func(t *testing.T) {
		b := newBridge(t, startServer(t, modernServer), forms[0].o)
		if d := differs(runClient(t, modernClient, b.URL, "legacy-era"), modernOnLegacy["legacy-era"]); d != "" {
			t.Error(d)
		}
	})
}

func TestReal_LegacyClient_LegacyServerJSON(t *testing.T) {
	const hangs = "in JSON mode the SDK drops requests inside a call, and the client waits for ever"
	sameEra{
		client: legacyClient, server: legacyServerJSON, era: "legacy",
		except: map[string]string{
			"ask": hangs, "ask-decline": hangs, "ask-undeclared": hangs, "ask-twice": hangs, "ask-then-task": hangs, "sample": hangs, "roots": hangs,
			"question": hangs, "question-decline": hangs, "question-cancel": hangs, "question-stream": hangs, "two": hangs, "sample-task": hangs,
		},
		quick: []string{"initialize", "list", "call", "unknown-tool", "task", "task-result", "cancel", "cancel-waiting", "failing", "protocol-error", "resources", "ping"},
	}.run(t)
}

func TestReal_LegacyClient_Everything(t *testing.T) {
	sameEra{
		client: legacyClient, server: everythingServer, era: "legacy",
		only: []string{"initialize", "list", "everything", "everything-task", "everything-question"},
	}.run(t)
}

func TestReal_LegacyClient_MCPGoServer(t *testing.T) {
	sameEra{
		client: legacyClient, server: mcpgoServer, era: "legacy",
		only: []string{
			"initialize", "list", "call", "greet", "unknown-tool", "task", "task-result", "task-immediate", "tasklist", "cancel", "cancel-finished",
			"unknown-task", "other-session", "failing", "protocol-error", "required-plain", "optional-plain", "ask", "ask-decline", "prompts", "ping", "two-sessions",
		},
		quick: []string{"initialize", "list", "call", "task", "task-result", "tasklist", "cancel", "unknown-task", "failing", "protocol-error", "ask"},
	}.run(t)
}

func TestReal_MCPGoClient_LegacyServer(t *testing.T) {
	sameEra{client: mcpgoLegacy, server: legacyServer, era: "legacy"}.run(t)
}

func TestReal_MCPGoClient_MCPGoServer(t *testing.T) {
	sameEra{client: mcpgoLegacy, server: mcpgoServer, era: "legacy"}.run(t)
}

// What mcp-go can in the modern era: no tasks.
var mcpgoModernScenarios = []string{"initialize", "list", "call", "greet", "ask", "resources", "prompts"}

func TestReal_MCPGoClient_ModernServer_Modern(t *testing.T) {
	sameEra{client: mcpgoModern, server: modernServer, era: "modern", only: mcpgoModernScenarios}.run(t)
}

func TestReal_MCPGoClient_MCPGoServer_Modern(t *testing.T) {
	sameEra{client: mcpgoModern, server: mcpgoBoth, era: "modern", only: mcpgoModernScenarios}.run(t)
}

func TestReal_ModernClient_MCPGoServer_Modern(t *testing.T) {
	sameEra{
		client: modernClient, server: mcpgoBoth, era: "modern",
		only: []string{"discover", "list", "call", "greet", "unknown-tool", "ask", "ask-decline", "prompts", "auto", "header-mismatch"},
	}.run(t)
}

func (s sameEra) run(t *testing.T) {
	url := startServer(t, s.server)
	names := s.only
	if names == nil {
		names = slices.DeleteFunc(slices.Clone(scenariosOf(t, s.client)), everythingOnly)
	}
	t.Run("scenarios", func(t *testing.T) {
		for _, name := range names {
			if s.except[name] != "" || s.quick != nil && !fullE2E() && !slices.Contains(s.quick, name) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				at, legs := recordedBridge(t, url, s.era, s.era, bridgeOptions{})
				bridged := runClient(t, s.client, at, name)
				direct := runClient(t, s.client, url, name)
				if d := differ(steady(bridged.Lines), steady(direct.Lines)); d != "" {
					t.Errorf("%s\nthrough the bridge:\n%s\ndirect:\n%s", d, bridged, direct)
				}
				t.Run("messages", func(t *testing.T) {
					v := schematest.Load(t)
					for _, m := range legs.check(t, v) {
						if m.kind != schematest.Error && !probing(m) {
							t.Errorf("not passed as it was: %s", m.raw)
						}
					}
				})
			})
		}
	})
}

// probing: the proxy looks at the server's era once, with a session of its own.
// It also tells the server of calls that their session has not outlived.
func probing(m message) bool {
	switch m.method {
	case "server/discover", "notifications/initialized":
		return true
	case "initialize":
		return strings.Contains(string(m.raw), `"clientInfo":{"name":"taskbridge"`)
	case "notifications/cancelled":
		return strings.Contains(string(m.raw), `"reason":"the session has ended"`)
	}
	return false
}

// steady leaves out what the speed of a machine decides, the words of what the
// proxy refuses itself, and puts questions last.
func steady(lines []string) []string {
	rest, asked := partition(lines)
	out := append(rest, asked...)
	for i, line := range out {
		var v map[string]any
		if json.Unmarshal([]byte(line), &v) != nil {
			continue
		}
		if list, ok := v["messages"].([]any); ok && v["step"] != "asked" {
			v["messages"] = len(list) > 0
		}
		if list, ok := v["events"].([]any); ok {
			v["events"] = slices.DeleteFunc(list, func(e any) bool { return e == "taskStatus:working" })
		}
		if list, ok := v["statuses"].([]any); ok && v["step"] == "notified" {
			v["statuses"] = len(list) > 0 // mcp-go tells every session of every task
		}
		if list, ok := v["statuses"].([]any); ok && v["step"] == "polled" && len(list) > 1 {
			// Between an answer and the end.
			v["statuses"] = append(list[:1:1], slices.DeleteFunc(list[1:], func(e any) bool { return e == "working" })...)
		}
		if e, ok := v["error"].(map[string]any); ok && e["code"] == -32021.0 {
			delete(e, "message")
		}
		if b, err := json.Marshal(v); err == nil {
			// Nothing here is a pattern.
			out[i] = strings.NewReplacer("?", "", "*", "").Replace(string(b))
		}
	}
	return out
}
