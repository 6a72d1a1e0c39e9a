package session

import (
	"encoding/json"
	"net/http"
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// The calls of a legacy session are found by their names. A session with a call
// its client waits for is in use, however long the call takes; a call does not
// outlive its session, since nobody could be asked about it, cancel it or fetch
// its answer any more. Tasks do.

// passOp names an exchange of a legacy session with a legacy server.
func passOp(session, stream string) OpID { return OpID("pass:" + session + ":" + stream) }

// sessionEnd is what calls are told when their session is over.
type sessionEnd struct {
	// Lost: the server has lost the session. What it still does for a client
	// that listens may be answered all the same.
	Lost bool `json:",omitempty"`
	As   Principal
	Up   Outgoing // of a message in the session, without the message
}

// eachCall gives the operations of a session that are calls, with their state,
// until f says no.
func (r *Runner) eachCall(session string, f func(id OpID, state []byte) bool) {
	for _, kind := range []string{"lcall:", "pass:"} {
		for e, err := range Records(r.ctx, r.store, opKey(OpID(kind+session+":"))) {
			if err != nil {
				break
			}
			if !f(OpID(strings.TrimPrefix(e.Key, opKey(""))), e.Value) {
				return
			}
		}
	}
}

// callsOf names the calls of a session.
func (r *Runner) callsOf(session string) (ops []OpID) {
	r.eachCall(session, func(id OpID, _ []byte) bool {
		ops = append(ops, id)
		return true
	})
	return ops
}

// calling says whether the client of a session waits for a call of it, or for
// a task's result.
func (r *Runner) calling(session string) bool {
	return r.callingHere(session) || r.hooks.calling != nil && r.hooks.calling(session)
}

func (r *Runner) callingHere(session string) (waits bool) {
	r.eachCall(session, func(_ OpID, state []byte) bool {
		var call struct {
			Stream, Handle string
			Gone           bool
		}
		waits = json.Unmarshal(state, &call) == nil && call.Stream != "" && call.Handle == "" && !call.Gone
		return !waits
	})
	if waits {
		return true
	}
	list, _ := r.store.List(r.ctx, "wait/"+session+"/", "", 256)
	for _, e := range list {
		if _, stream, _ := strings.Cut(string(e.Value), " "); r.reads(stream) {
			return true
		}
	}
	return false
}

// reads says whether a client reads a stream or may come back to it.
func (r *Runner) reads(stream string) bool {
	if r.localStream(stream) != nil {
		return true
	}
	l, kept := r.clientLog(stream)
	return kept && !l.Over
}

// ended: the session is over.
func (c *legacyCall) ended(x *Exec, data []byte) {
	var end sessionEnd
	switch {
	case json.Unmarshal(data, &end) != nil, c.Stream == "", c.Task:
	case end.Lost && !c.Gone:
		c.Orphan = true
	default:
		c.Questions.withdraw(x)
		c.failed(x, refusal(translate.Legacy, rawID(c.ID), translate.CondUnknownSession, sessionOver, nil))
	}
}

const sessionOver = "the session ended before the call did"

// ended is the same between two legacy peers. The server may keep no sessions,
// so it is told.
func (p *passCall) ended(x *Exec, data []byte) {
	var end sessionEnd
	if json.Unmarshal(data, &end) != nil {
		return
	}
	if end.Lost && !p.Gone {
		p.Orphan = true
		return
	}
	out := Out{Final: true}
	switch {
	case p.ID != nil:
		out = refusal(translate.Legacy, rawID(p.ID), translate.CondUnknownSession, sessionOver, nil)
		if end.Lost {
			break
		}
		params := jsonrpc.NewObject().Raw("requestId", p.ID).Str("reason", "the session has ended").Bytes()
		end.Up.Msg = jsonrpc.NewNotification("notifications/cancelled", params)
		x.Do(Tell{To: OpID("pass:cancel-" + string(x.ID)), Name: "post", Data: mustJSON(passPost{As: end.As, Out: end.Up})})
	case p.Verb == http.MethodPost:
		out.Status = 202
	}
	x.Do(Send{Stream: p.Stream, Out: out}, Done{})
}
