package jsonrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func mustDecode(t testing.TB, raw string) *Message {
	t.Helper()
	m, err := Decode([]byte(raw), Limits{})
	if err != nil {
		t.Fatalf("Decode(%.200s): %v", raw, err)
	}
	return m
}

func decodeError(t testing.TB, err error) *DecodeError {
	t.Helper()
	e, ok := errors.AsType[*DecodeError](err)
	if !ok {
		t.Fatalf("error %v is no *DecodeError", err)
	}
	return e
}

func TestDecodeKinds(t *testing.T) {
	for _, c := range []struct {
		raw    string
		kind   Kind
		id     string
		method string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, Request, "1", "ping"},
		{`{"jsonrpc":"2.0","id":"a","method":"ping","params":{}}`, Request, `"a"`, "ping"},
		{`{"jsonrpc":"2.0","id":1.50,"method":"ping"}`, Request, "1.50", "ping"},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, Notification, "", "notifications/initialized"},
		{`{"method":"p\u0069ng","jsonrpc":"2.\u0030","\u0069d":7}`, Request, "7", "ping"},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, Response, "1", ""},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}`, ErrorResponse, "1", ""},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-1.0,"message":"","data":null}}`, ErrorResponse, "1", ""},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`, ErrorResponse, "null", ""},
		{`{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}`, ErrorResponse, "", ""},
		{" \r\n\t{ \"jsonrpc\" : \"2.0\" , \"id\":1, \"result\" :{ } , \"vendor\":[1,{\"a\":{}}] } \n", Response, "1", ""},
	} {
		m := mustDecode(t, c.raw)
		if m.Kind != c.kind || m.ID.String() != c.id || m.Method != c.method {
			t.Errorf("%s: got %v id %s method %q", c.raw, m.Kind, m.ID, m.Method)
		}
		if string(m.Raw) != c.raw {
			t.Errorf("Raw of %s is %s", c.raw, m.Raw)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct {
		raw  string
		code int
		id   string
	}{
		// Envelope: JSON-RPC 2.0 sections 4 and 5, narrowed by MCP.
		{`1`, CodeInvalidRequest, ""},
		{`null`, CodeInvalidRequest, ""},
		{`{}`, CodeInvalidRequest, ""},
		{`{"id":1,"method":"m"}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"1.0","id":1,"method":"m"}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":2.0,"id":1,"method":"m"}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":1}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":null,"method":"m"}`, CodeInvalidRequest, ""},
		{`{"jsonrpc":"2.0","id":true,"method":"m"}`, CodeInvalidRequest, ""},
		{`{"jsonrpc":"2.0","id":{"a":1},"method":"m"}`, CodeInvalidRequest, ""},
		{`{"jsonrpc":"2.0","id":[1],"method":"m"}`, CodeInvalidRequest, ""},
		{`{"jsonrpc":"2.0","id":1,"method":""}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":5}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":[]}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":null}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":1,"result":[]}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":1,"result":null}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":null,"result":{}}`, CodeInvalidRequest, ""},
		{`{"jsonrpc":"2.0","result":{}}`, CodeInvalidRequest, ""},
		{`{"jsonrpc":"2.0","id":1,"error":"no"}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":""}}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":null}}`, CodeInvalidRequest, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":{"message":""}}`, CodeInvalidRequest, "1"},
		{`[{"jsonrpc":"2.0","id":1,"method":"m"}]`, CodeInvalidRequest, ""},

		// Grammar.
		{``, CodeParse, ""},
		{"  ", CodeParse, ""},
		{`{`, CodeParse, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"m"`, CodeParse, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m",}`, CodeParse, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m"}}`, CodeParse, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":{"id":2,"x":]}}`, CodeParse, "1"},
		{`{"jsonrpc":"2.0","method":"m","params":{"id":2,"x":]}}`, CodeParse, ""},
		{`{jsonrpc:"2.0"}`, CodeParse, ""},
		{`{"jsonrpc" "2.0"}`, CodeParse, ""},
		{`{"a":[1,]}`, CodeParse, ""},
		{`{"a":[1 2]}`, CodeParse, ""},
		{`{"a":{"b":1,}}`, CodeParse, ""},
		{`{"a":{"b"}}`, CodeParse, ""},
		{`{"a":{1:1}}`, CodeParse, ""},
		{`{"a":[}}`, CodeParse, ""},
		{`{"a":[1}`, CodeParse, ""},
		{`{"params":{"a":1]`, CodeParse, ""},
		{`{"a":01}`, CodeParse, ""},
		{`{"a":-}`, CodeParse, ""},
		{`{"a":1.}`, CodeParse, ""},
		{`{"a":.5}`, CodeParse, ""},
		{`{"a":1e}`, CodeParse, ""},
		{`{"a":1e+}`, CodeParse, ""},
		{`{"a":+1}`, CodeParse, ""},
		{`{"a":NaN}`, CodeParse, ""},
		{`{"a":tru}`, CodeParse, ""},
		{`{"a":nul`, CodeParse, ""},
		{`{"a":truex}`, CodeParse, ""},
		{`{"a":"\x"}`, CodeParse, ""},
		{`{"a":"\u12g4"}`, CodeParse, ""},
		{`{"a":"\u123`, CodeParse, ""},
		{"{\"a\":\"line\nend\"}", CodeParse, ""},
		{"{\"a\":\"tab\there\"}", CodeParse, ""},
		{"{\"a\":\"\x00\"}", CodeParse, ""},
		{"\xEF\xBB\xBF{}", CodeParse, ""},
		{"{\"a\":1}\x00", CodeParse, ""},

		// UTF-8.
		{"{\"a\":\"\xFF\"}", CodeParse, ""},
		{"{\"a\":\"long enough for the fast path \xC3\"}", CodeParse, ""},
		{"{\"a\":\"\xED\xA0\xBD\"}", CodeParse, ""},     // a surrogate in UTF-8
		{"{\"a\":\"\xC0\x80\"}", CodeParse, ""},         // overlong
		{"{\"a\":\"\xF4\x90\x80\x80\"}", CodeParse, ""}, // above U+10FFFF
		{"{\"a\xFF\":1}", CodeParse, ""},
		{"{\"arguments\":{\"a\xFF\":1}}", CodeParse, ""},
	} {
		_, err := Decode([]byte(c.raw), Limits{})
		if err == nil {
			t.Errorf("Decode(%q) passes", c.raw)
			continue
		}
		e := decodeError(t, err)
		if e.Code != c.code || e.ID.String() != c.id || e.Offset < 0 || e.Offset > len(c.raw) {
			t.Errorf("Decode(%q): code %d id %s offset %d: %v", c.raw, e.Code, e.ID, e.Offset, e)
		}
	}
}

func TestDecodeErrorOffset(t *testing.T) {
	_, err := Decode([]byte(`{"jsonrpc":"2.0","id":5,"method":"m","params":{"a":[1,x]}}`), Limits{})
	if e := decodeError(t, err); e.Offset != 54 || !strings.Contains(err.Error(), "byte 54") {
		t.Errorf("offset %d: %v", e.Offset, err)
	}
}

func TestDecodeRepeatedMembers(t *testing.T) {
	many := func(last string) string {
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintf(&b, `"k%d":{},`, i)
		}
		return `{` + b.String() + last + `}`
	}
	call := func(params string) string { return `{"jsonrpc":"2.0","id":1,"method":"m","params":` + params + `}` }
	answer := func(result string) string { return `{"jsonrpc":"2.0","id":1,"result":` + result + `}` }
	for _, c := range []struct {
		raw     string
		refused bool
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"a","meth\u006fd":"b"}`, true},
		{`{"jsonrpc":"2.0","vendor":1,"vendor":2,"method":"a"}`, true},
		{call(`{"task":{},"\u0074ask":{}}`), true},
		{call(`{"_meta":{"progressToken":1,"progressToken":2}}`), true},
		{call(`{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"a","name":"b"}}}`), true},
		{call(`{"\u005fmeta":{"io.modelcontextprotocol\/clientCapabilities":{"extensions":{"x":1,"x":1}}}}`), true},
		{call(`{"task":{"ttl":1,"ttl":2}}`), true},
		{call(`{"inputResponses":{"k":{"action":"a","action":"b"}}}`), true},
		{call(`{"inputResponses":` + many(`"k5":{}`) + `}`), true},
		{call(`{"inputResponses":` + many(`"\u006b5":{}`) + `}`), true},
		{call(`{"inputResponses":` + many(`"k100":{}`) + `}`), false},
		{call(`{"\ud83d":1,"\ud83d":2}`), true},
		{call(`{"\ud83d":1,"\ufffd":2,"\ud83e":3}`), false},
		{call(`{"":1,"":2}`), true},
		{answer(`{"tools":[{"name":"a","execution":{"taskSupport":"x","taskSupport":"y"}}]}`), true},
		{answer(`{"tasks":[{"taskId":"a"},{"taskId":"b","taskId":"c"}]}`), true},
		{answer(`{"result":{"_meta":{"a":1,"a":1}}}`), true},
		{answer(`{"capabilities":{"tasks":{"requests":{"tools":{"call":{},"call":{}}}}}}`), true},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":2,"message":""}}`, true},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":{"requiredCapabilities":{"extensions":{"a":1,"a":1}}}}}`, true},
		// What no rule reads is the peers' own affair.
		{call(`{"arguments":{"a":1,"a":2},"_meta":{"x":{"y":{"a":1,"a":2}}}}`), false},
		{answer(`{"content":[{"type":"text","type":"image"}],"structuredContent":{"a":1,"a":2}}`), false},
		{answer(`{"tools":[{"name":"a","inputSchema":{"a":1,"a":2}}]}`), false},
		{`{"jsonrpc":"2.0","method":"m","vendor":{"a":1,"a":2}}`, false},
		// Names that differ in case or length are different names.
		{call(`{"task":{},"Task":{},"tasks":{},"tsak":{}}`), false},
	} {
		_, err := Decode([]byte(c.raw), Limits{})
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", c.raw, err)
		}
		if err != nil && decodeError(t, err).Code != CodeInvalidRequest {
			t.Errorf("%s: code of %v", c.raw, err)
		}
	}
}

// The id is known even when it stands after the repeated member, but a repeated
// id itself is none.
func TestDecodeRepeatedMemberTellsID(t *testing.T) {
	_, err := Decode([]byte(`{"jsonrpc":"2.0","method":"m","params":{"a":1,"a":2},"id":9}`), Limits{})
	if e := decodeError(t, err); e.ID.String() != "9" {
		t.Errorf("id %s", e.ID)
	}
	_, err = Decode([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","id":2}`), Limits{})
	if e := decodeError(t, err); !e.ID.IsZero() {
		t.Errorf("id %s of two", e.ID)
	}
}

func TestDecodeDepth(t *testing.T) {
	const around = 2 // the envelope and params
	for _, limit := range []int{0, 5, 6000} {
		depth := limit
		if depth == 0 {
			depth = 512
		}
		depth -= around
		for _, c := range []struct{ open, shut string }{{"[", "]"}, {`{"a":`, "}"}, {`[[],{},`, "]"}} {
			nested := func(depth int) []byte {
				return []byte(`{"jsonrpc":"2.0","method":"m","params":{"arguments":` +
					strings.Repeat(c.open, depth) + "[]" + strings.Repeat(c.shut, depth) + `}}`)
			}
			if _, err := Decode(nested(depth-1), Limits{MaxDepth: limit}); err != nil {
				t.Errorf("%s to the limit of %d: %v", c.open, limit, err)
			}
			if _, err := Decode(nested(depth), Limits{MaxDepth: limit}); err == nil {
				t.Errorf("%s past the limit of %d passes", c.open, limit)
			}
		}
	}
	// Tracked containers count too.
	if _, err := Decode([]byte(`{"jsonrpc":"2.0","method":"m","params":{"_meta":{}}}`), Limits{MaxDepth: 2}); err == nil {
		t.Error("tracked depth 3 passes limit 2")
	}
}

func TestDecodeMaxMembers(t *testing.T) {
	raw := []byte(`{"jsonrpc":"2.0","id":1,"result":{"inputRequests":{` + strings.Repeat(`"k":{},`, 10) + `"z":{}}}}`)
	if _, err := Decode(raw, Limits{MaxMembers: 8}); err == nil || !strings.Contains(err.Error(), "more than 8 members") {
		t.Error(err)
	}
}

func TestDecodeBatch(t *testing.T) {
	const a, b, c = `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":2,"result":{"x":[1,{}]}}`
	batch, err := DecodeBatch([]byte(" [ "+a+" , "+b+",\n"+c+" ] "), Limits{})
	if err != nil || len(batch) != 3 {
		t.Fatal(len(batch), err)
	}
	for i, want := range []string{a, b, c} {
		if string(batch[i].Raw) != want || string(batch[i].Root().Raw()) != want {
			t.Errorf("message %d is %s", i, batch[i].Raw)
		}
	}
	if got := string(batch[2].At("result", "x").Raw()); got != "[1,{}]" {
		t.Error(got)
	}
	for _, raw := range []string{`[]`, `[ ]`, `{}`, ``, `[`, `[1]`, `[` + a, `[` + a + `,]`, `[` + a + `]x`, `[` + a + ` ` + b + `]`,
		`[` + a + `,{"jsonrpc":"2.0"}]`, `[[` + a + `]]`, `[` + strings.Repeat(a+",", MaxBatch) + a + `]`} {
		if _, err := DecodeBatch([]byte(raw), Limits{}); err == nil {
			t.Errorf("%.80s passes", raw)
		} else {
			decodeError(t, err)
		}
	}
	if _, err := DecodeBatch([]byte(`[`+strings.Repeat(a+",", 99)+a+`]`), Limits{MaxMembers: 399}); err == nil {
		t.Error("members are not counted over the whole batch")
	}
	if _, err := DecodeBatch([]byte(`[`+strings.Repeat(a+",", 99)+a+`]`), Limits{MaxMembers: 401}); err != nil {
		t.Error(err)
	}
	_, err = DecodeBatch([]byte(`[`+a+`,{"jsonrpc":"2.0","id":77,"method":1}]`), Limits{})
	if e := decodeError(t, err); e.ID.String() != "77" || e.Offset < len(a) {
		t.Errorf("id %s offset %d", e.ID, e.Offset)
	}
}

func TestDecodeArrayIsErrBatch(t *testing.T) {
	if _, err := Decode([]byte(" \n[]"), Limits{}); !errors.Is(err, ErrBatch) {
		t.Error(err)
	}
}

func TestParseValue(t *testing.T) {
	v, err := ParseValue([]byte(` {"a":{"b":[1,{"c":"d"}]}} `))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(v.Raw()); got != `{"a":{"b":[1,{"c":"d"}]}}` {
		t.Error(got)
	}
	var last Value
	for e := range v.Get("a").Get("b").Elems() {
		last = e
	}
	if s, _ := last.Get("c").Str(); s != "d" {
		t.Error(s)
	}
	for _, raw := range []string{`"x"`, `1`, `null`, `true`, `[]`, `{}`} {
		if _, err := ParseValue([]byte(raw)); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for _, raw := range []string{``, `1 2`, `{"a":{"b":1,"b":2}}`, `[[{"a":1,"\u0061":2}]]`, strings.Repeat("[", 513) + strings.Repeat("]", 513)} {
		if _, err := ParseValue([]byte(raw)); err == nil {
			t.Errorf("%.40s passes", raw)
		}
	}
}

// Every row of the table is found as tracked in a message that has it.
func TestTrackedPaths(t *testing.T) {
	for _, row := range trackedPaths {
		at := trackEnvelope
		for name := range strings.FieldsSeq(row) {
			if name == "*" {
				name = "any name"
			}
			if at = at.child([]byte(name)); at == nil {
				t.Errorf("row %q is not tracked", row)
				break
			}
		}
	}
	m := mustDecode(t, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"a":1},"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"x":{"y":1}},"other":{}}}}}`)
	caps := m.At("params", "_meta", "io.modelcontextprotocol/clientCapabilities")
	if !caps.Get("extensions").Tracked() || caps.Get("other").Tracked() || caps.Get("extensions").Get("x").Tracked() {
		t.Error("clientCapabilities are tracked wrongly")
	}
	if args := m.At("params", "arguments"); args.Tracked() || args.Get("a").Exists() {
		t.Error("arguments are tracked")
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"task":{"ttl":1}}}`, `[[1e5,-0.0,"\ud83d\n"],{"a":{}}]`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"é"}]}}`, "{\"a\":\"\xFF\"}", `{"a":1,"\u0061":2}`, ` null `, `[1,]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		valid := json.Valid(raw) && utf8.Valid(raw)
		_, err := Decode(raw, Limits{})
		switch e, _ := errors.AsType[*DecodeError](err); {
		case err == nil && !valid:
			t.Errorf("Decode passes invalid JSON %q", raw)
		case err != nil && e.Code == CodeParse && valid:
			t.Errorf("Decode refuses valid JSON %q: %v", raw, err)
		}
		v, err := ParseValue(raw)
		if err == nil != valid && (err == nil || decodeError(t, err).Code == CodeParse) {
			t.Errorf("ParseValue(%q): %v, valid is %v", raw, err, valid)
		}
		if err == nil {
			checkAgainstStd(t, v)
		}
	})
}

// checkAgainstStd reads the parsed tree as encoding/json reads the bytes.
func checkAgainstStd(t *testing.T, v Value) {
	switch v.Type() {
	case String:
		var want string
		if err := json.Unmarshal(v.Raw(), &want); err != nil {
			t.Fatal(err)
		}
		if got, _ := v.Str(); got != want {
			t.Errorf("Str of %s is %q, want %q", v.Raw(), got, want)
		}
	case Object:
		var want map[string]json.RawMessage
		if err := json.Unmarshal(v.Raw(), &want); err != nil {
			t.Fatal(err)
		}
		for key, m := range v.Members() {
			// Keys that differ in lone surrogates only are one key to encoding/json.
			if strings.Contains(key, "\uFFFD") || !utf8.ValidString(key) {
				continue
			}
			if string(m.Raw()) != string(want[key]) {
				t.Errorf("member %q is %s, want %s", key, m.Raw(), want[key])
			}
			checkAgainstStd(t, m)
		}
	case Array:
		for e := range v.Elems() {
			checkAgainstStd(t, e)
		}
	}
}
