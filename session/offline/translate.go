package offline

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/session/virtual"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// TranslateOptions say what is said again, and in which dialect.
type TranslateOptions struct {
	// Operations are the client leg's. Those that speak To's dialect already are
	// handed on as they are.
	Operations []*operation.Operation
	// To is a revision of the other dialect: 2025-11-25 or 2026-07-28.
	To string
	// Out takes the translated records in the order of their times; one call at
	// a time. An error ends the translation.
	Out func(*capture.Record) error
	// Progress is told now and then how many operations are over; nil: nobody.
	Progress func(over, all int)
	Logger   *slog.Logger // nil: discarded
	// Lane tells translations apart that come into one capture: their streams and
	// sessions have different names.
	Lane int
	// Grace is how long after the last record what has not come is waited for, in
	// the conversation's time. 10 min.
	Grace time.Duration
}

// Report says what a translation could not say in the other dialect.
type Report struct {
	// Operations counts those translated, Kept those that needed no translation.
	Operations, Kept int
	// Losses counts what the other dialect cannot say, by the names of
	// docs/mapping.md.
	Losses map[string]int
	// Missed are requests the capture has no answer to, the first few; Misses
	// counts all.
	Missed []Missed
	Misses int
	// Unfinished counts operations that came to no end.
	Unfinished int
}

const maxMissed = 100

// longTime is longer than any capture, so that nothing that was recorded
// expires only here.
const longTime = 100 * 365 * 24 * time.Hour

// Translate says a capture again in the other dialect: its clients speak to a
// runner that makes the other dialect of what they say, which speaks to a runner
// that makes the old one of that, which speaks to the capture as a server. What
// passes between the two runners is the translation. It runs on a virtual
// clock: times in the result are as if the conversation had been held so.
func Translate(ctx context.Context, o TranslateOptions) (*Report, error) {
	format, ok := translate.Lookup(o.To)
	if !ok {
		return nil, fmt.Errorf("revision %q is not known", o.To)
	}
	if o.Grace <= 0 {
		o.Grace = 10 * time.Minute
	}
	t := &translation{o: o, report: &Report{Losses: map[string]int{}}, principals: map[string]string{}}
	var told []*operation.Operation
	first := time.Time{}
	for _, op := range o.Operations {
		if len(op.Parts) == 0 {
			continue
		}
		if first.IsZero() || op.Began.Before(first) {
			first = op.Began
		}
		if op.Era != format.Era {
			told = append(told, op)
			t.principals[string(session.HashPrincipal("capture", op.Principal))] = op.Principal
		} else {
			t.report.Kept++
		}
	}
	t.report.Operations = len(told)
	t.w = virtual.New(first)
	from := translate.Legacy
	if format.Era == translate.Legacy {
		from = translate.Modern
	}
	return t.report, t.run(ctx, told, from, o.To)
}

// translation is one Translate.
type translation struct {
	o          TranslateOptions
	w          *virtual.World
	principals map[string]string

	mu     sync.Mutex // protects the fields below
	report *Report
	err    error
}

func (t *translation) run(ctx context.Context, told []*operation.Operation, from translate.Era, to string) error {
	mock := NewMock(MockOptions{Operations: told, Era: from, Clock: t.w, Speed: 1, Missed: t.missed})
	behind, err := t.runner(mock, mock)
	if err != nil {
		return err
	}
	defer behind.Close()
	face := session.Face{Era: translate.Modern, Version: to, Versions: []string{to}, Tasks: mock.face.Tasks}
	if from == translate.Modern {
		face = session.Face{Era: translate.Legacy, Version: to}
	}
	var tell *teller
	link := &Link{Hub: pollsOnly{behind}, Clock: t.w, Tap: t, Hide: func(verb string, m *jsonrpc.Message) bool { return tell.unasked(verb, m) }, Name: fmt.Sprintf("t%d.", t.o.Lane), Edit: taskMarks(told)}
	front, err := t.runner(link, fixedFace(face))
	if err != nil {
		return err
	}
	defer front.Close()
	tell = newTeller(t.w, front, told)
	tell.plan()
	t.keep()
	limit := t.w.Now()
	for _, op := range told {
		if last := op.Parts[len(op.Parts)-1].Record.Time; last.After(limit) {
			limit = last
		}
	}
	limit = limit.Add(t.o.Grace)
	all, said := tell.left, 0
	t.w.Run(ctx, func() bool {
		if t.o.Progress != nil {
			if over := all - tell.unfinished(); over > said {
				said = over
				t.o.Progress(over, all)
			}
		}
		return t.failed() || tell.over() && !t.w.Now().Before(limit.Add(-t.o.Grace)) || t.w.Now().After(limit)
	})
	t.report.Unfinished = tell.stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = ctx.Err()
	}
	return t.err
}

// taskMarks says of each tool in a legacy list whether it ran as a task. A proxy
// before a modern server has to say "optional" of all, which makes tasks of
// calls that were none.
func taskMarks(told []*operation.Operation) func(string, *jsonrpc.Message) []byte {
	tasks, called := map[string]bool{}, map[string]bool{}
	for _, op := range told {
		if op.Method == "tools/call" {
			called[op.Name] = true
			tasks[op.Name] = tasks[op.Name] || op.Kind == operation.Task
		}
	}
	return func(method string, m *jsonrpc.Message) []byte {
		if method != "tools/list" {
			return m.Raw
		}
		e := m.Edit()
		for tool := range m.Result().Get("tools").Elems() {
			if name, _ := tool.Get("name").Str(); called[name] && !tasks[name] && tool.Get("execution").Get("taskSupport").Is("optional") {
				e.Replace(tool.Get("execution").Get("taskSupport"), []byte(`"forbidden"`))
			}
		}
		return e.Bytes()
	}
}

func (t *teller) unfinished() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.left
}

type fixedFace session.Face

func (f fixedFace) Face(context.Context, session.Target) (session.Face, error) {
	return session.Face(f), nil
}

// runner makes one that forgets nothing and seals nothing.
func (t *translation) runner(d session.Dialer, faces session.Faces) (*session.Runner, error) {
	many := session.Limit{Each: 1 << 40, All: 1 << 40}
	return session.New(session.Options{
		Store: memory.New(), Dialer: d, Faces: faces, Handles: session.NewPlainHandles(), Upstream: "capture",
		Policy: session.Policy{
			PollRate: 1e9, SessionIdle: longTime, TaskKeep: longTime, TaskGrace: longTime, MaxTTL: longTime, ParkFor: longTime, TaskHandleAfter: longTime,
			Tasks: many, Sessions: many, Upstreams: many, Streams: many, Version: "translate", MessageLimit: 1 << 30,
		},
		Held: session.NewHeldBudget(1 << 40), Logger: t.o.Logger, Metrics: t,
		Rand: rand.NewChaCha8(seed(t.o.Lane)), Clock: t.w, StreamBytes: 1 << 40,
	})
}

// seed makes the names of a lane its own.
func seed(lane int) (s [32]byte) {
	binary.BigEndian.PutUint64(s[:], uint64(lane))
	return s
}

// keep plans what needs no translation.
func (t *translation) keep() {
	for _, op := range t.o.Operations {
		format, _ := translate.Lookup(t.o.To)
		if op.Era != format.Era {
			continue
		}
		for _, p := range op.Parts {
			t.w.AfterFunc(p.Record.Time.Sub(t.w.Now()), func() { t.out(p.Record) })
		}
	}
}

func (t *translation) failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err != nil
}

func (t *translation) missed(m Missed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Misses++
	if len(t.report.Missed) < maxMissed {
		t.report.Missed = append(t.report.Missed, m)
	}
}

// Loss implements session.Metrics.
func (t *translation) Loss(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Losses[what]++
}

// Dropped implements session.Metrics.
func (t *translation) Dropped(string) {}

// Limited implements session.Metrics.
func (t *translation) Limited(string) {}

// Frame implements session.Tap: what passes between the runners.
func (t *translation) Frame(f translate.Frame) {
	r := &capture.Record{
		Time: f.Time, Leg: f.Leg, Dir: f.Dir, Transport: f.Transport, Stream: f.Stream, Session: f.Session,
		Principal: t.principals[f.Principal],
	}
	if f.HTTP != nil {
		r.Verb, r.Status, r.Header = f.HTTP.Verb, f.HTTP.Status, f.HTTP.Header
	}
	if f.Msg != nil {
		r.Msg = f.Msg.Raw
	}
	t.out(r)
}

func (t *translation) out(r *capture.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = t.o.Out(r)
	}
}

// LossNames are the names in Losses in their order.
func (r *Report) LossNames() []string {
	names := make([]string, 0, len(r.Losses))
	for name := range r.Losses {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
