package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func itoa(i int) string { return strconv.Itoa(i) }

func readAll(pattern string) (map[string][]byte, error) {
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, name := range names {
		if out[name], err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// TestHostile: files made to cost much are refused, all of them within the time
// of one test.
func TestHostile(t *testing.T) {
	n := MaxSource / 24
	if testing.Short() {
		n /= 4
	}
	for name, s := range hostile(n) {
		t.Run(name, func(t *testing.T) {
			if f, problems := Parse("hostile.yaml", []byte(s), environment); f != nil || len(problems) == 0 || len(problems) > maxProblems+1 {
				t.Errorf("file %v, %d problems", f, len(problems))
			}
		})
	}
}

// fleet is a file of n routes.
func fleet(n int) []byte {
	var b strings.Builder
	b.WriteString("listen: 127.0.0.1:8080\nroutes:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - path: /r%d/mcp\n    upstreams:\n      - {name: old, url: https://old-%d.internal/mcp, weight: 90}\n      - {name: new, url: https://new-%d.internal/mcp, weight: 10, era: modern}\n", i, i, i)
	}
	return []byte(b.String())
}

func TestFleet(t *testing.T) {
	f, problems := Parse("fleet.yaml", fleet(2000), environment)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if len(f.Routes) != 2000 || len(f.Routes[1999].Upstreams) != 2 {
		t.Errorf("%d routes", len(f.Routes))
	}
}

func TestTooLarge(t *testing.T) {
	src := []byte("routes: [{upstream: 'http://127.0.0.1/mcp'}]\n#" + strings.Repeat("x", MaxSource))
	_, problems := Parse("large.yaml", src, environment)
	if len(problems) != 1 || problems[0].String() != "large.yaml: is larger than 1024 KiB; a configuration is shorter" {
		t.Error(problems)
	}
}

func BenchmarkParse(b *testing.B) {
	src := fleet(1000)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		if _, problems := Parse("fleet.yaml", src, environment); len(problems) > 0 {
			b.Fatal(problems)
		}
	}
}
