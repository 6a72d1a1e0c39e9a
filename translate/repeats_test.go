package translate

import (
	"strings"
	"testing"

	"taskbridge/translate/jsonrpc"
)

// TestRepeatable: what only reads may be sent twice, what may have run never.
func TestRepeatable(t *testing.T) {
	for _, tt := range []struct {
		raw  string
		want bool
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"taskId":"t"}}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/templates/list"}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b","requestState":"s"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p","inputResponses":{}}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/cancel","params":{"taskId":"t"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{"taskId":"t"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"example.com/read"}`, false},
		{`{"jsonrpc":"2.0","method":"ping"}`, false},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, false},
	} {
		m, err := jsonrpc.Decode([]byte(tt.raw), jsonrpc.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := Repeatable(m); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.raw, got, tt.want)
		}
	}
	rows := map[string]bool{}
	for _, r := range repeats {
		if rows[r.Method] || r.Note == "" || !Defined(r.Method) {
			t.Errorf("row of %q", r.Method)
		}
		rows[r.Method] = true
	}
	for _, r := range methods {
		if !strings.HasPrefix(r.Method, "notifications/") && !rows[r.Method] {
			t.Errorf("nothing says whether %s may be sent twice", r.Method)
		}
	}
}
