package downstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	wellKnownResource = "/.well-known/oauth-protected-resource"
	// metadataFor is how long a document, or its absence, is believed.
	metadataFor     = time.Minute
	metadataTimeout = 15 * time.Second
)

// MetadataURL is where the protected resource metadata of a resource is
// published (RFC 9728 section 3.1): the well-known name between its host and
// its path.
func MetadataURL(resource string) (string, error) {
	u, err := url.Parse(resource)
	if err != nil || u.Host == "" {
		return "", errors.New("want an http:// or https:// URL")
	}
	return u.Scheme + "://" + u.Host + wellKnownResource + strings.TrimSuffix(u.EscapedPath(), "/"), nil
}

// ResourceMetadata serves the protected resource metadata of the endpoint, at
// the place made from each path and at the root. Fetch returns the document;
// nil without an error: there is none.
type ResourceMetadata struct {
	Fetch  func(ctx context.Context) ([]byte, error)
	Paths  []string // of the endpoint, as clients see it and as we do
	Logger *slog.Logger

	mu    sync.Mutex // held while one request fetches for all
	doc   []byte
	until time.Time
}

var _ http.Handler = (*ResourceMetadata)(nil)

// ServeHTTP implements http.Handler: 404 for other paths and where there is
// no document, 502 where it cannot be had.
func (m *ResourceMetadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !m.serves(r.URL.EscapedPath()) {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	doc, err := m.current(r.Context())
	switch {
	case err != nil:
		m.Logger.Warn("protected resource metadata", "err", err)
		http.Error(w, "the server's protected resource metadata cannot be had; see the proxy's log", http.StatusBadGateway)
	case doc == nil:
		http.NotFound(w, r)
	default:
		h := w.Header()
		h["Content-Type"] = valJSON
		h["Content-Length"] = []string{strconv.Itoa(len(doc))}
		_, _ = w.Write(doc)
	}
}

func (m *ResourceMetadata) serves(path string) bool {
	place, ok := strings.CutPrefix(strings.TrimSuffix(path, "/"), wellKnownResource)
	if !ok {
		return false
	}
	if place == "" {
		return true
	}
	for _, p := range m.Paths {
		if place == strings.TrimSuffix(p, "/") {
			return true
		}
	}
	return false
}

// places are the paths it is served at on a listener that others share. The root
// would speak for all of them.
func (m *ResourceMetadata) places() (list []string) {
	for _, p := range m.Paths {
		list = append(list, wellKnownResource+strings.TrimSuffix(p, "/"))
	}
	return list
}

// current fetches anew at most once a minute; requests wait for the one that
// does, and what went wrong is not remembered.
func (m *ResourceMetadata) current(ctx context.Context) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().Before(m.until) {
		return m.doc, nil
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	doc, err := m.Fetch(ctx)
	if err != nil {
		return nil, err
	}
	m.doc, m.until = doc, time.Now().Add(metadataFor)
	return doc, nil
}
