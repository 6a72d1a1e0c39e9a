package translate

import (
	"strings"
	"unicode/utf8"

	"taskbridge/translate/jsonrpc"
)

// Payload is how a task ended: a result or a JSON-RPC error, raw, as the
// server sent it.
type Payload struct {
	Result []byte
	Error  []byte
}

// PayloadOf reads the inline payload of a modern task.
func PayloadOf(task jsonrpc.Value) Payload {
	var p Payload
	if v := task.Get("result"); v.Type() == jsonrpc.Object {
		p.Result = v.Raw()
	}
	if v := task.Get("error"); v.Type() == jsonrpc.Object && p.Result == nil {
		p.Error = v.Raw()
	}
	return p
}

// IsError says whether a tool result reports a failure.
func IsError(result jsonrpc.Value) bool {
	return string(result.Get("isError").Raw()) == "true"
}

// PayloadToLegacy makes the result of tasks/result from an inline result:
// related-task is required there, resultType does not exist.
func PayloadToLegacy(result jsonrpc.Value, taskID string) (raw []byte, lost []Loss) {
	e := result.Edit()
	deleteMember(e, result, "resultType")
	editMeta(e, result, []string{MetaServerInfo}, member{MetaRelatedTask, relatedTask(taskID)})
	lost = callResultToLegacy(e, result)
	return e.Bytes(), lost
}

// PayloadToModern is its inverse. resultType stands inside the inline result
// because a widely used client demands it there.
func PayloadToModern(result jsonrpc.Value) []byte {
	e := result.Edit()
	setMember(e, result, "resultType", []byte(`"complete"`))
	editMeta(e, result, []string{MetaRelatedTask})
	return e.Bytes()
}

// DetailedTask makes the result of a modern tasks/get, or the params of
// notifications/tasks (kind ""), from a legacy Task with its payload or its
// outstanding questions (raw InputRequests object). A status whose member is
// not there is shown as working (tasks extension, Task Polling, Response).
func DetailedTask(task jsonrpc.Value, v TaskView, kind string, p Payload, inputRequests, serverInfo []byte) []byte {
	if v.Status == Completed && p.Result == nil || v.Status == Failed && p.Error == nil ||
		v.Status == InputRequired && inputRequests == nil {
		v.Status = Working
	}
	e := taskToModern(task, v)
	if kind != "" {
		e.Insert(task, "resultType", jsonrpc.Quote(kind))
	}
	switch v.Status {
	case Completed:
		e.Insert(task, "result", p.Result)
	case Failed:
		e.Insert(task, "error", ErrorToModern(p.Error))
	case InputRequired:
		e.Insert(task, "inputRequests", inputRequests)
	}
	insertMeta(e, task, keptMeta(task, MetaRelatedTask), serverInfo)
	return e.Bytes()
}

// maxMessageText caps a statusMessage we make from peer text.
const maxMessageText = 1024

// FailureText is the statusMessage of a legacy task that failed: the text
// blocks of a tool result with isError, else the error's message.
func FailureText(result, rpcError jsonrpc.Value) string {
	var parts []string
	if content, err := result.Get("content").Parse(); err == nil {
		for block := range content.Elems() {
			if t, _ := block.Get("type").Str(); t == "text" {
				if s, ok := block.Get("text").Str(); ok && s != "" {
					parts = append(parts, s)
				}
			}
		}
	}
	text := strings.Join(parts, "\n")
	if text == "" {
		text, _ = rpcError.Get("message").Str()
	}
	if len(text) > maxMessageText {
		cut := maxMessageText
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	return text
}
