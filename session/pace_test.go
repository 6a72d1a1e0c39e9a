package session

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSafetyS49_PollStorm: of 10,000 looks at a server no more than the rate go,
// callers take turns, and how long each waited is told.
func TestSafetyS49_PollStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond, storm = 200, 10_000
		var mu sync.Mutex
		var lags []time.Duration
		went := map[Principal][]time.Duration{}
		p := newPacer(RealClock{}, perSecond, func(d time.Duration) {
			mu.Lock()
			lags = append(lags, d)
			mu.Unlock()
		})
		began := time.Now()
		ask := func(ctx context.Context, who Principal) {
			go func() {
				if p.wait(ctx, who) == nil {
					mu.Lock()
					went[who] = append(went[who], time.Since(began))
					mu.Unlock()
				}
			}()
		}
		for range storm {
			ask(t.Context(), "many")
		}
		synctest.Wait()
		ask(t.Context(), "one")
		left, leave := context.WithCancel(t.Context())
		for range 50 {
			ask(left, "left")
		}
		synctest.Wait()
		leave()
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(went["many"]) != storm || len(went["one"]) != 1 || len(went["left"]) > 1 || len(lags) != storm+1+len(went["left"]) {
			t.Fatalf("%d, %d and %d went, %d lags", len(went["many"]), len(went["one"]), len(went["left"]), len(lags))
		}
		all := slices.Concat(went["many"], went["one"])
		slices.Sort(all)
		for i := range all {
			// A burst of one second at once, then the rate.
			if k := i + 2*perSecond; k < len(all) && all[k]-all[i] < time.Second-time.Millisecond*10 {
				t.Fatalf("%d looks within %v", 2*perSecond, all[k]-all[i])
			}
		}
		if at := went["one"][0]; at > 100*time.Millisecond {
			t.Errorf("a caller with one task waited %v behind one with thousands", at)
		}
		if last, want := all[len(all)-1], time.Duration(storm/perSecond-1)*time.Second; last < want-time.Second || last > want+time.Second {
			t.Errorf("all were through after %v, want about %v", last, want)
		}
		if most := slices.Max(lags); most < 40*time.Second {
			t.Errorf("the longest lag told is %v", most)
		}
		if len(p.queues) != 0 || len(p.turns) != 0 {
			t.Errorf("%d queues are left", len(p.queues))
		}
	})
}
