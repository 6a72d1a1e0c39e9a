package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"taskbridge/translate/jsonrpc"
)

const (
	wellKnownResource = "/.well-known/oauth-protected-resource"
	maxMetadata       = 64 << 10
)

// ErrNoMetadata: the server publishes no protected resource metadata.
var ErrNoMetadata = errors.New("the server has no protected resource metadata")

// ResourceMetadata fetches the protected resource metadata of an upstream and
// returns it with resource as its `resource` (RFC 9728 section 3). It asks the
// upstream's own origin only, at the place made from its path and then at the
// root, without credentials and without following redirects; a document over
// 64 KiB, of another resource, or that is no JSON object is an error.
// ErrNoMetadata: both places answer 404.
func (h *HTTP) ResourceMetadata(ctx context.Context, upstream, resource string) ([]byte, error) {
	e := h.upstreams[upstream]
	if e == nil {
		return nil, fmt.Errorf("no upstream %q is configured", upstream)
	}
	places := []string{wellKnownResource + strings.TrimSuffix(e.url.EscapedPath(), "/"), wellKnownResource}
	if places[0] == places[1] {
		places = places[1:]
	}
	for _, place := range places {
		at, err := (&url.URL{Scheme: e.url.Scheme, Host: e.url.Host}).Parse(place)
		if err != nil {
			return nil, err
		}
		raw, err := h.fetchMetadata(ctx, at)
		if errors.Is(err, ErrNoMetadata) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("protected resource metadata at %s: %w", shownURL(at), err)
		}
		return forResource(raw, e.url, at, resource)
	}
	return nil, ErrNoMetadata
}

func (h *HTTP) fetchMetadata(ctx context.Context, at *url.URL) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", jsonType)
	req.Header.Set("User-Agent", h.opts.UserAgent)
	resp, err := h.transport.RoundTrip(req) // follows nothing
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed:
		return nil, ErrNoMetadata
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxMetadata+1))
	if err == nil && len(raw) > maxMetadata {
		err = fmt.Errorf("over %d bytes", maxMetadata)
	}
	return raw, err
}

// forResource checks whose metadata it is and says resource in it instead.
func forResource(raw []byte, upstream, at *url.URL, resource string) ([]byte, error) {
	doc, err := jsonrpc.ParseValue(raw)
	if err != nil || doc.Type() != jsonrpc.Object {
		return nil, fmt.Errorf("protected resource metadata at %s is no JSON object", shownURL(at))
	}
	said, _ := doc.Get("resource").Str()
	u, err := url.Parse(said)
	if err != nil || !covers(u, upstream) {
		return nil, fmt.Errorf("protected resource metadata at %s is about another resource, %s", shownURL(at), quote(said, 256))
	}
	edit := doc.Edit()
	edit.Set(doc, "resource", jsonrpc.Quote(resource))
	return edit.Bytes(), nil
}

// covers says whether a resource identifier is the upstream's: its URL, or one
// above it on the same origin (RFC 9728 section 3.3; clients compare so).
func covers(resource, upstream *url.URL) bool {
	if !sameOrigin(resource, upstream) || resource.RawQuery != "" || resource.Fragment != "" || resource.User != nil {
		return false
	}
	above := strings.TrimSuffix(resource.EscapedPath(), "/")
	path := strings.TrimSuffix(upstream.EscapedPath(), "/")
	return path == above || strings.HasPrefix(path, above+"/")
}
