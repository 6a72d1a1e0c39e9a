package session

import (
	"context"
	"slices"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// A task made while a route had one upstream is known to its client by the
// server's own id, which says nothing of the upstream. Whose it is is asked
// once, of every upstream, with the caller's own credential, and remembered; the
// client goes on seeing the id it knows.

// maxBare bounds how many such ids are remembered of one principal.
const maxBare = 1000

// bareTask says whether a message names a task by a server's own id that may be
// looked for: only where the caller's own credential goes up, or all callers are
// one, the server's word is about this caller.
func (rt *Route) bareTask(t *routeTable, c Caller, id string) bool {
	return id != "" && len(id) <= maxTaskHandle && !c.Open && !rt.handles.IsHandle(id) &&
		slices.ContainsFunc(t.all, func(u *member) bool { return !u.runner.policy().SealSameEra })
}

// remembered is the member known to have a task of a server's own id.
func (rt *Route) remembered(t *routeTable, owner Principal, id string) *member {
	for _, u := range t.all {
		if u.runner.knowsBare(owner, id) {
			return u
		}
	}
	return nil
}

// lookFor asks the upstreams for a task by a server's own id, first the one
// that was alone once. home and sess are of a legacy client.
func (rt *Route) lookFor(ctx context.Context, t *routeTable, home *member, sess *legacySession, in Inbound, id string) *member {
	owner := taskPrincipal(in.Caller)
	ctx, cancel := context.WithTimeout(ctx, guestPatience)
	defer cancel()
	for _, u := range rt.lookOrder(t, home) {
		if u.runner.policy().SealSameEra || u.runner.gaveHandle(owner, id) || !rt.speaks(ctx, u, in.Caller) {
			continue // its client knows the handle; or it never gave ids like that
		}
		opened := false
		if home != nil && u != home && !rt.hasGuest(u, in.Caller) {
			if rt.openGuest(ctx, home, u, sess, in.Caller) != nil {
				continue
			}
			opened = true
		}
		look := in
		look.Caller.look = true
		params := jsonrpc.NewObject().Str("taskId", id)
		if in.Caller.Era == translate.Modern {
			params.Raw("_meta", in.Frame.Msg.At("params", "_meta").Raw())
		}
		msg, err := jsonrpc.Decode(jsonrpc.NewRequest(in.Frame.Msg.ID, "tasks/get", params.Bytes()), jsonrpc.Limits{})
		if err != nil {
			return nil
		}
		if in.Caller.Era == translate.Modern {
			look.Caller.Header = modernHeaders(msg, in.Caller.Header)
		}
		look.Frame = translate.Frame{Msg: msg, HTTP: in.Frame.HTTP}
		if _, answer, ok := rt.ask(ctx, u, look); ok && answer != nil && answer.Kind == jsonrpc.Response {
			u.runner.rememberBare(owner, id)
			return u
		}
		if opened {
			rt.closeGuest(u, sess)
		}
	}
	return nil
}

// lookOrder: the session's own, the one that had the route for itself, the rest.
func (rt *Route) lookOrder(t *routeTable, home *member) (list []*member) {
	for pass := range 3 {
		for _, u := range t.all {
			first := 2
			switch {
			case u == home:
				first = 0
			case u.former.Load():
				first = 1
			}
			if first == pass {
				list = append(list, u)
			}
		}
	}
	return list
}

// speaks says whether a client's ids pass untouched to a server, as they do
// between peers of one era.
func (rt *Route) speaks(ctx context.Context, u *member, c Caller) bool {
	f, err := u.runner.faces.Face(ctx, Target{Upstream: u.name, Principal: c.Principal, Credential: c.Credential})
	return err == nil && (f.Era == c.Era || f.Dual)
}
