package session

import (
	"context"
	"slices"
	"strconv"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// limitKey is under whose name a caller's things are counted: the principal,
// or the address of callers who cannot be told apart.
func (r *Runner) limitKey(c Caller) string {
	if c.Open {
		return r.mask("address", c.Address)
	}
	return r.mask("principal", string(c.Principal))
}

// mask is Handles.mark with the answers of late kept: the same few callers
// come again and again.
func (r *Runner) mask(kind, text string) string {
	key := kind + "\x00" + text
	if m, ok := r.warm.masks.Get(key); ok {
		return m
	}
	m := r.handles.mark(kind, text)
	r.warm.masks.Add(key, m)
	return m
}

// tally is how many things of a kind there are, by the counters of a route and
// by those above it.
type tally struct{ own, above int64 }

// over says whether those are more than may be.
func (n tally) over(own, above int64) bool { return n.own > own || n.above > above }

// within says whether one more of a kind may be made under key.
func (r *Runner) within(kind, key string, own, above Limit) bool {
	return !r.count(kind+"/"+key, 1).over(own.Each, above.Each) && !r.count(kind, 1).over(own.All, above.All)
}

// take counts one more of a kind under key, and says whether there was room;
// nothing is counted otherwise. Of several at once no more than fit get in.
func (r *Runner) take(kind, key string, own, above Limit) bool {
	if r.add(countKey(kind+"/"+key), 1).over(own.Each, above.Each) {
		r.add(countKey(kind+"/"+key), -1)
		return false
	}
	if r.add(countKey(kind), 1).over(own.All, above.All) {
		r.give(kind, key)
		return false
	}
	return true
}

// give is the inverse of take.
func (r *Runner) give(kind, key string) {
	r.add(countKey(kind+"/"+key), -1)
	r.add(countKey(kind), -1)
}

// count is what counters say, and more.
func (r *Runner) count(name string, more int64) (n tally) {
	n.own = readCount(r.ctx, r.counts, countKey(name)) + more
	if r.above != nil {
		n.above = readCount(r.ctx, r.above, countKey(name)) + more
	}
	return n
}

func readCount(ctx context.Context, st Store, key string) (n int64) {
	if e, err := st.Get(ctx, key); err == nil {
		n, _ = strconv.ParseInt(string(e.Value), 10, 64)
	}
	return n
}

// add moves counters and returns what they then are; a record that says zero is
// no record.
func (r *Runner) add(key string, n int64) tally { return r.addUntil(r.ctx, key, n) }

// addUntil is add that goes on while ctx does.
func (r *Runner) addUntil(ctx context.Context, key string, n int64) (now tally) {
	now.own = addCount(ctx, r.counts, key, n)
	if r.above != nil {
		now.above = addCount(ctx, r.above, key, n)
	}
	return now
}

func addCount(ctx context.Context, st Store, key string, n int64) int64 {
	for ctx.Err() == nil {
		entry, err := st.Get(ctx, key)
		now := int64(0)
		version := Absent
		if err == nil {
			now, _ = strconv.ParseInt(string(entry.Value), 10, 64)
			version = entry.Version
		}
		now = max(now+n, 0)
		if now == 0 {
			if version == Absent || st.Delete(ctx, key, version) == nil {
				return 0
			}
			continue
		}
		if _, err := st.Put(ctx, key, intRaw(now), version); err == nil {
			return now
		}
	}
	return 0
}

// tooMany refuses for a limit, by name: with a status where there is room for
// one, and else with advice when to come again in the error.
func tooMany(era translate.Era, id jsonrpc.ID, limit, message string) Out {
	return refusal(era, id, translate.CondTooMany, message, translate.LimitData(limit, 1000))
}

// Asked says whether answers of a caller's legacy session may be under way: a
// question of ours is open, or a call with a server of its era that may have
// asked.
func (r *Runner) Asked(c Caller) bool {
	sess := new(legacySession)
	if c.Session == "" || len(c.Session) > 128 || !r.load(sessionOp(c.Session), sess) || sess.Principal != c.Principal {
		return false
	}
	if sess.Era != translate.Legacy {
		return r.has("ask/" + sess.ID + "/")
	}
	return r.has(opKey(OpID("pass:" + sess.ID + ":")))
}

// Asked is Runner.Asked of all runners that have the session or a part of it.
func (rt *Route) Asked(c Caller) bool {
	return slices.ContainsFunc(rt.table.Load().all, func(m *member) bool { return m.runner.Asked(c) })
}

// counted moves both counters of a kind.
func counted(kind, key string, n int64) []Effect {
	return []Effect{Add{Name: kind + "/" + key, N: n}, Add{Name: kind, N: n}}
}

const (
	countTasks     = "tasks"
	countOver      = "over" // tasks that are remembered after their end
	countSessions  = "sessions"
	countUpstreams = "upstreams"
)

// countedAs is the kind of a task.
func countedAs(over bool) string {
	if over {
		return countOver
	}
	return countTasks
}

// wait admits a stream that may stay open for long; it is given back when its
// reader leaves.
func (r *Runner) wait(s *ClientStream, c Caller) bool {
	key := r.limitKey(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.streams[s.ID]
	if a == nil {
		return false
	}
	p := r.policy()
	above := &p.Above.Streams
	if r.above == nil {
		above = nil
	}
	a.waits = r.proc.admit(r.route, key, p.Streams, above)
	return len(a.waits) > 0
}

// endWait needs r.mu.
func (r *Runner) endWait(a *attached) {
	r.proc.leave(a.waits)
}

// admitStream refuses over the limit and says so in the message's own form.
func (r *Runner) admitStream(ev Event, s *ClientStream, era translate.Era) bool {
	if r.wait(s, ev.Caller) {
		return true
	}
	r.metrics.Limited("streams")
	s.Send(tooMany(era, messageID(ev.Frame.Msg), "streams", "too many open streams; close some or try again later"))
	return false
}

// hold counts an open tasks/result toward a legacy server; at the bound the
// one that has been open longest gives its place up.
func (r *Runner) hold(key upKey) {
	r.mu.Lock()
	r.holders[key] = r.clock.Now()
	var oldest upKey
	var at time.Time
	if len(r.holders) > r.policy().Holders {
		for k, t := range r.holders {
			if k != key && (at.IsZero() || t.Before(at)) {
				oldest, at = k, t
			}
		}
		delete(r.holders, oldest)
	}
	r.mu.Unlock()
	if oldest.op != "" {
		r.deliver(oldest.op, Event{Kind: EvOp, Name: "unhold"})
	}
}
