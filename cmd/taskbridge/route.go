package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/upstream"
)

// route is what clients send to: one logical server, and what stands behind it.
type route struct {
	routeConfig
	hub      session.Hub
	versions func(context.Context, session.Caller) []string
	servers  []*backend
}

// newRoute makes a route and its servers.
func (b *bridge) newRoute(c *bridgeConfig, rc *routeConfig) (*route, error) {
	r := &route{routeConfig: *rc}
	for i := range rc.upstreams {
		s, err := b.newBackend(c, rc, &rc.upstreams[i])
		if err != nil {
			r.close()
			return nil, err
		}
		r.servers = append(r.servers, s)
	}
	if len(r.servers) != 1 {
		r.close()
		return nil, fmt.Errorf("route %s: want one server", rc.name)
	}
	r.hub, r.versions = r.servers[0].runner, r.servers[0].runner.Versions
	return r, nil
}

// unready says why no new work should come, or "".
func (r *route) unready() string {
	for _, s := range r.servers {
		if why := s.unready(); why != "" {
			return why
		}
	}
	return ""
}

func (r *route) close() {
	for _, s := range r.servers {
		s.close()
	}
}

// open makes the routes of a door what comes in by it.
func (b *bridge) open(c *bridgeConfig, d *door) error {
	common := downstream.Options{
		Limits: downstream.Limits{Body: c.maxMessage}, Shared: b.shared, Limiter: b.limiter,
		AllowedHosts: d.allowedHosts, AllowedOrigins: d.allowedOrigins, Loopback: d.loopback,
		TrustedProxies: d.trusted, Logger: b.log, Tap: b.tap,
	}
	if b.metrics != nil {
		common.Metrics = b.metrics
	}
	unknown := common
	var endpoints []downstream.Endpoint
	for _, r := range b.routes {
		if !r.on(d.name) {
			continue
		}
		s, err := b.endpoint(c, d, r, common)
		if err != nil {
			return err
		}
		endpoints = append(endpoints, downstream.Endpoint{Name: "route " + r.name, Server: s, Hosts: r.hosts, Header: r.headers})
		// Who may speak to a route here may be told that there is nothing.
		unknown.AllowedHosts = append(unknown.AllowedHosts, r.hostsAt(d.name)...)
	}
	nowhere, err := downstream.NewNowhere(unknown)
	if err != nil {
		return err
	}
	return d.front.Set(endpoints, nowhere)
}

// hostsAt are the names by which a route is addressed at a listener.
func (r *route) hostsAt(listener string) []string {
	hosts := r.hosts
	if u, err := url.Parse(r.publicURL[listener]); err == nil && u.Host != "" {
		hosts = append([]string{u.Host}, hosts...)
	}
	return hosts
}

// endpoint is a route as clients find it at one door.
func (b *bridge) endpoint(c *bridgeConfig, d *door, r *route, o downstream.Options) (*downstream.Server, error) {
	o.Path, o.SSEPath, o.Principal, o.PublicURL = r.path, r.ssePath, c.principal, r.publicURL[d.name]
	o.Hub, o.Supported = r.hub, r.versions
	o.AllowedHosts = append(o.AllowedHosts[:len(o.AllowedHosts):len(o.AllowedHosts)], r.hosts...)
	if r.verified {
		// Who is not known here makes nobody ask the server anything.
		o.Hub, o.Supported = verifiedOnly{r.hub}, nil
	}
	if b.who != nil {
		o.Tokens = b.who
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
	for _, s := range r.servers {
		if s.server.ownAuth || s.http == nil {
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
