package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/session"
)

func TestModernCells_Raw(t *testing.T) {
	for _, cell := range modernCells {
		t.Run(cell.name, func(t *testing.T) {
			for _, form := range forms {
				if cell.one && form.name != "one runner" {
					continue
				}
				t.Run(form.name, func(t *testing.T) {
					t.Parallel()
					p := &cellPlay{ctx: testContext(t), t: t}
					so := cell.server
					so.PollInterval, so.Trace = 50*time.Millisecond, p.trace
					p.server = peers.NewLegacyServer(so)
					o := form.o
					o.Policy = cell.policy
					p.url = newBridge(t, startPeer(t, p.server), o).URL
					p.c = &peers.ModernClient{URL: p.url, Tasks: !cell.plain}
					t.Cleanup(func() { p.c.Close() })
					cell.run(t, p)
				})
			}
		})
	}
}

var file = map[string]any{"filename": "x"}

var modernCells = []modernCell{
	{name: "partial answers to a parked call", plain: true, run: func(t *testing.T, p *cellPlay) {
		a := p.asks("multi_input", nil)
		for round := 0; ; round++ {
			key := slices.Sorted(func(yield func(string) bool) {
				for k := range a.InputRequests {
					if !yield(k) {
						return
					}
				}
			})[0]
			r := p.call("multi_input", nil, "requestState", a.RequestState, "inputResponses", map[string]any{key: yes, "nonsense": yes})
			if r.Text() != "" {
				if round == 0 {
					t.Errorf("finished after one of two answers: %s", r.Raw)
				}
				break
			}
			next := required(t, r)
			if next.RequestState == a.RequestState || next.InputRequests[key].Method != "" {
				t.Fatalf("asked again: %s", r.Raw)
			}
			a = next
		}
		p.ran("multi_input", 1)
	}},
	{name: "partial answers to a task", run: func(t *testing.T, p *cellPlay) {
		id := p.create("multi_input", nil)
		var v taskView
		for v = p.until(id, "input_required"); len(v.InputRequests) < 2; v = p.get(id) {
			time.Sleep(20 * time.Millisecond)
		}
		for key := range v.InputRequests {
			p.task("tasks/update", id, "inputResponses", map[string]any{key: yes})
			left := p.get(id)
			if _, again := left.InputRequests[key]; again || left.Status == "input_required" && len(left.InputRequests) != 1 {
				t.Errorf("after one answer: %+v", left)
			}
		}
		p.until(id, "completed")
		p.ran("multi_input", 1)
	}},
	{name: "a retry that never comes", plain: true, policy: session.Policy{ParkFor: 300 * time.Millisecond}, run: func(t *testing.T, p *cellPlay) {
		a := p.asks("ask_name", nil)
		p.cancelledUp("ask_name")
		eventually(t, "the question is answered", func() bool { return len(p.got("")) == 1 })
		if m := p.got("")[0]; m.Error == nil {
			t.Errorf("answered with %s", m.Result)
		}
		if r := p.call("ask_name", nil, "requestState", a.RequestState, "inputResponses", a.answers()); r.Code() != -32602 {
			t.Errorf("late retry: %s", r.Raw)
		}
		p.ran("ask_name", 0)
	}},
	{name: "a driven call's retry that never comes", plain: true, policy: session.Policy{ParkFor: 300 * time.Millisecond}, run: func(t *testing.T, p *cellPlay) {
		a := p.asks("confirm_delete", file)
		eventually(t, "the task is cancelled", func() bool { return len(p.got("tasks/cancel")) == 1 })
		if r := p.call("confirm_delete", file, "requestState", a.RequestState, "inputResponses", a.answers()); r.Code() != -32602 {
			t.Errorf("late retry: %s", r.Raw)
		}
	}},
	{name: "a retry with changed arguments", plain: true, run: func(t *testing.T, p *cellPlay) {
		a := p.asks("confirm_delete", file)
		for _, r := range []peers.Reply{
			p.call("confirm_delete", map[string]any{"filename": "y"}, "requestState", a.RequestState, "inputResponses", a.answers()),
			p.call("greet", file, "requestState", a.RequestState, "inputResponses", a.answers()),
		} {
			if r.Code() != -32602 {
				t.Errorf("changed: %s", r.Raw)
			}
		}
		if r := p.call("confirm_delete", file, "requestState", a.RequestState, "inputResponses", a.answers()); r.Text() == "" {
			t.Errorf("unchanged: %s", r.Raw)
		}
		p.ran("confirm_delete", 1)
		p.ran("greet", 0)
	}},
	{name: "a replayed requestState", plain: true, run: func(t *testing.T, p *cellPlay) {
		a := p.asks("confirm_delete", file)
		if r := p.call("confirm_delete", file, "requestState", a.RequestState, "inputResponses", a.answers()); r.Text() == "" {
			t.Fatalf("retry: %s", r.Raw)
		}
		if r := p.call("confirm_delete", file, "requestState", a.RequestState, "inputResponses", a.answers()); r.Code() != -32602 {
			t.Errorf("replay: %s", r.Raw)
		}
		p.ran("confirm_delete", 1)
	}},
	{name: "a state of the round before", plain: true, run: func(t *testing.T, p *cellPlay) {
		a := p.asks("ask_name", nil)
		b := p.asks("ask_name", nil, "requestState", a.RequestState) // no answers yet
		if r := p.call("ask_name", nil, "requestState", a.RequestState, "inputResponses", a.answers()); r.Code() != -32602 {
			t.Errorf("the old state: %s", r.Raw)
		}
		if r := p.call("ask_name", nil, "requestState", b.RequestState, "inputResponses", b.answers()); r.Text() == "" {
			t.Errorf("the new state: %s", r.Raw)
		}
		p.ran("ask_name", 1)
	}},
	{name: "a state of another principal", plain: true, run: func(t *testing.T, p *cellPlay) {
		a := p.asks("confirm_delete", file)
		other := &peers.ModernClient{URL: p.url, Header: http.Header{"Authorization": {"Bearer other"}}}
		defer other.Close()
		params := map[string]any{"name": "confirm_delete", "arguments": file, "requestState": a.RequestState, "inputResponses": a.answers()}
		if r := callTool(p.ctx, t, other, params); r.Code() != -32602 {
			t.Errorf("foreign: %s", r.Raw)
		}
		if r := callTool(p.ctx, t, p.c, params); r.Text() == "" {
			t.Errorf("own: %s", r.Raw)
		}
		p.ran("confirm_delete", 1)
	}},
	{name: "a question raised while the client polls", run: func(t *testing.T, p *cellPlay) {
		id := p.create("confirm_delete", file)
		first := p.until(id, "input_required")
		for range 3 {
			time.Sleep(60 * time.Millisecond)
			if v := p.get(id); v.Status != "input_required" || len(v.InputRequests) != 1 {
				t.Fatalf("later: %+v", v)
			} else {
				for key := range v.InputRequests {
					if first.InputRequests[key] == nil {
						t.Errorf("the key changed to %s", key)
					}
				}
			}
		}
		if r := p.task("tasks/update", id, "inputResponses", map[string]any{"nonsense": yes}); r.Err() != nil {
			t.Errorf("unknown key: %s", r.Raw)
		}
		for key := range first.InputRequests {
			p.task("tasks/update", id, "inputResponses", map[string]any{key: yes})
			p.task("tasks/update", id, "inputResponses", map[string]any{key: yes}) // once more is ignored
		}
		v := p.until(id, "completed")
		if v.Result.ResultType != "complete" || len(v.Result.Content) != 1 || v.Result.Meta["io.modelcontextprotocol/related-task"] != nil {
			t.Errorf("result %+v", v.Result)
		}
		if n := len(p.got("")); n != 1 {
			t.Errorf("the server got %d answers", n)
		}
		p.ran("confirm_delete", 1)
	}},
	{name: "a declined question in a task", run: func(t *testing.T, p *cellPlay) {
		run, err := p.c.RunTask(p.ctx, "confirm_delete", file, peers.Decline())
		if err != nil || run.Status() != "completed" || len(run.Questions) != 1 {
			t.Errorf("%v %+v", err, run)
		}
	}},
	{name: "questions on the GET stream only, parked call", plain: true, server: peers.ServerOptions{NeedGET: true}, run: resumes},
	{name: "questions on the GET stream only, driven call", plain: true, server: peers.ServerOptions{NeedGET: true}, run: drives},
	{name: "questions on the GET stream only, task", server: peers.ServerOptions{NeedGET: true}, run: confirms},
	{name: "JSON answers only, parked call", plain: true, server: peers.ServerOptions{JSONResponses: true}, run: resumes},
	{name: "JSON answers only, driven call", plain: true, server: peers.ServerOptions{JSONResponses: true}, run: drives},
	{name: "JSON answers only, task", server: peers.ServerOptions{JSONResponses: true}, run: confirms},
	{name: "failing tool as a task", run: func(t *testing.T, p *cellPlay) {
		v := p.until(p.create("failing_job", nil), "completed")
		if !v.Result.IsError || v.Result.ResultType != "complete" {
			t.Errorf("%+v", v)
		}
	}},
	{name: "JSON-RPC error as a task", run: func(t *testing.T, p *cellPlay) {
		v := p.until(p.create("protocol_error_job", nil), "failed")
		if v.Error == nil || v.Error.Code != -32603 || v.StatusMessage == "" {
			t.Errorf("%+v", v)
		}
	}},
	{name: "a session forgotten before a plain call", run: func(t *testing.T, p *cellPlay) {
		p.call("greet", map[string]any{"name": "Ada"})
		p.server.EndSessions()
		if r := p.call("greet", map[string]any{"name": "Bob"}); r.Text() != "Hello, Bob!" {
			t.Errorf("%s", r.Raw)
		}
		p.ran("greet", 2)
	}},
	{name: "a session forgotten under a task the server keeps", run: func(t *testing.T, p *cellPlay) {
		id := p.create("slow_compute", map[string]any{"seconds": 0.5})
		p.server.EndSessions()
		p.until(id, "completed")
		p.ran("slow_compute", 1)
	}},
	{name: "a session forgotten with its tasks", server: peers.ServerOptions{TasksPerSession: true}, run: func(t *testing.T, p *cellPlay) {
		id := p.create("slow_compute", map[string]any{"seconds": 60})
		p.get(id)
		p.server.EndSessions()
		eventually(t, "the task is unknown", func() bool { return p.task("tasks/get", id).Code() == -32602 })
	}},
	{name: "a session forgotten under a parked call", plain: true, run: func(t *testing.T, p *cellPlay) {
		a := p.asks("ask_name", nil)
		p.server.EndSessions()
		time.Sleep(100 * time.Millisecond) // the stream's end reaches the bridge
		r := p.call("ask_name", nil, "requestState", a.RequestState, "inputResponses", a.answers())
		if r.Code() != -32603 || reasonOf(r) != "parked_call_lost" {
			t.Errorf("%s", r.Raw)
		}
		if r := p.call("ask_name", nil, "requestState", a.RequestState, "inputResponses", a.answers()); r.Code() != -32602 {
			t.Errorf("once more: %s", r.Raw)
		}
		p.ran("ask_name", 0)
		b := p.asks("ask_name", nil) // a new call works
		if r := p.call("ask_name", nil, "requestState", b.RequestState, "inputResponses", b.answers()); r.Text() == "" {
			t.Errorf("a new call: %s", r.Raw)
		}
	}},
	{name: "park task: cancel", policy: session.Policy{ParkTask: true}, run: func(t *testing.T, p *cellPlay) {
		id := p.create("ask_name", nil)
		p.until(id, "input_required")
		if r := p.task("tasks/cancel", id); r.Err() != nil {
			t.Fatalf("%s", r.Raw)
		}
		p.cancelledUp("ask_name")
		if v := p.get(id); v.Status != "cancelled" {
			t.Errorf("%+v", v)
		}
		p.ran("ask_name", 0)
	}},
	{name: "park task: without the extension", plain: true, policy: session.Policy{ParkTask: true}, run: resumes},
	{name: "park task: a session forgotten", policy: session.Policy{ParkTask: true}, run: func(t *testing.T, p *cellPlay) {
		id := p.create("ask_name", nil)
		p.server.EndSessions()
		eventually(t, "the task failed", func() bool { return terminalWord(p.get(id).Status) })
		if v := p.get(id); v.Status != "failed" || v.Error == nil {
			t.Errorf("%+v", v)
		}
		p.ran("ask_name", 0)
	}},
	{name: "undeclared tasks refused", plain: true, policy: session.Policy{RefuseUndeclared: true}, run: func(t *testing.T, p *cellPlay) {
		r := p.call("confirm_delete", file)
		var e struct {
			Data struct {
				RequiredCapabilities struct{ Extensions map[string]json.RawMessage }
			}
		}
		json.Unmarshal(r.Error, &e)
		if r.Code() != -32021 || r.Status != 400 || e.Data.RequiredCapabilities.Extensions["io.modelcontextprotocol/tasks"] == nil {
			t.Errorf("HTTP %d %s", r.Status, r.Raw)
		}
		if r := p.call("slow_compute", map[string]any{"seconds": 0.1}); r.Text() == "" {
			t.Errorf("an optional tool: %s", r.Raw)
		}
		if n := p.callID("confirm_delete"); n != "" {
			t.Error("the refused call reached the server")
		}
	}},
	{name: "undeclared tasks driven", plain: true, run: func(t *testing.T, p *cellPlay) {
		if r := p.call("failing_job", nil); r.Text() == "" || r.Err() != nil {
			t.Errorf("required: %s", r.Raw)
		}
		if r := p.call("slow_compute", map[string]any{"seconds": 0.2}); r.Text() == "" {
			t.Errorf("optional: %s", r.Raw)
		}
		for _, m := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			if r := p.task(m, "x"); r.Code() != -32021 || r.Status != 400 {
				t.Errorf("%s: HTTP %d %s", m, r.Status, r.Raw)
			}
		}
	}},
	{name: "inline wait: in time", policy: session.Policy{InlineWait: 10 * time.Second}, run: func(t *testing.T, p *cellPlay) {
		if r := p.call("slow_compute", map[string]any{"seconds": 0.1}); r.Text() == "" {
			t.Errorf("%s", r.Raw)
		}
		if r := p.call("failing_job", nil); r.Text() == "" {
			t.Errorf("with isError: %s", r.Raw)
		}
		p.ran("slow_compute", 1)
	}},
	{name: "inline wait: too late", policy: session.Policy{InlineWait: 150 * time.Millisecond}, run: func(t *testing.T, p *cellPlay) {
		start := time.Now()
		id := p.create("slow_compute", map[string]any{"seconds": 60})
		if d := time.Since(start); d < 150*time.Millisecond {
			t.Errorf("the handle came after %v", d)
		}
		p.task("tasks/cancel", id)
		p.until(id, "cancelled")
		p.ran("slow_compute", 1)
	}},
	{name: "inline wait: a question", policy: session.Policy{InlineWait: 20 * time.Second}, run: confirms},
	{name: "fewer holders than tasks that ask", one: true, policy: session.Policy{Holders: 1}, run: func(t *testing.T, p *cellPlay) {
		var ids []string
		for i := range 4 {
			ids = append(ids, p.create("confirm_delete", map[string]any{"filename": fmt.Sprint("f", i)}))
		}
		waiting := slices.Clone(ids)
		for len(waiting) > 0 && p.ctx.Err() == nil {
			for _, id := range slices.Clone(waiting) {
				v := p.get(id)
				if v.Status == "input_required" {
					p.task("tasks/update", id, "inputResponses", asked{InputRequests: asRequests(v)}.answers())
				}
				if v.Status == "completed" {
					waiting = slices.DeleteFunc(waiting, func(w string) bool { return w == id })
				}
			}
			time.Sleep(30 * time.Millisecond)
		}
		p.ran("confirm_delete", 4)
		if len(waiting) > 0 {
			t.Errorf("%d of 4 tasks never ended", len(waiting))
		}
	}},
	{name: "a dropped stream of a plain call", run: func(t *testing.T, p *cellPlay) {
		p.drop("slow_plain", map[string]any{"seconds": 30})
		p.cancelledUp("slow_plain")
	}},
	{name: "a dropped stream of a driven call", plain: true, run: func(t *testing.T, p *cellPlay) {
		p.drop("slow_compute", map[string]any{"seconds": 30})
		eventually(t, "the task is cancelled", func() bool { return len(p.got("tasks/cancel")) == 1 })
		if n := len(p.got("notifications/cancelled")); n != 0 {
			t.Errorf("a call sent as a task was cancelled by %d notifications", n)
		}
	}},
	{name: "a dropped stream of a resumed call", plain: true, run: func(t *testing.T, p *cellPlay) {
		// Partial answers keep the call parked: nobody's stream is open, so
		// nothing is cancelled.
		a := p.asks("ask_name", nil)
		b := p.asks("ask_name", nil, "requestState", a.RequestState)
		time.Sleep(100 * time.Millisecond)
		if n := len(p.got("notifications/cancelled")); n != 0 {
			t.Fatalf("%d cancels while parked", n)
		}
		if r := p.call("ask_name", nil, "requestState", b.RequestState, "inputResponses", b.answers()); r.Text() == "" {
			t.Errorf("%s", r.Raw)
		}
	}},
	{name: "many calls at once, each run once", plain: true, run: func(t *testing.T, p *cellPlay) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				name := fmt.Sprint("N", i)
				run, err := p.c.RunTask(p.ctx, "ask_name", map[string]any{"i": i}, peers.Accept(map[string]any{"name": name}))
				if err != nil || !strings.Contains(run.Text(), name) {
					t.Errorf("%s: %v %s", name, err, run.Result)
				}
			})
		}
		wg.Wait()
		p.ran("ask_name", 8)
	}},
	{name: "many tasks at once, each run once", run: func(t *testing.T, p *cellPlay) {
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				run, err := p.c.RunTask(p.ctx, "confirm_delete", map[string]any{"filename": fmt.Sprint("F", i)}, peers.Accept(map[string]any{"confirm": true}))
				if err != nil || !strings.Contains(run.Text(), fmt.Sprint("F", i)) {
					t.Errorf("%d: %v %s", i, err, run.Result)
				}
			})
		}
		wg.Wait()
		p.ran("confirm_delete", 6)
	}},
	{name: "a server without tasks", server: peers.ServerOptions{NoTasks: true}, run: func(t *testing.T, p *cellPlay) {
		disc, err := p.c.Discover(p.ctx)
		if err != nil || strings.Contains(string(disc), "io.modelcontextprotocol/tasks") {
			t.Errorf("%v %s", err, disc)
		}
		a := p.asks("confirm_delete", file)
		if r := p.call("confirm_delete", file, "requestState", a.RequestState, "inputResponses", a.answers()); r.Text() == "" {
			t.Errorf("%s", r.Raw)
		}
		p.ran("confirm_delete", 1)
	}},
	{name: "a client that cannot be asked", plain: true, run: func(t *testing.T, p *cellPlay) {
		deaf := &peers.ModernClient{URL: p.url, Capabilities: map[string]any{}}
		defer deaf.Close()
		r := callTool(p.ctx, t, deaf, map[string]any{"name": "ask_name", "arguments": map[string]any{}})
		var res struct {
			ResultType string
			IsError    bool
		}
		if r.Decode(&res) != nil || !res.IsError || res.ResultType != "complete" {
			t.Errorf("%s", r.Raw)
		}
		p.ran("ask_name", 0)
	}},
}
