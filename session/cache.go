package session

import (
	"encoding/json"
	"reflect"

	lru "github.com/hashicorp/golang-lru/v2"
)

// warm keeps operations decoded: a picture of what the store holds, believed
// only for the version it was made from, and dropped by Forget.
type warm struct {
	// own are the machines this runner steps; views are decoded once more for
	// others to read and never change.
	own   *lru.Cache[OpID, warmed]
	views *lru.Cache[OpID, warmed]
	masks *lru.Cache[string, string]
}

type warmed struct {
	version uint64
	m       machine
}

const warmMax = 4096

func newWarm() warm {
	own, _ := lru.New[OpID, warmed](warmMax)
	views, _ := lru.New[OpID, warmed](warmMax)
	masks, _ := lru.New[string, string](warmMax)
	return warm{own, views, masks}
}

func (w warm) forget() {
	w.own.Purge()
	w.views.Purge()
	w.masks.Purge()
}

// transient machines have fields that live for one step only.
type transient interface{ endStep() }

// take returns the machine of a stored operation for a step; it leaves the
// cache, since the step changes it.
func (w warm) take(id OpID, e Entry, m machine) (machine, error) {
	if got, ok := w.own.Peek(id); ok {
		w.own.Remove(id)
		if got.version == e.Version {
			return got.m, nil
		}
	}
	return m, json.Unmarshal(e.Value, m)
}

// put gives a machine back after its step was stored under version.
func (w warm) put(id OpID, version uint64, m machine) {
	if t, ok := m.(transient); ok {
		t.endStep()
	}
	w.own.Add(id, warmed{version, m})
}

// load reads an operation's state into m without stepping it. What m's maps
// and slices hold is shared with other readers and must not be changed.
func (r *Runner) load(id OpID, m machine) bool {
	e, err := r.store.Get(r.ctx, opKey(id))
	if err != nil {
		return false
	}
	if got, ok := r.warm.views.Get(id); ok && got.version == e.Version {
		reflect.ValueOf(m).Elem().Set(reflect.ValueOf(got.m).Elem())
		return true
	}
	if json.Unmarshal(e.Value, m) != nil {
		return false
	}
	kept := kinds[id.Kind()]()
	reflect.ValueOf(kept).Elem().Set(reflect.ValueOf(m).Elem())
	r.warm.views.Add(id, warmed{e.Version, kept})
	return true
}
