package upstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/lines"
	"taskbridge/upstream/child"
)

// Defaults of StdioOptions.
const (
	DefaultStartLimit  = 60 * time.Second
	DefaultMaxChildren = 32
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
// speaks over its standard streams; each child is a link of it. Safe for
// concurrent use.
type Stdio struct {
	*links
	o        StdioOptions
	reviving atomic.Bool
}

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
	s := &Stdio{o: o}
	s.links = newLinks(linkOptions{
		Name: o.Name, MaxMessage: o.MaxMessage, StartLimit: o.StartLimit, Silence: o.Silence, Max: o.MaxChildren, Share: o.Share,
		Budget: o.Budget, Logger: o.Logger, Tap: o.Tap,
		open: s.start, noun: "server process", kind: "process", transport: translate.TransportStdio, speaks: SpokeStdio, fail: session.FailProcess, mortal: true,
		key:     func(session.Target) string { return "" },
		owner:   func(session.Target) session.Principal { return sharedPrincipal },
		prober:  func(session.Target) session.Principal { return probePrincipal },
		longest: 30 * time.Second,
		full:    fmt.Sprintf("%d server processes are running, as many as may; try again later, or see --max-children", o.MaxChildren),
	})
	return s, nil
}

// Close ends all children in order and waits until nothing of them is left.
func (s *Stdio) Close() error {
	s.links.Close()
	return s.o.Guard.Close()
}

// Probe finds out which era the server belongs to; see links.Probe. Where no
// process would start the error is a session.DialError with FailProcess or wraps
// context.DeadlineExceeded.
func (s *Stdio) Probe(ctx context.Context, o ProbeOptions) (Result, error) {
	return s.links.Probe(ctx, session.Target{Upstream: s.o.Name}, o)
}

// Revive asks in the background whether the server can be had again, which Down
// then says. It asks once at a time, and not before the pause after the last
// failure is over.
func (s *Stdio) Revive(o ProbeOptions) {
	if !s.reviving.CompareAndSwap(false, true) {
		return
	}
	s.background(func() {
		defer s.reviving.Store(false)
		if _, err := s.Probe(s.ctx, o); err != nil {
			s.log.Debug("the server process does not come back yet", "error", err)
		}
	})
}

// childChannel is the standard streams of a child.
type childChannel struct {
	s    *Stdio
	name string
	proc *child.Process
	r    *lines.Reader
	w    *lines.Writer
	exit func() error // exitError, once
}

var _ channel = (*childChannel)(nil)

// start starts a child.
func (s *Stdio) start(_ context.Context, name string, _ session.Target) (channel, error) {
	proc, err := child.Start(child.Spec{
		Path: s.o.Command[0], Args: s.o.Command[1:], Env: s.o.Env, Dir: s.o.Dir,
		CloseGrace: s.o.CloseGrace, TermGrace: s.o.TermGrace, Guard: s.o.Guard,
		Log: func(line string) { s.log.Info("server process says", "process", name, "line", quote(line, 2<<10)) },
	})
	if err != nil {
		return nil, s.fail(session.FailProcess, s.hidden("the server process could not be started", err.Error()))
	}
	s.log.Debug("started a server process", "process", name, "pid", proc.PID())
	c := &childChannel{s: s, name: name, proc: proc, w: lines.NewWriter(proc.Stdin())}
	c.exit = sync.OnceValue(c.exitError)
	return c, nil
}

func (c *childChannel) start(giveUp func(error)) {
	c.r = c.s.newLines(c.proc.Stdout(), giveUp)
}

// newLines reads lines that draw on the budget. giveUp is called when the end of
// a discarded one is too long in coming.
func (s *links) newLines(r io.Reader, giveUp func(error)) *lines.Reader {
	var late *time.Timer
	o := lines.Options{Limit: s.o.MaxMessage, Discarding: func(on bool) {
		if on {
			late = time.AfterFunc(discardFor, func() { giveUp(s.endless()) })
		} else {
			late.Stop()
		}
	}}
	if b := s.o.Budget; b != nil {
		o.Room, o.Give = b.TryAcquire, b.Release
	}
	return lines.NewReader(r, o)
}

func (c *childChannel) write(msg [][]byte) error {
	if c.w.Write(msg...) == nil {
		return nil
	}
	t := time.NewTimer(c.s.o.CloseGrace)
	defer t.Stop()
	select {
	case <-c.proc.Said(): // how it ended says more
		return &overError{c.exit()}
	case <-t.C:
		return errors.New("it closed its standard input")
	}
}

func (c *childChannel) next() ([]byte, bool, error) {
	line, err := c.r.Next()
	return line, c.r.Unended(), err
}

// ended: the child's output has ended, so it is over: it may say so by closing
// its output (2026-07-28 stdio, Shutdown).
func (c *childChannel) ended() error {
	c.r.Close()
	t := time.NewTimer(c.s.o.CloseGrace)
	defer t.Stop()
	select {
	case <-c.proc.Said():
		return c.exit()
	case <-t.C:
		c.s.log.Warn("ending a server process", "process", c.name, "why", "it closed its standard output")
		return errors.New("the server process was ended: it closed its standard output")
	}
}

func (c *childChannel) stop() { c.proc.Stop() }

// exitError says how a child ended by itself.
func (c *childChannel) exitError() error {
	e := c.proc.Exit()
	text := "the server process ended"
	if e.Text != "" {
		text += ": " + e.Text
	}
	var tail []string
	for _, line := range e.Tail {
		tail = append(tail, quote(line, 256))
	}
	return c.s.hidden(text, strings.Join(tail, " "))
}

// hidden is an error whose detail only callers on this machine see: it may hold
// what is none of others' business (case S56). Those get a reference to a line
// in the log.
func (s *Stdio) hidden(text, detail string) error {
	switch {
	case detail == "":
		return errors.New(text)
	case s.o.ShowTail:
		return fmt.Errorf("%s; it said: %s", text, detail)
	}
	ref := rand.Text()[:8]
	s.log.Warn(text, "reference", ref, "detail", detail)
	return fmt.Errorf("%s; reference %s in the proxy's log", text, ref)
}
