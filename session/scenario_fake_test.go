package session_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// fakeServer is the scripted server: every exchange waits in it until a step
// of the scenario answers.
type fakeServer struct {
	mu        sync.Mutex
	exchanges []*fakeExchange
	drain     bool // the scenario is over: nobody can be reached any more
	noListen  bool // subscriptions/listen is refused without a step for it
}

// fakeExchange is one Outgoing and what the scenario says to it.
type fakeExchange struct {
	name   string
	out    session.Outgoing
	target session.Target
	at     time.Time
	msg    *jsonrpc.Message // nil for GET and DELETE
	ctx    context.Context

	events  chan fakeEvent
	env     *translate.Envelope
	opened  bool
	ended   bool // by the script
	matched bool

	mu     sync.Mutex
	closed bool // by the proxy
}

// fakeEvent is a sign of the server: headers, a message, an end.
type fakeEvent struct {
	env *translate.Envelope
	msg *jsonrpc.Message
	end bool
	err error
}

// fakeConn is what the dialer gives: one connection a target, as over HTTP.
type fakeConn struct {
	s      *fakeServer
	target session.Target
}

func (s *fakeServer) Dial(_ context.Context, target session.Target) (session.Conn, error) {
	return &fakeConn{s, target}, nil
}

func (c *fakeConn) Close() error { return nil }

func (c *fakeConn) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	e := &fakeExchange{out: out, target: c.target, at: time.Now(), ctx: ctx, events: make(chan fakeEvent, 64)}
	if out.Msg != nil {
		m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{})
		if err != nil {
			return nil, err
		}
		e.msg = m
	}
	if c.s.noListen && e.method() == "subscriptions/listen" {
		m, err := jsonrpc.Decode(jsonrpc.NewError(e.msg.ID, -32601, "method not found", nil), jsonrpc.Limits{})
		if err != nil {
			return nil, err
		}
		e.env = &translate.Envelope{Status: 404, Header: http.Header{"Content-Type": {"application/json"}}}
		e.events <- fakeEvent{msg: m}
		e.events <- fakeEvent{end: true}
		return e, nil
	}
	c.s.mu.Lock()
	if c.s.drain {
		c.s.mu.Unlock()
		if out.Verb == http.MethodGet { // not tried again and again for days
			e.env = &translate.Envelope{Status: 405}
			e.events <- fakeEvent{end: true}
			return e, nil
		}
		return nil, &session.DialError{Fail: session.FailUnreachable, Upstream: c.target.Upstream, Err: errors.New("the scenario is over")}
	}
	c.s.exchanges = append(c.s.exchanges, e)
	c.s.mu.Unlock()
	select {
	case ev := <-e.events:
		if ev.err != nil {
			e.close()
			return nil, ev.err
		}
		e.env = ev.env
		return e, nil
	case <-ctx.Done():
		e.close()
		return nil, ctx.Err()
	}
}

func (e *fakeExchange) Envelope() *translate.Envelope { return e.env }

func (e *fakeExchange) Next() (translate.Frame, error) {
	select {
	case ev := <-e.events:
		switch {
		case ev.err != nil:
			return translate.Frame{}, ev.err
		case ev.end:
			return translate.Frame{}, io.EOF
		}
		return translate.Frame{Msg: ev.msg, Leg: translate.ServerLeg, Dir: translate.ToClient, Time: time.Now()}, nil
	case <-e.ctx.Done():
		return translate.Frame{}, e.ctx.Err()
	}
}

func (e *fakeExchange) Close() error { e.close(); return nil }

func (e *fakeExchange) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
}

func (e *fakeExchange) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed || e.ctx.Err() != nil
}

// method of the exchange's message, or its verb.
func (e *fakeExchange) method() string {
	if e.msg == nil {
		return e.out.Verb
	}
	return e.msg.Method
}

// fakeClient is one scripted request of a client and what came back on it.
type fakeClient struct {
	name   string
	stream *session.ClientStream
	msg    *jsonrpc.Message
	cancel context.CancelFunc

	mu    sync.Mutex
	outs  []fakeOut
	begun bool
	done  bool // final seen
	gone  bool // left by the script
	taken int
}

type fakeOut struct {
	session.Out
	at    time.Time
	first bool
}

// read collects until the final Out, then leaves as a downstream does.
func (c *fakeClient) read(ctx context.Context) {
	first := true
	for {
		o, ok := c.stream.Next(ctx)
		if !ok {
			break
		}
		c.mu.Lock()
		if o.Begin {
			c.begun = true
		}
		if o.Raw != nil || o.Final || !o.Begin {
			c.outs = append(c.outs, fakeOut{o, time.Now(), first && !c.begun})
		}
		first = false
		c.done = c.done || o.Final
		c.mu.Unlock()
		if o.Final {
			break
		}
	}
	c.stream.Gone()
}

func (c *fakeClient) pending() []fakeOut {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outs[c.taken:]
}

// fakeFaces gives every target the same face.
type fakeFaces struct{ face session.Face }

func (f fakeFaces) Face(context.Context, session.Target) (session.Face, error) { return f.face, nil }

// fakeMetrics counts losses and drops by name.
type fakeMetrics struct {
	mu     sync.Mutex
	losses map[string]int
	drops  map[string]int
}

func (m *fakeMetrics) Limited(string)      {}
func (m *fakeMetrics) Loss(what string)    { m.count(&m.losses, what) }
func (m *fakeMetrics) Dropped(what string) { m.count(&m.drops, what) }

func (m *fakeMetrics) count(where *map[string]int, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if *where == nil {
		*where = map[string]int{}
	}
	(*where)[what]++
}

var failures = map[string]session.Fail{
	"unreachable": session.FailUnreachable,
	"broken":      session.FailBroken,
	"cut":         session.FailBroken, // its connection broke
	"unsent":      session.FailBroken, // before anything was written
	"process":     session.FailProcess,
	"too-large":   session.FailTooLarge,
	"redirect":    session.FailRedirect,
	"busy":        session.FailBusy,
}

func dialError(kind string) error {
	again := map[string]session.Again{"cut": session.AgainSafe, "unsent": session.AgainAny}[kind]
	return &session.DialError{Fail: failures[kind], Again: again, Upstream: "default", Err: errors.New("scripted: " + kind)}
}

func headerOf(lines []string) http.Header {
	h := http.Header{}
	for _, l := range lines {
		k, v := cut(l)
		h.Add(k, v)
	}
	return h
}
