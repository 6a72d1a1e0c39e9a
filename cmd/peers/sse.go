package peers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync"
)

// reply is the HTTP response to one request, a JSON object or an event stream.
// It becomes a stream with begin; methods are safe for concurrent use.
type reply struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	gone  context.Context // ends when the client has gone
	trace func(status int, h http.Header, msg json.RawMessage)

	mu    sync.Mutex // protects w and begun
	begun bool
}

func (r *reply) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beginLocked()
}

func (r *reply) beginLocked() {
	if r.begun {
		return
	}
	r.begun = true
	h := r.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // 2026-07-28 transports, "Receiving Messages"
	r.w.WriteHeader(http.StatusOK)
	_ = r.rc.Flush()
}

func (r *reply) streaming() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun
}

// send writes one message as an event, beginning the stream if need be.
func (r *reply) send(msg json.RawMessage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beginLocked()
	r.trace(http.StatusOK, r.w.Header(), msg)
	var b bytes.Buffer
	b.WriteString("event: message\n")
	// A line break between tokens would end the data field early; a carriage
	// return ends a line too and cannot be carried.
	flat := bytes.ReplaceAll(msg, []byte("\r"), []byte(" "))
	for line := range bytes.SplitSeq(flat, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	if _, err := r.w.Write(b.Bytes()); err != nil {
		return err
	}
	return r.rc.Flush()
}

// comment writes an SSE comment, which keeps idle connections open.
func (r *reply) comment() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beginLocked()
	if _, err := io.WriteString(r.w, ": keep-alive\n\n"); err != nil {
		return err
	}
	return r.rc.Flush()
}

// finish sends the last message: on the stream if there is one (its status is
// out already), else as a JSON body with status.
func (r *reply) finish(status int, msg json.RawMessage) {
	if r.streaming() {
		_ = r.send(msg)
		return
	}
	if msg != nil {
		r.w.Header().Set("Content-Type", "application/json")
	}
	r.trace(status, r.w.Header(), msg)
	r.w.WriteHeader(status)
	_, _ = r.w.Write(msg)
}

// events yields the data of each event with data, until the stream ends; an
// unfinished event at the end is dropped, as the WHATWG rules say.
func events(body io.Reader) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		lines := bufio.NewReader(body)
		var data []string
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				if err != io.EOF {
					yield(nil, err)
				}
				return
			}
			line = strings.TrimRight(line, "\r\n")
			if line == "" {
				msg := strings.Join(data, "\n")
				data = nil
				if msg != "" && !yield(json.RawMessage(msg), nil) {
					return
				}
				continue
			}
			if value, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, strings.TrimPrefix(value, " "))
			}
		}
	}
}

// outbox queues messages from any goroutine for the one that owns a stream.
type outbox struct {
	mu   sync.Mutex // protects msgs
	msgs []json.RawMessage
	wake chan struct{}
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

func (o *outbox) push(msg json.RawMessage) {
	o.mu.Lock()
	o.msgs = append(o.msgs, msg)
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) take() []json.RawMessage {
	o.mu.Lock()
	defer o.mu.Unlock()
	msgs := o.msgs
	o.msgs = nil
	return msgs
}
