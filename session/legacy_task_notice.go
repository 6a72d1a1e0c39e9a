package session

import (
	"encoding/json"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// progress of a task call: each new message on the open tasks/result streams,
// else on the creating session's GET stream.
func (t *legacyTask) message(x *Exec, text string) {
	if t.Final || text == "" {
		return
	}
	t.Task = translate.Restate(translate.ParseResult(t.Task), t.Status, text, x.Now.UTC().Format(timeLayout))
	t.progress(x, text)
}

func (t *legacyTask) progress(x *Exec, text string) {
	t.Progress++
	note := func(token json.RawMessage) []byte {
		params := jsonrpc.NewObject().Raw("progressToken", token).Int("progress", t.Progress).Str("message", text).
			Raw("_meta", jsonrpc.NewObject().Raw(translate.MetaRelatedTask, jsonrpc.NewObject().Str("taskId", t.handle(x)).Bytes()).Bytes()).Bytes()
		return jsonrpc.NewNotification("notifications/progress", params)
	}
	// The call's token stays good for the task's life (2025-11-25 tasks, Task
	// Progress Notifications), whatever token a waiter brings of its own.
	stream, told := "", len(t.Token) == 0
	for _, w := range t.Waiters {
		if w.Stream == "" {
			continue
		}
		if stream == "" {
			stream = w.Stream
		}
		token := w.Token
		if len(token) == 0 {
			token = t.Token
		}
		if len(token) > 0 {
			x.Do(Send{Stream: w.Stream, Out: Out{Raw: note(token)}})
			told = told || string(token) == string(t.Token)
		}
	}
	if told {
		return
	}
	if stream == "" {
		stream = t.getStream(x)
	}
	if stream != "" {
		x.Do(Send{Stream: stream, Out: Out{Raw: note(t.Token)}})
	}
}

// getStream is the GET stream of the session that last named the task.
func (t *legacyTask) getStream(x *Exec) string {
	sess := new(legacySession)
	if !x.r.load(sessionOp(t.Session), sess) || len(sess.Gets) == 0 {
		return ""
	}
	return sess.Gets[0]
}

// notice tells the session that last named the task of a new status, on its
// GET stream (2025-11-25 tasks, Task Status Notification: a bare Task).
func (t *legacyTask) notice(x *Exec, was string) {
	if t.Status == was {
		return
	}
	if get := t.getStream(x); get != "" {
		x.Do(Send{Stream: get, Out: Out{Raw: jsonrpc.NewNotification("notifications/tasks/status", t.shown(x))}})
	}
}

func ttlText(task []byte) string { return string(translate.ParseResult(task).Get("ttl").Raw()) }

func statusText(task []byte) string {
	s, _ := translate.ParseResult(task).Get("statusMessage").Str()
	return s
}
