package session

import (
	"context"
	"errors"
	"strings"
	"time"
)

// PrefixStore gives a part of st that has all its keys, claims and logs under
// prefix; nothing else of st is seen through it. Its Close ends what is done
// through it and leaves st open.
func PrefixStore(st Store, prefix string) Store {
	p := &prefixStore{st: st, prefix: prefix}
	p.open, p.close = context.WithCancel(context.Background())
	return p
}

type prefixStore struct {
	st     Store
	prefix string
	open   context.Context // canceled by Close
	close  context.CancelFunc
}

// waiting runs f, which may wait, with a context that Close ends too.
func (p *prefixStore) waiting(ctx context.Context, f func(ctx context.Context) error) error {
	if p.open.Err() != nil {
		return ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.open, cancel)()
	err := f(ctx)
	if errors.Is(err, context.Canceled) && p.open.Err() != nil {
		return ErrClosed
	}
	return err
}

func (p *prefixStore) bare(e Entry) Entry {
	e.Key = strings.TrimPrefix(e.Key, p.prefix)
	return e
}

// Get implements Store.
func (p *prefixStore) Get(ctx context.Context, key string) (Entry, error) {
	if p.open.Err() != nil {
		return Entry{}, ErrClosed
	}
	e, err := p.st.Get(ctx, p.prefix+key)
	return p.bare(e), err
}

// Put implements Store.
func (p *prefixStore) Put(ctx context.Context, key string, value []byte, expect uint64) (uint64, error) {
	if p.open.Err() != nil {
		return 0, ErrClosed
	}
	return p.st.Put(ctx, p.prefix+key, value, expect)
}

// Delete implements Store.
func (p *prefixStore) Delete(ctx context.Context, key string, expect uint64) error {
	if p.open.Err() != nil {
		return ErrClosed
	}
	return p.st.Delete(ctx, p.prefix+key, expect)
}

// Take implements Store.
func (p *prefixStore) Take(ctx context.Context, key string) ([]byte, error) {
	if p.open.Err() != nil {
		return nil, ErrClosed
	}
	return p.st.Take(ctx, p.prefix+key)
}

// List implements Store.
func (p *prefixStore) List(ctx context.Context, prefix, after string, limit int) ([]Entry, error) {
	if p.open.Err() != nil {
		return nil, ErrClosed
	}
	if after != "" {
		after = p.prefix + after
	}
	list, err := p.st.List(ctx, p.prefix+prefix, after, limit)
	bare := make([]Entry, len(list)) // the list may be the store's own
	for i, e := range list {
		bare[i] = p.bare(e)
	}
	return bare, err
}

// Claim implements Store.
func (p *prefixStore) Claim(ctx context.Context, key, holder string, ttl time.Duration) (uint64, error) {
	if p.open.Err() != nil {
		return 0, ErrClosed
	}
	return p.st.Claim(ctx, p.prefix+key, holder, ttl)
}

// Acquire implements Store.
func (p *prefixStore) Acquire(ctx context.Context, key, holder string, ttl time.Duration) (uint64, error) {
	if p.open.Err() != nil {
		return 0, ErrClosed
	}
	// Without waiting first: that costs no context.
	fence, err := p.st.Claim(ctx, p.prefix+key, holder, ttl)
	if !errors.Is(err, ErrHeld) {
		return fence, err
	}
	err = p.waiting(ctx, func(ctx context.Context) (err error) {
		fence, err = p.st.Acquire(ctx, p.prefix+key, holder, ttl)
		return err
	})
	return fence, err
}

// Release implements Store.
func (p *prefixStore) Release(ctx context.Context, key, holder string) error {
	if p.open.Err() != nil {
		return ErrClosed
	}
	return p.st.Release(ctx, p.prefix+key, holder)
}

// Append implements Store.
func (p *prefixStore) Append(ctx context.Context, log string, value []byte, bound LogBound) (uint64, error) {
	if p.open.Err() != nil {
		return 0, ErrClosed
	}
	return p.st.Append(ctx, p.prefix+log, value, bound)
}

// Read implements Store.
func (p *prefixStore) Read(ctx context.Context, log string, after uint64, limit int) ([]LogEntry, error) {
	var list []LogEntry
	err := p.waiting(ctx, func(ctx context.Context) (err error) {
		list, err = p.st.Read(ctx, p.prefix+log, after, limit)
		return err
	})
	return list, err
}

// Last implements Store.
func (p *prefixStore) Last(ctx context.Context, log string) (uint64, error) {
	if p.open.Err() != nil {
		return 0, ErrClosed
	}
	return p.st.Last(ctx, p.prefix+log)
}

// Drop implements Store.
func (p *prefixStore) Drop(ctx context.Context, log string) error {
	if p.open.Err() != nil {
		return ErrClosed
	}
	return p.st.Drop(ctx, p.prefix+log)
}

// Close implements Store.
func (p *prefixStore) Close() error {
	p.close()
	return nil
}
