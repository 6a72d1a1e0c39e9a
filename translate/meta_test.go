package translate

import (
	"testing"

	"taskbridge/translate/jsonrpc"
)

func TestEditMeta(t *testing.T) {
	set := []member{{"k", []byte("1")}}
	for _, tt := range []struct {
		why, in string
		del     []string
		set     []member
		want    string
	}{
		{"nothing there, nothing to do", `{"a":1}`, []string{"x"}, nil, `{"a":1}`},
		{"made", `{"a":1}`, nil, set, `{"a":1,"_meta":{"k":1}}`},
		{"into an empty object", `{}`, nil, set, `{"_meta":{"k":1}}`},
		{"written over", `{"_meta":{"k":0,"o":2}}`, nil, set, `{"_meta":{"k":1,"o":2}}`},
		{"deleted and written", `{"_meta":{"x":0,"o":2}}`, []string{"x"}, set, `{"_meta":{"o":2,"k":1}}`},
		{"one key in both lists is written", `{"_meta":{"k":0}}`, []string{"k"}, set, `{"_meta":{"k":1}}`},
		{"emptied, so it leaves", `{"_meta":{"x":0},"a":1}`, []string{"x"}, nil, `{"a":1}`},
		{"was empty, so it stays", `{"_meta":{}}`, []string{"x"}, nil, `{"_meta":{}}`},
		{"others stay", `{"_meta":{"x":0,"com.x/t":"1"}}`, []string{"x"}, nil, `{"_meta":{"com.x/t":"1"}}`},
		{"no object, nothing to write", `{"_meta":7}`, []string{"x"}, nil, `{"_meta":7}`},
		{"no object", `{"_meta":7}`, nil, set, `{"_meta":{"k":1}}`},
		{"a dot in the key is no path", `{"_meta":{"io":{"x":1}}}`, []string{"io.x"}, nil, `{"_meta":{"io":{"x":1}}}`},
	} {
		for _, tracked := range []bool{true, false} {
			v := value(t, tt.in)
			if !tracked {
				// vendor results of inputResponses are recorded one level deep.
				v = params(t, "tools/call", `{"inputResponses":{"q":`+tt.in+`}}`).Get("inputResponses").Get("q")
			}
			e := v.Edit()
			editMeta(e, v, tt.del, tt.set...)
			same(t, tt.why, e.Bytes(), tt.want)
		}
	}
}

// The two of a repeated key can be read differently by the next hop; where
// the decoder did not look they both go.
func TestEditMetaRepeatedKeys(t *testing.T) {
	v := params(t, "tools/call", `{"inputResponses":{"q":{"action":"accept","_meta":{"a":1,"a":2}}}}`).Get("inputResponses").Get("q")
	e := v.Edit()
	editMeta(e, v, nil, member{"k", []byte("1")})
	same(t, "repeated", e.Bytes(), `{"action":"accept","_meta":{"k":1}}`)
	if got := keptMeta(v, "x"); got != nil {
		t.Errorf("kept %s", got)
	}
}

func TestKeptMeta(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                             "",
		`{"_meta":1}`:                    "",
		`{"_meta":{}}`:                   "{}",
		`{"_meta":{"drop":1}}`:           "",
		`{"_meta":{"a":1}}`:              `{"a":1}`,
		`{"_meta":{"a":1,"drop":1}}`:     `{"a":1}`,
		`{"_meta":{"drop":{},"a":null}}`: `{"a":null}`,
	} {
		for _, v := range []jsonrpc.Value{
			value(t, in),
			params(t, "tools/call", `{"inputResponses":{"q":`+in+`}}`).Get("inputResponses").Get("q"),
		} {
			got := keptMeta(v, "drop")
			if string(got) != want && (want == "" || !jsonrpc.Equal(got, []byte(want))) {
				t.Errorf("keptMeta(%s) = %s, want %s", in, got, want)
			}
		}
	}
}

// 2026-07-28 basic/patterns/subscriptions: every message of a listen stream
// carries its id, as the client wrote it.
func TestSubscribed(t *testing.T) {
	id, err := jsonrpc.IDFromRaw([]byte(`9007199254740993`))
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		`{}`:                  `{"_meta":{"io.modelcontextprotocol/subscriptionId":9007199254740993}}`,
		`{"uri":"a"}`:         `{"uri":"a","_meta":{"io.modelcontextprotocol/subscriptionId":9007199254740993}}`,
		`{"_meta":{"v/k":1}}`: `{"_meta":{"v/k":1,"io.modelcontextprotocol/subscriptionId":9007199254740993}}`,
		`{"_meta":{"io.modelcontextprotocol/subscriptionId":"upstream"}}`: `{"_meta":{"io.modelcontextprotocol/subscriptionId":9007199254740993}}`,
	} {
		m := decode(t, string(Subscribed("notifications/resources/updated", []byte(in), id)))
		if m.Kind != jsonrpc.Notification || m.Method != "notifications/resources/updated" {
			t.Errorf("%s: became %s", in, m.Raw)
		}
		same(t, in, m.Params().Raw(), want)
	}
	if got := Subscribed("notifications/x", []byte(`7`), id); string(got) != `{"jsonrpc":"2.0","method":"notifications/x"}` {
		t.Errorf("params that are no object: %s", got)
	}
}

func TestWithTrace(t *testing.T) {
	const parent, state = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=b"
	for _, c := range []struct{ in, state, want string }{
		{`{"jsonrpc":"2.0","method":"ping","id":1}`, "", `{"jsonrpc":"2.0","method":"ping","id":1,"params":{"_meta":{"traceparent":"` + parent + `"}}}`},
		{`{"jsonrpc":"2.0","method":"x","params":{"n":1.0e1}}`, state, `{"jsonrpc":"2.0","method":"x","params":{"n":1.0e1,"_meta":{"traceparent":"` + parent + `","tracestate":"a=b"}}}`},
		{`{"jsonrpc":"2.0","method":"x","params":{"_meta":{ "k" : 1 , "traceparent":"old","tracestate":"old"} }}`, state, `{"jsonrpc":"2.0","method":"x","params":{"_meta":{ "k" : 1 , "traceparent":"` + parent + `","tracestate":"a=b"} }}`},
		{`{"jsonrpc":"2.0","method":"x","params":{"_meta":{"tracestate":"old","k":1}}}`, "", `{"jsonrpc":"2.0","method":"x","params":{"_meta":{"k":1,"traceparent":"` + parent + `"}}}`},
		{`{"jsonrpc":"2.0","method":"x","params":{"_meta":null}}`, state, `{"jsonrpc":"2.0","method":"x","params":{"_meta":null}}`},
	} {
		if got := string(WithTrace(decodeMessage(t, c.in), parent, c.state)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}
