package downstream

import (
	"sync"
	"sync/atomic"

	"taskbridge/session"
)

// Shared is what all servers of a process draw on, however many endpoints and
// listeners it has: memory for bodies, and how many connections may stay open.
// Safe for concurrent use.
type Shared struct {
	budget *session.Budget
	large  *session.Budget // the part of budget large bodies may fill
	names  atomic.Int64    // of connections and exchanges, for the tap

	mu           sync.Mutex // protects the fields below
	socks, links int        // open WebSocket connections and HTTP+SSE streams
}

// NewShared shares budget (nil: one of its own) where no body is larger than
// body bytes.
func NewShared(budget *session.Budget, body int64) *Shared {
	if budget == nil {
		budget = session.NewBudget(0)
	}
	total := budget.Total()
	return &Shared{budget: budget, large: session.NewBudget(max(total/4*3, min(body, total)))}
}

// addSocket says whether there may be one more WebSocket connection.
func (s *Shared) addSocket(most int) bool { return s.add(&s.socks, most) }

func (s *Shared) dropSocket() { s.drop(&s.socks) }

// addLink says whether there may be one more client of HTTP+SSE.
func (s *Shared) addLink(most int) bool { return s.add(&s.links, most) }

func (s *Shared) dropLink() { s.drop(&s.links) }

func (s *Shared) add(n *int, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *n >= most {
		return false
	}
	*n++
	return true
}

func (s *Shared) drop(n *int) {
	s.mu.Lock()
	*n--
	s.mu.Unlock()
}
