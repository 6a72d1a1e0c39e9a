package jsonrpc

import "testing"

func TestPaths(t *testing.T) {
	p := NewPaths([][]string{{"list", "*", "inner"}, {"one"}})
	v, err := p.Parse([]byte(`{"list":[{"inner":{"x":1},"other":{"x":1,"x":2}}],"one":{"y":[1]},"two":{"z":1}}`), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var inner, other Value
	for e := range v.Get("list").Elems() {
		inner, other = e.Get("inner"), e.Get("other")
	}
	if !inner.Get("x").Exists() || other.Tracked() || !v.Get("one").Get("y").Exists() || v.Get("two").Tracked() || v.Get("one").Get("y").Tracked() {
		t.Errorf("inner %v other %v one %v two %v", inner.Tracked(), other.Tracked(), v.Get("one").Tracked(), v.Get("two").Tracked())
	}
	if _, err := p.Parse([]byte(`{"list":[{"inner":{"x":1,"x":2}}]}`), Limits{}); err == nil {
		t.Error("a repeated member of a recorded object passes")
	}
	if _, err := p.Parse([]byte(`{"list":[`), Limits{}); err == nil {
		t.Error("a cut text passes")
	}
}
