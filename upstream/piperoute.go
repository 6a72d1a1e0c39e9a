package upstream

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/lines"
)

// take leads one message of the server's to where it belongs. What it said last,
// unended, may be half a message: then how it ended says more.
func (p *pipe) take(line []byte, unended bool) {
	m, err := jsonrpc.Decode(line, jsonrpc.Limits{})
	if err == nil {
		p.route(m)
		return
	}
	if unended {
		return
	}
	if errors.Is(err, jsonrpc.ErrBatch) {
		// 2025-03-26 basic, Batching.
		msgs, batchErr := jsonrpc.DecodeBatch(line, jsonrpc.Limits{})
		for _, m := range msgs {
			p.route(m)
		}
		if batchErr == nil {
			return
		}
		err = batchErr
	}
	if p.skipped++; p.skipped == 1 {
		p.s.log.Warn("skipped what is no JSON-RPC message; further of its kind from this "+p.s.o.noun+" are not logged",
			p.s.o.kind, p.name, "error", clip(err.Error(), maxErrorText), "text", quote(string(line[:min(len(line), 256)]), 256))
	}
	if id, call := lines.Identify(line); !call {
		if st := p.answeredBy(id); st != nil {
			st.end(p.s.fail(session.FailBroken, fmt.Errorf("the server's answer is no JSON-RPC message: %s", clip(err.Error(), maxErrorText))))
		}
	}
}

// tooLong fails the request an answer over the limit was for, or answers a
// request of the server's that was.
func (p *pipe) tooLong(t *lines.TooLong) {
	p.s.log.Warn("discarded a message of the server", p.s.o.kind, p.name, "why", t.Error(), "limit", p.s.o.MaxMessage)
	if t.Call {
		if !t.ID.IsZero() && !p.modern {
			p.trySend(jsonrpc.NewError(t.ID, jsonrpc.CodeInvalidRequest, "the message is over the limit of "+strconv.Itoa(p.s.o.MaxMessage)+" bytes", nil))
		}
		return
	}
	st := p.answeredBy(t.ID)
	switch {
	case st == nil:
	case t.Busy:
		st.end(p.s.fail(session.FailBusy, errBusy))
	default:
		st.end(p.s.fail(session.FailTooLarge, fmt.Errorf("the answer is over the limit of %d bytes", p.s.o.MaxMessage)))
	}
}

// endless is why a link is given up that sends a message without an end.
func (s *links) endless() error {
	return fmt.Errorf("it sent a message over the limit of %d bytes without an end", s.o.MaxMessage)
}

// answeredBy takes the request an answer under id is for; nil if there is none
// or its sender has left.
func (p *pipe) answeredBy(id jsonrpc.ID) *pipeStream {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id.IsZero() {
		return nil
	}
	n, err := strconv.ParseInt(id.Key(), 10, 64)
	st := p.calls[n]
	if err != nil || st == nil {
		return nil
	}
	p.drop(st)
	return st
}

func (p *pipe) route(m *jsonrpc.Message) {
	p.showHeard(m)
	switch m.Kind {
	case jsonrpc.Response, jsonrpc.ErrorResponse:
		p.response(m)
	case jsonrpc.Request:
		p.asked(m)
	default:
		p.notice(m)
	}
}

// respell puts the sender's ids back into a message and reads it anew.
func respell(e *jsonrpc.Edit, m *jsonrpc.Message) *jsonrpc.Message {
	again, err := jsonrpc.Decode(e.Bytes(), jsonrpc.Limits{})
	if err != nil {
		return m // cannot be: one valid token stands for another
	}
	return again
}

// response ends the request it answers. One nobody waits for is dropped, so
// that no answer reaches a caller twice or another's (case S30).
func (p *pipe) response(m *jsonrpc.Message) {
	p.s.down.Store(false)
	id := m.ID
	if id.IsZero() && m.Kind == jsonrpc.ErrorResponse {
		id = p.onlyCall()
	}
	st := p.answeredBy(id)
	if st == nil {
		p.s.log.Debug("dropped an answer to no request", p.s.o.kind, p.name)
		return
	}
	ours := strconv.AppendInt(nil, st.ours, 10)
	e := m.Edit()
	e.Set(m.Root(), "id", st.theirs.Raw())
	if sub := m.At("result", "_meta", translate.MetaSubscription); string(sub.Raw()) == string(ours) {
		e.Replace(sub, st.theirs.Raw())
	}
	task := translate.TaskOf(m.Result())
	p.mu.Lock()
	if taskID, ok := task.Get("taskId").Str(); ok && m.Kind == jsonrpc.Response {
		p.tasks.add(taskID) // its progress goes on under the token
	} else {
		p.dropToken(st.ours)
	}
	p.mu.Unlock()
	m = respell(e, m)
	if st.start {
		p.s.greeted(p, st, m)
	}
	st.push(p.frame(st, m))
	st.end(io.EOF)
}

// onlyCall is the one request in flight, which an error without an id is about.
func (p *pipe) onlyCall() jsonrpc.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) == 1 {
		for id := range p.calls {
			return jsonrpc.IntID(id)
		}
	}
	return jsonrpc.ID{}
}

// asked leads a request of the server's own. Over HTTP the stream it comes on
// says which request it belongs to; here that has to be found out (design:
// unattached questions).
func (p *pipe) asked(m *jsonrpc.Message) {
	switch {
	case p.modern:
		// 2026-07-28 stdio, Receiving Messages: the server MUST NOT; and a client
		// must not respond.
		p.s.log.Warn("dropped a request of a modern server, which must not send any", p.s.o.kind, p.name, "method", quote(m.Method, 64))
		return
	case m.Method == "ping":
		p.trySend(jsonrpc.NewResult(m.ID, []byte("{}")))
		return
	}
	p.mu.Lock()
	f, st := p.whose(m)
	key := m.ID.Key()
	switch {
	case f == nil:
		p.mu.Unlock()
		p.trySend(nobodyToAsk(m))
		return
	case st == nil:
		waits := p.pend(f, m)
		p.mu.Unlock()
		if !waits {
			p.trySend(nobodyToAsk(m))
		}
		return
	}
	p.asks[key] = ask{f, st}
	if old, full := p.askList.add(key); full {
		delete(p.asks, old)
	}
	p.mu.Unlock()
	if !st.push(p.frame(st, m)) {
		p.trySend(nobodyToAsk(m))
	}
}

func nobodyToAsk(m *jsonrpc.Message) []byte {
	return jsonrpc.NewError(m.ID, -32603, "no client can be asked at this point", nil)
}

// whose finds who is asked: the tasks/result that waits for the task a question
// names; without one the session's own stream, for its task is found from
// there; a question that names no task belongs to the latest request in flight
// that can be asked in. It needs p.mu. A nil stream: nobody listens yet.
func (p *pipe) whose(m *jsonrpc.Message) (*face, *pipeStream) {
	task := translate.RelatedTask(m.Params())
	var latest, waits *pipeStream
	for _, st := range p.calls {
		if !st.isOpen() {
			continue
		}
		if st.method == "tasks/result" && st.task == task && task != "" {
			waits = st
		}
		if translate.CanRequireInput(st.method) && (latest == nil || st.ours > latest.ours) {
			latest = st
		}
	}
	switch {
	case waits != nil:
		return waits.face, waits
	case latest != nil && task == "":
		return latest.face, latest
	}
	f := p.onlyFace()
	if f == nil && latest != nil {
		f = latest.face
	}
	if f == nil {
		return nil, nil
	}
	if n := len(f.gets); n > 0 {
		return f, f.gets[n-1]
	}
	if latest != nil {
		return latest.face, latest
	}
	return f, nil
}

// onlyFace is the session on a link that is nobody else's; it needs p.mu.
func (p *pipe) onlyFace() *face {
	if len(p.faces) == 1 {
		for _, f := range p.faces {
			return f
		}
	}
	return nil
}

// pend keeps a message until somebody listens; it needs p.mu.
func (p *pipe) pend(f *face, m *jsonrpc.Message) bool {
	most := maxPendingCount
	if m.Kind != jsonrpc.Request {
		most = maxPendingNews
	}
	if len(f.pending) >= most || f.bytes+len(m.Raw) > maxPendingBytes {
		return false
	}
	f.pending = append(f.pending, m)
	f.bytes += len(m.Raw)
	if m.Kind == jsonrpc.Request {
		time.AfterFunc(pendingFor, func() { p.pendOver(f, m) })
	}
	return true
}

// pendOver: nobody came. The server gets an answer all the same.
func (p *pipe) pendOver(f *face, m *jsonrpc.Message) {
	p.mu.Lock()
	found := false
	for i, q := range f.pending {
		if q == m {
			f.pending = append(f.pending[:i:i], f.pending[i+1:]...)
			f.bytes -= len(m.Raw)
			found = true
			break
		}
	}
	p.mu.Unlock()
	if found {
		p.trySend(nobodyToAsk(m))
	}
}

// notice leads a notification: to the request it names, or to the sessions'
// own streams.
func (p *pipe) notice(m *jsonrpc.Message) {
	switch {
	case m.Method == "notifications/progress":
		p.progress(m)
	case m.Method == "notifications/cancelled":
		p.withdrawn(m)
	case m.At("params", "_meta", translate.MetaSubscription).Exists():
		p.subscribed(m)
	case m.Method == "notifications/message":
		p.logLine(m)
	case p.modern:
		p.s.log.Debug("dropped a notification that belongs to no request", p.s.o.kind, p.name, "method", quote(m.Method, 64))
	default:
		p.toAll(m)
	}
}

// progress goes to the request its token was sent with, under the sender's
// token; after a request became a task, to its session.
func (p *pipe) progress(m *jsonrpc.Message) {
	v := m.At("params", "progressToken")
	n, ok := v.Int()
	p.mu.Lock()
	t, known := p.tokens[n]
	if !ok || !known {
		p.mu.Unlock()
		return
	}
	st := p.calls[n]
	if st == nil && len(t.face.gets) > 0 {
		st = t.face.gets[len(t.face.gets)-1]
	}
	p.mu.Unlock()
	if st == nil {
		return
	}
	e := m.Edit()
	e.Replace(v, t.raw)
	st.push(p.frame(st, respell(e, m)))
}

// withdrawn: a legacy server takes its own question back; a modern one ends a
// listen stream (2026-07-28 basic/patterns/cancellation).
func (p *pipe) withdrawn(m *jsonrpc.Message) {
	v := m.At("params", "requestId")
	id, err := jsonrpc.IDFromRaw(v.Raw())
	if err != nil {
		return
	}
	if p.modern {
		if st := p.answeredBy(id); st != nil {
			st.end(io.EOF)
		}
		return
	}
	p.mu.Lock()
	a, known := p.asks[id.Key()]
	delete(p.asks, id.Key())
	p.askList.drop(id.Key())
	for _, f := range p.faces {
		for i, q := range f.pending {
			if q.Kind == jsonrpc.Request && q.ID.Key() == id.Key() {
				f.pending = append(f.pending[:i:i], f.pending[i+1:]...)
				f.bytes -= len(q.Raw)
				break
			}
		}
	}
	st := a.stream
	if known && !st.isOpen() && len(a.face.gets) > 0 {
		st = a.face.gets[len(a.face.gets)-1]
	}
	p.mu.Unlock()
	if known {
		st.push(p.frame(st, m))
	}
}

// subscribed leads a notification to the listen request it names (2026-07-28
// stdio, Receiving Messages).
func (p *pipe) subscribed(m *jsonrpc.Message) {
	sub := m.At("params", "_meta", translate.MetaSubscription)
	n, ok := sub.Int()
	p.mu.Lock()
	st := p.calls[n]
	p.mu.Unlock()
	if !ok || st == nil {
		return
	}
	e := m.Edit()
	e.Replace(sub, st.theirs.Raw())
	st.push(p.frame(st, respell(e, m)))
}

// logLine: whose work a log line is about cannot be told unless one request is
// in flight alone.
func (p *pipe) logLine(m *jsonrpc.Message) {
	p.mu.Lock()
	var only *pipeStream
	n := 0
	for _, st := range p.calls {
		if st.isOpen() && st.method != "subscriptions/listen" && st.method != "tasks/result" {
			only = st
			n++
		}
	}
	p.mu.Unlock()
	switch {
	case n == 1:
		only.push(p.frame(only, m))
	case !p.modern:
		p.toAll(m)
	}
}

// toAll gives a notification that names nobody to every session on the link.
func (p *pipe) toAll(m *jsonrpc.Message) {
	p.mu.Lock()
	var streams []*pipeStream
	for _, f := range p.faces {
		if n := len(f.gets); n > 0 {
			streams = append(streams, f.gets[n-1])
		} else {
			p.pend(f, m)
		}
	}
	p.mu.Unlock()
	for _, st := range streams {
		st.push(p.frame(st, m))
	}
}
