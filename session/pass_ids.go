package session

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Kinds of what servers give callers to bring back; newSealKinds has the labels.
const (
	kindUpState  = "upstate"
	kindUpCursor = "upcursor"
)

// seals decides whether this exchange's client sees handles. A legacy session
// that began while the ids of its server passed untouched goes on so.
func (p *passCall) seals(x *Exec, ev Event) {
	p.Sealed = x.Policy.SealSameEra || x.Policy.SealRoute && (ev.Session == nil || ev.Session.Sealed)
	if p.Sealed {
		p.Owner = taskPrincipal(ev.Caller)
	}
}

// opens puts the server's own ids into a client's message; false: it was
// refused. Where ids pass untouched, handles given while they did not are
// opened all the same, and the client goes on seeing those.
func (p *passCall) opens(x *Exec, ev Event, out *Outgoing) bool {
	if !p.Sealed && x.r.upstream == defaultUpstream {
		return true // nothing of this upstream was ever sealed
	}
	m := ev.Frame.Msg
	o := opener{x: x, owner: taskPrincipal(ev.Caller), lax: !p.Sealed || ev.Caller.look}
	raw, cond, why := o.open(m, p.Method)
	if cond != translate.CondNone {
		x.refuse(p.Stream, p.Era, messageID(m), cond, why, nil)
		x.Do(Done{})
		return false
	}
	if !o.opened {
		return true
	}
	p.Sealed, p.Owner = true, o.owner
	if x.Handles().several() {
		p.Named = o.handles[:min(len(o.handles), maxNamed)]
	}
	if p.Era == translate.Modern {
		out.Header = renamed(out.Header, raw)
	}
	out.Msg = raw
	return true
}

// opener puts the server's ids, cursor and state where the client sent ours.
type opener struct {
	x     *Exec
	owner Principal
	// lax: what is not ours passes as it is.
	lax    bool
	opened bool // something was replaced
	// handles are those of tasks that were.
	handles []string
}

func (o *opener) open(m *jsonrpc.Message, method string) ([]byte, translate.Cond, string) {
	f := translate.Facts(m, method)
	e := m.Edit()
	for _, v := range f.TaskIDs {
		s, _ := v.Str()
		ref, ok := o.x.r.openTask(s, o.owner)
		switch {
		case ok && !ref.Minted:
			e.Replace(v, jsonrpc.Quote(ref.ID))
			o.opened = true
			o.handles = append(o.handles, s)
		case ok || !o.lax && !o.x.bare(o.owner, s):
			return nil, translate.CondUnknownTask, unknownTask
		}
	}
	for _, b := range []struct {
		v         jsonrpc.Value
		kind, why string
	}{{f.Cursor, o.x.r.sealed.upCursor, "invalid cursor"}, {f.State, o.x.r.sealed.upState, badState}} {
		if s, _ := b.v.Str(); !b.v.Exists() || s == "" && b.v.Type() == jsonrpc.String {
			continue
		} else if raw, ok := o.x.Handles().OpenFor(b.kind, o.owner, s); ok {
			e.Replace(b.v, jsonrpc.Quote(string(raw)))
			o.opened = true
		} else if !o.lax && !o.x.ownWord(s) {
			return nil, translate.CondInvalidParams, b.why
		}
	}
	return e.Bytes(), translate.CondNone, ""
}

// ownWord: s may be a server's own cursor or state, given before this route had
// several upstreams. It goes up with the caller's own credential, so that what
// it opens is the server's to say.
func (x *Exec) ownWord(s string) bool {
	return x.Policy.SealRoute && !x.Policy.SealSameEra && !x.Handles().IsHandle(s)
}

// maxNamed bounds the handles that are kept of one message.
const maxNamed = 16

// handleOf is how its owner knows a task, whatever the first key was when that
// was said: as it was sealed first, while that is remembered, or by one of
// named, which the client itself has said.
func handleOf(x *Exec, owner Principal, id string, named []string) string {
	if x.Handles().several() {
		if raw, ok := x.Get(ownKey(x, owner, id)); ok && IsHandle(string(raw)) {
			return string(raw)
		}
		for _, handle := range named {
			if ref, ok := x.r.openTask(handle, owner); ok && ref.ID == id {
				return handle
			}
		}
	}
	return x.Handles().SealTask(TaskRef{Upstream: x.r.upstream, ID: id, Principal: owner})
}

// sealIDs is the inverse; tasks of others leave a list. It is false for a
// cursor or state too long to be sealed.
func sealIDs(x *Exec, m *jsonrpc.Message, method string, owner Principal, named []string) ([]byte, bool) {
	if m.Method != "" {
		method = m.Method
	}
	e := m.Edit()
	if x.Policy.SealSameEra && method == "tasks/list" && m.Kind == jsonrpc.Response {
		for t := range m.Result().Get("tasks").Elems() {
			id, _ := t.Get("taskId").Str()
			if _, own := x.Get(ownKey(x, owner, id)); !own {
				e.Delete(t)
			}
		}
	}
	f := translate.Facts(m, method)
	for _, v := range f.TaskIDs {
		id, _ := v.Str()
		if x.bare(owner, id) {
			continue
		}
		// Empty for an id too long to seal: then nobody can use it, which is
		// better than everybody.
		e.Replace(v, jsonrpc.Quote(handleOf(x, owner, id, named)))
	}
	if m.Kind == jsonrpc.Response {
		for kind, v := range map[string]jsonrpc.Value{x.r.sealed.upCursor: f.Cursor, x.r.sealed.upState: f.State} {
			s, _ := v.Str()
			if s == "" {
				continue
			}
			sealed := x.Handles().SealFor(kind, owner, []byte(s))
			if sealed == "" {
				return nil, false
			}
			e.Replace(v, jsonrpc.Quote(sealed))
		}
	}
	return e.Bytes(), true
}

// sealsCursors: cursors toward clients of the other era are sealed.
func sealsCursors(x *Exec) bool { return x.Policy.SealSameEra || x.Policy.SealRoute }

// openCursor opens a page's cursor between peers of two eras, where callers
// share what goes upstream or a route has several upstreams; ok is false for a
// cursor of another's.
func openCursor(x *Exec, m *jsonrpc.Message, owner Principal) (*jsonrpc.Message, bool) {
	if !sealsCursors(x) || !m.At("params", "cursor").Exists() {
		return m, true
	}
	o := opener{x: x, owner: owner}
	raw, cond, _ := o.open(m, m.Method)
	if cond != translate.CondNone {
		return nil, false
	}
	opened, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	return opened, err == nil
}

// sealCursor is its inverse on a translated answer.
func sealCursor(x *Exec, raw []byte, method string, owner Principal) []byte {
	if !sealsCursors(x) || !strings.HasSuffix(method, "/list") {
		return raw
	}
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil || !m.At("result", "nextCursor").Exists() {
		return raw
	}
	if sealed, ok := sealIDs(x, m, method, owner, nil); ok {
		return sealed
	}
	e := m.Edit()
	e.Delete(m.At("result", "nextCursor")) // better a short list than another's cursor
	return e.Bytes()
}

// ownedTask remembers a task of a server of the client's own era, while ids are
// sealed: whose it is, for lists (a server with a shared credential lists
// everybody's), and whether it is over, for a server that is to be emptied.
type ownedTask struct {
	base
	Marked bool `json:",omitempty"`
	Over   bool `json:",omitempty"` // its end was seen, or its ttl is over
}

func (o *ownedTask) Step(x *Exec, ev Event) {
	key := string(x.ID[len("own:"):])
	switch {
	case ev.Kind == EvTimer && ev.Name == "ttl":
		o.Over = true
	case ev.Kind == EvTimer:
		x.Do(Del{Key: key}, Done{})
	case ev.Name == "over":
		if o.Over = true; !o.Marked {
			x.Do(Done{})
		}
	default:
		o.Marked = true
		var mark ownMark
		if len(ev.Data) > 0 && json.Unmarshal(ev.Data, &mark) != nil {
			return
		}
		x.Do(Put{Key: key, Value: []byte(cmp.Or(mark.Handle, "1"))}, Wake{Name: "forget", At: x.Now.Add(x.Policy.TaskKeep)})
		if mark.TTL > 0 {
			x.Do(Wake{Name: "ttl", At: x.Now.Add(time.Duration(mark.TTL)*time.Millisecond + x.Policy.TaskGrace)})
		}
	}
}

// ownMark is what an ownedTask is told of a task that began.
type ownMark struct {
	TTL    int64  `json:",omitempty"` // in milliseconds
	Handle string `json:",omitempty"` // as its client has it
}

// taskNews notes which tasks begin and end in what a server says, and what the
// client is told of it.
func (p *passCall) taskNews(x *Exec, m *jsonrpc.Message, told []byte) {
	body := m.Result()
	method := p.Method
	if m.Method != "" {
		body, method = m.Params(), m.Method
	}
	if task := translate.TaskOf(body); method == "tools/call" && task.Exists() {
		id, _ := task.Get("taskId").Str()
		ttl, ok := translate.Milliseconds(task.Get("ttl"))
		if !ok {
			ttl, _ = translate.Milliseconds(task.Get("ttlMs"))
		}
		mark := ownMark{TTL: ttl}
		if shown, err := jsonrpc.Decode(told, jsonrpc.Limits{}); err == nil {
			mark.Handle, _ = translate.TaskOf(shown.Result()).Get("taskId").Str()
		}
		x.Do(Tell{To: OpID("own:" + ownKey(x, p.Owner, id)), Name: "mark", Data: mustJSON(mark)})
		return
	}
	if !translate.TaskMethod(method) || m.Kind == jsonrpc.Request {
		return
	}
	id, _ := body.Get("taskId").Str()
	status, _ := body.Get("status").Str()
	if method == "tasks/result" { // answered at the end of its task
		id, status = translate.RelatedTask(body), translate.Completed
	}
	if id != "" && translate.Terminal(status) {
		x.Do(Tell{To: OpID("own:" + ownKey(x, p.Owner, id)), Name: "over"})
	}
}

func ownKey(x *Exec, owner Principal, id string) string {
	return "own/" + ownedID(x.r.handles, owner, id)
}

func ownedID(h *Handles, owner Principal, id string) string {
	return h.mark("own", string(owner)) + "/" + h.mark("own", id)
}

// bareKey is of a task whose client knows it by the server's own id, since the
// route had only that server then.
func bareKey(h *Handles, owner Principal, id string) string { return "bare/" + ownedID(h, owner, id) }

// bare says whether the owner of a task knows it by the server's id.
func (x *Exec) bare(owner Principal, id string) bool {
	if !x.Policy.SealRoute || x.Policy.SealSameEra || id == "" {
		return false
	}
	_, ok := x.Get(bareKey(x.r.handles, owner, id))
	return ok
}
