package session

import (
	"slices"
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

// mask is Handles.MaskText with the answers of late kept: the same few callers
// come again and again.
func (r *Runner) mask(kind, text string) string {
	key := kind + "\x00" + text
	if m, ok := r.warm.masks.Get(key); ok {
		return m
	}
	m := r.handles.MaskText(kind, text)
	r.warm.masks.Add(key, m)
	return m
}

// within says whether one more of a kind may be made under key.
func (r *Runner) within(kind, key string, l Limit) bool {
	return r.count(kind+"/"+key) < l.Each && r.count(kind) < l.All
}

// take counts one more of a kind under key, and says whether there was room;
// nothing is counted otherwise. Of several at once no more than fit get in.
func (r *Runner) take(kind, key string, l Limit) bool {
	if r.add(countKey(kind+"/"+key), 1) > l.Each {
		r.add(countKey(kind+"/"+key), -1)
		return false
	}
	if r.add(countKey(kind), 1) > l.All {
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

func (r *Runner) count(name string) int64 {
	x := Exec{r: r}
	return x.Count(name)
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
	countSessions  = "sessions"
	countUpstreams = "upstreams"
)

// wait admits a stream that may stay open for long; it is given back when its
// reader leaves.
func (r *Runner) wait(s *ClientStream, c Caller) bool {
	key := r.limitKey(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.streams[s.ID]
	if a == nil || !r.proc.admit(r.route, key, r.policy().Streams) {
		return false
	}
	a.waits = key
	return true
}

// endWait needs r.mu.
func (r *Runner) endWait(a *attached) {
	if a.waits != "" {
		r.proc.leave(r.route, a.waits)
	}
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
