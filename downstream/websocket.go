package downstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"taskbridge/session/throttle"
	"taskbridge/session/ws"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/lines"
)

// webSocket serves a client that asks for WebSocket on the endpoint. Host and
// Origin have been checked, and who it is is known: what the upgrade says counts
// for the connection. It returns when the connection has ended.
func (x *exchange) webSocket() {
	s := x.s
	switch {
	case s.draining():
		x.refuse(translate.CondDraining, "", nil)
		return
	case x.r.ContentLength != 0:
		x.refuse(translate.CondInvalidRequest, "GET with a body", nil)
		return
	case !x.payVerb(true):
		return
	case !s.o.Shared.addSocket(s.o.Limits.WebSockets):
		x.refuse(translate.CondBusy, "too many WebSocket connections", nil)
		return
	}
	defer s.o.Shared.dropSocket()
	s.enter()
	defer s.leave()
	up := websocket.Upgrader{
		Subprotocols: []string{ws.Subprotocol}, HandshakeTimeout: s.o.Limits.WriteTimeout,
		ReadBufferSize: 4 << 10, WriteBufferSize: ws.BufferSize, WriteBufferPool: ws.Buffers,
		CheckOrigin: func(*http.Request) bool { return true }, // the guard has
		Error: func(_ http.ResponseWriter, _ *http.Request, _ int, why error) {
			x.refuse(translate.CondInvalidRequest, why.Error(), nil)
		},
	}
	conn, err := up.Upgrade(x.w, x.r, nil)
	if err != nil {
		s.o.Logger.Debug("no WebSocket came of an upgrade", "err", err)
		return
	}
	x.status = http.StatusSwitchingProtocols
	s.o.Metrics.Streams(1)
	defer s.o.Metrics.Streams(-1)
	newSocket(s, x, conn).serve()
}

// socket is one WebSocket connection of a client.
type socket struct {
	*clientLink
	s     *Server
	conn  *ws.Conn
	until time.Time // when the token of the upgrade expires; zero: never
}

func newSocket(s *Server, x *exchange, c *websocket.Conn) *socket {
	conn := ws.New(c, ws.Options{
		MaxMessage: int(s.o.Limits.Body), Budget: s.o.Budget,
		Message: s.o.Limits.BodyTimeout,
	})
	w, key := &socket{s: s, conn: conn, until: x.until}, dueKey(x.caller)
	w.clientLink = newClientLink(context.WithoutCancel(x.r.Context()), linkOptions{
		Hub: s.o.Hub, Who: x.caller, Write: func(raw []byte) error { return conn.Write(raw) }, Crowded: true,
		Refuse: func() translate.Cond {
			if s.draining() {
				return translate.CondDraining
			}
			return translate.CondNone
		},
		Supported: s.o.Supported, Budget: s.o.Budget, Dues: func() throttle.Caller { return s.o.Limiter.Caller(key) }, Limited: s.o.Metrics.Limited, Logger: s.o.Logger,
		Tap: s.o.Tap, Transport: translate.TransportWebSocket, Conn: s.connName("ws"),
		Peer: clientAddr(x.r, s.o.TrustedProxies),
	})
	return w
}

var (
	errDrained = errors.New("the proxy is shutting down")
	errGone    = errors.New("the client has ended the connection")
	errExpired = errors.New(tokenExpired)
)

// serve reads until either end has had enough. All of the client's work is ended
// before it returns.
func (w *socket) serve() {
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w.watch()
	}()
	for {
		raw, err := w.conn.Read()
		busy := (*lines.TooLong)(nil)
		switch {
		case err == nil:
			w.take(raw)
			continue
		case errors.As(err, &busy):
			w.answerTooLong(busy, translate.CondBusy, "out of memory budget; try again")
			continue
		}
		w.lost(err)
		break
	}
	<-watched
	w.leave()
}

// lost: nothing more can be read.
func (w *socket) lost(err error) {
	w.o.Logger.Debug("a WebSocket connection ends", "why", err)
	if t := (*ws.TooLarge)(nil); errors.As(err, &t) {
		// Whose calls were under way cannot come back for their answers.
		text := fmt.Sprintf("the message is over the limit of %d bytes", w.s.o.Limits.Body)
		w.answerTooLong(&t.TooLong, translate.CondTooLarge, text)
		w.failAll("the connection was closed: it brought a message over the limit")
	}
	if ce := (*ws.CloseError)(nil); errors.As(err, &ce) {
		err = errGone
	}
	w.end(err)
}

// watch closes the connection once it is to end, which wakes its reader.
func (w *socket) watch() {
	closing, cut := w.s.closing, w.s.cut
	var tick, expiry <-chan time.Time
	if !w.until.IsZero() {
		t := time.NewTimer(time.Until(w.until))
		defer t.Stop()
		expiry = t.C
	}
	for {
		select {
		case <-expiry: // a connection has no place for another token
			w.end(errExpired)
			expiry = nil
		case <-closing:
			closing = nil
			t := time.NewTicker(20 * time.Millisecond)
			defer t.Stop()
			tick = t.C
		case <-tick:
			if w.idle() {
				w.end(errDrained)
			}
		case <-cut:
			w.end(errDrained)
			cut = nil
		case <-w.ctx.Done():
			code, reason := closeFor(context.Cause(w.ctx))
			w.conn.Close(code, reason)
			return
		}
	}
}

// closeFor is how a connection is closed that ends for a reason.
func closeFor(why error) (code int, reason string) {
	opening := (*OpeningError)(nil)
	switch {
	case errors.Is(why, errDrained):
		return ws.GoingAway, ""
	case errors.Is(why, errExpired):
		return ws.Policy, tokenExpired
	case errors.As(why, &opening) && (opening.Status == http.StatusUnauthorized || opening.Status == http.StatusForbidden):
		return ws.Policy, fmt.Sprintf("HTTP %d", opening.Status)
	case errors.As(why, &opening):
		return ws.TryLater, fmt.Sprintf("HTTP %d", opening.Status)
	}
	return ws.CodeFor(why), ""
}

func (w *socket) answerTooLong(t *lines.TooLong, cond translate.Cond, text string) {
	w.o.Logger.Warn("discarded a message of the client", "why", text)
	if t.Call && !t.ID.IsZero() {
		_, code := translate.StatusOf(cond, translate.Legacy)
		w.tell("", jsonrpc.NewError(t.ID, code, text, nil))
	}
}
