package translate

import (
	"strings"
	"testing"
	"unicode/utf8"

	"taskbridge/translate/jsonrpc"
)

var words = []string{Working, InputRequired, Completed, Failed, Cancelled}

// Both eras have the same five words (2025-11-25 tasks, Task Status; tasks
// extension, Task Status); three of them are terminal.
func TestTerminal(t *testing.T) {
	want := map[string]bool{Working: false, InputRequired: false, Completed: true, Failed: true, Cancelled: true, "paused": false, "": false}
	for s, w := range want {
		if Terminal(s) != w {
			t.Errorf("Terminal(%q) = %v", s, !w)
		}
	}
}

// Every status with and without isError, with and without --tool-errors
// completed.
func TestLegacyStatus(t *testing.T) {
	for _, tt := range []struct {
		modern                 string
		isError, keepCompleted bool
		want                   string
	}{
		{Working, false, false, Working}, {Working, true, false, Working},
		{InputRequired, false, false, InputRequired}, {InputRequired, true, false, InputRequired},
		{Completed, false, false, Completed}, {Completed, true, false, Failed},
		{Completed, false, true, Completed}, {Completed, true, true, Completed},
		{Failed, false, false, Failed}, {Failed, true, false, Failed}, {Failed, true, true, Failed},
		{Cancelled, false, false, Cancelled}, {Cancelled, true, false, Cancelled},
		{"", false, false, Working}, {"paused", true, true, Working}, {"COMPLETED", false, false, Working},
	} {
		if got := LegacyStatus(tt.modern, tt.isError, tt.keepCompleted); got != tt.want {
			t.Errorf("LegacyStatus(%q, %v, %v) = %q, want %q", tt.modern, tt.isError, tt.keepCompleted, got, tt.want)
		}
	}
}

// A payload decides, whatever word the server used; without one no terminal
// status that needs one is shown.
func TestModernStatus(t *testing.T) {
	for _, s := range append(words, "", "paused") {
		if got := ModernStatus(s, true, false); got != Completed {
			t.Errorf("%q with a result: %q", s, got)
		}
		if got := ModernStatus(s, false, true); got != Failed {
			t.Errorf("%q with an error: %q", s, got)
		}
		want := Working
		if s == InputRequired || s == Cancelled {
			want = s
		}
		if got := ModernStatus(s, false, false); got != want {
			t.Errorf("%q without payload: %q, want %q", s, got, want)
		}
	}
}

// Every row can be reached, and the modern word comes back where nothing was
// lost.
func TestStatusRows(t *testing.T) {
	for _, r := range statuses {
		isError := r.When == toolErrors
		if got := LegacyStatus(r.Modern, isError, false); got != r.Legacy {
			t.Errorf("%s, %s: %q, want %q", r.Modern, r.When, got, r.Legacy)
		}
		hasResult, hasError := r.When == plain || r.When == toolErrors, r.When == ofError
		if got := ModernStatus(r.Legacy, hasResult, hasError); got != r.Modern {
			t.Errorf("%s, %s: back as %q", r.Modern, r.When, got)
		}
	}
}

func TestMembers(t *testing.T) {
	want := map[string]string{
		"taskId": "taskId", "status": "status", "statusMessage": "statusMessage", "createdAt": "createdAt",
		"lastUpdatedAt": "lastUpdatedAt", "ttlMs": "ttl", "pollIntervalMs": "pollInterval",
		"resultType": "", "result": "", "error": "", "inputRequests": "", "requestState": "",
	}
	for _, r := range members {
		if w, ok := want[r.Modern]; !ok || w != r.Legacy {
			t.Errorf("%s is %q in the legacy era", r.Modern, r.Legacy)
		}
		delete(want, r.Modern)
	}
	for m := range want {
		t.Errorf("%s: no row", m)
	}
	// Each row at work, in both directions.
	full := `{"resultType":"complete","taskId":"s1","status":"working","statusMessage":"m","createdAt":"c","lastUpdatedAt":"l","ttlMs":1,"pollIntervalMs":2,"result":{},"error":{},"inputRequests":{},"requestState":"s"}`
	legacy := TaskToLegacy(ParseResult([]byte(full)), TaskView{ID: "h", Status: Working})
	same(t, "modern to legacy", legacy, `{"taskId":"h","status":"working","statusMessage":"m","createdAt":"c","lastUpdatedAt":"l","ttl":1,"pollInterval":2}`)
	modern := DetailedTask(ParseResult(legacy), TaskView{ID: "s1", Status: Working}, "complete", Payload{}, nil, nil)
	same(t, "and back", modern, `{"resultType":"complete","taskId":"s1","status":"working","statusMessage":"m","createdAt":"c","lastUpdatedAt":"l","ttlMs":1,"pollIntervalMs":2}`)
}

// A modern task that completed with isError is failed for a legacy client;
// the reason stands in statusMessage and the result comes whole.
func TestCaseB3_ToolErrorToLegacy(t *testing.T) {
	task := result(t, `{"resultType":"complete","taskId":"t2","status":"completed","createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:05Z","ttlMs":null,"result":{"content":[{"type":"text","text":"disk full"}],"isError":true}}`).Result()
	p := PayloadOf(task)
	payload := ParseResult(p.Result)
	if p.Error != nil || !IsError(payload) {
		t.Fatalf("payload %s, error %s", p.Result, p.Error)
	}
	view := TaskView{ID: "h2", Status: LegacyStatus(Completed, true, false), Message: FailureText(payload, jsonrpc.Value{})}
	same(t, "tasks/get", TaskToLegacy(task, view), `{"taskId":"h2","status":"failed","statusMessage":"disk full","createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:05Z","ttl":null}`)
	same(t, "tasks/result", payloadToLegacy(payload, "h2"), `{"content":[{"type":"text","text":"disk full"}],"isError":true,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"h2"}}}`)
}

// A legacy task with the same result, failed in the server's words, is
// completed for a modern client.
func TestCaseB3_ToolErrorToModern(t *testing.T) {
	task := ParseResult([]byte(`{"taskId":"t2","status":"failed","statusMessage":"disk full","createdAt":"c","lastUpdatedAt":"l","ttl":null}`))
	payload := PayloadToModern(ParseResult([]byte(`{"content":[{"type":"text","text":"disk full"}],"isError":true,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t2"}}}`)))
	view := TaskView{ID: "h", Status: ModernStatus(Failed, true, false)}
	same(t, "tasks/get", DetailedTask(task, view, "complete", Payload{Result: payload}, nil, nil),
		`{"resultType":"complete","taskId":"h","status":"completed","statusMessage":"disk full","createdAt":"c","lastUpdatedAt":"l","ttlMs":null,"result":{"resultType":"complete","content":[{"type":"text","text":"disk full"}],"isError":true}}`)
}

// A JSON-RPC error is failed in both eras: same code, message and data.
func TestCaseB3_ErrorInBothDirections(t *testing.T) {
	const rpcError = `{"code":-31999,"message":"no quota","data":{"left":0,"n":9007199254740993}}`
	task := result(t, `{"resultType":"complete","taskId":"t2","status":"failed","createdAt":"c","lastUpdatedAt":"l","ttlMs":1,"error":`+rpcError+`}`).Result()
	p := PayloadOf(task)
	if string(p.Error) != rpcError || p.Result != nil {
		t.Fatalf("payload %+v", p)
	}
	if got := FailureText(jsonrpc.Value{}, ParseResult(p.Error)); got != "no quota" {
		t.Errorf("text %q", got)
	}
	legacy := TaskToLegacy(task, TaskView{ID: "h", Status: LegacyStatus(Failed, false, false), Message: "no quota"})
	same(t, "legacy", legacy, `{"taskId":"h","status":"failed","statusMessage":"no quota","createdAt":"c","lastUpdatedAt":"l","ttl":1}`)
	back := DetailedTask(ParseResult(legacy), TaskView{ID: "t2", Status: ModernStatus(Failed, false, true)}, "complete", p, nil, nil)
	same(t, "and back", back, `{"resultType":"complete","taskId":"t2","status":"failed","statusMessage":"no quota","createdAt":"c","lastUpdatedAt":"l","ttlMs":1,"error":`+rpcError+`}`)
}

func TestFailureText(t *testing.T) {
	long := strings.Repeat("ä", maxMessageText)
	for _, tt := range []struct{ why, result, rpcError, want string }{
		{"text blocks, joined", `{"content":[{"type":"text","text":"a"},{"type":"image","data":"x"},{"type":"text","text":"b"}]}`, `{"message":"no"}`, "a\nb"},
		{"no text: the error's message", `{"content":[{"type":"image"}]}`, `{"message":"no"}`, "no"},
		{"empty texts do not count", `{"content":[{"type":"text","text":""}]}`, `{}`, ""},
		{"content that is no list", `{"content":"x"}`, `{"message":7}`, ""},
		{"blocks that are no objects", `{"content":["x",7,null,{"type":"text","text":9}]}`, `{}`, ""},
		{"capped", `{"content":[{"type":"text","text":"` + long + `"}]}`, `{}`, long[:maxMessageText]},
		{"capped between runes", `{"content":[{"type":"text","text":"x` + long + `"}]}`, `{}`, "x" + long[:maxMessageText-2]},
	} {
		got := FailureText(ParseResult([]byte(tt.result)), ParseResult([]byte(tt.rpcError)))
		if got != tt.want || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes, %.40q", tt.why, len(got), got)
		}
	}
	if got := FailureText(jsonrpc.Value{}, jsonrpc.Value{}); got != "" {
		t.Errorf("nothing said, got %q", got)
	}
}

// Flat and nested handles are both read, whichever era sends them; each era
// gets its own.
func TestCaseB4_HandleShapes(t *testing.T) {
	const flat = `{"resultType":"task","taskId":"u1","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":60000,"pollIntervalMs":500}`
	const nested = `{"task":{"taskId":"u1","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":60000,"pollInterval":500}}`
	view := TaskView{ID: "h", Status: Working}
	for _, in := range []string{flat, nested} {
		r := result(t, in).Result()
		task := TaskOf(r)
		if !task.Exists() {
			t.Fatalf("no task found in %s", in)
		}
		same(t, "toward legacy", CreateToLegacy(r, task, view), strings.Replace(nested, "u1", "h", 1))
		same(t, "toward modern", CreateToModern(r, task, view, nil), strings.Replace(flat, "u1", "h", 1))
	}
}

func TestTaskOf(t *testing.T) {
	for in, want := range map[string]bool{
		`{"resultType":"task","taskId":"a"}`:                 true,
		`{"task":{"taskId":"a"}}`:                            true,
		`{"resultType":"task","task":{"taskId":"a"}}`:        true,
		`{"content":[],"taskId":"a"}`:                        false, // a tool's own member
		`{"resultType":"complete","taskId":"a"}`:             false,
		`{"task":{}}`:                                        false,
		`{"task":"a"}`:                                       false,
		`{"resultType":"task"}`:                              false,
		`{"structuredContent":{"task":{"taskId":"a"}}}`:      false,
		`{"resultType":"input_required","inputRequests":{}}`: false,
	} {
		if got := TaskOf(result(t, in).Result()).Exists(); got != want {
			t.Errorf("%s: %v", in, got)
		}
	}
}

// ttl and pollInterval: null, 0, missing, and values no era allows.
func TestCaseB9_Durations(t *testing.T) {
	for _, tt := range []struct{ ttl, want string }{
		{`null`, `null`}, {``, `null`}, {`0`, `0`}, {`60000`, `60000`}, {`1500.0`, `1500`}, {`1500.4`, `1500`}, {`1500.5`, `1501`},
		{`1e3`, `1000`}, {`-1`, `null`}, {`"60"`, `null`}, {`true`, `null`}, {`-0`, `0`},
		{`9007199254740991`, `9007199254740991`}, // "for ever" in many an SDK
		{`9007199254740993`, `3162240000000`}, {`1e300`, `3162240000000`}, {`1e1000000`, `3162240000000`}, {`-1e1000000`, `null`}, {`1e-1000000`, `0`},
	} {
		member := ""
		if tt.ttl != "" {
			member = `,"ttlMs":` + tt.ttl
		}
		in := `{"resultType":"complete","taskId":"a","status":"working","createdAt":"c","lastUpdatedAt":"l"` + member + `}`
		same(t, "ttlMs "+tt.ttl, TaskToLegacy(ParseResult([]byte(in)), TaskView{ID: "a", Status: Working}),
			`{"taskId":"a","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":`+tt.want+`}`)
		in = strings.Replace(in, "ttlMs", "ttl", 1)
		same(t, "ttl "+tt.ttl, DetailedTask(ParseResult([]byte(in)), TaskView{ID: "a", Status: Working}, "complete", Payload{}, nil, nil),
			`{"resultType":"complete","taskId":"a","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":`+tt.want+`}`)

		poll := `,"pollIntervalMs":` + tt.want
		if tt.want == "null" {
			poll = ""
		}
		in = `{"taskId":"a","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":null` + strings.Replace(member, "ttlMs", "pollInterval", 1) + `}`
		same(t, "pollInterval "+tt.ttl, DetailedTask(ParseResult([]byte(in)), TaskView{ID: "a", Status: Working}, "", Payload{}, nil, nil),
			`{"taskId":"a","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":null`+poll+`}`)
	}
}

// The other era's name counts where the right one is missing, and never
// stays beside it.
func TestCaseB9_TheOtherErasNames(t *testing.T) {
	view := TaskView{ID: "a", Status: Working}
	const rest = `"taskId":"a","status":"working","createdAt":"c","lastUpdatedAt":"l"`
	for in, want := range map[string]string{
		`"ttl":5,"pollInterval":6`:              `"ttl":5,"pollInterval":6`,
		`"ttlMs":1,"ttl":5`:                     `"ttl":1`,
		`"ttlMs":null,"ttl":5,"pollInterval":6`: `"ttl":null,"pollInterval":6`,
		`"pollIntervalMs":2,"pollInterval":6`:   `"ttl":null,"pollInterval":2`,
	} {
		same(t, in, TaskToLegacy(ParseResult([]byte(`{`+rest+`,`+in+`}`)), view), `{`+rest+`,`+want+`}`)
	}
	for in, want := range map[string]string{
		`"ttlMs":5,"pollIntervalMs":6`: `"ttlMs":5,"pollIntervalMs":6`,
		`"ttl":1,"ttlMs":5`:            `"ttlMs":1`,
	} {
		same(t, in, DetailedTask(ParseResult([]byte(`{`+rest+`,`+in+`}`)), view, "", Payload{}, nil, nil), `{`+rest+`,`+want+`}`)
	}
}

func TestMilliseconds(t *testing.T) {
	for raw, want := range map[string]int64{
		`0`: 0, `1`: 1, `0.4`: 0, `0.5`: 1, `1e3`: 1000, `1500.0`: 1500, `9007199254740991`: maxMillis, `1e400`: maxMillis,
		`null`: -1, `-1`: -1, `-0.1`: -1, `"1"`: -1, `[]`: -1, `{}`: -1, `true`: -1,
	} {
		n, ok := Milliseconds(value(t, raw))
		if ok != (want >= 0) || ok && n != want {
			t.Errorf("Milliseconds(%s) = %d, %v, want %d", raw, n, ok, want)
		}
	}
	if _, ok := Milliseconds(jsonrpc.Value{}); ok {
		t.Error("an absent duration is one")
	}
}

// related-task stands where the legacy era wants it and nowhere else.
func TestCaseB14_RelatedTask(t *testing.T) {
	const related = `"io.modelcontextprotocol/related-task":{"taskId":"s1"}`
	view := TaskView{ID: "h", Status: Working}
	create := result(t, `{"task":{"taskId":"s1","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":1,"_meta":{"misplaced":1}},"_meta":{`+related+`,"com.x/a":1}}`).Result()
	same(t, "handle toward modern", CreateToModern(create, TaskOf(create), view, nil),
		`{"resultType":"task","taskId":"h","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":1,"_meta":{"com.x/a":1}}`)
	get := ParseResult([]byte(`{"taskId":"s1","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":1,"_meta":{` + related + `}}`))
	same(t, "get toward modern", DetailedTask(get, view, "complete", Payload{}, nil, nil),
		`{"resultType":"complete","taskId":"h","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":1}`)
	modern := ParseResult([]byte(`{"resultType":"complete","taskId":"s1","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":1,"_meta":{"com.x/a":1}}`))
	same(t, "inside a Task toward legacy", TaskToLegacy(modern, view), `{"taskId":"h","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":1}`)
	same(t, "payload toward legacy, merged", payloadToLegacy(ParseResult([]byte(`{"content":[],"_meta":{"com.x/k":1,"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`)), "h"),
		`{"content":[],"_meta":{"com.x/k":1,"io.modelcontextprotocol/related-task":{"taskId":"h"}}}`)
	same(t, "a server's own key is written over", payloadToLegacy(ParseResult([]byte(`{"content":[],"_meta":{`+related+`}}`)), "h"),
		`{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"h"}}}`)
	same(t, "payload toward modern", PayloadToModern(ParseResult([]byte(`{"content":[],"_meta":{`+related+`,"com.x/k":1}}`))),
		`{"resultType":"complete","content":[],"_meta":{"com.x/k":1}}`)
	same(t, "payload toward modern, nothing else in _meta", PayloadToModern(ParseResult([]byte(`{"content":[],"_meta":{`+related+`}}`))),
		`{"resultType":"complete","content":[]}`)
}

// Units are never scaled, timestamps stay the same string, what is missing is
// filled.
func TestCaseB42_FieldsAndUnits(t *testing.T) {
	for _, tt := range []struct{ why, legacy, modern string }{
		{"the notice of the case",
			`{"taskId":"t9","status":"working","createdAt":"2026-11-30T11:00:00.1234567+01:00","lastUpdatedAt":"2026-11-30T10:00:01Z","ttl":null,"pollInterval":null}`,
			`{"taskId":"t9","status":"working","createdAt":"2026-11-30T11:00:00.1234567+01:00","lastUpdatedAt":"2026-11-30T10:00:01Z","ttlMs":null}`},
		{"lastUpdatedAt missing", `{"taskId":"t9","status":"working","createdAt":"c","ttl":1}`, `{"taskId":"t9","status":"working","createdAt":"c","lastUpdatedAt":"c","ttlMs":1}`},
		{"updatedAt is another member", `{"taskId":"t9","status":"working","createdAt":"c","updatedAt":"u","ttl":1}`, `{"taskId":"t9","status":"working","createdAt":"c","updatedAt":"u","lastUpdatedAt":"c","ttlMs":1}`},
		{"ttl missing", `{"taskId":"t9","status":"working","createdAt":"c","lastUpdatedAt":"l"}`, `{"taskId":"t9","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":null}`},
		{"fraction", `{"taskId":"t9","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":1500.0}`, `{"taskId":"t9","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":1500}`},
		{"no dates", `{"taskId":"t9","status":"working","createdAt":5,"ttl":1}`, `{"taskId":"t9","status":"working","createdAt":"1970-01-01T00:00:00Z","lastUpdatedAt":"1970-01-01T00:00:00Z","ttlMs":1}`},
		{"statusMessage that is no text", `{"taskId":"t9","status":"working","statusMessage":null,"createdAt":"c","lastUpdatedAt":"l","ttl":1}`, `{"taskId":"t9","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":1}`},
		{"nothing but an id", `{"taskId":"t9"}`, `{"taskId":"t9","status":"working","createdAt":"1970-01-01T00:00:00Z","lastUpdatedAt":"1970-01-01T00:00:00Z","ttlMs":null}`},
	} {
		same(t, tt.why, DetailedTask(ParseResult([]byte(tt.legacy)), TaskView{ID: "t9", Status: Working}, "", Payload{}, nil, nil), tt.modern)
		modern := strings.NewReplacer("ttl", "ttlMs", "pollInterval", "pollIntervalMs").Replace(tt.legacy)
		same(t, tt.why+", toward legacy", TaskToLegacy(ParseResult([]byte(modern)), TaskView{ID: "t9", Status: Working}), strings.Replace(tt.modern, "ttlMs", "ttl", 1))
	}
}

// inputRequests is there exactly when the task is input_required.
func TestCaseB44_InputRequests(t *testing.T) {
	task := ParseResult([]byte(`{"taskId":"s","status":"x","createdAt":"c","lastUpdatedAt":"l","ttl":1}`))
	const requests = `{"q1":{"method":"roots/list"}}`
	p := Payload{Result: []byte(`{"content":[]}`), Error: []byte(`{"code":1,"message":"m"}`)}
	for _, s := range words {
		got := ParseResult(DetailedTask(task, TaskView{ID: "h", Status: s}, "complete", p, []byte(requests), nil))
		if w, _ := got.Get("status").Str(); w != s {
			t.Errorf("%s became %q", s, w)
		}
		for member, when := range map[string]string{"inputRequests": InputRequired, "result": Completed, "error": Failed} {
			if got.Get(member).Exists() != (s == when) {
				t.Errorf("%s: %s is there: %v", s, member, s != when)
			}
		}
	}
	// Nothing in hand: shown as working, never as a broken message.
	for _, s := range []string{InputRequired, Completed, Failed} {
		got := DetailedTask(task, TaskView{ID: "h", Status: s}, "complete", Payload{}, nil, nil)
		same(t, s+" without its member", got, `{"resultType":"complete","taskId":"h","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":1}`)
	}
}

// A handle's result-level _meta is kept beside it, in both directions.
func TestCaseB61_MetaOfTheHandle(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/model-immediate-response":"Started","com.x/a":1}`
	nested := `{"task":{"taskId":"t10","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":null,"vendor":{"deep":[1]}},` + meta + `}`
	r := result(t, nested).Result()
	flat := CreateToModern(r, TaskOf(r), TaskView{ID: "t10", Status: Working}, nil)
	same(t, "flat", flat, `{"resultType":"task","taskId":"t10","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":null,"vendor":{"deep":[1]},`+meta+`}`)
	r = result(t, string(flat)).Result()
	same(t, "and back", CreateToLegacy(r, TaskOf(r), TaskView{ID: "t10", Status: Working}), nested)

	// With our serverInfo toward modern, which leaves again toward legacy.
	r = result(t, nested).Result()
	flat = CreateToModern(r, TaskOf(r), TaskView{ID: "t10", Status: Working}, []byte(`{"name":"s","version":"1"}`))
	r = result(t, string(flat)).Result()
	if info := r.Get("_meta").Get(MetaServerInfo); string(info.Raw()) != `{"name":"s","version":"1"}` {
		t.Errorf("serverInfo %s", info.Raw())
	}
	same(t, "and back from serverInfo", CreateToLegacy(r, TaskOf(r), TaskView{ID: "t10", Status: Working}), nested)

	// No _meta: none is invented.
	r = result(t, `{"task":{"taskId":"t10","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":null}}`).Result()
	same(t, "none invented", CreateToModern(r, TaskOf(r), TaskView{ID: "t10", Status: Working}, nil),
		`{"resultType":"task","taskId":"t10","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":null}`)
}

// What stands beside a nested task and belongs to nobody survives; what a
// rule owns there is not taken for the task's.
func TestBesideANestedTask(t *testing.T) {
	r := result(t, `{"task":{"taskId":"a","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":1,"v":1},"future":{"x":[]},"v":2,"ttl":9,"resultType":"task","status":"failed"}`).Result()
	view := TaskView{ID: "a", Status: Working}
	same(t, "toward modern", CreateToModern(r, TaskOf(r), view, nil), `{"resultType":"task","taskId":"a","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":1,"v":1,"future":{"x":[]}}`)
	same(t, "toward legacy", CreateToLegacy(r, TaskOf(r), view), `{"task":{"taskId":"a","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":1,"v":1},"future":{"x":[]}}`)
}

func TestPayloadOf(t *testing.T) {
	for _, tt := range []struct{ in, result, rpcError string }{
		{`{"status":"completed","result":{"a":1}}`, `{"a":1}`, ``},
		{`{"status":"failed","error":{"code":1}}`, ``, `{"code":1}`},
		{`{"result":{"a":1},"error":{"code":1}}`, `{"a":1}`, ``}, // one of the two, never both
		{`{"result":null,"error":{"code":1}}`, ``, `{"code":1}`},
		{`{"result":[],"error":"x"}`, ``, ``},
		{`{}`, ``, ``},
	} {
		p := PayloadOf(ParseResult([]byte(tt.in)))
		if string(p.Result) != tt.result || string(p.Error) != tt.rpcError {
			t.Errorf("%s: result %s, error %s", tt.in, p.Result, p.Error)
		}
	}
}

func TestIsError(t *testing.T) {
	for in, want := range map[string]bool{`{"isError":true}`: true, `{"isError":false}`: false, `{"isError":"true"}`: false, `{"isError":1}`: false, `{}`: false} {
		if IsError(ParseResult([]byte(in))) != want {
			t.Errorf("%s: %v", in, !want)
		}
	}
}

func TestRestate(t *testing.T) {
	const task = `{"taskId":"a","status":"working","statusMessage":"m","createdAt":"c","lastUpdatedAt":"l","ttl":1,"v":[1.0]}`
	same(t, "all", Restate(ParseResult([]byte(task)), Failed, "no", "l2"), `{"taskId":"a","status":"failed","statusMessage":"no","createdAt":"c","lastUpdatedAt":"l2","ttl":1,"v":[1.0]}`)
	same(t, "status alone", Restate(ParseResult([]byte(task)), Cancelled, "", ""), `{"taskId":"a","status":"cancelled","statusMessage":"m","createdAt":"c","lastUpdatedAt":"l","ttl":1,"v":[1.0]}`)
}

func TestParseResult(t *testing.T) {
	if ParseResult([]byte(`{"a":1,"a":2}`)).Exists() || ParseResult([]byte(`[]`)).Exists() || ParseResult(nil).Exists() {
		t.Error("a result no rule may read was read")
	}
}
