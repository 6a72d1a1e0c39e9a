package e2e

import (
	"context"
	"maps"
	"slices"
	"time"

	"taskbridge/session/usage"
)

// rehearsalWindow is how long nobody may have used the legacy dialect before it
// may be switched off.
const rehearsalWindow = 2 * time.Second

// reported asks for the report and holds its verdicts against what it says
// itself of who used the dialect when: needed until the window has passed since
// the last use, or while a session is open, and not a moment longer.
func (r *rehearsal) reported() map[string]usage.Route {
	r.t.Helper()
	at, routes := r.fleet.report(rehearsalWindow)
	for _, name := range rehearsalRoutes {
		route, ok := routes[name]
		if !ok {
			r.t.Fatalf("the report lacks route %s: %v", name, slices.Sorted(maps.Keys(routes)))
		}
		var last time.Time
		open := 0
		for _, c := range route.Clients {
			if c.Legacy.LastUsed.After(last) {
				last = c.Legacy.LastUsed
			}
			if c.Legacy.Completed > 0 {
				open += c.OpenSessions
			}
		}
		needed := open > 0 || at.Before(last.Add(rehearsalWindow))
		if (route.Verdict == usage.Needed) != needed {
			r.t.Errorf("route %s at %v: last used at %v, %d sessions open, and the verdict is %s", name, at, last, open, route.Verdict)
		}
	}
	return routes
}

// alone are the servers of a route that need the legacy dialect themselves.
func alone(route usage.Route) (names []string) {
	for _, s := range route.Servers {
		if s.LegacyAlone() {
			names = append(names, s.Name)
		}
	}
	return names
}

// usedByAll: under load every route needs the legacy dialect, and two do so for
// a server of theirs.
func (r *rehearsal) usedByAll() {
	r.t.Helper()
	for name, route := range r.reported() {
		if route.Verdict != usage.Needed {
			r.t.Errorf("route %s under load of legacy clients: %s", name, route.Text)
		}
		want := map[string][]string{"move": {"l1"}, "mixed": {"l2"}}[name]
		if have := alone(route); !slices.Equal(have, want) {
			r.t.Errorf("route %s needs the legacy dialect for the servers %q, want %q", name, have, want)
		}
		for _, c := range route.Clients {
			if c.State != usage.StateLosses && !c.Folded && !slices.Contains([]string{"rehearsal-legacy", "rehearsal-modern", pinnedClient}, c.Name) {
				r.t.Errorf("route %s: a client called %q", name, c.Name)
			}
		}
	}
}

// turns: the verdict turns once the last legacy client is gone, on each route by
// itself; modern clients go on.
func (r *rehearsal) turns() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, rehearsalPatience)
	defer cancel()
	idle, err := r.newLegacy(ctx, "idle-move", r.fleet.url("move"))
	if err != nil {
		r.t.Fatal(err)
	}
	idle.do(acts[0])
	r.legacyEnds.Store(true)
	r.until("legacy clients are gone from two routes", func() bool {
		routes := r.reported()
		if v := routes["move"].Verdict; v != usage.Needed {
			r.t.Errorf("with a session open: %s", v)
		}
		return routes["mixed"].Verdict == usage.NotSeen && routes["modern"].Verdict == usage.NotSeen
	})
	r.until("no server needs the legacy dialect", func() bool {
		return !slices.ContainsFunc(slices.Collect(maps.Values(r.reported())), func(route usage.Route) bool { return alone(route) != nil })
	})
	idle.close()
	r.until("nobody needs the legacy dialect", func() bool { return r.reported()["move"].Verdict == usage.NotSeen })
	r.settle(always)
}
