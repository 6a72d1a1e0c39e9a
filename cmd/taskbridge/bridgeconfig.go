package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"taskbridge/cmd/taskbridge/config"
	"taskbridge/session"
	"taskbridge/session/throttle"
	"taskbridge/translate"
)

// bridgeConfig is all a bridge needs; it has been checked.
type bridgeConfig struct {
	listeners []listenerConfig // none with stdio
	routes    []routeConfig    // at least one

	principal session.PrincipalPolicy
	jwt       *jwtConfig // nil: callers bring no tokens we verify
	allowOpen bool

	stateKeys  [][]byte // none: a random one
	maxMessage int64
	rates      throttle.Limits // of callers, over all routes
	stdio      bool            // there is no listener, one client comes over standard input

	admin *adminPlace  // nil: there is no admin address
	audit config.Audit // where audit lines go

	// usage: who speaks which dialect is counted, for the report.
	usage      bool
	usageFlush time.Duration // 0: the default

	log     *slog.Logger
	tap     session.Tap   // nil: none
	record  *recordConfig // nil: nothing is recorded
	metrics *metrics      // nil: none
}

// listenerConfig is where clients come in.
type listenerConfig struct {
	name                         string
	address                      string
	loopback                     bool
	allowedHosts, allowedOrigins []string
	trusted                      []netip.Prefix
	pair                         *keyPair // nil: plain HTTP
}

// routeConfig is what clients send to, and the servers behind it.
type routeConfig struct {
	name      string
	path      string
	ssePath   string // empty: clients of HTTP+SSE are not served
	hosts     []string
	headers   map[string]string
	listeners []string          // names; none: all
	publicURL map[string]string // by listener; missing or empty: not known
	policy    session.Policy
	upstreams []upstreamConfig // at least one
	prefix    string           // of its part of the store; empty: the whole
	// rates are limits of its own, beside those over all routes; nil: none.
	rates *throttle.Limits

	// settle fills in what follows.

	// verified: callers nobody vouches for are refused.
	verified bool
	// local: callers are on this machine, and may see what a server process said
	// before it ended.
	local bool
}

// upstreamConfig is one server of a route.
type upstreamConfig struct {
	owner          string // what handles and logs call it
	show           string // what people call it
	key            string // tells it from another server of its name
	prefix         string // of its part of the store; empty: the whole
	server         server
	era            translate.Era // EraUnknown: found out
	connectTimeout time.Duration

	weight int // its share of new work
	pins   []session.Pin
	health session.Health
}

// defaultName is what the one listener, route and server of a command line are
// called.
const defaultName = "default"

// oneRoute is a route with one server behind it.
func oneRoute(s server, era translate.Era, connectTimeout time.Duration) []routeConfig {
	up := upstreamConfig{owner: upstreamName, server: s, era: era, connectTimeout: connectTimeout, weight: 1}
	return []routeConfig{{name: defaultName, upstreams: []upstreamConfig{up}}}
}

// on says whether the route takes what comes in at a listener.
func (r *routeConfig) on(listener string) bool {
	if slices.Contains(r.listeners, listener) {
		return true
	}
	return len(r.listeners) == 0
}

// shared: requests of all callers carry a credential of ours, or go to a process
// of ours.
func (r *routeConfig) shared() bool {
	for i := range r.upstreams {
		if r.upstreams[i].server.shared {
			return true
		}
	}
	return false
}

// maxShownServers bounds what a capture says of the servers behind.
const maxShownServers = 100

// shown names the servers, with their routes where there are several.
func (c *bridgeConfig) shown() string {
	if len(c.routes) == 1 && len(c.routes[0].upstreams) == 1 {
		return c.routes[0].upstreams[0].server.shown
	}
	var list []string
	for i := range c.routes {
		for k := range c.routes[i].upstreams {
			u := &c.routes[i].upstreams[k]
			list = append(list, u.owner+" "+u.server.shown)
		}
	}
	if n := len(list) - maxShownServers; n > 0 {
		list = append(list[:maxShownServers], fmt.Sprintf("%d more", n))
	}
	return strings.Join(list, ", ")
}

// naming says how people write a setting: as a flag, or as a field of a file.
type naming interface {
	// at is where a listener's or a route's setting stands that has been given,
	// with its value where that helps; both may be nil.
	at(setting string, l *listenerConfig, r *routeConfig) string
	// give is what one would write.
	give(setting, value string) string
}

// settle finds out, for every route and listener, who may come in and as whom,
// and refuses what lets anybody in by mistake.
func (c *bridgeConfig) settle(say naming) error {
	named := c.principal.NeedsTrusted()
	told := named || c.jwt != nil // callers of one machine are told apart, too
	if c.jwt != nil && c.allowOpen {
		return usagef("%s: nobody comes in unverified with %s", say.at("allow-open", nil, nil), say.give("principal", "jwt"))
	}
	for i := range c.listeners {
		if l := &c.listeners[i]; named && len(l.trusted) == 0 {
			return usagef("%s: anyone could send that header; name the front end that sets it with %s", say.at("principal", nil, nil), say.give("trusted-proxy", "CIDR"))
		}
	}
	for i := range c.routes {
		r := &c.routes[i]
		if err := c.settleTokens(say, r); err != nil {
			return err
		}
		shared := r.shared()
		r.verified = shared && named && !c.allowOpen
		r.local = !told
		for k := range c.listeners {
			l := &c.listeners[k]
			if !r.on(l.name) {
				continue
			}
			if shared && !l.loopback && !told && !c.allowOpen {
				return exposedError(say, l, r)
			}
			r.local = r.local && l.loopback && !l.proxied(r.publicURL[l.name])
		}
		// Ids pass untouched only where whoever knows one may use it: the caller's
		// own credential goes up with it, or all callers are this machine's user.
		r.policy.SealSameEra = (shared || named) && !r.local
	}
	return nil
}

// settleTokens: a token must be for whom it is shown to (2026-07-28
// basic/authorization, Token Audience Binding).
func (c *bridgeConfig) settleTokens(say naming, r *routeConfig) error {
	if c.jwt == nil || len(c.jwt.audience) > 0 {
		return nil
	}
	for i := range c.listeners {
		if l := &c.listeners[i]; r.on(l.name) && r.publicURL[l.name] == "" {
			return usagef("%s: a token for another service would get in; say whom tokens are for with %s or %s",
				say.at("principal", l, r), say.give("jwt-audience", "AUDIENCE"), say.give("public-url", "URL"))
		}
	}
	return nil
}

// exposedError: a route behind which a credential of ours is used by whoever
// reaches a listener.
func exposedError(say naming, l *listenerConfig, r *routeConfig) error {
	what := "credential given to it"
	for i := range r.upstreams {
		if r.upstreams[i].server.child != nil {
			what = "process it is"
		}
	}
	return usagef("%s is open to other machines and every caller would use the server %s: any made-up token gets in; "+
		"listen on 127.0.0.1, or have callers verified (%s) or a front end do it (%s %s), or accept it with %s",
		say.at("listen", l, r), what, say.give("principal", "jwt:JWKS"), say.give("principal", "header:NAME"), say.give("trusted-proxy", "CIDR"), say.give("allow-open", ""))
}

// proxied: the configuration says that others than this machine's users come
// in through a front end.
func (l *listenerConfig) proxied(publicURL string) bool {
	if len(l.trusted) > 0 || publicURL != "" {
		return true
	}
	for _, h := range l.allowedHosts {
		if name, _, err := net.SplitHostPort(h); err == nil {
			h = name
		}
		if !loopbackHost(strings.Trim(h, "[]")) {
			return true
		}
	}
	return false
}

// published: some route says under which URL clients reach it.
func (c *bridgeConfig) published() bool {
	for i := range c.routes {
		for _, u := range c.routes[i].publicURL {
			if u != "" {
				return true
			}
		}
	}
	return false
}

// reached: others than this machine's users may come to a route.
func (c *bridgeConfig) reached(r *routeConfig) bool {
	for i := range c.listeners {
		l := &c.listeners[i]
		if r.on(l.name) && (!l.loopback || l.proxied(r.publicURL[l.name])) {
			return true
		}
	}
	return false
}
