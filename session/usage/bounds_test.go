package usage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/translate"
)

// A million names take a bounded place, in memory and in the store, whoever
// brings them; the verdict still counts those that have no row of their own.
func TestSafetyS52_ClientNamesInTheReport(t *testing.T) {
	names := 1_000_000
	if testing.Short() {
		names = 100_000
	}
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		d := newDesk(t, store, "default")
		defer d.close()
		first := named("first")
		d.ask(first, translate.Legacy, "tools/call", translate.OutcomeCompleted)
		time.Sleep(6 * time.Second)
		for i := range names {
			who := session.Who{Principal: session.Principal(fmt.Sprint("p", i%7)), Client: fmt.Sprint("bot ", i), ClientVersion: "1"}
			d.ask(who, translate.Legacy, "initialize", translate.OutcomeCompleted)
			if i%50_000 == 0 {
				time.Sleep(6 * time.Second)
			}
			d.mu.RLock()
			n := len(d.slots)
			d.mu.RUnlock()
			if n > maxSlots+8 {
				t.Fatalf("%d slots", n)
			}
		}
		long := session.Who{Principal: "long", Client: strings.Repeat("é", 1<<19), ClientVersion: strings.Repeat("9", 1<<20)}
		d.ask(long, translate.Legacy, "tools/call", translate.OutcomeCompleted)
		rt := d.report(window)
		total, told := uint64(0), false
		for _, c := range rt.Clients {
			total += c.Legacy.Probes
			told = told || c.Name == "first" && c.Legacy.Completed == 1
			if len(c.Name) > session.MaxShown || len(c.Version) > session.MaxShown {
				t.Errorf("a name of %d bytes", len(c.Name))
			}
		}
		if len(rt.Clients) > maxClients+1 || total != uint64(names) {
			t.Errorf("%d rows hold %d of %d", len(rt.Clients), total, names)
		}
		if !told || rt.Verdict != Needed {
			t.Errorf("who came first is not told apart; verdict %s", rt.Verdict)
		}
		records := 0
		if err := d.each(t.Context(), "usage/", func(string, []byte) { records++ }); err != nil || records > maxClients+100 {
			t.Errorf("%d records, %v", records, err)
		}
	})
}

// One caller's names leave room for others'.
func TestSafetyS52_OnePrincipalsNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memory.New(), "default")
		defer d.close()
		for i := range 2000 {
			d.ask(session.Who{Principal: "loud", Client: fmt.Sprint("bot ", i)}, translate.Legacy, "tools/list", translate.OutcomeCompleted)
		}
		time.Sleep(time.Minute)
		d.ask(session.Who{Principal: "quiet", Client: "desk"}, translate.Legacy, "tools/list", translate.OutcomeCompleted)
		loud, folded, quiet := 0, uint64(0), 0
		for _, c := range d.report(window).Clients {
			switch {
			case c.Folded && c.Principal == mask("loud"):
				folded = c.Legacy.Completed
			case c.Principal == mask("loud"):
				loud++
			case c.Principal == mask("quiet") && c.Name == "desk":
				quiet++
			}
		}
		if loud != maxPerPrincipal || folded != uint64(2000-maxPerPrincipal) || quiet != 1 {
			t.Errorf("%d names and %d counted together, %d of another caller", loud, folded, quiet)
		}
	})
}

// Neither ids nor arguments, nor a caller's own principal, are in the store.
func TestRecorder_KeepsNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		d := newDesk(t, store, "default")
		defer d.close()
		d.End(&session.Request{Who: session.Who{Principal: "s3cret-principal", Client: "desk"}, Route: "default", Upstream: "blue", Down: translate.Legacy, Up: translate.Modern,
			Kind: 1, Method: "s3cret/method", Name: "s3cret-tool", Resource: "s3cret-uri", ID: "s3cret-id", Session: "s3cret-session", Version: "s3cret-version"},
			session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeError, Message: "s3cret-text"}, At: time.Now()})
		d.Loss(session.Lost{Who: named("desk"), Route: "default", What: "s3cret-loss"})
		d.report(window)
		err := d.each(t.Context(), "", func(key string, raw []byte) {
			if strings.Contains(strings.ReplaceAll(key+string(raw), mask("s3cret-principal"), ""), "s3cret") {
				t.Errorf("%s: %s", key, raw)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// Days that are long over are added up; what they counted is in the totals once,
// however often it is done and wherever it broke off.
func TestCompact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMoody()
		d := newDeskOf(t, store, time.Hour, "default")
		defer d.close()
		compact := func(ctx context.Context) error {
			d.flushing.Lock() // the hour's own flush may be at it just now
			defer d.flushing.Unlock()
			return d.compact(ctx, d.now())
		}
		all := func() (n uint64) {
			v := &view{clients: map[string]*clientView{}, servers: map[string]*clientView{}}
			if err := d.readDays(t.Context(), "default", v); err != nil {
				t.Fatal(err)
			}
			for _, c := range v.clients {
				n += c.all.Legacy.Completed
			}
			return n
		}
		asked := uint64(0)
		for i := range 100 {
			d.ask(named("desk"), translate.Legacy, "tools/call", translate.OutcomeCompleted)
			asked++
			if i < 20 {
				d.ask(named("old"), translate.Legacy, "tools/call", translate.OutcomeCompleted)
				asked++
			}
			if i%10 == 9 {
				d.report(window)
				if i%20 == 9 { // it breaks off on the way
					ctx, cancel := context.WithCancel(t.Context())
					left := 3
					breakOff := func(string) {
						if left--; left == 0 {
							cancel()
						}
					}
					store.puts.Store(&breakOff)
					_ = compact(ctx)
					store.puts.Store(nil)
				}
				if got := all(); got != asked {
					t.Fatalf("day %d: %d are counted, there were %d", i, got, asked)
				}
			}
			time.Sleep(hoursADay)
		}
		if err := compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := all(); got != asked {
			t.Errorf("%d are counted, there were %d", got, asked)
		}
		records := 0
		_ = d.each(t.Context(), prefixDay, func(string, []byte) { records++ })
		if records > 3*(keepDays+4) {
			t.Errorf("%d records are left", records)
		}
		rt := d.report(window)
		for _, c := range rt.Clients {
			if c.Name == "old" {
				t.Errorf("a client not seen for 80 days has a row: %+v", c)
			}
		}
		if e, err := store.Get(t.Context(), keyAll); err != nil || string(e.Value) != "1" {
			t.Errorf("clients told apart: %s, %v", e.Value, err)
		}
	})
}

// Processes come and go without leaving much behind, and nothing that was
// observed is forgotten.
func TestCompact_Processes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		for range 50 {
			d := newDesk(t, store, "default")
			time.Sleep(time.Hour)
			d.close()
		}
		d := newDesk(t, store, "default")
		defer d.close()
		time.Sleep(2 * time.Hour)
		n := 0
		_ = d.each(t.Context(), prefixProcess, func(string, []byte) { n++ })
		if n > 2 {
			t.Errorf("%d processes are left", n)
		}
		if rt := d.verdict(NotSeen, 52*time.Hour); len(rt.Observed.Gaps) != 0 {
			t.Errorf("gaps %+v", rt.Observed.Gaps)
		}
	})
}

// Merging gives the same whatever the order and grouping.
func TestMerge(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func() *record {
		tally := func() tally {
			if rnd.IntN(4) == 0 {
				return tally{}
			}
			t := tally{Completed: rnd.Uint64N(9), Failed: rnd.Uint64N(9), Probes: rnd.Uint64N(9), First: stamp(rnd.IntN(5)), Last: stamp(rnd.IntN(9)),
				Used: stamp(rnd.IntN(9)), Held: stamp(rnd.IntN(9)), LongHeld: stamp(rnd.IntN(9))}
			t.Revisions.add("2025-11-25", rnd.Uint64N(3)+1)
			if rnd.IntN(2) == 0 {
				t.Features.add("ping", 1)
			}
			return t
		}
		r := &record{Name: "desk", Legacy: tally(), Modern: tally(), Through: day(rnd.IntN(3))}
		if rnd.IntN(2) == 0 {
			r.Losses.add("log_line", 1)
		}
		return r
	}
	sum := func(list ...*record) *record {
		s := &record{}
		for _, r := range list {
			s.merge(r)
		}
		return s
	}
	for range 2000 {
		a, b, c := random(), random(), random()
		left := sum(sum(a, b), c)
		for name, got := range map[string]*record{"grouped": sum(a, sum(b, c)), "reversed": sum(c, b, a), "with nothing": sum(&record{}, a, b, c)} {
			if !reflect.DeepEqual(left, got) {
				t.Fatalf("%s: %+v, want %+v", name, got, left)
			}
		}
		var back record
		if err := decode(encode(left), &back); err != nil || !reflect.DeepEqual(left, &back) {
			t.Fatalf("stored and read: %+v, %v, want %+v", back, err, left)
		}
	}
}

// Sets of time agree with a plain array of moments.
func TestSpans(t *testing.T) {
	const size = 40
	rnd := rand.New(rand.NewPCG(3, 4))
	random := func() (s spans) {
		var list []span
		for range rnd.IntN(6) {
			from := rnd.IntN(size)
			list = append(list, span{stamp(from), stamp(from + rnd.IntN(size-from))})
		}
		return spansOf(list...)
	}
	has := func(s spans, t stamp) bool {
		for _, x := range s {
			if x.From <= t && t < x.To {
				return true
			}
		}
		return false
	}
	for range 5000 {
		a, b := random(), random()
		since := stamp(rnd.IntN(size))
		n, after := 0, 0
		for t0 := range stamp(size) {
			in, out := has(a, t0), has(b, t0)
			if has(a.union(b), t0) != (in || out) || has(a.within(b), t0) != (in && out) || has(a.without(b), t0) != (in && !out) || has(a.outside(span{5, 30}), t0) != (!in && t0 >= 5 && t0 < 30) {
				t.Fatalf("%v and %v differ at %d", a, b, t0)
			}
			if in {
				n++
				if t0 >= since {
					after++
				}
			}
		}
		if int(a.length()) != n || int(a.since(since)) != after {
			t.Fatalf("%v: length %d, %d since %d", a, a.length(), a.since(since), since)
		}
		if n > 0 {
			d := time.Duration(rnd.IntN(n) + 1)
			if from, ok := a.back(d); !ok || a.since(from) != d {
				t.Fatalf("%v: %d back is %d, %v", a, d, from, ok)
			}
		}
		if _, ok := a.back(time.Duration(n + 1)); ok {
			t.Fatalf("%v is not that long", a)
		}
	}
}

// Whoever counts while others count and the store is written: nothing is lost,
// also of clients whose place is given up between two flushes.
func TestRecorder_Concurrent(t *testing.T) {
	d := newDeskOf(t, memory.New(), time.Millisecond, "default")
	defer d.close()
	const workers, asks = 4, 3000
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range asks {
				d.ask(session.Who{Principal: session.Principal(fmt.Sprint("p", i%9)), Client: fmt.Sprint("bot ", w, i%700)}, translate.Legacy, "tools/call", translate.OutcomeCompleted)
				if i%500 == 0 {
					_, _ = d.Report(t.Context(), window, "")
				}
			}
		})
	}
	wg.Wait()
	total := uint64(0)
	for _, c := range d.report(window).Clients {
		total += c.Legacy.Completed
	}
	if total != workers*asks {
		t.Errorf("%d are counted, there were %d", total, workers*asks)
	}
}

// A request costs no allocation.
func TestRecorder_AllocatesNothing(t *testing.T) {
	d := newDeskOf(t, memory.New(), time.Hour, "default")
	defer d.close()
	now := time.Now()
	q := &session.Request{Who: named("desk"), At: now, Route: "default", Upstream: "default", Down: translate.Legacy, Up: translate.Modern, Version: "2025-11-25", Kind: 1, Method: "tools/call"}
	e := session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeCompleted}, At: now, Uses: translate.OnlyTaskParam}
	d.End(q, e)
	if n := testing.AllocsPerRun(100, func() { d.Begin(q); d.End(q, e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Losses that nobody can be named for do not look like a client.
func TestRecorder_NamelessLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memory.New(), "default")
		defer d.close()
		d.Loss(session.Lost{Route: "default", What: "log_line"})
		d.Loss(session.Lost{Route: "default", What: "never heard of"})
		rt := d.verdict(Unknown, window)
		if len(rt.Clients) != 0 || rt.Losses["log_line"] != 1 || rt.Losses[other] != 1 {
			t.Errorf("shown as %+v, losses %v", rt.Clients, rt.Losses)
		}
	})
}

func BenchmarkEnd(b *testing.B) {
	r, err := New(b.Context(), Options{Store: memory.New(), Mask: mask})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close(context.Background())
	now := time.Now()
	q := &session.Request{Who: named("desk"), At: now, Route: "default", Upstream: "default", Down: translate.Legacy, Up: translate.Modern, Version: "2025-11-25", Kind: 1, Method: "tools/call"}
	e := session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeCompleted}, At: now, Uses: translate.OnlyTaskParam}
	b.ReportAllocs()
	for b.Loop() {
		r.Begin(q)
		r.End(q, e)
	}
}
