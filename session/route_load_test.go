package session_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// Weights, pins, drains and the set of upstreams change while clients of both
// eras work: every request is answered, by a server that runs it once, and every
// task is found again.
func TestRouteUpdateUnderLoad(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 60
	}
	servers := []*routeServer{newRouteServer("a", translate.Legacy), newRouteServer("b", translate.Modern), newRouteServer("c", translate.Modern)}
	routed(t, func(t *testing.T, rig *routeRig) {
		var stop atomic.Bool
		var clients, changes sync.WaitGroup
		var sent atomic.Int64
		for i := range 6 {
			clients.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), 7))
				era := []translate.Era{translate.Modern, translate.Legacy}[i%2]
				c := rig.client(era, fmt.Sprint("client ", i))
				var tasks []string
				for n := range rounds {
					switch k := rng.IntN(10); {
					case k < 5:
						do := fmt.Sprintf("once %d %d", i, n)
						if r := c.do("tools/call", `{"name":"t","arguments":{"do":"`+do+`"}}`); r.code() != 0 || !strings.Contains(r.raw(), do) {
							t.Errorf("a call was lost: %d %s", r.out.Status, r.raw())
						}
						sent.Add(1)
					case k < 7:
						tasks = append(tasks, c.newTask())
					case k < 9 && len(tasks) > 0:
						id := tasks[rng.IntN(len(tasks))]
						if r := c.get(id); r.result("taskId") != id {
							t.Errorf("a task was lost: %d %s", r.out.Status, r.raw())
						}
					case era == translate.Legacy:
						c.delete()
						c.open()
					}
				}
			})
		}
		changes.Go(func() {
			rng := rand.New(rand.NewPCG(9, 9))
			for !stop.Load() {
				// At least one with a share, that does not drain; sometimes one is gone
				// for a while.
				var ups []session.RouteUpstream
				for i, s := range servers {
					if i == 0 || rng.IntN(4) > 0 {
						up := rig.up(s, rng.IntN(3))
						if i == 0 {
							up.Weight++
						}
						if rng.IntN(3) == 0 {
							up.Pins = []session.Pin{{Client: "cli", Version: "<1"}}
						}
						ups = append(ups, up)
					}
				}
				rig.update(ups...)
				for _, up := range ups[1:] {
					drain := rig.route.Drain
					if rng.IntN(2) == 0 {
						drain = rig.route.Undrain
					}
					if err := drain(up.Name); err != nil {
						t.Error(err)
					}
				}
				rig.route.Status()
				time.Sleep(time.Millisecond)
			}
		})
		clients.Wait()
		stop.Store(true)
		changes.Wait()
		ran := map[string]int{}
		for _, s := range servers {
			s.with(func() {
				for do, n := range s.runs {
					if strings.HasPrefix(do, "once") {
						ran[do] += n
					}
				}
			})
		}
		for do, n := range ran {
			if n != 1 {
				t.Errorf("%q ran %d times", do, n)
			}
		}
		if len(ran) != int(sent.Load()) {
			t.Errorf("%d calls were sent, %d ran", sent.Load(), len(ran))
		}
	}, servers...)
}

// A route of one upstream costs a request nothing beside its runner.
func TestRouteOfOneAllocatesNothing(t *testing.T) {
	a := newRouteServer("a", translate.Modern)
	rig := newRouteRig(t, a)
	defer rig.close()
	c := rig.modern("ann")
	in := c.inbound(c.request("tasks/list", ""), nil)
	in.Frame.Msg = nil // refused at once
	through := testing.AllocsPerRun(200, func() {
		s := rig.route.NewStream()
		rig.route.Client(t.Context(), in, s)
		s.Gone()
	})
	straight := rig.started[0]
	direct := testing.AllocsPerRun(200, func() {
		s := straight.NewStream()
		straight.Client(t.Context(), in, s)
		s.Gone()
	})
	if through > direct {
		t.Errorf("%v allocations through a route, %v without", through, direct)
	}
}
