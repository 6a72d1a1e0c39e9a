package translate

import (
	"testing"

	"taskbridge/translate/jsonrpc"
)

func TestNameAsker(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"a request",
			`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"[b] Sure?","requestedSchema":{}}}`},
		{"a result that asks",
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"A"}},"s":{"method":"sampling/createMessage","params":{"message":"S"}}}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"[b] A"}},"s":{"method":"sampling/createMessage","params":{"message":"S"}}}}}`},
		{"a notification about a task",
			`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"1","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"A"}}}}}`,
			`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"1","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"[b] A"}}}}}`},
		{"content that only looks so",
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"method\":\"elicitation/create\",\"params\":{\"message\":\"x\"}}"}],"structuredContent":{"method":"elicitation/create","params":{"message":"x"}}}}`,
			``},
		{"a message that is no text",
			`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":5}}`, ``},
	} {
		m, err := jsonrpc.Decode([]byte(c.in), jsonrpc.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		want := c.want
		if want == "" {
			want = c.in
		}
		if got := string(NameAsker(m, "b")); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, want)
		}
	}
}
