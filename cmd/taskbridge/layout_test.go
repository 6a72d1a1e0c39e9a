package main

import (
	"go/parser"
	"go/token"
	goversion "go/version"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "taskbridge"

// mayImport is what each package of ours may import of ours, tests aside
// (docs/design.md: imports). Commands may import everything but each other;
// another package not named here fails the test: whoever adds one decides where
// it stands.
var mayImport = map[string][]string{
	"translate/jsonrpc":             {},
	"translate/sse":                 {},
	"translate/lines":               {"translate/jsonrpc"},
	"translate":                     {"translate/jsonrpc", "translate/sse"},
	"translate/capture":             {"translate", "translate/jsonrpc", "translate/sse"},
	"translate/capture/capturetest": {"translate", "translate/capture", "translate/jsonrpc"},
	// What is read from captures.
	"translate/operation": {"translate", "translate/capture", "translate/jsonrpc"},
	"translate/compare":   {"translate", "translate/operation", "translate/jsonrpc"},
	"translate/check":     {"translate", "translate/capture", "translate/jsonrpc"},
	"translate/report":    {"translate/compare", "translate/operation", "translate/check"},
	"session":             {"translate", "translate/jsonrpc", "translate/sse"},
	"session/virtual":     {"session"},
	"session/offline":     {"session", "session/memory", "session/virtual", "translate", "translate/capture", "translate/jsonrpc", "translate/operation"},
	"session/memory":      {"session"},
	"session/storetest":   {"session"},
	"session/usage":       {"session", "translate", "translate/jsonrpc"},
	"session/replay":      {"session", "translate", "translate/capture", "translate/operation", "translate/compare", "translate/jsonrpc"},
	"session/ws":          {"translate/lines"},
	"session/throttle":    {},
	"session/telemetry":   {"session", "translate", "translate/jsonrpc"},
	"session/record":      {"session", "translate", "translate/jsonrpc", "translate/capture"},
	"upstream/child":      {},
	"upstream":            {"session", "translate", "translate/jsonrpc", "translate/sse", "translate/lines", "session/ws", "upstream/child"},
	"downstream":          {"session", "session/throttle", "session/ws", "translate", "translate/jsonrpc", "translate/sse", "translate/lines"},
	"cmd/peers":           {},
	// The configuration file.
	"cmd/taskbridge/config": {"translate"},
	// Tokens of callers.
	"session/bearer":            {"session"},
	"session/bearer/bearertest": {},
}

// pure packages do no I/O, know no clock and start nothing: net/http is there
// for Header and Method names, time for durations.
var (
	pure      = []string{"translate", "translate/jsonrpc", "translate/sse", "translate/lines", "translate/capture", "translate/operation", "translate/compare", "translate/check", "translate/report"}
	notInPure = []string{"os", "os/exec", "net", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "os/signal", "syscall", "context"}
)

func TestLayout(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == "vendor" || strings.HasPrefix(d.Name(), ".") && rel != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		pkg := path.Dir(filepath.ToSlash(rel))
		seen[pkg] = true
		checkImports(t, name, pkg)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{"translate", "session", "upstream", "downstream", "cmd/peers", "cmd/taskbridge"} {
		if !seen[pkg] {
			t.Errorf("package %s was not looked at", pkg)
		}
	}
}

func checkImports(t *testing.T, name, pkg string) {
	t.Helper()
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	allowed, known := mayImport[pkg]
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		ours, ok := strings.CutPrefix(imported, module+"/")
		switch {
		case ok && !known && strings.HasPrefix(pkg, "cmd/"):
			if strings.HasPrefix(ours, "cmd/") && ours != "cmd/peers" && !strings.HasPrefix(ours, pkg+"/") {
				t.Errorf("%s: %s must not import %s", name, pkg, ours)
			}
		case ok && !known:
			t.Errorf("%s: package %s is not in this test's table", name, pkg)
		case ok && !slices.Contains(allowed, ours):
			t.Errorf("%s: %s must not import %s", name, pkg, ours)
		case !ok && slices.Contains(pure, pkg) && slices.Contains(notInPure, imported):
			t.Errorf("%s: %s is pure and must not import %s", name, pkg, imported)
		}
	}
}

// TestSafetyS60_Toolchain: older toolchains have known holes in net/http.
func TestSafetyS60_Toolchain(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"go ", "toolchain go"} {
		i := strings.Index(string(raw), "\n"+word)
		if i < 0 {
			t.Fatalf("go.mod has no %q line", word)
		}
		line, _, _ := strings.Cut(string(raw)[i+1+len(word):], "\n")
		if goversion.Compare("go"+line, "go1.26.3") < 0 {
			t.Errorf("%s%s: want 1.26.3 or newer", word, line)
		}
	}
}
