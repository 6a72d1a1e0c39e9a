package downstream

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/sse"
)

// kind tells apart what ends how when the server does.
type kind uint8

const (
	kindCall   kind = iota // waited for until the drain deadline
	kindListen             // ended by its result
	kindGet                // just ended
)

// source yields what an exchange writes. *session.ClientStream is one.
type source interface {
	NextBefore(ctx context.Context, timeout <-chan time.Time, stop <-chan struct{}) (o session.Out, ok, timedOut bool)
	Gone()
}

// events gives a reply's events ids, where the client may come back for them.
// *session.ClientStream is one.
type events interface {
	OpenEvents(first *session.Out) (prime session.Out, ok bool)
}

var (
	valJSON      = []string{"application/json"}
	valSSE       = []string{"text/event-stream"}
	valNoBuffer  = []string{"no"}
	valClose     = []string{"close"}
	valSoonAgain = []string{"1"}
)

const (
	writePiece = 64 << 10
	keptBuffer = 64 << 10
	// ownLength is the length from which a reply's length is said here: that of
	// what it can hold back net/http counts itself, at no cost.
	ownLength = 1 << 11
)

// answer writes what src yields until its final Out. The first Out decides the
// form: final at once is a plain reply, else an event stream; so does silence,
// since clients and the boxes between give up on connections that say nothing.
func (x *exchange) answer(src source) {
	defer src.Gone()
	ctx, end := x.r.Context(), x.s.end(x.kind)
	wait := time.NewTimer(x.within(x.s.o.Limits.Silence))
	defer wait.Stop()
	for {
		out, ok, silent := src.NextBefore(ctx, wait.C, end)
		var err error
		switch {
		case ok:
			if x.opens && out.Final {
				err = x.greet(src, out)
			} else {
				err = x.put(out)
			}
			if err == nil && out.Final {
				return
			}
			if err == nil && x.expired() { // it may never be silent
				x.endExpired()
				return
			}
		case ctx.Err() != nil:
			x.unanswered()
			return
		case silent && x.expired():
			x.endExpired()
			return
		case silent:
			err = x.keepAlive()
		case closed(end):
			x.endDrained()
			return
		default:
			// Ended without an end: the stream passed a bound.
			x.breakOff()
			return
		}
		if err != nil {
			x.s.o.Logger.Debug("client stream ended", "error", err)
			return
		}
		if x.streaming {
			wait.Reset(x.within(x.s.o.Limits.KeepAlive))
		} else {
			wait.Reset(x.within(x.s.o.Limits.Silence))
		}
	}
}

// unanswered: net/http takes a client for gone that has closed its half of the
// connection alone, and answers 200 where nothing is said here. Such a client is
// not to take that for an empty answer.
func (x *exchange) unanswered() {
	if x.status == 0 && x.r.ProtoMajor == 1 {
		http.Error(x.w, "the connection was closed before the answer", http.StatusBadRequest)
	}
}

// greet puts the answer to initialize, and says where its client was gone by
// then: the session it names would stay until it was idle for long, with nobody
// who knows it. What net/http holds back until the handler returns would fail
// unseen, so it goes out here.
func (x *exchange) greet(src source, out session.Out) error {
	left := x.r.Context().Err() != nil
	err := x.put(out)
	if err == nil {
		err = x.rc.Flush()
	}
	if s, ok := src.(interface{ Lost() }); ok && (left || err != nil) {
		s.Lost()
	}
	return err
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// put writes one Out in the form the reply has, or gives it one.
func (x *exchange) put(out session.Out) error {
	failed := out.Status >= 300
	if out.Final && !x.streaming && (x.takesJSON || failed || out.Raw == nil && x.kind != kindGet) {
		return x.plain(out.Status, out.Header, out.Raw)
	}
	if !x.takesSSE {
		// This client accepts application/json only: the final message is all
		// it can be told.
		return nil
	}
	if !x.streaming {
		x.begin(out.Header, &out)
	}
	return x.event(out)
}

// plain is the whole reply in one write. Out.Raw nil means no body and then no
// Content-Type either (202 for notifications, 2025-11-25 Sending Messages).
func (x *exchange) plain(status int, header http.Header, raw []byte) error {
	if status == 0 {
		status = http.StatusOK
	}
	h := x.w.Header()
	x.copyHeader(header)
	if raw != nil {
		h["Content-Type"] = valJSON
		if len(raw) >= ownLength || x.opens { // that one is flushed
			h["Content-Length"] = []string{strconv.Itoa(len(raw))}
		}
	}
	x.closeAfterChunked(h)
	x.showReply(status, raw)
	x.status = status
	x.w.WriteHeader(status)
	if raw == nil {
		return nil
	}
	return x.write(raw)
}

// closeAfterChunked: net/http silently prefers Transfer-Encoding over a
// Content-Length beside it. Such a request may be two to another hop, so the
// connection must not carry a next one (RFC 9112 section 6.3); requests with
// both cannot be told apart here from honest chunked ones.
func (x *exchange) closeAfterChunked(h http.Header) {
	if x.r.ProtoMajor == 1 && len(x.r.TransferEncoding) > 0 {
		h["Connection"] = valClose
	}
}

// copyHeader takes over what may be said to a client; whatever else stands in
// an Out stays here.
func (x *exchange) copyHeader(header http.Header) {
	if len(header) == 0 {
		return
	}
	h := x.w.Header()
	maps.Copy(h, translate.ResponseHeaders(header))
	if lines := h["Www-Authenticate"]; len(lines) > 0 && x.s.o.ChallengeURL != "" {
		h["Www-Authenticate"] = translate.ChallengeWith(lines, x.s.o.ChallengeURL)
	}
	for _, name := range []string{translate.HeaderSession, "Allow"} {
		if v := header[name]; len(v) > 0 {
			h[name] = v
		}
	}
	if x.caller.Era == translate.Modern {
		// streamable-http, Earlier Revisions: do not mint session ids.
		delete(h, translate.HeaderSession)
	}
}

// begin makes an event stream of the reply; first is what is written next.
func (x *exchange) begin(header http.Header, first *session.Out) {
	if x.caller.Era == translate.Legacy && x.events != nil {
		if prime, ok := x.events.OpenEvents(first); ok && prime.EventID != "" && x.mayPrime() {
			x.head = sse.AppendComment(x.head, "")
			x.head = sse.AppendRetry(x.head, time.Duration(prime.RetryMS)*time.Millisecond)
			x.head = sse.AppendEvent(x.head, prime.EventID, nil)
		}
	}
	h := x.w.Header()
	x.copyHeader(header)
	h["Content-Type"] = valSSE
	h["X-Accel-Buffering"] = valNoBuffer
	x.closeAfterChunked(h)
	x.streaming, x.status = true, http.StatusOK
	if x.kind == kindGet {
		x.showReply(http.StatusOK, nil) // of others it is shown with their first message
	}
	x.s.o.Metrics.Streams(1)
	x.w.WriteHeader(http.StatusOK)
}

// event writes an Out to the event stream. Ids, and the empty event that
// primes a client to resume, are legacy; clients before 2025-11-25 run their
// JSON parser on that event's data.
func (x *exchange) event(out session.Out) error {
	x.buf = append(x.buf[:0], x.head...)
	x.head = nil
	id := out.EventID
	if x.caller.Era == translate.Modern {
		id, out.RetryMS = "", 0
	}
	if out.RetryMS > 0 {
		x.buf = sse.AppendRetry(x.buf, time.Duration(out.RetryMS)*time.Millisecond)
	}
	switch {
	case out.Raw != nil:
		x.showReply(http.StatusOK, out.Raw)
		x.buf = sse.AppendHead(x.buf, "", id)
		return x.flushData(out.Raw)
	case id != "" && x.mayPrime():
		x.buf = sse.AppendEvent(x.buf, id, nil)
	case out.Final && out.RetryMS <= 0 && len(x.buf) == 0:
		return nil
	default:
		// Headers alone look like a hung stream behind HTTP/2 front ends.
		x.buf = sse.AppendComment(x.buf, "")
	}
	return x.flush()
}

// mayPrime: the header's revision knows priming events; without the header the
// session's own revision counts, which the hub looked at.
func (x *exchange) mayPrime() bool {
	f, known := translate.Lookup(x.caller.Version)
	return !known || f.Priming
}

// keepAlive writes a comment, which opens the event stream if need be.
func (x *exchange) keepAlive() error {
	if !x.takesSSE || x.quiet && !x.streaming {
		return nil
	}
	if !x.streaming && x.opens {
		// The session's id stands in the header of the reply with the result
		// (2025-11-25 basic/transports, Session Management), which is not here yet.
		return nil
	}
	if !x.streaming {
		x.begin(nil, nil)
	}
	x.buf = sse.AppendComment(append(x.buf[:0], x.head...), "")
	x.head = nil
	return x.flush()
}

// flushData writes what x.buf holds, a message as the data of the event it ends
// in, and the event's end. A large message is not copied whole.
func (x *exchange) flushData(raw []byte) error {
	for len(raw) > keptBuffer {
		x.buf = jsonrpc.Compact(x.buf, raw[:writePiece])
		if err := x.write(x.buf); err != nil {
			return err
		}
		x.buf, raw = x.buf[:0], raw[writePiece:]
	}
	x.buf = append(jsonrpc.Compact(x.buf, raw), sse.End...)
	return x.flush()
}

func (x *exchange) flush() error {
	err := x.write(x.buf)
	if err == nil {
		err = x.rc.Flush()
	}
	// HTTP/2 resets a stream when its deadline passes, write or no write.
	x.rc.SetWriteDeadline(time.Time{})
	if cap(x.buf) > keptBuffer {
		x.buf = nil
	}
	return err
}

// write sends p in pieces, each within the write bound: a slow reader is
// waited for as long as it reads.
func (x *exchange) write(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), writePiece)
		x.rc.SetWriteDeadline(time.Now().Add(x.s.o.Limits.WriteTimeout))
		if _, err := x.w.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// breakOff ends a reply that has no final message. A stream just ends, which
// clients take for a lost connection.
func (x *exchange) breakOff() {
	if x.status == 0 {
		x.refuse(translate.CondInternal, "the reply was lost", nil)
	}
}

// endDrained says goodbye when the server stops. A listen gets its result
// (2026-07-28 subscriptions, Graceful Closure), a modern call an error, since
// it cannot be resumed; a legacy stream just ends and can be.
func (x *exchange) endDrained() {
	switch {
	case x.kind == kindListen && x.streaming:
		x.endListen()
	case x.status == 0:
		x.refuse(translate.CondDraining, "", nil)
	case x.caller.Era == translate.Modern && !x.id.IsZero():
		_, code := translate.StatusOf(translate.CondDraining, translate.Modern)
		x.put(session.Out{Raw: jsonrpc.NewError(x.id, code, string(translate.CondDraining), nil), Final: true})
	}
}

func (x *exchange) endListen() {
	meta := jsonrpc.NewObject().Raw(translate.MetaSubscription, x.id.Raw()).Bytes()
	result := jsonrpc.NewObject().Str("resultType", "complete").Raw("_meta", meta).Bytes()
	x.put(session.Out{Raw: jsonrpc.NewResult(x.id, result), Final: true})
}

// refuse answers a request that goes no further. It is the only place here
// where a condition becomes a reply.
func (x *exchange) refuse(cond translate.Cond, detail string, data []byte) {
	status, code := translate.StatusOf(cond, x.caller.Era)
	code = translate.CodeFor(code, x.caller.Version)
	text := string(cond)
	if detail != "" {
		text = detail
	}
	h := x.w.Header()
	switch cond {
	case translate.CondBusy, translate.CondDraining, translate.CondTooMany, translate.CondUndecided:
		if len(h["Retry-After"]) == 0 {
			h["Retry-After"] = valSoonAgain
		}
	}
	unread := !x.bodyRead && x.r.ContentLength != 0
	if x.r.ProtoMajor == 1 && (unread || cond == translate.CondDraining) {
		h["Connection"] = valClose
	}
	if unread {
		// net/http wants to read the rest of a body before it lets go.
		x.rc.SetReadDeadline(time.Now().Add(time.Second))
	}
	x.s.o.Metrics.Refused(cond)
	x.s.o.Logger.Debug("request refused", "why", text, "status", status, "era", x.caller.Era.String())
	raw := jsonrpc.NewError(x.id, code, text, data)
	x.tap.parts = false
	x.showRequest(x.frame(x.stream(), nil))
	if err := x.plain(status, nil, raw); err != nil {
		x.s.o.Logger.Debug("refusal not delivered", "error", err)
	}
}

func (x *exchange) refuseDecode(err error) {
	x.caller.Era = translate.Legacy
	if translate.ModernHeader(x.r.Header) {
		x.caller.Era = translate.Modern
	}
	cond, detail := translate.CondParse, "parse error"
	if de, ok := errors.AsType[*jsonrpc.DecodeError](err); ok {
		x.id, detail = de.ID, de.Msg
		if de.Code == jsonrpc.CodeInvalidRequest {
			cond = translate.CondInvalidRequest
		}
	}
	x.refuse(cond, detail, nil)
}

// refuseClassified answers in the request's id; a refused notification or
// response gets an error without one (2026-07-28 streamable-http, Sending
// Messages).
func (x *exchange) refuseClassified(cond translate.Cond, c translate.Classified, msg *jsonrpc.Message) {
	if msg.Kind != jsonrpc.Request {
		x.id = jsonrpc.ID{}
	}
	x.showRequest(x.frame(x.stream(), msg))
	if cond == translate.CondUnsupportedVersion && c.Era == translate.Modern && x.s.o.Supported != nil {
		// What server/discover says here must hold the same revisions.
		c.Data = translate.VersionData(c.Version, x.s.o.Supported(x.r.Context(), x.caller))
	}
	x.refuse(cond, c.Detail, c.Data)
}

// finish gives back what the request took.
func (x *exchange) finish() {
	x.took.release()
	x.dues.letGo()
	if x.streaming {
		x.showReply(http.StatusOK, nil)
		x.s.o.Metrics.Streams(-1)
	}
	if x.status > 0 {
		x.s.o.Metrics.Request(x.caller.Era, x.r.Method, x.status, time.Since(x.start))
	}
	if givenUp(x.r) {
		x.s.o.Logger.Warn("closed an HTTP/2 connection: its client resets too many requests", "address", x.r.RemoteAddr)
	}
}
