package upstream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"taskbridge/session"
	"taskbridge/session/ws"
	"taskbridge/translate"
	"taskbridge/translate/lines"
)

// Defaults of WebSocketOptions.
const (
	DefaultMaxConns = 1024
	DefaultIdle     = 5 * time.Minute
)

// maxUpgradeAnswer bounds what comes before the first frame, TLS included.
const maxUpgradeAnswer = maxResponseHeader + 256<<10

// WebSocketOptions configures NewWebSocket.
type WebSocketOptions struct {
	Name string // the upstream's; required
	// Server is where to connect: a ws or wss URL, and headers that go with every
	// upgrade. As HTTPUpstream otherwise.
	Server HTTPUpstream
	// RootCAs replaces the system's authorities; nil means the system's.
	RootCAs *x509.CertPool
	// ConnectTimeout bounds connecting, TLS and upgrade together (0: 10 s).
	ConnectTimeout time.Duration
	// MaxMessage bounds one message (0: 64 MiB). A longer one ends its connection.
	MaxMessage int
	// StartLimit is how long the server may take to answer initialize, or a probe
	// (0: 60 s).
	StartLimit time.Duration
	// Silence is as StdioOptions' (0: 10 s).
	Silence time.Duration
	// MaxConns bounds the connections at a time (0: 1024).
	MaxConns int
	// Idle is how long a connection of modern callers is kept that nobody uses (0:
	// 5 min).
	Idle      time.Duration
	Budget    *session.Budget // drawn on by messages over 64 KiB while they are read
	Logger    *slog.Logger    // nil: discarded
	Tap       session.Tap     // nil: none
	UserAgent string          // ("taskbridge")
	// DialContext replaces the dialer of TCP connections, for tests; the
	// environment's proxy is not asked then.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// Conn bounds what a connection may take; MaxMessage and Budget are filled in.
	Conn ws.Options
}

// WebSocket is a session.Dialer for a server that is spoken to over WebSocket
// (subprotocol mcp). A credential counts at the upgrade, so a connection belongs
// to one: each principal has a connection, a legacy session one of its own, and
// a principal that comes with another credential gets another. Safe for
// concurrent use.
type WebSocket struct {
	*links
	o      WebSocketOptions
	e      *endpoint
	dialer websocket.Dialer
}

// NewWebSocket checks o and returns a dialer. It opens no connection.
func NewWebSocket(o WebSocketOptions) (*WebSocket, error) {
	if o.MaxMessage < 0 || o.MaxMessage > maxMaxMessage {
		return nil, fmt.Errorf("message limit %d is out of range; give 1 to %d bytes", o.MaxMessage, maxMaxMessage)
	}
	o.MaxMessage = cmp.Or(o.MaxMessage, DefaultMaxMessage)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, DefaultConnectTimeout)
	o.StartLimit = cmp.Or(o.StartLimit, DefaultStartLimit)
	o.Silence = cmp.Or(o.Silence, probeSilence)
	o.MaxConns = cmp.Or(o.MaxConns, DefaultMaxConns)
	o.Idle = cmp.Or(o.Idle, DefaultIdle)
	o.UserAgent = cmp.Or(o.UserAgent, "taskbridge")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Conn.MaxMessage = o.MaxMessage
	if o.Budget != nil {
		o.Conn.Budget = o.Budget
	}
	e, err := wsEndpoint(o)
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", o.Name, err)
	}
	w := &WebSocket{o: o, e: e}
	w.dialer = websocket.Dialer{
		Proxy: http.ProxyFromEnvironment, NetDialContext: (&net.Dialer{}).DialContext,
		TLSClientConfig:  &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		HandshakeTimeout: o.ConnectTimeout, Subprotocols: []string{ws.Subprotocol},
		WriteBufferSize: ws.BufferSize, WriteBufferPool: ws.Buffers,
	}
	if o.DialContext != nil {
		w.dialer.NetDialContext, w.dialer.Proxy = o.DialContext, nil
	}
	w.links = newLinks(linkOptions{
		Name: o.Name, MaxMessage: o.MaxMessage, StartLimit: o.StartLimit, Silence: o.Silence, Max: o.MaxConns,
		Budget: o.Budget, Logger: o.Logger, Tap: o.Tap,
		open: w.connect, noun: "connection to the server", kind: "connection", transport: translate.TransportWebSocket, speaks: SpokeWebSocket, fail: session.FailBroken,
		key: w.key, idle: o.Idle, longest: 5 * time.Second,
		owner:  func(t session.Target) session.Principal { return t.Principal },
		prober: func(t session.Target) session.Principal { return probePrincipal + t.Principal },
		full:   fmt.Sprintf("%d connections to the server are open, as many as may; try again later", o.MaxConns),
	})
	return w, nil
}

// wsEndpoint is newEndpoint for WebSocket.
func wsEndpoint(o WebSocketOptions) (*endpoint, error) {
	up := o.Server
	scheme, rest, ok := strings.Cut(up.URL, "://")
	if scheme = strings.ToLower(scheme); !ok || scheme != "ws" && scheme != "wss" {
		return nil, errors.New("give a ws:// or wss:// URL")
	}
	for name := range up.Header {
		if strings.HasPrefix(http.CanonicalHeaderKey(name), "Sec-Websocket-") {
			return nil, fmt.Errorf("header %s is set by the proxy itself; leave it out", quote(name, 64))
		}
	}
	up.URL = strings.Replace(scheme, "ws", "http", 1) + "://" + rest
	e, err := newEndpoint(o.Name, up, o.UserAgent)
	if err != nil {
		return nil, err
	}
	e.url.Scheme = scheme
	e.shown = shownURL(e.url)
	return e, nil
}

// upgradeHeader is what goes with an upgrade beside what makes it one.
func (w *WebSocket) upgradeHeader(credential http.Header) http.Header {
	hd := make(http.Header, len(credential)+len(w.e.header)+1)
	w.e.authorize(hd, credential)
	maps.DeleteFunc(hd, func(name string, _ []string) bool { return strings.HasPrefix(name, "Sec-Websocket-") || name == "Host" })
	maps.Copy(hd, w.e.header)
	delete(hd, "Host")
	if w.e.host != "" {
		hd["Host"] = []string{w.e.host}
	}
	return hd
}

// key tells connections apart: by who asks, and as whom at the server. Only a
// digest of the credential is kept.
func (w *WebSocket) key(target session.Target) string {
	hd := http.Header{}
	w.e.authorize(hd, target.Credential)
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(hd)) {
		fmt.Fprintf(sum, "%q%q", name, hd[name])
	}
	return hex.EncodeToString(sum.Sum(nil)) + string(target.Principal)
}

// connect opens a connection, following the redirects that stay with the
// endpoint as over HTTP.
func (w *WebSocket) connect(ctx context.Context, name string, target session.Target) (channel, error) {
	header := w.upgradeHeader(target.Credential)
	at := w.e.url
	for hop := 0; ; hop++ {
		conn, resp, err := w.upgrade(ctx, at, header)
		if err == nil {
			w.log.Debug("connected to the server", "connection", name, "url", w.e.shown)
			return &wsChannel{w: w, conn: ws.New(conn, w.o.Conn)}, nil
		}
		if resp == nil {
			return nil, w.dialError(err)
		}
		next, err := redirect(resp, at)
		if err == nil && next != nil && hop == maxRedirects {
			err = fmt.Errorf("%s redirects more than %d times", w.e.shown, maxRedirects)
		}
		if err != nil {
			return nil, &session.DialError{Fail: session.FailRedirect, Upstream: w.e.name, Status: resp.StatusCode, Err: err}
		}
		if next == nil {
			return nil, w.refusal(resp)
		}
		at = next
	}
}

// upgrade asks for one. resp is set where the server said no.
func (w *WebSocket) upgrade(ctx context.Context, at *url.URL, header http.Header) (*websocket.Conn, *http.Response, error) {
	d := w.dialer
	ctx, cancel := context.WithTimeout(ctx, w.o.ConnectTimeout)
	defer cancel()
	var raw *upgradeConn
	forget := func() bool { return true }
	dial := d.NetDialContext
	d.NetDialContext = func(dialing context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(dialing, network, addr)
		if err != nil {
			return nil, err
		}
		raw = &upgradeConn{Conn: c}
		// The library looks at ctx only while it dials.
		forget = context.AfterFunc(ctx, func() { c.Close() })
		return raw, nil
	}
	conn, resp, err := d.DialContext(ctx, at.String(), header)
	if err != nil {
		forget()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if errors.Is(err, websocket.ErrBadHandshake) {
			return nil, resp, err
		}
		return nil, nil, err
	}
	if !forget() {
		conn.Close()
		return nil, nil, context.Cause(ctx)
	}
	raw.open.Store(true)
	switch p := conn.Subprotocol(); {
	case p != "" && p != ws.Subprotocol:
		err = fmt.Errorf("it chose the subprotocol %s, which was not offered", quote(p, 64))
	case len(resp.Header["Sec-Websocket-Extensions"]) > 0:
		// RFC 6455 section 4.1. Compression would let a small frame be a large
		// message.
		err = errors.New("it chose an extension, and none was offered")
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, resp, nil
}

// upgradeConn bounds what is read of an answer to an upgrade: the library does
// not.
type upgradeConn struct {
	net.Conn
	open atomic.Bool
	n    int // while not open, which is before anybody else reads
}

func (c *upgradeConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.open.Load() {
		if c.n += n; c.n > maxUpgradeAnswer {
			return 0, errors.New("its answer to the upgrade is too long")
		}
	}
	return n, err
}

// dialError describes an upgrade that got no answer.
func (w *WebSocket) dialError(err error) error {
	text := "connect to " + w.e.shown + ": " + plain(err)
	if errors.Is(err, context.DeadlineExceeded) {
		text = fmt.Sprintf("connect to %s: no connection within %v; see --connect-timeout", w.e.shown, w.o.ConnectTimeout)
	} else if advice := dialAdvice(err, w.o.ConnectTimeout, "ws"); advice != "" {
		text += " (" + advice + ")"
	}
	return w.fail(session.FailUnreachable, &textError{text, err})
}

// refusal describes an answer that is no upgrade.
func (w *WebSocket) refusal(resp *http.Response) error {
	status := resp.StatusCode
	maps.DeleteFunc(resp.Header, func(name string, _ []string) bool { return !slices.Contains(keptHeaders, name) })
	delete(resp.Header, "Content-Type")
	delete(resp.Header, "Mcp-Session-Id")
	de := &session.DialError{
		Fail: session.FailUnreachable, Upstream: w.e.name, Status: status,
		HTTP: &translate.Envelope{Status: status, Header: resp.Header},
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		de.Err = fmt.Errorf("%s refused the WebSocket upgrade with HTTP %d; check the credential (--header 'Authorization: …')", w.e.shown, status)
	case transient(status):
		de.Err = fmt.Errorf("%s refused the WebSocket upgrade with HTTP %d; try again", w.e.shown, status)
	case status == http.StatusSwitchingProtocols:
		de.Status, de.HTTP = 0, nil
		de.Err = fmt.Errorf("%s answered the WebSocket upgrade wrongly", w.e.shown)
	default:
		de.Err = fmt.Errorf("%s answered the WebSocket upgrade with HTTP %d; check the path in the URL, or whether it is an http:// server", w.e.shown, status)
	}
	return de
}

// wsChannel is a connection.
type wsChannel struct {
	w    *WebSocket
	conn *ws.Conn
	last atomic.Pointer[error] // of next
}

var _ channel = (*wsChannel)(nil)

func (c *wsChannel) start(func(error)) {}

func (c *wsChannel) write(msg [][]byte) error { return c.conn.Write(msg...) }

func (c *wsChannel) next() ([]byte, bool, error) {
	if c.last.Load() != nil {
		return nil, false, io.EOF
	}
	raw, err := c.conn.Read()
	if busy := (*lines.TooLong)(nil); err == nil || errors.As(err, &busy) {
		return raw, false, err
	}
	c.last.Store(&err)
	if t := (*ws.TooLarge)(nil); errors.As(err, &t) {
		return nil, false, &t.TooLong // whose it was is told what it was; then it ends
	}
	return nil, false, err
}

func (c *wsChannel) ended() error {
	err := *c.last.Load()
	switch {
	case errors.Is(err, ws.ErrTooLarge):
		return fmt.Errorf("the connection to the server was closed: it sent a message over the limit of %d bytes", c.w.o.MaxMessage)
	case errors.Is(err, ws.ErrBinary) || errors.Is(err, ws.ErrUTF8):
		return fmt.Errorf("the connection to the server was closed: it sent %w", err)
	}
	return &textError{"the connection to the server ended: " + plain(err), err}
}

func (c *wsChannel) stop() {
	code := ws.Normal
	switch err := c.last.Load(); {
	case err != nil:
		code = ws.CodeFor(*err)
	case c.w.ctx.Err() != nil:
		code = ws.GoingAway
	}
	c.conn.Close(code, "")
}
