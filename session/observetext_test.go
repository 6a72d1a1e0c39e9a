package session

import (
	"slices"
	"strings"
	"testing"
)

func TestShownError(t *testing.T) {
	handle := "tb1_" + strings.Repeat("aZ-_9", 20)
	for _, tt := range []struct {
		text string
		ids  []string
		want string
	}{
		{"", []string{""}, ""},
		{"took 17 s", []string{"7", ""}, "took 17 s"},
		{"Task W3SIQWCZ226IALM6 was cancelled", []string{"W3SIQWCZ226IALM6"}, "Task … was cancelled"},
		{"no " + handle + ", no " + handle[:9], nil, "no …, no …"},
		{strings.Repeat("x", MaxShown-9) + handle, nil, strings.Repeat("x", MaxShown-9) + "…"},
	} {
		if got := shownError(tt.text, tt.ids...); got != tt.want {
			t.Errorf("%q without %q: %q, want %q", tt.text, tt.ids, got, tt.want)
		}
	}
}

// TestRequest_TaskIDs: a client's handle stands for the server's id, too, which
// servers name in their errors.
func TestRequest_TaskIDs(t *testing.T) {
	h, err := NewHandles([][]byte{[]byte(strings.Repeat("k", 32))})
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range []Principal{"", "somebody"} {
		handle := h.SealTask(TaskRef{Upstream: "u", ID: "of-the-server", Principal: owner})
		q := Request{Who: Who{Principal: "somebody", Open: owner == ""}, Task: `"` + handle + `"`}
		if got := q.taskIDs(h); !slices.Equal(got, []string{"of-the-server", handle}) {
			t.Errorf("%q: %q", owner, got)
		}
	}
	if got := (&Request{Task: `7`}).taskIDs(h); got != nil {
		t.Errorf("a number: %q", got)
	}
}
