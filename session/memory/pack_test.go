package memory

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"taskbridge/session"
	"taskbridge/session/storetest"
)

// packing is a store that packs whatever is two large writes old.
func packing() *Store {
	s := New()
	s.written.size = 2
	return s
}

// TestPack_Suite: a store that packs is a store like any other.
func TestPack_Suite(t *testing.T) {
	storetest.Run(t, func(*testing.T) session.Store { return packing() })
}

func state(i int) []byte {
	return fmt.Appendf(nil, `{"w":{"forget":"2000-01-01T01:10:00Z"},"r":"rJAhR6vHj","Live":true,"Owner":"%043d","As":"%043d","Session":"%024d","Status":"working","Text":%q}`, i, i, i, strings.Repeat("é\x00", 40))
}

// TestPack: what is packed comes back as it was put, by every way there is.
func TestPack(t *testing.T) {
	ctx, s := context.Background(), packing()
	const n = 20
	key := func(i int) string { return fmt.Sprintf("op/x:%02d", i) }
	for i := range n {
		if _, err := s.Put(ctx, key(i), state(i), session.Absent); err != nil {
			t.Fatal(err)
		}
	}
	packed := 0
	for _, k := range s.keys {
		if k.packed > 0 {
			packed++
			if len(k.entry.Value) >= int(k.packed)/2 {
				t.Errorf("%d bytes packed into %d", k.packed, len(k.entry.Value))
			}
		}
	}
	if packed != n-2 {
		t.Errorf("%d packed, want all but the newest two", packed)
	}
	e, err := s.Get(ctx, key(3))
	if err != nil || !bytes.Equal(e.Value, state(3)) {
		t.Errorf("got %v, %q", err, e.Value)
	}
	list, err := s.List(ctx, "op/x:", "", 0)
	if err != nil || len(list) != n {
		t.Fatalf("%d, %v", len(list), err)
	}
	for i, e := range list {
		if !bytes.Equal(e.Value, state(i)) {
			t.Errorf("listed %d: %q", i, e.Value)
		}
	}
	// Written again it is plain; with its old version it is not.
	if _, err := s.Put(ctx, key(3), []byte("short"), e.Version); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Get(ctx, key(3)); err != nil || string(e.Value) != "short" {
		t.Errorf("written again: %v, %q", err, e.Value)
	}
	if v, err := s.Take(ctx, key(4)); err != nil || !bytes.Equal(v, state(4)) {
		t.Errorf("taken: %v, %q", err, v)
	}
	if err := s.Delete(ctx, key(5), session.Any); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(ctx, key(5)); err == nil {
		t.Error("deleted and still there")
	}
}

// TestPack_Incompressible: what packing does not shorten stays.
func TestPack_Incompressible(t *testing.T) {
	ctx, s := context.Background(), packing()
	raw := make([]byte, 400)
	for i := range raw {
		raw[i] = byte(i * i * 7919 >> 3)
	}
	for i := range 5 {
		if _, err := s.Put(ctx, fmt.Sprint(i), raw, session.Any); err != nil {
			t.Fatal(err)
		}
	}
	if e, err := s.Get(ctx, "0"); err != nil || !bytes.Equal(e.Value, raw) {
		t.Errorf("%v, %x", err, e.Value)
	}
}

func TestPack_Concurrent(t *testing.T) {
	ctx, s := context.Background(), packing()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				key := fmt.Sprint("k", (g*31+i)%17)
				switch i % 4 {
				case 0, 1:
					s.Put(ctx, key, state(i%9), session.Any)
				case 2:
					if e, err := s.Get(ctx, key); err == nil && !bytes.HasPrefix(e.Value, []byte(`{"w":`)) {
						t.Errorf("got %q", e.Value)
					}
				default:
					if v, err := s.Take(ctx, key); err == nil && !bytes.HasSuffix(v, []byte(`}`)) {
						t.Errorf("took %q", v)
					}
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkPack(b *testing.B) {
	for i := range b.N {
		squeeze(state(i))
	}
}

func BenchmarkUnpack(b *testing.B) {
	raw := state(1)
	packed := squeeze(raw)
	for range b.N {
		open(session.Entry{Value: packed}, int32(len(raw)))
	}
}
