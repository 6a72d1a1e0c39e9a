package session

import (
	"context"

	"taskbridge/translate"
)

// modern leads a modern client's message: what it names that one upstream gave
// decides, else pins and weights.
func (rt *Route) modern(ctx context.Context, t *routeTable, in Inbound, s *ClientStream) {
	m := in.Frame.Msg
	if m == nil {
		rt.lead(ctx, t.all[0], in, s) // refused there
		return
	}
	f := translate.Facts(m, m.Method)
	owner := taskPrincipal(in.Caller)
	if f.State.Exists() || f.Cursor.Exists() {
		for _, u := range t.all {
			if u.runner.opens(owner, f) {
				rt.lead(ctx, u, in, s)
				return
			}
		}
	}
	for _, v := range f.TaskIDs {
		id, _ := v.Str()
		if u := rt.taskOwner(t, owner, id); u != nil {
			rt.lead(ctx, u, in, s)
			return
		}
	}
	rt.lead(ctx, rt.pick(t, chooserOf(in.Caller, m.At("params", "_meta", translate.MetaClientInfo))), in, s)
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
