package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

// faulty is a server with one planted fault.
type faulty struct {
	peer
	// ask changes what the server is asked.
	ask func(method string, h http.Header, body []byte) []byte
	// say changes what it says to a request of that method; nil: it is not said.
	say func(method string, msg []byte) []byte
	// late holds a request up.
	late func(ctx context.Context, method string, body []byte)
}

// ServeHTTP implements http.Handler.
func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct{ Method string }
	_ = json.Unmarshal(body, &m)
	if f.ask != nil {
		body = f.ask(m.Method, r.Header, body)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if f.late != nil {
		f.late(r.Context(), m.Method, body)
	}
	f.peer.ServeHTTP(&faultyReply{ResponseWriter: w, f: f, method: m.Method}, r)
}

// faultyReply gets one message a write, as the peers write them.
type faultyReply struct {
	http.ResponseWriter
	f      *faulty
	method string
}

// Unwrap serves http.NewResponseController.
func (w *faultyReply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write changes one message.
func (w *faultyReply) Write(p []byte) (int, error) {
	out := p
	if w.f.say != nil {
		before, msg, event := bytes.Cut(p, []byte("data: "))
		switch {
		case event:
			if msg = w.f.say(w.method, bytes.TrimSpace(msg)); msg == nil {
				return len(p), nil
			}
			out = append(append(bytes.Clone(before), "data: "...), append(msg, "\n\n"...)...)
		case bytes.HasPrefix(p, []byte("{")):
			out = w.f.say(w.method, p)
		}
	}
	_, err := w.ResponseWriter.Write(out)
	return len(p), err
}

// instead replaces text in what is said to requests of method ("": any).
func instead(method, old, text string) func(string, []byte) []byte {
	return func(m string, msg []byte) []byte {
		if method != "" && m != method {
			return msg
		}
		return bytes.ReplaceAll(msg, []byte(old), []byte(text))
	}
}

// hanging never says that a task has come to its end.
func hanging(method string, msg []byte) []byte {
	if method != "tasks/get" && method != "subscriptions/listen" {
		return msg
	}
	var m map[string]json.RawMessage
	_ = json.Unmarshal(msg, &m)
	for _, holder := range []string{"result", "params"} {
		var task map[string]json.RawMessage
		if _ = json.Unmarshal(m[holder], &task); task["taskId"] == nil {
			continue
		}
		if s := string(task["status"]); s == `"completed"` || s == `"failed"` {
			task["status"] = json.RawMessage(`"working"`)
			delete(task, "result")
			delete(task, "error")
		}
		m[holder], _ = json.Marshal(task)
	}
	msg, _ = json.Marshal(m)
	return msg
}

func never(ctx context.Context, method string, _ []byte) {
	if method == "tasks/result" {
		<-ctx.Done()
	}
}

// slowly takes ten times as long, where it is asked for.
func slowly(ctx context.Context, method string, body []byte) {
	if method != "tools/call" || !bytes.Contains(body, []byte(`"slow_plain"`)) {
		return
	}
	select {
	case <-time.After(900 * time.Millisecond):
	case <-ctx.Done():
	}
}

// otherTool calls another tool than was asked for.
func otherTool(from, to, args string) func(string, http.Header, []byte) []byte {
	return func(method string, h http.Header, body []byte) []byte {
		if method != "tools/call" || !bytes.Contains(body, []byte(`"name":"`+from+`"`)) {
			return body
		}
		if h.Get("Mcp-Name") != "" {
			h.Set("Mcp-Name", to)
		}
		text := strings.Replace(string(body), `"name":"`+from+`"`, `"name":"`+to+`"`, 1)
		return []byte(strings.Replace(text, `"arguments":{}`, `"arguments":`+args, 1))
	}
}
