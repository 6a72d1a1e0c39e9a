package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"taskbridge/session"
	"taskbridge/session/usage"
)

// startUsage begins to count who speaks which dialect.
func (b *bridge) startUsage(ctx context.Context, flush time.Duration) (err error) {
	b.usage, err = usage.New(ctx, usage.Options{Store: b.store, Mask: b.handles.Mask, Sessions: b.openSessions, Servers: b.serversOf, Logger: b.log, Flush: flush})
	return err
}

// countRoutes tells the report which routes are served from now on.
func (b *bridge) countRoutes(routes []*route) {
	if b.usage == nil {
		return
	}
	var names []string
	for _, r := range routes {
		names = append(names, r.name)
	}
	b.usage.SetRoutes(names)
}

// usageClose is how long the last counters may take to their store.
const usageClose = 5 * time.Second

func (b *bridge) closeUsage() {
	if b.usage == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), usageClose)
	defer cancel()
	if err := b.usage.Close(ctx); err != nil {
		b.log.Warn("the last usage counters were not stored", "err", err)
	}
}

// openSessions are the legacy sessions open on a route.
func (b *bridge) openSessions(ctx context.Context, name string) (list []session.LegacySession, err error) {
	for _, r := range b.current() {
		if r.name != name {
			continue
		}
		for _, s := range r.live.all() {
			err = errors.Join(err, s.runner.LegacySessions(ctx, func(l session.LegacySession) bool {
				list = append(list, l)
				return true
			}))
		}
	}
	return list, err
}

// serversOf are the servers a route has.
func (b *bridge) serversOf(name string) (owners []string) {
	for _, r := range b.current() {
		if r.name != name {
			continue
		}
		for _, s := range r.live.all() {
			owners = append(owners, s.owner)
		}
	}
	return owners
}

// watchedFaces tells the report what a server was found to speak.
type watchedFaces struct {
	session.Faces
	route, upstream string
	usage           *usage.Recorder
}

// Face implements session.Faces.
func (w watchedFaces) Face(ctx context.Context, target session.Target) (session.Face, error) {
	f, err := w.Faces.Face(ctx, target)
	if err == nil {
		w.usage.Face(w.route, w.upstream, f)
	}
	return f, err
}

// serveReport adds GET /report?window=168h&route=NAME to the admin API.
func (b *bridge) serveReport(m *adminServer) {
	m.get("/report", func(r *http.Request) (any, error) {
		q, err := queryOf(r, "window", "route")
		if err != nil {
			return nil, err
		}
		window := usage.DefaultWindow
		if text := q["window"]; text != "" {
			d, err := time.ParseDuration(text)
			// Moments are kept in milliseconds: in less nobody is ever seen.
			if err != nil || d < time.Millisecond || d > usage.MaxWindow {
				return nil, adminErrorf(http.StatusBadRequest, "window %q: want a duration from 1ms to %s, such as 168h", session.Shown(text), usage.Duration(usage.MaxWindow))
			}
			window = d
		}
		route := q["route"]
		rep, err := b.usage.Report(r.Context(), window, route)
		if err != nil {
			return nil, fmt.Errorf("make the report: %w", err)
		}
		if route != "" && len(rep.Routes) == 0 {
			return nil, adminErrorf(http.StatusNotFound, "there is no route %q", session.Shown(route))
		}
		return rep, nil
	})
}
