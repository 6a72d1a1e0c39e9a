package session

import (
	"slices"
	"testing"
)

// TestCandidates: few are looked at, the oldest first, each once, some of all ages.
func TestCandidates(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 33, 63, 64, 65, 100, 10_000} {
		got := candidates(n)
		if len(got) != min(n, evictLooks) {
			t.Errorf("of %d: %d", n, len(got))
		}
		if !slices.IsSortedFunc(got, func(a, b int) int { return b - a }) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("of %d: %v", n, got)
		}
		if n > 0 && (got[0] != n-1 || got[len(got)-1] < 0 || n > 1000 && got[len(got)-1] > n/16) {
			t.Errorf("of %d: from %d to %d", n, got[0], got[len(got)-1])
		}
	}
}
