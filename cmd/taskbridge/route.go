package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/session/throttle"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/upstream"
)

// route is what clients send to: one logical server, and what stands behind it.
// It is replaced by another when its configuration changes; hub and live stay.
type route struct {
	routeConfig
	hub     *session.Route
	live    *backends
	limiter *throttle.Limiter // under the process's
}

// backends are the servers of a route that have been started, those that are
// being emptied among them.
type backends struct {
	mu   sync.Mutex // protects list
	list []*backend
}

func (l *backends) add(s *backend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, s)
}

func (l *backends) drop(s *backend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(o *backend) bool { return o == s })
}

func (l *backends) all() []*backend {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// of is the server that was started for a configuration.
func (l *backends) of(u *upstreamConfig) *backend {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.list {
		if s.owner == u.owner && s.key == u.key {
			return s
		}
	}
	return nil
}

// newRoute makes a route and its servers.
func (b *bridge) newRoute(c *bridgeConfig, rc *routeConfig) (*route, error) {
	r := &route{routeConfig: *rc, live: new(backends), limiter: b.newLimiter(rc)}
	var err error
	r.hub, err = session.NewRoute(session.RouteOptions{
		Name: r.name, Store: b.storeAt(r.prefix), Handles: b.handles, Process: b.process, Logger: b.log,
	}, b.upstreams(c, r))
	return r, plainStart(err)
}

// startError is why a server could not be made; it names the server itself.
type startError struct{ error }

// plainStart is what a server's own error says, without what was put before it.
func plainStart(err error) error {
	if e, ok := errors.AsType[startError](err); ok {
		return e.error
	}
	return err
}

// newLimiter is of a route, also of one without limits of its own: a reload may
// bring some, which hold for the connections that are open.
func (b *bridge) newLimiter(rc *routeConfig) *throttle.Limiter {
	return throttle.New(rc.ownRates(), 0).Under(b.limiter)
}

// ownRates are zero, which is no limit, where the file gives the route none.
func (rc *routeConfig) ownRates() throttle.Limits {
	if rc.rates == nil {
		return throttle.Limits{}
	}
	return *rc.rates
}

// countsOf is where it is counted what callers of a route have: there, and over
// all routes. A route that is alone by its nature counts once.
func (b *bridge) countsOf(r *route) (own, all session.Store) {
	if r.prefix == "" {
		return b.store, nil
	}
	return b.storeAt(r.prefix + "counts/"), b.store
}

// storeAt is a part of the store; the whole of it without a prefix.
func (b *bridge) storeAt(prefix string) session.Store {
	if prefix == "" {
		return b.store
	}
	return session.PrefixStore(b.store, prefix)
}

// upstreams are a route's servers as its hub takes them.
func (b *bridge) upstreams(c *bridgeConfig, r *route) []session.RouteUpstream {
	var list []session.RouteUpstream
	for i := range r.routeConfig.upstreams {
		u := &r.routeConfig.upstreams[i]
		policy := r.policy
		policy.Version, policy.MessageLimit = buildInfo().Version, c.maxMessage
		list = append(list, session.RouteUpstream{
			Name: u.owner, Show: u.show, Key: u.key, Weight: u.weight, Pins: u.pins, Policy: policy,
			Health: u.health, Look: func(ctx context.Context) error { return r.live.of(u).look(ctx) },
			Start: func() (*session.Runner, func(), error) {
				s, err := b.newBackend(c, r, u, policy)
				if err != nil {
					return nil, nil, startError{err}
				}
				r.live.add(s)
				return s.runner, func() { r.live.drop(s); s.close() }, nil
			},
		})
	}
	return list
}

// open makes of routes what comes in by a door.
func (b *bridge) open(c *bridgeConfig, d *door, l *listenerConfig, routes []*route, who *callers) (given, error) {
	out := given{servers: map[string]*downstream.Server{}}
	common := downstream.Options{
		Limits: downstream.Limits{Body: c.maxMessage}, Shared: b.shared, Limiter: b.limiter,
		AllowedHosts: l.allowedHosts, AllowedOrigins: l.allowedOrigins, Loopback: l.loopback,
		TrustedProxies: l.trusted, Logger: b.log, Tap: b.tap,
	}
	if b.metrics != nil {
		common.Metrics = b.metrics
	}
	unknown := common
	for _, r := range routes {
		o := common
		o.Principal, o.Follows, o.Limiter = c.principal, d.settled[r.name], r.limiter
		s, err := b.endpoint(c, l, r, who, o)
		if err != nil {
			return out, err
		}
		out.servers[r.name] = s
		out.endpoints = append(out.endpoints, downstream.Endpoint{Name: "route " + r.name, Server: s, Hosts: r.hosts, Header: r.headers})
		// Who may speak to a route here may be told that there is nothing; where any
		// host may, none is named.
		if l.loopback || len(l.allowedHosts) > 0 {
			unknown.AllowedHosts = slices.Concat(unknown.AllowedHosts, r.hostsAt(l.name))
		}
	}
	var err error
	out.unknown, err = downstream.NewNowhere(unknown)
	return out, err
}

// hostsAt are the names by which a route is addressed at a listener.
func (r *route) hostsAt(listener string) []string {
	hosts := r.hosts
	if u, err := url.Parse(r.publicURL[listener]); err == nil && u.Host != "" {
		hosts = append([]string{u.Host}, hosts...)
	}
	return hosts
}

// endpoint is a route as clients find it at one listener.
func (b *bridge) endpoint(c *bridgeConfig, l *listenerConfig, r *route, who *callers, o downstream.Options) (*downstream.Server, error) {
	o.Path, o.SSEPath, o.PublicURL = r.path, r.ssePath, r.publicURL[l.name]
	o.Hub, o.Supported = r.hub, r.hub.Versions
	o.AllowedHosts = slices.Concat(o.AllowedHosts, r.hosts)
	if r.verified {
		// Who is not known here makes nobody ask the server anything.
		o.Hub, o.Supported = verifiedOnly{r.hub}, nil
	}
	if who != nil {
		v, err := who.verifier(o.PublicURL)
		if err != nil {
			return nil, err
		}
		o.Tokens = v
	}
	if o.PublicURL != "" && (c.jwt.ownMetadata(o.PublicURL) != nil || r.documented() != nil) {
		if err := b.publish(c, r, &o); err != nil {
			return nil, err
		}
	}
	return downstream.New(o)
}

// documented is a server of the route whose protected resource metadata clients
// need; nil where none is: where the proxy has a credential of its own, clients
// need none.
func (r *route) documented() *backend {
	var found *backend
	for i := range r.upstreams {
		s := r.live.of(&r.upstreams[i])
		if s == nil || s.server.ownAuth || s.http == nil {
			return nil
		}
		if found == nil {
			found = s
		}
	}
	return found
}

// publish serves the server's protected resource metadata as that of the
// public URL, and says so in challenges; ours, where tokens are verified here
// and their issuer is known. Where the proxy has a credential of its own and
// verifies no tokens, clients need none and find no metadata.
func (b *bridge) publish(c *bridgeConfig, r *route, o *downstream.Options) error {
	public := o.PublicURL
	at, err := downstream.MetadataURL(public)
	if err != nil {
		return fmt.Errorf("public URL: %w", err)
	}
	u, err := url.Parse(public)
	if err != nil {
		return err
	}
	o.ChallengeURL = at
	own, from := c.jwt.ownMetadata(public), r.documented()
	o.Other = &downstream.ResourceMetadata{
		Paths: []string{u.EscapedPath(), r.path}, Logger: b.log,
		Fetch: func(ctx context.Context) ([]byte, error) {
			if own != nil {
				return own, nil
			}
			doc, err := from.http.ResourceMetadata(ctx, from.owner, public)
			if errors.Is(err, upstream.ErrNoMetadata) {
				return nil, nil
			}
			return doc, err
		},
	}
	return nil
}

// verifiedOnly refuses callers without identity. Under --principal header:NAME
// those are all who do not come through the trusted proxy, and they must not
// use a credential that is the operator's.
type verifiedOnly struct{ session.Hub }

// TakesBatch implements session.Batcher.
func (v verifiedOnly) TakesBatch(c session.Caller) bool {
	b, ok := v.Hub.(session.Batcher)
	return !ok || b.TakesBatch(c)
}

// Asked implements downstream.Asker.
func (v verifiedOnly) Asked(c session.Caller) bool {
	a, ok := v.Hub.(downstream.Asker)
	return ok && a.Asked(c)
}

// Client implements session.Hub.
func (v verifiedOnly) Client(ctx context.Context, in session.Inbound, s *session.ClientStream) {
	if !in.Caller.Open {
		v.Hub.Client(ctx, in, s)
		return
	}
	out := session.Out{Final: true, Status: http.StatusForbidden}
	if m := in.Frame.Msg; m == nil || m.Kind == jsonrpc.Request {
		var id jsonrpc.ID
		if m != nil {
			id = m.ID
		}
		_, code := translate.StatusOf(translate.CondBadOrigin, in.Caller.Era)
		out.Raw = jsonrpc.NewError(id, code, "this server takes only callers that its own front end has identified", nil)
	}
	s.Send(out)
}
