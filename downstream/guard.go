package downstream

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"taskbridge/translate"
)

// GuardOptions say who may speak to a listener.
type GuardOptions struct {
	AllowedHosts   []string
	AllowedOrigins []string
	PublicURL      string
	Loopback       bool
	// RefuseOrigins refuses whatever a browser page sends, listed or not, and
	// state changes that are no POST of JSON: for the admin listener.
	RefuseOrigins bool
}

// Guard checks Host and Origin, answers preflights and sets the headers every
// reply carries. It is the defence against web pages that reach for services
// on this machine or network (2026-07-28 streamable-http, Security): a page
// can send requests anywhere, and by rebinding its own name to our address it
// becomes same-origin with us; it can forge neither Host nor Origin.
type Guard struct {
	hosts    map[string]bool // "name" or "name:port"
	anyHost  bool
	origins  map[string]bool
	loopback bool
	refuse   bool
}

// NewGuard checks the lists.
func NewGuard(o GuardOptions) (*Guard, error) {
	g := &Guard{
		hosts:    map[string]bool{},
		origins:  map[string]bool{},
		anyHost:  !o.Loopback && len(o.AllowedHosts) == 0,
		loopback: o.Loopback,
		refuse:   o.RefuseOrigins,
	}
	for _, h := range o.AllowedHosts {
		name, port, ok := splitHost(h)
		if !ok || strings.ContainsAny(h, "/@*") {
			return nil, fmt.Errorf("allowed host %q: want a name or address, with or without a port", h)
		}
		g.hosts[hostKey(name, port)] = true
	}
	if o.PublicURL != "" {
		u, err := url.Parse(o.PublicURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("public URL %q: want http(s)://HOST[:PORT]/PATH", o.PublicURL)
		}
		name, port, ok := splitHost(u.Host)
		if !ok {
			return nil, fmt.Errorf("public URL %q: its host can stand in no request; want it as it is sent, such as xn--bcher-kva.example", o.PublicURL)
		}
		g.hosts[hostKey(name, port)] = true
	}
	for _, s := range o.AllowedOrigins {
		origin, err := canonicalOrigin(s)
		if err != nil {
			return nil, err
		}
		g.origins[origin] = true
	}
	return g, nil
}

// canonicalOrigin writes an origin as browsers do (RFC 6454 section 6.2), so
// that comparing text is comparing scheme, host and port.
func canonicalOrigin(s string) (string, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" || rest == "" || strings.ContainsAny(rest, "/?#@* \t") {
		return "", fmt.Errorf("allowed origin %q: want scheme://host[:port], one origin; null and * would let every page in", s)
	}
	name, port, ok := splitHost(rest)
	if !ok {
		return "", fmt.Errorf("allowed origin %q: bad host or port", s)
	}
	scheme = strings.ToLower(scheme)
	if scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		port = ""
	}
	return scheme + "://" + hostKey(name, port), nil
}

func hostKey(name, port string) string {
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if port == "" {
		return name
	}
	return name + ":" + port
}

// splitHost takes a Host header apart: the lower-case name without brackets
// and trailing dot, an address as it is usually written, and the port, if any.
// Whatever is no host is not ok.
func splitHost(h string) (name, port string, ok bool) {
	if strings.HasPrefix(h, "[") {
		end := strings.IndexByte(h, ']')
		if end < 0 {
			return "", "", false
		}
		a, err := netip.ParseAddr(h[1:end])
		if err != nil || !a.Is6() {
			return "", "", false
		}
		// One address has many spellings; a zone means something to its sender alone.
		name, h = a.WithZone("").String(), h[end+1:]
		if h != "" && h[0] != ':' {
			return "", "", false
		}
		port = strings.TrimPrefix(h, ":")
	} else {
		name, port, _ = strings.Cut(h, ":")
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return "", "", false
		}
		port = strconv.FormatUint(n, 10)
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	// Names with other letters are sent in a form of their own (RFC 5890).
	return name, port, name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r > '~' })
}

// hostAllowed: listed, or a loopback name on a loopback listener. An address
// literal cannot be rebound, a name that only begins like one can.
func (g *Guard) hostAllowed(host string) bool {
	if g.anyHost {
		return true
	}
	name, port, ok := splitHost(host)
	if !ok {
		return false
	}
	if g.loopback && loopbackName(name) {
		return true
	}
	return g.hosts[hostKey(name, "")] || port != "" && g.hosts[hostKey(name, port)]
}

func loopbackName(name string) bool {
	if name == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.IsLoopback()
}

// originAllowed: listed exactly, or a page served from this very port of this
// machine. Another local port is another program's page.
func (g *Guard) originAllowed(origin string, r *http.Request) bool {
	if g.refuse {
		return false
	}
	if g.origins[origin] {
		return true
	}
	if !g.loopback {
		return false
	}
	scheme, host, _ := strings.Cut(origin, "://")
	port := localPort(r)
	if scheme != "http" && scheme != "https" || port == "" {
		return false
	}
	for _, name := range []string{"localhost", "127.0.0.1", "[::1]"} {
		switch host {
		case name + ":" + port:
			return true
		case name:
			return scheme == "http" && port == "80" || scheme == "https" && port == "443"
		}
	}
	return false
}

func localPort(r *http.Request) string {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if _, port, err := net.SplitHostPort(a.String()); err == nil {
			return port
		}
	}
	return ""
}

// Shared values of headers: net/http only reads them, and their capacity is
// their length, so that an added line would copy.
var (
	valNoSniff = []string{"nosniff"}
	valNoStore = []string{"no-store"}
	valOrigin  = []string{"Origin"}
	valMethods = []string{"GET, POST, DELETE"}
	valExpose  = []string{"Mcp-Session-Id, WWW-Authenticate"}
	valMaxAge  = []string{"600"}
)

const allowHeaders = "Content-Type, Authorization, Accept, Mcp-Session-Id, Mcp-Protocol-Version, Last-Event-ID, Mcp-Method, Mcp-Name"

// admit sets the standing headers and checks Host, then Origin: first who we
// are spoken to as, then who speaks. done is true when a preflight was
// answered. cond is CondNone for a request that may go on.
func (g *Guard) admit(w http.ResponseWriter, r *http.Request) (cond translate.Cond, done bool) {
	h := w.Header()
	h["X-Content-Type-Options"] = valNoSniff
	h["Cache-Control"] = valNoStore
	if !g.hostAllowed(r.Host) {
		return translate.CondBadHost, false
	}
	origins, present := r.Header["Origin"]
	if !present {
		if g.refuse {
			return plainAdmin(w, r), false
		}
		return translate.CondNone, false
	}
	h["Vary"] = valOrigin
	if len(origins) != 1 || !g.originAllowed(origins[0], r) {
		return translate.CondBadOrigin, false
	}
	// The exact echo and never "*"; no Allow-Credentials: we use no cookies,
	// and Authorization set by a script needs none (Fetch, CORS protocol).
	h["Access-Control-Allow-Origin"] = origins
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		g.preflight(w, r)
		return translate.CondNone, true
	}
	h["Access-Control-Expose-Headers"] = valExpose
	return translate.CondNone, false
}

// plainAdmin: a form on a page can POST text without Origin in old browsers,
// but never with a JSON content type without a preflight.
func plainAdmin(w http.ResponseWriter, r *http.Request) translate.Cond {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		if !isJSON(r.Header) {
			return translate.CondMediaType
		}
	default:
		w.Header()["Allow"] = []string{"GET, HEAD, POST"}
		return translate.CondVerb
	}
	return translate.CondNone
}

func (g *Guard) preflight(w http.ResponseWriter, r *http.Request) {
	var allow strings.Builder
	allow.WriteString(allowHeaders)
	for _, line := range r.Header["Access-Control-Request-Headers"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if strings.HasPrefix(name, translate.HeaderParamPrefix) && isToken(name) {
				allow.WriteString(", " + name)
			}
		}
	}
	h := w.Header()
	h["Access-Control-Allow-Methods"] = valMethods
	h["Access-Control-Allow-Headers"] = []string{allow.String()}
	h["Access-Control-Max-Age"] = valMaxAge
	w.WriteHeader(http.StatusOK)
}

func isToken(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c))
	})
}

// Handler guards another listener's handler. refuse answers what may not go on,
// in that listener's own form.
func (g *Guard) Handler(next http.Handler, refuse func(w http.ResponseWriter, status int, why string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cond, done := g.admit(w, r)
		switch {
		case cond != translate.CondNone:
			status, _ := translate.StatusOf(cond, translate.EraUnknown)
			refuse(w, status, string(cond))
		case !done:
			next.ServeHTTP(w, r)
		}
	})
}
