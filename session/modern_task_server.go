package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// server: what the legacy server says on one of the task's exchanges.
func (t *modernTask) server(x *Exec, ev Event) {
	m := ev.Frame.Msg
	switch m.Kind {
	case jsonrpc.Request:
		// A question may come on any stream. It belongs to the task it names; one
		// that names none, on tasks/result, to this one.
		related := translate.RelatedTask(m.Params())
		if translate.IsQuestion(m.Method) && (related == t.ServerID || related == "" && ev.Label == "result") {
			t.question(x, m, t.Ready.Session)
			return
		}
		routeQuestion(x, t.Pool, t.Ready.Session, m, func(raw []byte) { sayTo(x, t.As, t.out(raw)) }, nil)
		return
	case jsonrpc.Notification:
		if m.Method == "notifications/progress" {
			t.progress(x, m)
			return
		}
		if m.Method == "notifications/cancelled" {
			t.withdrawn(x, m.At("params", "requestId").Raw())
			return
		}
		streamNotice(x, t.Pool, m)
		return
	}
	x.Do(Shut{Label: ev.Label}) // first: the same label may be opened again
	delete(t.Ups, ev.Label)
	if h := ev.Frame.HTTP; h != nil && h.Status == 404 {
		// About the session, which is no word of the modern era's.
		t.serverEnd(x, ev)
		return
	}
	switch ev.Label {
	case "get":
		t.looked(x, m)
	case "result":
		t.paid(x, m)
	case "cancel":
		t.cancelled(x, m)
	}
}

// looked: a tasks/get of ours was answered.
func (t *modernTask) looked(x *Exec, m *jsonrpc.Message) {
	if m.Kind == jsonrpc.ErrorResponse {
		t.lookFailed(x, m)
		return
	}
	task := m.Result()
	if nested := translate.TaskOf(task); nested.Exists() {
		task = nested
	}
	if task.Get("status").Type() != jsonrpc.String {
		t.troubled(x, []byte(`{"code":-32603,"message":"the server's answer to tasks/get is no task"}`))
		return
	}
	t.Seen, t.Lost, t.Tries = true, false, 0
	t.Task = json.RawMessage(task.Raw())
	t.Status, _ = task.Get("status").Str()
	t.pace(x, task)
	t.answerCancels(x)
	switch {
	case t.Status == translate.Cancelled:
		t.finish(x)
	case translate.Terminal(t.Status) && t.Paid != "":
		t.finish(x)
	case translate.Terminal(t.Status):
		// Shown terminal only once the payload is in hand (case B1).
		t.hold(x)
	default:
		t.hold(x)
		t.answerGets(x)
		t.changed(x)
		t.watch(x)
	}
}

// lookFailed: the server does not know the task, or cannot say now.
func (t *modernTask) lookFailed(x *Exec, m *jsonrpc.Message) {
	code, _ := m.Error().Get("code").Int()
	switch {
	case code == -32602 && !t.Seen && len(t.Task) > 0:
		// A modern handle must resolve at once: until the first good look the
		// creation snapshot answers (tasks extension, Task Creation).
		t.Tries++
		if t.Tries <= maxFirstLooks {
			t.Next = x.Now.Add(time.Duration(t.Interval) * time.Millisecond)
			t.answerGets(x)
			t.answerCancels(x)
			t.watch(x)
			return
		}
		t.unknown(x)
	case code == -32602:
		t.unknown(x)
	default:
		t.troubled(x, m.Error().Raw())
	}
}

// maxFirstLooks bounds how often a server may not know a task it just made.
const maxFirstLooks = 10

func (t *modernTask) unknown(x *Exec) {
	for _, w := range append(t.Gets, t.Cancels...) {
		x.refuse(w.Stream, translate.Modern, w.id(), translate.CondUnknownTask, unknownTask, nil)
	}
	if t.Driver != nil {
		x.refuse(t.Driver.Stream, translate.Modern, t.Driver.id(), translate.CondUnknownTask, unknownTask, nil)
	}
	for _, w := range t.Watchers {
		x.Do(Tell{To: w.Op, Name: "unknown", Data: []byte(t.handle(x))})
	}
	t.drop(x)
}

// troubled: who asked now is told, who waits goes on.
func (t *modernTask) troubled(x *Exec, rpcError []byte) {
	asked := append(t.Gets, t.Cancels...)
	t.Gets, t.Cancels = nil, nil
	for _, w := range asked {
		x.reply(w.Stream, errorWith(w.id(), rpcError))
	}
	t.Tries++
	t.Next = x.Now.Add(backoff(x.Policy.RetryAfter, t.Tries))
	t.watch(x)
}

// paid: tasks/result was answered, with the result or the error of the call.
func (t *modernTask) paid(x *Exec, m *jsonrpc.Message) {
	if m.Kind == jsonrpc.ErrorResponse && !translate.Terminal(t.Status) {
		// No outcome yet: the server may not know its task so soon, or may not
		// wait for its end. A look tells; over, the payload is asked for again.
		t.Refused = true
		x.Do(Wake{Name: "hold", At: x.Now.Add(x.Policy.RetryAfter)})
		t.look(x)
		return
	}
	if m.Kind == jsonrpc.ErrorResponse && t.Outcome == "result" {
		// Its end was shown with a result, so this is no outcome: the server has
		// it no more, or is in trouble.
		t.troubled(x, m.Error().Raw())
		return
	}
	t.Paid, t.paidNow = "result", m.Result().Raw()
	if m.Kind == jsonrpc.ErrorResponse {
		t.Paid, t.paidNow = "error", m.Error().Raw()
	}
	x.Keep(&t.base, slotPayload, t.paidNow)
	if translate.Terminal(t.Status) {
		t.settlePayload(x)
		return
	}
	t.look(x) // for the final status, times and ttl
}

// settlePayload: "completed" but tasks/result errs: one more look tells
// whether the task is gone.
func (t *modernTask) settlePayload(x *Exec) {
	if t.Status == translate.Completed && t.Paid == "error" && !t.Doubted {
		t.Doubted = true
		t.look(x)
		return
	}
	t.finish(x)
}

// finish: all that is to be known is known.
func (t *modernTask) finish(x *Exec) {
	for _, q := range t.Park.Open {
		x.Do(Del{Key: serverAskKey(t.Pool, q.ID)})
	}
	t.Park.Open = nil
	x.Free("ask/" + t.ID)
	raw := t.detailed(x, "complete")
	t.answerWith(x, raw)
	t.drive(x)
	t.Ended, t.Outcome, t.Doubted = true, t.Paid, false
	t.changed(x)
	x.Do(Snap{Key: t.handle(x), Value: raw}, Unwake{Name: "look"})
	if t.up("result") {
		x.Do(Shut{Label: "result"})
	}
	t.Final = true
	if !t.Hosted { // the server has it too
		t.Paid = ""
		x.Unkeep(&t.base, slotPayload)
		t.over(x)
	}
}

// spentFor is how long a finished task is remembered that is one too many.
const spentFor = 10 * time.Second

// over: the task is none of its caller's concurrent ones any more. As many that
// are over are remembered for a caller as he may have of the others; above that
// they are forgotten soon, and those nothing was counted for. A handle opens such
// a task again: its server has it, too.
func (t *modernTask) over(x *Exec) {
	switch {
	case t.Over:
		return
	case t.Limit != "":
		x.Do(counted(countTasks, t.Limit, -1)...)
		x.Do(counted(countOver, t.Limit, 1)...)
	}
	t.Over = true
	if t.Limit == "" || !x.r.within(countOver, t.Limit, x.Policy.Tasks, x.Policy.Above.Tasks) {
		x.Do(Wake{Name: "forget", At: x.Now.Add(spentFor)})
	}
}

// drive ends the plain call that this task serves.
func (t *modernTask) drive(x *Exec) {
	d := t.Driver
	if d == nil {
		return
	}
	t.Driver = nil
	p := t.payload(x)
	switch {
	case t.Status == translate.Cancelled:
		x.reply(d.Stream, jsonrpc.NewError(d.id(), -32603, "the task was cancelled", nil))
	case p.Error != nil:
		x.reply(d.Stream, errorWith(d.id(), translate.ErrorToModern(p.Error)))
	default:
		m, err := jsonrpc.Decode(jsonrpc.NewResult(d.id(), p.Result), jsonrpc.Limits{})
		if err != nil {
			x.reply(d.Stream, jsonrpc.NewError(d.id(), -32603, "the server's result could not be read", nil))
			return
		}
		x.reply(d.Stream, translate.ResultToModern("tools/call", m, nil, t.Ready.ServerInfo))
	}
}

// changed tells the listen streams what they have not been told yet; each
// message is a full snapshot.
func (t *modernTask) changed(x *Exec) {
	if len(t.Watchers) == 0 || len(t.Task) == 0 || t.unshowable() {
		return
	}
	raw := t.detailed(x, "")
	sum := sha256.Sum256(raw)
	digest := hex.EncodeToString(sum[:8])
	for i := range t.Watchers {
		if w := &t.Watchers[i]; w.Shown != digest {
			w.Shown = digest
			x.Do(Tell{To: w.Op, Name: "task", Data: raw})
		}
	}
}

// cancelled: the server answered tasks/cancel. -32602 may mean finished or
// unknown; one look tells (case B6).
func (t *modernTask) cancelled(x *Exec, m *jsonrpc.Message) {
	if m.Kind == jsonrpc.ErrorResponse {
		code, _ := m.Error().Get("code").Int()
		switch code {
		case -32602:
			t.look(x)
		case -32601:
			x.Do(Loss{What: string(translate.LossCancel)})
			t.answerCancels(x)
		default:
			t.troubled(x, m.Error().Raw())
		}
		return
	}
	t.answerCancels(x)
	if m.Result().Get("taskId").Exists() {
		t.Task, t.Seen = json.RawMessage(m.Result().Raw()), true
		t.Status, _ = m.Result().Get("status").Str()
		if t.Status == translate.Cancelled {
			t.finish(x)
			return
		}
	}
	t.Next = x.Now
	t.watch(x)
}

// question takes a server's request in, made in the session in: stored before
// it is shown, under a key never used again in this task's life.
func (t *modernTask) question(x *Exec, m *jsonrpc.Message, in string) {
	if q := t.Park.known(m, in); q != nil {
		if q.In != in {
			x.Do(Del{Key: serverAskKey(t.Pool, q.ID)}, Put{Key: serverAskKey(t.Pool, m.ID.Raw()), Value: []byte(x.ID)})
			q.ID, q.In = m.ID.Raw(), in
			if a, err := jsonrpc.Decode(q.Answer, jsonrpc.Limits{}); err == nil {
				q.Answer = withID(a, m.ID)
			}
		}
		t.sayAgain(x)
		return
	}
	if t.Park.repeats(m.ID, in) {
		return
	}
	if t.Final || len(t.Park.Open) >= maxQuestions {
		if t.Final {
			x.Free("ask/" + t.ID) // of a step that is run again
		}
		t.respond(x, jsonrpc.NewError(m.ID, -32603, "the task takes no more questions", nil))
		return
	}
	if t.Inline != nil {
		t.inlineOver(x) // a client with the extension is asked by its task
	}
	if len(t.Caps) > 0 {
		// A mode the client did not declare is never shown to it (case B49).
		caps, _ := jsonrpc.ParseValue(t.Caps)
		if !translate.ClientCan(caps, m.Method, m.Params()) {
			x.Do(Loss{What: string(translate.LossUnaskableInput)})
			t.respond(x, unaskable(m))
			return
		}
	}
	if !x.Grow("ask/"+t.ID, t.Park.bytes()+int64(len(m.Raw))) {
		t.respond(x, jsonrpc.NewError(m.ID, -32603, "out of memory budget for questions; try again later", nil))
		return
	}
	t.Park.add(m, in)
	x.Do(Put{Key: serverAskKey(t.Pool, m.ID.Raw()), Value: []byte(x.ID)})
	if t.Driver != nil && !gather(x) {
		t.park(x)
	}
	t.changed(x)
}

// respond answers a server's request outside of any key.
func (t *modernTask) respond(x *Exec, raw []byte) {
	if t.Call != "" {
		x.Do(Tell{To: t.Call, Name: "say", Data: raw})
		return
	}
	if t.Ready.Version != "" { // else who asked is gone with its session
		sayTo(x, t.As, t.out(raw))
	}
}

// unaskable answers a question in a mode the client did not declare (design:
// capabilities).
func unaskable(m *jsonrpc.Message) []byte {
	return jsonrpc.NewError(m.ID, -32602, "the client did not declare "+m.Method+" in this mode", nil)
}

// withdrawn: the server took a question back.
func (t *modernTask) withdrawn(x *Exec, id []byte) {
	want, err := jsonrpc.IDFromRaw(id)
	if err != nil {
		return
	}
	for _, q := range t.Park.Open {
		if rawID(q.ID).Key() == want.Key() {
			x.Do(Del{Key: serverAskKey(t.Pool, q.ID)})
			t.Park.withdrawn(id)
			t.changed(x)
			return
		}
	}
}

// sessionLost: the server answered 404; the pool opens a new session and the
// same server id is asked there (case B8). False: that was done for this look.
func (t *modernTask) sessionLost(x *Exec) bool {
	if t.Ready.Session == "" || t.Lost {
		t.Lost = false // the new one is lost too: the next try opens another
		return false
	}
	t.Lost = true
	x.Do(Tell{To: t.Pool, Name: "lost", Data: []byte(t.Ready.Session)})
	t.Ready = poolReady{}
	if t.up("get") { // asked there, too: ready asks again
		x.Do(Shut{Label: "get"})
	}
	if t.up("result") { // what waits there waits in vain
		x.Do(Shut{Label: "result"}, Wake{Name: "hold", At: x.Now.Add(x.Policy.RetryAfter)})
	}
	t.need(x)
	return true
}

func (t *modernTask) serverEnd(x *Exec, ev Event) {
	if h := ev.Frame.HTTP; h != nil && h.Status == 404 && ev.Fail == FailNone && t.sessionLost(x) {
		return
	}
	rpcError := translateError(failedOut(translate.Modern, jsonrpc.ID{}, ev))
	switch ev.Label {
	case "get":
		t.troubled(x, rpcError)
	case "result":
		t.holdEnded(x, ev)
	case "cancel":
		t.troubled(x, rpcError)
	default:
		t.said(x, ev)
	}
}

// holdEnded: tasks/result broke before it was answered. The task still runs;
// questions stay answerable, and the stream is opened again.
func (t *modernTask) holdEnded(x *Exec, ev Event) {
	if t.Final || t.Paid != "" {
		return
	}
	t.Tries++
	switch {
	case t.unshowable():
		gets := t.Gets
		t.Gets = nil
		for _, w := range gets {
			x.reply(w.Stream, errorWith(w.id(), translateError(failedOut(translate.Modern, jsonrpc.ID{}, ev))))
		}
	case translate.Terminal(t.Status):
		// The payload is still missing, so the task still works (case B1).
		t.answerGets(x)
	}
	x.Do(Wake{Name: "hold", At: x.Now.Add(backoff(x.Policy.RetryAfter, t.Tries))})
}

// unshowable: the task's end was shown and its payload is not at hand. It is
// never shown at work again (tasks extension, Task Status).
func (t *modernTask) unshowable() bool {
	return t.Ended && t.Paid == "" && t.Failure == nil && t.Status != translate.Cancelled
}

// sayAgain sends the answers the server has not taken. One to a question of a
// session that is gone waits until it is asked again: under its id another may
// be meant by now (2025-11-25 basic: ids are a session's).
func (t *modernTask) sayAgain(x *Exec) {
	if t.Ready.Version == "" {
		return
	}
	for _, q := range t.Park.Open {
		if q.Answered && q.Answer != nil && q.In == t.Ready.Session && !t.up("say-"+q.Key) {
			t.send(x, "say-"+q.Key, q.Answer)
		}
	}
}

// said: an answer went to the server. Only a server's yes settles it.
func (t *modernTask) said(x *Exec, ev Event) {
	if ev.Fail != FailNone || !statusOK(ev) {
		t.Tries++
		x.Do(Wake{Name: "say", At: x.Now.Add(backoff(x.Policy.RetryAfter, t.Tries))})
		return
	}
	for i, q := range t.Park.Open {
		if ev.Label == "say-"+q.Key {
			x.Do(Del{Key: serverAskKey(t.Pool, q.ID)})
			t.Park.said(q.ID, q.In)
			t.Park.Open = append(t.Park.Open[:i], t.Park.Open[i+1:]...)
			return
		}
	}
}

// progress becomes the task's statusMessage where the server gives none: the
// modern era has no progress on tasks (tasks extension, Task Status
// Notifications).
func (t *modernTask) progress(x *Exec, m *jsonrpc.Message) {
	text, _ := m.At("params", "message").Str()
	if text == "" || t.Final || text == t.Message {
		return
	}
	t.Message = text
	t.changed(x)
}
