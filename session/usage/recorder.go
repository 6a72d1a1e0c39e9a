package usage

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
	"sync"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// Options are what a Recorder works with.
type Options struct {
	Store session.Store // required; keys begin with "usage/"
	// Mask shows a principal, as Handles.Mask does; required.
	Mask func(session.Principal) string
	// Sessions are the legacy sessions open on a route; nil: none are looked at.
	Sessions func(ctx context.Context, route string) ([]session.LegacySession, error)
	// Servers are the upstreams a route has, those that are being emptied among
	// them, as session.Options.Upstream has them; nil: all that were ever asked.
	Servers func(route string) []string
	Clock   session.Clock // nil: the machine's
	Logger  *slog.Logger  // nil: discarded
	// Flush is how often what was counted goes to the store; 0: five seconds.
	Flush time.Duration
	// ID tells this process from others on the store; empty: random.
	ID string
}

// How much is told apart; the rest is counted together.
const (
	maxClients      = 1024  // of a route
	maxPerPrincipal = 256   // of those, one principal's
	maxAll          = 16384 // of all routes
	maxSlots        = 16384 // clients and servers remembered between two flushes
	idleSlot        = 10 * time.Minute
)

const (
	defaultFlush = 5 * time.Second
	flushTimeout = 30 * time.Second
	// lateBeats: a process that has not been heard of for so many flushes has
	// ended, or was stopped meanwhile.
	lateBeats = 3
)

// Recorder counts, and reports. Create it with New; Close it, or what was
// counted since the last flush is lost and shows as a gap. Safe for concurrent
// use.
type Recorder struct {
	store    session.Store
	mask     func(session.Principal) string
	sessions func(context.Context, string) ([]session.LegacySession, error)
	servers  func(string) []string
	clock    session.Clock
	log      *slog.Logger
	every    time.Duration
	id       string

	// flushing is held while deltas go to the store; protects compacted.
	flushing  sync.Mutex
	compacted stamp

	mu     sync.RWMutex // protects the fields below; taken after flushing
	slots  map[identity]*slot
	faces  map[identity]face
	news   map[identity]face // faces the store does not have yet
	routes map[string]spans  // when each route was served here; the last span's To is 0 while it is
	moved  bool              // routes changed since the store was told
	self   coverage          // of this process; the last span goes on
	beat   stamp             // the last tick
	stop   func() bool       // of the next tick
	closed bool
}

var (
	_ session.Observer        = (*Recorder)(nil)
	_ session.SessionObserver = (*Recorder)(nil)
)

// identity is what a slot counts for. The zero client of a route is all those
// who are not told apart.
type identity struct {
	route, name, version string
	principal            session.Principal
	folded, server       bool
}

// slot holds what was counted for one client or server since the last flush.
type slot struct {
	key string // in the store, once it is known; the flush's own

	mu      sync.Mutex // protects the fields below
	deltas  []delta    // by day, oldest first
	touched stamp
	dead    bool // no longer among Recorder.slots
}

type delta struct {
	day
	record
}

// sighting is one message as it is counted.
type sighting struct {
	at, from                       stamp // end and begin
	era                            translate.Era
	completed, failed, probe, used bool
	held, longHeld                 bool
	quiet                          bool // no message
	revision                       string
	features                       translate.LegacyOnly
}

// New returns a Recorder that flushes until it is closed. ctx bounds the first
// words with the store.
func New(ctx context.Context, o Options) (*Recorder, error) {
	if o.Store == nil || o.Mask == nil {
		return nil, errors.New("usage: Store and Mask are required")
	}
	r := &Recorder{
		store: o.Store, mask: o.Mask, sessions: o.Sessions, servers: o.Servers, clock: o.Clock, log: o.Logger, every: o.Flush, id: o.ID,
		slots: map[identity]*slot{}, faces: map[identity]face{}, news: map[identity]face{}, routes: map[string]spans{},
	}
	if r.clock == nil {
		r.clock = session.RealClock{}
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.every <= 0 {
		r.every = defaultFlush
	}
	if r.id == "" {
		var b [9]byte
		_, _ = rand.Read(b[:]) // never fails, says its documentation
		r.id = base64.RawURLEncoding.EncodeToString(b[:])
	}
	now := r.now()
	r.beat, r.self.Seen = now, spans{{now, now}}
	if err := r.writeProcess(ctx, now, false); err != nil {
		return nil, err
	}
	r.stop = r.clock.AfterFunc(r.every, r.tick)
	return r, nil
}

func (r *Recorder) now() stamp { return stampOf(r.clock.Now()) }

// SetRoutes says which routes are served from now on. Until it was called once
// no route is observed.
func (r *Recorder) SetRoutes(names []string) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	serve := map[string]bool{}
	for _, name := range names {
		serve[name] = true
		if s := r.routes[name]; len(s) == 0 || s[len(s)-1].To != 0 {
			r.routes[name] = append(s.newest(maxSpans-1), span{From: now})
		}
	}
	for name, s := range r.routes {
		switch last := &s[len(s)-1]; {
		case serve[name]:
		case last.To == 0:
			last.To = now
		case last.To < now-stamp(keepDays*hoursADay):
			delete(r.routes, name)
		}
	}
	r.moved = true
}

// count counts g for id. Where too many are told apart already it counts for
// those of the route who are not.
func (r *Recorder) count(id identity, g *sighting) {
	for !r.slot(id).count(g) { // it left between the two
	}
}

func (r *Recorder) slot(id identity) *slot {
	r.mu.RLock()
	s := r.slots[id]
	r.mu.RUnlock()
	if s != nil {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s = r.slots[id]; s != nil {
		return s
	}
	if len(r.slots) >= maxSlots && !id.folded && !id.server {
		id = identity{route: id.route, folded: true}
		if s = r.slots[id]; s != nil {
			return s
		}
	}
	s = &slot{}
	r.slots[id] = s
	return s
}

// at is the delta of a moment; it needs s.mu.
func (s *slot) at(t stamp) *record {
	s.touched = max(s.touched, t)
	d := dayOf(t)
	for i := len(s.deltas) - 1; i >= 0; i-- {
		if s.deltas[i].day == d {
			return &s.deltas[i].record
		}
	}
	if len(s.deltas) >= maxDeltas {
		return &s.deltas[len(s.deltas)-1].record
	}
	s.deltas = append(s.deltas, delta{day: d})
	return &s.deltas[len(s.deltas)-1].record
}

// maxDeltas: days a store may be away before the rest is counted for the last.
const maxDeltas = 8

// count is false for a slot that has left.
func (s *slot) count(g *sighting) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return false
	}
	t := &s.at(g.at).Legacy
	if g.era == translate.Modern {
		t = &s.at(g.at).Modern
	}
	if !g.quiet {
		t.First = earlier(t.First, g.from)
		t.Last = max(t.Last, g.at)
	}
	switch {
	case g.completed:
		t.Completed++
	case g.failed:
		t.Failed++
	case g.probe:
		t.Probes++
	}
	if g.used {
		t.Used = max(t.Used, g.at)
	}
	if g.held {
		t.Held = max(t.Held, g.at)
	}
	if g.longHeld {
		t.LongHeld = max(t.LongHeld, g.at)
	}
	if g.revision != "" {
		t.Revisions.add(g.revision, 1)
	}
	for name := range g.features.Names() {
		t.Features.add(name, 1)
	}
	return true
}

// lose counts a loss; it is false for a slot that has left.
func (s *slot) lose(at stamp, what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dead {
		s.at(at).Losses.add(what, 1)
	}
	return !s.dead
}

// take empties the slot.
func (s *slot) take() []delta {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.deltas
	s.deltas = nil
	return d
}

// putBack returns what could not be stored; the flush alone lets slots leave.
func (s *slot) putBack(d delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at(max(d.start(), 1)).merge(&d.record)
}

// leave says whether the slot may leave: it is empty, and has been for a while.
func (s *slot) leave(before stamp) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = len(s.deltas) == 0 && s.touched < before
	return s.dead
}

// tick flushes, and comes again.
func (r *Recorder) tick() {
	now := r.now()
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.stop = r.clock.AfterFunc(r.every, r.tick)
	r.beatAt(now)
	r.mu.Unlock()
	if !r.flushing.TryLock() {
		return // the store is slow
	}
	defer r.flushing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := r.flush(ctx, false); err != nil && !errors.Is(err, session.ErrClosed) {
		r.log.Warn("usage counters were not stored; they are kept for the next try", "err", err)
	}
	r.compactNow(ctx)
}

// beatAt goes on with the span of this process, unless it was stopped
// meanwhile: then nothing could come in. It needs r.mu.
func (r *Recorder) beatAt(now stamp) {
	last := &r.self.Seen[len(r.self.Seen)-1]
	switch {
	case now < r.beat: // the clock was set back
	case time.Duration(now-r.beat) > lateBeats*r.every:
		r.self.Seen = append(r.self.Seen.newest(maxSpans-1), span{now, now})
	default:
		last.To = now
	}
	r.beat = now
}

// Close stores what was counted and says that this process counts no more.
func (r *Recorder) Close(ctx context.Context) error {
	now := r.now()
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	r.stop()
	r.beatAt(now)
	r.mu.Unlock()
	r.flushing.Lock()
	defer r.flushing.Unlock()
	return r.flush(ctx, true)
}

// lose notes that something was counted wrongly, or not at all.
func (r *Recorder) lose(s span, why string) {
	r.mu.Lock()
	r.self.Lost = r.self.Lost.union(spansOf(s))
	r.mu.Unlock()
	r.log.Warn("usage counters were lost", "why", why, "from", s.From.time(), "to", s.To.time())
}
