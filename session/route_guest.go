package session

import (
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// A legacy client's session is bound to one upstream. Where its client names a
// task of another upstream of the route, that one's runner gets a part of the
// session: the same id, opened on the client's behalf. Requests to the client
// from there have ids of their own form, since two servers count alike.

// guestSession is a part of a session that a Route opens.
type guestSession struct{ session, mark string }

// guestMark marks the ids in a part of a session; without the state key nobody
// can guess it, a server neither.
func guestMark(h *Handles, session, upstream string) string {
	return h.mark("guest", session+"\x00"+upstream)
}

const guestPrefix = "tb-"

// guestID is a server's id as the client sees it.
func guestID(mark string, id []byte) []byte {
	return jsonrpc.Quote(guestPrefix + mark + "-" + string(id))
}

// fromGuest reads the mark and the server's own id from one; ok is false for
// other ids.
func fromGuest(v jsonrpc.Value) (mark string, id []byte, ok bool) {
	s, isText := v.Str()
	if !isText || !strings.HasPrefix(s, guestPrefix) {
		return "", nil, false
	}
	mark, raw, ok := strings.Cut(s[len(guestPrefix):], "-")
	if _, err := jsonrpc.IDFromRaw([]byte(raw)); err != nil {
		return "", nil, false
	}
	return mark, []byte(raw), ok
}

// guestOut marks what a client is to answer: the id of a request, its progress
// token, and the id in the cancel of one.
func guestOut(mark string, raw []byte) []byte {
	if raw == nil {
		return raw
	}
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil {
		return raw
	}
	e := m.Edit()
	switch {
	case m.Kind == jsonrpc.Request:
		e.Set(m.Root(), "id", guestID(mark, m.ID.Raw()))
		if token := m.At("params", "_meta", translate.MetaProgress); token.Exists() {
			e.Replace(token, guestID(mark, token.Raw()))
		}
	case m.Method == "notifications/cancelled":
		if id := m.At("params", "requestId"); id.Exists() {
			e.Replace(id, guestID(mark, id.Raw()))
		}
	}
	return e.Bytes()
}

// guestIn undoes that in what the client says; mark is empty where nothing was
// marked.
func guestIn(m *jsonrpc.Message) (mark string, back *jsonrpc.Message) {
	v := jsonrpc.Value{}
	switch {
	case m.Kind == jsonrpc.Response, m.Kind == jsonrpc.ErrorResponse:
		v = m.At("id")
	case m.Method == "notifications/progress":
		v = m.At("params", "progressToken")
	}
	mark, id, ok := fromGuest(v)
	if !ok {
		return "", nil
	}
	e := m.Edit()
	e.Replace(v, id)
	back, err := jsonrpc.Decode(e.Bytes(), jsonrpc.Limits{})
	if err != nil {
		return "", nil
	}
	return mark, back
}

// atHome gives a message the revision this part of the session speaks, which
// the client does not know.
func atHome(sess *legacySession, c Caller) Caller {
	c.Version = ""
	if f, _ := translate.Lookup(sess.Version); f.VersionHeader {
		c.Version = sess.Version
	}
	return c
}
