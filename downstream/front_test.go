package downstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// named is a server that answers every request with its name.
func named(t testing.TB, name string, change func(*Options)) *Server {
	t.Helper()
	o := Options{Loopback: true, Hub: &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
		raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"by":%q}}`, in.Frame.Msg.ID, name)
		s.Send(session.Out{Raw: []byte(raw), Final: true})
	}}}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func nowhere(t testing.TB) *Server {
	t.Helper()
	s, err := NewNowhere(Options{Loopback: true, AllowedHosts: []string{"a.example", "b.example:8443"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func at(path string) func(*Options) { return func(o *Options) { o.Path = path } }

// TestFront_Choice: who gets a request, by its path, host and headers.
func TestFront_Choice(t *testing.T) {
	hosts := func(path string) func(*Options) {
		return func(o *Options) { o.Path, o.AllowedHosts = path, []string{"a.example", "b.example"} }
	}
	endpoints := []Endpoint{
		{Name: "plain", Server: named(t, "plain", func(o *Options) { o.Path, o.SSEPath = "/mcp", "/sse" })},
		{Name: "deep", Server: named(t, "deep", func(o *Options) { o.Path, o.SSEPath = "/mcp/deep", "/mcp/sse" })},
		{Name: "host", Server: named(t, "host", hosts("/mcp")), Hosts: []string{"A.example."}},
		{Name: "port", Server: named(t, "port", hosts("/mcp")), Hosts: []string{"a.example:8443"}},
		{Name: "header", Server: named(t, "header", hosts("/mcp")), Hosts: []string{"a.example"}, Header: map[string]string{"x-team": "red"}},
		{Name: "two", Server: named(t, "two", hosts("/mcp")), Hosts: []string{"a.example"}, Header: map[string]string{"x-team": "red", "X-Ring": "1"}},
		{Name: "six", Server: named(t, "six", hosts("/six")), Hosts: []string{"[::1]"}},
		{Name: "team", Server: named(t, "team", at("/team")), Header: map[string]string{"X-Team": "red"}},
	}
	f := NewFront(FrontOptions{})
	if err := f.Set(endpoints, nowhere(t)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, host, lines, want string }{
		{"/mcp", "localhost", "", "plain"},
		{"/mcp/", "localhost", "", "plain"},
		{"/mcp//", "localhost", "", "404"},
		{"/mcp/deep", "localhost", "", "deep"},
		{"/mcp/deep/", "localhost", "", "deep"},
		{"/mcp/deeper", "localhost", "", "404"},
		{"/MCP", "localhost", "", "404"},
		{"/", "localhost", "", "404"},
		{"/mc", "localhost", "", "404"},
		{"/mcp", "a.example", "", "host"},
		{"/mcp/", "A.EXAMPLE.:80", "", "host"},
		{"/mcp", "a.example:8443", "", "port"},
		{"/mcp", "a.example:8443", "X-Team: red", "port"},
		{"/mcp", "a.example", "X-Team: red", "header"},
		{"/mcp", "a.example", "X-Team: blue", "host"},
		// Two hops could read two lines differently: not the route below, either.
		{"/mcp", "a.example", "X-Team: red\nX-Team: red", "400"},
		{"/mcp", "a.example", "X-Team: blue\nX-Team: red", "400"},
		{"/mcp", "a.example", "X-Team: red\nX-Ring: 1\nX-Ring: 1", "400"},
		{"/mcp", "localhost", "X-Team: red\nX-Team: red", "plain"},
		{"/mcp", "a.example", "X-Team: red\nX-Ring: 1", "two"},
		{"/mcp", "a.example", "X-Team: red\nX-Ring: 2", "header"},
		{"/mcp", "xa.example", "", "403"},
		{"/mcp/deep", "a.example", "", "403"}, // the route itself knows no such host
		{"/six", "[::1]:8080", "", "six"},
		{"/six", "[0:0:0:0:0:0:0:1]:8080", "", "six"},
		{"/six", "[::1%25lo]", "", "six"},
		{"/mcp", "a.example:08443", "", "port"},
		{"/six", "localhost", "", "404"},
		{"/team", "localhost", "", "404"},
		{"/team", "localhost", "X-Team: red", "team"},
		{"/team", "localhost", "X-Team: red\x00", "404"},
	} {
		q := req("POST", ping, strings.Split(tt.lines, "\n")...)
		if tt.lines == "" {
			q = req("POST", ping)
		}
		q.URL.Path, q.Host, q.RemoteAddr = tt.path, tt.host, "127.0.0.1:1"
		if got := ask(f, q); got != tt.want {
			t.Errorf("%s at %s with %q: %s, want %s", tt.path, tt.host, tt.lines, got, tt.want)
		}
	}
}

// ask is who answers a request, or the status where nobody does.
func ask(h http.Handler, q *http.Request) string {
	w := &recorded{discard: discard{h: http.Header{}}}
	h.ServeHTTP(w, q)
	if _, rest, ok := strings.Cut(w.body.String(), `"by":"`); ok {
		by, _, _ := strings.Cut(rest, `"`)
		return by
	}
	return strconv.Itoa(w.status)
}

type recorded struct {
	discard
	status int
	body   strings.Builder
}

func (w *recorded) WriteHeader(status int)      { w.status = status }
func (w *recorded) Write(p []byte) (int, error) { return w.body.Write(p) }

// TestFront_Unknown: what no route takes is answered alike, whether there is
// one route or many.
func TestFront_Unknown(t *testing.T) {
	one, many := NewFront(FrontOptions{}), NewFront(FrontOptions{})
	a := Endpoint{Name: "a", Server: named(t, "a", at("/a"))}
	if err := errors.Join(one.Set([]Endpoint{a}, nowhere(t)), many.Set([]Endpoint{a, {Name: "b", Server: named(t, "b", at("/b"))}}, nowhere(t))); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ verb, host, origin string }{
		{"POST", "localhost", ""}, {"GET", "localhost", ""}, {"PUT", "localhost", ""},
		{"POST", "evil.example", ""}, {"POST", "localhost", "https://evil.example"},
	} {
		var got [2]string
		for i, f := range []*Front{one, many} {
			q := req(tt.verb, "")
			q.URL.Path, q.Host, q.RemoteAddr = "/elsewhere", tt.host, "127.0.0.1:1"
			if tt.origin != "" {
				q.Header.Set("Origin", tt.origin)
			}
			w := &recorded{discard: discard{h: http.Header{}}}
			f.ServeHTTP(w, q)
			got[i] = fmt.Sprint(w.status, w.h, w.body.String())
		}
		if got[0] != got[1] || !strings.HasPrefix(got[0], "40") {
			t.Errorf("%+v:\n%s\n%s", tt, got[0], got[1])
		}
	}
}

// TestFront_Metadata: each route's own document is found at its own place, and
// none at the root, which would speak for all.
func TestFront_Metadata(t *testing.T) {
	doc := func(name string) func(*Options) {
		return func(o *Options) {
			o.Path = "/" + name
			o.Other = &ResourceMetadata{Paths: []string{"/public/" + name + "%20x", "/" + name}, Fetch: func(context.Context) ([]byte, error) {
				return []byte(`{"by":"` + name + `"}`), nil
			}}
		}
	}
	f := NewFront(FrontOptions{})
	err := f.Set([]Endpoint{{Name: "a", Server: named(t, "a", doc("a"))}, {Name: "b", Server: named(t, "b", doc("b"))}, {Name: "c", Server: named(t, "c", at("/c"))}}, nowhere(t))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/a": "a", "/b": "b", "": "404", "/": "404", "/c": "404", "/public/a%20x": "a", "/public/b%20x/": "b", "/public/a x": "a", "x": "404",
	} {
		q, err := http.NewRequest("GET", "http://localhost/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if q.URL, err = q.URL.Parse(strings.ReplaceAll(wellKnownResource+path, " ", "%20")); err != nil {
			t.Fatal(err)
		}
		q.RemoteAddr = "127.0.0.1:1"
		if got := ask(f, q); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
}

func TestFront_Clash(t *testing.T) {
	f := NewFront(FrontOptions{})
	sse := func(path, sse string) func(*Options) {
		return func(o *Options) { o.Path, o.SSEPath = path, sse }
	}
	for _, tt := range []struct {
		a, b Endpoint
		want string
	}{
		{Endpoint{Server: named(t, "a", at("/x"))}, Endpoint{Server: named(t, "b", at("/x"))}, "a and b both take requests to /x"},
		{Endpoint{Server: named(t, "a", at("/x/"))}, Endpoint{Server: named(t, "b", at("/x"))}, "a and b both take requests to /x/"},
		{Endpoint{Server: named(t, "a", sse("/x", "/sse"))}, Endpoint{Server: named(t, "b", at("/message"))}, "a and b both take requests to /message"},
		{Endpoint{Server: named(t, "a", at("/x")), Hosts: []string{"h"}}, Endpoint{Server: named(t, "b", at("/x")), Hosts: []string{"g", "H."}}, "a and b both take requests to /x"},
		{Endpoint{Server: named(t, "a", at("/x")), Hosts: []string{"h"}}, Endpoint{Server: named(t, "b", at("/x")), Hosts: []string{"h:1"}}, ""},
		{Endpoint{Server: named(t, "a", at("/x")), Header: map[string]string{"x-a": "1"}}, Endpoint{Server: named(t, "b", at("/x")), Header: map[string]string{"X-A": "1"}}, "a and b both take requests to /x"},
		{Endpoint{Server: named(t, "a", at("/x")), Header: map[string]string{"x-a": "1"}}, Endpoint{Server: named(t, "b", at("/x")), Header: map[string]string{"X-A": "2"}}, ""},
	} {
		tt.a.Name, tt.b.Name = "a", "b"
		err := f.Set([]Endpoint{tt.a, tt.b}, nowhere(t))
		if err == nil && tt.want != "" || err != nil && err.Error() != tt.want {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

// TestFront_SetKeepsExchanges: a route that is taken out while it works goes on
// with what it has; a shutdown waits for that too.
func TestFront_SetKeepsExchanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := func(in session.Inbound, s *session.ClientStream) bool {
			if m := in.Frame.Msg; m == nil || m.Method != "tools/list" {
				return false
			}
			time.AfterFunc(5*time.Second, func() { echo(in, s) })
			return true
		}
		r := newRig(t, sseHub(t, slow), func(o *Options) { o.SSEPath = "/sse" })
		f := r.server.alone()
		link := r.openSSE()
		link.begin()
		call := r.start(req("POST", `{"jsonrpc":"2.0","id":4,"method":"tools/list"}`))
		get := r.start(req("GET", ""))
		synctest.Wait()
		b := named(t, "b", at("/b"))
		next, err := New(Options{Hub: r.hub, Loopback: true, SSEPath: "/sse", Follows: r.server, Path: "/moved"})
		if err != nil {
			t.Fatal(err)
		}
		if next.o.Follows != nil {
			t.Error("a server holds the one before it, and that the one before")
		}
		if err := f.Set([]Endpoint{{Name: "b", Server: b}, {Name: "moved", Server: next}}, nowhere(t)); err != nil {
			t.Fatal(err)
		}
		if got := r.post(ping); got.status != 404 {
			t.Errorf("the route that was taken out: %+v", got)
		}
		// The client of HTTP+SSE stays with its stream.
		if got := link.post(`{"jsonrpc":"2.0","id":5,"method":"tools/list"}`); got.status != 202 {
			t.Errorf("a client of HTTP+SSE: %+v", got)
		}
		down := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			down <- f.Shutdown(ctx)
		}()
		synctest.Wait()
		if f.Ready() || b.Ready() || next.Ready() || r.server.Ready() {
			t.Error("still ready")
		}
		if err := f.Set([]Endpoint{{Name: "late", Server: named(t, "late", at("/late"))}}, nowhere(t)); err != nil {
			t.Fatal(err)
		}
		q := req("POST", ping)
		q.URL.Path = "/late"
		if got := r.do(q); got.status != statusOf(translate.CondDraining, translate.Legacy) {
			t.Errorf("a route that comes during the shutdown: %+v", got)
		}
		if got := <-get; got.status != 200 {
			t.Errorf("GET: %+v", got)
		}
		if got := <-call; got.status != 200 || !strings.Contains(got.body, string(result("4"))) {
			t.Errorf("call: %+v", got)
		}
		if got := link.next(); got != string(result("5")) {
			t.Errorf("over HTTP+SSE: %s", got)
		}
		if err := <-down; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// TestFront_SharedBounds: connections count together, whichever route they are
// for.
func TestFront_SharedBounds(t *testing.T) {
	s := NewShared(nil, 1<<20)
	if !s.addSocket(1) || s.addSocket(1) || !s.addLink(2) || !s.addLink(2) || s.addLink(2) {
		t.Error("bounds are not kept")
	}
	s.dropSocket()
	s.dropLink()
	if !s.addSocket(1) || !s.addLink(2) {
		t.Error("what is given back is not there")
	}
}

// BenchmarkTable is the part of BenchmarkFront that knows of the number of
// routes.
func BenchmarkTable(b *testing.B) {
	for _, by := range []string{"path", "host", "header"} {
		b.Run(by, func(b *testing.B) {
			f, q := manyRoutes(b, 1000, by)
			t := f.table.Load()
			b.ReportAllocs()
			for b.Loop() {
				if s, _ := t.find(q); s == t.unknown {
					b.Fatal("no route")
				}
			}
		})
	}
}

// BenchmarkFront is the ordinary call where one listener serves many routes:
// with a thousand it is to cost at most 5 % more than with one.
func BenchmarkFront(b *testing.B) {
	for _, n := range []int{1, 1000} {
		for _, by := range []string{"path", "host", "header"} {
			if n == 1 && by != "path" {
				continue
			}
			b.Run(fmt.Sprintf("%s-%d", by, n), func(b *testing.B) { benchFront(b, n, by) })
		}
	}
}

func benchFront(b *testing.B, n int, by string) {
	f, q := manyRoutes(b, n, by)
	body := strings.NewReader("")
	q.Body = nopCloser{body}
	w := &discard{h: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		body.Reset(modernList)
		clear(w.h)
		f.ServeHTTP(w, q)
	}
}

// manyRoutes is a front and a request for the last of its routes, which are told
// apart by one thing.
func manyRoutes(b *testing.B, n int, by string) (*Front, *http.Request) {
	b.Helper()
	f, shared := NewFront(FrontOptions{}), NewShared(nil, 1<<20)
	q := req("POST", modernList, modernLines...)
	var endpoints []Endpoint
	for i := range n {
		o, e := Options{Hub: &benchHub{}, Path: "/mcp", Shared: shared}, Endpoint{Name: strconv.Itoa(i)}
		switch by {
		case "path":
			o.Path = fmt.Sprintf("/team-%d/mcp", i)
		case "host":
			q.Host = fmt.Sprintf("team-%d.example", i)
			e.Hosts = []string{q.Host}
		case "header":
			q.Header.Set("X-Team", e.Name)
			e.Header = map[string]string{"X-Team": e.Name}
		}
		q.RemoteAddr, q.URL.Path = "127.0.0.1:1", o.Path
		var err error
		if e.Server, err = New(o); err != nil {
			b.Fatal(err)
		}
		endpoints = append(endpoints, e)
	}
	if err := f.Set(endpoints, nowhere(b)); err != nil {
		b.Fatal(err)
	}
	return f, q
}
