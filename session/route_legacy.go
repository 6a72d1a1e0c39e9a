package session

import (
	"context"
	"net/http"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// legacy leads a legacy client's message: its session decides, but for what
// names something of another upstream's.
func (rt *Route) legacy(ctx context.Context, t *routeTable, in Inbound, s *ClientStream) {
	m := in.Frame.Msg
	if m != nil && m.Kind == jsonrpc.Request && m.Method == "initialize" {
		c := chooserOf(in.Caller, m.At("params", "clientInfo"))
		c.key = randomText(rt.rand, 12)
		rt.leadNew(ctx, t, c, in, s)
		return
	}
	home, sess := rt.home(t, in.Caller.Session)
	if home == nil && in.Caller.Session != "" {
		if rt.isClosed(t.all[0], in, s) {
			return
		}
		// None may take a part of the session that is still there for all of it.
		t.all[0].refuse(in, s, refusal(translate.Legacy, messageID(m), translate.CondUnknownSession, unknownSession, nil))
		return
	}
	if home == nil {
		rt.lead(ctx, t.all[0], in, s) // a ping, or refused there
		return
	}
	if sess == nil || sess.Phase != sessionReady || sess.Principal != in.Caller.Principal {
		rt.lead(ctx, home, in, s) // refused there
		return
	}
	goOn := func(ctx context.Context) {
		if at, in, ok := rt.inSession(ctx, t, home, sess, in, s); ok {
			rt.lead(ctx, at, in, s)
		}
	}
	if !rt.slow(t, home, sess, in) {
		goOn(ctx)
	} else if !rt.later(goOn) {
		rt.isClosed(home, in, s)
	}
}

// slow says whether servers have to be asked before it is known where a message
// goes: the next one of its client shall not wait for that.
func (rt *Route) slow(t *routeTable, home *member, sess *legacySession, in Inbound) bool {
	m := in.Frame.Msg
	if m == nil || m.Kind != jsonrpc.Request {
		return false
	}
	f := translate.Facts(m, m.Method)
	if cursor, _ := f.Cursor.Str(); m.Method == "tasks/list" && rt.handles.IsHandle(cursor) {
		return true
	}
	owner := taskPrincipal(in.Caller)
	for _, v := range f.TaskIDs {
		id, _ := v.Str()
		switch u := rt.taskOwner(t, owner, id); {
		case u != nil:
			if home != nil && u != home && !rt.hasGuest(u, in.Caller) {
				return true
			}
		case (sess == nil || sess.Sealed) && rt.bareTask(t, in.Caller, id):
			return true
		}
	}
	return false
}

// later runs f beside the message that brought it; false, and not any more, once
// the Route is closed.
func (rt *Route) later(f func(ctx context.Context)) bool {
	rt.life.Lock()
	defer rt.life.Unlock()
	if !rt.over {
		rt.wg.Go(func() { f(rt.ctx) })
	}
	return !rt.over
}

// home is the member a client's session is bound to.
func (rt *Route) home(t *routeTable, id string) (*member, *legacySession) {
	if id == "" || len(id) > 128 {
		return nil, nil
	}
	if m, ok := rt.bound.Get(id); ok && !m.closing.Load() {
		sess, _ := m.runner.session(id)
		return m, sess
	}
	for _, m := range t.all {
		if sess, ok := m.runner.session(id); ok && sess.Guest == "" {
			rt.bound.Add(id, m)
			return m, sess
		}
	}
	return nil, nil
}

// inSession finds the member a message within a session is for; false: it was
// answered.
func (rt *Route) inSession(ctx context.Context, t *routeTable, home *member, sess *legacySession, in Inbound, s *ClientStream) (*member, Inbound, bool) {
	m := in.Frame.Msg
	switch {
	case m == nil:
		return rt.streamOwner(t, home, in), in, true
	case m.Kind == jsonrpc.Request:
		return rt.requestOwner(ctx, t, home, sess, in, s)
	case m.Method == "notifications/cancelled":
		return rt.cancelOwner(t, home, in), in, true
	}
	if mark, back := guestIn(m); back != nil {
		for _, u := range t.all {
			if mark == guestMark(rt.handles, in.Caller.Session, u.name) && u != home && rt.hasGuest(u, in.Caller) {
				in.Frame.Msg = back
				return u, in, true
			}
		}
	}
	if m.Method == "notifications/roots/list_changed" {
		rt.tellGuests(ctx, t, home, in)
	}
	return home, in, true
}

// streamOwner is where a GET stream is resumed.
func (rt *Route) streamOwner(t *routeTable, home *member, in Inbound) *member {
	if h := in.Frame.HTTP; h != nil && h.Verb == http.MethodGet {
		if last := h.Header.Get(translate.HeaderLastEvent); last != "" {
			for _, u := range t.all {
				if u.runner.hasEvents(in.Caller.Session, last) {
					return u
				}
			}
		}
	}
	return home
}

// cancelOwner is where the request runs that a client cancels.
func (rt *Route) cancelOwner(t *routeTable, home *member, in Inbound) *member {
	id, err := jsonrpc.IDFromRaw(in.Frame.Msg.At("params", "requestId").Raw())
	if err != nil {
		return home
	}
	for _, u := range t.all {
		if u != home && rt.hasGuest(u, in.Caller) && u.runner.inFlight(in.Caller.Session, id) {
			return u
		}
	}
	return home
}

// requestOwner is the member whose task a request names; a part of the session
// is opened there where it needs one.
func (rt *Route) requestOwner(ctx context.Context, t *routeTable, home *member, sess *legacySession, in Inbound, s *ClientStream) (*member, Inbound, bool) {
	m := in.Frame.Msg
	if m.Method == "tasks/list" {
		return rt.list(ctx, t, home, sess, in, s)
	}
	for _, v := range translate.Facts(m, m.Method).TaskIDs {
		id, _ := v.Str()
		u := rt.ownerIn(ctx, t, home, sess, in, id)
		if u == nil || u == home {
			continue
		}
		if refused := rt.openGuest(ctx, home, u, sess, in.Caller); refused != nil {
			home.refuse(in, s, refused.answer(in.Caller.Era, m.ID))
			return nil, in, false
		}
		home.runner.touch(sess)
		return u, in, true
	}
	return home, in, true
}

// ownerIn is ownerOf within a session. What began while the ids of its server
// passed untouched names that one's by them.
func (rt *Route) ownerIn(ctx context.Context, t *routeTable, home *member, sess *legacySession, in Inbound, id string) *member {
	if u := rt.taskOwner(t, taskPrincipal(in.Caller), id); u != nil || !sess.Sealed {
		return u
	}
	return rt.ownerOf(ctx, t, home, sess, in, id)
}

// hasGuest says whether a caller's session has a part at a member.
func (rt *Route) hasGuest(u *member, c Caller) bool {
	sess, ok := u.runner.session(c.Session)
	return ok && sess.Guest != "" && sess.Phase == sessionReady && sess.Principal == c.Principal
}

// guestPatience bounds the opening of a part of a session.
const guestPatience = 30 * time.Second

// noGuest is why a part of a session could not be opened.
type noGuest struct {
	out Out
	msg *jsonrpc.Message
}

func (n *noGuest) answer(era translate.Era, id jsonrpc.ID) Out {
	switch {
	case n.msg != nil && n.msg.Kind == jsonrpc.ErrorResponse:
		return Out{Raw: withID(n.msg, id), Final: true, Status: n.out.Status, Header: n.out.Header}
	case n.out.Status == 401 || n.out.Status == 403:
		return n.out
	}
	return refusal(era, id, translate.CondUpstreamBroken, "the server that has this task opened no session; try again", nil)
}

// openGuest opens the part of a session at u, as its client would: with what it
// said to us at initialize. Nil: it is open.
func (rt *Route) openGuest(ctx context.Context, home, u *member, sess *legacySession, c Caller) *noGuest {
	if rt.hasGuest(u, c) {
		return nil
	}
	defer rt.opens.lock(sess.ID + "\x00" + u.name)()
	if rt.hasGuest(u, c) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, guestPatience)
	defer cancel()
	params := jsonrpc.NewObject().Str("protocolVersion", sess.Version).Raw("capabilities", sess.ClientCaps).Raw("clientInfo", sess.ClientInfo).Bytes()
	msg, err := jsonrpc.Decode(jsonrpc.NewRequest(jsonrpc.IntID(1), "initialize", params), jsonrpc.Limits{})
	if err != nil {
		return &noGuest{}
	}
	in := Inbound{Caller: c, guest: &guestSession{sess.ID, guestMark(rt.handles, sess.ID, u.name)}}
	in.Caller.Version, in.Caller.Session, in.Caller.Header = "", "", nil
	in.Frame = translate.Frame{Msg: msg}
	out, answer, ok := rt.ask(ctx, u, in)
	if !ok || answer == nil || answer.Kind != jsonrpc.Response {
		rt.log.Warn("a session that is bound to one upstream could not be opened at another", "route", rt.name, "bound", home.name, "upstream", u.name, "status", out.Status)
		return &noGuest{out, answer}
	}
	if msg, err = jsonrpc.Decode([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), jsonrpc.Limits{}); err != nil {
		return &noGuest{}
	}
	in.guest, in.Caller.Session, in.Frame = nil, sess.ID, translate.Frame{Msg: msg}
	rt.ask(ctx, u, in) // what it says to that shows at the first request
	if bound, ok := home.runner.session(sess.ID); ok && bound.listens() {
		if part, ok := u.runner.session(sess.ID); ok && part.Guest != "" {
			rt.carry(home, u, part)
		}
	}
	return nil
}

// tellGuests gives a notification to all parts of a session.
func (rt *Route) tellGuests(ctx context.Context, t *routeTable, home *member, in Inbound) {
	for _, u := range t.all {
		if u != home && rt.hasGuest(u, in.Caller) {
			rt.ask(ctx, u, in)
		}
	}
}

// sessionOver: a client's session ended where it is bound, and its parts do
// with it.
func (rt *Route) sessionOver(home *member, id string) {
	rt.bound.Remove(id)
	t := rt.table.Load()
	if len(t.all) < 2 || rt.ctx.Err() != nil {
		return
	}
	for _, u := range t.all {
		if u == home {
			continue
		}
		if sess, ok := u.runner.session(id); ok && sess.Guest != "" {
			// Not within the step that ended it.
			rt.later(func(context.Context) { rt.closeGuest(u, sess) })
		}
	}
}

// closeGuest ends the part of a session at u.
func (rt *Route) closeGuest(u *member, sess *legacySession) {
	in := Inbound{Caller: Caller{Era: translate.Legacy, Principal: sess.Principal, Open: sess.Open, Session: sess.ID}}
	in.Frame = translate.Frame{HTTP: &translate.Envelope{Verb: http.MethodDelete}}
	ctx, cancel := context.WithTimeout(rt.ctx, guestPatience)
	defer cancel()
	rt.ask(ctx, u, in)
}

// callingElsewhere says whether the client of a session waits at another
// member than its own.
func (rt *Route) callingElsewhere(home *member, id string) bool {
	for _, u := range rt.table.Load().all {
		if sess, ok := u.runner.session(id); u != home && ok && sess.Guest != "" && u.runner.callingHere(id) {
			return true
		}
	}
	return false
}
