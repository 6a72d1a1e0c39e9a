package offline

import (
	"net/http"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// play says again what came of one recorded request, at the recorded pace. What
// was said after an answer of the client's waits for that answer here, too.
type play struct {
	m     *Mock
	s     *stream
	id    jsonrpc.ID
	token []byte // the caller's progress token, nil: no progress wanted
	task  *mockTask
	op    *operation.Operation
	parts []operation.Part
	to    int // the reply of this part ends it
	at    int
	prev  time.Time // of the part said or heard last, as recorded
	key   string
	// answered are the questions answered here, by their parts; waits is the one
	// that holds it up, -1: none. Both under m.mu, as over.
	answered map[int]bool
	waits    int
	stop     func() bool
	over     bool
}

// play begins to answer msg with what came of r.
func (m *Mock) play(s *stream, sess string, msg *jsonrpc.Message, r round) {
	p := &play{answered: map[int]bool{}, waits: -1, m: m, s: s, id: msg.ID, op: r.op, parts: r.op.Parts, to: r.part, at: r.part, key: sess + "\x00" + msg.ID.Key()}
	if t := msg.At("params", "_meta", translate.MetaProgress); t.Exists() {
		p.token = t.Raw()
	}
	p.prev = p.parts[p.at].Record.Time
	m.mu.Lock()
	m.plays[p.key] = p
	if r.op.Kind == operation.Task && makesTask(r) {
		p.task = m.newTask(r.op)
	}
	m.mu.Unlock()
	s.gone = p.end
	p.next()
}

// makesTask: the round's reply is the task's handle.
func makesTask(r round) bool {
	for _, p := range r.op.Parts {
		if p.Role == operation.RoleReply && p.To == r.part && p.Msg != nil {
			return p.Msg.Result().Get("task").Exists() || p.Msg.Result().Get("resultType").Is("task")
		}
	}
	return false
}

// end stops it: the caller is gone, has cancelled, or has its answer.
func (p *play) end() {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if p.over {
		return
	}
	p.over = true
	if p.stop != nil {
		p.stop()
	}
	if p.m.plays[p.key] == p {
		delete(p.m.plays, p.key)
	}
}

// next plans the next part that comes from the server.
func (p *play) next() {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	for p.at++; p.at < len(p.parts); p.at++ {
		part := p.parts[p.at]
		if p.task == nil && part.Role == operation.RoleAnswer && p.asked(part.To) && !p.answered[part.To] {
			p.waits = part.To
			p.at--
			return
		}
		if part.Record.Dir != translate.ToClient || part.Role == operation.RoleReply && part.To != p.to || !p.mine(part) {
			continue
		}
		if p.over {
			return
		}
		p.stop = p.m.after(part.Record.Time.Sub(p.prev), func() { p.say(part) })
		return
	}
	// It never was answered: nor is it here.
}

// asked: the part is a question of this exchange.
func (p *play) asked(part int) bool {
	return part > p.to && part < len(p.parts) && p.parts[part].Role == operation.RoleAsk
}

// mine: the part belongs to this exchange, and is no look of its task's.
func (p *play) mine(part operation.Part) bool {
	switch part.Role {
	case operation.RoleReply:
		return true
	case operation.RoleAsk, operation.RoleProgress, operation.RoleLog, operation.RoleOther:
		return p.task == nil && (part.Msg == nil || part.Msg.Kind != jsonrpc.Response && part.Msg.Kind != jsonrpc.ErrorResponse)
	}
	return false
}

func (p *play) say(part operation.Part) {
	p.prev = part.Record.Time
	switch {
	case part.Msg == nil && part.Role == operation.RoleReply:
		p.end()
		p.s.refuse(max(part.Record.Status, http.StatusBadRequest), part.Record.Header)
		return
	case part.Msg == nil:
	case part.Role == operation.RoleReply:
		p.reply(part)
		return
	case part.Role == operation.RoleAsk:
		p.ask(part)
	case part.Role == operation.RoleProgress:
		if p.token != nil {
			e := part.Msg.Edit()
			e.Replace(part.Msg.At("params", "progressToken"), p.token)
			p.s.say(e.Bytes())
		}
	default:
		p.s.say(part.Msg.Raw)
	}
	p.next()
}

// reply says the answer under the caller's id.
func (p *play) reply(part operation.Part) {
	msg := part.Msg
	e := msg.Edit()
	e.Replace(msg.At("id"), p.id.Raw())
	raw := e.Bytes()
	p.m.mu.Lock()
	if p.task != nil {
		p.task.rename(msg, e)
		raw = e.Bytes()
		p.task.begin(part)
	}
	if state, ok := msg.Result().Get("requestState").Str(); ok {
		for i := p.at + 1; i < len(p.parts); i++ {
			if p.parts[i].Role == operation.RoleRequest {
				p.m.states[state] = round{p.op, i}
				break
			}
		}
	}
	p.m.mu.Unlock()
	p.end()
	p.s.end(raw)
}

// ask puts a question.
func (p *play) ask(part operation.Part) {
	at := p.at
	p.m.mu.Lock()
	raw := p.m.asking(part.Msg, func([]byte) {
		p.m.mu.Lock()
		p.answered[at] = true
		waited := p.waits == at
		if waited {
			p.waits, p.prev = -1, p.parts[p.at+1].Record.Time
		}
		p.m.mu.Unlock()
		if waited {
			p.next()
		}
	})
	p.m.mu.Unlock()
	p.s.say(raw)
}

// asking gives a question an id of its own; answered is called once with the
// client's response. It needs m.mu.
func (m *Mock) asking(msg *jsonrpc.Message, answered func(raw []byte)) []byte {
	m.numbers++
	id := jsonrpc.IntID(int64(m.numbers))
	m.asks[id.Key()] = answered
	e := msg.Edit()
	e.Replace(msg.At("id"), id.Raw())
	return e.Bytes()
}

// answered takes a client's response to a question.
func (m *Mock) answered(msg *jsonrpc.Message) {
	m.mu.Lock()
	f := m.asks[msg.ID.Key()]
	delete(m.asks, msg.ID.Key())
	m.mu.Unlock()
	if f != nil {
		f(msg.Raw)
	}
}

// cancelled ends what a legacy client no longer wants.
func (m *Mock) cancelled(sess string, msg *jsonrpc.Message) {
	id, err := jsonrpc.IDFromRaw(msg.At("params", "requestId").Raw())
	if err != nil {
		return
	}
	m.mu.Lock()
	p := m.plays[sess+"\x00"+id.Key()]
	m.mu.Unlock()
	if p != nil {
		p.end()
		p.s.end(nil)
	}
}
