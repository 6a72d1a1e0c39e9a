// Package storetest is the suite every session.Store must pass.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
)

// Run tests the stores that open returns, each of which must be empty. open
// arranges for their end with t.Cleanup; closing twice must do no harm. Claims
// are tested by the wall clock, in a second or so.
func Run(t *testing.T, open func(t *testing.T) session.Store) {
	RunShared(t, func(t *testing.T) (a, b session.Store) {
		s := open(t)
		return s, s
	})
}

// RunShared is Run for stores that have several handles on the same records:
// what a wrote b must see, as replicas do.
func RunShared(t *testing.T, open func(t *testing.T) (a, b session.Store)) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, a, b session.Store)
	}{
		{"GetPut", testGetPut},
		{"Delete", testDelete},
		{"Take", testTake},
		{"List", testList},
		{"ListMany", testListMany},
		{"VersionsNeverReturn", testVersionsNeverReturn},
		{"ConcurrentSwap", testConcurrentSwap},
		{"ConcurrentAbsent", testConcurrentAbsent},
		{"ConcurrentTake", testConcurrentTake},
		{"Claim", testClaim},
		{"ClaimLapses", testClaimLapses},
		{"ConcurrentClaim", testConcurrentClaim},
		{"Acquire", testAcquire},
		{"ConcurrentAcquire", testConcurrentAcquire},
		{"Log", testLog},
		{"LogBound", testLogBound},
		{"LogBytes", testLogBytes},
		{"LogGap", testLogGap},
		{"ReadWaits", testReadWaits},
		{"ReadCanceled", testReadCanceled},
		{"Drop", testDrop},
		{"ConcurrentLog", testConcurrentLog},
		{"Contexts", testContexts},
		{"RecordsNeverMixed", testRecordsNeverMixed},
		{"StateKey", testStateKey},
		{"Close", testClose},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := open(t)
			c.test(t, a, b)
		})
	}
}

// RunVirtual tests what depends on time under a virtual clock. It is for
// stores that do no I/O and read time.Now.
func RunVirtual(t *testing.T, open func(t *testing.T) session.Store) {
	t.Run("ClaimClock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testClaimClock(t, open(t)) })
	})
	t.Run("AcquireClock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testAcquireClock(t, open(t)) })
	})
	t.Run("ReadClock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testReadClock(t, open(t)) })
	})
}

// names are keys an implementation may stumble over.
var names = []string{
	"a", "a/b", "a/b/c", "a//", "/", "../x", "a b", "a\nb", "a\x00b", "*", "[a]", "?", `\`, "ä", "\U0001f600", "\xff\xfe", ":", "{x}",
	strings.Repeat("k", 900),
}

func put(t *testing.T, s session.Store, key, value string, expect uint64) uint64 {
	t.Helper()
	v, err := s.Put(t.Context(), key, []byte(value), expect)
	if err != nil {
		t.Fatalf("Put(%q, %d): %v", key, expect, err)
	}
	if v == session.Absent || v == session.Any {
		t.Fatalf("Put(%q) gave the reserved version %d", key, v)
	}
	return v
}

func want(t *testing.T, err, target error, what string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: error %v, want %v", what, err, target)
	}
}

func testGetPut(t *testing.T, a, b session.Store) {
	ctx := t.Context()
	for _, key := range names {
		_, err := a.Get(ctx, key)
		want(t, err, session.ErrNotFound, "Get of an absent key")
		_, err = a.Put(ctx, key, []byte("x"), 7)
		want(t, err, session.ErrConflict, "Put over an absent key with a version")

		v1 := put(t, a, key, "one "+key, session.Absent)
		_, err = b.Put(ctx, key, []byte("x"), session.Absent)
		want(t, err, session.ErrConflict, "Put of a present key as absent")
		v2 := put(t, b, key, "two", v1)
		if v2 <= v1 {
			t.Fatalf("version went from %d to %d", v1, v2)
		}
		_, err = a.Put(ctx, key, []byte("x"), v1)
		want(t, err, session.ErrConflict, "Put with an old version")
		v3 := put(t, a, key, "three "+key, session.Any)
		if v3 <= v2 {
			t.Fatalf("version went from %d to %d", v2, v3)
		}
	}
	for _, key := range names {
		e, err := b.Get(ctx, key)
		if err != nil || e.Key != key || string(e.Value) != "three "+key {
			t.Fatalf("Get(%q) = %q, %q, %v", key, e.Key, e.Value, err)
		}
	}
	for _, value := range []string{"", "\x00", "\xff\r\n", strings.Repeat("v", 1<<20)} {
		put(t, a, "value", value, session.Any)
		if e, err := b.Get(ctx, "value"); err != nil || string(e.Value) != value {
			t.Fatalf("value of %d bytes came back as %d bytes, %v", len(value), len(e.Value), err)
		}
	}
}

func testDelete(t *testing.T, a, b session.Store) {
	ctx := t.Context()
	if err := a.Delete(ctx, "k", session.Any); err != nil {
		t.Fatalf("Delete of an absent key with Any: %v", err)
	}
	want(t, a.Delete(ctx, "k", 3), session.ErrConflict, "Delete of an absent key with a version")
	v := put(t, a, "k", "x", session.Absent)
	want(t, b.Delete(ctx, "k", v+1), session.ErrConflict, "Delete with a wrong version")
	if err := b.Delete(ctx, "k", v); err != nil {
		t.Fatal(err)
	}
	_, err := a.Get(ctx, "k")
	want(t, err, session.ErrNotFound, "Get after Delete")
	put(t, a, "k", "y", session.Absent)
	if err := a.Delete(ctx, "k", session.Any); err != nil {
		t.Fatal(err)
	}
	_, err = b.Get(ctx, "k")
	want(t, err, session.ErrNotFound, "Get after Delete")
	if l, err := b.List(ctx, "", "", 10); err != nil || len(l) != 0 {
		t.Fatalf("List after all is deleted: %v, %v", l, err)
	}
}

func testTake(t *testing.T, a, b session.Store) {
	ctx := t.Context()
	_, err := a.Take(ctx, "k")
	want(t, err, session.ErrNotFound, "Take of an absent key")
	put(t, a, "k", "x", session.Absent)
	v, err := b.Take(ctx, "k")
	if err != nil || string(v) != "x" {
		t.Fatalf("Take = %q, %v", v, err)
	}
	_, err = a.Take(ctx, "k")
	want(t, err, session.ErrNotFound, "second Take")
	_, err = a.Get(ctx, "k")
	want(t, err, session.ErrNotFound, "Get after Take")
}

func list(t *testing.T, s session.Store, prefix, after string, limit int) []string {
	t.Helper()
	es, err := s.List(t.Context(), prefix, after, limit)
	if err != nil {
		t.Fatalf("List(%q, %q, %d): %v", prefix, after, limit, err)
	}
	var keys []string
	for _, e := range es {
		if string(e.Value) != "v:"+e.Key || e.Version == session.Absent {
			t.Fatalf("List gave %q the value %q and the version %d", e.Key, e.Value, e.Version)
		}
		keys = append(keys, e.Key)
	}
	return keys
}

func testList(t *testing.T, a, b session.Store) {
	if got := list(t, a, "", "", 10); len(got) != 0 {
		t.Fatalf("List of an empty store: %q", got)
	}
	keys := append([]string{"task/1", "task/10", "task/2", "task", "task0", "tas", "task/2/x", "tb/1"}, names...)
	for _, i := range rand.Perm(len(keys)) {
		put(t, a, keys[i], "v:"+keys[i], session.Any)
	}
	slices.Sort(keys)
	for _, prefix := range []string{"", "t", "task", "task/", "task/1", "task/2", "nothing", "a", "a/", "*", "[a]", "\xff", "zz"} {
		for _, after := range []string{"", "a", "task/", "task/1", "task/11", "task/2/x", "zzz", prefix} {
			for _, limit := range []int{0, 1, 2, 100} {
				var w []string
				for _, k := range keys {
					if strings.HasPrefix(k, prefix) && k > after && (limit <= 0 || len(w) < limit) {
						w = append(w, k)
					}
				}
				if got := list(t, b, prefix, after, limit); !slices.Equal(got, w) {
					t.Fatalf("List(%q, %q, %d) = %q, want %q", prefix, after, limit, got, w)
				}
			}
		}
	}
}

// testListMany also removes, by turns with List, as a sweeper does.
func testListMany(t *testing.T, a, b session.Store) {
	const n = 1000
	for _, i := range rand.Perm(n) {
		k := fmt.Sprintf("p%d/%04d", i%2, i)
		put(t, a, k, "v:"+k, session.Absent)
	}
	var seen []string
	for after := ""; ; {
		page := list(t, b, "p1/", after, 7)
		if len(page) == 0 {
			break
		}
		seen = append(seen, page...)
		after = page[len(page)-1]
		if err := b.Delete(t.Context(), after, session.Any); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != n/2 || !slices.IsSorted(seen) {
		t.Fatalf("pages gave %d keys, sorted %v", len(seen), slices.IsSorted(seen))
	}
	if got := list(t, a, "p1/", "", 1000); len(got) != n/2-(n/2+6)/7 {
		t.Fatalf("%d keys left", len(got))
	}
	if got := list(t, a, "", "", 0); len(got) > 1024 {
		t.Fatalf("List without limit gave %d entries", len(got))
	}
}

func testVersionsNeverReturn(t *testing.T, a, b session.Store) {
	seen := map[uint64]bool{}
	for i := range 20 {
		v := put(t, a, "k", "x", session.Absent)
		if seen[v] {
			t.Fatalf("version %d was given twice to one key", v)
		}
		seen[v] = true
		if i%2 == 0 {
			if err := b.Delete(t.Context(), "k", v); err != nil {
				t.Fatal(err)
			}
		} else if _, err := b.Take(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
}

func testConcurrentSwap(t *testing.T, a, b session.Store) {
	const workers, rounds = 8, 25
	put(t, a, "n", "0", session.Absent)
	var wg sync.WaitGroup
	for w := range workers {
		s := a
		if w%2 == 1 {
			s = b
		}
		wg.Go(func() {
			for range rounds {
				for {
					e, err := s.Get(t.Context(), "n")
					if err != nil {
						t.Error(err)
						return
					}
					var n int
					fmt.Sscan(string(e.Value), &n)
					_, err = s.Put(t.Context(), "n", fmt.Append(nil, n+1), e.Version)
					if err == nil {
						break
					}
					if !errors.Is(err, session.ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if e, err := a.Get(t.Context(), "n"); err != nil || string(e.Value) != fmt.Sprint(workers*rounds) {
		t.Fatalf("after %d increments the value is %q, %v", workers*rounds, e.Value, err)
	}
}

func testConcurrentAbsent(t *testing.T, a, b session.Store) {
	for round := range 20 {
		key := fmt.Sprint("k", round)
		wins := race(8, a, b, func(s session.Store, i int) bool {
			_, err := s.Put(t.Context(), key, []byte{byte(i)}, session.Absent)
			if err != nil && !errors.Is(err, session.ErrConflict) {
				t.Error(err)
			}
			return err == nil
		})
		if wins != 1 {
			t.Fatalf("%d of 8 made the key", wins)
		}
	}
}

func testConcurrentTake(t *testing.T, a, b session.Store) {
	for round := range 20 {
		key := fmt.Sprint("k", round)
		put(t, a, key, "x", session.Absent)
		wins := race(8, a, b, func(s session.Store, i int) bool {
			v, err := s.Take(t.Context(), key)
			if err != nil && !errors.Is(err, session.ErrNotFound) || err == nil && string(v) != "x" {
				t.Errorf("Take = %q, %v", v, err)
			}
			return err == nil
		})
		if wins != 1 {
			t.Fatalf("%d of 8 took the key", wins)
		}
	}
}

// race runs f n times at once and returns how often it said true.
func race(n int, a, b session.Store, f func(s session.Store, i int) bool) int {
	var wins atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		s := a
		if i%2 == 1 {
			s = b
		}
		wg.Go(func() {
			<-start
			if f(s, i) {
				wins.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	return int(wins.Load())
}

func testContexts(t *testing.T, a, _ session.Store) {
	put(t, a, "k", "x", session.Absent)
	appendTo(t, a, "l", "x", 4)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range each(ctx, a) {
		want(t, err, context.Canceled, what+" with a canceled context")
	}
	if e, err := a.Get(t.Context(), "k"); err != nil || string(e.Value) != "x" {
		t.Fatalf("calls that were canceled before they began had effect: %q, %v", e.Value, err)
	}
	if got := read(t, a, "l", 0, 4); got != "1:x " {
		t.Fatalf("calls that were canceled before they began had effect: %s", got)
	}
}

// each calls every method on key "k" and log "l".
func each(ctx context.Context, s session.Store) map[string]error {
	errs := map[string]error{}
	_, errs["Get"] = s.Get(ctx, "k")
	_, errs["Put"] = s.Put(ctx, "k", []byte("y"), session.Any)
	errs["Delete"] = s.Delete(ctx, "k", session.Any)
	_, errs["Take"] = s.Take(ctx, "k")
	_, errs["List"] = s.List(ctx, "", "", 1)
	_, errs["Claim"] = s.Claim(ctx, "c", "A", time.Minute)
	_, errs["Acquire"] = s.Acquire(ctx, "c", "A", time.Minute)
	errs["Release"] = s.Release(ctx, "c", "A")
	_, errs["Append"] = s.Append(ctx, "l", []byte("y"), session.LogBound{Entries: 1})
	_, errs["Read"] = s.Read(ctx, "l", 0, 1)
	_, errs["Last"] = s.Last(ctx, "l")
	errs["Drop"] = s.Drop(ctx, "l")
	return errs
}

// testRecordsNeverMixed cancels many calls at random moments; what the others
// get must be theirs. A connection whose reply was abandoned must not serve
// that reply to the next caller.
func testRecordsNeverMixed(t *testing.T, a, b session.Store) {
	const keys, workers = 16, 8
	for k := range keys {
		name := fmt.Sprint("key", k)
		put(t, a, name, "owner="+name, session.Absent)
		appendTo(t, a, name, "owner="+name, 4)
	}
	var wg sync.WaitGroup
	for w := range workers {
		s := a
		if w%2 == 1 {
			s = b
		}
		wg.Go(func() {
			for range 200 {
				name := fmt.Sprint("key", rand.IntN(keys))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(200))*time.Microsecond)
				if rand.IntN(2) == 0 {
					ctx = t.Context()
				}
				switch rand.IntN(3) {
				case 0:
					e, err := s.Get(ctx, name)
					if err == nil && (e.Key != name || string(e.Value) != "owner="+name) {
						t.Errorf("Get(%q) gave %q of %q", name, e.Value, e.Key)
					}
				case 1:
					es, err := s.List(ctx, name, "", 1)
					if err == nil && (len(es) != 1 || es[0].Key != name || string(es[0].Value) != "owner="+name) {
						t.Errorf("List(%q) gave %v", name, es)
					}
				case 2:
					es, err := s.Read(ctx, name, 0, 1)
					if err == nil && (len(es) != 1 || string(es[0].Value) != "owner="+name) {
						t.Errorf("Read(%q) gave %v", name, es)
					}
				}
				cancel()
			}
		})
	}
	wg.Wait()
}

func testStateKey(t *testing.T, a, b session.Store) {
	var mu sync.Mutex
	seen := map[string]bool{}
	race(8, a, b, func(s session.Store, _ int) bool {
		k, err := session.RandomStateKey(t.Context(), s)
		if err != nil || len(k) < session.MinStateKey {
			t.Errorf("RandomStateKey: %d bytes, %v", len(k), err)
		}
		mu.Lock()
		defer mu.Unlock()
		seen[string(k)] = true
		return true
	})
	if len(seen) != 1 {
		t.Fatalf("replicas have %d keys", len(seen))
	}
}

func testClose(t *testing.T, a, b session.Store) {
	put(t, a, "k", "x", session.Absent)
	done := make(chan error, 1)
	go func() {
		_, err := a.Read(t.Context(), "nothing", 0, 1)
		done <- err
	}()
	time.Sleep(20 * time.Millisecond)
	for range 2 {
		if err := a.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	select {
	case err := <-done:
		want(t, err, session.ErrClosed, "waiting Read after Close")
	case <-time.After(10 * time.Second):
		t.Fatal("a Read goes on waiting after Close")
	}
	for what, err := range each(t.Context(), a) {
		want(t, err, session.ErrClosed, what+" after Close")
	}
	if a != b {
		if e, err := b.Get(t.Context(), "k"); err != nil || string(e.Value) != "x" {
			t.Fatalf("closing one handle closed the other: %q, %v", e.Value, err)
		}
	}
}
