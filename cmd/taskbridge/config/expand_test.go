package config

import (
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"A": "a", "EMPTY": "", "DOLLAR": "${A}", "BIG": strings.Repeat("x", maxValue+1)}[name]
		return v, ok
	}
	for _, test := range []struct{ in, want, err string }{
		{"", "", ""},
		{"plain $A $ {A}", "plain $A $ {A}", ""},
		{"${A}", "a", ""},
		{"x${A}y${A}z", "xayaz", ""},
		{"${EMPTY}", "", ""},
		{"${EMPTY:-x}", "x", ""},
		{"${NONE:-x}", "x", ""},
		{"${NONE:-}", "", ""},
		{"${NONE:-a:-b c}", "a:-b c", ""},
		{"${A:-x}", "a", ""},
		{"$${A}", "${A}", ""},
		{"$$${A}", "$${A}", ""},
		{"$${", "${", ""},
		{"$${A}${A}", "${A}a", ""},
		{"${DOLLAR}", "${A}", ""}, // a value is never read again
		{"${NONE}", "", "environment variable NONE is not set"},
		{"${A", "", "no closing }"},
		{"${}", "", "does not hold the name"},
		{"${A-x}", "", "does not hold the name"},
		{"${1A}", "", "does not hold the name"},
		{"${A:-${A}}", "", "cannot hold another"},
		{"${BIG}", "", "longer than"},
	} {
		got, err := expand(test.in, env)
		switch {
		case test.err == "" && (err != nil || got != test.want):
			t.Errorf("%q: got %q, %v; want %q", test.in, got, err, test.want)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%q: got %q, %v; want an error with %q", test.in, got, err, test.err)
		}
	}
}
