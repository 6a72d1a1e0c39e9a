package session

import (
	"encoding/json"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// modernTask is a task of a legacy server as a modern client sees it: its
// payload and its questions are inline (tasks extension, Task Polling).
type modernTask struct {
	base
	ID       string    `json:"-"` // the handle, which the operation is named by
	Live     bool      `json:",omitempty"`
	Owner    Principal `json:",omitempty"`
	As       Principal `json:",omitempty"`
	Pool     OpID      `json:",omitempty"`
	ServerID string    `json:",omitempty"`
	Ready    poolReady `json:",omitzero"`  // the session's last known state
	Leased   bool      `json:",omitempty"` // the session knows that it is used
	Seen     bool      `json:",omitempty"`
	Ended    bool      `json:",omitempty"` // a client may have seen the end
	Outcome  string    `json:",omitempty"` // and with it a "result" or an "error"
	Doubted  bool      `json:",omitempty"` // completed with an error: one more look was taken
	// Task is the server's own Task as last seen; Status its status word.
	Task   []byte `json:",omitempty"`
	Status string `json:",omitempty"`
	// Final: the payload is known and shown; it is in the snapshot cache, or
	// is fetched again.
	Final bool `json:",omitempty"`
	// Paid says how tasks/result answered ("result", "error"); the payload is
	// kept beside the state until the final state is shown.
	Paid    string `json:",omitempty"`
	Failure []byte `json:",omitempty"` // an end of our own making
	Limit   string `json:",omitempty"` // counted under; empty: not counted
	Over    bool   `json:",omitempty"` // counted as one that is over
	Asks    bool   `json:",omitempty"` // a client that can answer watches
	Lost    bool   `json:",omitempty"` // the session was lost once for this look
	Refused bool   `json:",omitempty"` // tasks/result erred before the task's end

	Interval int64     `json:",omitempty"`
	Next     time.Time `json:",omitzero"`
	Tries    int       `json:",omitempty"`
	// Park holds the task's questions; for a driven call also the state its
	// client holds while it was sent away with them.
	Park     parked        `json:",omitzero"`
	Parked   bool          `json:",omitempty"`
	Inline   []byte        `json:",omitempty"` // what Driver gets when InlineWait is over
	Caps     []byte        `json:",omitempty"` // what the client that asks last declared
	Call     OpID          `json:",omitempty"` // the plain call behind a hosted task
	Hosted   bool          `json:",omitempty"` // it was one; the payload stays here
	Message  string        `json:",omitempty"` // newest progress
	Token    []byte        `json:",omitempty"` // progress token toward the server
	Gets     []waiter      `json:",omitempty"`
	Cancels  []waiter      `json:",omitempty"`
	Driver   *waiter       `json:",omitempty"`
	Watchers []taskWatcher `json:",omitempty"`

	paced   bool   // of the exchange being opened
	paidNow []byte // the payload, in the step that brought it
}

// serverAsk is a legacy server's request that belongs to the task.
type serverAsk struct {
	Key      string
	ID       []byte // the server's own request id
	Entry    []byte // as shown in inputRequests
	Task     string `json:",omitempty"` // the server's task it names
	In       string `json:",omitempty"` // the server's session ID is an id of
	Answered bool   `json:",omitempty"`
	Answer   []byte `json:",omitempty"`
}

// taskWatcher is a listen stream that named the task.
type taskWatcher struct {
	Op    OpID
	Shown string `json:",omitempty"` // digest of what it was told last
}

// modernBirth is what a call tells the task it became.
type modernBirth struct {
	Pool     OpID
	As       Principal
	Owner    Principal
	ServerID string
	Task     []byte
	Ready    poolReady
	Asks     bool
	Cancel   bool
	Limit    string
	Driver   *waiter `json:",omitempty"`
	Caps     []byte  `json:",omitempty"` // what its client declared
	Digest   []byte  `json:",omitempty"` // with Driver
	Call     OpID    `json:",omitempty"` // the plain call behind a hosted task
	Inline   []byte  `json:",omitempty"` // handle to give when InlineWait is over
	Token    []byte  `json:",omitempty"` // progress token toward the server
	// Asked are the questions the call has open, Keys how many it had.
	Asked []serverAsk `json:",omitempty"`
	Keys  int         `json:",omitempty"`
}

func (t *modernTask) handle(x *Exec) string { return string(x.ID[len("mtask:"):]) }

func (t *modernTask) endStep() { t.paidNow, t.paced = nil, false }

func (t *modernTask) Step(x *Exec, ev Event) {
	t.ID = t.handle(x)
	if !t.Live && !t.revive(x, ev) {
		return
	}
	switch ev.Kind {
	case EvOp:
		t.told(x, ev)
	case EvClient:
		t.client(x, ev)
	case EvClientGone:
		t.left(x, ev.Label)
	case EvTimer:
		t.timer(x, ev.Name)
	case EvServer:
		t.server(x, ev)
	case EvServerEnd:
		t.serverEnd(x, ev)
	}
}

func (t *modernTask) revive(x *Exec, ev Event) bool {
	switch {
	case ev.Kind == EvOp && ev.Name == "born":
		t.Live = true
		return true
	case ev.Kind == EvClient:
		ref, ok := x.r.openTask(t.handle(x), taskPrincipal(ev.Caller))
		if ok && !ref.Minted {
			t.Live, t.Owner, t.Pool, t.ServerID, t.Status = true, ref.Principal, OpID(ref.Session), ref.ID, translate.Working
			x.Do(Put{Key: serverTaskKey(t.Pool, t.ServerID), Value: []byte(x.ID)}, Wake{Name: "forget", At: x.Now.Add(x.Policy.TaskKeep)})
			return true
		}
		x.refuse(ev.Label, translate.Modern, ev.Frame.Msg.ID, translate.CondUnknownTask, unknownTask, nil)
	case ev.Kind == EvOp && ev.Name == "watch":
		x.Do(Tell{To: ev.From, Name: "unknown", Data: []byte(t.handle(x))})
	}
	x.Free("ask/" + t.ID) // of a step that is run again
	x.Do(Done{})
	return false
}

func (t *modernTask) told(x *Exec, ev Event) {
	switch ev.Name {
	case "born":
		var b modernBirth
		if json.Unmarshal(ev.Data, &b) == nil {
			t.born(x, b)
		}
	case "ready":
		var r poolReady
		if json.Unmarshal(ev.Data, &r) == nil {
			t.ready(x, r)
		}
	case "question":
		if m, err := jsonrpc.Decode(ev.Data, jsonrpc.Limits{}); err == nil {
			t.question(x, m, ev.Label)
		}
	case "withdrawn":
		t.withdrawn(x, ev.Data)
	case "answered":
		t.answered(x, ev.Data)
	case "notice":
		if m, err := jsonrpc.Decode(ev.Data, jsonrpc.Limits{}); err == nil && m.Method == "notifications/progress" {
			t.progress(x, m)
		}
	case "status":
		// A status notification is news: look at once.
		t.Next = x.Now
		t.changed(x)
		t.watch(x)
	case "watch":
		t.Watchers = append(t.Watchers, taskWatcher{Op: ev.From})
		t.Next = x.Now
		if t.Failure != nil {
			t.changed(x)
			return
		}
		t.Final = false // a finished task is looked at again for its snapshot
		t.watch(x)
	case "unhold":
		// Another task's stream takes the place; this one's questions stay
		// answerable and it is opened again in turn.
		if t.up("result") {
			x.Do(Shut{Label: "result"}, Wake{Name: "hold", At: x.Now.Add(10 * time.Duration(t.Interval) * time.Millisecond)})
		}
	case "unwatch":
		for i, w := range t.Watchers {
			if w.Op == ev.From {
				t.Watchers = append(t.Watchers[:i], t.Watchers[i+1:]...)
				break
			}
		}
	}
}

func (t *modernTask) born(x *Exec, b modernBirth) {
	t.Pool, t.As, t.Owner, t.ServerID, t.Ready, t.Asks = b.Pool, b.As, b.Owner, b.ServerID, b.Ready, b.Asks
	t.Task, t.Driver, t.Limit = b.Task, b.Driver, b.Limit
	t.Leased = true // by the call
	t.Caps, t.Park.Digest, t.Inline, t.Call, t.Token = b.Caps, b.Digest, b.Inline, b.Call, b.Token
	if t.Inline != nil {
		x.Do(Wake{Name: "inline", At: x.Now.Add(x.Policy.InlineWait)})
	}
	x.Do(counted(countTasks, t.Limit, 1)...)
	task := translate.ParseResult(b.Task)
	t.Status, _ = task.Get("status").Str()
	t.pace(x, task)
	keep := x.Policy.TaskKeep
	if ttl, ok := translate.Milliseconds(task.Get("ttl")); ok {
		keep = time.Duration(ttl)*time.Millisecond + x.Policy.TaskGrace
	}
	x.Do(Wake{Name: "forget", At: x.Now.Add(keep)})
	t.Park.Open, t.Park.Keys = b.Asked, b.Keys
	for _, q := range t.Park.Open {
		x.Do(Put{Key: serverAskKey(t.Pool, q.ID), Value: []byte(x.ID)})
	}
	if len(t.Park.Open) > 0 {
		x.Grow("ask/"+t.ID, t.Park.bytes())
	}
	if b.Cancel {
		t.open(x, "cancel", "tasks/cancel")
		return
	}
	if t.Park.asking() && t.Driver != nil && t.Inline == nil {
		t.park(x)
	}
	if t.Asks {
		t.hold(x)
	}
	t.watch(x)
}

func (t *modernTask) pace(x *Exec, task jsonrpc.Value) {
	t.Interval = x.Policy.PollDefault.Milliseconds()
	if ms, ok := translate.Milliseconds(task.Get("pollInterval")); ok {
		t.Interval = max(ms, x.Policy.PollFloor.Milliseconds())
	}
	t.Next = x.Now.Add(time.Duration(t.Interval) * time.Millisecond)
}

func (t *modernTask) client(x *Exec, ev Event) {
	m := ev.Frame.Msg
	t.As = ev.Caller.Principal
	if ev.Name == "resume" {
		t.resume(x, ev)
		return
	}
	w := waiter{Stream: ev.Label, ID: json.RawMessage(m.ID.Raw())}
	switch m.Method {
	case "tasks/get":
		caps := m.At("params", "_meta", translate.MetaClientCaps)
		if caps.Get("elicitation").Exists() || caps.Get("sampling").Exists() || caps.Get("roots").Exists() {
			// One that can answer nothing leaves the questions to the others.
			t.Asks, t.Caps = true, json.RawMessage(caps.Raw())
		}
		t.Gets = append(t.Gets, w)
		t.show(x)
	case "tasks/update":
		t.update(x, m)
		x.reply(ev.Label, jsonrpc.NewResult(m.ID, t.ack()))
	case "tasks/cancel":
		t.cancel(x, w)
	}
}

// ack is an empty acknowledgement with the server's name.
func (t *modernTask) ack() []byte {
	b := jsonrpc.NewObject().Str("resultType", "complete")
	if len(t.Ready.ServerInfo) > 0 {
		b.Raw("_meta", jsonrpc.NewObject().Raw(translate.MetaServerInfo, t.Ready.ServerInfo).Bytes())
	}
	return b.Bytes()
}

func (t *modernTask) left(x *Exec, stream string) {
	t.Gets, _ = dropStream(t.Gets, stream)
	t.Cancels, _ = dropStream(t.Cancels, stream)
	if t.Driver != nil && t.Driver.Stream == stream {
		t.Inline = nil
		// The driven call's stream was closed: for a modern client that is the
		// cancel, and the work is a task.
		t.Driver = nil
		t.open(x, "cancel", "tasks/cancel")
	}
}

// show answers tasks/get from what is known where that is final or fresh.
func (t *modernTask) show(x *Exec) {
	if t.Call != "" || t.Hosted {
		t.answerGets(x)
		return
	}
	if t.Failure != nil {
		t.answerGets(x)
		return
	}
	if t.Final {
		if raw, ok := x.Snapshot(t.handle(x)); ok {
			t.answerWith(x, raw)
			return
		}
		t.Final, t.Paid = false, ""
		t.look(x)
		return
	}
	if len(t.Task) > 0 && x.Now.Before(t.Next) && !translate.Terminal(t.Status) {
		t.answerGets(x)
		t.hold(x)
		return
	}
	t.look(x)
}

// answerWith answers tasks/get with a result that is known whole.
func (t *modernTask) answerWith(x *Exec, raw []byte) {
	gets := t.Gets
	t.Gets = nil
	for _, w := range gets {
		x.reply(w.Stream, jsonrpc.NewResult(w.id(), raw))
	}
}

func (t *modernTask) answerGets(x *Exec) {
	if len(t.Gets) > 0 {
		t.answerWith(x, t.detailed(x, "complete"))
	}
}

// detailed is the task as it stands, never terminal without its payload.
func (t *modernTask) detailed(x *Exec, kind string) []byte {
	view := translate.TaskView{ID: t.ID, Status: translate.Working}
	var p translate.Payload
	switch {
	case t.Failure != nil:
		view.Status, p.Error = translate.Failed, t.Failure
		view.Message = translate.FailureText(jsonrpc.Value{}, translate.ParseResult(t.Failure))
	case t.Status == translate.Cancelled:
		view.Status = translate.Cancelled // whatever tasks/result says of it
	case t.Paid != "" && translate.Terminal(t.Status):
		p = t.payload(x)
		view.Status = translate.ModernStatus(t.Status, p.Result != nil, p.Error != nil)
		if m, _ := translate.ParseResult(t.taskRaw()).Get("statusMessage").Str(); p.Error != nil && m == "" {
			view.Message = translate.FailureText(jsonrpc.Value{}, translate.ParseResult(p.Error))
		}
	case t.Park.asking():
		view.Status = translate.InputRequired
	}
	if m, _ := translate.ParseResult(t.taskRaw()).Get("statusMessage").Str(); m == "" && view.Message == "" && !translate.Terminal(view.Status) {
		view.Message = t.Message
	}
	if p.Result != nil {
		p.Result = translate.PayloadToModern(translate.ParseResult(p.Result))
	}
	var info []byte
	if kind != "" {
		info = t.Ready.ServerInfo
	}
	return translate.DetailedTask(translate.ParseResult(t.taskRaw()), view, kind, p, t.inputRequests(), info)
}

// payload is how tasks/result answered, from this step or kept from an
// earlier one.
func (t *modernTask) payload(x *Exec) translate.Payload {
	raw := t.paidNow
	if raw == nil {
		raw = x.Kept(slotPayload)
	}
	switch t.Paid {
	case "result":
		return translate.Payload{Result: raw}
	case "error":
		return translate.Payload{Error: raw}
	}
	return translate.Payload{}
}

// taskRaw is the last Task, or the least one for a task that only its handle
// remembers and whose server has not answered yet.
func (t *modernTask) taskRaw() []byte {
	if len(t.Task) == 0 {
		return []byte(`{}`)
	}
	return t.Task
}

func (t *modernTask) inputRequests() []byte {
	b := jsonrpc.NewObject()
	for _, q := range t.Park.Open {
		if !q.Answered {
			b.Raw(q.Key, q.Entry)
		}
	}
	return b.Bytes()
}

// update takes a client's answers: each becomes the response to the server's
// own request; keys that are unknown or answered are ignored (tasks
// extension, Task Update Requests).
func (t *modernTask) update(x *Exec, m *jsonrpc.Message) {
	for key, answer := range m.At("params", "inputResponses").Members() {
		if answer.Type() != jsonrpc.Object {
			continue
		}
		for i := range t.Park.Open {
			q := &t.Park.Open[i]
			if q.Key != key || q.Answered {
				continue
			}
			t.answer(x, q, m)
		}
	}
	t.changed(x)
	if t.Next.After(x.Now) {
		t.Next = x.Now
	}
	t.watch(x)
}

func (t *modernTask) cancel(x *Exec, w waiter) {
	if t.Final || t.Failure != nil {
		x.reply(w.Stream, jsonrpc.NewResult(w.id(), t.ack()))
		return
	}
	if t.Call != "" {
		t.cancelHosted(x, w)
		return
	}
	t.Cancels = append(t.Cancels, w)
	if !t.Ready.Cancel && t.Ready.Version != "" {
		x.Do(Loss{What: string(translate.LossCancel)})
		t.answerCancels(x)
		return
	}
	if !t.up("cancel") {
		t.open(x, "cancel", "tasks/cancel")
	}
}

func (t *modernTask) answerCancels(x *Exec) {
	cancels := t.Cancels
	t.Cancels = nil
	for _, w := range cancels {
		x.reply(w.Stream, jsonrpc.NewResult(w.id(), t.ack()))
	}
}

func (t *modernTask) drop(x *Exec) {
	if t.Limit != "" {
		x.Do(counted(countedAs(t.Over), t.Limit, -1)...)
	}
	for _, q := range t.Park.Open {
		x.Do(Del{Key: serverAskKey(t.Pool, q.ID)})
	}
	t.Park.void(x)
	x.Free("ask/" + t.ID)
	x.Free(heldKey(t.ID))
	if len(t.Token) > 0 {
		x.Do(Del{Key: tokenKey(t.Pool, t.Token)})
	}
	if t.Leased {
		x.Do(Tell{To: t.Pool, Name: "release"})
	}
	x.Do(Del{Key: serverTaskKey(t.Pool, t.ServerID)}, Done{})
}
