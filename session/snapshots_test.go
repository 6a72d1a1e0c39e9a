package session_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"taskbridge/session"
)

func TestSnapshots(t *testing.T) {
	val := func(n int) []byte { return make([]byte, n) }
	has := func(s *session.Snapshots, keys string) {
		t.Helper()
		n := 0
		for _, k := range "abcdefghij" {
			_, ok := s.Get(string(k))
			if ok {
				n++
			}
			want := false
			for _, w := range keys {
				want = want || w == k
			}
			if ok != want {
				t.Errorf("%c is there: %v, want %v", k, ok, want)
			}
		}
		if s.Len() != n {
			t.Errorf("Len = %d, there are %d", s.Len(), n)
		}
	}

	s := session.NewSnapshots(3, 1000)
	for _, k := range []string{"a", "b", "c"} {
		s.Put(k, val(9))
	}
	has(s, "abc")
	s.Get("a")
	s.Put("d", val(9))
	has(s, "acd")
	if s.Bytes() != 30 {
		t.Errorf("Bytes = %d, want 30", s.Bytes())
	}
	s.Put("a", val(19))
	if s.Bytes() != 40 {
		t.Errorf("Bytes = %d after a value grew, want 40", s.Bytes())
	}
	if v, ok := s.Get("a"); !ok || len(v) != 19 {
		t.Errorf("a has %d bytes", len(v))
	}
	s.Delete("c")
	s.Delete("c")
	has(s, "ad")
	if s.Bytes() != 30 {
		t.Errorf("Bytes = %d after Delete, want 30", s.Bytes())
	}
	s.Purge()
	has(s, "")
	if s.Bytes() != 0 {
		t.Errorf("Bytes = %d after Purge", s.Bytes())
	}

	s = session.NewSnapshots(100, 80)
	for _, k := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		s.Put(k, val(9))
	}
	has(s, "abcdefgh")
	s.Put("i", val(0)) // one byte: the oldest goes
	has(s, "bcdefghi")
	s.Put("j", val(10)) // over 1/8
	has(s, "bcdefghi")
	s.Put("b", val(10)) // over 1/8: the old state must not stay either
	has(s, "cdefghi")
	if s.Bytes() != 61 {
		t.Errorf("Bytes = %d, want 61", s.Bytes())
	}
}

func TestSnapshotsConcurrently(t *testing.T) {
	s := session.NewSnapshots(50, 4000)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				k := fmt.Sprint(rand.IntN(100))
				switch rand.IntN(4) {
				case 0:
					s.Delete(k)
				case 1:
					s.Get(k)
				default:
					s.Put(k, make([]byte, rand.IntN(600)))
				}
				if n, b := s.Len(), s.Bytes(); n > 50 || b > 4000 || b < 0 {
					t.Errorf("%d entries, %d bytes", n, b)
				}
			}
		})
	}
	wg.Wait()
	s.Purge()
	if s.Bytes() != 0 || s.Len() != 0 {
		t.Errorf("%d entries, %d bytes after Purge", s.Len(), s.Bytes())
	}
}

func TestSnapshotsDefaults(t *testing.T) {
	s := session.NewSnapshots(0, 0)
	for i := range session.DefaultSnapshots + 10 {
		s.Put(fmt.Sprint(i), nil)
	}
	if s.Len() != session.DefaultSnapshots {
		t.Errorf("%d entries", s.Len())
	}
}
