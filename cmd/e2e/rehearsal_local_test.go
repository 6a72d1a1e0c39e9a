package e2e

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/upstream"
)

// fleetRoute is a route as a configuration has it.
type fleetRoute struct {
	name string
	ups  []fleetUpstream
}

type fleetUpstream struct {
	name, url string
	weight    int
}

// fleetStatus is what an operator sees of an upstream.
type fleetStatus struct {
	State           string
	Weight          int
	Sessions, Tasks int
	Empty           bool
}

// localFleet is a fleet in the process of the test: routes on one listener.
type localFleet struct {
	t       *testing.T
	store   session.Store
	handles *session.Handles
	proc    *session.Process
	routes  map[string]*session.Route
	urls    map[string]string
}

func (f *localFleet) url(route string) string { return f.urls[route] }

func (f *localFleet) up(route string, u fleetUpstream) session.RouteUpstream {
	name := route + "/" + u.name
	return session.RouteUpstream{Name: name, Show: u.name, Key: u.url, Weight: u.weight, Start: func() (*session.Runner, func(), error) {
		dialer, err := upstream.NewHTTP(upstream.HTTPOptions{Upstreams: map[string]upstream.HTTPUpstream{name: {URL: u.url}}})
		if err != nil {
			return nil, nil, err
		}
		r, err := session.New(session.Options{Store: session.PrefixStore(f.store, "u/"+name+"/"), Dialer: dialer, Handles: f.handles, Upstream: name, Process: f.proc,
			Faces: faces{upstream.NewEras(upstream.EraOptions{Dialer: dialer})}})
		return r, func() { dialer.Close() }, err
	}}
}

func (f *localFleet) ups(r fleetRoute) (list []session.RouteUpstream) {
	for _, u := range r.ups {
		list = append(list, f.up(r.name, u))
	}
	return list
}

func startLocalFleet(t *testing.T, routes []fleetRoute) *localFleet {
	handles, err := session.NewHandles([][]byte{[]byte("0123456789abcdef0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	f := &localFleet{t: t, store: memory.New(), handles: handles, proc: session.NewProcess(nil), routes: map[string]*session.Route{}, urls: map[string]string{}}
	mux := http.NewServeMux()
	for _, r := range routes {
		rt, err := session.NewRoute(session.RouteOptions{Name: r.name, Store: session.PrefixStore(f.store, "r/"+r.name+"/"), Handles: handles, Process: f.proc}, f.ups(r))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rt.Close() })
		srv, err := downstream.New(downstream.Options{Hub: rt, Path: "/" + r.name, Loopback: true, Supported: rt.Versions})
		if err != nil {
			t.Fatal(err)
		}
		mux.Handle("/"+r.name, srv)
		f.routes[r.name] = rt
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hs := &http.Server{Handler: mux}
	go hs.Serve(ln)
	t.Cleanup(func() { hs.Close() })
	for _, r := range routes {
		f.urls[r.name] = "http://" + ln.Addr().String() + "/" + r.name
	}
	return f
}

func (f *localFleet) put(routes []fleetRoute) {
	for _, r := range routes {
		if err := f.routes[r.name].Update(f.ups(r)); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *localFleet) status() map[string]fleetStatus {
	all := map[string]fleetStatus{}
	for _, rt := range f.routes {
		for _, s := range rt.Status() {
			all[s.Name] = fleetStatus{State: s.State, Weight: s.Weight, Sessions: s.Sessions, Tasks: s.Tasks, Empty: s.Empty}
		}
	}
	return all
}

func (f *localFleet) drain(name string) {
	route, _, _ := strings.Cut(name, "/")
	if err := f.routes[route].Drain(name); err != nil {
		f.t.Error(err)
	}
}
