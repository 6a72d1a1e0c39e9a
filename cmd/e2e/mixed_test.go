package e2e

import (
	"maps"
	"slices"
	"testing"
	"time"

	"taskbridge/translate/schematest"
)

// mixed is a pair of real peers of different eras with the bridge between them.
type mixed struct {
	client, server       peer
	clientEra, serverEra string
	want                 map[string]string
	some                 bool // want holds some scenarios only
	// core runs in every form of the bridge, the rest in the first only (in all
	// with TASKBRIDGE_E2E=full).
	core []string
	// notYet are scenarios known not to give what the table says, each with the
	// reason. One that does has to be taken off.
	notYet map[string]string
}

// The core is a task from its creation over polling and the blocking result to
// its payload, list, cancel, and a question inside one.
var legacyCore = []string{"list", "greet", "task", "task-result", "tasklist", "cancel", "cancel-finished", "unknown-task", "other-session", "question", "two", "failing"}
var modernCore = []string{"discover", "list", "greet", "task", "task-wire", "cancel", "cancel-finished", "unknown-task", "other-client", "question", "two", "failing", "removed", "ask"}

func TestReal_LegacyClient_ModernServer(t *testing.T) {
	mixed{
		client: legacyClient, server: modernServer, clientEra: "legacy", serverEra: "modern",
		want: legacyOnModern, core: legacyCore,
	}.run(t)
}

func TestReal_ModernClient_LegacyServer(t *testing.T) {
	mixed{
		client: modernClient, server: legacyServer, clientEra: "modern", serverEra: "legacy",
		want: modernOnLegacy, core: modernCore,
	}.run(t)
}

func TestReal_MCPGoClient_ModernServer(t *testing.T) {
	mixed{
		client: mcpgoLegacy, server: modernServer, clientEra: "legacy", serverEra: "modern", want: mcpgoOnModern,
		core: []string{"list", "task", "tasklist", "cancel", "question", "failing"},
	}.run(t)
}

func TestReal_MCPGoClient_LegacyServer_Modern(t *testing.T) {
	mixed{
		client: mcpgoModern, server: legacyServer, clientEra: "modern", serverEra: "legacy", want: mcpgoOnLegacy, some: true,
		core: []string{"list", "call", "ask"},
	}.run(t)
}

func TestReal_ModernClient_MCPGoServer(t *testing.T) {
	mixed{client: modernClient, server: mcpgoServer, clientEra: "modern", serverEra: "legacy", want: modernOnMCPGo, some: true}.run(t)
}

func TestReal_ModernClient_Everything(t *testing.T) {
	mixed{client: modernClient, server: everythingServer, clientEra: "modern", serverEra: "legacy", want: modernOnEverything, some: true}.run(t)
}

// patient gives servers on a busy machine time to make their own tasks, so that
// what a scenario prints does not hang on its speed.
func patient(o bridgeOptions) bridgeOptions {
	o.Policy.TaskHandleAfter = 20 * time.Second
	return o
}

func (m mixed) run(t *testing.T) {
	url := startServer(t, m.server)
	names := slices.Sorted(maps.Keys(m.want))
	if !m.some {
		complete(t, m.client, m.want)
	}
	for name := range m.notYet {
		if !slices.Contains(names, name) {
			t.Errorf("%s is listed as not expected to pass, but is no scenario", name)
		}
	}
	for i, form := range forms {
		if i > 0 && !fullE2E() && len(m.core) == 0 {
			break
		}
		t.Run(form.name, func(t *testing.T) {
			for _, name := range names {
				if i > 0 && !fullE2E() && !slices.Contains(m.core, name) {
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					m.play(t, url, name, form.o)
				})
			}
		})
	}
}

func (m mixed) play(t *testing.T, url, name string, o bridgeOptions) {
	clientEra := m.clientEra
	if name == "legacy-era" {
		clientEra = "legacy"
	}
	at, legs := recordedBridge(t, url, clientEra, m.serverEra, patient(o))
	run := runClient(t, m.client, at, name)
	d := differs(run, m.want[name])
	if reason, listed := m.notYet[name]; listed {
		if d == "" {
			t.Errorf("passes now: take it off the list (%s)", reason)
		}
	} else if d != "" {
		t.Errorf("%s\nall of it:\n%s", d, run)
	}
	t.Run("messages", func(t *testing.T) {
		// Without a message of the proxy's own there was no translation.
		if made := legs.check(t, schematest.Load(t)); len(made) == 0 && clientEra != m.serverEra {
			t.Error("the recording holds nothing the proxy made")
		}
	})
}
