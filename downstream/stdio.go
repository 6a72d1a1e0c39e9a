package downstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"taskbridge/session"
	"taskbridge/session/throttle"
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

	// Limiter says what the client may send; nil: whatever it likes. Limited, if
	// set, is told of refusals.
	Limiter *throttle.Limiter
	Limited func(limit string)

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
	out := lines.NewWriter(o.Out)
	s := &stdioServer{o: o, clientLink: newClientLink(ctx, linkOptions{
		Hub: o.Hub, Who: session.Caller{Principal: session.LocalPrincipal}, Write: func(raw []byte) error { return out.Write(raw) },
		Supported: o.Supported, Budget: o.Budget, Dues: func() throttle.Caller { return o.Limiter.Caller(string(session.LocalPrincipal)) }, Limited: o.Limited, Logger: o.Logger,
		Tap: o.Tap, Transport: translate.TransportStdio, Conn: "client",
	})}
	defer s.end(nil)
	return s.serve()
}

// stdioServer is one client on standard streams.
type stdioServer struct {
	*clientLink
	o StdioOptions
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
	s.leave()
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
		late = time.AfterFunc(s.o.Endless, func() { s.giveUp(errors.New("the client sent a message over the limit without an end")) })
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
				s.giveUp(tooLong)
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

// giveUp ends a connection on which nothing more can be read; what is in flight
// is told so, as far as the client reads.
func (s *stdioServer) giveUp(why error) {
	told := make(chan struct{})
	go func() {
		defer close(told)
		s.failAll("the connection is closed: it brought a message over the limit, without an end")
	}()
	t := time.NewTimer(s.o.Drain)
	defer t.Stop()
	select {
	case <-told:
	case <-t.C:
	}
	s.end(why)
}

func (s *stdioServer) tooLong(t *lines.TooLong) {
	cond, text := translate.CondTooLarge, fmt.Sprintf("the message is over the limit of %d bytes", s.o.MaxMessage)
	if t.Busy {
		cond, text = translate.CondBusy, "out of memory budget; try again"
	}
	s.o.Logger.Warn("discarded a message of the client", "why", t.Error())
	if t.Call && !t.ID.IsZero() {
		_, code := translate.StatusOf(cond, translate.Legacy)
		s.tell("", jsonrpc.NewError(t.ID, code, text, nil))
	}
}
