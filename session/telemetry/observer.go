package telemetry

import (
	"context"
	"errors"
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

// Observer implements session.Observer and session.ExchangeObserver.
type Observer struct {
	o             Options
	tracer        trace.Tracer // nil: no spans
	served, asked metric.Float64Histogram
	tools         bounded
	format        propagation.TraceContext
}

var (
	_ session.Observer         = (*Observer)(nil)
	_ session.ExchangeObserver = (*Observer)(nil)
)

// scope names what makes the spans.
const scope = "taskbridge/session/telemetry"

// buckets of both durations, in seconds, as the conventions want them.
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
	var err, also error
	t.served, err = histogram("mcp.server.operation.duration", "Time from a client's message until its answer was on its way back.")
	t.asked, also = histogram("mcp.client.operation.duration", "Time from a message to a server until its answer was there.")
	return t, errors.Join(err, also)
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
	failed := failure(e)
	if t.served != nil {
		// What names a caller, an id or one resource is no label.
		at := append(t.labels(q.MethodLabel(), q.Name, q.Version), transportAttributes(q.Transport)...)
		t.served.Record(context.Background(), e.At.Sub(q.At).Seconds(), metric.WithAttributes(append(at, failed...)...))
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
		at := append(t.labels(x.MethodLabel(), x.Name, x.Version), peerAttributes(t.o.Peer(x.Upstream))...)
		t.asked.Record(context.Background(), e.At.Sub(x.At).Seconds(), metric.WithAttributes(append(at, failed...)...))
	}
	if span, ok := x.Note[t.o.Place].(trace.Span); ok {
		finish(span, e, failed)
	}
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
	if len(failed) > 0 {
		span.SetAttributes(failed...)
		span.SetStatus(codes.Error, e.Message)
	}
	span.End(trace.WithTimestamp(e.At))
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

// shutdown is how long providers may take to send what is left.
const Shutdown = 5 * time.Second
