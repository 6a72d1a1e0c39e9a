package telemetry_test

import (
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Where an attribute of the conventions stands.
const (
	onClient = 1 << iota
	onServer
	clientOperation // mcp.client.operation.duration
	serverOperation
	clientSession // mcp.client.session.duration
	serverSession
	spans      = onClient | onServer
	operations = clientOperation | serverOperation
	sessions   = clientSession | serverSession
)

// conventions are the attributes of docs/gen-ai/mcp.md (semantic-conventions-genai
// 0.1.0, all of them in development but error.type, network.*, client.* and
// server.*, which are stable): where they stand there, and where we send them.
var conventions = []struct {
	name, level string
	stands      int
	sent        int
	why         string // of a difference
}{
	{"mcp.method.name", "required", spans | operations, spans | operations, ""},
	{"error.type", "if it fails", spans | operations | sessions, spans | operations | sessions, ""},
	{"gen_ai.prompt.name", "if about a prompt", spans | operations, spans | operations, ""},
	{"gen_ai.tool.name", "if about a tool", spans | operations, spans | operations, ""},
	{"jsonrpc.request.id", "of a request", spans, spans, ""},
	{"mcp.resource.uri", "with a URI", spans, spans, ""},
	{"mcp.resource.uri", "opt-in", operations, 0, "any number of values"},
	{"rpc.response.status_code", "if there is a code", spans | operations, spans | operations, ""},
	{"gen_ai.operation.name", "recommended", spans | operations, spans | operations, ""},
	{"jsonrpc.protocol.version", "if not 2.0", spans | operations | sessions, 0, "any other is refused"},
	{"mcp.protocol.version", "recommended", spans | operations | sessions, spans | operations | sessions, ""},
	{"mcp.session.id", "recommended", spans, spans, ""},
	{"network.protocol.name", "recommended", spans | operations | sessions, spans | operations | sessions, ""},
	{"network.protocol.version", "recommended", spans | operations, spans | operations, ""},
	{"network.protocol.version", "recommended", sessions, 0, "a session may go over several"},
	{"network.transport", "recommended", spans | operations | sessions, spans | operations | sessions, ""},
	{"server.address", "recommended", onClient | clientOperation | clientSession, onClient | clientOperation | clientSession, ""},
	{"server.port", "with server.address", onClient | clientOperation | clientSession, onClient | clientOperation | clientSession, ""},
	{"client.address", "recommended", onServer, onServer, ""},
	{"client.port", "with client.address", onServer, onServer, ""},
	{"gen_ai.tool.call.arguments", "opt-in", spans, 0, "may hold secrets"},
	{"gen_ai.tool.call.result", "opt-in", spans, 0, "may hold secrets"},
	{"gen_ai.prompt.variable", "opt-in", spans, 0, "may hold secrets"},
	{"taskbridge.route", "ours", 0, spans, "which route of ours"},
	{"taskbridge.upstream", "ours", 0, spans, "which server of the route"},
}

// seen notes where each attribute was sent.
type seenAt map[string]int

func (s seenAt) spans(g *rig) {
	for _, sp := range g.spans.Ended() {
		where := onServer
		if sp.SpanKind() == trace.SpanKindClient {
			where = onClient
		}
		for _, a := range sp.Attributes() {
			s[string(a.Key)] |= where
		}
	}
}

func (s seenAt) metrics(g *rig) {
	for name, where := range map[string]int{
		"mcp.client.operation.duration": clientOperation, "mcp.server.operation.duration": serverOperation,
		"mcp.client.session.duration": clientSession, "mcp.server.session.duration": serverSession,
	} {
		for _, p := range g.pointsOrNone(name) {
			for _, a := range p.Attributes.ToSlice() {
				s[string(a.Key)] |= where
			}
		}
	}
}

// TestConventions: every attribute of the conventions is sent where the table
// says, and nothing else is.
func TestConventions(t *testing.T) {
	seen := seenAt{}
	synctest.Test(t, func(t *testing.T) { // both legacy: sessions and questions
		g := newRig(t, legacyFace, func(m *jsonrpc.Message) string {
			if m.Method == "resources/read" {
				return `{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"no"}}`
			}
			return legacyServer(m)
		})
		g.peer, g.proto = netip.MustParseAddrPort("192.0.2.7:4711"), "2"
		g.srv.proto = "1.1"
		g.enter()
		g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"weather","arguments":{"secret":1}}}`)
		g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":3,"method":"prompts/get","params":{"name":"greet","arguments":{"who":"secret"}}}`)
		g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"file:///a"}}`)
		g.srv.forgot = true
		g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`)
		g.r.Close()
		seen.spans(g)
		seen.metrics(g)
	})
	for _, row := range conventions {
		if row.stands != row.sent && row.why == "" {
			t.Errorf("%s differs from the conventions without a reason", row.name)
		}
	}
	sent := map[string]int{}
	for _, row := range conventions {
		sent[row.name] |= row.sent
	}
	for name, where := range sent {
		if seen[name] != where {
			t.Errorf("%s was sent in %06b, want %06b", name, seen[name], where)
		}
	}
	for name := range seen {
		if _, ok := sent[name]; !ok {
			t.Errorf("%s is not in the table", name)
		}
	}
}

// TestTransports: how each transport is named (Recording MCP transport), and who
// calls.
func TestTransports(t *testing.T) {
	for _, row := range []struct {
		transport, proto, peer string
		want                   map[string]string
	}{
		{"http", "1.1", "192.0.2.7:4711", map[string]string{"network.transport": "tcp", "network.protocol.name": "http", "network.protocol.version": "1.1", "client.address": "192.0.2.7", "client.port": "4711"}},
		{"http", "2", "[2001:db8::1]:0", map[string]string{"network.transport": "tcp", "network.protocol.name": "http", "network.protocol.version": "2", "client.address": "2001:db8::1"}},
		{"sse", "1.1", "", map[string]string{"network.transport": "tcp", "network.protocol.name": "http", "network.protocol.version": "1.1"}},
		{"websocket", "1.1", "", map[string]string{"network.transport": "tcp", "network.protocol.name": "websocket"}},
		{"stdio", "", "", map[string]string{"network.transport": "pipe"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, session.Face{Era: translate.Modern, Version: translate.V20260728}, func(m *jsonrpc.Message) string { return toolResult })
			defer g.r.Close()
			g.proto = row.proto
			if row.peer != "" {
				g.peer = netip.MustParseAddrPort(row.peer)
			}
			g.say(translate.Modern, row.transport, modern("1", "tools/list", "", ""))
			want(t, row.transport, attributes(g.span(trace.SpanKindServer, "tools/list").Attributes()),
				both(placed, append(flat(row.want), "mcp.method.name", "tools/list", "mcp.protocol.version", "2026-07-28", "jsonrpc.request.id", "1")...))
		})
	}
}

// TestMetricsAreThoseOfTheConventions: names, unit and buckets.
func TestMetricsAreThoseOfTheConventions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, legacyFace, legacyServer)
		g.header = http.Header{}
		g.enter()
		time.Sleep(time.Second)
		g.end()
		g.r.Close()
		var all metricdata.ResourceMetrics
		if err := g.reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, sc := range all.ScopeMetrics {
			for _, m := range sc.Metrics {
				h, ok := m.Data.(metricdata.Histogram[float64])
				if !ok || m.Unit != "s" || len(h.DataPoints) == 0 || len(h.DataPoints[0].Bounds) != 14 || h.DataPoints[0].Bounds[0] != .01 || h.DataPoints[0].Bounds[13] != 300 {
					t.Errorf("%s: %q, %+v", m.Name, m.Unit, m.Data)
				}
				names[m.Name] = true
			}
		}
		for _, name := range []string{"mcp.client.operation.duration", "mcp.server.operation.duration", "mcp.client.session.duration", "mcp.server.session.duration"} {
			if !names[name] {
				t.Errorf("no %s among %v", name, names)
			}
			delete(names, name)
		}
		if len(names) > 0 {
			t.Errorf("metrics of our own: %v", names)
		}
	})
}

// TestOperateNames: the handbook names what is sent, and nothing else of its kind.
func TestOperateNames(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(page), "## OpenTelemetry\n")
	part, _, _ = strings.Cut(part, "\n## ")
	known := map[string]bool{"mcp.client.operation.duration": true, "mcp.server.operation.duration": true, "mcp.client.session.duration": true, "mcp.server.session.duration": true}
	for _, row := range conventions {
		if row.sent != 0 {
			known[row.name] = true
		}
	}
	for name := range known {
		if !strings.Contains(part, "`"+name+"`") {
			t.Errorf("docs/operate.md does not name %s", name)
		}
	}
	for _, m := range regexp.MustCompile("`((?:mcp|gen_ai|network|client|server|jsonrpc|rpc|error|taskbridge)\\.[a-z_.]+)`").FindAllStringSubmatch(part, -1) {
		if !known[m[1]] {
			t.Errorf("docs/operate.md names %s, which is not sent", m[1])
		}
	}
}
