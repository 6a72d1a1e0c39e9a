package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"taskbridge/translate"
)

// Options are what a Runner works with.
type Options struct {
	Store   Store    // required
	Dialer  Dialer   // required
	Faces   Faces    // required
	Handles *Handles // required
	// Counts is where callers' things are counted; nil: Store. Runners that share
	// it share the limits of a Policy, those that share CountsAbove the limits of
	// Policy.Above; nil: there are none.
	Counts, CountsAbove Store
	// Upstream names the server behind, Route the route it is on; "default" if
	// empty. Route is for observers alone.
	Upstream, Route string
	Policy          Policy
	// Credentials is made with 10,000 principals if nil.
	Credentials *Credentials
	// Snapshots is made with 4096 entries and 64 MiB if nil, Held with 64 MiB.
	Snapshots *Snapshots
	Held      *HeldBudget
	Logger    *slog.Logger // nil: discarded
	Tap       Tap          // nil: none
	Metrics   Metrics      // nil: none
	Observers []Observer   // four at most; they hear of each request in this order
	// Rand is the source of ids and tokens; nil: crypto/rand.
	Rand  io.Reader
	Clock Clock // nil: the machine's
	// StreamBytes bounds what a client stream holds beside one message; 0: 1 MiB.
	StreamBytes int
	// Process is shared by the runners of one process; nil: one of its own.
	Process *Process
}

// Face is what a probe found out about a server: the eras it speaks.
type Face struct {
	// Era is the newest the server speaks; Version its newest revision.
	Era     translate.Era
	Version string
	// Versions are the revisions the server listed; empty: not known.
	Versions []string
	// Dual: a legacy face stands beside the modern one.
	Dual bool
	// Tasks: the modern face has the tasks extension.
	Tasks bool
}

// Faces says what a server speaks; it probes and remembers. Errors wrap
// *DialError; an era that could not be told is an error, never a guess.
type Faces interface {
	Face(ctx context.Context, target Target) (Face, error)
}

// Metrics counts what operations meet. Implementations must not block.
type Metrics interface {
	Loss(what string)
	Dropped(what string)
	// Limited: work was refused for a limit of its caller, by name: tasks,
	// sessions, server_sessions, streams.
	Limited(limit string)
}

// Runner carries operations out: one per upstream and process, any number on
// one store.
// Between two messages it needs nothing but the store, the credential holder
// and its open sockets; Forget proves it.
type Runner struct {
	id        string
	upstream  string
	route     string
	store     Store
	counts    Store
	above     Store // likewise, of more runners; nil: none
	dialer    Dialer
	faces     Faces
	handles   *Handles
	policyNow atomic.Pointer[Policy]
	creds     *Credentials
	snaps     *Snapshots
	held      *HeldBudget
	kept      *keptLogs
	log       *slog.Logger
	tap       Tap
	metrics   Metrics
	observers []Observer
	// exchangeObservers are those of them that hear of exchanges, too.
	exchangeObservers []ExchangeObserver
	// clients and whos are what observers are told of clients again: by legacy
	// session, and by origin.
	clients     *lru.Cache[string, Who]
	whos        *lru.Cache[string, Who]
	aways       *lru.Cache[string, *seen]
	rand        io.Reader
	clock       Clock
	streamBytes int
	proc        *Process
	sealed      sealKinds
	hooks       routeHooks
	questions   *serverRequests // nil: nobody hears of them

	looks  *pacer // paced exchanges
	warm   warm
	work   chan func() // to a worker that is idle
	idle   atomic.Int64
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	inbox    sync.Mutex // held while the inbox is worked off; protects inboxSeq
	inboxSeq uint64     // the last entry carried out

	mu        sync.Mutex // protects the maps below; never held over I/O or a step
	lag       *sync.Cond // on mu: a long mailbox got shorter
	boxes     map[OpID]*mailbox
	streams   map[string]*attached
	ups       map[upKey]*exchange
	ids       map[string]*idBlock
	holders   map[upKey]time.Time // open tasks/result streams and when they began
	timers    timerHeap
	stopTimer func() bool // of the one timer, nil before the first
}

// attached is a client stream and the operation that answers on it.
type attached struct {
	stream *ClientStream
	op     OpID
	waits  []waitKind // it is counted as; none: it is no stream that waits
	// follows is the stream of an earlier connection this one goes on with; stop
	// ends the reading of its log.
	follows string
	stop    context.CancelFunc
}

type upKey struct {
	op    OpID
	label string
}

// mailbox holds an operation's events in the order they came; one goroutine
// at a time works them off.
type mailbox struct {
	events  []Event
	running bool
}

// New returns a running Runner; Close it.
func New(o Options) (*Runner, error) {
	if o.Store == nil || o.Dialer == nil || o.Faces == nil || o.Handles == nil {
		return nil, errors.New("session: Store, Dialer, Faces and Handles are required")
	}
	if len(o.Observers) > maxObservers {
		return nil, errors.New("session: too many observers")
	}
	r := &Runner{
		upstream: o.Upstream, route: o.Route, observers: o.Observers, exchangeObservers: exchangeObserversOf(o.Observers), store: o.Store, dialer: o.Dialer, faces: o.Faces, handles: o.Handles,
		creds: o.Credentials, snaps: o.Snapshots, held: o.Held,
		log: o.Logger, tap: o.Tap, metrics: o.Metrics, rand: o.Rand, clock: o.Clock, streamBytes: o.StreamBytes, proc: o.Process,
		boxes: map[OpID]*mailbox{}, streams: map[string]*attached{}, ups: map[upKey]*exchange{}, ids: map[string]*idBlock{},
		holders: map[upKey]time.Time{}, counts: o.Counts, above: o.CountsAbove,
	}
	r.defaults()
	r.id, r.sealed = r.proc.id, newSealKinds(r.upstream)
	r.SetPolicy(o.Policy)
	r.kept = r.proc.keeps(r.policy().ResumeBytes)
	r.lag = sync.NewCond(&r.mu)
	r.warm, r.work = newWarm(), make(chan func())
	r.clients, _ = lru.New[string, Who](warmMax)
	r.whos, _ = lru.New[string, Who](warmMax)
	r.aways = newAways()
	r.questions = newServerRequests(r)
	r.looks = newPacer(r.clock, r.policy().PollRate, r.pollLag)
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	r.wg.Go(r.followInbox)
	return r, nil
}

// defaults fills in what the options left out.
func (r *Runner) defaults() {
	r.upstream, r.route = cmp.Or(r.upstream, defaultUpstream), cmp.Or(r.route, "default")
	if r.counts == nil {
		r.counts = r.store
	}
	if r.creds == nil {
		r.creds = NewCredentials(10000)
	}
	if r.snaps == nil {
		r.snaps = NewSnapshots(4096, 64<<20)
	}
	if r.held == nil {
		r.held = NewHeldBudget(64 << 20)
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.metrics == nil {
		r.metrics = noMetrics{}
	}
	if r.rand == nil {
		r.rand = rand.Reader
	}
	if r.clock == nil {
		r.clock = RealClock{}
	}
	if r.proc == nil {
		r.proc = newProcess(r.rand)
	}
}

type noMetrics struct{}

func (noMetrics) Loss(string)    {}
func (noMetrics) Dropped(string) {}
func (noMetrics) Limited(string) {}

// Close ends all exchanges and waits for the goroutines. Client streams get
// no further messages. What servers are told in parting has a second to get
// there. The store stays open.
func (r *Runner) Close() error {
	r.farewell()
	r.cancel(errors.New("runner closed"))
	r.mu.Lock()
	if r.stopTimer != nil {
		r.stopTimer()
	}
	for _, ex := range r.ups {
		ex.cancel()
	}
	r.lag.Broadcast()
	r.mu.Unlock()
	r.wg.Wait()
	r.questions.close()
	r.kept.leave(r)
	return nil
}

// storeFailed tells the operator what the store did not do. What a runner that is
// closed breaks off itself is no failure.
func (r *Runner) storeFailed(what string, err error, args ...any) {
	if r.ctx.Err() == nil {
		r.log.Error(what, append(args, "err", err)...)
	}
}

// Forget drops everything but the store, the credential holder and open
// sockets, and reads the timers back from the store: what a test does between
// two messages to show that nothing else is needed.
func (r *Runner) Forget() {
	r.snaps.Purge()
	r.warm.forget()
	r.clients.Purge()
	r.whos.Purge()
	r.mu.Lock()
	r.ids = map[string]*idBlock{}
	r.timers = nil
	r.mu.Unlock()
	r.loadTimers()
}

func (r *Runner) token(n int) string { return randomText(r.rand, n) }

// maxBox: events an operation may lag behind before those who read from a
// server wait for it.
const maxBox = 256

// deliverPaced is deliver for readers of a server: they wait while the
// operation lags far behind, so that memory stays bounded.
func (r *Runner) deliverPaced(id OpID, ev Event) {
	r.mu.Lock()
	for r.boxes[id] != nil && len(r.boxes[id].events) >= maxBox && r.ctx.Err() == nil {
		r.lag.Wait()
	}
	r.mu.Unlock()
	r.deliver(id, ev)
}

// deliver puts an event into an operation's mailbox and, unless somebody
// else is at it, works the mailbox off. Events of one sender keep their
// order; an operation is never stepped by two goroutines of this runner.
func (r *Runner) deliver(id OpID, ev Event) {
	if r.enqueue(id, ev) {
		r.workOff(id)
	}
}

// enqueue is deliver without the work; true: the caller has to work the
// mailbox off.
func (r *Runner) enqueue(id OpID, ev Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	box := r.boxes[id]
	if box == nil {
		box = &mailbox{}
		r.boxes[id] = box
	}
	box.events = append(box.events, ev)
	if box.running {
		return false
	}
	box.running = true
	return true
}

// workOff steps an operation until its mailbox is empty.
func (r *Runner) workOff(id OpID) {
	for _, left := range r.workBox(id, r.store.Acquire) {
		r.workOff(left)
	}
}

// stepLease: how long a runner that dies in a step holds the operation up.
const stepLease = 30 * time.Second

// workBox is workOff with a way to claim the operation. Of all runners one at a
// time steps an operation and carries the effects out, so that these happen in
// the order of the steps. An operation that is told something by another is
// stepped within that one's step where that takes no waiting: two that wait
// for each other would wait for ever. What was not is left to the caller, to be
// worked off when it holds no claim.
func (r *Runner) workBox(id OpID, claim func(ctx context.Context, key, holder string, ttl time.Duration) (uint64, error)) (left []OpID) {
	key := opKey(id)
	r.mu.Lock()
	box := r.boxes[id]
	for len(box.events) > 0 {
		r.mu.Unlock()
		_, err := claim(r.ctx, key, r.id, stepLease)
		if errors.Is(err, ErrHeld) {
			return append(left, id)
		}
		r.mu.Lock()
		next := box.events[0]
		box.events = box.events[1:]
		r.mu.Unlock()
		if err == nil {
			left = append(left, r.step(id, next)...)
			_ = r.store.Release(context.Background(), key, r.id)
		} else {
			r.storeFailed("claim operation", err, "kind", id.Kind())
		}
		if next.stepped != nil {
			next.stepped()
		}
		r.mu.Lock()
		if len(box.events) == maxBox-1 {
			r.lag.Broadcast()
		}
	}
	delete(r.boxes, id)
	r.mu.Unlock()
	return left
}

// step loads an operation, steps it, stores it again and carries the effects
// out; the caller has claimed it. It returns what workBox does.
func (r *Runner) step(id OpID, ev Event) (left []OpID) {
	make, ok := kinds[id.Kind()]
	if !ok {
		r.log.Error("unknown kind of operation", "kind", id.Kind())
		return nil
	}
	key := opKey(id)
	ev.Now = r.clock.Now()
	for again := false; ; again = true { // where the claim lapsed and another runner was faster
		m := make()
		entry, err := r.store.Get(r.ctx, key)
		switch {
		case errors.Is(err, ErrNotFound) && !again && (ev.Kind == EvTimer || ev.Kind == EvClientGone):
			return nil // word for an operation that is over must not bring it back
		case errors.Is(err, ErrNotFound):
			entry.Version = Absent
		case err != nil:
			r.storeFailed("read operation", err, "kind", id.Kind())
			return nil
		default:
			if m, err = r.warm.take(id, entry, m); err != nil {
				r.log.Error("operation state is damaged; it is dropped", "kind", id.Kind(), "err", err)
				_ = r.store.Delete(r.ctx, key, entry.Version)
				return nil
			}
		}
		b := m.ops()
		if ev.exchange != "" && b.Ups[ev.Label] != ev.exchange {
			return nil // of an exchange that was shut or replaced meanwhile
		}
		moved := b.By != "" && b.By != r.id
		b.By = r.id
		before(b, ev)
		b.adopt(id, ev)
		x := &Exec{ID: id, Now: ev.Now, Policy: r.policy(), r: r, heard: ev.exchange, from: b.whose(ev)}
		m.Step(x, ev)
		r.settle(b, x)
		version, err := r.save(key, entry.Version, m, x.done)
		if errors.Is(err, ErrConflict) {
			continue
		} else if err != nil {
			r.storeFailed("write operation", err, "kind", id.Kind())
			return nil
		}
		if moved { // what the other runner asked of our sockets comes first
			left = r.drainInbox()
		}
		left = append(left, r.execute(id, b, x)...)
		if !x.done {
			r.warm.put(id, version, m)
		}
		return left
	}
}

// before takes out of the base what the event itself ends.
func before(b *base, ev Event) {
	switch ev.Kind {
	case EvTimer:
		delete(b.Wakes, ev.Name)
	case EvServerEnd:
		delete(b.Ups, ev.Label)
	}
}

// settle notes opened and shut exchanges and wakes in the stored state.
func (r *Runner) settle(b *base, x *Exec) {
	for i, e := range x.effects {
		switch e := e.(type) {
		case Shut:
			exchange := b.Ups[e.Label]
			if exchange == "" {
				exchange = x.heard // the step took it out itself
			}
			x.effects[i] = shutAt{e.Label, exchange}
			delete(b.Ups, e.Label)
		case Open:
			if b.Ups == nil {
				b.Ups = map[string]string{}
			}
			exchange := r.proc.next()
			b.Ups[e.Label] = exchange
			x.effects[i] = openAt{e, exchange, x.from.Trace}
		case Wake:
			if b.Wakes == nil {
				b.Wakes = map[string]time.Time{}
			}
			b.Wakes[e.Name] = e.At
		case Unwake:
			delete(b.Wakes, e.Name)
		}
	}
}

func (r *Runner) save(key string, version uint64, m machine, done bool) (uint64, error) {
	if done {
		if version == Absent {
			return 0, nil
		}
		return 0, r.store.Delete(r.ctx, key, version)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return 0, err
	}
	return r.store.Put(r.ctx, key, raw, version)
}
