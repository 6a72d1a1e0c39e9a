package config

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

func none(string) string { return "" }

func printed(t *testing.T, f *File, given func(string) string) string {
	t.Helper()
	var b bytes.Buffer
	if err := f.Print(&b, given); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// uncommented is what was printed without where it came from.
func uncommented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if i := strings.LastIndex(line, "  # "); i >= 0 {
			line = line[:i] + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// printsAgain: what is printed reads as what it was printed of, and prints the
// same. It returns what was printed.
func printsAgain(t *testing.T, f *File) string {
	t.Helper()
	text := printed(t, f, none)
	again, problems := Parse("/printed.yaml", []byte(text), environment)
	if len(problems) > 0 {
		t.Fatalf("what was printed is refused: %v\n%s", problems, text)
	}
	if a, b := uncommented(text), uncommented(printed(t, again, none)); a != b {
		t.Fatalf("printed\n%s\nthen\n%s", a, b)
	}
	if filepath.IsAbs(f.Name) && !strings.Contains(text, "redacted") { // so are names of files
		one, two := *f, *again
		one.Name, two.Name = "", ""
		a, err := json.Marshal(one)
		b, err2 := json.Marshal(two)
		if err != nil || err2 != nil || string(a) != string(b) {
			t.Fatalf("%s\nis read again as\n%s", a, b)
		}
	}
	return text
}

// TestPrint_Again: the good files as printed are the same configuration.
func TestPrint_Again(t *testing.T) {
	for _, name := range []string{"least", "canary", "full"} {
		abs, err := filepath.Abs("testdata/good/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		src, err := readAll("testdata/good/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range src {
			f, problems := Parse(abs, raw, environment)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			text := printsAgain(t, f)
			if strings.Contains(text, secret) {
				t.Errorf("%s shows what a variable holds:\n%s", name, text)
			}
		}
	}
}

// TestPrint: what comes from where, and what is a secret.
func TestPrint(t *testing.T) {
	const src = `listen: ${HOST:-127.0.0.1}:8080
admin: {address: "127.0.0.1:0"}
defaults:
  inline-wait: 2s
  tool-errors: completed
routes:
  - path: /a
    tool-errors: failed
    upstream:
      url: https://user:hunter2@a.example/mcp?key=hunter2&id=${TOKEN}&hunter2
      headers: {Authorization: "Bearer ${TOKEN}", X-Key: hunter2, X-Two: "hunter2 ${TOKEN}", X-Three: "${NONE:-hunter2}"}
  - path: /b
    command: [server, "${TOKEN}", "$${x}", "", "true", "a: b # c"]
  - path: /c
    upstream: {command: [x], env: {A: hunter2, B: "${TOKEN}"}}
  - path: /d
    upstreams:
      - {name: x, url: "wss://${TOKEN}@x.example/mcp", weight: 0}
      - {name: y, url: "${URL:-https://user:hunter2@y.example?hunter2}", weight: 1}
      - {name: z, url: "https://user:a@hunter2@z.example/@x/mcp", weight: 1}
      - {name: u, url: "https://${NONE:-a/hunter2}@u.example/", weight: 1}
      - {name: db, command: [x, "--db=redis://:hunter2@db.example/0?password=hunter2", "what? a=b", "${TOKEN:-redis://:hunter2@db.example}"], weight: 1}
  - path: /e
    match-headers: {X-Tenant: acme, X-Who: "${TOKEN}"}
    upstream: https://e.example/mcp
`
	f, problems := Parse("dir/taskbridge.yaml", []byte(src), func(name string) (string, bool) {
		return map[string]string{"TOKEN": "hunter2"}[name], name == "TOKEN"
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	text := printed(t, f, func(path string) string {
		return map[string]string{"log.level": "--log-level", "admin.address": "TASKBRIDGE_ADMIN"}[path]
	})
	for _, want := range []string{
		"    address: \"127.0.0.1:8080\"  # taskbridge.yaml:1, ${HOST}\n",
		"  level: info  # --log-level\n",
		"admin:\n  address: \"127.0.0.1:0\"  # TASKBRIDGE_ADMIN\n",
		"  - name: a  # default\n    path: /a  # taskbridge.yaml:7\n",
		"        url: \"https://redacted@a.example/mcp?key=redacted&id=${TOKEN}&redacted\"  # taskbridge.yaml:10, ${TOKEN}\n",
		"          Authorization: \"Bearer ${TOKEN}\"  # taskbridge.yaml:11, ${TOKEN}\n",
		"          X-Key: \"(redacted)\"  # taskbridge.yaml:11\n",
		"          X-Two: \"(redacted)\"  # taskbridge.yaml:11, ${TOKEN}\n",
		"          X-Three: \"(redacted)\"  # taskbridge.yaml:11, ${NONE}\n",
		"    tool-errors: failed  # taskbridge.yaml:8\n",
		"    tool-errors: completed  # taskbridge.yaml:5\n",
		"    inline-wait: 2s  # taskbridge.yaml:4\n",
		"        command: [server, \"${TOKEN}\", \"$${x}\", \"\", \"true\", \"a: b # c\"]  # taskbridge.yaml:13\n",
		"          A: \"(redacted)\"  # taskbridge.yaml:15\n          B: \"${TOKEN}\"  # taskbridge.yaml:15, ${TOKEN}\n",
		"        weight: 0  # taskbridge.yaml:18\n        url: \"wss://${TOKEN}@x.example/mcp\"  # taskbridge.yaml:18, ${TOKEN}\n",
		"        url: \"https://redacted@z.example/@x/mcp\"  # taskbridge.yaml:20\n",
		"        url: \"https://redacted@u.example/\"  # taskbridge.yaml:21, ${NONE}\n",
		"        command: [x, \"--db=redis://redacted@db.example/0?password=redacted\", \"what? a=b\", \"${TOKEN:-redis://redacted@db.example}\"]  # taskbridge.yaml:22\n",
		"      X-Tenant: acme  # taskbridge.yaml:24\n      X-Who: \"${TOKEN}\"  # taskbridge.yaml:24, ${TOKEN}\n",
		"drain-timeout: 10s  # default\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing:\n%s", want)
		}
	}
	if strings.Contains(text, "hunter2") {
		t.Error("a secret is shown")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestPrint_EveryKey: each key is printed, or is another way to say what is.
func TestPrint_EveryKey(t *testing.T) {
	src, err := readAll("testdata/good/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range src {
		raw = bytes.Replace(raw, []byte("pins: {principals"), []byte("health: {interval: 10s}\n        pins: {clients: [{name: c, version: '1'}], principals"), 1)
		f, problems := Parse("full.yaml", raw, environment)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		text := printed(t, f, none)
		var look func(parts []part)
		look = func(parts []part) {
			for _, p := range parts {
				switch p.name {
				case "listen", "defaults", "upstream":
					continue
				}
				if !strings.Contains(text, p.name+":") {
					t.Errorf("%s is not printed", p.name)
				}
				look(p.parts)
			}
		}
		look(fileKind.parts)
	}
}
