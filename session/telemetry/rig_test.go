package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/session/telemetry"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// server answers each message at once, and keeps them.
type server struct {
	answer func(m *jsonrpc.Message) string
	// asks are requests it makes, a line each, before it answers tools/call: that
	// comes when the last of them is answered.
	asks string
	// forgot: its sessions are unknown.
	forgot bool
	proto  string // of HTTP

	mu   sync.Mutex // protects what follows
	got  []*jsonrpc.Message
	wait map[string]chan struct{} // for answers, by id
}

func (s *server) askMany(n int) {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`+"\n", i+1)
	}
	s.asks = b.String()
}

// asking is a stream on which the server asks first.
func (s *server) asking(e *stream) {
	e.env.Header.Set("Content-Type", "text/event-stream")
	for line := range strings.Lines(s.asks) {
		m, err := jsonrpc.Decode([]byte(strings.TrimSpace(line)), jsonrpc.Limits{})
		if err != nil {
			panic(err)
		}
		e.first = append(e.first, m)
		e.until = make(chan struct{})
		s.mu.Lock()
		if s.wait == nil {
			s.wait = map[string]chan struct{}{}
		}
		s.wait[m.ID.Key()] = e.until
		s.mu.Unlock()
	}
}

// heard: an answer came.
func (s *server) heard(m *jsonrpc.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.wait[m.ID.Key()]; c != nil {
		close(c)
		delete(s.wait, m.ID.Key())
	}
}

func (s *server) Dial(context.Context, session.Target) (session.Conn, error) { return s, nil }
func (s *server) Close() error                                               { return nil }

func (s *server) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	e := &stream{ctx: ctx, env: &translate.Envelope{Status: 200, Header: http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": {"S-1"}}, Proto: s.proto}}
	if out.Msg == nil {
		e.env = &translate.Envelope{Status: 405}
		return e, nil
	}
	m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.got = append(s.got, m)
	s.mu.Unlock()
	if s.forgot && out.Session != "" {
		e.env.Status = 404
		return e, nil
	}
	if m.Kind != jsonrpc.Request {
		s.heard(m)
		e.env.Status = 202
		return e, nil
	}
	if m.Method == "tools/call" && s.asks != "" {
		s.asking(e)
	}
	switch said := s.answer(m); said {
	case "unreachable":
		return nil, &session.DialError{Fail: session.FailUnreachable, Err: errors.New("nobody there")}
	case "401":
		e.env.Status = 401
	case "":
		e.env.Header.Set("Content-Type", "text/event-stream")
		e.waits = true
	default:
		e.msg, err = jsonrpc.Decode([]byte(strings.ReplaceAll(said, "ID", string(m.ID.Raw()))), jsonrpc.Limits{})
	}
	return e, err
}

// sent are the messages of a method that the server got.
func (s *server) sent(method string) (list []*jsonrpc.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.got {
		if m.Method == method {
			list = append(list, m)
		}
	}
	return list
}

type stream struct {
	ctx   context.Context
	env   *translate.Envelope
	msg   *jsonrpc.Message
	waits bool
	// first is said before msg, which comes after until is closed; nil: at once.
	first []*jsonrpc.Message
	until chan struct{}
}

func (s *stream) Envelope() *translate.Envelope { return s.env }
func (s *stream) Close() error                  { return nil }

func (s *stream) Next() (translate.Frame, error) {
	if len(s.first) > 0 {
		f := translate.Frame{Msg: s.first[0], Leg: translate.ServerLeg, Dir: translate.ToClient}
		s.first = s.first[1:]
		return f, nil
	}
	if s.until != nil {
		select {
		case <-s.until:
			s.until = nil
		case <-s.ctx.Done():
		}
	}
	if s.waits || s.ctx.Err() != nil {
		<-s.ctx.Done()
		return translate.Frame{}, s.ctx.Err()
	}
	if s.msg == nil {
		return translate.Frame{}, io.EOF
	}
	f := translate.Frame{Msg: s.msg, Leg: translate.ServerLeg, Dir: translate.ToClient}
	s.msg = nil
	return f, nil
}

type oneFace struct{ face session.Face }

func (f oneFace) Face(context.Context, session.Target) (session.Face, error) { return f.face, nil }

// rig is a runner that tells OpenTelemetry, with exporters in memory.
type rig struct {
	t       *testing.T
	r       *session.Runner
	srv     *server
	spans   *tracetest.SpanRecorder
	reader  *metric.ManualReader
	session string
	header  http.Header
	peer    netip.AddrPort
	proto   string
	onAsk   func(m *jsonrpc.Message) // a request to the client
}

// end ends the client's session.
func (g *rig) end() {
	g.t.Helper()
	s := g.r.NewStream()
	g.r.Client(g.t.Context(), session.Inbound{
		Caller: session.Caller{Principal: session.LocalPrincipal, Era: translate.Legacy, Session: g.session},
		Frame:  translate.Frame{Leg: translate.ClientLeg, Dir: translate.ToServer, Transport: "http", HTTP: &translate.Envelope{Verb: "DELETE"}},
	}, s)
	s.Gone()
	synctest.Wait()
}

func newRig(t *testing.T, face session.Face, answer func(m *jsonrpc.Message) string) *rig {
	t.Helper()
	g := &rig{t: t, srv: &server{answer: answer}, spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	handles, err := session.NewHandles([][]byte{make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	o, err := telemetry.New(telemetry.Options{
		Tracer:  sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(g.spans)),
		Meter:   metric.NewMeterProvider(metric.WithReader(g.reader)),
		Version: "v1", Mask: func(kind, s string) string { return "masked-" + kind },
		Peer: func(string) telemetry.Peer {
			return telemetry.Peer{Address: "tickets.example", Port: 8443, Transport: translate.TransportHTTP}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	g.r, err = session.New(session.Options{Store: memory.New(), Dialer: g.srv, Faces: oneFace{face}, Handles: handles,
		Route: "tickets", Upstream: "blue", Observers: []session.Observer{o}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// say hands a message over and gives the last that came back.
func (g *rig) say(era translate.Era, transport, raw string) session.Out {
	g.t.Helper()
	m, err := jsonrpc.Decode([]byte(raw), jsonrpc.Limits{})
	if err != nil {
		g.t.Fatal(err)
	}
	in := session.Inbound{
		Caller: session.Caller{Principal: session.LocalPrincipal, Era: era, Session: g.session},
		Frame: translate.Frame{Msg: m, Leg: translate.ClientLeg, Dir: translate.ToServer, Transport: transport,
			HTTP: &translate.Envelope{Verb: "POST", Header: g.header, Peer: g.peer, Proto: g.proto}},
	}
	if era == translate.Modern {
		in.Caller.Version = translate.V20260728
	}
	s := g.r.NewStream()
	g.r.Client(g.t.Context(), in, s)
	ctx, cancel := context.WithTimeout(g.t.Context(), 5*time.Second)
	defer cancel()
	var last session.Out
	for !last.Final {
		o, ok := s.Next(ctx)
		if !ok {
			break
		}
		last = o
		if m, err := jsonrpc.Decode(o.Raw, jsonrpc.Limits{}); err == nil && m.Kind == jsonrpc.Request && g.onAsk != nil {
			g.onAsk(m)
		}
	}
	s.Gone()
	synctest.Wait()
	return last
}

// span is the newest ended one of a name and kind.
func (g *rig) span(kind trace.SpanKind, name string) sdktrace.ReadOnlySpan {
	g.t.Helper()
	list := g.spans.Ended()
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].SpanKind() == kind && list[i].Name() == name {
			return list[i]
		}
	}
	var names []string
	for _, s := range list {
		names = append(names, s.SpanKind().String()+" "+s.Name())
	}
	g.t.Fatalf("no %s span %q among %q", kind, name, names)
	return nil
}

func attributes(list []attribute.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

// points are the data of one histogram.
func (g *rig) points(name string) []metricdata.HistogramDataPoint[float64] {
	g.t.Helper()
	p := g.pointsOrNone(name)
	if p == nil {
		g.t.Fatalf("no %s", name)
	}
	return p
}

// pointOf is the one of a method.
func (g *rig) pointOf(name, method string) (p metricdata.HistogramDataPoint[float64]) {
	g.t.Helper()
	for _, p := range g.points(name) {
		if attributes(p.Attributes.ToSlice())["mcp.method.name"] == method {
			return p
		}
	}
	g.t.Fatalf("%s knows no %s", name, method)
	return p
}

func (g *rig) pointsOrNone(name string) []metricdata.HistogramDataPoint[float64] {
	g.t.Helper()
	var all metricdata.ResourceMetrics
	if err := g.reader.Collect(g.t.Context(), &all); err != nil {
		g.t.Fatal(err)
	}
	for _, sc := range all.ScopeMetrics {
		for _, m := range sc.Metrics {
			if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == name {
				if m.Unit != "s" {
					g.t.Errorf("%s is in %q", name, m.Unit)
				}
				return h.DataPoints
			}
		}
	}
	return nil
}
