package e2e

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/translate"
)

// forms are the ways the same bridge must work: one runner, two on a store
// with requests alternating, one that forgets between messages.
var forms = []struct {
	name string
	o    bridgeOptions
}{
	{"one runner", bridgeOptions{}},
	{"two runners on one store", bridgeOptions{Runners: 2}},
	{"forgetful runner", bridgeOptions{Forget: true}},
}

func mustCall(t testing.TB, r peers.Reply, err error) peers.Reply {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err != nil {
		t.Fatalf("unexpected error: %v (HTTP %d)", err, r.Status)
	}
	return r
}

func TestPair_LegacyClient_ModernServer(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			ctx := testContext(t)
			server := peers.NewModernServer(peers.ServerOptions{PollInterval: 50 * time.Millisecond})
			b := newBridge(t, startPeer(t, server), form.o)
			c := &peers.LegacyClient{URL: b.URL, OnRequest: peers.Accept(map[string]any{"confirm": true})}
			t.Cleanup(func() { c.Close() })
			init, err := c.Initialize(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var ir struct {
				ProtocolVersion string
				Capabilities    map[string]json.RawMessage
				ResultType      string
			}
			json.Unmarshal(init, &ir)
			if ir.ProtocolVersion != translate.V20251125 || ir.Capabilities["tasks"] == nil || ir.ResultType != "" || ir.Capabilities["extensions"] != nil {
				t.Fatalf("initialize result %s", init)
			}
			if err := c.OpenGET(ctx); err != nil {
				t.Fatal(err)
			}
			mustCall(t, first(c.Call(ctx, "ping", nil)), nil)
			var tools struct {
				Tools []struct {
					Name      string
					Execution struct{ TaskSupport string }
				}
			}
			mustCall(t, first(c.Call(ctx, "tools/list", nil)), nil).Decode(&tools)
			if len(tools.Tools) == 0 || tools.Tools[0].Execution.TaskSupport != "optional" {
				t.Fatalf("tools %+v", tools)
			}
			if r := mustCall(t, first(c.Call(ctx, "tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}})), nil); r.Text() != "Hello, Ada!" {
				t.Fatalf("greet: %s", r.Raw)
			}
			legacyTasks(ctx, t, c)
			if n := server.Calls("confirm_delete"); n != 2 {
				t.Errorf("confirm_delete ran %d times, want 2 (accepted and driven)", n)
			}
		})
	}
}

func first(r peers.Reply, err error) peers.Reply {
	if err != nil {
		panic(err)
	}
	return r
}

// legacyTasks walks tasks as a legacy client knows them.
func legacyTasks(ctx context.Context, t *testing.T, c *peers.LegacyClient) {
	t.Helper()
	run, err := c.RunTask(ctx, "slow_compute", map[string]any{"seconds": 0.3, "label": "x"}, nil)
	if err != nil || run.Status() != "completed" || run.Text() == "" {
		t.Fatalf("slow_compute: %v %+v", err, run)
	}
	run, err = c.RunTask(ctx, "confirm_delete", map[string]any{"filename": "a.txt"}, peers.Accept(map[string]any{"confirm": true}))
	if err != nil || run.Status() != "completed" || len(run.Questions) != 1 {
		t.Fatalf("confirm_delete: %v %+v", err, run)
	}
	run, err = c.RunTask(ctx, "multi_input", map[string]any{}, peers.Accept(map[string]any{"confirm": true, "name": "n", "color": "c"}))
	if err != nil || run.Status() != "completed" || len(run.Questions) != 2 {
		t.Fatalf("multi_input: %v %+v", err, run)
	}
	run, err = c.RunTask(ctx, "failing_job", map[string]any{}, nil)
	if err != nil || run.Status() != "failed" || run.Result == nil {
		t.Fatalf("failing_job: %v %+v", err, run)
	}
	run, err = c.RunTask(ctx, "protocol_error_job", map[string]any{}, nil)
	if err != nil || run.Status() != "failed" || run.Error == nil {
		t.Fatalf("protocol_error_job: %v %+v", err, run)
	}
	run, err = c.RunTask(ctx, "slow_compute", map[string]any{"seconds": 0, "label": "now"}, nil)
	if err != nil || run.Status() != "completed" {
		t.Fatalf("held result: %v %+v", err, run)
	}
	var list struct {
		Tasks []struct{ TaskID, Status string }
	}
	mustCall(t, first(c.Call(ctx, "tasks/list", nil)), nil).Decode(&list)
	if len(list.Tasks) != 6 {
		t.Errorf("tasks/list has %d tasks, want 6", len(list.Tasks))
	}
	if r := first(c.Call(ctx, "tasks/cancel", map[string]any{"taskId": run.TaskID})); r.Code() != -32602 {
		t.Errorf("cancel of a finished task: %s", r.Raw)
	}
	if r := first(c.Call(ctx, "tasks/get", map[string]any{"taskId": "nope"})); r.Code() != -32602 {
		t.Errorf("unknown task: %s", r.Raw)
	}
	var created struct{ Task struct{ TaskID string } }
	mustCall(t, first(c.Call(ctx, "tools/call", map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 60}, "task": map[string]any{}})), nil).Decode(&created)
	r := mustCall(t, first(c.Call(ctx, "tasks/cancel", map[string]any{"taskId": created.Task.TaskID})), nil)
	var got struct{ Status, TaskID string }
	r.Decode(&got)
	if got.Status != "cancelled" || got.TaskID != created.Task.TaskID {
		t.Errorf("cancel: %s", r.Raw)
	}
	if r := first(c.Call(ctx, "tasks/result", map[string]any{"taskId": created.Task.TaskID})); r.Code() != -32603 {
		t.Errorf("result of a cancelled task: %s", r.Raw)
	}
	// A task-only tool called plainly is driven, its question asked on the
	// call's own stream.
	if r := mustCall(t, first(c.Call(ctx, "tools/call", map[string]any{"name": "confirm_delete", "arguments": map[string]any{"filename": "b"}})), nil); r.Text() == "" {
		t.Errorf("driven call: %s", r.Raw)
	}
	if r := mustCall(t, first(c.Call(ctx, "tools/call", map[string]any{"name": "ask_name", "arguments": map[string]any{}})), nil); r.Text() == "" {
		t.Errorf("ask_name: %s", r.Raw)
	}
}

func TestPair_ModernClient_LegacyServer(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			ctx := testContext(t)
			server := peers.NewLegacyServer(peers.ServerOptions{PollInterval: 50 * time.Millisecond, TasksPerSession: true})
			b := newBridge(t, startPeer(t, server), form.o)
			c := &peers.ModernClient{URL: b.URL, Tasks: true}
			t.Cleanup(func() { c.Close() })
			disc, err := c.Discover(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var d struct {
				SupportedVersions []string
				Capabilities      struct {
					Extensions, Tasks map[string]json.RawMessage
				}
				ResultType string
			}
			json.Unmarshal(disc, &d)
			if d.ResultType != "complete" || d.Capabilities.Extensions[translate.ExtTasks] == nil || d.Capabilities.Tasks != nil {
				t.Fatalf("discover %s", disc)
			}
			r := mustCall(t, first(c.Call(ctx, "tools/list", nil)), nil)
			var tl struct {
				ResultType, CacheScope string
				TTLMs                  *int
				Tools                  []struct{ Execution *struct{} }
			}
			r.Decode(&tl)
			if tl.ResultType != "complete" || tl.CacheScope != "private" || tl.TTLMs == nil || len(tl.Tools) == 0 || tl.Tools[1].Execution != nil {
				t.Fatalf("tools/list %s", r.Raw)
			}
			if r := mustCall(t, first(c.Call(ctx, "tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}})), nil); r.Text() != "Hello, Ada!" {
				t.Fatalf("greet: %s", r.Raw)
			}
			modernTasks(ctx, t, c)
			if n := server.Calls("confirm_delete"); n != 1 {
				t.Errorf("confirm_delete ran %d times, want 1", n)
			}
		})
	}
}

func modernTasks(ctx context.Context, t *testing.T, c *peers.ModernClient) {
	t.Helper()
	run, err := c.RunTask(ctx, "slow_compute", map[string]any{"seconds": 0.3, "label": "x"}, nil)
	if err != nil || run.Status() != "completed" || run.Text() == "" {
		t.Fatalf("slow_compute: %v %+v", err, run)
	}
	run, err = c.RunTask(ctx, "confirm_delete", map[string]any{"filename": "a.txt"}, peers.Accept(map[string]any{"confirm": true}))
	if err != nil || run.Status() != "completed" || len(run.Questions) != 1 {
		t.Fatalf("confirm_delete: %v %+v", err, run)
	}
	run, err = c.RunTask(ctx, "multi_input", map[string]any{}, peers.Accept(map[string]any{"confirm": true, "name": "n", "color": "c"}))
	if err != nil || run.Status() != "completed" || len(run.Questions) != 2 {
		t.Fatalf("multi_input: %v %+v", err, run)
	}
	run, err = c.RunTask(ctx, "failing_job", map[string]any{}, nil)
	if err != nil || run.Status() != "completed" || run.Result == nil {
		t.Fatalf("failing_job: %v %+v", err, run)
	}
	run, err = c.RunTask(ctx, "protocol_error_job", map[string]any{}, nil)
	if err != nil || run.Status() != "failed" || run.Error == nil {
		t.Fatalf("protocol_error_job: %v %+v", err, run)
	}
	if r := first(c.Call(ctx, "tasks/cancel", map[string]any{"taskId": run.TaskID})); r.Err() != nil {
		t.Errorf("cancel of a finished task: %s", r.Raw)
	}
	if r := first(c.Call(ctx, "tasks/get", map[string]any{"taskId": "nope"})); r.Code() != -32602 {
		t.Errorf("unknown task: %s", r.Raw)
	}
	for _, m := range []string{"tasks/list", "tasks/result"} {
		if r := first(c.Call(ctx, m, map[string]any{"taskId": run.TaskID})); r.Code() != -32601 || r.Status != 404 {
			t.Errorf("%s: HTTP %d %s", m, r.Status, r.Raw)
		}
	}
	var created struct{ TaskID string }
	mustCall(t, first(c.Call(ctx, "tools/call", map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 60}})), nil).Decode(&created)
	mustCall(t, first(c.Call(ctx, "tasks/cancel", map[string]any{"taskId": created.TaskID})), nil)
	r := mustCall(t, first(c.Call(ctx, "tasks/get", map[string]any{"taskId": created.TaskID})), nil)
	var got struct{ Status string }
	if r.Decode(&got); got.Status != "cancelled" {
		t.Errorf("after cancel: %s", r.Raw)
	}
}

func TestPair_LegacyClient_LegacyServer(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			ctx := testContext(t)
			server := peers.NewLegacyServer(peers.ServerOptions{PollInterval: 50 * time.Millisecond, TasksPerSession: true})
			b := newBridge(t, startPeer(t, server), form.o)
			c := &peers.LegacyClient{URL: b.URL, OnRequest: peers.Accept(map[string]any{"confirm": true, "name": "Ada"})}
			t.Cleanup(func() { c.Close() })
			if _, err := c.Initialize(ctx); err != nil {
				t.Fatal(err)
			}
			if err := c.OpenGET(ctx); err != nil {
				t.Fatal(err)
			}
			run, err := c.RunTask(ctx, "confirm_delete", map[string]any{"filename": "a.txt"}, peers.Accept(map[string]any{"confirm": true}))
			if err != nil || run.Status() != "completed" || len(run.Questions) != 1 {
				t.Fatalf("confirm_delete: %v %+v", err, run)
			}
			mustCall(t, first(c.Call(ctx, "tools/call", map[string]any{"name": "ask_name", "arguments": map[string]any{}})), nil)
			mustCall(t, first(c.Call(ctx, "tools/call", map[string]any{"name": "progress", "arguments": map[string]any{"steps": 3}, "_meta": map[string]any{"progressToken": "p"}})), nil)
		})
	}
}

func TestPair_ModernClient_ModernServer(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			ctx := testContext(t)
			server := peers.NewModernServer(peers.ServerOptions{PollInterval: 50 * time.Millisecond})
			b := newBridge(t, startPeer(t, server), form.o)
			c := &peers.ModernClient{URL: b.URL, Tasks: true}
			t.Cleanup(func() { c.Close() })
			if _, err := c.Discover(ctx); err != nil {
				t.Fatal(err)
			}
			run, err := c.RunTask(ctx, "confirm_delete", map[string]any{"filename": "a.txt"}, peers.Accept(map[string]any{"confirm": true}))
			if err != nil || run.Status() != "completed" || len(run.Questions) != 1 {
				t.Fatalf("confirm_delete: %v %+v", err, run)
			}
			changed := make(chan string, 8)
			sub, err := c.Listen(ctx, map[string]any{"toolsListChanged": true}, func(method string, _ json.RawMessage) { changed <- method })
			if err != nil {
				t.Fatal(err)
			}
			server.ToolsChanged()
			select {
			case m := <-changed:
				if m != "notifications/tools/list_changed" {
					t.Errorf("got %s", m)
				}
			case <-ctx.Done():
				t.Error("no notification")
			}
			sub.Close()
		})
	}
}
