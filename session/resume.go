package session

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// legacyGet opens the stream a legacy client asks for with GET: one it has
// read before, where it names its last event, else a new one.
func (r *Runner) legacyGet(ev Event, s *ClientStream) {
	last := ev.Frame.HTTP.Header.Get(translate.HeaderLastEvent)
	if last == "" {
		r.newGet(ev, s)
		return
	}
	id, ok := r.parseEventID(ev.Session.ID, last)
	if !ok {
		r.refuse(s, translate.Legacy, nil, translate.CondInvalidRequest, "Last-Event-ID names no event of this session; open a new stream without it")
		return
	}
	if l, kept := r.clientLog(id.stream); kept && l.Session == ev.Session.ID {
		if l.Over && id.seq >= l.Last {
			r.nothingLeft(ev, id, s)
			return
		}
		r.resumeLog(l, id, ev.Session, s)
		return
	}
	if id.get {
		// Its events are gone, so what the client knows may be out of date: it
		// gets a new stream and is told what it may have missed.
		r.log.Info("a client came back for a GET stream that is no longer kept; it gets a new one")
		r.metrics.Dropped("event")
		r.newGet(ev, s)
		r.sayStale(s, ev.Session, "")
		return
	}
	s.Send(r.lostReply(id.id))
}

// nothingLeft: the client has all of a stream that is over. One of the
// session's own begins anew. For that of a request, which was cancelled if it
// has no answer, there is no stream to offer, and 405 says so (2025-11-25
// basic/transports, Listening for Messages); clients come back again and again
// to a stream that just ends.
func (r *Runner) nothingLeft(ev Event, id eventID, s *ClientStream) {
	if id.get {
		r.newGet(ev, s)
		return
	}
	out := refusal(translate.Legacy, jsonrpc.ID{}, translate.CondVerb, "this stream is over; nothing more comes on it", nil)
	out.Header = http.Header{"Allow": {"POST, DELETE"}}
	s.Send(out)
}

// newGet opens a new GET stream. Those its client has left are over: without
// an id it will not come back to them.
func (r *Runner) newGet(ev Event, s *ClientStream) {
	r.keepEvents(s, ev.Session, nil)
	op := sessionOp(ev.Session.ID)
	if ev.Session.Era == translate.Legacy {
		op = passOp(ev.Session.ID, s.ID)
	}
	list, _ := r.store.List(r.ctx, logIndex(ev.Session.ID), "", resumeStreams)
	var left []string
	for _, e := range list {
		l, ok := r.clientLog(streamOfIndex(e.Key))
		if !ok || len(l.ID) > 0 || l.Reader != "" || l.Over {
			continue
		}
		if ev.Session.Era == translate.Legacy && l.Op != "" && op == passOp(ev.Session.ID, s.ID) {
			// A server may refuse a second GET stream while it believes the first
			// to be open, so the exchange goes on for the new one.
			op = l.Op
			r.deliver(logOp(l.Stream), Event{Kind: EvOp, Name: "op"})
		}
		left = append(left, l.Stream)
	}
	r.start(op, ev, s)
	for _, stream := range left {
		r.dropLog(stream)
	}
}

// lostReply answers a request whose reply is no longer kept: better than a
// client that waits for ever.
func (r *Runner) lostReply(id []byte) Out {
	r.metrics.Dropped("event")
	out := refusal(translate.Legacy, rawID(id), translate.CondInternal,
		"the reply to this request is no longer kept; look whether it has run, then ask again", []byte(`{"reason":"reply_lost"}`))
	out.Status = 0
	return out
}

// sayStale tells a client which of its knowledge may be out of date after
// events of its GET stream were lost.
func (r *Runner) sayStale(s *ClientStream, sess *legacySession, eventID string) {
	for _, c := range listChanges {
		if slices.Contains(sess.Lists, c.filter) {
			s.Send(Out{Raw: jsonrpc.NewNotification(c.method, nil), EventID: eventID})
		}
	}
	for _, uri := range sess.Subs {
		s.Send(Out{Raw: jsonrpc.NewNotification("notifications/resources/updated", jsonrpc.NewObject().Str("uri", uri).Bytes()), EventID: eventID})
	}
}

// resumeLog lets a new connection read a log from where the client left it.
func (r *Runner) resumeLog(l *clientLog, id eventID, sess *legacySession, s *ClientStream) {
	ctx, stop := context.WithCancel(r.ctx)
	done := r.clock.Gate()
	r.deliver(logOp(l.Stream), Event{Kind: EvOp, Name: "resume", Data: []byte(s.ID), stepped: done.Open})
	done.Wait()
	r.mu.Lock()
	a := r.streams[s.ID]
	if a != nil {
		a.follows, a.stop = l.Stream, stop
	}
	r.mu.Unlock()
	if a == nil { // left already
		stop()
		r.deliver(logOp(l.Stream), Event{Kind: EvOp, Name: "away", Data: []byte(s.ID)})
		return
	}
	s.Send(Out{Begin: true})
	f := follower{r: r, log: l, sess: sess, s: s, after: id.seq, token: r.eventToken(sess.ID, l.Stream, l.ID)}
	r.wg.Go(func() {
		defer stop()
		f.run(ctx)
	})
}

// follower writes a log's events to a connection until the last one.
type follower struct {
	r     *Runner
	log   *clientLog
	sess  *legacySession
	s     *ClientStream
	after uint64
	token string
}

func (f *follower) run(ctx context.Context) {
	for f.reads() {
		entries, err := f.r.store.Read(ctx, logName(f.log.Stream), f.after, 16)
		if err != nil && !errors.Is(err, ErrNotFound) {
			if ctx.Err() == nil {
				f.r.storeFailed("read event log", err)
				f.s.drop(false)
			}
			return
		}
		if err != nil && !f.gap(entries) {
			return
		}
		for _, e := range entries {
			f.s.waitRoom(ctx, slowClient)
			f.after = e.Seq
			if !f.reads() || !f.write(e) {
				return
			}
		}
	}
}

// reads says whether this connection still is the one that lives; else it ends.
func (f *follower) reads() bool {
	l, kept := f.r.clientLog(f.log.Stream)
	if kept && l.Reader == f.s.ID {
		return true
	}
	f.s.drop(kept)
	return false
}

// write says whether more may follow.
func (f *follower) write(e LogEntry) bool {
	if len(e.Value) == 0 {
		return true
	}
	kind := e.Value[0]
	final := kind&keptFinal != 0
	if kind&keptNot != 0 {
		return f.missing(final || kind&keptAsks != 0)
	}
	out := Out{Raw: e.Value[1:], Final: final}
	if len(out.Raw) == 0 {
		out.Raw = nil
	} else {
		out.EventID = f.token + string(intRaw(int64(e.Seq)))
	}
	return f.s.Send(out) && !final
}

// gap: events the client has not seen have left the log. Notifications may be
// missed; a request nobody saw would be waited for in vain.
func (f *follower) gap(left []LogEntry) bool {
	if len(left) == 0 {
		return f.missing(true)
	}
	l, ok := f.r.clientLog(f.log.Stream)
	first := left[0].Seq
	asked := !ok || slices.ContainsFunc(l.Asked, func(n uint64) bool { return f.after < n && n < first })
	return f.missing(asked)
}

// missing: an event cannot be given to the client any more. It says whether
// the stream can go on without it.
func (f *follower) missing(needed bool) bool {
	f.r.metrics.Dropped("event")
	f.r.log.Info("a client came back for events that are no longer kept", "needed", needed)
	switch {
	case len(f.log.ID) == 0:
		f.r.sayStale(f.s, f.sess, "")
	case needed:
		f.s.Send(f.r.lostReply(f.log.ID))
		f.r.dropLog(f.log.Stream)
		return false
	}
	return true
}

// send queues on a client stream of this runner, keeps what is for a client
// that is away, or passes it on to the runner that holds the stream.
func (r *Runner) send(stream string, out Out) {
	out = r.questions.asks(out)
	r.mu.Lock()
	a := r.streams[stream]
	r.mu.Unlock()
	if a != nil {
		a.stream.Send(out)
		return
	}
	holder := streamRunner(stream)
	if l, kept := r.clientLog(stream); kept {
		// Kept first, so that the log has all in the order it was said, also where
		// the holder hears of it when the stream has been taken over.
		out.Kept = r.keepAway(l, out)
		if l.Reader != stream || holder == r.id {
			return
		}
	}
	if holder != r.id && holder != "" {
		r.post(holder, inboxItem{Stream: stream, Out: &out})
	}
}

// gone: the reader of a client stream has left. Where it may come back the
// operation goes on and does not hear of it.
func (r *Runner) gone(s *ClientStream) {
	r.mu.Lock()
	a := r.streams[s.ID]
	delete(r.streams, s.ID)
	if a != nil {
		r.endWait(a)
	}
	r.mu.Unlock()
	if s.seen != nil {
		defer r.keepSeen(s)
	}
	switch {
	case a == nil:
	case a.follows != "":
		a.stop()
		r.deliver(logOp(a.follows), Event{Kind: EvOp, Name: "away", Data: []byte(s.ID)})
	case a.op == "":
	case s.opens:
		if s.Unheard() {
			r.deliver(a.op, Event{Kind: EvClientGone, Label: s.ID, Name: "unheard"})
		}
	case s.finished():
	case s.away() && r.mayReturn(s):
		r.deliver(logOp(s.ID), Event{Kind: EvOp, Name: "away", Data: []byte(s.ID)})
	default:
		r.deliver(a.op, Event{Kind: EvClientGone, Label: s.ID})
	}
}

// mayReturn: the client has an event id to come back with, and there is
// something to come back to. The log of another is dropped.
func (r *Runner) mayReturn(s *ClientStream) bool {
	if _, kept := r.clientLog(s.ID); !kept {
		return false
	}
	if l, ok := s.log.(*streamLog); ok && !l.given.Load() {
		r.dropLog(s.ID)
		return false
	}
	return true
}

// detached says whether a stream's client is away but may come back.
func (x *Exec) detached(stream string) bool {
	l, kept := x.r.clientLog(stream)
	return kept && l.Reader == ""
}

// cutStream ends the connection of a stream, wherever it is held; its
// operation goes on.
func (r *Runner) cutStream(e Cut) {
	r.mu.Lock()
	a := r.streams[e.Stream]
	r.mu.Unlock()
	if a != nil {
		a.stream.drop(e.Taken)
	} else if holder := streamRunner(e.Stream); holder != r.id && holder != "" {
		r.post(holder, inboxItem{Stream: e.Stream, Cut: true, Taken: e.Taken})
	}
}

// forgetLog drops a log's events. A stream that is still written to must not
// begin them anew.
func (r *Runner) forgetLog(stream string, live bool) {
	r.kept.remove(stream)
	r.endAway(stream, Out{}, false)
	if holder := streamRunner(stream); live && holder != r.id && holder != "" {
		r.post(holder, inboxItem{Stream: stream, Unlog: true})
	}
	r.mu.Lock()
	a := r.streams[stream]
	r.mu.Unlock()
	if a != nil {
		if l, ok := a.stream.log.(*streamLog); ok {
			l.dead.Store(true)
		}
	}
	if err := r.store.Drop(r.ctx, logName(stream)); err != nil {
		r.storeFailed("drop event log", err)
	}
}

// isGet: the client opens a stream with GET.
func isGet(ev Event) bool {
	return ev.Frame.Msg == nil && ev.Frame.HTTP != nil && ev.Frame.HTTP.Verb == http.MethodGet
}
