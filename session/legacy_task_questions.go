package session

import (
	"encoding/json"
	"slices"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// asking: a question is in hand and unanswered.
func (t *legacyTask) asking() bool {
	for _, q := range t.Asked.Open {
		if q.waiting() {
			return true
		}
	}
	return false
}

// take brings the questions up to what the server asks now: new keys are
// asked once, keys that vanished are withdrawn.
func (t *legacyTask) take(x *Exec, requests jsonrpc.Value) {
	t.vanish(x, requests)
	t.Asked.add(x, requests)
	t.screen(x)
	if t.unanswerable(x) {
		return
	}
	t.update(x)
	t.askAgain(x)
}

// unanswerable ends the task when the server needs what its client does not
// support and no answer can say so.
func (t *legacyTask) unanswerable(x *Exec) bool {
	method := t.Asked.refused()
	if method == "" {
		return false
	}
	t.openCancel(x)
	t.endWith(x, translate.Failed, []byte(`{"code":-32603,"message":"the server needs `+method+`, which this client does not support"}`))
	return true
}

func (t *legacyTask) vanish(x *Exec, requests jsonrpc.Value) {
	kept := t.Asked.Open[:0]
	for _, q := range t.Asked.Open {
		// An answered one stays, so that a late look does not ask it again.
		if !requests.Get(q.Key).Exists() && q.Answer == nil && !q.Early {
			q.settle(x, "", jsonrpc.ID{})
			continue
		}
		kept = append(kept, q)
	}
	t.Asked.Open = kept
}

// screen settles questions in a mode that neither the client that made the
// task declared nor the session that last named it, nor any that waits for it:
// the client is never asked.
func (t *legacyTask) screen(x *Exec) {
	sessions := t.sessions(x)
	if len(sessions) == 0 {
		return // nobody is there; the question waits
	}
	for i := range t.Asked.Open {
		q := &t.Asked.Open[i]
		if q.waiting() && !q.live() && !slices.ContainsFunc(sessions, q.fits) && !q.fits(&legacySession{ClientCaps: t.Caps}) {
			q.refuse(x)
		}
	}
}

// sessions are those a question could be put to.
func (t *legacyTask) sessions(x *Exec) []*legacySession {
	var list []*legacySession
	add := func(id string) {
		sess := new(legacySession)
		if id != "" && x.r.load(sessionOp(id), sess) {
			list = append(list, sess)
		}
	}
	add(t.Session)
	for _, w := range t.Waiters {
		if w.Session != t.Session {
			add(w.Session)
		}
	}
	return list
}

// askAgain puts what is unasked, or whose stream was lost, on the oldest open
// tasks/result whose session can answer; else the GET stream is tried later. A
// client that is away may come back to its question, but who is there is asked
// as well.
func (t *legacyTask) askAgain(x *Exec) {
	if t.Final || !t.unasked(x) {
		return
	}
	left := false
	for i := range t.Asked.Open {
		q := &t.Asked.Open[i]
		if !q.waiting() || t.heard(x, q) || t.askWaiter(x, q, false) {
			continue
		}
		left = q.live() || !t.askWaiter(x, q, true) || left
	}
	if _, due := t.Wakes["ask"]; left && !due {
		x.Do(Wake{Name: "ask", At: x.Now.Add(2 * time.Duration(t.Interval) * time.Millisecond)})
	}
}

// unasked forgets streams that are lost, with their sessions or alone, and
// says whether any question waits for a stream.
func (t *legacyTask) unasked(x *Exec) (any bool) {
	for i := range t.Asked.Open {
		q := &t.Asked.Open[i]
		if !q.waiting() {
			continue
		}
		for j := range q.Asks {
			if a := &q.Asks[j]; a.Stream != "" && !t.reads(x, a) {
				a.Stream = ""
			}
		}
		any = any || !t.heard(x, q)
	}
	return any
}

// heard: the question went out on a stream whose client is there.
func (t *legacyTask) heard(x *Exec, q *question) bool {
	return slices.ContainsFunc(q.Asks, func(a ask) bool { return a.Stream != "" && !x.detached(a.Stream) })
}

// reads: the session and the stream a question went out on are still there.
func (t *legacyTask) reads(x *Exec, a *ask) bool {
	sess := new(legacySession)
	if !x.r.load(sessionOp(a.Session), sess) {
		return false
	}
	return slices.Contains(sess.Gets, a.Stream) || slices.ContainsFunc(t.Waiters, func(w waiter) bool { return w.Stream == a.Stream })
}

// askWaiter asks the oldest waiter that is there, or the oldest that is away.
func (t *legacyTask) askWaiter(x *Exec, q *question, away bool) bool {
	for _, w := range t.Waiters {
		sess := new(legacySession)
		if w.Stream == "" || x.detached(w.Stream) != away || !x.r.load(sessionOp(w.Session), sess) || !q.fits(sess) {
			continue
		}
		handle := t.handle(x)
		if w.Driven {
			handle = "" // the client knows no task
		}
		q.put(x, sess, w.Stream, handle)
		return true
	}
	return false
}

// askOnGet is for questions nobody with an open tasks/result could take.
func (t *legacyTask) askOnGet(x *Exec) {
	sess := new(legacySession)
	if t.Final || !t.unasked(x) || !x.r.load(sessionOp(t.Session), sess) || len(sess.Gets) == 0 {
		return
	}
	get := sess.Gets[0]
	for _, other := range sess.Gets {
		if x.detached(get) {
			get = other
		}
	}
	for i := range t.Asked.Open {
		q := &t.Asked.Open[i]
		if q.waiting() && (!q.live() || !x.detached(get) && !t.heard(x, q)) && q.fits(sess) {
			q.put(x, sess, get, t.handle(x))
		}
	}
}

func (t *legacyTask) answer(x *Exec, ev Event) {
	method, rpcError := t.Asked.answered(x, ev.Label, ev.Name, ev.Frame.Msg)
	switch {
	case rpcError != nil:
		// A refusal the modern era has no form for: the task ends with it
		//.
		t.openCancel(x)
		t.endWith(x, translate.Failed, rpcError)
	case method == "":
		x.Do(Loss{What: string(translate.LossLateAnswer)})
	default:
		t.update(x)
	}
}

// update sends the answers the server has not acknowledged yet.
func (t *legacyTask) update(x *Exec) {
	if t.Final || t.up("update") || t.updateEarly(x) {
		return
	}
	b := jsonrpc.NewObject()
	n := 0
	for i := range t.Asked.Open {
		if q := &t.Asked.Open[i]; q.Answer != nil && !q.Acked {
			b.Raw(q.Key, q.Answer)
			q.Sent = true
			n++
		}
	}
	if n == 0 {
		return
	}
	if !t.asking() && t.Status == translate.InputRequired {
		t.Status = translate.Working
		t.Task = translate.Restate(translate.ParseResult(t.Task), translate.Working, "", "")
	}
	t.open(x, "update", "tasks/update", translate.Param{Key: "inputResponses", Raw: json.RawMessage(b.Bytes())})
}

// updated: any JSON-RPC reply settles the answers that were sent; an error
// puts them back once.
func (t *legacyTask) updated(x *Exec, m *jsonrpc.Message) {
	t.Updates = 0
	code, _ := m.Error().Get("code").Int()
	failed := m.Kind == jsonrpc.ErrorResponse && code != -32602 // of a task it does not know, the next look tells
	for i := range t.Asked.Open {
		q := &t.Asked.Open[i]
		if !q.Sent || q.Acked {
			continue
		}
		q.Acked = true
		if failed && !q.Back {
			q.Acked, q.Sent, q.Answer, q.Back = false, false, nil, true
		}
	}
	t.askAgain(x)
	t.update(x)
	t.Next = x.Now
	if len(t.Waiters) > 0 && !t.Final {
		t.poll(x)
	}
}

// askEarly: the call asked for input before the server made a task of it. The
// client is asked under the task it already has.
func (t *legacyTask) askEarly(x *Exec, result jsonrpc.Value) {
	if t.Final {
		return
	}
	t.Asked.Open = nil
	t.Asked.add(x, result.Get("inputRequests"))
	for i := range t.Asked.Open {
		t.Asked.Open[i].Early = true
	}
	if len(t.Asked.Open) == 0 { // a state alone: again after a pause
		x.Do(Wake{Name: "early", At: x.Now.Add(x.Policy.RetryAfter)})
		return
	}
	t.screen(x)
	if t.unanswerable(x) {
		return
	}
	if t.asking() {
		t.Status = translate.InputRequired
		t.Task = translate.Restate(translate.ParseResult(t.Task), t.Status, "", x.Now.UTC().Format(timeLayout))
	}
	t.askAgain(x)
	t.update(x)
}

// updateEarly hands the answers to the call once all are there; false when the
// open questions are the task's own.
func (t *legacyTask) updateEarly(x *Exec) bool {
	if t.ServerID != "" || len(t.Asked.Open) == 0 || !t.Asked.Open[0].Early {
		return false
	}
	if t.Asked.complete() {
		x.Do(Tell{To: t.Call, Name: "answers", Data: t.Asked.responses()})
		t.Asked.Open = nil
		t.Status = translate.Working
		t.Task = translate.Restate(translate.ParseResult(t.Task), t.Status, "", x.Now.UTC().Format(timeLayout))
	}
	return true
}
