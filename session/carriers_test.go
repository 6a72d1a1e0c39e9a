package session

import "testing"

// The client's stream and the part of its session can come at the same time, and
// each begins to carry: a server that offers no stream is asked once all the same,
// until the client listens anew.
func TestCarriers_Refused(t *testing.T) {
	l, key, other := newCarriers(), carrierKey{session: "s"}, carrierKey{session: "t"}
	carry := func(key carrierKey, refused bool) (begun bool) {
		c := &carrier{func() {}}
		if begun = l.begin(key, c); begun && refused {
			l.refuse(key, c)
		}
		l.over(key, c)
		return begun
	}
	for i, step := range []struct{ begun, want bool }{
		{carry(key, false), true},
		{carry(key, true), true},
		{carry(key, true), false},
		{carry(other, false), true},
	} {
		if step.begun != step.want {
			t.Errorf("step %d: begun %v, want %v", i, step.begun, step.want)
		}
	}
	l.end(key)
	if !carry(key, false) {
		t.Error("not begun after the client listened anew")
	}
	// What was stopped says nothing of the next.
	old := &carrier{func() {}}
	l.begin(key, old)
	l.end(key)
	l.refuse(key, old)
	if !carry(key, false) {
		t.Error("the word of a carrier that was stopped holds")
	}
}
