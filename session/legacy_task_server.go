package session

import (
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// server: what the modern server answers about the task.
func (t *legacyTask) server(x *Exec, ev Event) {
	m := ev.Frame.Msg
	if m.Kind != jsonrpc.Response && m.Kind != jsonrpc.ErrorResponse {
		return
	}
	x.Do(Shut{Label: ev.Label}) // first: the same label may be opened again
	delete(t.Ups, ev.Label)
	switch ev.Label {
	case "poll":
		t.polled(x, m)
	case "cancel":
		t.cancelled(x, m)
	case "update":
		t.updated(x, m)
	}
}

func (t *legacyTask) polled(x *Exec, m *jsonrpc.Message) {
	if m.Kind == jsonrpc.ErrorResponse {
		code, _ := m.Error().Get("code").Int()
		if code == -32602 {
			t.unknown(x)
			return
		}
		t.troubled(x, refusalFrom(m))
		return
	}
	status, _ := m.Result().Get("status").Str()
	if t.Overtaken && t.Again < maxAgain && !translate.Terminal(status) && !t.Final {
		// The server pushed, or began to push, while it was looking, and which of the
		// two is newer cannot be told: an old look would withdraw a question just
		// asked.
		t.Overtaken = false
		t.Again++
		t.open(x, "poll", "tasks/get")
		return
	}
	late := t.Overtaken
	t.Overtaken, t.Again = false, 0
	t.absorb(x, m.Result())
	if late && !t.Final && len(t.Waiters) > 0 && !t.up("poll") {
		x.Do(Wake{Name: "poll", At: t.Next}) // sooner than the safety look
	}
}

// maxAgain bounds the looks that are taken again because a push came meanwhile.
const maxAgain = 3

// unknown: the server does not know the task (any more). Everybody is told
// in the same words as for an ID that never was.
func (t *legacyTask) unknown(x *Exec) {
	t.withdrawAll(x) // before the streams end
	for _, list := range [][]waiter{t.Gets, t.Waiters, t.Cancels} {
		for _, w := range list {
			if w.Op != "" {
				x.Do(Tell{To: w.Op, Name: "gone", Data: []byte(t.handle(x))})
				continue
			}
			w.end(x)
			x.refuse(w.Stream, translate.Legacy, w.id(), translate.CondUnknownTask, unknownTask, nil)
		}
	}
	t.drop(x)
}

// refusalFrom keeps a server's error object to answer others with.
func refusalFrom(m *jsonrpc.Message) []byte { return m.Error().Raw() }

// troubled: one look failed. Who asked now is told; who waits goes on.
func (t *legacyTask) troubled(x *Exec, rpcError []byte) {
	gets, cancels := t.Gets, t.Cancels
	t.Gets, t.Cancels = nil, nil
	for _, w := range append(gets, cancels...) {
		if w.Op != "" {
			x.Do(Tell{To: w.Op, Name: "shown", Data: mustJSON(shownTask{t.handle(x), t.shown(x)})})
			continue
		}
		x.reply(w.Stream, errorWith(w.id(), rpcError))
	}
	t.Next = x.Now.Add(max(x.Policy.RetryAfter, time.Duration(t.Interval)*time.Millisecond))
	if t.Final && len(t.Waiters) > 0 {
		x.Do(Wake{Name: "poll", At: t.Next}) // for a payload that was evicted
		return
	}
	t.watch(x)
}

// absorb takes a full look at the task in.
func (t *legacyTask) absorb(x *Exec, result jsonrpc.Value) {
	task := result
	if nested := translate.TaskOf(result); nested.Exists() {
		task = nested
	}
	if task.Get("status").Type() != jsonrpc.String {
		t.troubled(x, []byte(`{"code":-32603,"message":"the server's answer to tasks/get is no task"}`))
		return
	}
	if t.Final {
		t.again(x, result, task)
		return
	}
	if status, _ := task.Get("status").Str(); len(t.Cancels) > 0 && !t.up("cancel") && !translate.Terminal(status) {
		t.answerCancels(x) // the look that follows tasks/cancel: it is cancelled, whatever it asks
		return
	}
	t.absorbTask(x, task)
	if t.Final && t.Failure == nil {
		x.Do(Snap{Key: t.handle(x), Value: result.Raw()})
		t.finishFrom(x, result)
	}
	t.answerGets(x)
	t.answerCancels(x)
	t.watch(x)
}

// again: a look that ended after the task did. The end is known and stays;
// only a payload that was evicted is of use, and a look that began before the
// end has none.
func (t *legacyTask) again(x *Exec, result, task jsonrpc.Value) {
	status, _ := task.Get("status").Str()
	switch {
	case t.Held || t.Failure != nil:
	case translate.Terminal(status):
		x.Do(Snap{Key: t.handle(x), Value: result.Raw()})
		t.finishFrom(x, result)
	case len(t.Waiters) > 0:
		x.Do(Wake{Name: "poll", At: x.Now.Add(time.Duration(t.Interval) * time.Millisecond)})
	}
	t.answerCancels(x)
}

// absorbTask takes status, message, questions and pace over.
func (t *legacyTask) absorbTask(x *Exec, task jsonrpc.Value) {
	status, _ := task.Get("status").Str()
	p := translate.PayloadOf(task)
	payload, rpcError := translate.ParseResult(p.Result), translate.ParseResult(p.Error)
	shown := translate.LegacyStatus(status, translate.IsError(payload), x.Policy.ToolErrorsCompleted)
	view := translate.TaskView{Status: shown, Created: t.Born}
	serverText, _ := task.Get("statusMessage").Str()
	if shown == translate.Failed {
		view.Message = translate.FailureText(payload, jsonrpc.Value{})
		if view.Message == "" {
			view.Message = serverText
		}
		if view.Message == "" {
			view.Message = failureText(payload, rpcError)
		}
	}
	if shown == translate.InputRequired {
		t.take(x, task.Get("inputRequests"))
		if t.Final {
			return // nobody can answer what the server needs
		}
		if !t.asking() {
			view.Status = translate.Working
		}
	} else if !translate.Terminal(shown) {
		t.vanish(x, jsonrpc.Value{})
	}
	before, was, ttl := statusText(t.Task), t.Status, ttlText(t.Task)
	t.Task = translate.TaskToLegacy(task, view)
	if t.Meta = translate.MetaBesideTask(task); len(t.Meta) > maxTaskMeta {
		t.Meta = nil
	}
	t.Status = view.Status
	t.pace(x, task)
	if ttlText(t.Task) != ttl {
		t.remember(x)
	}
	if translate.Terminal(shown) {
		t.Final = true
		t.withdrawAll(x)
		x.Do(Unwake{Name: "poll"})
		t.leave(x)
		t.over(x)
		t.notice(x, was)
		return
	}
	t.notice(x, was)
	if serverText != "" && serverText != before {
		t.progress(x, serverText)
	}
}

// finishFrom answers the waiters from a final modern task.
func (t *legacyTask) finishFrom(x *Exec, task jsonrpc.Value) {
	p := translate.PayloadOf(task)
	switch {
	case p.Result != nil:
		t.finishWaiters(x, p.Result, nil)
	case p.Error != nil:
		t.finishWaiters(x, nil, p.Error)
	case t.Status == translate.Cancelled:
		t.finishWaiters(x, nil, cancelledError(t.handle(x)))
	default:
		t.finishWaiters(x, nil, []byte(`{"code":-32603,"message":"the server gave neither result nor error for the finished task"}`))
	}
}

// finishWaiters ends every tasks/result and driven call.
func (t *legacyTask) finishWaiters(x *Exec, result, rpcError []byte) {
	waiters := t.Waiters
	t.Waiters = nil
	for _, w := range waiters {
		w.end(x)
		switch {
		case rpcError != nil:
			x.reply(w.Stream, errorWith(w.id(), rpcError))
		case w.Driven:
			m, err := jsonrpc.Decode(jsonrpc.NewResult(w.id(), result), jsonrpc.Limits{})
			if err != nil {
				continue
			}
			sess := new(legacySession)
			x.r.load(sessionOp(w.Session), sess)
			raw, lost := translate.ResultToLegacy("tools/call", m, false)
			x.reply(w.Stream, x.fit("tools/call", sess, raw, lost))
		default:
			raw, lost := translate.PayloadToLegacy(translate.ParseResult(result), t.handle(x))
			x.lose(lost)
			x.reply(w.Stream, jsonrpc.NewResult(w.id(), raw))
		}
	}
}

// cancelled: the server acknowledged tasks/cancel; one look tells whether the
// work had finished before.
func (t *legacyTask) cancelled(x *Exec, m *jsonrpc.Message) {
	if t.Final {
		t.answerCancels(x) // it ended while the cancel was on its way
		return
	}
	if m.Kind == jsonrpc.ErrorResponse {
		if code, _ := m.Error().Get("code").Int(); code != -32602 {
			t.troubled(x, refusalFrom(m))
			return
		}
	}
	t.poll(x)
}

// answerCancels runs after the look that follows tasks/cancel.
func (t *legacyTask) answerCancels(x *Exec) {
	cancels := t.Cancels
	if len(cancels) == 0 || t.up("cancel") {
		return
	}
	t.Cancels = nil
	if t.Final && t.Status != translate.Cancelled {
		for _, w := range cancels {
			t.refuseCancel(x, w)
		}
		return
	}
	t.endWith(x, translate.Cancelled, nil)
	for _, w := range cancels {
		x.reply(w.Stream, jsonrpc.NewResult(w.id(), t.shown(x)))
	}
}

func (t *legacyTask) serverEnd(x *Exec, ev Event) {
	rpcError := translateError(failedOut(translate.Legacy, jsonrpc.ID{}, ev))
	switch ev.Label {
	case "poll":
		t.troubled(x, rpcError)
	case "cancel":
		if t.Final {
			t.answerCancels(x)
		} else if len(t.Cancels) > 0 {
			t.troubled(x, rpcError)
		}
	case "update":
		// Not acknowledged: the same answers once more, after a pause.
		for i := range t.Asked.Open {
			if q := &t.Asked.Open[i]; !q.Acked {
				q.Sent = false
			}
		}
		t.Updates++
		x.Do(Wake{Name: "update", At: x.Now.Add(backoff(x.Policy.RetryAfter, t.Updates))})
	}
}

// backoff doubles a pause with each try, up to 30 s.
func backoff(first time.Duration, tries int) time.Duration {
	return min(first<<min(tries, 10), 30*time.Second)
}

// translateError takes the error object out of a refusal.
func translateError(out Out) []byte {
	if m, err := jsonrpc.Decode(out.Raw, jsonrpc.Limits{}); err == nil && m.Error().Exists() {
		return m.Error().Raw()
	}
	return []byte(`{"code":-32603,"message":"the upstream server refused the request"}`)
}
