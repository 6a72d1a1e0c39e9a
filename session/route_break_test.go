package session_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// A request may come in when its route is closed already: its body took long,
// or the process ends. It is told to come again, whatever the route had.
func TestRouteClosed(t *testing.T) {
	for _, several := range []bool{false, true} {
		for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
			servers := []*routeServer{newRouteServer("a", translate.Modern)}
			if several {
				servers = append(servers, newRouteServer("b", translate.Legacy))
			}
			routed(t, func(t *testing.T, rig *routeRig) {
				c := rig.client(era, "ann")
				rig.route.Close()
				for _, r := range []routeReply{c.do("tools/call", `{"name":"t","arguments":{"do":"who"}}`), c.get("nothing"), c.do("initialize", "{}")} {
					if r.out.Status != http.StatusServiceUnavailable || r.msg == nil {
						t.Errorf("several %t, %v client: %d %s", several, era, r.out.Status, r.raw())
					}
				}
			}, servers...)
		}
	}
}

// What a modern client began goes on while the only server of its route drains,
// also where nothing of it is sealed.
func TestRouteDrainOfOne(t *testing.T) {
	for _, open := range []bool{false, true} {
		for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
			a := newRouteServer("a", era)
			routed(t, func(t *testing.T, rig *routeRig) {
				c := rig.modern("ann")
				c.shared = open
				id := c.newTask()
				cursor := c.do("tools/list", "").result("nextCursor")
				state := c.do("tools/call", `{"name":"t","arguments":{"do":"ask"}}`).result("requestState")
				if err := rig.route.Drain("a"); err != nil {
					t.Fatal(err)
				}
				if r := c.get(id); r.result("status") != "working" {
					t.Errorf("open %t, %v server, tasks/get: %d %s", open, era, r.out.Status, r.raw())
				}
				if r := c.do("tools/list", `{"cursor":"`+cursor+`"}`); r.code() != 0 || r.out.Status >= 400 {
					t.Errorf("open %t, %v server, second page after %q: %d %s", open, era, cursor, r.out.Status, r.raw())
				}
				key := "k"
				if era == translate.Legacy {
					key = "q1"
				}
				if r := c.do("tools/call", `{"name":"t","arguments":{"do":"ask"},"requestState":"`+state+`","inputResponses":{"`+key+`":{"action":"accept","content":{}}}}`); r.code() != 0 || r.out.Status >= 400 {
					t.Errorf("open %t, %v server, answer: %d %s", open, era, r.out.Status, r.raw())
				}
				s := c.start("subscriptions/listen", `{"notifications":{"taskIds":["`+id+`"]}}`)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if out, ok := s.Next(ctx); !ok || out.Final {
					t.Errorf("open %t, %v server, listen: %t %d %s", open, era, ok, out.Status, out.Raw)
				}
				cancel()
				s.Gone()
				synctest.Wait()
				if r := c.do("tools/call", `{"name":"t","arguments":{"do":"who"}}`); r.out.Status != http.StatusServiceUnavailable {
					t.Errorf("open %t, %v server, new work: %d %s", open, era, r.out.Status, r.raw())
				}
			}, a)
		}
	}
}

// countedClock counts the timers that are set.
type countedClock struct {
	session.RealClock
	set atomic.Int64
}

func (c *countedClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.set.Add(1)
	return c.RealClock.AfterFunc(d, func() { c.set.Add(-1); f() })
}

// However often a route is changed while something of a server that left is
// open, it is looked at by one timer alone.
func TestRouteSweepsOnce(t *testing.T) {
	a, b := newRouteServer("a", translate.Legacy), newRouteServer("b", translate.Modern)
	synctest.Test(t, func(t *testing.T) {
		rig := newRouteRig(t, a, b)
		defer rig.close()
		clock := &countedClock{}
		ups := rig.ups
		var err error
		rig.route.Close()
		rig.route, err = session.NewRoute(session.RouteOptions{Name: "r", Store: session.PrefixStore(rig.store, "r/"), Handles: rig.handles, Process: rig.proc, Clock: clock}, ups)
		if err != nil {
			t.Fatal(err)
		}
		rig.on("a")
		rig.legacy("ann")
		for range 200 {
			rig.update(ups[1])
			time.Sleep(time.Second)
		}
		if n := clock.set.Load(); n != 1 {
			t.Errorf("%d timers wait", n)
		}
	})
}

// A cursor of a list of tasks says where it goes on; what is no upstream here is
// refused, and nothing in it reaches a server.
func TestRouteListCursorOfAnotherRoute(t *testing.T) {
	for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
		a, b := newRouteServer("a", era), newRouteServer("b", translate.Legacy)
		routed(t, func(t *testing.T, rig *routeRig) {
			rig.on("a")
			c := rig.legacy("ann")
			c.newTask()
			seen := a.sawMethod("tasks/list") + b.sawMethod("tasks/list")
			foreign := rig.handles.SealFor("routecursor", c.who, []byte(`{"u":"other/a","c":"secret"}`))
			if r := c.do("tasks/list", `{"cursor":"`+foreign+`"}`); r.code() != -32602 {
				t.Errorf("%v server: %d %s", era, r.out.Status, r.raw())
			}
			if got := a.sawMethod("tasks/list") + b.sawMethod("tasks/list"); got != seen {
				t.Errorf("%v server: a server was asked", era)
			}
		}, a, b)
	}
}

// Where the session a client has is gone, a part of it at another server is no
// session of the client's.
func TestRoutePartIsNoSession(t *testing.T) {
	for _, e := range eras {
		a, b := newRouteServer("a", e.a), newRouteServer("b", e.b)
		routed(t, func(t *testing.T, rig *routeRig) {
			rig.on("a")
			first := rig.legacy("ann")
			id := first.newTask()
			rig.on("b")
			c := rig.legacy("ann")
			if r := c.get(id); r.result("taskId") != id {
				t.Fatalf("%s: %s", e.name, r.raw())
			}
			key := fmt.Sprintf("u/r/b/%p/op/session:%s", b, c.session)
			if err := rig.store.Delete(t.Context(), key, session.Any); err != nil {
				t.Fatal(err)
			}
			rig.route.Forget()
			if _, err := rig.store.Get(t.Context(), key); err == nil {
				t.Fatal("the session is still there")
			}
			for _, r := range []routeReply{c.do("tools/call", `{"name":"t","arguments":{"do":"who"}}`), c.get(id), c.finish(c.verb(http.MethodDelete, ""))} {
				if r.out.Status != http.StatusNotFound {
					t.Errorf("%s: %d %s", e.name, r.out.Status, r.raw())
				}
			}
		}, a, b)
	}
}

// One listen makes a bounded number of requests to servers, however many ids it
// names that nobody knows.
func TestRouteListenLooks(t *testing.T) {
	a, b := newRouteServer("a", translate.Modern), newRouteServer("b", translate.Modern)
	routed(t, func(t *testing.T, rig *routeRig) {
		c := rig.modern("ann")
		ids := make([]string, 1000)
		for i := range ids {
			ids[i] = fmt.Sprintf("%q", fmt.Sprint("guess ", i))
		}
		s := c.start("subscriptions/listen", `{"notifications":{"taskIds":[`+strings.Join(ids, ",")+`]}}`)
		defer s.Gone()
		synctest.Wait()
		if got := a.sawMethod("tasks/get") + b.sawMethod("tasks/get"); got == 0 || got > 64 {
			t.Errorf("servers were asked %d times", got)
		}
	}, a, b)
}

// So does a route that is over.
func TestRouteDissolve(t *testing.T) {
	for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
		routed(t, func(t *testing.T, rig *routeRig) {
			c := rig.modern("ann")
			c.newTask()
			if c.era = translate.Legacy; era == translate.Modern {
				c.open()
				c.newTask()
			}
			if err := rig.route.Dissolve(); err != nil {
				t.Fatal(err)
			}
			for _, prefix := range []string{"counts/tasks", "counts/upstreams", "u/r/a/"} {
				list, err := rig.store.List(t.Context(), prefix, "", 10)
				if err != nil || len(list) > 0 {
					t.Errorf("%v: %d are left, %v: %+v", era, len(list), err, list)
				}
			}
		}, newRouteServer("a", era))
	}
}

// A server that left and is over leaves nothing: no counts against its callers,
// no records.
func TestRouteLeavesNothing(t *testing.T) {
	for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
		a, b := newRouteServer("a", era), newRouteServer("b", translate.Modern)
		routed(t, func(t *testing.T, rig *routeRig) {
			for range 5 {
				s := newRouteServer("a", era)
				rig.update(rig.up(s, 1), rig.ups[1])
				rig.on("a")
				l, m := rig.legacy("ann"), rig.modern("ann")
				idl, idm := l.newTask(), m.newTask()
				s.finish("1")
				s.finish("2")
				time.Sleep(5 * time.Second)
				l.do("tasks/result", `{"taskId":"`+idl+`"}`)
				m.get(idm)
				l.delete()
			}
			rig.update(rig.ups[1])
			time.Sleep(48 * time.Hour)
			synctest.Wait()
			if rig.closed["a"] != 6 {
				t.Errorf("%v: %d of 6 are closed", era, rig.closed["a"])
			}
			for _, prefix := range []string{"counts/", "u/r/a/"} {
				list, err := rig.store.List(t.Context(), prefix, "", 10)
				if err != nil || len(list) > 0 {
					t.Errorf("%v: %d are left, %v: %+v", era, len(list), err, list)
				}
			}
		}, a, b)
	}
}

// A call that waits at a legacy server for an answer goes on there when another
// server has taken its name, of either era.
func TestRouteParkedOfOneName(t *testing.T) {
	for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
		a, b, next := newRouteServer("a", translate.Legacy), newRouteServer("b", translate.Legacy), newRouteServer("next", era)
		next.as = "a"
		routed(t, func(t *testing.T, rig *routeRig) {
			rig.on("a")
			c := rig.modern("ann")
			ask := func() string {
				return c.do("tools/call", `{"name":"t","arguments":{"do":"ask"}}`).result("requestState")
			}
			answer := func(state string) routeReply {
				return c.do("tools/call", `{"name":"t","arguments":{"do":"ask"},"requestState":"`+state+`","inputResponses":{"q1":{"action":"accept","content":{}},"k":{"action":"accept","content":{}}}}`)
			}
			state := ask()
			rig.update(rig.up(next, 1), rig.ups[1])
			rig.on("a")
			fresh := ask()
			for _, s := range []string{fresh, state} {
				if r := answer(s); r.code() != 0 || r.out.Status >= 400 {
					t.Errorf("%v server has the name, the state of the one before %t: %d %s", era, s == state, r.out.Status, r.raw())
				}
			}
		}, a, b)
	}
}

// Looks end an ejection by good ones in a row after it: those from before, when
// calls failed although looks did not, say nothing.
func TestRouteLooks_Flapping(t *testing.T) {
	a, b := newRouteServer("a", translate.Modern), newRouteServer("b", translate.Modern)
	routed(t, func(t *testing.T, rig *routeRig) {
		up := rig.up(a, 1)
		up.Health = session.Health{FailAfter: 3, EjectFor: time.Minute, Interval: 10 * time.Second, PassAfter: 2}
		up.Look = func(context.Context) error { return nil }
		rig.update(up, rig.ups[1])
		time.Sleep(45 * time.Second)
		a.with(func() { a.down = true })
		for n := 0; rig.route.Status()[0].State == session.StateActive && n < 100; n++ {
			c := rig.modern(fmt.Sprint("caller ", n))
			c.do("tools/call", `{"name":"t","arguments":{"do":"who"}}`)
		}
		for _, want := range []string{session.StateEjected, session.StateEjected, session.StateActive} {
			if s := rig.route.Status()[0]; s.State != want {
				t.Errorf("%+v, want it to be %s", s, want)
			}
			time.Sleep(10 * time.Second)
		}
	}, a, b)
}
