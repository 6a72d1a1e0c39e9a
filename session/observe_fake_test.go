package session_test

import (
	"sync"
	"testing"

	"taskbridge/session"
	"taskbridge/translate"
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
	going  map[*session.Exchange]bool
	// asking are requests of servers that are open, asked those that ended.
	asking map[*session.ServerRequest]bool
	asked  []askedOnce
}

// askedOnce is a server's request on one leg and how it ended.
type askedOnce struct {
	leg        translate.Leg
	method, id string
	session    string
	parent     string
	how        translate.Outcome
}

var (
	_ session.Observer         = (*witness)(nil)
	_ session.ExchangeObserver = (*witness)(nil)

	_ session.ServerRequestObserver = (*witness)(nil)
)

func (w *witness) BeginServerRequest(q *session.ServerRequest) session.TraceContext {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asking == nil {
		w.asking = map[*session.ServerRequest]bool{}
	}
	if q.At.IsZero() || q.Route == "" || q.Upstream == "" || q.Leg == 0 || q.Method == "" || q.ID == "" {
		w.fault("a server's request is not told whole: " + q.Method)
	}
	w.asking[q] = true
	return session.TraceContext{}
}

func (w *witness) EndServerRequest(q *session.ServerRequest, e session.Ended) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.asking[q] || e.Outcome == "" || e.At.Before(q.At) {
		w.fault("a server's request ended twice, early or without an outcome: " + q.Method)
	}
	delete(w.asking, q)
	w.asked = append(w.asked, askedOnce{q.Leg, q.Method, q.ID, q.Session, q.Parent.Parent, e.Outcome})
}

func (w *witness) BeginExchange(x *session.Exchange) session.TraceContext {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.going == nil {
		w.going = map[*session.Exchange]bool{}
	}
	w.going[x] = true
	return session.TraceContext{}
}

func (w *witness) EndExchange(x *session.Exchange, e session.Ended) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.going[x] || e.Outcome == "" {
		w.fault("an exchange ended twice or without an outcome: " + x.Method)
	}
	delete(w.going, x)
}

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

// answered fails unless every request of a server's that began has ended.
func (w *witness) answered(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for q := range w.asking {
		t.Errorf("observer: the server's %s never ended", q.Method)
	}
}

// check fails unless every beginning had one end.
func (w *witness) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		t.Error("observer:", f)
	}
	for x := range w.going {
		t.Errorf("observer: the exchange %s never ended", x.Method)
	}
	for q := range w.open {
		what := q.Method
		if q.Kind == 0 {
			what = q.Verb
		}
		t.Errorf("observer: %s %s never ended", q.Kind, what)
	}
}
