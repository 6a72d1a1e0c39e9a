package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// keyring are the keys of Handles at one time. It is replaced, never changed.
type keyring struct {
	keys    []*handleKey // the first seals
	retired []retiredKey // no longer given; the newest first
	all     []*handleKey // both, all of which open
}

type retiredKey struct {
	*handleKey
	since time.Time
}

// maxRetiredKeys bounds the keys that only open.
const maxRetiredKeys = 32

// SetKeys has handles sealed with the first of keys from now on. Those that
// there were and are not among keys retire: they open what they sealed until
// Forget. One that comes back is no longer retired. On an error nothing has
// changed.
func (h *Handles) SetKeys(keys [][]byte, now time.Time) error {
	h.turn.Lock()
	defer h.turn.Unlock()
	next, err := h.ring.Load().with(keys, now)
	if err == nil {
		h.ring.Store(next)
	}
	return err
}

// CheckKeys is SetKeys without doing it.
func (h *Handles) CheckKeys(keys [][]byte) error {
	_, err := h.ring.Load().with(keys, time.Time{})
	return err
}

// with is a ring with other keys, and those of r that are not among them retired.
func (r *keyring) with(keys [][]byte, now time.Time) (*keyring, error) {
	if len(keys) == 0 {
		return nil, errors.New("no state key")
	}
	next := &keyring{}
	for i, secret := range keys {
		if len(secret) < MinStateKey {
			return nil, fmt.Errorf("state key %d has %d bytes, at least %d are needed", i+1, len(secret), MinStateKey)
		}
		k := find(r.all, secret) // with the ciphers it has made
		if k == nil {
			k = newHandleKey(secret)
		}
		next.keys = append(next.keys, k)
	}
	for _, k := range r.keys {
		if find(next.keys, k.secret) == nil {
			next.retired = append(next.retired, retiredKey{k, now})
		}
	}
	for _, k := range r.retired {
		if find(next.keys, k.secret) == nil {
			next.retired = append(next.retired, k)
		}
	}
	if len(next.retired) > maxRetiredKeys {
		return nil, fmt.Errorf("%d keys that were taken out are still needed to open what they sealed, which is as many as may be; wait, or restart", maxRetiredKeys)
	}
	next.gather()
	return next, nil
}

func find(list []*handleKey, secret []byte) *handleKey {
	i := slices.IndexFunc(list, func(k *handleKey) bool { return bytes.Equal(k.secret, secret) })
	if i < 0 {
		return nil
	}
	return list[i]
}

func (r *keyring) gather() {
	r.all = slices.Clone(r.keys)
	for _, k := range r.retired {
		r.all = append(r.all, k.handleKey)
	}
}

// RetiredKey is a key that opens and seals no more.
type RetiredKey struct {
	Mark  string // what HandleKey says of its handles; no secret
	Since time.Time
}

// Retired are the keys that SetKeys took out, the newest first.
func (h *Handles) Retired() (list []RetiredKey) {
	for _, k := range h.ring.Load().retired {
		list = append(list, RetiredKey{hex.EncodeToString(k.id[:]), k.since})
	}
	return list
}

// Forget drops a retired key: what it sealed opens no more.
func (h *Handles) Forget(k RetiredKey) {
	h.turn.Lock()
	defer h.turn.Unlock()
	r := *h.ring.Load()
	r.retired = slices.DeleteFunc(slices.Clone(r.retired), func(o retiredKey) bool {
		return hex.EncodeToString(o.id[:]) == k.Mark && o.since.Equal(k.Since)
	})
	r.gather()
	h.ring.Store(&r)
}

// HandleKey is the mark of the key that sealed a handle, or "" for what is none.
// Two keys may have one mark.
func HandleKey(handle string) string {
	if !IsHandle(handle) {
		return ""
	}
	raw, err := sealEncoding.DecodeString(handle[len(sealPrefix):])
	if err != nil {
		return ""
	}
	return hex.EncodeToString(raw[:sealKeyID])
}

// several: a handle that opens may have been sealed with another key than one
// that is sealed now.
func (h *Handles) several() bool { return len(h.ring.Load().all) > 1 }

// masks are what Mask makes of p with each of the keys: what an operator wrote
// down may be older than the first of them.
func (h *Handles) masks(p Principal) (list []string) {
	for _, k := range h.ring.Load().all {
		list = append(list, maskText(k.mask, "principal", string(p)))
	}
	return list
}

// Masks returns MaskText as it is now, whatever becomes of the keys: what one
// file holds is to look the same in all of it.
func (h *Handles) Masks() func(kind, s string) string {
	secret := h.ring.Load().keys[0].mask
	return func(kind, s string) string { return maskText(secret, kind, s) }
}

// KeepMarks has the names of records made with a secret that lives as long as
// the records do, whatever the keys are. Without it that of the first key of
// NewHandles is taken. Call it before the first message.
func (h *Handles) KeepMarks(secret []byte) {
	h.marks = deriveKey(secret, "marks", sha256.Size)
}

// mark is MaskText for what is kept here and shown to nobody, and for what binds
// a word to its session: it stays while the keys change.
func (h *Handles) mark(kind, s string) string { return maskText(h.marks, kind, s) }

// HandleKeys counts the tasks that are remembered here by the key that sealed
// their handles, as HandleKey names it. On an error of the store there may be
// more. It reads all of them.
func (rt *Route) HandleKeys() (tasks map[string]int, err error) {
	tasks = map[string]int{}
	for _, m := range rt.table.Load().all {
		if err := m.runner.handleKeys(tasks); err != nil {
			return tasks, err
		}
	}
	return tasks, nil
}

func (r *Runner) handleKeys(into map[string]int) error {
	for _, prefix := range []string{opKey("ltask:"), opKey("mtask:"), "own/"} {
		for e, err := range Records(r.ctx, r.store, prefix) {
			if err != nil {
				return err
			}
			handle := strings.TrimPrefix(e.Key, prefix)
			if prefix == "own/" {
				handle = string(e.Value)
			}
			if key := HandleKey(handle); key != "" {
				into[key]++
			}
		}
	}
	return nil
}

// Remembered is how long the least is known that a caller was given to bring
// back, however long its task lives.
func (p Policy) Remembered() time.Duration {
	p = p.withDefaults()
	return max(max(p.TaskKeep, p.MaxTTL)+p.TaskGrace, p.ParkFor, p.SessionIdle)
}
