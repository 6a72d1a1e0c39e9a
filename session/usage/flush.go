package usage

import (
	"context"
	"errors"
	"strconv"

	"taskbridge/session"
)

// maxTries: others were faster so many times; then it waits for the next flush.
// Each time somebody's write went through.
const maxTries = 64

// target is one record of the store.
type target struct {
	route, who string
	day
}

// pending is what one flush adds to a record, and where it comes from.
type pending struct {
	record
	from []source
}

type source struct {
	slot *slot
	delta
}

// flush adds to the store what was counted; what could not be added stays. It
// needs r.flushing.
func (r *Recorder) flush(ctx context.Context, closing bool) error {
	now := r.now()
	work, err := r.collect(ctx)
	for t, p := range work {
		if e := r.add(ctx, t, &p.record, now); e != nil {
			err = errors.Join(err, e)
			for _, s := range p.from {
				s.slot.putBack(s.delta)
			}
		}
	}
	if e := r.writeFaces(ctx); e != nil {
		err = errors.Join(err, e)
	}
	r.dropSlots(now)
	if err != nil {
		return err // what a reader takes for granted up to now is not there
	}
	return r.writeProcess(ctx, now, closing)
}

// collect takes what the slots counted and says where it goes.
func (r *Recorder) collect(ctx context.Context) (map[target]*pending, error) {
	r.mu.RLock()
	slots := make(map[identity]*slot, len(r.slots))
	fresh := map[string][]identity{}
	for id, s := range r.slots {
		slots[id] = s
		if s.key == "" {
			fresh[id.route] = append(fresh[id.route], id)
		}
	}
	r.mu.RUnlock()
	var failed error
	homes := map[identity]home{}
	for route, ids := range fresh {
		if err := r.admit(ctx, route, ids, homes); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	work := map[target]*pending{}
	for id, s := range slots {
		h, known := homes[id]
		switch {
		case s.key != "":
			h = r.homeOf(id)
		case !known:
			continue // its route's index could not be read
		case !h.Folded || id.folded:
			s.key = h.who
		}
		for _, d := range s.take() {
			t := target{id.route, h.who, d.day}
			p := work[t]
			if p == nil {
				p = &pending{record: h.record}
				work[t] = p
			}
			d.Name, d.Version, d.Principal, d.Folded = h.Name, h.Version, h.Principal, h.Folded
			p.merge(&d.record)
			p.from = append(p.from, source{s, d})
		}
	}
	return work, failed
}

// home is where a client is counted; its record has the identity alone.
type home struct {
	who string
	record
}

// homeOf is id's own home.
func (r *Recorder) homeOf(id identity) home {
	h := home{record: record{Name: id.name, Version: id.version, Folded: id.folded}}
	switch {
	case id.server:
		h.who = whoKey(whoServer, id.name)
		return h
	case id.principal != "":
		h.Principal = r.mask(id.principal)
	}
	switch {
	case !id.folded:
		h.who = whoKey(whoClient, id.name, id.version, h.Principal)
	case id.principal != "":
		h.who = whoKey(whoFolded, h.Principal)
	default:
		h.who = whoFolded
	}
	return h
}

// index lists the clients of a route that are told apart, each with its
// principal.
type index struct {
	Clients map[string]string `json:"clients"`
}

// admit finds homes for clients that have none. Of all processes together no
// more than the bounds are told apart.
func (r *Recorder) admit(ctx context.Context, route string, ids []identity, homes map[identity]home) error {
	for range maxTries {
		ix := index{}
		e, err := r.store.Get(ctx, prefixWho+escaped(route))
		switch {
		case errors.Is(err, session.ErrNotFound):
			e.Version = session.Absent
		case err != nil:
			return err
		default:
			if decode(e.Value, &ix) != nil {
				ix = index{} // compaction makes it anew
			}
		}
		if ix.Clients == nil {
			ix.Clients = map[string]string{}
		}
		free, err := r.free(ctx)
		if err != nil {
			return err
		}
		had := len(ix.Clients)
		for _, id := range ids {
			homes[id] = r.place(&ix, id, free-(len(ix.Clients)-had))
		}
		added := len(ix.Clients) - had
		if added == 0 {
			return nil
		}
		switch _, err = r.store.Put(ctx, prefixWho+escaped(route), encode(ix), e.Version); {
		case errors.Is(err, session.ErrConflict):
			continue
		case err != nil:
			return err
		}
		return r.countAll(ctx, added)
	}
	return session.ErrConflict
}

// place finds one client's home, and a place in the index if it needs one.
func (r *Recorder) place(ix *index, id identity, free int) home {
	own := r.homeOf(id)
	if _, known := ix.Clients[own.who]; known || id.server || own.who == whoFolded {
		return own
	}
	room := len(ix.Clients) < maxClients && free > 0
	if !id.folded && room {
		n := 0
		for _, principal := range ix.Clients {
			if principal == own.Principal {
				n++
			}
		}
		if n >= maxPerPrincipal {
			return r.place(ix, identity{route: id.route, principal: id.principal, folded: true}, free)
		}
	}
	if !room {
		folded := r.homeOf(identity{principal: id.principal, folded: true})
		if _, known := ix.Clients[folded.who]; known {
			return folded
		}
		return r.homeOf(identity{folded: true})
	}
	ix.Clients[own.who] = own.Principal
	return own
}

// free is how many clients more may be told apart on all routes.
func (r *Recorder) free(ctx context.Context) (int, error) {
	e, err := r.store.Get(ctx, keyAll)
	if errors.Is(err, session.ErrNotFound) {
		return maxAll, nil
	}
	n, _ := strconv.Atoi(string(e.Value))
	return maxAll - n, err
}

func (r *Recorder) countAll(ctx context.Context, added int) error {
	for range maxTries {
		e, err := r.store.Get(ctx, keyAll)
		if errors.Is(err, session.ErrNotFound) {
			e.Version = session.Absent
		} else if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(e.Value))
		_, err = r.store.Put(ctx, keyAll, []byte(strconv.Itoa(n+added)), e.Version)
		if !errors.Is(err, session.ErrConflict) {
			return err
		}
	}
	return session.ErrConflict
}

// add merges rec into a record of the store; nobody's count is lost by it.
func (r *Recorder) add(ctx context.Context, t target, rec *record, now stamp) error {
	if t.day <= dayOf(now)-keepDays {
		t.day = 0
	}
	key := dayKey(t.route, t.who, t.day)
	for range maxTries {
		sum := record{}
		e, err := r.store.Get(ctx, key)
		switch {
		case errors.Is(err, session.ErrNotFound):
			e.Version = session.Absent
		case err != nil:
			return err
		case decode(e.Value, &sum) != nil:
			r.lose(span{max(t.start(), 1), now}, "a record of the store was damaged")
			sum = record{}
		}
		sum.merge(rec)
		_, err = r.store.Put(ctx, key, encode(&sum), e.Version)
		if !errors.Is(err, session.ErrConflict) {
			return err
		}
	}
	return session.ErrConflict
}

// dropSlots lets idle slots leave, and those that are told apart no more: they
// would fill the memory.
func (r *Recorder) dropSlots(now stamp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, s := range r.slots {
		before := now - stamp(idleSlot)
		if s.key == "" {
			before = now + 1
		}
		if s.leave(before) {
			delete(r.slots, id)
		}
	}
}
