package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// plain is a node as JSON reads it. What aliases share stays shared.
func plain(n *node) any { return plainer{}.value(n) }

type plainer map[*node]any

func (p plainer) value(n *node) any {
	if v, ok := p[n]; ok {
		return v
	}
	v := p.make(n)
	p[n] = v
	return v
}

func (p plainer) make(n *node) any {
	switch n.shape {
	case list:
		out := []any{}
		for _, i := range n.items {
			out = append(out, p.value(i))
		}
		return out
	case object:
		out := map[string]any{}
		for _, m := range n.members {
			out[m.key] = p.value(m.value)
		}
		return out
	case number:
		return json.Number(n.text)
	case boolean:
		return n.text == "true"
	case null:
		return nil
	}
	return n.text
}

func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("file:///config.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("file:///config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// parseOnly are broken files the schema finds nothing wrong with: their fault
// is in YAML itself, in variables, or in what two keys are to each other.
var parseOnly = []string{
	"admin-open", "duplicate-key", "open-credential", "principal", "principal-header", "principal-jwt-audience", "same-requests", "sse-modern", "sse-path", "too-large", "transport",
	"unknown-listener", "variable-form", "variable-secret", "variable-unset", "weight-missing", "weights-zero",
}

// TestSchemaAgrees: editors accept what we accept, and find what is wrong with
// the shape of a file.
func TestSchemaAgrees(t *testing.T) {
	s := compiled(t)
	for name, src := range files(t, "testdata/good/*.yaml") {
		p := &problems{}
		if err := s.Validate(plain(tree(src, p))); err != nil {
			t.Errorf("%s: the schema refuses it: %v", name, err)
		}
	}
	for name, src := range files(t, "testdata/broken/*.yaml") {
		p := &problems{}
		root := tree(src, p)
		if root == nil {
			continue
		}
		word := strings.TrimSuffix(filepath.Base(name), ".yaml")
		err := s.Validate(plain(root))
		if only := slices.Contains(parseOnly, word); only != (err == nil) {
			t.Errorf("%s: the schema says %v; in the list of those it cannot find: %v", name, err, only)
		}
	}
}

// TestSchemaFile: the one that is shipped is the one of this program.
func TestSchemaFile(t *testing.T) {
	golden(t, "../../../docs/config.schema.json", string(Schema()))
}

// rows are the lines of the table in docs/config.md.
func rows(parts []part, above string) string {
	var b strings.Builder
	for _, p := range parts {
		name := above + p.name
		def := p.def
		switch {
		case p.required:
			def = "required"
		case p.exact:
			def = "`" + def + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, strings.ReplaceAll(p.word, " | ", " \\| "), def, p.doc)
		if strings.HasPrefix(def, "as in") || p.name == "upstream" || above == "defaults." && p.name == "limits" {
			continue // the same keys stand elsewhere
		}
		next := name + "."
		if p.list {
			next = name + "[]."
		}
		b.WriteString(rows(p.parts, next))
	}
	return b.String()
}

// TestDocs: the table names every key with its default.
func TestDocs(t *testing.T) {
	const name, begin, end = "../../../docs/config.md", "| key | value | default | meaning |\n|---|---|---|---|\n", "\n## "
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	if !ok {
		t.Fatalf("%s has no table of keys", name)
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no section behind the table", name)
	}
	golden(t, name, before+begin+rows(fileKind.parts, "")+end+after)
}

// TestDocsExamples: what the pages show is right.
func TestDocsExamples(t *testing.T) {
	var raw []byte
	for _, name := range []string{"docs/config.md", "README.md"} {
		page, err := os.ReadFile("../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, page...)
	}
	n := 0
	for i, block := range strings.Split(string(raw), "```yaml\n")[1:] {
		src, _, _ := strings.Cut(block, "```")
		n++
		if _, problems := Parse("example "+strconv.Itoa(i+1), []byte(src), environment); len(problems) > 0 {
			t.Errorf("%v in\n%s", problems, src)
		}
	}
	if n < 3 {
		t.Errorf("%d examples", n)
	}
}
