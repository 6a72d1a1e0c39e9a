package upstream

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// showSent shows the tap what goes up, once it goes: the message and the protocol's own
// headers, never a credential.
func (s *stream) showSent(out session.Outgoing) {
	if s.c.shown != nil {
		s.c.shown()
	}
	if s.h.opts.Tap == nil {
		return
	}
	hd := relayedHeader(out, 0)
	setMessageHeaders(hd, out)
	f := s.tapFrame(translate.ToServer)
	f.HTTP = &translate.Envelope{Verb: verbOf(out), Header: hd}
	session.Show(s.h.opts.Tap, f, out.Msg)
}

// show shows the tap what came. Where there were no messages at all that is what
// HTTP said; the first of them brings it else.
func (s *stream) show(msgs []*jsonrpc.Message) {
	if s.h.opts.Tap == nil || s.env == nil {
		return
	}
	if len(msgs) == 0 {
		msgs = []*jsonrpc.Message{nil}
	}
	for _, m := range msgs {
		f := s.tapFrame(translate.ToClient)
		f.Msg = m
		if s.shown.CompareAndSwap(false, true) {
			f.HTTP = s.env
		} else if m == nil {
			return
		}
		s.h.opts.Tap.Frame(f)
	}
}

// showStatus shows the tap an answer that goes no further.
func (s *stream) showStatus(resp *http.Response) {
	if s.h.opts.Tap == nil {
		return
	}
	f := s.tapFrame(translate.ToClient)
	f.HTTP = &translate.Envelope{Status: resp.StatusCode}
	s.h.opts.Tap.Frame(f)
}

func (s *stream) tapFrame(dir translate.Direction) translate.Frame {
	f := translate.Frame{
		Leg: translate.ServerLeg, Dir: dir, Stream: s.id, Time: time.Now(),
		Transport: translate.TransportHTTP, Session: s.sent.Session, Principal: shownPrincipal(s.c.target.Principal),
	}
	if f.Session == "" && s.env != nil {
		f.Session = s.env.Header.Get("Mcp-Session-Id")
	}
	return f
}

// shownPrincipal is empty for those of our own making.
func shownPrincipal(p session.Principal) string {
	if len(p) > 0 && p[0] == 0 {
		return ""
	}
	return string(p)
}

// showOpened shows the tap the GET of an event stream and its status.
func (u *sseUpstream) showOpened(s *stream, target session.Target) {
	tap := u.links.o.Tap
	if tap == nil {
		return
	}
	f := s.tapFrame(translate.ToServer)
	f.Transport, f.Stream, f.Session = translate.TransportSSE, u.nextID(), ""
	f.HTTP = &translate.Envelope{Verb: http.MethodGet, Header: http.Header{"Accept": valAcceptGet}}
	tap.Frame(f)
	f.Dir, f.Time = translate.ToClient, time.Now()
	h := maps.Clone(s.env.Header)
	f.HTTP = &translate.Envelope{Status: s.env.Status, Header: h}
	tap.Frame(f)
}

// showRefused shows the tap a link that was not to be: its request and the
// status it got.
func (s *links) showRefused(name string, target session.Target, err error) {
	de, ok := errors.AsType[*session.DialError](err)
	if s.o.Tap == nil || !ok || de.HTTP == nil || s.o.transport == translate.TransportSSE { // which has been shown
		return
	}
	f := translate.Frame{
		Leg: translate.ServerLeg, Dir: translate.ToServer, Stream: s.nextID(), Time: time.Now(),
		Transport: s.o.transport, Conn: name, Principal: shownPrincipal(target.Principal),
		HTTP: &translate.Envelope{Verb: http.MethodGet},
	}
	s.o.Tap.Frame(f)
	f.Dir, f.HTTP = translate.ToClient, &translate.Envelope{Status: de.Status, Header: maps.Clone(de.HTTP.Header)}
	s.o.Tap.Frame(f)
}

// place is whose a message over a link is, for the tap.
type place struct {
	stream, session string
	who             session.Principal
}

func placeOfFace(f *face) place { return place{session: f.id, who: f.principal} }

func placeOf(st *pipeStream) place {
	w := place{stream: st.id, who: st.who}
	if st.face != nil {
		w.session = st.face.id
		if w.who == "" {
			w.who = st.face.principal
		}
	}
	return w
}

func (p *pipe) tapFrame(w place, dir translate.Direction) translate.Frame {
	return translate.Frame{
		Leg: translate.ServerLeg, Dir: dir, Stream: w.stream, Time: time.Now(), Transport: p.s.o.transport, Conn: p.name,
		Session: w.session, Principal: shownPrincipal(w.who),
	}
}

// showing shows the tap a message as the server gets it, once it is called: when
// it is sent. It is nil where nobody looks.
func (p *pipe) showing(w place, msg [][]byte) func() {
	if p.s.o.Tap == nil {
		return nil
	}
	return func() {
		session.Show(p.s.o.Tap, p.tapFrame(w, translate.ToServer), bytes.Join(msg, nil))
	}
}

// showRefusal shows the tap the status a message was refused with.
func (p *pipe) showRefusal(w place, err error) {
	de, ok := errors.AsType[*session.DialError](err)
	if err == nil || p.s.o.Tap == nil || !ok || de.HTTP == nil {
		return
	}
	f := p.tapFrame(w, translate.ToClient)
	f.HTTP = &translate.Envelope{Status: de.Status, Header: maps.Clone(de.HTTP.Header)}
	p.s.o.Tap.Frame(f)
}

// showHeard shows the tap a message as the server sent it, with the exchange it
// will be led to.
func (p *pipe) showHeard(m *jsonrpc.Message) {
	if p.s.o.Tap == nil {
		return
	}
	f := p.tapFrame(p.placeIn(m), translate.ToClient)
	f.Msg = m
	p.s.o.Tap.Frame(f)
}

// placeIn says where a message of the server's belongs, without leading it
// there.
func (p *pipe) placeIn(m *jsonrpc.Message) (w place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var st *pipeStream
	f := p.onlyFace()
	switch id, isCall := p.callOf(m); {
	case isCall:
		st = p.calls[id]
	case m.Kind == jsonrpc.Request && !p.modern && m.Method != "ping":
		f, st = p.whose(m)
	}
	switch {
	case st != nil:
		return placeOf(st)
	case f != nil:
		return placeOfFace(f)
	}
	return place{}
}

// callOf is the request of ours a message names: by answering it, by its
// progress token or its subscription.
func (p *pipe) callOf(m *jsonrpc.Message) (id int64, ok bool) {
	switch m.Kind {
	case jsonrpc.Response, jsonrpc.ErrorResponse:
		id, err := strconv.ParseInt(m.ID.Key(), 10, 64)
		return id, err == nil
	case jsonrpc.Notification:
		if m.Method == "notifications/progress" {
			return m.At("params", "progressToken").Int()
		}
		return m.At("params", "_meta", translate.MetaSubscription).Int()
	}
	return 0, false
}
