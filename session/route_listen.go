package session

import (
	"context"
	"slices"
	"sync"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// listenPart is what one upstream is asked of a listen that names tasks of
// several.
type listenPart struct {
	at    *member
	ids   []string
	rest  bool // everything that is not about tasks
	s     *ClientStream
	acked bool
	over  bool
}

// maxListenLooks bounds the ids of one listen that servers are asked about: the
// caller's one request becomes as many to each.
const maxListenLooks = 32

// maxListenHeld bounds what is kept of the parts until all were acknowledged.
const maxListenHeld = 256

// listenParts sorts what a listen names by upstream; pick, which may be nil, gets
// what is about no task.
func (rt *Route) listenParts(ctx context.Context, t *routeTable, in Inbound, pick *member) (parts []*listenPart) {
	filter := in.Frame.Msg.At("params", "notifications")
	part := func(u *member) *listenPart {
		for _, p := range parts {
			if p.at == u {
				return p
			}
		}
		parts = append(parts, &listenPart{at: u})
		return parts[len(parts)-1]
	}
	for key := range filter.Members() {
		if key != "taskIds" && pick != nil {
			part(pick).rest = true
		}
	}
	ctx, cancel := context.WithTimeout(ctx, guestPatience)
	defer cancel()
	n, looks := 0, 0
	for v := range filter.Get("taskIds").Elems() {
		id, _ := v.Str()
		if n++; n > maxListenTasks {
			break
		}
		u := rt.known(t, in.Caller, id)
		if u == nil && looks < maxListenLooks {
			looks++
			u = rt.ownerOf(ctx, t, nil, nil, in, id)
		}
		if u != nil {
			p := part(u)
			p.ids = append(p.ids, id)
		}
	}
	if len(parts) == 0 && pick != nil {
		part(pick).rest = true
	}
	return parts
}

// listen leads a modern client's subscriptions/listen: one to each upstream that
// has part of it, under the client's one id (2026-07-28 basic/patterns/
// subscriptions).
func (rt *Route) listen(ctx context.Context, t *routeTable, in Inbound, s *ClientStream) {
	pick := rt.choose(t, chooserOf(in.Caller, in.Frame.Msg.At("params", "_meta", translate.MetaClientInfo)))
	if pick != nil {
		defer pick.leave()
	}
	parts := rt.listenParts(ctx, t, in, pick)
	switch len(parts) {
	case 0:
		rt.noUpstream(t, in, s)
		return
	case 1:
		rt.lead(ctx, parts[0].at, in, s)
		return
	}
	l := &listens{rt: rt, out: s, id: in.Frame.Msg.ID, parts: parts}
	for i, p := range parts {
		p.s = NewClientStream(rt.proc.next(), rt.bytes)
		part := in
		part.ours = i > 0
		if part.Frame.Msg = p.filtered(in.Frame.Msg); part.Frame.Msg == nil || !p.at.take(ctx, part, p.s) {
			p.over = true
		}
	}
	s.whenGone(l.gone)
	reads := false
	for _, p := range parts {
		if !p.over && rt.later(func(context.Context) { l.read(p) }) {
			reads = true
		}
	}
	if !reads && !rt.isClosed(parts[0].at, in, s) {
		rt.lead(ctx, parts[0].at, in, s)
	}
}

// filtered is the listen with the part's own filter.
func (p *listenPart) filtered(m *jsonrpc.Message) *jsonrpc.Message {
	filter := m.At("params", "notifications")
	e := m.Edit()
	for key, v := range filter.Members() {
		if key == "taskIds" && len(p.ids) > 0 {
			e.Replace(v, mustJSON(p.ids))
		} else if key == "taskIds" || !p.rest {
			e.Delete(v)
		}
	}
	part, _ := jsonrpc.Decode(e.Bytes(), jsonrpc.Limits{})
	return part
}

// listens merges the parts of one listen.
type listens struct {
	rt    *Route
	out   *ClientStream
	id    jsonrpc.ID
	parts []*listenPart

	mu     sync.Mutex // protects the fields below and what parts know of their state
	acked  bool       // the client has its acknowledgement
	held   []Out      // until then
	lists  []string   // granted members that are true
	uris   []string
	tasks  []string
	failed *Out // the first part's that was refused
	ended  bool
}

func (l *listens) gone() {
	for _, p := range l.parts {
		p.s.Gone()
	}
}

func (l *listens) read(p *listenPart) {
	defer p.s.Gone()
	for {
		o, ok := p.s.Next(l.rt.ctx)
		if !ok {
			l.end(p, Out{Final: true})
			return
		}
		if o.Final {
			l.end(p, o)
			return
		}
		if !l.take(p, o) {
			return
		}
	}
}

// take passes on what a part says; an acknowledgement waits for all of them.
func (l *listens) take(p *listenPart, o Out) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	if o.Raw == nil {
		return true
	}
	if !p.acked {
		if m, err := jsonrpc.Decode(o.Raw, jsonrpc.Limits{}); err == nil && m.Method == "notifications/subscriptions/acknowledged" {
			p.acked = true
			l.grant(m.At("params", "notifications"))
			l.ack()
			return true
		}
	}
	if !l.acked {
		if len(l.held) < maxListenHeld {
			l.held = append(l.held, o)
		}
		return true
	}
	return l.out.Send(o)
}

func (l *listens) grant(granted jsonrpc.Value) {
	for key, v := range granted.Members() {
		switch {
		case key == "taskIds" || key == "resourceSubscriptions":
			list := &l.tasks
			if key != "taskIds" {
				list = &l.uris
			}
			for e := range v.Elems() {
				if s, ok := e.Str(); ok {
					*list = append(*list, s)
				}
			}
		case string(v.Raw()) == "true" && !slices.Contains(l.lists, key):
			l.lists = append(l.lists, key)
		}
	}
}

// ack says what will come once all parts have said so, or cannot; it needs l.mu.
func (l *listens) ack() {
	for _, p := range l.parts {
		if !p.acked && !p.over {
			return
		}
	}
	if l.acked {
		return
	}
	l.acked = true
	params := acknowledgement(l.lists, l.uris, l.tasks)
	l.out.Send(Out{Raw: translate.Subscribed("notifications/subscriptions/acknowledged", params, l.id)})
	for _, o := range l.held {
		l.out.Send(o)
	}
	l.held = nil
}

// end: a part is over. One that was refused is left out; once one that was
// acknowledged ends all do, so that the client listens anew.
func (l *listens) end(p *listenPart, o Out) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.over = true
	if l.ended {
		return
	}
	if p.acked {
		l.ended = true
		if !l.acked { // its acknowledgement was held back
			l.ack()
		}
		l.out.Send(o)
		for _, other := range l.parts {
			if other != p {
				// Not within its lock's holder: Gone comes back to nobody here.
				other.s.Gone()
			}
		}
		return
	}
	if l.failed == nil {
		l.failed = &o
	}
	for _, other := range l.parts {
		if other.acked || !other.over {
			l.ack()
			return
		}
	}
	l.ended = true
	l.out.Send(*l.failed)
}
