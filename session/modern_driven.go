package session

import (
	"encoding/json"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// A driven call is a plain call of a modern client whose tool the legacy
// server runs as a task: the task's end is the call's answer, and the task's
// questions park the call (park.go).

// park sends the driven call's client away with the task's questions.
func (t *modernTask) park(x *Exec) {
	d := t.Driver
	t.Driver, t.Parked = nil, true
	raw := t.Park.required(x, t.Owner, t.Ready.ServerInfo)
	x.reply(d.Stream, jsonrpc.NewResult(d.id(), raw))
}

// inlineOver: the task did not finish in the time a policy gives it, so the
// client gets its handle after all.
func (t *modernTask) inlineOver(x *Exec) {
	if t.Driver == nil || t.Inline == nil {
		return
	}
	x.reply(t.Driver.Stream, jsonrpc.NewResult(t.Driver.id(), t.Inline))
	t.Driver, t.Inline = nil, nil
}

// resume: the driven call's client is back with its answers.
func (t *modernTask) resume(x *Exec, ev Event) {
	m := ev.Frame.Msg
	d := &waiter{Stream: ev.Label, ID: json.RawMessage(m.ID.Raw()), Driven: true}
	if !t.Parked {
		x.refuse(ev.Label, translate.Modern, m.ID, translate.CondInvalidParams, badState, nil)
		return
	}
	t.Driver, t.Parked, t.Park.Nonce = d, false, ""
	x.Do(Unwake{Name: "park"})
	if t.Final {
		// It ended while nobody listened; its payload is in the cache or is
		// fetched again.
		t.Final, t.Next = false, x.Now
		t.look(x)
		return
	}
	t.Park.answers(x, t.Pool, m, func(q *serverAsk, _ []byte) { t.answer(x, q, m) })
	if t.Park.asking() {
		t.park(x)
		return
	}
	t.Next = x.Now
	t.watch(x)
}

// parkOver: nobody came back, so the task is cancelled.
func (t *modernTask) parkOver(x *Exec) {
	if !t.Parked {
		return
	}
	t.Parked = false
	t.Park.void(x)
	if !t.Final {
		t.open(x, "cancel", "tasks/cancel")
	}
}

// answer sends one answer to the server as the response to its own request.
func (t *modernTask) answer(x *Exec, q *serverAsk, m *jsonrpc.Message) {
	answer := m.At("params", "inputResponses").Get(q.Key)
	q.Answered = true
	keepRoots(x, t.Pool, q.Entry, answer)
	q.Answer = translate.AnswerToLegacy(rawID(q.ID), answer, t.ServerID)
	if t.Call != "" {
		t.sayHosted(x, q)
		return
	}
	if t.Ready.Version != "" && q.In == t.Ready.Session { // else it goes out once it is asked in a session that lives
		t.send(x, "say-"+q.Key, q.Answer)
	}
}
