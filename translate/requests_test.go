package translate

import (
	"testing"

	"taskbridge/translate/jsonrpc"
)

var modernRequest = ModernRequest{
	Version:    V20260728,
	ClientInfo: []byte(`{"name":"c","version":"1"}`),
	ClientCaps: []byte(`{"elicitation":{}}`),
}

const requestKeys = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`

func TestRequestToModern(t *testing.T) {
	for _, tt := range []struct{ why, method, in, want string }{
		{"no params", "tools/list", ``, `{"_meta":{` + requestKeys + `}}`},
		{"empty params", "tools/list", `{}`, `{"_meta":{` + requestKeys + `}}`},
		{"other keys stay", "tools/call", `{"name":"t","_meta":{"progressToken":1,"com.x/a":[]}}`, `{"name":"t","_meta":{"progressToken":1,"com.x/a":[],` + requestKeys + `}}`},
		{"task augmentation goes", "tools/call", `{"name":"t","task":{"ttl":1}}`, `{"name":"t","_meta":{` + requestKeys + `}}`},
		{"task of another method is its own", "vendor/x", `{"task":{}}`, `{"task":{},"_meta":{` + requestKeys + `}}`},
		{"modern keys of a legacy client are written over", "tools/call",
			`{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"x","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/logLevel":"debug"}}`,
			`{"name":"t","_meta":{` + requestKeys + `}}`},
		{"related-task goes", "tasks/get", `{"taskId":"a","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"b"}}}`, `{"taskId":"a","_meta":{` + requestKeys + `}}`},
		{"_meta that is no object", "tools/list", `{"_meta":null}`, `{"_meta":{` + requestKeys + `}}`},
	} {
		raw := `{"jsonrpc":"2.0","id":"i-\u0031","method":"` + tt.method + `"}`
		if tt.in != "" {
			raw = `{"jsonrpc":"2.0","id":"i-\u0031","method":"` + tt.method + `","params":` + tt.in + `}`
		}
		m := decode(t, string(RequestToModern(decode(t, raw), modernRequest)))
		same(t, tt.why, m.Params().Raw(), tt.want)
		if m.ID.String() != `"i-\u0031"` || m.Method != tt.method {
			t.Errorf("%s: id %s, method %s", tt.why, m.ID, m.Method)
		}
	}
}

// logging/setLevel of the session becomes logLevel of each request; the least
// request has capabilities, be they empty.
func TestRequestToModernMembers(t *testing.T) {
	call := decode(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	m := decode(t, string(RequestToModern(call, ModernRequest{Version: V20260630, LogLevel: "warning"})))
	same(t, "least", m.Params().Raw(), `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-06-30","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"warning"}}`)
	m = decode(t, string(NewModernRequest(jsonrpc.IntID(7), "tasks/get", modernRequest, Param{"taskId", []byte(`"a\"b"`)})))
	if m.ID.String() != "7" || m.Method != "tasks/get" {
		t.Errorf("made %s", m.Raw)
	}
	same(t, "of our own", m.Params().Raw(), `{"taskId":"a\"b","_meta":{`+requestKeys+`}}`)
}

func TestRequestToLegacy(t *testing.T) {
	const modern = `"_meta":{` + requestKeys + `,"io.modelcontextprotocol/logLevel":"info"}`
	for _, tt := range []struct {
		why, method, in string
		plain, task     string
	}{
		{"per-request fields", "tools/list", `{` + modern + `}`, `{}`, `{}`},
		{"other keys stay", "tools/list", `{"cursor":"c","_meta":{` + requestKeys + `,"progressToken":"p","com.x/a":1}}`,
			`{"cursor":"c","_meta":{"progressToken":"p","com.x/a":1}}`, `{"cursor":"c","_meta":{"progressToken":"p","com.x/a":1}}`},
		{"task is added where asked", "tools/call", `{"name":"t",` + modern + `}`, `{"name":"t"}`, `{"name":"t","task":{}}`},
		{"a stray task is not the client's to say", "tools/call", `{"name":"t","task":{"ttl":5}}`, `{"name":"t"}`, `{"name":"t","task":{}}`},
		{"rounds", "tools/call", `{"name":"t","inputResponses":{"a":{}},"requestState":"s"}`, `{"name":"t"}`, `{"name":"t","task":{}}`},
		{"rounds of a prompt", "prompts/get", `{"name":"t","inputResponses":{},"requestState":"s"}`, `{"name":"t"}`, `{"name":"t"}`},
		{"rounds of a resource", "resources/read", `{"uri":"u","inputResponses":{},"requestState":"s"}`, `{"uri":"u"}`, `{"uri":"u"}`},
		{"such members of another method are its own", "vendor/x", `{"requestState":"s","task":{}}`, `{"requestState":"s","task":{}}`, `{"requestState":"s","task":{}}`},
		{"related-task would be one of our handles", "tools/call", `{"name":"t","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"h"}}}`, `{"name":"t"}`, `{"name":"t","task":{}}`},
		{"an empty _meta stays", "tools/list", `{"_meta":{}}`, `{"_meta":{}}`, `{"_meta":{}}`},
	} {
		in := decode(t, `{"jsonrpc":"2.0","id":1,"method":"`+tt.method+`","params":`+tt.in+`}`)
		same(t, tt.why, decode(t, string(RequestToLegacy(in, LegacyRequest{}))).Params().Raw(), tt.plain)
		same(t, tt.why+", as a task", decode(t, string(RequestToLegacy(in, LegacyRequest{Task: true}))).Params().Raw(), tt.task)
	}
	const bare = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	if got := string(RequestToLegacy(decode(t, bare), LegacyRequest{})); got != bare {
		t.Errorf("without params: %s", got)
	}
}

// task:{} asks without preference; whatever its ttl, nothing of it reaches a
// modern server (case B9, requested ttl).
func TestCaseB9_RequestedTTL(t *testing.T) {
	for _, task := range []string{`{}`, `{"ttl":null}`, `{"ttl":0}`, `{"ttl":-1}`, `{"ttl":"60"}`, `null`, `7`} {
		raw := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},"task":` + task + `}}`
		m := decode(t, string(RequestToModern(decode(t, raw), modernRequest)))
		same(t, task, m.Params().Raw(), `{"name":"job","arguments":{},"_meta":{`+requestKeys+`}}`)
	}
}

// A request of a modern client, taken to legacy and back to modern with the
// same per-request fields, is the same request.
func TestRequestsThereAndBack(t *testing.T) {
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"n":1.0},"_meta":{"progressToken":1,` + requestKeys + `}}}`,
		`{"jsonrpc":"2.0","id":"a","method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"},"_meta":{` + requestKeys + `}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"vendor/x","params":{"future":[],"_meta":{` + requestKeys + `}}}`,
	} {
		legacy := RequestToLegacy(decode(t, raw), LegacyRequest{})
		same(t, "there and back", RequestToModern(decode(t, string(legacy)), modernRequest), raw)
	}
}
