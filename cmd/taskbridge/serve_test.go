package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskbridge/cmd/peers"
)

// wantDeleted checks a confirm_delete task that went as it should.
func wantDeleted(t *testing.T, run peers.TaskRun, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v: %+v", err, run)
	}
	if run.Status() != "completed" || run.TaskID == "" || len(run.Questions) != 1 || run.Error != nil {
		t.Fatalf("task %s: %v, %d questions, error %s, result %s", run.TaskID, run.Statuses, len(run.Questions), run.Error, run.Result)
	}
}

func toolNames(t *testing.T, result json.RawMessage) map[string]bool {
	t.Helper()
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(result, &list); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, tool := range list.Tools {
		names[tool.Name] = true
	}
	return names
}

// servedVerbs lists, calls and runs a task that asks, which it returns.
func servedVerbs(t *testing.T, c interface {
	Call(ctx context.Context, method string, params any) (peers.Reply, error)
	RunTask(ctx context.Context, tool string, args any, answer peers.Answer) (peers.TaskRun, error)
}) peers.TaskRun {
	t.Helper()
	r, err := c.Call(t.Context(), "tools/list", nil)
	if err != nil || !toolNames(t, r.Result)["confirm_delete"] {
		t.Fatalf("tools/list: %v %s", err, r.Raw)
	}
	r, err = c.Call(t.Context(), "tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}})
	if err != nil || r.Text() != "Hello, Ada!" {
		t.Fatalf("tools/call: %v %s", err, r.Raw)
	}
	run, err := c.RunTask(t.Context(), "confirm_delete", map[string]any{"filename": "old.txt"}, peers.Accept(map[string]any{"confirm": true}))
	wantDeleted(t, run, err)
	return run
}

func TestServeLegacyClientModernServer(t *testing.T) {
	srv := peers.NewModernServer(peers.ServerOptions{})
	c := legacyClient(t, serve(t, "--upstream", peer(t, srv)).url)
	run := servedVerbs(t, c)
	if n := srv.Calls("confirm_delete"); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
	r, err := c.Call(t.Context(), "tasks/list", nil)
	var list struct {
		Tasks []struct{ TaskID, Status string }
	}
	if err == nil {
		err = r.Decode(&list)
	}
	if err != nil || len(list.Tasks) != 1 || list.Tasks[0].TaskID != run.TaskID || list.Tasks[0].Status != "completed" {
		t.Fatalf("tasks/list: %v %s", err, r.Raw)
	}
	r, err = c.Call(t.Context(), "tools/call", map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 60}, "task": map[string]any{"ttl": 60000}})
	var created struct{ Task struct{ TaskID string } }
	if err == nil {
		err = r.Decode(&created)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err = c.Call(t.Context(), "tasks/cancel", map[string]any{"taskId": created.Task.TaskID})
	var cancelled struct{ Status string }
	if err == nil {
		err = r.Decode(&cancelled)
	}
	if err != nil || cancelled.Status != "cancelled" {
		t.Fatalf("tasks/cancel: %v %s", err, r.Raw)
	}
}

func TestServeModernClientLegacyServer(t *testing.T) {
	srv := peers.NewLegacyServer(peers.ServerOptions{})
	c := modernClient(t, serve(t, "--upstream", peer(t, srv)).url)
	servedVerbs(t, c)
	if n := srv.Calls("confirm_delete"); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
	r, err := c.Call(t.Context(), "tools/call", map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 60}})
	var created struct{ ResultType, TaskID string }
	if err == nil {
		err = r.Decode(&created)
	}
	if err != nil || created.ResultType != "task" {
		t.Fatalf("task: %v %s", err, r.Raw)
	}
	if r, err = c.Call(t.Context(), "tasks/cancel", map[string]any{"taskId": created.TaskID}); err != nil || r.Err() != nil {
		t.Fatalf("tasks/cancel: %v %s", err, r.Raw)
	}
	r, err = c.Call(t.Context(), "tasks/get", map[string]any{"taskId": created.TaskID})
	var got struct{ Status string }
	if err == nil {
		err = r.Decode(&got)
	}
	if err != nil || got.Status != "cancelled" {
		t.Fatalf("tasks/get: %v %s", err, r.Raw)
	}
	// 2026-07-28 has no tasks/list.
	if r, err = c.Call(t.Context(), "tasks/list", nil); err != nil || r.Code() != peers.CodeMethodNotFound || r.Status != 404 {
		t.Fatalf("tasks/list: %v %d %s", err, r.Status, r.Raw)
	}
}

// TestServeSameEra: peers of one era need no translation, and get none.
func TestServeSameEra(t *testing.T) {
	answer := peers.Accept(map[string]any{"confirm": true})
	args := map[string]any{"filename": "old.txt"}
	t.Run("legacy", func(t *testing.T) {
		srv := peers.NewLegacyServer(peers.ServerOptions{})
		c := legacyClient(t, serve(t, "--upstream", peer(t, srv), "--upstream-era", "legacy").url)
		run, err := c.RunTask(t.Context(), "confirm_delete", args, answer)
		wantDeleted(t, run, err)
	})
	t.Run("modern", func(t *testing.T) {
		srv := peers.NewModernServer(peers.ServerOptions{})
		c := modernClient(t, serve(t, "--upstream", peer(t, srv), "--upstream-era", "modern").url)
		run, err := c.RunTask(t.Context(), "confirm_delete", args, answer)
		wantDeleted(t, run, err)
	})
}

// TestServeFromEnvironment: a container needs no arguments but the command.
func TestServeFromEnvironment(t *testing.T) {
	t.Setenv("TASKBRIDGE_UPSTREAM", peer(t, peers.NewModernServer(peers.ServerOptions{})))
	t.Setenv("TASKBRIDGE_PATH", "/elsewhere")
	t.Setenv("TASKBRIDGE_HEADER", "X-One: 1\nX-Two: 2\n")
	t.Setenv("TASKBRIDGE_LOG_LEVEL", "debug")
	t.Setenv("TASKBRIDGE_LOG_FORMAT", "json")
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv("TASKBRIDGE_LOG_FILE", log)
	s := serve(t)
	if !strings.HasSuffix(s.url, "/elsewhere") {
		t.Errorf("path: %s", s.url)
	}
	c := legacyClient(t, s.url)
	c.Header = http.Header{"Authorization": {"Bearer hunter2"}}
	if _, err := c.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Call(t.Context(), "tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "hunter2"}}); err != nil || r.Err() != nil {
		t.Fatalf("%v %s", err, r.Raw)
	}
	s.end()
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
	text := string(raw)
	if !strings.Contains(text, `"what":"tools/call"`) || strings.Contains(text, "hunter2") {
		t.Errorf("log:\n%s", text)
	}
	if info, err := os.Stat(log); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestServeUpstreamDown: serve starts although its server is not there yet;
// clients get an HTTP status, never a JSON-RPC error alone, which they would
// read as an era.
func TestServeUpstreamDown(t *testing.T) {
	s := serve(t, "--upstream", "http://127.0.0.1:1/mcp")
	r, err := modernClient(t, s.url).Call(t.Context(), "server/discover", nil)
	if err != nil || r.Status != http.StatusBadGateway {
		t.Errorf("%v %d %s", err, r.Status, r.Raw)
	}
}

// TestServeInlineWait: a task that is over in time is answered without one.
func TestServeInlineWait(t *testing.T) {
	srv := peers.NewLegacyServer(peers.ServerOptions{})
	c := modernClient(t, serve(t, "--upstream", peer(t, srv), "--inline-wait", "20s").url)
	r, err := c.Call(t.Context(), "tools/call", map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 0.2, "label": "it"}})
	if err != nil || r.Text() != "Computed it for 200ms." {
		t.Errorf("%v %s", err, r.Raw)
	}
}
