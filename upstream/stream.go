package upstream

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/lines"
	"taskbridge/translate/sse"
)

const (
	// drainBytes and drainTime bound what is read after the final response so
	// that the socket can be used again.
	drainBytes = 16 << 10
	drainTime  = 250 * time.Millisecond
	// Reconnection times are clamped: an upstream must make us neither spin
	// nor sleep for days.
	minRetry = 100 * time.Millisecond
	maxRetry = 5 * time.Minute
	maxNote  = 1 << 10
)

// keptHeaders of a response mean something to the protocol; no other leaves
// this package.
var keptHeaders = []string{"Content-Type", "Mcp-Session-Id", "Retry-After", "Www-Authenticate"}

// stream is one HTTP exchange.
type stream struct {
	h    *HTTP
	c    *httpConn
	e    *endpoint
	id   string
	sent session.Outgoing // what went up

	index int // in c.open, with c.mu

	// ctx is the exchange's own: the caller's ends it through shut, so that a
	// finished exchange can still be drained when its caller has gone.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	trace   httptrace.ClientTrace
	reached atomic.Bool // there was a connection, so the request may have been sent

	// Set before the stream is handed out, then read only; until then Close may
	// come from the conn, so resp is set under mu.
	resp    *http.Response
	env     *translate.Envelope
	codings []string // Content-Encoding

	// Next's own; ownership passes with reading.
	meter   meter
	events  *eventReader
	pending []*jsonrpc.Message
	one     [1]*jsonrpc.Message // backs pending, which seldom has more
	begun   bool                // the body was looked at
	framed  bool                // a frame was given out
	shown   atomic.Bool         // the tap was shown the status
	skipped int                 // events that were no messages
	refused int                 // requests in them that were answered

	mu       sync.Mutex // protects the fields below
	reading  bool       // a Next is under way
	answered bool       // a response was given out
	over     error      // what Next returns once pending is empty
	closed   bool       // by Close, the conn or the caller's context
	cause    error      // why closed
	grace    *time.Timer
	forget   func() bool // stops watching the caller's context
	released bool        // body, context and registration given up
	lastID   string
	retry    time.Duration
}

var (
	_ session.Stream  = (*stream)(nil)
	_ session.Resumer = (*stream)(nil)
)

// begin takes the response headers, unless the conn was closed meanwhile.
func (s *stream) begin(resp *http.Response) error {
	s.mu.Lock()
	s.resp = resp
	closed, cause := s.closed, s.cause
	s.mu.Unlock()
	if closed {
		resp.Body.Close()
		return s.e.fail(session.FailBroken, cause)
	}
	s.codings = resp.Header["Content-Encoding"]
	maps.DeleteFunc(resp.Header, func(name string, _ []string) bool { return !slices.Contains(keptHeaders, name) })
	s.env = &translate.Envelope{Status: resp.StatusCode, Header: resp.Header, Proto: translate.HTTPVersion(resp.ProtoMajor, resp.ProtoMinor)}
	if resp.Request.Method == http.MethodDelete {
		s.h.cookies.drop(s.c.target, resp.Request.Header.Get("Mcp-Session-Id"))
	}
	if s.bodyless() {
		s.end(io.EOF)
	}
	return nil
}

// bodyless: nothing is to be read, so the exchange is over at once. A 202 has
// no body by definition (2025-11-25 basic/transports), but some servers give
// messages as events there.
func (s *stream) bodyless() bool {
	switch s.resp.StatusCode {
	case http.StatusAccepted, http.StatusNoContent, http.StatusResetContent, http.StatusNotModified:
		return s.resp.ContentLength == 0 || !s.isSSE()
	}
	return s.resp.ContentLength == 0
}

func (s *stream) isSSE() bool { return mediaType(s.resp) == sseType }

// mediaType is the content type without parameters, in lower case.
func mediaType(resp *http.Response) string {
	t, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}

func (s *stream) Envelope() *translate.Envelope { return s.env }

func (s *stream) LastEventID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastID
}

// Retry is between 100 ms and 5 min, 0 if the server did not say.
func (s *stream) Retry() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retry
}

// Next returns the next message; see session.Stream. Errors are
// *session.DialError.
func (s *stream) Next() (translate.Frame, error) {
	if err := s.enter(); err != nil {
		return translate.Frame{}, err
	}
	s.meter.handedOver()
	for len(s.pending) == 0 {
		if err := s.isOver(); err != nil {
			s.meter.handedOver() // what was read of a message that did not become one
			s.leave(nil)
			return translate.Frame{}, err
		}
		s.fill()
	}
	m := s.pending[0]
	s.pending[0] = nil
	s.pending = s.pending[1:]
	f := s.frame(m)
	s.leave(m)
	return f, nil
}

// enter claims the reader's side.
func (s *stream) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed && !(s.over == io.EOF && len(s.pending) == 0) {
		return s.e.fail(session.FailBroken, s.cause)
	}
	if s.reading {
		return s.e.fail(session.FailBroken, errors.New("two Next calls on one stream at once"))
	}
	s.reading = true
	return nil
}

// leave gives the reader's side back.
func (s *stream) leave(m *jsonrpc.Message) {
	s.mu.Lock()
	s.reading = false
	if m != nil && (m.Kind == jsonrpc.Response || m.Kind == jsonrpc.ErrorResponse) {
		s.answered = true
	}
	drain := false
	if s.closed { // while we were reading, which left to us what is the reader's
		s.meter.handedOver()
		drain = !s.released
	}
	s.mu.Unlock()
	if drain {
		s.h.background(s.drain)
	}
}

func (s *stream) isOver() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

func (s *stream) frame(m *jsonrpc.Message) translate.Frame {
	f := translate.Frame{Msg: m, Leg: translate.ServerLeg, Dir: translate.ToClient, Stream: s.id, Time: time.Now()}
	if !s.framed {
		s.framed, f.HTTP = true, s.env
	}
	return f
}

// fill reads until there are messages or the exchange is over.
func (s *stream) fill() {
	if !s.begun {
		s.begun = true
		body, err := s.decoded()
		if err != nil {
			s.end(s.bodyError(err))
			return
		}
		s.meter.r = body
		if s.isSSE() {
			s.events = s.newEvents(body, func() { s.cancel(errEndless) })
		}
	}
	if s.events == nil {
		s.fillFromBody()
		return
	}
	ev, err := s.events.next()
	if over, ok := errors.AsType[*lines.TooLong](err); ok {
		s.tooLong(ev, over)
		return
	}
	if err != nil {
		if err != io.EOF {
			err = s.readError(err)
		}
		s.end(err)
		return
	}
	s.takeEvent(ev)
}

// takeEvent remembers what an event says about resuming and takes its message.
// An event without data only primes the stream; data that is no message is a
// heartbeat or a fault of the server, and the stream goes on either way.
func (s *stream) takeEvent(ev sse.Event) {
	s.mu.Lock()
	if ev.HasID {
		s.lastID = ""
		if validHeaderValue(ev.ID) {
			s.lastID = ev.ID
		}
	}
	if ev.Retry != sse.NoRetry {
		s.retry = min(max(ev.Retry, minRetry), maxRetry)
	}
	s.mu.Unlock()
	if len(ev.Data) == 0 {
		return
	}
	msgs, err := s.decode(ev.Data)
	if err != nil {
		if s.skipped++; s.skipped == 1 {
			s.h.log.Warn("skipped an event that is no JSON-RPC message; further ones on this stream are not logged",
				"upstream", s.e.name, "stream", s.id, "error", err, "data", quote(string(ev.Data[:min(len(ev.Data), 256)]), 256))
		}
		s.refuse(err)
		s.meter.handedOver()
		return
	}
	s.show(msgs)
	s.pending = msgs
}

// maxRefused bounds the answers to a stream's requests that were no messages.
const maxRefused = 16

// refuse answers a legacy server's request that could not be read, where its id
// could: the server would wait in vain (JSON-RPC 2.0 section 5). Modern servers
// send no requests.
func (s *stream) refuse(err error) {
	bad, ok := errors.AsType[*jsonrpc.DecodeError](err)
	if f, _ := translate.Lookup(s.sent.Version); !ok || !bad.Call || bad.ID.IsZero() || f.Era == translate.Modern || s.refused == maxRefused {
		return
	}
	s.refused++
	out := session.Outgoing{Verb: http.MethodPost, Version: s.sent.Version, Session: s.sent.Session,
		Msg: jsonrpc.NewError(bad.ID, bad.Code, bad.Msg, nil)}
	if out.Session == "" {
		out.Session = s.env.Header.Get("Mcp-Session-Id")
	}
	s.h.background(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), refuseTime)
		defer cancel()
		reply, err := s.c.Do(ctx, out)
		if err != nil {
			s.h.log.Debug("answer a request that is no message", "upstream", s.e.name, "error", err)
			return
		}
		reply.Close()
	})
}

// refuseTime bounds one such answer.
const refuseTime = 5 * time.Second

// decode reads one message, or the array of them a 2025-03-26 server may send
// (2025-03-26 basic, Batching).
func (s *stream) decode(raw []byte) ([]*jsonrpc.Message, error) {
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err == nil {
		return append(s.one[:0], m), nil
	}
	if err == jsonrpc.ErrBatch {
		return jsonrpc.DecodeBatch(raw, jsonrpc.Limits{})
	}
	return nil, err
}

// end notes that nothing more will be read and gives up what the exchange
// holds, except the budget of messages still pending.
func (s *stream) end(err error) {
	s.mu.Lock()
	if s.over == nil {
		s.over = err
	}
	s.mu.Unlock()
	s.release(err)
}

// release closes the body and forgets the stream, once.
func (s *stream) release(cause error) {
	s.mu.Lock()
	was, resp, grace, forget := s.released, s.resp, s.grace, s.forget
	s.released = true
	s.mu.Unlock()
	if was {
		return
	}
	s.show(nil)
	forget()
	s.c.forget(s)
	if grace != nil {
		grace.Stop()
	}
	if resp != nil && cause == io.EOF {
		// A body that was read to its end leaves the socket to the next request;
		// canceling first would close it.
		resp.Body.Close()
		s.cancel(nil)
		return
	}
	s.cancel(cause)
	if resp != nil {
		resp.Body.Close()
	}
}

// Close ends the exchange; see session.Stream.
func (s *stream) Close() error {
	s.shut(ErrClosed)
	return nil
}

// shut ends the exchange for one reason, once. After the response was given
// out, or where all of a short body is on its way, there is nothing to cancel:
// then the rest is read, briefly and in the background, so that the socket can
// be used again. A Next under way does that reading, and so may take a moment
// longer to return.
func (s *stream) shut(cause error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed, s.cause = true, cause
	idle, finished := !s.reading, s.answered || s.short()
	if idle {
		s.meter.handedOver()
	}
	if s.released {
		s.mu.Unlock()
		return
	}
	if finished {
		s.grace = time.AfterFunc(drainTime, func() { s.cancel(cause) })
	}
	s.mu.Unlock()
	switch {
	case !finished:
		s.release(cause)
	case idle:
		s.h.background(s.drain)
	}
}

// short: a small body of known length. It must be called with mu held.
func (s *stream) short() bool {
	return s.resp != nil && 0 < s.resp.ContentLength && s.resp.ContentLength <= drainBytes
}

// drain reads a little more and gives the exchange up.
func (s *stream) drain() {
	n, err := io.CopyN(io.Discard, s.resp.Body, drainBytes)
	if err == io.EOF && n < drainBytes {
		s.release(io.EOF)
		return
	}
	s.release(ErrClosed)
}
