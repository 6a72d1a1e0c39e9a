package capture

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"taskbridge/translate/jsonrpc"
)

func mustRedactor(t testing.TB, kinds ...string) *Redactor {
	t.Helper()
	r, err := NewRedactor(kinds)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRedact(t *testing.T) {
	call := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":` + arguments + `}}`
	}
	for _, tt := range []struct {
		kind     string
		in, want string
		took     string
	}{
		{"secrets", call(`{"password":"hunter2","n":1}`), call(`{"password":"[redacted:secrets]","n":1}`), "secrets"},
		{"secrets", call(`{"db_password":"x","githubToken":"y","API-Key":7,"token":true,"secret":{"a":1},"pageToken":"z"}`),
			call(`{"db_password":"[redacted:secrets]","githubToken":"[redacted:secrets]","API-Key":"[redacted:secrets]","token":true,"secret":"[redacted:secrets]","pageToken":"z"}`), "secrets"},
		{"secrets", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":"p"},"requestState":"hmac:1"}}`,
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":"p"},"requestState":"hmac:1"}}`, ""},
		{"secrets", call(`{"a":"Authorization: Bearer abc123def456","b":"the bearer authentication scheme"}`),
			call(`{"a":"Authorization: Bearer [redacted:secrets]","b":"the bearer authentication scheme"}`), "secrets"},
		{"secrets", call(`["AKIAABCDEFGHIJKLMNOP","ghp_0123456789abcdefghij0123456789abcdef","sk-proj-0123456789abcdef","xoxb-1234567890-abc","AIzaSyA0123456789012345678901234567890"]`),
			call(`["[redacted:secrets]","[redacted:secrets]","[redacted:secrets]","[redacted:secrets]","[redacted:secrets]"]`), "secrets"},
		{"secrets", call(`"x -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- y eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_ z"`),
			call(`"x [redacted:secrets] y [redacted:secrets] z"`), "secrets"},
		{"secrets", call(`"postgres://u:pa55@h/db api_key=0123456789 password is needed"`), call(`"postgres://u:[redacted:secrets]@h/db api_key=[redacted:secrets] password is needed"`), "secrets"},
		// A tool gives its result as text and as an object.
		{"secrets", `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"password\":\"hunter2\"}"}],"structuredContent":{"password":"hunter2"}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"password\":\"[redacted:secrets]\"}"}],"structuredContent":{"password":"[redacted:secrets]"}}}`, "secrets"},
		// The name of a property is none of a member.
		{"secrets", `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"login","inputSchema":{"type":"object","properties":{"password":{"type":"string","default":"hunter2"},"x":{"const":"y"}},"required":["password"]}}]}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"login","inputSchema":{"type":"object","properties":{"password":{"type":"string","default":"[redacted:secrets]"},"x":{"const":"y"}},"required":["password"]}}]}}`, "secrets"},
		{"key:Name", call(`{"name":"Ada","other":{"NAME":{"a":1}}}`), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"[redacted:key:Name]","arguments":{"name":"[redacted:key:Name]","other":{"NAME":"[redacted:key:Name]"}}}}`, "key:Name"},
		{"key:params", call(`{}`), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"redacted":"[redacted:key:params]"}}`, "key:params"},
		{"key:id", call(`{"id":3}`), call(`{"id":"[redacted:key:id]"}`), "key:id"},
		{"key:error", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"m","data":{}}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"[redacted:key:error]","data":"[redacted:key:error]"}}`, "key:error"},
		{`value:\b\d{4}\b`, call(`{"pin":"is 1234.","n":1234,"m":12345,"1234":0}`), call(`{"pin":"is [redacted:value].","n":"[redacted:value]","m":12345,"[redacted:value]":0}`), "value"},
		{`value:32`, `{"jsonrpc":"2.0","id":32,"error":{"code":-32602,"message":"32"}}`, `{"jsonrpc":"2.0","id":32,"error":{"code":-32602,"message":"[redacted:value]"}}`, "value"},
		{`path:$.params.arguments.users[?@.age > 1.5].name`, call(`{"users":[{"name":"a","age":1},{"name":"b","age":2}]}`), call(`{"users":[{"name":"a","age":1},{"name":"[redacted:path]","age":2}]}`), "path"},
		{`path:$`, call(`{}`), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"redacted":"[redacted:path]"}}`, "path"},
		{`path:$..*`, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"[redacted:path]"}}`, "path"},
		{`path:$.nothing`, call(`{}`), call(`{}`), ""},
		// A member twice: which of the two is meant nobody knows.
		{"key:a", call(`{"a":1,"a":2}`), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"redacted":"[redacted:key:a]"}}`, "key:a"},
	} {
		r := Record{Msg: []byte(tt.in)}
		mustRedactor(t, tt.kind).Record(&r)
		if string(r.Msg) != tt.want || strings.Join(r.Redacted, ",") != tt.took {
			t.Errorf("%s:\n  of %s\n got %s %v\nwant %s %s", tt.kind, tt.in, r.Msg, r.Redacted, tt.want, tt.took)
		}
	}
}

func TestRedactHeaders(t *testing.T) {
	r := Record{
		Msg: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hunter2-tool","arguments":{"a":{"b":"x7"},"key":"k","c":12}}}`),
		Header: http.Header{
			"Mcp-Name": {"hunter2-tool"}, "Mcp-Param-B": {"x7"}, "Mcp-Param-Key": {"k"}, "Mcp-Param-C": {"12"}, "Mcp-Method": {"tools/call"},
			"Mcp-Param-D": {"=?base64?aHVudGVyMg==?="},
		},
	}
	was := r.Header
	mustRedactor(t, "value:hunter2", "key:key", "path:$.params.arguments.a", "path:$.params.arguments.c").Record(&r)
	want := http.Header{
		"Mcp-Name": {"[redacted:value]-tool"}, "Mcp-Param-B": {"[redacted:path]"}, "Mcp-Param-Key": {"[redacted:key:key]"}, "Mcp-Param-C": {"[redacted:path]"},
		"Mcp-Method": {"tools/call"}, "Mcp-Param-D": {"[redacted:value]"},
	}
	if fmt.Sprint(r.Header) != fmt.Sprint(want) || was.Get("Mcp-Name") != "hunter2-tool" {
		t.Errorf("got %v, want %v", r.Header, want)
	}
	if got := fmt.Sprint(r.Redacted); got != "[key:key path value]" {
		t.Error(got)
	}
}

func TestRedactorKinds(t *testing.T) {
	r := mustRedactor(t, "secrets", "key:a:b", "value:x", "path:$.a")
	if got := strings.Join(r.Kinds(), " "); got != "secrets key:a:b value path" {
		t.Error(got)
	}
	for kind, want := range map[string]string{
		"": "want secrets", "key:": "want secrets", "key": "want secrets", "secrets:x": "takes nothing", "value:(": "missing closing", "value:a*": "empty text",
		"path:a": "jsonpath", "other:x": "want secrets",
	} {
		if _, err := NewRedactor([]string{kind}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", kind, err)
		}
	}
}

// FuzzRedact: what comes out is a message with the same id and method, and what
// was to be taken is nowhere in it.
func FuzzRedact(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"pin":"x7Qz","a":[1,{"x7Qz":"{\"pin\":\"x7Qz\"}"}]}}}`,
		`{"jsonrpc":"2.0","id":"x7Qz","result":{"content":[{"text":"{\"pin\":[1]}"}],"tools":[{"inputSchema":{"properties":{"pin":{"default":"y"}}}}]}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"x7Qz","data":{"pin":{"pin":"\u0078\u0037Qz"}}}}`,
		`{"jsonrpc":"2.0","method":"n","params":{"pin":1,"pin":2}}`,
	} {
		f.Add([]byte(s))
	}
	red, err := NewRedactor([]string{"secrets", "key:pin", "value:x7Qz", "path:$..taken"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
		if err != nil {
			return
		}
		r := Record{Msg: slices.Clone(raw)}
		red.Record(&r)
		again, err := jsonrpc.Decode(r.Msg, jsonrpc.Limits{})
		if err != nil {
			t.Fatalf("%v: %s", err, r.Msg)
		}
		if again.Kind != m.Kind || again.Method != m.Method || again.ID.Key() != m.ID.Key() {
			t.Fatalf("%s became %s", raw, r.Msg)
		}
		var v any
		if err := json.Unmarshal(r.Msg, &v); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"params", "result", "error"} {
			leaves(t, v.(map[string]any)[part], 0, false)
		}
	})
}

// leaves finds what should have been taken.
func leaves(t *testing.T, v any, depth int, schema bool) {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, "x7Qz") {
			t.Fatalf("a value stayed: %q", v)
		}
	case []any:
		for _, e := range v {
			leaves(t, e, depth+1, schema)
		}
	case map[string]any:
		for name, m := range v {
			in := schema || strings.HasSuffix(name, "Schema")
			if strings.EqualFold(name, "pin") && !schema && m != nil {
				if s, ok := m.(string); !ok || !strings.HasPrefix(s, "[redacted:") {
					t.Fatalf("a key's value stayed: %v", m)
				}
			}
			if name == "taken" && m != nil {
				if s, ok := m.(string); !ok || !strings.HasPrefix(s, "[redacted:") {
					t.Fatalf("a path's value stayed: %v", m)
				}
			}
			leaves(t, m, depth+1, in)
		}
	}
}
