package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/session"
)

// modernCell is one situation of a modern client before a legacy server, played
// in every form of the bridge.
type modernCell struct {
	name   string
	policy session.Policy
	server peers.ServerOptions
	plain  bool // the client does not declare the tasks extension
	one    bool // only with one runner that remembers
	run    func(t *testing.T, p *cellPlay)
}

type cellPlay struct {
	ctx    context.Context
	server *peers.LegacyServer
	url    string        // of the bridge
	store  session.Store // its own, nil where no test looks
	c      *peers.ModernClient
	t      *testing.T

	mu   sync.Mutex // protects the field below
	seen []peers.TraceEntry
}

func (p *cellPlay) trace(e peers.TraceEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, e)
}

// cellMessage is a JSON-RPC message at the server.
type cellMessage struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
}

// messages gives those the server got (or sent) with that method; "" are
// responses.
func (p *cellPlay) messages(out bool, method string) []cellMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []cellMessage
	for _, e := range p.seen {
		var m cellMessage
		if e.Out == out && len(e.Message) > 0 && json.Unmarshal(e.Message, &m) == nil && m.Method == method {
			list = append(list, m)
		}
	}
	return list
}

func (p *cellPlay) got(method string) []cellMessage { return p.messages(false, method) }

// call is tools/call; more are members of params.
func (p *cellPlay) call(tool string, args map[string]any, more ...any) peers.Reply {
	p.t.Helper()
	params := map[string]any{"name": tool, "arguments": args}
	for i := 0; i+1 < len(more); i += 2 {
		params[more[i].(string)] = more[i+1]
	}
	return callTool(p.ctx, p.t, p.c, params)
}

// asks is a call that must come back with a question.
func (p *cellPlay) asks(tool string, args map[string]any, more ...any) asked {
	p.t.Helper()
	return required(p.t, p.call(tool, args, more...))
}

func required(t *testing.T, r peers.Reply) asked {
	t.Helper()
	var a asked
	if err := r.Decode(&a); err != nil || a.ResultType != "input_required" || a.RequestState == "" || len(a.InputRequests) == 0 {
		t.Fatalf("no question: %v %s", err, r.Raw)
	}
	return a
}

var yes = map[string]any{"action": "accept", "content": map[string]any{"confirm": true, "name": "Ada", "colour": "green"}}

// answers accepts all that is asked.
func (a asked) answers() map[string]any {
	all := map[string]any{}
	for key := range a.InputRequests {
		all[key] = yes
	}
	return all
}

type taskView struct {
	ResultType, TaskID, Status, StatusMessage string
	InputRequests                             map[string]json.RawMessage
	Result                                    struct {
		ResultType string
		IsError    bool
		Content    []struct{ Text string }
		Meta       map[string]json.RawMessage `json:"_meta"`
	}
	Error *peers.RPCError
}

// create makes a task.
func (p *cellPlay) create(tool string, args map[string]any) string {
	p.t.Helper()
	var v taskView
	if r := p.call(tool, args); r.Decode(&v) != nil || v.ResultType != "task" || v.TaskID == "" {
		p.t.Fatalf("no task: %s", r.Raw)
	}
	return v.TaskID
}

func (p *cellPlay) task(method, id string, more ...any) peers.Reply {
	p.t.Helper()
	params := map[string]any{"taskId": id}
	for i := 0; i+1 < len(more); i += 2 {
		params[more[i].(string)] = more[i+1]
	}
	r, err := p.c.Call(p.ctx, method, params)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p *cellPlay) get(id string) taskView {
	p.t.Helper()
	var v taskView
	if r := p.task("tasks/get", id); r.Decode(&v) != nil {
		p.t.Fatalf("tasks/get: %s", r.Raw)
	}
	return v
}

// until polls for a status.
func (p *cellPlay) until(id, status string) taskView {
	p.t.Helper()
	for {
		v := p.get(id)
		if v.Status == status {
			return v
		}
		if terminalWord(v.Status) || p.ctx.Err() != nil {
			p.t.Fatalf("%s, not %s", v.Status, status)
		}
		time.Sleep(30 * time.Millisecond)
	}
}

func terminalWord(s string) bool { return s == "completed" || s == "failed" || s == "cancelled" }

func (p *cellPlay) ran(tool string, want int) {
	p.t.Helper()
	if n := p.server.Calls(tool); n != want {
		p.t.Errorf("%s ran %d times, want %d", tool, n, want)
	}
}

// callID is the server's id of the latest call of a tool.
func (p *cellPlay) callID(tool string) string {
	id := ""
	for _, m := range p.got("tools/call") {
		if strings.Contains(string(m.Params), `"`+tool+`"`) {
			id = string(m.ID)
		}
	}
	return id
}

// cancelledUp waits until the server is told that a call is cancelled, by the
// id the server knows it under.
func (p *cellPlay) cancelledUp(tool string) {
	p.t.Helper()
	eventually(p.t, "the server is told of the cancel", func() bool { return len(p.got("notifications/cancelled")) > 0 })
	var c struct{ RequestID json.RawMessage }
	json.Unmarshal(p.got("notifications/cancelled")[0].Params, &c)
	if want := p.callID(tool); want == "" || string(c.RequestID) != want {
		p.t.Errorf("cancelled %s, the call was %s", c.RequestID, want)
	}
}

func reasonOf(r peers.Reply) string {
	var e struct{ Data struct{ Reason string } }
	json.Unmarshal(r.Error, &e)
	return e.Data.Reason
}

func asRequests(v taskView) map[string]struct {
	Method string
	Params json.RawMessage
} {
	out := map[string]struct {
		Method string
		Params json.RawMessage
	}{}
	for key := range v.InputRequests {
		out[key] = struct {
			Method string
			Params json.RawMessage
		}{}
	}
	return out
}

// drop starts a call and closes its stream once it runs.
func (p *cellPlay) drop(tool string, args map[string]any) {
	p.t.Helper()
	ctx, leave := context.WithCancel(p.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.c.Call(ctx, "tools/call", map[string]any{"name": tool, "arguments": args})
	}()
	eventually(p.t, "the call runs", func() bool { return p.server.Calls(tool) == 1 })
	time.Sleep(50 * time.Millisecond)
	leave()
	<-done
}

func resumes(t *testing.T, p *cellPlay) {
	a := p.asks("ask_name", nil)
	if r := p.call("ask_name", nil, "requestState", a.RequestState, "inputResponses", a.answers()); r.Text() == "" {
		t.Errorf("%s", r.Raw)
	}
	p.ran("ask_name", 1)
}

func drives(t *testing.T, p *cellPlay) {
	a := p.asks("confirm_delete", file)
	if r := p.call("confirm_delete", file, "requestState", a.RequestState, "inputResponses", a.answers()); r.Text() == "" {
		t.Errorf("%s", r.Raw)
	}
	p.ran("confirm_delete", 1)
}

func confirms(t *testing.T, p *cellPlay) {
	run, err := p.c.RunTask(p.ctx, "confirm_delete", file, peers.Accept(map[string]any{"confirm": true}))
	if err != nil || run.TaskID == "" || run.Status() != "completed" || len(run.Questions) != 1 {
		t.Errorf("%v %+v", err, run)
	}
	p.ran("confirm_delete", 1)
}
