package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"taskbridge/downstream"
	"taskbridge/session"
)

// adminOptions are what the admin server is made of.
type adminOptions struct {
	// unready says why no new work is taken, or "". What it says has no names, no
	// ids and no URLs: it is told without a token.
	unready func() string
	metrics *metrics
	log     *slog.Logger
	// local: it listens on a loopback address or a Unix socket, so whoever asks
	// as another host is a page of a browser.
	local bool
	// token, if there is one, is wanted for all but health and readiness.
	token string
}

// at adds where it listens.
func (o adminOptions) at(p *adminPlace) adminOptions {
	if p != nil {
		o.local, o.token = p.local, p.token
	}
	return o
}

// adminServer is the HTTP API of the admin address. Answers but those of
// /healthz, /readyz and /metrics are JSON; so are errors, as
// {"error":{"code","message"}}.
//
//	m := newAdmin(o)
//	m.get("/status", func(r *http.Request) (any, error) { … })
//	m.post("/drain", func(r *http.Request, body []byte) (any, error) { … })
//
// Handlers run at the same time as each other. An error made with adminErrorf
// has its own status, another is 500.
type adminServer struct {
	mux   *http.ServeMux
	o     adminOptions
	conns *connCap
	token atomic.Pointer[[sha256.Size]byte] // hash of the token; nil: none is wanted
}

// setToken changes the token that is wanted; never from or to none.
func (m *adminServer) setToken(token string) {
	// Hashed, so that not even its length is told by the time a comparison takes.
	sum := sha256.Sum256([]byte(token))
	m.token.Store(&sum)
}

// maxAdminBody bounds what a state change brings with it.
const maxAdminBody = 64 << 10

func newAdmin(o adminOptions) *adminServer {
	m := &adminServer{mux: http.NewServeMux(), o: o, conns: newConnCap(maxAdminConns)}
	if o.token != "" {
		m.setToken(o.token)
	}
	m.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok\n") })
	m.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := o.unready(); why != "" {
			say(w, http.StatusServiceUnavailable, why+"\n")
			return
		}
		say(w, http.StatusOK, "ready\n")
	})
	m.mux.Handle("GET /metrics", o.metrics.handler(o.log))
	return m
}

// get adds something to look at.
func (m *adminServer) get(path string, h func(r *http.Request) (any, error)) {
	m.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		v, err := h(r)
		m.answer(w, v, err)
	})
}

// post adds a change of state. body is JSON, an object where nothing was sent.
func (m *adminServer) post(path string, h func(r *http.Request, body []byte) (any, error)) {
	m.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminBody))
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			m.answer(w, nil, adminErrorf(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxAdminBody))
			return
		}
		if len(body) == 0 {
			body = []byte("{}")
		}
		if err != nil || !json.Valid(body) {
			m.answer(w, nil, adminErrorf(http.StatusBadRequest, "the body is no JSON"))
			return
		}
		m.o.log.Info("admin", "what", path)
		v, err := h(r, body)
		m.answer(w, v, err)
	})
}

// adminError is what the admin API says of a request it refuses.
type adminError struct {
	status  int
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *adminError) Error() string { return e.Message }

// adminErrorf is an error with a status: 400 what was asked makes no sense, 404
// there is nothing of that name, 409 it cannot be done now.
func adminErrorf(status int, format string, args ...any) error {
	code := map[int]string{
		http.StatusBadRequest: "bad_request", http.StatusUnauthorized: "unauthorized", http.StatusNotFound: "not_found", http.StatusConflict: "conflict",
		http.StatusRequestEntityTooLarge: "too_large", http.StatusForbidden: "forbidden", http.StatusMethodNotAllowed: "method_not_allowed",
		http.StatusUnsupportedMediaType: "unsupported_media_type",
	}[status]
	if code == "" {
		code = "failed"
	}
	return &adminError{status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

func (m *adminServer) answer(w http.ResponseWriter, v any, err error) {
	status := http.StatusOK
	if err != nil {
		e, ok := errors.AsType[*adminError](err)
		if !ok {
			m.o.log.Error("admin", "err", err)
			e = &adminError{http.StatusInternalServerError, "failed", err.Error()}
		}
		v, status = map[string]*adminError{"error": e}, e.status
	}
	raw, err := json.Marshal(v)
	if err != nil {
		m.o.log.Error("admin", "err", err)
		raw, status = []byte(`{"error":{"code":"failed","message":"the answer cannot be shown"}}`), http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n'))
}

// server is the HTTP server with its rules before it, in this order: who it is
// spoken to as and by whom (a page of a browser is kept out, whatever it
// knows), then the token.
func (m *adminServer) server() (*http.Server, error) {
	guard, err := downstream.NewGuard(downstream.GuardOptions{Loopback: m.o.local, RefuseOrigins: true})
	if err != nil {
		return nil, err
	}
	return &http.Server{
		Handler: guard.Handler(m.known(http.HandlerFunc(m.lead)), func(w http.ResponseWriter, status int, why string) {
			m.answer(w, nil, adminErrorf(status, "%s", why))
		}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ConnState:         m.conns.state,
		ErrorLog:          slog.NewLogLogger(m.o.log.Handler(), slog.LevelDebug),
	}, nil
}

// lead finds what answers a request; that there is nothing is said as all else is.
func (m *adminServer) lead(w http.ResponseWriter, r *http.Request) {
	h, pattern := m.mux.Handler(r)
	if pattern != "" {
		m.mux.ServeHTTP(w, r)
		return
	}
	none := statusOnly{ResponseWriter: w, status: http.StatusNotFound}
	h.ServeHTTP(&none, r) // it may say in a header which methods there are
	if none.status == http.StatusNotFound {
		m.answer(w, nil, &adminError{none.status, noSuchPath, "there is no such path"})
		return
	}
	m.answer(w, nil, adminErrorf(none.status, "%s", strings.ToLower(http.StatusText(none.status))))
}

// noSuchPath is the code of a path that is not there, as against a name.
const noSuchPath = "no_such_path"

// statusOnly keeps an answer's status and headers, for another body.
type statusOnly struct {
	http.ResponseWriter
	status int
}

func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }

// queryOf reads a request's query, which has the named parameters alone, each
// once at most: one that is misspelt would be taken for not given.
func queryOf(r *http.Request, names ...string) (map[string]string, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, adminErrorf(http.StatusBadRequest, "the query cannot be read")
	}
	out := map[string]string{}
	for name, values := range q {
		if !slices.Contains(names, name) {
			return nil, adminErrorf(http.StatusBadRequest, "there is no parameter %q; there is %s", session.Shown(name), strings.Join(names, ", "))
		}
		if len(values) > 1 {
			return nil, adminErrorf(http.StatusBadRequest, "%s is given twice", name)
		}
		out[name] = values[0]
	}
	return out, nil
}

// known lets those through who have the token, and everybody to what says
// nothing of anybody.
func (m *adminServer) known(next http.Handler) http.Handler {
	if m.token.Load() == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth := r.Header["Authorization"]
		if r.URL.Path != "/healthz" && r.URL.Path != "/readyz" {
			token, ok := "", false
			if len(auth) == 1 {
				scheme, rest, _ := strings.Cut(auth[0], " ")
				token, ok = strings.TrimSpace(rest), strings.EqualFold(scheme, "Bearer")
			}
			got, want := sha256.Sum256([]byte(token)), m.token.Load()
			if subtle.ConstantTimeCompare(got[:], want[:]) != 1 || !ok {
				w.Header().Set("WWW-Authenticate", "Bearer")
				m.answer(w, nil, adminErrorf(http.StatusUnauthorized, "this needs the admin token"))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}
