package session

import (
	"encoding/json"
	"net/http"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// serverTaskKey finds our task by the server's session and id.
func serverTaskKey(pool OpID, serverID string) string {
	return "tid/" + string(pool) + "/" + serverID
}

// question: a server's request on the GET stream. One about a task goes to
// it; ping is answered at once; the rest belongs to nothing we know.
func (p *poolSession) question(x *Exec, m *jsonrpc.Message) {
	routeQuestion(x, x.ID, p.Session, m, func(raw []byte) {
		sayTo(x, p.As, p.out(Outgoing{Verb: http.MethodPost, Msg: raw}))
	}, func(m *jsonrpc.Message) bool { return p.pend(x, m) })
}

// routeQuestion leads a legacy server's request, made in the session in, to its
// task, or answers it by say when it has none.
func routeQuestion(x *Exec, pool OpID, in string, m *jsonrpc.Message, say func(raw []byte), pend func(*jsonrpc.Message) bool) {
	switch {
	case m.Method == "ping":
		say(jsonrpc.NewResult(m.ID, []byte("{}")))
		return
	case translate.IsQuestion(m.Method):
		if id := translate.RelatedTask(m.Params()); id != "" {
			// Calls in flight first: one that ends meanwhile has told its task.
			flying := x.List(flyPrefix(pool), "", 2)
			if op, ok := x.Get(serverTaskKey(pool, id)); ok {
				x.Do(Tell{To: OpID(op), Name: "question", Label: in, Data: m.Raw})
				return
			}
			// Of a task one of the calls in flight becomes: which one of them,
			// its answer tells.
			if len(flying) == 1 {
				x.Do(Tell{To: OpID(flying[0].Value), Name: "question", Label: in, Data: m.Raw})
				return
			}
			if pend != nil && len(flying) > 1 && pend(m) {
				return
			}
		}
		if op, ok := unattached(x, pool); ok {
			x.Do(Tell{To: op, Name: "question", Label: in, Data: m.Raw})
			return
		}
		if sayRoots(x, pool, m, say) || pend != nil && pend(m) {
			return
		}
		x.Do(Loss{What: string(translate.LossUnattached)})
		say(nobody(m))
		return
	}
	if len(m.Method) > 6 && m.Method[:6] == "tasks/" {
		x.Do(Loss{What: string(translate.LossServerTaskMethod)})
	}
	say(jsonrpc.NewError(m.ID, -32601, "method not found", nil))
}

// unattached finds whom a question without related-task belongs to: the latest
// call in flight in its session that can be asked, else the session's only
// live task.
func unattached(x *Exec, pool OpID) (OpID, bool) {
	if fly := x.List(flyPrefix(pool), "", 1); len(fly) > 0 {
		return OpID(fly[0].Value), true
	}
	if tasks := x.List("tid/"+string(pool)+"/", "", 2); len(tasks) == 1 {
		return OpID(tasks[0].Value), true
	}
	return "", false
}

// maxPending bounds the questions that wait for a call they may belong to.
const maxPending = 16

// pendFor is how long such a question waits.
const pendFor = 30 * time.Second

// pend keeps a question nobody can be asked yet; the next call that can be
// asked takes it.
func (p *poolSession) pend(x *Exec, m *jsonrpc.Message) bool {
	if len(p.Pending) >= maxPending || !x.Grow("pend/"+string(x.ID), p.pendingBytes()+int64(len(m.Raw))) {
		return false
	}
	p.Pending = append(p.Pending, json.RawMessage(m.Raw))
	x.Do(Wake{Name: "pend", At: x.Now.Add(pendFor)})
	return true
}

func (p *poolSession) pendingBytes() int64 {
	n := int64(0)
	for _, raw := range p.Pending {
		n += int64(len(raw))
	}
	return n
}

// flight hands the waiting questions to a call that just began.
func (p *poolSession) flight(x *Exec, op OpID) {
	p.sort(x, func(task string) (OpID, bool) { return op, task == "" })
}

// known leads questions that wait for their task to it.
func (p *poolSession) known(x *Exec) {
	p.sort(x, func(task string) (OpID, bool) {
		op, ok := x.Get(serverTaskKey(x.ID, task))
		return OpID(op), ok && task != ""
	})
}

// sort leads the waiting questions to whom whose names, by the task they name.
func (p *poolSession) sort(x *Exec, whose func(task string) (OpID, bool)) {
	if len(p.Pending) == 0 {
		return
	}
	kept := p.Pending[:0:0]
	for _, raw := range p.Pending {
		m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
		if err != nil {
			continue
		}
		if op, ok := whose(translate.RelatedTask(m.Params())); ok {
			x.Do(Tell{To: op, Name: "question", Label: p.Session, Data: raw})
			continue
		}
		kept = append(kept, raw)
	}
	if len(kept) == 0 {
		p.unpend(x)
		return
	}
	p.Pending = kept
}

func (p *poolSession) unpend(x *Exec) {
	if len(p.Pending) > 0 {
		p.Pending = nil
		x.Free("pend/" + string(x.ID))
		x.Do(Unwake{Name: "pend"})
	}
}

// pendOver: no call came. The server gets its answer all the same.
func (p *poolSession) pendOver(x *Exec) {
	for _, raw := range p.Pending {
		m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
		if err != nil {
			continue
		}
		x.Do(Loss{What: string(translate.LossUnattached)})
		sayTo(x, p.As, p.out(Outgoing{Verb: http.MethodPost, Msg: nobody(m)}))
	}
	p.unpend(x)
}

// nobody answers a question that belongs to nothing we know.
func nobody(m *jsonrpc.Message) []byte {
	return jsonrpc.NewError(m.ID, -32603, "no client can be asked at this point", nil)
}

func rootsKey(pool OpID) string { return "roots/" + string(pool) }

// sayRoots answers with the roots a client gave last, where nobody can be
// asked. Where somebody can, it is: a modern client has no notice to say that
// its roots are others now (2026-07-28 client/roots), so each question in a
// call gets the client's own answer.
func sayRoots(x *Exec, pool OpID, m *jsonrpc.Message, say func(raw []byte)) bool {
	if m.Method != "roots/list" {
		return false
	}
	raw, ok := x.Get(rootsKey(pool))
	if ok {
		say(jsonrpc.NewResult(m.ID, raw))
	}
	return ok
}

// keepRoots remembers a client's answer to roots/list for the session.
func keepRoots(x *Exec, pool OpID, entry []byte, answer jsonrpc.Value) {
	e := translate.ParseResult(entry)
	if method, _ := e.Get("method").Str(); method == "roots/list" && answer.Get("roots").Exists() && len(answer.Raw()) < reservation {
		x.Do(Put{Key: rootsKey(pool), Value: answer.Raw()})
	}
}

func (p *poolSession) notice(x *Exec, m *jsonrpc.Message) {
	routeNotice(x, x.ID, m)
	switch m.Method {
	case "notifications/tools/list_changed":
		x.Do(Del{Key: toolsKey(x.ID)})
	case "notifications/message":
		p.logLine(x, m)
	}
	for _, op := range p.Listens {
		x.Do(Tell{To: op, Name: "notice", Data: m.Raw})
	}
}

// streamNotice leads on what came on a request's stream though it is of the
// session: some servers use whichever stream is open.
func streamNotice(x *Exec, pool OpID, m *jsonrpc.Message) {
	if translate.OfSession(m.Method) {
		x.Do(Tell{To: pool, Name: "notice", Data: m.Raw})
		return
	}
	routeNotice(x, pool, m)
}

// routeNotice leads what a legacy server says about a task to the task.
func routeNotice(x *Exec, pool OpID, m *jsonrpc.Message) {
	id := translate.RelatedTask(m.Params())
	name := "notice"
	switch m.Method {
	case "notifications/tasks/status":
		id, _ = m.At("params", "taskId").Str()
		name = "status"
	case "notifications/progress":
		if id == "" { // under the token of a call, or of the task it became
			if raw, ok := x.Get(tokenKey(pool, m.At("params", "progressToken").Raw())); ok {
				x.Do(Tell{To: OpID(raw), Name: name, Data: m.Raw})
			}
			return
		}
	case "notifications/elicitation/complete":
		done, _ := m.At("params", "elicitationId").Str()
		if op, ok := x.Get(elicitationKey(pool, done)); ok {
			x.Do(Tell{To: OpID(op), Name: "completed", Data: []byte(done)})
		}
		return
	case "notifications/cancelled":
		if id == "" {
			if raw, ok := x.Get(serverAskKey(pool, m.At("params", "requestId").Raw())); ok {
				x.Do(Tell{To: OpID(raw), Name: "withdrawn", Data: m.At("params", "requestId").Raw()})
			}
			return
		}
		name = "withdrawn"
	}
	if id == "" {
		return
	}
	op, ok := x.Get(serverTaskKey(pool, id))
	if !ok {
		if name == "status" {
			x.Do(Loss{What: string(translate.LossStatusNotice)})
		}
		return
	}
	data := m.Raw
	if name == "withdrawn" {
		data = m.At("params", "requestId").Raw()
	}
	x.Do(Tell{To: OpID(op), Name: name, Data: data})
}

// tokenKey finds the task whose call had a progress token.
func tokenKey(pool OpID, token []byte) string { return "ptok/" + string(pool) + "/" + string(token) }

// serverAskKey finds the task a server's request belongs to by its id.
func serverAskKey(pool OpID, id []byte) string {
	key := string(id)
	if parsed, err := jsonrpc.IDFromRaw(id); err == nil {
		key = parsed.Key()
	}
	return "sask/" + string(pool) + "/" + key
}
