package session

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// pacer lets looks of our own at a server through at one rate, all callers
// together. Where more want to than may, callers take turns, and each one's
// looks go in their order: who has thousands of tasks delays himself first.
type pacer struct {
	clock Clock
	lag   func(time.Duration) // told how long each look waited

	mu      sync.Mutex // protects the fields below
	limiter *rate.Limiter
	queues  map[Principal][]*look // none is empty
	turns   []Principal           // who has a queue, the next first
	armed   bool                  // a timer will call next
}

// look is one that waits.
type look struct {
	let  chan struct{} // closed when it may go
	over bool          // nobody waits any more
}

func newPacer(clock Clock, perSecond float64, lag func(time.Duration)) *pacer {
	return &pacer{
		clock: clock, lag: lag, queues: map[Principal][]*look{},
		limiter: rate.NewLimiter(rate.Limit(perSecond), int(perSecond)+1),
	}
}

// wait returns when a look on behalf of who may go, or with ctx's error.
func (p *pacer) wait(ctx context.Context, who Principal) error {
	began := p.clock.Now()
	p.mu.Lock()
	if len(p.turns) == 0 && p.limiter.AllowN(began, 1) {
		p.mu.Unlock()
		p.lag(0)
		return nil
	}
	l := &look{let: make(chan struct{})}
	if len(p.queues[who]) == 0 {
		p.turns = append(p.turns, who)
	}
	p.queues[who] = append(p.queues[who], l)
	p.arm()
	p.mu.Unlock()
	select {
	case <-l.let:
		p.lag(p.clock.Now().Sub(began))
		return nil
	case <-ctx.Done():
		p.mu.Lock()
		l.over = true
		p.mu.Unlock()
		return ctx.Err()
	}
}

// arm needs p.mu: a timer for the next that may go.
func (p *pacer) arm() {
	if p.armed {
		return
	}
	p.armed = true
	now := p.clock.Now()
	p.clock.AfterFunc(p.limiter.ReserveN(now, 1).DelayFrom(now), p.next)
}

// next lets one look go: the oldest of whose turn it is.
func (p *pacer) next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	for len(p.turns) > 0 {
		who := p.turns[0]
		l := p.queues[who][0]
		p.turns, p.queues[who] = p.turns[1:], p.queues[who][1:]
		if len(p.queues[who]) > 0 {
			p.turns = append(p.turns, who)
		} else {
			delete(p.queues, who)
		}
		if !l.over {
			close(l.let)
			break
		}
	}
	if len(p.turns) > 0 {
		p.arm()
	}
}
