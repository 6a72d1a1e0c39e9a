package usage

import (
	"cmp"
	"slices"
	"time"
)

// span is the time from From up to To.
type span struct {
	From stamp `json:"a"`
	To   stamp `json:"z"`
}

func (s span) length() time.Duration { return time.Duration(s.To - s.From) }

// spans do not overlap and stand in order; none is empty.
type spans []span

// spansOf orders and joins any spans.
func spansOf(list ...span) spans {
	list = slices.DeleteFunc(slices.Clone(list), func(s span) bool { return s.To <= s.From })
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.From, b.From) })
	out := list[:0]
	for _, s := range list {
		if n := len(out); n > 0 && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
			continue
		}
		out = append(out, s)
	}
	return spans(out)
}

func (s spans) union(o spans) spans { return spansOf(append(slices.Clone(s), o...)...) }

// within is what of s lies in o, too.
func (s spans) within(o spans) spans {
	var out spans
	for i, j := 0, 0; i < len(s) && j < len(o); {
		if both := (span{max(s[i].From, o[j].From), min(s[i].To, o[j].To)}); both.From < both.To {
			out = append(out, both)
		}
		if s[i].To < o[j].To {
			i++
		} else {
			j++
		}
	}
	return out
}

// without is what of s does not lie in o.
func (s spans) without(o spans) spans {
	if len(s) == 0 {
		return nil
	}
	return s.within(o.outside(span{s[0].From, s[len(s)-1].To}))
}

// outside is what of bounds does not lie in s.
func (s spans) outside(bounds span) spans {
	var out spans
	from := bounds.From
	for _, x := range s {
		if to := min(x.From, bounds.To); from < to {
			out = append(out, span{from, to})
		}
		from = max(from, x.To)
	}
	if from < bounds.To {
		out = append(out, span{from, bounds.To})
	}
	return out
}

// length is how long s is in all.
func (s spans) length() (d time.Duration) {
	for _, x := range s {
		d += x.length()
	}
	return d
}

// since is how much of s lies after t.
func (s spans) since(t stamp) (d time.Duration) {
	for i := len(s) - 1; i >= 0 && s[i].To > t; i-- {
		d += span{max(s[i].From, t), s[i].To}.length()
	}
	return d
}

// back is the latest moment after which s is d long in all; ok is false where
// s is shorter than that.
func (s spans) back(d time.Duration) (t stamp, ok bool) {
	for i := len(s) - 1; i >= 0; i-- {
		if l := s[i].length(); l < d {
			d -= l
			continue
		}
		return s[i].To - stamp(d), true
	}
	return 0, false
}

// newest keeps n spans at most: older ones leave.
func (s spans) newest(n int) spans {
	return s[max(0, len(s)-n):]
}

// coverage is when somebody counted, and when something counted was lost
// although somebody did.
type coverage struct {
	Seen spans `json:"seen,omitempty"`
	Lost spans `json:"lost,omitempty"`
}

// join adds what another process covered: time is observed while any of them
// counts, unless one of them lost something.
func (c *coverage) join(o coverage) {
	c.Seen, c.Lost = c.Seen.union(o.Seen), c.Lost.union(o.Lost)
}

func (c coverage) observed() spans { return c.Seen.without(c.Lost) }

// clip drops what lies before t, and bounds the rest. Before a loss that is
// forgotten nothing counts as observed.
func (c *coverage) clip(t stamp) {
	if n := len(c.Lost) - maxSpans; n > 0 {
		t = max(t, c.Lost[n-1].To)
	}
	all := spans{{t, 1<<63 - 1}}
	c.Seen, c.Lost = c.Seen.within(all).newest(maxSpans), c.Lost.within(all)
}

// maxSpans bounds what is remembered of processes that come and go: time before
// counts as not observed, which only puts a verdict off.
const maxSpans = 512
