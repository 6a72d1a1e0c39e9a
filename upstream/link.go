package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

const (
	// probeSilence is how long a server may say nothing to server/discover before
	// another link is asked to initialize: some legacy servers never answer what
	// they do not know (2026-07-28 stdio, Backward Compatibility).
	probeSilence = 10 * time.Second
	// A link that ended by itself within steady is made anew after a pause that
	// doubles from firstPause to linkOptions.longest.
	steady     = 30 * time.Second
	firstPause = 500 * time.Millisecond
	// maxPauses bounds the principals whose new links are held back.
	maxPauses = 1000
)

// channel carries whole messages between a pipe and one server: a child's
// standard streams, a connection.
type channel interface {
	// start is called once, before next. giveUp ends the conversation from within.
	start(giveUp func(why error))
	// write sends a message, which nobody changes any more. One caller at a time.
	// An error says why nothing can be sent any more; an *overError, that the
	// channel has ended by itself and why.
	write(msg [][]byte) error
	// next returns the next message, and whether the server ended in the middle of
	// it. The message is the caller's. One caller at a time. A *lines.TooLong says
	// that one was discarded; any other error, that nothing more comes.
	next() (raw []byte, unended bool, err error)
	// ended says why nothing more comes; called once, after next has said so. It
	// may wait for the reason, shortly.
	ended() error
	// stop ends the channel in order and returns when nothing of it is left. It
	// may be called twice.
	stop()
}

// overError is an error of channel.write.
type overError struct{ why error }

func (e *overError) Error() string { return e.why.Error() }

// linkOptions say what is special about the servers behind a links.
type linkOptions struct {
	Name       string // the upstream's
	MaxMessage int
	StartLimit time.Duration // from a link's beginning to its first answer
	Silence    time.Duration // of a probe, before the second link
	Max        int           // links at a time
	Share      bool          // all legacy sessions share one link
	Budget     *session.Budget
	Logger     *slog.Logger
	Tap        session.Tap

	// open makes a channel as target. name is for logs. Errors are *session.DialError.
	open func(ctx context.Context, name string, target session.Target) (channel, error)
	// key says which modern callers share a link: those of one key.
	key func(session.Target) string
	// owner is whose new links are held back when one ended early, prober whose
	// probes are.
	owner, prober func(session.Target) session.Principal
	// longest is the most a new link is held back.
	longest time.Duration
	// idle ends a modern link nobody has used for so long (0: never), and any
	// unused one where Max is reached.
	idle time.Duration
	// noun names a link in errors, kind in the attributes of log lines.
	noun, kind string
	transport  string       // translate.Frame's
	speaks     string       // Result.Transport of its probes
	fail       session.Fail // of what waits when a link ends
	full       string       // told who finds Max links
	// mortal: tasks end with their link.
	mortal bool
}

// links is a session.Dialer for servers that get and send all messages over one
// channel: it has pipes for them. Toward operations it behaves like a server
// behind Streamable HTTP: a legacy link is a session of that transport, with an
// id made here, the GET stream bringing what belongs to no request; DELETE ends
// the link, and a session whose link has ended is 404. So what a dead link means
// to a client is what a server that forgot its session means. Safe for
// concurrent use.
type links struct {
	o   linkOptions
	log *slog.Logger
	wg  sync.WaitGroup
	ctx context.Context // done with Close
	cut context.CancelCauseFunc

	streams, started atomic.Int64
	down             atomic.Bool

	mu      sync.Mutex // protects the fields below
	closed  bool
	pipes   map[*pipe]time.Time // alive, with their start
	opening int                 // being made
	faces   map[string]*pipe    // sessions
	slots   map[string]*slot    // by key
	// Safe by themselves:
	pauses *lru.Cache[session.Principal, pause]
	lost   *lru.Cache[string, *grave] // tasks of links that have ended
}

// slot is where callers of one key find the link they share.
type slot struct {
	turn  chan struct{} // held while the link is made
	users int           // who holds turn or waits for it
	p     *pipe
}

// sharedKey is the slot of the legacy link of all sessions, with Share.
const sharedKey = "\x00legacy"

// pause is how often a principal's children ended early, and until when the
// next is held back.
type pause struct {
	times int
	until time.Time
}

var _ session.Dialer = (*links)(nil)

func newLinks(o linkOptions) *links {
	s := &links{
		o: o, log: o.Logger,
		pipes: map[*pipe]time.Time{}, faces: map[string]*pipe{}, slots: map[string]*slot{},
	}
	s.ctx, s.cut = context.WithCancelCause(context.Background())
	// Their sizes are constants above zero.
	s.pauses, _ = lru.New[session.Principal, pause](maxPauses)
	s.lost, _ = lru.New[string, *grave](maxTracked)
	if o.idle > 0 {
		s.wg.Go(s.sweep)
	}
	return s
}

// Close ends all links in order and waits until nothing of them is left.
func (s *links) Close() error {
	s.cut(ErrClosed)
	s.mu.Lock()
	s.closed = true
	var all []*pipe
	for p := range s.pipes {
		all = append(all, p)
	}
	s.mu.Unlock()
	for _, p := range all {
		s.wg.Go(p.ch.stop)
	}
	s.wg.Wait()
	return nil
}

// background runs f in a goroutine Close waits for, unless it is waiting
// already.
func (s *links) background(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		go f()
		return
	}
	s.wg.Go(f)
}

// Down says that a link has ended by itself, or could not be made, and the server
// has answered over none since.
func (s *links) Down() bool { return s.down.Load() }

func (s *links) fail(kind session.Fail, err error) *session.DialError {
	return &session.DialError{Fail: kind, Upstream: s.o.Name, Err: err}
}

func (s *links) nextID() string {
	return string(strconv.AppendInt([]byte(s.o.kind+"-"), s.streams.Add(1), 10))
}

// Dial implements session.Dialer. It opens nothing.
func (s *links) Dial(_ context.Context, target session.Target) (session.Conn, error) {
	if target.Upstream != s.o.Name {
		return nil, &session.DialError{Fail: session.FailUnreachable, Upstream: target.Upstream, Err: errors.New("no upstream of this name is configured")}
	}
	return linkConn{s, target}, nil
}

// linkConn is what one target's callers see of the links.
type linkConn struct {
	s      *links
	target session.Target
}

var _ session.Conn = linkConn{}

// Close implements session.Conn. Links outlive it: a conn is no more than
// an address.
func (c linkConn) Close() error { return nil }

// Do implements session.Conn.
func (c linkConn) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	st, err := c.do(ctx, out)
	if de, ok := errors.AsType[*session.DialError](err); ok && de.HTTP != nil && passing(de.Status) {
		// What was said of the caller's credential, or of the moment, is the
		// caller's to know, as over HTTP.
		answer := c.s.statusStream(de.Status)
		answer.env = de.HTTP
		return answer, nil
	}
	return st, err
}

// passing statuses of an upgrade are for whom the link was to be.
func passing(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	}
	return false
}

func (c linkConn) do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	switch verbOf(out) {
	case http.MethodDelete:
		return c.s.endSession(out.Session, c.target.Principal), nil
	case http.MethodGet:
		p, f := c.s.session(out.Session, c.target.Principal)
		if p == nil {
			return c.s.statusStream(http.StatusNotFound), nil
		}
		st := c.s.newStream(nil)
		if p.listen(ctx, f, st) != nil {
			return c.s.statusStream(http.StatusNotFound), nil
		}
		return st, nil
	}
	m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{})
	if err != nil {
		return nil, c.s.fail(session.FailUnreachable, err)
	}
	if translate.LooksModern(out.Version) || m.At("params", "_meta", translate.MetaVersion).Exists() {
		return c.modern(ctx, m)
	}
	if m.Method == "initialize" {
		return c.open(ctx, m)
	}
	return c.legacy(ctx, out.Session, m)
}

// modern sends a message over the link the target's modern callers share.
func (c linkConn) modern(ctx context.Context, m *jsonrpc.Message) (session.Stream, error) {
	if g := c.s.buriedTask(m, c.target.Principal); g != nil {
		if p := c.s.alive(c.s.o.key(c.target)); p == nil || !p.made(m) {
			return c.s.said(g.about(m, true)), nil
		}
	}
	for {
		p, err := c.s.modernLink(ctx, c.target)
		if err != nil {
			return nil, err
		}
		st, err := c.over(ctx, p, m)
		if errors.Is(err, errUnused) {
			continue // it was ended when this came
		}
		return st, err
	}
}

// over sends a modern message over p.
func (c linkConn) over(ctx context.Context, p *pipe, m *jsonrpc.Message) (session.Stream, error) {
	if m.Kind != jsonrpc.Request {
		// Its request ids are the sender's, and a cancel is the end of its stream.
		if m.Method != "notifications/cancelled" {
			if err := p.send(ctx, place{who: c.target.Principal}, m.Raw); err != nil {
				return nil, err
			}
		}
		return c.s.statusStream(http.StatusAccepted), nil
	}
	st := c.s.newStream(envelope(http.StatusOK, ""))
	st.who = c.target.Principal
	if err := p.request(ctx, p.common(), m, st); err != nil {
		return nil, err
	}
	return st, nil
}

// legacy sends a message within a session.
func (c linkConn) legacy(ctx context.Context, id string, m *jsonrpc.Message) (session.Stream, error) {
	p, f := c.s.session(id, c.target.Principal)
	if g := c.s.buriedTask(m, c.target.Principal); g != nil && (p == nil || !p.made(m)) {
		return c.s.said(g.about(m, false)), nil
	}
	if p == nil || p.dead() != nil {
		return c.s.statusStream(http.StatusNotFound), nil
	}
	switch m.Kind {
	case jsonrpc.Request:
		if f.key != c.s.o.key(c.target) {
			// The link carries the credential it was made with, and this one is
			// another: a new session has it.
			return c.s.statusStream(http.StatusNotFound), nil
		}
		st := c.s.newStream(envelope(http.StatusOK, ""))
		if err := p.request(ctx, f, m, st); err != nil {
			return nil, err
		}
		return st, nil
	case jsonrpc.Notification:
		if err := p.notify(ctx, f, m); err != nil {
			return nil, err
		}
	default:
		known, err := p.answer(ctx, f, m)
		if err != nil {
			return nil, err
		}
		if !known {
			c.s.log.Debug("dropped an answer to nothing the server has asked", c.s.o.kind, p.name)
		}
	}
	return c.s.statusStream(http.StatusAccepted), nil
}

// said is a stream with one message that is known.
func (s *links) said(m *jsonrpc.Message) *pipeStream {
	st := s.newStream(envelope(http.StatusOK, ""))
	st.queue = append(st.queue, translate.Frame{Msg: m, Leg: translate.ServerLeg, Dir: translate.ToClient, Stream: st.id, Time: time.Now()})
	st.bytes, st.over = len(m.Raw), io.EOF
	return st
}

// session finds a session's link. It is told only to its own principal.
func (s *links) session(id string, principal session.Principal) (*pipe, *face) {
	s.mu.Lock()
	p := s.faces[id]
	s.mu.Unlock()
	if p == nil || id == "" {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.faces[id]
	if f == nil || f.principal != principal {
		return nil, nil
	}
	return p, f
}

// endSession ends a session and, unless others share it, its link.
func (s *links) endSession(id string, principal session.Principal) *pipeStream {
	p, f := s.session(id, principal)
	if p == nil {
		return s.statusStream(http.StatusNotFound)
	}
	s.mu.Lock()
	delete(s.faces, id)
	s.mu.Unlock()
	p.mu.Lock()
	delete(p.faces, id)
	gets := f.gets
	p.mu.Unlock()
	for _, g := range gets {
		g.end(io.EOF)
	}
	if !s.o.Share {
		s.retire(p)
	}
	return s.statusStream(http.StatusOK)
}

// retire ends a link that is not needed any more.
func (s *links) retire(p *pipe) {
	s.mu.Lock()
	delete(s.pipes, p)
	s.mu.Unlock()
	s.background(p.ch.stop)
}

func (s *links) newSessionID() string { return s.o.kind + "-" + rand.Text() }
