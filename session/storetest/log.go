package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
)

func appendTo(t *testing.T, s session.Store, log, value string, max int) uint64 {
	t.Helper()
	seq, err := s.Append(t.Context(), log, []byte(value), session.LogBound{Entries: max})
	if err != nil {
		t.Fatalf("Append(%q): %v", log, err)
	}
	return seq
}

func read(t *testing.T, s session.Store, log string, after uint64, limit int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	es, err := s.Read(ctx, log, after, limit)
	if err != nil {
		t.Fatalf("Read(%q, %d): %v", log, after, err)
	}
	var b strings.Builder
	for _, e := range es {
		fmt.Fprintf(&b, "%d:%s ", e.Seq, e.Value)
	}
	return b.String()
}

func wantLast(t *testing.T, s session.Store, log string, want uint64) {
	t.Helper()
	if n, err := s.Last(t.Context(), log); err != nil || n != want {
		t.Fatalf("Last(%q) = %d, %v, want %d", log, n, err, want)
	}
}

func testLog(t *testing.T, a, b session.Store) {
	for _, log := range names {
		for i := range uint64(3) {
			if seq := appendTo(t, a, log, fmt.Sprint("v", i), 10); seq != i+1 {
				t.Fatalf("entry %d of %q got the number %d", i+1, log, seq)
			}
		}
	}
	for _, log := range names {
		if got := read(t, b, log, 0, 10); got != "1:v0 2:v1 3:v2 " {
			t.Fatalf("Read(%q) = %s", log, got)
		}
	}
	if got := read(t, b, "a", 1, 1); got != "2:v1 " {
		t.Fatalf("one entry after 1: %s", got)
	}
	wantLast(t, b, "a", 3)
	wantLast(t, b, "none", 0)
	if got := read(t, b, "a", 2, 0); got != "3:v2 " {
		t.Fatalf("entries after 2: %s", got)
	}
	// Logs and records have names of their own.
	_, err := a.Get(t.Context(), "a")
	want(t, err, session.ErrNotFound, "Get of a log's name")
	if l, err := a.List(t.Context(), "", "", 10); err != nil || len(l) != 0 {
		t.Fatalf("logs show in List: %v, %v", l, err)
	}
}

func testLogBound(t *testing.T, a, b session.Store) {
	for i := range 10 {
		appendTo(t, a, "l", fmt.Sprint(i+1), 4)
	}
	if got := read(t, b, "l", 6, 100); got != "7:7 8:8 9:9 10:10 " {
		t.Fatalf("the newest four: %s", got)
	}
	appendTo(t, b, "l", "11", 2)
	if got := read(t, a, "l", 9, 100); got != "10:10 11:11 " {
		t.Fatalf("the newest two: %s", got)
	}
	for i := range 1030 {
		appendTo(t, a, "d", fmt.Sprint(i+1), 0)
	}
	_, err := b.Read(t.Context(), "d", 5, 1)
	want(t, err, session.ErrNotFound, "Read before the newest 1024")
	if got := read(t, b, "d", 6, 1); got != "7:7 " {
		t.Fatalf("the oldest of 1024: %s", got)
	}
}

func testLogBytes(t *testing.T, a, b session.Store) {
	add := func(value string) {
		t.Helper()
		if _, err := a.Append(t.Context(), "l", []byte(value), session.LogBound{Entries: 4, Bytes: 10}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		value string
		after uint64
		left  string
	}{
		{"aaaa", 0, "1:aaaa "},
		{"bbbb", 0, "1:aaaa 2:bbbb "},
		{"cc", 0, "1:aaaa 2:bbbb 3:cc "},
		{"d", 1, "2:bbbb 3:cc 4:d "},
		{"eeeeee", 2, "3:cc 4:d 5:eeeeee "},
		{"larger than the bound", 5, "6:larger than the bound "}, // the newest always stays
		{"f", 6, "7:f "},
		{"", 6, "7:f 8: "},
		{"", 6, "7:f 8: 9: "},
		{"", 6, "7:f 8: 9: 10: "},
		{"", 7, "8: 9: 10: 11: "},
	} {
		add(step.value)
		if got := read(t, b, "l", step.after, 10); got != step.left {
			t.Fatalf("after %q: %s, want %s", step.value, got, step.left)
		}
		if step.after > 0 {
			_, err := b.Read(t.Context(), "l", step.after-1, 10)
			want(t, err, session.ErrNotFound, "Read of what left with "+step.value)
		}
	}
}

func testLogGap(t *testing.T, a, b session.Store) {
	for range 5 {
		appendTo(t, a, "l", "x", 2)
	}
	for after := range uint64(3) {
		es, err := b.Read(t.Context(), "l", after, 10)
		want(t, err, session.ErrNotFound, fmt.Sprintf("Read after %d of 4..5", after))
		if len(es) != 2 || es[0].Seq != 4 || es[1].Seq != 5 {
			t.Fatalf("beside the gap after %d: %v", after, es)
		}
	}
	if got := read(t, b, "l", 3, 10); got != "4:x 5:x " {
		t.Fatalf("Read after 3: %s", got)
	}
}

func testReadWaits(t *testing.T, a, b session.Store) {
	const readers = 5
	got := make(chan string, readers)
	for range readers {
		go func() {
			es, err := b.Read(t.Context(), "l", 0, 1)
			if err != nil || len(es) != 1 {
				got <- fmt.Sprintf("%v, %v", es, err)
				return
			}
			got <- fmt.Sprintf("%d:%s", es[0].Seq, es[0].Value)
		}()
	}
	time.Sleep(20 * time.Millisecond)
	appendTo(t, a, "other", "no", 1)
	select {
	case g := <-got:
		t.Fatalf("Read returned %s before anything was there", g)
	case <-time.After(20 * time.Millisecond):
	}
	appendTo(t, a, "l", "one", 1)
	for range readers {
		select {
		case g := <-got:
			if g != "1:one" {
				t.Fatalf("Read = %s", g)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a reader was not woken")
		}
	}
}

func testReadClock(t *testing.T, s session.Store) {
	type result struct {
		es  []session.LogEntry
		err error
		at  time.Duration
	}
	start := time.Now()
	got := make(chan result, 3)
	for _, after := range []uint64{0, 1, 2} {
		go func() {
			es, err := s.Read(t.Context(), "l", after, 10)
			got <- result{es, err, time.Since(start)}
		}()
	}
	for i := range uint64(3) {
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(got) != 0 {
			t.Fatalf("Read returned before its entry: %+v", <-got)
		}
		appendTo(t, s, "l", "x", 10)
		r := <-got
		if r.err != nil || len(r.es) != 1 || r.es[0].Seq != i+1 || r.at != time.Duration(i+1)*time.Hour {
			t.Fatalf("entry %d: %+v", i+1, r)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := s.Read(ctx, "l", 3, 1)
	want(t, err, context.DeadlineExceeded, "Read past its deadline")
}

func testReadCanceled(t *testing.T, a, b session.Store) {
	appendTo(t, a, "l", "x", 4)
	for _, after := range []uint64{1, 99} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := b.Read(ctx, "l", after, 1)
		cancel()
		want(t, err, context.DeadlineExceeded, fmt.Sprintf("Read after %d of 1", after))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.Read(ctx, "nothing", 0, 1)
		done <- err
	}()
	time.Sleep(20 * time.Millisecond)
	cancel()
	select {
	case err := <-done:
		want(t, err, context.Canceled, "canceled Read")
	case <-time.After(10 * time.Second):
		t.Fatal("a canceled Read goes on waiting")
	}
	// Others are not disturbed by one that left.
	if seq := appendTo(t, a, "nothing", "y", 4); seq != 1 {
		t.Fatalf("first entry got the number %d", seq)
	}
	if got := read(t, b, "nothing", 0, 4); got != "1:y " {
		t.Fatalf("Read = %s", got)
	}
}

func testDrop(t *testing.T, a, b session.Store) {
	if err := a.Drop(t.Context(), "l"); err != nil {
		t.Fatalf("Drop of no log: %v", err)
	}
	appendTo(t, a, "l", "old", 4)
	appendTo(t, a, "l", "old", 4)
	wantLast(t, b, "l", 2)
	if err := b.Drop(t.Context(), "l"); err != nil {
		t.Fatal(err)
	}
	wantLast(t, a, "l", 0)
	got := make(chan error, 1)
	go func() {
		es, err := b.Read(t.Context(), "l", 0, 4)
		if err == nil && (len(es) != 1 || string(es[0].Value) != "new") {
			err = fmt.Errorf("read %v", es)
		}
		got <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if err := a.Drop(t.Context(), "l"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-got:
		t.Fatalf("Read of a dropped log returned: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	if seq := appendTo(t, a, "l", "new", 4); seq != 1 {
		t.Fatalf("a new log begins at %d", seq)
	}
	select {
	case err := <-got:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the reader was not woken")
	}
}

func testConcurrentLog(t *testing.T, a, b session.Store) {
	const writers, each, readers = 4, 50, 4
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			s := a
			if w%2 == 1 {
				s = b
			}
			for i := range each {
				if _, err := s.Append(ctx, "l", fmt.Appendf(nil, "%d/%d", w, i), session.LogBound{Entries: writers * each}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for r := range readers {
		wg.Go(func() {
			s := a
			if r%2 == 1 {
				s = b
			}
			next := [writers]int{}
			for after := uint64(0); after < writers*each; {
				es, err := s.Read(ctx, "l", after, 1+r*3)
				if err != nil || len(es) == 0 || len(es) > 1+r*3 {
					t.Errorf("Read = %d entries, %v", len(es), err)
					return
				}
				for _, e := range es {
					var w, i int
					fmt.Sscanf(string(e.Value), "%d/%d", &w, &i)
					if e.Seq != after+1 || i != next[w] {
						t.Errorf("entry %d follows %d; writer %d's %d is where %d belongs", e.Seq, after, w, i, next[w])
						return
					}
					next[w]++
					after = e.Seq
				}
			}
		})
	}
	wg.Wait()
}
