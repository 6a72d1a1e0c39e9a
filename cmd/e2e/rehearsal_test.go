package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/cmd/peers"
)

// The rehearsal of a migration: three routes before two legacy and two modern
// servers, clients of both eras under load. One route moves from a legacy to a
// modern server by weights, one gains a modern server beside its legacy one, one
// is modern from the start. Then the old servers are drained and taken out.

const (
	// rehearsalPatience is how long a step may take before it counts as hung.
	// Nothing is measured with it.
	rehearsalPatience = 60 * time.Second
	rehearsalPoll     = 50 * time.Millisecond
)

// rehearsal is a fleet that moves under load.
type rehearsal struct {
	t       *testing.T
	ctx     context.Context
	ledger  *ledger
	fleet   *fleet
	servers map[string]interface{ Close() error }
	urls    map[string]string // of the servers

	// phase is the step whose file is in force, from 1; 0 while that is changing.
	phase atomic.Int64
	names int // given to held work

	clients    []string
	load       sync.WaitGroup
	legacyEnds atomic.Bool // no new session
	modernEnds atomic.Bool

	perRoute int           // clients of each era
	acts     int           // operations of each before a phase may end
	atLeast  time.Duration // of load before a phase may end
}

var rehearsalRoutes = []string{"move", "mixed", "modern"}

// weights of the servers in one step: those of the route that moves, then of the
// one that mixes. Negative: not in the file.
type rehearsalStep struct {
	l1, m1, l2, m2 int
	how            string // it comes into force: by itself, after a hangup, by admin
}

var rehearsalSteps = []rehearsalStep{
	{100, 0, 100, -1, ""},
	{90, 10, 100, -1, "itself"},
	{50, 50, 50, 50, "hangup"},
	{0, 100, 50, 50, "admin"},
}

// file is what the configuration says in a step.
func (r *rehearsal) file(s rehearsalStep) []fleetRoute {
	var routes []fleetRoute
	for _, name := range rehearsalRoutes {
		route := fleetRoute{name: name}
		add := func(server string, weight int, pin string) {
			if weight >= 0 {
				route.ups = append(route.ups, fleetUpstream{server, r.urls[server], weight, pin})
			}
		}
		switch name {
		case "move":
			add("l1", s.l1, "")
			add("m1", s.m1, pinnedClient)
		case "mixed":
			add("l2", s.l2, "")
			add("m2", s.m2, "")
		case "modern":
			add("m2", 1, "")
		}
		routes = append(routes, route)
	}
	return routes
}

// newRehearsal starts servers, proxy and load.
func newRehearsal(t *testing.T) *rehearsal {
	r := &rehearsal{t: t, ctx: t.Context(), ledger: newLedger(t), urls: map[string]string{}, servers: map[string]interface{ Close() error }{}, perRoute: 2, acts: 2}
	switch {
	case fullE2E():
		r.perRoute, r.acts, r.atLeast = 4, len(acts), 4*time.Second
	case testing.Short():
		r.perRoute, r.acts = 1, 1
	}
	options := func(name string) peers.ServerOptions {
		return peers.ServerOptions{PollInterval: rehearsalPoll, Ran: func(_ string, args json.RawMessage) { r.ledger.ran(name, args) }}
	}
	perSession := options("l2")
	perSession.TasksPerSession = true
	for name, server := range map[string]interface {
		http.Handler
		Close() error
	}{
		"l1": peers.NewLegacyServer(options("l1")), "l2": peers.NewLegacyServer(perSession),
		"m1": peers.NewModernServer(options("m1")), "m2": peers.NewModernServer(options("m2")),
	} {
		r.servers[name], r.urls[name] = server, startPeer(t, server)
	}
	r.fleet = startFleet(t, r.file(rehearsalSteps[0]))
	t.Cleanup(r.load.Wait) // before the fleet ends
	r.phase.Store(1)
	for _, route := range rehearsalRoutes {
		for i := range r.perRoute {
			r.play(fmt.Sprintf("legacy-%s-%d", route, i), route, r.legacyLoad)
			r.play(fmt.Sprintf("modern-%s-%d", route, i), route, r.modernLoad)
		}
	}
	r.play(pinnedClient+"-legacy", "move", r.legacyLoad)
	r.play(pinnedClient+"-modern", "move", r.modernLoad)
	return r
}

// play starts a client of the load.
func (r *rehearsal) play(client, route string, load func(client, route string, rng *rand.Rand)) {
	r.clients = append(r.clients, client)
	rng := rand.New(rand.NewPCG(uint64(len(r.clients)), 1))
	r.load.Go(func() { load(client, route, rng) })
}

// legacyLoad opens sessions one after the other, each of a caller of its own.
func (r *rehearsal) legacyLoad(client, route string, rng *rand.Rand) {
	for life := 1; !r.ended(client); life++ {
		ctx, cancel := context.WithTimeout(r.ctx, rehearsalPatience)
		c, err := r.newLegacy(ctx, fmt.Sprintf("%s.%d", client, life), r.fleet.url(route))
		cancel()
		if err != nil {
			if r.ctx.Err() == nil {
				r.ledger.fail("%s opens a session: %v", client, err)
			}
			return
		}
		c.counts = client
		if life%2 == 0 {
			if err := c.legacy.OpenGET(r.ctx); err != nil {
				r.ledger.fail("%s opens a stream: %v", client, err)
			}
		}
		c.play(rng)
		c.close()
	}
}

// modernLoad is one caller after the other.
func (r *rehearsal) modernLoad(client, route string, rng *rand.Rand) {
	for life := 1; !r.ended(client); life++ {
		c := r.newModern(fmt.Sprintf("%s.%d", client, life), r.fleet.url(route))
		c.counts = client
		c.play(rng)
		c.close()
	}
}

// settle lets the load run on until every client that plays has finished some
// operations since now, and more holds.
func (r *rehearsal) settle(more func() bool) {
	r.t.Helper()
	before, least := r.ledger.endsOf(), time.Now().Add(r.atLeast)
	r.until("the load goes on", func() bool {
		now := r.ledger.endsOf()
		return time.Now().After(least) && more() && !slices.ContainsFunc(r.clients, func(c string) bool {
			return !r.ended(c) && now[c] < before[c]+r.acts
		})
	})
}

func (r *rehearsal) ended(client string) bool {
	switch {
	case r.ctx.Err() != nil:
		return true // the test has failed
	case strings.Contains(client, "legacy"):
		return r.legacyEnds.Load()
	}
	return r.modernEnds.Load()
}

// until waits for something that must come about; a failure of the load ends
// the wait.
func (r *rehearsal) until(what string, holds func() bool) {
	r.t.Helper()
	for end := time.Now().Add(rehearsalPatience + r.atLeast); !holds(); time.Sleep(rehearsalPoll) {
		if r.t.Failed() || time.Now().After(end) {
			r.t.Fatalf("never: %s; finished so far: %v", what, r.ledger.endsOf())
		}
	}
}

// reload puts a file in force.
func (r *rehearsal) reload(routes []fleetRoute, how string) {
	r.t.Helper()
	r.phase.Store(0)
	r.fleet.put(routes, how)
	want := map[string]int{}
	for _, route := range routes {
		for _, u := range route.ups {
			want[route.name+"/"+u.name] = u.weight
		}
	}
	r.until("the new file is in force", func() bool {
		have := map[string]int{}
		for name, u := range r.fleet.status() {
			if u.State != "retired" {
				have[name] = u.Weight
			}
		}
		return maps.Equal(have, want)
	})
	if ok := r.fleet.metric("taskbridge_config_last_reload_successful"); ok != "1" {
		r.t.Errorf("the metric of the reload is %q", ok)
	}
}

func always() bool { return true }

// TestRehearsal moves the fleet: every operation is finished with its own
// result, at one server and once; what was begun before a change of the file
// stays where it is; drained servers end up empty, and the report says when
// nobody needs the legacy dialect any more.
func TestRehearsal(t *testing.T) {
	r := newRehearsal(t)
	kept := map[string][]held{} // until the route's old server is drained
	for i := range rehearsalSteps {
		short := r.hold() // until after the next change
		for route, held := range r.hold() {
			kept[route] = append(kept[route], held...)
		}
		r.settle(r.spread(i + 1))
		if i+1 < len(rehearsalSteps) {
			next := rehearsalSteps[i+1]
			r.reload(r.file(next), next.how)
			r.phase.Store(int64(i + 2))
		}
		r.finish(slices.Concat(slices.Collect(maps.Values(short))...))
	}
	r.placed()
	r.usedByAll()
	last := rehearsalSteps[len(rehearsalSteps)-1]
	r.drain("move", "l1", kept["move"])
	last.l1 = -1
	r.reload(r.file(last), "itself")
	r.servers["l1"].Close()
	r.settle(always)
	r.drain("mixed", "l2", kept["mixed"])
	last.l2 = -1
	r.reload(r.file(last), "itself")
	r.servers["l2"].Close()
	r.settle(always)
	r.finish(kept["modern"])
	r.turns()
	r.modernEnds.Store(true)
	r.load.Wait()
	r.ledger.close()
}

// spread says when new work has gone where the weights of a phase lead it.
func (r *rehearsal) spread(phase int) func() bool {
	if phase != 3 {
		return always
	}
	return func() bool { return len(r.begunIn("move", phase)) == 2 && len(r.begunIn("mixed", phase)) == 2 }
}

// begunIn counts where what a route's clients began in a phase ran.
func (r *rehearsal) begunIn(route string, phase int) map[string]int {
	return r.ledger.servers(func(place string) bool {
		return strings.Contains(place, "-"+route+"-") && strings.HasSuffix(place, begun(int64(phase)))
	})
}

// placed: new work went where the weights say, in every phase.
func (r *rehearsal) placed() {
	r.t.Helper()
	for i, s := range rehearsalSteps {
		for route, weights := range map[string]map[string]int{"move": {"l1": s.l1, "m1": s.m1}, "mixed": {"l2": s.l2, "m2": s.m2}, "modern": {"m2": 1}} {
			n := r.begunIn(route, i+1)
			r.t.Logf("begun in phase %d on %s: %v", i+1, route, n)
			for server := range n {
				if weights[server] <= 0 {
					r.t.Errorf("phase %d: %d operations of %s ran at %s, which has no share", i+1, n[server], route, server)
				}
			}
			if len(n) == 0 {
				r.t.Errorf("phase %d: nothing was begun on %s", i+1, route)
			}
		}
	}
	pinned := r.ledger.servers(func(place string) bool { return strings.Contains(place, pinnedClient+"-") })
	if len(pinned) != 1 || pinned["m1"] == 0 {
		r.t.Errorf("the pinned client's operations ran at %v", pinned)
	}
}

// drain empties a server: what it has goes on to its end, nothing new comes.
func (r *rehearsal) drain(route, server string, kept []held) {
	r.t.Helper()
	name := route + "/" + server
	r.fleet.drain(name)
	r.settle(always)
	if s := r.fleet.status()[name]; s.State != "draining" || s.Empty || s.Sessions == 0 || s.Tasks == 0 {
		r.t.Errorf("with work left, %s is %+v", name, s)
	}
	r.finish(kept)
	r.until(name+" is empty", func() bool { return r.fleet.status()[name].Empty })
}
