package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
)

// maxConfig bounds a client's configuration file.
const maxConfig = 16 << 20

// clientServer is one server of a client's own list, whichever client's.
type clientServer struct {
	name    string
	command string // empty: behind url
	args    []string
	env     map[string]string
	cwd     string
	url     string
	sse     bool // its client speaks HTTP+SSE to url
	headers map[string]string
}

// serverLists are the members under which clients keep their servers.
var serverLists = []string{
	"mcpServers",      // Claude Desktop, Claude Code, Cursor, Windsurf, Gemini CLI
	"servers",         // VS Code
	"context_servers", // Zed
	"mcp_servers",     // Codex
}

// readMCPConfig reads a client's configuration: JSON, with comments and commas
// at the end of lists as editors allow, or TOML.
func readMCPConfig(file string) ([]clientServer, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxConfig {
		return nil, fmt.Errorf("%s: is over %d bytes", file, maxConfig)
	}
	var top map[string]any
	if strings.EqualFold(filepath.Ext(file), ".toml") {
		err = toml.Unmarshal(raw, &top)
	} else {
		err = json.Unmarshal(plainJSON(raw), &top)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if inner, ok := top["mcp"].(map[string]any); ok { // VS Code's settings.json
		top = inner
	}
	for _, key := range serverLists {
		list, ok := top[key].(map[string]any)
		if !ok {
			continue
		}
		var out []clientServer
		for name, v := range list {
			members, ok := v.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s: %s.%s: want an object", file, key, showText(name, maxShown))
			}
			s, err := oneClientServer(name, members)
			if err != nil {
				return nil, fmt.Errorf("%s: %s.%s: %w", file, key, showText(name, maxShown), err)
			}
			out = append(out, s)
		}
		slices.SortFunc(out, func(a, b clientServer) int { return strings.Compare(a.name, b.name) })
		return out, nil
	}
	return nil, fmt.Errorf("%s: holds no list of servers; want one of the members %s", file, strings.Join(serverLists, ", "))
}

// oneClientServer reads one entry. The shapes differ in names only.
func oneClientServer(name string, m map[string]any) (clientServer, error) {
	s := clientServer{name: name, env: map[string]string{}, headers: map[string]string{}}
	if inner, ok := m["command"].(map[string]any); ok { // older Zed: {"command":{"path":…}}
		m = map[string]any{"command": inner["path"], "args": inner["args"], "env": inner["env"]}
	}
	s.command, _ = m["command"].(string)
	s.cwd, _ = m["cwd"].(string)
	for _, key := range []string{"url", "serverUrl", "httpUrl"} {
		if u, _ := m[key].(string); u != "" {
			s.url = u
		}
	}
	kind, _ := m["type"].(string)
	s.sse = s.url != "" && strings.EqualFold(kind, "sse")
	args, _ := m["args"].([]any)
	for _, a := range args {
		text, ok := a.(string)
		if !ok {
			return s, errors.New("args: want a list of strings")
		}
		s.args = append(s.args, text)
	}
	for key, into := range map[string]map[string]string{"env": s.env, "headers": s.headers, "http_headers": s.headers, "requestInit": nil} {
		list, _ := m[key].(map[string]any)
		for k, v := range list {
			if text, ok := v.(string); ok && into != nil {
				into[k] = text
			}
		}
	}
	if name, _ := m["bearer_token_env_var"].(string); name != "" {
		s.headers["Authorization"] = "Bearer ${" + name + "}"
	}
	if list, _ := m["env_http_headers"].(map[string]any); list != nil {
		for k, v := range list {
			if text, ok := v.(string); ok {
				s.headers[k] = "${" + text + "}"
			}
		}
	}
	if s.command == "" && s.url == "" {
		return s, errors.New("has neither a command nor a URL")
	}
	return s, nil
}

// plainJSON leaves out comments and commas before a closing bracket.
func plainJSON(raw []byte) []byte {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			end := i + 1
			for end < len(raw) && raw[end] != '"' {
				if raw[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(raw))
			out = append(out, raw[i:end]...)
			i = end - 1
		case c == '/' && i+1 < len(raw) && raw[i+1] == '/':
			for i < len(raw) && raw[i] != '\n' {
				i++
			}
			out = append(out, '\n')
		case c == '/' && i+1 < len(raw) && raw[i+1] == '*':
			n := bytes.Index(raw[i+2:], []byte("*/"))
			if n < 0 {
				return append(out, raw[i:]...)
			}
			i += n + 3
		case c == '}' || c == ']':
			if trimmed := bytes.TrimRight(out, " \t\r\n"); bytes.HasSuffix(trimmed, []byte{','}) {
				out = trimmed[:len(trimmed)-1]
			}
			out = append(out, c)
		default:
			out = append(out, c)
		}
	}
	return out
}

// flags are the flags that name s. Values clients fill in themselves
// (${input:…}, ${env:NAME}) are taken from the environment where they name a
// variable.
func (s clientServer) flags(into *upstreamFlags) {
	if s.command != "" {
		into.command = append([]string{s.command}, s.args...)
		into.cwd = s.cwd
		for k, v := range s.env {
			into.env = append(into.env, k+"="+clientVar(v))
		}
		slices.Sort(into.env)
		return
	}
	into.url = clientVar(s.url)
	if s.sse && into.transport == "auto" {
		into.transport = "sse"
	}
	for k, v := range s.headers {
		into.headers = append(into.headers, k+": "+clientVar(v))
	}
	slices.Sort(into.headers)
}

// clientVar writes a client's ${env:NAME} as ${NAME}.
func clientVar(v string) string { return strings.ReplaceAll(v, "${env:", "${") }

// probeConfig probes the servers of a client's configuration, or one of them.
// One that fails does not keep the others from being probed.
func (a *app) probeConfig(cmd *cobra.Command, f *upstreamFlags, file, only string, rest []string, asJSON bool) error {
	if len(rest) > 0 || cmd.ArgsLenAtDash() >= 0 {
		return usagef("--mcp-config names the servers; give no further one")
	}
	list, err := readMCPConfig(file)
	if err != nil {
		return usagef("--mcp-config: %w", err)
	}
	if only != "" {
		if list = slices.DeleteFunc(list, func(s clientServer) bool { return s.name != only }); len(list) == 0 {
			return usagef("--server %q: is not in %s", only, file)
		}
	}
	var failed error
	for _, s := range list {
		one := *f
		one.url, one.headers, one.env = "", append([]string(nil), f.headers...), append([]string(nil), f.env...)
		s.flags(&one)
		if !asJSON {
			fmt.Fprintf(a.stdout, "%s: ", showText(s.name, maxShown))
		}
		err := a.probe(cmd.Context(), &one, cmd.Flags(), asJSON)
		if err == nil {
			continue
		}
		if len(list) == 1 {
			return err
		}
		if !asJSON {
			fmt.Fprintf(a.stdout, "%s\n", showText(err.Error(), maxShownError))
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}
