package telemetry

import (
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"

	"taskbridge/session"
	"taskbridge/translate"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// spanName is the method with the tool or prompt it is about.
func spanName(method, name string) string {
	if name == "" {
		return method
	}
	return method + " " + name
}

func (t *Observer) requestAttributes(q *session.Request) []attribute.KeyValue {
	out := append(t.named(q.MethodLabel(), q.Name, q.Version), transportAttributes(q.Transport)...)
	out = append(out, attribute.String("taskbridge.route", q.Route), attribute.String("taskbridge.upstream", q.Upstream))
	return append(out, t.particular(q.ID, q.Session, q.Resource)...)
}

func (t *Observer) exchangeAttributes(x *session.Exchange) []attribute.KeyValue {
	out := append(t.named(x.MethodLabel(), x.Name, x.Version), peerAttributes(t.o.Peer(x.Upstream))...)
	out = append(out, attribute.String("taskbridge.route", x.Route), attribute.String("taskbridge.upstream", x.Upstream))
	return append(out, t.particular(x.ID, x.Session, x.Resource)...)
}

// named says what is asked for.
func (t *Observer) named(method, name, version string) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, 16)
	out = append(out, attribute.String("mcp.method.name", method))
	switch {
	case name == "":
	case method == "tools/call":
		out = append(out, attribute.String("gen_ai.tool.name", name))
	case method == "prompts/get":
		out = append(out, attribute.String("gen_ai.prompt.name", name))
	}
	if method == "tools/call" {
		out = append(out, attribute.String("gen_ai.operation.name", "execute_tool"))
	}
	if version != "" {
		out = append(out, attribute.String("mcp.protocol.version", version))
	}
	return out
}

// labels is named for a metric: the names peers chose are bounded, and so are
// the versions.
func (t *Observer) labels(method, name, version string) []attribute.KeyValue {
	if name != "" {
		name = t.tools.name(method + " " + name)[len(method)+1:]
	}
	if _, known := translate.Lookup(version); !known && version != "" {
		version = "other"
	}
	return t.named(method, name, version)
}

// particular are the attributes of spans alone: they tell one request from
// another. A session's id is shown as a keyed hash, since whoever has it is the
// client.
func (t *Observer) particular(id, session, resource string) (out []attribute.KeyValue) {
	if id != "" && id != "null" {
		if text, err := strconv.Unquote(id); err == nil && strings.HasPrefix(id, `"`) {
			id = text
		}
		out = append(out, attribute.String("jsonrpc.request.id", id))
	}
	if session != "" {
		out = append(out, attribute.String("mcp.session.id", t.o.Mask("session", session)))
	}
	if resource != "" {
		out = append(out, attribute.String("mcp.resource.uri", resource))
	}
	return out
}

// transportAttributes by the conventions, Recording MCP transport.
func transportAttributes(transport string) []attribute.KeyValue {
	switch transport {
	case translate.TransportHTTP, translate.TransportSSE:
		return []attribute.KeyValue{attribute.String("network.transport", "tcp"), attribute.String("network.protocol.name", "http")}
	case translate.TransportWebSocket:
		return []attribute.KeyValue{attribute.String("network.transport", "tcp"), attribute.String("network.protocol.name", "websocket")}
	case translate.TransportStdio:
		return []attribute.KeyValue{attribute.String("network.transport", "pipe")}
	}
	return nil
}

func peerAttributes(p Peer) []attribute.KeyValue {
	out := transportAttributes(p.Transport)
	if p.Address != "" {
		out = append(out, attribute.String("server.address", p.Address))
		if p.Port != 0 {
			out = append(out, attribute.Int("server.port", p.Port))
		}
	}
	return out
}

// maxNames bounds the tools and prompts a metric tells apart.
const maxNames = 256

// bounded lets the first maxNames names through and calls others "other". Safe
// for concurrent use.
type bounded struct {
	mu    sync.Mutex // protects known
	known map[string]bool
}

// name of the form METHOD NAME, or METHOD other.
func (b *bounded) name(s string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[s] {
		return s
	}
	if len(b.known) >= maxNames {
		method, _, _ := strings.Cut(s, " ")
		return method + " other"
	}
	if b.known == nil {
		b.known = map[string]bool{}
	}
	b.known[strings.Clone(s)] = true
	return s
}
