package translate

import (
	"strings"
	"testing"
)

func TestAnswerOf(t *testing.T) {
	long := strings.Repeat(`x\"}]`, 100000)
	for _, c := range []struct {
		raw    string
		status int
		want   Answer
	}{
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, 0, Answer{Outcome: OutcomeCompleted}},
		{`{"result":{"content":[{"type":"text","text":"` + long + `"}],"isError":true},"id":1}`, 200, Answer{Outcome: OutcomeToolError}},
		{`{"result":{"content":[{"isError":true}],"isError":false}}`, 0, Answer{Outcome: OutcomeCompleted}},
		{` { "result" : { "structuredContent" : {"resultType":"task"} , "resultType" : "complete" } } `, 0, Answer{Outcome: OutcomeCompleted}},
		{`{"result":{"taskId":"1","resultType":"task"}}`, 0, Answer{Outcome: OutcomeTask, TaskID: `"1"`}},
		{`{"result":{"task":{"taskId":"1","status":"working"},"_meta":{}}}`, 0, Answer{Outcome: OutcomeTask, TaskID: `"1"`}},
		{`{"result":{"taskId":"1","status":"failed","resultType":"complete"}}`, 0, Answer{Outcome: OutcomeCompleted, Task: Failed}},
		{`{"result":{"taskId":"1","status":"resting"}}`, 0, Answer{Outcome: OutcomeCompleted}},
		{`{"result":{"status":"completed","structuredContent":{"taskId":"1"}}}`, 0, Answer{Outcome: OutcomeCompleted}},
		{`{"result":{"tasks":[{"taskId":"1"}]}}`, 0, Answer{Outcome: OutcomeCompleted}},
		{`{"result":{"resultType":"input_required","inputRequests":{}}}`, 0, Answer{Outcome: OutcomeInputRequired}},
		{`{"error":{"code":-32602,"message":"no \"such\" tool","data":{"code":7}},"id":null}`, 400, Answer{Outcome: OutcomeError, Code: -32602, Message: `no "such" tool`}},
		{`{"error":{"message":"slow down","code":-32000}}`, 429, Answer{Outcome: OutcomeRefused, Code: -32000, Message: "slow down"}},
		{`{"error":{"code":1e99,"message":"` + long + `"}}`, 0, Answer{Outcome: OutcomeError}},
		{`{"error":{"code":-32603,"message":"x"}}`, 503, Answer{Outcome: OutcomeUnavailable, Code: -32603, Message: "x"}},
		{``, 202, Answer{Outcome: OutcomeAccepted}},
		{``, 401, Answer{Outcome: OutcomeRefused}},
		{``, 404, Answer{Outcome: OutcomeError}},
		{``, 0, Answer{}},
		{`[1,2]`, 0, Answer{}},
	} {
		if got := AnswerOf([]byte(c.raw), c.status); got != c.want {
			t.Errorf("%.80s, %d: %+v, want %+v", c.raw, c.status, got, c.want)
		}
	}
}

// What is no JSON is passed over without a fault.
func FuzzAnswerOf(f *testing.F) {
	for _, s := range []string{`{"result":{"isError":true}}`, `{"error":{"code":1}}`, `{"a"`, `{"a":`, `}`, `{"a":]}`, `{"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, raw []byte) { AnswerOf(raw, 0) })
}

func BenchmarkAnswerOf(b *testing.B) {
	raw := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("word ", 200) + `"}]}}`)
	b.ReportAllocs()
	for b.Loop() {
		AnswerOf(raw, 200)
	}
}
