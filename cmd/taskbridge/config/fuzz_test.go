package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// FuzzParse: whatever stands in a file, there is a File or a reason, never both,
// and no reason shows what a variable holds. What is accepted the schema
// accepts, too.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/broken/*.yaml"} {
		all := map[string][]byte{}
		maps.Copy(all, seeds(f, pattern))
		for _, name := range slices.Sorted(mapKeys(all)) {
			f.Add(all[name])
		}
	}
	for _, s := range hostile(200) {
		f.Add([]byte(s))
	}
	schema := compiled(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		file, problems := Parse("fuzz.yaml", src, environment)
		if (file == nil) != (len(problems) > 0) || len(problems) > maxProblems+1 {
			t.Fatalf("file %v, problems %v", file, problems)
		}
		for _, p := range problems {
			if p.Text == "" || strings.Contains(p.String(), secret) && !strings.Contains(string(src), secret) {
				t.Fatalf("problem %q", p.String())
			}
			if p.Line < 0 || p.Column < 0 || (p.Line == 0) != (p.Column == 0) || p.Line > 1+strings.Count(string(src), "\n")+strings.Count(string(src), "\r") {
				t.Fatalf("place of problem %q", p.String())
			}
		}
		if file != nil && !strings.Contains(string(src), "*") { // an alias may stand for very much
			if _, err := json.Marshal(file); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(plain(tree(src, &problemsOf))); err != nil {
				t.Fatalf("the schema refuses what is accepted: %v", err)
			}
			if text := printsAgain(t, file); strings.Contains(text, secret) && !strings.Contains(string(src), secret) {
				t.Fatalf("printed:\n%s", text)
			}
		}
	})
}

var problemsOf problems

func seeds(f *testing.F, pattern string) map[string][]byte {
	f.Helper()
	out, err := readAll(pattern)
	if err != nil {
		f.Fatal(err)
	}
	return out
}

// hostile files cost a parser much for few bytes.
func hostile(n int) map[string]string {
	r := strings.Repeat
	return map[string]string{
		"brackets": r("[", n), "braces": r("{", n), "braces of keys": r("{a: ", n), "dashes": r("- ", n), "questions": r("? ", n), "colons": r("a: ", n),
		"anchors": r("&a ", n), "anchored": r("&a [", n), "tags": r("!t ", n), "tagged": r("!t [", n), "aliases": "a: &a x\nb:\n" + r(" - *a\n", n),
		"long": "a: " + r("x", n), "quoted": "a: \"" + r("x", n) + "\"", "unclosed": "a: \"" + r("x\n", n), "escapes": "a: \"" + r("\\n", n) + "\"", "apostrophes": "a: '" + r("''", n) + "'",
		"block": "a: |\n" + r("  x\n", n), "folded": "a: >\n" + r("  x\n", n), "lines": "a: x\n" + r("  x\n", n), "words": r("a\n", n), "comments": r("#x\n", n), "blanks": r(" ", n),
		"empty lines": r("\n", n), "tabs": r("\t", n), "documents": r("---\n", n), "ends": r("...\n", n), "directives": r("%YAML 1.2\n", n), "list": "a:\n" + r("  - x\n", n), "flow": "a: [" + r("x,", n) + "]",
		"same keys": r("a: b\n", n), "same keys, CR": r("a: b\r", n), "merges": "a: &a {b: c}\nb:\n" + r("  <<: *a\n", n), "steps": steps(n), "keys": keysOf(n), "flow keys": "{" + strings.ReplaceAll(keysOf(n), "\n", ", ") + "}",
		"bomb": bomb(n), "self": "a: &a [*a]", "variables": "listen: \"" + r("${A:-", n) + "\"", "carets": "a: " + r("^", n), "lists of lists": r("- - - -\n", n), "pipes": r("|", n), "greater": r("> ", n), "stars": r("*a ", n), "commas": r(",", n), "surrogates": "a: \"" + r("\\ud800", n) + "\"",
	}
}

func steps(n int) string {
	var b strings.Builder
	for i := range min(n, 1200) {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func keysOf(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("k" + strings.Repeat("x", i%5) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) + ": v\n")
	}
	return b.String()
}

// bomb: each anchor stands for ten of the one before.
func bomb(n int) string {
	var b strings.Builder
	b.WriteString("x-a: &a0 {path: /mcp}\n")
	for i := range min(n/10, 900) {
		b.WriteString("x-b" + strings.Repeat("x", i) + ": &a" + itoa(i+1) + " [*a" + itoa(i) + ", *a" + itoa(i) + "]\n")
	}
	b.WriteString("routes: *a" + itoa(min(n/10, 900)) + "\n")
	return b.String()
}
