package upstream

import (
	"errors"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// grave is what is remembered of a child that has ended: its tasks have ended
// with it (case B39).
type grave struct {
	why       error
	principal session.Principal
	at        time.Time
}

// made says whether the child made the task m names.
func (p *pipe) made(m *jsonrpc.Message) bool {
	id, _ := m.At("params", "taskId").Str()
	return p.madeTask(id)
}

func (p *pipe) madeTask(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tasks.known[id]
}

func aboutTask(method string) bool {
	switch method {
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/update":
		return true
	}
	return false
}

// buriedTask finds the grave of the child that had the task a request names.
func (s *links) buriedTask(m *jsonrpc.Message, principal session.Principal) *grave {
	if !aboutTask(m.Method) {
		return nil
	}
	id, _ := m.At("params", "taskId").Str()
	g, ok := s.lost.Get(id)
	if !ok || g.principal != principal && g.principal != sharedPrincipal {
		return nil
	}
	return g
}

// text is what a caller is told of it.
func (g *grave) text() string {
	var de *session.DialError
	if errors.As(g.why, &de) {
		return de.Err.Error()
	}
	return g.why.Error()
}

func (g *grave) failed(taskID string) *jsonrpc.ObjectBuilder {
	at := g.at.UTC().Format(time.RFC3339Nano)
	return jsonrpc.NewObject().Str("taskId", taskID).Str("status", translate.Failed).Str("statusMessage", g.text()).
		Str("createdAt", at).Str("lastUpdatedAt", at)
}

func (g *grave) about(m *jsonrpc.Message, modern bool) *jsonrpc.Message {
	id, _ := m.At("params", "taskId").Str()
	return g.answer(modern, m.Method, m.ID, id)
}

// answer is what the server would say of its task now.
func (g *grave) answer(modern bool, method string, id jsonrpc.ID, taskID string) *jsonrpc.Message {
	switch {
	case modern && method != "tasks/get":
		return mustMessage(jsonrpc.NewResult(id, []byte(`{"resultType":"complete"}`)))
	case modern:
		failure := jsonrpc.NewObject().Int("code", -32603).Str("message", g.text()).Bytes()
		return mustMessage(jsonrpc.NewResult(id, g.failed(taskID).Raw("ttlMs", []byte("null")).Raw("error", failure).Str("resultType", "complete").Bytes()))
	case method == "tasks/get":
		return mustMessage(jsonrpc.NewResult(id, g.failed(taskID).Raw("ttl", []byte("null")).Bytes()))
	case method == "tasks/cancel":
		return mustMessage(jsonrpc.NewError(id, -32602, "the task has ended: "+g.text(), nil))
	}
	return mustMessage(jsonrpc.NewError(id, -32603, g.text(), nil))
}

func mustMessage(raw []byte) *jsonrpc.Message {
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil {
		panic("upstream: a message of ours cannot be read: " + err.Error())
	}
	return m
}
