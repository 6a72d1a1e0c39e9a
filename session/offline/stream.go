package offline

import (
	"context"
	"io"
	"maps"
	"net/http"
	"sync"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// stream is one exchange with a Mock: what it says is queued, what reads waits
// on the clock.
type stream struct {
	clock session.Clock
	ctx   context.Context
	gate  session.Gate
	stop  func() bool
	gone  func() // called once when the reader has left

	mu     sync.Mutex // protects the fields below
	queue  [][]byte
	env    *translate.Envelope // nil before the first sign
	ended  bool
	closed bool
}

func newStream(ctx context.Context, clock session.Clock) *stream {
	s := &stream{clock: clock, ctx: ctx, gate: clock.Gate()}
	s.stop = clock.OnCancel(ctx, func() { s.close(); s.gate.Open() })
	return s
}

// say queues one message; the first one makes an event stream of the reply.
func (s *stream) say(raw []byte) { s.put(raw, false, http.StatusOK, nil) }

// end queues the last message, nil: none; a reply that is only that is plain.
func (s *stream) end(raw []byte) { s.put(raw, true, http.StatusOK, nil) }

// refuse ends the exchange by an HTTP status.
func (s *stream) refuse(status int, h http.Header) { s.put(nil, true, status, h) }

// begin opens an event stream before there is a message.
func (s *stream) begin() { s.put(nil, false, http.StatusOK, nil) }

func (s *stream) put(raw []byte, last bool, status int, h http.Header) {
	s.mu.Lock()
	if s.ended || s.closed {
		s.mu.Unlock()
		return
	}
	if s.env == nil {
		env := &translate.Envelope{Status: status, Header: http.Header{}}
		maps.Copy(env.Header, h)
		switch {
		case !last:
			env.Header["Content-Type"] = []string{"text/event-stream"}
		case raw != nil:
			env.Header["Content-Type"] = []string{"application/json"}
		}
		s.env = env
	}
	if raw != nil {
		s.queue = append(s.queue, raw)
	}
	s.ended = last
	s.mu.Unlock()
	s.gate.Open()
}

// opened waits for the first sign.
func (s *stream) opened() error {
	for {
		s.mu.Lock()
		env, closed := s.env, s.closed
		s.mu.Unlock()
		switch {
		case env != nil:
			return nil
		case closed:
			return context.Cause(s.ctx)
		}
		s.gate.Wait()
	}
}

// Envelope implements session.Stream.
func (s *stream) Envelope() *translate.Envelope { return s.env }

// Next implements session.Stream.
func (s *stream) Next() (translate.Frame, error) {
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			raw := s.queue[0]
			s.queue = s.queue[1:]
			s.mu.Unlock()
			m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
			if err != nil {
				return translate.Frame{}, err
			}
			return translate.Frame{Msg: m, Leg: translate.ServerLeg, Dir: translate.ToClient, Time: s.clock.Now()}, nil
		}
		ended, closed := s.ended, s.closed
		s.mu.Unlock()
		switch {
		case ended:
			return translate.Frame{}, io.EOF
		case closed:
			return translate.Frame{}, context.Canceled
		}
		s.gate.Wait()
	}
}

// Close implements session.Stream.
func (s *stream) Close() error {
	s.stop()
	s.close()
	return nil
}

func (s *stream) close() {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	over := s.ended && len(s.queue) == 0
	s.mu.Unlock()
	if !was && !over && s.gone != nil {
		s.gone()
	}
}

// live says whether somebody still reads.
func (s *stream) live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && !s.ended
}
