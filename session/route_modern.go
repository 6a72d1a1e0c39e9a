package session

import (
	"context"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// modern leads a modern client's message: what it names that one upstream gave
// decides, else pins and weights.
func (rt *Route) modern(ctx context.Context, t *routeTable, in Inbound, s *ClientStream) {
	switch {
	case in.Frame.Msg == nil:
		rt.lead(ctx, t.all[0], in, s) // refused there
	case t.sole != nil && begun(in.Frame.Msg):
		rt.lead(ctx, t.sole, in, s) // it drains, and nothing need be sealed there
	case rt.slow(t, nil, nil, in):
		if !rt.later(func(ctx context.Context) { rt.modernNow(ctx, t, in, s) }) {
			rt.isClosed(t.all[0], in, s)
		}
	default:
		rt.modernNow(ctx, t, in, s)
	}
}

// begun says whether a modern message belongs to what has begun before.
func begun(m *jsonrpc.Message) bool {
	f := translate.Facts(m, m.Method)
	return m.Kind != jsonrpc.Request || f.State.Exists() || f.Cursor.Exists() || len(f.TaskIDs) > 0
}

func (rt *Route) modernNow(ctx context.Context, t *routeTable, in Inbound, s *ClientStream) {
	m := in.Frame.Msg
	f := translate.Facts(m, m.Method)
	owner := taskPrincipal(in.Caller)
	if f.State.Exists() || f.Cursor.Exists() {
		if u := rt.giver(t, owner, f); u != nil {
			rt.lead(ctx, u, in, s)
			return
		}
	}
	if m.Method == "subscriptions/listen" {
		rt.listen(ctx, t, in, s)
		return
	}
	if u := rt.fromBefore(t, f); u != nil {
		rt.lead(ctx, u, in, s)
		return
	}
	for _, v := range f.TaskIDs {
		id, _ := v.Str()
		if u := rt.ownerOf(ctx, t, nil, nil, in, id); u != nil {
			rt.lead(ctx, u, in, s)
			return
		}
	}
	rt.leadNew(ctx, t, chooserOf(in.Caller, m.At("params", "_meta", translate.MetaClientInfo)), in, s)
}

// giver is the member that gave a cursor or requestState to that owner; nil:
// none did. Of servers that had one name one after another, it is the one where
// the call is parked.
func (rt *Route) giver(t *routeTable, owner Principal, f translate.Fact) *member {
	var list []*member
	for _, u := range t.all {
		if u.runner.opens(owner, f) {
			list = append(list, u)
		}
	}
	for _, u := range list {
		if len(list) == 1 || u.runner.parks(owner, f) {
			return u
		}
	}
	if len(list) > 0 {
		return list[0]
	}
	return nil
}

// fromBefore is the member that had the route for itself, for a cursor or state
// that is a server's own; nil: it is not known any more, or what there is is
// sealed.
func (rt *Route) fromBefore(t *routeTable, f translate.Fact) *member {
	for _, v := range []jsonrpc.Value{f.Cursor, f.State} {
		if s, _ := v.Str(); s != "" && !rt.handles.IsHandle(s) {
			for _, u := range t.all {
				if u.former.Load() {
					return u
				}
			}
		}
	}
	return nil
}

// ownerOf is the member whose task an id is, a handle's or a server's own; nil:
// none that is known. home and sess are of a legacy client.
func (rt *Route) ownerOf(ctx context.Context, t *routeTable, home *member, sess *legacySession, in Inbound, id string) *member {
	if u := rt.known(t, in.Caller, id); u != nil || !rt.bareTask(t, in.Caller, id) {
		return u
	}
	return rt.lookFor(ctx, t, home, sess, in, id)
}

// known is ownerOf without asking the servers.
func (rt *Route) known(t *routeTable, c Caller, id string) *member {
	owner := taskPrincipal(c)
	if u := rt.taskOwner(t, owner, id); u != nil || !rt.bareTask(t, c, id) {
		return u
	}
	return rt.remembered(t, owner, id)
}

// taskOwner is the member whose task a handle is; nil: it is none of this
// route's and this owner's.
func (rt *Route) taskOwner(t *routeTable, owner Principal, handle string) *member {
	ref, ok := rt.handles.OpenTask(handle, owner)
	if !ok {
		return nil
	}
	list := t.named(ref.Upstream)
	for _, m := range list {
		// Of servers that had one name after another, the one that has it.
		if len(list) == 1 || m.runner.knowsTask(owner, handle, ref) {
			return m
		}
	}
	if len(list) > 0 {
		return list[0]
	}
	return nil
}
