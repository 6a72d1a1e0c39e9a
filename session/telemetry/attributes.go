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
	out := append(t.named(q.MethodLabel(), q.Name, q.Version), transportAttributes(q.Transport, q.Proto)...)
	if a := q.Peer.Addr(); a.IsValid() {
		out = append(out, attribute.String("client.address", a.String()))
		if p := q.Peer.Port(); p != 0 {
			out = append(out, attribute.Int("client.port", int(p)))
		}
	}
	return append(out, t.particular(q.Route, q.Upstream, q.ID, q.Session, q.Resource)...)
}

func (t *Observer) exchangeAttributes(x *session.Exchange) []attribute.KeyValue {
	out := append(t.named(x.MethodLabel(), x.Name, x.Version), peerAttributes(t.o.Peer(x.Upstream), "")...)
	return append(out, t.particular(x.Route, x.Upstream, x.ID, x.Session, x.Resource)...)
}

// serverRequestAttributes of a request that a server makes: where it asks us the
// server is the caller, so that its address is the client's. Of the client we
// ask no address is told: what it listens on is nothing.
func (t *Observer) serverRequestAttributes(q *session.ServerRequest) []attribute.KeyValue {
	out := append(t.named(q.MethodLabel(), "", q.Version), t.legAttributes(q)...)
	if p := t.o.Peer(q.Upstream); q.Leg == translate.ServerLeg && p.Address != "" {
		out = append(out, attribute.String("client.address", p.Address))
		if p.Port != 0 {
			out = append(out, attribute.Int("client.port", p.Port))
		}
	}
	return append(out, t.particular(q.Route, q.Upstream, q.ID, q.Session, "")...)
}

func (t *Observer) legAttributes(q *session.ServerRequest) []attribute.KeyValue {
	if q.Leg == translate.ServerLeg {
		return transportAttributes(t.o.Peer(q.Upstream).Transport, q.Proto)
	}
	return transportAttributes(q.Transport, q.Proto)
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
	return append(out, versionAttribute(version)...)
}

func versionAttribute(version string) []attribute.KeyValue {
	if version == "" {
		return nil
	}
	return []attribute.KeyValue{attribute.String("mcp.protocol.version", version)}
}

// labels is named for a metric: the names peers chose are bounded, and so are
// the versions.
func (t *Observer) labels(method, name, version string) []attribute.KeyValue {
	if name != "" {
		name = t.tools.name(method + " " + name)[len(method)+1:]
	}
	return t.named(method, name, boundedVersion(version))
}

func boundedVersion(version string) string {
	if _, known := translate.Lookup(version); !known && version != "" {
		return "other"
	}
	return version
}

// particular are the attributes of spans alone: they tell one request from
// another. A session's id is shown as a keyed hash, since whoever has it is the
// client.
func (t *Observer) particular(route, upstream, id, session, resource string) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, 5)
	out = append(out, attribute.String("taskbridge.route", route), attribute.String("taskbridge.upstream", upstream))
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

// transportAttributes by the conventions, Recording MCP transport; proto is the
// version of HTTP, empty where it is not known.
func transportAttributes(transport, proto string) []attribute.KeyValue {
	network := func(transport, protocol, version string) []attribute.KeyValue {
		out := make([]attribute.KeyValue, 0, 5) // with room for an address
		out = append(out, attribute.String("network.transport", transport))
		if protocol != "" {
			out = append(out, attribute.String("network.protocol.name", protocol))
		}
		if version != "" {
			out = append(out, attribute.String("network.protocol.version", version))
		}
		return out
	}
	switch transport {
	case translate.TransportHTTP, translate.TransportSSE:
		return network("tcp", "http", proto)
	case translate.TransportWebSocket:
		return network("tcp", "websocket", "")
	case translate.TransportStdio:
		return network("pipe", "", "")
	}
	return nil
}

func peerAttributes(p Peer, proto string) []attribute.KeyValue {
	out := transportAttributes(p.Transport, proto)
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
