package compare_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"taskbridge/translate/compare"
)

// Sessions that ask the same are told apart by what came of it, also where a
// part of that is another now.
func TestFaultsInSessionsAlike(t *testing.T) {
	own := func(ids string, bad ...string) string {
		var b strings.Builder
		for i, id := range strings.Split(ids, "") {
			text := strings.ReplaceAll(fmt.Sprintf(session, id, i), id+"-00000", "number "+strings.ToLower(id))
			for _, x := range bad {
				if x == id {
					text = strings.Replace(text, "You like red", "You like blue", 1)
				}
			}
			b.WriteString(text)
		}
		return b.String()
	}
	r := compare.Captures(gather(own("ABCDE")), gather(own("EDCBA", "B", "D")), threshold)
	found := differences(r)
	if len(found) != 2 || found[0].Was != `"You like red"` || found[1].Now != `"You like blue"` {
		t.Error(list(found))
	}
}

// Modern clients have no sessions: what they ask at once may come in any order.
func TestModernInAnyOrder(t *testing.T) {
	calls := func(order []int) string {
		var b strings.Builder
		b.WriteString("@ era=modern client=me/1 transport=http\n")
		for _, n := range order {
			fmt.Fprintf(&b, "> s%d %d tools/call {\"name\":\"next\"}\n", n, n)
		}
		for i := range order {
			n := order[len(order)-1-i]
			fmt.Fprintf(&b, "< s%d %d = {\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"%d\"}]}\n", n, n, n)
		}
		return b.String()
	}
	whole := gather(calls([]int{0, 1, 2, 3, 4, 5, 6, 7}))
	for seed := range uint64(10) {
		r := compare.Captures(whole, gather(calls(rand.New(rand.NewPCG(seed, 2)).Perm(8))), compare.Options{})
		if found := differences(r); len(found) > 0 || r.Counts().Same != 8 {
			t.Errorf("%s", list(found))
		}
	}
	bad := strings.Replace(calls([]int{3, 1, 2, 0, 4, 5, 6, 7}), `"text":"5"`, `"text":"five"`, 1)
	if found := differences(compare.Captures(whole, gather(bad), compare.Options{})); len(found) != 1 || found[0].Was != `"5"` {
		t.Errorf("%s", list(found))
	}
}
