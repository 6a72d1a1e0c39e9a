package session

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// passCall is one exchange between peers of one era: bytes go through as they
// are. Only ids are sealed, and only where callers share what goes upstream.
type passCall struct {
	base
	Era     translate.Era
	Stream  string    `json:",omitempty"`
	ID      []byte    `json:",omitempty"`
	Method  string    `json:",omitempty"`
	Verb    string    `json:",omitempty"`
	Session string    `json:",omitempty"` // our session
	Owner   Principal `json:",omitempty"`
	Sealed  bool      `json:",omitempty"` // the client sees handles, of Owner
	Named   []string  `json:",omitempty"` // handles the client said, where they may be another key's
	Begun   bool      `json:",omitempty"`
	Gone    bool      `json:",omitempty"` // the client has left a request, which is no cancel
	Orphan  bool      `json:",omitempty"` // the session is gone: it is over with the stream
	Bare    Principal `json:",omitempty"` // whose, of a modern client without headers
	Revised bool      `json:",omitempty"` // sent at a revision that is not the client's
	Post    *passPost `json:",omitempty"` // a message of ours that must arrive
	// Listen is a modern client's that can be sent again.
	Listen *passListen `json:",omitempty"`
}

// passDelete is what ends a server's session after ours.
type passDelete struct {
	Session, Version string
	Principal        Principal
}

// passPost is a message nobody waits for an answer to.
type passPost struct {
	As    Principal
	Out   Outgoing
	Tries int // times it is sent again when it could not be delivered
}

// sayTo sends an answer of ours to a legacy server's own request, again where
// it could not be delivered: the server waits for it.
func sayTo(x *Exec, as Principal, out Outgoing) {
	key := ""
	if m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{}); err == nil {
		key = shortKey(m.ID)
	}
	x.Do(Tell{To: OpID("pass:say-" + string(x.ID) + key), Name: "post", Data: mustJSON(passPost{As: as, Out: out, Tries: 3})})
}

func (p *passCall) Step(x *Exec, ev Event) {
	switch ev.Kind {
	case EvClient:
		p.client(x, ev)
	case EvOp:
		if p.told(x, ev) {
			return
		}
	case EvTimer:
		switch {
		case p.Post != nil:
			x.Do(Open{Label: "up", Upstream: x.r.upstream, As: p.Post.As, Out: p.Post.Out})
		case ev.Name == "listen" && p.Listen != nil && !p.up("up"):
			p.listenAgain(x)
		}
	case EvOpened:
		if p.Begun && p.Listen != nil {
			break
		}
		p.Begun = true
		if p.Verb == http.MethodPost && p.ID == nil { // accepted, whatever comes with it
			x.Do(Send{Stream: p.Stream, Out: Out{Final: true, Status: 202}})
			return
		}
		x.Do(Send{Stream: p.Stream, Out: Out{Begin: true}})
	case EvServer:
		if p.Stream != "" {
			p.server(x, ev)
		}
	case EvServerEnd:
		if p.Stream == "" {
			p.posted(x, ev)
			return
		}
		if !p.listensAgain(x, ev) {
			p.end(x, ev)
		}
	case EvClientGone:
		// Modern: the closed stream is the cancel (2026-07-28 basic/patterns/
		// cancellation). Legacy: it is not (2025-11-25 basic/transports), but a
		// GET stream serves nobody else.
		if p.Era == translate.Modern || p.Orphan || p.Verb == http.MethodGet && ev.Label == p.Stream {
			p.release(x)
			x.Do(Done{})
		}
		p.Gone = p.Gone || ev.Label == p.Stream
	}
	if p.Stream == "" && p.Post == nil && !p.up("up") {
		x.Do(Done{}) // news for an exchange that is over must not bring it back
	}
}

// told is news from another operation; false if there is nothing to do for it.
func (p *passCall) told(x *Exec, ev Event) bool {
	switch ev.Name {
	case "post":
		var post passPost
		if json.Unmarshal(ev.Data, &post) != nil {
			return false
		}
		if post.Tries > 0 {
			p.Post = &post
		}
		x.Do(Open{Label: "up", Upstream: x.r.upstream, As: post.As, Out: post.Out})
		return true
	case "ended":
		if p.Stream == "" {
			return false
		}
		p.ended(x, ev.Data)
		return true
	case "delete":
		var d passDelete
		if json.Unmarshal(ev.Data, &d) != nil {
			return false
		}
		p.Verb = http.MethodDelete
		x.Do(Open{Label: "up", Upstream: x.r.upstream, As: d.Principal, Out: Outgoing{Verb: http.MethodDelete, Session: d.Session, Version: d.Version}})
		return true
	}
	return false
}

// posted ends a message nobody waits for; one that must arrive is sent again.
func (p *passCall) posted(x *Exec, ev Event) {
	if p.Post == nil || p.Post.Tries == 0 || ev.Fail == FailNone && statusOK(ev) {
		x.Do(Done{})
		return
	}
	p.Post.Tries--
	x.Do(Wake{Name: "post", At: x.Now.Add(retryPost)})
}

func (p *passCall) client(x *Exec, ev Event) {
	m := ev.Frame.Msg
	if isGet(ev) && p.Verb == http.MethodGet && p.up("up") {
		// The client opened its GET stream anew: what was open for it stays so.
		p.release(x)
		x.Do(Send{Stream: p.Stream, Out: Out{Final: true}})
		p.Stream = ev.Label
		x.Do(Tell{To: sessionOp(p.Session), Name: "hold", Data: []byte(p.Stream)})
		if p.Begun {
			x.Do(Send{Stream: p.Stream, Out: Out{Begin: true}})
		}
		return
	}
	p.Era, p.Stream, p.Verb = ev.Caller.Era, ev.Label, http.MethodPost
	p.seals(x, ev)
	out := Outgoing{Verb: http.MethodPost, Version: ev.Caller.Version, Header: ev.Caller.Header}
	if sess := ev.Session; sess != nil {
		p.Session, out.Session, out.Revision = sess.ID, sess.UpSession, sess.Version
	}
	if m == nil {
		p.Verb = ev.Frame.HTTP.Verb
		out.Verb = p.Verb
		if p.Verb == http.MethodGet {
			x.Do(Tell{To: sessionOp(p.Session), Name: "hold", Data: []byte(p.Stream)})
		}
	} else {
		out.Msg = m.Raw
		p.Method = m.Method
		if m.Kind == jsonrpc.Request {
			p.ID = json.RawMessage(m.ID.Raw())
		}
		if !p.opens(x, ev, &out) {
			return
		}
		p.revise(ev.Face, &out)
		if p.Era == translate.Modern && len(out.Header[translate.HeaderMethod]) == 0 {
			p.Bare = ev.Caller.Principal
			out.Header = p.dressed(x, out)
		}
	}
	p.listens(ev.Caller.Principal, out)
	x.Do(Open{Label: "up", Upstream: x.r.upstream, As: ev.Caller.Principal, Out: out, Feeds: ev.Label})
}

// dressed are the headers of a message whose client is not on HTTP: what it
// says in the body alone, a server on HTTP wants to see mirrored (2026-07-28
// streamable-http, Standard Request Headers and Custom Headers).
func (p *passCall) dressed(x *Exec, out Outgoing) http.Header {
	m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{})
	if err != nil {
		return out.Header
	}
	h := modernHeaders(m, out.Header)
	if known, _ := x.Get(marksKey(marksOf(x, p.Bare))); m.Method == "tools/call" && len(known) > 0 {
		name, _ := m.At("params", "name").Str()
		if mirrors, err := translate.ParamHeaders(m, knownMarks(known).of(name)); err == nil {
			maps.Copy(h, mirrors)
		}
	}
	return h
}

// revise sends a message at a revision the server speaks where the client's is
// another: modern revisions differ in error numbers only.
func (p *passCall) revise(face Face, out *Outgoing) {
	if p.Era != translate.Modern || len(face.Versions) == 0 || slices.Contains(face.Versions, out.Version) {
		return
	}
	if m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{}); err == nil {
		p.Revised, out.Version, out.Msg = true, face.Version, translate.AtRevision(m, face.Version)
	}
}

func (p *passCall) server(x *Exec, ev Event) {
	m := ev.Frame.Msg
	answer := m.Kind == jsonrpc.Response || m.Kind == jsonrpc.ErrorResponse
	final := answer && p.ID != nil && answers(m, p.ID)
	if p.Verb == http.MethodPost && answer && !final || p.Era == translate.Modern && m.Kind == jsonrpc.Request {
		// An answer to something else, or a request where the revision has none
		// (2026-07-28 streamable-http, Receiving Messages).
		x.r.metrics.Dropped("answer")
		return
	}
	if p.acknowledged(x, m) {
		return
	}
	raw := m.Raw
	if p.Bare != "" && p.Method == "tools/list" && final {
		_, page, _ := translate.MarkedTools(m)
		learnMarks(x, marksOf(x, p.Bare), page)
	}
	if p.Sealed {
		var ok bool
		if raw, ok = sealIDs(x, m, p.Method, p.Owner, p.Named); !ok {
			x.refuse(p.Stream, p.Era, rawID(p.ID), translate.CondUpstreamBroken, "the server's requestState or cursor is too long", nil)
			x.Do(Done{})
			return
		}
		p.taskNews(x, m, raw)
	}
	if p.Revised && p.Method == "server/discover" && final {
		if edited, err := jsonrpc.Decode(raw, jsonrpc.Limits{}); err == nil {
			raw = translate.DiscoverAtRevision(edited)
		}
	}
	if final && m.ID.IsZero() {
		raw = errorWith(rawID(p.ID), m.Error().Raw())
	}
	if p.Verb == http.MethodPost && p.ID == nil {
		// What comes with the reply to a notification or an answer has no reply
		// to go into.
		x.Do(Tell{To: sessionOp(p.Session), Name: "stray", Data: raw})
		return
	}
	out := Out{Raw: raw, Final: final, Asks: m.Kind == jsonrpc.Request}
	if out.Asks || m.Method == "notifications/cancelled" {
		out.Of, out.Trace = p.Session, ev.trace
	}
	if h := ev.Frame.HTTP; h != nil && !p.Begun {
		out.Status = h.Status
		out.Header = passHeaders(h.Header)
	}
	x.Do(Send{Stream: p.Stream, Out: out})
	if final {
		x.Do(Done{})
	}
}

// answers: a response to the request of that id. An error without an id, or
// with null, in the reply to a request is about that request.
func answers(m *jsonrpc.Message, id []byte) bool {
	return m.ID.Key() == rawID(id).Key() || m.Kind == jsonrpc.ErrorResponse && m.ID.IsZero()
}

// passHeaders are the reply's headers that mean the same on our side.
func passHeaders(h http.Header) http.Header {
	var out http.Header
	for _, key := range []string{"Www-Authenticate", "Retry-After"} {
		if v := h.Values(key); len(v) > 0 {
			if out == nil {
				out = http.Header{}
			}
			out[key] = v
		}
	}
	return out
}

func (p *passCall) release(x *Exec) {
	if p.Verb == http.MethodGet && p.Session != "" {
		x.Do(Tell{To: sessionOp(p.Session), Name: "unhold", Data: []byte(p.Stream)})
	}
}

// end: the server said all it had to say, or the exchange broke.
func (p *passCall) end(x *Exec, ev Event) {
	defer x.Do(Done{})
	p.release(x)
	status := 0
	if ev.Frame.HTTP != nil {
		status = ev.Frame.HTTP.Status
	}
	switch {
	case ev.Fail == FailNone && status == 404 && p.Session != "":
		// The server forgot the session, so ours is over too: the client starts
		// anew as it would without us (2025-11-25 basic/transports).
		x.Do(Tell{To: sessionOp(p.Session), Name: "lost"})
		x.refuse(p.Stream, p.Era, rawID(p.ID), translate.CondUnknownSession, "the server no longer knows this session; send initialize again", nil)
	case p.ID == nil && status/100 == 2 && p.Verb == http.MethodPost:
		x.Do(Send{Stream: p.Stream, Out: Out{Final: true, Status: 202}})
	case p.Begun && p.ID == nil:
		x.Do(Send{Stream: p.Stream, Out: Out{Final: true}})
	case p.ID == nil && status != 0 && ev.Fail == FailNone:
		x.Do(Send{Stream: p.Stream, Out: Out{Final: true, Status: status, Header: passHeaders(ev.Frame.HTTP.Header)}})
	default:
		out := failedOut(p.Era, rawID(p.ID), ev)
		if ev.Fail == FailNone && status/100 == 4 {
			// A bare refusal, about what the client sent: it is the client's to
			// read (transports, Sending Messages: the body may be anything).
			out.Status = status
		}
		x.Do(Send{Stream: p.Stream, Out: out})
	}
}

// renamed rewrites the mirrored headers after the body changed.
func renamed(h http.Header, raw []byte) http.Header {
	return modernOut(raw, "", h).Header
}
