package e2e

import (
	"sync"
	"time"

	"taskbridge/session"
)

// jumpClock is the machine's clock, which a test may put forward: what is due
// after minutes is seen without limits so short that a busy machine meets them
// by itself.
type jumpClock struct {
	session.RealClock

	mu     sync.Mutex // protects the fields below
	ahead  time.Duration
	timers map[*jumpTimer]struct{} // that have neither fired nor been stopped
}

type jumpTimer struct {
	due  time.Time
	real *time.Timer
}

func newJumpClock() *jumpClock { return &jumpClock{timers: map[*jumpTimer]struct{}{}} }

// Now implements session.Clock.
func (c *jumpClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

// AfterFunc implements session.Clock.
func (c *jumpClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &jumpTimer{due: time.Now().Add(c.ahead + d)}
	c.timers[t] = struct{}{}
	t.real = time.AfterFunc(d, func() {
		if c.take(t) {
			f()
		}
	})
	return func() bool {
		t.real.Stop()
		return c.take(t)
	}
}

// take is true once for each timer.
func (c *jumpClock) take(t *jumpTimer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.timers[t]
	delete(c.timers, t)
	return ok
}

// jump puts the clock forward.
func (c *jumpClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
	now := time.Now().Add(c.ahead)
	for t := range c.timers {
		t.real.Reset(max(0, t.due.Sub(now)))
	}
}
