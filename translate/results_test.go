package translate

import (
	"slices"
	"testing"
)

// Modern clients throw away what lacks resultType, ttlMs or cacheScope.
func TestCaseB15_FieldsModernResultsNeed(t *testing.T) {
	hints := []string{"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}
	for _, r := range methods {
		got := inner(t, ResultToModern(r.Method, result(t, `{"a":1}`), nil, nil))
		want := `{"a":1,"resultType":"complete"}`
		if slices.Contains(hints, r.Method) {
			want = `{"a":1,"resultType":"complete","ttlMs":0,"cacheScope":"private"}`
		}
		same(t, r.Method, got, want)
	}
	same(t, "a method nobody defined", inner(t, ResultToModern("vendor/x", result(t, `{}`), nil, nil)), `{"resultType":"complete"}`)
	for _, tt := range []struct{ why, in, want string }{
		{"kept", `{"tools":[],"ttlMs":5,"cacheScope":"public"}`, `"ttlMs":5,"cacheScope":"public"`},
		{"negative", `{"tools":[],"ttlMs":-1,"cacheScope":"x"}`, `"ttlMs":0,"cacheScope":"private"`},
		{"fraction", `{"tools":[],"ttlMs":1.6}`, `"ttlMs":2,"cacheScope":"private"`},
		{"no number", `{"tools":[],"ttlMs":"5","cacheScope":null}`, `"ttlMs":0,"cacheScope":"private"`},
		{"null", `{"tools":[],"ttlMs":null}`, `"ttlMs":0,"cacheScope":"private"`},
	} {
		same(t, tt.why, inner(t, ResultToModern("tools/list", result(t, tt.in), nil, nil)), `{"tools":[],"resultType":"complete",`+tt.want+`}`)
	}
	same(t, "the case", inner(t, ResultToModern("tools/list", result(t, `{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`), nil, nil)),
		`{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
	same(t, "a server that says it already", inner(t, ResultToModern("tools/call", result(t, `{"content":[],"resultType":7}`), nil, nil)), `{"content":[],"resultType":"complete"}`)
}

// They leave again toward legacy; members of the same name elsewhere stay.
func TestCaseB15_TowardLegacy(t *testing.T) {
	for _, r := range methods {
		raw, lost := ResultToLegacy(r.Method, result(t, `{"resultType":"complete","ttlMs":5,"cacheScope":"public","a":{"ttlMs":1,"resultType":"x"}}`), false)
		want := `{"a":{"ttlMs":1,"resultType":"x"}}`
		if !cacheable[r.Method] {
			want = `{"ttlMs":5,"cacheScope":"public","a":{"ttlMs":1,"resultType":"x"}}`
		}
		same(t, r.Method, inner(t, raw), want)
		if counted := slices.Equal(lost, []Loss{LossCacheHints}); counted != cacheable[r.Method] {
			t.Errorf("%s: lost %v", r.Method, lost)
		}
	}
	// What no hint means is no loss.
	if _, lost := ResultToLegacy("tools/list", result(t, `{"tools":[],"ttlMs":0,"cacheScope":"private"}`), false); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
	raw, _ := ResultToLegacy("logging/setLevel", result(t, `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`), false)
	if got := string(inner(t, raw)); got != `{}` {
		t.Errorf("an empty result is %s", got)
	}
}

// serverInfo in _meta toward modern (2026-07-28 basic/index, Per-response
// protocol fields), beside what is there; related-task goes.
func TestResultMeta(t *testing.T) {
	const info = `{"name":"s","version":"1"}`
	same(t, "joined", inner(t, ResultToModern("tools/call", result(t, `{"content":[],"_meta":{"com.x/a":1,"io.modelcontextprotocol/related-task":{"taskId":"t"}}}`), nil, []byte(info))),
		`{"content":[],"resultType":"complete","_meta":{"com.x/a":1,"io.modelcontextprotocol/serverInfo":`+info+`}}`)
	same(t, "made", inner(t, ResultToModern("tools/call", result(t, `{"content":[]}`), nil, []byte(info))),
		`{"content":[],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":`+info+`}}`)
	raw, _ := ResultToLegacy("tools/call", result(t, `{"content":[],"resultType":"complete","_meta":{"com.x/a":1,"io.modelcontextprotocol/serverInfo":`+info+`}}`), false)
	same(t, "taken out", inner(t, raw), `{"content":[],"_meta":{"com.x/a":1}}`)
}

// 2026-07-28 moved resource-not-found from -32002 to -32602 (changelog, Minor
// changes 6).
func TestCaseB20_ResourceNotFound(t *testing.T) {
	for _, tt := range []struct {
		why, method, code, data string
		legacy, modern          string
	}{
		{"missing resource, new code", "resources/read", "-32602", `,"data":{"uri":"file:///no"}`, "-32002", "-32602"},
		{"missing resource, old code", "resources/read", "-32002", `,"data":{"uri":"file:///no"}`, "-32002", "-32602"},
		{"old code without data", "resources/read", "-32002", ``, "-32002", "-32602"},
		{"bad params of resources/read", "resources/read", "-32602", ``, "-32602", "-32602"},
		{"data without uri", "resources/read", "-32602", `,"data":{"a":1}`, "-32602", "-32602"},
		{"data that is no object", "resources/read", "-32602", `,"data":"file:///no"`, "-32602", "-32602"},
		{"tool not found", "tools/call", "-32602", `,"data":{"uri":"x"}`, "-32602", "-32602"},
		{"task not found", "tasks/get", "-32602", ``, "-32602", "-32602"},
		{"old code of another method", "tools/call", "-32002", ``, "-32002", "-32602"},
		{"URL elicitation: never modern", "tools/call", "-32042", `,"data":{"elicitations":[]}`, "-32042", "-32603"},
		{"a server's own code", "tools/call", "-31000", `,"data":[1.0]`, "-31000", "-31000"},
		{"legacy sub-range", "tools/call", "-32001", ``, "-32001", "-32001"},
		{"spelled as a float", "resources/read", "-32002.0", ``, "-32002.0", "-32602"},
	} {
		in := func(code string) string {
			return `{"jsonrpc":"2.0","id":4,"error":{"code":` + code + `,"message":"Resource not found"` + tt.data + `}}`
		}
		raw, lost := ResultToLegacy(tt.method, decode(t, in(tt.code)), false)
		if string(raw) != in(tt.legacy) || lost != nil {
			t.Errorf("%s toward legacy: %s", tt.why, raw)
		}
		if got := ResultToModern(tt.method, decode(t, in(tt.code)), nil, []byte(`{}`)); string(got) != in(tt.modern) {
			t.Errorf("%s toward modern: %s", tt.why, got)
		}
		// Inline, as the error of a task or a driven call.
		object := func(code string) string {
			return string(decode(t, in(code)).Error().Raw())
		}
		if got := ErrorToModern([]byte(object(tt.code))); string(got) != object(tt.modern) {
			t.Errorf("%s inline: %s", tt.why, got)
		}
	}
	if got := string(ErrorToModern([]byte(`{"code":1,"code":2}`))); got != `{"code":1,"code":2}` {
		t.Errorf("an error no rule may read became %s", got)
	}
}

// Unknown members, empty values and foreign _meta keys survive, byte for
// byte, in both directions.
func TestCaseB26_NothingElseChanges(t *testing.T) {
	const rest = `"content":[{"type":"text","text":"x","annotations":{"audience":["user"]},"_meta":{"v/k":1},"vendorX":[1]}],"structuredContent":{"s":7,"e":{},"n":null,"f":1.0},"futureField":true`
	const meta = `"_meta":{"com.x/t":"1","traceparent":"00-a-b-01"}`
	got := ResultToModern("tools/call", result(t, `{`+rest+`,`+meta+`}`), nil, nil)
	if string(got) != `{"jsonrpc":"2.0","id":1,"result":{`+rest+`,`+meta+`,"resultType":"complete"}}` {
		t.Errorf("toward modern: %s", got)
	}
	got, _ = ResultToLegacy("tools/call", decode(t, string(got)), true)
	if string(got) != `{"jsonrpc":"2.0","id":1,"result":{`+rest+`,`+meta+`}}` {
		t.Errorf("and back: %s", got)
	}
	// Inlined in a task and fetched again.
	payload := PayloadToModern(ParseResult([]byte(`{` + rest + `,` + meta + `}`)))
	same(t, "inline", payload, `{`+rest+`,`+meta+`,"resultType":"complete"}`)
	same(t, "fetched", payloadToLegacy(ParseResult(payload), "h"), `{`+rest+`,"_meta":{"com.x/t":"1","traceparent":"00-a-b-01","io.modelcontextprotocol/related-task":{"taskId":"h"}}}`)
	// A request, with an id and numbers no float holds.
	const call = `{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"t","arguments":{"n":9223372036854775807,"e":{}},"_meta":{"com.x/t":"1"},"future":null}}`
	if got := string(RequestToLegacy(decode(t, call), LegacyRequest{})); got != call {
		t.Errorf("request toward legacy: %s", got)
	}
}

func TestToolsToLegacy(t *testing.T) {
	for _, tt := range []struct {
		why, in, with, without string
		lost                   []Loss
	}{
		{"plain", `{"name":"a"}`, `{"name":"a","execution":{"taskSupport":"optional"}}`, `{"name":"a"}`, nil},
		{"an execution of its own", `{"name":"a","execution":{"v":1}}`, `{"name":"a","execution":{"v":1,"taskSupport":"optional"}}`, `{"name":"a","execution":{"v":1}}`, nil},
		{"a server that says it the old way", `{"name":"a","execution":{"taskSupport":"required"}}`, `{"name":"a","execution":{"taskSupport":"optional"}}`, `{"name":"a"}`, nil},
		{"both", `{"name":"a","execution":{"taskSupport":"forbidden","v":1}}`, `{"name":"a","execution":{"v":1,"taskSupport":"optional"}}`, `{"name":"a","execution":{"v":1}}`, nil},
		{"execution that is no object", `{"name":"a","execution":null}`, `{"name":"a","execution":{"taskSupport":"optional"}}`, `{"name":"a","execution":null}`, nil},
		{"outputSchema of an object stays", `{"name":"a","outputSchema":{"type":"object"}}`, `{"name":"a","outputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`, `{"name":"a","outputSchema":{"type":"object"}}`, nil},
		{"outputSchema of a list goes", `{"name":"a","outputSchema":{"type":"array"}}`, `{"name":"a","execution":{"taskSupport":"optional"}}`, `{"name":"a"}`, []Loss{LossOutputSchema}},
		{"outputSchema without type goes", `{"name":"a","outputSchema":{"anyOf":[]}}`, `{"name":"a","execution":{"taskSupport":"optional"}}`, `{"name":"a"}`, []Loss{LossOutputSchema}},
		{"outputSchema of two types goes", `{"name":"a","outputSchema":{"type":["object","null"]}}`, `{"name":"a","execution":{"taskSupport":"optional"}}`, `{"name":"a"}`, []Loss{LossOutputSchema}},
		{"a tool that is none", `7`, `7`, `7`, nil},
	} {
		for _, tasks := range []bool{true, false} {
			want := tt.without
			if tasks {
				want = tt.with
			}
			raw, lost := ResultToLegacy("tools/list", result(t, `{"resultType":"complete","tools":[`+tt.in+`]}`), tasks)
			same(t, tt.why, inner(t, raw), `{"tools":[`+want+`]}`)
			if !slices.Equal(lost, tt.lost) {
				t.Errorf("%s: lost %v", tt.why, lost)
			}
		}
	}
	raw, lost := ResultToLegacy("tools/list", result(t, `{"tools":"none"}`), true)
	same(t, "tools that are no list", inner(t, raw), `{"tools":"none"}`)
	if lost != nil {
		t.Errorf("lost %v", lost)
	}
}

// capabilities.tasks and execution.taskSupport never reach modern clients
// (case B45).
func TestToolsToModern(t *testing.T) {
	for in, want := range map[string]string{
		`{"name":"j","execution":{"taskSupport":"required"}}`:       `{"name":"j"}`,
		`{"name":"j","execution":{"taskSupport":"optional","v":1}}`: `{"name":"j","execution":{"v":1}}`,
		`{"name":"j","execution":{}}`:                               `{"name":"j","execution":{}}`,
		`{"name":"j"}`:                                              `{"name":"j"}`,
	} {
		got := inner(t, ResultToModern("tools/list", result(t, `{"tools":[`+in+`]}`), nil, nil))
		same(t, in, got, `{"tools":[`+want+`],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
	}
}

func TestTaskSupport(t *testing.T) {
	tools := result(t, `{"tools":[{"execution":{"taskSupport":"required"}},{"execution":{"taskSupport":7}},{"execution":null},{}]}`).Result().Get("tools")
	var got []string
	for tool := range tools.Elems() {
		got = append(got, TaskSupport(tool))
	}
	if !slices.Equal(got, []string{"required", "", "", ""}) {
		t.Errorf("%q", got)
	}
}

// Legacy revisions know only objects as structuredContent.
func TestStructuredContentToLegacy(t *testing.T) {
	for _, tt := range []struct {
		why, in, want string
		lost          bool
	}{
		{"object", `{"content":[],"structuredContent":{"a":1}}`, `{"content":[],"structuredContent":{"a":1}}`, false},
		{"list, other content", `{"content":[{"type":"text","text":"x"}],"structuredContent":[1]}`, `{"content":[{"type":"text","text":"x"}]}`, true},
		{"list, no content", `{"content":[],"structuredContent":[1.0, "ä"]}`, `{"content":[{"type":"text","text":"[1.0, \"ä\"]"}]}`, true},
		{"number, content missing", `{"structuredContent":42}`, `{"content":[{"type":"text","text":"42"}]}`, true},
		{"null", `{"content":[],"structuredContent":null}`, `{"content":[{"type":"text","text":"null"}]}`, true},
		{"content that is no list", `{"content":"x","structuredContent":[1]}`, `{"content":"x"}`, true},
	} {
		raw, lost := ResultToLegacy("tools/call", result(t, tt.in), false)
		same(t, tt.why, inner(t, raw), tt.want)
		if (len(lost) > 0) != tt.lost || tt.lost && lost[0] != LossStructured {
			t.Errorf("%s: lost %v", tt.why, lost)
		}
		// The same inside a task.
		got := ParseResult(payloadToLegacy(ParseResult([]byte(tt.in)), "h"))
		if !got.Exists() {
			t.Fatalf("%s: payload cannot be read", tt.why)
		}
		if sc := got.Get("structuredContent"); sc.Exists() == tt.lost {
			t.Errorf("%s: inside a task %s", tt.why, sc.Raw())
		}
	}
	raw, lost := ResultToLegacy("vendor/x", result(t, `{"structuredContent":[1]}`), false)
	same(t, "another method", inner(t, raw), `{"structuredContent":[1]}`)
	if lost != nil {
		t.Errorf("lost %v", lost)
	}
}
