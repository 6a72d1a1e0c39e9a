package session_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// routed runs a test with a Route before servers, by a virtual clock.
func routed(t *testing.T, test func(t *testing.T, rig *routeRig), servers ...*routeServer) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rig := newRouteRig(t, servers...)
		defer rig.close()
		test(t, rig)
	})
}

// eras are the mixtures of a route with servers "a" and "b".
var eras = []struct {
	name string
	a, b translate.Era
}{
	{"modern", translate.Modern, translate.Modern},
	{"legacy", translate.Legacy, translate.Legacy},
	{"mixed", translate.Modern, translate.Legacy},
	{"mixed the other way", translate.Legacy, translate.Modern},
}

func (rig *routeRig) client(era translate.Era, who string) *routeClient {
	if era == translate.Modern {
		return rig.modern(who)
	}
	return rig.legacy(who)
}

// A handle leads to its server whatever pins, weights and sessions say.
func TestRouteHandlesWin(t *testing.T) {
	for _, e := range eras {
		for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
			t.Run(fmt.Sprintf("%v client, %s", era, e.name), func(t *testing.T) {
				a, b := newRouteServer("a", e.a), newRouteServer("b", e.b)
				routed(t, func(t *testing.T, rig *routeRig) {
					ua, ub := rig.ups[0], rig.ups[1]
					ua.Weight, ub.Weight = 1, 0
					rig.update(ua, ub)
					c := rig.client(era, "ann")
					if got := c.at(); got != "a" {
						t.Fatalf("all weight is on a, but %s answers", got)
					}
					ofA := c.newTask()
					ua.Weight, ub.Weight = 0, 1
					rig.update(ua, ub)
					if era == translate.Legacy {
						if got := c.at(); got != "a" {
							t.Errorf("the session moved to %s", got)
						}
						c.open()
					}
					if got := c.at(); got != "b" {
						t.Fatalf("all weight is on b, but %s answers", got)
					}
					ofB := c.newTask()
					if ofA == ofB {
						t.Fatalf("two tasks have one id %s", ofA)
					}
					time.Sleep(2 * time.Second) // what was seen last is old by then
					for id, server := range map[string]*routeServer{ofA: a, ofB: b} {
						before := server.sawMethod("tasks/get")
						if r := c.get(id); r.result("taskId") != id || r.result("status") != "working" {
							t.Errorf("task of %s: %s", server.name, r.raw())
						}
						if server.sawMethod("tasks/get") == before {
							t.Errorf("tasks/get did not reach %s", server.name)
						}
					}
					other := rig.client(era, "bob")
					for _, id := range []string{ofA, ofB} {
						if stolen, unknown := other.get(id), other.get("nothing"); stolen.code() != -32602 || string(stolen.msg.Error().Raw()) != string(unknown.msg.Error().Raw()) {
							t.Errorf("a stolen id gives %s, an unknown one %s", stolen.raw(), unknown.raw())
						}
					}
				}, a, b)
			})
		}
	}
}

// With one upstream a Route is its Runner: same keys, same ids.
func TestRouteOfOne(t *testing.T) {
	for _, server := range []translate.Era{translate.Modern, translate.Legacy} {
		a := newRouteServer("a", server)
		routed(t, func(t *testing.T, rig *routeRig) {
			c := rig.client(server, "ann")
			if id := c.newTask(); id != "1" {
				t.Errorf("the id of a same-era task on a route of one is %q", id)
			}
			if s := rig.route.Status(); len(s) != 1 || s[0].State != session.StateActive {
				t.Errorf("status %+v", s)
			}
		}, a)
	}
}

func TestRoutePins(t *testing.T) {
	a, b := newRouteServer("a", translate.Modern), newRouteServer("b", translate.Legacy)
	routed(t, func(t *testing.T, rig *routeRig) {
		pinned := session.Pin{Client: "cli", Version: ">=2"}
		who := rig.handles.Mask(session.HashPrincipal("token", "eve"))
		rig.update(rig.up(a, 1), rig.up(b, 0, pinned, session.Pin{Principal: who}))
		for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
			for _, c := range []struct{ who, version, want string }{
				{"ann", "1.9", "a"}, {"ann", "2.0", "b"}, {"ann", "nightly", "a"}, {"eve", "1", "b"},
			} {
				cl := rig.modern(c.who)
				cl.era, cl.version = era, c.version
				if era == translate.Legacy {
					cl.open()
				}
				if got := cl.at(); got != c.want {
					t.Errorf("%v client %s of %s is led to %s, want %s", era, c.version, c.who, got, c.want)
				}
			}
		}
		// A pinned client's upstream that drains is no choice.
		if err := rig.route.Drain("b"); err != nil {
			t.Fatal(err)
		}
		cl := rig.modern("eve")
		if got := cl.at(); got != "a" {
			t.Errorf("pinned to what drains, led to %s", got)
		}
	}, a, b)
}

// Shares that move step by step move callers one way only, and each share is
// about what its weight says.
func TestRouteRendezvous(t *testing.T) {
	routed(t, func(t *testing.T, rig *routeRig) {}, newRouteServer("a", translate.Modern))
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		names := []string{"r/a", "r/b", "r/c"}[:2+rng.IntN(2)]
		weights := make([]int, len(names))
		for i := range weights {
			weights[i] = rng.IntN(100)
		}
		weights[0]++
		grown := rng.IntN(len(names))
		more := append([]int(nil), weights...)
		more[grown] += 1 + rng.IntN(100)
		for i := range 500 {
			key := fmt.Sprintf("%d/%d", rng.Uint64(), i)
			was, is := session.PickByWeight(names, weights, key), session.PickByWeight(names, more, key)
			if was != is && is != names[grown] {
				t.Fatalf("weights %v to %v move %q from %s to %s", weights, more, key, was, is)
			}
		}
	}
	// 0, 10, 50, 100 of 100: never back.
	last := map[string]string{}
	for _, share := range []int{0, 10, 50, 100} {
		n := 0
		for i := range 10000 {
			key := fmt.Sprintf("principal %d\x00cli", i)
			got := session.PickByWeight([]string{"r/old", "r/new"}, []int{100 - share, share}, key)
			if got == "r/new" {
				n++
			} else if last[key] == "r/new" {
				t.Fatalf("%q moved back at %d", key, share)
			}
			last[key] = got
		}
		if n < share*100-200 || n > share*100+200 {
			t.Errorf("of 10,000 callers %d go to the new one at %d %%", n, share)
		}
	}
}

func TestRouteDrain(t *testing.T) {
	for _, e := range eras {
		t.Run(e.name, func(t *testing.T) {
			a, b := newRouteServer("a", e.a), newRouteServer("b", e.b)
			routed(t, func(t *testing.T, rig *routeRig) {
				ua, ub := rig.ups[0], rig.ups[1]
				ub.Weight = 0
				rig.update(ua, ub)
				m, l := rig.modern("ann"), rig.legacy("ann")
				tm, tl := m.newTask(), l.newTask()
				ub.Weight = 1
				rig.update(ua, ub)
				if err := rig.route.Drain("a"); err != nil {
					t.Fatal(err)
				}
				if got := m.at(); got != "b" {
					t.Errorf("what drains gets new work: %s", got)
				}
				if got := l.at(); got != "a" {
					t.Errorf("the session was moved to %s", got)
				}
				synctest.Wait()
				if s := rig.route.Status()[0]; s.State != session.StateDraining || s.Empty || s.Sessions != 1 || s.Tasks != 2 {
					t.Errorf("status while it drains: %+v", s)
				}
				a.finish("1")
				a.finish("2")
				time.Sleep(2 * time.Second)
				if r := m.get(tm); r.result("status") != "completed" {
					t.Errorf("the modern client's task: %s", r.raw())
				}
				if r := l.get(tl); r.result("status") != "completed" {
					t.Errorf("the legacy client's task: %s", r.raw())
				}
				l.delete()
				synctest.Wait()
				if s := rig.route.Status()[0]; !s.Empty {
					t.Errorf("nothing is left, but status is %+v", s)
				}
				if err := rig.route.Drain("b"); err != nil {
					t.Fatal(err)
				}
				if r := m.do("tools/call", `{"name":"t","arguments":{}}`); r.out.Status != 503 || r.out.Header.Get("Retry-After") == "" {
					t.Errorf("all drain: %d %v %s", r.out.Status, r.out.Header, r.raw())
				}
				if r := m.get(tm); r.result("status") != "completed" {
					t.Errorf("all drain, and the task is gone: %s", r.raw())
				}
				if err := rig.route.Undrain("r/a"); err != nil {
					t.Fatal(err)
				}
				if got := m.at(); got != "a" {
					t.Errorf("undrained, led to %s", got)
				}
				if err := rig.route.Drain("c"); err == nil {
					t.Error("an upstream that is none can be drained")
				}
			}, a, b)
		})
	}
}

// An upstream that is not configured any more serves what it holds, then it is
// closed, once.
func TestRouteRetires(t *testing.T) {
	a, b := newRouteServer("a", translate.Legacy), newRouteServer("b", translate.Modern)
	routed(t, func(t *testing.T, rig *routeRig) {
		l := rig.legacy("ann")
		for l.at() != "a" {
			l.delete()
			l.open()
		}
		id := l.newTask()
		rig.update(rig.ups[1])
		time.Sleep(time.Minute)
		if got := l.at(); got != "a" {
			t.Fatalf("the session was moved to %s", got)
		}
		if s := rig.route.Status(); len(s) != 2 || s[1].State != session.StateRetired || s[1].Tasks != 1 {
			t.Errorf("status %+v", s)
		}
		a.finish("1")
		if r := l.do("tasks/result", `{"taskId":"`+id+`"}`); namesServer(r.raw(), "a", "b") != "a" {
			t.Errorf("result: %s", r.raw())
		}
		l.delete()
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := rig.route.Status(); len(s) != 1 || rig.closed["a"] != 1 || rig.closed["b"] != 0 {
			t.Errorf("status %+v, closed %v", s, rig.closed)
		}
	}, a, b)
}

// What only the proxy has keeps it before a server that is gone from the
// configuration.
func TestRouteRetiresHeld(t *testing.T) {
	a, b := newRouteServer("a", translate.Modern), newRouteServer("b", translate.Modern)
	routed(t, func(t *testing.T, rig *routeRig) {
		rig.on("a")
		l := rig.legacy("ann")
		id := l.do("tools/call", `{"name":"t","arguments":{"do":"at once"},"task":{}}`).result("task", "taskId")
		l.delete()
		synctest.Wait()
		if s := rig.route.Status()[0]; !s.Empty || s.Kept != 1 {
			t.Errorf("status %+v", s)
		}
		rig.update(rig.up(b, 1))
		time.Sleep(time.Minute)
		l.open()
		if r := l.do("tasks/result", `{"taskId":"`+id+`"}`); !strings.Contains(r.raw(), "a at once") {
			t.Errorf("the held result: %s", r.raw())
		}
		l.delete()
		time.Sleep(26 * time.Hour)
		synctest.Wait()
		if s := rig.route.Status(); len(s) != 1 || rig.closed["a"] != 1 {
			t.Errorf("status %+v, closed %v", s, rig.closed)
		}
	}, a, b)
}

// An upstream whose server changed under its name: the old one keeps its
// sessions and tasks, the new one gets new work, and what is put back is the one
// that was there.
func TestRouteServerChanges(t *testing.T) {
	for _, e := range eras {
		for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
			t.Run(fmt.Sprintf("%v client, %s", era, e.name), func(t *testing.T) {
				a, b := newRouteServer("a", e.a), newRouteServer("b", e.b)
				b.as, b.minted = "a", 1
				routed(t, func(t *testing.T, rig *routeRig) {
					rig.update(rig.up(a, 1), rig.up(newRouteServer("other", translate.Modern), 0))
					c := rig.client(era, "ann")
					ofA := c.newTask()
					rig.update(rig.up(b, 1), rig.ups[1])
					if era == translate.Legacy {
						if got := c.at(); got != "a" {
							t.Errorf("the session moved to %s", got)
						}
						c.open()
					}
					if got := c.at(); got != "b" {
						t.Errorf("new work goes to %s", got)
					}
					ofB := c.newTask()
					time.Sleep(2 * time.Second)
					for id, server := range map[string]*routeServer{ofA: a, ofB: b} {
						before := server.sawMethod("tasks/get")
						if r := c.get(id); r.result("taskId") != id || server.sawMethod("tasks/get") == before {
							t.Errorf("the task of %s: %s", server.name, r.raw())
						}
					}
					rig.update(rig.up(a, 1), rig.ups[1])
					if n := len(rig.started); n != 3 {
						t.Errorf("%d runners were started", n)
					}
					if s := rig.route.Status(); s[0].State != session.StateActive || s[2].State != session.StateRetired {
						t.Errorf("status %+v", s)
					}
				}, a)
			})
		}
	}
}

// What fails again and again gets no new work for a while, but never all.
func TestRouteEjects(t *testing.T) {
	a, b := newRouteServer("a", translate.Modern), newRouteServer("b", translate.Modern)
	routed(t, func(t *testing.T, rig *routeRig) {
		var onA *routeClient
		for i := 0; onA == nil; i++ {
			if c := rig.modern(fmt.Sprint(i)); c.at() == "a" {
				onA = c
			}
		}
		a.with(func() { a.down = true })
		for range 5 {
			if r := onA.do("tools/list", ""); r.code() == 0 {
				t.Fatalf("a server that is down answers: %s", r.raw())
			}
		}
		if got := onA.at(); got != "b" {
			t.Errorf("led to %s after 5 failures", got)
		}
		if s := rig.route.Status()[0]; s.State != session.StateEjected || time.Until(s.Until) != 10*time.Second {
			t.Errorf("status %+v", s)
		}
		b.with(func() { b.status = 502 })
		for range 10 {
			onA.do("tools/list", "")
		}
		if s := rig.route.Status()[1]; s.State != session.StateActive {
			t.Errorf("the last one was ejected: %+v", s)
		}
		b.with(func() { b.status = 0 })
		time.Sleep(11 * time.Second)
		onA.do("tools/list", "") // fails, and ejects at once for twice as long
		if s := rig.route.Status()[0]; s.State != session.StateEjected || time.Until(s.Until) != 20*time.Second {
			t.Errorf("status %+v", s)
		}
		a.with(func() { a.down = false })
		time.Sleep(21 * time.Second)
		if got := onA.at(); got != "a" {
			t.Errorf("back, but led to %s", got)
		}
		if s := rig.route.Status()[0]; s.State != session.StateActive || s.Failures != 0 {
			t.Errorf("status %+v", s)
		}
	}, a, b)
}

// Streams that wait are counted for the route, not for each upstream.
func TestRouteStreamsLimit(t *testing.T) {
	a, b := newRouteServer("a", translate.Modern), newRouteServer("b", translate.Legacy)
	routed(t, func(t *testing.T, rig *routeRig) {
		for i := range rig.ups {
			rig.ups[i].Policy.Streams = session.Limit{Each: 2}
		}
		c := rig.modern("ann")
		var open []*session.ClientStream
		for _, name := range []string{"a", "b"} {
			rig.on(name)
			open = append(open, c.start("subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`))
		}
		synctest.Wait()
		if r := c.do("subscriptions/listen", `{"notifications":{}}`); r.out.Status != 429 {
			t.Errorf("the third of two: %d %s", r.out.Status, r.raw())
		}
		open[0].Gone()
		third := c.start("subscriptions/listen", `{"notifications":{}}`)
		synctest.Wait()
		if o, _ := third.Next(t.Context()); o.Status == 429 {
			t.Errorf("the second of two: %d %s", o.Status, o.Raw)
		}
		open[1].Gone()
		third.Gone()
	}, a, b)
}

// Looks notice what no request does, and end an ejection early.
func TestRouteLooks(t *testing.T) {
	a, b := newRouteServer("a", translate.Modern), newRouteServer("b", translate.Modern)
	routed(t, func(t *testing.T, rig *routeRig) {
		var looks atomic.Int32
		up := rig.up(a, 1)
		up.Health = session.Health{FailAfter: 3, EjectFor: time.Minute, Interval: time.Second}
		up.Look = func(ctx context.Context) (err error) {
			looks.Add(1)
			a.with(func() {
				if a.down {
					err = errors.New("down")
				}
			})
			return err
		}
		rig.update(up, rig.ups[1])
		a.with(func() { a.down = true })
		time.Sleep(3500 * time.Millisecond)
		if s := rig.route.Status()[0]; s.State != session.StateEjected || looks.Load() != 3 {
			t.Errorf("after %d failed looks: %+v", looks.Load(), s)
		}
		a.with(func() { a.down = false })
		time.Sleep(2 * time.Second)
		if s := rig.route.Status()[0]; s.State != session.StateActive {
			t.Errorf("after two good looks: %+v", s)
		}
		up.Health.Interval = 0
		rig.update(up, rig.ups[1])
		time.Sleep(10 * time.Second)
		if n := looks.Load(); n > 6 {
			t.Errorf("it is still looked at: %d", n)
		}
	}, a, b)
}

func TestRouteUpdateIsWhole(t *testing.T) {
	a, b := newRouteServer("a", translate.Modern), newRouteServer("b", translate.Modern)
	routed(t, func(t *testing.T, rig *routeRig) {
		broken := rig.up(newRouteServer("c", translate.Modern), 1)
		broken.Start = func() (*session.Runner, func(), error) { return nil, nil, errors.New("no") }
		for _, ups := range [][]session.RouteUpstream{
			nil, {rig.ups[0], rig.ups[0]}, {rig.up(b, 1), broken}, {rig.up(a, -1)}, {rig.up(a, 1, session.Pin{Version: "=>1"})},
		} {
			if err := rig.route.Update(ups); err == nil {
				t.Errorf("taken: %+v", ups)
			}
		}
		if s := rig.route.Status(); len(s) != 1 || rig.closed["a"] != 0 || rig.closed["b"] != 1 {
			t.Errorf("a bad update changed something: %+v, closed %v", s, rig.closed)
		}
	}, a)
}
