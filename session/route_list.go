package session

import (
	"context"
	"encoding/json"

	"taskbridge/translate/jsonrpc"
)

// kindListCursor labels the cursor of a list of tasks that goes on at another
// upstream.
const kindListCursor = "routecursor"

// listPlace is where a list of tasks goes on.
type listPlace struct {
	Upstream string `json:"u"`
	Cursor   string `json:"c,omitempty"` // that upstream's own; empty: its first page
}

// list leads a legacy client's tasks/list: the tasks of the upstream its session
// is bound to, then those of the others where this principal has some. False: it
// was answered.
func (rt *Route) list(ctx context.Context, t *routeTable, home *member, sess *legacySession, in Inbound, s *ClientStream) (*member, Inbound, bool) {
	m, owner := in.Frame.Msg, taskPrincipal(in.Caller)
	at := home
	if cursor := m.At("params", "cursor"); cursor.Exists() {
		if text, _ := cursor.Str(); rt.handles.IsHandle(text) {
			var place listPlace
			if raw, ok := rt.handles.OpenFor(kindListCursor, owner, text); ok && json.Unmarshal(raw, &place) == nil {
				// Another route's, or of an upstream that is gone: it is refused as it
				// came, so that no server gets the cursor of another.
				if list := t.named(place.Upstream); len(list) > 0 {
					at = list[0]
					in.Frame.Msg = withCursor(m, place.Cursor)
				}
			}
		}
	}
	others := rt.listed(t, home, owner)
	if at == home && len(others) == 0 {
		return home, in, true
	}
	if at != home {
		if refused := rt.openGuest(ctx, home, at, sess, in.Caller); refused != nil {
			home.refuse(in, s, refused.answer(in.Caller.Era, m.ID))
			return nil, in, false
		}
		home.runner.touch(sess)
	}
	s.edit = func(raw []byte) []byte { return rt.goesOn(raw, at, others, owner) }
	return at, in, true
}

// listed are the others that have tasks of owner's to list. Callers who cannot
// be told apart have no lists.
func (rt *Route) listed(t *routeTable, home *member, owner Principal) (list []*member) {
	if owner == "" {
		return nil
	}
	for _, u := range t.all {
		if u != home && u.runner.hasTasks(owner) {
			list = append(list, u)
		}
	}
	return list
}

// withCursor is a tasks/list with another cursor; empty: none.
func withCursor(m *jsonrpc.Message, cursor string) *jsonrpc.Message {
	e := m.Edit()
	if cursor == "" {
		e.Delete(m.At("params", "cursor"))
	} else {
		e.Replace(m.At("params", "cursor"), jsonrpc.Quote(cursor))
	}
	if edited, err := jsonrpc.Decode(e.Bytes(), jsonrpc.Limits{}); err == nil {
		return edited
	}
	return m
}

// goesOn puts into a page of at's where the list goes on.
func (rt *Route) goesOn(raw []byte, at *member, others []*member, owner Principal) []byte {
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil || m.Kind != jsonrpc.Response {
		return raw
	}
	place := listPlace{Upstream: at.name}
	cursor := m.Result().Get("nextCursor")
	if place.Cursor, _ = cursor.Str(); place.Cursor == "" {
		next := after(others, at)
		if next == nil {
			return raw
		}
		place = listPlace{Upstream: next.name}
	}
	sealed := rt.handles.SealFor(kindListCursor, owner, mustJSON(place))
	e := m.Edit()
	if sealed == "" {
		return raw
	}
	e.Set(m.Result(), "nextCursor", jsonrpc.Quote(sealed))
	return e.Bytes()
}

// after is the one of list that follows m; the first where m is not among them.
func after(list []*member, m *member) *member {
	for i, u := range list {
		if u == m {
			list = list[i+1:]
			break
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[0]
}
