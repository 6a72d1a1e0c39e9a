package config

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// What must fit together, be unique or be safe.

func indexed(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// firsts remembers what was seen first.
type firsts map[string]string

// twice returns where a key was seen before, or notes it.
func (f firsts) twice(key, path string) (string, bool) {
	if first, ok := f[key]; ok {
		return first, true
	}
	f[key] = path
	return "", false
}

// line is where a path stands, for texts.
func (r *reader) line(path string) string { return fmt.Sprintf("line %d", r.mark(path).line) }

func (r *reader) checkListeners(all []Listener) {
	names, addresses := firsts{}, firsts{}
	for i, l := range all {
		at := indexed("listeners", i)
		if l.Name == "" && len(all) > 1 && r.has(at+".address") {
			r.fits(at+".name", "is missing; where there are several listeners each has a name")
		} else if first, again := names.twice(l.Name, at+".name"); again && l.Name != "" {
			r.fits(at+".name", "%s is the name of another listener, %s; names are unique", r.shown(at+".name", l.Name), r.line(first))
		}
		if l.Address == "" || strings.HasSuffix(l.Address, ":0") {
			continue
		}
		if first, again := addresses.twice(l.Address, at+".address"); again {
			r.fits(at+".address", "%s is the address of another listener, %s; only one can listen there", r.shown(at+".address", l.Address), r.line(first))
		}
	}
}

// checkCallers settles what goes with principal.
func (r *reader) checkCallers(f *File) {
	jwt := strings.HasPrefix(f.Principal, "jwt:")
	for _, key := range []string{"jwt-audience", "jwt-issuer", "jwt-alg"} {
		if r.has(key) && !jwt && f.Principal != "" {
			r.fits(key, "goes with principal: jwt:JWKS only")
		}
	}
	if jwt && f.AllowOpen {
		r.fits("allow-open", "nobody comes in unverified with principal: jwt; remove it")
	}
	if name, ok := strings.CutPrefix(f.Principal, "jwt:"); ok && !strings.Contains(name, "://") {
		f.Principal = "jwt:" + r.join(name)
	}
	for i, l := range f.Listeners {
		if strings.HasPrefix(f.Principal, "header:") && len(l.TrustedProxies) == 0 {
			r.fits("principal", "anyone could send that header to listeners[%d]; name the front end that sets it in its trusted-proxies", i)
		}
		for j, route := range f.Routes {
			if jwt && len(f.JWTAudience) == 0 && slices.Contains(route.Listeners, l.Name) && f.PublicURL(l, route) == "" {
				r.fits("principal", "a token for another service would get in at routes[%d] on listeners[%d]; say whom tokens are for with jwt-audience, or with public-url", j, i)
				return
			}
		}
	}
}

func (r *reader) checkLimits(at string, l Limits) {
	p, t := l.PerPrincipal, l.Total
	for _, one := range []struct {
		name        string
		each, total int64
	}{
		{"tasks", p.Tasks, t.Tasks}, {"sessions", p.Sessions, t.Sessions},
		{"server-sessions", p.ServerSessions, t.ServerSessions}, {"streams", p.Streams, t.Streams},
	} {
		path := at + ".per-principal." + one.name
		if one.total > 0 && one.each > one.total && r.has(path) {
			r.fits(path, "is more than the total, %s; want less for one than for all", r.line(at+".total."+one.name))
		}
	}
	if path := at + ".per-principal.requests-burst"; r.has(path) && !r.has(at+".per-principal.requests-per-second") {
		r.fits(path, "bounds nothing without requests-per-second beside it")
	}
}

// checkRoutes: each request must have one way to go.
func (r *reader) checkRoutes(f *File) {
	names, matches := firsts{}, firsts{}
	listeners := map[string]bool{}
	for _, l := range f.Listeners {
		listeners[l.Name] = true
	}
	for i, route := range f.Routes {
		at := indexed("routes", i)
		if r.broken(at) {
			continue
		}
		if first, again := names.twice(route.Name, at+".name"); again {
			r.fits(at+".name", "%s is the name of another route, %s; give one of them another name", r.shown(at+".name", route.Name), r.line(first))
		}
		for j, l := range route.Listeners {
			if !listeners[l] {
				r.fits(indexed(at+".listeners", j), "%s is no listener; %s", r.shown(indexed(at+".listeners", j), l), r.listenersAre(f))
				continue
			}
			if first, again := matches.twice(l+"\x00"+route.matchKey(route.Path), at); again {
				r.fits(at, "takes the same requests as another route, %s; give one of them another path, host or match-headers", r.line(first))
				break
			}
		}
	}
	r.checkSSEPaths(f)
}

func (r *reader) listenersAre(f *File) string {
	var names []string
	for i, l := range f.Listeners {
		names = append(names, strings.Trim(r.shown(indexed("listeners", i)+".name", l.Name), `"`))
	}
	return "there is " + oneOf(names)
}

// matchKey is equal for requests that cannot be told apart. A slash at the end
// of a path does not count.
func (route *Route) matchKey(path string) string {
	var headers []string
	for _, h := range route.Headers {
		headers = append(headers, strings.ToLower(h.Name)+"\x01"+h.Value)
	}
	slices.Sort(headers)
	return strings.TrimSuffix(path, "/") + "\x00" + route.Host + "\x00" + strings.Join(headers, "\x02")
}

// checkSSEPaths: paths of HTTP+SSE are no other's.
func (r *reader) checkSSEPaths(f *File) {
	taken := firsts{}
	for i, route := range f.Routes {
		for _, l := range route.Listeners {
			taken.twice(l+"\x00"+route.matchKey(route.Path), indexed("routes", i))
		}
	}
	for i, route := range f.Routes {
		if route.SSEPath == "" || sseConflict(route.SSEPath, route.Path) != "" {
			continue
		}
		at := indexed("routes", i)
		for _, l := range route.Listeners {
			for _, p := range []string{route.SSEPath, messagePath(route.SSEPath)} {
				if first, again := taken.twice(l+"\x00"+route.matchKey(p), at); again && first != at {
					r.fits(at+".sse-path", "%s, or message beside it, is a path of another route, %s; give it another, or off", r.shown(at+".sse-path", route.SSEPath), r.line(first))
					break
				}
			}
		}
	}
}

// onlyFor are keys of one kind of server.
var onlyFor = map[string][]string{
	"url":     {"transport", "message-url", "headers", "header-files", "ca", "connect-timeout"},
	"command": {"env", "cwd", "start-timeout", "share-child", "max-children"},
}

// checkUpstream checks one server; short: it is the command of a route alone.
func (r *reader) checkUpstream(at string, short bool, u *Upstream) {
	byURL, byCommand := r.has(at+".url"), r.has(at+".command") || short
	switch {
	case byURL && byCommand:
		r.fits(at+".command", "stands beside url; a server has one of the two")
		return
	case !byURL && !byCommand:
		r.fits(at, "has no server; want url: URL, or command: [PROGRAM, ARGUMENT…]")
		return
	case byCommand:
		path := at
		if !short {
			path += ".command"
		}
		if len(u.Command) == 0 || u.Command[0] == "" {
			r.fits(path, "names no program; want a list such as [npx, some-server]")
		}
		for _, key := range onlyFor["url"] {
			if r.has(at + "." + key) {
				r.fits(at+"."+key, "is for a server behind a URL; remove it, or give url instead of command")
			}
		}
	default:
		for _, key := range onlyFor["command"] {
			if r.has(at + "." + key) {
				r.fits(at+"."+key, "is for a server that is a program; remove it, or give command instead of url")
			}
		}
		r.checkTransport(at, u)
	}
	for _, key := range []string{"timeout", "pass-after"} {
		if path := at + ".health." + key; r.has(path) && u.Health.Interval == 0 {
			r.fits(path, "is about looks at the server; give interval beside it, as in interval: 10s")
		}
	}
	r.checkPins(at, u)
}

func (r *reader) checkTransport(at string, u *Upstream) {
	web := strings.HasPrefix(strings.ToLower(u.URL), "ws")
	switch {
	case web && (u.Transport == "http" || u.Transport == "sse"):
		r.fits(at+".transport", "is for http:// and https:// URLs; a ws:// URL speaks WebSocket, so remove it")
	case web && u.MessageURL != "":
		r.fits(at+".message-url", "is for http:// and https:// URLs; remove it")
	case u.MessageURL != "" && u.Transport == "http":
		r.fits(at+".message-url", "is for HTTP+SSE; want transport: sse, or no transport")
	case u.Transport == "sse" && u.Era == "modern":
		r.fits(at+".transport", "sse carries legacy revisions only, and era is modern; want era: legacy, or another transport")
	}
	names := firsts{}
	for _, h := range u.Headers {
		here := at + ".headers." + h.Name
		if _, again := names.twice(strings.ToLower(h.Name), here); again {
			r.fits(here, "header is given twice; names of headers are the same in capitals and in small letters")
		}
	}
}

func (r *reader) checkPins(at string, u *Upstream) {
	if at += ".pins"; r.has(at) && len(u.Pins.Clients) == 0 && len(u.Pins.Principals) == 0 && !r.has(at+".clients[0]") && !r.has(at+".principals[0]") {
		r.fits(at, "pin nobody; want clients with a name each, or principals, or remove them")
	}
}

// checkWeights checks what the servers of a route are to each other.
func (r *reader) checkWeights(at, way string, all []Upstream) {
	if way != "upstreams" {
		if way == "upstream" && all[0].Weight == 0 && r.has(at+".upstream.weight") {
			r.fits(at+".upstream.weight", "leaves the route's only server without work; remove it")
		}
		all[0].Weight = max(all[0].Weight, 1)
		return
	}
	names, pins := firsts{}, firsts{}
	given, sum := 0, 0
	for i, u := range all {
		here := indexed(at+".upstreams", i)
		if u.Name == "" && len(all) > 1 && !r.has(here+".name") {
			r.fits(here+".name", "is missing; where there are several upstreams each has a name")
		} else if first, again := names.twice(u.Name, here+".name"); again && u.Name != "" {
			r.fits(here+".name", "%s is the name of another upstream of the route, %s; names are unique", r.shown(here+".name", u.Name), r.line(first))
		}
		if r.has(here + ".weight") {
			given++
		}
		sum += u.Weight
		r.checkPinsTwice(here, u, pins)
	}
	switch {
	case given == 0:
		for i := range all {
			all[i].Weight = 1
		}
	case given < len(all):
		for i := range all {
			if here := indexed(at+".upstreams", i); !r.has(here + ".weight") {
				r.fits(here+".weight", "is missing, while others of the route have one; give it one, 0 where only pins lead there")
			}
		}
	case sum == 0:
		r.fits(at+".upstreams[0].weight", "all weights of the route are 0, so that new work goes nowhere; want one above 0")
	}
}

func (r *reader) checkPinsTwice(at string, u Upstream, pins firsts) {
	for i, c := range u.Pins.Clients {
		here := indexed(at+".pins.clients", i)
		if first, again := pins.twice("c"+c.Name+"\x00"+c.Version, here); again {
			r.fits(here, "this client is pinned already, %s; pin it to one upstream", r.line(first))
		}
	}
	for i, p := range u.Pins.Principals {
		here := indexed(at+".pins.principals", i)
		if first, again := pins.twice("p"+p, here); again {
			r.fits(here, "this principal is pinned already, %s; pin it to one upstream", r.line(first))
		}
	}
}

// checkCredentials: a server that is reached as us must not be open to whoever
// makes up a token.
func (r *reader) checkCredentials(f *File) {
	if f.AllowOpen || f.Principal != "token" {
		return
	}
	open := map[string]bool{}
	for _, l := range f.Listeners {
		open[l.Name] = l.Address != "" && !loopback(l.Address)
	}
	for i, route := range f.Routes {
		if !slices.ContainsFunc(route.Listeners, func(l string) bool { return open[l] }) {
			continue
		}
		for j, u := range route.Upstreams {
			if u.Shared() {
				at := indexed("routes", i)
				if way := at + ".upstreams"; r.has(way) {
					at = indexed(way, j)
				}
				r.fits(at, "every caller would use its server as us, and other machines can reach it: any made-up token gets in; "+
					"listen on 127.0.0.1, have callers verified (principal: jwt:JWKS, or header:NAME with trusted-proxies), or accept it with allow-open: true")
			}
		}
	}
}

// Shared: requests of all callers reach it with a credential of ours, or as the
// process it is.
func (u *Upstream) Shared() bool {
	if len(u.Command) > 0 || len(u.HeaderFiles) > 0 {
		return true
	}
	for _, h := range u.Headers {
		if !strings.EqualFold(h.Name, "User-Agent") && !strings.EqualFold(h.Name, "Host") {
			return true
		}
	}
	addr, err := url.Parse(u.URL)
	return err == nil && addr.User != nil
}
