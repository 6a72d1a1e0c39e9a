package session

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Defaults of NewSnapshots.
const (
	DefaultSnapshots     = 10_000
	DefaultSnapshotBytes = 64 << 20
)

// Snapshots keeps the last seen states of tasks, bounded by count and bytes.
// What leaves costs a round trip to the server, never a task. Values are
// shared: nobody changes one that was put or got. Safe for concurrent use.
type Snapshots struct {
	max int64

	mu    sync.Mutex // protects the fields below
	lru   *simplelru.LRU[string, []byte]
	bytes int64
}

// NewSnapshots returns an empty cache of at most count entries (<= 0:
// DefaultSnapshots) and bytes bytes, keys included (<= 0:
// DefaultSnapshotBytes).
func NewSnapshots(count int, bytes int64) *Snapshots {
	if count <= 0 {
		count = DefaultSnapshots
	}
	if bytes <= 0 {
		bytes = DefaultSnapshotBytes
	}
	s := &Snapshots{max: bytes}
	l, err := simplelru.NewLRU(count, func(k string, v []byte) { s.bytes -= snapshotSize(k, v) })
	if err != nil {
		panic("session: " + err.Error()) // only for a size that is not positive
	}
	s.lru = l
	return s
}

func snapshotSize(k string, v []byte) int64 { return int64(len(k)) + int64(len(v)) }

// Get returns the value of key and makes it the newest.
func (s *Snapshots) Get(key string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lru.Get(key)
}

// Put makes value the newest. The oldest leave until count and bytes are
// kept. One larger than 1/8 of the bytes is not kept, nor is what it replaces.
func (s *Snapshots) Put(key string, value []byte) {
	n := snapshotSize(key, value)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lru.Remove(key) // Add would replace it without telling us
	if n > s.max/8 {
		return
	}
	for s.bytes+n > s.max {
		s.lru.RemoveOldest()
	}
	s.bytes += n
	s.lru.Add(key, value)
}

// Delete removes key if it is there.
func (s *Snapshots) Delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lru.Remove(key)
}

// Purge removes everything.
func (s *Snapshots) Purge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lru.Purge()
}

// Len is how many entries there are.
func (s *Snapshots) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lru.Len()
}

// Bytes is what keys and values take together.
func (s *Snapshots) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}
