package session

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Resumer is a Stream of a legacy server that may be resumed after it ended
// (2025-11-25 basic/transports, Resumability and Redelivery). Its methods are safe
// beside Next.
type Resumer interface {
	// LastEventID is the newest id the server gave, empty if none can be used.
	LastEventID() string
	// Retry is how long the server asks us to stay away, 0 if it did not say.
	Retry() time.Duration
}

const (
	// comebackTries bounds the tries in a row that bring nothing new.
	comebackTries = 5
	// comebackWait is the pause where the server names none; it doubles with
	// each try that failed.
	comebackWait = time.Second
	// comebackHeaders bounds how long a server may take to open the stream.
	comebackHeaders = 30 * time.Second
	// comebackFor bounds how long a stream is asked for again without a message.
	comebackFor = time.Hour
	// comebackSeen are the messages remembered to tell one that came before.
	comebackSeen = 64
)

// comeback resumes one exchange with a legacy server: a stream that ended, by
// the server's will or not, before the answer was there, goes on with GET and
// Last-Event-ID. The request itself is never sent again.
type comeback struct {
	r   *Runner
	e   openAt
	env *translate.Envelope

	had     []hadEvent // the newest last
	resumed bool       // what was had before is not to be taken again
	last    string     // the id a try began with
	tries   int        // in a row without a new id
	quiet   time.Time  // since when no message came
	wait    time.Duration
	opened  time.Time // when the newest stream was
}

// hadEvent tells a message from others. The id alone does not: an event of
// 2025-03-26 may hold several messages, and not all servers give each event an
// id of its own. What is taken twice does less harm than what is lost.
type hadEvent struct {
	id  string
	raw uint64 // hash of the message
}

var hadSeed = maphash.MakeSeed()

// read gives each message of the exchange to take, which says whether the
// answer was among them, while there is more to be done. It returns nil at the
// end, else why the last stream broke, and closes all streams.
func (c *comeback) read(ctx context.Context, stream Stream, more func() bool, take func(f translate.Frame) (answered bool)) error {
	answered := false
	for more() {
		f, err := stream.Next()
		if err == nil {
			if !c.seen(stream, f.Msg.Raw) {
				answered = take(f) || answered
			}
			continue
		}
		next := Stream(nil)
		if de, ok := errors.AsType[*DialError](err); !answered && !(ok && de.Fail == FailTooLarge) { // it would be so again
			next = c.resume(ctx, stream)
		}
		if next == nil {
			stream.Close()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		stream.Close()
		stream = next
	}
	stream.Close()
	return nil
}

// seen notes the message stream gave last and says whether it came before: some
// servers begin with the event they were told we have.
func (c *comeback) seen(stream Stream, raw []byte) bool {
	s, ok := stream.(Resumer)
	if !ok {
		return false
	}
	if id := s.LastEventID(); id != "" {
		this := hadEvent{id, maphash.Bytes(hadSeed, raw)}
		if c.resumed && slices.Contains(c.had, this) {
			c.r.metrics.Dropped("event")
			return true
		}
		c.had = append(c.had[max(0, len(c.had)+1-comebackSeen):], this)
	}
	c.quiet, c.tries = time.Time{}, 0
	return false
}

// resume returns the stream that goes on, nil where there is none.
func (c *comeback) resume(ctx context.Context, ended Stream) Stream {
	if !c.mayResume() {
		return nil
	}
	if c.quiet.IsZero() {
		c.quiet = time.Now()
	}
	if !c.opened.IsZero() && time.Since(c.opened) >= comebackWait {
		c.tries = 0 // it was good for a while: a server that wants to be polled
	}
	for stream := ended; ; {
		if s, ok := stream.(Resumer); ok && s.LastEventID() != "" {
			if id := s.LastEventID(); id != c.last {
				c.last, c.tries = id, 0
			}
			if wait := s.Retry(); wait > 0 {
				c.wait = wait // it holds until the server says another
			}
		} else if stream != nil && c.last == "" {
			return nil // nothing to resume from
		}
		if c.tries >= comebackTries || time.Since(c.quiet) > comebackFor {
			c.r.log.Info("gave up resuming a stream of the server", "upstream", c.e.Upstream, "tries", c.tries)
			return nil
		}
		sleep(ctx, c.pause())
		c.tries++
		if ctx.Err() != nil || c.r.looks.wait(ctx, c.e.As) != nil {
			return nil
		}
		next, again := c.open(ctx)
		if next != nil {
			c.resumed, c.opened = true, time.Now()
			return next
		}
		if !again {
			return nil
		}
		stream = nil
	}
}

func (c *comeback) pause() time.Duration {
	wait := c.wait
	if wait <= 0 {
		wait = comebackWait
	}
	if c.tries > 0 && c.wait <= comebackWait<<c.tries {
		wait = comebackWait << c.tries
	}
	return wait
}

// mayResume: only event streams of legacy servers, and of those a request's or
// the session's own.
func (c *comeback) mayResume() bool {
	if f, _ := translate.Lookup(c.e.Out.Version); f.Era == translate.Modern {
		return false
	}
	if c.env == nil || c.env.Status != http.StatusOK || !isEventStream(c.env.Header.Get("Content-Type")) {
		return false
	}
	if c.e.Out.Verb == http.MethodGet {
		return true
	}
	m, err := jsonrpc.Decode(c.e.Out.Msg, jsonrpc.Limits{})
	return err == nil && m.Kind == jsonrpc.Request
}

// open asks for the stream once. again is false where the server says that it
// will not be had.
func (c *comeback) open(ctx context.Context) (next Stream, again bool) {
	out := Outgoing{Verb: http.MethodGet, Version: c.e.Out.Version, Session: c.e.Out.Session, Header: http.Header{}}
	if id := c.env.Header.Get(headerSession); out.Session == "" {
		out.Session = id // of the initialize whose answer we still wait for
	}
	maps.Copy(out.Header, c.e.Out.Header)
	out.Header[translate.HeaderLastEvent] = []string{c.last}
	opening, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(comebackHeaders, cancel)
	next, err := c.r.dial(opening, c.e, out)
	late.Stop()
	if err != nil {
		cancel()
		c.r.log.Debug("resume a stream of the server", "upstream", c.e.Upstream, "err", err)
		return nil, true
	}
	env := next.Envelope()
	if env != nil && env.Status == http.StatusOK && isEventStream(env.Header.Get("Content-Type")) {
		return &ownedStream{Stream: next, cancel: cancel}, true
	}
	next.Close()
	cancel()
	status := 0
	if env != nil {
		status = env.Status
	}
	return nil, status >= 500 || status == http.StatusTooManyRequests
}

// dial opens one exchange with the newest credential of its principal.
func (r *Runner) dial(ctx context.Context, e openAt, out Outgoing) (Stream, error) {
	target := Target{Upstream: e.Upstream, Principal: e.As}
	if h, ok := r.creds.Get(e.As); ok {
		target.Credential = h
	}
	conn, err := r.dialer.Dial(ctx, target)
	if err != nil {
		return nil, err
	}
	return conn.Do(ctx, out)
}

// ownedStream gives up its context with the stream.
type ownedStream struct {
	Stream
	cancel context.CancelFunc
}

func (s *ownedStream) Close() error {
	err := s.Stream.Close()
	s.cancel()
	return err
}

func (s *ownedStream) LastEventID() string {
	if in, ok := s.Stream.(Resumer); ok {
		return in.LastEventID()
	}
	return ""
}

func (s *ownedStream) Retry() time.Duration {
	if in, ok := s.Stream.(Resumer); ok {
		return in.Retry()
	}
	return 0
}
