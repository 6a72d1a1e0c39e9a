package replay

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// exchange is one message of a client's and what comes back for it.
type exchange struct {
	c      *client
	d      *drive // whose it is; nil: the session's
	ctx    context.Context
	name   string // of its records' stream, where it is no operation's
	verb   string
	silent bool // nothing is kept

	model  capture.Record // what is said of its records
	stream *session.ClientStream
	asked  sync.WaitGroup

	opened chan struct{} // closed at the first sign, if made
	once   sync.Once

	// What it ended with.
	reply  *jsonrpc.Message // the final message; nil: a status alone, or nothing
	status int
	header http.Header
	ended  bool // it came to its end
}

// send hands a message over. model is the record of the message it repeats.
func (e *exchange) send(raw []byte, model *capture.Record) {
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil {
		e.end(http.StatusBadRequest, nil)
		return
	}
	who, h, cl, cond := e.c.caller(m, model)
	e.begin(model, http.MethodPost, h, m.Raw)
	if cond != translate.CondNone {
		e.refused(m, who, cl, cond)
		return
	}
	e.hand(who, m, http.MethodPost, h)
}

// get opens a session's own stream. One that was resumed is opened anew: its
// events have other ids now, and here nothing was lost.
func (e *exchange) get(model *capture.Record) {
	h := model.Header.Clone()
	h.Del(translate.HeaderLastEvent)
	h.Del(translate.HeaderSession)
	e.begin(model, http.MethodGet, h, nil)
	e.hand(e.c.verb(), nil, http.MethodGet, h)
}

func (e *exchange) delete(model *capture.Record) {
	h := model.Header.Clone()
	h.Del(translate.HeaderSession)
	e.begin(model, http.MethodDelete, h, nil)
	e.hand(e.c.verb(), nil, http.MethodDelete, h)
}

// begin keeps the message as what the client said.
func (e *exchange) begin(model *capture.Record, verb string, h http.Header, raw []byte) {
	e.model = capture.Record{
		Leg: translate.ClientLeg, Transport: model.Transport, Conn: model.Conn, Session: model.Session, Principal: model.Principal,
	}
	if e.d != nil {
		e.model.Stream = streamName(e.d.op.N, int(e.d.seq.Add(1)))
	} else {
		e.model.Stream = fmt.Sprintf("%s.%d", e.name, e.c.seq.Add(1))
	}
	rec := e.model
	rec.Dir, rec.Msg = translate.ToServer, raw
	e.verb = verb
	if overHTTP(&rec) {
		rec.Verb, rec.Header = verb, h
	}
	if raw != nil || rec.Verb != "" { // a connection's own stream is not asked for
		e.keep(rec)
	}
	if e.model.Session == "" && e.c.model.Session != "" {
		e.model.Session = e.c.model.Session // initialize brings it
	}
}

func (e *exchange) keep(rec capture.Record) {
	if e.silent {
		return
	}
	rec.Time = time.Now()
	if !e.c.r.rec.add(&rec) && e.d != nil {
		e.d.full.Store(true)
	}
}

func (e *exchange) hand(who session.Caller, m *jsonrpc.Message, verb string, h http.Header) {
	e.stream = e.c.r.o.Hub.NewStream()
	f := translate.Frame{
		Msg: m, Leg: translate.ClientLeg, Dir: translate.ToServer, Stream: e.stream.ID, Time: time.Now(),
		HTTP: &translate.Envelope{Verb: verb, Header: h},
	}
	e.c.r.o.Hub.Client(e.ctx, session.Inbound{Caller: who, Frame: f}, e.stream)
}

// refused is what the listener itself says to a message that must not come in.
func (e *exchange) refused(m *jsonrpc.Message, who session.Caller, cl translate.Classified, cond translate.Cond) {
	status, code := translate.StatusOf(cond, who.Era)
	text := cl.Detail
	if text == "" {
		text = string(cond)
	}
	var raw []byte
	if m.Kind == jsonrpc.Request {
		raw = jsonrpc.NewError(m.ID, translate.CodeFor(code, who.Version), text, cl.Data)
	}
	e.end(status, raw)
}

// end is an end that did not come over the stream.
func (e *exchange) end(status int, raw []byte) {
	e.take(session.Out{Raw: raw, Status: status, Final: true})
}

// read reads until the end, or until ctx is over; then the stream is given up.
func (e *exchange) read() {
	if e.stream == nil {
		return
	}
	defer func() {
		e.stream.Gone()
		e.sign()
		e.asked.Wait()
	}()
	for !e.ended {
		out, ok := e.stream.Next(e.ctx)
		if !ok {
			return
		}
		e.take(out)
	}
}

// sign says that the server was heard.
func (e *exchange) sign() {
	if e.opened != nil {
		e.once.Do(func() { close(e.opened) })
	}
}

// take keeps one thing that came, and answers what is asked.
func (e *exchange) take(out session.Out) {
	var m *jsonrpc.Message
	if out.Raw != nil {
		m, _ = jsonrpc.Decode(out.Raw, jsonrpc.Limits{})
	}
	if e.header == nil {
		e.header = out.Header
	}
	if out.Raw != nil || out.Final || out.Begin && e.verb == http.MethodGet {
		e.heard(out)
	}
	e.sign()
	e.ended = e.ended || out.Final
	switch {
	case m == nil:
	case m.Kind == jsonrpc.Request:
		e.ask(m)
	case m.Kind == jsonrpc.Notification:
		if e.d != nil {
			e.d.heard(m)
		}
	default:
		e.reply = m
		if e.d != nil {
			e.d.heard(m)
		}
	}
}

// heard keeps what came. The status stands with the first of it, and alone
// where there is no message; on a channel without statuses only one that says no
// is more than its message.
func (e *exchange) heard(out session.Out) {
	rec := e.model
	rec.Dir, rec.Msg = translate.ToClient, out.Raw
	if e.status == 0 || out.Raw == nil && out.Status >= 300 {
		e.status = statusOf(out)
		if rec.Status = e.status; !overHTTP(&rec) && rec.Status < 300 {
			rec.Status = 0
		}
	}
	if rec.Msg != nil || rec.Status != 0 {
		e.keep(rec)
	}
}

// overHTTP: the record's transport has verbs, statuses and headers.
func overHTTP(r *capture.Record) bool { return r.Transport == "http" || r.Transport == "" }

func statusOf(out session.Out) int {
	if out.Status == 0 {
		return http.StatusOK
	}
	return out.Status
}

// ask answers a request of the server's, beside what else comes.
func (e *exchange) ask(m *jsonrpc.Message) {
	op := 0
	if task := translate.RelatedTask(m.Params()); task != "" {
		if step := e.c.r.o.Plan.makers[e.c.r.ids.recorded(task)]; step != nil {
			op = step.Op.N
		}
	}
	if e.d != nil {
		if e.d.heard(m); e.d.op.Kind != operation.Listen {
			op = e.d.op.N
		}
	}
	q := e.c.answers.take(op, m.Method, m.Params())
	if q == nil && e.d != nil && m.Method != "ping" {
		e.d.note("the server asked %s, to which the capture holds no answer", m.Method)
	}
	raw := response(q, m)
	if raw == nil {
		return // the recorded client let it stand, too
	}
	e.asked.Go(func() {
		if q != nil && !q.Answered.IsZero() && !wait(e.ctx, e.c.r.thinking(q)) {
			return
		}
		answer := &exchange{c: e.c, d: e.d, ctx: e.ctx, name: e.name, silent: e.silent}
		answer.send(raw, &capture.Record{
			Transport: e.model.Transport, Conn: e.model.Conn, Session: e.model.Session, Principal: e.model.Principal,
			Header: e.c.versionHeader(e.model.Transport),
		})
		answer.read()
	})
}
