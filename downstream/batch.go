package downstream

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// batch serves an array of messages, which 2025-03-26 alone has (basic,
// Batching). That revision has no version header, so its absence leaves the
// decision to the session, which the hub knows. The array is refused as a
// whole or split into messages that go to the hub one after the other.
func (x *exchange) batch(raw []byte) {
	msgs, cond, detail := x.splitBatch(raw)
	if cond != translate.CondNone {
		x.refuse(cond, detail, nil)
		return
	}
	x.fillCaller()
	if b, ok := x.s.o.Hub.(session.Batcher); ok && !b.TakesBatch(x.caller) {
		x.refuse(translate.CondInvalidRequest, jsonrpc.ErrBatch.(*jsonrpc.DecodeError).Msg, nil)
		return
	}
	if over := x.payAll(msgs); over.Refused() {
		x.refuseDue(over)
		return
	}
	x.s.enter() // see hand
	defer x.s.leave()
	g := newGather(x)
	x.tap.parts = true
	requests := 0
	for _, m := range msgs {
		s := x.s.o.Hub.NewStream()
		in := x.inbound(s.ID, m)
		in.Batch = true
		x.s.o.Hub.Client(x.r.Context(), in, s)
		p := part{stream: s}
		if m.Kind == jsonrpc.Request {
			p.id = m.ID
			requests++
		}
		g.start(p)
	}
	if requests == 0 {
		x.takesSSE = false
	}
	x.answer(g)
}

func (x *exchange) splitBatch(raw []byte) ([]*jsonrpc.Message, translate.Cond, string) {
	h := x.r.Header
	x.caller.Era = translate.Legacy
	if translate.ModernHeader(h) {
		x.caller.Era = translate.Modern
	}
	if v := h.Get(translate.HeaderVersion); v != "" {
		if f, ok := translate.Lookup(v); !ok || !f.Batch {
			return nil, translate.CondInvalidRequest, jsonrpc.ErrBatch.(*jsonrpc.DecodeError).Msg
		}
	}
	if x.s.draining() {
		return nil, translate.CondDraining, ""
	}
	msgs, err := jsonrpc.DecodeBatch(raw, jsonrpc.Limits{})
	if err != nil {
		// The array is refused, not the message in it whose id the error has.
		de, _ := err.(*jsonrpc.DecodeError)
		if de != nil && de.Code == jsonrpc.CodeParse {
			return nil, translate.CondParse, de.Msg
		}
		return nil, translate.CondInvalidRequest, err.Error()
	}
	for _, m := range msgs {
		c, cond := translate.Classify(h, m)
		switch {
		case c.Era == translate.Modern:
			return nil, translate.CondInvalidRequest, jsonrpc.ErrBatch.(*jsonrpc.DecodeError).Msg
		case cond != translate.CondNone:
			return nil, cond, c.Detail
		case m.Method == "initialize":
			// 2025-03-26 basic/lifecycle: initialize MUST NOT be in a batch.
			return nil, translate.CondInvalidRequest, "initialize cannot be part of a batch"
		}
		x.caller.Version = c.Version
	}
	return msgs, translate.CondNone, ""
}

// part is one message of a batch with its own way back.
type part struct {
	stream *session.ClientStream
	id     jsonrpc.ID // zero unless it is a request
	out    session.Out
}

// gather turns the streams of a batch into one source: an array once all are
// answered, or, when something has to be said before, events.
type gather struct {
	x    *exchange
	outs chan part
	ctx  context.Context // done when the reader leaves
	stop context.CancelFunc
	wg   sync.WaitGroup

	// The reader's own:
	parts   []*session.ClientStream
	pending int
	done    []session.Out // final ones with a message
	failed  session.Out   // the first one with a status of failure
	good    bool          // there is one without
}

func newGather(x *exchange) *gather {
	g := &gather{x: x, outs: make(chan part)}
	g.ctx, g.stop = context.WithCancel(context.WithoutCancel(x.r.Context()))
	return g
}

func (g *gather) start(p part) {
	g.parts = append(g.parts, p.stream)
	g.pending++
	g.wg.Go(func() { g.pump(p) })
}

// pump moves one stream's Outs to the reader and ends with a final one.
func (g *gather) pump(p part) {
	for {
		out, ok := p.stream.Next(g.ctx)
		if !ok {
			out = session.Out{Final: true}
		}
		if out.Final && out.Raw == nil && !p.id.IsZero() {
			_, code := translate.StatusOf(translate.CondInternal, translate.Legacy)
			out.Raw = jsonrpc.NewError(p.id, code, "the reply was lost", nil)
		}
		p.out = out
		select {
		case g.outs <- p:
		case <-g.ctx.Done():
			return
		}
		if out.Final {
			return
		}
	}
}

// NextBefore is part of source. Answers are kept until all are there; once the
// reply is an event stream they follow as events.
func (g *gather) NextBefore(ctx context.Context, timeout <-chan time.Time, stop <-chan struct{}) (o session.Out, ok, timedOut bool) {
	for {
		if g.x.streaming && len(g.done) > 0 {
			out := g.done[0]
			g.done = g.done[1:]
			return session.Out{Raw: out.Raw, EventID: out.EventID}, true, false
		}
		if g.pending == 0 {
			return g.last(), true, false
		}
		select {
		case p := <-g.outs:
			g.x.showPart(p.stream.ID, p.out)
			if !p.out.Final {
				return p.out, true, false
			}
			g.pending--
			if p.out.Raw != nil {
				g.done = append(g.done, p.out)
			}
			switch {
			case p.out.Status < 300:
				g.good = g.good || !p.id.IsZero()
			case g.failed.Status == 0:
				g.failed = p.out
			}
		case <-timeout:
			return session.Out{}, false, true
		case <-stop:
			return session.Out{}, false, false
		case <-ctx.Done():
			return session.Out{}, false, false
		}
	}
}

// last is the end of an event stream, or the whole reply: an array, or only a
// status where nothing in the batch wanted an answer.
func (g *gather) last() session.Out {
	out := session.Out{Final: true, Status: g.failed.Status, Header: g.failed.Header}
	if g.good { // clients do not read the answers beside a status of failure
		out.Status, out.Header = 0, nil
	}
	switch {
	case g.x.streaming:
	case len(g.done) == 0 && out.Status == 0:
		out.Status = http.StatusAccepted
	case len(g.done) > 0:
		raws := make([][]byte, len(g.done))
		for i, o := range g.done {
			raws[i] = o.Raw
		}
		out.Raw = append(append([]byte{'['}, bytes.Join(raws, []byte{','})...), ']')
	}
	return out
}

// Gone is part of source.
func (g *gather) Gone() {
	g.stop()
	g.wg.Wait()
	for _, s := range g.parts {
		s.Gone()
	}
}
