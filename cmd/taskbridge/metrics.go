package main

import (
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/session/throttle"
	"taskbridge/translate"
	"taskbridge/upstream"
)

// other stands for label values we did not foresee: a label that took
// whatever a peer sends would let it fill our memory.
const (
	other        = "other"
	maxDropNames = 32
)

// metrics counts what happens, in a registry of its own. A nil *metrics
// counts nothing.
type metrics struct {
	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	refused    *prometheus.CounterVec
	streams    prometheus.Gauge
	losses     *prometheus.CounterVec
	dropped    *prometheus.CounterVec
	limited    *prometheus.CounterVec
	probes     *prometheus.CounterVec
	upErrors   *prometheus.CounterVec
	unrecorded prometheus.Counter
	lossName   []string
	ops        *operations

	mu         sync.Mutex // protects the fields below
	dropNames  []string
	zeroRoutes []string
}

var (
	_ downstream.Metrics = (*metrics)(nil)
	_ session.Metrics    = routeMetrics{}
)

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: counter("taskbridge_requests_total", "HTTP requests of clients that were answered.", "era", "verb", "status"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "taskbridge_request_duration_seconds", Help: "Time until a client's HTTP request was answered in full, streams included.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10, 60, 300, 1800},
		}, []string{"era", "verb"}),
		refused: counter("taskbridge_refused_total", "Requests the listener itself refused.", "condition"),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "taskbridge_open_streams", Help: "Event streams open toward clients."}),
		losses:  counter("taskbridge_translation_loss_total", "Things one revision says and the other cannot.", "route", "what"),
		dropped: counter("taskbridge_dropped_total", "Messages dropped because nobody waits for them.", "what"),
		limited: counter("taskbridge_limited_total", "Work refused because a limit of its caller, or of all callers, is reached.", "limit"),
		probes:  counter("taskbridge_upstream_probes_total", "Questions for the server's era, answered from memory or by a probe.", "era"),
		unrecorded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "taskbridge_record_dropped_total", Help: "Frames that were left out of the recording; the capture says where.",
		}),
		upErrors: counter("taskbridge_upstream_errors_total", "Exchanges with the server that broke before it answered.", "kind"),
	}
	for _, l := range translate.Losses() {
		m.lossName = append(m.lossName, l[0])
	}
	b := buildInfo()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "taskbridge_build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.GoVersion},
	})
	info.Set(1)
	m.ops = newOperations()
	m.registry.MustRegister(info, m.ops.total, m.ops.duration, m.ops.lag, m.requests, m.duration, m.refused, m.streams, m.losses, m.dropped, m.limited, m.probes, m.upErrors, m.unrecorded,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// watch adds what a bridge knows about itself.
func (m *metrics) watch(creds *session.Credentials, held *session.HeldBudget, budget *session.Budget) {
	gauge := func(name, help string, f func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	gauge("taskbridge_principals", "Callers whose newest credential is held in memory. Under --principal token each refreshed token counts as a new one, under jwt it does not.",
		func() float64 { return float64(creds.Len()) })
	gauge("taskbridge_held_bytes", "Held results and outstanding questions, reservations included.", func() float64 { return float64(held.InUse()) })
	gauge("taskbridge_message_bytes", "Messages in flight, both directions.", func() float64 { return float64(budget.InUse()) })
}

// watchKeys adds how fresh the keys of callers' tokens are, while there are any:
// a zero would look like keys that are late.
func (m *metrics) watchKeys(current func() *callers) { m.registry.MustRegister(keyAge{current}) }

type keyAge struct{ current func() *callers }

var jwksSuccess = prometheus.NewDesc("taskbridge_jwks_last_success_timestamp_seconds",
	"When the keys of callers' tokens were last had, since 1970; 0: never yet.", nil, nil)

// Describe implements prometheus.Collector.
func (keyAge) Describe(out chan<- *prometheus.Desc) { out <- jwksSuccess }

// Collect implements prometheus.Collector.
func (k keyAge) Collect(out chan<- prometheus.Metric) {
	cs := k.current()
	if cs == nil {
		return
	}
	value := 0.0
	if at := cs.keys.Fetched(); !at.IsZero() {
		value = float64(at.UnixMilli()) / 1000
	}
	out <- prometheus.MustNewConstMetric(jwksSuccess, prometheus.GaugeValue, value)
}

// watchReloads adds how the last reading of the configuration file went.
func (m *metrics) watchReloads(last func() (ok bool, at time.Time)) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "taskbridge_config_last_reload_successful", Help: "1 if the configuration file was put to work when it was last read, 0 if what runs is an older one.",
		}, func() float64 {
			if ok, _ := last(); ok {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "taskbridge_config_last_reload_success_timestamp_seconds", Help: "When a configuration file was last put to work, since 1970.",
		}, func() float64 {
			_, at := last()
			return float64(at.UnixMilli()) / 1000
		}))
}

func (m *metrics) handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: 4,
		Timeout:             10 * time.Second,
	})
}

// Request implements downstream.Metrics.
func (m *metrics) Request(era translate.Era, verb string, status int, d time.Duration) {
	if !slices.Contains([]string{http.MethodGet, http.MethodPost, http.MethodDelete}, verb) {
		verb = other
	}
	code := other
	if http.StatusText(status) != "" {
		code = strconv.Itoa(status)
	}
	m.requests.WithLabelValues(era.String(), verb, code).Inc()
	m.duration.WithLabelValues(era.String(), verb).Observe(d.Seconds())
}

// Refused implements downstream.Metrics.
func (m *metrics) Refused(cond translate.Cond) { m.refused.WithLabelValues(string(cond)).Inc() }

// Streams implements downstream.Metrics.
func (m *metrics) Streams(delta int) { m.streams.Add(float64(delta)) }

// maxZeroRoutes bounds the routes whose losses are shown before there are any.
const maxZeroRoutes = 20

// at counts what happens on a route. Its losses stand at zero from now on, where
// there are not many routes: an increase shows only over what stood there before.
func (m *metrics) at(route string) session.Metrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.zeroRoutes, route) && len(m.zeroRoutes) < maxZeroRoutes {
		m.zeroRoutes = append(m.zeroRoutes, route)
		for _, what := range m.lossName {
			m.losses.WithLabelValues(route, what)
		}
	}
	return routeMetrics{m, route}
}

// routeMetrics are those of a route of the configuration.
type routeMetrics struct {
	*metrics
	route string
}

// Loss implements session.Metrics.
func (m routeMetrics) Loss(what string) {
	if !slices.Contains(m.lossName, what) {
		what = other
	}
	m.losses.WithLabelValues(m.route, what).Inc()
}

// Dropped implements session.Metrics.
func (m *metrics) Dropped(what string) {
	m.mu.Lock()
	if !slices.Contains(m.dropNames, what) {
		if len(m.dropNames) < maxDropNames {
			m.dropNames = append(m.dropNames, what)
		} else {
			what = other
		}
	}
	m.mu.Unlock()
	m.dropped.WithLabelValues(what).Inc()
}

// limits are the names Limited takes; others are one name.
var limits = []string{
	throttle.Rate, throttle.RateTotal, throttle.Bytes, throttle.InFlight,
	"tasks", "sessions", "server_sessions", "streams", "links", "requests",
}

// Limited implements session.Metrics and downstream.Metrics.
func (m *metrics) Limited(limit string) {
	if !slices.Contains(limits, limit) {
		limit = other
	}
	m.limited.WithLabelValues(limit).Inc()
}

// era counts an answer about the server's era.
func (m *metrics) era(r upstream.Result, err error) {
	if m == nil {
		return
	}
	era := r.Era.String()
	if err != nil {
		era = "undecided"
	}
	m.probes.WithLabelValues(era).Inc()
}
