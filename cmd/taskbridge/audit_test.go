package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskbridge/cmd/peers"
	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// auditLines are the lines of a file, without their times.
func auditLines(t *testing.T, file string) (lines []map[string]any, raw string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines = append(lines, m)
	}
	return lines, string(text)
}

// TestAudit: a task's life in both directions and without translation: created,
// cancelled, retrieved, refused, of one task and one caller as keyed hashes.
func TestAudit(t *testing.T) {
	for name, tt := range map[string]struct {
		server     peerServer
		era        string
		legacyDown bool
	}{
		"legacy to modern": {peers.NewModernServer(peers.ServerOptions{}), "modern", true},
		"modern to legacy": {peers.NewLegacyServer(peers.ServerOptions{}), "legacy", false},
		"legacy to legacy": {peers.NewLegacyServer(peers.ServerOptions{}), "legacy", true},
		"modern to modern": {peers.NewModernServer(peers.ServerOptions{}), "modern", false},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "audit")
			s := serve(t, "--upstream", peer(t, tt.server), "--upstream-era", tt.era, "--audit", "file:"+file)
			id := lifeOfATask(t, s.url, tt.legacyDown)
			s.end()
			lines, raw := auditLines(t, file)
			if strings.Contains(raw, id) || strings.Contains(raw, "hunter2") {
				t.Errorf("an id or a secret is told: %s", raw)
			}
			var got []string
			tasks, callers := map[any]bool{}, map[any]bool{}
			for _, l := range lines {
				got = append(got, l["what"].(string)+" "+l["method"].(string))
				callers[l["principal"]] = true
				if l["what"] != "refused" {
					tasks[l["task"]] = true
				}
				for _, k := range []string{"msg", "route", "upstream", "outcome", "task", "principal"} {
					if s, _ := l[k].(string); s == "" {
						t.Errorf("a line has no %s: %v", k, l)
					}
				}
			}
			slices.Sort(got) // lines are written beside answers, not before them
			want := "cancelled tasks/cancel, created tools/call, refused tasks/cancel"
			if text := strings.Join(got, ", "); text != want {
				t.Errorf("got %s\nwant %s", text, want)
			}
			if len(tasks) != 1 || len(callers) != 1 {
				t.Errorf("%d tasks, %d callers", len(tasks), len(callers))
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
		})
	}
}

type peerServer interface {
	Close() error
	http.Handler
}

// lifeOfATask makes a task, cancels it, and cancels one that is not there.
func lifeOfATask(t *testing.T, url string, legacy bool) (id string) {
	t.Helper()
	var call func(method string, params any) peers.Reply
	if legacy {
		c := legacyClient(t, url)
		call = func(method string, params any) peers.Reply {
			r, err := c.Call(t.Context(), method, params)
			must(t, err)
			return r
		}
	} else {
		c := modernClient(t, url)
		call = func(method string, params any) peers.Reply {
			r, err := c.Call(t.Context(), method, params)
			must(t, err)
			return r
		}
	}
	args := map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 60, "label": "hunter2"}}
	if legacy {
		args["task"] = map[string]any{}
	}
	var made struct {
		TaskID string
		Task   struct{ TaskID string }
	}
	r := call("tools/call", args)
	must(t, r.Decode(&made))
	if id = made.TaskID + made.Task.TaskID; id == "" {
		t.Fatalf("no task: %s", r.Raw)
	}
	call("tasks/get", map[string]any{"taskId": id})
	call("tasks/cancel", map[string]any{"taskId": id})
	call("tasks/cancel", map[string]any{"taskId": "nobodys"})
	return id
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAudited(t *testing.T) {
	request := func(method string, down translate.Era) session.Request {
		return session.Request{Kind: jsonrpc.Request, Method: method, Down: down}
	}
	task := request("tools/call", translate.Legacy)
	task.Uses = translate.OnlyTaskParam
	done := translate.Answer{Outcome: translate.OutcomeCompleted}
	failed := translate.Answer{Outcome: translate.OutcomeError, Code: -32602}
	for _, tt := range []struct {
		q    session.Request
		e    session.Ended
		want string
	}{
		{request("tools/call", translate.Modern), session.Ended{Answer: done}, ""},
		{request("tools/call", translate.Modern), session.Ended{Answer: failed}, ""},
		{task, session.Ended{Answer: failed}, "refused"},
		{task, session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeRefused}, Status: 429}, "refused"},
		{request("tools/call", translate.Modern), session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeTask}}, "created"},
		{request("tasks/get", translate.Modern), session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeCompleted, Task: translate.Working}}, ""},
		{request("tasks/get", translate.Modern), session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeCompleted, Task: translate.Completed}}, "retrieved"},
		{request("tasks/get", translate.Modern), session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeCompleted, Task: translate.Failed}}, "retrieved"},
		{request("tasks/get", translate.Legacy), session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeCompleted, Task: translate.Completed}}, ""},
		{request("tasks/get", translate.Legacy), session.Ended{Answer: failed}, "refused"},
		{request("tasks/result", translate.Legacy), session.Ended{Answer: done}, "retrieved"},
		{request("tasks/result", translate.Legacy), session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeError, Code: -32000}}, "retrieved"},
		{request("tasks/result", translate.Legacy), session.Ended{Answer: failed}, "refused"},
		{request("tasks/result", translate.Legacy), session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeTask, TaskID: `"2"`}}, "retrieved"},
		{request("tasks/result", translate.Legacy), session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeGone}}, ""},
		{request("tasks/update", translate.Modern), session.Ended{Answer: done}, "answered"},
		{request("tasks/list", translate.Legacy), session.Ended{Answer: done}, "listed"},
		{request("tasks/cancel", translate.Modern), session.Ended{Answer: done}, "cancelled"},
		{session.Request{Kind: jsonrpc.Notification, Method: "tasks/cancel"}, session.Ended{Answer: done}, ""},
	} {
		if got := audited(&tt.q, tt.e); got != tt.want {
			t.Errorf("%s of %s, %+v: %q, want %q", tt.q.Method, tt.q.Down, tt.e.Answer, got, tt.want)
		}
	}
}

// A line names the one task it is about: of a request that names one and gets a
// result that looks like another, its own.
func TestAuditLine_Task(t *testing.T) {
	for _, tt := range []struct{ method, asked, got, want string }{
		{"tools/call", "", `"2"`, "task/2"},
		{"tasks/result", `"1"`, `"2"`, "task/1"},
		{"tasks/result", `"1"`, "", "task/1"},
		{"tasks/list", "", `"2"`, ""},
	} {
		var out bytes.Buffer
		l := &auditLog{now: auditPlace{log: slog.New(slog.NewJSONHandler(&out, nil))}, mask: func(kind, text string) string { return kind + "/" + text }}
		q := session.Request{Kind: jsonrpc.Request, Method: tt.method, Down: translate.Legacy, Task: tt.asked}
		l.End(&q, session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeTask, TaskID: tt.got}})
		var line struct{ Task string }
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Task != tt.want {
			t.Errorf("%s: %s%v\nwant task %q", tt.method, &out, err, tt.want)
		}
	}
}
