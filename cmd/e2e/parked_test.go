package e2e

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"taskbridge/cmd/peers"
)

// asked is the answer that asks (2026-07-28 basic/patterns/mrtr).
type asked struct {
	ResultType    string
	RequestState  string
	InputRequests map[string]struct {
		Method string
		Params json.RawMessage
	}
}

func callTool(ctx context.Context, t *testing.T, c *peers.ModernClient, params map[string]any) peers.Reply {
	t.Helper()
	r, err := c.Call(ctx, "tools/call", params)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A question inside a plain call parks the call: the client is asked by the
// answer, resumes the same call, and the server runs it once.
func TestParked_ModernClient_LegacyServer(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			ctx := testContext(t)
			server := peers.NewLegacyServer(peers.ServerOptions{PollInterval: 50 * time.Millisecond})
			b := newBridge(t, startPeer(t, server), form.o)
			c := &peers.ModernClient{URL: b.URL}
			t.Cleanup(func() { c.Close() })
			call := map[string]any{"name": "ask_name", "arguments": map[string]any{}}
			r := mustCall(t, callTool(ctx, t, c, call), nil)
			var a asked
			r.Decode(&a)
			if a.ResultType != "input_required" || a.RequestState == "" || len(a.InputRequests) != 1 {
				t.Fatalf("first answer: %s", r.Raw)
			}
			responses := map[string]any{}
			for key, q := range a.InputRequests {
				if q.Method != "elicitation/create" {
					t.Errorf("asked %s", q.Method)
				}
				responses[key] = map[string]any{"action": "accept", "content": map[string]any{"name": "Ada"}}
			}
			changed := map[string]any{"name": "ask_name", "arguments": map[string]any{"x": 1}, "requestState": a.RequestState, "inputResponses": responses}
			if r := callTool(ctx, t, c, changed); r.Code() != -32602 {
				t.Errorf("retry with other arguments: %s", r.Raw)
			}
			other := &peers.ModernClient{URL: b.URL, Header: map[string][]string{"Authorization": {"Bearer other"}}}
			t.Cleanup(func() { other.Close() })
			retry := map[string]any{"name": "ask_name", "arguments": map[string]any{}, "requestState": a.RequestState, "inputResponses": responses}
			if r := callTool(ctx, t, other, retry); r.Code() != -32602 {
				t.Errorf("another principal's retry: %s", r.Raw)
			}
			r = mustCall(t, callTool(ctx, t, c, retry), nil)
			if r.Text() == "" {
				t.Errorf("resumed call: %s", r.Raw)
			}
			if r := callTool(ctx, t, c, retry); r.Code() != -32602 {
				t.Errorf("replayed state: %s", r.Raw)
			}
			if n := server.Calls("ask_name"); n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
			drivenQuestion(ctx, t, c)
		})
	}
}

// A task-only tool called plainly is driven here; its question parks the call.
func drivenQuestion(ctx context.Context, t *testing.T, c *peers.ModernClient) {
	t.Helper()
	call := map[string]any{"name": "confirm_delete", "arguments": map[string]any{"filename": "x"}}
	r := mustCall(t, callTool(ctx, t, c, call), nil)
	var a asked
	r.Decode(&a)
	if a.ResultType != "input_required" || len(a.InputRequests) != 1 {
		t.Fatalf("driven call: %s", r.Raw)
	}
	responses := map[string]any{}
	for key := range a.InputRequests {
		responses[key] = map[string]any{"action": "accept", "content": map[string]any{"confirm": true}}
	}
	call["requestState"], call["inputResponses"] = a.RequestState, responses
	r = mustCall(t, callTool(ctx, t, c, call), nil)
	if r.Text() == "" {
		t.Errorf("resumed driven call: %s", r.Raw)
	}
}

// --park task: a call of a client with the extension becomes a task of ours
// when the server asks in it; the server still runs one call.
func TestHosted_ModernClient_LegacyServer(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			ctx := testContext(t)
			server := peers.NewLegacyServer(peers.ServerOptions{PollInterval: 50 * time.Millisecond})
			o := form.o
			o.Policy.ParkTask = true
			b := newBridge(t, startPeer(t, server), o)
			c := &peers.ModernClient{URL: b.URL, Tasks: true}
			t.Cleanup(func() { c.Close() })
			run, err := c.RunTask(ctx, "ask_name", map[string]any{}, peers.Accept(map[string]any{"name": "Ada"}))
			if err != nil || run.Status() != "completed" || len(run.Questions) != 1 || run.Text() == "" {
				t.Fatalf("hosted call: %v %+v", err, run)
			}
			r := mustCall(t, first(c.Call(ctx, "tasks/get", map[string]any{"taskId": run.TaskID})), nil)
			var got struct {
				Status string
				Result json.RawMessage
			}
			if r.Decode(&got); got.Status != "completed" || got.Result == nil {
				t.Errorf("later look: %s", r.Raw)
			}
			if n := server.Calls("ask_name"); n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
		})
	}
}
