package e2e

import (
	"encoding/json"
	"strings"

	"taskbridge/translate"
)

// pairVerb is something every client does, over whatever transport.
type pairVerb struct {
	name  string
	means string // for the document
	play  func(*pairRig)
	// cannot: cells that cannot have it, with the reason.
	cannot func(pairCell) string
}

// reason says why a cell cannot have the verb; empty: it has it.
func (v pairVerb) reason(c pairCell) string {
	if v.cannot == nil {
		return ""
	}
	return v.cannot(c)
}

// pairVerbs is the list, in the order it is played: the last ends the client.
var pairVerbs = []pairVerb{
	{name: "call", play: playCall, means: "a list, calls with plain and odd texts, an unknown method, an unknown tool"},
	{name: "notify", play: playNotify, means: "a legacy client hears of a change unasked, and a legacy server of changed roots; " +
		"a modern client, which has no notification but its cancel, hears a line of the log within a call"},
	{name: "progress", play: playProgress, means: "each notice of a call's progress, rising, before the answer"},
	{name: "cancel", play: playCancel, means: "the client withdraws a call the way its transport and era have it; the server stops, no result comes"},
	{name: "question", play: playQuestion, means: "the server asks within a call, once, and the call goes on with the answer"},
	{name: "subscribe", play: playSubscribe, means: "a resource is watched, a change heard, the watch ended"},
	{name: "task", play: playTask, means: "a task with a question from start to result; another cancelled; both listed where lists are"},
	{name: "server lost", play: playServerLost, means: "the server drops its connections, forgets its sessions, or its process ends: " +
		"the call under way gets one error, calls go through again"},
	{name: "reconnect", play: playReconnect, cannot: noReturn, means: "the client's connection is cut under a call, and it comes back: " +
		"a legacy call over Streamable HTTP is resumed and answered, any other stops at the server; the next calls go through"},
	{name: "return", play: playReturn, means: "a task runs on while its client's connection is cut; the client comes back for its result",
		cannot: func(c pairCell) string {
			if c.client == translate.Legacy && c.server == translate.Legacy && c.up == "stdio" && (c.down == "ws" || c.down == "sse") {
				return "between legacy peers the session is the client's, over WebSocket and HTTP+SSE it ends with the connection, and the server's " +
					"process and its tasks with the session"
			}
			return noReturn(c)
		}},
	{name: "close", play: playClose, means: "the client leaves in order: what it left running stops at the server, its session ends, " +
		"and once the proxy ends no connection or process is left"},
}

func noReturn(c pairCell) string {
	if c.down != "stdio" {
		return ""
	}
	return "a client that has lost its streams has lost the proxy too, which is its own process and ends with them " +
		"(2025-11-25 basic/lifecycle, Shutdown; 2026-07-28 basic/transports/stdio, Shutdown)"
}

func playCall(r *pairRig) {
	r.p.must("tools/list", nil)
	for _, name := range []string{"Ada", "Łódź 🚲 \u2028 <&>"} {
		if m := r.p.tool("greet", map[string]any{"name": name}); m.text() != "Hello, "+name+"!" {
			r.t.Errorf("greet %s: %s", name, m)
		}
	}
	if m := r.p.call("no/such", nil); m.Error == nil || m.Error.Code != -32601 {
		r.t.Errorf("no/such: %s", m)
	}
	if m := r.p.tool("no_such_tool", nil); m.Error == nil || m.Error.Code != -32602 {
		r.t.Errorf("no_such_tool: %s", m)
	}
}

// playNotify: what wants no answer. A legacy server says so unasked, a modern
// one only where it is listened to or within a call.
func playNotify(r *pairRig) {
	if r.pairCell.client == translate.Modern {
		m := r.p.must("tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "!log"}, "_meta": map[string]any{translate.MetaLogLevel: "info"}})
		r.p.awaits("notifications/message", "a line of the log")
		if m.text() != "done" {
			r.t.Errorf("log: %s", m)
		}
		return
	}
	r.steer("change")
	r.p.awaits("notifications/tools/list_changed", "")
	if r.server == translate.Legacy { // a modern one has no such notification
		r.p.notify("notifications/roots/list_changed")
		eventually(r.t, "the server hears that the roots have changed", func() bool { return r.steer("heard").text() == "1" })
	}
}

func playProgress(r *pairRig) {
	const steps = 4
	// Without the tasks extension: a task has no progress (tasks extension).
	m := r.p.must("tools/call", map[string]any{"name": "progress", "arguments": map[string]any{"steps": steps},
		"_meta": map[string]any{"progressToken": "p-1", translate.MetaClientCaps: map[string]any{}}})
	if m.text() != "Took 4 steps." {
		r.t.Errorf("progress: %s", m)
	}
	last := 0.0
	told := r.p.told("notifications/progress")
	for _, n := range told {
		var p struct {
			ProgressToken string
			Progress      float64
		}
		if _ = json.Unmarshal(n.Params, &p); p.ProgressToken != "p-1" || p.Progress <= last {
			r.t.Errorf("progress out of order: %s", n.Params)
		}
		last = p.Progress
	}
	if len(told) != steps {
		r.t.Errorf("%d notices before the answer, want %d", len(told), steps)
	}
}

// slow begins a call that the server works on until it is told to stop.
func (r *pairRig) slow(label string) (id string, answer chan partyMessage) {
	r.t.Helper()
	id, answer = r.p.begin("tools/call", map[string]any{"name": "slow_plain", "arguments": map[string]any{"seconds": 60, "label": label}})
	eventually(r.t, label+" is under way", func() bool { return r.far.saw("began " + label) })
	return id, answer
}

func (r *pairRig) stopped(label string) {
	r.t.Helper()
	eventually(r.t, "the server stops "+label, func() bool { return r.far.saw("ended " + label) })
}

func playCancel(r *pairRig) {
	id, answer := r.slow("to-cancel")
	r.p.c.Cancel(id)
	r.stopped("to-cancel")
	r.p.must("tools/list", nil)
	select {
	case m := <-answer:
		// A legacy client may get an error that was under way; a result never.
		if m.Error == nil {
			r.t.Errorf("a cancelled call was answered: %s", m)
		}
	default:
	}
}

func playQuestion(r *pairRig) {
	before := r.p.questions()
	if m := r.p.tool("ask_name", nil); m.text() != "Hello, Ada!" {
		r.t.Errorf("ask_name: %s", m)
	}
	if n := r.p.questions() - before; n != 1 {
		r.t.Errorf("asked %d times", n)
	}
}

func playSubscribe(r *pairRig) {
	const uri = "demo://readme"
	if r.pairCell.client == translate.Legacy {
		r.p.must("resources/subscribe", map[string]any{"uri": uri})
		r.steer("change")
		r.p.awaits("notifications/resources/updated", uri)
		r.p.must("resources/unsubscribe", map[string]any{"uri": uri})
		return
	}
	id, answer := r.p.begin("subscriptions/listen", map[string]any{"notifications": map[string]any{"toolsListChanged": true, "resourceSubscriptions": []string{uri}}})
	of := `"` + translate.MetaSubscription + `":` + id
	r.p.awaits("notifications/subscriptions/acknowledged", of)
	r.steer("change")
	r.p.awaits("notifications/resources/updated", of)
	r.p.awaits("notifications/tools/list_changed", of)
	r.p.c.Cancel(id)
	r.p.must("tools/list", nil)
	select {
	case m := <-answer:
		r.t.Errorf("a cancelled listen was answered: %s", m)
	default:
	}
}

// newTask begins a task and gives its id.
func (r *pairRig) newTask(tool string, arguments map[string]any) string {
	r.t.Helper()
	params := map[string]any{"name": tool, "arguments": arguments}
	if r.pairCell.client == translate.Legacy {
		params["task"] = map[string]any{"ttl": 60000}
	}
	m := r.p.must("tools/call", params)
	var created struct {
		TaskID string
		Task   struct{ TaskID string }
	}
	m.into(&created)
	id := created.TaskID + created.Task.TaskID
	if id == "" {
		r.t.Fatalf("no task: %s", m)
	}
	return id
}

// finish sees a task to its end and gives its result's text.
func (r *pairRig) finish(id string) string {
	r.t.Helper()
	var task struct {
		Status        string
		InputRequests map[string]json.RawMessage
		Result        json.RawMessage
	}
	look := func() { r.p.must("tasks/get", map[string]any{"taskId": id}).into(&task) }
	if r.pairCell.client == translate.Legacy {
		text := r.p.must("tasks/result", map[string]any{"taskId": id}).text()
		if look(); task.Status != "completed" {
			r.t.Errorf("the task is %s", task.Status)
		}
		return text
	}
	answered := map[string]bool{}
	eventually(r.t, "the task ends", func() bool {
		task.InputRequests = nil
		look()
		for key := range task.InputRequests {
			if answered[key] {
				delete(task.InputRequests, key)
			}
			answered[key] = true
		}
		if len(task.InputRequests) > 0 {
			r.p.must("tasks/update", map[string]any{"taskId": id, "inputResponses": accepted(task.InputRequests)})
		}
		return task.Status == "completed"
	})
	return partyMessage{Result: task.Result}.text()
}

func playTask(r *pairRig) {
	id := r.newTask("confirm_delete", map[string]any{"filename": "a.txt"})
	if text := r.finish(id); text != "Deleted a.txt." {
		r.t.Errorf("confirm_delete: %s", text)
	}
	slow := r.newTask("slow_compute", map[string]any{"seconds": 60, "label": "task"})
	r.p.must("tasks/cancel", map[string]any{"taskId": slow})
	var task struct{ Status string }
	if r.p.must("tasks/get", map[string]any{"taskId": slow}).into(&task); task.Status != "cancelled" {
		r.t.Errorf("a cancelled task is %s", task.Status)
	}
	if r.pairCell.client == translate.Legacy {
		if list := r.p.must("tasks/list", nil); !strings.Contains(string(list.Result), id) || !strings.Contains(string(list.Result), slow) {
			r.t.Errorf("tasks/list: %s", list)
		}
	}
}

// playServerLost: the server loses its connections, its sessions or its
// process. The call under way gets an error; the next ones go through.
func playServerLost(r *pairRig) {
	_, answer := r.slow("to-lose")
	_, drop := r.p.begin("tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "!drop"}})
	r.p.wait("the call that did it", drop) // with a result or an error
	if m := r.p.wait("the call under way", answer); m.Error == nil {
		r.t.Errorf("the call under way got a result: %s", m)
	}
	eventually(r.t, "calls go through again", func() bool {
		m := r.p.tool("greet", map[string]any{"name": "Ada"})
		if r.p.ended() {
			r.p.open() // 2025-11-25 basic/transports, Session Management
		}
		return m.text() == "Hello, Ada!"
	})
}

// comeBack is the client that connects anew.
func (r *pairRig) comeBack() {
	r.t.Helper()
	kept, err := r.p.c.Back()
	if err != nil {
		r.t.Fatal(err)
	}
	if !kept {
		r.p.open()
	}
}

// playReconnect: a legacy client's call over Streamable HTTP goes on without
// its connection (2025-11-25 basic/transports, Resumability and Redelivery);
// elsewhere the call ends with it.
func playReconnect(r *pairRig) {
	if r.down != "http" || r.pairCell.client != translate.Legacy {
		r.slow("to-cut")
		r.p.c.Cut()
		r.p.forget()
		r.stopped("to-cut")
		r.comeBack()
	} else {
		seen := len(r.p.told("notifications/progress"))
		_, answer := r.p.begin("tools/call", map[string]any{"name": "progress", "arguments": map[string]any{"steps": 50}, "_meta": map[string]any{"progressToken": "p-2"}})
		eventually(r.t, "progress", func() bool { return len(r.p.told("notifications/progress")) > seen })
		r.p.c.Cut()
		r.comeBack()
		if m := r.p.wait("the call that was cut off", answer); m.text() != "Took 50 steps." {
			r.t.Errorf("the call that was cut off: %s", m)
		}
	}
	if m := r.p.tool("greet", map[string]any{"name": "Ada"}); m.text() != "Hello, Ada!" {
		r.t.Errorf("greet: %s", m)
	}
}

func playReturn(r *pairRig) {
	id := r.newTask("slow_compute", map[string]any{"seconds": 0.2, "label": "later"})
	r.p.c.Cut()
	r.comeBack()
	if text := r.finish(id); !strings.Contains(text, "later") {
		r.t.Errorf("the task's result: %s", text)
	}
}

// playClose: a client that leaves in order. What it left running stops, and its
// session with a legacy server ends.
func playClose(r *pairRig) {
	r.slow("to-leave")
	r.p.close()
	r.stopped("to-leave")
	if r.pairCell.client == translate.Legacy && r.server == translate.Legacy || r.down == "stdio" && r.up != "http" {
		eventually(r.t, "nothing of the client is open at the server", func() bool { return r.far.open() == 0 })
	}
}
