package main

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"taskbridge/session/telemetry"
	"taskbridge/translate"
)

// tracing is what OpenTelemetry is told through. Nil where no OTEL_ variable asks
// for it: then nothing is made, sent or written into messages.
type tracing struct {
	observer *telemetry.Observer
	traces   *sdktrace.TracerProvider // nil: no spans
	metrics  *metric.MeterProvider    // nil: no durations
	log      *slog.Logger
}

// otelWanted says what the environment asks for (OpenTelemetry specification,
// Environment Variable Specification): a signal is on where its exporter is
// named, or an endpoint it would be sent to.
func otelWanted(getenv func(string) string) (traces, metrics bool) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false, false
	}
	wanted := func(signal string) bool {
		if exporter := getenv("OTEL_" + signal + "_EXPORTER"); exporter != "" {
			return exporter != "none"
		}
		return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	}
	return wanted("TRACES"), wanted("METRICS")
}

// startTracing makes what the environment asks for.
func (b *bridge) startTracing(ctx context.Context) (*tracing, error) {
	traces, metrics := otelWanted(os.Getenv)
	if !traces && !metrics {
		return nil, nil
	}
	info := buildInfo()
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "taskbridge"), attribute.String("service.version", info.Version)),
		resource.WithFromEnv()) // last, so that OTEL_SERVICE_NAME counts
	if err != nil && !errors.Is(err, resource.ErrPartialResource) && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { b.log.Warn("OpenTelemetry", "err", err) }))
	t := &tracing{log: b.log}
	o := telemetry.Options{Version: info.Version, Mask: b.handles.MaskText, Peer: b.peer, Place: tracingPlace}
	if traces {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, err
		}
		t.traces = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
		o.Tracer = t.traces
	}
	if metrics {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			t.close()
			return nil, err
		}
		t.metrics = metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(about))
		o.Meter = t.metrics
	}
	if t.observer, err = telemetry.New(o); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// close sends what is left, for as long as telemetry.Shutdown.
func (t *tracing) close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), telemetry.Shutdown)
	defer cancel()
	var err error
	if t.traces != nil {
		err = t.traces.Shutdown(ctx)
	}
	if t.metrics != nil {
		err = errors.Join(err, t.metrics.Shutdown(ctx))
	}
	if err != nil {
		t.log.Warn("OpenTelemetry was not told all", "err", err)
	}
}

// peer says how an upstream is reached, for spans: no path, user or query.
func (b *bridge) peer(upstream string) telemetry.Peer {
	b.peersMu.RLock()
	defer b.peersMu.RUnlock()
	if list := b.peers[upstream]; len(list) > 0 {
		return *list[len(list)-1]
	}
	return telemetry.Peer{}
}

// peerOf is how an upstream is reached.
func peerOf(u *upstreamConfig) *telemetry.Peer {
	p := &telemetry.Peer{Transport: translate.TransportStdio}
	if u.server.child != nil {
		return p
	}
	p.Transport = translate.TransportHTTP
	if u.server.ws {
		p.Transport = translate.TransportWebSocket
	}
	if at, err := url.Parse(u.server.http.URL); err == nil {
		p.Address = at.Hostname()
		if p.Port, err = strconv.Atoi(at.Port()); err != nil {
			p.Port = map[string]int{"http": 80, "ws": 80, "https": 443, "wss": 443}[at.Scheme]
		}
	}
	return p
}

// know notes how an upstream is reached; what was said last counts.
func (b *bridge) know(upstream string, p *telemetry.Peer) {
	b.peersMu.Lock()
	defer b.peersMu.Unlock()
	if b.peers == nil {
		b.peers = map[string][]*telemetry.Peer{}
	}
	b.peers[upstream] = append(without(b.peers[upstream], p), p)
}

// forget is the inverse of know.
func (b *bridge) forget(upstream string, p *telemetry.Peer) {
	b.peersMu.Lock()
	defer b.peersMu.Unlock()
	if b.peers[upstream] = without(b.peers[upstream], p); len(b.peers[upstream]) == 0 {
		delete(b.peers, upstream)
	}
}

func without(list []*telemetry.Peer, p *telemetry.Peer) []*telemetry.Peer {
	return slices.DeleteFunc(list, func(one *telemetry.Peer) bool { return one == p })
}
