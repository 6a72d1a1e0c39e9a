package translate

import (
	"bytes"
	"strconv"

	"taskbridge/translate/jsonrpc"
)

// Answer says how the final answer to a request ended it.
type Answer struct {
	Outcome Outcome
	// Code is the JSON-RPC error's, 0 without one; Message its text.
	Code    int64
	Message string
	// Task is the status of the task that the result is about (tasks/get), or "".
	Task string
	// TaskID is the id of the task that was given (OutcomeTask), as raw JSON: who
	// has it may have a right to the task.
	TaskID string
}

// Outcome is a word for how a request ended: one of the constants, so that it
// may be a label.
type Outcome string

const (
	OutcomeCompleted     Outcome = "completed"      // a result
	OutcomeTask          Outcome = "task"           // a task that goes on: result.task, resultType "task"
	OutcomeInputRequired Outcome = "input_required" // resultType "input_required"
	OutcomeToolError     Outcome = "tool_error"     // a result with isError (2025-11-25 server/tools, Error Handling)
	OutcomeError         Outcome = "error"          // a JSON-RPC error
	OutcomeRefused       Outcome = "refused"        // HTTP 401, 403 or 429: who asks may not
	OutcomeUnavailable   Outcome = "unavailable"    // HTTP 5xx: the server cannot be had, or we are full
	OutcomeAccepted      Outcome = "accepted"       // a notification or an answer was taken
	OutcomeClosed        Outcome = "closed"         // a stream without an answer ended as it should: GET, DELETE
	OutcomeCancelled     Outcome = "cancelled"      // its client cancelled it
	OutcomeGone          Outcome = "gone"           // its client left before the answer
)

// AnswerOf reads the answer raw, a JSON-RPC response that was decoded before or
// made by us; nil: there is none. status is the HTTP status it goes with, 0 for
// 200. It passes over values without looking into them, so that it costs little
// beside carrying the message.
func AnswerOf(raw []byte, status int) Answer {
	a := Answer{}
	eachMember(raw, func(key, value []byte) {
		switch string(key) {
		case `"result"`:
			a.Outcome, a.Task, a.TaskID = resultOutcome(value)
		case `"error"`:
			a.Outcome = OutcomeError
			eachMember(value, func(key, value []byte) {
				switch string(key) {
				case `"code"`:
					a.Code, _ = strconv.ParseInt(string(value), 10, 64)
				case `"message"`:
					if text, err := jsonrpc.ParseValue(shown(value)); err == nil {
						a.Message, _ = text.Str()
					}
				}
			})
		}
	})
	switch {
	case status == 401 || status == 403 || status == 429:
		a.Outcome = OutcomeRefused
	case status >= 500:
		a.Outcome = OutcomeUnavailable
	case a.Outcome != "":
	case status == 202:
		a.Outcome = OutcomeAccepted
	case status >= 400:
		a.Outcome = OutcomeError
	}
	return a
}

// maxTaskID: longer ids are nobody's to remember.
const maxTaskID = 4096

// shown is a JSON value if it is short enough to be shown.
func shown(value []byte) []byte {
	if len(value) > 512 {
		return nil
	}
	return value
}

// resultOutcome also says the status of a task that the result is: a member
// beside its taskId, one of the words of tasks.go.
func resultOutcome(result []byte) (out Outcome, task, id string) {
	out = OutcomeCompleted
	var flat, nested []byte
	eachMember(result, func(key, value []byte) {
		switch string(key) {
		case `"task"`:
			eachMember(value, func(key, value []byte) {
				if string(key) == `"taskId"` {
					out, nested = OutcomeTask, value
				}
			})
		case `"taskId"`:
			flat = value
		case `"status"`:
			task = statusWord(value)
		case `"isError"`:
			if string(value) == "true" {
				out = OutcomeToolError
			}
		case `"resultType"`:
			switch string(value) {
			case `"task"`:
				out = OutcomeTask
			case `"input_required"`:
				out = OutcomeInputRequired
			}
		}
	})
	if flat == nil {
		task = ""
	}
	if out != OutcomeTask {
		return out, task, ""
	}
	if nested == nil {
		nested = flat
	}
	if len(nested) > maxTaskID {
		nested = nil
	}
	return out, task, string(nested)
}

// statusWord is the word of a task's status, or "" for one there is not.
func statusWord(value []byte) string {
	for i := range statuses {
		if w := statuses[i].Modern; len(value) == len(w)+2 && string(value[1:len(value)-1]) == w {
			return w
		}
	}
	return ""
}

// eachMember gives the raw keys and values of the object raw, which is valid
// JSON; another value has none.
func eachMember(raw []byte, f func(key, value []byte)) {
	i := blank(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return
	}
	for i = blank(raw, i+1); i < len(raw) && raw[i] == '"'; i = blank(raw, i+1) {
		end := pastValue(raw, i)
		key := raw[i:end]
		if i = blank(raw, end); i >= len(raw) || raw[i] != ':' {
			return
		}
		i = blank(raw, i+1)
		end = pastValue(raw, i)
		f(key, raw[i:end])
		if i = blank(raw, end); i >= len(raw) || raw[i] != ',' {
			return
		}
	}
}

func blank(raw []byte, i int) int {
	for i < len(raw) && raw[i] <= ' ' {
		i++
	}
	return i
}

// pastValue is the offset after the value at raw[i].
func pastValue(raw []byte, i int) int {
	depth := 0
	for i < len(raw) {
		switch raw[i] {
		case '"':
			i = pastString(raw, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return min(i+1-max(0, -depth), len(raw))
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

func pastString(raw []byte, i int) int {
	for from := i + 1; ; {
		n := bytes.IndexByte(raw[from:], '"')
		if n < 0 {
			return len(raw)
		}
		end := from + n
		slashes := 0
		for end-slashes-1 > i && raw[end-slashes-1] == '\\' {
			slashes++
		}
		if from = end + 1; slashes%2 == 0 {
			return from
		}
	}
}
