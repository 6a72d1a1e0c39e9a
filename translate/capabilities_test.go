package translate

import (
	"testing"

	"taskbridge/translate/jsonrpc"
)

const tasksExt = `"io.modelcontextprotocol/tasks":{}`

// initialize before a modern server, cut to each revision.
func TestInitializeResult(t *testing.T) {
	const discover = `{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":5,"cacheScope":"public",
		"capabilities":{"tools":{"listChanged":true},"completions":{},"experimental":{"x":{}},"extensions":{` + tasksExt + `,"com.x/ui":{}}},
		"instructions":"i","future":[1.0],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1","icons":[]},"com.x/a":1}}`
	const rest = `"serverInfo":{"name":"s","version":"1","icons":[]},"instructions":"i","future":[1.0],"_meta":{"com.x/a":1}`
	for _, tt := range []struct {
		version string
		list    bool
		caps    string
	}{
		{V20251125, true, `"completions":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`},
		{V20251125, false, `"completions":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}`},
		{V20250618, true, `"completions":{}`},
		{V20250326, true, `"completions":{}`},
		{V20241105, true, ``},
	} {
		want := `{"protocolVersion":"` + tt.version + `",` + rest + `,"capabilities":{"tools":{"listChanged":true},"experimental":{"x":{}},"extensions":{"com.x/ui":{}}`
		if tt.caps != "" {
			want += "," + tt.caps
		}
		got := InitializeResult(result(t, discover).Result(), InitializeOptions{Version: tt.version, TaskList: tt.list, Fallback: "f"})
		same(t, tt.version, got, want+`}}`)
	}
}

func TestInitializeResultOfOddServers(t *testing.T) {
	for _, tt := range []struct{ why, in, want string }{
		{"nothing", `{}`, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"f","version":"0"},"capabilities":{}}`},
		{"no tools, so no tasks", `{"capabilities":{"extensions":{` + tasksExt + `}}}`, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"f","version":"0"},"capabilities":{}}`},
		{"no extension, so no tasks", `{"capabilities":{"tools":{}}}`, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"f","version":"0"},"capabilities":{"tools":{}}}`},
		{"old capability of a modern server", `{"capabilities":{"tools":{},"tasks":{"list":{}}}}`, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"f","version":"0"},"capabilities":{"tools":{}}}`},
		{"capabilities that are no object", `{"capabilities":null}`, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"f","version":"0"},"capabilities":{}}`},
		{"serverInfo where it stood before", `{"serverInfo":{"name":"s","version":"1"}}`, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"capabilities":{}}`},
		{"serverInfo that is no object", `{"serverInfo":null}`, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"f","version":"0"},"capabilities":{}}`},
		{"a version of its own", `{"protocolVersion":"2026-07-28"}`, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"f","version":"0"},"capabilities":{}}`},
		{"serverInfo in _meta that is no object", `{"_meta":{"io.modelcontextprotocol/serverInfo":"s"}}`, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"f","version":"0"},"capabilities":{}}`},
	} {
		got := InitializeResult(result(t, tt.in).Result(), InitializeOptions{Version: V20251125, TaskList: true, Fallback: "f"})
		same(t, tt.why, got, tt.want)
	}
}

const discovered = `"resultType":"complete","supportedVersions":["2026-07-28","2026-06-30"],"ttlMs":0,"cacheScope":"private"`

// server/discover before a legacy server.
func TestDiscoverResult(t *testing.T) {
	const takes = `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
	for _, tt := range []struct{ why, in, want string }{
		{"a server with tasks",
			`{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"instructions":"i","capabilities":{"tools":{"listChanged":true},` + takes + `,"experimental":{"x":{}}},"future":null}`,
			`{` + discovered + `,"instructions":"i","capabilities":{"tools":{"listChanged":true},"experimental":{"x":{}},"extensions":{` + tasksExt + `}},"future":null,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`},
		{"without", `{"protocolVersion":"2025-06-18","serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{}}}`,
			`{` + discovered + `,"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`},
		{"tasks for other requests only", `{"capabilities":{"tools":{},"tasks":{"list":{},"requests":{"sampling":{}}}}}`, `{` + discovered + `,"capabilities":{"tools":{}}}`},
		{"extensions of its own", `{"capabilities":{` + takes + `,"extensions":{"com.x/ui":{}}}}`, `{` + discovered + `,"capabilities":{"extensions":{"com.x/ui":{},` + tasksExt + `}}}`},
		{"extensions that are no object", `{"capabilities":{` + takes + `,"extensions":7}}`, `{` + discovered + `,"capabilities":{"extensions":{` + tasksExt + `}}}`},
		{"a claim it cannot keep", `{"capabilities":{"extensions":{` + tasksExt + `}}}`, `{` + discovered + `,"capabilities":{"extensions":{}}}`},
		{"no capabilities", `{}`, `{` + discovered + `,"capabilities":{}}`},
		{"_meta is joined", `{"serverInfo":{"name":"s","version":"1"},"_meta":{"com.x/a":1},"capabilities":{}}`, `{` + discovered + `,"_meta":{"com.x/a":1,"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}},"capabilities":{}}`},
		{"members of the same name", `{"resultType":"x","ttlMs":-1,"cacheScope":"x","supportedVersions":["1"],"capabilities":{}}`, `{` + discovered + `,"capabilities":{}}`},
	} {
		same(t, tt.why, DiscoverResult(result(t, tt.in).Result()), tt.want)
	}
}

func TestWhoTakesTasks(t *testing.T) {
	for caps, want := range map[string][2]bool{
		`{"tasks":{"requests":{"tools":{"call":{}}}}}`: {true, false},
		`{"tasks":{"requests":{"tools":{}}}}`:          {false, false},
		`{"tasks":{}}`:                                 {false, false},
		`{"extensions":{` + tasksExt + `}}`:            {false, true},
		`{"extensions":{"com.x/tasks":{}}}`:            {false, false},
		`{}`:                                           {false, false},
	} {
		v := result(t, `{"capabilities":`+caps+`}`).Result().Get("capabilities")
		if got := [2]bool{LegacyTakesTasks(v), ModernTakesTasks(v)}; got != want {
			t.Errorf("%s: %v", caps, got)
		}
	}
}

// A client's tasks capability never crosses eras, roots.listChanged is gone,
// the rest is the client's own.
func TestClientCaps(t *testing.T) {
	for _, tt := range []struct{ why, in, with, without, legacy string }{
		{"all", `{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"tasks":{"list":{}},"experimental":{"x":{}},"future":1}`,
			`{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"experimental":{"x":{}},"future":1,"extensions":{` + tasksExt + `}}`,
			`{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"experimental":{"x":{}},"future":1}`,
			`{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"experimental":{"x":{}},"future":1}`},
		{"none", `{}`, `{"extensions":{` + tasksExt + `}}`, `{}`, `{}`},
		{"extension declared", `{"extensions":{` + tasksExt + `}}`, `{"extensions":{` + tasksExt + `}}`, `{"extensions":{}}`, `{}`},
		{"beside another", `{"extensions":{"com.x/ui":{},` + tasksExt + `}}`, `{"extensions":{"com.x/ui":{},` + tasksExt + `}}`, `{"extensions":{"com.x/ui":{}}}`, `{"extensions":{"com.x/ui":{}}}`},
		{"another", `{"extensions":{"com.x/ui":{}}}`, `{"extensions":{"com.x/ui":{},` + tasksExt + `}}`, `{"extensions":{"com.x/ui":{}}}`, `{"extensions":{"com.x/ui":{}}}`},
		{"extensions that are no object", `{"extensions":[]}`, `{"extensions":{` + tasksExt + `}}`, `{"extensions":[]}`, `{"extensions":[]}`},
		{"no object", `[]`, `{"extensions":{` + tasksExt + `}}`, `{}`, `{}`},
		{"nothing", ``, `{"extensions":{` + tasksExt + `}}`, `{}`, `{}`},
		{"repeated members", `{"roots":{},"roots":{}}`, `{"extensions":{` + tasksExt + `}}`, `{}`, `{}`},
	} {
		same(t, tt.why, ClientCapsToModern([]byte(tt.in), true), tt.with)
		same(t, tt.why+", without tasks", ClientCapsToModern([]byte(tt.in), false), tt.without)
		same(t, tt.why+", legacy", ClientCapsToLegacy([]byte(tt.in)), tt.legacy)
	}
}

// Modes are asked one by one (case B49): an empty elicitation means form.
func TestClientCan(t *testing.T) {
	const (
		form     = `{"message":"m"}`
		formSaid = `{"mode":"form","message":"m"}`
		url      = `{"mode":"url","url":"u"}`
		plainLLM = `{"messages":[]}`
		tools    = `{"messages":[],"tools":[]}`
		choice   = `{"messages":[],"toolChoice":{}}`
	)
	for _, tt := range []struct {
		caps, method, params string
		want                 bool
	}{
		{`{}`, "elicitation/create", form, false},
		{`{"elicitation":{}}`, "elicitation/create", form, true},
		{`{"elicitation":{}}`, "elicitation/create", formSaid, true},
		{`{"elicitation":{}}`, "elicitation/create", url, false},
		{`{"elicitation":{"form":{}}}`, "elicitation/create", form, true},
		{`{"elicitation":{"form":{}}}`, "elicitation/create", url, false},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", form, false},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", url, true},
		{`{"elicitation":{"form":{},"url":{}}}`, "elicitation/create", url, true},
		{`{"elicitation":{"vendor":{}}}`, "elicitation/create", form, true},
		{`{}`, "sampling/createMessage", plainLLM, false},
		{`{"sampling":{}}`, "sampling/createMessage", plainLLM, true},
		{`{"sampling":{}}`, "sampling/createMessage", tools, false},
		{`{"sampling":{}}`, "sampling/createMessage", choice, false},
		{`{"sampling":{"tools":{}}}`, "sampling/createMessage", tools, true},
		{`{"sampling":{"tools":{}}}`, "sampling/createMessage", choice, true},
		{`{"roots":{}}`, "roots/list", `{}`, true},
		{`{"elicitation":{},"sampling":{}}`, "roots/list", `{}`, false},
		{`{"elicitation":{},"sampling":{},"roots":{}}`, "ping", `{}`, false},
		{`{"tasks":{}}`, "tasks/get", `{}`, false},
	} {
		if got := ClientCan(value(t, tt.caps), tt.method, params(t, tt.method, tt.params)); got != tt.want {
			t.Errorf("%s with %s of %s: %v", tt.caps, tt.params, tt.method, got)
		}
	}
	if ClientCan(jsonrpc.Value{}, "roots/list", jsonrpc.Value{}) {
		t.Error("nothing declared, yet it can")
	}
}

// What a legacy server says of itself comes back by way of the modern form.
func TestCapabilitiesThereAndBack(t *testing.T) {
	const init = `{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"instructions":"i","future":[],
		"capabilities":{"tools":{"listChanged":true},"prompts":{},"logging":{},"completions":{},"experimental":{"x":{}},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}}`
	there := DiscoverResult(result(t, init).Result())
	same(t, "initialize", InitializeResult(result(t, string(there)).Result(), InitializeOptions{Version: V20251125, TaskList: true}), init)
}
