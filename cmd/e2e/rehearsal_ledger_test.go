package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ledger holds every operation that clients of the rehearsal began: what came
// of it there, and at which servers it ran. Its key is in the arguments of the
// call and in the right result.
type ledger struct {
	t ledgerTest

	mu     sync.Mutex // protects everything below
	ops    map[string]*ledgerEntry
	count  map[string]int // of operations, by what they were
	ends   map[string]int // of operations, by their client
	said   int            // failures told so far
	strays []string       // runs of keys that nobody began
}

// ledgerTest is what a ledger needs of a test.
type ledgerTest interface {
	Helper()
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

type ledgerEntry struct {
	key, client, what string
	// place is what must not move: the operations of one session, or those of
	// one modern client between two reloads, run at one server. Empty: none.
	place string
	taken bool     // its client took it back, so it need not have run
	ended bool     // its client has the right outcome
	ran   []string // servers, one entry a run
}

func newLedger(t ledgerTest) *ledger {
	return &ledger{t: t, ops: map[string]*ledgerEntry{}, count: map[string]int{}, ends: map[string]int{}}
}

// begin gives a new operation its key.
func (l *ledger) begin(client, what string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &ledgerEntry{key: fmt.Sprintf("key-%d-of-%s", len(l.ops), client), client: client, what: what}
	l.ops[e.key] = e
	return e.key
}

// ran is told by a server that it runs an operation.
func (l *ledger) ran(server string, args json.RawMessage) {
	var a struct{ Key string }
	_ = json.Unmarshal(args, &a)
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.ops[a.Key]; e != nil {
		e.ran = append(e.ran, server)
		return
	}
	l.strays = append(l.strays, fmt.Sprintf("%s ran %.200s", server, args))
}

// end is told what came of an operation: an error, or a text that must hold its
// key.
func (l *ledger) end(key, place, text string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.ops[key]
	l.ends[e.client]++
	l.count[e.what]++
	if err == nil && !e.taken && !strings.Contains(text, key) {
		err = fmt.Errorf("the result is not its own: %.200q", text)
	}
	if e.place, e.ended = place, err == nil; err != nil {
		l.failLocked("%s, %s: %v", e.what, key, err)
	}
}

// takeBack says that an operation's client cancels it.
func (l *ledger) takeBack(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops[key].taken = true
}

func (l *ledger) failLocked(format string, args ...any) {
	l.t.Helper()
	if l.said++; l.said <= 20 {
		l.t.Errorf(format, args...)
	}
}

// fail is for what is not about an operation.
func (l *ledger) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(format, args...)
}

// endsOf returns how many operations each client has to its end.
func (l *ledger) endsOf() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.ends)
}

// servers returns how many operations ran where, of those of places that match.
func (l *ledger) servers(match func(place string) bool) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[string]int{}
	for _, e := range l.ops {
		for _, server := range e.ran {
			if match(e.place) {
				n[server]++
			}
		}
	}
	return n
}

// close holds the books against each other once nothing runs any more.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := map[string]map[string]bool{} // the servers of a place
	for _, key := range slices.Sorted(maps.Keys(l.ops)) {
		e := l.ops[key]
		switch {
		case !e.ended:
			l.failLocked("%s, %s: never finished; it ran at %q", e.what, key, e.ran)
		case len(e.ran) > 1:
			l.failLocked("%s, %s: ran %d times, at %q", e.what, key, len(e.ran), e.ran)
		case len(e.ran) == 0 && !e.taken:
			l.failLocked("%s, %s: has a result and never ran", e.what, key)
		}
		for _, server := range e.ran {
			if e.place != "" {
				if at[e.place] == nil {
					at[e.place] = map[string]bool{}
				}
				at[e.place][server] = true
			}
		}
	}
	for _, place := range slices.Sorted(maps.Keys(at)) {
		if len(at[place]) > 1 {
			l.failLocked("%s: its operations ran at several servers: %q", place, slices.Sorted(maps.Keys(at[place])))
		}
	}
	for _, stray := range l.strays {
		l.failLocked("nobody asked for it: %s", stray)
	}
	if l.said > 20 {
		l.t.Errorf("and %d failures more", l.said-20)
	}
	for _, what := range slices.Sorted(maps.Keys(l.count)) {
		l.t.Logf("%6d %s", l.count[what], what)
	}
}

// failures keeps what a ledger says of its test.
type failures struct{ said []string }

func (*failures) Helper()             {}
func (*failures) Logf(string, ...any) {}
func (f *failures) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

// TestLedger: the books find what they are for.
func TestLedger(t *testing.T) {
	args := func(key string) json.RawMessage { return json.RawMessage(`{"key":"` + key + `"}`) }
	for _, c := range []struct {
		name string
		play func(l *ledger, key string)
		want string // in the first failure; empty: there is none
	}{
		{"right", func(l *ledger, key string) { l.ran("s", args(key)); l.end(key, "", "for "+key, nil) }, ""},
		{"taken back before it ran", func(l *ledger, key string) { l.takeBack(key); l.end(key, "", "", nil) }, ""},
		{"twice", func(l *ledger, key string) { l.ran("s", args(key)); l.ran("t", args(key)); l.end(key, "", key, nil) }, `ran 2 times, at ["s" "t"]`},
		{"twice, and taken back", func(l *ledger, key string) {
			l.takeBack(key)
			l.ran("s", args(key))
			l.ran("s", args(key))
			l.end(key, "", "", nil)
		}, "ran 2 times"},
		{"never ran", func(l *ledger, key string) { l.end(key, "", key, nil) }, "has a result and never ran"},
		{"never finished", func(l *ledger, key string) { l.ran("s", args(key)) }, "never finished"},
		{"another's result", func(l *ledger, key string) { l.ran("s", args(key)); l.end(key, "", "for somebody", nil) }, "the result is not its own"},
		{"an error", func(l *ledger, key string) { l.ran("s", args(key)); l.end(key, "", "", fmt.Errorf("oh")) }, "oh"},
		{"nobody's", func(l *ledger, key string) { l.ran("s", args("x")); l.ran("s", args(key)); l.end(key, "", key, nil) }, "nobody asked for it"},
		{"a session at two servers", func(l *ledger, key string) {
			other := l.begin("c", "call")
			l.ran("s", args(key))
			l.ran("t", args(other))
			l.end(key, "here", key, nil)
			l.end(other, "here", other, nil)
		}, `here: its operations ran at several servers: ["s" "t"]`},
	} {
		f := &failures{}
		l := newLedger(f)
		c.play(l, l.begin("c", "call"))
		l.close()
		if got := strings.Join(f.said, "; "); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: said %q, want %q", c.name, got, c.want)
		}
	}
}
