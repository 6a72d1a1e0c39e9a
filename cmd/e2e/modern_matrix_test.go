package e2e

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var updateMatrix = flag.Bool("update-matrix", false, "write docs/matrix-modern.md anew")

const matrixFile = "../../docs/matrix-modern.md"

// matrixRow is one cell in the document. Test is where it is played.
type matrixRow struct{ cell, client, server, test, result string }

// extTasksScenarios are those modern-client.mjs plays through ext-tasks,
// wireScenarios those it writes itself; the rest is the v2 client alone.
var (
	extTasksScenarios = []string{"task", "task-immediate", "cancel", "other-client", "question", "question-decline", "question-cancel", "two", "sample-task", "ask-then-task", "failing", "protocol-error", "everything-task", "everything-question"}
	wireScenarios     = []string{"task-wire", "cancel-finished", "unknown-task", "other-caller", "two-partial", "question-abandon", "undeclared", "removed", "header-mismatch", "ask-wire", "listen-tasks"}
)

const (
	nameV2       = "client 2.4.0"
	nameExtTasks = "ext-tasks 0.2.2"
	nameWire     = "own requests"
	nameGoSDK    = "go-sdk 1.8.0"
	nameMCPGo    = "mcp-go 1.2.1"
	nameSDK      = "sdk 1.32.2"
	nameAll      = "server-everything"
)

func scenarioClient(name string) string {
	switch {
	case slices.Contains(extTasksScenarios, name):
		return nameExtTasks
	case slices.Contains(wireScenarios, name):
		return nameWire
	}
	return nameV2
}

// matrixNotes are the cells that do not simply work, and why.
var matrixNotes = map[string]string{
	"TestModernCells_GoSDKClient_GoSDKServer/" + fractions:            "works; the published 2025-11-25 JSON schema has integer where the specification has number",
	"TestModernCells_ModernClient_GoSDKServer/v2 client/" + fractions: "works; schema as above",
}

func matrixRows(t *testing.T) []matrixRow {
	var rows []matrixRow
	add := func(client, server, test string, cells ...string) {
		for _, c := range cells {
			name := client
			if name == "" {
				name = scenarioClient(c)
			}
			result := "passes"
			if note := matrixNotes[test+"/"+c]; note != "" {
				result = note
			}
			rows = append(rows, matrixRow{c, name, server, test + "/" + c, result})
		}
	}
	keys := func(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
	names := func(cells []cell) (out []string) {
		for _, c := range cells {
			out = append(out, c.name)
		}
		return out
	}
	const one = "/one runner"
	add("", nameSDK, "TestReal_ModernClient_LegacyServer"+one, keys(modernOnLegacy)...)
	add("", nameMCPGo, "TestReal_ModernClient_MCPGoServer"+one, keys(modernOnMCPGo)...)
	add("", nameAll, "TestReal_ModernClient_Everything"+one, keys(modernOnEverything)...)
	add(nameV2, nameGoSDK, "TestModernCells_ModernClient_GoSDKServer/v2 client", names(gosdkServerCells)...)
	add("", nameGoSDK, "TestModernCells_ModernClient_GoSDKServer/with ext-tasks", names(extTasksOnGoSDK)...)
	add(nameGoSDK, nameSDK, "TestModernCells_GoSDKClient_LegacyServer"+one, keys(gosdkOnLegacy)...)
	add(nameGoSDK, nameMCPGo, "TestModernCells_GoSDKClient_MCPGoServer"+one, keys(gosdkOnMCPGo)...)
	add(nameGoSDK, nameAll, "TestModernCells_GoSDKClient_Everything", names(gosdkOnEverything)...)
	add(nameGoSDK, nameGoSDK, "TestModernCells_GoSDKClient_GoSDKServer", append([]string{"initialize"}, names(gosdkServerCells)...)...)
	add(nameMCPGo, nameSDK, "TestReal_MCPGoClient_LegacyServer_Modern"+one, keys(mcpgoOnLegacy)...)
	add(nameMCPGo, nameMCPGo, "TestModernCells_MCPGoClient_MCPGoServer"+one, keys(mcpgoOnMCPGo)...)
	return rows
}

// situations are the cells of the scripted peers.
func situations(t *testing.T) []matrixRow {
	var rows []matrixRow
	for _, f := range []string{"TestPair_ModernClient_LegacyServer", "TestParked_ModernClient_LegacyServer", "TestHosted_ModernClient_LegacyServer"} {
		words := map[string]string{"TestPair": "tools and tasks", "TestParked": "a question parks the call", "TestHosted": "a question makes a task of the call"}
		rows = append(rows, matrixRow{cell: words[f[:strings.IndexByte(f, '_')]], test: f, result: "passes"})
	}
	for _, c := range modernCells {
		rows = append(rows, matrixRow{cell: c.name, test: "TestModernCells_Raw/" + c.name, result: "passes"})
	}
	names := subtests(t, "TestModernCells_Script")
	for _, c := range endings {
		names = append(names, c.name)
	}
	for _, name := range names {
		rows = append(rows, matrixRow{cell: name, test: "TestModernCells_Script/" + name, result: "passes"})
	}
	return append(rows, matrixRow{cell: "upstream requests of a tasks/get", test: "TestModernCells_Trips", result: "passes"})
}

// testFuncs are the test functions of this package, by name.
func testFuncs(t *testing.T) map[string]*ast.FuncDecl {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	funcs := map[string]*ast.FuncDecl{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				funcs[fn.Name.Name] = fn
			}
		}
	}
	return funcs
}

// subtests are the names a test function gives to t.Run itself.
func subtests(t *testing.T, name string) []string {
	t.Helper()
	fn := testFuncs(t)[name]
	if fn == nil {
		t.Fatalf("there is no %s", name)
	}
	var names []string
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		lit, isLit := call.Args[0].(*ast.BasicLit)
		if ok && isLit && sel.Sel.Name == "Run" {
			s, _ := strconv.Unquote(lit.Value)
			names = append(names, s)
		}
		return true
	})
	return names
}

func renderMatrix(t *testing.T) string {
	rows := matrixRows(t)
	var b strings.Builder
	b.WriteString(`# Modern clients before legacy servers

<!-- Generated from the tables of the tests. Do not edit: change the table, then run
     go test ./cmd/e2e -run TestModernMatrix -update-matrix -->

Modern (2026-07-28) clients reach legacy (2025-11-25) servers through the proxy. Each cell is a
subtest of ` + "`./cmd/e2e`" + `; a peer that is not installed skips its cells, and with
` + "`TASKBRIDGE_E2E=require`" + ` fails them. Every message the proxy makes in a cell of real peers is
held against the published schema of the era it goes to.

## Cells of real peers

`)
	servers := []string{nameSDK, nameAll, nameMCPGo, nameGoSDK}
	clients := []string{nameExtTasks, nameV2, nameWire, nameGoSDK, nameMCPGo}
	b.WriteString("| client | " + strings.Join(servers, " | ") + " | in all |\n| --- |" + strings.Repeat(" ---: |", len(servers)+1) + "\n")
	for _, c := range clients {
		total := 0
		b.WriteString("| " + c + " |")
		for _, s := range servers {
			n := 0
			for _, r := range rows {
				if r.client == c && r.server == s {
					n++
				}
			}
			total += n
			fmt.Fprintf(&b, " %d |", n)
		}
		fmt.Fprintf(&b, " %d |\n", total)
	}
	b.WriteString("\n*Own requests* are HTTP requests the client program writes itself, where a library hides what is\ntested. Only sdk 1.32.2, server-everything and mcp-go have tasks.\n\n")
	b.WriteString("| cell | client | server | test | result |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` | %s |\n", r.cell, r.client, r.server, r.test, r.result)
	}
	b.WriteString("\n## Situations\n\nScripted peers, each in three forms of the proxy: one runner, two on one store, one that forgets\nbetween messages; those of `TestModernCells_Script` in the first.\n\n| situation | test | result |\n| --- | --- | --- |\n")
	for _, r := range situations(t) {
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", r.cell, r.test, r.result)
	}
	b.WriteString("\nHow the official suite ends is in [conformance.md](conformance.md).\n")
	return b.String()
}

var inCode = regexp.MustCompile("`(Test[^`]+)`")

// TestModernMatrix holds docs/matrix-modern.md to the tests it names.
func TestModernMatrix(t *testing.T) {
	want := renderMatrix(t)
	if *updateMatrix {
		if err := os.WriteFile(matrixFile, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(raw) != want {
		t.Error("docs/matrix-modern.md is not what the tests say: go test ./cmd/e2e -run TestModernMatrix -update-matrix")
	}
	funcs := testFuncs(t)
	for _, m := range inCode.FindAllStringSubmatch(string(raw), -1) {
		name, _, _ := strings.Cut(m[1], "/")
		if funcs[name] == nil {
			t.Errorf("the document names %s, which is no test", m[1])
		}
	}
	seen := map[string]bool{}
	for _, r := range append(matrixRows(t), situations(t)...) {
		if seen[r.test] {
			t.Errorf("%s is there twice", r.test)
		}
		seen[r.test] = true
	}
	for test := range matrixNotes {
		if !seen[test] {
			t.Errorf("a note on %s, which is no cell", test)
		}
	}
}
