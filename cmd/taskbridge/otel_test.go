package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlptrace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"taskbridge/cmd/peers"
)

func TestOtelWanted(t *testing.T) {
	for _, tt := range []struct {
		env             map[string]string
		traces, metrics bool
	}{
		{nil, false, false},
		{map[string]string{"OTEL_SERVICE_NAME": "x", "OTEL_RESOURCE_ATTRIBUTES": "a=b"}, false, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h"}, true, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h"}, true, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://h"}, false, true},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, false},
		{map[string]string{"OTEL_METRICS_EXPORTER": "console"}, false, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_TRACES_EXPORTER": "none"}, false, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_SDK_DISABLED": "TRUE"}, false, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_SDK_DISABLED": "false"}, true, true},
	} {
		traces, metrics := otelWanted(func(name string) string { return tt.env[name] })
		if traces != tt.traces || metrics != tt.metrics {
			t.Errorf("%v: traces %v, metrics %v", tt.env, traces, metrics)
		}
	}
}

// collector takes spans and metrics as OTLP over HTTP.
type collector struct {
	mu    sync.Mutex // protects what follows
	spans []*otlptrace.Span
	about map[string]string
	paths map[string]int
	// points are attributes of the points of each histogram, the newest export's.
	points map[string][]map[string]string
}

func (c *collector) Close() error { return nil }

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths[r.URL.Path]++
	if strings.HasSuffix(r.URL.Path, "/v1/metrics") {
		c.metrics(raw)
		return
	}
	var in coltrace.ExportTraceServiceRequest
	if !strings.HasSuffix(r.URL.Path, "/v1/traces") || proto.Unmarshal(raw, &in) != nil {
		return
	}
	for _, rs := range in.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			c.about[a.Key] = a.Value.GetStringValue()
		}
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

func (c *collector) metrics(raw []byte) {
	var in colmetrics.ExportMetricsServiceRequest
	if proto.Unmarshal(raw, &in) != nil {
		return
	}
	for _, rm := range in.ResourceMetrics {
		for _, sm := range rm.ScopeMetrics {
			for _, m := range sm.Metrics {
				c.points[m.Name] = nil
				for _, p := range m.GetHistogram().GetDataPoints() {
					at := map[string]string{}
					for _, a := range p.Attributes {
						at[a.Key] = a.Value.GetStringValue()
					}
					c.points[m.Name] = append(c.points[m.Name], at)
				}
			}
		}
	}
}

// collect starts a collector that the environment names.
func collect(t *testing.T) *collector {
	t.Helper()
	c := &collector{about: map[string]string{}, paths: map[string]int{}, points: map[string][]map[string]string{}}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", strings.TrimSuffix(peer(t, c), "/mcp"))
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_SERVICE_NAME", "edge")
	return c
}

// TestOtelEndToEnd_Sessions: sessions of both legs and what a server asks in one
// reach the collector.
func TestOtelEndToEnd_Sessions(t *testing.T) {
	c := collect(t)
	s := serve(t, "--upstream", peer(t, peers.NewLegacyServer(peers.ServerOptions{})))
	client := legacyClient(t, s.url)
	run, err := client.RunTask(t.Context(), "confirm_delete", map[string]any{"filename": "a.txt"}, nil)
	if err != nil || run.Status() != "completed" {
		t.Fatalf("%v %+v", err, run)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	s.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range []string{"mcp.server.session.duration", "mcp.client.session.duration"} {
		p := c.points[name]
		if len(p) != 1 || p[0]["mcp.protocol.version"] != "2025-11-25" || p[0]["network.protocol.name"] != "http" || p[0]["error.type"] != "" {
			t.Errorf("%s: %v", name, p)
		}
		if name = strings.Replace(name, "session", "operation", 1); !slices.ContainsFunc(c.points[name], func(at map[string]string) bool {
			return at["mcp.method.name"] == "elicitation/create"
		}) {
			t.Errorf("%s has no elicitation: %v", name, c.points[name])
		}
	}
	var server, down *otlptrace.Span
	for _, sp := range c.spans {
		if sp.Name == "elicitation/create" && sp.Kind == otlptrace.Span_SPAN_KIND_SERVER {
			server = sp
		} else if sp.Name == "elicitation/create" {
			down = sp
		}
	}
	if server == nil || down == nil || !bytes.Equal(down.ParentSpanId, server.SpanId) {
		t.Errorf("spans of the question: %v, %v", server, down)
	}
	attribute := func(sp *otlptrace.Span, key string) string {
		for _, a := range sp.GetAttributes() {
			if a.Key == key {
				return a.Value.GetStringValue()
			}
		}
		return ""
	}
	for _, sp := range c.spans {
		if id := attribute(sp, "mcp.session.id"); id == client.SessionID() && id != "" {
			t.Errorf("%s tells a session's id", sp.Name)
		}
		if sp.Kind == otlptrace.Span_SPAN_KIND_SERVER && sp.Name == "initialize" && (attribute(sp, "client.address") != "127.0.0.1" || attribute(sp, "network.protocol.version") != "1.1") {
			t.Errorf("initialize: %v", sp.Attributes)
		}
	}
}

// TestOtelEndToEnd_OpenSessions: a session that is open when the process ends is
// over, too: a client's with us, and ours with its server or for modern clients.
func TestOtelEndToEnd_OpenSessions(t *testing.T) {
	const served, asked = "mcp.server.session.duration", "mcp.client.session.duration"
	for _, tt := range []struct {
		modern bool
		want   []string
	}{
		{false, []string{served, asked}},
		{true, []string{asked}},
	} {
		t.Run(eraName(tt.modern)+" client", func(t *testing.T) {
			c := collect(t)
			s := serve(t, "--upstream", peer(t, peers.NewLegacyServer(peers.ServerOptions{})))
			if tt.modern {
				startSocket(t, true, s.url).must("tools/list", nil, nil)
			} else if _, err := legacyClient(t, s.url).Call(t.Context(), "tools/list", nil); err != nil {
				t.Fatal(err)
			}
			s.end()
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, name := range []string{served, asked} {
				p := c.points[name]
				switch {
				case !slices.Contains(tt.want, name):
					if len(p) > 0 {
						t.Errorf("%s: %v", name, p)
					}
				case len(p) != 1 || p[0]["mcp.protocol.version"] != "2025-11-25" || p[0]["error.type"] != "":
					t.Errorf("%s: %v", name, p)
				}
			}
		})
	}
}

// TestOtelEndToEnd: serve with a collector: a client's call is a server span
// with a client span below it, whose context the server gets.
func TestOtelEndToEnd(t *testing.T) {
	c := collect(t)
	var mu sync.Mutex
	var bodies [][]byte
	srv := peers.NewModernServer(peers.ServerOptions{Trace: func(e peers.TraceEntry) {
		if !e.Out {
			mu.Lock()
			bodies = append(bodies, bytes.Clone(e.Message))
			mu.Unlock()
		}
	}})
	s := serve(t, "--upstream", peer(t, srv))
	r, err := legacyClient(t, s.url).Call(t.Context(), "tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"},
		"_meta": map[string]any{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}})
	if err != nil || r.Text() != "Hello, Ada!" {
		t.Fatalf("%v %s", err, r.Raw)
	}
	s.end() // sends what is left
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := map[string]*otlptrace.Span{}
	for _, sp := range c.spans {
		if hexID(sp.TraceId) == "4bf92f3577b34da6a3ce929d0e0e4736" {
			spans[sp.Kind.String()+" "+sp.Name] = sp
		}
	}
	server, client := spans["SPAN_KIND_SERVER tools/call greet"], spans["SPAN_KIND_CLIENT tools/call greet"]
	if server == nil || client == nil || hexID(server.ParentSpanId) != "00f067aa0ba902b7" || !bytes.Equal(client.ParentSpanId, server.SpanId) {
		t.Fatalf("spans %v", slices.Collect(maps.Keys(spans)))
	}
	if c.about["service.name"] != "edge" || c.about["service.version"] == "" || c.about["telemetry.sdk.language"] != "go" {
		t.Errorf("resource %v", c.about)
	}
	if c.paths["/v1/metrics"] == 0 {
		t.Errorf("no metrics were sent: %v", c.paths)
	}
	mu.Lock()
	defer mu.Unlock()
	want := `"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-` + hexID(client.SpanId) + `-01"`
	if !slices.ContainsFunc(bodies, func(b []byte) bool {
		return json.Valid(b) && bytes.Contains(b, []byte(want)) && bytes.Contains(b, []byte(`"tools/call"`))
	}) {
		t.Errorf("the server got no %s", want)
	}
}

func hexID(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, c := range b {
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}

// How servers are reached is known for those that are there alone.
func TestReload_ForgetsPeers(t *testing.T) {
	a, b := peer(t, peers.NewModernServer(peers.ServerOptions{})), peer(t, peers.NewModernServer(peers.ServerOptions{}))
	text := func(url string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nroutes:\n  - {name: one, path: /mcp, upstreams: [{name: s, url: %q}, {name: t, url: %q}]}\n", url, a)
	}
	f := startFile(t, text(a))
	for range 3 {
		for _, url := range []string{b, a} {
			if err := f.put(text(url)); err != nil {
				t.Fatal(err)
			}
			if p := f.bridge.peer("one/s"); url != fmt.Sprintf("http://%s:%d/mcp", p.Address, p.Port) {
				t.Errorf("%s is reached at %+v", url, p)
			}
		}
	}
	if err := f.put(fmt.Sprintf("listen: 127.0.0.1:0\nroutes:\n  - {name: one, path: /mcp, upstream: %q}\n", a)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "those that went are forgotten", func() bool {
		f.bridge.peersMu.RLock()
		defer f.bridge.peersMu.RUnlock()
		return len(f.bridge.peers) == 1 && len(f.bridge.peers["one/default"]) == 1
	})
}
