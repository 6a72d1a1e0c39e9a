package session

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Client takes one message in and leads it to its operation.
func (r *Runner) Client(ctx context.Context, in Inbound, s *ClientStream) {
	if r.tap != nil {
		r.tap.Frame(in.Frame)
	}
	r.creds.Put(in.Caller.Principal, in.Caller.Credential)
	if !in.ours {
		r.observe(in, s)
	}
	if in.Caller.Era == translate.Modern {
		if f, _ := translate.Lookup(in.Caller.Version); f.OldModernCodes {
			s.version = in.Caller.Version
		}
		r.modernClient(ctx, in, s)
		return
	}
	r.legacyClient(ctx, in, s)
}

func (r *Runner) refuse(s *ClientStream, era translate.Era, m *jsonrpc.Message, c translate.Cond, message string) {
	s.Send(refusal(era, messageID(m), c, message, nil))
}

func messageID(m *jsonrpc.Message) jsonrpc.ID {
	if m != nil && m.Kind == jsonrpc.Request {
		return m.ID
	}
	return jsonrpc.ID{}
}

// start hands a message to an operation that answers on s.
func (r *Runner) start(op OpID, ev Event, s *ClientStream) {
	s.seen.begin()
	ev.Kind, ev.Label, ev.from = EvClient, s.ID, s.seen.origin()
	r.attach(s, op)
	r.deliver(op, ev)
}

// face asks what the server speaks; the answer to a failure is an HTTP
// status, never a JSON-RPC error alone: clients read any as "legacy".
func (r *Runner) face(ctx context.Context, in Inbound, s *ClientStream) (Face, bool) {
	f, err := r.faces.Face(ctx, Target{Upstream: r.upstream, Principal: in.Caller.Principal, Credential: in.Caller.Credential})
	if err == nil {
		return f, true
	}
	r.judge(ctx, nil, err)
	out := refusal(in.Caller.Era, messageID(in.Frame.Msg), translate.CondUpstreamUndecided, "the upstream server could not be reached or did not say which revision it speaks; try again", nil)
	if d, ok := errors.AsType[*DialError](err); ok {
		switch {
		case d.Fail == FailRefused:
			out = refusal(in.Caller.Era, messageID(in.Frame.Msg), translate.CondUpstreamRefused, "the upstream server refuses the credential this proxy was given; its operator must mend that", nil)
		case d.Fail == FailProcess:
			out = refusal(in.Caller.Era, messageID(in.Frame.Msg), translate.CondUpstreamDown, d.Err.Error(), nil)
		case d.HTTP != nil && (d.Status == 401 || d.Status == 403):
			out = Out{Final: true, Status: d.Status, Header: d.HTTP.Header}
		case d.Fail == FailUnreachable, d.Fail == FailRedirect:
			out.Status = translate.ReplyFor(translate.CondUpstreamDown, in.Caller.Era).Status
		case d.Status == 504:
			out.Status = d.Status
		}
	}
	r.log.Warn("era of upstream undecided", "upstream", r.upstream, "err", err)
	s.Send(out)
	return Face{}, false
}

// Versions are the revisions a modern client can ask for here: those of the
// server's own list that we know too, all modern ones where a legacy server
// stands behind. Nil: the server cannot be asked now.
func (r *Runner) Versions(ctx context.Context, c Caller) []string {
	f, err := r.faces.Face(ctx, Target{Upstream: r.upstream, Principal: c.Principal, Credential: c.Credential})
	switch {
	case err != nil:
		return nil
	case f.Era == translate.Legacy:
		return translate.Versions(translate.Modern)
	}
	var known []string
	for _, v := range f.Versions {
		if _, ok := translate.Lookup(v); ok {
			known = append(known, v)
		}
	}
	return known
}

func (r *Runner) legacyClient(ctx context.Context, in Inbound, s *ClientStream) {
	m := in.Frame.Msg
	if m != nil && m.Kind == jsonrpc.Request {
		switch m.Method {
		case "initialize":
			r.openSession(ctx, in, s)
			return
		case "ping":
			if in.Caller.Session == "" {
				s.Send(Out{Raw: jsonrpc.NewResult(m.ID, []byte("{}")), Final: true})
				return
			}
		}
	}
	if in.Caller.Session == "" {
		r.refuse(s, translate.Legacy, m, translate.CondNoSession, "this request needs an Mcp-Session-Id header; send initialize first")
		return
	}
	sess := new(legacySession)
	if len(in.Caller.Session) > 128 || !r.load(sessionOp(in.Caller.Session), sess) ||
		sess.Phase != sessionReady || sess.Principal != in.Caller.Principal {
		r.refuse(s, translate.Legacy, m, translate.CondUnknownSession, unknownSession)
		return
	}
	s.seen.of(sess)
	r.questions.answered(sess.ID, m)
	if r.clock.Now().Sub(sess.Used) > r.policy().SessionIdle/8 {
		r.deliver(sessionOp(sess.ID), Event{Kind: EvOp, Name: "touch"})
	}
	ev := Event{Frame: in.Frame, Caller: in.Caller, Session: sess}
	if sess.Guest != "" {
		s.guest = sess.Guest
		ev.Caller = atHome(sess, ev.Caller)
	}
	if isGet(ev) {
		if in.ours || r.admitStream(ev, s, translate.Legacy) {
			r.legacyGet(ev, s)
		}
		return
	}
	if m != nil && m.Kind == jsonrpc.Request {
		r.keepEvents(s, sess, m)
	}
	if sess.Era == translate.Legacy {
		r.passLegacy(ev, s)
		return
	}
	r.bridgeLegacy(ev, s)
}

// unknownSession is said of unknown, ended and foreign sessions alike.
const unknownSession = "unknown session; send initialize again"

// openSession: a legacy client's initialize. Its session is counted before it
// is there, so that many at once do not pass the limit; a part of one that is
// bound to another upstream is none of its own.
func (r *Runner) openSession(ctx context.Context, in Inbound, s *ClientStream) {
	key := r.limitKey(in.Caller)
	if in.guest == nil && !r.take(countSessions, key, r.policy().Sessions, r.policy().Above.Sessions) {
		r.metrics.Limited(countSessions)
		s.Send(tooMany(translate.Legacy, messageID(in.Frame.Msg), countSessions, "too many sessions; end some with DELETE or try again later"))
		return
	}
	face, ok := r.face(ctx, in, s)
	if !ok {
		if in.guest == nil {
			r.give(countSessions, key)
		}
		return
	}
	s.seen.up(face)
	s.opens = true
	id, guest := r.token(18), []byte(nil)
	if in.guest != nil {
		id, guest = in.guest.session, []byte(in.guest.mark)
	}
	r.start(sessionOp(id), Event{Frame: in.Frame, Caller: in.Caller, Face: face, Data: guest}, s)
}

// passLegacy: both peers are legacy; messages go through as they are.
func (r *Runner) passLegacy(ev Event, s *ClientStream) {
	m := ev.Frame.Msg
	if m == nil { // DELETE
		r.start(sessionOp(ev.Session.ID), ev, s)
		return
	}
	if m != nil && m.Method == "tasks/result" && !r.admitStream(ev, s, translate.Legacy) {
		return
	}
	r.start(passOp(ev.Session.ID, s.ID), ev, s)
}

// bridgeLegacy: a legacy client before a modern server.
func (r *Runner) bridgeLegacy(ev Event, s *ClientStream) {
	m, sess := ev.Frame.Msg, ev.Session
	if m == nil { // DELETE
		r.start(sessionOp(sess.ID), ev, s)
		return
	}
	accepted := Out{Final: true, Status: 202}
	switch m.Kind {
	case jsonrpc.Response, jsonrpc.ErrorResponse:
		r.answer(sess.ID, m)
		s.Send(accepted)
		return
	case jsonrpc.Notification:
		if m.Method == "notifications/cancelled" {
			if id, err := jsonrpc.IDFromRaw(m.At("params", "requestId").Raw()); err == nil {
				r.cancelCall(sess.ID, id)
			}
		}
		r.noticeToModern(ev, s)
		s.Send(accepted)
		return
	}
	switch translate.ActionFor(m.Method, translate.Legacy) {
	case translate.Refuse:
		r.refuse(s, translate.Legacy, m, translate.CondUnknownMethod, "method not found: "+m.Method)
	case translate.Local:
		if m.Method == "ping" {
			s.Send(Out{Raw: jsonrpc.NewResult(m.ID, []byte("{}")), Final: true})
			return
		}
		r.start(sessionOp(sess.ID), ev, s)
	case translate.Operate:
		r.legacyTaskCall(ev, s)
	default:
		if cond, why := unsendable(m); cond != translate.CondNone {
			r.refuse(s, translate.Legacy, m, cond, why)
			return
		}
		op := callOp(sess.ID, m.ID)
		if r.exists(op) {
			r.refuse(s, translate.Legacy, m, translate.CondDuplicateID, duplicateID)
			return
		}
		r.start(op, ev, s)
	}
}

// duplicateID is said of a request whose id another one still uses.
const duplicateID = "a request with this id is still in flight in this session"

// unsendable: what no modern request can carry, since headers mirror it
// (2026-07-28 streamable-http, Standard Request Headers). The server would
// blame headers a legacy client knows nothing of.
func unsendable(m *jsonrpc.Message) (translate.Cond, string) {
	if translate.EncodeHeader(m.Method) != m.Method {
		return translate.CondUnknownMethod, "method not found"
	}
	if key := translate.NameMember(m.Method); key != "" {
		name := m.At("params", key)
		if name.Type() != jsonrpc.String {
			return translate.CondInvalidParams, "params." + key + " must be a string"
		}
		if s, _ := name.Str(); len(s) > translate.MaxHeaderValue || len(translate.EncodeHeader(s)) > translate.MaxHeaderValue {
			return translate.CondInvalidParams, "params." + key + " is too long"
		}
	}
	return translate.CondNone, ""
}

func (r *Runner) exists(op OpID) bool {
	_, err := r.store.Get(r.ctx, opKey(op))
	return err == nil
}

// has says whether there is a record of a prefix.
func (r *Runner) has(prefix string) bool {
	list, err := r.store.List(r.ctx, prefix, "", 1)
	return err == nil && len(list) > 0
}

// callOp names a legacy client's call, so that its cancel finds it from any
// runner. Ids are compared as JSON values.
func callOp(session string, id jsonrpc.ID) OpID {
	return OpID("lcall:" + session + ":" + shortKey(id))
}

// shortKey is id.Key() as part of store keys, which are copied often.
func shortKey(id jsonrpc.ID) string {
	key := id.Key()
	if len(key) <= 128 {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "#" + base64.RawURLEncoding.EncodeToString(sum[:])
}

func sessionOp(id string) OpID { return OpID("session:" + id) }

// waitKey names the record that says which task a blocked tasks/result waits
// for, so that its cancel finds it.
func waitKey(session string, id jsonrpc.ID) string { return "wait/" + session + "/" + shortKey(id) }

// cancelCall ends a call, or only the wait of a tasks/result.
func (r *Runner) cancelCall(session string, id jsonrpc.ID) {
	if op := callOp(session, id); r.exists(op) {
		r.deliver(op, Event{Kind: EvCancel})
		return
	}
	if raw, err := r.store.Take(r.ctx, waitKey(session, id)); err == nil {
		op, stream, _ := strings.Cut(string(raw), " ")
		r.deliver(OpID(op), Event{Kind: EvClientGone, Label: stream, Name: "cancelled"})
		r.send(stream, Out{Final: true})
	}
}

// answer leads a client's response to the operation that asked. Of two
// answers to one question the store lets the first through.
func (r *Runner) answer(session string, m *jsonrpc.Message) {
	raw, err := r.store.Take(r.ctx, askKey(session, m.ID))
	var a asked
	if err != nil || json.Unmarshal(raw, &a) != nil {
		r.metrics.Dropped("answer")
		if id, ok := m.At("id").Int(); ok && id > 0 && id <= r.lastID("askseq/"+session) {
			r.lost(origin{}, string(translate.LossLateAnswer)) // it was asked once
		}
		r.log.Debug("answer to no question of ours was dropped")
		return
	}
	r.deliver(a.Op, Event{Kind: EvAnswer, Label: session, Name: a.Name, Frame: translate.Frame{Msg: m, Leg: translate.ClientLeg, Dir: translate.ToServer}})
}

// taskPrincipal is who a task belongs to: callers who cannot be told apart
// hold their tasks as bearers.
func taskPrincipal(c Caller) Principal {
	if c.Open {
		return ""
	}
	return c.Principal
}

// legacyTaskCall leads tasks/* of a legacy client to the task.
func (r *Runner) legacyTaskCall(ev Event, s *ClientStream) {
	m := ev.Frame.Msg
	if !ev.Session.Tasks {
		r.refuse(s, translate.Legacy, m, translate.CondUnknownMethod, "the server behind offers no tasks")
		return
	}
	if m.Method == "tasks/list" {
		if ev.Caller.Open {
			r.refuse(s, translate.Legacy, m, translate.CondUnknownMethod, "tasks/list is not offered to callers who cannot be told apart")
			return
		}
		r.start(OpID("llist:"+s.ID), ev, s)
		return
	}
	handle, _ := m.At("params", "taskId").Str()
	if _, ok := r.openTask(handle, taskPrincipal(ev.Caller)); !ok {
		r.refuse(s, translate.Legacy, m, translate.CondUnknownTask, unknownTask)
		return
	}
	if m.Method == "tasks/result" {
		if !r.admitStream(ev, s, translate.Legacy) {
			return
		}
		_, _ = r.store.Put(r.ctx, waitKey(ev.Session.ID, m.ID), []byte("ltask:"+handle+" "+s.ID), Any)
	}
	r.start(OpID("ltask:"+handle), ev, s)
}

// unknownTask is said of unknown, expired and foreign tasks alike.
const unknownTask = "Failed to retrieve task: Task not found"

func (r *Runner) modernClient(ctx context.Context, in Inbound, s *ClientStream) {
	m := in.Frame.Msg
	if m == nil {
		r.refuse(s, translate.Modern, m, translate.CondVerb, "")
		return
	}
	face, ok := r.face(ctx, in, s)
	if !ok {
		return
	}
	s.seen.up(face)
	ev := Event{Frame: in.Frame, Caller: in.Caller, Face: face}
	if m.Kind != jsonrpc.Request && face.Era != translate.Modern {
		// None the specification has means anything to a legacy server
		// (2026-07-28 streamable-http, Sending Messages); an extension's may.
		r.noticeToLegacy(ev, s)
		s.Send(Out{Final: true, Status: 202})
		return
	}
	if m.Method == "subscriptions/listen" && !r.admitStream(ev, s, translate.Modern) {
		return
	}
	if face.Era == translate.Modern {
		r.start(OpID("pass:"+s.ID), ev, s)
		return
	}
	switch translate.ActionFor(m.Method, translate.Modern) {
	case translate.Refuse:
		r.refuse(s, translate.Modern, m, translate.CondUnknownMethod, "method not found: "+m.Method)
	case translate.Operate:
		handle, _ := m.At("params", "taskId").Str()
		if _, ok := r.openTask(handle, taskPrincipal(in.Caller)); !ok {
			r.refuse(s, translate.Modern, m, translate.CondUnknownTask, unknownTask)
			return
		}
		r.start(OpID("mtask:"+handle), ev, s)
	default:
		if m.Method == "subscriptions/listen" {
			r.start(OpID("listen:"+s.ID), ev, s)
			return
		}
		if why := mismatched(&Exec{r: r}, in.Caller, m); why != "" {
			r.refuse(s, translate.Modern, m, translate.CondHeaderMismatch, why)
			return
		}
		if translate.CanRequireInput(m.Method) && m.At("params", "requestState").Exists() {
			r.resume(ev, s)
			return
		}
		r.start(OpID("mcall:"+s.ID), ev, s)
	}
}
