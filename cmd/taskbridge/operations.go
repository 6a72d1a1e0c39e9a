package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// operations counts what clients ask, by route, eras, method and outcome: words
// of the configuration and of ours alone, so that no client can add a label.
type operations struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	lag      *prometheus.HistogramVec
}

var (
	_ session.Observer     = (*operations)(nil)
	_ session.PollObserver = (*operations)(nil)
)

func newOperations() *operations {
	return &operations{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "taskbridge_operations_total",
			Help: "Requests, notifications and streams of clients that are over; eras: the client's and the server's, as legacy/modern.",
		}, []string{"route", "eras", "method", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "taskbridge_operation_duration_seconds", Help: "Time from a client's request until its final answer.",
			Buckets: []float64{.01, .05, .2, 1, 5, 30, 120, 600},
		}, []string{"route", "eras", "method"}),
		lag: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "taskbridge_poll_lag_seconds", Help: "How long looks of our own at tasks waited because a server is asked no more often.",
			Buckets: []float64{.01, .1, .5, 1, 2, 5, 10, 30, 60},
		}, []string{"route"}),
	}
}

// Begin implements session.Observer.
func (o *operations) Begin(*session.Request) {}

// End implements session.Observer.
func (o *operations) End(q *session.Request, e session.Ended) {
	if q.Kind == jsonrpc.Response || q.Kind == jsonrpc.ErrorResponse {
		return
	}
	eras, method := eraPair(q.Down, q.Up), q.MethodLabel()
	o.total.WithLabelValues(q.Route, eras, method, string(e.Outcome)).Inc()
	if q.Kind == jsonrpc.Request {
		o.duration.WithLabelValues(q.Route, eras, method).Observe(e.At.Sub(q.At).Seconds())
	}
}

// PollLag implements session.PollObserver.
func (o *operations) PollLag(route string, d time.Duration) {
	o.lag.WithLabelValues(route).Observe(d.Seconds())
}

// Loss implements session.Observer: taskbridge_translation_loss_total has them.
func (o *operations) Loss(session.Lost) {}

// eraPair is the client's era and the server's.
func eraPair(down, up translate.Era) string { return down.String() + "/" + up.String() }
