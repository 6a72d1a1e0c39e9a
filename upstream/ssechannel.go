package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"taskbridge/session"
	"taskbridge/translate/lines"
)

const (
	// ownPosts bounds the messages of our own on their way at a time, ownPost the
	// time of each.
	ownPosts = 64
	ownPost  = 30 * time.Second
	// afterAnswer is how long a server may leave a POST unanswered whose request
	// it has answered.
	afterAnswer = 5 * time.Second
	// firstEvents bounds what may come before the endpoint event.
	firstEvents = 16
)

// sseChannel is one event stream and the place messages are posted to.
type sseChannel struct {
	u      *sseUpstream
	name   string
	target session.Target // who opened it
	get    *stream
	events *eventReader
	at     *endpoint // where messages go

	ctx    context.Context // done with stop
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	own    chan struct{} // held by messages of our own on their way
	giveUp func(error)
	err    error // why next ended

	mu      sync.Mutex // protects the fields below
	latest  posting    // what went with the message posted last
	stopped bool
}

var (
	_ channel = (*sseChannel)(nil)
	_ direct  = (*sseChannel)(nil)
)

// connect opens an event stream and waits for its endpoint event. Errors wrap
// errNoSSE where the server gave another answer than one of this transport, and
// have the status of a refusal.
func (u *sseUpstream) connect(ctx context.Context, name string, target session.Target) (channel, error) {
	c := &sseChannel{u: u, name: name, target: target, own: make(chan struct{}, ownPosts)}
	c.latest.target = target
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	limit, end := context.WithTimeoutCause(ctx, endpointWait, &textError{fmt.Sprintf("no endpoint event within %v", endpointWait), context.DeadlineExceeded})
	defer end()
	unwatch := context.AfterFunc(limit, func() { c.cancel(context.Cause(limit)) })
	err := c.open()
	if !unwatch() && err == nil {
		err = u.fail(session.FailUnreachable, context.Cause(limit))
	}
	if err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// open sends the GET and reads to the endpoint event.
func (c *sseChannel) open() error {
	u := c.u
	// A balancer finds the session's server by the cookies it sets here.
	conn := &httpConn{h: u.h, e: u.e, target: c.target, jar: c.jar()}
	out := session.Outgoing{Verb: http.MethodGet}
	s, err := conn.newStream(c.ctx, out)
	if err != nil {
		return err
	}
	c.get = s
	s.mu.Lock()
	s.reading = true // by next, until it is closed
	s.mu.Unlock()
	resp, err := u.h.send(s, out)
	if err != nil {
		s.release(err)
		return err
	}
	from := resp.Request.URL
	if err := s.begin(resp); err != nil {
		return err
	}
	u.showOpened(s, c.target)
	if resp.StatusCode != http.StatusOK || !s.isSSE() || s.isOver() != nil {
		return &session.DialError{
			Fail: session.FailUnreachable, Upstream: u.e.name, Status: resp.StatusCode, HTTP: s.env,
			Err: &textError{fmt.Sprintf("GET %s got HTTP %d, %s: %s", u.e.shown, resp.StatusCode, quote(mediaType(resp), 64), errNoSSE), errNoSSE},
		}
	}
	body, err := s.decoded()
	if err != nil {
		return u.fail(session.FailBroken, err)
	}
	c.events = s.newEvents(body, func() { c.giveUp(u.endless()) })
	data, err := c.endpointEvent()
	if err != nil {
		return err
	}
	to, err := messageURL(data, from)
	if u.to != nil {
		to, err = overrideURL(data, u.to)
	}
	if err != nil {
		return u.fail(session.FailRedirect, err)
	}
	at := *u.e
	at.url, at.shown = to, shownURL(to)
	c.at = &at
	return nil
}

// endpointEvent is the first event but for those that say nothing.
func (c *sseChannel) endpointEvent() (string, error) {
	for range firstEvents {
		ev, err := c.events.next()
		switch {
		case err != nil && c.ctx.Err() != nil:
			return "", c.u.fail(session.FailUnreachable, &textError{plain(context.Cause(c.ctx)) + ": " + errNoSSE.Error(), errors.Join(errNoSSE, context.Cause(c.ctx))})
		case err != nil:
			return "", c.u.fail(session.FailUnreachable, &textError{"read the event stream of " + c.u.e.shown + ": " + plain(err) + ": " + errNoSSE.Error(), errNoSSE})
		case ev.Type == "endpoint":
			return string(ev.Data), nil
		case len(ev.Data) > 0:
			return "", c.u.fail(session.FailUnreachable, errNoSSE)
		}
	}
	return "", c.u.fail(session.FailUnreachable, errNoSSE)
}

// jar names the cookies of this session.
func (c *sseChannel) jar() string { return fmt.Sprintf("%s %p", c.name, c) }

func (c *sseChannel) start(giveUp func(error)) { c.giveUp = giveUp }

// write is not used: messages are posted, each by itself.
func (c *sseChannel) write([][]byte) error { return nil }

// next implements channel. An endpoint event moves nobody once one has counted.
func (c *sseChannel) next() ([]byte, bool, error) {
	if c.err != nil {
		return nil, false, io.EOF
	}
	for {
		c.get.meter.handedOver()
		ev, err := c.events.next()
		message := ev.Type == "" || ev.Type == "message"
		if over, ok := errors.AsType[*lines.TooLong](err); ok && !over.Endless {
			if message {
				return nil, false, over
			}
			continue
		}
		if err != nil {
			c.err = err
			c.get.meter.handedOver()
			return nil, false, err
		}
		if len(ev.Data) > 0 && message {
			return ev.Data, false, nil
		}
	}
}

func (c *sseChannel) ended() error {
	u := c.u
	switch err := c.err; {
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return &textError{u.e.shown + " closed the event stream, and its session with it", err}
	default:
		return &textError{"the event stream of " + u.e.shown + " broke: " + plain(err), err}
	}
}

func (c *sseChannel) stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.cancel(ErrClosed)
	if c.get != nil {
		c.get.Close()
	}
	c.wg.Wait()
	c.u.h.cookies.drop(c.target, c.jar())
}

// deliver implements direct. A server may answer the POST only when it is done
// with the request, so several are on their way at a time, and once the answer
// has begun on the stream the POST's own says nothing more.
func (c *sseChannel) deliver(ctx context.Context, raw []byte, begun <-chan struct{}, shown func()) error {
	post, ok := ctx.Value(postingKey{}).(posting)
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return unsent(c.u.fail(session.FailUnreachable, ErrClosed))
	}
	if ok {
		c.latest = posting{post.target, session.Outgoing{Version: post.out.Version}}
	} else {
		post = c.latest
	}
	sending, cancel := context.WithCancel(c.ctx)
	result := make(chan error, 1)
	c.wg.Go(func() {
		defer cancel()
		err := c.post(sending, post, raw, shown)
		result <- err
		if forgotten(err) {
			// The stream may stay open for long where a balancer holds it.
			c.giveUp(errors.New("the server no longer knows the session"))
		}
	})
	c.mu.Unlock()
	select {
	case err := <-result:
		return err
	case <-begun:
		select {
		case err := <-result:
			if forgotten(err) { // which is how it began
				return err
			}
		default:
			time.AfterFunc(afterAnswer, cancel)
		}
		return nil
	case <-ctx.Done():
		cancel()
		return c.u.fail(session.FailBroken, context.Cause(ctx))
	}
}

// post sends one message. Any 2xx means that it was accepted.
func (c *sseChannel) post(ctx context.Context, p posting, raw []byte, shown func()) error {
	u := c.u
	conn := &httpConn{h: u.h, e: c.at, target: p.target, shown: shown}
	if sameOrigin(c.at.url, u.e.url) {
		conn.jar = c.jar()
	}
	out := p.out
	out.Verb, out.Msg = http.MethodPost, raw
	st, err := conn.exchange(ctx, out)
	if err != nil {
		return err
	}
	defer st.Close()
	env := st.Envelope()
	if env.Status/100 == 2 {
		return nil
	}
	if env.Status == http.StatusGone {
		env.Status = http.StatusNotFound
	}
	delete(env.Header, "Mcp-Session-Id")
	return &session.DialError{
		Fail: session.FailBroken, Upstream: u.e.name, Status: env.Status, HTTP: env,
		Err: fmt.Errorf("%s got HTTP %d", c.at.shown, env.Status),
	}
}

// forgotten: the server does not know the session a message was posted to.
func forgotten(err error) bool {
	de, ok := errors.AsType[*session.DialError](err)
	return ok && de.Status == http.StatusNotFound
}

// dispatch implements direct.
func (c *sseChannel) dispatch(raw []byte, shown func()) {
	select {
	case c.own <- struct{}{}:
	default:
		c.u.log.Warn("dropped a message of ours to the server: too many are on their way", sseKind, c.name)
		return
	}
	c.u.background(func() {
		defer func() { <-c.own }()
		ctx, cancel := context.WithTimeout(c.ctx, ownPost)
		defer cancel()
		if err := c.deliver(ctx, raw, nil, shown); err != nil {
			c.u.log.Debug("a message of ours was not delivered", sseKind, c.name, "error", err)
		}
	})
}
