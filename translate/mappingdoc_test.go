package translate

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/mapping.md")

const mappingFile = "../docs/mapping.md"

func TestMappingDoc(t *testing.T) {
	want := MappingDoc()
	if *update {
		if err := os.WriteFile(mappingFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(mappingFile)
	if err != nil {
		t.Fatalf("%v; go test ./translate -run TestMappingDoc -update makes it", err)
	}
	if !bytes.Equal(bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n")), want) {
		t.Error("docs/mapping.md is not what the tables say; run: go test ./translate -run TestMappingDoc -update")
	}
}

// Every row of every table is in the page, and every line of a table has as
// many cells as its head.
func TestMappingDocIsWhole(t *testing.T) {
	page := string(MappingDoc())
	for _, r := range methods {
		if !strings.Contains(page, "\n| `"+r.Method+"` | "+r.Legacy.String()+" | "+r.Modern.String()+" |") {
			t.Errorf("method %s", r.Method)
		}
	}
	for _, r := range conditions {
		if !strings.Contains(page, "\n| "+string(r.Cond)+" | ") {
			t.Errorf("condition %s", r.Cond)
		}
	}
	for _, l := range losses {
		if !strings.Contains(page, "\n| `"+string(l.What)+"` | ") {
			t.Errorf("loss %s", l.What)
		}
	}
	cells := 0
	for line := range strings.SplitSeq(page, "\n") {
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if cells != 0 && n != cells {
			t.Errorf("%d cells, want %d: %s", n, cells, line)
		}
		cells = n
	}
}
