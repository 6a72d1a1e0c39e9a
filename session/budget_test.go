package session_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"taskbridge/session"
)

func TestBudget(t *testing.T) {
	b := session.NewBudget(100)
	for i, c := range []struct {
		take, give int64
		ok         bool
		use        int64
	}{
		{take: 60, ok: true, use: 60},
		{take: 41, ok: false, use: 60},
		{take: 40, ok: true, use: 100},
		{take: 1, ok: false, use: 100},
		{take: 0, ok: true, use: 100},
		{take: -5, ok: true, use: 100},
		{take: math.MaxInt64, ok: false, use: 100},
		{give: 30, ok: true, use: 70},
		{give: -30, ok: true, use: 70},
		{take: 30, ok: true, use: 100},
		{give: 1000, ok: true, use: 0},
		{take: 101, ok: false, use: 0},
		{take: 100, ok: true, use: 100},
	} {
		ok := b.TryAcquire(c.take)
		b.Release(c.give)
		if ok != c.ok || b.InUse() != c.use {
			t.Errorf("step %d: %v, %d in use; want %v, %d", i, ok, b.InUse(), c.ok, c.use)
		}
	}
	if d := session.NewBudget(0).Total(); d != session.DefaultBudget {
		t.Errorf("default is %d", d)
	}
}

// TestSafetyS44_BytesInFlight has many large bodies come at once: never more
// is in use than the budget, small ones still find room in what the large
// ones leave, and all comes back.
func TestSafetyS44_BytesInFlight(t *testing.T) {
	const total, large, small = 256 << 20, 60 << 20, 4 << 10
	b := session.NewBudget(total)
	var in, peak, refused atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	release := make(chan struct{})
	var decided sync.WaitGroup
	for range 100 {
		decided.Add(1)
		wg.Go(func() {
			<-start
			ok := b.TryAcquire(large)
			if ok {
				now := in.Add(large)
				for p := peak.Load(); now > p && !peak.CompareAndSwap(p, now); p = peak.Load() {
				}
			} else {
				refused.Add(1)
			}
			decided.Done()
			if ok {
				<-release
				in.Add(-large)
				b.Release(large)
			}
		})
	}
	close(start)
	decided.Wait()
	if refused.Load() != 96 || peak.Load() != 4*large || b.InUse() != 4*large {
		t.Errorf("%d refused, peak %d, in use %d", refused.Load(), peak.Load(), b.InUse())
	}
	for range 1000 {
		if !b.TryAcquire(small) {
			t.Fatal("a small message was refused")
		}
		b.Release(small)
	}
	close(release)
	wg.Wait()
	if b.InUse() != 0 {
		t.Errorf("%d bytes are lost", b.InUse())
	}
}

func TestHeldBudget(t *testing.T) {
	const k = 1024
	b := session.NewHeldBudget(256 * k)
	step := func(what string, got, want bool, use int64) {
		t.Helper()
		if got != want || b.InUse() != use {
			t.Fatalf("%s: %v, %d KiB in use; want %v, %d KiB", what, got, b.InUse()/k, want, use/k)
		}
	}
	for i := range 4 {
		step("reservation", b.Reserve(fmt.Sprint(i), 0), true, int64(i+1)*64*k)
	}
	step("one too many", b.Reserve("4", 64*k), false, 256*k)
	step("the same again", b.Reserve("0", 64*k), true, 256*k)
	step("a larger one for a key", b.Reserve("0", 65*k), false, 256*k)
	step("a smaller one for a key", b.Reserve("0", 1), true, 256*k)
	step("a result that is small", b.Grow("0", 2*k, 0), true, 194*k)
	step("a result that fits", b.Grow("1", 126*k, 0), true, 256*k)
	step("past the total without slack", b.Grow("2", 65*k, 0), false, 256*k)
	step("past the total by the slack", b.Grow("2", 96*k, 32*k), true, 288*k)
	step("past the slack", b.Grow("3", 65*k, 32*k), false, 288*k)
	step("shrinking while past the total", b.Grow("3", 10*k, 0), true, 234*k)
	step("negative", b.Grow("3", -5, -5), true, 224*k)
	step("absurd", b.Grow("3", math.MaxInt64, 32*k), false, 224*k)
	step("absurd slack", b.Grow("3", 1000*k, math.MaxInt64), true, 1224*k)
	b.Set("3", 0)
	b.Set("restored", 500*k)
	step("set", true, true, 724*k)
	step("reservation past the total", b.Reserve("5", 1), false, 724*k)
	b.Free("restored")
	b.Free("restored")
	b.Free("never")
	for i := range 4 {
		b.Free(fmt.Sprint(i))
	}
	step("all free", true, true, 0)
	if b.Len() != 0 {
		t.Errorf("%d keys are left", b.Len())
	}
	if d := session.NewHeldBudget(-1).Total(); d != session.DefaultBudget {
		t.Errorf("default is %d", d)
	}
}

func TestHeldBudgetConcurrently(t *testing.T) {
	const total, slack = 1000, 100
	b := session.NewHeldBudget(total)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 500 {
				key := fmt.Sprint(w, "/", i%5)
				if b.Reserve(key, 1+rand.Int64N(100)) {
					b.Grow(key, rand.Int64N(300), slack)
				}
				if use := b.InUse(); use < 0 || use > total+slack {
					t.Errorf("%d in use", use)
				}
				if rand.IntN(2) == 0 {
					b.Free(key)
				}
			}
			for i := range 5 {
				b.Free(fmt.Sprint(w, "/", i))
			}
		})
	}
	wg.Wait()
	if b.InUse() != 0 || b.Len() != 0 {
		t.Errorf("%d in use by %d keys", b.InUse(), b.Len())
	}
}
