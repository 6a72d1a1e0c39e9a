package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"taskbridge/session"
)

// Defaults of HTTPOptions.
const (
	DefaultConnectTimeout = 10 * time.Second
	DefaultMaxMessage     = 64 << 20
	maxMaxMessage         = 1 << 30 // spans of decoded messages are 32-bit offsets
)

const (
	// maxResponseHeader bounds the header of a response and of all 1xx
	// responses before it, so that a flood of them ends (net/http counts them
	// together). Go's own default is 10 MiB.
	maxResponseHeader = 256 << 10
	idleConns         = 1024
	idleConnsPerHost  = 256
	// idleConnTimeout is under the five seconds after which the servers of Node and
	// uvicorn, most of those there are, close an idle connection: a request that
	// meets that moment breaks, and one that may have run is not sent again.
	idleConnTimeout = 4 * time.Second
	// pings find HTTP/2 connections that died quietly under a long stream.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// HTTPUpstream is one server spoken to over Streamable HTTP.
type HTTPUpstream struct {
	// URL is the MCP endpoint, http or https (required). User and password in
	// it become an Authorization header and are shown nowhere.
	URL string
	// Header is sent with every request to this upstream and to no other. An
	// Authorization here is the only one sent. It may replace User-Agent and
	// Host; headers of the protocol and of the connection are refused.
	Header http.Header
	// Transport is how the URL is spoken to. With TransportSSE it is that of the
	// event stream.
	Transport Transport
	// MessageURL, if set, is where messages over HTTP+SSE go, whatever place the
	// server announces; only the query announced, which names the session, is
	// added to it.
	MessageURL string
}

// HTTPOptions configures NewHTTP.
type HTTPOptions struct {
	// Upstreams by name (at least one).
	Upstreams map[string]HTTPUpstream
	// RootCAs replaces the system's authorities; nil means the system's.
	RootCAs *x509.CertPool
	// ConnectTimeout bounds connecting and the TLS handshake, each (0: 10 s).
	// Answers may take as long as their context allows: a tool call has no
	// natural bound.
	ConnectTimeout time.Duration
	// MaxMessage bounds one message after decompression (0: 64 MiB).
	MaxMessage int
	// Budget, if set, is drawn on by messages over 64 KiB: the declared length
	// before the body is read, else as bytes arrive, in steps of 256 KiB. What
	// was drawn is given back when the reader comes for the next frame or
	// closes the stream, whichever is first: by then it has taken the message
	// over.
	Budget *session.Budget
	// Logger: nil discards.
	Logger *slog.Logger
	// Tap, if set, sees every frame on the server leg.
	Tap session.Tap
	// UserAgent is sent where an upstream has none of its own ("taskbridge").
	UserAgent string
	// DialContext replaces the dialer of TCP connections, for tests; the
	// environment's proxy is not asked then.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
}

// HTTP is a session.Dialer for servers behind Streamable HTTP (2025-03-26 and
// later). Connections to one upstream share a pool of sockets; nothing else
// is shared between two targets. Safe for concurrent use.
type HTTP struct {
	opts      HTTPOptions
	log       *slog.Logger
	transport *http.Transport
	upstreams map[string]*endpoint
	sse       map[string]*sseUpstream // those that may speak HTTP+SSE
	cookies   *cookieStore
	streams   atomic.Int64 // numbers streams

	mu     sync.Mutex     // protects closed and adding to drains
	closed bool           // by Close
	drains sync.WaitGroup // bodies being drained after their stream was closed
}

var _ session.Dialer = (*HTTP)(nil)

// endpoint is one upstream as requests need it. Read only.
type endpoint struct {
	name   string
	url    *url.URL
	shown  string // url without user, password and query: for people
	host   string // Host to send, empty: url's
	header http.Header
	auth   bool // header has an Authorization
}

// NewHTTP checks o and returns a dialer. It opens no connection.
func NewHTTP(o HTTPOptions) (*HTTP, error) {
	if len(o.Upstreams) == 0 {
		return nil, errors.New("no upstream given; name one with its URL")
	}
	if o.MaxMessage < 0 || o.MaxMessage > maxMaxMessage {
		return nil, fmt.Errorf("message limit %d is out of range; give 1 to %d bytes", o.MaxMessage, maxMaxMessage)
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = DefaultMaxMessage
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	if o.UserAgent == "" {
		o.UserAgent = "taskbridge"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h := &HTTP{
		opts:      o,
		log:       o.Logger,
		transport: newTransport(o),
		upstreams: make(map[string]*endpoint, len(o.Upstreams)),
		sse:       make(map[string]*sseUpstream, len(o.Upstreams)),
		cookies:   newCookieStore(),
	}
	for _, name := range slices.Sorted(maps.Keys(o.Upstreams)) {
		e, err := newEndpoint(name, o.Upstreams[name], o.UserAgent)
		if err != nil {
			return nil, fmt.Errorf("upstream %q: %w", name, err)
		}
		h.upstreams[name] = e
		if o.Upstreams[name].Transport == TransportHTTP {
			continue
		}
		if h.sse[name], err = newSSEUpstream(h, e, o.Upstreams[name]); err != nil {
			return nil, fmt.Errorf("upstream %q: %w", name, err)
		}
	}
	return h, nil
}

func newTransport(o HTTPOptions) *http.Transport {
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: o.ConnectTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    o.ConnectTimeout,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // body.go decodes, so that limits count decoded bytes
		MaxIdleConns:           idleConns,
		MaxIdleConnsPerHost:    idleConnsPerHost,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	if o.DialContext != nil {
		t.DialContext, t.Proxy = o.DialContext, nil
	}
	return t
}

// newEndpoint never quotes the URL in an error: it may hold a secret.
func newEndpoint(name string, up HTTPUpstream, userAgent string) (*endpoint, error) {
	u, err := url.Parse(up.URL)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return nil, fmt.Errorf("parse URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("URL scheme %q is not served here; give an http:// or https:// URL", u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, errors.New("URL names no host; give it as https://HOST/PATH")
	}
	e := &endpoint{name: name, header: make(http.Header, len(up.Header)+1)}
	e.header.Set("User-Agent", userAgent)
	if u.User != nil {
		pass, _ := u.User.Password()
		e.header.Set("Authorization", basicAuth(u.User.Username(), pass))
		u.User = nil
	}
	u.Fragment, u.RawFragment = "", ""
	e.url, e.shown = u, shownURL(u)
	for name, values := range up.Header {
		if err := e.setOwn(http.CanonicalHeaderKey(name), values); err != nil {
			return nil, err
		}
	}
	e.auth = e.header["Authorization"] != nil
	return e, nil
}

// shownURL is u as logs and errors may show it: user, password and query can
// hold secrets.
func shownURL(u *url.URL) string {
	return strings.ToLower(u.Scheme) + "://" + u.Host + u.EscapedPath()
}

// Dial returns a connection for target. It opens no socket, so it is cheap
// enough for one a request.
func (h *HTTP) Dial(_ context.Context, target session.Target) (session.Conn, error) {
	e := h.upstreams[target.Upstream]
	if e == nil {
		return nil, &session.DialError{
			Fail:     session.FailUnreachable,
			Upstream: target.Upstream,
			Err:      errors.New("no upstream of this name is configured"),
		}
	}
	return &httpConn{h: h, e: e, target: target}, nil
}

// Close ends sessions over HTTP+SSE, closes idle sockets and waits for bodies
// that are being drained, which is short. Streams that are still open go on until they are closed or their
// contexts end.
func (h *HTTP) Close() error {
	for _, u := range h.sse {
		u.links.Close()
		u.h.drain()
	}
	h.drain()
	h.transport.CloseIdleConnections()
	return nil
}

// drain waits for bodies that are being drained.
func (h *HTTP) drain() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.drains.Wait()
}

// background runs f, which must be short, in a goroutine Close waits for.
func (h *HTTP) background(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed { // nobody waits any more, and no socket needs saving
		go f()
		return
	}
	h.drains.Go(f)
}

// httpConn is the connection of one target. Over HTTP each message is an
// exchange of its own, so ids pass as they are and the conn only knows which
// streams are open.
type httpConn struct {
	h      *HTTP
	e      *endpoint
	target session.Target
	jar    string // whose cookies go along, if not those of the message's session
	shown  func() // called just before a message is sent; nil: the tap is shown it

	mu     sync.Mutex // protects the fields below
	open   []*stream  // each at its index
	closed bool
}

var _ session.Conn = (*httpConn)(nil)

// Do sends one message; see session.Conn.
func (c *httpConn) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	if u := c.h.sse[c.e.name]; u != nil {
		return u.do(ctx, c, out)
	}
	return c.exchange(ctx, out)
}

// exchange is one request over HTTP.
func (c *httpConn) exchange(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	s, err := c.newStream(ctx, out)
	if err != nil {
		return nil, err
	}
	resp, err := c.h.send(s, out)
	if err != nil {
		s.release(err)
		return nil, err
	}
	if err := s.begin(resp); err != nil {
		return nil, err
	}
	return s, nil
}

func (c *httpConn) newStream(ctx context.Context, out session.Outgoing) (*stream, error) {
	s := &stream{h: c.h, c: c, e: c.e, sent: out, id: c.h.nextID()}
	s.meter = meter{budget: c.h.opts.Budget, max: int64(c.h.opts.MaxMessage)}
	s.trace.GotConn = func(httptrace.GotConnInfo) { s.reached.Store(true) }
	if c.h.opts.Tap != nil || c.shown != nil {
		var once sync.Once // a redirect, or a stale connection, has it sent again
		s.trace.WroteHeaders = func() { once.Do(func() { s.showSent(out) }) }
	}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.ctx = httptrace.WithClientTrace(s.ctx, &s.trace)
	c.mu.Lock()
	defer c.mu.Unlock()
	err := context.Cause(ctx)
	if c.closed {
		err = ErrClosed
	}
	if err != nil {
		s.cancel(err)
		return nil, c.e.fail(session.FailUnreachable, err)
	}
	s.index = len(c.open)
	c.open = append(c.open, s)
	s.mu.Lock() // shut, which may begin at once, waits for it
	s.forget = context.AfterFunc(ctx, func() { s.shut(context.Cause(ctx)) })
	s.mu.Unlock()
	return s, nil
}

func (c *httpConn) forget(s *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.open) - 1
	c.open[s.index] = c.open[last]
	c.open[s.index].index = s.index
	c.open[last] = nil
	c.open = c.open[:last]
}

// Close closes all open streams.
func (c *httpConn) Close() error {
	c.mu.Lock()
	c.closed = true
	open := slices.Clone(c.open)
	c.mu.Unlock()
	for _, s := range open {
		s.Close()
	}
	return nil
}
