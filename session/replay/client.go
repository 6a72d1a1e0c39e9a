package replay

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// client stands for one client of the capture: who it is, its legacy session
// here, and what it was asked.
type client struct {
	r          *replay
	name       string // of the streams that are its own
	era        translate.Era
	principal  session.Principal
	credential http.Header
	answers    *answers
	model      operation.Operation // its first operation, for what is said of all
	seq        atomic.Int64        // exchanges of its own

	ctx  context.Context // of what lives as long as the session
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu               sync.Mutex // protects the fields below; opening is held longer
	session, version string
	opening          sync.Mutex
	own              bool // the session's own stream is open
}

func newClient(r *replay, name string, p *planned) *client {
	c := &client{r: r, name: name, answers: newAnswers(p.steps), model: *p.steps[0].Op}
	c.era = c.model.Era
	if c.era == translate.EraUnknown {
		c.era = translate.Legacy
	}
	hash := c.model.Principal
	c.principal = session.HashPrincipal("replay", hash)
	if value, ok := r.o.Credentials[hash]; ok {
		c.principal = session.HashPrincipal("token", value)
		c.credential = http.Header{"Authorization": {value}}
	}
	return c
}

// caller says who sends m as the listener would: by the headers of the recorded
// request, where it had some and they are still true.
func (c *client) caller(m *jsonrpc.Message, model *capture.Record) (session.Caller, http.Header, translate.Classified, translate.Cond) {
	h := model.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	who := session.Caller{Principal: c.principal, Credential: c.credential}
	version := m.At("params", "_meta", translate.MetaVersion)
	if v, ok := version.Str(); ok && len(model.Header) == 0 {
		h = translate.StandardHeaders(m)
		h[translate.HeaderVersion] = []string{v}
	}
	if name, ok := translate.MirroredName(m); ok && len(h[translate.HeaderName]) == 1 && len(translate.Facts(m, m.Method).TaskIDs) > 0 {
		h[translate.HeaderName] = []string{translate.EncodeHeader(name)}
	}
	c.mu.Lock()
	id, negotiated := c.session, c.version
	c.mu.Unlock()
	legacy := !version.Exists() && !translate.ModernHeader(h)
	if legacy && negotiated != "" && len(h[translate.HeaderVersion]) == 1 && h.Get(translate.HeaderVersion) == c.model.Version {
		h[translate.HeaderVersion] = []string{negotiated}
	}
	cl, cond := translate.Classify(h, m)
	who.Era, who.Version, who.Header = cl.Era, cl.Version, translate.RequestHeaders(h, cl.Era)
	if cl.Era != translate.Modern && m.Method != "initialize" {
		who.Session = id
		who.Version = cmp.Or(who.Version, negotiated)
	}
	h.Del(translate.HeaderSession)
	return who, h, cl, cond
}

// verb is caller for a request without a message.
func (c *client) verb() session.Caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	return session.Caller{
		Principal: c.principal, Credential: c.credential, Era: translate.Legacy,
		Session: c.session, Version: c.version, Header: http.Header{},
	}
}

// greeted takes what initialize was answered.
func (c *client) greeted(e *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = e.header.Get(translate.HeaderSession)
	if e.reply != nil {
		c.version, _ = e.reply.Result().Get("protocolVersion").Str()
	}
}

// ready sees to it that there is a session for an operation whose capture began
// after its own.
func (c *client) ready(ctx context.Context, op *operation.Operation) error {
	if c.era == translate.Modern || op.Kind == operation.Open || op.Outcome == operation.Refused {
		return nil
	}
	c.opening.Lock()
	defer c.opening.Unlock()
	c.mu.Lock()
	have := c.session != ""
	c.mu.Unlock()
	if have {
		return nil
	}
	caps := jsonrpc.NewObject()
	for _, cap := range [][2]string{{"elicitation/create", "elicitation"}, {"sampling/createMessage", "sampling"}, {"roots/list", "roots"}} {
		if slices.ContainsFunc(c.answers.list, func(a *recordedAnswer) bool { return a.q.Method == cap[0] }) {
			caps.Raw(cap[1], []byte("{}"))
		}
	}
	params := jsonrpc.NewObject().Str("protocolVersion", cmp.Or(c.model.Version, "2025-11-25")).Raw("capabilities", caps.Bytes()).
		Raw("clientInfo", []byte(`{"name":"taskbridge-replay","version":"1"}`)).Bytes()
	e := c.unkept(ctx, jsonrpc.NewRequest(jsonrpc.StringID("replay-initialize"), "initialize", params))
	e.read()
	if c.greeted(e); e.header.Get(translate.HeaderSession) == "" {
		return fmt.Errorf("the server opened no session (HTTP %d)", e.status)
	}
	c.unkept(ctx, jsonrpc.NewNotification("notifications/initialized", nil)).read()
	c.listen()
	return nil
}

// unkept sends a message of ours, which no record is kept of.
func (c *client) unkept(ctx context.Context, raw []byte) *exchange {
	e := &exchange{c: c, ctx: ctx, silent: true}
	e.send(raw, &capture.Record{})
	return e
}

// listen opens the session's own stream, where what belongs to no request comes.
// A connection that is not HTTP has it from the beginning.
func (c *client) listen() {
	c.mu.Lock()
	if c.own || c.session == "" {
		c.mu.Unlock()
		return
	}
	c.own = true
	c.mu.Unlock()
	e := &exchange{c: c, ctx: c.ctx, name: c.name, opened: make(chan struct{})}
	c.wg.Go(func() {
		e.get(&capture.Record{Transport: c.model.Transport, Conn: c.model.Conn, Session: c.model.Session, Principal: c.model.Principal})
		e.read()
	})
	select {
	case <-e.opened:
	case <-time.After(openWithin):
	}
}

// openWithin is how long the opening of a stream is waited for before what
// follows goes on without it.
const openWithin = 2 * time.Second

// close ends the session, if the capture has not done so.
func (c *client) close(ctx context.Context) {
	c.mu.Lock()
	open := c.session != "" && c.era != translate.Modern
	c.mu.Unlock()
	c.stop()
	c.wg.Wait()
	if !open {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbyeWithin)
	defer cancel()
	e := &exchange{c: c, ctx: ctx, silent: true}
	e.delete(&capture.Record{})
	e.read()
}

const goodbyeWithin = 2 * time.Second

// versionHeader is what a legacy client over HTTP says with every message of
// its own.
func (c *client) versionHeader(transport string) http.Header {
	if !overHTTP(&capture.Record{Transport: transport}) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, known := translate.Lookup(c.version); !known || f.Era != translate.Legacy {
		return nil
	}
	return http.Header{translate.HeaderVersion: {c.version}}
}
