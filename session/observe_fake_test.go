package session_test

import (
	"sync"
	"testing"

	"taskbridge/session"
)

// witness is an observer that keeps what it is told.
type witness struct {
	mu     sync.Mutex
	open   map[*session.Request]bool
	begun  []session.Request
	ended  []session.Ended // by the place of its request in requests
	of     []session.Request
	losses []session.Lost
	faults []string
}

var _ session.Observer = (*witness)(nil)

func (w *witness) fault(s string) { w.faults = append(w.faults, s) }

func (w *witness) Begin(q *session.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[*session.Request]bool{}
	}
	if w.open[q] {
		w.fault("begun twice: " + q.Method)
	}
	if q.At.IsZero() || q.Route == "" || q.Upstream == "" || q.Down == 0 {
		w.fault("not told when, where or in which era: " + q.Method)
	}
	w.open[q] = true
	w.begun = append(w.begun, *q)
}

func (w *witness) End(q *session.Request, e session.Ended) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open[q] {
		w.fault("ended without a beginning: " + q.Method)
	}
	if e.Outcome == "" || e.At.Before(q.At) {
		w.fault("no outcome or an early end: " + q.Method)
	}
	delete(w.open, q)
	w.of, w.ended = append(w.of, *q), append(w.ended, e)
}

func (w *witness) Loss(l session.Lost) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.losses = append(w.losses, l)
}

// check fails unless every beginning had one end.
func (w *witness) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		t.Error("observer:", f)
	}
	for q := range w.open {
		what := q.Method
		if q.Kind == 0 {
			what = q.Verb
		}
		t.Errorf("observer: %s %s never ended", q.Kind, what)
	}
}
