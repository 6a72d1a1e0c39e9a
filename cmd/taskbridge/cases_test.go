package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Rows whose tests come with what they need. Taking one out here is part of
// that work.
var (
	laterCases = map[string]bool{}
	// None waits.
	laterSafety = map[string]bool{}
)

// Every case from the field, and every threat and fault, has a test named after
// it. The lists stand beside the checkout; without them there is nothing to
// compare.
func TestCasesHaveTests(t *testing.T) { rowsHaveTests(t, "cases.md", "TestCase", "B", 30, laterCases) }

func TestSafetyRowsHaveTests(t *testing.T) {
	rowsHaveTests(t, "safety.md", "TestSafety", "S", 35, laterSafety)
}

func rowsHaveTests(t *testing.T, file, prefix, letter string, least int, later map[string]bool) {
	root := filepath.Join("..", "..")
	list, err := os.ReadFile(filepath.Join(root, "..", "shared", file))
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	named := map[string]bool{}
	test := regexp.MustCompile(`(?m)^func ` + prefix + `(` + letter + `\d+)_\w+\(t \*testing\.T\)`)
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(name)
		for _, m := range test.FindAllStringSubmatch(string(src), -1) {
			named[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (`+letter+`\d+) \|`).FindAllStringSubmatch(string(list), -1)
	if len(rows) < least {
		t.Errorf("only %d rows were found", len(rows))
	}
	for _, row := range rows {
		if !named[row[1]] && !later[row[1]] {
			t.Errorf("row %s has no test named %s%s_…", row[1], prefix, row[1])
		}
		delete(named, row[1])
	}
	for name := range named {
		t.Errorf("tests are named after %s, which is no row of the list", name)
	}
}
