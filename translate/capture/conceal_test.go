package capture

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"taskbridge/translate"
)

func testMask(kind, text string) string { return kind + "(" + text + ")" }

var handle = sealPrefix + strings.Repeat("Ab-_0", 8)

func TestConceal(t *testing.T) {
	c := NewConcealer(testMask)
	ask := func(msg string) Record {
		return Record{Leg: translate.ClientLeg, Dir: translate.ToServer, Stream: "s", Msg: []byte(msg)}
	}
	reply := func(msg string) Record {
		r := ask(msg)
		r.Dir = translate.ToClient
		return r
	}
	for _, tt := range []struct {
		why  string
		in   Record
		want string
	}{
		{"a task's id, and nobody else's", ask(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"a","x":{"taskId":"b"}}}`),
			`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"hmac:handle(a)","x":{"taskId":"b"}}}`},
		{"in its answer", reply(`{"jsonrpc":"2.0","id":1,"result":{"taskId":"a","result":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}}}}`),
			`{"jsonrpc":"2.0","id":1,"result":{"taskId":"hmac:handle(a)","result":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"hmac:handle(a)"}}}}}`},
		{"a request's state", ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","requestState":"s"}}`),
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","requestState":"hmac:handle(s)"}}`},
		{"a tool's own taskId stays", reply(`{"jsonrpc":"2.0","id":2,"result":{"content":[],"taskId":"own"}}`),
			`{"jsonrpc":"2.0","id":2,"result":{"content":[],"taskId":"own"}}`},
		{"an answer to what was not seen has none", reply(`{"jsonrpc":"2.0","id":9,"result":{"taskId":"a","task":{"taskId":"b"},"tasks":[{"taskId":"c"}],"requestState":7}}`),
			`{"jsonrpc":"2.0","id":9,"result":{"taskId":"hmac:handle(a)","task":{"taskId":"hmac:handle(b)"},"tasks":[{"taskId":"hmac:handle(c)"}],"requestState":"hmac:handle(7)"}}`},
		{"lists of ids", ask(`{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["a","b"]}}}`),
			`{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["hmac:handle(a)","hmac:handle(b)"]}}}`},
		{"a sealed handle anywhere", reply(`{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"task ` + handle + `: unknown","data":{"` + handle + `":"tb1_short"}}}`),
			`{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"task hmac:handle(` + handle + `): unknown","data":{"hmac:handle(` + handle + `)":"tb1_short"}}}`},
	} {
		c.Record(&tt.in)
		if string(tt.in.Msg) != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.why, tt.in.Msg, tt.want)
		}
	}
}

// A hint must be in every message that holds something secret.
func TestMayHold(t *testing.T) {
	for text, want := range map[string]bool{
		`"taskId"`: true, `"taskIds"`: true, `requestState`: true, handle: true, `"task\u0049d"`: true, `tb1`: false, `askId`: false, `Id`: false,
		`{"a":"_S_I"}`: false, `\n`: false, ``: false, `task`: false, `IdtaskId`: true, `_tb1_`: true, `State requestState`: true,
	} {
		if got := mayHold([]byte(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestConcealAround(t *testing.T) {
	r := Record{
		Leg: translate.ServerLeg, Dir: translate.ToServer, Session: "S", Principal: "P",
		Msg: []byte(`{"jsonrpc":"2.0","id":1,"method":"tasks/cancel","params":{"taskId":"ä"}}`),
		Header: http.Header{
			"Mcp-Session-Id": {"S"}, "Mcp-Name": {translate.EncodeHeader("ä")}, "Mcp-Method": {"tasks/cancel"}, "Mcp-Param-X": {handle, "1"},
			"Authorization": {"Bearer x"}, "Cookie": {"y"}, "Set-Cookie": {"z"}, "X-Api-Key": {"k"}, "Mcp-Other": {"?"},
		},
	}
	NewConcealer(testMask).Record(&r)
	want := http.Header{
		"Mcp-Session-Id": {"session(S)"}, "Mcp-Name": {"hmac:handle(ä)"}, "Mcp-Method": {"tasks/cancel"}, "Mcp-Param-X": {"hmac:handle(" + handle + ")", "1"},
	}
	if r.Session != "session(S)" || r.Principal != "principal(P)" || !reflect.DeepEqual(r.Header, want) {
		t.Errorf("%+v", r)
	}
}

func TestCleanChallenge(t *testing.T) {
	for in, want := range map[string]string{
		`Bearer realm="m", error="invalid_token", resource_metadata="https://a/b", nonce="s3"`: `Bearer realm="m", error="invalid_token", resource_metadata="https://a/b"`,
		`Bearer scope="a \"b\", c", x=y`: `Bearer scope="a \"b\", c"`,
		`Negotiate YIIabc==`:             `Negotiate`,
		`Digest nonce="x", qop="auth"`:   `Digest`,
		`Basic`:                          `Basic`,
		`Bearer realm="unended`:          `Bearer realm="unended`,
		``:                               ``,
	} {
		if got := CleanChallenge(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
