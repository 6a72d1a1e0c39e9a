package usage

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// desk is a recorder in a test, with what its clients do.
type desk struct {
	*Recorder
	t    *testing.T
	open []session.LegacySession
}

func mask(p session.Principal) string { return "m-" + string(p) }

func newDesk(t *testing.T, store session.Store, routes ...string) *desk {
	t.Helper()
	return newDeskOf(t, store, 0, routes...)
}

func newDeskOf(t *testing.T, store session.Store, flush time.Duration, routes ...string) *desk {
	t.Helper()
	d := &desk{t: t}
	r, err := New(t.Context(), Options{Store: store, Mask: mask, Flush: flush, Sessions: func(_ context.Context, route string) (list []session.LegacySession, _ error) {
		for _, s := range d.open {
			if s.Route == route {
				list = append(list, s)
			}
		}
		return list, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	d.Recorder = r
	r.SetRoutes(routes)
	return d
}

// crash ends the process without a word.
func (d *desk) crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.stop()
}

func (d *desk) close() {
	d.t.Helper()
	if err := d.Close(context.Background()); err != nil {
		d.t.Error(err)
	}
}

// ask is a request that took a second.
func (d *desk) ask(who session.Who, era translate.Era, method string, outcome translate.Outcome) {
	d.askOf("default", who, era, method, translate.Answer{Outcome: outcome})
}

func (d *desk) askOf(route string, who session.Who, era translate.Era, method string, a translate.Answer) {
	now := time.Now()
	version := translate.LatestLegacy
	if era == translate.Modern {
		version = translate.LatestModern
	}
	q := &session.Request{Who: who, At: now.Add(-time.Second), Route: route, Upstream: route + "/blue", Down: era, Up: translate.Modern, Version: version, Kind: jsonrpc.Request, Verb: "POST", Method: method}
	d.Begin(q)
	d.End(q, session.Ended{Answer: a, At: now, Uses: translate.LegacyOnlyOf(&translate.Frame{Dir: translate.ToServer, Msg: &jsonrpc.Message{Kind: jsonrpc.Notification, Method: method}})})
}

func (d *desk) report(window time.Duration) *Route {
	d.t.Helper()
	rep, err := d.Report(d.t.Context(), window, "default")
	if err != nil {
		d.t.Fatal(err)
	}
	if len(rep.Routes) != 1 {
		d.t.Fatalf("%d routes are reported", len(rep.Routes))
	}
	return &rep.Routes[0]
}

func (d *desk) verdict(want Verdict, window time.Duration) *Route {
	d.t.Helper()
	rt := d.report(window)
	if rt.Verdict != want {
		d.t.Errorf("verdict %s: %s; want %s", rt.Verdict, rt.Text, want)
	}
	return rt
}

func named(name string) session.Who {
	return session.Who{Principal: "ann", Client: name, ClientVersion: "1"}
}

// moody is a store that fails, or has others write first, as told.
type moody struct {
	session.Store
	down atomic.Bool
	puts atomic.Pointer[func(key string)] // before each Put
}

func newMoody() *moody { return &moody{Store: memory.New()} }

func (m *moody) Put(ctx context.Context, key string, value []byte, expect uint64) (uint64, error) {
	if m.down.Load() {
		return 0, errors.New("the store is away")
	}
	if f := m.puts.Load(); f != nil {
		(*f)(key)
	}
	return m.Store.Put(ctx, key, value, expect)
}
