package session

import (
	"encoding/json"
)

// idBlock hands out integers of a sequence; the store knows the block's end.
type idBlock struct{ next, end int64 }

// idBlockSize: how many ids one store write reserves. Ids a client sees are
// taken one by one, so that they count 1, 2, 3.
const idBlockSize = 64

func (r *Runner) nextID(sequence string) int64 {
	r.mu.Lock()
	if b := r.ids[sequence]; b != nil && b.next <= b.end {
		id := b.next
		b.next++
		r.mu.Unlock()
		return id
	}
	r.mu.Unlock()
	start := r.reserveIDs("seq/"+sequence, idBlockSize)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ids) > 100000 {
		clear(r.ids) // only costs the rest of each block
	}
	r.ids[sequence] = &idBlock{next: start + 1, end: start + idBlockSize - 1}
	return start
}

// lastID is the last one reserved under a stored counter.
func (r *Runner) lastID(key string) (last int64) {
	if entry, err := r.store.Get(r.ctx, key); err == nil {
		_ = json.Unmarshal(entry.Value, &last)
	}
	return last
}

// reserveIDs moves a stored counter on by n and returns the first of them.
func (r *Runner) reserveIDs(key string, n int64) int64 {
	for {
		entry, err := r.store.Get(r.ctx, key)
		last := int64(0)
		version := Absent
		if err == nil {
			_ = json.Unmarshal(entry.Value, &last)
			version = entry.Version
		}
		if _, err := r.store.Put(r.ctx, key, intRaw(last+n), version); err == nil || r.ctx.Err() != nil {
			return last + 1
		}
	}
}
