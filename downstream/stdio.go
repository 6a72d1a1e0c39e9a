package downstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/lines"
)

// StdioOptions configure ServeStdio.
type StdioOptions struct {
	Hub session.Hub // required
	In  io.Reader   // messages of the client, one a line; a read that hangs is left behind
	Out io.Writer   // messages to it; nothing else is written there

	MaxMessage int             // bytes of one message (0: 64 MiB)
	Budget     *session.Budget // drawn on by messages over 64 KiB while they are read; nil: none
	// Drain is how long calls may go on once In has ended (0: 1 s).
	Drain time.Duration
	// Endless is how long the end of a message over the limit is waited for (0:
	// 60 s).
	Endless time.Duration

	// Supported lists the revisions a caller can ask for, for the refusal of
	// others; nil: all that are known.
	Supported func(context.Context, session.Caller) []string

	Logger *slog.Logger // nil: discarded
	Tap    session.Tap  // nil: nobody looks
}

// OpeningError is returned when the client could not be served at all: the
// server behind was not there for its first request. Status is the HTTP status
// a listener would have given.
type OpeningError struct {
	Status int
	Text   string
}

func (e *OpeningError) Error() string { return e.Text }

// ErrClientGone is returned when Out cannot be written to any more.
var ErrClientGone = errors.New("standard output is closed")

// ServeStdio serves one client of either era on standard streams until In ends,
// which is its orderly end (2025-11-25 basic/lifecycle, Shutdown) and returns
// nil, or ctx is done. The era is decided message by message (2026-07-28
// basic/versioning). Work of the client is ended before it returns.
func ServeStdio(ctx context.Context, o StdioOptions) error {
	o.MaxMessage = cmp.Or(o.MaxMessage, 64<<20)
	o.Drain = cmp.Or(o.Drain, time.Second)
	o.Endless = cmp.Or(o.Endless, time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &stdioServer{o: o, out: lines.NewWriter(o.Out), flying: map[string]*flight{}, free: make(chan struct{}, maxFlying)}
	s.ctx, s.end = context.WithCancelCause(ctx)
	defer s.end(nil)
	return s.serve()
}

// maxFlying bounds the requests of the client that are in flight. Past it
// nothing more is read until one is answered.
const maxFlying = 1024

// stdioServer is one connection.
type stdioServer struct {
	o    StdioOptions
	ctx  context.Context // its cause says why the connection ends
	end  context.CancelCauseFunc
	wg   sync.WaitGroup
	free chan struct{}

	wmu sync.Mutex // held while a message is written
	out *lines.Writer

	mu     sync.Mutex // protects the fields below
	flying map[string]*flight
	opened bool // a request was answered by more than a failure to reach the server
	legacy legacyLink
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
	// cancelled: a legacy one was; the hub decides what comes of it.
	cancelled bool
	batch     *stdioBatch
	retry     bool // it was sent again in a new session
}

// line is what the reader hands over.
type line struct {
	raw []byte
	err error
}

func (s *stdioServer) serve() error {
	in := make(chan line, 16)
	go s.read(in)
	err := s.work(in)
	s.end(errClientEnded)
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
	if errors.Is(err, errClientEnded) {
		return nil
	}
	return err
}

// errClientEnded: the client closed its end, as it should.
var errClientEnded = errors.New("standard input has ended")

// read runs beside the connection: nothing can wake it from a read of standard
// input, so it is not waited for.
func (s *stdioServer) read(in chan<- line) {
	defer close(in)
	var late *time.Timer
	o := lines.Options{Limit: s.o.MaxMessage, Discarding: func(on bool) {
		if !on {
			late.Stop()
			return
		}
		late = time.AfterFunc(s.o.Endless, func() { s.end(errors.New("the client sent a message over the limit without an end")) })
	}}
	if b := s.o.Budget; b != nil {
		o.Room, o.Give = b.TryAcquire, b.Release
	}
	r := lines.NewReader(s.o.In, o)
	defer r.Close()
	for {
		raw, err := r.Next()
		select {
		case in <- line{raw, err}:
		case <-s.ctx.Done():
			return
		}
		if err == io.EOF {
			// What is in flight gets a moment: the client may still read. Handing a
			// message over may be under way as well, which can take long.
			time.AfterFunc(s.o.Drain, func() { s.end(errClientEnded) })
		}
		if tooLong := (*lines.TooLong)(nil); err != nil && (!errors.As(err, &tooLong) || tooLong.Endless) {
			return
		}
	}
}

// work takes messages until the client ends or ctx does.
func (s *stdioServer) work(in <-chan line) error {
	for {
		var l line
		var ok bool
		select {
		case l, ok = <-in:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
		tooLong := (*lines.TooLong)(nil)
		switch {
		case !ok:
			return context.Cause(s.ctx)
		case errors.As(l.err, &tooLong):
			s.tooLong(tooLong)
			if tooLong.Endless {
				return tooLong
			}
		case l.err == io.EOF:
			s.drain()
			return errClientEnded
		case l.err != nil:
			return fmt.Errorf("read standard input: %w", l.err)
		default:
			s.take(l.raw)
		}
	}
}

// drain waits until nothing is in flight; read bounds it.
func (s *stdioServer) drain() {
	for {
		s.mu.Lock()
		n := 0
		for _, f := range s.flying {
			if f.msg.Method != "subscriptions/listen" {
				n++
			}
		}
		s.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *stdioServer) tooLong(t *lines.TooLong) {
	cond, text := translate.CondTooLarge, fmt.Sprintf("the message is over the limit of %d bytes", s.o.MaxMessage)
	if t.Busy {
		cond, text = translate.CondBusy, "out of memory budget; try again"
	}
	s.o.Logger.Warn("discarded a message of the client", "why", t.Error())
	if t.Call && !t.ID.IsZero() {
		_, code := translate.StatusOf(cond, translate.Legacy)
		s.write(jsonrpc.NewError(t.ID, code, text, nil))
	}
}

// take leads one line.
func (s *stdioServer) take(raw []byte) {
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if errors.Is(err, jsonrpc.ErrBatch) {
		s.takeBatch(raw)
		return
	}
	if err != nil {
		s.refuseLine(err)
		return
	}
	s.message(m, nil)
}

func (s *stdioServer) refuseLine(err error) {
	id, code, text := jsonrpc.NullID(), jsonrpc.CodeParse, "parse error"
	if de, ok := errors.AsType[*jsonrpc.DecodeError](err); ok {
		code, text = de.Code, de.Msg
		if !de.ID.IsZero() {
			id = de.ID
		}
	}
	s.o.Logger.Debug("refused a line", "why", text)
	s.write(jsonrpc.NewError(id, code, text, nil))
}

// message leads one message. Messages are handed over in their order; answers
// come when they come.
func (s *stdioServer) message(m *jsonrpc.Message, b *stdioBatch) {
	caller, cond, detail, data := s.caller(m)
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
			s.answer(b, jsonrpc.NewError(m.ID, translate.CodeFor(code, caller.Version), detail, data))
			return
		}
		s.request(m, caller, b)
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
	s.say(m, caller)
	if m.Method == "notifications/initialized" && caller.Era != translate.Modern {
		s.mu.Lock()
		s.legacy.ready = true
		s.mu.Unlock()
		s.wg.Go(s.listen)
	}
}

// caller says who sends m. There are no headers here: what they would say is
// taken from the message (2026-07-28 stdio, Request Metadata).
func (s *stdioServer) caller(m *jsonrpc.Message) (session.Caller, translate.Cond, string, []byte) {
	c := session.Caller{Principal: session.LocalPrincipal}
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

func (s *stdioServer) inFlight(id jsonrpc.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flying[id.Key()] != nil
}

// request hands a request over and writes what comes back, beside the others.
// The handshake alone is waited for: all that follows depends on it.
func (s *stdioServer) request(m *jsonrpc.Message, caller session.Caller, b *stdioBatch) {
	select {
	case s.free <- struct{}{}:
	case <-s.ctx.Done():
		return
	}
	f := &flight{id: m.ID, caller: caller, msg: m, batch: b}
	if m.Method == "initialize" && caller.Era != translate.Modern {
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

// launch gives f to the hub.
func (s *stdioServer) launch(f *flight) context.Context {
	ctx, stop := context.WithCancel(s.ctx)
	stream := s.o.Hub.NewStream()
	s.mu.Lock()
	f.stream, f.stop = stream, stop
	s.mu.Unlock()
	s.o.Hub.Client(ctx, s.inbound(stream.ID, f.msg, f.caller, http.MethodPost), stream)
	return ctx
}

func (s *stdioServer) inbound(stream string, m *jsonrpc.Message, caller session.Caller, verb string) session.Inbound {
	f := translate.Frame{Msg: m, Leg: translate.ClientLeg, Dir: translate.ToServer, Stream: stream, Time: time.Now()}
	if s.o.Tap != nil && m != nil {
		s.o.Tap.Frame(f)
	}
	f.HTTP = &translate.Envelope{Verb: verb}
	return session.Inbound{Caller: caller, Frame: f}
}

// say hands over what gets no answer.
func (s *stdioServer) say(m *jsonrpc.Message, caller session.Caller) {
	stream := s.o.Hub.NewStream()
	s.o.Hub.Client(s.ctx, s.inbound(stream.ID, m, caller, http.MethodPost), stream)
	s.wg.Go(func() {
		defer stream.Gone()
		for {
			if out, ok := stream.Next(s.ctx); !ok || out.Final {
				return
			}
		}
	})
}

// pump writes what comes back for f.
func (s *stdioServer) pump(ctx context.Context, f *flight) {
	defer func() {
		s.mu.Lock()
		f.stream.Gone()
		f.stop()
		if s.flying[f.id.Key()] == f {
			delete(s.flying, f.id.Key())
		}
		s.mu.Unlock()
		<-s.free
	}()
	for {
		out, ok := f.stream.Next(ctx)
		if !ok {
			if ctx.Err() == nil {
				s.last(f, session.Out{Status: http.StatusInternalServerError})
			}
			return
		}
		if out.Final {
			if next, again := s.renew(f, out); again {
				ctx = next
				continue
			}
			s.last(f, out)
			return
		}
		if out.Raw != nil {
			s.show(f.stream.ID, out.Raw)
			s.write(out.Raw)
		}
	}
}

// last writes the answer itself.
func (s *stdioServer) last(f *flight, out session.Out) {
	s.mu.Lock()
	silent := f.silent || f.cancelled && out.Raw == nil
	switch {
	case f.caller.Era == translate.Modern:
	case f.msg.Method == "initialize":
		s.greeted(out)
	case out.Status < 300:
		s.legacy.remember(f.msg)
	}
	s.mu.Unlock()
	if silent || s.opening(f, out) {
		return
	}
	raw := out.Raw
	if raw == nil {
		raw = jsonrpc.NewError(f.id, -32603, statusText(out), nil)
	}
	s.show(f.stream.ID, raw)
	s.answer(f.batch, raw)
	if f.msg.Method == "subscriptions/listen" && out.Status < 300 {
		// 2026-07-28 basic/patterns/cancellation: a server that tears a
		// subscription down says so.
		params := jsonrpc.NewObject().Raw("requestId", f.id.Raw()).Bytes()
		s.write(jsonrpc.NewNotification("notifications/cancelled", params))
	}
}

// statusText says in words what HTTP says by a status alone.
func statusText(out session.Out) string {
	switch out.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Sprintf("the server wants authorization (HTTP %d); give it with --header 'Authorization: …'", out.Status)
	case 0, http.StatusOK, http.StatusAccepted:
		return "the request ended without an answer"
	}
	return fmt.Sprintf("the request ended without an answer (HTTP %d)", out.Status)
}

// opening: the server behind is not there for the client's first request. A
// modern client would take any JSON-RPC error for a legacy server's, so it gets
// none; the connection ends.
func (s *stdioServer) opening(f *flight, out session.Out) bool {
	first := f.msg.Method == "initialize" || f.caller.Era == translate.Modern
	s.mu.Lock()
	was := s.opened
	failed := false
	switch out.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusUnauthorized, http.StatusForbidden:
		failed = true
	default:
		s.opened = true
	}
	s.mu.Unlock()
	if was || !failed || !first {
		return false
	}
	e := &OpeningError{Status: out.Status, Text: statusText(out)}
	if m, err := jsonrpc.Decode(out.Raw, jsonrpc.Limits{}); err == nil {
		e.Text, _ = m.At("error", "message").Str()
	}
	if f.caller.Era != translate.Modern {
		raw := out.Raw
		if raw == nil {
			raw = jsonrpc.NewError(f.id, -32603, e.Text, nil)
		}
		s.answer(f.batch, raw)
	}
	s.end(e)
	return true
}

// cancel ends a modern request as a closed stream would, without an answer. It
// is false for what the hub is to hear of.
func (s *stdioServer) cancel(m *jsonrpc.Message) bool {
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

func (s *stdioServer) show(stream string, raw []byte) {
	if s.o.Tap == nil {
		return
	}
	if m, err := jsonrpc.Decode(raw, jsonrpc.Limits{}); err == nil {
		s.o.Tap.Frame(translate.Frame{Msg: m, Leg: translate.ClientLeg, Dir: translate.ToClient, Stream: stream, Time: time.Now()})
	}
}

// write writes one message as one line. A client that has closed its end ends
// the connection.
func (s *stdioServer) write(raw []byte) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if err := s.out.Write(raw); err != nil {
		s.end(fmt.Errorf("%w: %w", ErrClientGone, err))
	}
}
