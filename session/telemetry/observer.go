package telemetry

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Options are what an Observer works with.
type Options struct {
	Tracer trace.TracerProvider // nil: no spans, and no context in messages
	Meter  metric.MeterProvider // nil: no durations
	// Version is the proxy's own.
	Version string
	// Mask makes a keyed hash of a session id, which is a secret. Required.
	Mask func(kind, text string) string
	// Peer says where an upstream is; the zero Peer where nobody knows.
	Peer func(upstream string) Peer
	// Place is the Observer's in session.Options.Observers, where it keeps its
	// notes.
	Place int
}

// Peer is how a server is reached.
type Peer struct {
	Address   string // host, without a port
	Port      int
	Transport string // one of translate.Transport…
}

func (p Peer) http() bool {
	return p.Transport == translate.TransportHTTP || p.Transport == translate.TransportSSE
}

// Observer implements session.Observer and what goes with it.
type Observer struct {
	o      Options
	tracer trace.Tracer // nil: no spans
	// Durations; nil: none. What was served and asked are operations, the others
	// sessions, of clients with us and of ours with servers.
	served, asked, sessions, serverSessions metric.Float64Histogram
	tools                                   bounded
	format                                  propagation.TraceContext
}

var (
	_ session.Observer              = (*Observer)(nil)
	_ session.ExchangeObserver      = (*Observer)(nil)
	_ session.ServerRequestObserver = (*Observer)(nil)
	_ session.SessionObserver       = (*Observer)(nil)
	_ session.ServerSessionObserver = (*Observer)(nil)
)

// scope names what makes the spans.
const scope = "taskbridge/session/telemetry"

// buckets of all durations, in seconds, as the conventions want them.
var buckets = []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}

// New returns an Observer that tells the providers; they are the caller's to
// shut down.
func New(o Options) (*Observer, error) {
	if o.Mask == nil {
		return nil, errors.New("telemetry: Mask is required")
	}
	if o.Peer == nil {
		o.Peer = func(string) Peer { return Peer{} }
	}
	t := &Observer{o: o}
	if o.Tracer != nil {
		t.tracer = o.Tracer.Tracer(scope, trace.WithInstrumentationVersion(o.Version))
	}
	if o.Meter == nil {
		return t, nil
	}
	m := o.Meter.Meter(scope, metric.WithInstrumentationVersion(o.Version))
	histogram := func(name, what string) (metric.Float64Histogram, error) {
		return m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(buckets...))
	}
	var errs [4]error
	t.served, errs[0] = histogram("mcp.server.operation.duration", "Time from a message of a peer's until its answer was on its way back.")
	t.asked, errs[1] = histogram("mcp.client.operation.duration", "Time from a message to a peer until its answer was there.")
	t.sessions, errs[2] = histogram("mcp.server.session.duration", "Time from a client's initialize until its session was over.")
	t.serverSessions, errs[3] = histogram("mcp.client.session.duration", "Time from initialize at a server until the session with it was over.")
	return t, errors.Join(errs[:]...)
}

// Begin implements session.Observer: a server span for a request or a
// notification. Streams a client opens with GET and answers to questions are
// neither.
func (t *Observer) Begin(q *session.Request) {
	if t.tracer == nil || !operation(q.Kind) {
		return
	}
	ctx := t.extract(q.Parent)
	o := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(q.At), trace.WithAttributes(t.requestAttributes(q)...),
	}
	// The context of the transport is another than the message's (Context
	// propagation).
	if link := trace.SpanContextFromContext(t.extract(q.Link)); link.IsValid() {
		o = append(o, trace.WithLinks(trace.Link{SpanContext: link}))
	}
	ctx, span := t.tracer.Start(ctx, spanName(q.MethodLabel(), q.Name), o...)
	q.Note[t.o.Place] = span
	q.Trace = t.inject(ctx)
}

// End implements session.Observer.
func (t *Observer) End(q *session.Request, e session.Ended) {
	if !operation(q.Kind) {
		return
	}
	failed := servedFailure(e)
	if t.served != nil {
		// What names a caller, an id or one resource is no label.
		at := append(t.labels(q.MethodLabel(), q.Name, q.Version), transportAttributes(q.Transport, q.Proto)...)
		record(t.served, e.At.Sub(q.At), at, failed)
	}
	if span, ok := q.Note[t.o.Place].(trace.Span); ok {
		finish(span, e, failed)
	}
}

// Loss implements session.Observer: losses are Prometheus's to count.
func (t *Observer) Loss(session.Lost) {}

// BeginExchange implements session.ExchangeObserver: a client span. Its context
// goes with the message.
func (t *Observer) BeginExchange(x *session.Exchange) session.TraceContext {
	if t.tracer == nil || !operation(x.Kind) {
		return session.TraceContext{}
	}
	ctx, span := t.tracer.Start(t.extract(x.Parent), spanName(x.MethodLabel(), x.Name),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(x.At), trace.WithAttributes(t.exchangeAttributes(x)...))
	x.Note[t.o.Place] = span
	return t.inject(ctx)
}

// EndExchange implements session.ExchangeObserver.
func (t *Observer) EndExchange(x *session.Exchange, e session.Ended) {
	if !operation(x.Kind) {
		return
	}
	failed := failure(e)
	if t.asked != nil {
		at := append(t.labels(x.MethodLabel(), x.Name, x.Version), peerAttributes(t.o.Peer(x.Upstream), e.Proto)...)
		record(t.asked, e.At.Sub(x.At), at, failed)
	}
	if span, ok := x.Note[t.o.Place].(trace.Span); ok {
		if e.Proto != "" && t.o.Peer(x.Upstream).http() {
			span.SetAttributes(attribute.String("network.protocol.version", e.Proto))
		}
		finish(span, e, failed)
	}
}

// BeginServerRequest implements session.ServerRequestObserver. Who asks is the
// client of the operation, though a server in all else: a server span on the
// server's leg, a client span on the client's.
func (t *Observer) BeginServerRequest(q *session.ServerRequest) session.TraceContext {
	if t.tracer == nil {
		return session.TraceContext{}
	}
	kind := trace.SpanKindServer
	if q.Leg == translate.ClientLeg {
		kind = trace.SpanKindClient
	}
	ctx, span := t.tracer.Start(t.extract(q.Parent), spanName(q.MethodLabel(), ""),
		trace.WithSpanKind(kind), trace.WithTimestamp(q.At), trace.WithAttributes(t.serverRequestAttributes(q)...))
	q.Note[t.o.Place] = span
	return t.inject(ctx)
}

// EndServerRequest implements session.ServerRequestObserver.
func (t *Observer) EndServerRequest(q *session.ServerRequest, e session.Ended) {
	into, failed := t.served, servedFailure(e)
	if q.Leg == translate.ClientLeg {
		into, failed = t.asked, failure(e)
	}
	if into != nil {
		at := append(t.labels(q.MethodLabel(), "", q.Version), t.legAttributes(q)...)
		record(into, e.At.Sub(q.At), at, failed)
	}
	if span, ok := q.Note[t.o.Place].(trace.Span); ok {
		finish(span, e, failed)
	}
}

// SessionEnded implements session.SessionObserver. The version of HTTP is no
// attribute: one session may go over several.
func (t *Observer) SessionEnded(s session.LegacySession, at time.Time) {
	t.session(t.sessions, s.Began, at, s.Version, s.Fail, transportAttributes(s.Transport, ""))
}

// ServerSessionEnded implements session.ServerSessionObserver.
func (t *Observer) ServerSessionEnded(s session.ServerSession, at time.Time) {
	t.session(t.serverSessions, s.Began, at, s.Version, s.Fail, peerAttributes(t.o.Peer(s.Upstream), ""))
}

func (t *Observer) session(into metric.Float64Histogram, began, ended time.Time, version, fail string, how []attribute.KeyValue) {
	if into == nil || began.IsZero() {
		return
	}
	if fail != "" {
		how = append(how, attribute.String("error.type", fail))
	}
	record(into, ended.Sub(began), versionAttribute(boundedVersion(version)), how)
}

func record(into metric.Float64Histogram, d time.Duration, at, more []attribute.KeyValue) {
	into.Record(context.Background(), d.Seconds(), metric.WithAttributes(append(at, more...)...))
}

func operation(k jsonrpc.Kind) bool { return k == jsonrpc.Request || k == jsonrpc.Notification }

// extract reads a context as sent; what is no W3C trace context is none.
func (t *Observer) extract(c session.TraceContext) context.Context {
	if c.Parent == "" {
		return context.Background()
	}
	return t.format.Extract(context.Background(), propagation.MapCarrier{"traceparent": c.Parent, "tracestate": c.State})
}

func (t *Observer) inject(ctx context.Context) session.TraceContext {
	c := propagation.MapCarrier{}
	t.format.Inject(ctx, c)
	return session.TraceContext{Parent: c["traceparent"], State: c["tracestate"]}
}

func finish(span trace.Span, e session.Ended, failed []attribute.KeyValue) {
	span.SetAttributes(failed...)
	if slices.ContainsFunc(failed, func(a attribute.KeyValue) bool { return a.Key == "error.type" }) {
		span.SetStatus(codes.Error, e.Message)
	}
	span.End(trace.WithTimestamp(e.At))
}

// callersFault are codes that say what the caller did wrong: no failure of who
// serves it (the conventions, rpc.response.status_code of a server span).
var callersFault = []int64{-32700, -32600, -32601, -32602, -32002}

// servedFailure is failure as who serves a request sees it: what is its caller's
// fault has a code and no error.type.
func servedFailure(e session.Ended) []attribute.KeyValue {
	if slices.Contains(callersFault, e.Code) {
		return []attribute.KeyValue{attribute.String("rpc.response.status_code", itoa(e.Code))}
	}
	return failure(e)
}

// failure is error.type, and the code of a JSON-RPC error; nothing if all went
// well. Who cancels is not told apart from who leaves: both ended it themselves.
func failure(e session.Ended) []attribute.KeyValue {
	typed := ""
	var out []attribute.KeyValue
	switch {
	case e.Code != 0:
		typed = itoa(e.Code)
		out = append(out, attribute.String("rpc.response.status_code", typed))
	case e.Outcome == translate.OutcomeToolError:
		typed = "tool_error"
	case e.Outcome == translate.OutcomeGone || e.Outcome == translate.OutcomeCancelled:
		typed = "cancelled"
	case e.Fail != "":
		typed = e.Fail
	case e.Status >= 400:
		typed = itoa(int64(e.Status))
	case e.Outcome == translate.OutcomeError || e.Outcome == translate.OutcomeRefused || e.Outcome == translate.OutcomeUnavailable:
		typed = "_OTHER"
	default:
		return nil
	}
	return append(out, attribute.String("error.type", typed))
}

// Shutdown is how long providers may take to send what is left.
const Shutdown = 5 * time.Second
