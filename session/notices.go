package session

import (
	"net/http"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Notifications nobody defined belong to extensions both ends may know, so
// they go on like such requests. Nobody waits for them.

// noticeToModern sends a legacy client's notification on.
func (r *Runner) noticeToModern(ev Event, s *ClientStream) {
	m := ev.Frame.Msg
	if translate.ActionFor(m.Method, translate.Legacy) != translate.Forward || translate.EncodeHeader(m.Method) != m.Method {
		return
	}
	raw := translate.RequestToModern(m, ev.Session.modernRequest(false))
	out := Outgoing{Verb: http.MethodPost, Msg: raw, Version: ev.Session.ServerVersion, Header: modernHeaders(m, ev.Caller.Header)}
	r.postNotice(s, passPost{As: ev.Caller.Principal, Out: out})
}

// noticeToLegacy sends a modern client's notification on in the session its
// calls share; without one there is nobody it could mean anything to.
func (r *Runner) noticeToLegacy(ev Event, s *ClientStream) {
	m := ev.Frame.Msg
	if m.Kind != jsonrpc.Notification || ev.Caller.Open || translate.ActionFor(m.Method, translate.Modern) != translate.Forward {
		return
	}
	meta := m.At("params", "_meta")
	caps := translate.ClientCapsToLegacy(meta.Get(translate.MetaClientCaps).Raw())
	pool := new(poolSession)
	if !r.load(poolOf(&Exec{r: r}, ev.Caller, clientInfo(meta), caps, ""), pool) || pool.Phase != "ready" {
		return
	}
	out := pool.out(Outgoing{Verb: http.MethodPost, Msg: translate.RequestToLegacy(m, translate.LegacyRequest{}), Header: legacyHeaders(ev.Caller.Header)})
	r.postNotice(s, passPost{As: ev.Caller.Principal, Out: out})
}

func (r *Runner) postNotice(s *ClientStream, post passPost) {
	r.deliver(OpID("pass:note-"+s.ID), Event{Kind: EvOp, Name: "post", Data: mustJSON(post)})
}
