package telemetry_test

import (
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
	initResult = `{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`
	callResult = `{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}`
	// serverParent is the context a server asks in.
	serverParent = "00-" + clientTrace + "-aaaaaaaaaaaaaaaa-01"
)

var legacyFace = session.Face{Era: translate.Legacy, Version: translate.V20251125}

func legacyServer(m *jsonrpc.Message) string {
	switch m.Method {
	case "initialize":
		return initResult
	case "tools/list":
		return `{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"weather","inputSchema":{"type":"object"}}]}}`
	}
	return callResult
}

// enter opens a legacy client's session.
func (g *rig) enter() {
	g.t.Helper()
	out := g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{},"roots":{},"elicitation":{}},"clientInfo":{"name":"c","version":"9"}}}`)
	g.session = out.Header.Get("Mcp-Session-Id")
	g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// TestLegacyServerAsksLegacyClient: sampling inside a call between legacy peers
// is a server span for the server's request and below it a client span for ours,
// whose context the client gets.
func TestLegacyServerAsksLegacyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, legacyFace, legacyServer)
		defer g.r.Close()
		g.enter()
		g.srv.asks = `{"jsonrpc":"2.0","id":"q1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":5,"_meta":{"traceparent":"` + serverParent + `"}}}`
		var asked *jsonrpc.Message
		g.onAsk = func(m *jsonrpc.Message) {
			asked = m
			time.Sleep(3 * time.Second)
			g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":`+string(m.ID.Raw())+`,"result":{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}}`)
		}
		g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"weather","_meta":{"traceparent":"`+clientParent+`"}}}`)
		if asked == nil {
			t.Fatal("the client was not asked")
		}
		s, c := g.span(trace.SpanKindServer, "sampling/createMessage"), g.span(trace.SpanKindClient, "sampling/createMessage")
		common := both(down, "mcp.method.name", "sampling/createMessage", "mcp.protocol.version", "2025-11-25", "jsonrpc.request.id", "q1", "mcp.session.id", "masked-session")
		want(t, "server span", attributes(s.Attributes()), both(common, "client.address", "tickets.example", "client.port", "8443"))
		want(t, "client span", attributes(c.Attributes()), common)
		if s.Parent().SpanID().String() != "aaaaaaaaaaaaaaaa" || c.Parent().SpanID() != s.SpanContext().SpanID() {
			t.Errorf("parents %v, %v", s.Parent(), c.Parent())
		}
		if got, _ := asked.At("params", "_meta", "traceparent").Str(); got != "00-"+clientTrace+"-"+c.SpanContext().SpanID().String()+"-01" {
			t.Errorf("the client was asked in %s", got)
		}
		for name, more := range map[string][]string{"mcp.server.operation.duration": nil, "mcp.client.operation.duration": nil} {
			p := g.pointOf(name, "sampling/createMessage")
			want(t, name, attributes(p.Attributes.ToSlice()), both(map[string]string{"network.transport": "tcp", "network.protocol.name": "http",
				"mcp.method.name": "sampling/createMessage", "mcp.protocol.version": "2025-11-25"}, more...))
			if p.Count != 1 || p.Sum != 3 {
				t.Errorf("%s: %d, %v s", name, p.Count, p.Sum)
			}
		}
	})
}

// TestLegacyServerAsksModernClient: the client is asked by a result, so there is
// only the server span; without a context of the server's own it belongs to the
// client's call. An error the client could not help is one.
func TestLegacyServerAsksModernClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, legacyFace, legacyServer)
		defer g.r.Close()
		g.srv.asks = `{"jsonrpc":"2.0","id":7,"method":"vendor/ask","params":{}}`
		g.say(translate.Modern, "http", modern("1", "tools/call", `"name":"weather"`, clientParent))
		s := g.span(trace.SpanKindServer, "_OTHER")
		at := attributes(s.Attributes())
		if s.SpanContext().TraceID().String() != clientTrace || at["mcp.method.name"] != "_OTHER" || at["jsonrpc.request.id"] != "7" {
			t.Errorf("parent %v, attributes %v", s.Parent(), at)
		}
		if at["rpc.response.status_code"] == "" {
			t.Errorf("refused, but %v", at)
		}
	})
}

// TestServerRequestEnds: how a question ends that gets no good answer.
func TestServerRequestEnds(t *testing.T) {
	for _, row := range []struct {
		name, answer         string
		server, client, code string
	}{
		{name: "refused", answer: `{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"User rejected"}}`, server: "-1", client: "-1", code: "-1"},
		{name: "not possible", answer: `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no roots"}}`, client: "-32601", code: "-32601"},
		{name: "no answer", server: "cancelled", client: "cancelled"},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, legacyFace, legacyServer)
			g.enter()
			g.srv.asks = `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`
			g.onAsk = func(m *jsonrpc.Message) {
				if row.answer != "" {
					g.say(translate.Legacy, "http", strings.ReplaceAll(row.answer, "ID", "1"))
					return
				}
				g.end() // the session
			}
			g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"weather"}}`)
			g.r.Close()
			for kind, want := range map[trace.SpanKind]string{trace.SpanKindServer: row.server, trace.SpanKindClient: row.client} {
				s := g.span(kind, "roots/list")
				at := attributes(s.Attributes())
				if at["error.type"] != want || at["rpc.response.status_code"] != row.code || (s.Status().Code == codes.Error) != (want != "") {
					t.Errorf("%s, %s: %v, %v", row.name, kind, at, s.Status())
				}
			}
		})
	}
}

// TestModernServerAsksLegacyClient: a question in a modern server's result is a
// request to the client alone, in the trace of its call.
func TestModernServerAsksLegacyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := 0
		g := newRig(t, session.Face{Era: translate.Modern, Version: translate.V20260728}, func(m *jsonrpc.Message) string {
			switch m.Method {
			case "server/discover":
				return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`
			case "tools/call":
				if rounds++; rounds == 1 {
					return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"input_required","requestState":"s","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}}}}}}`
				}
			}
			return toolResult
		})
		defer g.r.Close()
		g.enter()
		var asked *jsonrpc.Message
		g.onAsk = func(m *jsonrpc.Message) {
			asked = m
			g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":`+string(m.ID.Raw())+`,"result":{"action":"accept","content":{}}}`)
		}
		g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"weather","_meta":{"traceparent":"`+clientParent+`"}}}`)
		call, c := g.span(trace.SpanKindServer, "tools/call weather"), g.span(trace.SpanKindClient, "elicitation/create")
		want(t, "client span", attributes(c.Attributes()), both(down, "mcp.method.name", "elicitation/create", "mcp.protocol.version", "2025-11-25",
			"jsonrpc.request.id", string(asked.ID.Raw()), "mcp.session.id", "masked-session"))
		if c.Parent().SpanID() != call.SpanContext().SpanID() {
			t.Errorf("parent %v", c.Parent())
		}
		if got, _ := asked.At("params", "_meta", "traceparent").Str(); !strings.Contains(got, c.SpanContext().SpanID().String()) {
			t.Errorf("asked in %q", got)
		}
		for _, s := range g.spans.Ended() {
			if s.SpanKind() == trace.SpanKindServer && s.Name() == "elicitation/create" {
				t.Error("a server span for what is no request")
			}
		}
	})
}

// TestServerRequestsAreBounded: questions nobody answers are given up, the
// oldest first.
func TestServerRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, legacyFace, legacyServer)
		g.enter()
		const many = 1100
		g.srv.askMany(many)
		n := 0
		g.onAsk = func(*jsonrpc.Message) { n++ }
		g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"weather"}}`)
		ended := func() (n int) {
			for _, s := range g.spans.Ended() {
				if s.Name() == "roots/list" && s.SpanKind() == trace.SpanKindClient {
					n++
				}
			}
			return n
		}
		// Both legs share the room.
		if got := ended(); n != many || got < many-1024/2-1 || got == many {
			t.Errorf("%d asked, %d given up", n, got)
		}
		g.r.Close()
		if got := ended(); got != many {
			t.Errorf("%d ended at the close", got)
		}
	})
}

// TestSessionDurations: how long sessions last, on both legs, and why they end.
func TestSessionDurations(t *testing.T) {
	shared := map[string]string{"network.transport": "tcp", "network.protocol.name": "http", "mcp.protocol.version": "2025-11-25"}
	toServer := both(shared, "server.address", "tickets.example", "server.port", "8443")
	buckets := []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}
	for _, row := range []struct {
		name           string
		face           session.Face
		end            func(g *rig)
		fail           string
		client, server float64 // seconds; 0: no such session
	}{
		{"DELETE", legacyFace, func(g *rig) { time.Sleep(5 * time.Second); g.end() }, "", 5, 5},
		{"idle", legacyFace, func(g *rig) { time.Sleep(time.Hour) }, "", 1800, 1800},
		{"forgotten", legacyFace, func(g *rig) {
			time.Sleep(7 * time.Second)
			g.srv.forgot = true
			g.say(translate.Legacy, "http", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"weather"}}`)
		}, "404", 7, 7},
		{"modern server", session.Face{Era: translate.Modern, Version: translate.V20260728}, func(g *rig) { time.Sleep(5 * time.Second); g.end() }, "", 0, 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, row.face, func(m *jsonrpc.Message) string {
				if m.Method == "server/discover" {
					return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`
				}
				return legacyServer(m)
			})
			defer g.r.Close()
			g.enter()
			row.end(g)
			synctest.Wait()
			for name, seconds := range map[string]float64{"mcp.server.session.duration": row.server, "mcp.client.session.duration": row.client} {
				p := g.pointsOrNone(name)
				if seconds == 0 {
					if len(p) != 0 {
						t.Errorf("%s: %s has %v", row.name, name, p)
					}
					continue
				}
				wanted := shared
				if name == "mcp.client.session.duration" {
					wanted = toServer
				}
				if row.fail != "" {
					wanted = both(wanted, "error.type", row.fail)
				}
				if len(p) != 1 || p[0].Count != 1 || p[0].Sum != seconds || len(p[0].Bounds) != len(buckets) {
					t.Errorf("%s: %s: %+v", row.name, name, p)
					continue
				}
				want(t, row.name+": "+name, attributes(p[0].Attributes.ToSlice()), wanted)
			}
		})
	}
}

// TestPoolSessionDuration: the session modern clients share at a legacy server
// ends when nobody uses it, or when the server forgets it, and another begins.
func TestPoolSessionDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, legacyFace, legacyServer)
		defer g.r.Close()
		call := func() { g.say(translate.Modern, "http", modern("1", "tools/call", `"name":"weather"`, "")) }
		call()
		time.Sleep(4 * time.Second)
		g.srv.forgot = true
		call()
		g.srv.forgot = false
		if p := g.pointsOrNone("mcp.client.session.duration"); len(p) != 1 || p[0].Sum != 4 || attributes(p[0].Attributes.ToSlice())["error.type"] != "404" {
			t.Errorf("forgotten: %+v", p)
		}
		call()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if p := g.pointsOrNone("mcp.client.session.duration"); len(p) != 2 {
			t.Errorf("idle: %+v", p)
		}
		if p := g.pointsOrNone("mcp.server.session.duration"); len(p) != 0 {
			t.Errorf("modern clients have no sessions: %+v", p)
		}
	})
}
