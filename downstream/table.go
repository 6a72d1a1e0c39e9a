package downstream

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Endpoint is a Server and which requests are for it: those to its paths that
// also name one of Hosts and bring every header of Header.
type Endpoint struct {
	Name   string // for errors
	Server *Server
	// Hosts are names or addresses, with or without a port; none: any.
	Hosts []string
	// Header has the value each named header must have, as its only line.
	Header map[string]string
}

// table finds the server of a request. Paths are compared whole, so that of two
// never both fit; of hosts, one with a port is looked for first, then one
// without, then endpoints that take any; of those on one host, the ones that
// ask for most headers come first. Every step is a look into a map, however
// many endpoints there are.
type table struct {
	sole    *Server // takes whatever comes
	unknown *Server // takes what is left over
	paths   map[string]*pathHosts
	servers []*Server // all of them
}

type pathHosts struct {
	named map[string]*hostSlot // by hostKey
	any   *hostSlot            // nil: none
}

// hostSlot are the endpoints at one path of one host.
type hostSlot struct {
	by    []*headerSlot // most names first
	plain *Server       // that asks for no header; nil: none
}

// headerSlot are those that ask for the same headers, by the values they want.
type headerSlot struct {
	names  []string
	values map[string]*Server
}

// newTable has a sole endpoint without conditions take everything: it answers
// other paths itself.
func newTable(endpoints []Endpoint, unknown *Server) (*table, error) {
	t := &table{unknown: unknown, paths: map[string]*pathHosts{}}
	for _, e := range endpoints {
		t.servers = append(t.servers, e.Server)
	}
	if len(endpoints) == 1 && len(endpoints[0].Hosts) == 0 && len(endpoints[0].Header) == 0 {
		t.sole = endpoints[0].Server
		return t, nil
	}
	t.servers = append(t.servers, unknown)
	names := map[*Server]string{}
	for _, e := range endpoints {
		names[e.Server] = e.Name
		for _, path := range e.Server.paths() {
			if was := t.add(path, e); was != nil {
				return nil, fmt.Errorf("%s and %s both take requests to %s", names[was], e.Name, path)
			}
		}
	}
	return t, nil
}

// paths are those a server answers, as requests name them.
func (s *Server) paths() []string {
	list := []string{s.o.Path, s.o.Path + "/"}
	if s.links.stream != "" {
		list = append(list, s.links.stream, s.links.stream+"/", s.links.message)
	}
	if m, ok := s.o.Other.(*ResourceMetadata); ok {
		list = append(list, m.places()...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// add gives a path to an endpoint; it returns the server that has it already.
func (t *table) add(path string, e Endpoint) (was *Server) {
	p := t.paths[path]
	if p == nil {
		p = &pathHosts{named: map[string]*hostSlot{}}
		t.paths[path] = p
	}
	if len(e.Hosts) == 0 {
		if p.any == nil {
			p.any = &hostSlot{}
		}
		return p.any.add(e)
	}
	for _, h := range e.Hosts {
		name, port, _ := splitHost(h)
		key := hostKey(name, port)
		slot := p.named[key]
		if slot == nil {
			slot = &hostSlot{}
			p.named[key] = slot
		}
		if was = slot.add(e); was != nil {
			return was
		}
	}
	return nil
}

func (h *hostSlot) add(e Endpoint) (was *Server) {
	if len(e.Header) == 0 {
		if h.plain == nil {
			h.plain = e.Server
			return nil
		}
		return h.plain
	}
	want := map[string]string{}
	for name, value := range e.Header {
		want[http.CanonicalHeaderKey(name)] = value
	}
	names := slices.Sorted(maps.Keys(want))
	i := slices.IndexFunc(h.by, func(s *headerSlot) bool { return slices.Equal(s.names, names) })
	if i < 0 {
		i = slices.IndexFunc(h.by, func(s *headerSlot) bool { return len(s.names) < len(names) })
		if i < 0 {
			i = len(h.by)
		}
		h.by = slices.Insert(h.by, i, &headerSlot{names: names, values: map[string]*Server{}})
	}
	var key strings.Builder
	for _, name := range names {
		key.WriteString(want[name] + headerEnd)
	}
	if was = h.by[i].values[key.String()]; was == nil {
		h.by[i].values[key.String()] = e.Server
	}
	return was
}

// headerEnd cannot stand in a header's value (RFC 9110 section 5.5).
const headerEnd = "\x00"

// find is never nil once there is a table. twice is the header by which routes
// differ here and which the request has on two lines: it is for none of them,
// since whoever stands before us may have led it by another line.
func (t *table) find(r *http.Request) (s *Server, twice string) {
	if t.sole != nil {
		return t.sole, ""
	}
	path := r.URL.Path
	if strings.HasPrefix(path, wellKnownResource) {
		path = strings.TrimSuffix(r.URL.EscapedPath(), "/")
	}
	p := t.paths[path]
	if p == nil {
		return t.unknown, ""
	}
	if len(p.named) > 0 {
		s, twice = p.find(r)
	}
	if s == nil && twice == "" && p.any != nil {
		s, twice = p.any.find(r.Header)
	}
	if s == nil {
		s = t.unknown
	}
	return s, twice
}

func (p *pathHosts) find(r *http.Request) (s *Server, twice string) {
	name, port, ok := splitHost(r.Host)
	if !ok {
		return nil, ""
	}
	if port != "" {
		if slot := p.named[hostKey(name, port)]; slot != nil {
			if s, twice = slot.find(r.Header); s != nil || twice != "" {
				return s, twice
			}
		}
	}
	if slot := p.named[hostKey(name, "")]; slot != nil {
		return slot.find(r.Header)
	}
	return nil, ""
}

func (h *hostSlot) find(header http.Header) (s *Server, twice string) {
	for _, by := range h.by {
		if s, twice = by.find(header); s != nil || twice != "" {
			return s, twice
		}
	}
	return h.plain, ""
}

func (b *headerSlot) find(header http.Header) (s *Server, twice string) {
	var room [128]byte
	key, all := room[:0], true
	for _, name := range b.names {
		switch lines := header[name]; len(lines) {
		case 0:
			all = false
		case 1:
			key = append(append(key, lines[0]...), headerEnd...)
		default:
			return nil, name
		}
	}
	if !all {
		return nil, ""
	}
	return b.values[string(key)], ""
}
