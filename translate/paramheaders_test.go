package translate

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func toolWith(schema string) string {
	return `{"tools":[{"name":"t","inputSchema":` + schema + `}]}`
}

// 2026-07-28 streamable-http, Schema Extension: where marks may stand.
func TestToolMarks(t *testing.T) {
	for _, c := range []struct {
		name, schema string
		want         []ParamMark
		why          string // part of it
	}{
		{"none", `{"type":"object"}`, nil, ""},
		{"one", `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`, []ParamMark{{[]string{"region"}, "Region"}}, ""},
		{"nested", `{"properties":{"a":{"type":"object","properties":{"b":{"type":"integer","x-mcp-header":"B"}}},"c":{"type":"boolean","x-mcp-header":"C"}}}`,
			[]ParamMark{{[]string{"a", "b"}, "B"}, {[]string{"c"}, "C"}}, ""},
		{"escaped", `{"properties":{"a":{"type":"string","x\u002dmcp-header":"A"}}}`, []ParamMark{{[]string{"a"}, "A"}}, ""},
		{"or null", `{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}`, []ParamMark{{[]string{"a"}, "A"}}, ""},
		{"a property of that name", `{"properties":{"x-mcp-header":{"type":"number"}}}`, nil, ""},
		{"in data", `{"properties":{"a":{"type":"object","default":{"x-mcp-header":""},"enum":[{"x-mcp-header":1}]}}}`, nil, ""},
		{"empty", `{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, nil, "not empty"},
		{"no string", `{"properties":{"a":{"type":"string","x-mcp-header":7}}}`, nil, "must be a string"},
		{"blank", `{"properties":{"a":{"type":"string","x-mcp-header":"My Region"}}}`, nil, "no header name"},
		{"colon", `{"properties":{"a":{"type":"string","x-mcp-header":"Region:x"}}}`, nil, "no header name"},
		{"line end", `{"properties":{"a":{"type":"string","x-mcp-header":"R\r\nX: y"}}}`, nil, "no header name"},
		{"not ASCII", `{"properties":{"a":{"type":"string","x-mcp-header":"Régión"}}}`, nil, "no header name"},
		{"twice", `{"properties":{"a":{"type":"string","x-mcp-header":"My"},"b":{"type":"string","x-mcp-header":"mY"}}}`, nil, "twice"},
		{"number", `{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, nil, "no string, integer or boolean"},
		{"object", `{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}`, nil, "no string, integer or boolean"},
		{"array", `{"properties":{"a":{"type":"array","x-mcp-header":"A"}}}`, nil, "no string, integer or boolean"},
		{"no type", `{"properties":{"a":{"x-mcp-header":"A"}}}`, nil, "no string, integer or boolean"},
		{"mixed types", `{"properties":{"a":{"type":["string","number"],"x-mcp-header":"A"}}}`, nil, "no string, integer or boolean"},
		{"root", `{"type":"object","x-mcp-header":"A"}`, nil, "chain of properties"},
		{"items", `{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`, nil, "chain of properties"},
		{"items, deeper", `{"properties":{"a":{"items":{"properties":{"b":{"type":"string","x-mcp-header":"A"}}}}}}`, nil, "chain of properties"},
		{"anyOf", `{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`, nil, "chain of properties"},
		{"if", `{"if":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`, nil, "chain of properties"},
		{"defs", `{"$defs":{"d":{"type":"string","x-mcp-header":"A"}},"properties":{"a":{"$ref":"#/$defs/d"}}}`, nil, "chain of properties"},
		{"repeated member", `{"properties":{"a":{"type":"number","type":"string","x-mcp-header":"A"}}}`, nil, "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := decode(t, `{"jsonrpc":"2.0","id":1,"result":`+toolWith(c.schema)+`}`)
			for tool := range m.Result().Get("tools").Elems() {
				marks, why := ToolMarks(tool)
				if !reflect.DeepEqual(marks, c.want) {
					t.Errorf("marks %v, want %v", marks, c.want)
				}
				if (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
					t.Errorf("why %q, want %q", why, c.why)
				}
			}
		})
	}
}

var someMarks = []ParamMark{{[]string{"region"}, "Region"}, {[]string{"n"}, "Count"}, {[]string{"deep", "on"}, "on"}}

// Case B34, B25: what is mirrored and how; streamable-http, Value Encoding.
func TestCaseB34_ParamHeaders(t *testing.T) {
	for args, want := range map[string]http.Header{
		`{"region":"us-west1","n":42,"deep":{"on":true}}`:      {"Mcp-Param-Region": {"us-west1"}, "Mcp-Param-Count": {"42"}, "Mcp-Param-On": {"true"}},
		`{"region":null,"n":-7.0,"deep":7}`:                    {"Mcp-Param-Count": {"-7"}},
		`{"region":"Hello, 世界"}`:                               {"Mcp-Param-Region": {"=?base64?SGVsbG8sIOS4lueVjA==?="}},
		`{"region":" padded "}`:                                {"Mcp-Param-Region": {"=?base64?IHBhZGRlZCA=?="}},
		`{"region":"line1\nline2"}`:                            {"Mcp-Param-Region": {"=?base64?bGluZTEKbGluZTI=?="}},
		`{"region":"=?base64?literal?="}`:                      {"Mcp-Param-Region": {"=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="}},
		`{}`:                                                   {},
		`{"n":9007199254740991,"re\u0067ion":"x","deep":null}`: {"Mcp-Param-Region": {"x"}, "Mcp-Param-Count": {"9007199254740991"}},
	} {
		m := decode(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":`+args+`}}`)
		got, err := ParamHeaders(m, someMarks)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %v; want %v", args, got, err, want)
		}
		// What we send is what we accept.
		if why := CheckParamHeaders(got, m, someMarks); why != "" {
			t.Errorf("%s: %s", args, why)
		}
	}
	for _, args := range []string{`{"n":9007199254740992}`, `{"n":1.5}`, `{"region":{}}`, `{"region":["a"]}`, `{"region":"a","region":"b"}`,
		`{"region":"` + strings.Repeat("x", MaxHeaderValue+1) + `"}`} {
		m := decode(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":`+args+`}}`)
		if got, err := ParamHeaders(m, someMarks); err == nil {
			t.Errorf("%.60s: got %v, want an error", args, got)
		}
	}
}

// streamable-http, Server Behavior for Custom Headers.
func TestCaseB34_CheckParamHeaders(t *testing.T) {
	m := decode(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"region":"é","n":42,"deep":{"on":null}}}}`)
	good := http.Header{"Mcp-Param-Region": {"=?base64?w6k=?="}, "Mcp-Param-Count": {"42.0"}, "Mcp-Param-Other": {"?"}}
	if why := CheckParamHeaders(good, m, someMarks); why != "" {
		t.Error(why)
	}
	for name, value := range map[string]string{
		"Mcp-Param-Region": "", "Mcp-Param-Count": "43", "Mcp-Param-On": "true",
	} {
		h := good.Clone()
		if value == "" {
			delete(h, name)
		} else {
			h[name] = []string{value}
		}
		if CheckParamHeaders(h, m, someMarks) == "" {
			t.Errorf("%s: %q was accepted", name, value)
		}
	}
	bad := good.Clone()
	bad["Mcp-Param-Region"] = []string{"=?base64?w6k?="}
	if CheckParamHeaders(bad, m, someMarks) == "" {
		t.Error("bad base64 was accepted")
	}
	if CheckParamHeaders(nil, m, nil) != "" {
		t.Error("a tool without marks was refused")
	}
}

// One bad tool does not take the others along.
func TestMarkedTools(t *testing.T) {
	m := decode(t, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"bad","inputSchema":{"x-mcp-header":"A"}},{"name":"good","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}},{"name":"plain"}]}}`)
	raw, good, bad := MarkedTools(m)
	if len(bad) != 1 || bad[0][0] != "bad" || len(good["good"]) != 1 || len(good) != 2 {
		t.Errorf("good %v, bad %v", good, bad)
	}
	same(t, "tools", raw, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"good","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}},{"name":"plain"}]}}`)
}
