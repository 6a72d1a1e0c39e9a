package jsonrpc

import (
	"bytes"
	"maps"
)

// Equal says whether two texts are the same JSON value: members in any order,
// strings decoded, numbers by value. Texts that ParseValue refuses are equal only
// if their bytes are.
func Equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := ParseValue(a)
	if err != nil {
		return false
	}
	y, err := ParseValue(b)
	return err == nil && equalValues(x, y)
}

// equalValues recurses no deeper than ParseValue's depth limit.
func equalValues(x, y Value) bool {
	t := x.Type()
	if t != y.Type() {
		return false
	}
	if bytes.Equal(x.Raw(), y.Raw()) {
		return true
	}
	switch t {
	case String:
		return string(appendUnescaped(nil, inner(x), keepSurrogates)) == string(appendUnescaped(nil, inner(y), keepSurrogates))
	case Number:
		return string(splitNumber(x.Raw()).appendCanonical(nil)) == string(splitNumber(y.Raw()).appendCanonical(nil))
	case Array:
		return equalElems(x, y)
	case Object:
		return equalMembers(x, y)
	}
	return false
}

func inner(v Value) []byte {
	raw := v.Raw()
	return raw[1 : len(raw)-1]
}

func equalElems(x, y Value) bool {
	j, end := y.i+1, y.node().next
	for e := range x.children() {
		if j >= end || !equalValues(e, Value{y.d, j, y.i}) {
			return false
		}
		j = y.d.nodes[j].next
	}
	return j == end
}

// equalMembers needs no more than a look-up each way: ParseValue let no repeated
// member pass.
func equalMembers(x, y Value) bool {
	count := y.Len()
	if count != x.Len() {
		return false
	}
	get := y.Get
	if count > maxPairwise {
		byKey := maps.Collect(y.Members())
		get = func(key string) Value { return byKey[key] }
	}
	for key, v := range x.Members() {
		if other := get(key); !other.Exists() || !equalValues(v, other) {
			return false
		}
	}
	return true
}
