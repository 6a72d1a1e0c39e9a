package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	t.Setenv("CONFIG_TEST_TOKEN", "hunter2")
	fine := write("fine.yaml", "routes:\n  - path: /a\n    upstream: https://a.example.com/mcp\n  - path: /b\n    upstreams:\n      - {name: x, url: https://x.example.com/mcp}\n      - {name: y, url: https://y.example.com/mcp, header-files: [y.headers]}\n")
	write("y.headers", "X-A: b\n")
	wrong := write("wrong.yaml", "lisen: 127.0.0.1:8080\nroutes:\n  - path: /a\n    upstream: https://a.example.com/${CONFIG_TEST_NONE}\n")
	missing := write("missing.yaml", "listeners:\n  - address: 127.0.0.1:8080\n    tls: {cert: cert.pem, key: '${CONFIG_TEST_TOKEN}.pem'}\nroutes:\n  - upstream: {command: [server], cwd: nowhere}\n")
	for _, test := range []struct {
		name           string
		args           []string
		stdin          string
		code           int
		stdout, stderr string
	}{
		{"fine", []string{fine}, "", 0, fine + ": fine, 2 routes, 3 upstreams\n", ""},
		{"stdin", []string{"-"}, "routes: [{upstream: 'http://127.0.0.1/mcp'}]", 0, "standard input: fine, 1 route, 1 upstream\n", ""},
		{"wrong", []string{wrong}, "", 2,
			wrong + ":1:1: lisen: the file has no such key; did you mean listen?\n" +
				wrong + ":4:15: routes[0].upstream.url: environment variable CONFIG_TEST_NONE is not set; set it, or give a default as in ${CONFIG_TEST_NONE:-value}\n",
			"taskbridge: " + wrong + ": 2 problems\n"},
		{"files that are not there", []string{missing}, "", 2,
			missing + ":3:17: listeners[0].tls.cert: the file cannot be read: no such file or directory; names are relative to the folder of the configuration\n" +
				missing + ":3:32: listeners[0].tls.key: the file cannot be read: no such file or directory; names are relative to the folder of the configuration\n" +
				missing + ":5:40: routes[0].upstream.cwd: the folder is not there: no such file or directory\n",
			"taskbridge: " + missing + ": 3 problems\n"},
		{"no such file", []string{filepath.Join(dir, "none.yaml")}, "", 2,
			filepath.Join(dir, "none.yaml") + ": cannot be read: no such file or directory\n", "taskbridge: " + filepath.Join(dir, "none.yaml") + ": 1 problem\n"},
		{"JSON", []string{"--json", wrong}, "", 2, "", `{"error":{"code":"configuration","message":"` + wrong + `: 2 problems","status":null,"url":null}}` + "\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := run(t.Context(), append([]string{"config", "check"}, test.args...), strings.NewReader(test.stdin), &stdout, &stderr)
			if code != test.code || stderr.String() != test.stderr {
				t.Errorf("exit %d, stderr %q\nwant %d, %q", code, stderr.String(), test.code, test.stderr)
			}
			if test.stdout != "" && stdout.String() != test.stdout {
				t.Errorf("stdout %q\nwant %q", stdout.String(), test.stdout)
			}
			if strings.Contains(stdout.String()+stderr.String(), "hunter2") {
				t.Error("a secret is shown")
			}
		})
	}
	t.Run("JSON of findings", func(t *testing.T) {
		var stdout, stderr strings.Builder
		run(t.Context(), []string{"config", "check", "--json", wrong}, strings.NewReader(""), &stdout, &stderr)
		var got struct {
			Fine     bool
			Problems []struct {
				File, Path, Text string
				Line, Column     int
			}
		}
		if err := json.Unmarshal([]byte(stdout.String()), &got); err != nil || got.Fine || len(got.Problems) != 2 ||
			got.Problems[1].Line != 4 || got.Problems[1].Column != 15 || got.Problems[1].Path != "routes[0].upstream.url" {
			t.Errorf("%v in %s", err, stdout.String())
		}
	})
}

// TestConfigPrint: what serve would run with, flags and environment over the file,
// is a file that config check finds fine; what serve refuses is refused.
func TestConfigPrint(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "key"), []byte(strings.Repeat("k", 40)), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "short"), []byte("k"), 0o600))
	const routes = "routes:\n  - upstream: {url: https://a.example.com/mcp, headers: {Authorization: 'Bearer ${CONFIG_TEST_TOKEN}'}}\n"
	file := writeConfig(t, filepath.Join(dir, "taskbridge.yaml"), "listen: 127.0.0.1:0\nlog: {level: warn}\nstate-keys: [key]\n"+routes)
	t.Setenv("CONFIG_TEST_TOKEN", "hunter2")
	t.Setenv("TASKBRIDGE_MAX_MESSAGE", "2MiB")
	t.Setenv("TASKBRIDGE_LOG_LEVEL", "error")
	code, out, errs := runArgs(t, "config", "print", file, "--log-level", "debug", "--max-tasks=7", "--drain-timeout", "90s")
	if code != exitOK || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{
		"    address: \"127.0.0.1:0\"  # taskbridge.yaml:1\n", "  level: debug  # --log-level\n", "    tasks: 7  # --max-tasks\n",
		"drain-timeout: 1m30s  # --drain-timeout\n", "max-message: 2MiB  # TASKBRIDGE_MAX_MESSAGE\n",
		"state-keys: [" + filepath.Join(dir, "key") + "]  # taskbridge.yaml:3\n", "Authorization: \"Bearer ${CONFIG_TEST_TOKEN}\"  # taskbridge.yaml:5, ${CONFIG_TEST_TOKEN}\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("missing %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "hunter2") {
		t.Error("a secret is shown")
	}
	again := writeConfig(t, filepath.Join(t.TempDir(), "printed.yaml"), out)
	if code, out, errs := runArgs(t, "config", "check", again); code != exitOK {
		t.Errorf("what was printed is refused: exit %d, %s%s", code, out, errs)
	}
	bad := writeConfig(t, filepath.Join(dir, "bad.yaml"), "state-keys: [short]\n"+routes)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "config print wants the name of one file"},
		{[]string{file, file}, "config print wants the name of one file"},
		{[]string{filepath.Join(dir, "none")}, "cannot be read: no such file"},
		{[]string{bad}, bad + ":1:14: state-keys[0]: state key "},
		{[]string{file, "--max-message", "2GiB"}, "--max-message: at most 1GiB"},
		{[]string{file, "--park", "task"}, "--park: the servers and their routes are in "},
	} {
		if code, out, errs := runArgs(t, append([]string{"config", "print"}, tt.args...)...); code != exitUsage || out != "" || !strings.Contains(errs, tt.want) {
			t.Errorf("%v: exit %d, %q, %s\nwant %s", tt.args, code, out, errs, tt.want)
		}
	}
}

func TestConfigSchema(t *testing.T) {
	var stdout, stderr strings.Builder
	if code := run(t.Context(), []string{"config", "schema"}, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	shipped, err := os.ReadFile(filepath.Join("..", "..", "docs", "config.schema.json"))
	if err != nil || stdout.String() != string(shipped) {
		t.Errorf("%v; the schema is not the one of docs", err)
	}
}
