package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"taskbridge/cmd/taskbridge/config"
	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/session/bearer"
)

// parsed is a file with one route to a server on this machine.
func parsed(more, route string) (*config.File, []config.Problem) {
	return config.Parse("test.yaml", []byte(more+"\nroutes:\n  - path: /mcp\n    upstream: http://127.0.0.1:1/mcp\n"+route), func(string) (string, bool) { return "", false })
}

// TestConfigDefaults: what a file does not say is what a command line without
// the flag says.
func TestConfigDefaults(t *testing.T) {
	f, problems := parsed("", "")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r := f.Routes[0]
	u := r.Upstreams[0]
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(serveFlags).register(fs)
	boolean := map[bool]string{true: "true", false: "false"}
	for flag, value := range map[string]string{
		"listen": f.Listeners[0].Address, "path": r.Path, "sse-path": r.SSEPath, "state": f.State, "principal": f.Principal,
		"allow-open": boolean[f.AllowOpen], "drain-timeout": f.DrainTimeout.String(), "log-level": f.Log.Level, "log-format": f.Log.Format,
		"record-rotate-every": strings.TrimSuffix(f.Record.RotateEvery.String(), "s"), "upstream-era": u.Era, "upstream-transport": u.Transport,
		"connect-timeout": u.ConnectTimeout.String(), "start-timeout": u.StartTimeout.String(), "share-child": boolean[u.ShareChild],
		"tool-errors": r.ToolErrors, "undeclared-tasks": r.UndeclaredTasks, "park": r.Park, "task-handle-after": r.TaskHandleAfter.String(),
		"inline-wait": strings.TrimSuffix(r.InlineWait.String(), "s"),
	} {
		if def := fs.Lookup(flag).DefValue; def != value {
			t.Errorf("--%s is %s by default, in a file it is %s", flag, def, value)
		}
	}
	if got := (&sizeFlag{value: &f.MaxMessage}).String(); got != fs.Lookup("max-message").DefValue {
		t.Errorf("max-message %s", got)
	}
	if u.MaxChildren != 32 || fs.Lookup("max-children").DefValue != "32" {
		t.Errorf("max-children %d", u.MaxChildren)
	}
	if l := r.Lifetimes; l.SessionIdle != 30*time.Minute || l.MaxTTL != 24*time.Hour {
		t.Errorf("lifetimes %+v", l)
	}
}

// TestConfigAgrees: what the file takes is what those who use it take.
func TestConfigAgrees(t *testing.T) {
	for _, principal := range []string{
		"token", "tokens", "header:X-User", "header:X_User", "header:", "header:Authorization", "header:Cookie", "header:Mcp-Name",
		"header:X-Forwarded-User", "header:Forwarded", "header:Proxy-User", "jwt:", "jwt:keys.json", "jwt:https://issuer.example/keys", "jwt", "none",
	} {
		_, err := session.ParsePrincipalPolicy(principal)
		_, problems := parsed("principal: "+quoted(principal)+"\njwt-audience: [a]\nlisteners: [{address: '127.0.0.1:0', trusted-proxies: [127.0.0.1]}]", "")
		problems = slices.DeleteFunc(problems, func(p config.Problem) bool { return p.Path != "principal" })
		if (err == nil) != (len(problems) == 0) {
			t.Errorf("principal %s: %v, but the file: %v", principal, err, problems)
		}
	}
	for _, path := range []string{"/sse", "/", "sse", "/a/sse", "/mcp", "/message", "/a//b", "/a?b", "/a%2Fb", "/a b", "/x/"} {
		err := downstream.CheckSSEPath(path, "/mcp")
		_, problems := parsed("", "    sse-path: "+quoted(path)+"\n")
		if (err == nil) != (len(problems) == 0) {
			t.Errorf("sse-path %s: %v, but the file: %v", path, err, problems)
		}
	}
	for _, alg := range append([]string{"HS256", "none", "rs256"}, bearer.Asymmetric...) {
		err := bearer.CheckAlgorithm(alg)
		_, problems := parsed("principal: jwt:https://issuer.example/keys\njwt-audience: [a]\njwt-alg: ["+alg+"]", "")
		if (err == nil) != (len(problems) == 0) {
			t.Errorf("jwt-alg %s: %v, but the file: %v", alg, err, problems)
		}
	}
	for _, host := range []string{"a.example", "a.example:80", "[::1]:80", "*", "http://a", "a@b", "a/b", "a:b", "127.0.0.1"} {
		_, err := downstream.NewGuard(downstream.GuardOptions{AllowedHosts: []string{host}})
		_, problems := parsed("listeners: [{address: '127.0.0.1:0', allowed-hosts: ["+quoted(host)+"]}]", "")
		if (err == nil) != (len(problems) == 0) {
			t.Errorf("allowed-hosts %s: %v, but the file: %v", host, err, problems)
		}
	}
	for _, origin := range []string{"https://a.example", "https://a.example:8443", "null", "*", "https://a/", "https://a?b", "https://u@a", "a.example", "app://x"} {
		_, err := downstream.NewGuard(downstream.GuardOptions{AllowedOrigins: []string{origin}})
		_, problems := parsed("listeners: [{address: '127.0.0.1:0', allowed-origins: ["+quoted(origin)+"]}]", "")
		if (err == nil) != (len(problems) == 0) {
			t.Errorf("allowed-origins %s: %v, but the file: %v", origin, err, problems)
		}
	}
}

func quoted(s string) string { return "'" + s + "'" }
