package usage

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session/memory"
	"taskbridge/translate"
)

// Time in which nobody counted does not count: it is shown, and puts the verdict
// off by as much.
func TestCoverage_RestartMakesAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		d := newDesk(t, store, "default")
		d.ask(named("desk"), translate.Legacy, "tools/call", translate.OutcomeCompleted)
		time.Sleep(12 * time.Hour)
		d.close()
		down := time.Now()
		time.Sleep(3 * time.Hour)
		d = newDesk(t, store, "default")
		defer d.close()
		up := time.Now()
		time.Sleep(12*time.Hour - 1)
		rt := d.verdict(Needed, window)
		if want := time.Now().Add(1); !rt.Earliest.Equal(want) {
			t.Errorf("earliest %v, want %v", rt.Earliest, want)
		}
		if g := rt.Observed.Gaps; len(g) != 1 || !g[0].From.Equal(down) || !g[0].To.Equal(up) || g[0].Why != GapNotRunning || g[0].For != Duration(3*time.Hour) {
			t.Errorf("gaps %+v", g)
		}
		time.Sleep(time.Nanosecond)
		d.verdict(NotSeen, window)
	})
}

// A process that ends without a word takes what it had not stored with it. That
// is a gap even while another one counts.
func TestCoverage_CrashIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		a, b := newDesk(t, store, "default"), newDesk(t, store, "default")
		defer a.close()
		time.Sleep(time.Hour + time.Second)
		b.ask(named("desk"), translate.Legacy, "tools/call", translate.OutcomeCompleted)
		b.crash()
		time.Sleep(window - time.Hour - time.Second)
		rt := a.verdict(Unknown, window)
		if !strings.Contains(rt.Text, "gap of 5s") || !strings.Contains(rt.Text, "(counters lost)") || rt.Observed.Gaps[0].Why != GapCountersLost {
			t.Errorf("in words: %s", rt.Text)
		}
		time.Sleep(5*time.Second - 1)
		a.verdict(Unknown, window)
		time.Sleep(time.Nanosecond)
		a.verdict(NotSeen, window)
	})
}

// A process that was stopped (a sleeping machine) saw nothing meanwhile.
func TestCoverage_StoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memory.New(), "default")
		defer d.close()
		time.Sleep(time.Hour + time.Second) // between two flushes
		d.mu.Lock()
		d.stop()
		d.mu.Unlock()
		stopped := d.beat.time()
		time.Sleep(5 * time.Hour)
		d.tick()
		time.Sleep(window)
		rt := d.verdict(NotSeen, window)
		if len(rt.Observed.Gaps) != 0 {
			t.Errorf("gaps %+v lie before the window", rt.Observed.Gaps)
		}
		rt = d.report(window + time.Hour/2)
		if g := rt.Observed.Gaps; len(g) != 1 || !g[0].From.Equal(stopped) || g[0].For < Duration(5*time.Hour) {
			t.Errorf("gaps %+v", g)
		}
	})
}

// A route is observed while it is served.
func TestCoverage_RouteComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memory.New(), "other")
		defer d.close()
		time.Sleep(2 * window)
		d.SetRoutes([]string{"default", "other"})
		time.Sleep(window - 1)
		d.verdict(Unknown, window)
		time.Sleep(time.Nanosecond)
		d.verdict(NotSeen, window)
		d.SetRoutes([]string{"other"})
		rep, err := d.Report(t.Context(), window, "")
		if err != nil || len(rep.Routes) != 1 || rep.Routes[0].Name != "other" {
			t.Errorf("a route that is served no more is reported: %+v, %v", rep, err)
		}
		time.Sleep(time.Hour)
		d.SetRoutes([]string{"default"})
		if rt := d.verdict(NotSeen, window); len(rt.Observed.Gaps) != 1 || rt.Observed.Gaps[0].For != Duration(time.Hour) {
			t.Errorf("gaps %+v", rt.Observed.Gaps)
		}
	})
}

// Two processes on one store add up, whoever writes first.
func TestRecorder_TwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMoody()
		a, b := newDesk(t, store, "default"), newDesk(t, store, "default")
		defer a.close()
		defer b.close()
		for range 100 {
			a.ask(named("desk"), translate.Legacy, "tools/call", translate.OutcomeCompleted)
			b.ask(named("desk"), translate.Legacy, "tools/call", translate.OutcomeCompleted)
			b.ask(named("shop"), translate.Modern, "tools/list", translate.OutcomeCompleted)
			time.Sleep(time.Second)
		}
		b.report(window)
		rt := a.report(window)
		if len(rt.Clients) != 2 || rt.Clients[0].Legacy.Completed != 200 || rt.Clients[1].Modern.Completed != 100 || rt.Servers[0].Modern.Completed != 300 {
			t.Errorf("clients %+v, servers %+v", rt.Clients, rt.Servers)
		}
	})
}

// Whoever writes at the same moment, and whatever fails: nothing is lost and
// nothing counts twice.
func TestRecorder_ConflictsLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMoody()
		a, b := newDeskOf(t, store, time.Hour, "default"), newDeskOf(t, store, time.Hour, "default")
		defer b.close()
		defer a.close()
		asked, puts := uint64(0), 0
		faster := func(key string) {
			if !strings.HasPrefix(key, prefixDay) {
				return
			}
			if puts++; puts%3 == 0 { // b is faster
				hook := store.puts.Swap(nil)
				b.ask(named("desk"), translate.Legacy, "tools/call", translate.OutcomeCompleted)
				asked++
				b.report(window)
				store.puts.Store(hook)
			}
		}
		store.puts.Store(&faster)
		for i := range 500 {
			a.ask(named("desk"), translate.Legacy, "tools/call", translate.OutcomeCompleted)
			asked++
			store.down.Store(i%5 == 0)
			if _, err := a.Report(t.Context(), window, "default"); (err != nil) != store.down.Load() {
				t.Fatal(err)
			}
			store.down.Store(false)
		}
		store.puts.Store(nil)
		if got := a.report(window).Clients[0].Legacy.Completed; got != asked || asked < 600 {
			t.Errorf("%d operations are counted, there were %d", got, asked)
		}
	})
}
