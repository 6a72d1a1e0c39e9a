package offline

import (
	"maps"
	"slices"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// mockTask goes through the states its recorded model went through, whoever
// looks at it and how often. All its fields are under Mock.mu.
type mockTask struct {
	m      *Mock
	op     *operation.Operation
	id     string // as shown here
	at     int    // the part of op carried out last
	prev   time.Time
	state  []byte // legacy: the Task object; modern: the result of tasks/get
	over   bool   // terminal
	token  jsonrpc.Value
	stop   func() bool
	reopen bool // the timeline stands still: it waits for an answer

	// legacy: the tasks/result requests that wait, and the questions none of
	// them carried yet.
	waiters []taskWaiter
	asks    [][]byte
	asked   int
	// answered are the questions answered here, by their parts; waiting is the
	// one that holds time up, 0: none.
	answered map[int]bool
	waiting  int
	// modern: the keys whose answers are waited for, and those answered here.
	keys, told map[string]bool
}

type taskWaiter struct {
	s  *stream
	id jsonrpc.ID
}

// newTask makes room for the task of op; it needs m.mu. An id that another task
// has already gets a number behind it.
func (m *Mock) newTask(op *operation.Operation) *mockTask {
	t := &mockTask{m: m, op: op, id: op.TaskID, answered: map[int]bool{}, told: map[string]bool{}}
	for n := 2; m.tasks[t.id] != nil; n++ {
		t.id = op.TaskID + "~" + string(jsonrpc.IntID(int64(n)).Raw())
	}
	m.tasks[t.id] = t
	t.token = op.Parts[0].Msg.At("params", "_meta", translate.MetaProgress)
	return t
}

// rename puts the id shown here where msg has the recorded one.
func (t *mockTask) rename(msg *jsonrpc.Message, e *jsonrpc.Edit) {
	if t.id == t.op.TaskID {
		return
	}
	for _, v := range translate.Facts(msg, t.op.Method).TaskIDs {
		if v.Is(t.op.TaskID) {
			e.Replace(v, jsonrpc.Quote(t.id))
		}
	}
}

// begin takes the first state from the reply that made the task and sets its
// time going.
func (t *mockTask) begin(part operation.Part) {
	for i := range t.op.Parts {
		if t.op.Parts[i].Record == part.Record {
			t.at = i
		}
	}
	t.prev = part.Record.Time
	if t.m.o.Era == translate.Modern {
		e := part.Msg.Result().Edit()
		e.Set(part.Msg.Result(), "resultType", []byte(`"complete"`))
		t.set(e.Bytes())
	} else {
		t.set(part.Msg.Result().Get("task").Raw())
	}
	t.next()
}

// set takes a new state.
func (t *mockTask) set(raw []byte) {
	v, err := jsonrpc.ParseValue(raw)
	if err != nil || v.Type() != jsonrpc.Object {
		return
	}
	if id := v.Get("taskId"); id.Is(t.op.TaskID) && t.id != t.op.TaskID {
		e := v.Edit()
		e.Replace(id, jsonrpc.Quote(t.id))
		raw = e.Bytes()
		v, _ = jsonrpc.ParseValue(raw)
	}
	t.state = raw
	status, _ := v.Get("status").Str()
	if translate.Terminal(status) {
		t.over = true
		t.settle()
	}
	t.keys = map[string]bool{}
	for key := range v.Get("inputRequests").Members() {
		if !t.told[key] {
			t.keys[key] = true
		}
	}
}

// withStatus is the state with another status.
func (t *mockTask) withStatus(status string) []byte {
	v, err := jsonrpc.ParseValue(t.state)
	if err != nil {
		return t.state
	}
	e := v.Edit()
	e.Set(v, "status", jsonrpc.Quote(status))
	e.Delete(v.Get("inputRequests"))
	return e.Bytes()
}

// shown is what tasks/get says now. A legacy task whose question is open says
// so whether or not anybody looked when it was recorded.
func (t *mockTask) shown() []byte {
	if t.asked > 0 && !t.over {
		return t.withStatus("input_required")
	}
	return t.state
}

// next plans the next thing that happens to the task.
func (t *mockTask) next() {
	if t.over {
		return
	}
	for t.at++; t.at < len(t.op.Parts); t.at++ {
		part := t.op.Parts[t.at]
		if part.Role == operation.RoleAnswer && part.To > 0 && t.op.Parts[part.To].Role == operation.RoleAsk && !t.answered[part.To] {
			t.waiting = part.To
			t.at--
			return
		}
		if part.Role == operation.RoleCancel && part.Record.Dir == translate.ToServer {
			return // it goes on when it is cancelled here too
		}
		if do := t.happening(part); do != nil {
			t.stop = t.m.after(part.Record.Time.Sub(t.prev), func() {
				t.m.mu.Lock()
				defer t.m.mu.Unlock()
				t.prev = part.Record.Time
				if do() {
					t.next()
				}
			})
			return
		}
	}
}

// happening is what part means for the task, nil: nothing. It says whether time
// goes on at once.
func (t *mockTask) happening(part operation.Part) func() bool {
	msg := part.Msg
	if msg == nil || part.Record.Dir != translate.ToClient {
		return nil
	}
	switch part.Role {
	case operation.RoleStatus:
		if translate.TaskMethod(msg.Method) {
			return func() bool { t.set(dropMeta(msg.Params())); return !t.waits() }
		}
	case operation.RoleAsk:
		return func() bool { t.ask(part); return true }
	case operation.RoleProgress, operation.RoleLog:
		return func() bool { t.tell(msg); return true }
	case operation.RoleReply:
		if part.To < 0 || t.op.Parts[part.To].Msg == nil || msg.Kind != jsonrpc.Response {
			if part.To >= 0 && t.op.Parts[part.To].Msg != nil && t.op.Parts[part.To].Msg.Method == "tasks/result" {
				return func() bool { t.finish("failed"); return false }
			}
			return nil
		}
		switch t.op.Parts[part.To].Msg.Method {
		case "tasks/get":
			return func() bool { t.set(msg.Result().Raw()); return !t.waits() }
		case "tasks/result":
			status := "completed"
			if isError, _ := msg.Result().Get("isError").Bool(); isError {
				status = "failed"
			}
			return func() bool { t.finish(status); return false }
		}
	}
	return nil
}

// waits says whether a modern task stands still until its questions are
// answered. Those nobody answered when it was recorded are not waited for.
func (t *mockTask) waits() bool {
	if len(t.keys) == 0 {
		return false
	}
	for i := t.at + 1; i < len(t.op.Parts); i++ {
		if t.op.Parts[i].Role == operation.RoleUpdate {
			t.reopen = true
			return true
		}
	}
	return false
}

// finish ends a legacy task whose last status nobody looked at.
func (t *mockTask) finish(status string) {
	if !t.over {
		t.set(t.withStatus(status))
	}
}

// settle answers all who wait for the result.
func (t *mockTask) settle() {
	if t.stop != nil {
		t.stop()
	}
	for _, w := range t.waiters {
		t.give(w)
	}
	t.waiters = nil
}

// give answers one tasks/result of a task that is over. A result nobody fetched
// when it was recorded is shown without content.
func (t *mockTask) give(w taskWaiter) {
	related := jsonrpc.NewObject().Raw(translate.MetaRelatedTask, jsonrpc.NewObject().Str("taskId", t.id).Bytes()).Bytes()
	switch {
	case t.op.Error != nil:
		w.s.end(append(append([]byte(`{"jsonrpc":"2.0","id":`), w.id.Raw()...), append(append([]byte(`,"error":`), t.op.Error...), '}')...))
	case t.op.Result != nil:
		raw := t.op.Result
		if v, err := jsonrpc.ParseValue(raw); err == nil && t.id != t.op.TaskID {
			if id := v.Get("_meta").Get(translate.MetaRelatedTask).Get("taskId"); id.Exists() {
				e := v.Edit()
				e.Replace(id, jsonrpc.Quote(t.id))
				raw = e.Bytes()
			}
		}
		w.s.end(jsonrpc.NewResult(w.id, raw))
	case t.op.Outcome == operation.Cancelled:
		w.s.end(jsonrpc.NewError(w.id, -32603, "Task cancelled", nil))
	default:
		w.s.end(jsonrpc.NewResult(w.id, jsonrpc.NewObject().Raw("content", []byte("[]")).Raw("_meta", related).Bytes()))
	}
}

// ask puts a question of a legacy task.
func (t *mockTask) ask(part operation.Part) {
	at := t.at
	t.asked++
	raw := t.m.asking(part.Msg, func([]byte) {
		t.m.mu.Lock()
		defer t.m.mu.Unlock()
		t.asked--
		t.answered[at] = true
		if t.waiting == at && !t.over {
			t.waiting, t.prev = 0, t.op.Parts[t.at+1].Record.Time
			t.next()
		}
	})
	if m, err := jsonrpc.Decode(raw, jsonrpc.Limits{}); err == nil {
		e := m.Edit()
		t.rename(m, e)
		raw = e.Bytes()
	}
	if s := t.reader(); s != nil {
		s.say(raw)
	} else {
		t.asks = append(t.asks, raw)
	}
}

// reader is the newest exchange that waits for the result.
func (t *mockTask) reader() *stream {
	for i := len(t.waiters) - 1; i >= 0; i-- {
		if t.waiters[i].s.live() {
			return t.waiters[i].s
		}
	}
	return nil
}

// tell passes a notification on where somebody listens.
func (t *mockTask) tell(msg *jsonrpc.Message) {
	s := t.reader()
	if s == nil {
		for _, l := range t.m.listens {
			if l.live() {
				s = l
				break
			}
		}
	}
	if s != nil {
		s.say(msg.Raw)
	}
}

// task answers tasks/*.
func (m *Mock) task(s *stream, msg *jsonrpc.Message) {
	id, _ := msg.At("params", "taskId").Str()
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tasks[id]
	if t == nil || t.state == nil {
		m.unknownTask(s, msg)
		return
	}
	switch msg.Method {
	case "tasks/get":
		s.end(jsonrpc.NewResult(msg.ID, t.shown()))
	case "tasks/result":
		w := taskWaiter{s, msg.ID}
		if t.over {
			t.give(w)
			return
		}
		t.waiters = append(t.waiters, w)
		for _, raw := range t.asks {
			s.say(raw)
		}
		t.asks = nil
	case "tasks/update":
		s.end(jsonrpc.NewResult(msg.ID, m.empty()))
		t.update(msg)
	case "tasks/cancel":
		t.cancel(s, msg)
	}
}

// unknownTask says what was recorded of a task nobody made, or that it is not
// known.
func (m *Mock) unknownTask(s *stream, msg *jsonrpc.Message) {
	if shelf := m.shelves[requestKey(msg)]; shelf != nil {
		for _, p := range shelf.take().Parts {
			if p.Role == operation.RoleReply && p.Msg != nil {
				e := p.Msg.Edit()
				e.Replace(p.Msg.At("id"), msg.ID.Raw())
				s.end(e.Bytes())
				return
			}
		}
	}
	s.end(jsonrpc.NewError(msg.ID, -32602, "Failed to retrieve task: Task not found", nil))
}

// update takes the answers to a modern task's questions.
func (t *mockTask) update(msg *jsonrpc.Message) {
	for key := range msg.At("params", "inputResponses").Members() {
		delete(t.keys, key)
		t.told[key] = true
	}
	if len(t.keys) > 0 || t.over {
		return
	}
	t.state = t.withStatus("working")
	if !t.reopen {
		return
	}
	t.reopen = false
	// What was recorded up to the last of these answers is past.
	for i := t.at + 1; i < len(t.op.Parts) && t.isTold(t.op.Parts[i]); i++ {
		if t.op.Parts[i].Role == operation.RoleUpdate {
			t.at, t.prev = i, t.op.Parts[i].Record.Time
		}
	}
	t.next()
}

// isTold: the part is no update with an answer that has not come here.
func (t *mockTask) isTold(p operation.Part) bool {
	if p.Role != operation.RoleUpdate || p.Msg == nil {
		return true
	}
	for key := range p.Msg.At("params", "inputResponses").Members() {
		if !t.told[key] {
			return false
		}
	}
	return true
}

func (t *mockTask) cancel(s *stream, msg *jsonrpc.Message) {
	legacy := t.m.o.Era == translate.Legacy
	switch {
	case t.over && legacy:
		s.end(jsonrpc.NewError(msg.ID, -32602, "Cannot cancel task: already in terminal status", nil))
		return
	case !t.over:
		t.set(t.withStatus("cancelled"))
	}
	if legacy {
		s.end(jsonrpc.NewResult(msg.ID, t.state))
	} else {
		s.end(jsonrpc.NewResult(msg.ID, t.m.empty()))
	}
}

// taskList is every task, newest last: the mock has no pages.
func (m *Mock) taskList() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []byte{'['}
	for _, id := range slices.Sorted(maps.Keys(m.tasks)) {
		t := m.tasks[id]
		if t.state == nil {
			continue
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, t.shown()...)
	}
	return jsonrpc.NewObject().Raw("tasks", append(list, ']')).Bytes()
}

// dropMeta is a notification's params as a state.
func dropMeta(params jsonrpc.Value) []byte {
	e := params.Edit()
	e.Delete(params.Get("_meta"))
	return e.Bytes()
}
