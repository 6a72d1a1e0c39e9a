package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"taskbridge/session"
)

func claim(t *testing.T, s session.Store, key, holder string, ttl time.Duration) uint64 {
	t.Helper()
	fence, err := s.Claim(t.Context(), key, holder, ttl)
	if err != nil {
		t.Fatalf("Claim(%q, %q): %v", key, holder, err)
	}
	return fence
}

func testClaim(t *testing.T, a, b session.Store) {
	ctx := t.Context()
	f1 := claim(t, a, "k", "A", time.Minute)
	_, err := b.Claim(ctx, "k", "B", time.Minute)
	want(t, err, session.ErrHeld, "Claim of what another holds")
	if f := claim(t, b, "k", "A", time.Minute); f != f1 {
		t.Fatalf("renewing changed the fence from %d to %d", f1, f)
	}
	claim(t, b, "other", "B", time.Minute)
	if err := b.Release(ctx, "k", "B"); err != nil {
		t.Fatalf("Release of a foreign claim: %v", err)
	}
	_, err = b.Claim(ctx, "k", "B", time.Minute)
	want(t, err, session.ErrHeld, "Claim after a foreign Release")
	if err := a.Release(ctx, "k", "A"); err != nil {
		t.Fatal(err)
	}
	if err := a.Release(ctx, "k", "A"); err != nil {
		t.Fatalf("second Release: %v", err)
	}
	f2 := claim(t, b, "k", "B", time.Minute)
	if f2 <= f1 {
		t.Fatalf("fence went from %d to %d with a new owner", f1, f2)
	}
	// A claim is no record.
	_, err = a.Get(ctx, "k")
	want(t, err, session.ErrNotFound, "Get of a claimed key")
	if l, err := a.List(ctx, "", "", 10); err != nil || len(l) != 0 {
		t.Fatalf("claims show in List: %v, %v", l, err)
	}
	for _, ttl := range []time.Duration{0, -time.Second} {
		if _, err := a.Claim(ctx, "t", "A", ttl); err == nil {
			t.Fatalf("Claim for %v was granted", ttl)
		}
	}
}

func testClaimLapses(t *testing.T, a, b session.Store) {
	f1 := claim(t, a, "k", "A", 300*time.Millisecond)
	_, err := b.Claim(t.Context(), "k", "B", time.Minute)
	want(t, err, session.ErrHeld, "Claim before the first lapsed")
	time.Sleep(400 * time.Millisecond)
	f2 := claim(t, b, "k", "B", time.Minute)
	if f2 <= f1 {
		t.Fatalf("fence went from %d to %d with a new owner", f1, f2)
	}
	if err := a.Release(t.Context(), "k", "A"); err != nil {
		t.Fatalf("Release of a lapsed claim: %v", err)
	}
	_, err = a.Claim(t.Context(), "k", "A", time.Minute)
	want(t, err, session.ErrHeld, "Claim after Release of one's lapsed claim")
}

func testClaimClock(t *testing.T, s session.Store) {
	ctx := t.Context()
	f1 := claim(t, s, "k", "A", 10*time.Second)
	time.Sleep(9 * time.Second)
	if f := claim(t, s, "k", "A", 10*time.Second); f != f1 {
		t.Fatalf("renewing changed the fence from %d to %d", f1, f)
	}
	time.Sleep(10*time.Second - 1)
	_, err := s.Claim(ctx, "k", "B", time.Second)
	want(t, err, session.ErrHeld, "Claim just before the other lapses")
	time.Sleep(time.Nanosecond)
	f2 := claim(t, s, "k", "B", time.Second)
	if f2 <= f1 {
		t.Fatalf("fence went from %d to %d", f1, f2)
	}
	time.Sleep(time.Hour)
	// Somebody else may have owned it meanwhile, for all its holder knows.
	if f := claim(t, s, "k", "B", time.Second); f <= f2 {
		t.Fatalf("fence %d after a lapse, had %d before", f, f2)
	}
	// Lapsed claims in numbers do no harm.
	for i := range 5000 {
		claim(t, s, fmt.Sprint("many", i), "A", time.Second)
		time.Sleep(time.Millisecond)
	}
	_, err = s.Claim(ctx, "many4999", "B", time.Second)
	want(t, err, session.ErrHeld, "Claim of the newest")
}

func testConcurrentClaim(t *testing.T, a, b session.Store) {
	for round := range 20 {
		wins := race(8, a, b, func(s session.Store, i int) bool {
			_, err := s.Claim(t.Context(), fmt.Sprint("k", round), fmt.Sprint("holder", i), time.Minute)
			if err != nil && !errors.Is(err, session.ErrHeld) {
				t.Error(err)
			}
			return err == nil
		})
		if wins != 1 {
			t.Fatalf("%d of 8 hold the claim", wins)
		}
	}
}
