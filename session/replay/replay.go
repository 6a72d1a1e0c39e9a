package replay

import (
	"context"
	"errors"
	"time"

	"taskbridge/session"
	"taskbridge/translate/capture"
)

// Defaults of Options.
const (
	DefaultConcurrency = 4
	DefaultTimeout     = time.Minute
	DefaultMaxBytes    = 512 << 20
)

// Options say what is replayed and how. Zero fields take the default named
// beside them.
type Options struct {
	// Hub takes the messages in; required.
	Hub session.Hub
	// Plan says which operations are sent; required.
	Plan *Plan
	// Credentials are header values by the principal's hash in the capture, each
	// sent as Authorization.
	Credentials map[string]string
	// Concurrency bounds the operations in flight, listens aside. One that takes
	// longer than a while lets others go ahead: they may be what it waits for. 4.
	Concurrency int
	// Speed divides the recorded gaps between operations; 0: no waiting.
	Speed float64
	// Timeout bounds one operation, beside the time it took in the capture. 1 min.
	Timeout time.Duration
	// Seed, if not 0, starts operations that may run at once in a random order.
	Seed uint64
	// MaxBytes bounds the messages kept. 512 MiB.
	MaxBytes int64
	// Done is told of each selected operation that is over; one call at a time.
	Done func(*Result)
	// Keep, if set, is given every record as it comes; one call at a time.
	Keep func(*capture.Record)
}

// Result is what became of one operation.
type Result struct {
	*Step
	// Notes are what happened beside the protocol: a time-out, a question nobody
	// recorded an answer to. They are for people.
	Notes []string
	// Full: what came back was too much to keep all of it.
	Full bool
	// Endless: a listing went on and on, and was left.
	Endless bool
}

// Outcome is all that a replay brought.
type Outcome struct {
	// Results stand in the order of the plan's steps.
	Results []*Result
	// Records are what was sent and what came back, in the order seen, with ids of
	// tasks and states masked. The stream of each is named after the operation it repeats: see OperationOf.
	Records []*capture.Record
}

// Run replays until every operation is over or ctx ends, which is then the
// error; what is done by then is in the Outcome.
func Run(ctx context.Context, o Options) (*Outcome, error) {
	if o.Hub == nil || o.Plan == nil {
		return nil, errors.New("replay: Hub and Plan are required")
	}
	if o.Concurrency <= 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	r := &replay{o: o, ids: newIDs(o.Plan), rec: newRecorder(o)}
	s := newSchedule(r)
	err := s.run(ctx)
	return &Outcome{Results: s.results(), Records: r.rec.all()}, err
}

// replay is what all of one Run share.
type replay struct {
	o   Options
	ids *ids
	rec *recorder
}

// wait waits for d, and says whether ctx is still on.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pause is a recorded wait of a person or a program, as long as it is here.
func (r *replay) pause(d time.Duration) time.Duration {
	if r.o.Speed > 0 {
		return time.Duration(float64(d) / r.o.Speed)
	}
	return min(d, longestPause)
}

// longestPause is what is left of a recorded wait where nothing says at which
// speed.
const longestPause = time.Second
