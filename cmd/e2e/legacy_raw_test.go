package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"taskbridge/cmd/peers"
)

// notes keeps the notifications of a client by their method.
type notes struct {
	mu  sync.Mutex // protects all
	all map[string][]json.RawMessage
}

func (n *notes) add(method string, params json.RawMessage) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all == nil {
		n.all = map[string][]json.RawMessage{}
	}
	n.all[method] = append(n.all[method], slices.Clone(params))
}

func (n *notes) of(method string) []json.RawMessage {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all[method])
}

// What real clients tolerate or do not show is held here against a client of
// ours, on the real modern server.
func TestLegacyCells_Raw(t *testing.T) {
	url := startServer(t, modernMore)
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			start := func(t *testing.T) (*peers.LegacyClient, *notes) {
				t.Helper()
				t.Parallel()
				seen := new(notes)
				c := &peers.LegacyClient{URL: newBridge(t, url, patient(form.o)).URL, OnNotification: seen.add}
				t.Cleanup(func() { c.Close() })
				if _, err := c.Initialize(testContext(t)); err != nil {
					t.Fatal(err)
				}
				if err := c.OpenGET(testContext(t)); err != nil {
					t.Fatal(err)
				}
				return c, seen
			}
			t.Run("status-notices", func(t *testing.T) { statusNotices(t, start) })
			t.Run("progress-on-result", func(t *testing.T) { progressOnResult(t, start) })
		})
	}
}

type startRaw func(t *testing.T) (*peers.LegacyClient, *notes)

func makeTask(t *testing.T, c *peers.LegacyClient, tool string, args, meta map[string]any) string {
	t.Helper()
	params := map[string]any{"name": tool, "arguments": args, "task": map[string]any{"ttl": 60000}}
	if meta != nil {
		params["_meta"] = meta
	}
	var created struct{ Task struct{ TaskID string } }
	mustCall(t, first(c.Call(testContext(t), "tools/call", params)), nil).Decode(&created)
	if created.Task.TaskID == "" {
		t.Fatal("no task")
	}
	return created.Task.TaskID
}

// While somebody waits for a task its changes come as notifications/tasks/status
// on the GET stream: a Task, without result or questions.
func statusNotices(t *testing.T, start startRaw) {
	c, seen := start(t)
	id := makeTask(t, c, "slow_compute", map[string]any{"seconds": 2, "label": "n"}, nil)
	r := mustCall(t, first(c.Call(testContext(t), "tasks/result", map[string]any{"taskId": id})), nil)
	if r.Text() != "computed n in 2 s" {
		t.Errorf("result %s", r.Raw)
	}
	last := func() (status string) {
		for _, raw := range seen.of("notifications/tasks/status") {
			var p struct{ TaskID, Status string }
			json.Unmarshal(raw, &p)
			if p.TaskID != id {
				t.Errorf("of another task: %s", raw)
			}
			status = p.Status
		}
		return status
	}
	eventually(t, "the end is noticed", func() bool { return last() == "completed" })
	for _, raw := range seen.of("notifications/tasks/status") {
		var p map[string]json.RawMessage
		json.Unmarshal(raw, &p)
		for _, name := range []string{"result", "error", "inputRequests", "ttlMs", "pollIntervalMs", "resultType"} {
			if p[name] != nil {
				t.Errorf("%s in %s", name, raw)
			}
		}
		if p["ttl"] == nil || p["createdAt"] == nil {
			t.Errorf("no whole task: %s", raw)
		}
	}
}

// A token on tasks/result brings the task's messages as rising progress, none
// after the end.
func progressOnResult(t *testing.T, start startRaw) {
	c, seen := start(t)
	id := makeTask(t, c, "slow_compute", map[string]any{"seconds": 3, "label": "p"}, map[string]any{"progressToken": "made"})
	mustCall(t, first(c.Call(testContext(t), "tasks/result", map[string]any{"taskId": id, "_meta": map[string]any{"progressToken": "waits"}})), nil)
	above := map[string]float64{}
	for _, raw := range seen.of("notifications/progress") {
		var p struct {
			ProgressToken string
			Progress      float64
			Message       string
		}
		json.Unmarshal(raw, &p)
		if p.Progress <= above[p.ProgressToken] || !strings.HasPrefix(p.Message, "second ") || !strings.Contains(string(raw), id) {
			t.Errorf("progress %s", raw)
		}
		above[p.ProgressToken] = p.Progress
	}
	if above["made"] == 0 || above["waits"] == 0 {
		t.Errorf("progress by token: %v", above)
	}
}
