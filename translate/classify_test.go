package translate

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"taskbridge/translate/jsonrpc"
)

const (
	metaModern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	metaTasks  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
)

func headers(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

func modern(lines ...string) http.Header {
	return headers(append([]string{"MCP-Protocol-Version: 2026-07-28"}, lines...)...)
}

func request(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params)
}

func notification(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{%s}}`, method, params)
}

var classifyTests = []struct {
	name string
	h    http.Header
	raw  string
	era  Era
	cond Cond
}{
	{"legacy, no header", headers(), request("tools/list", ""), Legacy, CondNone},
	{"legacy, no params", headers(), `{"jsonrpc":"2.0","id":1,"method":"ping"}`, Legacy, CondNone},
	{"legacy header", headers("MCP-Protocol-Version: 2025-11-25"), request("tools/list", ""), Legacy, CondNone},
	{"oldest header", headers("MCP-Protocol-Version: 2024-11-05"), request("tools/list", ""), Legacy, CondNone},
	{"unknown legacy header", headers("MCP-Protocol-Version: 2025-01-01"), request("tools/list", ""), Legacy, CondUnsupportedVersion},
	{"no date", headers("MCP-Protocol-Version: latest"), request("tools/list", ""), Legacy, CondUnsupportedVersion},
	{"legacy, doubled version", headers("MCP-Protocol-Version: 2025-11-25", "MCP-Protocol-Version: 2025-11-25"), request("tools/list", ""), Legacy, CondBadHeader},
	{"legacy, doubled method", headers("Mcp-Method: a", "Mcp-Method: a"), request("tools/list", ""), Legacy, CondBadHeader},
	{"legacy, wrong mirror is ignored", headers("Mcp-Method: other", "Mcp-Name: x"), request("tools/call", `"name":"y"`), Legacy, CondNone},
	{"legacy initialize for a modern revision", headers(), request("initialize", `"protocolVersion":"2026-07-28"`), Legacy, CondNone},
	{"legacy response", headers(), `{"jsonrpc":"2.0","id":1,"result":{}}`, Legacy, CondNone},
	{"other _meta", headers(), request("tools/list", `"_meta":{"progressToken":1}`), Legacy, CondNone},

	{"modern", modern("Mcp-Method: tools/list"), request("tools/list", metaModern), Modern, CondNone},
	{"session is ignored", modern("Mcp-Method: tools/list", "Mcp-Session-Id: x"), request("tools/list", metaModern), Modern, CondNone},
	{"missing _meta", modern("Mcp-Method: tools/list"), request("tools/list", ""), Modern, CondMissingMeta},
	{"no params", modern("Mcp-Method: tools/list"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, Modern, CondMissingMeta},
	{"version is a number", modern("Mcp-Method: tools/list"), request("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":1}`), Modern, CondMissingMeta},
	{"no capabilities", modern("Mcp-Method: tools/list"), request("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`), Modern, CondMissingMeta},
	{"capabilities no object", modern("Mcp-Method: tools/list"), request("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}`), Modern, CondMissingMeta},
	{"no version header", headers("Mcp-Method: tools/list"), request("tools/list", metaModern), Modern, CondHeaderMismatch},
	{"legacy version header", headers("MCP-Protocol-Version: 2025-11-25", "Mcp-Method: tools/list"), request("tools/list", metaModern), Modern, CondHeaderMismatch},
	{"versions differ", headers("MCP-Protocol-Version: 2026-06-30", "Mcp-Method: tools/list"), request("tools/list", metaModern), Modern, CondHeaderMismatch},
	{"doubled version", headers("MCP-Protocol-Version: 2026-07-28", "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list"), request("tools/list", metaModern), Modern, CondHeaderMismatch},
	{"legacy and modern version", headers("MCP-Protocol-Version: 2025-11-25", "MCP-Protocol-Version: 2026-07-28"), request("tools/list", ""), Modern, CondMissingMeta},
	{"unknown version", headers("MCP-Protocol-Version: 2099-01-01", "Mcp-Method: tools/list"), request("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}`), Modern, CondUnsupportedVersion},
	{"ancient version in _meta", headers("MCP-Protocol-Version: 1900-01-01", "Mcp-Method: tools/list"), request("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01"}`), Modern, CondUnsupportedVersion},
	{"legacy version in _meta", headers("MCP-Protocol-Version: 2025-11-25", "Mcp-Method: tools/list"), request("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}`), Modern, CondUnsupportedVersion},
	{"no method header", modern(), request("tools/list", metaModern), Modern, CondHeaderMismatch},
	{"other method", modern("Mcp-Method: tools/call"), request("tools/list", metaModern), Modern, CondHeaderMismatch},
	{"method in other case", modern("Mcp-Method: TOOLS/LIST"), request("tools/list", metaModern), Modern, CondHeaderMismatch},
	{"doubled method", modern("Mcp-Method: tools/list", "Mcp-Method: tools/list"), request("tools/list", metaModern), Modern, CondHeaderMismatch},
	{"doubled param", modern("Mcp-Method: tools/list", "Mcp-Param-A: 1", "Mcp-Param-A: 1"), request("tools/list", metaModern), Modern, CondHeaderMismatch},
	{"name", modern("Mcp-Method: tools/call", "Mcp-Name: greet"), request("tools/call", `"name":"greet",`+metaModern), Modern, CondNone},
	{"escaped name", modern("Mcp-Method: tools/call", "Mcp-Name: greet"), request("tools/call", `"name":"\u0067reet",`+metaModern), Modern, CondNone},
	{"no name header", modern("Mcp-Method: tools/call"), request("tools/call", `"name":"greet",`+metaModern), Modern, CondHeaderMismatch},
	{"other name", modern("Mcp-Method: tools/call", "Mcp-Name: other"), request("tools/call", `"name":"greet",`+metaModern), Modern, CondHeaderMismatch},
	{"name without body member", modern("Mcp-Method: tools/call", "Mcp-Name: greet"), request("tools/call", metaModern), Modern, CondHeaderMismatch},
	{"neither name", modern("Mcp-Method: tools/call"), request("tools/call", metaModern), Modern, CondNone},
	{"name where none is due", modern("Mcp-Method: tools/list", "Mcp-Name: x"), request("tools/list", metaModern), Modern, CondNone},
	{"unknown method passes", modern("Mcp-Method: vendor/x"), request("vendor/x", metaModern), Modern, CondNone},
	{"method with line end", modern("Mcp-Method: a"), request(`a\nb`, metaModern), Modern, CondHeaderMismatch},

	{"tasks/get", modern("Mcp-Method: tasks/get", "Mcp-Name: t1"), request("tasks/get", `"taskId":"t1",`+metaTasks), Modern, CondNone},
	{"tasks/get, other name", modern("Mcp-Method: tasks/get", "Mcp-Name: t2"), request("tasks/get", `"taskId":"t1",`+metaTasks), Modern, CondHeaderMismatch},
	{"tasks/get undeclared", modern("Mcp-Method: tasks/get", "Mcp-Name: t1"), request("tasks/get", `"taskId":"t1",`+metaModern), Modern, CondMissingCapability},
	{"tasks/update undeclared", modern("Mcp-Method: tasks/update", "Mcp-Name: t1"), request("tasks/update", `"taskId":"t1",`+metaModern), Modern, CondMissingCapability},
	{"tasks/cancel undeclared", modern("Mcp-Method: tasks/cancel", "Mcp-Name: t1"), request("tasks/cancel", `"taskId":"t1",`+metaModern), Modern, CondMissingCapability},
	{"listen", modern("Mcp-Method: subscriptions/listen"), request("subscriptions/listen", `"notifications":{},`+metaModern), Modern, CondNone},
	{"listen to tasks", modern("Mcp-Method: subscriptions/listen"), request("subscriptions/listen", `"notifications":{"taskIds":["t"]},`+metaTasks), Modern, CondNone},
	{"listen to tasks undeclared", modern("Mcp-Method: subscriptions/listen"), request("subscriptions/listen", `"notifications":{"taskIds":[]},`+metaModern), Modern, CondMissingCapability},
	{"tasks/result, declared or not", modern("Mcp-Method: tasks/result"), request("tasks/result", `"taskId":"t1",`+metaTasks), Modern, CondUnknownMethod},
	{"tasks/list", modern("Mcp-Method: tasks/list"), request("tasks/list", metaModern), Modern, CondUnknownMethod},
	{"initialize", modern("Mcp-Method: initialize"), request("initialize", metaModern), Modern, CondUnknownMethod},
	{"ping", modern("Mcp-Method: ping"), request("ping", metaModern), Modern, CondUnknownMethod},
	{"logging/setLevel", modern("Mcp-Method: logging/setLevel"), request("logging/setLevel", metaModern), Modern, CondUnknownMethod},
	{"resources/subscribe", modern("Mcp-Method: resources/subscribe"), request("resources/subscribe", metaModern), Modern, CondUnknownMethod},
	{"resources/unsubscribe", modern("Mcp-Method: resources/unsubscribe"), request("resources/unsubscribe", metaModern), Modern, CondUnknownMethod},

	{"notification", modern(), notification("notifications/cancelled", ""), Modern, CondNone},
	{"notification by _meta", headers(), notification("notifications/x", metaModern), Modern, CondNone},
	{"notification, other version", modern(), notification("notifications/x", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-06-30"}`), Modern, CondHeaderMismatch},
	{"notification, other method", modern("Mcp-Method: a"), notification("notifications/x", ""), Modern, CondHeaderMismatch},
	{"notification, unknown version", headers("MCP-Protocol-Version: 2099-01-01"), notification("notifications/x", ""), Modern, CondUnsupportedVersion},
	{"notifications/initialized", modern(), notification("notifications/initialized", ""), Modern, CondNone},
	{"roots/list_changed", modern(), notification("notifications/roots/list_changed", ""), Modern, CondNone},
	{"response", modern(), `{"jsonrpc":"2.0","id":1,"result":{}}`, Modern, CondInvalidRequest},
	{"error response", modern(), `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, Modern, CondInvalidRequest},
}

func TestClassify(t *testing.T) {
	for _, tt := range classifyTests {
		t.Run(tt.name, func(t *testing.T) {
			c, cond := Classify(tt.h, decode(t, tt.raw))
			if c.Era != tt.era || cond != tt.cond {
				t.Errorf("= %v %q (%s), want %v %q", c.Era, cond, c.Detail, tt.era, tt.cond)
			}
			if cond != CondNone && c.Detail == "" {
				t.Error("no word about why")
			}
			if cond == CondNone && c.Era == Modern && c.Version != V20260728 {
				t.Errorf("version %q", c.Version)
			}
		})
	}
}

func TestClassifyErrorData(t *testing.T) {
	long := strings.Repeat("é", 1000)
	for _, tt := range []struct {
		h    http.Header
		raw  string
		want string
	}{
		{
			headers("MCP-Protocol-Version: 1900-01-01"), request("a", `"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01"}`),
			`{"supported":["2026-07-28","2026-06-30","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"1900-01-01"}`,
		},
		{
			modern("Mcp-Method: tasks/get", "Mcp-Name: t"), request("tasks/get", `"taskId":"t",`+metaModern),
			`{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`,
		},
		{
			headers("MCP-Protocol-Version: " + long), request("a", `"_meta":{"io.modelcontextprotocol/protocolVersion":"`+long+`"}`),
			`{"supported":["2026-07-28","2026-06-30","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"` + long[:64] + `"}`,
		},
	} {
		c, _ := Classify(tt.h, decode(t, tt.raw))
		if string(c.Data) != tt.want {
			t.Errorf("data %s, want %s", c.Data, tt.want)
		}
		if _, err := jsonrpc.ParseValue(c.Data); err != nil {
			t.Error(err)
		}
	}
}

// TestCaseB34_NameIsDecodedBeforeItIsCompared: a gateway compared the encoded
// header with the body as text, so any non-ASCII URI failed.
func TestCaseB34_NameIsDecodedBeforeItIsCompared(t *testing.T) {
	for _, tt := range []struct {
		method, member, body, header string
		cond                         Cond
	}{
		{"resources/read", "uri", "file:///é.txt", "=?base64?ZmlsZTovLy/DqS50eHQ=?=", CondNone},
		{"resources/read", "uri", "file:///e.txt", "=?base64?ZmlsZTovLy/DqS50eHQ=?=", CondHeaderMismatch},
		{"tools/call", "name", "=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?=", CondNone},
		{"tools/call", "name", "=?base64?x?=", "=?base64?x?=", CondHeaderMismatch},
		{"tools/call", "name", "a", "=?BASE64?YQ==?=", CondHeaderMismatch},
		{"tools/call", "name", "a", "=?base64?YQ?=", CondHeaderMismatch},
		{"tools/call", "name", "a", "=?base64?YQ==?=", CondNone},
		{"prompts/get", "name", "é", "é", CondHeaderMismatch},
	} {
		h := modern("Mcp-Method: "+tt.method, "Mcp-Name: "+tt.header)
		_, cond := Classify(h, decode(t, request(tt.method, fmt.Sprintf(`%q:%q,`, tt.member, tt.body)+metaModern)))
		if cond != tt.cond {
			t.Errorf("%s %s with %s: %q, want %q", tt.method, tt.body, tt.header, cond, tt.cond)
		}
	}
	// Header names are case-insensitive.
	h := headers("mcp-protocol-version: 2026-07-28", "mcp-METHOD: tools/call", "mcp-name: a")
	if _, cond := Classify(h, decode(t, request("tools/call", `"name":"a",`+metaModern))); cond != CondNone {
		t.Errorf("lower-case header names: %q", cond)
	}
}

func TestClassifyVerb(t *testing.T) {
	for _, tt := range []struct {
		h    http.Header
		era  Era
		cond Cond
	}{
		{headers(), Legacy, CondNone},
		{headers("MCP-Protocol-Version: 2025-06-18"), Legacy, CondNone},
		{headers("MCP-Protocol-Version: 2026-07-28", "Mcp-Session-Id: x"), Modern, CondVerb},
		{headers("MCP-Protocol-Version: x"), Legacy, CondUnsupportedVersion},
	} {
		if c, cond := ClassifyVerb(tt.h); c.Era != tt.era || cond != tt.cond {
			t.Errorf("%v: %v %q", tt.h, c.Era, cond)
		}
	}
}

func TestCodeFor(t *testing.T) {
	for _, tt := range []struct {
		code    int
		version string
		want    int
	}{
		{-32020, V20260728, -32020}, {-32020, V20260630, -32001}, {-32021, V20260630, -32003},
		{-32022, V20260630, -32004}, {-32602, V20260630, -32602}, {-32020, "", -32020},
	} {
		if got := CodeFor(tt.code, tt.version); got != tt.want {
			t.Errorf("CodeFor(%d, %q) = %d, want %d", tt.code, tt.version, got, tt.want)
		}
	}
}

// 2026-07-28 basic/versioning, Protocol Version Negotiation.
func TestVersionData(t *testing.T) {
	for _, tt := range []struct {
		requested string
		supported []string
		want      string
	}{
		{"2099-01-01", []string{"2026-07-28", "2025-11-25"}, `{"supported":["2026-07-28","2025-11-25"],"requested":"2099-01-01"}`},
		{"2099-01-01", nil, `{"supported":["2026-07-28","2026-06-30","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2099-01-01"}`},
		{strings.Repeat("ä", 40), []string{"2026-07-28"}, `{"supported":["2026-07-28"],"requested":"` + strings.Repeat("ä", 32) + `"}`},
	} {
		if got := string(VersionData(tt.requested, tt.supported)); got != tt.want {
			t.Errorf("got %s\nwant %s", got, tt.want)
		}
	}
}
