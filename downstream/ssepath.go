package downstream

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// headerPrefix is where a front end says which part of the path it removed.
const headerPrefix = "X-Forwarded-Prefix"

// messagePath is where clients of HTTP+SSE post to: beside their stream.
func messagePath(ssePath string) string { return path.Join(path.Dir(ssePath), "message") }

// CheckSSEPath says what is wrong with Options.SSEPath beside an endpoint at mcp.
func CheckSSEPath(ssePath, mcp string) error {
	switch {
	case ssePath == "":
		return nil
	case !strings.HasPrefix(ssePath, "/") || ssePath == "/" || strings.ContainsAny(ssePath, `?#%\ `) || path.Clean(ssePath) != ssePath:
		return fmt.Errorf("SSE path %q: must begin with / and have a last part, and no query, escape or blank", ssePath)
	case ssePath == mcp || messagePath(ssePath) == mcp || messagePath(ssePath) == ssePath:
		return fmt.Errorf("SSE path %q: it and %q beside it must differ from each other and from the endpoint's %q", ssePath, messagePath(ssePath), mcp)
	}
	return nil
}

// announced is what the endpoint event says (2024-11-05 basic/transports, HTTP
// with SSE): where to post, and as which session. Relative to the stream's own
// address it is right behind whatever prefix a front end adds; some clients
// know only host and path, so where the prefix is known it is a path.
func (l *links) announced(r *http.Request, id string) string {
	query := "?" + sessionParam + "=" + id
	if prefix, known := l.prefixOf(r); known {
		return prefix + l.message + query
	}
	if strings.HasSuffix(r.URL.Path, "/") {
		return "../" + path.Base(l.message) + query
	}
	return path.Base(l.message) + query
}

// prefixOf is the part of the public path that does not arrive here: as the
// configuration says it, else as a trusted front end does.
func (l *links) prefixOf(r *http.Request) (prefix string, known bool) {
	if l.prefixKnown {
		return l.prefix, true
	}
	lines := r.Header[headerPrefix]
	if len(lines) != 1 || !trusted(remoteAddr(r), l.trusted) {
		return "", false
	}
	prefix = strings.TrimSuffix(lines[0], "/")
	return prefix, cleanPrefix(prefix)
}

// cleanPrefix: a path and nothing that a client could read as more.
func cleanPrefix(p string) bool {
	if p == "" {
		return true
	}
	u, err := url.Parse(p)
	return err == nil && len(p) <= 1<<10 && strings.HasPrefix(p, "/") && path.Clean(p) == p && u.EscapedPath() == p &&
		!strings.ContainsFunc(p, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '\\' })
}

// publicPrefix is what the public URL has before the endpoint's own path.
func publicPrefix(publicURL, mcp string) (prefix string, known bool) {
	u, err := url.Parse(publicURL)
	if err != nil || publicURL == "" {
		return "", false
	}
	prefix, known = strings.CutSuffix(strings.TrimSuffix(u.EscapedPath(), "/"), strings.TrimSuffix(mcp, "/"))
	return prefix, known && cleanPrefix(prefix)
}

func trusted(a netip.Addr, list []netip.Prefix) bool {
	a = a.Unmap().WithZone("")
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
