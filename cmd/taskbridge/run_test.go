package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestUsage: every error says what was wrong, where, and what to do.
func TestUsage(t *testing.T) {
	const seeServe = "See taskbridge serve --help.\n"
	up := []string{"serve", "--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:1/mcp"}
	with := func(args ...string) []string { return append(append([]string{}, up...), args...) }
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"unknown command", []string{"serv"}, `unknown command "serv"; did you mean serve?` + "\n"},
		{"no such command", []string{"frobnicate"}, `unknown command "frobnicate"; see taskbridge --help` + "\n"},
		{"config without a file", []string{"config", "check"}, "config check wants the name of one file, or - for standard input\nSee taskbridge config check --help.\n"},
		{"command of config", []string{"config", "x"}, "unknown command \"x\" of config; want check, print or schema\nSee taskbridge config --help.\n"},
		{"unknown flag", with("--lisen", "x"), "unknown flag --lisen; did you mean --listen?\n" + seeServe},
		{"unlike any flag", with("--frobnicate"), "unknown flag --frobnicate\n" + seeServe},
		{"no value", with("--path"), "--path needs a value\n" + seeServe},
		{"no upstream", []string{"serve"}, "no server given; name it with --upstream URL or, behind --, by its command\n" + seeServe},
		{"no command", []string{"serve", "--"}, "a command belongs behind --, as in: taskbridge serve -- npx some-server\n" + seeServe},
		{"two servers", with("--", "node", "x.js"), "the server is given twice: by a URL and by a command behind --\n" + seeServe},
		{"header for a process", []string{"serve", "--header", "A: b", "--", "node", "x.js"}, "--header is for a server behind a URL; a server process gets what it needs with --env\n" + seeServe},
		{"env for a URL", with("--env", "A=b"), "--env is for a server process; give its command behind --\n" + seeServe},
		{"bad env", []string{"serve", "-e", "=hunter2", "--", "node"}, "--env: want KEY=VALUE, or KEY\n" + seeServe},
		{"unset env", []string{"serve", "-e", "NOT_SET_ANYWHERE", "--", "node"}, "--env: environment variable NOT_SET_ANYWHERE is not set\n" + seeServe},
		{"no directory", []string{"serve", "--cwd", "/nowhere/at/all", "--", "node"}, `--cwd "/nowhere/at/all": is no directory` + "\n" + seeServe},
		{"open process", []string{"serve", "--listen", "0.0.0.0:0", "--", "node"}, "--listen 0.0.0.0:0 is open to other machines and every caller would use the server process it is: any made-up token gets in; " +
			"listen on 127.0.0.1, or have callers verified (--principal jwt:JWKS) or a front end do it (--principal header:NAME --trusted-proxy CIDR), or accept it with --allow-open\n" + seeServe},
		{"log on standard output", []string{"stdio", "--log-file", "-", "--", "node"}, "--log-file -: standard output carries the protocol; name a file\nSee taskbridge stdio --help.\n"},
		{"two URLs", []string{"stdio", "http://a/mcp", "--upstream", "http://b/mcp"}, "the server is given twice: as an argument and with --upstream\nSee taskbridge stdio --help.\n"},
		{"server without list", []string{"probe", "--server", "x"}, "--server names one of a client's servers; give its configuration with --mcp-config FILE\nSee taskbridge probe --help.\n"},
		{"URL as argument", []string{"serve", "http://127.0.0.1/mcp"}, "serve takes no arguments; name the server with --upstream URL\n" + seeServe},
		{"argument", []string{"version", "x"}, `version takes no arguments, but got "x"` + "\nSee taskbridge version --help.\n"},
		{"shell", []string{"completion"}, "completion wants a shell: bash, fish, powershell or zsh\nSee taskbridge completion --help.\n"},
		{"unknown shell", []string{"completion", "cmd"}, "completion wants a shell: bash, fish, powershell or zsh\nSee taskbridge completion --help.\n"},
		{"era", with("--upstream-era", "new"), `--upstream-era "new": want auto, legacy or modern` + "\n" + seeServe},
		{"no unit", with("--drain-timeout", "10"), `--drain-timeout "10": a duration needs a unit, as in 10ms or 10s` + "\n" + seeServe},
		{"no duration", with("--task-handle-after", "soon"), `--task-handle-after "soon": want a duration such as 500ms, 10s or 2m` + "\n" + seeServe},
		{"negative", with("--connect-timeout=-1s"), `--connect-timeout "-1s": must be above zero` + "\n" + seeServe},
		{"negative wait", with("--inline-wait=-1s"), `--inline-wait "-1s": must be above zero` + "\n" + seeServe},
		{"zero", with("--drain-timeout", "0s"), `--drain-timeout "0s": must be above zero` + "\n" + seeServe},
		{"size", with("--max-message", "big"), `--max-message "big": want a size such as 64MiB or 1048576` + "\n" + seeServe},
		{"size limit", with("--max-message", "2GiB"), "--max-message: at most 1GiB\n" + seeServe},
		{"bool", with("--allow-open=maybe"), `--allow-open "maybe": want true or false` + "\n" + seeServe},
		{"listen", with("--listen", "8080"), `--listen "8080": want ADDRESS:PORT, such as 127.0.0.1:8080` + "\n" + seeServe},
		{"port", with("--listen", "127.0.0.1:99999"), `--listen "127.0.0.1:99999": port "99999": want a number from 0 to 65535` + "\n" + seeServe},
		{"path", with("--path", "mcp"), `--path "mcp": must begin with / and have no query` + "\n" + seeServe},
		{"admin", with("--admin", "0.0.0.0:0"), `--admin "0.0.0.0:0" is open to other machines; give it a token with --admin-token FILE, or take a loopback address such as 127.0.0.1:9090, or unix:PATH` + "\n" + seeServe},
		{"admin socket", with("--admin", "unix:"), `--admin "unix:": want a path after unix:, as in unix:/run/taskbridge/admin.sock` + "\n" + seeServe},
		{"admin token alone", with("--admin-token", "/nowhere"), "--admin-token is for the admin address; give one with --admin\n" + seeServe},
		{"admin token", with("--admin", "127.0.0.1:0", "--admin-token", "/nowhere"), "--admin-token: /nowhere: no such file or directory\n" + seeServe},
		{"admin verb", []string{"admin"}, "admin wants a verb: drain, reload, report, status, undrain\nSee taskbridge admin --help.\n"},
		{"redis", with("--state", "redis://user:hunter2@h/0"), "--state redis: is not available yet in this version; use memory\n" + seeServe},
		{"file", with("--state", "file:/var/lib/x"), "--state file: is not available yet in this version; use memory\n" + seeServe},
		{"state", with("--state", "disk"), "--state: want memory\n" + seeServe},
		{"jwt", with("--principal", "jwt:https://idp/keys"), "--principal jwt: a token for another service would get in; say whom tokens are for with --jwt-audience or --public-url\n" + seeServe},
		{"header without proxy", with("--principal", "header:X-User"), "--principal header:X-User: anyone could send that header; name the front end that sets it with --trusted-proxy CIDR\n" + seeServe},
		{"cidr", with("--trusted-proxy", "10.0.0.0/99"), `--trusted-proxy "10.0.0.0/99": want an address or a CIDR such as 10.0.0.0/8` + "\n" + seeServe},
		{"websocket", []string{"serve", "--upstream", "ws://h/mcp", "--header", "Sec-WebSocket-Key: hunter2"}, `upstream "default": header "Sec-Websocket-Key" is set by the proxy itself; leave it out` + "\n" + seeServe},
		{"sse path", with("--sse-path", "sse"), `--sse-path: SSE path "sse": must begin with / and have a last part, and no query, escape or blank` + "\n" + seeServe},
		{"sse path in use", with("--sse-path", "/mcp"), `--sse-path: SSE path "/mcp": it and "/message" beside it must differ from each other and from the endpoint's "/mcp"` + "\n" + seeServe},
		{"transport", with("--upstream-transport", "ws"), `--upstream-transport "ws": want auto, http or sse` + "\n" + seeServe},
		{"transport of a WebSocket", []string{"serve", "--upstream", "ws://h/mcp", "--upstream-transport", "sse"}, "--upstream-transport is for http:// and https:// URLs\n" + seeServe},
		{"modern over HTTP+SSE", with("--upstream-transport", "sse", "--upstream-era", "modern"), "--upstream-transport sse carries legacy revisions only, so --upstream-era modern cannot be\n" + seeServe},
		{"message URL", with("--upstream-message-url", "https://user:hunter2@h/m"), "--upstream-message-url: want an http:// or https:// URL such as https://HOST/PATH, without a user\n" + seeServe},
		{"message URL of Streamable HTTP", with("--upstream-transport", "http", "--upstream-message-url", "https://h/m"), "--upstream-message-url is for HTTP+SSE; leave --upstream-transport out or say sse\n" + seeServe},
		{"scheme", []string{"serve", "--upstream", "ftp://user:hunter2@h"}, "--upstream: want an http://, https://, ws:// or wss:// URL such as https://HOST/PATH\n" + seeServe},
		{"no colon", with("--header", "hunter2"), "--header: want 'NAME: VALUE', with a colon\n" + seeServe},
		{"second header", with("--header", "A: b", "--header", "Authorization:"), "--header number 2: header Authorization has no value\n" + seeServe},
		{"our header", with("--header", "Mcp-Session-Id: hunter2"), `upstream "default": header Mcp-Session-Id is set by the proxy itself; leave it out` + "\n" + seeServe},
		{"two arguments", []string{"probe", "a", "b"}, "probe takes one URL, but got 2 arguments\nSee taskbridge probe --help.\n"},
		{"given twice", []string{"probe", "http://a/", "--upstream", "http://b/"}, "the server is given twice: as an argument and with --upstream\nSee taskbridge probe --help.\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := runArgs(t, tt.args...)
			if code != exitUsage || stdout != "" {
				t.Errorf("exit %d, stdout %q", code, stdout)
			}
			if want := "taskbridge: " + tt.want; stderr != want {
				t.Errorf("stderr\n got %q\nwant %q", stderr, want)
			}
		})
	}
}

func TestUsageJSON(t *testing.T) {
	code, _, stderr := runArgs(t, "probe", "--json", "ftp://x")
	want := `{"error":{"code":"usage","message":"--upstream: want an http://, https://, ws:// or wss:// URL such as https://HOST/PATH","status":null,"url":null}}` + "\n"
	if code != exitUsage || stderr != want {
		t.Errorf("exit %d, stderr %s", code, stderr)
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"serve", "--help"}, {"--version"}, {"version"}, {"version", "--json"}, {"completion", "bash"}, {"help", "serve"}} {
		code, stdout, stderr := runArgs(t, args...)
		if code != exitOK || stdout == "" || stderr != "" {
			t.Errorf("%q: exit %d, %d bytes, stderr %q", args, code, len(stdout), stderr)
		}
		if strings.Contains(stdout, "redis") {
			t.Errorf("%q offers redis, which does not work yet", args)
		}
	}
}

// samples are values of flags that are no text.
var samples = map[string]string{
	"upstream-era": "legacy", "tool-errors": "completed", "undeclared-tasks": "refuse", "park": "task", "log-level": "debug", "log-format": "json",
	"upstream-transport": "sse", "start-timeout": "5s", "max-children": "7", "share-child": "true",
	"allow-open": "true", "once": "true", "json": "true",
	"format": "json", "leg": "server", "rules": "true", "to": "2025-11-25", "as": "2025-11-25",
	"ignore-number-spelling": "true", "allow-unannotated": "true", "dry-run": "true", "update": "true",
	"concurrency": "5", "seed": "7", "speed": "2", "timeout": "9s", "record-rotate-every": "2h0m0s", "record-rotate-size": "9MiB",
	"task-handle-after": "1.5s", "drain-timeout": "3s", "inline-wait": "2s", "connect-timeout": "4s", "max-message": "3MiB",
	"audit": "file:AUDIT", "max-tasks": "11", "max-tasks-total": "12", "max-sessions": "13", "max-sessions-total": "14", "max-server-sessions": "15",
	"max-server-sessions-total": "16", "max-streams": "17", "max-streams-total": "18", "max-requests-per-second": "1.5",
	"max-requests-per-second-total": "2.5", "max-requests-burst": "19", "max-bytes-per-second": "4MiB", "max-bytes-in-flight": "5MiB",
}

func value(f *pflag.Flag) []string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{f.Value.String()}
}

// TestEnvironment: every flag of every command has its variable, a flag wins
// over it, and it wins over the default.
func TestEnvironment(t *testing.T) {
	a := &app{}
	each := func(visit func(cmd *cobra.Command, f *pflag.Flag)) {
		for _, cmd := range a.rootCommand().Commands() {
			if cmd.Name() != "completion" {
				cmd.Flags().VisitAll(func(f *pflag.Flag) { visit(cmd, f) })
			}
		}
	}
	seen := 0
	each(func(cmd *cobra.Command, f *pflag.Flag) {
		t.Run(cmd.Name()+" "+f.Name, func(t *testing.T) {
			seen++
			env := "TASKBRIDGE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
			_, isList := f.Value.(pflag.SliceValue)
			sample, want := samples[f.Name], []string{samples[f.Name]}
			switch {
			case isList:
				sample, want = "one\n\n two \n", []string{"one", "two"}
			case sample == "":
				sample, want = "some text", []string{"some text"}
			}
			def := strings.Join(value(f), "|")
			t.Setenv(env, "")
			if err := applyEnv(cmd.Flags()); err != nil || f.Changed {
				t.Fatalf("an empty variable counts: %v", err)
			}
			t.Setenv(env, sample)
			if err := applyEnv(cmd.Flags()); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(value(f), "|")
			if got != strings.Join(want, "|") || got == def {
				t.Errorf("got %q, want %q (default %q)", got, want, def)
			}
			if at := where(cmd.Flags(), f.Name); at != env {
				t.Errorf("its place is called %s", at)
			}
		})
	})
	each(func(cmd *cobra.Command, f *pflag.Flag) {
		env := envName(f.Name)
		t.Setenv(env, "from the environment")
		flag := samples[f.Name]
		if flag == "" {
			flag = "flag"
		}
		if err := cmd.ParseFlags([]string{"--" + f.Name + "=" + flag}); err != nil {
			t.Fatal(err)
		}
		if err := applyEnv(cmd.Flags()); err != nil || strings.Join(value(f), "|") != flag {
			t.Errorf("%s %s: %v: the variable wins over the flag: %q", cmd.Name(), f.Name, err, value(f))
		}
		os.Unsetenv(env) // t.Setenv restores what was there at the end
	})
	if seen < 30 {
		t.Errorf("only %d flags", seen)
	}
}

func TestEnvironmentErrors(t *testing.T) {
	for env, want := range map[string]string{
		"TASKBRIDGE_DRAIN_TIMEOUT": `taskbridge: TASKBRIDGE_DRAIN_TIMEOUT="5": a duration needs a unit, as in 5ms or 5s` + "\n",
		"TASKBRIDGE_UPSTREAM_ERA":  `taskbridge: TASKBRIDGE_UPSTREAM_ERA="5": want auto, legacy or modern` + "\n",
		"TASKBRIDGE_LISTEN":        `taskbridge: TASKBRIDGE_LISTEN "5": want ADDRESS:PORT, such as 127.0.0.1:8080` + "\n",
		"TASKBRIDGE_HEADER":        "taskbridge: TASKBRIDGE_HEADER: want 'NAME: VALUE', with a colon\n",
	} {
		t.Run(env, func(t *testing.T) {
			t.Setenv(env, "5")
			code, _, stderr := runArgs(t, "serve", "--upstream", "http://127.0.0.1:1/")
			if want += "See taskbridge serve --help.\n"; code != exitUsage || stderr != want {
				t.Errorf("exit %d, stderr %q", code, stderr)
			}
		})
	}
	// Questions are no settings.
	t.Setenv("TASKBRIDGE_VERSION", "1.2.3")
	t.Setenv("TASKBRIDGE_HELP", "true")
	if code, _, stderr := runArgs(t, "version"); code != 0 {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestHeaders(t *testing.T) {
	t.Setenv("TB_TOKEN", "s3cret\n") // as $(cat file) does not, but secrets mounts do
	t.Setenv("TB_LINE", "X-Whole: line")
	file := filepath.Join(t.TempDir(), "headers")
	text := "# a comment\n\nX-File:from file\r\n  X-Both: ${TB_TOKEN}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{stdin: strings.NewReader("X-Stdin: in\n")}
	h, err := a.readHeaders("--header", []string{"Authorization:Bearer ${TB_TOKEN}", "X-A:  b: c ", "${TB_LINE}", "X-Dollar: $TB_TOKEN"}, []string{file, "-"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer s3cret", "X-A": "b: c", "X-Whole": "line", "X-Dollar": "$TB_TOKEN",
		"X-File": "from file", "X-Both": "s3cret", "X-Stdin": "in",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("A: b\nX: ${TB_NOT_SET}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ line, file, want string }{
		{"X: ${TB_NOT_SET}", "", "--header: environment variable TB_NOT_SET is not set"},
		{"X: ${TB_NOT_SET", "", "--header: ${ without a closing }"},
		{"X: ${9}", "", "--header: ${…} does not hold the name of an environment variable"},
		{"Two words: x", "", "--header: want 'NAME: VALUE'; what stands before the colon is no header name"},
		{"", bad, "header file " + bad + ", line 2: environment variable TB_NOT_SET is not set"},
		{"", bad + "x", "header file: open " + bad + "x: no such file or directory"},
	} {
		var lines, files []string
		if tt.line != "" {
			lines = []string{tt.line}
		} else {
			files = []string{tt.file}
		}
		if _, err := a.readHeaders("--header", lines, files); err == nil || err.Error() != tt.want {
			t.Errorf("%s%s: %v, want %s", tt.line, tt.file, err, tt.want)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "1024B": 1024, "3KiB": 3 << 10, "64MiB": 64 << 20, "1GiB": 1 << 30, "2 MiB": 2 << 20} {
		var n int64
		if err := (&sizeFlag{value: &n}).Set(text); err != nil || n != want {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "1.5MiB", "MiB", "9999999999999GiB", "1MB"} {
		if err := (&sizeFlag{value: new(int64)}).Set(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	n := int64(1)
	if err := (&sizeFlag{&n, true}).Set("0"); err != nil || n != 0 {
		t.Errorf("0 where it means something: %d, %v", n, err)
	}
}
