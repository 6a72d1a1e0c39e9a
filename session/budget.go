package session

import (
	"sync"
	"sync/atomic"
)

// DefaultBudget is what a budget holds when none is given.
const DefaultBudget = 256 << 20

// HeldReservation is what each admitted call that may be held reserves.
const HeldReservation = 64 << 10

// Budget bounds the bytes of all messages in flight in this process, both
// directions. Nobody waits for it: what does not fit is refused before it is
// read. Safe for concurrent use.
type Budget struct {
	total int64
	used  atomic.Int64
}

// NewBudget returns a budget of total bytes (total <= 0: DefaultBudget). It
// should be no smaller than the largest message, which would never fit.
func NewBudget(total int64) *Budget {
	if total <= 0 {
		total = DefaultBudget
	}
	return &Budget{total: total}
}

// TryAcquire takes n bytes and says whether they were there. Whoever got them
// gives them back with Release. Nothing is taken for n <= 0.
func (b *Budget) TryAcquire(n int64) bool {
	if n <= 0 {
		return true
	}
	for {
		used := b.used.Load()
		if n > b.total-used {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// Release gives n bytes back. The use never falls below zero.
func (b *Budget) Release(n int64) {
	if n <= 0 {
		return
	}
	for {
		used := b.used.Load()
		if b.used.CompareAndSwap(used, max(0, used-n)) {
			return
		}
	}
}

// InUse is how many bytes are taken.
func (b *Budget) InUse() int64 { return b.used.Load() }

// Total is how many bytes there are.
func (b *Budget) Total() int64 { return b.total }

// HeldBudget accounts for what only the proxy has: held results and
// outstanding input requests. An entry starts as a reservation and gets its
// true size once it is known. Nothing in it is ever dropped. All calls may be
// repeated for a key. Safe for concurrent use.
type HeldBudget struct {
	total int64

	mu    sync.Mutex // protects the fields below
	used  int64
	sizes map[string]int64
}

// NewHeldBudget returns a budget of total bytes (total <= 0: DefaultBudget).
func NewHeldBudget(total int64) *HeldBudget {
	if total <= 0 {
		total = DefaultBudget
	}
	return &HeldBudget{total: total, sizes: map[string]int64{}}
}

// Reserve keeps at least n bytes for key (n <= 0: HeldReservation) and says
// whether they fit; if not, what key had stays.
func (b *HeldBudget) Reserve(key string, n int64) bool {
	if n <= 0 {
		n = HeldReservation
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old, ok := b.sizes[key]
	if ok && old >= n {
		return true
	}
	return b.grow(key, old, n, 0)
}

// Grow gives key its true size n if all together then pass the total by at
// most slack, which is one message limit; a smaller size than before always
// fits. If it does not fit what key had stays.
func (b *HeldBudget) Grow(key string, n, slack int64) bool {
	n = max(0, n)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.grow(key, b.sizes[key], n, max(0, slack))
}

func (b *HeldBudget) grow(key string, old, n, slack int64) bool {
	// Subtractions of what is known to be there cannot overflow.
	if n > old && n-old > b.total-b.used && n-old-slack > b.total-b.used {
		return false
	}
	b.used += n - old
	b.sizes[key] = n
	return true
}

// Set gives key the size n, fit or not: for what is held already, as after a
// restart.
func (b *HeldBudget) Set(key string, n int64) {
	n = max(0, n)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n - b.sizes[key]
	b.sizes[key] = n
}

// Free gives back all that key has.
func (b *HeldBudget) Free(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= b.sizes[key]
	delete(b.sizes, key)
}

// InUse is the sum of all sizes and reservations.
func (b *HeldBudget) InUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Total is how many bytes there are.
func (b *HeldBudget) Total() int64 { return b.total }

// Len is how many keys have something.
func (b *HeldBudget) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sizes)
}
