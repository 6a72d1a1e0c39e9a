package jsonrpc

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestAppendString(t *testing.T) {
	for s, want := range map[string]string{
		"": `""`, "a": `"a"`, "<b>&\u2028é😀": "\"<b>&\u2028é😀\"", "\"\\/": `"\"\\/"`, "\n\r\t\b\f\x00\x1f\x7f": "\"\\n\\r\\t\\u0008\\u000c\\u0000\\u001f\x7f\"",
		"a\xFFb": "\"a\uFFFDb\"", "\xED\xA0\xBDx": `"\ud83dx"`, "\xED\xBF\xBF": `"\udfff"`, "\xED\xA0": "\"\uFFFD\uFFFD\"", "\uFFFD": "\"\uFFFD\"", "\xC3": "\"\uFFFD\"",
	} {
		if got := string(Quote(s)); got != want || !json.Valid([]byte(got)) {
			t.Errorf("Quote(%q) is %s, want %s", s, got, want)
		}
	}
	if got := string(AppendString([]byte("x"), "y")); got != `x"y"` {
		t.Error(got)
	}
}

func TestMessageBuilders(t *testing.T) {
	for _, c := range []struct {
		got  []byte
		want string
		kind Kind
	}{
		{NewResult(IntID(1), []byte(`{"a":1}`)), `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`, Response},
		{NewError(StringID("x"), -32602, "bad \"x\"", nil), `{"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"bad \"x\""}}`, ErrorResponse},
		{NewError(ID{}, -32700, "", []byte(`{}`)), `{"jsonrpc":"2.0","error":{"code":-32700,"message":"","data":{}}}`, ErrorResponse},
		{NewError(NullID(), -32700, "", nil), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":""}}`, ErrorResponse},
		{NewRequest(IntID(7), "tasks/get", []byte(`{"taskId":"t"}`)), `{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"taskId":"t"}}`, Request},
		{NewRequest(IntID(7), "ping", nil), `{"jsonrpc":"2.0","id":7,"method":"ping"}`, Request},
		{NewNotification("notifications/tasks", []byte(`{}`)), `{"jsonrpc":"2.0","method":"notifications/tasks","params":{}}`, Notification},
	} {
		if string(c.got) != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
		if m := mustDecode(t, string(c.got)); m.Kind != c.kind {
			t.Errorf("%s is a %v", c.got, m.Kind)
		}
	}
}

func TestObjectBuilder(t *testing.T) {
	if got := string(NewObject().Bytes()); got != "{}" {
		t.Error(got)
	}
	b := NewObject().Str("s", "a<").Int("i", -1).Null("n").Raw("r", []byte("[1]"))
	if got := string(b.Bytes()); got != `{"s":"a<","i":-1,"n":null,"r":[1]}` {
		t.Error(got)
	}
	if got := string(b.Str(`"`, "").Bytes()); got != `{"s":"a<","i":-1,"n":null,"r":[1],"\"":""}` {
		t.Error(got)
	}
}

func TestCompact(t *testing.T) {
	raw := "{\r\n \"a\" : [1,\n2,\r3], \"b\":\"x\\n y\"\n}\n"
	if got := string(Compact(nil, []byte(raw))); got != `{ "a" : [1,2,3], "b":"x\n y"}` || !Equal([]byte(got), []byte(raw)) {
		t.Error(got)
	}
	if got := string(Compact([]byte("p"), []byte("1"))); got != "p1" {
		t.Error(got)
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\xFF\"\n")
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseValue(Quote(s))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := v.Str(); utf8.ValidString(s) && got != s {
			t.Errorf("%q became %q", s, got)
		}
	})
}
