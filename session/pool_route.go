package session

import (
	"net/http"

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
	routeQuestion(x, x.ID, m, func(raw []byte) {
		p.open(x, "say"+m.ID.Key(), Outgoing{Verb: http.MethodPost, Msg: raw})
	})
}

// routeQuestion leads a legacy server's request to its task, or answers it by
// say when it has none.
func routeQuestion(x *Exec, pool OpID, m *jsonrpc.Message, say func(raw []byte)) {
	switch {
	case m.Method == "ping":
		say(jsonrpc.NewResult(m.ID, []byte("{}")))
		return
	case translate.IsQuestion(m.Method):
		if id := translate.RelatedTask(m.Params()); id != "" {
			if op, ok := x.Get(serverTaskKey(pool, id)); ok {
				x.Do(Tell{To: OpID(op), Name: "question", Data: m.Raw})
				return
			}
		}
		if op, ok := unattached(x, pool); ok {
			x.Do(Tell{To: op, Name: "question", Data: m.Raw})
			return
		}
		x.Do(Loss{What: string(translate.LossUnattached)})
		say(jsonrpc.NewError(m.ID, -32603, "no client can be asked at this point", nil))
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

func (p *poolSession) notice(x *Exec, m *jsonrpc.Message) {
	routeNotice(x, x.ID, m)
	if m.Method == "notifications/tools/list_changed" {
		x.Do(Del{Key: toolsKey(x.ID)})
	}
	for _, op := range p.Listens {
		x.Do(Tell{To: op, Name: "notice", Data: m.Raw})
	}
}

// routeNotice leads what a legacy server says about a task to the task.
func routeNotice(x *Exec, pool OpID, m *jsonrpc.Message) {
	id := translate.RelatedTask(m.Params())
	name := "notice"
	switch m.Method {
	case "notifications/tasks/status":
		id, _ = m.At("params", "taskId").Str()
		name = "status"
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

// serverAskKey finds the task a server's request belongs to by its id.
func serverAskKey(pool OpID, id []byte) string {
	key := string(id)
	if parsed, err := jsonrpc.IDFromRaw(id); err == nil {
		key = parsed.Key()
	}
	return "sask/" + string(pool) + "/" + key
}
