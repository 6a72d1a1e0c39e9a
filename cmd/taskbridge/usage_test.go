package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/session/usage"
)

// reportOf asks for a report with the command, as JSON.
func reportOf(t *testing.T, s *serving, args ...string) *usage.Route {
	t.Helper()
	code, out, errs := runArgs(t, append([]string{"admin", "report", "--admin", s.admin, "--json"}, args...)...)
	var rep usage.Report
	if err := json.Unmarshal([]byte(out), &rep); err != nil || code != 0 || len(rep.Routes) != 1 {
		t.Fatalf("exit %d: %s%s: %v", code, out, errs, err)
	}
	return &rep.Routes[0]
}

func clientOf(t *testing.T, r *usage.Route, name string) usage.Client {
	t.Helper()
	for _, c := range r.Clients {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no client %s in %+v", name, r.Clients)
	return usage.Client{}
}

// TestReport_SaysWhatRan: clients of both eras before servers of both; the
// report has just what they did.
func TestReport_SaysWhatRan(t *testing.T) {
	for _, tt := range []struct {
		server string
		speaks string
	}{
		{peer(t, peers.NewLegacyServer(peers.ServerOptions{})), "legacy"},
		{peer(t, peers.NewModernServer(peers.ServerOptions{})), "modern"},
	} {
		s := serve(t, "--upstream", tt.server, "--admin", "127.0.0.1:0")
		old := &peers.LegacyClient{URL: s.url, Name: "old desk", OnRequest: peers.Accept(map[string]any{"name": "Ada", "confirm": true})}
		check := &peers.LegacyClient{URL: s.url, Name: "check"}
		young := &peers.ModernClient{URL: s.url, Name: "young desk", Tasks: true}
		for _, c := range []*peers.LegacyClient{old, check} {
			if _, err := c.Initialize(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		greet := map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		say := func(method string, params any) {
			t.Helper()
			_, err := old.Call(t.Context(), method, params)
			must(err)
		}
		say("tools/list", map[string]any{})
		say("tools/call", greet)
		say("tools/call", greet)
		say("logging/setLevel", map[string]any{"level": "info"})
		_, err := old.RunTask(t.Context(), "slow_compute", map[string]any{"seconds": 0}, nil)
		must(err)
		say("tasks/list", map[string]any{})
		_, _ = old.Call(t.Context(), "prompts/get", map[string]any{"name": "there is none"})
		_, err = young.Discover(t.Context())
		must(err)
		_, err = young.Call(t.Context(), "tools/call", greet)
		must(err)
		_, err = young.RunTask(t.Context(), "slow_compute", map[string]any{"seconds": 0}, nil)
		must(err)
		must(check.Close())

		r := reportOf(t, s)
		if r.Verdict != usage.Needed || r.Name != "default" {
			t.Errorf("%s: %s: %s", tt.speaks, r.Verdict, r.Text)
		}
		c := clientOf(t, r, "old desk")
		// tools/list, two calls, the level, the task's result, the list of tasks.
		if c.Legacy.Completed != 6 || c.Legacy.Failed != 1 || c.Legacy.Probes != 1 || c.State != usage.StateUses || !slices.Equal(c.Eras, []string{"legacy"}) || c.OpenSessions != 1 || len(c.Principal) != 16 {
			t.Errorf("%s: old desk: %+v", tt.speaks, c)
		}
		for _, name := range []string{"initialize", "logging/setLevel", "task_param", "tasks/result", "tasks/list"} {
			if c.LegacyOnly[name] != 1 {
				t.Errorf("%s: old desk used %v, want one %s", tt.speaks, c.LegacyOnly, name)
			}
		}
		if tt.speaks == "modern" && (c.Losses["cache_hints"] != 1 || r.Losses["cache_hints"] != 1) { // of tools/list
			t.Errorf("old desk lost %v", c.Losses)
		}
		c = clientOf(t, r, "young desk")
		if c.Modern.Completed != 2 || c.Modern.Failed != 0 || c.Modern.Probes != 1 || c.State != usage.StateModern || len(c.LegacyOnly) != 0 || !slices.Equal(c.Eras, []string{"modern"}) {
			t.Errorf("%s: young desk: %+v", tt.speaks, c)
		}
		if c = clientOf(t, r, "check"); c.Legacy.Completed != 0 || c.State != usage.StateTried {
			t.Errorf("%s: check: %+v", tt.speaks, c)
		}
		if len(r.Servers) != 1 || r.Servers[0].Name != "default" || !slices.Equal(r.Servers[0].Speaks, []string{tt.speaks}) {
			t.Errorf("servers %+v", r.Servers)
		}
		up := r.Servers[0].Modern
		if tt.speaks == "legacy" {
			up = r.Servers[0].Legacy
		}
		if up.Completed != 8 {
			t.Errorf("%s: the server completed %+v", tt.speaks, r.Servers[0])
		}
		must(old.Close())
		must(young.Close())
		s.end()
	}
}

// TestReport_VerdictTurns: once the last legacy client has left, and the window
// is over, the old dialect may be switched off; --fail-on follows.
func TestReport_VerdictTurns(t *testing.T) {
	s := serve(t, "--upstream", peer(t, peers.NewModernServer(peers.ServerOptions{})), "--admin", "127.0.0.1:0")
	fails := func(args ...string) bool {
		t.Helper()
		code, out, errs := runArgs(t, append([]string{"admin", "report", "--admin", s.admin, "--fail-on", "legacy,unknown"}, args...)...)
		if code != exitOK && code != exitFailed || !strings.Contains(out, "route default") {
			t.Fatalf("exit %d: %s%s", code, out, errs)
		}
		return code == exitFailed
	}
	if !fails("--window", "24h") {
		t.Error("what was not observed for the window is no success")
	}
	c := legacyClient(t, s.url)
	if _, err := c.Call(t.Context(), "tools/list", map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if r := reportOf(t, s, "--window", "500ms"); r.Verdict != usage.Needed {
		t.Errorf("in use: %s", r.Text)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	young := modernClient(t, s.url)
	eventually(t, "the verdict turns", func() bool {
		if _, err := young.Call(t.Context(), "tools/list", map[string]any{}); err != nil {
			t.Fatal(err)
		}
		return !fails("--window", "500ms")
	})
	if r := reportOf(t, s, "--window", "500ms"); r.Verdict != usage.NotSeen || !strings.Contains(r.Text, "may be switched off") {
		t.Errorf("after it: %s", r.Text)
	}
	if r := reportOf(t, s, "--window", "24h"); r.Verdict != usage.Needed {
		t.Errorf("a longer window: %s", r.Text)
	}
}

// TestReport_Fleet: routes of several servers, over a reload; one report for all.
func TestReport_Fleet(t *testing.T) {
	old, next := peer(t, peers.NewLegacyServer(peers.ServerOptions{})), peer(t, peers.NewModernServer(peers.ServerOptions{}))
	head := "listen: 127.0.0.1:0\nadmin: {address: \"127.0.0.1:0\"}\nroutes:\n"
	mixed := func(weight int) string {
		return fmt.Sprintf("  - name: mixed\n    path: /mixed\n    upstreams:\n      - {name: old, url: %q, weight: %d}\n      - {name: new, url: %q, weight: %d}\n", old, 100-weight, next, weight)
	}
	plain := fmt.Sprintf("  - {name: plain, path: /plain, upstream: %q}\n", next)
	file := writeConfig(t, "", head+mixed(0)+plain)
	s := listening(t, "serve", "--config", file)
	eventually(t, "an admin address", func() bool {
		m := adminLine.FindStringSubmatch(s.stderr.String())
		if m != nil {
			s.admin = m[1]
		}
		return m != nil
	})
	reload := func(text string) {
		t.Helper()
		writeConfig(t, file, text)
		if code, out, errs := runArgs(t, "admin", "reload", "--admin", s.admin); code != 0 {
			t.Fatalf("reload: exit %d: %s%s", code, out, errs)
		}
	}
	root := strings.TrimSuffix(strings.TrimSuffix(s.url, "/mixed"), "/plain")
	young := modernClient(t, root+"/mixed")
	list := func() {
		t.Helper()
		if _, err := young.Call(t.Context(), "tools/list", map[string]any{}); err != nil {
			t.Fatal(err)
		}
	}
	list()
	desk := legacyClient(t, root+"/mixed")
	if _, err := desk.Call(t.Context(), "tools/list", map[string]any{}); err != nil {
		t.Fatal(err)
	}
	reload(head + mixed(100) + plain)
	list()
	// A request is counted in the moment its answer goes out, which may be read first.
	eventually(t, "both lists of the modern client are counted", func() bool {
		return clientOf(t, reportOf(t, s, "--route", "mixed"), "taskbridge-modern-client").Modern.Completed == 2
	})
	r := reportOf(t, s, "--route", "mixed")
	if r.Verdict != usage.Needed || len(r.Servers) != 2 || clientOf(t, r, "taskbridge-legacy-client").OpenSessions != 1 {
		t.Fatalf("%s: %+v, %+v", r.Text, r.Servers, r.Clients)
	}
	if n, o := r.Servers[0], r.Servers[1]; n.Name != "new" || n.LegacyAlone() || n.Modern.Completed != 1 || o.Name != "old" || !o.LegacyAlone() || o.Legacy.Completed != 2 {
		t.Errorf("servers %+v", r.Servers)
	}
	if c := clientOf(t, r, "taskbridge-modern-client"); c.Modern.Completed != 2 || c.State != usage.StateModern {
		t.Errorf("the modern client: %+v", c)
	}
	if r = reportOf(t, s, "--route", "plain"); r.Verdict != usage.Unknown || len(r.Clients) != 0 {
		t.Errorf("a route nobody came to: %s, %+v", r.Text, r.Clients)
	}
	_, table, _ := runArgs(t, "admin", "report", "--admin", s.admin)
	for _, want := range []string{"route mixed\n", "route plain\n", "servers: legacy needed toward 1 of 2: old\n", "servers: none was asked yet\n"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	reload(head + mixed(100))
	if r = reportOf(t, s); r.Name != "mixed" {
		t.Errorf("a route that was taken out is reported: %s", r.Name)
	}
}

// TestReport_LegacyOnly: each thing of the legacy dialect alone that a client
// uses is named, before servers of both eras.
func TestReport_LegacyOnly(t *testing.T) {
	for name, server := range map[string]string{
		"legacy": peer(t, peers.NewLegacyServer(peers.ServerOptions{})), "modern": peer(t, peers.NewModernServer(peers.ServerOptions{})),
	} {
		s := serve(t, "--upstream", server, "--admin", "127.0.0.1:0")
		c := &peers.LegacyClient{URL: s.url, Name: "desk", Version: "2025-03-26", OnRequest: peers.Accept(map[string]any{"name": "Ada"})}
		if _, err := c.Initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.OpenGET(t.Context()); err != nil {
			t.Fatal(err)
		}
		for method, params := range map[string]any{
			"ping": map[string]any{}, "tools/call": map[string]any{"name": "ask_name", "arguments": map[string]any{}},
			"resources/subscribe": map[string]any{"uri": "demo://readme"}, "resources/unsubscribe": map[string]any{"uri": "demo://readme"},
		} {
			_, _ = c.Call(t.Context(), method, params) // an error is as good
		}
		_ = c.Notify(t.Context(), "notifications/roots/list_changed", nil)
		want := map[string]uint64{"initialize": 1, "ping": 1, "resources/subscribe": 1, "resources/unsubscribe": 1, "get_stream": 1, "delete_session": 1, "notifications/roots/list_changed": 1}
		if name == "modern" { // the other one knows 2025-11-25 alone, which has no arrays
			want["batch"], want["ping"] = 2, 2
			if _, err := c.Post(t.Context(), []byte(`[{"jsonrpc":"2.0","id":90,"method":"ping"},{"jsonrpc":"2.0","id":91,"method":"tools/list"}]`)); err != nil {
				t.Fatal(err)
			}
		}
		if r := reportOf(t, s); clientOf(t, r, "desk").Listening != 1 {
			t.Errorf("%s: the open stream: %+v", name, r.Clients)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of the stream", func() bool { return clientOf(t, reportOf(t, s), "desk").LegacyOnly["get_stream"] > 0 })
		got := clientOf(t, reportOf(t, s), "desk").LegacyOnly
		if got["server_request"] == 0 {
			t.Errorf("%s: a question of the server is not named: %v", name, got)
		}
		delete(got, "server_request") // once for the call, once for the answer
		if !maps.Equal(got, want) {
			t.Errorf("%s: used %v, want %v", name, got, want)
		}
		s.end()
	}
}

// TestReport_Links: clients of HTTP+SSE and WebSocket (here another proxy that is
// one for its own) are seen as such; their connection is their open stream.
func TestReport_Links(t *testing.T) {
	for link, sse := range map[string]bool{"http+sse": true, "websocket": false} {
		s := serve(t, "--upstream", peer(t, peers.NewModernServer(peers.ServerOptions{})), "--admin", "127.0.0.1:0")
		args := []string{"--upstream", "ws" + strings.TrimPrefix(s.url, "http")}
		if sse {
			args = []string{"--upstream", strings.TrimSuffix(s.url, "/mcp") + "/sse", "--upstream-transport", "sse"}
		}
		front := serve(t, append(args, "--upstream-era", "legacy")...)
		c := legacyClient(t, front.url)
		if _, err := c.Call(t.Context(), "tools/list", map[string]any{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the open stream", func() bool { return clientOf(t, reportOf(t, s), "taskbridge-legacy-client").Listening == 1 })
		r := reportOf(t, s)
		d := clientOf(t, r, "taskbridge-legacy-client")
		if r.Verdict != usage.Needed || d.Legacy.Completed != 1 || d.OpenSessions != 1 || d.LegacyOnly["get_stream"] != 0 || (d.LegacyOnly["http_sse"] > 0) != sse {
			t.Errorf("%s: %s: %+v", link, r.Text, d)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of the session", func() bool { return clientOf(t, reportOf(t, s), "taskbridge-legacy-client").OpenSessions == 0 })
		front.end()
		s.end()
	}
}

// TestReport_Usage: what cannot be asked is refused, by the command and by the
// API.
func TestReport_Usage(t *testing.T) {
	s := serve(t, "--upstream", peer(t, peers.NewModernServer(peers.ServerOptions{})), "--admin", "127.0.0.1:0")
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--window", "841h"}, exitUsage, "at most 840h"},
		{[]string{"--window", "7"}, exitUsage, "needs a unit"},
		{[]string{"--fail-on", "everything"}, exitUsage, "want legacy, unknown or attempted"},
		{[]string{"--format", "xml"}, exitUsage, "xml"},
		{[]string{"--route", "elsewhere"}, exitUsage, `there is no route "elsewhere"`},
		{[]string{"--route", "default", "--format", "csv"}, exitOK, ""},
		{[]string{"--format", "json", "--fail-on", "unknown"}, exitFailed, "route default: unknown: observed only"},
		{[]string{"--json", "--fail-on", "unknown"}, exitFailed, "verdict"},
	} {
		code, out, errs := runArgs(t, append([]string{"admin", "report", "--admin", s.admin}, tt.args...)...)
		if code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("%v: exit %d, want %d: %s%s", tt.args, code, tt.code, out, errs)
		}
	}
	for query, want := range map[string]int{"": 200, "?window=1h": 200, "?window=-1h": 400, "?window=x": 400, "?window=10000h": 400, "?window=999us": 400, "?window=1h&window=2h": 400, "?window=1h;route=x": 400, "?widnow=1h": 400, "?%zz": 400, "?route=x": 404, "?route=default": 200} {
		if status, _, body := ask(t, "GET", s.admin+"/report"+query, nil, ""); status != want || !json.Valid([]byte(body)) {
			t.Errorf("%q: %d, want %d: %s", query, status, want, body)
		}
	}
}

// TestSafetyS58_Report: what clients call themselves does nothing to a terminal
// and nothing in a table calculation.
func TestSafetyS58_Report(t *testing.T) {
	names := []string{"\x1b[2J", "=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", " =1+1", "\t=1", "\r=1", "＝1", "a\u202eb", "a\nb", `a"b,c`, "\x01", "|x", "plain",
		"a;=1+1", "a; =1+1", "a,=1+1", `a";=1+1`, `a",@SUM(A1)`, "a\t=1", "a;\t-1", "a;\r\n+1", "a;＝1", ";;=1", ` ";"=1`}
	rep := &usage.Report{Window: usage.Duration(time.Hour), Routes: []usage.Route{{Name: "=route", Verdict: usage.Needed, Text: "legacy needed"}}}
	for _, n := range names {
		rep.Routes[0].Clients = append(rep.Routes[0].Clients, usage.Client{Name: n, Version: n, State: usage.StateUses})
		rep.Routes[0].Servers = append(rep.Routes[0].Servers, usage.Server{Name: n, Versions: []string{n}})
	}
	rep.Routes[0].Clients = append(rep.Routes[0].Clients, usage.Client{Folded: true}, usage.Client{Folded: true, Principal: "0123456789abcdef"}, usage.Client{})
	var table, sheet strings.Builder
	if err := reportTable(&table, rep); err != nil {
		t.Fatal(err)
	}
	if err := reportCSV(&sheet, rep); err != nil {
		t.Fatal(err)
	}
	for i, r := range table.String() {
		if r < ' ' && r != '\n' || r == 0x7f || r == '\u202e' {
			t.Errorf("%q at %d is in the table", r, i)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(sheet.String())).ReadAll()
	if err != nil || len(rows) != 2+len(rep.Routes[0].Clients)+len(names) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows {
		for _, cell := range row {
			if bare := strings.TrimSpace(cell); bare != "" && strings.ContainsRune("=+-@＝|\t\r\n\\", []rune(bare)[0]) {
				t.Errorf("a cell begins as a formula: %q", cell)
			}
			// Where a semicolon parts cells, and for a program that reads each comma and
			// quote as the end of one.
			for _, part := range strings.FieldsFunc(cell, func(r rune) bool { return strings.ContainsRune(";,\"", r) }) {
				if part = strings.TrimSpace(part); part != "" && strings.ContainsRune("=+-@＝|\\", []rune(part)[0]) {
					t.Errorf("a part of %q begins as a formula", cell)
				}
			}
			for _, r := range cell {
				if r < ' ' || r == '\u202e' {
					t.Errorf("a cell holds %q", cell)
				}
			}
		}
	}
}

// What is asked for by name has a word for each verdict.
func TestReport_FailWords(t *testing.T) {
	got := slices.Sorted(maps.Values(failWords))
	want := slices.DeleteFunc(slices.Sorted(slices.Values(usage.Verdicts())), func(v usage.Verdict) bool { return v == usage.NotSeen })
	if !slices.Equal(got, want) {
		t.Errorf("--fail-on means %v, want %v", got, want)
	}
}
