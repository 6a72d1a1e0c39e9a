package session

import (
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// relist: a plain call was refused because its tool runs only as a task, so
// what we knew of the server's tools is old. The list is read anew and the
// call, which has not run, sent once more.
func (c *modernCall) relist(x *Exec, m *jsonrpc.Message) bool {
	if c.Relisted || c.AsTask || c.Method != "tools/call" || !c.Ready.Tasks || !wantsTask(m) {
		return false
	}
	if c.raw = x.Kept(slotRequest); len(c.raw) == 0 {
		return false
	}
	c.Relisted = true
	x.Keep(&c.base, slotPayload, m.Raw)
	x.Do(Shut{Label: "up"}, Del{Key: toolsKey(c.Pool)}, Tell{To: c.Pool, Name: "tools"})
	delete(c.Ups, "up")
	return true
}

// wantsTask: -32601 about the tool, -32600 asking for augmentation, or either
// as a tool result, as a widely used server says it.
func wantsTask(m *jsonrpc.Message) bool {
	if m.Kind == jsonrpc.ErrorResponse {
		code, _ := m.Error().Get("code").Int()
		return code == -32601 || code == -32600
	}
	if !translate.IsError(m.Result()) {
		return false
	}
	text := translate.FailureText(m.Result(), jsonrpc.Value{})
	return strings.HasPrefix(text, "MCP error -32601") || strings.HasPrefix(text, "MCP error -32600")
}

// unchanged: the new list says the same, so the server's answer stands.
func (c *modernCall) unchanged(x *Exec) {
	m, err := jsonrpc.Decode(x.Kept(slotPayload), jsonrpc.Limits{})
	if err != nil {
		c.finish(x, refusal(translate.Modern, rawID(c.ID), translate.CondInternal, "", nil))
		return
	}
	c.response(x, Event{Frame: translate.Frame{Msg: m}})
}
