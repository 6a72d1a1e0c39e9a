package session

import (
	"encoding/json"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// legacyTask is a task of a modern server, or one only the proxy holds, as a
// legacy client sees it. Its id is the handle given at creation, for life.
type legacyTask struct {
	base
	Live  bool      `json:",omitempty"`
	Owner Principal `json:",omitempty"`
	// As is whose credential polls: the last caller's who named the task.
	As      Principal `json:",omitempty"`
	Session string    `json:",omitempty"` // the session that last named it
	// ServerID is empty while only we know the task.
	ServerID string `json:",omitempty"`
	Call     OpID   `json:",omitempty"` // the call that runs under a handle of ours
	// Task is the legacy Task as last shown, its taskId left empty (shown), Status
	// its status.
	Task   []byte `json:",omitempty"`
	Meta   []byte `json:",omitempty"` // what the server said beside the task
	Status string `json:",omitempty"`
	// Held: the payload is in the store under heldKey. Failure is the error
	// tasks/result answers with when we ended the task ourselves.
	Held    bool   `json:",omitempty"`
	Failure []byte `json:",omitempty"`
	Final   bool   `json:",omitempty"` // Status never changes any more
	// Born is createdAt of a task whose handle is ours: what the client was told
	// first, whatever its server says later.
	Born string `json:",omitempty"`

	Token    []byte    `json:",omitempty"`
	Progress int64     `json:",omitempty"`
	Interval int64     `json:",omitempty"` // ms, the server's newest
	Next     time.Time `json:",omitzero"`  // no poll before
	Index    string    `json:",omitempty"`
	Limit    string    `json:",omitempty"` // counted under; empty: not counted
	Over     bool      `json:",omitempty"` // counted among those that have ended

	Gets    []waiter `json:",omitempty"` // want the next state seen
	Waiters []waiter `json:",omitempty"` // tasks/result and driven calls
	Cancels []waiter `json:",omitempty"` // tasks/cancel
	// Joined: the server was asked to push this task; Watched: it does, and
	// polling is only a safety net.
	Joined    bool      `json:",omitempty"`
	JoinedAs  Principal `json:",omitempty"`
	Watched   bool      `json:",omitempty"`
	Overtaken bool      `json:",omitempty"` // a push, or the first word that there are any, came during the look that runs
	Again     int       `json:",omitempty"` // looks taken again for that
	Asked     questions
	Caps      []byte `json:",omitempty"` // of the client that made it
	Updates   int    `json:",omitempty"`

	paced bool // of the exchange being opened
}

func (t *legacyTask) handle(x *Exec) string { return string(x.ID[len("ltask:"):]) }

// shown is the Task with its id, which is not kept twice: there are many tasks.
func (t *legacyTask) shown(x *Exec) []byte {
	if len(t.Task) == 0 {
		return nil
	}
	return translate.WithTaskID(translate.ParseResult(t.Task), t.handle(x))
}

func heldKey(handle string) string { return "held/" + handle }

func (t *legacyTask) Step(x *Exec, ev Event) {
	if !t.Live && !t.revive(x, ev) {
		return
	}
	switch ev.Kind {
	case EvOp:
		t.told(x, ev)
	case EvClient:
		t.client(x, ev)
	case EvClientGone:
		t.left(x, ev)
	case EvTimer:
		t.timer(x, ev.Name)
	case EvServer:
		t.server(x, ev)
	case EvServerEnd:
		t.serverEnd(x, ev)
	case EvAnswer:
		t.answer(x, ev)
	}
}

// revive makes the state of a task we do not remember: a birth, or a handle
// whose seal says all that is needed. A minted one cannot come back.
func (t *legacyTask) revive(x *Exec, ev Event) bool {
	switch {
	case ev.Kind == EvOp && (ev.Name == "born" || ev.Name == "running" || ev.Name == "held"):
		t.Live, t.Status = true, translate.Working
		return true
	case ev.Kind == EvClient:
		ref, ok := x.r.openTask(t.handle(x), taskPrincipal(ev.Caller))
		if ok && !ref.Minted {
			t.Live, t.Status, t.Owner, t.ServerID = true, translate.Working, ref.Principal, ref.ID
			t.remember(x)
			return true
		}
		if ev.Frame.Msg.Method == "tasks/result" {
			x.Do(Del{Key: waitKey(ev.Session.ID, ev.Frame.Msg.ID)})
		}
		x.refuse(ev.Label, translate.Legacy, ev.Frame.Msg.ID, translate.CondUnknownTask, unknownTask, nil)
	case ev.Kind == EvOp && ev.Name == "show":
		x.Do(Tell{To: ev.From, Name: "gone", Data: []byte(t.handle(x))})
	}
	x.Do(Done{})
	return false
}

// told: what calls and lists say.
func (t *legacyTask) told(x *Exec, ev Event) {
	switch ev.Name {
	case "show":
		t.Gets = append(t.Gets, waiter{Op: ev.From})
		t.show(x)
		return
	case "evict":
		if t.evictable() {
			t.drop(x)
		}
		return
	case "away": // the client of a stream, which may come back to it
		t.askAgain(x)
		return
	case "watched", "unwatched", "pushed":
		t.watchNews(x, ev)
		return
	case "cancelled":
		t.left(x, Event{Label: string(ev.Data), Name: ev.Name})
		x.Do(Send{Stream: string(ev.Data), Out: Out{Final: true}})
		return
	case "message":
		t.message(x, string(ev.Data))
		return
	case "ask":
		t.askEarly(x, translate.ParseResult(ev.Data))
		return
	case "error":
		t.Call = ""
		t.endWith(x, translate.Failed, ev.Data)
		return
	}
	var b taskBirth
	if json.Unmarshal(ev.Data, &b) != nil {
		return
	}
	switch ev.Name {
	case "born":
		t.born(x, b)
	case "running":
		t.minted(x, b)
		t.Call = b.Call
	case "held":
		t.minted(x, b)
		t.hold(x, b.Result)
	case "result":
		t.Call = ""
		t.hold(x, b.Result)
	case "alias":
		t.Call, t.ServerID = "", b.ServerID
		if t.Final {
			t.openCancel(x)
			return
		}
		t.seed(x, translate.ParseResult(b.Task))
		t.watch(x)
	}
}

// seed takes over the Task of a CreateTaskResult. Whatever its status, it has
// no payload and no questions yet, so it is shown working and looked at.
func (t *legacyTask) seed(x *Exec, task jsonrpc.Value) {
	t.Status = translate.Working
	t.Task = translate.TaskToLegacy(task, translate.TaskView{Status: t.Status, Created: t.Born})
	t.pace(x, task)
	t.remember(x)
}

// remember sets the time to forget the task, by its ttl as last seen, and
// lists it. Whether the task has expired is the server's word.
func (t *legacyTask) remember(x *Exec) {
	keep := x.Policy.TaskKeep
	if ttl, ok := translate.Milliseconds(translate.ParseResult(t.Task).Get("ttl")); ok {
		keep = time.Duration(ttl)*time.Millisecond + x.Policy.TaskGrace
	}
	x.Do(Wake{Name: "forget", At: x.Now.Add(keep)})
	if t.Owner != "" && t.Index == "" && len(t.Task) > 0 {
		t.Index = indexKey(x, t.Owner, t.handle(x))
		x.Do(Put{Key: t.Index, Value: []byte(t.handle(x))})
	}
}

func (t *legacyTask) common(x *Exec, b taskBirth) {
	t.Owner, t.As, t.Session, t.Token = b.Owner, b.As, b.Session, b.Token
	t.Caps = b.Caps
	t.remember(x)
	if b.Limit != "" && t.Limit == "" {
		t.Limit = b.Limit
		x.Do(counted(countTasks, t.Limit, 1)...)
	}
}

func (t *legacyTask) born(x *Exec, b taskBirth) {
	t.ServerID = b.ServerID
	t.seed(x, translate.ParseResult(b.Task))
	t.common(x, b)
	if b.Cancel {
		t.openCancel(x)
		t.endWith(x, translate.Cancelled, nil)
		return
	}
	if b.Driver != nil {
		t.Waiters = append(t.Waiters, *b.Driver)
	}
	t.watch(x)
}

func (t *legacyTask) minted(x *Exec, b taskBirth) {
	t.Born = b.Born
	t.Task = mintedTask(x, "", b.TTL, b.Born)
	t.Interval = x.Policy.PollDefault.Milliseconds()
	t.common(x, b)
}

// pace takes over the server's poll interval (missing: the default; 0 is
// relayed but our own polling keeps a floor).
func (t *legacyTask) pace(x *Exec, task jsonrpc.Value) {
	t.Interval = x.Policy.PollDefault.Milliseconds()
	if ms, ok := translate.Milliseconds(task.Get("pollIntervalMs")); ok {
		t.Interval = max(ms, x.Policy.PollFloor.Milliseconds())
	}
	t.Next = x.Now.Add(time.Duration(t.Interval) * time.Millisecond)
}

// hold keeps a payload that only the proxy has, pinned under the byte budget.
func (t *legacyTask) hold(x *Exec, result json.RawMessage) {
	if t.Final {
		return // cancelled meanwhile; it stays so
	}
	if !x.Grow(heldKey(t.handle(x)), int64(len(result))) {
		x.Do(Loss{What: string(translate.LossHeldBudget)})
		t.endWith(x, translate.Failed, []byte(`{"code":-32603,"message":"the result does not fit the proxy's budget for held results","data":{"reason":"held_budget"}}`))
		return
	}
	t.Held = true
	x.Do(Put{Key: heldKey(t.handle(x)), Value: result})
	v := translate.ParseResult(result)
	t.Task = translate.WithoutMessage(translate.ParseResult(t.Task)) // old progress
	status := translate.LegacyStatus(translate.Completed, translate.IsError(v), x.Policy.ToolErrorsCompleted)
	message := ""
	if status == translate.Failed {
		message = failureText(v, jsonrpc.Value{})
	}
	t.end(x, status, message)
	t.finishWaiters(x, result, nil)
}

func failureText(result, rpcError jsonrpc.Value) string {
	if s := translate.FailureText(result, rpcError); s != "" {
		return s
	}
	return "the tool reported a failure"
}

// end fixes the task's last status as we show it.
func (t *legacyTask) end(x *Exec, status, message string) {
	t.Status, t.Final = status, true
	t.Task = translate.Restate(translate.ParseResult(t.Task), status, message, x.Now.UTC().Format(timeLayout))
	t.withdrawAll(x)
	x.Do(Unwake{Name: "poll"})
	t.leave(x)
	t.over(x)
}

// endWith ends a task with an error of ours; raw nil: cancelled.
func (t *legacyTask) endWith(x *Exec, status string, raw json.RawMessage) {
	if t.Final {
		return
	}
	if t.Call != "" {
		x.Do(Tell{To: t.Call, Name: "shut"})
		t.Call = ""
	}
	message := ""
	if raw == nil {
		raw = cancelledError(t.handle(x))
	} else {
		message = failureText(jsonrpc.Value{}, translate.ParseResult(raw))
	}
	t.Failure = raw
	t.end(x, status, message)
	t.finishWaiters(x, nil, raw)
	t.answerGets(x)
}

// cancelledError is what tasks/result says of a cancelled task.
func cancelledError(handle string) []byte {
	return jsonrpc.NewObject().Int("code", -32603).Str("message", "task "+handle+" was cancelled").Bytes()
}

func (t *legacyTask) withdrawAll(x *Exec) {
	t.Asked.withdraw(x)
	t.Asked.Open = nil
}

func (t *legacyTask) client(x *Exec, ev Event) {
	m := ev.Frame.Msg
	t.As, t.Session = ev.Caller.Principal, ev.Session.ID
	w := waiter{Stream: ev.Label, ID: json.RawMessage(m.ID.Raw()), Session: ev.Session.ID,
		Token: json.RawMessage(m.At("params", "_meta", translate.MetaProgress).Raw())}
	switch m.Method {
	case "tasks/get":
		t.Gets = append(t.Gets, w)
		t.show(x)
	case "tasks/result":
		t.Waiters = append(t.Waiters, w)
		t.result(x)
	case "tasks/cancel":
		t.cancel(x, w)
	}
}

// left: a stream's reader has gone, or the client cancelled its request. Only
// the cancel of a driven call is one of its task: the client knows no other.
func (t *legacyTask) left(x *Exec, ev Event) {
	stream, cancel := ev.Label, false
	for _, w := range t.Waiters {
		if w.Stream == stream {
			w.end(x)
			cancel = cancel || w.Driven && ev.Name == "cancelled"
		}
	}
	t.Gets, _ = dropStream(t.Gets, stream)
	t.Waiters, _ = dropStream(t.Waiters, stream)
	t.Cancels, _ = dropStream(t.Cancels, stream)
	t.Asked.lost(stream)
	t.leave(x)
	t.askAgain(x)
	if cancel && !t.Final {
		t.openCancel(x)
		t.endWith(x, translate.Cancelled, nil)
	}
}

// show answers tasks/get: from what we know where that is final or fresh,
// else after one look at the server.
func (t *legacyTask) show(x *Exec) {
	if t.Final || t.ServerID == "" || (len(t.Task) > 0 && x.Now.Before(t.Next)) {
		t.answerGets(x)
		t.askAgain(x)
		return
	}
	t.poll(x)
}

func (t *legacyTask) answerGets(x *Exec) {
	gets := t.Gets
	t.Gets = nil
	for _, w := range gets {
		if w.Op != "" {
			x.Do(Tell{To: w.Op, Name: "shown", Data: mustJSON(shownTask{t.handle(x), t.shown(x)})})
			continue
		}
		x.reply(w.Stream, jsonrpc.NewResult(w.id(), translate.WithMeta(t.shown(x), t.Meta)))
	}
}

// maxTaskMeta bounds what is kept of the _meta beside a task.
const maxTaskMeta = 16 << 10

// result answers tasks/result where the end is known, else waits for it.
func (t *legacyTask) result(x *Exec) {
	if !t.Final {
		fresh := t.ServerID == "" || t.Watched || x.Now.Before(t.Next)
		t.watch(x)
		if fresh {
			t.askAgain(x) // else what is asked by now comes with the look
		}
		return
	}
	switch {
	case t.Failure != nil:
		t.finishWaiters(x, nil, t.Failure)
	case t.Held:
		if raw, ok := x.Get(heldKey(t.handle(x))); ok {
			t.finishWaiters(x, raw, nil)
			return
		}
		t.finishWaiters(x, nil, []byte(`{"code":-32602,"message":"`+unknownTask+`"}`))
	default:
		if raw, ok := x.Snapshot(t.handle(x)); ok {
			t.finishFrom(x, translate.ParseResult(raw))
			return
		}
		t.poll(x) // the server still has it
	}
}

func (t *legacyTask) timer(x *Exec, name string) {
	switch name {
	case "poll":
		if t.ServerID != "" && len(t.Waiters) > 0 {
			t.own(x)
		}
	case "ask":
		t.askOnGet(x)
	case "update":
		t.update(x)
	case "early":
		if t.Call != "" {
			x.Do(Tell{To: t.Call, Name: "answers"})
		}
	case "forget":
		t.forget(x)
	}
}

// forget frees memory; whether a task has expired is the server's word, and
// its handle opens it again while the server knows it.
func (t *legacyTask) forget(x *Exec) {
	if t.awaited() {
		x.Do(Wake{Name: "forget", At: x.Now.Add(x.Policy.TaskGrace)})
		return
	}
	t.drop(x)
}
