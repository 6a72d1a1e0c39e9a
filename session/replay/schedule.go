package replay

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"taskbridge/translate/operation"
)

// givesWay is how long an operation may take before others go ahead of it.
const givesWay = 2 * time.Second

// schedule starts each operation when what came before it in its session is
// over. It belongs to the goroutine of run; operations tell it what happens.
type schedule struct {
	r     *replay
	nodes []*node
	byN   map[int]*node
	ready nodes
	rng   *rand.Rand // nil: in the capture's order

	events  chan event
	running int // operations that hold a place
	open    int // nodes that are not over
	t0      time.Time
	wg      sync.WaitGroup
}

// node is one step and what it waits for.
type node struct {
	step   *Step
	result *Result
	client *party
	drive  *drive

	before   int     // how many it still waits for
	onOpened []*node // wait until it is taken
	onOver   []*node
	holds    bool // one of the places
	over     bool
	dropped  bool // it will never begin
	rank     uint64
	at       time.Time // not before, where there is a speed
}

// party is a client and how much of it is left to do.
type party struct {
	*client
	nodes []*node
	left  int
	moved chan struct{} // closed and made anew when one is over
	mu    sync.Mutex    // protects left, moved and the over of nodes
}

type event struct {
	n    *node
	what happening
}

type happening uint8

const (
	opened happening = iota
	over
	slow
)

func newSchedule(r *replay) *schedule {
	s := &schedule{r: r, byN: map[int]*node{}, events: make(chan event)}
	if r.o.Seed != 0 {
		s.rng = rand.New(rand.NewPCG(r.o.Seed, 1))
	}
	clients := map[string]*party{}
	for _, step := range r.o.Plan.Steps {
		n := &node{step: step, result: &Result{Step: step}, rank: uint64(step.Op.N)}
		if s.rng != nil {
			n.rank = s.rng.Uint64()
		}
		s.nodes = append(s.nodes, n)
		s.byN[step.Op.N] = n
		if !step.Send {
			n.over = true
			continue
		}
		key := clientKey(step.Op)
		c := clients[key]
		if c == nil {
			c = &party{client: newClient(r, fmt.Sprintf("own%d", len(clients)+1), r.o.Plan.clients[key]), moved: make(chan struct{})}
			clients[key] = c
		}
		n.client = c
		c.nodes = append(c.nodes, n)
		c.left++
		s.open++
	}
	for _, c := range clients {
		s.link(c)
	}
	return s
}

// link says what each node of a session waits for: those that had ended before,
// those it stands on where these are not replayed, and listens that had begun.
func (s *schedule) link(c *party) {
	var listens []*node
	for _, n := range c.nodes {
		waits := map[*node]bool{}
		s.waitsFor(n.step.Op.After, waits, map[int]bool{})
		for b := range waits {
			n.before++
			b.onOver = append(b.onOver, n)
		}
		for _, l := range listens {
			if !waits[l] {
				n.before++
				l.onOpened = append(l.onOpened, n)
			}
		}
		if n.step.Op.Kind == operation.Listen {
			listens = append(listens, n)
		}
	}
}

// waitsFor resolves After: in place of an operation that is not replayed stands
// what it itself came after.
func (s *schedule) waitsFor(after []int, into map[*node]bool, seen map[int]bool) {
	for _, k := range after {
		if seen[k] {
			continue
		}
		seen[k] = true
		switch n := s.byN[k]; {
		case n == nil:
		case n.step.Send:
			into[n] = true
		default:
			s.waitsFor(n.step.Op.After, into, seen)
		}
	}
}

func (s *schedule) results() []*Result {
	out := make([]*Result, len(s.nodes))
	for i, n := range s.nodes {
		out[i] = n.result
	}
	return out
}

// run starts what may start until nothing is left.
func (s *schedule) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.t0 = time.Now()
	for _, n := range s.nodes {
		if n.client != nil && n.client.ctx == nil {
			n.client.ctx, n.client.stop = context.WithCancel(ctx)
		}
		if !n.over && n.before == 0 {
			s.queue(n)
		}
	}
	for s.open > 0 {
		due := s.start(ctx)
		var timer <-chan time.Time
		if due > 0 {
			timer = time.After(due)
		}
		select {
		case ev := <-s.events:
			s.happened(ev)
		case <-timer:
		case <-ctx.Done():
			s.drop()
		}
	}
	s.wg.Wait()
	return context.Cause(ctx)
}

func (s *schedule) queue(n *node) {
	if n.dropped {
		return
	}
	if speed := s.r.o.Speed; speed > 0 {
		first := s.r.o.Plan.Steps[0].Op.Began
		n.at = s.t0.Add(time.Duration(float64(n.step.Op.Began.Sub(first)) / speed))
	}
	heap.Push(&s.ready, n)
}

// start starts what is ready as far as there is place, and says when the next
// one is due; 0: whenever something happens.
func (s *schedule) start(ctx context.Context) time.Duration {
	var later []*node
	var due time.Duration
	for s.ready.Len() > 0 {
		n := heap.Pop(&s.ready).(*node)
		holds := n.step.Op.Kind != operation.Listen
		if wait := time.Until(n.at); !n.at.IsZero() && wait > 0 {
			later = append(later, n)
			if due == 0 || wait < due {
				due = wait
			}
			continue
		}
		if holds && s.running >= s.r.o.Concurrency {
			later = append(later, n)
			break
		}
		if n.holds = holds; holds {
			s.running++
		}
		s.begin(ctx, n)
	}
	for _, n := range later {
		heap.Push(&s.ready, n)
	}
	return due
}

// begin does an operation in a goroutine of its own.
func (s *schedule) begin(ctx context.Context, n *node) {
	n.drive = newDrive(s.r, n.client.client, n.step.Op)
	n.drive.beside = n.client.beside(n.step.Op)
	s.wg.Go(func() {
		d := n.drive
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			d.run(ctx, func() <-chan struct{} { return n.client.done(n) })
		}()
		slowly := time.NewTimer(givesWay)
		defer slowly.Stop()
		wasOpened := d.opened
		for {
			select {
			case <-wasOpened:
				wasOpened = nil
				s.events <- event{n, opened}
				continue
			case <-slowly.C:
				s.events <- event{n, slow}
				continue
			case <-finished:
			}
			break
		}
		d.mu.Lock()
		n.result.Notes, n.result.Full, n.result.Endless = d.notes, d.full.Load(), d.endless.Load()
		d.mu.Unlock()
		if n.client.finish(n) {
			n.client.close(ctx)
		}
		s.events <- event{n, over}
	})
}

func (s *schedule) happened(ev event) {
	n := ev.n
	switch ev.what {
	case opened:
		s.release(&n.onOpened)
	case slow:
		s.give(n)
	case over:
		s.give(n)
		s.open--
		s.release(&n.onOpened)
		s.release(&n.onOver)
		if n.step.Selected && s.r.o.Done != nil {
			s.r.o.Done(n.result)
		}
	}
}

// give frees the place a node holds.
func (s *schedule) give(n *node) {
	if n.holds {
		n.holds = false
		s.running--
	}
}

func (s *schedule) release(waiting *[]*node) {
	for _, w := range *waiting {
		if w.before--; w.before == 0 {
			s.queue(w)
		}
	}
	*waiting = nil
}

// drop gives up what has not begun.
func (s *schedule) drop() {
	for _, n := range s.nodes {
		if n.drive == nil && n.client != nil && !n.dropped {
			n.dropped = true
			s.open--
		}
	}
	s.ready = nil
	if s.open > 0 {
		s.happened(<-s.events)
	}
}

// finish notes that n is over, and says whether the session is.
func (c *party) finish(n *node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.over = true
	c.left--
	close(c.moved)
	c.moved = make(chan struct{})
	return c.left == 0
}

// done is closed once all of the session is over that ran beside a listen.
func (c *party) done(l *node) <-chan struct{} {
	out := make(chan struct{})
	go func() {
		defer close(out)
		for {
			c.mu.Lock()
			busy, moved := c.busy(l), c.moved
			c.mu.Unlock()
			if !busy {
				return
			}
			select {
			case <-moved:
			case <-c.ctx.Done():
				return
			}
		}
	}()
	return out
}

// beside is how long before close the last of those began that were under way
// when it came; 0: none was.
func (c *party) beside(close *operation.Operation) time.Duration {
	var last time.Time
	for _, n := range c.nodes {
		op := n.step.Op
		if op.Kind != operation.Listen && op.N < close.N && (op.Ended.IsZero() || !op.Ended.Before(close.Began)) && op.Began.After(last) {
			last = op.Began
		}
	}
	if close.Kind != operation.Close || last.IsZero() {
		return 0
	}
	return close.Began.Sub(last)
}

// busy needs c.mu.
func (c *party) busy(l *node) bool {
	end := l.step.Op.Ended
	for _, n := range c.nodes {
		op := n.step.Op
		if !n.over && n != l && op.Kind != operation.Listen && op.Kind != operation.Close && (end.IsZero() || op.Began.Before(end)) {
			return true
		}
	}
	return false
}

// nodes is a heap: the least rank first.
type nodes []*node

func (h nodes) Len() int           { return len(h) }
func (h nodes) Less(i, j int) bool { return h[i].rank < h[j].rank }
func (h nodes) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *nodes) Push(x any)        { *h = append(*h, x.(*node)) }

func (h *nodes) Pop() any {
	old := *h
	n := old[len(old)-1]
	*h = old[:len(old)-1]
	return n
}
