package memory_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/session/storetest"
)

func open(t *testing.T) session.Store {
	s := memory.New()
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, open)
	storetest.RunVirtual(t, open)
}

func TestValuesAreShared(t *testing.T) {
	s := memory.New()
	v := []byte("value")
	if _, err := s.Put(t.Context(), "k", v, session.Absent); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Get(t.Context(), "k"); err != nil || &e.Value[0] != &v[0] {
		t.Fatalf("Get copied: %v", err)
	}
}

// TestAgainstModel compares the ordered list with a sorted slice.
func TestAgainstModel(t *testing.T) {
	s := memory.New()
	model := map[string]bool{}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		k := fmt.Sprintf("%d/%d", r.IntN(5), r.IntN(200))
		switch r.IntN(3) {
		case 0, 1:
			_, err := s.Put(t.Context(), k, nil, session.Any)
			if err != nil {
				t.Fatal(err)
			}
			model[k] = true
		case 2:
			if err := s.Delete(t.Context(), k, session.Any); err != nil {
				t.Fatal(err)
			}
			delete(model, k)
		}
		if r.IntN(100) > 0 {
			continue
		}
		prefix := fmt.Sprintf("%d/", r.IntN(6))
		after := fmt.Sprintf("%d/%d", r.IntN(6), r.IntN(200))
		var want, got []string
		for k := range model {
			if strings.HasPrefix(k, prefix) && k > after {
				want = append(want, k)
			}
		}
		slices.Sort(want)
		es, err := s.List(t.Context(), prefix, after, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range es {
			got = append(got, e.Key)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("List(%q, %q) = %q, want %q", prefix, after, got, want)
		}
	}
}

// BenchmarkList lists one owner's ten records among 100,000.
func BenchmarkList(b *testing.B) {
	s := memory.New()
	for i := range 100_000 {
		if _, err := s.Put(b.Context(), fmt.Sprintf("task/%d/%d", i/10, i), nil, session.Any); err != nil {
			b.Fatal(err)
		}
	}
	i := 0
	for b.Loop() {
		i++
		es, err := s.List(b.Context(), fmt.Sprintf("task/%d/", i%10_000), "", 100)
		if err != nil || len(es) != 10 {
			b.Fatal(len(es), err)
		}
	}
}

func BenchmarkPutDelete(b *testing.B) {
	s := memory.New()
	for i := range 100_000 {
		_, _ = s.Put(b.Context(), fmt.Sprintf("task/%d", i), nil, session.Any)
	}
	i := 0
	for b.Loop() {
		i++
		k := fmt.Sprintf("call/%d", i)
		_, _ = s.Put(b.Context(), k, nil, session.Absent)
		_, _ = s.Take(b.Context(), k)
	}
}
