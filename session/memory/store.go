// Package memory is a session.Store that lives and ends with its process.
package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"taskbridge/session"
)

const (
	defaultLogMax = 1024
	defaultLimit  = 1024
	maxLevel      = 20
)

// Store keeps records in an ordered list with shortcuts (a skip list) beside a
// map, so that List costs what it returns however many keys there are. Values
// are shared, never copied.
type Store struct {
	mu     sync.RWMutex // protects the fields below
	closed bool
	done   chan struct{} // closed with closed
	last   uint64        // the newest version or fence given
	keys   map[string]*node
	head   node
	height int

	claims map[string]claim
	sweep  int // look for lapsed claims when there are so many

	written written // newest records, for pack

	logs  map[string]*log
	waits map[string]*wait
}

type node struct {
	entry  session.Entry
	packed int32 // the value's length where it is packed
	next   []*node
}

type claim struct {
	holder string
	fence  uint64
	until  time.Time
	// freed is closed when the claim is released; nil while nobody waits.
	freed chan struct{}
}

// log holds entries whose Seq has no gaps; it is never empty.
type log struct {
	entries []session.LogEntry
	bytes   int // of their values
}

// wait is what readers of one log wait on, until its next entry.
type wait struct {
	ready   chan struct{}
	readers int
}

var _ session.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{
		done:   make(chan struct{}),
		keys:   map[string]*node{},
		head:   node{next: make([]*node, maxLevel)},
		height: 1,
		claims: map[string]claim{},
		sweep:  1024,
		logs:   map[string]*log{},
		waits:  map[string]*wait{},
	}
}

// usable is asked under s.mu.
func (s *Store) usable(ctx context.Context) error {
	if s.closed {
		return session.ErrClosed
	}
	return ctx.Err()
}

// path fills the last node before key on each level.
func (s *Store) path(key string, p *[maxLevel]*node) {
	n := &s.head
	for l := s.height - 1; l >= 0; l-- {
		for n.next[l] != nil && n.next[l].entry.Key < key {
			n = n.next[l]
		}
		p[l] = n
	}
}

// Get implements session.Store.
func (s *Store) Get(ctx context.Context, key string) (session.Entry, error) {
	e, packed, err := s.get(ctx, key)
	return open(e, packed), err
}

func (s *Store) get(ctx context.Context, key string) (e session.Entry, packed int32, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return e, 0, err
	}
	n, ok := s.keys[key]
	if !ok {
		return e, 0, session.ErrNotFound
	}
	return n.entry, n.packed, nil
}

// Put implements session.Store.
func (s *Store) Put(ctx context.Context, key string, value []byte, expect uint64) (uint64, error) {
	version, old, cold, err := s.put(ctx, key, value, expect)
	if cold != nil {
		s.pack(old, cold)
	}
	return version, err
}

// put also gives the value of a record that is worth packing.
func (s *Store) put(ctx context.Context, key string, value []byte, expect uint64) (version uint64, old writtenAt, cold []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, old, nil, err
	}
	n, ok := s.keys[key]
	if !matches(n, expect) {
		return 0, old, nil, session.ErrConflict
	}
	// One counter for all keys, so that a key made anew has no old version.
	s.last++
	if ok {
		n.entry.Value, n.entry.Version, n.packed = value, s.last, 0
	} else {
		n = s.insert(session.Entry{Key: key, Value: value, Version: s.last})
	}
	if len(value) >= packFrom {
		if o, stays := s.written.note(n); stays {
			old, cold = o, o.n.entry.Value
		}
	}
	return s.last, old, cold, nil
}

func matches(n *node, expect uint64) bool {
	switch {
	case expect == session.Any:
		return true
	case n == nil:
		return expect == session.Absent
	default:
		return expect == n.entry.Version
	}
}

func (s *Store) insert(e session.Entry) *node {
	levels := 1
	for levels < maxLevel && rand.Uint32()&3 == 0 {
		levels++
	}
	s.height = max(s.height, levels)
	var p [maxLevel]*node
	s.path(e.Key, &p)
	n := &node{entry: e, next: make([]*node, levels)}
	for l := range levels {
		n.next[l] = p[l].next[l]
		p[l].next[l] = n
	}
	s.keys[e.Key] = n
	return n
}

func (s *Store) remove(n *node) {
	var p [maxLevel]*node
	s.path(n.entry.Key, &p)
	for l := range n.next {
		p[l].next[l] = n.next[l]
	}
	delete(s.keys, n.entry.Key)
	n.entry, n.packed = session.Entry{}, 0 // what was written of late is remembered
}

// Delete implements session.Store.
func (s *Store) Delete(ctx context.Context, key string, expect uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	n := s.keys[key]
	if !matches(n, expect) {
		return session.ErrConflict
	}
	if n != nil {
		s.remove(n)
	}
	return nil
}

// Take implements session.Store.
func (s *Store) Take(ctx context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	n, ok := s.keys[key]
	if !ok {
		return nil, session.ErrNotFound
	}
	e, packed := n.entry, n.packed
	s.remove(n)
	return open(e, packed).Value, nil
}

// List implements session.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]session.Entry, error) {
	if limit <= 0 {
		limit = defaultLimit
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	var p [maxLevel]*node
	s.path(max(prefix, after), &p)
	n := p[0].next[0]
	if n != nil && after != "" && n.entry.Key == after {
		n = n.next[0]
	}
	var out []session.Entry
	for ; n != nil && len(out) < limit && strings.HasPrefix(n.entry.Key, prefix); n = n.next[0] {
		out = append(out, open(n.entry, n.packed))
	}
	return out, nil
}

// Claim implements session.Store.
func (s *Store) Claim(ctx context.Context, key, holder string, ttl time.Duration) (uint64, error) {
	if ttl <= 0 {
		return 0, fmt.Errorf("claim %q: ttl %v is not positive", key, ttl)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	return s.claim(key, holder, ttl)
}

// claim needs s.mu.
func (s *Store) claim(key, holder string, ttl time.Duration) (uint64, error) {
	now := time.Now()
	c, ok := s.claims[key]
	live := ok && now.Before(c.until)
	switch {
	case live && c.holder != holder:
		return 0, session.ErrHeld
	case !live:
		s.last++
		if c.freed != nil {
			close(c.freed) // they look whom it belongs to now
			c.freed = nil
		}
		c.fence = s.last
	}
	c.holder, c.until = holder, now.Add(ttl)
	s.claims[key] = c
	if len(s.claims) >= s.sweep {
		for k, c := range s.claims {
			if !now.Before(c.until) {
				if c.freed != nil {
					close(c.freed)
				}
				delete(s.claims, k)
			}
		}
		s.sweep = max(1024, 2*len(s.claims))
	}
	return c.fence, nil
}

// Acquire implements session.Store.
func (s *Store) Acquire(ctx context.Context, key, holder string, ttl time.Duration) (uint64, error) {
	if ttl <= 0 {
		return 0, fmt.Errorf("claim %q: ttl %v is not positive", key, ttl)
	}
	for {
		fence, freed, until, err := s.claimOrWait(ctx, key, holder, ttl)
		if freed == nil {
			return fence, err
		}
		lapse := time.NewTimer(time.Until(until))
		select {
		case <-freed:
		case <-lapse.C:
		case <-s.done:
		case <-ctx.Done():
		}
		lapse.Stop()
	}
}

// claimOrWait returns a fence, an error, or what to wait on.
func (s *Store) claimOrWait(ctx context.Context, key, holder string, ttl time.Duration) (fence uint64, freed chan struct{}, until time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, nil, time.Time{}, err
	}
	fence, err = s.claim(key, holder, ttl)
	if err == nil {
		return fence, nil, time.Time{}, nil
	}
	c := s.claims[key]
	if c.freed == nil {
		c.freed = make(chan struct{})
		s.claims[key] = c
	}
	return 0, c.freed, c.until, nil
}

// Release implements session.Store.
func (s *Store) Release(ctx context.Context, key, holder string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	if c, ok := s.claims[key]; ok && c.holder == holder {
		if c.freed != nil {
			close(c.freed)
		}
		delete(s.claims, key)
	}
	return nil
}

// Append implements session.Store.
func (s *Store) Append(ctx context.Context, name string, value []byte, bound session.LogBound) (uint64, error) {
	if bound.Entries <= 0 {
		bound.Entries = defaultLogMax
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	l, ok := s.logs[name]
	if !ok {
		l = &log{}
		s.logs[name] = l
	}
	seq := uint64(1)
	if n := len(l.entries); n > 0 {
		seq = l.entries[n-1].Seq + 1
	}
	l.entries = append(l.entries, session.LogEntry{Seq: seq, Value: value})
	l.bytes += len(value)
	over := 0
	for last := len(l.entries) - 1; over < last && (len(l.entries)-over > bound.Entries || bound.Bytes > 0 && l.bytes > bound.Bytes); over++ {
		l.bytes -= len(l.entries[over].Value)
	}
	clear(l.entries[:over]) // the array outlives them
	l.entries = l.entries[over:]
	if w, ok := s.waits[name]; ok {
		close(w.ready)
		delete(s.waits, name)
	}
	return seq, nil
}

// Read implements session.Store.
func (s *Store) Read(ctx context.Context, name string, after uint64, limit int) ([]session.LogEntry, error) {
	if limit <= 0 {
		limit = defaultLimit
	}
	for {
		out, w, err := s.readOrWait(ctx, name, after, limit)
		if w == nil {
			return out, err
		}
		select {
		case <-w.ready:
		case <-s.done:
			return nil, session.ErrClosed
		case <-ctx.Done():
			s.leave(name, w)
			return nil, ctx.Err()
		}
	}
}

// readOrWait returns entries, an error, or what to wait on.
func (s *Store) readOrWait(ctx context.Context, name string, after uint64, limit int) ([]session.LogEntry, *wait, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, nil, err
	}
	if l, ok := s.logs[name]; ok {
		first := l.entries[0].Seq
		last := l.entries[len(l.entries)-1].Seq
		var gap error
		if after < first-1 {
			after, gap = first-1, session.ErrNotFound
		}
		if after < last {
			e := l.entries[after+1-first:]
			e = e[:min(limit, len(e))]
			return append(make([]session.LogEntry, 0, len(e)), e...), nil, gap
		}
	}
	w, ok := s.waits[name]
	if !ok {
		w = &wait{ready: make(chan struct{})}
		s.waits[name] = w
	}
	w.readers++
	return nil, w, nil
}

func (s *Store) leave(name string, w *wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.readers--
	if w.readers == 0 && s.waits[name] == w {
		delete(s.waits, name)
	}
}

// Last implements session.Store.
func (s *Store) Last(ctx context.Context, name string) (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	l, ok := s.logs[name]
	if !ok {
		return 0, nil
	}
	return l.entries[len(l.entries)-1].Seq, nil
}

// Drop implements session.Store.
func (s *Store) Drop(ctx context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	delete(s.logs, name)
	return nil
}

// Close implements session.Store. It forgets everything.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.done)
	s.keys, s.head, s.claims, s.logs, s.waits = nil, node{next: make([]*node, maxLevel)}, nil, nil, nil
	return nil
}
