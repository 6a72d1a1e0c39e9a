package telemetry_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan   = "00f067aa0ba902b7"
	clientParent = "00-" + clientTrace + "-" + clientSpan + "-01"
	meta         = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"shop","version":"2"}`
)

func modern(id, method, params, parent string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `"_meta":{` + meta + `,"traceparent":"` + parent + `","tracestate":"v=1"}}}`
}

const toolResult = `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[]}}`

// want compares attributes with those listed, all of them.
func want(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func both(a map[string]string, b ...string) map[string]string {
	out := maps.Clone(a)
	for i := 0; i < len(b); i += 2 {
		out[b[i]] = b[i+1]
	}
	return out
}

var (
	placed = map[string]string{"taskbridge.route": "tickets", "taskbridge.upstream": "blue"}
	down   = both(placed, "network.transport", "tcp", "network.protocol.name", "http")
	up     = both(down, "server.address", "tickets.example", "server.port", "8443")
)

// TestModernCall: a modern client's call at a modern server: one server span
// whose parent is the client's, one client span below it, whose context the
// server gets.
func TestModernCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, session.Face{Era: translate.Modern, Version: translate.V20260728}, func(m *jsonrpc.Message) string { return toolResult })
		defer g.r.Close()
		g.header = http.Header{"Traceparent": {"00-11111111111111111111111111111111-2222222222222222-01"}}
		g.say(translate.Modern, "http", modern(`"r-1"`, "tools/call", `"name":"weather","arguments":{"a":1}`, clientParent))
		s, c := g.span(trace.SpanKindServer, "tools/call weather"), g.span(trace.SpanKindClient, "tools/call weather")
		named := map[string]string{"mcp.method.name": "tools/call", "gen_ai.tool.name": "weather", "gen_ai.operation.name": "execute_tool", "mcp.protocol.version": "2026-07-28", "jsonrpc.request.id": "r-1"}
		want(t, "server span", attributes(s.Attributes()), both(down, flat(named)...))
		want(t, "client span", attributes(c.Attributes()), both(up, flat(named)...))
		if p := s.Parent(); p.TraceID().String() != clientTrace || p.SpanID().String() != clientSpan || !p.IsRemote() || p.TraceState().String() != "v=1" {
			t.Errorf("parent of the server span: %v", p)
		}
		if c.Parent().SpanID() != s.SpanContext().SpanID() || c.SpanContext().TraceID().String() != clientTrace {
			t.Errorf("parent of the client span: %v", c.Parent())
		}
		if l := s.Links(); len(l) != 1 || l[0].SpanContext.SpanID().String() != "2222222222222222" {
			t.Errorf("links %v", l)
		}
		if s.Status().Code != codes.Unset || c.Status().Code != codes.Unset {
			t.Errorf("status %v, %v", s.Status(), c.Status())
		}
		sent := g.srv.sent("tools/call")[0]
		if got := string(sent.At("params", "_meta", "traceparent").Raw()); got != `"00-`+clientTrace+`-`+c.SpanContext().SpanID().String()+`-01"` {
			t.Errorf("sent with traceparent %s", got)
		}
		if got := string(sent.At("params", "_meta", "tracestate").Raw()); got != `"v=1"` {
			t.Errorf("sent with tracestate %s", got)
		}
		if got := string(sent.At("params", "arguments").Raw()); got != `{"a":1}` {
			t.Errorf("sent with arguments %s", got)
		}
		for name, at := range map[string]map[string]string{"mcp.server.operation.duration": {"network.transport": "tcp", "network.protocol.name": "http"},
			"mcp.client.operation.duration": {"network.transport": "tcp", "network.protocol.name": "http", "server.address": "tickets.example", "server.port": "8443"}} {
			p := g.points(name)
			if len(p) != 1 || !slices.Equal(p[0].Bounds, []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}) {
				t.Errorf("%s: %v", name, p)
			}
			delete(named, "jsonrpc.request.id")
			want(t, name, attributes(p[0].Attributes.ToSlice()), both(at, flat(named)...))
		}
	})
}

func flat(m map[string]string) (list []string) {
	for k, v := range m {
		list = append(list, k, v)
	}
	return list
}

// TestEnds: what error.type and status say.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := map[string]string{
			"works":       toolResult,
			"task":        `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"task","taskId":"7","status":"working"}}`,
			"fails":       `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[],"isError":true}}`,
			"refuses":     `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no such tool"}}`,
			"broken":      `{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"out of order"}}`,
			"unable":      `{"jsonrpc":"2.0","id":ID,"error":{"code":-32021,"message":"no such capability"}}`,
			"unreachable": "unreachable", "401": "401", "waits": "",
		}
		g := newRig(t, session.Face{Era: translate.Modern, Version: translate.V20260728}, func(m *jsonrpc.Message) string {
			name, _ := m.At("params", "name").Str()
			return answers[name]
		})
		defer g.r.Close()
		for _, row := range []struct{ tool, down, up, code, said string }{
			{"works", "", "", "", ""},
			{"task", "", "", "", ""},
			{"fails", "tool_error", "tool_error", "", ""},
			{"refuses", "", "-32602", "-32602", "no such tool"}, // its client's fault
			{"broken", "-32603", "-32603", "-32603", "out of order"},
			{"unable", "-32021", "-32021", "-32021", "no such capability"},
			{"unreachable", "-32603", "unreachable", "", ""},
			{"401", "401", "401", "", ""},
			{"waits", "cancelled", "cancelled", "", ""},
		} {
			g.say(translate.Modern, "stdio", modern("1", "tools/call", `"name":"`+row.tool+`"`, ""))
			for kind, want := range map[trace.SpanKind]string{trace.SpanKindServer: row.down, trace.SpanKindClient: row.up} {
				s := g.span(kind, "tools/call "+row.tool)
				at := attributes(s.Attributes())
				code := row.code
				if row.tool == "unreachable" && kind == trace.SpanKindServer {
					code = "-32603"
				}
				if at["error.type"] != want || at["rpc.response.status_code"] != code || (s.Status().Code == codes.Error) != (want != "") {
					t.Errorf("%s %s: error.type %q, code %q, status %v", row.tool, kind, at["error.type"], at["rpc.response.status_code"], s.Status())
				}
				if code == row.code && want != "" && s.Status().Description != row.said {
					t.Errorf("%s %s says %q", row.tool, kind, s.Status().Description)
				}
				if kind == trace.SpanKindServer && at["network.transport"] != "pipe" {
					t.Errorf("transport %q", at["network.transport"])
				}
			}
		}
	})
}

// TestOtherMethods: names, ids and targets of what is no tool call; methods
// nobody knows are one; a parent that is none is ignored.
func TestOtherMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, session.Face{Era: translate.Modern, Version: translate.V20260728}, func(m *jsonrpc.Message) string { return toolResult })
		defer g.r.Close()
		g.say(translate.Modern, "websocket", modern("7", "prompts/get", `"name":"greet"`, "00-zz-1-01"))
		s := g.span(trace.SpanKindServer, "prompts/get greet")
		want(t, "prompt", attributes(s.Attributes()), both(placed, "network.transport", "tcp", "network.protocol.name", "websocket",
			"mcp.method.name", "prompts/get", "gen_ai.prompt.name", "greet", "mcp.protocol.version", "2026-07-28", "jsonrpc.request.id", "7"))
		if s.Parent().IsValid() {
			t.Errorf("a parent that is none: %v", s.Parent())
		}
		g.say(translate.Modern, "http", modern("8", "resources/read", `"uri":"db://u:pw@h/t?token=1"`, clientParent))
		at := attributes(g.span(trace.SpanKindServer, "resources/read").Attributes())
		if at["mcp.resource.uri"] != "db://h/t" {
			t.Errorf("resource %q", at["mcp.resource.uri"])
		}
		g.say(translate.Modern, "http", modern("9", "vendor/"+strings.Repeat("x", 300), "", clientParent))
		if at := attributes(g.span(trace.SpanKindServer, "_OTHER").Attributes()); at["mcp.method.name"] != "_OTHER" {
			t.Errorf("an unknown method: %v", at)
		}
		g.say(translate.Modern, "http", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"_meta":{`+meta+`}}}`)
		if at := attributes(g.span(trace.SpanKindServer, "notifications/cancelled").Attributes()); at["jsonrpc.request.id"] != "" {
			t.Errorf("a notification: %v", at)
		}
		for _, p := range g.points("mcp.server.operation.duration") {
			for k := range attributes(p.Attributes.ToSlice()) {
				if k == "jsonrpc.request.id" || k == "mcp.session.id" || k == "mcp.resource.uri" {
					t.Errorf("the metric has %s", k)
				}
			}
		}
	})
}

// TestMetricsAreBounded: tools a client makes up are "other" after the first
// few hundred.
func TestMetricsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, session.Face{Era: translate.Modern, Version: translate.V20260728}, func(m *jsonrpc.Message) string { return toolResult })
		defer g.r.Close()
		for i := range 400 {
			g.say(translate.Modern, "http", modern("1", "tools/call", fmt.Sprintf(`"name":"t%d"`, i), clientParent))
		}
		if p := g.points("mcp.server.operation.duration"); len(p) != 257 {
			t.Errorf("%d points", len(p))
		}
	})
}

// TestLegacyTask: a legacy client's task at a modern server: the session shows
// as a keyed hash, looks at the task are children of what asked for it.
func TestLegacyTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		g := newRig(t, session.Face{Era: translate.Modern, Version: translate.V20260728, Tasks: true}, func(m *jsonrpc.Message) string {
			switch m.Method {
			case "server/discover":
				return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"serverInfo":{"name":"s","version":"1"}}}`
			case "tools/call":
				return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"task","taskId":"7","status":"working","createdAt":"2026-08-01T00:00:00Z","lastUpdatedAt":"2026-08-01T00:00:00Z","ttlMs":60000,"pollIntervalMs":100}}`
			case "tasks/get":
				if looks++; looks < 3 {
					return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","taskId":"7","status":"working","createdAt":"2026-08-01T00:00:00Z","lastUpdatedAt":"2026-08-01T00:00:00Z","ttlMs":60000,"pollIntervalMs":100}}`
				}
				return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","taskId":"7","status":"completed","createdAt":"2026-08-01T00:00:00Z","lastUpdatedAt":"2026-08-01T00:00:01Z","ttlMs":60000,"result":{"content":[]}}}`
			case "subscriptions/listen":
				return `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"method not found"}}`
			}
			return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete"}}`
		})
		defer g.r.Close()
		out := g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"9"}}}`)
		g.session = out.Header.Get("Mcp-Session-Id")
		g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		out = g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow","task":{},"_meta":{"traceparent":"`+clientParent+`"}}}`)
		m, err := jsonrpc.Decode(out.Raw, jsonrpc.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		handle, _ := m.At("result", "task", "taskId").Str()
		call := g.span(trace.SpanKindServer, "tools/call slow")
		at := attributes(call.Attributes())
		if at["mcp.session.id"] != "masked-session" || at["mcp.protocol.version"] != "2025-11-25" {
			t.Errorf("server span: %v", at)
		}
		created := g.span(trace.SpanKindClient, "tools/call slow")
		if created.Parent().SpanID() != call.SpanContext().SpanID() || attributes(created.Attributes())["mcp.protocol.version"] != "2026-07-28" {
			t.Errorf("client span: %v", created.Attributes())
		}
		g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":"`+handle+`","_meta":{"traceparent":"`+clientParent+`"}}}`)
		time.Sleep(time.Second)
		synctest.Wait()
		result := g.span(trace.SpanKindServer, "tasks/result")
		polls := 0
		for _, s := range g.spans.Ended() {
			if s.SpanKind() == trace.SpanKindClient && s.Name() == "tasks/get" {
				polls++
				if p := s.Parent().SpanID(); s.SpanContext().TraceID().String() != clientTrace || p != call.SpanContext().SpanID() && p != result.SpanContext().SpanID() {
					t.Errorf("a look's parent is %v", s.Parent())
				}
			}
		}
		if polls < 2 {
			t.Errorf("%d looks", polls)
		}
		for _, s := range g.spans.Ended() {
			for k, v := range attributes(s.Attributes()) {
				if strings.Contains(v, g.session) || strings.Contains(v, handle) {
					t.Errorf("span %s tells an id in %s", s.Name(), k)
				}
			}
		}
	})
}

// TestModernToLegacy: a modern client before a legacy server: what the proxy
// asks first (initialize) belongs to the client's call, too.
func TestModernToLegacy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, session.Face{Era: translate.Legacy, Version: translate.V20251125}, func(m *jsonrpc.Message) string {
			switch m.Method {
			case "initialize":
				return `{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`
			case "tools/list":
				return `{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"weather","inputSchema":{"type":"object"}}]}}`
			}
			return `{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}`
		})
		defer g.r.Close()
		g.say(translate.Modern, "http", modern("1", "tools/call", `"name":"weather"`, clientParent))
		s, c := g.span(trace.SpanKindServer, "tools/call weather"), g.span(trace.SpanKindClient, "tools/call weather")
		at := attributes(c.Attributes())
		if at["mcp.session.id"] != "masked-session" || at["mcp.protocol.version"] != "2025-11-25" || c.Parent().SpanID() != s.SpanContext().SpanID() {
			t.Errorf("client span: %v, parent %v", at, c.Parent())
		}
		if i := g.span(trace.SpanKindClient, "initialize"); i.SpanContext().TraceID().String() != clientTrace {
			t.Errorf("initialize is in another trace: %v", i.Parent())
		}
		if n := g.span(trace.SpanKindClient, "notifications/initialized"); n.Status().Code != codes.Unset {
			t.Errorf("a notification: %v", n.Status())
		}
		if meta := g.srv.sent("tools/call")[0].At("params", "_meta"); !meta.Get("traceparent").Exists() || meta.Get("io.modelcontextprotocol/protocolVersion").Exists() {
			t.Errorf("the server got _meta %s", meta.Raw())
		}
	})
}
