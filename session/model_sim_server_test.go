package session_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// simDialer leads all exchanges to the simulated server.
type simDialer struct{ m *sim }

func (d simDialer) Dial(_ context.Context, target session.Target) (session.Conn, error) {
	return simConn{d.m, target}, nil
}

type simConn struct {
	m      *sim
	target session.Target
}

func (c simConn) Close() error { return nil }

// metaText is what makes traces hard to read.
var metaText = regexp.MustCompile(`,?"_meta":\{"io.modelcontextprotocol/protocolVersion.*?\}\}+`)

// simExchange is one exchange at the simulated server.
type simExchange struct {
	m    *sim
	out  session.Outgoing
	as   session.Principal
	msg  *jsonrpc.Message
	ctx  context.Context
	ch   chan fakeEvent
	env  *translate.Envelope
	at   time.Time
	done <-chan struct{}

	closed time.Time // when the proxy was done with it; under m.mu
}

func (c simConn) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	m := c.m
	x := &simExchange{m: m, out: out, as: c.target.Principal, ctx: ctx, ch: make(chan fakeEvent, 1024), at: time.Now(), done: ctx.Done()}
	if out.Msg != nil {
		msg, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{})
		if err != nil {
			m.wrong("sent upstream: %v: %s", err, out.Msg)
			return nil, err
		}
		x.msg = msg
	}
	m.mu.Lock()
	down := m.down || m.ctx.Err() != nil
	if !down {
		m.open[x] = true
	}
	m.mu.Unlock()
	if down {
		if out.Verb == http.MethodGet {
			x.env = &translate.Envelope{Status: 405}
			x.ch <- fakeEvent{end: true}
			return x, nil
		}
		return nil, dialError("unreachable")
	}
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		x.closed = time.Now()
		m.mu.Unlock()
	})
	m.note("    up %s %s %s", out.Verb, out.Session, metaText.ReplaceAll(out.Msg, nil))
	m.wg.Go(func() {
		m.serve(x)
		m.mu.Lock()
		delete(m.open, x)
		m.mu.Unlock()
	})
	select {
	case ev := <-x.ch:
		if ev.err != nil {
			return nil, ev.err
		}
		x.env = ev.env
		return x, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-m.ctx.Done():
		return nil, m.ctx.Err()
	}
}

func (x *simExchange) Envelope() *translate.Envelope { return x.env }

func (x *simExchange) Next() (translate.Frame, error) {
	select {
	case ev := <-x.ch:
		switch {
		case ev.err != nil:
			return translate.Frame{}, ev.err
		case ev.end:
			return translate.Frame{}, io.EOF
		}
		return translate.Frame{Msg: ev.msg, Leg: translate.ServerLeg, Dir: translate.ToClient, Time: time.Now()}, nil
	case <-x.ctx.Done():
		return translate.Frame{}, x.ctx.Err()
	}
}

func (x *simExchange) Close() error { return nil }

// begin sends headers; every exchange needs them once.
func (x *simExchange) begin(status int, sse bool, header ...string) {
	h := headerOf(header)
	h.Set("Content-Type", "application/json")
	if sse {
		h.Set("Content-Type", "text/event-stream")
	}
	x.ch <- fakeEvent{env: &translate.Envelope{Status: status, Header: h}}
}

func (x *simExchange) say(raw string) {
	m, err := jsonrpc.Decode([]byte(raw), jsonrpc.Limits{})
	if err != nil {
		x.m.wrong("the simulated server: %v: %s", err, raw)
		return
	}
	x.m.note("    server %s", raw)
	x.ch <- fakeEvent{msg: m}
}

func (x *simExchange) close() { x.ch <- fakeEvent{end: true} }

// lose breaks the exchange.
func (x *simExchange) lose(kind string) {
	x.m.mu.Lock()
	x.m.troubles++
	x.m.mu.Unlock()
	x.m.note("    server fails: %s", kind)
	x.ch <- fakeEvent{err: dialError(kind)}
}

// status answers with an HTTP status and no message.
func (x *simExchange) status(n int) {
	if n >= 400 {
		x.m.mu.Lock()
		x.m.troubles++
		x.m.mu.Unlock()
	}
	x.begin(n, false)
	x.close()
}

func (x *simExchange) answer(member, raw string) string {
	return `{"jsonrpc":"2.0","id":` + string(x.msg.ID.Raw()) + `,"` + member + `":` + raw + `}`
}

// result answers plainly.
func (x *simExchange) result(raw string) {
	x.begin(200, false)
	x.say(x.answer("result", raw))
	x.close()
}

func (x *simExchange) error(status, code int, message string) {
	x.begin(status, false)
	x.say(x.answer("error", fmt.Sprintf(`{"code":%d,"message":%q}`, code, message)))
	x.close()
}

// trouble makes an exchange fail once in n; true when it did.
func (x *simExchange) trouble(r *rand.Rand, n int) bool {
	if !in(r, n) || x.m.isCalm() {
		return false
	}
	switch r.IntN(4) {
	case 0:
		x.lose("unreachable")
	case 1:
		x.lose("broken")
	case 2:
		x.status(500)
	default:
		x.begin(200, true) // a stream that is lost
		x.lose("broken")
	}
	return true
}

// wait is false when the proxy has closed the exchange.
func (x *simExchange) wait(d time.Duration) bool { return x.m.sleep(d, x.done) }
