package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite golden files")

// secret is what no problem may show, whoever put it where.
const secret = "hunter2"

func environment(name string) (string, bool) {
	v, ok := map[string]string{
		"SECRET": secret + "\"'[x]: {y}", "TOKEN": secret, "LIST": "[a, b]", "MAP": "address: 127.0.0.1:9090",
		"STATE_KEY": strings.Repeat("k", 64), "WEIGHT": " 100 ", "EMPTY": "",
	}[name]
	return v, ok
}

func files(t *testing.T, pattern string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v, %d files", pattern, err, len(names))
	}
	out := map[string][]byte{}
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = src
	}
	return out
}

// TestBroken: each file gives exactly these messages. The golden file is read
// by people, who decide whether the words help.
func TestBroken(t *testing.T) {
	broken := files(t, "testdata/broken/*.yaml")
	var out strings.Builder
	for _, name := range slices.Sorted(mapKeys(broken)) {
		f, problems := Parse(filepath.Base(name), broken[name], environment)
		if f != nil || len(problems) == 0 {
			t.Errorf("%s: no problem found", name)
		}
		for _, p := range problems {
			text := p.String()
			if strings.Contains(text, secret) {
				t.Errorf("%s shows a secret: %s", name, text)
			}
			out.WriteString(strings.ReplaceAll(text, "\n", "\n\t") + "\n")
		}
	}
	golden(t, "testdata/broken/messages.txt", out.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) == got {
		return
	}
	wants, gots := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for i := range max(len(wants), len(gots)) {
		w, g := "", ""
		if i < len(wants) {
			w = wants[i]
		}
		if i < len(gots) {
			g = gots[i]
		}
		if w != g {
			t.Fatalf("%s differs from line %d on\nwant %s\n got %s\n(go test -update rewrites it)", name, i+1, w, g)
		}
	}
}

func mapKeys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestGood: what the files mean, with all defaults.
func TestGood(t *testing.T) {
	for name, src := range files(t, "testdata/good/*.yaml") {
		f, problems := Parse(name, src, environment)
		if len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(f); err != nil {
			t.Fatal(err)
		}
		golden(t, strings.TrimSuffix(name, ".yaml")+".json", filepath.ToSlash(b.String()))
	}
}

func TestLeast(t *testing.T) {
	f, problems := Parse("-", []byte("routes: [{upstream: 'http://127.0.0.1:3000/mcp'}]"), environment)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r := f.Routes[0]
	u := r.Upstreams[0]
	if f.Listeners[0].Address != "127.0.0.1:8080" || r.Name != "mcp" || r.Path != "/mcp" || r.SSEPath != "/sse" ||
		u.Name != "default" || u.Era != "auto" || u.Weight != 1 || u.ConnectTimeout != 10*time.Second || r.Lifetimes.ParkFor != 10*time.Minute {
		t.Errorf("%+v", f)
	}
}

// TestLineEnds: files of other systems mean the same, and their mistakes are in
// the same places.
func TestLineEnds(t *testing.T) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/broken/*.yaml"} {
		for name, src := range files(t, pattern) {
			if strings.Contains(name, "control-character") || strings.Contains(name, "latin-1") {
				continue
			}
			for what, other := range map[string]string{"CRLF": strings.ReplaceAll(string(src), "\n", "\r\n"), "BOM": "\uFEFF" + string(src)} {
				f, problems := Parse(name, src, environment)
				of, others := Parse(name, []byte(other), environment)
				if (f == nil) != (of == nil) || !slices.Equal(problems, others) {
					t.Errorf("%s with %s: %v\nwithout %v", name, what, others, problems)
				}
			}
		}
	}
}

// TestColumns are in characters, so that editors go there.
func TestColumns(t *testing.T) {
	_, problems := Parse("x.yaml", []byte("jwt-audience: [\"äöü\", '日本', *x]\nroutes: []\n"), environment)
	if len(problems) != 1 || problems[0].Column != 29 {
		t.Error(problems)
	}
}
