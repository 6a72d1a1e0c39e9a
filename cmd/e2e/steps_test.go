package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The tables of steps say what a client must print, a JSON object a line, the
// last {"ok":true} left out. "*" stands for any value, a text that ends in "*"
// for any that begins so; an element of a list that begins with "?" may be
// missing (what a poll may miss on a slow machine), and so may a step that does.

// differs says where run is not what want says; "" is nowhere. Questions are
// compared in their own order: on a slow machine one may come before or after
// the step beside it.
func differs(run clientRun, want string) string {
	var wantSteps []string
	for line := range strings.Lines(want) {
		wantSteps = append(wantSteps, strings.TrimSpace(line))
	}
	wantSteps = append(wantSteps, `{"ok":true}`)
	gotRest, gotAsked := partition(run.Lines)
	wantRest, wantAsked := partition(wantSteps)
	if d := differ(gotRest, wantRest); d != "" {
		return d
	}
	return differ(gotAsked, wantAsked)
}

func partition(lines []string) (rest, asked []string) {
	for _, line := range lines {
		if strings.Contains(line, `"step":"question"`) || strings.Contains(line, `"step":"sampling"`) {
			asked = append(asked, line)
		} else {
			rest = append(rest, line)
		}
	}
	return rest, asked
}

func differ(got, want []string) string {
	// A step that may be missing is taken out where it is.
	want = slices.Clone(want)
	for i := 0; i < len(want); i++ {
		if step, optional := strings.CutPrefix(want[i], "?"); optional {
			if want[i] = step; i >= len(got) || differ(got[i:i+1], want[i:i+1]) != "" {
				want = slices.Delete(want, i, i+1)
				i--
			}
		}
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("missing: %s", want[i])
		case i >= len(want):
			return fmt.Sprintf("too much: %s", got[i])
		}
		var g, w any
		if err := json.Unmarshal([]byte(got[i]), &g); err != nil {
			return fmt.Sprintf("no JSON: %s", got[i])
		}
		if err := json.Unmarshal([]byte(want[i]), &w); err != nil {
			return fmt.Sprintf("the table is no JSON: %s: %v", want[i], err)
		}
		if !matches(g, w) {
			return fmt.Sprintf("got  %s\nwant %s", got[i], canonical(want[i]))
		}
	}
	return ""
}

// matchList tries an optional element both ways: the same word may follow it.
func matchList(got, want []any) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	w := want[0]
	text, _ := w.(string)
	text, optional := strings.CutPrefix(text, "?")
	if optional {
		if matchList(got, want[1:]) {
			return true
		}
		w = text
	}
	return len(got) > 0 && matches(got[0], w) && matchList(got[1:], want[1:])
}

func matches(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(want) {
			return false
		}
		for name, w := range want {
			if v, ok := g[name]; !ok || !matches(v, w) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok {
			return false
		}
		return matchList(g, want)
	case string:
		if want == "*" {
			return true
		}
		g, ok := got.(string)
		if prefix, found := strings.CutSuffix(want, "*"); found {
			return ok && strings.HasPrefix(g, prefix)
		}
		return ok && g == want
	default:
		return reflect.DeepEqual(got, want)
	}
}

// everythingOnly are scenarios for the server "everything".
func everythingOnly(scenario string) bool { return strings.HasPrefix(scenario, "everything") }

// complete makes sure that a table covers every scenario a client has.
func complete[V any](t *testing.T, client peer, table map[string]V) []string {
	t.Helper()
	names := slices.DeleteFunc(slices.Clone(scenariosOf(t, client)), everythingOnly)
	have := slices.Sorted(maps.Keys(table))
	slices.Sort(names)
	if !slices.Equal(names, have) {
		t.Errorf("scenarios of %s:\n%v\nin the table:\n%v", client.name, names, have)
	}
	return names
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		got, want string
		ok        bool
	}{
		{`{"a":1}`, `{"a":1}`, true},
		{`{"a":1,"b":2}`, `{"a":1}`, false},
		{`{"a":"x y"}`, `{"a":"x *"}`, true},
		{`{"a":null}`, `{"a":"*"}`, true},
		{`{"a":["x","z"]}`, `{"a":["x","?y","z"]}`, true},
		{`{"a":["x","y","z"]}`, `{"a":["x","?y","z"]}`, true},
		{`{"a":["x","w","z"]}`, `{"a":["x","?y","z"]}`, false},
		{`{"a":[]}`, `{"a":["x"]}`, false},
		{`{"a":1}`, `?{"a":1}`, true},
		{`{"a":2}`, `?{"a":1}`, false},
	} {
		if d := differ([]string{c.got}, []string{c.want}); (d == "") != c.ok {
			t.Errorf("%s against %s: %q", c.got, c.want, d)
		}
	}
}
