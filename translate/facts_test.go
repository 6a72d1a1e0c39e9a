package translate

import (
	"slices"
	"testing"
)

// 2026-07-28 streamable-http, Standard Request Headers; tasks extension,
// Routing Headers.
func TestNameMember(t *testing.T) {
	want := map[string]string{
		"tools/call": "name", "prompts/get": "name", "resources/read": "uri",
		"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
	}
	for _, r := range methods {
		if got := NameMember(r.Method); got != want[r.Method] {
			t.Errorf("NameMember(%q) = %q", r.Method, got)
		}
	}
	if len(nameRows) != len(want) || NameMember("vendor/x") != "" {
		t.Error("rows that no specification names")
	}
}

func TestFacts(t *testing.T) {
	for _, tt := range []struct {
		why, method, raw string
		name             string
		ids              []string
		token, cursor    string
		state            string
		final            bool
	}{
		{why: "call", raw: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"taskId":"no"},"_meta":{"progressToken":7},"requestState":"s"}}`,
			name: "t", token: "7", state: `"s"`},
		{why: "read", raw: `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"}}`, name: "file:///a"},
		{why: "page", raw: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"c"}}`, cursor: `"c"`},
		{why: "task request", raw: `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"a"}}`, name: "a", ids: []string{"a"}},
		{why: "legacy payload request", raw: `{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"taskId":"a","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"b"}}}}`, ids: []string{"a", "b"}},
		{why: "another method's taskId is not a task's", raw: `{"jsonrpc":"2.0","id":1,"method":"vendor/x","params":{"taskId":"a"}}`},
		{why: "listen", raw: `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["a","b",3]}}}`, ids: []string{"a", "b"}},
		{why: "acknowledgement", raw: `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"taskIds":["a"]}}}`, ids: []string{"a"}},
		{why: "legacy status notice", raw: `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"a"}}`, ids: []string{"a"}},
		{why: "modern status notice", raw: `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"a"}}`, ids: []string{"a"}},
		{why: "progress", raw: `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}}}`, token: `"p"`, ids: []string{"a"}},
		{why: "question", raw: `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}}}`, ids: []string{"a"}},
		{why: "nested handle", method: "tools/call", raw: `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"a"}}}`, ids: []string{"a"}, final: true},
		{why: "flat handle", method: "tools/call", raw: `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"a"}}`, ids: []string{"a"}, final: true},
		{why: "plain result with such members", method: "tools/call", raw: `{"jsonrpc":"2.0","id":1,"result":{"content":[],"taskId":"a"}}`, final: true},
		{why: "get", method: "tasks/get", raw: `{"jsonrpc":"2.0","id":1,"result":{"taskId":"a","status":"working"}}`, ids: []string{"a"}, final: true},
		{why: "list", method: "tasks/list", raw: `{"jsonrpc":"2.0","id":1,"result":{"tasks":[{"taskId":"a"},{"taskId":"b"},{}],"nextCursor":"n"}}`, ids: []string{"a", "b"}, cursor: `"n"`, final: true},
		{why: "payload", method: "tasks/result", raw: `{"jsonrpc":"2.0","id":1,"result":{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}}}`, ids: []string{"a"}, final: true},
		{why: "rounds", method: "tools/call", raw: `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s"}}`, state: `"s"`, final: true},
		{why: "error", method: "tasks/get", raw: `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"m"}}`, final: true},
		{why: "id that is no string", method: "tasks/get", raw: `{"jsonrpc":"2.0","id":1,"result":{"taskId":5}}`, final: true},
	} {
		m := decode(t, tt.raw)
		method := tt.method
		if method == "" {
			method = m.Method
		}
		f := Facts(m, method)
		var ids []string
		for _, v := range f.TaskIDs {
			s, _ := v.Str()
			ids = append(ids, s)
		}
		if f.Method != method || f.Name != tt.name || !slices.Equal(ids, tt.ids) || f.Final != tt.final ||
			string(f.Token.Raw()) != tt.token || string(f.Cursor.Raw()) != tt.cursor || string(f.State.Raw()) != tt.state {
			t.Errorf("%s: name %q, ids %q, token %s, cursor %s, state %s, final %v", tt.why, f.Name, ids, f.Token.Raw(), f.Cursor.Raw(), f.State.Raw(), f.Final)
		}
	}
}

func TestTaskMethod(t *testing.T) {
	for _, m := range []string{"tasks/get", "tasks/result", "tasks/update", "tasks/cancel", "notifications/tasks", "notifications/tasks/status"} {
		if !TaskMethod(m) {
			t.Errorf("%s is about one task", m)
		}
	}
	for _, m := range []string{"tasks/list", "tools/call", "tasks/", ""} {
		if TaskMethod(m) {
			t.Errorf("%s is not about one task", m)
		}
	}
}

func TestDeclaresTasks(t *testing.T) {
	for caps, want := range map[string]bool{
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`: true,
		`{"extensions":{"com.x/tasks":{}}}`:                   false,
		`{"extensions":{}}`:                                   false,
		`{"tasks":{"requests":{"tools":{"call":{}}}}}`:        false,
		`{}`: false,
	} {
		m := decode(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":`+caps+`}}}`)
		if DeclaresTasks(m) != want {
			t.Errorf("%s: %v", caps, !want)
		}
	}
	if DeclaresTasks(decode(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)) {
		t.Error("no params, yet the extension is declared")
	}
}
