package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The subtests that docs/matrix.md names by their short form, a column a client.
var legacyMatrix = []map[string]map[string]string{
	{"real": legacyOnModern, "cells": sdkMore, "expiry": sdkExpiry},
	{"real": mcpgoOnModern, "cells": mcpgoMore, "expiry": mcpgoExpiry},
	{"cells": withMore(extOnModern, extMore), "expiry": extExpiry, "direct": extDirect},
}

// Those it names in full, without the form of the bridge.
var legacyMatrixFull = []string{
	"TestLegacyCells_Paging/legacy-client", "TestLegacyCells_Paging/ext-legacy-client",
	"TestLegacyCells_SlowPlainTool/legacy-client", "TestLegacyCells_SlowPlainTool/ext-legacy-client",
	"TestLegacyCells_TwoCallersOneCredential/legacy-client", "TestLegacyCells_TwoCallersOneCredential/ext-legacy-client",
	"TestLegacyCells_Raw/progress-on-result", "TestLegacyCells_Raw/status-notices",
	"TestLegacyCells_KilledProcess/legacy-client_then_legacy-client", "TestLegacyCells_KilledProcess/mcpgo-client_then_mcpgo-client",
	"TestLegacyCells_KilledProcess/ext-legacy-client_then_ext-legacy-client", "TestLegacyCells_KilledProcess/ext-legacy-client_then_legacy-client",
}

var (
	quoted      = regexp.MustCompile("`([^`]+)`")
	footnotes   = regexp.MustCompile(`\((\d)\)`)
	matrixTests = regexp.MustCompile(`^Test\w+$`)
)

// TestLegacyMatrix: every test the section names is there, and every cell is
// in the section.
func TestLegacyMatrix(t *testing.T) {
	raw, err := os.ReadFile("../../docs/matrix.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(raw), "## Legacy clients on a modern server\n")
	if !ok {
		t.Fatal("docs/matrix.md has no such section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	functions := testFunctions(t)
	seen := map[string]bool{}
	cells := make([]int, len(legacyMatrix))
	for line := range strings.Lines(section) {
		columns := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, n := range footnotes.FindAllStringSubmatch(line, -1) {
			if !strings.Contains(section, "\n"+n[1]+". ") {
				t.Errorf("no note %s for %s", n[1], line)
			}
		}
		for i, column := range columns {
			for _, q := range quoted.FindAllStringSubmatch(column, -1) {
				name := q[1]
				test, sub, isSub := strings.Cut(name, "/")
				switch {
				case strings.HasSuffix(name, ".txtar"):
					if _, err := os.Stat(filepath.Join("../../testdata/scenarios", name)); err != nil {
						t.Error(err)
					}
				case matrixTests.MatchString(test):
					if !functions[test] || isSub && !slices.Contains(legacyMatrixFull, name) {
						t.Errorf("no test %s", name)
					}
					if isSub {
						cells[i-1]++
					}
					seen[name] = true
				case isSub && sub != "…" && i >= 1 && i <= len(legacyMatrix):
					table, ok := legacyMatrix[i-1][test]
					if _, has := table[sub]; !ok || !has {
						t.Errorf("column %d: no cell %s", i, name)
					}
					seen[string(rune('0'+i))+" "+name] = true
					if test != "direct" {
						cells[i-1]++
					}
				}
			}
		}
	}
	for i, tables := range legacyMatrix {
		for short, table := range tables {
			for _, sub := range slices.Sorted(maps.Keys(table)) {
				if !seen[string(rune('1'+i))+" "+short+"/"+sub] {
					t.Errorf("column %d of docs/matrix.md does not name %s/%s", i+1, short, sub)
				}
			}
		}
	}
	for _, name := range legacyMatrixFull {
		if !seen[name] {
			t.Errorf("docs/matrix.md does not name %s", name)
		}
	}
	t.Logf("cells by client: %v", cells)
}

// testFunctions are the names of the tests in this folder.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}
