package translate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/schematest"
)

// Every message the rules make or edit is held against the definition of its
// own method. Inputs are what real peers send, and some of what they should
// not.

// legacyResults are results of legacy servers by method.
var legacyResults = map[string][]string{
	"tools/list": {
		`{"tools":[]}`,
		`{"tools":[{"name":"a","title":"A","description":"d","inputSchema":{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"icons":[{"src":"data:,"}],"execution":{"taskSupport":"required"},"_meta":{"v/k":1}}],"nextCursor":"n","_meta":{"com.x/a":1}}`,
		`{"tools":[{"name":"a","inputSchema":{"type":"object"},"execution":{}}],"ttlMs":-5,"cacheScope":"everyone"}`,
		`{"tools":[],"ttlMs":1.5}`,
	},
	"tools/call": {
		`{"content":[]}`,
		`{"content":[{"type":"text","text":"x","annotations":{"audience":["user"],"priority":0.5},"_meta":{}},{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"audio","data":"AA==","mimeType":"audio/wav"},{"type":"resource_link","uri":"a:b","name":"n"},{"type":"resource","resource":{"uri":"a:b","text":"t"}}],"structuredContent":{"n":1.0,"e":{}},"isError":true,"vendor":[]}`,
		`{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}`,
		`{"content":[],"resultType":17}`,
	},
	"prompts/list":             {`{"prompts":[{"name":"p","arguments":[{"name":"a","required":true}]}]}`},
	"prompts/get":              {`{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`},
	"resources/list":           {`{"resources":[{"uri":"file:///a","name":"a","size":3}],"nextCursor":"c"}`},
	"resources/templates/list": {`{"resourceTemplates":[{"uriTemplate":"file:///{p}","name":"t"}]}`},
	"resources/read":           {`{"contents":[{"uri":"file:///a","text":"x"},{"uri":"file:///b","blob":"AA==","mimeType":"x/y"}]}`},
	"completion/complete":      {`{"completion":{"values":["a"],"total":9,"hasMore":false}}`},
}

var serverInfos = []string{"", `{"name":"s","version":"1"}`, `{"name":"s","version":"1","title":"S","websiteUrl":"https://a.example","icons":[{"src":"data:,"}]}`}

func TestSchemaResultsToModern(t *testing.T) {
	v := schematest.Load(t)
	for method, raws := range legacyResults {
		for _, raw := range raws {
			for _, info := range serverInfos {
				v.Validate(t, "modern", method, schematest.Result, ResultToModern(method, result(t, raw), nil, []byte(info)))
			}
		}
	}
}

func TestSchemaResultsToLegacy(t *testing.T) {
	v := schematest.Load(t)
	for method, raws := range legacyResults {
		for _, raw := range raws {
			modern := decode(t, string(ResultToModern(method, result(t, raw), nil, []byte(serverInfos[2]))))
			for _, tasks := range []bool{true, false} {
				back, _ := ResultToLegacy(method, modern, tasks)
				v.Validate(t, "legacy", method, schematest.Result, back)
				noModernMembers(t, method, back)
			}
		}
	}
	// What only a modern server sends.
	for method, raws := range map[string][]string{
		"tools/list": {
			`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}]}`,
			`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"oneOf":[{"type":"object"},{"type":"null"}]},"execution":null}]}`,
		},
		"tools/call": {
			`{"resultType":"complete","content":[],"structuredContent":[1,2]}`,
			`{"resultType":"complete","content":[{"type":"text","text":"x"}],"structuredContent":null}`,
			`{"resultType":"complete","structuredContent":"only this"}`,
		},
		"ping":                {`{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`},
		"resources/subscribe": {`{"resultType":"complete"}`},
	} {
		for _, raw := range raws {
			back, _ := ResultToLegacy(method, result(t, raw), true)
			v.Validate(t, "legacy", method, schematest.Result, back)
			noModernMembers(t, method, back)
		}
	}
}

// noModernMembers: the legacy schemas allow any further member, so these are
// looked for by name.
func noModernMembers(t *testing.T, what string, raw []byte) {
	t.Helper()
	r := decode(t, string(raw)).Result()
	for _, key := range []string{"resultType", "cacheScope", "ttlMs", "pollIntervalMs", "inputRequests", "requestState"} {
		if r.Get(key).Exists() || r.Get("task").Get(key).Exists() {
			t.Errorf("%s: %s toward legacy in %s", what, key, raw)
		}
	}
	for key := range r.Get("_meta").Members() {
		if strings.HasPrefix(key, "io.modelcontextprotocol/") && key != MetaRelatedTask {
			t.Errorf("%s: %s toward legacy in %s", what, key, raw)
		}
	}
}

func TestSchemaInitializeResult(t *testing.T) {
	v := schematest.Load(t)
	for _, discover := range []string{
		`{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{},"experimental":{"x":{}},"extensions":{` + tasksExt + `,"com.x/ui":{}}},"instructions":"i","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`,
		`{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{}}`,
		`{"capabilities":7,"serverInfo":"s"}`,
		`{}`,
	} {
		for _, version := range Versions(Legacy) {
			for _, list := range []bool{true, false} {
				raw := InitializeResult(result(t, discover).Result(), InitializeOptions{Version: version, TaskList: list, Fallback: "upstream"})
				v.Validate(t, version, "initialize", schematest.Result, jsonrpc.NewResult(jsonrpc.IntID(1), raw))
				noModernMembers(t, version, jsonrpc.NewResult(jsonrpc.IntID(1), raw))
			}
		}
	}
}

func TestSchemaDiscoverResult(t *testing.T) {
	v := schematest.Load(t)
	for _, initialize := range []string{
		`{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{},"logging":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},"instructions":"i"}`,
		`{"protocolVersion":"2024-11-05","serverInfo":{"name":"s","version":"1"},"capabilities":{"experimental":{"x":{"y":1}}}}`,
		`{"protocolVersion":"2025-11-25","capabilities":null,"supportedVersions":"none","ttlMs":-1,"cacheScope":7,"resultType":null}`,
		`{}`,
	} {
		raw := DiscoverResult(result(t, initialize).Result())
		v.Validate(t, "modern", "server/discover", schematest.Result, jsonrpc.NewResult(jsonrpc.IntID(1), raw))
	}
}

// schemaTasks are Tasks as servers of both eras send them, in legacy names.
var schemaTasks = []string{
	`{"taskId":"t","status":"working","createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:05Z","ttl":60000,"pollInterval":500}`,
	`{"taskId":"t","status":"working","statusMessage":"m","createdAt":"c","lastUpdatedAt":"l","ttl":null,"pollInterval":null,"vendor":{"x":[]}}`,
	`{"taskId":"t","status":"working","createdAt":"c"}`,
	`{"taskId":"t","status":"paused","createdAt":7,"lastUpdatedAt":null,"statusMessage":[],"ttl":"60","pollInterval":-1}`,
	`{"taskId":"t","ttl":1500.0,"pollInterval":0.4,"_meta":{"a":1}}`,
	`{"taskId":"t","ttl":1e1000000,"pollInterval":9007199254740991,"resultType":7,"result":1,"error":2,"inputRequests":3,"requestState":4}`,
}

func modernNames(raw string) string {
	return strings.NewReplacer(`"ttl"`, `"ttlMs"`, `"pollInterval"`, `"pollIntervalMs"`).Replace(raw)
}

func TestSchemaTasksToModern(t *testing.T) {
	v := schematest.Load(t)
	payloads := map[string][]Payload{
		Completed: {
			{Result: PayloadToModern(ParseResult([]byte(`{"content":[{"type":"text","text":"x"}],"isError":true,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}`)))},
			{Result: PayloadToModern(ParseResult([]byte(`{"content":[],"structuredContent":{}}`)))},
			{},
		},
		Failed: {
			{Error: []byte(`{"code":-32603,"message":"m"}`)},
			{Error: []byte(`{"code":-32042,"message":"m","data":{"elicitations":[]}}`)},
			{},
		},
		Working: {{}}, InputRequired: {{}}, Cancelled: {{}},
	}
	for _, raw := range schemaTasks {
		for status, list := range payloads {
			for _, p := range list {
				for _, questions := range []string{"", schemaQuestions(t)} {
					var input []byte
					if questions != "" {
						input = []byte(questions)
					}
					view := TaskView{ID: "h", Status: status, Message: "m"}
					got := DetailedTask(ParseResult([]byte(raw)), view, "complete", p, input, []byte(serverInfos[1]))
					v.Validate(t, "modern", "tasks/get", schematest.Result, jsonrpc.NewResult(jsonrpc.IntID(1), got))
					notice := DetailedTask(ParseResult([]byte(raw)), view, "", p, input, nil)
					v.Validate(t, "modern", "notifications/tasks", schematest.Notification, Subscribed("notifications/tasks", notice, jsonrpc.StringID("l")))
				}
			}
		}
		for _, meta := range []string{`,"_meta":{"com.x/a":1}`, ``} {
			r := result(t, `{"task":`+raw+meta+`}`).Result()
			got := CreateToModern(r, TaskOf(r), TaskView{ID: "h", Status: Working}, []byte(serverInfos[1]))
			v.Validate(t, "modern", "tools/call", schematest.Result, jsonrpc.NewResult(jsonrpc.IntID(1), got))
		}
	}
}

func TestSchemaTasksToLegacy(t *testing.T) {
	v := schematest.Load(t)
	for _, raw := range schemaTasks {
		for _, shape := range []string{raw, modernNames(raw)} {
			for _, status := range words {
				task := TaskToLegacy(ParseResult([]byte(shape)), TaskView{ID: "h", Status: status, Message: "m"})
				for what, m := range map[string][]byte{
					"tasks/get":    jsonrpc.NewResult(jsonrpc.IntID(1), task),
					"tasks/cancel": jsonrpc.NewResult(jsonrpc.IntID(1), Restate(ParseResult(task), Cancelled, "c", "l")),
					"tasks/list":   jsonrpc.NewResult(jsonrpc.IntID(1), fmt.Appendf(nil, `{"tasks":[%s]}`, task)),
				} {
					v.Validate(t, "legacy", what, schematest.Result, m)
					noModernMembers(t, what, m)
				}
				v.Validate(t, "legacy", "notifications/tasks/status", schematest.Notification, jsonrpc.NewNotification("notifications/tasks/status", task))
			}
			flat := `{"resultType":"task",` + strings.TrimPrefix(modernNames(strings.Replace(raw, `"resultType":7,`, "", 1)), "{")
			for _, in := range []string{flat, `{"task":` + shape + `,"_meta":{"com.x/a":1}}`} {
				r := result(t, in).Result()
				got := jsonrpc.NewResult(jsonrpc.IntID(1), CreateToLegacy(r, TaskOf(r), TaskView{ID: "h", Status: Working}))
				v.Validate(t, "legacy", "tools/call", schematest.Result, got)
				noModernMembers(t, "tools/call", got)
			}
		}
	}
	for _, raw := range append(legacyResults["tools/call"], `{"content":[],"structuredContent":7}`, `{"structuredContent":[]}`) {
		got := jsonrpc.NewResult(jsonrpc.IntID(1), payloadToLegacy(ParseResult(PayloadToModern(ParseResult([]byte(raw)))), "h"))
		v.Validate(t, "legacy", "tasks/result", schematest.Result, got)
		noModernMembers(t, "tasks/result", got)
		if err := v.Definition("2025-11-25", "RelatedTaskMetadata", decode(t, string(got)).Result().Get("_meta").Get(MetaRelatedTask).Raw()); err != nil {
			t.Errorf("related-task: %v", err)
		}
	}
}

// legacyQuestions are requests of legacy servers.
var legacyQuestions = map[string][]string{
	"elicitation/create": {
		`{"message":"Name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","title":"N"}},"required":["name"]},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"},"progressToken":1}}`,
		`{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"n":{"type":"integer"},"b":{"type":"boolean"},"e":{"type":"string","enum":["a"]}}},"task":{"ttl":5}}`,
		`{"mode":"url","elicitationId":"e1","url":"https://a.example/x?e=1","message":"Sign in"}`,
	},
	"sampling/createMessage": {
		`{"messages":[{"role":"user","content":{"type":"text","text":"x"}}],"maxTokens":10}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"maxTokens":10,"systemPrompt":"s","modelPreferences":{"hints":[{"name":"m"}]},"tools":[{"name":"w","inputSchema":{"type":"object"}}],"toolChoice":{"mode":"auto"},"task":{}}`,
	},
	"roots/list": {``, `{}`, `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}`},
}

// schemaQuestions is an inputRequests object of all of them.
func schemaQuestions(t *testing.T) string {
	var keys []string
	b := jsonrpc.NewObject()
	for method, list := range legacyQuestions {
		for i, raw := range list {
			key := fmt.Sprintf("q%s%d", method[:2], i)
			keys = append(keys, key)
			p := jsonrpc.Value{}
			if raw != "" {
				p = params(t, method, raw)
			}
			b.Raw(key, QuestionToModern(method, p))
		}
	}
	slices.Sort(keys)
	if len(slices.Compact(keys)) != 8 {
		t.Fatal("two questions under one key")
	}
	return string(b.Bytes())
}

func TestSchemaQuestions(t *testing.T) {
	v := schematest.Load(t)
	requests := schemaQuestions(t)
	asked := result(t, `{"resultType":"input_required","inputRequests":`+requests+`}`)
	v.Validate(t, "modern", "tools/call", schematest.Result, asked.Raw)
	var keys []string
	var entries [][]byte
	for key, entry := range asked.Result().Get("inputRequests").Members() {
		keys, entries = append(keys, key), append(entries, entry.Raw())
		method, _ := entry.Get("method").Str()
		elicitation := ""
		if mode, _ := entry.Get("params").Get("mode").Str(); mode == "url" {
			elicitation = "minted"
		}
		for _, task := range []string{"", "h"} {
			raw := QuestionToLegacy(jsonrpc.IntID(1), method, entry.Get("params"), task, elicitation)
			v.Validate(t, "legacy", method, schematest.Request, raw)
		}
	}
	for _, info := range serverInfos {
		for _, method := range []string{"tools/call", "prompts/get", "resources/read"} {
			v.Validate(t, "modern", method, schematest.Result, jsonrpc.NewResult(jsonrpc.IntID(1), InputRequiredResult(keys, entries, "state", []byte(info))))
		}
	}
}

func TestSchemaAnswers(t *testing.T) {
	v := schematest.Load(t)
	refused, _ := RefusedAnswer("elicitation/create")
	for method, raws := range map[string][]string{
		"elicitation/create":     {`{"action":"accept","content":{"name":"A","n":1,"b":true}}`, `{"action":"decline"}`, `{"action":"cancel","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"h"}}}`, string(refused)},
		"sampling/createMessage": {`{"role":"assistant","model":"m","content":{"type":"text","text":"x"},"stopReason":"endTurn"}`, `{"role":"assistant","model":"m","content":[{"type":"tool_use","id":"1","name":"w","input":{}}],"resultType":"complete"}`},
		"roots/list":             {`{"roots":[]}`, `{"roots":[{"uri":"file:///a","name":"a"}],"_meta":{"com.x/a":1}}`},
	} {
		for _, raw := range raws {
			answer := AnswerToModern(result(t, raw).Result())
			update := NewModernRequest(jsonrpc.IntID(1), "tasks/update", modernRequest,
				Param{"taskId", []byte(`"t"`)}, Param{"inputResponses", fmt.Appendf(nil, `{"k":%s}`, answer)})
			v.Validate(t, "modern", "tasks/update", schematest.Request, update)
			for _, task := range []string{"", "t"} {
				a := decode(t, string(update)).At("params", "inputResponses", "k")
				v.Validate(t, "legacy", method, schematest.Result, AnswerToLegacy(jsonrpc.IntID(1), a, task))
			}
		}
	}
}

// legacyRequests are requests of legacy clients that go to modern servers.
var legacyRequests = map[string][]string{
	"tools/list":               {``, `{}`, `{"cursor":"c","_meta":{"progressToken":"p"}}`},
	"tools/call":               {`{"name":"t"}`, `{"name":"t","arguments":{"n":1},"task":{"ttl":1},"_meta":{"progressToken":1,"com.x/a":{}}}`, `{"name":"t","_meta":null}`},
	"prompts/list":             {``},
	"prompts/get":              {`{"name":"p","arguments":{"a":"b"}}`},
	"resources/list":           {`{"cursor":"c"}`},
	"resources/templates/list": {``},
	"resources/read":           {`{"uri":"file:///a"}`},
	"completion/complete":      {`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"},"context":{"arguments":{"x":"y"}}}`},
}

func TestSchemaRequests(t *testing.T) {
	v := schematest.Load(t)
	full := modernRequest
	full.LogLevel = "warning"
	full.ClientCaps = ClientCapsToModern([]byte(`{"roots":{"listChanged":true},"sampling":{},"elicitation":{"url":{}},"tasks":{"list":{}}}`), true)
	for method, raws := range legacyRequests {
		for _, raw := range raws {
			for _, r := range []ModernRequest{full, {Version: V20260728}} {
				in := `{"jsonrpc":"2.0","id":"a","method":"` + method + `"}`
				if raw != "" {
					in = `{"jsonrpc":"2.0","id":"a","method":"` + method + `","params":` + raw + `}`
				}
				modern := RequestToModern(decode(t, in), r)
				v.Validate(t, "modern", method, schematest.Request, modern)
				for _, task := range []bool{true, false} {
					legacy := RequestToLegacy(decode(t, string(modern)), LegacyRequest{Task: task})
					v.Validate(t, "legacy", method, schematest.Request, legacy)
					if strings.Contains(string(legacy), "io.modelcontextprotocol/") {
						t.Errorf("%s: a modern key toward legacy: %s", method, legacy)
					}
				}
			}
		}
	}
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update", "server/discover"} {
		list := []Param{{"taskId", []byte(`"t"`)}, {"inputResponses", []byte(`{}`)}}
		v.Validate(t, "modern", method, schematest.Request, NewModernRequest(jsonrpc.IntID(1), method, full, list...))
	}
	// The same capabilities in initialize of a legacy session.
	init := fmt.Appendf(nil, `{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":%s}`, ClientCapsToLegacy(full.ClientCaps))
	v.Validate(t, "legacy", "initialize", schematest.Request, jsonrpc.NewRequest(jsonrpc.IntID(1), "initialize", init))
}

func TestSchemaErrors(t *testing.T) {
	v := schematest.Load(t)
	for _, raw := range []string{
		`{"code":-32002,"message":"Resource not found","data":{"uri":"file:///no"}}`,
		`{"code":-32602,"message":"Resource not found","data":{"uri":"file:///no"}}`,
		`{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://a.example","message":"m"}]}}`,
		`{"code":-31000,"message":"m","data":[1,null]}`,
	} {
		m := decode(t, `{"jsonrpc":"2.0","id":1,"error":`+raw+`}`)
		for _, method := range []string{"resources/read", "tools/call"} {
			modern := ResultToModern(method, m, nil, nil)
			v.Validate(t, "modern", method, schematest.Error, modern)
			for code := range retiredCodes {
				if n, _ := decode(t, string(modern)).Error().Get("code").Int(); n == code {
					t.Errorf("%d toward modern", code)
				}
			}
			legacy, _ := ResultToLegacy(method, m, false)
			v.Validate(t, "legacy", method, schematest.Error, legacy)
		}
		if err := v.Definition("2026-07-28", "Error", ErrorToModern([]byte(raw))); err != nil {
			t.Error(err)
		}
	}
	// What we refuse with ourselves.
	for _, r := range conditions {
		for _, e := range []Era{Legacy, Modern} {
			var data []byte
			switch rep := ReplyFor(r.Cond, e); rep.Code {
			case -32021:
				data = []byte(`{"requiredCapabilities":{"extensions":{` + tasksExt + `}}}`)
			case -32022:
				data = VersionData("1999-01-01", nil)
			}
			raw := jsonrpc.NewError(jsonrpc.IntID(1), ReplyFor(r.Cond, e).Code, string(r.Cond), data)
			v.Validate(t, e.String(), "tools/call", schematest.Error, raw)
		}
	}
}

func TestSchemaSubscriptions(t *testing.T) {
	v := schematest.Load(t)
	for method, params := range map[string]string{
		"notifications/subscriptions/acknowledged": `{"notifications":{"toolsListChanged":true,"taskIds":["h"],"resourceSubscriptions":["file:///a"]}}`,
		"notifications/tools/list_changed":         `{}`,
		"notifications/prompts/list_changed":       `{"_meta":{"v/k":1}}`,
		"notifications/resources/list_changed":     `{}`,
		"notifications/resources/updated":          `{"uri":"file:///a"}`,
	} {
		modern := Subscribed(method, []byte(params), jsonrpc.IntID(9))
		v.Validate(t, "modern", method, schematest.Notification, modern)
		if method != "notifications/subscriptions/acknowledged" {
			v.Validate(t, "legacy", method, schematest.Notification, Unsubscribed(decode(t, string(modern))))
		}
	}
}

// Every method a client of either era may send has its row in methods, and
// none is there that no revision defines.
func TestSchemaMethods(t *testing.T) {
	v := schematest.Load(t)
	defined := map[string]bool{}
	for _, era := range []string{"legacy", "modern"} {
		for _, method := range schematest.Methods(era, schematest.Request) {
			if !IsQuestion(method) {
				defined[method] = true
			}
		}
	}
	for _, method := range []string{"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed", "notifications/tasks/status"} {
		defined[method] = true
	}
	for _, r := range methods {
		if !defined[r.Method] {
			t.Errorf("%s: no revision defines it for clients", r.Method)
		}
		delete(defined, r.Method)
	}
	for method := range defined {
		t.Errorf("%s: no row in methods", method)
	}
	// And the table of this test knows all that the schemas do.
	for revision, unions := range map[string][]string{"2025-11-25": {"ClientRequest", "ServerRequest", "ClientNotification", "ServerNotification"}, "2026-07-28": {"ClientRequest", "ServerNotification"}} {
		for _, union := range unions {
			for _, method := range v.MethodsOf(t, revision, union) {
				kind := schematest.Request
				if strings.HasPrefix(method, "notifications/") {
					kind = schematest.Notification
				}
				if !slices.Contains(schematest.Methods(revision, kind), method) {
					t.Errorf("%s: no row for %s", revision, method)
				}
			}
		}
	}
}
