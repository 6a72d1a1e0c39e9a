package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// streamBound is what may wait for the reader of a stream beside one message.
// A link is read for all of its callers, so a slow one is cut off.
const streamBound = 4 << 20

// pipeStream is what one message over a link brings, or what a session hears
// outside of its requests. It looks like an exchange over HTTP to its reader,
// so that operations need not know what a server stands behind.
type pipeStream struct {
	p    *pipe // nil: nothing hangs on it
	face *face
	env  *translate.Envelope
	id   string            // for the tap
	who  session.Principal // whose request it is, where not the face's

	// Of a request:
	ours   int64      // its id toward the server
	theirs jsonrpc.ID // its sender's
	method string
	task   string // params.taskId
	start  bool   // it is the handshake
	// begun is closed when the first thing came, or the end.
	begun chan struct{}

	mu     sync.Mutex // protects the fields below
	queue  []translate.Frame
	bytes  int
	over   error // what Next returns behind queue; nil: more may come
	signal chan struct{}
	forget func() bool
	began  bool // begun is closed
	closed bool
	unsent bool // nothing of the request was written, and nothing will be
}

var _ session.Stream = (*pipeStream)(nil)

func (s *links) newStream(env *translate.Envelope) *pipeStream {
	return &pipeStream{env: env, id: s.nextID(), signal: make(chan struct{}, 1), begun: make(chan struct{})}
}

// envelope is what an HTTP server would have said.
func envelope(status int, session string) *translate.Envelope {
	h := http.Header{}
	if session != "" {
		h["Mcp-Session-Id"] = []string{session}
	}
	return &translate.Envelope{Status: status, Header: h}
}

// Envelope implements session.Stream.
func (s *pipeStream) Envelope() *translate.Envelope { return s.env }

// Next implements session.Stream.
func (s *pipeStream) Next() (translate.Frame, error) {
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			f := s.queue[0]
			s.queue[0] = translate.Frame{}
			s.queue = s.queue[1:]
			s.bytes -= len(f.Msg.Raw)
			s.mu.Unlock()
			return f, nil
		}
		over := s.over
		s.mu.Unlock()
		if over != nil {
			return translate.Frame{}, over
		}
		<-s.signal
	}
}

// push queues a frame; it is false where nobody takes it.
func (s *pipeStream) push(f translate.Frame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return false
	}
	if s.bytes > streamBound {
		s.queue, s.bytes = nil, 0
		s.finish(&session.DialError{Fail: session.FailBusy, Upstream: s.p.s.o.Name, Err: errSlowReader})
		return false
	}
	s.queue = append(s.queue, f)
	s.bytes += len(f.Msg.Raw)
	s.wake()
	return true
}

var errSlowReader = errors.New("the answer was not taken in time")

// end says that nothing follows.
func (s *pipeStream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil {
		s.finish(err)
	}
}

// finish needs s.mu.
func (s *pipeStream) finish(err error) {
	s.over = err
	if s.forget != nil {
		s.forget()
	}
	s.wake()
}

// wake needs s.mu.
func (s *pipeStream) wake() {
	if !s.began {
		s.began = true
		close(s.begun)
	}
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// drop: the request was in line when its link ended.
func (s *pipeStream) drop() {
	s.mu.Lock()
	s.unsent = true
	s.mu.Unlock()
}

// lost ends the stream of a request whose link has ended: it says whether the
// request may be sent again.
func (s *pipeStream) lost(why *session.DialError) {
	s.mu.Lock()
	again := why.Again
	if s.unsent {
		again = session.AgainAny
	}
	s.mu.Unlock()
	s.end(againAs(why, again))
}

// isOpen: more may come.
func (s *pipeStream) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over == nil
}

// follow ends the stream with ctx.
func (s *pipeStream) follow(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil {
		s.forget = context.AfterFunc(ctx, func() { s.shut(context.Cause(ctx)) })
	}
}

// Close implements session.Stream. Toward a modern server the end of a request
// that was not answered is its cancel, which is said by a notification here
// (2026-07-28 stdio, Cancellation).
func (s *pipeStream) Close() error {
	s.shut(ErrClosed)
	return nil
}

func (s *pipeStream) shut(cause error) {
	s.mu.Lock()
	was, open := s.closed, s.over == nil
	s.closed = true
	if open {
		s.queue, s.bytes = nil, 0
		s.finish(&session.DialError{Fail: session.FailBroken, Err: cause})
	}
	s.mu.Unlock()
	if !was && s.p != nil {
		s.p.readerLeft(s, open)
	}
}

// answered is a stream whose one answer is known: status only.
func (s *links) statusStream(status int) *pipeStream {
	st := s.newStream(envelope(status, ""))
	st.over = io.EOF
	return st
}
