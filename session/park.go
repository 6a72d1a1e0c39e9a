package session

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// A parked call is a modern client's call that waits at a legacy server for an
// answer while no stream of the client is open: the client holds a sealed,
// expiring, single-use requestState and resumes the very same call with it
// (2026-07-28 basic/patterns/mrtr). The server never runs it twice.

const kindState = "state"

// parkState is what a requestState seals, for its principal.
type parkState struct {
	Op     OpID
	Nonce  string
	Digest []byte // translate.CallDigest of the call
	Until  time.Time
}

func parkKey(nonce string) string { return "park/" + nonce }

// badState is said of every state that does not resume: bad, expired, used,
// foreign or of another call.
const badState = "invalid requestState; call again without it"

// parked are the questions of a call or driven task a client was asked by
// input_required.
type parked struct {
	Open   []serverAsk `json:",omitempty"`
	Keys   int         `json:",omitempty"`
	Nonce  string      `json:",omitempty"` // of the state the client holds now
	Digest []byte      `json:",omitempty"`
	// Said are the ids of the last questions whose answers the server took in
	// session SaidIn: one that comes again there is the same one, delivered late
	// (2025-11-25 basic: an id is never used again within a session).
	Said   [][]byte `json:",omitempty"`
	SaidIn string   `json:",omitempty"`
}

// said notes that the server has the answer to id.
func (p *parked) said(id []byte, session string) {
	if p.SaidIn != session {
		p.Said, p.SaidIn = nil, session
	}
	p.Said = append(p.Said, id)
	if over := len(p.Said) - maxQuestions; over > 0 {
		p.Said = p.Said[over:]
	}
}

// repeats says whether the server has had its answer to id.
func (p *parked) repeats(id jsonrpc.ID, session string) bool {
	return p.SaidIn == session && slices.ContainsFunc(p.Said, func(said []byte) bool { return rawID(said).Key() == id.Key() })
}

// known finds a request of a server's that is open: the same one on a second
// stream, or asked again in the session in because the one before is gone.
func (p *parked) known(m *jsonrpc.Message, in string) *serverAsk {
	var again *serverAsk
	for i := range p.Open {
		q := &p.Open[i]
		switch {
		case q.In == in && rawID(q.ID).Key() == m.ID.Key():
			return q
		case q.In != in && again == nil && bytes.Equal(q.Entry, translate.QuestionToModern(m.Method, m.Params())):
			again = q
		}
	}
	return again
}

func (p *parked) asking() bool {
	for _, q := range p.Open {
		if !q.Answered {
			return true
		}
	}
	return false
}

// add takes a server's request of the session in in, under a key never used
// again.
func (p *parked) add(m *jsonrpc.Message, in string) {
	p.Keys++
	p.Open = append(p.Open, serverAsk{
		Key: "q" + string(intRaw(int64(p.Keys))), ID: json.RawMessage(m.ID.Raw()),
		Entry: translate.QuestionToModern(m.Method, m.Params()), Task: translate.RelatedTask(m.Params()), In: in,
	})
}

// handOver takes the unanswered questions out, for the task a call becomes.
func (p *parked) handOver() (open []serverAsk) {
	kept := p.Open[:0]
	for _, q := range p.Open {
		if q.Answered {
			kept = append(kept, q)
		} else {
			open = append(open, q)
		}
	}
	p.Open = kept
	return open
}

// required makes the result that asks for all unanswered ones under a new
// state; the one before is void.
func (p *parked) required(x *Exec, owner Principal, serverInfo []byte) []byte {
	state := p.sealed(x, owner)
	var keys []string
	var entries [][]byte
	for _, q := range p.Open {
		if !q.Answered {
			keys, entries = append(keys, q.Key), append(entries, q.Entry)
		}
	}
	return translate.InputRequiredResult(keys, entries, state, serverInfo)
}

// sealed makes a new state; the one before is void.
func (p *parked) sealed(x *Exec, owner Principal) string {
	p.void(x)
	p.Nonce = x.Token(18)
	until := x.Now.Add(x.Policy.ParkFor)
	x.Do(Put{Key: parkKey(p.Nonce), Value: []byte(x.ID)}, Wake{Name: "park", At: until})
	return x.Handles().SealFor(x.r.sealed.state, owner, mustJSON(parkState{x.ID, p.Nonce, p.Digest, until}))
}

// void makes the state a client holds useless.
func (p *parked) void(x *Exec) {
	if p.Nonce != "" {
		x.Do(Del{Key: parkKey(p.Nonce)}, Unwake{Name: "park"})
		p.Nonce = ""
	}
}

// answers turns a retry's inputResponses into responses to the server's own
// requests; unknown and answered keys are ignored.
func (p *parked) answers(x *Exec, pool OpID, m *jsonrpc.Message, say func(q *serverAsk, raw []byte)) {
	for key, answer := range m.At("params", "inputResponses").Members() {
		if answer.Type() != jsonrpc.Object {
			continue
		}
		for i := range p.Open {
			if q := &p.Open[i]; q.Key == key && !q.Answered {
				q.Answered = true
				keepRoots(x, pool, q.Entry, answer)
				say(q, translate.AnswerToLegacy(rawID(q.ID), answer, q.Task))
			}
		}
	}
}

// withdrawn: the server took a question back. False: there is none of that id.
func (p *parked) withdrawn(id []byte) bool {
	want, err := jsonrpc.IDFromRaw(id)
	if err != nil {
		return false
	}
	for i, q := range p.Open {
		if rawID(q.ID).Key() == want.Key() {
			p.Open = append(p.Open[:i], p.Open[i+1:]...)
			return true
		}
	}
	return false
}

// resume leads a retry to its parked call; of equal retries, over all
// runners, one gets it.
func (r *Runner) resume(ev Event, s *ClientStream) {
	m := ev.Frame.Msg
	text, _ := m.At("params", "requestState").Str()
	raw, ok := r.handles.OpenFor(r.sealed.state, taskPrincipal(ev.Caller), text)
	var st parkState
	ok = ok && json.Unmarshal(raw, &st) == nil && string(st.Digest) == string(translate.CallDigest(m))
	if ok && r.clock.Now().Before(st.Until) {
		if _, err := r.store.Take(r.ctx, parkKey(st.Nonce)); err == nil {
			ev.Name = "resume"
			r.start(st.Op, ev, s)
			return
		}
	}
	r.refuse(s, translate.Modern, m, translate.CondInvalidParams, badState)
}

// flyKey names a call that a legacy server may ask something about on its GET
// stream; the latest sorts first.
func flyKey(x *Exec, pool OpID) string {
	return flyPrefix(pool) + hex16(uint64(1<<63)-uint64(x.Now.UnixNano())) + x.ID.rest()
}

func flyPrefix(pool OpID) string { return "fly/" + string(pool) + "/" }

// rest is what follows an operation's kind.
func (id OpID) rest() string { return string(id[len(id.Kind()):]) }
