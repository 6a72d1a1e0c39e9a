package jsonrpc

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func parse(t testing.TB, raw string) Value {
	t.Helper()
	v, err := ParseValue([]byte(raw))
	if err != nil {
		t.Fatalf("ParseValue(%.100s): %v", raw, err)
	}
	return v
}

func TestValueAbsent(t *testing.T) {
	var v Value
	if v.Exists() || v.Raw() != nil || v.Type() != Absent || v.Tracked() || v.Key() != "" || v.Len() != 0 || v.Get("a").Exists() || v.Is("") {
		t.Error("the zero Value is not absent")
	}
	if _, ok := v.Str(); ok {
		t.Error("Str")
	}
	if _, ok := v.Int(); ok {
		t.Error("Int")
	}
	if _, ok := v.Float(); ok {
		t.Error("Float")
	}
	if _, ok := v.Bool(); ok {
		t.Error("Bool")
	}
	for range v.Members() {
		t.Error("Members")
	}
	for range v.Elems() {
		t.Error("Elems")
	}
	if _, err := v.Parse(); err == nil {
		t.Error("Parse")
	}
	if m := mustDecode(t, `{"jsonrpc":"2.0","method":"m"}`); m.Params().Exists() || m.Result().Exists() || m.Error().Exists() || m.At("a", "b").Exists() {
		t.Error("members of an envelope that has none")
	}
}

func TestValueAccess(t *testing.T) {
	m := mustDecode(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":{"b":[true,null]}},
		"_meta":{"progressToken":"p\u0031","x":[ ]},"task":{}}}`)
	if s, ok := m.At("params", "_meta", "progressToken").Str(); !ok || s != "p1" || !m.At("params", "_meta", "progressToken").Is("p1") {
		t.Errorf("progressToken %q", s)
	}
	var keys []string
	for key := range m.Params().Members() {
		keys = append(keys, key)
	}
	if !slices.Equal(keys, []string{"name", "arguments", "_meta", "task"}) || m.Params().Len() != 4 {
		t.Error(keys)
	}
	args := m.At("params", "arguments")
	if args.Type() != Object || args.Tracked() || args.Len() != 0 {
		t.Error("arguments are tracked")
	}
	parsed, err := args.Parse()
	if err != nil {
		t.Fatal(err)
	}
	var types []Type
	for e := range parsed.Get("a").Get("b").Elems() {
		types = append(types, e.Type())
	}
	if !slices.Equal(types, []Type{Bool, Null}) {
		t.Error(types)
	}
	for range parsed.Members() {
		break // an early end is fine
	}
	if b, ok := parse(t, "true").Bool(); !b || !ok {
		t.Error("Bool of true")
	}
	if b, ok := parse(t, "false").Bool(); b || !ok {
		t.Error("Bool of false")
	}
}

func TestValueInt(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want int64
		ok   bool
	}{
		{"0", 0, true}, {"-0", 0, true}, {"0.000", 0, true}, {"0e99999999999999999999999", 0, true}, {"-0.0e-5", 0, true},
		{"1", 1, true}, {"-17", -17, true}, {"1500.0", 1500, true}, {"1.5e3", 1500, true}, {"1.5E+3", 1500, true}, {"15000e-1", 1500, true},
		{"0.0015e6", 1500, true}, {"100", 100, true}, {"1e15", 1e15, true}, {"9e15", 9e15, true},
		{"9007199254740991", 1<<53 - 1, true}, {"-9007199254740991", -(1<<53 - 1), true}, {"9007199254740991.00", 1<<53 - 1, true},
		{"9007199254740992", 0, false}, {"-9007199254740992", 0, false}, {"1e16", 0, false}, {"9223372036854775807", 0, false},
		{"1.5", 0, false}, {"15e-1", 0, false}, {"1e-1", 0, false}, {"0.1", 0, false},
		{"1e1000000", 0, false}, {"1e-1000000", 0, false}, {"1e999999999999999999999999", 0, false}, {"1e-999999999999999999999999", 0, false},
		{"1e0000000000000000000000000002", 100, true}, {`"1"`, 0, false}, {"null", 0, false},
		{"1" + strings.Repeat("0", 30) + "e-30", 1, true}, {"0." + strings.Repeat("0", 30) + "7e31", 7, true},
	} {
		if got, ok := parse(t, c.raw).Int(); got != c.want || ok != c.ok {
			t.Errorf("Int of %s is %d, %v", c.raw, got, ok)
		}
	}
}

func TestValueFloat(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want float64
		ok   bool
	}{{"1.5", 1.5, true}, {"-2e3", -2000, true}, {"1e-1000000", 0, true}, {"9007199254740993", 1 << 53, true}, {`"1"`, 0, false}} {
		if got, ok := parse(t, c.raw).Float(); got != c.want || ok != c.ok {
			t.Errorf("Float of %s is %v, %v", c.raw, got, ok)
		}
	}
	if f, ok := parse(t, "1e1000000").Float(); ok || !math.IsInf(f, 1) {
		t.Error(f, ok)
	}
}

func TestStr(t *testing.T) {
	for raw, want := range map[string]string{
		`""`: "", `"a"`: "a", `"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t", `"\u00e9\u0000"`: "é\x00", `"\ud83d\ude00"`: "😀",
		`"\ud83d"`: "\uFFFD", `"\ude00\ud83d"`: "\uFFFD\uFFFD", `"\ud83d\ud83d\ude00"`: "\uFFFD😀", `"\ud83d\n"`: "\uFFFD\n", `"\ud83dx"`: "\uFFFDx", `"\ufffd"`: "\uFFFD", `"é😀"`: "é😀",
	} {
		if got, ok := parse(t, raw).Str(); !ok || got != want {
			t.Errorf("Str of %s is %q", raw, got)
		}
	}
}

func TestIDKey(t *testing.T) {
	id := func(raw string) ID {
		t.Helper()
		id, err := IDFromRaw([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if string(id.Raw()) != raw || id.String() != raw {
			t.Errorf("id %s became %s", raw, id)
		}
		return id
	}
	same := [][]string{
		{"1", "1.0", "1e0", "1E+0", "10e-1", "0.1e1", "0.01e2", "100e-2", "1.000e0000", "1e-0", "1e00000000000000000000000000000"},
		{"-1", "-1.0", "-10e-1"},
		{"0", "-0", "0.0", "0e5", "-0e-99999999999999999999999999", "0.000e1"},
		{"100", "1e2", "1.00e2", "1000e-1"},
		{"1e1000000", "10e999999", "0.1e1000001", "1.0E1000000"},
		{"1e-1000000", "0.1e-999999"},
		{"1e1000000000000000000", "10e999999999999999999", "0.1e1000000000000000001", "1e0001000000000000000000"},
		{"1e-1000000000000000000", "0.1e-999999999999999999", "10e-1000000000000000001"},
		{"1e9999999999999999999", "0.1e10000000000000000000", "100e9999999999999999997"},
		{"1e-9999999999999999999", "10e-10000000000000000000", "0.01e-9999999999999999997"},
		{"1e100000000000000000", "10e99999999999999999", "0.1e100000000000000001"},
		{"1e-100000000000000000", "10e-100000000000000001", "0.1e-99999999999999999"},
		{"9007199254740993", "9007199254740993.0"}, {"9007199254740992"},
		{"12.5", "125e-1", "1.25e1"}, {"1.5"}, {"15"},
		{`"1"`}, {`"1.0"`}, {`""`},
		{`"a"`, `"\u0061"`}, {`"A"`}, {`"é"`, `"\u00e9"`, `"\u00E9"`}, {`"😀"`, `"\ud83d\ude00"`},
		{`"\ud83d"`, `"\uD83D"`}, {`"\ud83e"`}, {`"\ufffd"`, "\"\uFFFD\""}, {`"/"`, `"\/"`}, {`"null"`}, {`"\""`},
	}
	owner := map[string]int{}
	for i, group := range same {
		for _, raw := range group {
			if j, taken := owner[id(raw).Key()]; taken && j != i {
				t.Errorf("%s has the key of %s", raw, same[j][0])
			}
			owner[id(raw).Key()] = i
			if id(raw).Key() != id(group[0]).Key() {
				t.Errorf("keys of %s and %s differ: %s, %s", group[0], raw, id(group[0]).Key(), id(raw).Key())
			}
		}
	}
}

func TestIDConstructors(t *testing.T) {
	if IntID(-5).String() != "-5" || StringID("a\"\n<").String() != `"a\"\n<"` {
		t.Error(IntID(-5), StringID("a\"\n<"))
	}
	if !(ID{}).IsZero() || (ID{}).Raw() != nil || !NullID().IsZero() || NullID().String() != "null" || IntID(0).IsZero() || StringID("").IsZero() {
		t.Error("zero ids")
	}
	for _, raw := range []string{"", "null", "true", "{}", "[1]", "1 ", " 1", `"a`, `a`, "01", "\"\xFF\""} {
		if _, err := IDFromRaw([]byte(raw)); err == nil {
			t.Errorf("%q passes as an id", raw)
		}
	}
}

// Numbers by digits: what cannot be expanded must not cost anything.
func TestHugeNumbersAreCheap(t *testing.T) {
	start := time.Now()
	for _, raw := range []string{"1e1000000", "1e999999999", "-1e-999999999", "1e" + strings.Repeat("9", 100000), strings.Repeat("9", 100000) + "e-" + strings.Repeat("9", 100000)} {
		v := parse(t, raw)
		v.Int()
		v.Float()
		id, err := IDFromRaw([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if key := id.Key(); len(key) > len(raw)+2 {
			t.Errorf("key of %.20s has %d bytes", raw, len(key))
		}
		if Equal([]byte(raw), []byte("1")) {
			t.Errorf("%.20s equals 1", raw)
		}
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("took %v", d)
	}
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[1,2]}`, ` { "b" : [1.0,2e0], "\u0061":1 } `, true},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`{"a":1,"b":2}`, `{"a":1}`, false},
		{`{"a":1}`, `{"b":1}`, false},
		{`{"a":null}`, `{}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`[1,2]`, `[1]`, false},
		{`[1]`, `[1,2]`, false},
		{`[]`, `{}`, false},
		{`[[],{}]`, `[ [ ], { } ]`, true},
		{`"\u00e9"`, `"é"`, true},
		{`"\ud83d"`, `"\ufffd"`, false},
		{`1`, `"1"`, false},
		{`true`, `false`, false},
		{`true`, ` true`, true},
		{`null`, `false`, false},
		{`1e1000000`, `10e999999`, true},
		{`1e1000000`, `1e1000001`, false},
		{`9007199254740993`, `9007199254740992`, false},
		{`{"a":1,"a":1}`, `{"a":1}`, false},
		{`x`, `x`, true},
		{`x`, `y`, false},
		{`1`, `x`, false},
	} {
		if got := Equal([]byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("Equal(%s, %s) is %v", c.a, c.b, got)
		}
	}
	big, reversed := NewObject(), NewObject()
	for i := range 1000 {
		big.Int(strings.Repeat("k", i), int64(i))
		reversed.Int(strings.Repeat("k", 999-i), int64(999-i))
	}
	if !Equal(big.Bytes(), reversed.Bytes()) || Equal(big.Bytes(), reversed.Int("z", 1).Bytes()) {
		t.Error("big objects")
	}
}

func TestNames(t *testing.T) {
	for kind := range ErrorResponse + 2 {
		if known := kind >= Request && kind <= ErrorResponse; strings.HasPrefix(kind.String(), "Kind(") == known {
			t.Errorf("kind %d is %v", uint8(kind), kind)
		}
	}
	for typ := range Array + 2 {
		if strings.HasPrefix(typ.String(), "Type(") == (typ <= Array) {
			t.Errorf("type %d is %v", uint8(typ), typ)
		}
	}
}
