package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/session"
)

func acquire(t *testing.T, s session.Store, key, holder string, ttl time.Duration) uint64 {
	t.Helper()
	fence, err := s.Acquire(t.Context(), key, holder, ttl)
	if err != nil {
		t.Fatalf("Acquire(%q, %q): %v", key, holder, err)
	}
	return fence
}

func testAcquire(t *testing.T, a, b session.Store) {
	f1 := acquire(t, a, "k", "A", time.Minute)
	if f := acquire(t, b, "k", "A", time.Minute); f != f1 {
		t.Fatalf("renewing changed the fence from %d to %d", f1, f)
	}
	_, err := b.Claim(t.Context(), "k", "B", time.Minute)
	want(t, err, session.ErrHeld, "Claim of what another acquired")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = b.Acquire(ctx, "k", "B", time.Minute)
	want(t, err, context.DeadlineExceeded, "Acquire that gives up")
	got := make(chan uint64)
	go func() {
		f, err := b.Acquire(t.Context(), "k", "B", time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- f
	}()
	if err := a.Release(t.Context(), "k", "A"); err != nil {
		t.Fatal(err)
	}
	if f2 := <-got; f2 <= f1 {
		t.Fatalf("fence went from %d to %d with a new owner", f1, f2)
	}
	for _, ttl := range []time.Duration{0, -time.Second} {
		if _, err := a.Acquire(t.Context(), "t", "A", ttl); err == nil {
			t.Fatalf("Acquire for %v was granted", ttl)
		}
	}
}

func testAcquireClock(t *testing.T, s session.Store) {
	acquire(t, s, "k", "A", 10*time.Second)
	begin := time.Now()
	acquire(t, s, "k", "B", time.Second)
	if d := time.Since(begin); d != 10*time.Second {
		t.Fatalf("acquired after %v, want when the other lapses", d)
	}
}

func testConcurrentAcquire(t *testing.T, a, b session.Store) {
	var wg sync.WaitGroup
	var inside atomic.Int32
	for i := range 8 {
		s := []session.Store{a, b}[i%2]
		wg.Go(func() {
			holder := fmt.Sprint("holder", i)
			for range 50 {
				if _, err := s.Acquire(t.Context(), "k", holder, time.Minute); err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the claim", n)
				}
				inside.Add(-1)
				if err := s.Release(t.Context(), "k", holder); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
