// Package virtual is a clock that moves on only when all work rests: hours of
// traffic are played in a moment, and the same plan plays the same way.
package virtual

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"taskbridge/session"
)

// World is a session.Clock, and what carries its time on. One goroutine calls
// Run; everything else happens in work that it starts. Of all work one piece at
// a time goes on, the others wait for their turn in the order they became
// ready: what happens within one moment is alike each time, too.
type World struct {
	mu      sync.Mutex // protects the fields below
	rest    sync.Cond  // on mu: nothing is at work any more
	now     time.Time
	busy    bool            // a piece of work goes on
	ready   []chan struct{} // whose turn comes next
	events  eventHeap
	planned uint64 // events ever planned: of two at one moment the first planned is first
}

var _ session.Clock = (*World)(nil)

// New returns a world whose time begins at start.
func New(start time.Time) *World {
	w := &World{now: start}
	w.rest.L = &w.mu
	return w
}

type event struct {
	at   time.Time
	seq  uint64
	f    func()
	done bool // carried out or stopped
	pos  int
}

type eventHeap []*event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].seq < h[j].seq
	}
	return h[i].at.Before(h[j].at)
}
func (h eventHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}
func (h *eventHeap) Push(v any) {
	e := v.(*event)
	e.pos = len(*h)
	*h = append(*h, e)
}
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}

// Now implements session.Clock.
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// AfterFunc implements session.Clock. What is due at one moment happens one
// after the other, each with all that follows from it.
func (w *World) AfterFunc(d time.Duration, f func()) func() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.planned++
	e := &event{at: w.now.Add(max(d, 0)), seq: w.planned, f: f}
	heap.Push(&w.events, e)
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if e.done {
			return false
		}
		e.done = true
		heap.Remove(&w.events, e.pos)
		return true
	}
}

// Work implements session.Clock.
func (w *World) Work(f func()) func() {
	turn := make(chan struct{}, 1)
	w.mu.Lock()
	w.enqueue(turn)
	w.mu.Unlock()
	return func() {
		<-turn
		defer func() {
			w.mu.Lock()
			w.pass()
			w.mu.Unlock()
		}()
		f()
	}
}

// enqueue gives turn its place; it needs w.mu.
func (w *World) enqueue(turn chan struct{}) {
	w.ready = append(w.ready, turn)
	if !w.busy {
		w.pass()
	}
}

// pass ends a turn and begins the next; it needs w.mu.
func (w *World) pass() {
	w.busy = len(w.ready) > 0
	if !w.busy {
		w.rest.Broadcast()
		return
	}
	next := w.ready[0]
	w.ready[0] = nil
	w.ready = w.ready[1:]
	next <- struct{}{}
}

// hooks are what cancelling a context calls at once: a goroutine woken by its
// Done channel alone would be at work without being counted.
type hooks struct {
	mu       sync.Mutex
	canceled bool
	list     []*hook
}

type hook struct{ f func() }

type hooksKey struct{}

// WithCancel implements session.Clock.
func (w *World) WithCancel() (context.Context, context.CancelFunc) {
	h := &hooks{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), hooksKey{}, h))
	return ctx, func() {
		cancel()
		h.mu.Lock()
		list := h.list
		h.list, h.canceled = nil, true
		h.mu.Unlock()
		for _, k := range list {
			k.f()
		}
	}
}

// OnCancel implements session.Clock. A context that is not of WithCancel is
// taken for one that nobody cancels while time moves.
func (w *World) OnCancel(ctx context.Context, f func()) func() bool {
	h, _ := ctx.Value(hooksKey{}).(*hooks)
	if h == nil {
		return func() bool { return false }
	}
	h.mu.Lock()
	if h.canceled {
		h.mu.Unlock()
		f()
		return func() bool { return false }
	}
	k := &hook{f}
	h.list = append(h.list, k)
	h.mu.Unlock()
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		at := slices.Index(h.list, k)
		if at < 0 {
			return false
		}
		h.list = slices.Delete(h.list, at, at+1)
		return true
	}
}

// Gate implements session.Clock. Only work of this world may Wait.
func (w *World) Gate() session.Gate { return &gate{w: w, let: make(chan struct{}, 1)} }

type gate struct {
	w       *World
	waiting bool // under w.mu
	open    bool
	let     chan struct{}
}

func (g *gate) Wait() {
	g.w.mu.Lock()
	if g.open {
		g.open = false
		g.w.mu.Unlock()
		return
	}
	g.waiting = true
	g.w.pass()
	g.w.mu.Unlock()
	<-g.let
}

func (g *gate) Open() {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	if !g.waiting {
		g.open = true
		return
	}
	g.waiting = false
	g.w.enqueue(g.let)
}

// Run moves time on from event to event until over, asked whenever all work
// rests, says so; until nothing is planned any more; or until ctx ends. It
// returns whether it was over that ended it.
func (w *World) Run(ctx context.Context, over func() bool) bool {
	for {
		w.mu.Lock()
		for w.busy {
			w.rest.Wait()
		}
		w.mu.Unlock()
		if over() {
			return true
		}
		w.mu.Lock()
		if len(w.events) == 0 || ctx.Err() != nil {
			w.mu.Unlock()
			return false
		}
		e := heap.Pop(&w.events).(*event)
		e.done = true
		if e.at.After(w.now) {
			w.now = e.at
		}
		w.busy = true
		w.mu.Unlock()
		e.f()
		w.mu.Lock()
		w.pass()
		w.mu.Unlock()
	}
}
