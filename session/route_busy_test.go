package session_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// listStore counts how often it is asked for a list, or refuses to give one.
type listStore struct {
	session.Store
	lists atomic.Int64
	fails atomic.Bool
}

func (s *listStore) List(ctx context.Context, prefix, after string, limit int) ([]session.Entry, error) {
	s.lists.Add(1)
	if s.fails.Load() {
		return nil, errors.New("the store is away")
	}
	return s.Store.List(ctx, prefix, after, limit)
}

// Whether an upstream is busy is known without reading all there is, and never
// denied too early: not while one task of many runs, a call is parked, a stream
// is open, or the store cannot say.
func TestRouteBusy(t *testing.T) {
	old, b := newRouteServer("old", translate.Modern), newRouteServer("b", translate.Legacy)
	routed(t, func(t *testing.T, rig *routeRig) {
		st := &listStore{Store: rig.store}
		rig.store = st
		rig.update(rig.up(b, 1))
		time.Sleep(time.Minute) // the one before is closed
		want := func(want bool, why string) {
			t.Helper()
			synctest.Wait()
			st.lists.Store(0)
			busy, known := rig.route.Busy("b")
			n := st.lists.Load()
			if !known || busy != want {
				t.Errorf("%s: busy %v, known %v", why, busy, known)
			}
			if s := rig.route.Status()[0]; s.Empty == want {
				t.Errorf("%s: %+v", why, s)
			}
			if want && n > 12 {
				t.Errorf("%s: %d lists were read", why, n)
			}
		}
		if _, known := rig.route.Busy("nobody"); known {
			t.Error("an upstream that is not there is known")
		}
		want(false, "nothing was asked yet")
		c := rig.modern("ann")
		var ids []string
		for range 100 {
			ids = append(ids, c.newTask())
		}
		want(true, "100 tasks run")
		for i := range ids {
			if i > 0 {
				b.finish(strconv.Itoa(i + 1))
			}
		}
		time.Sleep(time.Second)
		for _, id := range ids {
			c.get(id)
		}
		want(true, "the first one runs")
		b.finish("1")
		time.Sleep(time.Second)
		c.get(ids[0])
		time.Sleep(time.Minute)
		want(false, "all are over")
		r := c.do("tools/call", `{"name":"t","arguments":{"do":"ask"}}`)
		if r.result("requestState") == "" {
			t.Fatalf("no question: %s", r.raw())
		}
		want(true, "a call is parked")
		time.Sleep(20 * time.Minute)
		want(false, "it was given up")
		listen := c.start("subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
		want(true, "a client listens")
		listen.Gone()
		time.Sleep(time.Minute)
		want(false, "it does no more")
		st.fails.Store(true)
		want(true, "the store is away")
		if rig.route.Over() {
			t.Error("the route is over while the store is away")
		}
		st.fails.Store(false)
	}, old)
}

// What there is is counted by a bounded number of reads, and that there may be more
// is said; whether there is anything at all is known all the same.
func TestRouteStatus_Bounded(t *testing.T) {
	defer session.StatusReads(5)()
	a := newRouteServer("a", translate.Legacy)
	routed(t, func(t *testing.T, rig *routeRig) {
		rig.update(rig.up(a, 1))
		c := rig.modern("ann")
		var ids []string
		want := func(tasks int, more, empty bool) {
			t.Helper()
			synctest.Wait()
			if s := rig.route.Status()[0]; s.Tasks != tasks || s.More != more || s.Empty != empty {
				t.Errorf("%+v; want %d tasks, more %v, empty %v", s, tasks, more, empty)
			}
		}
		want(0, false, true)
		for range 5 {
			ids = append(ids, c.newTask())
		}
		want(5, false, false)
		for range 5 {
			ids = append(ids, c.newTask())
		}
		want(5, true, false)
		for i, id := range ids {
			a.finish(strconv.Itoa(i + 1))
			time.Sleep(time.Second)
			c.get(id)
		}
		time.Sleep(time.Second)
		want(0, true, true)
	}, a)
}
