package virtual

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"taskbridge/session"
)

var start = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

func never() bool { return false }

func TestEventsInTheirOrder(t *testing.T) {
	w := New(start)
	var got []string
	w.AfterFunc(time.Hour, func() { got = append(got, "late") })
	w.AfterFunc(time.Second, func() {
		got = append(got, "first")
		w.AfterFunc(0, func() { got = append(got, "third") })
	})
	w.AfterFunc(time.Second, func() { got = append(got, "second") })
	stop := w.AfterFunc(time.Minute, func() { got = append(got, "stopped") })
	if !stop() || stop() {
		t.Error("a planned event can be stopped once")
	}
	if w.Run(context.Background(), never) {
		t.Error("nothing was over")
	}
	if want := []string{"first", "second", "third", "late"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if w.Now() != start.Add(time.Hour) {
		t.Errorf("now %v", w.Now())
	}
}

// Time stands still while a woken goroutine works, however long it takes to be
// scheduled.
func TestTimeWaitsForWork(t *testing.T) {
	for range 200 {
		w := New(start)
		g := w.Gate()
		var at time.Time
		var wg sync.WaitGroup
		work := w.Work(func() {
			g.Wait()
			at = w.Now()
		})
		wg.Go(work)
		w.AfterFunc(time.Second, g.Open)
		w.AfterFunc(2*time.Second, func() {})
		w.Run(context.Background(), never)
		wg.Wait()
		if at != start.Add(time.Second) {
			t.Fatalf("woken at %v", at)
		}
	}
}

func TestCancelIsWork(t *testing.T) {
	w := New(start)
	ctx, cancel := w.WithCancel()
	s := session.NewClientStream("s", 0)
	var ended time.Time
	var wg sync.WaitGroup
	wg.Go(w.Work(func() {
		if _, ok := s.NextOn(ctx, w); !ok {
			ended = w.Now()
		}
	}))
	w.AfterFunc(time.Second, cancel)
	w.AfterFunc(time.Minute, func() {})
	w.Run(context.Background(), never)
	wg.Wait()
	if ended != start.Add(time.Second) {
		t.Errorf("ended at %v", ended)
	}
	called := false
	w.OnCancel(ctx, func() { called = true })
	if !called {
		t.Error("a canceled context calls at once")
	}
}
