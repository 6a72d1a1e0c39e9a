package session_test

import (
	"testing"
	"testing/synctest"

	"taskbridge/session"
	"taskbridge/session/memory"
)

// What comes late for an operation that is over leaves nothing in the store.
func TestLateEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		handles, err := session.NewHandles([][]byte{make([]byte, 32)})
		if err != nil {
			t.Fatal(err)
		}
		r, err := session.New(session.Options{Store: store, Dialer: simDialer{}, Faces: fakeFaces{}, Handles: handles})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		r.Late()
		synctest.Wait()
		entries, err := store.List(t.Context(), "", "", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			t.Errorf("%s = %s", e.Key, e.Value)
		}
	})
}
