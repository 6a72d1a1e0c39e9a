// Package throttle limits how often and how much each caller may send. What a
// caller has used is in the memory of this process only.
package throttle

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// Limits are what one caller may do. Zero fields do not limit.
type Limits struct {
	// Rate is requests a second; Burst how many at once (0: those of two
	// seconds, at least 10). RateTotal is that of all callers together, with a
	// burst of two seconds.
	Rate, RateTotal float64
	Burst           int
	// Bytes a second of messages. A caller that is not behind may send one of
	// any length, and is then behind by it.
	Bytes int64
	// InFlight: bytes of messages under way at a time, or one message.
	InFlight int64
}

func (l Limits) burst() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return max(10, twoSeconds(l.Rate))
}

func (l Limits) burstTotal() int { return max(10, twoSeconds(l.RateTotal)) }

// burstBytes is no limit: see used.sent.
func (l Limits) burstBytes() int { return int(min(max(l.Bytes, leastChunk), 1<<30)) }

func twoSeconds(perSecond float64) int { return int(min(2*perSecond+0.5, 1<<30)) }

// Names of limits, as metrics and errors say them.
const (
	Rate      = "rate"
	RateTotal = "rate_total"
	Bytes     = "bytes"
	InFlight  = "in_flight"
)

// Refusal says which limit is in the way; the zero Refusal says none.
type Refusal struct {
	Limit string
	After time.Duration // when it is worth trying again
}

// Refused: a limit is in the way.
func (r Refusal) Refused() bool { return r.Limit != "" }

// Callers is how many callers are told apart at a time.
const Callers = 1 << 14

// Limiter knows what callers have used of late. Safe for concurrent use; a nil
// Limiter limits nothing.
type Limiter struct {
	limits atomic.Pointer[Limits]
	total  *rate.Limiter
	above  *Limiter // nil: none

	mu      sync.Mutex // protects the fields below
	size    int
	callers *simplelru.LRU[string, *used]
	// crowd is shared by callers there is no room for.
	crowd *used
}

// New returns a limiter. size is how many callers are told apart (0: Callers).
func New(l Limits, size int) *Limiter {
	if size <= 0 {
		size = Callers
	}
	callers, err := simplelru.NewLRU[string, *used](size, nil)
	if err != nil {
		panic("throttle: " + err.Error()) // of a size that is not positive
	}
	t := &Limiter{size: size, callers: callers, total: rate.NewLimiter(limitOf(l.RateTotal), l.burstTotal())}
	t.limits.Store(&l)
	t.crowd = t.newUsed()
	return t
}

// Set changes the limits. What callers have used stays used.
func (t *Limiter) Set(l Limits) {
	t.total.SetBurst(l.burstTotal())
	t.total.SetLimit(limitOf(l.RateTotal))
	t.limits.Store(&l)
}

func limitOf(perSecond float64) rate.Limit {
	if perSecond <= 0 {
		return rate.Inf
	}
	return rate.Limit(perSecond)
}

// looks: how many of the callers seen least of late are looked at for one that
// can be forgotten.
const looks = 8

// Under has callers count with above, too: its limits hold for all limiters
// under it together. It is called before the first Caller.
func (t *Limiter) Under(above *Limiter) *Limiter {
	t.above = above
	return t
}

// Caller is what key has used; the zero Caller where nothing is limited.
func (t *Limiter) Caller(key string) Caller {
	if t == nil {
		return Caller{}
	}
	return Caller{t.used(key), t.above.used(key)}
}

// used is what key has used here; nil where nothing is limited. A caller is
// forgotten only where that makes no difference: once it may again do all that
// a new one may. Where nobody can be forgotten new callers share one share, so
// that many made-up callers win nothing.
func (t *Limiter) used(key string) *used {
	if t == nil || *t.limits.Load() == (Limits{}) {
		return nil
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.callers.Get(key); ok {
		return c
	}
	for range looks {
		if t.callers.Len() < t.size {
			break
		}
		old, c, _ := t.callers.GetOldest()
		if c.rested(now) {
			t.callers.Remove(old)
			break
		}
		t.callers.Get(old) // others may be at rest
	}
	if t.callers.Len() >= t.size {
		return t.crowd
	}
	c := t.newUsed()
	t.callers.Add(key, c)
	return c
}

func (t *Limiter) newUsed() *used {
	l := t.limits.Load()
	return &used{
		t: t, limits: l,
		requests: rate.NewLimiter(limitOf(l.Rate), l.burst()),
		eased:    rate.NewLimiter(limitOf(l.Rate), l.burst()),
		bytes:    rate.NewLimiter(limitOf(float64(l.Bytes)), l.burstBytes()),
	}
}

// used is what one caller has used of a limiter. Safe for concurrent use; nil is
// never refused anything.
type used struct {
	t *Limiter

	mu       sync.Mutex // protects the fields below
	limits   *Limits    // those the buckets are set to
	requests *rate.Limiter
	eased    *rate.Limiter
	bytes    *rate.Limiter
	held     int64
}

// leastChunk is the least burst of the bucket of bytes.
const leastChunk = 64 << 10

// follow takes limits that were changed; it needs c.mu.
func (c *used) follow() *Limits {
	l := c.t.limits.Load()
	if l == c.limits {
		return l
	}
	for _, b := range []*rate.Limiter{c.requests, c.eased} {
		b.SetBurst(l.burst())
		b.SetLimit(limitOf(l.Rate))
	}
	c.bytes.SetBurst(l.burstBytes())
	c.bytes.SetLimit(limitOf(float64(l.Bytes)))
	c.limits = l
	return l
}

// rested: a new caller could do no more.
func (c *used) rested(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.follow()
	for _, b := range []*rate.Limiter{c.requests, c.eased, c.bytes} {
		if b.TokensAt(now) < float64(b.Burst()) {
			return false
		}
	}
	return c.held == 0
}

// Request counts one message.
func (c *used) Request() Refusal {
	if c == nil {
		return Refusal{}
	}
	if r := c.draw(c.requests); r.Refused() {
		return r
	}
	return draw(c.t.total, RateTotal, time.Now())
}

// Eased counts one message of the kind translate.DueEased that Request has
// refused: those have as much again, of their own.
func (c *used) Eased() Refusal {
	if c == nil {
		return Refusal{}
	}
	return c.draw(c.eased)
}

func (c *used) draw(b *rate.Limiter) Refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.follow()
	return draw(b, Rate, time.Now())
}

func draw(b *rate.Limiter, name string, now time.Time) Refusal {
	if b.AllowN(now, 1) {
		return Refusal{}
	}
	return Refusal{name, until(b, now)}
}

// until is when b has one again.
func until(b *rate.Limiter, now time.Time) time.Duration {
	missing := 1 - b.TokensAt(now)
	return time.Duration(missing / float64(b.Limit()) * float64(time.Second))
}

// Send counts n bytes, unless the caller is behind with what it sent before.
func (c *used) Send(n int64) Refusal {
	if c == nil {
		return Refusal{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.follow().Bytes > 0 {
		if now := time.Now(); c.bytes.TokensAt(now) < 1 {
			return Refusal{Bytes, until(c.bytes, now)}
		}
	}
	c.sent(n)
	return Refusal{}
}

// Sent counts n bytes, behind or not.
func (c *used) Sent(n int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.follow()
	c.sent(n)
}

// sent takes more than there is: the bucket is then below zero by it.
func (c *used) sent(n int64) {
	if c.limits.Bytes <= 0 {
		return
	}
	now := time.Now()
	for chunk := int64(c.bytes.Burst()); n > 0; n -= chunk {
		c.bytes.ReserveN(now, int(min(n, chunk)))
	}
}

// heldAgain is when messages under way may have ended: nobody knows.
const heldAgain = time.Second

// Hold counts n bytes of a message as under way, until Let. Nothing is counted
// where it is refused.
func (c *used) Hold(n int64) Refusal {
	if c == nil || n <= 0 {
		return Refusal{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.follow().InFlight; l > 0 && c.held > 0 && n > l-c.held {
		return Refusal{InFlight, heldAgain}
	}
	c.held += n
	return Refusal{}
}

// Keep is Hold that is never refused.
func (c *used) Keep(n int64) {
	if c == nil || n <= 0 {
		return
	}
	c.mu.Lock()
	c.held += n
	c.mu.Unlock()
}

// Let ends a Hold or Keep.
func (c *used) Let(n int64) {
	if c == nil || n <= 0 {
		return
	}
	c.mu.Lock()
	c.held -= n
	c.mu.Unlock()
}
