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
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tasks.known[id]
}

// buriedTask finds the grave of the child that had the task a request names.
func (s *links) buriedTask(m *jsonrpc.Message, principal session.Principal) *grave {
	switch m.Method {
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/update":
	default:
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

func (g *grave) failed(m *jsonrpc.Message) *jsonrpc.ObjectBuilder {
	id, _ := m.At("params", "taskId").Str()
	at := g.at.UTC().Format(time.RFC3339Nano)
	return jsonrpc.NewObject().Str("taskId", id).Str("status", translate.Failed).Str("statusMessage", g.text()).
		Str("createdAt", at).Str("lastUpdatedAt", at)
}

func (g *grave) legacyAnswer(m *jsonrpc.Message) *jsonrpc.Message {
	switch m.Method {
	case "tasks/get":
		return mustMessage(jsonrpc.NewResult(m.ID, g.failed(m).Raw("ttl", []byte("null")).Bytes()))
	case "tasks/cancel":
		return mustMessage(jsonrpc.NewError(m.ID, -32602, "the task has ended: "+g.text(), nil))
	}
	return mustMessage(jsonrpc.NewError(m.ID, -32603, g.text(), nil))
}

func (g *grave) modernAnswer(m *jsonrpc.Message) *jsonrpc.Message {
	if m.Method != "tasks/get" {
		return mustMessage(jsonrpc.NewResult(m.ID, []byte(`{"resultType":"complete"}`)))
	}
	failure := jsonrpc.NewObject().Int("code", -32603).Str("message", g.text()).Bytes()
	return mustMessage(jsonrpc.NewResult(m.ID, g.failed(m).Raw("ttlMs", []byte("null")).Raw("error", failure).Str("resultType", "complete").Bytes()))
}

func mustMessage(raw []byte) *jsonrpc.Message {
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil {
		panic("upstream: a message of ours cannot be read: " + err.Error())
	}
	return m
}
