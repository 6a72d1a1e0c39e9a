package session_test

import (
	"bytes"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"taskbridge/session"
	"taskbridge/session/memory"
)

// Two runners that step one operation at the same time: what it sends reaches
// a client stream, which one of them holds, in the order of the steps.
func TestRunner_EffectsKeepTheOrderOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close()
		handles, err := session.NewHandles([][]byte{bytes.Repeat([]byte("k"), session.MinStateKey)})
		if err != nil {
			t.Fatal(err)
		}
		var runners []*session.Runner
		for range 2 {
			r, err := session.New(session.Options{Store: store, Dialer: simDialer{}, Faces: fakeFaces{}, Handles: handles})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			runners = append(runners, r)
		}
		const each, makers = 200, 3
		stream := runners[0].NewStream()
		var wg sync.WaitGroup
		for _, r := range runners {
			for range makers {
				wg.Go(func() {
					for range each {
						r.Count("one", stream.ID)
					}
				})
			}
		}
		wg.Wait()
		for n := range each * makers * len(runners) {
			out, ok := stream.Next(t.Context())
			if !ok {
				t.Fatalf("the stream ends after %d messages", n)
			}
			if want := strconv.Itoa(n + 1); string(out.Raw) != want {
				t.Fatalf("message %s came where %s was due", out.Raw, want)
			}
		}
	})
}
