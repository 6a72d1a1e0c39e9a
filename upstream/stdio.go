package upstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/upstream/child"
)

// Defaults of StdioOptions.
const (
	DefaultStartLimit  = 60 * time.Second
	DefaultMaxChildren = 32
)

const (
	// probeSilence is how long a child may say nothing to server/discover before
	// another is asked to initialize: some legacy servers never answer what they
	// do not know (2026-07-28 stdio, Backward Compatibility).
	probeSilence = 10 * time.Second
	// A child that ended by itself within steady is started again after a pause
	// that doubles from firstPause to lastPause.
	steady     = 30 * time.Second
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
	// maxPauses bounds the principals whose restarts are held back.
	maxPauses = 1000
)

// StdioOptions configures NewStdio.
type StdioOptions struct {
	Name    string   // the upstream's; required
	Command []string // program and arguments, no shell; required
	Env     []string // KEY=VALUE over the base environment (package child)
	Dir     string   // to run it in; empty: ours
	// MaxMessage bounds one message (0: 64 MiB). A longer one is discarded and
	// its request answered with an error.
	MaxMessage int
	// StartLimit is how long a child may take from its start to its first answer
	// (0: 60 s).
	StartLimit time.Duration
	// Silence is how long the first child of a probe may be silent before a
	// second one is asked to initialize (0: 10 s).
	Silence time.Duration
	// MaxChildren bounds the children alive at a time (0: 32).
	MaxChildren int
	// Share gives all legacy sessions one child, which sees one client. Without
	// it each session has a child of its own. A modern child is always shared.
	Share bool
	// ShowTail puts the last lines of a child's standard error into errors, which
	// clients see: for callers on this machine. Others get a reference that the
	// log has too.
	ShowTail bool
	// CloseGrace and TermGrace are package child's (1.5 s each).
	CloseGrace, TermGrace time.Duration
	Guard                 *child.Guard // nil: none

	Budget *session.Budget // drawn on by messages over 64 KiB while they are read
	Logger *slog.Logger    // nil: discarded
	Tap    session.Tap     // nil: none
}

// Stdio is a session.Dialer for a server that runs as a child process and
// speaks over its standard streams. Toward operations it behaves like a server
// behind Streamable HTTP: a legacy child is a session of that transport, with
// an id made here, the GET stream bringing what belongs to no request; DELETE
// ends the child, and a session whose child has ended is 404. So what a dead
// child means to a client is what a server that forgot its session means. Safe
// for concurrent use.
type Stdio struct {
	o   StdioOptions
	log *slog.Logger
	wg  sync.WaitGroup
	ctx context.Context // done with Close
	cut context.CancelCauseFunc

	streams, started atomic.Int64
	turn             chan struct{} // held while the shared child is made

	mu     sync.Mutex // protects the fields below
	closed bool
	pipes  map[*pipe]time.Time // alive, with their start
	faces  map[string]*pipe    // sessions
	modern *pipe
	shared *pipe // the legacy child of all sessions, with Share
	// Safe by themselves:
	pauses *lru.Cache[session.Principal, pause]
	lost   *lru.Cache[string, *grave] // tasks of children that have ended
}

// pause is how often a principal's children ended early, and until when the
// next is held back.
type pause struct {
	times int
	until time.Time
}

var _ session.Dialer = (*Stdio)(nil)

// NewStdio checks o and returns a dialer. It starts nothing.
func NewStdio(o StdioOptions) (*Stdio, error) {
	if len(o.Command) == 0 || o.Command[0] == "" {
		return nil, errors.New("no command given; write it behind --")
	}
	if o.MaxMessage < 0 || o.MaxMessage > maxMaxMessage {
		return nil, fmt.Errorf("message limit %d is out of range; give 1 to %d bytes", o.MaxMessage, maxMaxMessage)
	}
	for _, kv := range o.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" || strings.ContainsRune(kv, 0) {
			return nil, errors.New("an environment variable is given as KEY=VALUE")
		}
	}
	o.MaxMessage = cmp.Or(o.MaxMessage, DefaultMaxMessage)
	o.StartLimit = cmp.Or(o.StartLimit, DefaultStartLimit)
	o.Silence = cmp.Or(o.Silence, probeSilence)
	o.MaxChildren = cmp.Or(o.MaxChildren, DefaultMaxChildren)
	o.CloseGrace = cmp.Or(o.CloseGrace, 1500*time.Millisecond)
	o.TermGrace = cmp.Or(o.TermGrace, 1500*time.Millisecond)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Stdio{
		o: o, log: o.Logger, turn: make(chan struct{}, 1),
		pipes: map[*pipe]time.Time{}, faces: map[string]*pipe{},
	}
	s.ctx, s.cut = context.WithCancelCause(context.Background())
	// Their sizes are constants above zero.
	s.pauses, _ = lru.New[session.Principal, pause](maxPauses)
	s.lost, _ = lru.New[string, *grave](maxTracked)
	return s, nil
}

// Close ends all children in order and waits until nothing of them is left.
func (s *Stdio) Close() error {
	s.cut(ErrClosed)
	s.mu.Lock()
	s.closed = true
	var all []*pipe
	for p := range s.pipes {
		all = append(all, p)
	}
	s.mu.Unlock()
	for _, p := range all {
		s.wg.Go(p.proc.Stop)
	}
	s.wg.Wait()
	return s.o.Guard.Close()
}

// background runs f in a goroutine Close waits for, unless it is waiting
// already.
func (s *Stdio) background(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		go f()
		return
	}
	s.wg.Go(f)
}

// Down says that a child has ended early and none has been started since.
func (s *Stdio) Down() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pipes) > 0 {
		return false
	}
	for _, p := range s.pauses.Values() {
		if p.times > 0 {
			return true
		}
	}
	return false
}

func (s *Stdio) fail(kind session.Fail, err error) *session.DialError {
	return &session.DialError{Fail: kind, Upstream: s.o.Name, Err: err}
}

func (s *Stdio) nextID() string {
	return string(strconv.AppendInt([]byte("up-"), s.streams.Add(1), 10))
}

// tap shows a message as its sender or receiver on our side has it.
func (s *Stdio) tap(stream string, dir translate.Direction, m *jsonrpc.Message) {
	if s.o.Tap != nil {
		s.o.Tap.Frame(translate.Frame{Msg: m, Leg: translate.ServerLeg, Dir: dir, Stream: stream, Time: time.Now()})
	}
}

// Dial implements session.Dialer. It starts nothing.
func (s *Stdio) Dial(_ context.Context, target session.Target) (session.Conn, error) {
	if target.Upstream != s.o.Name {
		return nil, &session.DialError{Fail: session.FailUnreachable, Upstream: target.Upstream, Err: errors.New("no upstream of this name is configured")}
	}
	return stdioConn{s, target.Principal}, nil
}

// stdioConn is what one principal sees of the children.
type stdioConn struct {
	s         *Stdio
	principal session.Principal
}

var _ session.Conn = stdioConn{}

// Close implements session.Conn. Children outlive it: a conn is no more than
// an address.
func (c stdioConn) Close() error { return nil }

// Do implements session.Conn.
func (c stdioConn) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	switch verbOf(out) {
	case http.MethodDelete:
		return c.s.endSession(out.Session, c.principal), nil
	case http.MethodGet:
		p, f := c.s.session(out.Session, c.principal)
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

// modern sends a message to the child all modern callers share.
func (c stdioConn) modern(ctx context.Context, m *jsonrpc.Message) (session.Stream, error) {
	if g := c.s.buriedTask(m, c.principal); g != nil {
		if p := c.s.modernAlive(); p == nil || !p.made(m) {
			return c.s.said(g.modernAnswer(m)), nil
		}
	}
	p, err := c.s.modernChild(ctx)
	if err != nil {
		return nil, err
	}
	if m.Kind != jsonrpc.Request {
		// Its request ids are the sender's, and a cancel is the end of its stream.
		if m.Method != "notifications/cancelled" {
			if err := p.send(ctx, m.Raw); err != nil {
				return nil, err
			}
		}
		return c.s.statusStream(http.StatusAccepted), nil
	}
	st := c.s.newStream(envelope(http.StatusOK, ""))
	if err := p.request(ctx, p.common(), m, st); err != nil {
		return nil, err
	}
	return st, nil
}

// legacy sends a message within a session.
func (c stdioConn) legacy(ctx context.Context, id string, m *jsonrpc.Message) (session.Stream, error) {
	p, f := c.s.session(id, c.principal)
	if g := c.s.buriedTask(m, c.principal); g != nil && (p == nil || !p.made(m)) {
		return c.s.said(g.legacyAnswer(m)), nil
	}
	if p == nil || p.dead() != nil {
		return c.s.statusStream(http.StatusNotFound), nil
	}
	switch m.Kind {
	case jsonrpc.Request:
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
			c.s.log.Debug("dropped an answer to nothing the server has asked", "process", p.name)
		}
	}
	return c.s.statusStream(http.StatusAccepted), nil
}

// said is a stream with one message that is known.
func (s *Stdio) said(m *jsonrpc.Message) *pipeStream {
	st := s.newStream(envelope(http.StatusOK, ""))
	st.queue = append(st.queue, translate.Frame{Msg: m, Leg: translate.ServerLeg, Dir: translate.ToClient, Stream: st.id, Time: time.Now()})
	st.bytes, st.over = len(m.Raw), io.EOF
	return st
}

// session finds a session's child. It is told only to its own principal.
func (s *Stdio) session(id string, principal session.Principal) (*pipe, *face) {
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

// endSession ends a session and, unless others share it, its child.
func (s *Stdio) endSession(id string, principal session.Principal) *pipeStream {
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

// retire ends a child that is not needed any more.
func (s *Stdio) retire(p *pipe) {
	s.mu.Lock()
	delete(s.pipes, p)
	s.mu.Unlock()
	s.background(p.proc.Stop)
}

func newSessionID() string { return "stdio-" + rand.Text() }
