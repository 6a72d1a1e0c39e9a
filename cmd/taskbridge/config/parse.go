package config

import (
	"path/filepath"
	"strings"
)

// Parse reads a configuration. name is shown in problems, and names of files in
// it are relative to its folder ("-" is standard input, and has none). There is
// a File where there are no problems, which come in the order of the file and
// are no more than a screenful or two.
func Parse(name string, src []byte, getenv Getenv) (*File, []Problem) {
	return parse(name, src, getenv, nil)
}

func parse(name string, src []byte, getenv Getenv, over func(*File)) (*File, []Problem) {
	r := &reader{getenv: getenv, over: over}
	r.file, r.marks, r.written = name, map[string]mark{"": {1, 1}}, map[string]string{}
	r.root = fileKind.parts
	if name == "-" {
		r.file = "standard input"
	} else if folder := filepath.Dir(name); folder != "." {
		r.folder = folder
	}
	root := tree(src, &r.problems)
	if root == nil {
		return nil, r.sorted()
	}
	d := &document{}
	at := place{node: root}
	r.visit(at)
	fileKind.read(r, at, d)
	if root.shape != object {
		return nil, r.sorted()
	}
	r.finish(d)
	if len(r.list) > 0 {
		return nil, r.sorted()
	}
	f := d.File
	f.Name, f.marks, f.written = r.file, r.marks, r.written
	return &f, nil
}

// has: the file gives the value of a path.
func (r *reader) has(path string) bool {
	_, ok := r.marks[path]
	return ok
}

// finish fills in what depends on other keys and checks what must fit together.
func (r *reader) finish(d *document) {
	r.finishListeners(d)
	for i, raw := range d.routes {
		d.Routes = append(d.Routes, r.finishRoute(d, i, raw))
	}
	if r.has("routes") && len(d.routes) == 0 {
		r.fits("routes", "has no route; want a list of routes, each with upstream: URL")
	}
	r.checkCallers(&d.File)
	r.checkLimits("limits", d.Limits)
	r.checkLimits("defaults.limits", d.defaults.Limits)
	r.checkRoutes(&d.File)
	r.checkCredentials(&d.File)
}

const defaultListen = "127.0.0.1:8080"

func (r *reader) finishListeners(d *document) {
	switch {
	case r.has("listen") && r.has("listeners"):
		r.fits("listen", "stands beside listeners, which it is the short form of; keep one of the two")
	case r.has("listeners") && len(d.Listeners) == 0 && len(r.list) == 0:
		r.fits("listeners", "has no listener; want a list with an address each, or listen: ADDRESS:PORT")
	case !r.has("listeners"):
		l := Listener{Name: "default", Address: d.listen}
		if !r.has("listen") {
			l.Address = defaultListen
		}
		d.Listeners = []Listener{l}
	}
	if len(d.Listeners) == 1 && d.Listeners[0].Name == "" {
		d.Listeners[0].Name = "default"
	}
	for i := range d.Listeners {
		d.Listeners[i].PublicURL = strings.TrimSuffix(d.Listeners[i].PublicURL, "/")
	}
	if r.over != nil && len(d.Listeners) > 0 {
		d.Name = r.file
		r.over(&d.File)
	}
	r.checkListeners(d.Listeners)
	if a := d.Admin; a.Address != "" {
		if name, ok := strings.CutPrefix(a.Address, "unix:"); ok {
			d.Admin.Address = "unix:" + r.join(name)
		} else if !loopback(a.Address) && a.TokenFile == "" {
			r.fits("admin.address", "is open to other machines, and nothing keeps them out; want a token-file beside it, an address such as 127.0.0.1:9090, or unix:PATH")
		}
	}
}

func (r *reader) finishRoute(d *document, i int, raw rawRoute) Route {
	at := indexed("routes", i)
	out := raw.Route
	out.Host = strings.ToLower(strings.TrimSuffix(strings.Trim(out.Host, "[]"), "."))
	out.PublicURL = strings.TrimSuffix(out.PublicURL, "/")
	if !r.has(at + ".name") {
		out.Name = routeName(out.Path, i)
	}
	switch {
	case raw.sse == "off" || raw.sse == "" && len(d.routes) > 1:
	case raw.sse != "":
		out.SSEPath = raw.sse
		if wrong := sseConflict(raw.sse, out.Path); wrong != "" {
			r.fits(at+".sse-path", "%s %s", r.shown(at+".sse-path", raw.sse), wrong)
		}
	case sseConflict("/sse", out.Path) == "":
		out.SSEPath = "/sse"
	}
	if len(out.Listeners) == 0 {
		for _, l := range d.Listeners {
			out.Listeners = append(out.Listeners, l.Name)
		}
	}
	r.finishUpstreams(at, raw, &out)
	r.checkLimits(at+".limits", out.Limits)
	return out
}

// routeName makes a name of a path: /billing/mcp becomes billing-mcp.
func routeName(path string, i int) string {
	name := strings.Trim(strings.Map(func(c rune) rune {
		if nameForm.MatchString("a" + string(c)) {
			return c
		}
		return '-'
	}, strings.Trim(path, "/")), "-._")
	if name == "" || len(name) > 63 {
		return indexed("route", i)
	}
	return name
}

func sseConflict(sse, mcp string) string {
	if sse == mcp || messagePath(sse) == mcp || messagePath(sse) == sse {
		return "meets the endpoint; it, message beside it and the route's path must differ"
	}
	return ""
}

// finishUpstreams brings the three ways to name servers into one.
func (r *reader) finishUpstreams(at string, raw rawRoute, out *Route) {
	var ways []string
	for _, way := range []string{"upstream", "command", "upstreams"} {
		if r.has(at + "." + way) {
			ways = append(ways, way)
		}
	}
	switch {
	case len(ways) == 0:
		r.fits(at, "has no server; want upstream: URL, command: [PROGRAM, ARGUMENT…], or upstreams with a list of several")
		return
	case len(ways) > 1:
		r.fits(at+"."+ways[1], "stands beside %s; a route has one of upstream, command and upstreams", ways[0])
		return
	}
	switch ways[0] {
	case "upstream":
		out.Upstreams = []Upstream{raw.one}
	case "command":
		one := Upstream{}
		readKeys(r, place{at + ".command", &node{shape: object}}, "an upstream", upstreamKeys, &one)
		one.Command = raw.command
		out.Upstreams = []Upstream{one}
	case "upstreams":
		if len(out.Upstreams) == 0 {
			r.fits(at+".upstreams", "has no server; want a list with a name and a url or command each")
		}
	}
	for i := range out.Upstreams {
		u := &out.Upstreams[i]
		where := at + "." + ways[0]
		if ways[0] == "upstreams" {
			where = indexed(where, i)
		}
		if u.Era == "" {
			u.Era = out.Era
		}
		if len(out.Upstreams) == 1 && u.Name == "" {
			u.Name = "default"
		}
		r.checkUpstream(where, ways[0] == "command", u)
	}
	r.checkWeights(at, ways[0], out.Upstreams)
}

// PublicURL is the URL under which clients reach a route on a listener; empty
// where nobody has said.
func (f *File) PublicURL(l Listener, r Route) string {
	switch {
	case r.PublicURL != "":
		return r.PublicURL
	case l.PublicURL != "":
		return l.PublicURL + r.Path
	}
	return ""
}
