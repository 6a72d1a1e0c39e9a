package usage

import (
	"encoding/json"
	"errors"
	"time"
)

// stamp is a moment in nanoseconds since 1970; 0: never.
type stamp int64

func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return 0
	}
	return stamp(t.UnixNano())
}

func (s stamp) time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(s)).UTC()
}

// earlier is the first of two moments, of which 0 is none.
func earlier(a, b stamp) stamp {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// tally is what was counted of a client, or of a server, in one dialect. Two
// tallies of disjoint messages merge in any order to that of all of them.
type tally struct {
	Completed uint64 `json:"c,omitempty"` // operations that ended with a result
	Failed    uint64 `json:"f,omitempty"` // operations that ended without
	Probes    uint64 `json:"p,omitempty"` // handshakes and signs of life asked for
	First     stamp  `json:"a,omitempty"` // of all messages
	Last      stamp  `json:"z,omitempty"`
	Used      stamp  `json:"u,omitempty"` // something was had of the dialect (classes.go)
	// Held is when an open stream or session last ended, LongHeld the same of
	// streams that were open for longHold at least.
	Held      stamp  `json:"h,omitempty"`
	LongHeld  stamp  `json:"l,omitempty"`
	Revisions counts `json:"r,omitempty"` // messages by protocol revision
	Features  counts `json:"o,omitempty"` // messages by what of the legacy dialect alone they use
}

// counts are numbers under names of ours.
type counts map[string]uint64

func (c *counts) add(name string, n uint64) {
	if *c == nil {
		*c = counts{}
	}
	(*c)[name] += n
}

func (c *counts) merge(o counts) {
	for name, n := range o {
		c.add(name, n)
	}
}

func (t *tally) merge(o tally) {
	t.Completed += o.Completed
	t.Failed += o.Failed
	t.Probes += o.Probes
	t.First = earlier(t.First, o.First)
	t.Last = max(t.Last, o.Last)
	t.Used = max(t.Used, o.Used)
	t.Held = max(t.Held, o.Held)
	t.LongHeld = max(t.LongHeld, o.LongHeld)
	t.Revisions.merge(o.Revisions)
	t.Features.merge(o.Features)
}

// record is what the store has of one client, or server, for one day, or for
// all days before those.
type record struct {
	Name      string `json:"name,omitempty"`
	Version   string `json:"version,omitempty"`
	Principal string `json:"principal,omitempty"` // masked
	// Folded: of clients that are not told apart any more.
	Folded bool `json:"folded,omitempty"`
	// Through is the last day that was added to a record of all days before;
	// records of those days count no more.
	Through day    `json:"through,omitempty"`
	Legacy  tally  `json:"legacy,omitzero"`
	Modern  tally  `json:"modern,omitzero"`
	Losses  counts `json:"losses,omitempty"`
}

// merge adds what o counted; the identity is that of both.
func (r *record) merge(o *record) {
	r.Name, r.Version, r.Principal, r.Folded = o.Name, o.Version, o.Principal, o.Folded
	r.Through = max(r.Through, o.Through)
	r.Legacy.merge(o.Legacy)
	r.Modern.merge(o.Modern)
	r.Losses.merge(o.Losses)
}

// day is a day of UTC, counted from 1970.
type day int32

const hoursADay = 24 * time.Hour

func dayOf(s stamp) day { return day(int64(s) / int64(hoursADay)) }

func (d day) start() stamp { return stamp(int64(d) * int64(hoursADay)) }

var errDamaged = errors.New("record is damaged")

func decode(raw []byte, into any) error {
	if json.Unmarshal(raw, into) != nil {
		return errDamaged
	}
	return nil
}

func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("usage: encode: " + err.Error()) // all types here can be
	}
	return raw
}
