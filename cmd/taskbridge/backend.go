package main

import (
	"context"
	"io"
	"time"

	"taskbridge/session"
	"taskbridge/session/telemetry"
	"taskbridge/translate"
	"taskbridge/upstream"
)

// backend is one server behind a route: what speaks to it, and the operations
// that are under way with it.
type backend struct {
	upstreamConfig
	dialer session.Dialer
	runner *session.Runner
	faces  session.Faces // what the server speaks

	transport io.Closer       // of the dialer
	http      *upstream.HTTP  // the dialer, where the server is behind a URL
	child     *upstream.Stdio // where it is a process of ours
	probe     upstream.ProbeOptions
	ws        *upstream.WebSocket
	peer      *telemetry.Peer
	forget    func() // undoes bridge.know; nil: there is nothing to undo
}

// newBackend wires a server. Nothing is sent to it yet.
func (b *bridge) newBackend(c *bridgeConfig, r *route, u *upstreamConfig, policy session.Policy) (*backend, error) {
	s := &backend{upstreamConfig: *u}
	if err := s.wire(b, c, r, policy); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *backend) wire(b *bridge, c *bridgeConfig, r *route, policy session.Policy) error {
	info := buildInfo()
	s.peer = peerOf(&s.upstreamConfig)
	b.know(s.owner, s.peer)
	s.forget = func() { b.forget(s.owner, s.peer) }
	if err := s.newDialer(b, c.maxMessage, r.local, "taskbridge/"+info.Version); err != nil {
		return err
	}
	dialer := s.dialer
	if s.server.ownAuth {
		dialer = ownAuth{dialer, s.owner, b.log}
	}
	if b.metrics != nil {
		dialer = countedDialer{dialer, b.metrics}
	}
	eo := upstream.EraOptions{
		Dialer: dialer,
		Pins:   map[string]translate.Era{s.owner: s.era},
		Probe:  upstream.ProbeOptions{ClientVersion: info.Version},
	}
	if s.child != nil {
		s.probe = eo.Probe
		s.probe.Upstream, s.probe.Pin = s.owner, s.era
		eo.TTL = childEraTTL
		eo.Ask = func(ctx context.Context, _ session.Target, o upstream.ProbeOptions) (upstream.Result, error) {
			return s.child.Probe(ctx, o)
		}
	}
	if s.ws != nil {
		eo.Ask = s.ws.Probe
		if s.server.ownAuth {
			eo.Ask = ownAuthProbe(eo.Ask, s.owner, b.log)
		}
	}
	s.faces = faces{upstream.NewEras(eo), b.metrics}
	if b.usage != nil {
		s.faces = watchedFaces{s.faces, r.name, s.owner, b.usage}
	}
	own, all := b.countsOf(r)
	o := session.Options{
		Route: r.name, Observers: b.observers(),
		Store: b.storeAt(s.prefix), Counts: own, CountsAbove: all, Dialer: dialer, Faces: s.faces, Handles: b.handles, Process: b.process,
		Upstream: s.owner, Policy: policy, Credentials: b.creds.At(r.name), Held: b.held, Logger: b.log,
	}
	if b.metrics != nil {
		o.Metrics = b.metrics.at(r.name)
	}
	var err error
	s.runner, err = session.New(o)
	return err
}

// newDialer makes what speaks to the server, and how its era is found out if
// not over the dialer itself.
func (s *backend) newDialer(b *bridge, maxMessage int64, local bool, agent string) error {
	if s.server.ws {
		w, err := upstream.NewWebSocket(s.server.webSocket(s.owner, s.connectTimeout, upstream.WebSocketOptions{
			MaxMessage: int(maxMessage), Budget: b.budget, Logger: b.log, Tap: b.tap, UserAgent: agent,
		}))
		if err == nil {
			s.dialer, s.transport, s.ws = w, w, w
		}
		return err
	}
	if s.server.child == nil {
		h, err := upstream.NewHTTP(upstream.HTTPOptions{
			Upstreams:      map[string]upstream.HTTPUpstream{s.owner: s.server.http},
			RootCAs:        s.server.roots,
			ConnectTimeout: s.connectTimeout,
			MaxMessage:     int(maxMessage),
			Budget:         b.budget,
			Logger:         b.log,
			Tap:            b.tap,
			UserAgent:      agent,
		})
		if err == nil {
			s.dialer, s.transport, s.http = h, h, h
		}
		return err
	}
	o := *s.server.child
	o.Name, o.MaxMessage, o.Budget, o.Logger, o.Tap, o.ShowTail = s.owner, int(maxMessage), b.budget, b.log, b.tap, local
	child, err := upstream.NewStdio(o)
	if err == nil {
		s.dialer, s.transport, s.child = child, child, child
	}
	return err
}

// webSocket is how to reach a server behind a ws:// or wss:// URL.
func (s server) webSocket(name string, connectTimeout time.Duration, o upstream.WebSocketOptions) upstream.WebSocketOptions {
	o.Name, o.Server, o.RootCAs, o.ConnectTimeout = name, s.http, s.roots, connectTimeout
	return o
}

// childEraTTL: what a command starts changes less often than what stands
// behind a URL, and asking costs a process or two (2026-07-28 basic/versioning).
const childEraTTL = time.Hour

// down: a server process has ended and does not answer again yet. Nothing may
// come before it is well, so it looks itself whether it comes back.
func (s *backend) down() bool {
	if s.child == nil || !s.child.Down() {
		return false
	}
	s.child.Revive(s.probe)
	return true
}

// close releases what newBackend made, as far as it came, once its runner is
// closed.
func (s *backend) close() {
	if s.forget != nil {
		s.forget()
	}
	if s.transport != nil {
		s.transport.Close()
	}
}

// faces tells a runner what upstream.Eras knows.
type faces struct {
	eras    *upstream.Eras
	metrics *metrics
}

var _ session.Faces = faces{}

// Face implements session.Faces.
func (f faces) Face(ctx context.Context, target session.Target) (session.Face, error) {
	r, err := f.eras.Era(ctx, target)
	f.metrics.era(r, err)
	if err != nil {
		return session.Face{}, err
	}
	return r.Face(), nil
}
