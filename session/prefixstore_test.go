package session_test

import (
	"context"
	"testing"

	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/session/storetest"
)

func TestRoutePrefixStore(t *testing.T) {
	open := func(t *testing.T) session.Store {
		st := memory.New()
		// Neighbours on both sides, which must not be seen.
		for _, key := range []string{"", "u", "u/a", "u/b/", "u/a0", "v"} {
			if key == "" {
				continue
			}
			if _, err := st.Put(t.Context(), key, []byte("x"), session.Absent); err != nil {
				t.Fatal(err)
			}
		}
		p := session.PrefixStore(st, "u/a/")
		t.Cleanup(func() {
			_ = p.Close()
			if _, err := st.Get(context.Background(), "u/a0"); err != nil {
				t.Errorf("the store below was closed or changed: %v", err)
			}
			_ = st.Close()
		})
		return p
	}
	storetest.Run(t, open)
	storetest.RunVirtual(t, open)
}
