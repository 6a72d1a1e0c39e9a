package downstream

import (
	"errors"
	"net/http"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/sse"
)

// acceptAfter is how long a post waits for a sign of its request, so that a
// refusal by status (401 with its challenge) can be its reply.
const acceptAfter = 250 * time.Millisecond

// openLink serves the stream of a client of HTTP+SSE until either side leaves.
func (x *exchange) openLink() {
	if !x.linkRequest(http.MethodGet) {
		return
	}
	switch {
	case !x.takesSSE:
		x.refuse(translate.CondNotAcceptable, "want Accept: text/event-stream", nil)
		return
	case x.r.ContentLength != 0:
		x.refuse(translate.CondInvalidRequest, "GET with a body", nil)
		return
	case x.s.draining():
		x.refuse(translate.CondDraining, "", nil)
		return
	}
	x.caller.Header = translate.RequestHeaders(x.r.Header, translate.Legacy)
	if !x.payVerb(true) {
		return
	}
	// What ends with the client is ended by close, in its order.
	k := newSSELink(x)
	k.until = x.until
	if !x.s.links.add(k) {
		x.s.o.Metrics.Limited("links")
		x.refuse(translate.CondTooMany, "too many clients; try again later", nil)
		return
	}
	x.s.enter()
	defer x.s.leave()
	defer k.close()
	defer x.s.links.drop(k)
	x.kind = kindGet
	x.tap.conn = k.conv.o.Conn
	x.showRequest(x.frame(x.stream(), nil))
	x.begin(nil, nil)
	x.buf = sse.AppendNamed(x.buf[:0], "endpoint", []byte(x.s.links.announced(x.r, k.id)))
	err := x.flush()
	if err == nil {
		err = x.runLink(k)
	}
	if err != nil {
		x.s.o.Logger.Debug("client stream ended", "error", err)
	}
}

// linkRequest is what both of a link's paths check first.
func (x *exchange) linkRequest(verb string) bool {
	x.caller.Era = translate.Legacy
	if x.r.Method != verb {
		x.w.Header()["Allow"] = []string{verb}
		x.refuse(translate.CondVerb, "", nil)
		return false
	}
	if cond, detail := x.readHeaders(); cond != translate.CondNone {
		x.refuse(cond, detail, nil)
		return false
	}
	return true
}

// runLink writes what there is for the client. It returns when the client has
// left, the server ends, or no session was begun for too long.
func (x *exchange) runLink(k *sseLink) error {
	wait := time.NewTimer(x.s.o.Limits.KeepAlive)
	defer wait.Stop()
	unused := time.NewTimer(x.s.o.Limits.IdleTimeout)
	defer unused.Stop()
	closing := x.s.closing
	expiry := newExpiry(k.expires())
	defer expiry.stop()
	for {
		for raw := k.next(); raw != nil; raw = k.next() {
			x.buf = sse.AppendHead(x.buf[:0], "message", "")
			err := x.flushData(raw)
			k.room.Release(eventSize(raw))
			if err != nil {
				return err
			}
			wait.Reset(x.s.o.Limits.KeepAlive)
		}
		if closing == nil && k.idle() {
			return nil
		}
		select {
		case <-k.wake:
		case <-wait.C:
			x.buf = sse.AppendComment(x.buf[:0], "")
			if err := x.flush(); err != nil {
				return err
			}
			wait.Reset(x.s.o.Limits.KeepAlive)
		case <-unused.C:
			if !k.hasSession() && k.idle() {
				return errors.New("no session was begun on it")
			}
			unused.Reset(x.s.o.Limits.IdleTimeout)
		case <-expiry.c:
			if expiry.reset(k.expires()) {
				return errExpired
			}
		case <-closing:
			closing = nil // calls in flight are still answered
		case <-x.s.cut:
			return nil
		case <-x.r.Context().Done():
			return nil
		case <-k.conv.ctx.Done():
			return nil
		}
	}
}

// expiry fires when a link's token expires; never, where there is none.
type expiry struct {
	t *time.Timer
	c <-chan time.Time
}

func newExpiry(at time.Time) *expiry {
	if at.IsZero() {
		return &expiry{}
	}
	t := time.NewTimer(time.Until(at))
	return &expiry{t, t.C}
}

// reset waits for a later time; it is true where that has come.
func (e *expiry) reset(at time.Time) bool {
	left := time.Until(at)
	if left <= 0 {
		return true
	}
	e.t.Reset(left)
	return false
}

func (e *expiry) stop() {
	if e.t != nil {
		e.t.Stop()
	}
}

// postLink serves a message of a client of HTTP+SSE. It is answered with 202;
// what comes back goes to the client's stream.
func (x *exchange) postLink() {
	if !x.linkRequest(http.MethodPost) {
		return
	}
	k, cond := x.linkOf()
	if cond != translate.CondNone {
		x.refuse(cond, "no stream is open for this session, or it is not yours", nil)
		return
	}
	x.count()
	if !x.mediaType() {
		return
	}
	raw, ok := x.body()
	if !ok {
		return
	}
	x.caller.Header = translate.RequestHeaders(x.r.Header, translate.Legacy)
	msg, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if errors.Is(err, jsonrpc.ErrBatch) {
		x.batchLink(k, raw)
		return
	}
	if err != nil {
		x.refuseDecode(err)
		return
	}
	if x.linkMessage(k, msg) {
		k.as(x.caller, x.until)
		if over := x.pay(msg); over.Refused() {
			// A widely used client of this transport ends at a post's refusal.
			x.tap.parts = true
			done, ok := k.run(func() { k.conv.overDue(msg, nil, k.conv.hear(msg), over, "") })
			x.acceptAfter(done, ok)
			return
		}
		x.deliver(k, msg)
	}
}

func (x *exchange) linkOf() (*sseLink, translate.Cond) {
	ids := x.r.URL.Query()[sessionParam]
	if len(ids) != 1 {
		return nil, translate.CondUnknownSession
	}
	return x.s.links.find(ids[0], x.caller)
}

// linkMessage checks one message against its headers. Modern revisions have no
// such transport (2026-07-28 streamable-http, HTTP+SSE Transport).
func (x *exchange) linkMessage(k *sseLink, msg *jsonrpc.Message) bool {
	x.tap.conn, x.tap.msg = k.conv.o.Conn, msg
	if msg.Kind == jsonrpc.Request {
		x.id = msg.ID
	}
	c, cond := translate.Classify(x.r.Header, msg)
	switch {
	case c.Era == translate.Modern:
		x.refuse(translate.CondInvalidRequest, "HTTP+SSE carries legacy revisions only; post to "+x.s.o.Path, nil)
		return false
	case cond != translate.CondNone:
		x.refuse(cond, c.Detail, c.Data)
		return false
	case msg.Kind == jsonrpc.Request && x.s.draining():
		x.refuse(translate.CondDraining, "", nil)
		return false
	}
	return true
}

// deliver hands a message over and answers the post.
func (x *exchange) deliver(k *sseLink, msg *jsonrpc.Message) {
	if msg.Kind != jsonrpc.Request {
		done, ok := k.run(func() { k.conv.message(msg, nil) })
		x.acceptAfter(done, ok)
		return
	}
	if len(k.conv.free) == cap(k.conv.free) {
		x.s.o.Metrics.Limited("requests")
		x.refuse(translate.CondTooMany, "too many requests in flight", nil)
		return
	}
	x.tap.parts = true // the link shows what comes of it
	heard := k.begin(msg, x.took, x.dues)
	x.took = reservation{all: x.took.all, large: x.took.large} // the request has it now
	x.dues.held = 0
	_, ok := k.run(func() {
		k.conv.message(msg, nil)
		if !k.flies(msg) { // it was refused
			k.end(msg)
		}
	})
	if !ok {
		k.end(msg)
		x.refuse(translate.CondUnknownSession, "the stream of this session has ended", nil)
		return
	}
	t := time.NewTimer(acceptAfter)
	defer t.Stop()
	var out session.Out
	refused := false
	select {
	case out, refused = <-heard:
	case <-t.C:
		if !k.accept(msg) {
			out, refused = <-heard
		}
	case <-x.r.Context().Done():
		k.accept(msg)
		return
	}
	if !refused {
		x.accept()
	} else if err := x.plain(out.Status, out.Header, nil); err != nil {
		x.s.o.Logger.Debug("refusal not delivered", "error", err)
	}
}

func (x *exchange) acceptAfter(done <-chan struct{}, ok bool) {
	if !ok {
		x.refuse(translate.CondUnknownSession, "the stream of this session has ended", nil)
		return
	}
	<-done
	x.tap.parts = true
	x.accept()
}

// accept answers a post whose message was taken.
func (x *exchange) accept() {
	if err := x.plain(http.StatusAccepted, nil, nil); err != nil {
		x.s.o.Logger.Debug("acceptance not delivered", "error", err)
	}
}

// batchLink serves an array of messages, which 2025-03-26 alone has.
func (x *exchange) batchLink(k *sseLink, raw []byte) {
	msgs, cond, detail := x.splitBatch(raw)
	x.caller.Era = translate.Legacy
	if cond == translate.CondNone && !k.batches() {
		cond, detail = translate.CondInvalidRequest, jsonrpc.ErrBatch.(*jsonrpc.DecodeError).Msg
	}
	if cond != translate.CondNone {
		x.refuse(cond, detail, nil)
		return
	}
	if len(k.conv.free)+len(msgs) > cap(k.conv.free) {
		x.s.o.Metrics.Limited("requests")
		x.refuse(translate.CondTooMany, "too many requests in flight", nil)
		return
	}
	k.as(x.caller, x.until)
	if over := x.payAll(msgs); over.Refused() {
		x.refuseDue(over)
		return
	}
	x.acceptAfter(k.run(func() { k.conv.takeBatch(raw) }))
}
