package usage

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// other stands for names we did not foresee.
const other = "other"

// Begin implements session.Observer: what counts is how things end. A session
// that is open is looked for when a report is made.
func (r *Recorder) Begin(*session.Request) {}

// End implements session.Observer.
func (r *Recorder) End(q *session.Request, e session.Ended) {
	g := sighting{at: stampOf(e.At), from: stampOf(q.At), era: q.Down, revision: revision(q.Version)}
	if q.Down == translate.Legacy {
		g.features = e.Uses
	}
	switch {
	case q.Kind == jsonrpc.Request:
		g.ended(q.Method, e.Answer)
	case q.Kind == 0 && q.Verb == http.MethodGet && e.Outcome == translate.OutcomeClosed:
		g.held, g.longHeld = true, time.Duration(g.at-g.from) >= longHold
	}
	r.count(client(q.Route, q.Who), &g)
	if q.Kind == jsonrpc.Request && q.Up != translate.EraUnknown {
		g.era, g.features, g.revision = q.Up, 0, ""
		r.count(server(q.Route, q.Upstream), &g)
	}
}

// Loss implements session.Observer.
func (r *Recorder) Loss(l session.Lost) {
	what, at := l.What, r.now()
	if !slices.Contains(lossNames, what) {
		what = other
	}
	id := client(l.Route, l.Who)
	for !r.slot(id).lose(at, what) {
	}
}

// SessionEnded implements session.SessionObserver: an idle session used the
// dialect as long as it was open.
func (r *Recorder) SessionEnded(s session.LegacySession, at time.Time) {
	g := sighting{at: stampOf(at), from: stampOf(at), era: translate.Legacy, held: true, quiet: true}
	r.count(client(s.Route, s.Who), &g)
}

// lossNames are those the table has (translate/losses.go).
var lossNames = func() (names []string) {
	for _, l := range translate.Losses() {
		names = append(names, l[0])
	}
	return names
}()

// client is whose messages are counted together: callers nobody vouches for
// have no principal that means anything.
func client(route string, w session.Who) identity {
	id := identity{route: route, name: session.Shown(w.Client), version: session.Shown(w.ClientVersion), principal: w.Principal}
	if w.Open {
		id.principal = ""
	}
	return id
}

// server is an upstream of a route; its name may have the route's before it.
func server(route, upstream string) identity {
	return identity{route: route, name: strings.TrimPrefix(upstream, route+"/"), server: true}
}

func revision(version string) string {
	if f, ok := translate.Lookup(version); ok {
		return f.Version // ours, whatever became of the message
	}
	if version == "" {
		return ""
	}
	return other
}

// ended says what a request's end means.
func (g *sighting) ended(method string, a translate.Answer) {
	result := a.Outcome == translate.OutcomeCompleted || a.Outcome == translate.OutcomeToolError
	switch classes[method] {
	case probe:
		g.probe = true
	case operation:
		g.completed = result
		// Handing out a task, or asking back, is not the end of an operation.
		g.used = result || a.Outcome == translate.OutcomeTask || a.Outcome == translate.OutcomeInputRequired
		g.failed = !g.used
	case fetch:
		g.completed, g.used, g.failed = result, result, !result
	case follow:
		g.used = result || a.Outcome == translate.OutcomeTask   // so some servers mark a task
		if g.era == translate.Modern && method == "tasks/get" { // its answer has the result inline
			g.completed = a.Task == translate.Completed
			g.failed = translate.Terminal(a.Task) && !g.completed
		}
	case listen:
		g.used = result || a.Outcome == translate.OutcomeClosed || a.Outcome == translate.OutcomeGone || a.Outcome == translate.OutcomeCancelled
		g.completed, g.failed = g.used, !g.used
	}
}
