package session

import (
	"context"
	"time"
)

// Clock is what a runner knows of time, and who does its work. Nil options mean
// the machine's ([RealClock]). A virtual one moves on only when all work rests,
// so that what took hours is played in a moment and always alike.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own once d is over.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
	// Work wraps what a goroutine is about to be started for: it must be called
	// before that goroutine begins, and what it returns run once.
	Work(f func()) func()
	// WithCancel returns a context of its own. OnCancel calls f once when that
	// is canceled (at once if it has been), unless stop was called before.
	WithCancel() (context.Context, context.CancelFunc)
	OnCancel(ctx context.Context, f func()) (stop func() bool)
	// Gate returns one for a single waiter.
	Gate() Gate
}

// Gate holds one goroutine up until it is opened. Opened before, it lets the
// next Wait through; Opens do not add up.
type Gate interface {
	Wait()
	Open()
}

// RealClock is the machine's clock.
type RealClock struct{}

var _ Clock = RealClock{}

func (RealClock) Now() time.Time { return time.Now() }

func (RealClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

func (RealClock) Work(f func()) func() { return f }

func (RealClock) WithCancel() (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}

func (RealClock) OnCancel(ctx context.Context, f func()) func() bool {
	return context.AfterFunc(ctx, f)
}

func (RealClock) Gate() Gate { return realGate(make(chan struct{}, 1)) }

type realGate chan struct{}

func (g realGate) Wait() { <-g }
func (g realGate) Open() { notify(g) }
