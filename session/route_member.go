package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// member is an upstream of a Route while it lives, through all changes of the
// configuration.
type member struct {
	rt     *Route
	name   string
	key    string
	runner *Runner
	after  func() // once the runner was closed; may be nil

	show   string // of the last Update, under Route.update
	health Health // likewise; read by heard through its copy below

	draining atomic.Bool // an operator's word
	retired  atomic.Bool // no longer configured
	former   atomic.Bool // it had the route for itself

	look    atomic.Pointer[func(ctx context.Context) error]
	looking atomic.Bool // the next look is due some time

	users   atomic.Int64 // messages it was chosen for that are not counted otherwise yet
	closing atomic.Bool
	once    sync.Once

	mu      sync.Mutex // protects the fields below
	rules   Health
	fails   int // in a row
	ejected int // times in a row
	until   time.Time
	passes  int // good looks in a row, since it was ejected
}

// Health says when an upstream gets no new work for a while. The zero value
// takes the defaults named beside the members; FailAfter < 0: never.
type Health struct {
	// FailAfter exchanges in a row that could not begin, or began with 502, 503 or 504,
	// eject an upstream. 5.
	FailAfter int
	// EjectFor is how long it gets none, twice as long each time it fails again
	// at once, up to 5 min. 10 s.
	EjectFor time.Duration
	// Interval is between looks at the server where RouteUpstream.Look can; 0: it
	// is not looked at. A look that fails counts like an exchange that did.
	Interval time.Duration
	// Timeout is of one look. 5 s.
	Timeout time.Duration
	// PassAfter good looks in a row end an ejection early. 2.
	PassAfter int
}

const maxEject = 5 * time.Minute

func (h Health) withDefaults() Health {
	if h.FailAfter == 0 {
		h.FailAfter = 5
	}
	if h.EjectFor <= 0 {
		h.EjectFor = 10 * time.Second
	}
	if h.Timeout <= 0 {
		h.Timeout = 5 * time.Second
	}
	if h.PassAfter <= 0 {
		h.PassAfter = 2
	}
	return h
}

func (rt *Route) newMember(u RouteUpstream) (*member, error) {
	r, after, err := u.Start()
	if err != nil {
		return nil, err
	}
	m := &member{rt: rt, name: u.Name, key: u.Key, runner: r, after: after}
	if r.upstream != u.Name || r.proc != rt.proc {
		m.end()
		return nil, fmt.Errorf("its runner is of upstream %q, or of another process", r.upstream)
	}
	r.hooks = routeHooks{
		health:  m.heard,
		ended:   func(session string) { rt.sessionOver(m, session) },
		calling: func(session string) bool { return rt.callingElsewhere(m, session) },
		listens: func(session string, on bool) { rt.listens(m, session, on) },
	}
	if _, err := rt.store.Get(rt.ctx, drainKey(m.name)); err == nil {
		m.draining.Store(true)
	}
	return m, nil
}

// setPolicy is called with Route.update held.
func (m *member) setPolicy(p Policy, several bool) {
	p.SealRoute, p.Asker = several, ""
	if several {
		p.Asker = m.show
	}
	m.runner.SetPolicy(p)
	m.mu.Lock()
	m.rules = m.health
	m.mu.Unlock()
}

// enter counts a message it is to be chosen for; false: it drains, and nothing
// was counted. Drain says so first and counts then, so that either the message
// sees that or whoever asks what is left sees the message. The inverse is leave,
// once the message was handed over.
func (m *member) enter() bool {
	m.users.Add(1)
	if m.draining.Load() {
		m.leave()
		return false
	}
	return true
}

func (m *member) leave() { m.users.Add(-1) }

// take hands a message over; false: the member is closed, nothing was done.
func (m *member) take(ctx context.Context, in Inbound, s *ClientStream) bool {
	m.users.Add(1)
	defer m.leave()
	if m.closing.Load() {
		return false
	}
	if s.home.Load() != m.runner {
		m.runner.adopt(s)
	}
	m.runner.Client(ctx, in, s)
	return true
}

// refuse answers a message that reaches no runner; observers hear of it.
func (m *member) refuse(in Inbound, s *ClientStream, out Out) {
	m.runner.observe(in, s)
	s.Send(out)
}

// end closes the member.
func (m *member) end() {
	m.closing.Store(true)
	m.once.Do(func() {
		_ = m.runner.Close()
		if m.after != nil {
			m.after()
		}
	})
}

// heard takes an exchange's first sign in.
func (m *member) heard(ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ok {
		m.fails = 0
		if m.ejected > 0 && !m.rt.clock.Now().Before(m.until) {
			m.ejected = 0
			m.rt.log.Info("an upstream is back", "route", m.rt.name, "upstream", m.name)
		}
		return
	}
	m.fails++
	now := m.rt.clock.Now()
	if m.rules.FailAfter < 0 || now.Before(m.until) {
		return
	}
	// One that fails at once when its time is over is ejected again by one.
	if m.fails < m.rules.FailAfter && m.ejected == 0 || !m.rt.others(m, now) {
		return
	}
	pause := min(m.rules.EjectFor<<min(m.ejected, 10), maxEject)
	m.ejected, m.until, m.passes = m.ejected+1, now.Add(pause), 0
	m.rt.log.Warn("an upstream gets no new work: it cannot be reached or is unavailable", "route", m.rt.name, "upstream", m.name, "failures", m.fails, "for", pause)
}

// lookSoon has the server looked at again and again while that is configured.
func (m *member) lookSoon() {
	m.mu.Lock()
	rules := m.rules
	m.mu.Unlock()
	look := *m.look.Load()
	if rules.Interval <= 0 || look == nil || m.closing.Load() || m.retired.Load() || m.looking.Swap(true) {
		return
	}
	m.rt.clock.AfterFunc(rules.Interval, func() {
		m.rt.later(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, rules.Timeout)
			err := look(ctx)
			cancel()
			if m.rt.ctx.Err() != nil {
				return
			}
			m.heard(err == nil)
			m.passed(err == nil)
			m.looking.Store(false)
			m.lookSoon()
		})
	})
}

// passed ends an ejection after enough good looks.
func (m *member) passed(ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.passes++; !ok {
		m.passes = 0
	}
	if m.passes >= m.rules.PassAfter && m.ejected > 0 {
		m.ejected, m.until = 0, time.Time{}
		m.rt.log.Info("an upstream is back: it answers when it is looked at", "route", m.rt.name, "upstream", m.name)
	}
}

// others says whether another upstream takes new work by weight: the last one
// is never ejected. The caller holds m.mu alone of all members'.
func (rt *Route) others(m *member, now time.Time) bool {
	for _, e := range rt.table.Load().entries {
		if e.member != m && e.weight > 0 && !e.draining.Load() && !e.out(now, false) {
			return true
		}
	}
	return false
}

// out says whether the member is ejected. Of two that look at each other one
// may not wait for the other's lock: it then counts as ejected.
func (m *member) out(now time.Time, wait bool) bool {
	if wait {
		m.mu.Lock()
	} else if !m.mu.TryLock() {
		return true
	}
	defer m.mu.Unlock()
	return now.Before(m.until)
}

func drainKey(name string) string { return "drain/" + name }

// member finds a configured upstream by either of its names.
func (t *routeTable) member(name string) *member {
	for _, e := range t.entries {
		if e.name == name || e.show == name {
			return e.member
		}
	}
	return nil
}

// Drain lets an upstream have no new work: sessions, tasks and calls that are
// there go on. Status says when none is left. It holds until Undrain, over
// restarts where the store does.
func (rt *Route) Drain(name string) error { return rt.drain(name, true) }

// Undrain is the inverse of Drain.
func (rt *Route) Undrain(name string) error { return rt.drain(name, false) }

func (rt *Route) drain(name string, on bool) error {
	rt.update.Lock()
	defer rt.update.Unlock()
	m := rt.table.Load().member(name)
	if m == nil {
		return fmt.Errorf("route %s has no upstream %q", rt.name, name)
	}
	var err error
	if on {
		_, err = rt.store.Put(rt.ctx, drainKey(m.name), []byte("1"), Any)
	} else {
		err = rt.store.Delete(rt.ctx, drainKey(m.name), Any)
	}
	if err != nil {
		return fmt.Errorf("remember that upstream %s drains: %w", name, err)
	}
	m.draining.Store(on)
	rt.log.Info("upstream", "route", rt.name, "upstream", m.name, "draining", on)
	return nil
}

// UpstreamStatus is what an operator sees of an upstream.
type UpstreamStatus struct {
	Name     string    `json:"name"`  // Options.Upstream
	Show     string    `json:"short"` // within its route
	State    string    `json:"state"` // active, draining, ejected or retired
	Weight   int       `json:"weight"`
	Sessions int       `json:"sessions"`
	Tasks    int       `json:"tasks"` // whose end was not seen
	Calls    int       `json:"calls"`
	Kept     int       `json:"kept"`           // finished tasks whose results only the proxy has
	More     bool      `json:"more,omitempty"` // there may be more of each: not all was read
	Empty    bool      `json:"empty"`          // no sessions, tasks, calls
	Failures int       `json:"failures"`       // in a row
	Until    time.Time `json:"until,omitzero"` // ejected until then
}

// States of an upstream.
const (
	StateActive   = "active"
	StateDraining = "draining"
	StateEjected  = "ejected"
	StateRetired  = "retired"
)

// Status counts what is alive, as far as that can be done with a bounded number of
// reads.
func (rt *Route) Status() (list []UpstreamStatus) {
	rt.update.Lock()
	defer rt.update.Unlock()
	t := rt.table.Load()
	for _, e := range t.entries {
		list = append(list, e.member.status(e.weight))
	}
	for _, m := range t.retired {
		list = append(list, m.status(0))
	}
	return list
}

// Busy says whether an upstream that is configured has anything left to do, by
// either of its names; known: there is one. It reads no more than it needs to.
func (rt *Route) Busy(name string) (busy, known bool) {
	m := rt.table.Load().member(name)
	if m == nil {
		return false, false
	}
	return m.users.Load() > 0 || m.runner.Busy(), true
}

// Over: no upstream has anything left to do, or to keep for callers to fetch.
func (rt *Route) Over() bool {
	return !slices.ContainsFunc(rt.table.Load().all, func(m *member) bool { return m.users.Load() > 0 || m.runner.Load(1) != (Load{}) })
}

func (m *member) status(weight int) UpstreamStatus {
	handing := m.users.Load() > 0 // before the rest: what was handed over is there
	l, empty := m.runner.loadShown()
	s := UpstreamStatus{Name: m.name, Show: m.show, State: StateActive, Weight: weight,
		Sessions: l.Sessions, Tasks: l.Tasks, Calls: l.Calls, Kept: l.Kept, Empty: empty && !handing, More: l.More}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Failures = m.fails
	switch {
	case m.retired.Load():
		s.State = StateRetired
	case m.draining.Load():
		s.State = StateDraining
	case m.rt.clock.Now().Before(m.until):
		s.State, s.Until = StateEjected, m.until
	}
	return s
}

// sweepSoon closes retired members that have nothing left, and looks again for
// those that have. It needs Route.update.
func (rt *Route) sweepSoon() {
	if rt.closed || rt.sweeping || len(rt.table.Load().retired) == 0 {
		return
	}
	rt.sweeping = true
	rt.clock.AfterFunc(sweepEvery, func() {
		rt.update.Lock()
		defer rt.update.Unlock()
		rt.sweeping = false
		if rt.closed {
			return
		}
		rt.sweep()
		rt.sweepSoon()
	})
}

// sweep needs Route.update.
func (rt *Route) sweep() {
	for _, m := range rt.table.Load().retired {
		if !m.idle() {
			continue
		}
		t := *rt.table.Load()
		without := func(o *member) bool { return o == m }
		t.retired = slices.DeleteFunc(slices.Clone(t.retired), without)
		t.all = slices.DeleteFunc(slices.Clone(t.all), without)
		rt.table.Store(&t)
		rt.log.Info("an upstream that is no longer configured is closed: it has nothing left", "route", rt.name, "upstream", m.name)
		rt.endFor(m)
	}
}

func memberKey(name, key string) string { return name + "\x00" + key }

// endFor closes a member nothing is led to any more, for good.
func (rt *Route) endFor(m *member) {
	key, done := memberKey(m.name, m.key), make(chan struct{})
	rt.life.Lock()
	if rt.ending == nil {
		rt.ending = map[string]chan struct{}{}
	}
	rt.ending[key] = done
	rt.life.Unlock()
	rt.later(func(ctx context.Context) {
		m.end()
		m.runner.dissolve(context.WithoutCancel(ctx))
		rt.life.Lock()
		delete(rt.ending, key)
		rt.life.Unlock()
		close(done)
	})
}

// waitEnd waits until what had the same records is closed.
func (rt *Route) waitEnd(key string) {
	rt.life.Lock()
	done := rt.ending[key]
	rt.life.Unlock()
	if done != nil {
		<-done
	}
}

// idle marks a member as closed where nothing is left in it.
func (m *member) idle() bool {
	if m.runner.Load(1) != (Load{}) {
		return false
	}
	m.closing.Store(true)
	if m.users.Load() == 0 && m.runner.Load(1) == (Load{}) {
		return true
	}
	m.closing.Store(false)
	return false
}
