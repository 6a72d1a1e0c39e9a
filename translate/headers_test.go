package translate

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"taskbridge/translate/jsonrpc"
)

func decode(t testing.TB, raw string) *jsonrpc.Message {
	t.Helper()
	msg, err := jsonrpc.Decode([]byte(raw), jsonrpc.Limits{})
	if err != nil {
		t.Fatalf("decode %s: %v", raw, err)
	}
	return msg
}

func TestEncodeHeader(t *testing.T) {
	for _, tt := range []struct{ value, header string }{
		// The examples of 2026-07-28 streamable-http, Value Encoding.
		{"us-west1", "us-west1"},
		{"Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
		{" padded ", "=?base64?IHBhZGRlZCA=?="},
		{"line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
		{"=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
		{"", ""},
		{"a\tb c", "a\tb c"},
		{"\ta", "=?base64?CWE=?="},
		{"x\r\nAuthorization: y", "=?base64?eA0KQXV0aG9yaXphdGlvbjogeQ==?="},
		{"=?BASE64?eA==?=", "=?BASE64?eA==?="},
		{"=?base64?", "=?base64?"},
	} {
		if got := EncodeHeader(tt.value); got != tt.header {
			t.Errorf("EncodeHeader(%q) = %q, want %q", tt.value, got, tt.header)
		}
		if got, ok := DecodeHeader(tt.header); !ok || got != tt.value {
			t.Errorf("DecodeHeader(%q) = %q, %v, want %q", tt.header, got, ok, tt.value)
		}
	}
}

func TestDecodeHeaderRefuses(t *testing.T) {
	for _, header := range []string{
		"=?base64?eA?=",    // no padding
		"=?base64?e A==?=", // blank
		"=?base64?eB==?=",  // bits left over
		"=?base64?_-==?=",  // URL alphabet
		"=?base64?gA==?=",  // no UTF-8
		"caf\u00e9",        // not ASCII
		"a\x00b", "a\x7f",  // control characters
		"a\r\nb", " a", "a ",
	} {
		if got, ok := DecodeHeader(header); ok {
			t.Errorf("DecodeHeader(%q) = %q, want it refused", header, got)
		}
	}
}

func FuzzHeaderValue(f *testing.F) {
	f.Add("plain")
	f.Add("=?base64?x?=")
	f.Add("é \x00")
	f.Fuzz(func(t *testing.T, value string) {
		header := EncodeHeader(value)
		if !plainHeader(header) {
			t.Fatalf("EncodeHeader(%q) = %q, not fit for a header", value, header)
		}
		got, ok := DecodeHeader(header)
		if utf8.ValidString(value) && (!ok || got != value) {
			t.Fatalf("%q came back as %q, %v", value, got, ok)
		}
	})
}

func TestParamHeader(t *testing.T) {
	for _, tt := range []struct {
		raw, header string
		ok          bool
		err         error
	}{
		{`"us-west1"`, "us-west1", true, nil},
		{`"\u00e9"`, "=?base64?w6k=?=", true, nil},
		{`42`, "42", true, nil},
		{`-7`, "-7", true, nil},
		{`1e3`, "1000", true, nil},
		{`42.0`, "42", true, nil},
		{`9007199254740991`, "9007199254740991", true, nil},
		{`9007199254740993`, "", false, ErrParamRange},
		{`1.5`, "", false, ErrParamRange},
		{`1e1000000`, "", false, ErrParamRange},
		{`true`, "true", true, nil},
		{`null`, "", false, nil},
		{`{}`, "", false, ErrParamType},
		{`[1]`, "", false, ErrParamType},
		{`"` + strings.Repeat("a", MaxHeaderValue+1) + `"`, "", false, ErrParamSize},
		{`"` + strings.Repeat("a", 1<<20) + `"`, "", false, ErrParamSize},
	} {
		v, err := jsonrpc.ParseValue([]byte(tt.raw))
		if err != nil {
			t.Fatal(err)
		}
		header, ok, err := ParamHeader(v)
		if header != tt.header || ok != tt.ok || !errors.Is(err, tt.err) {
			t.Errorf("ParamHeader(%.40s) = %q, %v, %v, want %q, %v, %v", tt.raw, header, ok, err, tt.header, tt.ok, tt.err)
		}
	}
	if _, ok, err := ParamHeader(jsonrpc.Value{}); ok || err != nil {
		t.Errorf("absent: %v, %v, want no header", ok, err)
	}
}

func TestParamMatches(t *testing.T) {
	for _, tt := range []struct {
		header, raw string
		want        bool
	}{
		{"us-west1", `"us-west1"`, true},
		{"us-west2", `"us-west1"`, false},
		{"=?base64?w6k=?=", `"\u00e9"`, true},
		{"=?base64?w6k?=", `"\u00e9"`, false},
		{"42.0", `42`, true},
		{"42", `4.2e1`, true},
		{"43", `42`, false},
		{"x", `42`, false},
		{"", `42`, false},
		{"9007199254740993", `9007199254740992`, false},
		{"true", `true`, true},
		{"True", `true`, false},
		{"null", `null`, false},
	} {
		v, _ := jsonrpc.ParseValue([]byte(tt.raw))
		if got := ParamMatches(tt.header, v); got != tt.want {
			t.Errorf("ParamMatches(%q, %s) = %v, want %v", tt.header, tt.raw, got, tt.want)
		}
	}
}

func TestStandardHeaders(t *testing.T) {
	for _, tt := range []struct{ raw, method, name string }{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet"}}`, "tools/call", "greet"},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p q"}}`, "prompts/get", "p q"},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///é.txt"}}`, "resources/read", "=?base64?ZmlsZTovLy/DqS50eHQ=?="},
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t1"}}`, "tasks/get", "t1"},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"x"}}`, "tools/list", ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`, "tools/call", ""},
	} {
		h := StandardHeaders(decode(t, tt.raw))
		if h.Get(HeaderMethod) != tt.method || h.Get(HeaderName) != tt.name {
			t.Errorf("%s: %v", tt.raw, h)
		}
	}
}

func TestSafetyS11_RequestHeadersGoUpByList(t *testing.T) {
	in := http.Header{}
	for _, name := range []string{
		"Authorization", "Cookie", "Proxy-Authorization", "Forwarded", "X-Forwarded-For", "X_User", "X-User",
		"Traceparent", "Tracestate", "Baggage", "Accept-Language", "User-Agent", "Accept", "Accept-Encoding", "Origin",
		"Host", "Te", "Upgrade", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Content-Type",
		"Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-Region", "Mcp_method", "Last-Event-Id",
	} {
		in[name] = []string{"v"}
	}
	in["Connection"] = []string{"close, authorization", "tracestate , Mcp-Param-Region"}
	for _, tt := range []struct {
		era  Era
		want []string
	}{
		{Legacy, []string{"Accept-Language", "Baggage", "Traceparent"}},
		{Modern, []string{"Accept-Language", "Baggage", "Mcp-Method", "Mcp-Name", "Traceparent"}},
	} {
		var got []string
		for name := range RequestHeaders(in, tt.era) {
			got = append(got, name)
		}
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v goes up, want %v", tt.era, got, tt.want)
		}
	}
	delete(in, "Connection")
	if RequestHeaders(in, Modern).Get("Mcp-Param-Region") != "v" {
		t.Error("a modern caller's Mcp-Param-Region does not go up")
	}
}

func TestSafetyS11_ResponseHeadersComeDownByList(t *testing.T) {
	in := http.Header{
		"Www-Authenticate":            {`Bearer realm="m", scope="a b"`, "Basic"},
		"Retry-After":                 {"3"},
		"Set-Cookie":                  {"a=b"},
		"Access-Control-Allow-Origin": {"*"},
		"Mcp-Session-Id":              {"theirs"},
		"Server":                      {"x"},
	}
	got := ResponseHeaders(in)
	if len(got) != 2 || len(got["Www-Authenticate"]) != 2 || got.Get("Retry-After") != "3" {
		t.Errorf("comes down: %v", got)
	}
}
