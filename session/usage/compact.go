package usage

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbridge/session"
)

// keepDays is how many days are kept one by one; MaxWindow is what a report may
// look back on.
const (
	keepDays  = 36
	MaxWindow = (keepDays - 1) * hoursADay
)

const (
	compactEvery = time.Hour
	compactTTL   = 10 * time.Minute
	// goneAfter: a process that was silent for so long does not come back.
	goneAfter = time.Hour
)

// compactNow compacts if it is time to. It needs r.flushing.
func (r *Recorder) compactNow(ctx context.Context) {
	now := r.now()
	if now < r.compacted+stamp(compactEvery) && r.compacted != 0 {
		return
	}
	r.compacted = now
	if _, err := r.store.Claim(ctx, keyCompact, r.id, compactTTL); err != nil {
		return // another does it
	}
	if err := r.compact(ctx, now); err != nil && !errors.Is(err, session.ErrClosed) {
		r.log.Warn("usage counters were not compacted", "err", err)
	}
	_ = r.store.Release(ctx, keyCompact, r.id)
}

// compact bounds what the store has: processes that are gone are joined, days
// that are long over added up, clients not seen since are told apart no more.
// Each step may be repeated or broken off: nothing counts twice.
// It needs r.flushing.
func (r *Recorder) compact(ctx context.Context, now stamp) error {
	if err := r.joinProcesses(ctx, now); err != nil {
		return err
	}
	var routes []string
	if err := r.each(ctx, prefixRoute, func(rest string, _ []byte) { routes = append(routes, unescaped(rest)) }); err != nil {
		return err
	}
	all := 0
	for _, route := range routes {
		n, err := r.compactRoute(ctx, route, dayOf(now)-keepDays-1)
		if err != nil {
			return err
		}
		all += n
	}
	_, err := r.store.Put(ctx, keyAll, []byte(strconv.Itoa(all)), session.Any)
	return err
}

// joinProcesses adds what processes that are gone covered to their routes.
func (r *Recorder) joinProcesses(ctx context.Context, now stamp) error {
	c, err := r.readCrew(ctx)
	if err != nil {
		return err
	}
	for id, p := range c.processes {
		if id == r.id || !p.Closed && time.Duration(now-p.At) < goneAfter {
			continue
		}
		for route, when := range c.served[id].Routes {
			if err := r.joinRoute(ctx, route, p.covered(now).of(when, now), now); err != nil {
				return err
			}
		}
		for _, key := range []string{prefixProcess + id, prefixServed + id} {
			if err := r.store.Delete(ctx, key, session.Any); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Recorder) joinRoute(ctx context.Context, route string, c coverage, now stamp) error {
	key := prefixRoute + escaped(route)
	for range maxTries {
		var rec routeRecord
		e, err := r.store.Get(ctx, key)
		if errors.Is(err, session.ErrNotFound) {
			e.Version = session.Absent
		} else if err != nil {
			return err
		} else if decode(e.Value, &rec) != nil {
			rec = routeRecord{} // what it said counts as not observed
		}
		rec.join(c)
		rec.clip(now - stamp(keepDays*hoursADay))
		if _, err = r.store.Put(ctx, key, encode(rec), e.Version); !errors.Is(err, session.ErrConflict) {
			return err
		}
	}
	return session.ErrConflict
}

// compactRoute adds up the days before last, it included, and says how many
// clients of the route are told apart.
func (r *Recorder) compactRoute(ctx context.Context, route string, last day) (int, error) {
	days := map[string][]day{}
	prefix := routePrefix(route)
	err := r.each(ctx, prefix, func(rest string, _ []byte) {
		if who, d, ok := parseDayKey(rest); ok {
			days[who] = append(days[who], d)
		}
	})
	if err != nil {
		return 0, err
	}
	ix := index{Clients: map[string]string{}}
	for who, list := range days {
		slices.Sort(list)
		sum, err := r.addUp(ctx, route, who, list, last)
		busy := errors.Is(err, session.ErrConflict) // somebody adds to it just now; the next time will do
		if err != nil && !busy {
			return 0, err
		}
		err = nil
		stale := list[len(list)-1] <= last && who != whoFolded && !busy
		switch {
		case stale && strings.HasPrefix(who, whoServer):
			err = r.store.Delete(ctx, dayKey(route, who, 0), session.Any)
			if err == nil {
				err = r.store.Delete(ctx, prefixFace+escaped(route)+"/"+who, session.Any)
			}
		case stale:
			err = r.foldAway(ctx, route, who)
		case !strings.HasPrefix(who, whoServer) && who != whoFolded:
			ix.Clients[who] = sum.Principal
		}
		if err != nil {
			return 0, err
		}
	}
	return len(ix.Clients), r.replaceIndex(ctx, route, ix)
}

// addUp merges a client's days up to last into its record of all days before,
// which says so in Through, and deletes them. It returns who the client is, with
// [session.ErrConflict] too, which leaves all as it was.
func (r *Recorder) addUp(ctx context.Context, route, who string, list []day, last day) (record, error) {
	var sum record
	newest, err := r.store.Get(ctx, dayKey(route, who, list[len(list)-1]))
	if err == nil {
		_ = decode(newest.Value, &sum) // a damaged one has no name; it is mended when it is added to
	}
	if i := slices.IndexFunc(list, func(d day) bool { return d != 0 }); i < 0 || list[i] > last {
		return sum, nil
	}
	key := dayKey(route, who, 0)
	e, err := r.store.Get(ctx, key)
	if errors.Is(err, session.ErrNotFound) {
		e.Version = session.Absent
	} else if err != nil {
		return sum, err
	}
	old := record{}
	if e.Version != session.Absent && decode(e.Value, &old) != nil {
		old = record{}
	}
	done := old.Through
	for _, d := range list {
		if d == 0 || d <= done || d > last {
			continue
		}
		var rec record
		got, err := r.store.Get(ctx, dayKey(route, who, d))
		if err == nil && decode(got.Value, &rec) == nil {
			old.merge(&rec)
		}
		old.Through = d
	}
	if _, err := r.store.Put(ctx, key, encode(&old), e.Version); err != nil {
		return sum, err
	}
	for _, d := range list {
		if d != 0 && d <= last {
			if err := r.store.Delete(ctx, dayKey(route, who, d), session.Any); err != nil {
				return sum, err
			}
		}
	}
	return sum, nil
}

// foldAway counts a client that was not seen for long with those who are not
// told apart.
func (r *Recorder) foldAway(ctx context.Context, route, who string) error {
	raw, err := r.store.Take(ctx, dayKey(route, who, 0))
	if errors.Is(err, session.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	var rec record
	if decode(raw, &rec) != nil {
		return nil
	}
	rec.Name, rec.Version, rec.Principal, rec.Folded, rec.Through = "", "", "", true, 0
	return r.add(ctx, target{route, whoFolded, 0}, &rec, r.now())
}

// replaceIndex writes whom a route tells apart; clients that came meanwhile come
// into it the next time.
func (r *Recorder) replaceIndex(ctx context.Context, route string, ix index) error {
	key := prefixWho + escaped(route)
	e, err := r.store.Get(ctx, key)
	if errors.Is(err, session.ErrNotFound) {
		e.Version = session.Absent
	} else if err != nil {
		return err
	}
	if len(ix.Clients) == 0 {
		if e.Version == session.Absent {
			return nil
		}
		err = r.store.Delete(ctx, key, e.Version)
	} else {
		_, err = r.store.Put(ctx, key, encode(ix), e.Version)
	}
	if errors.Is(err, session.ErrConflict) {
		return nil
	}
	return err
}
