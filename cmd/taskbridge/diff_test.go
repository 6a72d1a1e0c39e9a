package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"taskbridge/cmd/peers"
	"taskbridge/translate/capture/capturetest"
)

const diffed = `
> a 1 tools/list
< a 1 = {"tools":[{"name":"greet"},{"name":"old"}]}
> b 2 tools/call {"name":"greet","arguments":{"who":"Ada"}}
+ 20ms
< b 2 = {"content":[{"type":"text","text":"Hello, Ada!"}]}
> c 3 ping
< c 3 = {}
@ leg=server
> s 1 tools/list
< s 1 ! {"code":-32603,"message":"broken"}
`

// diffFiles writes two captures; the second has each of the changes.
func diffFiles(t *testing.T, changes ...string) (a, b string) {
	t.Helper()
	dir := t.TempDir()
	a, b = filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.jsonl")
	changed := strings.NewReplacer(changes...).Replace(diffed)
	for name, text := range map[string]string{a: diffed, b: changed} {
		if err := os.WriteFile(name, capturetest.File(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

func runDiff(t *testing.T, stdin []byte, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, words bytes.Buffer
	code = run(t.Context(), append([]string{"diff"}, args...), bytes.NewReader(stdin), &out, &words)
	return code, out.String(), words.String()
}

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		name    string
		changes []string
		args    []string
		code    int
		want    string // in what is printed, either way
	}{
		{"same", nil, nil, 0, "3 same, 0 different"},
		{"wrong text", []string{"Hello, Ada!", "Hello, Eve!"}, nil, 1, "changed value at $.result.content[0].text: another value\n    was \"Hello, Ada!\"\n    now \"Hello, Eve!\"\n"},
		{"ignored", []string{"Hello, Ada!", "Hello, Eve!"}, []string{"--ignore", "$.result.content[*].text"}, 0, ": same\n"},
		{"not picked", []string{"Hello, Ada!", "Hello, Eve!"}, []string{"--only", "method:tools/list"}, 0, "1 same"},
		{"picked on either side", []string{`= {"content":[{"type":"text","text":"Hello, Ada!"}]}`, `! {"code":-1,"message":"no"}`}, []string{"--only", "tool:greet status:ok"}, 1, "it ended worse"},
		{"picked", []string{"Hello, Ada!", "Hello, Eve!"}, []string{"--only", "tool:greet", "--only", "era:legacy"}, 1, "1 different"},
		{"a tool gone", []string{`,{"name":"old"}`, ""}, nil, 1, "worse gone at $.result.tools[?@.name=='old']: a tool is gone"},
		{"a tool more", []string{`,{"name":"old"}`, `,{"name":"old"},{"name":"new"}`}, nil, 0, "note added at $.result.tools[?@.name=='new']: a tool is new"},
		{"slower", []string{"+ 20ms", "+ 400ms"}, []string{"--slower", "100ms,2x"}, 1, "worse slower"},
		{"not so much slower", []string{"+ 20ms", "+ 400ms"}, []string{"--slower", "100ms,50x"}, 0, ": same"},
		{"a ping more is no matter", []string{"> c 3 ping\n< c 3 = {}", ""}, nil, 0, "left out     1: a client pings by its own clock"},
		{"the client's leg alone", []string{"broken", "other"}, nil, 0, ": same"},
		{"the server's leg", []string{"broken", "other"}, []string{"--leg", "server"}, 1, "$.error.message"},
		{"nothing picked", nil, []string{"--only", "tool:none"}, 2, "--only picks no operation"},
		{"bad filter", nil, []string{"--only", "tol:x"}, 2, `there is no key "tol"`},
		{"bad path", nil, []string{"--ignore", "$.["}, 2, "is no JSONPath query"},
		{"bad threshold", nil, []string{"--slower", "2"}, 2, "such as 100ms,2x"},
		{"two reports to one place", nil, []string{"--json", "-", "--html", "-"}, 2, "cannot both go"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := diffFiles(t, c.changes...)
			code, stdout, stderr := runDiff(t, nil, append([]string{a, b}, c.args...)...)
			if code != c.code || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("exit %d, want %d and %q\n%s%s", code, c.code, c.want, stdout, stderr)
			}
		})
	}
}

func TestDiffInputs(t *testing.T) {
	a, b := diffFiles(t)
	whole, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runDiff(t, whole, a, "-"); code != 0 {
		t.Errorf("exit %d %s", code, stderr)
	}
	// Cut short, the second capture may lack only what came later.
	lines := bytes.SplitAfter(whole, []byte("\n"))
	cut := bytes.Join(lines[:4], nil)
	if code, stdout, stderr := runDiff(t, cut, a, "-"); code != 1 || !strings.Contains(stdout, "inconclusive\n") || !strings.Contains(stdout, "not whole") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	for _, args := range [][]string{{a}, {a, b, a}, {"-", "-"}, {a, filepath.Join(t.TempDir(), "none")}} {
		if code, _, stderr := runDiff(t, nil, args...); code != 2 || stderr == "" {
			t.Errorf("%v: exit %d %s", args, code, stderr)
		}
	}
	if code, _, stderr := runDiff(t, []byte("<html>"), a, "-"); code != 2 || !strings.Contains(stderr, "line 1") {
		t.Errorf("a foreign file: exit %d %s", code, stderr)
	}
}

func TestDiffReports(t *testing.T) {
	a, b := diffFiles(t, "Hello, Ada!", "Hello, Eve!")
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept")
	page := filepath.Join(dir, "page.html")
	if err := os.WriteFile(kept, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" {
		if err := os.Symlink(kept, page); err != nil {
			t.Fatal(err)
		}
	}
	junit := filepath.Join(dir, "junit.xml")
	code, stdout, stderr := runDiff(t, nil, a, b, "--json", "-", "--junit", junit, "--html", page)
	var out struct{ Verdict string }
	if code != 1 || json.Unmarshal([]byte(stdout), &out) != nil || out.Verdict != "different" || !strings.Contains(stderr, "1 different") ||
		!strings.Contains(stderr, `{"error":{"code":"different","message":"different: 1 of 3 operations"`) {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	for name, want := range map[string]string{junit: "<failure", page: "Content-Security-Policy", kept: "mine"} {
		raw, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(raw), want) {
			t.Errorf("%s: %v %.200s", name, err, raw)
		}
		if info, err := os.Lstat(name); err == nil && runtime.GOOS != "windows" && info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	if code, _, stderr := runDiff(t, nil, a, b, "--html", filepath.Join(dir, "none", "x.html")); code != 1 || !strings.Contains(stderr, "cannot write the report") {
		t.Errorf("exit %d %s", code, stderr)
	}
}

// recordCalls has a client of one era do the same things before a server of one
// era, each time with other ids, and returns the recording.
func recordCalls(t *testing.T, clientModern, serverModern bool) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "capture.jsonl")
	s := serve(t, "--record", file, "--upstream", peerArgs(t, serverModern, false)[0])
	ctx := t.Context()
	answer := peers.Accept(map[string]any{"name": "Ada", "confirm": true})
	for _, call := range []struct {
		method string
		params map[string]any
	}{
		{"tools/list", map[string]any{}},
		{"tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}}},
		{"prompts/list", map[string]any{}},
		{"prompts/get", map[string]any{"name": "hello", "arguments": map[string]any{"name": "Ada"}}},
		{"resources/list", map[string]any{}},
		{"resources/read", map[string]any{"uri": "demo://none"}},
		{"tools/call", map[string]any{"name": "no such tool"}},
	} {
		var err error
		if clientModern {
			_, err = modernClient(t, s.url).Call(ctx, call.method, call.params)
		} else {
			_, err = legacyClient(t, s.url).Call(ctx, call.method, call.params)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	for _, tool := range []string{"confirm_delete", "failing_job"} {
		args := map[string]any{"filename": "a.txt"}
		if clientModern {
			_, err = modernClient(t, s.url).RunTask(ctx, tool, args, answer)
		} else {
			_, err = legacyClient(t, s.url).RunTask(ctx, tool, args, answer)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if code := s.end(); code != exitOK {
		t.Fatalf("exit %d: %s", code, s.stderr)
	}
	return file
}

// What real peers said twice, in whichever dialect, does not differ.
func TestDiffOfRecordings(t *testing.T) {
	captures := map[[2]bool]string{}
	eachEra(t, func(t *testing.T, clientModern, serverModern bool) {
		captures[[2]bool{clientModern, serverModern}] = ""
	})
	for pair := range captures {
		captures[pair] = recordCalls(t, pair[0], pair[1])
	}
	again := recordCalls(t, false, false)
	check := func(name, a, b string, args ...string) {
		t.Helper()
		if code, stdout, stderr := runDiff(t, nil, append([]string{a, b}, args...)...); code != 0 {
			t.Errorf("%s: exit %d\n%s%s", name, code, stdout, stderr)
		}
	}
	check("twice the same", captures[[2]bool{false, false}], again)
	check("twice the same, server's leg", captures[[2]bool{false, false}], again, "--leg", "server")
	// From the old server to the new one nothing is worse: tools can be called
	// either way now. Back again they cannot.
	check("a move", captures[[2]bool{false, false}], captures[[2]bool{false, true}], "--ignore", "$.result.capabilities.logging")
	for a, fileA := range captures {
		for b, fileB := range captures {
			check(eraName(a[0])+" client, "+eraName(a[1])+" server; then "+eraName(b[0])+" client, "+eraName(b[1])+" server", fileA, fileB,
				"--ignore", "$.result.capabilities.logging", // which only the legacy peer has
				"--ignore", "$.result.tools[*].execution", "--ignore", "$.result.cacheScope") // and what only one lets say
		}
	}
}
