package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"taskbridge/translate"
)

// taskRoute is another way to a server than over Streamable HTTP, for the
// suite's scenarios of tasks; the suite itself speaks Streamable HTTP.
type taskRoute struct {
	behind string // the era of the server
	chain  bool   // a second proxy in between, spoken to over WebSocket; else the server is a process
}

var taskRoutes = []taskRoute{{"legacy", false}, {"modern", false}, {"legacy", true}, {"modern", true}}

func (c taskRoute) name() string {
	if c.chain {
		return c.behind + " server behind two proxies with WebSocket between"
	}
	return c.behind + " server on stdio behind"
}

// run plays the scenarios. Servers that are processes are given time to start:
// each set of capabilities a client declares is a session with a legacy server,
// and each session a process.
func (c taskRoute) run(t *testing.T) suiteRun {
	url := c.start(t)
	p := newParty(t, translate.Modern, "http", url, nil)
	p.within = 3 * patience
	p.must("tools/list", nil)
	return runSuite(t, url, "--timeout", "90000")
}

// start gives the URL the suite plays against.
func (c taskRoute) start(t *testing.T) string {
	t.Helper()
	process, remote := modernServerStdio, modernServer
	var flags []string
	if c.behind == "legacy" {
		process, remote = legacyServerStdio, legacyServer
		flags = []string{"--undeclared-tasks", "refuse"} // as the scenarios want it
	}
	if !c.chain {
		return serveBridge(t, append(append(flags, "--"), absoluteScripts(t, process.argv(t))...)).url
	}
	inner := serveBridge(t, append(flags, "--upstream", startServer(t, remote)))
	return serveBridge(t, []string{"--upstream", "ws" + strings.TrimPrefix(inner.url, "http")}).url
}

// check compares what a route came to with the direct run.
func (c taskRoute) check(t *testing.T, r *suiteResults) {
	direct, through := r.direct[setModern], r.cells[c.name()]
	for _, name := range taskScenarios(direct) {
		got, ran := through[name]
		if worse := suiteWorse(direct[name], got); !ran || len(worse) > 0 {
			t.Errorf("%s (ran: %v) does worse than directly in %v: %v", name, ran, worse, got.Problems)
		}
	}
}

func taskScenarios(run suiteRun) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(run)), func(name string) bool { return !strings.HasPrefix(name, "tasks-") })
}

func renderTaskRoutes(b *strings.Builder, r *suiteResults) {
	b.WriteString(`
## Scenarios of tasks over other transports

The suite speaks Streamable HTTP. Behind the proxy stands a server on stdio, or a second proxy that is
spoken to over WebSocket and has the server behind it.

| scenario | directly | legacy, stdio | modern, stdio | legacy, WebSocket | modern, WebSocket |
| --- | --- | --- | --- | --- | --- |
`)
	direct := r.direct[setModern]
	for _, name := range taskScenarios(direct) {
		fmt.Fprintf(b, "| %s | %s", name, came(direct[name], true))
		for _, c := range taskRoutes {
			got, ran := r.cells[c.name()][name]
			fmt.Fprintf(b, " | %s", came(got, ran))
		}
		b.WriteString(" |\n")
	}
}
