package translate

import (
	"testing"

	"taskbridge/translate/jsonrpc"
)

func TestDueOf(t *testing.T) {
	for _, tt := range []struct {
		raw  string
		want Due
	}{
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, DueNever},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}`, DueNever},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, DueNever},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, DueNever},
		{`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`, DueRefused},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, DueRefused},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, DueRefused},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","requestState":"s"}}`, DueEased},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"inputResponses":{}}}`, DueEased},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"requestState":"s"}}`, DueRefused},
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}`, DueRefused},
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/cancel","params":{"taskId":"t"}}`, DueEased},
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{"taskId":"t"}}`, DueEased},
	} {
		m, err := jsonrpc.Decode([]byte(tt.raw), jsonrpc.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := DueOf(m); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.raw, got, tt.want)
		}
	}
	if DueOf(nil) != DueEased {
		t.Error("GET is not eased")
	}
}
