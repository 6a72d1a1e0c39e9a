package downstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"taskbridge/session"
	"taskbridge/session/throttle"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// maxFlying bounds the requests of the client that are in flight. Past it
// nothing more is read until one is answered.
const maxFlying = 1024

// linkOptions say who is at the other end of a clientLink.
type linkOptions struct {
	Hub   session.Hub
	Who   session.Caller     // Principal, Open, Address and Credential of every message
	Write func([]byte) error // sends one message; one caller at a time; an error is the end
	// Refuse is asked why no new requests are taken; nil: they always are.
	Refuse func() translate.Cond
	// Crowded: a request past maxFlying is refused, not waited with.
	Crowded bool
	// Watch, if set, is told of requests.
	Watch flightWatch
	// Post, if set, sends one message in place of Write, and several callers at
	// once may use it.
	Post func([]byte) error

	Supported func(context.Context, session.Caller) []string // as StdioOptions'
	Budget    *session.Budget                                // drawn on by requests over 64 KiB in flight; nil: none
	// Dues finds what the client has used of its limits, anew for each message:
	// limits change while a link is open, and so does who shares them. Nil: none,
	// or they are looked after elsewhere. Limited, if set, is told of refusals for
	// them.
	Dues    func() throttle.Caller
	Limited func(limit string)
	Logger  *slog.Logger
	Tap     session.Tap // nil: nobody looks
	// Transport and Conn are how the tap knows this link.
	Transport, Conn string
	Peer            netip.AddrPort // with Proto as in translate.Envelope
	Proto           string
}

// clientLink is a client all of whose messages share one channel. The channel
// carries what over HTTP headers do: its legacy session, who it is.
type clientLink struct {
	o    linkOptions
	ctx  context.Context // its cause says why the connection ends
	end  context.CancelCauseFunc
	wg   sync.WaitGroup
	free chan struct{}
	took atomic.Int64 // messages of the client, which name their streams for the tap

	wmu sync.Mutex // held while a message is written

	mu     sync.Mutex // protects the fields below
	flying map[string]*flight
	opened bool // a request was answered by more than a failure to reach the server
	legacy legacyLink
	who    session.Caller // as o.Who; over HTTP+SSE each message may bring a newer credential
}

// flightWatch is told of requests by a transport that answers each of them in a
// way of its own beside. Its methods do not block.
type flightWatch interface {
	// heard: out came back for f. It is true where the client has been told, of
	// an end that is a status alone.
	heard(f *flight, out session.Out) bool
	over(f *flight)
}

// flight is a request of the client that has not been answered.
type flight struct {
	id     jsonrpc.ID
	caller session.Caller
	msg    *jsonrpc.Message
	stream *session.ClientStream
	stop   context.CancelFunc
	// silent: it was cancelled, so it gets no answer (2026-07-28
	// basic/patterns/cancellation).
	silent bool
	// answered: its answer is being written; who has read it may use the id
	// again before we hear that it is written.
	answered bool
	// cancelled: a legacy one was; the hub decides what comes of it.
	cancelled bool
	batch     *linkBatch
	tap       string // the stream of the request and its answer, for the tap
	retry     bool   // it was sent again in a new session
	took      int64  // of the budget
	held      int64  // of what the client may have under way, by dues
	dues      throttle.Caller
}

func newClientLink(ctx context.Context, o linkOptions) *clientLink {
	s := &clientLink{o: o, flying: map[string]*flight{}, free: make(chan struct{}, maxFlying), who: o.Who}
	s.ctx, s.end = context.WithCancelCause(ctx)
	return s
}

// leave waits until what the client asked for has ended, which its context has
// already, and ends its session.
func (s *clientLink) leave() {
	left := make(chan struct{})
	go func() { defer close(left); s.wg.Wait() }()
	t := time.NewTimer(goodbyeFor)
	defer t.Stop()
	select {
	case <-left:
	case <-t.C: // a client that does not read holds a write up
	}
	// A legacy client cannot come back to its calls: they end with its session.
	s.endSession()
}

// idle: nothing is in flight but what has no end of its own.
func (s *clientLink) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flying {
		if f.msg.Method != "subscriptions/listen" {
			return false
		}
	}
	return true
}

// failAll answers every request in flight with an error, in place of its own
// answer.
func (s *clientLink) failAll(text string) {
	s.mu.Lock()
	var all []*flight
	for _, f := range s.flying {
		if !f.silent {
			f.silent = true
			all = append(all, f)
		}
	}
	s.mu.Unlock()
	for _, f := range all {
		s.answer(f.batch, f.tap, jsonrpc.NewError(f.id, -32603, text, nil))
	}
}

// drain waits until nothing is in flight; read bounds it.
func (s *clientLink) drain() {
	for {
		if s.idle() {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-s.ctx.Done():
			return
		}
	}
}

// take leads one line.
func (s *clientLink) take(raw []byte) {
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if errors.Is(err, jsonrpc.ErrBatch) {
		s.takeBatch(raw)
		return
	}
	if err != nil {
		s.refuseLine(raw, err)
		return
	}
	s.message(m, nil)
}

// refuseLine answers what is no message of the client's. It counts like one.
func (s *clientLink) refuseLine(raw []byte, err error) {
	id, code, text, data := jsonrpc.NullID(), jsonrpc.CodeParse, "parse error", []byte(nil)
	if de, ok := errors.AsType[*jsonrpc.DecodeError](err); ok {
		code, text = de.Code, de.Msg
		if !de.ID.IsZero() {
			id = de.ID
		}
	}
	if over := s.count(int64(len(raw)), s.dues()); over.Refused() {
		_, code = translate.StatusOf(translate.CondTooMany, translate.Legacy)
		text, data = s.limited(over), dueData(over)
	}
	s.o.Logger.Debug("refused a line", "why", text)
	s.tell("", jsonrpc.NewError(id, code, text, data))
}

// message leads one message. Messages are handed over in their order; answers
// come when they come.
func (s *clientLink) message(m *jsonrpc.Message, b *linkBatch) {
	stream := s.hear(m)
	caller, cond, detail, data := s.caller(m)
	if over := s.pay(m); over.Refused() {
		s.overDue(m, b, stream, over, caller.Version)
		return
	}
	if m.Kind == jsonrpc.Request {
		if cond == translate.CondNone && s.inFlight(m.ID) {
			cond, detail = translate.CondDuplicateID, "a request with this id is still in flight"
		}
		if cond == translate.CondUnsupportedVersion && s.o.Supported != nil {
			data = translate.VersionData(caller.Version, s.o.Supported(s.ctx, caller))
		}
		if cond != translate.CondNone {
			_, code := translate.StatusOf(cond, caller.Era)
			if detail == "" {
				detail = string(cond)
			}
			s.answer(b, stream, jsonrpc.NewError(m.ID, translate.CodeFor(code, caller.Version), detail, data))
			return
		}
		s.request(&flight{id: m.ID, caller: caller, msg: m, batch: b, tap: stream})
		return
	}
	// A modern client's cancel names a request and need not say more of itself.
	if m.Method == "notifications/cancelled" && s.cancel(m) {
		return
	}
	if cond != translate.CondNone {
		s.o.Logger.Debug("dropped a message of the client", "why", detail)
		return
	}
	taken := s.say(m, caller)
	if m.Method == "notifications/initialized" && caller.Era != translate.Modern {
		s.accepted(taken)
		s.mu.Lock()
		s.legacy.ready = true
		s.mu.Unlock()
		s.wg.Go(s.listen)
	}
}

// caller says who sends m. There are no headers here: what they would say is
// taken from the message (2026-07-28 stdio, Request Metadata).
func (s *clientLink) caller(m *jsonrpc.Message) (session.Caller, translate.Cond, string, []byte) {
	s.mu.Lock()
	c := s.who
	s.mu.Unlock()
	h := http.Header{}
	if v := m.At("params", "_meta", translate.MetaVersion); v.Exists() {
		if version, ok := v.Str(); ok {
			h = translate.StandardHeaders(m)
			h[translate.HeaderVersion] = []string{version}
		}
	}
	cl, cond := translate.Classify(h, m)
	c.Era, c.Version = cl.Era, cl.Version
	if c.Era == translate.Modern {
		return c, cond, cl.Detail, cl.Data
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Session, c.Version = s.legacy.id, s.legacy.version
	if c.Session == "" && cond == translate.CondNone && m.Method != "initialize" && m.Method != "ping" {
		cond, cl.Detail = translate.CondNoSession, "send initialize first"
	}
	return c, cond, cl.Detail, cl.Data
}

func (s *clientLink) inFlight(id jsonrpc.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flying[id.Key()]
	return f != nil && !f.answered
}

// request hands a request over and writes what comes back, beside the others.
// The handshake alone is waited for: all that follows depends on it.
func (s *clientLink) request(f *flight) {
	m := f.msg
	if cond := s.room(); cond != translate.CondNone {
		s.refuse(f, cond)
		return
	}
	if n := int64(len(m.Raw)); n > keptBuffer && s.o.Budget != nil {
		if !s.o.Budget.TryAcquire(n) {
			<-s.free
			s.refuse(f, translate.CondBusy)
			return
		}
		f.took = n
	}
	if !s.hold(f) {
		<-s.free
		return
	}
	if m.Method == "initialize" && f.caller.Era != translate.Modern {
		s.endSession()
		f.caller.Session, f.caller.Version = "", ""
		s.mu.Lock()
		s.legacy = legacyLink{initialize: m}
		s.mu.Unlock()
	}
	ctx := s.launch(f)
	s.mu.Lock()
	s.flying[m.ID.Key()] = f
	s.mu.Unlock()
	if f.msg.Method == "initialize" {
		s.pump(ctx, f)
		return
	}
	s.wg.Go(func() { s.pump(ctx, f) })
}

// room says why no further request can be taken; where it can, one of free is.
func (s *clientLink) room() translate.Cond {
	if s.o.Refuse != nil {
		if cond := s.o.Refuse(); cond != translate.CondNone {
			return cond
		}
	}
	select {
	case s.free <- struct{}{}:
		return translate.CondNone
	default:
	}
	if s.o.Crowded {
		return translate.CondBusy
	}
	select {
	case s.free <- struct{}{}:
		return translate.CondNone
	case <-s.ctx.Done():
		return translate.CondDraining
	}
}

func (s *clientLink) refuse(f *flight, cond translate.Cond) {
	if s.ctx.Err() != nil {
		return
	}
	_, code := translate.StatusOf(cond, f.caller.Era)
	s.answer(f.batch, f.tap, jsonrpc.NewError(f.id, translate.CodeFor(code, f.caller.Version), string(cond), nil))
}

// launch gives f to the hub.
func (s *clientLink) launch(f *flight) context.Context {
	ctx, stop := context.WithCancel(s.ctx)
	stream := s.o.Hub.NewStream()
	s.mu.Lock()
	f.stream, f.stop = stream, stop
	s.mu.Unlock()
	in := s.inbound(stream.ID, f.msg, f.caller, http.MethodPost)
	in.Batch = f.batch != nil
	s.o.Hub.Client(ctx, in, stream)
	return ctx
}

func (s *clientLink) inbound(stream string, m *jsonrpc.Message, caller session.Caller, verb string) session.Inbound {
	return session.Inbound{Caller: caller, Frame: translate.Frame{
		Msg: m, Leg: translate.ClientLeg, Dir: translate.ToServer, Stream: stream,
		HTTP: &translate.Envelope{Verb: verb, Peer: s.o.Peer, Proto: s.o.Proto}, Time: time.Now(), Transport: s.o.Transport,
	}}
}

// say hands over what gets no answer. The channel is closed when it was taken,
// or not to be.
func (s *clientLink) say(m *jsonrpc.Message, caller session.Caller) <-chan struct{} {
	taken := make(chan struct{})
	stream := s.o.Hub.NewStream()
	s.o.Hub.Client(s.ctx, s.inbound(stream.ID, m, caller, http.MethodPost), stream)
	s.wg.Go(func() {
		defer close(taken)
		defer stream.Gone()
		for {
			if out, ok := stream.Next(s.ctx); !ok || out.Final {
				return
			}
		}
	})
	return taken
}

// cancel ends a modern request as a closed stream would, without an answer. It
// is false for what the hub is to hear of.
func (s *clientLink) cancel(m *jsonrpc.Message) bool {
	id, err := jsonrpc.IDFromRaw(m.At("params", "requestId").Raw())
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flying[id.Key()]
	switch {
	case f == nil:
		return false
	case f.caller.Era != translate.Modern:
		f.cancelled = true
		return false
	}
	f.silent = true
	f.stop()
	f.stream.Gone() // at once: what follows may depend on it
	return true
}

// write writes one message as one line. A client that has closed its end ends
// the connection.
func (s *clientLink) write(raw []byte) {
	if s.o.Post != nil {
		if err := s.o.Post(raw); err != nil {
			s.end(fmt.Errorf("%w: %w", ErrClientGone, err))
		}
		return
	}
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if err := s.o.Write(raw); err != nil {
		s.end(fmt.Errorf("%w: %w", ErrClientGone, err))
	}
}
