package translate

import (
	"regexp"
	"testing"
)

// Every loss has a name that can be a metric label, a direction and words.
func TestLosses(t *testing.T) {
	label := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	seen := map[string]bool{}
	for _, l := range Losses() {
		if !label.MatchString(l[0]) || seen[l[0]] {
			t.Errorf("loss %q: bad or repeated name", l[0])
		}
		seen[l[0]] = true
		if l[1] == "" || l[2] == "" {
			t.Errorf("loss %q: no direction or description", l[0])
		}
	}
	for _, c := range constants(t, "losses.go", "Loss") {
		if !seen[c] {
			t.Errorf("loss %q has no row", c)
		}
		delete(seen, c)
	}
	for c := range seen {
		t.Errorf("row %q has no constant", c)
	}
}
