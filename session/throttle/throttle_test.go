package throttle

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// admitted is how many of n requests are let in at once.
func admitted(c Caller, n int) (in int) {
	for range n {
		if !c.Request().Refused() {
			in++
		}
	}
	return in
}

func TestRequests(t *testing.T) {
	for _, tt := range []struct {
		l            Limits
		burst, after int // at once, and 3 s later
		wait         time.Duration
	}{
		{Limits{Rate: 10}, 20, 20, 100 * time.Millisecond},
		{Limits{Rate: 1}, 10, 3, time.Second},
		{Limits{Rate: 0.5, Burst: 2}, 2, 1, 2 * time.Second},
		{Limits{Rate: 100, Burst: 5}, 5, 5, 10 * time.Millisecond},
		{Limits{RateTotal: 20}, 40, 40, 50 * time.Millisecond},
		{Limits{Rate: 1000, RateTotal: 2}, 10, 6, 500 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(tt.l), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lim := New(tt.l, 0)
				c := lim.Caller("a")
				if in := admitted(c, 100); in != tt.burst {
					t.Errorf("%d let in at once, want %d", in, tt.burst)
				}
				r := c.Request()
				if name := lim.nameFor(); r.Limit != name || (r.After-tt.wait).Abs() > time.Microsecond {
					t.Errorf("refused by %+v, want %s after %v", r, name, tt.wait)
				}
				time.Sleep(3 * time.Second)
				if in := admitted(c, 100); in != tt.after {
					t.Errorf("%d let in 3 s later, want %d", in, tt.after)
				}
			})
		})
	}
}

func (t *Limiter) nameFor() string {
	if t.limits.Load().RateTotal > 0 {
		return RateTotal
	}
	return Rate
}

// TestEased: what ends or answers work has as much again of its own, and no
// more.
func TestEased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Limits{Rate: 1, Burst: 3}, 0).Caller("a")
		admitted(c, 10)
		in := 0
		for range 10 {
			if !c.Eased().Refused() {
				in++
			}
		}
		if in != 3 {
			t.Errorf("%d let in, want 3", in)
		}
	})
}

// TestBytes: whoever is not behind may send anything, and waits afterwards.
func TestBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Limits{Bytes: 1 << 20}, 0).Caller("a")
		if r := c.Send(10 << 20); r.Refused() {
			t.Fatalf("the first message: %+v", r)
		}
		r := c.Send(1)
		if r.Limit != Bytes || r.After < 9*time.Second || r.After > 9*time.Second+time.Millisecond {
			t.Errorf("9 MiB behind: %+v", r)
		}
		c.Sent(1 << 20) // what is never refused counts
		time.Sleep(9*time.Second + 100*time.Millisecond)
		if r := c.Send(1); !r.Refused() {
			t.Error("let in though still behind")
		}
		time.Sleep(time.Second)
		if r := c.Send(100); r.Refused() {
			t.Errorf("no longer behind: %+v", r)
		}
	})
}

func TestInFlight(t *testing.T) {
	c := New(Limits{InFlight: 100}, 0).Caller("a")
	if r := c.Hold(1000); r.Refused() {
		t.Fatalf("one message may be longer: %+v", r)
	}
	if r := c.Hold(1); r.Limit != InFlight {
		t.Errorf("beside it: %+v", r)
	}
	c.Let(1000)
	c.Keep(60)
	if r := c.Hold(40); r.Refused() {
		t.Errorf("what fits: %+v", r)
	}
	if r := c.Hold(1); !r.Refused() {
		t.Error("one byte too many was let in")
	}
}

// TestManyCallers: made-up callers win nothing by pushing themselves out of the
// table, and cost nobody who has a place in it anything.
func TestManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 20
		lim := New(Limits{Rate: 1, Burst: 5}, size)
		busy := lim.Caller("busy")
		busy.Keep(1) // a message under way, for all that follows
		honest := lim.Caller("honest")
		if in := admitted(honest, 3); in != 3 {
			t.Fatalf("%d let in", in)
		}
		in := 0
		for i := range 1000 {
			in += admitted(lim.Caller(fmt.Sprint("made-up-", i)), 5)
		}
		if most := (size - 2 + 1) * 5; in > most {
			t.Errorf("%d requests of made-up callers let in, want at most %d", in, most)
		}
		if again := lim.Caller("honest"); again != honest || admitted(again, 10) != 2 {
			t.Error("a caller with a place was forgotten while that made a difference")
		}
		time.Sleep(time.Minute)
		for i := range 1000 { // all rest but one, so there is room
			if c := lim.Caller(fmt.Sprint("later-", i)); c.own == lim.crowd {
				t.Fatalf("no room for caller %d though others rest", i)
			}
		}
		if lim.callers.Len() > size {
			t.Errorf("%d callers kept", lim.callers.Len())
		}
		if lim.Caller("busy") != busy {
			t.Error("a caller with a message under way was forgotten")
		}
	})
}

// TestSet: new limits count for callers that are known, who keep what they have
// used.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := New(Limits{Rate: 1, Burst: 4}, 0)
		c := lim.Caller("a")
		admitted(c, 4)
		lim.Set(Limits{Rate: 10, Burst: 40})
		if in := admitted(c, 100); in != 0 {
			t.Errorf("%d let in right after a reload", in)
		}
		time.Sleep(time.Second)
		if in := admitted(c, 100); in != 10 {
			t.Errorf("%d let in a second later, want 10", in)
		}
		lim.Set(Limits{})
		if !lim.Caller("a").Free() || admitted(c, 100) != 100 {
			t.Error("limits taken back still count")
		}
	})
}

func TestNone(t *testing.T) {
	var lim *Limiter
	c := lim.Caller("a")
	if c.Request().Refused() || c.Eased().Refused() || c.Send(1<<40).Refused() || c.Hold(1<<40).Refused() {
		t.Error("refused without limits")
	}
	c.Sent(1)
	c.Keep(1)
	c.Let(1)
}

func TestConcurrent(t *testing.T) {
	lim := New(Limits{Rate: 1, Burst: 50, Bytes: 1, InFlight: 10}, 4)
	var wg sync.WaitGroup
	var mu sync.Mutex
	in := 0
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				c := lim.Caller("a")
				if !c.Request().Refused() {
					mu.Lock()
					in++
					mu.Unlock()
				}
				if !c.Hold(3).Refused() {
					c.Let(3)
				}
				c.Send(1)
				lim.Caller(fmt.Sprint(g, i)).Request()
			}
		})
	}
	wg.Wait()
	if in < 50 || in > 55 {
		t.Errorf("%d let in, want 50", in)
	}
}

func BenchmarkRequest(b *testing.B) {
	lim := New(Limits{Rate: 1e6, Bytes: 1 << 30, InFlight: 1 << 30}, 0)
	for range b.N {
		c := lim.Caller("some principal's key of forty-three letters")
		c.Request()
		c.Hold(1000)
		c.Send(1000)
		c.Let(1000)
	}
}

// Limits above hold over all limiters under them, beside each one's own.
func TestUnder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		above := New(Limits{Rate: 0.001, Burst: 5, Bytes: 1, InFlight: 100}, 0)
		a, b := New(Limits{Rate: 0.001, Burst: 3}, 0).Under(above), New(Limits{}, 0).Under(above)
		if n := admitted(a.Caller("x"), 10); n != 3 {
			t.Errorf("%d by its own limit of 3", n)
		}
		if n := admitted(b.Caller("x"), 10); n != 2 {
			t.Errorf("%d by what is left of 5 over all", n)
		}
		if n := admitted(b.Caller("y"), 10); n != 5 {
			t.Errorf("another caller: %d of 5", n)
		}
		if r := a.Caller("x").Hold(80); r.Refused() {
			t.Error("80 of 100 bytes were refused")
		}
		if r := b.Caller("x").Hold(80); r.Limit != InFlight {
			t.Errorf("80 more over all: %+v", r)
		}
		a.Caller("x").Let(80)
		if r := b.Caller("x").Hold(80); r.Refused() {
			t.Error("what was let go is still held")
		}
		a.Caller("x").Sent(1 << 20)
		if r := b.Caller("x").Send(1); r.Limit != Bytes {
			t.Errorf("behind over all: %+v", r)
		}
		if !New(Limits{}, 0).Caller("x").Free() || b.Caller("x").Free() {
			t.Error("who is free of limits")
		}
	})
}
