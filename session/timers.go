package session

import (
	"container/heap"
	"encoding/json"
	"errors"
	"time"
)

// wakeKey is the record that tells a runner which of its operations are due:
// the timers in memory are only a picture of these.
func wakeKey(id OpID) string { return "wake/" + string(id) }

// wakes is the value under wakeKey.
type wakes struct {
	Runner string           `json:"r"`
	At     map[string]dueAt `json:"a"`
}

// dueAt is when a wake is due, in microseconds since 1970: there are some for
// each task that lives.
type dueAt int64

// dueTime is never before t.
func dueTime(t time.Time) dueAt {
	at := dueAt(t.UnixMicro())
	if at.time().Before(t) {
		at++
	}
	return at
}

func (d dueAt) time() time.Time { return time.UnixMicro(int64(d)) }

type dueWake struct {
	at   dueAt
	op   OpID
	name string
}

type timerHeap []dueWake

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(v any)        { *h = append(*h, v.(dueWake)) }
func (h *timerHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

func (r *Runner) wake(id OpID, name string, t time.Time) {
	at := dueTime(t)
	key := wakeKey(id)
	r.changeWakes(key, func(w *wakes) bool {
		w.Runner, w.At[name] = r.id, at
		return true
	})
	r.mu.Lock()
	r.addTimer(dueWake{at, OpID(key[len("wake/"):]), name}) // a long id, kept once
	r.mu.Unlock()
}

// unwake takes one out; a timer already in the heap finds out when due.
func (r *Runner) unwake(id OpID, name string) {
	r.changeWakes(wakeKey(id), func(w *wakes) bool {
		_, ok := w.At[name]
		delete(w.At, name)
		return ok
	})
}

// changeWakes changes an operation's record. Its steps and its timers do so at
// the same time, and neither may undo the other's change. f may run again; it
// is false where there is nothing to change.
func (r *Runner) changeWakes(key string, f func(w *wakes) bool) bool {
	for {
		entry, err := r.store.Get(r.ctx, key)
		w := wakes{Runner: r.id}
		if err == nil {
			_ = json.Unmarshal(entry.Value, &w)
		} else {
			entry.Version = Absent
		}
		if w.At == nil {
			w.At = map[string]dueAt{}
		}
		if !f(&w) {
			return false
		}
		if len(w.At) == 0 {
			if entry.Version == Absent {
				return true
			}
			err = r.store.Delete(r.ctx, key, entry.Version)
		} else {
			raw, _ := json.Marshal(w)
			_, err = r.store.Put(r.ctx, key, raw, entry.Version)
		}
		switch {
		case err == nil:
			return true
		case !errors.Is(err, ErrConflict) && !errors.Is(err, ErrNotFound):
			r.storeFailed("write timer", err)
			return false
		}
	}
}

// addTimer needs r.mu.
func (r *Runner) addTimer(d dueWake) {
	heap.Push(&r.timers, d)
	if r.timers[0] == d {
		r.armTimer()
	}
}

// armTimer needs r.mu and sets the one timer to the earliest wake.
func (r *Runner) armTimer() {
	if r.stopTimer != nil {
		r.stopTimer()
	}
	if len(r.timers) == 0 || r.ctx.Err() != nil {
		return
	}
	r.stopTimer = r.clock.AfterFunc(r.timers[0].at.time().Sub(r.clock.Now()), r.fire)
}

// fire delivers the wakes that are due, each only if the store still has it
// with this very time: a later Wake of the same name replaced it otherwise.
func (r *Runner) fire() {
	now := r.clock.Now()
	var due []dueWake
	r.mu.Lock()
	if r.ctx.Err() != nil {
		r.mu.Unlock()
		return
	}
	for len(r.timers) > 0 && !r.timers[0].at.time().After(now) {
		due = append(due, heap.Pop(&r.timers).(dueWake))
	}
	r.armTimer()
	r.wg.Add(1)
	r.mu.Unlock()
	defer r.wg.Done()
	for _, d := range due {
		mine := r.changeWakes(wakeKey(d.op), func(w *wakes) bool {
			at, ok := w.At[d.name]
			delete(w.At, d.name)
			return ok && at == d.at
		})
		if mine {
			r.deliver(d.op, Event{Kind: EvTimer, Name: d.name})
		}
	}
}

// loadTimers reads this runner's wakes back from the store.
func (r *Runner) loadTimers() {
	for e, err := range Records(r.ctx, r.store, "wake/") {
		var w wakes
		switch {
		case err != nil:
			return
		case json.Unmarshal(e.Value, &w) != nil || w.Runner != r.id:
			continue
		}
		r.mu.Lock()
		for name, at := range w.At {
			r.addTimer(dueWake{at, OpID(e.Key[len("wake/"):]), name})
		}
		r.mu.Unlock()
	}
}
