package session

import (
	"container/heap"
	"encoding/json"
	"time"
)

// wakeKey is the record that tells a runner which of its operations are due:
// the timers in memory are only a picture of these.
func wakeKey(id OpID) string { return "wake/" + string(id) }

// wakes is the value under wakeKey.
type wakes struct {
	Runner string               `json:"r"`
	At     map[string]time.Time `json:"a"`
}

type dueWake struct {
	at   time.Time
	op   OpID
	name string
}

type timerHeap []dueWake

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(v any)        { *h = append(*h, v.(dueWake)) }
func (h *timerHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

func (r *Runner) wake(id OpID, name string, at time.Time) {
	entry, err := r.store.Get(r.ctx, wakeKey(id))
	w := wakes{Runner: r.id, At: map[string]time.Time{}}
	if err == nil {
		_ = json.Unmarshal(entry.Value, &w)
	}
	w.Runner = r.id
	if w.At == nil {
		w.At = map[string]time.Time{}
	}
	w.At[name] = at
	r.putWakes(id, w)
	r.mu.Lock()
	r.addTimer(dueWake{at, id, name})
	r.mu.Unlock()
}

// unwake writes what is left; timers already in the heap find out when due.
func (r *Runner) unwake(id OpID, b *base) {
	r.putWakes(id, wakes{Runner: r.id, At: b.Wakes})
}

func (r *Runner) putWakes(id OpID, w wakes) {
	if len(w.At) == 0 {
		_ = r.store.Delete(r.ctx, wakeKey(id), Any)
		return
	}
	raw, _ := json.Marshal(w)
	if _, err := r.store.Put(r.ctx, wakeKey(id), raw, Any); err != nil {
		r.log.Error("write timer", "err", err)
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
	if r.timer != nil {
		r.timer.Stop()
	}
	if len(r.timers) == 0 || r.ctx.Err() != nil {
		return
	}
	r.timer = time.AfterFunc(time.Until(r.timers[0].at), r.fire)
}

// fire delivers the wakes that are due, each only if the store still has it
// with this very time: a later Wake of the same name replaced it otherwise.
func (r *Runner) fire() {
	now := time.Now()
	var due []dueWake
	r.mu.Lock()
	if r.ctx.Err() != nil {
		r.mu.Unlock()
		return
	}
	for len(r.timers) > 0 && !r.timers[0].at.After(now) {
		due = append(due, heap.Pop(&r.timers).(dueWake))
	}
	r.armTimer()
	r.wg.Add(1)
	r.mu.Unlock()
	defer r.wg.Done()
	for _, d := range due {
		entry, err := r.store.Get(r.ctx, wakeKey(d.op))
		var w wakes
		if err != nil || json.Unmarshal(entry.Value, &w) != nil || !w.At[d.name].Equal(d.at) {
			continue
		}
		delete(w.At, d.name)
		r.putWakes(d.op, w)
		r.deliver(d.op, Event{Kind: EvTimer, Name: d.name})
	}
}

// loadTimers reads this runner's wakes back from the store.
func (r *Runner) loadTimers() {
	after := ""
	for {
		list, err := r.store.List(r.ctx, "wake/", after, 1000)
		if err != nil || len(list) == 0 {
			return
		}
		r.mu.Lock()
		for _, e := range list {
			after = e.Key
			var w wakes
			if json.Unmarshal(e.Value, &w) != nil || w.Runner != r.id {
				continue
			}
			for name, at := range w.At {
				r.addTimer(dueWake{at, OpID(e.Key[len("wake/"):]), name})
			}
		}
		r.mu.Unlock()
	}
}
