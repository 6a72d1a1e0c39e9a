package translate

import (
	"testing"

	"taskbridge/translate/jsonrpc"
)

const relatedH = `"io.modelcontextprotocol/related-task":{"taskId":"h"}`

func TestIsQuestion(t *testing.T) {
	for _, m := range []string{"elicitation/create", "sampling/createMessage", "roots/list"} {
		if !IsQuestion(m) {
			t.Errorf("%s is a question", m)
		}
	}
	for _, m := range []string{"ping", "tasks/get", "elicitation/createX", ""} {
		if IsQuestion(m) {
			t.Errorf("%s is no question", m)
		}
	}
}

// entry is an entry of inputRequests as the decoder records it.
func entry(t *testing.T, raw string) jsonrpc.Value {
	t.Helper()
	return result(t, `{"resultType":"input_required","inputRequests":{"k":`+raw+`}}`).Result().Get("inputRequests").Get("k").Get("params")
}

// related-task goes on a question toward a legacy client and off one toward a
// modern client, with all that only the other era has.
func TestCaseB14_Questions(t *testing.T) {
	for _, tt := range []struct{ why, params, task, elicitation, want string }{
		{"form", `{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}`, "h", "", `{"message":"Name?","requestedSchema":{"type":"object","properties":{}},"_meta":{` + relatedH + `}}`},
		{"outside a task", `{"message":"m"}`, "", "", `{"message":"m"}`},
		{"merged", `{"message":"m","_meta":{"com.x/a":1}}`, "h", "", `{"message":"m","_meta":{"com.x/a":1,` + relatedH + `}}`},
		{"a server's own key is written over", `{"message":"m","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"s"}}}`, "h", "", `{"message":"m","_meta":{` + relatedH + `}}`},
		{"url mode gets an id", `{"mode":"url","url":"https://a.example","message":"m"}`, "", "e1", `{"mode":"url","url":"https://a.example","message":"m","elicitationId":"e1"}`},
		{"url mode: the id is ours", `{"mode":"url","elicitationId":"s","url":"u","message":"m"}`, "", "e1", `{"mode":"url","url":"u","message":"m","elicitationId":"e1"}`},
		{"task augmentation goes", `{"message":"m","task":{}}`, "", "", `{"message":"m"}`},
	} {
		raw := QuestionToLegacy(jsonrpc.IntID(3), "elicitation/create", entry(t, `{"method":"elicitation/create","params":`+tt.params+`}`), tt.task, tt.elicitation)
		m := decode(t, string(raw))
		if m.Kind != jsonrpc.Request || m.ID.String() != "3" || m.Method != "elicitation/create" {
			t.Errorf("%s: %s", tt.why, raw)
		}
		same(t, tt.why, m.Params().Raw(), tt.want)
	}
	m := decode(t, string(QuestionToLegacy(jsonrpc.IntID(3), "roots/list", jsonrpc.Value{}, "h", "")))
	same(t, "roots without params", m.Params().Raw(), `{"_meta":{`+relatedH+`}}`)

	for _, tt := range []struct{ why, method, params, want string }{
		{"form", "elicitation/create", `{"message":"Name?","requestedSchema":{},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"s"},"progressToken":9,"com.x/a":1}}`, `{"method":"elicitation/create","params":{"message":"Name?","requestedSchema":{},"_meta":{"com.x/a":1}}}`},
		{"url", "elicitation/create", `{"mode":"url","elicitationId":"e1","url":"u","message":"m","task":{"ttl":1}}`, `{"method":"elicitation/create","params":{"mode":"url","url":"u","message":"m"}}`},
		{"sampling, as sent", "sampling/createMessage", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"maxTokens":10,"tools":[{"name":"w"}],"toolChoice":{"mode":"auto"}}`, `{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"maxTokens":10,"tools":[{"name":"w"}],"toolChoice":{"mode":"auto"}}}`},
		{"roots", "roots/list", `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"s"}}}`, `{"method":"roots/list","params":{}}`},
	} {
		same(t, tt.why, QuestionToModern(tt.method, params(t, tt.method, tt.params)), tt.want)
	}
	same(t, "roots without params", QuestionToModern("roots/list", jsonrpc.Value{}), `{"method":"roots/list","params":{}}`) // a widely used client cannot read it without
	same(t, "elicitation without params", QuestionToModern("elicitation/create", jsonrpc.Value{}), `{"method":"elicitation/create","params":{}}`)
}

// A legacy client's answer is taken without the key; a modern client's gets
// it toward the server.
func TestCaseB14_Answers(t *testing.T) {
	for _, in := range []string{
		`{"action":"accept","content":{"name":"A"}}`,
		`{"action":"accept","content":{"name":"A"},"_meta":{` + relatedH + `}}`,
	} {
		same(t, in, AnswerToModern(result(t, in).Result()), `{"action":"accept","content":{"name":"A"}}`)
	}
	same(t, "other keys stay", AnswerToModern(result(t, `{"action":"decline","_meta":{`+relatedH+`,"com.x/a":1}}`).Result()), `{"action":"decline","_meta":{"com.x/a":1}}`)

	answer := func(raw string) jsonrpc.Value {
		return params(t, "tasks/update", `{"taskId":"h","inputResponses":{"k":`+raw+`}}`).Get("inputResponses").Get("k")
	}
	for _, tt := range []struct{ why, in, task, want string }{
		{"in a task", `{"action":"accept","content":{"name":"Ana"}}`, "s", `{"action":"accept","content":{"name":"Ana"},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"s"}}}`},
		{"outside", `{"action":"cancel"}`, "", `{"action":"cancel"}`},
		{"merged", `{"roots":[],"_meta":{"com.x/a":1}}`, "s", `{"roots":[],"_meta":{"com.x/a":1,"io.modelcontextprotocol/related-task":{"taskId":"s"}}}`},
		{"the client's own key is written over", `{"roots":[],"_meta":{` + relatedH + `}}`, "s", `{"roots":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"s"}}}`},
		{"resultType goes", `{"resultType":"complete","roots":[]}`, "", `{"roots":[]}`},
	} {
		m := decode(t, string(AnswerToLegacy(jsonrpc.StringID("srv-1"), answer(tt.in), tt.task)))
		if m.ID.String() != `"srv-1"` || m.Kind != jsonrpc.Response {
			t.Errorf("%s: %s", tt.why, m.Raw)
		}
		same(t, tt.why, m.Result().Raw(), tt.want)
	}
}

// The whole answer goes, never its content alone; an elicitation that was
// refused has a form, sampling and roots have none.
func TestCaseB44_Answers(t *testing.T) {
	update := params(t, "tasks/update", `{"taskId":"t8","inputResponses":{"k1":{"action":"accept","content":{"name":"Ana"}},"zz":{"action":"cancel"}}}`)
	m := decode(t, string(AnswerToLegacy(jsonrpc.IntID(1), update.Get("inputResponses").Get("k1"), "t8")))
	same(t, "whole", m.Result().Raw(), `{"action":"accept","content":{"name":"Ana"},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t8"}}}`)
	if raw, ok := RefusedAnswer("elicitation/create"); !ok || string(raw) != `{"action":"cancel"}` {
		t.Errorf("elicitation: %s, %v", raw, ok)
	}
	for _, method := range []string{"sampling/createMessage", "roots/list", ""} {
		if raw, ok := RefusedAnswer(method); ok || raw != nil {
			t.Errorf("%s: %s", method, raw)
		}
	}
}

// A legacy server's question, asked of a legacy client by way of the modern
// form, is the same question; so is the answer.
func TestQuestionsThereAndBack(t *testing.T) {
	for _, raw := range []string{
		`{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}},"_meta":{"com.x/a":1},"future":[]}`,
		`{"messages":[{"role":"user","content":{"type":"text","text":"a"}}],"maxTokens":9007199254740993}`,
	} {
		there := QuestionToModern("sampling/createMessage", params(t, "sampling/createMessage", raw))
		back := QuestionToLegacy(jsonrpc.IntID(1), "sampling/createMessage", entry(t, string(there)), "", "")
		same(t, "question", decode(t, string(back)).Params().Raw(), raw)
	}
	const answer = `{"role":"assistant","model":"m","content":[{"type":"tool_use","id":"1","name":"w","input":{"n":1.0}}],"_meta":{"com.x/a":{}},"future":null}`
	there := AnswerToModern(result(t, answer).Result())
	update := params(t, "tasks/update", `{"inputResponses":{"k":`+string(there)+`}}`)
	same(t, "answer", inner(t, AnswerToLegacy(jsonrpc.IntID(1), update.Get("inputResponses").Get("k"), "")), answer)
}

func TestRelatedTask(t *testing.T) {
	for in, want := range map[string]string{
		`{"_meta":{` + relatedH + `}}`:                                    "h",
		`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":7}}}`: "",
		`{"_meta":{"io.modelcontextprotocol/related-task":"h"}}`:          "",
		`{"taskId":"h"}`: "",
		`{}`:             "",
	} {
		if got := RelatedTask(params(t, "elicitation/create", in)); got != want {
			t.Errorf("%s: %q", in, got)
		}
	}
}
