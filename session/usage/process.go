package usage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// process is what the store has of one process that counts, or did. What it
// counted before At is in the store.
type process struct {
	At     stamp         `json:"at"`
	Every  time.Duration `json:"every"`            // between two flushes
	Closed bool          `json:"closed,omitempty"` // it ended in order
	coverage
}

// served says when a process had which routes; To 0: it still has it.
type served struct {
	Routes map[string]spans `json:"routes"`
}

// routeRecord is what processes that are gone covered of a route.
type routeRecord struct{ coverage }

// writeProcess says how far the store can be believed. It needs r.flushing, or
// that nobody else knows r.
func (r *Recorder) writeProcess(ctx context.Context, now stamp, closing bool) error {
	r.mu.Lock()
	r.self.Seen = slices.Clone(r.self.Seen)
	p := process{At: now, Every: r.every, Closed: closing, coverage: coverage{Lost: r.self.Lost}}
	p.Seen = r.self.Seen.within(spans{{0, now}})
	if n := len(r.self.Seen); len(p.Seen) < n && r.self.Seen[n-1].From == now {
		p.Seen = append(p.Seen, span{now, now}) // it has just begun
	}
	moved := r.moved || closing
	s := served{Routes: map[string]spans{}}
	for name, list := range r.routes {
		s.Routes[name] = slices.Clone(list)
		if last := &s.Routes[name][len(list)-1]; closing && last.To == 0 {
			last.To = now
		}
	}
	r.moved = false
	r.mu.Unlock()
	if moved {
		if err := r.writeServed(ctx, s); err != nil {
			r.mu.Lock()
			r.moved = true
			r.mu.Unlock()
			return err
		}
	}
	_, err := r.store.Put(ctx, prefixProcess+r.id, encode(p), session.Any)
	return err
}

func (r *Recorder) writeServed(ctx context.Context, s served) error {
	if _, err := r.store.Put(ctx, prefixServed+r.id, encode(s), session.Any); err != nil {
		return err
	}
	for name := range s.Routes {
		_, err := r.store.Put(ctx, prefixRoute+escaped(name), encode(routeRecord{}), session.Absent)
		if err != nil && !errors.Is(err, session.ErrConflict) {
			return err
		}
	}
	return nil
}

// late: a process that should have been heard of long ago has ended without a
// word, or is cut off from the store.
func (p process) late(now stamp) bool {
	return !p.Closed && time.Duration(now-p.At) > lateBeats*p.Every
}

// covered is what a process covers as seen at now: up to now while it lives. One
// that ended without a word counted things it could not store.
func (p process) covered(now stamp) coverage {
	c := coverage{Seen: spansOf(p.Seen...), Lost: spansOf(p.Lost...)}
	switch {
	case p.late(now):
		c.Lost = c.Lost.union(spansOf(span{p.At, min(p.At+stamp(p.Every), now)}))
	case !p.Closed && len(p.Seen) > 0:
		c.Seen = c.Seen.union(spansOf(span{p.Seen[len(p.Seen)-1].From, now}))
	}
	return c
}

// of is the part of c in which a route was served.
func (c coverage) of(route spans, now stamp) coverage {
	if n := len(route) - 1; n >= 0 && route[n].To == 0 {
		route = append(slices.Clone(route[:n]), span{route[n].From, now + 1})
	}
	return coverage{Seen: c.Seen.within(spansOf(route...)), Lost: c.Lost}
}

// crew is all processes the store knows.
type crew struct {
	processes map[string]process
	served    map[string]served
}

func (r *Recorder) readCrew(ctx context.Context) (crew, error) {
	c := crew{map[string]process{}, map[string]served{}}
	err := r.each(ctx, prefixProcess, func(id string, raw []byte) {
		var p process
		if decode(raw, &p) == nil {
			c.processes[id] = p
		}
	})
	if err != nil {
		return c, err
	}
	return c, r.each(ctx, prefixServed, func(id string, raw []byte) {
		var s served
		if decode(raw, &s) == nil {
			c.served[id] = s
		}
	})
}

// each calls f with each record under prefix, and the rest of its key.
func (r *Recorder) each(ctx context.Context, prefix string, f func(rest string, raw []byte)) error {
	for e, err := range session.Records(ctx, r.store, prefix) {
		if err != nil {
			return err
		}
		f(strings.TrimPrefix(e.Key, prefix), e.Value)
	}
	return nil
}

// face is what a server was found to speak.
type face struct {
	Name     string   `json:"name"`
	Legacy   bool     `json:"legacy,omitempty"`
	Modern   bool     `json:"modern,omitempty"`
	Versions []string `json:"versions,omitempty"`
	Found    stamp    `json:"found"`
}

func (f face) same(o face) bool {
	return f.Legacy == o.Legacy && f.Modern == o.Modern && slices.Equal(f.Versions, o.Versions)
}

// Face notes what a server was found to speak.
func (r *Recorder) Face(route, upstream string, f session.Face) {
	id := server(route, upstream)
	r.mu.RLock()
	old, known := r.faces[id]
	r.mu.RUnlock()
	n := face{Name: id.name, Legacy: f.Era == translate.Legacy || f.Dual, Modern: f.Era == translate.Modern, Versions: f.Versions}
	if len(n.Versions) == 0 && f.Version != "" {
		n.Versions = []string{f.Version}
	}
	n.Versions = n.Versions[:min(len(n.Versions), maxVersions)]
	if known && old.same(n) {
		return
	}
	n.Versions, n.Found = slices.Clone(n.Versions), r.now()
	shown := n
	shown.Versions = slices.Clone(n.Versions)
	for i, v := range shown.Versions {
		shown.Versions[i] = session.Shown(v)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.faces) >= maxSlots { // servers come and go with the configuration
		clear(r.faces)
	}
	r.faces[id], r.news[id] = n, shown
}

// maxVersions of a server's list are kept.
const maxVersions = 16

func (r *Recorder) writeFaces(ctx context.Context) error {
	r.mu.Lock()
	news := r.news
	r.news = map[identity]face{}
	r.mu.Unlock()
	var failed error
	for id, f := range news {
		if _, err := r.store.Put(ctx, prefixFace+escaped(id.route)+"/"+whoKey(whoServer, id.name), encode(f), session.Any); err != nil {
			failed = errors.Join(failed, err)
			r.mu.Lock()
			if _, newer := r.news[id]; !newer {
				r.news[id] = f
			}
			r.mu.Unlock()
		}
	}
	return failed
}
