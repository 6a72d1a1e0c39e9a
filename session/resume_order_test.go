package session_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"taskbridge/session"
	"taskbridge/session/memory"
)

// lateStore is a store whose runners hear nothing of each other until hear is
// closed.
type lateStore struct {
	session.Store
	hear chan struct{}
}

func (s *lateStore) late(log string) bool {
	select {
	case <-s.hear:
		return false
	default:
		return strings.HasPrefix(log, "inbox/")
	}
}

func (s *lateStore) Read(ctx context.Context, log string, after uint64, limit int) ([]session.LogEntry, error) {
	if s.late(log) {
		select {
		case <-s.hear:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.Store.Read(ctx, log, after, limit)
}

func (s *lateStore) Last(ctx context.Context, log string) (uint64, error) {
	if s.late(log) {
		return 0, nil
	}
	return s.Store.Last(ctx, log)
}

// A runner says something on a stream another one holds, which hears of it late;
// meanwhile the stream is taken over and more is said. The new connection reads
// all of it in the order it was said, once; what is not taken over comes on the
// first connection in that order, under the numbers of the log.
func TestResume_InboxHeardLate(t *testing.T) {
	for _, taken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := &lateStore{memory.New(), make(chan struct{})}
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
			first := runners[0].NewStream()
			runners[0].KeepEvents(first, "s")
			runners[1].Say(first.ID, session.Out{Raw: []byte("1")})
			want := []string{"1", "2", "3"}
			if taken {
				runners[1].TakeOver(first.ID, runners[1].NewStream().ID)
			}
			runners[1].Say(first.ID, session.Out{Raw: []byte("2")})
			close(store.hear)
			synctest.Wait()
			runners[1].Say(first.ID, session.Out{Raw: []byte("3"), Final: true})
			synctest.Wait()
			entries, err := store.Read(t.Context(), "events/"+first.ID, 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			var kept []string
			for _, e := range entries {
				kept = append(kept, string(e.Value[1:]))
			}
			if !slices.Equal(kept, want) {
				t.Errorf("taken over %v: the log has %q, want %q", taken, kept, want)
			}
			var told []string
			for {
				out, ok := first.Next(t.Context())
				if out.Raw != nil {
					told = append(told, string(out.Raw))
					if !strings.HasSuffix(out.EventID, "/"+string(out.Raw)) {
						t.Errorf("%s has the id %s", out.Raw, out.EventID)
					}
				}
				if !ok || out.Final {
					break
				}
			}
			if taken {
				want = nil
			}
			if !slices.Equal(told, want) {
				t.Errorf("taken over %v: the first connection tells %q, want %q", taken, told, want)
			}
		})
	}
}
