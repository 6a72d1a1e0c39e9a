package session

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Errors a Store returns; compare with errors.Is.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("version conflict")
	ErrHeld     = errors.New("held by another")
	ErrClosed   = errors.New("store closed")
)

// Versions given to Store.Put as the expected one.
const (
	// Absent: the key must not exist.
	Absent uint64 = 0
	// Any: whatever is there is replaced.
	Any uint64 = 1<<64 - 1
)

// Entry is one record of a Store. Value must not be changed by anyone once it
// was put or got: implementations may share it.
type Entry struct {
	Key     string
	Value   []byte
	Version uint64 // never Absent, never Any; grows with each put of the key
}

// LogEntry is one record of a log. Seq starts at 1 and has no gaps at its
// newer end; the oldest entries leave when the log's bound is reached.
type LogEntry struct {
	Seq   uint64
	Value []byte
}

// LogBound is what a log may hold: the oldest entries leave until both bounds
// are kept; the newest always stays.
type LogBound struct {
	Entries int // <= 0: 1024
	Bytes   int // of the values together; <= 0: no bound
}

// Store keeps what must outlive a message: bytes under keys, and logs. All
// methods are safe for concurrent use by any number of runners, in this
// process or others. They return ErrNotFound, ErrConflict, ErrHeld, ErrClosed,
// the context's error, or an implementation's own error wrapped with the key.
// Keys are ordered by their bytes. Where limit <= 0, 1024 is meant.
type Store interface {
	Get(ctx context.Context, key string) (Entry, error)
	// Put writes when the stored version is expect (Absent, Any or a version
	// got before) and returns the new version, else ErrConflict.
	Put(ctx context.Context, key string, value []byte, expect uint64) (uint64, error)
	// Delete removes when the stored version is expect (or Any), else
	// ErrConflict. Deleting an absent key with Any is no error.
	Delete(ctx context.Context, key string, expect uint64) error
	// Take removes and returns: of all takers over all replicas one gets it.
	Take(ctx context.Context, key string) ([]byte, error)
	// List returns up to limit entries whose key begins with prefix and is
	// greater than after, in key order.
	List(ctx context.Context, prefix, after string, limit int) ([]Entry, error)

	// Claim makes holder the one owner of key for ttl and returns a fence that
	// grows with each change of owner; the same holder renews and keeps its
	// fence, unless the claim has lapsed. ErrHeld while another owns it.
	Claim(ctx context.Context, key, holder string, ttl time.Duration) (fence uint64, err error)
	// Acquire is Claim that waits while another owns the key: until that one
	// releases it, its ttl is over, or ctx ends. Of several that wait any one
	// may be next.
	Acquire(ctx context.Context, key, holder string, ttl time.Duration) (fence uint64, err error)
	// Release gives a claim up early; a foreign or lapsed one is left alone.
	Release(ctx context.Context, key, holder string) error

	// Append adds to a log that keeps what bound allows of its newest entries.
	Append(ctx context.Context, log string, value []byte, bound LogBound) (seq uint64, err error)
	// Read waits until the log has entries after seq and returns up to limit
	// of them, or the context's error. ErrNotFound: entries after seq have
	// already left the log, so the reader has a gap; the oldest that are left
	// come beside it.
	Read(ctx context.Context, log string, after uint64, limit int) ([]LogEntry, error)
	// Last returns the newest Seq of a log, 0 if it has none. It never waits.
	Last(ctx context.Context, log string) (seq uint64, err error)
	// Drop removes a log; readers that wait on it go on waiting. The next
	// Append begins a new log at Seq 1.
	Drop(ctx context.Context, log string) error
	// Close ends waiting reads; they and all later calls return ErrClosed. It
	// may be called twice.
	Close() error
}

// recordsPage is how many records Records holds at a time.
const recordsPage = 512

// Records gives every record of st whose key begins with prefix, in key order. It
// reads them by pages, so records that are put or deleted meanwhile may be among
// them or not. An error of the store ends it, beside an empty Entry.
func Records(ctx context.Context, st Store, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for after := ""; ; {
			page, err := st.List(ctx, prefix, after, recordsPage)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
				after = e.Key
			}
			if len(page) < recordsPage {
				return
			}
		}
	}
}
