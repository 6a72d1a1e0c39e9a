package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// What a Route wants of a Runner, and tells it.

// routeHooks are how a Runner reaches its Route; set before the first message.
type routeHooks struct {
	// health hears how an exchange with the server began: true where the server
	// was there.
	health func(ok bool)
	// ended hears that a client's session is over here.
	ended func(session string)
	// calling says whether the client of a session waits for something that
	// another runner does.
	calling func(session string) bool
	// listens hears that the client of a session has a stream for what belongs to
	// no request, or none any more. It must not wait.
	listens func(session string, on bool)
}

// judge tells the Route whether the server is there: no connection, its process
// gone, or a 502, 503 or 504 says no; any other word says yes, but for a 5xx of
// another kind, which says nothing: a caller who knows what makes a server fail
// must not have it taken away from all others. Nor does what our own side broke
// off.
func (r *Runner) judge(ctx context.Context, stream Stream, err error) {
	if r.hooks.health == nil {
		return
	}
	if err == nil {
		status := http.StatusOK
		if env := stream.Envelope(); env != nil {
			status = env.Status
		}
		r.judgeStatus(status)
		return
	}
	d, ok := errors.AsType[*DialError](err)
	switch {
	case !ok || ctx.Err() != nil:
	case d.Fail == FailUnreachable, d.Fail == FailProcess:
		r.hooks.health(false)
	case d.Status != 0:
		r.judgeStatus(d.Status)
	}
}

func (r *Runner) judgeStatus(status int) {
	switch {
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		r.hooks.health(false)
	case status < 500:
		r.hooks.health(true)
	}
}

// named puts the name of the upstream that asks before the message of each
// elicitation in what a client gets.
func named(p *Policy, o Out) Out {
	if p.Asker != "" && mayElicit(o.Raw) {
		if m, err := jsonrpc.Decode(o.Raw, jsonrpc.Limits{}); err == nil {
			o.Raw = translate.NameAsker(m, p.Asker)
		}
	}
	return o
}

// mayElicit: the text may hold an elicitation, escaped or not.
func mayElicit(raw []byte) bool {
	return bytes.Contains(raw, []byte(`elicitation/create`)) || bytes.Contains(raw, []byte(`\/`)) || bytes.Contains(raw, []byte(`\u00`))
}

// session reads a client's session that is here; guest: only the part of it
// that another runner's client has here.
func (r *Runner) session(id string) (sess *legacySession, ok bool) {
	sess = new(legacySession)
	if id == "" || len(id) > 128 || !r.load(sessionOp(id), sess) {
		return nil, false
	}
	return sess, true
}

// touch: the session is used elsewhere.
func (r *Runner) touch(sess *legacySession) {
	if r.clock.Now().Sub(sess.Used) > r.policy().SessionIdle/8 {
		r.deliver(sessionOp(sess.ID), Event{Kind: EvOp, Name: "touch"})
	}
}

// opens says whether a cursor or requestState was given here to that owner.
func (r *Runner) opens(owner Principal, f translate.Fact) bool {
	for _, b := range []struct {
		v     jsonrpc.Value
		kinds []string
	}{{f.State, []string{r.sealed.upState, r.sealed.state}}, {f.Cursor, []string{r.sealed.upCursor}}} {
		if s, _ := b.v.Str(); r.handles.IsHandle(s) {
			for _, kind := range b.kinds {
				if _, ok := r.handles.OpenFor(kind, owner, s); ok {
					return true
				}
			}
		}
	}
	return false
}

// parks says whether a requestState is of a call that waits here.
func (r *Runner) parks(owner Principal, f translate.Fact) bool {
	s, _ := f.State.Str()
	raw, ok := r.handles.OpenFor(r.sealed.state, owner, s)
	var st parkState
	if !ok || json.Unmarshal(raw, &st) != nil {
		return false
	}
	_, err := r.store.Get(r.ctx, parkKey(st.Nonce))
	return err == nil
}

// knowsTask says whether there is anything here about a task of this upstream.
func (r *Runner) knowsTask(owner Principal, handle string, ref TaskRef) bool {
	if r.exists(OpID("ltask:"+handle)) || r.exists(OpID("mtask:"+handle)) {
		return true
	}
	_, err := r.store.Get(r.ctx, "own/"+ownedID(r.handles, owner, ref.ID))
	return err == nil
}

// hasEvents says whether this runner keeps the stream of a session that an
// event id names.
func (r *Runner) hasEvents(session, event string) bool {
	id, ok := r.parseEventID(session, event)
	if !ok {
		return false
	}
	l, kept := r.clientLog(id.stream)
	return kept && l.Session == session
}

// hasTasks says whether a legacy client of that owner could list a task here.
func (r *Runner) hasTasks(owner Principal) bool {
	x := Exec{r: r}
	return r.has(indexPrefix(&x, owner)) || r.has("own/"+r.handles.mark("own", string(owner))+"/")
}

// inFlight says whether a request of a session with that id is under way here.
func (r *Runner) inFlight(session string, id jsonrpc.ID) (found bool) {
	if r.exists(callOp(session, id)) {
		return true
	}
	if _, err := r.store.Get(r.ctx, waitKey(session, id)); err == nil {
		return true
	}
	r.eachCall(session, func(op OpID, state []byte) bool {
		var call struct{ ID []byte }
		found = op.Kind() == "pass" && json.Unmarshal(state, &call) == nil && len(call.ID) > 0 && rawID(call.ID).Key() == id.Key()
		return !found
	})
	return found
}

// rememberBare notes that the owner of a task knows it by the server's own id.
func (r *Runner) rememberBare(owner Principal, id string) {
	list, err := r.store.List(r.ctx, "bare/"+r.handles.mark("own", string(owner))+"/", "", maxBare)
	if err != nil || len(list) >= maxBare {
		return // it is looked for each time
	}
	r.deliver(OpID("own:"+bareKey(r.handles, owner, id)), Event{Kind: EvOp, Name: "mark"})
	r.deliver(OpID("own:own/"+ownedID(r.handles, owner, id)), Event{Kind: EvOp, Name: "mark"})
}

// gaveHandle says whether the owner of a task knows it by a handle.
func (r *Runner) gaveHandle(owner Principal, id string) bool {
	_, err := r.store.Get(r.ctx, "own/"+ownedID(r.handles, owner, id))
	return err == nil && !r.knowsBare(owner, id)
}

func (r *Runner) knowsBare(owner Principal, id string) bool {
	_, err := r.store.Get(r.ctx, bareKey(r.handles, owner, id))
	return err == nil
}

// Load is what a runner still has to do.
type Load struct {
	Sessions int // legacy sessions of clients
	Tasks    int // whose end was not seen yet
	Calls    int // requests and streams of clients
	// Kept are finished tasks whose results only the proxy has.
	Kept int
	// More: the reading ended before all was read; there may be more of each.
	More bool
	// Unread: the store could not be read, so there may be more.
	Unread bool
}

// Empty: nothing is left that the server has to do.
func (l Load) Empty() bool { return l.Sessions+l.Tasks+l.Calls == 0 && !l.Unread }

// loadKind is a kind of record that counts in a Load.
type loadKind struct {
	prefix string
	n      func(l *Load) *int
	counts func(op OpID, state []byte) bool
	kept   bool // nothing the server has to do
}

var loadKinds = func() []loadKind {
	sessions, tasks := func(l *Load) *int { return &l.Sessions }, func(l *Load) *int { return &l.Tasks }
	calls, kept := func(l *Load) *int { return &l.Calls }, func(l *Load) *int { return &l.Kept }
	return []loadKind{
		{"session:", sessions, alwaysCounts, false},
		{"ltask:", tasks, unfinished, false},
		{"mtask:", tasks, unfinished, false},
		{"ltask:", kept, keptHere, true},
		{"mtask:", kept, keptHere, true},
		{"own:own/", tasks, unfinished, false},
		{"mcall:", calls, parkedCall, false},
		{"lcall:", calls, detachedCall, false},
		{"pass:", calls, detachedCall, false},
	}
}()

// Load counts what is alive. It reads all operations; atMost > 0 ends the
// reading once so many things were found.
func (r *Runner) Load(atMost int) (l Load) {
	l.Calls = r.openStreams()
	for _, kind := range loadKinds {
		if !r.countKind(&l, kind, atMost, 0) {
			break
		}
	}
	return l
}

// statusReads bounds the records of a kind that are read to say what there is.
var statusReads = 10_000

// loadShown is Load for people: of each kind no more than statusReads records are
// read. Whether anything is left at all is said as Busy says it.
func (r *Runner) loadShown() (l Load, empty bool) {
	l.Calls = r.openStreams()
	for _, kind := range loadKinds {
		r.countKind(&l, kind, 0, statusReads)
	}
	return l, l.Empty() && (!l.More || !r.Busy())
}

// Busy says whether there is anything left that the server has to do. It reads
// until it finds something. Where there seems to be nothing it reads once more
// the other way round: what was another kind of thing meanwhile, as a parked call
// that goes on is, cannot have been missed in both.
func (r *Runner) Busy() bool {
	back := slices.Clone(loadKinds)
	slices.Reverse(back)
	for _, kinds := range [][]loadKind{loadKinds, back} {
		l := Load{Calls: r.openStreams()}
		for _, kind := range kinds {
			if !l.Empty() {
				return true
			}
			if !kind.kept {
				r.countKind(&l, kind, 1, 0)
			}
		}
		if !l.Empty() || r.openStreams() > 0 {
			return true
		}
	}
	return false
}

// openStreams counts the streams of clients.
func (r *Runner) openStreams() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.streams)
}

// countKind counts the things of one kind; false: atMost are found in all. reads,
// if not 0, bounds the records that are read.
func (r *Runner) countKind(l *Load, kind loadKind, atMost, reads int) bool {
	read := 0
	for e, err := range Records(r.ctx, r.store, opKey(OpID(kind.prefix))) {
		if err != nil {
			l.Unread = true
			break
		}
		if read++; reads > 0 && read > reads {
			l.More = true
			break
		}
		if kind.counts(OpID(strings.TrimPrefix(e.Key, opKey(""))), e.Value) {
			*kind.n(l)++
		}
		if atMost > 0 && l.Sessions+l.Tasks+l.Calls+l.Kept >= atMost {
			return false
		}
	}
	return true
}

func alwaysCounts(OpID, []byte) bool { return true }

func unfinished(_ OpID, state []byte) bool {
	var task struct{ Final, Ended, Over bool }
	return json.Unmarshal(state, &task) == nil && !task.Final && !task.Ended && !task.Over
}

func keptHere(_ OpID, state []byte) bool {
	var task struct{ Final, Ended, Held, Hosted bool }
	return json.Unmarshal(state, &task) == nil && (task.Final || task.Ended) && (task.Held || task.Hosted)
}

// parkedCall: its client holds a state and no stream.
func parkedCall(_ OpID, state []byte) bool {
	var call struct{ Parked bool }
	return json.Unmarshal(state, &call) == nil && call.Parked
}

// detachedCall: its client has left its stream and may come back, or a word of
// ours is on its way.
func detachedCall(_ OpID, state []byte) bool {
	var call struct {
		Stream string
		Gone   bool
	}
	return json.Unmarshal(state, &call) == nil && (call.Stream == "" || call.Gone)
}

// dissolveFor bounds the removal of what a runner kept.
const dissolveFor = 30 * time.Second

// dissolve gives back what a closed runner counted for callers, and removes its
// records: nothing will be led to it any more. Its store is its own.
func (r *Runner) dissolve(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, dissolveFor)
	defer cancel()
	for e, err := range Records(ctx, r.store, "") {
		if err != nil {
			return
		}
		kind, limit := countedIn(e)
		if r.store.Delete(ctx, e.Key, Any) == nil && limit != "" {
			r.addUntil(ctx, countKey(kind+"/"+limit), -1)
			r.addUntil(ctx, countKey(kind), -1)
		}
	}
}

// countedIn says what a record is counted as, and for whom.
func countedIn(e Entry) (kind, limit string) {
	op, ok := strings.CutPrefix(e.Key, opKey(""))
	if !ok {
		return "", ""
	}
	switch OpID(op).Kind() {
	case "ltask", "mtask":
		kind = countTasks
	case "pool":
		kind = countUpstreams
	default:
		return "", ""
	}
	var s struct {
		Limit string
		Over  bool
	}
	if json.Unmarshal(e.Value, &s) != nil {
		return "", ""
	}
	if kind == countTasks {
		kind = countedAs(s.Over)
	}
	return kind, s.Limit
}
