package compare

import (
	"strings"
	"testing"
)

func TestShowBoth(t *testing.T) {
	long := strings.Repeat("é", 300)
	for _, c := range []struct{ a, b, was, now string }{
		{`"a"`, `"b"`, `"a"`, `"b"`},
		{`{"x":1}`, `[2]`, `{"x":1}`, `[2]`},
		{`"` + long + `a"`, `"` + long + `b"`, `éa"`, `éb"`},
		{`"a` + long + `"`, `"b` + long + `"`, `"aé`, `"bé`},
	} {
		was, now := showBoth(parse([]byte(c.a)), parse([]byte(c.b)))
		if !strings.Contains(was, c.was) || !strings.Contains(now, c.now) || len(was)+len(now) > 2*(maxShown+10) {
			t.Errorf("%s and %s: %s, %s", c.a, c.b, was, now)
		}
	}
}

func TestUnified(t *testing.T) {
	got := unified(parse([]byte(`{"a":[1,2,{"b":"x"}],"c":"one\ntwo"}`)), parse([]byte(`{"a":[1,2,{"b":"y"}],"c":"one\ntwo"}`)))
	if !strings.Contains(got, "-      \"b\": \"x\"\n+      \"b\": \"y\"\n") {
		t.Error(got)
	}
	if got := unified(str("a\nb\nc"), str("a\nB\nc")); !strings.Contains(got, "-b\n+B\n") {
		t.Error(got)
	}
	many := strings.Repeat("line\n", 200)
	if got := unified(str(many), str(strings.ReplaceAll(many, "l", "L"))); strings.Count(got, "\n") != maxDiffLines+1 || !strings.HasSuffix(got, "…\n") {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
	if got := unified(str("a"), str("b")); got != "" {
		t.Error(got)
	}
}

func TestPathText(t *testing.T) {
	got := pathText([]step{member("result"), {name: "a'b\n", key: "name"}, {index: 3}, member("x-y"), member("_z1")})
	if want := `$.result[?@.name=='a\'b\n'][3]['x-y']._z1`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
