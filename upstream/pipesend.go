package upstream

import (
	"bytes"
	"context"
	"errors"

	"taskbridge/session"
)

// direct is a channel whose messages go up each by itself, not in one line.
type direct interface {
	channel
	// deliver sends a message and returns when the server has taken it or, of a
	// request, when begun is closed: something came back for it. Errors are
	// *session.DialError. shown, if set, is called just before it is sent.
	deliver(ctx context.Context, raw []byte, begun <-chan struct{}, shown func()) error
	// dispatch sends what is no caller's, without waiting.
	dispatch(raw []byte, shown func())
}

// send puts a message in line.
func (p *pipe) send(ctx context.Context, w place, raw []byte) error {
	return p.sendFor(ctx, w, [][]byte{raw}, nil)
}

// sendFor is send for the request of st, whose answer may begin before it was
// taken.
func (p *pipe) sendFor(ctx context.Context, w place, msg [][]byte, st *pipeStream) error {
	err := p.hand(ctx, w, msg, st)
	p.showRefusal(w, err)
	return err
}

func (p *pipe) hand(ctx context.Context, w place, msg [][]byte, st *pipeStream) error {
	if d, ok := p.ch.(direct); ok {
		if err := p.dead(); err != nil {
			return unsent(err)
		}
		var begun <-chan struct{}
		if st != nil {
			begun = st.begun
		}
		return d.deliver(ctx, bytes.Join(msg, nil), begun, p.showing(w, msg))
	}
	next := queued{msg: msg, shown: p.showing(w, msg)}
	if st != nil {
		next.dropped = st.drop
	}
	err := p.out.put(ctx, next)
	switch {
	case err == nil:
		return nil
	case p.dead() != nil:
		return unsent(p.dead())
	}
	return p.s.fail(session.FailUnreachable, err)
}

// unsent is err, why a link ended, to whom nothing of whose message was written.
func unsent(err error) error { return againAs(err, session.AgainAny) }

func againAs(err error, again session.Again) error {
	de, ok := errors.AsType[*session.DialError](err)
	if !ok {
		return err
	}
	it := *de
	it.Again = again
	return &it
}

// trySend sends what is no caller's, where that needs no waiting.
func (p *pipe) trySend(raw []byte) {
	msg := [][]byte{raw}
	shown := p.showing(place{}, msg)
	if d, ok := p.ch.(direct); ok {
		d.dispatch(raw, shown)
		return
	}
	p.out.tryPut(msg, shown)
}
