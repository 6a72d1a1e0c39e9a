package session

import (
	"fmt"
	"math"
	"slices"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// chooser is what new work is led by.
type chooser struct {
	principal Principal
	client    string // clientInfo.name
	version   string
	// key decides among weights: equal keys go the same way.
	key string
}

type routePin struct {
	client    string
	version   translate.VersionRange
	principal string
}

func parsePins(pins []Pin) (list []routePin, err error) {
	for _, p := range pins {
		v, err := translate.ParseVersionRange(p.Version)
		if err != nil {
			return nil, fmt.Errorf("pin of client %q: %w", p.Client, err)
		}
		list = append(list, routePin{p.Client, v, p.Principal})
	}
	return list, nil
}

func (e *routeEntry) pinned(c chooser, masks []string) bool {
	for _, p := range e.pins {
		if (p.client == "" || p.client == c.client) && p.version.Has(c.version) && (p.principal == "" || slices.Contains(masks, p.principal)) {
			return true
		}
	}
	return false
}

// choose is pick that counts the message with its member in the same step, so
// that none gets past a Drain in between. Whoever gets one calls its leave when
// the message was handed over.
func (rt *Route) choose(t *routeTable, c chooser) *member {
	for {
		m := rt.pick(t, c)
		if rt.chosen != nil {
			rt.chosen()
		}
		if m == nil || m.enter() {
			return m
		}
		t = rt.table.Load()
	}
}

// pick finds the member for new work: by pins, then by weight. One that
// drains is no choice, one that is ejected only where nothing else is left. Nil:
// there is none.
func (rt *Route) pick(t *routeTable, c chooser) *member {
	var masks []string
	if t.pinsPrincipals && c.principal != "" {
		masks = rt.handles.masks(c.principal)
	}
	now := rt.clock.Now()
	if m := t.best(c.key, func(e *routeEntry) float64 {
		if e.out(now, true) || !e.pinned(c, masks) {
			return 0
		}
		return float64(max(e.weight, 1))
	}); m != nil {
		return m
	}
	if m := t.best(c.key, func(e *routeEntry) float64 {
		if e.out(now, true) {
			return 0
		}
		return float64(e.weight)
	}); m != nil {
		return m
	}
	return t.best(c.key, func(e *routeEntry) float64 { return float64(e.weight) })
}

// best is weighted rendezvous hashing: each upstream draws a number for the key
// that its weight makes larger, the largest wins. So a share that grows takes
// keys from others and gives none away, and one that shrinks gives keys away and
// takes none.
func (t *routeTable) best(key string, weight func(e *routeEntry) float64) (best *member) {
	most := 0.0
	for _, e := range t.entries {
		w := 0.0
		if !e.draining.Load() {
			w = weight(e)
		}
		if w <= 0 {
			continue
		}
		if score := w / -math.Log(draw(e.name, key)); best == nil || score > most {
			best, most = e.member, score
		}
	}
	return best
}

// draw is a number in (0, 1) that depends on both texts.
func draw(name, key string) float64 {
	// FNV-1a, then the finalizer of SplitMix64: all bits of the text reach all of
	// the number.
	h := uint64(14695981039346656037)
	for _, s := range [2]string{name, key} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
	}
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	h ^= h >> 31
	return (float64(h>>11) + 0.5) / (1 << 53)
}

// chooserOf reads who sends a modern request. Callers who cannot be told apart
// are told apart by address.
func chooserOf(c Caller, info jsonrpc.Value) chooser {
	ch := chooser{principal: c.Principal}
	ch.client, _ = info.Get("name").Str()
	ch.version, _ = info.Get("version").Str()
	who := string(c.Principal)
	if c.Open {
		who = c.Address
	}
	ch.key = who + "\x00" + ch.client
	return ch
}
