package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// ErrWindow is wrapped by what Report says of a window it cannot look back on.
var ErrWindow = errors.New("bad window")

// DefaultWindow is how long nobody may have used the legacy dialect before it
// may be switched off.
const DefaultWindow = 7 * hoursADay

// Report says who needed the legacy dialect in the time that ends now: window of
// it observed (0: DefaultWindow). route: one alone, empty: all that are served.
// What this process counted is stored first.
func (r *Recorder) Report(ctx context.Context, window time.Duration, route string) (*Report, error) {
	if window == 0 {
		window = DefaultWindow
	}
	if window < 0 || window > MaxWindow {
		return nil, fmt.Errorf("%w: want more than 0 and at most %s", ErrWindow, short(MaxWindow))
	}
	now := r.now()
	r.mu.Lock()
	if !r.closed {
		r.beatAt(now)
	}
	r.mu.Unlock()
	r.flushing.Lock()
	err := r.flush(ctx, false)
	r.flushing.Unlock()
	if err != nil {
		return nil, fmt.Errorf("store what was counted: %w", err)
	}
	c, err := r.readCrew(ctx)
	if err != nil {
		return nil, err
	}
	rep := &Report{At: now.time(), Window: Duration(window), Routes: []Route{}}
	for _, name := range c.routes(now) {
		if route != "" && route != name {
			continue
		}
		rt, err := r.route(ctx, name, c, window, now)
		if err != nil {
			return nil, fmt.Errorf("route %s: %w", name, err)
		}
		rep.Routes = append(rep.Routes, *rt)
	}
	return rep, nil
}

// routes are those some process has now.
func (c crew) routes(now stamp) []string {
	var out []string
	for id, s := range c.served {
		if p, ok := c.processes[id]; !ok || p.Closed || p.late(now) {
			continue
		}
		for name, when := range s.Routes {
			if n := len(when); n > 0 && when[n-1].To == 0 {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// view is what the store has of one route.
type view struct {
	observed spans
	coverage coverage
	from     stamp // where the time looked at begins
	clients  map[string]*clientView
	servers  map[string]*clientView
	faces    map[string]face
}

// clientView is one client, or server: of all time, and of the window's days.
type clientView struct {
	all, window     record
	open, listening int
	used            stamp
	holds           bool // a session is open now
	state           State
}

func (r *Recorder) route(ctx context.Context, name string, c crew, window time.Duration, now stamp) (*Route, error) {
	v := &view{clients: map[string]*clientView{}, servers: map[string]*clientView{}, faces: map[string]face{}}
	if err := r.readCoverage(ctx, name, c, now, v); err != nil {
		return nil, err
	}
	from, enough := v.observed.back(window)
	if !enough {
		from = now
		if len(v.observed) > 0 {
			from = v.observed[0].From
		}
	}
	v.from = from
	if err := r.readDays(ctx, name, v); err != nil {
		return nil, err
	}
	if err := r.readSessions(ctx, name, v); err != nil {
		return nil, err
	}
	err := r.each(ctx, prefixFace+escaped(name)+"/", func(who string, raw []byte) {
		var f face
		if decode(raw, &f) == nil {
			v.faces[who] = f
		}
	})
	if err != nil {
		return nil, err
	}
	rt := &Route{Name: name, Observed: v.observe(window, now)}
	v.judge(rt, window, enough, now)
	v.list(rt)
	r.markGone(rt)
	return rt, nil
}

func (r *Recorder) readCoverage(ctx context.Context, name string, c crew, now stamp, v *view) error {
	e, err := r.store.Get(ctx, prefixRoute+escaped(name))
	if err == nil {
		var rec routeRecord
		if decode(e.Value, &rec) == nil {
			v.coverage = rec.coverage
		}
	} else if !errors.Is(err, session.ErrNotFound) {
		return err
	}
	for id, p := range c.processes {
		if when, ok := c.served[id].Routes[name]; ok {
			v.coverage.join(p.covered(now).of(when, now))
		}
	}
	v.observed = v.coverage.observed()
	return nil
}

func (r *Recorder) readDays(ctx context.Context, name string, v *view) error {
	through := map[string]day{}
	return r.each(ctx, routePrefix(name), func(rest string, raw []byte) {
		who, d, ok := parseDayKey(rest) // the record of day 0 comes first
		var rec record
		if !ok || decode(raw, &rec) != nil {
			return
		}
		if d == 0 {
			through[who] = rec.Through
		} else if d <= through[who] {
			return // added up already
		}
		c := v.at(who)
		c.all.merge(&rec)
		if d != 0 && d >= dayOf(v.from) {
			c.window.merge(&rec)
		}
	})
}

func (v *view) at(who string) *clientView {
	of := v.clients
	if strings.HasPrefix(who, whoServer) {
		of = v.servers
	}
	if of[who] == nil {
		of[who] = &clientView{}
	}
	return of[who]
}

// readSessions finds who has a session open.
func (r *Recorder) readSessions(ctx context.Context, name string, v *view) error {
	if r.sessions == nil {
		return nil
	}
	list, err := r.sessions(ctx, name)
	if err != nil {
		return fmt.Errorf("look for open sessions: %w", err)
	}
	for _, s := range list {
		id := client(name, s.Who)
		h := r.homeOf(id)
		c := v.clients[h.who]
		for _, folded := range []identity{{principal: id.principal, folded: true}, {folded: true}} {
			if c == nil {
				c = v.clients[r.homeOf(folded).who]
			}
		}
		if c == nil {
			c = v.at(h.who)
			c.all.merge(&h.record)
		}
		c.open++
		if s.Listening {
			c.listening++
		}
	}
	return nil
}

// lastUsed is when the client last had something of the legacy dialect. A
// session that is open, or was, counts if the client ever got something done, or
// listens: who only shakes hands is a check or a scanner.
func (c *clientView) lastUsed(now stamp) stamp {
	l := &c.all.Legacy
	c.holds = c.listening > 0 || c.open > 0 && l.Used != 0
	switch {
	case c.holds:
		return now
	case l.Used != 0:
		return max(l.Used, l.Held, l.LongHeld)
	}
	return l.LongHeld
}

// observe says how much of the window was observed, and what was not.
func (v *view) observe(window time.Duration, now stamp) Observed {
	o := Observed{From: v.from.time(), For: Duration(min(v.observed.length(), window))}
	gaps := v.observed.outside(span{v.from, now})
	o.MoreGaps = max(0, len(gaps)-maxGaps)
	for _, g := range gaps[o.MoreGaps:] {
		why := GapNotRunning
		if len(v.coverage.Lost.within(spans{g})) > 0 {
			why = GapCountersLost
		}
		o.Gaps = append(o.Gaps, Gap{From: g.From.time(), To: g.To.time(), For: Duration(g.length()), Why: why})
	}
	return o
}

// judge finds the verdict. What was used stays needed until the window has been
// observed without it.
func (v *view) judge(rt *Route, window time.Duration, enough bool, now stamp) {
	within := func(t stamp) bool { return t != 0 && v.observed.since(t) < window }
	last, tried := stamp(0), false
	for _, c := range v.clients {
		c.used = c.lastUsed(now)
		switch {
		case within(c.used):
			c.state = StateUses
			last = max(last, c.used)
		case within(c.all.Legacy.Last):
			c.state, tried = StateTried, true
		case c.all.Legacy.Last != 0 || c.used != 0:
			c.state = StatePast
		case c.all.Modern.Last == 0 && c.open == 0:
			c.state = StateLosses
		default:
			c.state = StateModern
		}
	}
	switch {
	case last != 0:
		rt.Verdict = Needed
		rt.Earliest = (now + stamp(window-v.observed.since(last))).time()
	case !enough:
		rt.Verdict = Unknown
		rt.Earliest = (now + stamp(window-v.observed.length())).time()
	case tried:
		rt.Verdict = Attempted
	default:
		rt.Verdict = NotSeen
	}
	rt.Text = v.text(rt, window)
}

// list fills in clients, who uses the legacy dialect most first, and servers.
func (v *view) list(rt *Route) {
	rt.Clients, rt.Servers = []Client{}, []Server{}
	lost := counts{}
	for _, c := range v.clients {
		lost.merge(c.window.Losses)
		if c.state == StateLosses && c.all.Name == "" && !c.all.Folded {
			continue // nobody: the route's losses have them
		}
		rt.Clients = append(rt.Clients, c.client())
	}
	if len(lost) > 0 {
		rt.Losses = lost
	}
	slices.SortFunc(rt.Clients, func(a, b Client) int {
		return cmp.Or(cmp.Compare(stateRank[a.State], stateRank[b.State]), cmp.Compare(b.Legacy.Completed, a.Legacy.Completed),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Principal, b.Principal))
	})
	for who := range v.faces {
		v.at(who) // found, and asked nothing yet
	}
	for who, c := range v.servers {
		s := Server{Name: cmp.Or(c.all.Name, v.faces[who].Name), Speaks: []string{}, Legacy: dialect(c, (*record).legacy), Modern: dialect(c, (*record).modern)}
		if f, ok := v.faces[who]; ok {
			s.Versions, s.Found = f.Versions, f.Found.time()
			s.Speaks = eras(f.Legacy, f.Modern)
		}
		rt.Servers = append(rt.Servers, s)
	}
	slices.SortFunc(rt.Servers, func(a, b Server) int { return cmp.Compare(a.Name, b.Name) })
}

// markGone tells servers that were taken out from those a route has.
func (r *Recorder) markGone(rt *Route) {
	if r.servers == nil {
		return
	}
	has := map[string]bool{}
	for _, upstream := range r.servers(rt.Name) {
		has[server(rt.Name, upstream).name] = true
	}
	for i := range rt.Servers {
		rt.Servers[i].Gone = !has[rt.Servers[i].Name]
	}
}

var stateRank = map[State]int{StateUses: 0, StateTried: 1, StatePast: 2, StateModern: 3, StateLosses: 4}

func (r *record) legacy() *tally { return &r.Legacy }
func (r *record) modern() *tally { return &r.Modern }

func eras(legacy, modern bool) []string {
	out := []string{}
	if legacy {
		out = append(out, translate.Legacy.String())
	}
	if modern {
		out = append(out, translate.Modern.String())
	}
	return out
}

// dialect is one of the two tallies of c.
func dialect(c *clientView, of func(*record) *tally) Dialect {
	w, a := of(&c.window), of(&c.all)
	return Dialect{
		Completed: w.Completed, Failed: w.Failed, Probes: w.Probes, Revisions: w.Revisions,
		First: a.First.time(), Last: a.Last.time(), LastUsed: a.Used.time(),
	}
}

func (c *clientView) client() Client {
	a := &c.all
	out := Client{
		Name: a.Name, Version: a.Version, Principal: a.Principal, Folded: a.Folded, State: c.state,
		Eras:   eras(a.Legacy.Last != 0 || c.open > 0, a.Modern.Last != 0),
		Legacy: dialect(c, (*record).legacy), Modern: dialect(c, (*record).modern),
		OpenSessions: c.open, Listening: c.listening, LegacyOnly: c.window.Legacy.Features, Losses: c.window.Losses,
		First: earlier(a.Legacy.First, a.Modern.First).time(), Last: max(a.Legacy.Last, a.Modern.Last).time(),
	}
	out.Legacy.LastUsed = c.used.time()
	return out
}
