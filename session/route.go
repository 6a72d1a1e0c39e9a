package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Route leads the messages of one endpoint to the runners of its upstreams,
// which are variants of one server: never merged, each of them with what it was
// given. What a message holds that one upstream gave (a session, a task's
// handle, a cursor, a requestState, an event id) decides; else the upstreams'
// pins; else their weights. With one upstream it is that one's Runner and
// nothing more. Safe for concurrent use.
type Route struct {
	name    string
	store   Store
	handles *Handles
	proc    *Process
	log     *slog.Logger
	clock   Clock
	rand    io.Reader
	bytes   int // Options.StreamBytes

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	life   sync.Mutex // protects the fields below
	over   bool
	ending map[string]chan struct{} // members being closed, by memberKey

	table  atomic.Pointer[routeTable]
	update sync.Mutex // one change of the table at a time
	closed bool       // under update
	// several: the route has, or had, more than one upstream. It stays so: what
	// was given to callers then has to be understood later.
	several bool // under update
	// sweeping: retired members will be looked at.
	sweeping bool // under update

	bound *lru.Cache[string, *member] // of sessions met before
	opens keyedMutex                  // one opening of a guest session at a time

	carriers *carriers

	chosen func() // between choosing and counting, in tests; else nil
}

// RouteUpstream is one upstream of a Route as configured.
type RouteUpstream struct {
	// Name is what handles call it: Options.Upstream of its Runner. Unique over
	// all routes. Show is the short name for people; Name if empty.
	Name, Show string
	// Key tells servers of one Name apart: a changed URL, command or credential
	// is another server. It is kept in memory and never shown.
	Key string
	// Weight is its share of what no pin decides; 0: it gets none.
	Weight int
	Pins   []Pin
	Health Health
	// Policy is the route's. SealRoute and Asker are set here.
	Policy Policy
	// Look, if not nil, asks whether the server is there, for Health.Interval.
	Look func(ctx context.Context) error
	// Start makes the Runner, once for each Name and Key while that is in use.
	// end, which may be nil, is called after the Runner was closed.
	Start func() (r *Runner, end func(), err error)
}

// Pin binds callers to an upstream. Empty members match any.
type Pin struct {
	Client    string // clientInfo.name
	Version   string // of the client, as translate.ParseVersionRange takes it
	Principal string // as Handles.Mask shows it
}

// RouteOptions are what a Route works with.
type RouteOptions struct {
	Name    string   // for logs
	Store   Store    // of the route; required
	Handles *Handles // required
	Process *Process // required; Options.Process of its runners
	Logger  *slog.Logger
	Clock   Clock
	Rand    io.Reader
	// StreamBytes is Options.StreamBytes of its runners.
	StreamBytes int
}

var (
	_ Hub     = (*Route)(nil)
	_ Batcher = (*Route)(nil)
)

// routeTable is what a Route leads by; it never changes.
type routeTable struct {
	entries []*routeEntry // of the configuration, in its order
	retired []*member     // no longer in it, and not over yet
	all     []*member
	// sole is the one upstream of a route that never had another.
	sole *member
	// pinsPrincipals: some pin names a principal.
	pinsPrincipals bool
}

// routeEntry is an upstream with its present share.
type routeEntry struct {
	*member
	weight int
	pins   []routePin
}

// NewRoute returns a Route before ups. Errors are the configuration's, or why a
// Start failed; then nothing is left running.
func NewRoute(o RouteOptions, ups []RouteUpstream) (*Route, error) {
	if o.Store == nil || o.Handles == nil || o.Process == nil {
		return nil, errors.New("session: Store, Handles and Process are required")
	}
	rt := &Route{name: o.Name, store: o.Store, handles: o.Handles, proc: o.Process, log: o.Logger, clock: o.Clock, rand: o.Rand, bytes: o.StreamBytes}
	if rt.log == nil {
		rt.log = slog.New(slog.DiscardHandler)
	}
	if rt.clock == nil {
		rt.clock = RealClock{}
	}
	if rt.rand == nil {
		rt.rand = rand.Reader
	}
	rt.ctx, rt.cancel = context.WithCancel(context.Background())
	rt.bound, _ = lru.New[string, *member](warmMax)
	rt.carriers = newCarriers()
	rt.table.Store(&routeTable{})
	if err := rt.Update(ups); err != nil {
		rt.cancel()
		return nil, err
	}
	return rt, nil
}

// Update changes the upstreams. Sessions, tasks and all else that is bound to
// one stay where they are; new sessions and modern requests that name nothing
// follow the new pins and weights. An upstream that is not among ups any more,
// or with another Key, gets no new work and is closed once it has none left. On
// an error nothing has changed.
func (rt *Route) Update(ups []RouteUpstream) error {
	rt.update.Lock()
	defer rt.update.Unlock()
	if rt.closed {
		return errors.New("the route is closed")
	}
	pins, err := checkUpstreams(ups)
	if err != nil {
		return err
	}
	old := rt.table.Load()
	t, err := rt.tableOf(old, ups, pins)
	if err != nil {
		return err
	}
	rt.several = rt.several || len(t.all) > 1
	if !rt.several {
		t.sole = t.all[0]
	}
	if old.sole != nil {
		old.sole.former.Store(true)
	}
	for i, e := range t.entries {
		e.health, e.show = ups[i].Health.withDefaults(), shownName(ups[i])
		e.look.Store(&ups[i].Look)
		e.retired.Store(false)
		e.setPolicy(ups[i].Policy, rt.several)
	}
	for _, m := range t.retired {
		m.retired.Store(true)
		m.setPolicy(*m.runner.policy(), rt.several)
	}
	rt.table.Store(t)
	rt.sweepSoon()
	for _, e := range t.entries {
		e.lookSoon()
	}
	return nil
}

// tableOf makes the table that follows old: members stay where name and Key
// do, and those that are not among ups any more are retired. On an error none
// of the new members is left.
func (rt *Route) tableOf(old *routeTable, ups []RouteUpstream, pins [][]routePin) (*routeTable, error) {
	t := &routeTable{}
	var fresh []*member
	for i, u := range ups {
		m := old.find(u.Name, u.Key)
		if m == nil {
			rt.waitEnd(memberKey(u.Name, u.Key))
			var err error
			if m, err = rt.newMember(u); err != nil {
				for _, f := range fresh {
					f.end()
				}
				return nil, fmt.Errorf("upstream %s: %w", u.Name, err)
			}
			fresh = append(fresh, m)
		}
		t.entries = append(t.entries, &routeEntry{member: m, weight: u.Weight, pins: pins[i]})
		t.all = append(t.all, m)
		for _, p := range pins[i] {
			t.pinsPrincipals = t.pinsPrincipals || p.principal != ""
		}
	}
	for _, m := range old.all {
		if !slices.Contains(t.all, m) {
			t.retired = append(t.retired, m)
		}
	}
	t.all = append(t.all, t.retired...)
	return t, nil
}

func shownName(u RouteUpstream) string {
	if u.Show != "" {
		return u.Show
	}
	return u.Name
}

func checkUpstreams(ups []RouteUpstream) (pins [][]routePin, err error) {
	if len(ups) == 0 {
		return nil, errors.New("a route needs an upstream")
	}
	names := map[string]bool{}
	for _, u := range ups {
		switch {
		case u.Name == "" || u.Start == nil:
			return nil, errors.New("an upstream needs a name and a way to start it")
		case names[u.Name]:
			return nil, fmt.Errorf("two upstreams are called %s", u.Name)
		case u.Weight < 0:
			return nil, fmt.Errorf("upstream %s: the weight is %d", u.Name, u.Weight)
		}
		names[u.Name] = true
		list, err := parsePins(u.Pins)
		if err != nil {
			return nil, fmt.Errorf("upstream %s: %w", u.Name, err)
		}
		pins = append(pins, list)
	}
	return pins, nil
}

func (t *routeTable) find(name, key string) *member {
	for _, m := range t.all {
		if m.name == name && m.key == key {
			return m
		}
	}
	return nil
}

// named are the members of that name: the present one first, then those it
// replaced.
func (t *routeTable) named(name string) (list []*member) {
	for _, m := range t.all {
		if m.name == name {
			list = append(list, m)
		}
	}
	return list
}

// NewStream implements Hub.
func (rt *Route) NewStream() *ClientStream {
	if m := rt.table.Load().sole; m != nil {
		return m.runner.NewStream()
	}
	return NewClientStream(rt.proc.next(), rt.bytes)
}

// Client implements Hub.
func (rt *Route) Client(ctx context.Context, in Inbound, s *ClientStream) {
	t := rt.table.Load()
	if m := t.sole; m != nil && m.enter() {
		defer m.leave()
		rt.lead(ctx, m, in, s)
		return
	}
	if in.Caller.Era == translate.Modern {
		rt.modern(ctx, t, in, s)
		return
	}
	rt.legacy(ctx, t, in, s)
}

// lead hands a message to a member; one that was closed in this moment is gone
// from the table, and what it had with it.
func (rt *Route) lead(ctx context.Context, m *member, in Inbound, s *ClientStream) {
	if m == nil {
		rt.noUpstream(rt.table.Load(), in, s)
		return
	}
	if m.take(ctx, in, s) {
		return
	}
	if rt.isClosed(m, in, s) {
		return
	}
	rt.settled()
	rt.Client(ctx, in, s)
}

// leadNew is lead for what one is chosen for.
func (rt *Route) leadNew(ctx context.Context, t *routeTable, c chooser, in Inbound, s *ClientStream) {
	m := rt.choose(t, c)
	if m != nil {
		defer m.leave()
	}
	rt.lead(ctx, m, in, s)
}

// settled waits until it is known whether what was being closed leaves the table.
func (rt *Route) settled() {
	rt.update.Lock()
	defer rt.update.Unlock()
}

// isClosed answers a message that came in while the Route was closed, by m.
func (rt *Route) isClosed(m *member, in Inbound, s *ClientStream) bool {
	if rt.ctx.Err() == nil {
		return false
	}
	m.refuse(in, s, refusal(in.Caller.Era, messageID(in.Frame.Msg), translate.CondDraining, "this route is closed; try again later", nil))
	return true
}

// noUpstream: all that could take new work are to be emptied.
func (rt *Route) noUpstream(t *routeTable, in Inbound, s *ClientStream) {
	t.all[0].refuse(in, s, refusal(in.Caller.Era, messageID(in.Frame.Msg), translate.CondDraining,
		"no server of this route takes new work now: they are being drained or have no share; what has begun goes on; try again later", nil))
}

// TakesBatch implements Batcher.
func (rt *Route) TakesBatch(c Caller) bool {
	t := rt.table.Load()
	m := t.sole
	if m == nil {
		if m, _ = rt.home(t, c.Session); m == nil {
			return true
		}
	}
	return m.runner.TakesBatch(c)
}

// Versions are the revisions a modern client can ask for here, of all upstreams
// that can be asked now.
func (rt *Route) Versions(ctx context.Context, c Caller) (all []string) {
	for _, e := range rt.table.Load().entries {
		for _, v := range e.runner.Versions(ctx, c) {
			if !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
	}
	return all
}

// Close closes all runners. Client streams get no further messages.
func (rt *Route) Close() error {
	rt.update.Lock()
	rt.closed = true
	rt.update.Unlock()
	rt.life.Lock()
	rt.over = true
	rt.cancel()
	rt.life.Unlock()
	var wg sync.WaitGroup
	for _, m := range rt.table.Load().all {
		wg.Go(m.end)
	}
	wg.Wait()
	rt.wg.Wait()
	return nil
}

// SessionsOver tells observers of a Route that is closed that the sessions it
// leaves on its store have ended: the store ends with the process.
func (rt *Route) SessionsOver(ctx context.Context) error {
	var errs []error
	for _, m := range rt.table.Load().all {
		errs = append(errs, m.runner.sessionsOver(ctx))
	}
	return errors.Join(errs...)
}

// Dissolve is Close for a Route that is over and will not come back as it was:
// what its runners counted for callers is given back, their records are removed.
func (rt *Route) Dissolve() error {
	err := rt.Close()
	for _, m := range rt.table.Load().all {
		m.runner.dissolve(context.Background())
	}
	return err
}

// Forget is Runner.Forget of all runners, and of what the Route knows of them.
func (rt *Route) Forget() {
	rt.bound.Purge()
	for _, m := range rt.table.Load().all {
		m.runner.Forget()
	}
}

// keyedMutex is a lock for each key that is in use.
type keyedMutex struct {
	mu    sync.Mutex
	locks map[string]*keyedLock
}

type keyedLock struct {
	sync.Mutex
	users int
}

func (k *keyedMutex) lock(key string) (unlock func()) {
	k.mu.Lock()
	if k.locks == nil {
		k.locks = map[string]*keyedLock{}
	}
	l := k.locks[key]
	if l == nil {
		l = &keyedLock{}
		k.locks[key] = l
	}
	l.users++
	k.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.locks, key)
		}
	}
}

// sweepEvery is how often what is to be closed is looked at.
const sweepEvery = 5 * time.Second

// ask sends a request of the Route's own to a member and waits for its final
// answer; ok is false where none came before ctx was done.
func (rt *Route) ask(ctx context.Context, m *member, in Inbound) (out Out, msg *jsonrpc.Message, ok bool) {
	s := NewClientStream(rt.proc.next(), rt.bytes)
	defer s.Gone()
	in.ours = true
	in.Frame.Leg, in.Frame.Dir, in.Frame.Time = translate.ClientLeg, translate.ToServer, rt.clock.Now()
	if !m.take(ctx, in, s) {
		return Out{}, nil, false
	}
	for {
		o, ok := s.Next(ctx)
		if !ok {
			return Out{}, nil, false
		}
		if !o.Final {
			continue
		}
		msg, _ = jsonrpc.Decode(o.Raw, jsonrpc.Limits{})
		return o, msg, true
	}
}
