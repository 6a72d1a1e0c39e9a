package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Transport says how an http or https URL is spoken to.
type Transport uint8

// The transports behind such a URL. Auto begins with Streamable HTTP and falls
// back to HTTP+SSE as 2025-11-25 basic/transports, Backwards Compatibility, has
// it.
const (
	TransportAuto Transport = iota
	TransportHTTP
	TransportSSE
)

const (
	// endpointWait is how long the endpoint event is waited for, connecting
	// included.
	endpointWait = 10 * time.Second
	// maxSSESessions bounds the event streams open toward one server.
	maxSSESessions = 1024
	// sseKind begins the session ids made here.
	sseKind = "sse"
	// textLength is that of crypto/rand.Text.
	textLength = 26
)

// errNoSSE: the server does not speak HTTP+SSE where it was asked.
var errNoSSE = errors.New("no event stream that begins with an endpoint event came (HTTP+SSE)")

// sseUpstream is the HTTP+SSE face (2024-11-05 basic/transports, HTTP with SSE)
// of an upstream behind a URL. Each legacy session has an event stream of its
// own, which is a link: all messages of the server come over it.
type sseUpstream struct {
	*links
	h      *HTTP // as the dialer's, but nothing of it is tapped: links do that
	e      *endpoint
	pinned bool
	to     *url.URL    // where messages go, if that was configured
	known  atomic.Bool // it was found to speak HTTP+SSE
}

func newSSEUpstream(h *HTTP, e *endpoint, up HTTPUpstream) (*sseUpstream, error) {
	u := &sseUpstream{e: e, pinned: up.Transport == TransportSSE}
	if up.MessageURL != "" {
		to, err := url.Parse(up.MessageURL)
		if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Hostname() == "" || to.User != nil {
			return nil, errors.New("the message URL is none; give it as https://HOST/PATH")
		}
		to.Fragment, to.RawFragment = "", ""
		u.to = to
	}
	u.h = &HTTP{opts: h.opts, log: h.log, transport: h.transport, upstreams: h.upstreams, cookies: h.cookies}
	u.h.opts.Tap = nil
	u.links = newLinks(linkOptions{
		Name: e.name, MaxMessage: h.opts.MaxMessage, StartLimit: DefaultStartLimit, Max: maxSSESessions,
		Budget: h.opts.Budget, Logger: h.log, Tap: h.opts.Tap,
		open: u.connect, noun: "event stream of the server", kind: sseKind, transport: translate.TransportSSE, fail: session.FailBroken,
		// Each message carries the credential it comes with.
		key: func(session.Target) string { return "" }, longest: 5 * time.Second,
		owner:  func(t session.Target) session.Principal { return t.Principal },
		prober: func(t session.Target) session.Principal { return probePrincipal + t.Principal },
		full:   fmt.Sprintf("%d sessions are open toward the server, as many as may; try again later", maxSSESessions),
	})
	return u, nil
}

// do leads what belongs to HTTP+SSE there, the rest to Streamable HTTP.
func (u *sseUpstream) do(ctx context.Context, c *httpConn, out session.Outgoing) (session.Stream, error) {
	if madeHere(out.Session) {
		return u.within(ctx, c, out)
	}
	if !opens(out) {
		if u.pinned { // that transport has no endpoint for it
			return u.statusStream(http.StatusMethodNotAllowed), nil
		}
		return c.exchange(ctx, out)
	}
	var st session.Stream
	if !u.pinned && !u.known.Load() {
		var err error
		if st, err = c.exchange(ctx, out); err != nil || !fallsBack(st) {
			return st, err
		}
	}
	ch, err := u.connect(ctx, u.e.name, c.target)
	if err != nil {
		return u.unopened(ctx, c, out, st, err)
	}
	if st != nil {
		st.Close()
	}
	if !u.known.Swap(true) {
		u.log.Info("the server speaks HTTP+SSE (2024-11-05)", "upstream", u.e.name, "url", u.e.shown)
	}
	lc := linkConn{u.links, c.target}
	m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{})
	if err != nil {
		ch.stop()
		return nil, u.fail(session.FailUnreachable, err)
	}
	p, err := u.spawnBy(ctx, c.target.Principal, c.target, false, func(context.Context, string, session.Target) (channel, error) { return ch, nil })
	if err != nil {
		ch.stop()
		return nil, err
	}
	return u.answered(lc.begin(withPost(ctx, c, out), p, m))
}

// madeHere: a session id of ours, whether its session still is or not. A server
// behind Streamable HTTP makes its own.
func madeHere(id string) bool {
	text, ok := strings.CutPrefix(id, sseKind+"-")
	return ok && len(text) == textLength && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// unopened: no event stream came. A server that was only tried is what it seemed
// to be; one that was known to speak so may have been replaced.
func (u *sseUpstream) unopened(ctx context.Context, c *httpConn, out session.Outgoing, st session.Stream, err error) (session.Stream, error) {
	de, _ := errors.AsType[*session.DialError](err)
	switch {
	case de != nil && de.HTTP != nil && passing(de.Status):
		if st != nil {
			st.Close()
		}
		return u.answered(nil, err)
	case st != nil && errors.Is(err, errNoSSE):
		u.log.Debug("the server speaks no HTTP+SSE either", "upstream", u.e.name, "error", err)
		return st, nil
	case st != nil:
		st.Close()
	case !u.pinned && errors.Is(err, errNoSSE):
		u.known.Store(false)
		return c.exchange(ctx, out)
	}
	return nil, err
}

// within leads a message of a session.
func (u *sseUpstream) within(ctx context.Context, c *httpConn, out session.Outgoing) (session.Stream, error) {
	return u.answered(linkConn{u.links, c.target}.Do(withPost(ctx, c, out), out))
}

// answered turns a refused POST into what the server would have said over
// Streamable HTTP: its status.
func (u *sseUpstream) answered(st session.Stream, err error) (session.Stream, error) {
	if de, ok := errors.AsType[*session.DialError](err); ok && de.HTTP != nil {
		answer := u.statusStream(de.Status)
		answer.env = de.HTTP
		return answer, nil
	}
	return st, err
}

// opens: the handshake, which alone can begin a session.
func opens(out session.Outgoing) bool {
	if verbOf(out) != http.MethodPost || out.Session != "" || out.Version != "" || !bytes.Contains(out.Msg, []byte(`initialize"`)) {
		return false
	}
	m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{})
	return err == nil && m.Kind == jsonrpc.Request && m.Method == "initialize"
}

// fallsBack: the statuses after which the older transport is tried.
func fallsBack(st session.Stream) bool {
	env := st.Envelope()
	if env == nil {
		return false
	}
	switch env.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return false
}

// posting is what goes with one message beside it.
type posting struct {
	target session.Target
	out    session.Outgoing
}

type postingKey struct{}

func withPost(ctx context.Context, c *httpConn, out session.Outgoing) context.Context {
	return context.WithValue(ctx, postingKey{}, posting{c.target, session.Outgoing{Version: out.Version, Header: out.Header}})
}
