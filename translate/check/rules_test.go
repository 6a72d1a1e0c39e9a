package check

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every rule that is told has its row, and every row is told somewhere.
func TestRulesAreUsed(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "rules.go" {
			continue
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"([a-z]+/[a-z0-9-]+)"`).FindAllStringSubmatch(string(raw), -1) {
			used[m[1]] = true
		}
	}
	groups := map[string]bool{}
	for _, r := range rules {
		group, _, _ := strings.Cut(r.ID, "/")
		groups[group] = true
		if !used[r.ID] {
			t.Errorf("nothing tells %s", r.ID)
		}
		if r.Legacy == "" && r.Modern == "" && group != "capture" {
			t.Errorf("%s has no reference", r.ID)
		}
	}
	for _, m := range methods {
		delete(used, m.Method)
	}
	for id := range used {
		group, _, _ := strings.Cut(id, "/")
		if groups[group] && ruleByID[id] == nil {
			t.Errorf("no row for %s", id)
		}
	}
}

var update = flag.Bool("update", false, "write the rules in docs/check.md anew")

// docs/check.md ends with the rows as they are.
func TestRulesDoc(t *testing.T) {
	const file = "../../docs/check.md"
	const mark = "<!-- made from translate/check/rules.go: go test ./translate/check -run TestRulesDoc -update -->\n"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, list, ok := strings.Cut(string(raw), mark)
	if !ok {
		t.Fatalf("%s has no line %s", file, mark)
	}
	if want := RulesDoc(); list != want {
		if *update {
			if err := os.WriteFile(file, []byte(head+mark+want), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("%s is not what the rules are; run with -update", file)
	}
}
