package e2e

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"taskbridge/translate"
)

var updateTransports = flag.Bool("update-transports", false, "write docs/transports.md anew")

const transportsFile = "../../docs/transports.md"

// TestTransportsDoc holds docs/transports.md to the list of verbs and cells.
func TestTransportsDoc(t *testing.T) {
	cells := pairCells()
	if len(cells) != 49 {
		t.Errorf("%d cells", len(cells))
	}
	functions := testFunctions(t)
	for c, tests := range pairTests {
		if !slices.Contains(cells, c) {
			t.Errorf("no such cell: %s", c)
		}
		for _, name := range tests {
			if !functions[name] {
				t.Errorf("no test %s", name)
			}
		}
	}
	want := renderTransports(cells)
	if *updateTransports {
		if err := os.WriteFile(transportsFile, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(transportsFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(raw) != want {
		t.Errorf("docs/transports.md is not what the tests play: go test ./cmd/e2e -run TestTransportsDoc -update-transports")
	}
}

func renderTransports(cells []pairCell) string {
	var b strings.Builder
	b.WriteString(`# Transports

<!-- Generated from the tests. Do not edit:
     go test ./cmd/e2e -run TestTransportsDoc -update-transports -->

What is played over every pair of transports and eras: ` + fmt.Sprint(len(cells)) + ` cells. HTTP+SSE is the transport of
2024-11-05 and carries legacy revisions alone (2026-07-28 basic/transports/streamable-http, HTTP+SSE
Transport), so a modern client or server has three transports and a legacy one four.

` + "`TestTransports`" + ` plays these verbs in each cell, with the proxy in a process of its own and built-in peers:

`)
	for _, v := range pairVerbs {
		fmt.Fprintf(&b, "- **%s**: %s\n", v.name, v.means)
	}
	notes := verbNotes(cells, &b)
	b.WriteString(bigWords)
	b.WriteString(`
## Cells

| client | over | server | over | verbs | with real peers |
| --- | --- | --- | --- | --- | --- |
`)
	for _, c := range cells {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", c.client, transportNames[c.down], c.server, transportNames[c.up], verbsOf(c, notes), realOf(c))
	}
	b.WriteString(`
## Real peers

| era | transport | client | server |
| --- | --- | --- | --- |
`)
	for _, era := range []translate.Era{translate.Legacy, translate.Modern} {
		for _, transport := range transportsOf[era] {
			names := realTransports[era][transport].names
			for i := range names {
				if names[i] == "" {
					names[i] = "none is known to us"
				}
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", era, transportNames[transport], names[0], names[1])
		}
	}
	b.WriteString("\n`TestTransports_RealPeers` plays a task with a question, or what of it the peers can, in the cells that no test of\n" +
		"their own holds; where one side has no real peer, a built-in one stands there.\n")
	return b.String()
}

// verbNotes writes what cells cannot have, each reason once, and numbers them.
func verbNotes(cells []pairCell, b *strings.Builder) map[string]int {
	notes := map[string]int{}
	b.WriteString("\nWhat a cell cannot have:\n\n")
	for _, v := range pairVerbs {
		for _, c := range cells {
			if why := v.reason(c); why != "" && notes[v.name+why] == 0 {
				notes[v.name+why] = len(notes) + 1
				fmt.Fprintf(b, "%d. %s: %s.\n", len(notes), v.name, why)
			}
		}
	}
	return notes
}

func verbsOf(c pairCell, notes map[string]int) string {
	n, marks := 0, ""
	for _, v := range pairVerbs {
		if why := v.reason(c); why == "" {
			n++
		} else {
			marks += fmt.Sprintf(" (%d)", notes[v.name+why])
		}
	}
	if marks == "" {
		return "all"
	}
	return fmt.Sprintf("%d of %d%s", n, len(pairVerbs), marks)
}

func realOf(c pairCell) string {
	client, server := c.real()
	tests := pairTests[c]
	if len(tests) == 0 && (client || server) {
		tests = []string{"TestTransports_RealPeers"}
	}
	if len(tests) == 0 {
		return "there are none"
	}
	text := "`" + strings.Join(tests, "` `") + "`"
	switch {
	case !server:
		text += ", the client"
	case !client:
		text += ", the server"
	}
	return text
}
