package session

import (
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// question: the legacy server asks inside this call. A modern client is asked
// by the call's own answer: input_required.
func (c *modernCall) question(x *Exec, m *jsonrpc.Message) {
	caps, _ := jsonrpc.ParseValue(c.Caps)
	switch {
	case !translate.CanRequireInput(c.Method) || len(c.Park.Open) >= maxQuestions:
		if sayRoots(x, c.Pool, m, func(raw []byte) { c.say(x, raw) }) {
			return
		}
		c.say(x, jsonrpc.NewError(m.ID, -32603, "the client cannot be asked during "+c.Method, nil))
		return
	case !translate.ClientCan(caps, m.Method, m.Params()):
		// Undeclared: the server hears an error, the client is not asked.
		x.Do(Loss{What: string(translate.LossUnaskableInput)})
		c.say(x, unaskable(m))
		return
	case !x.Grow(string(x.ID)+"/ask", c.Park.bytes()+int64(len(m.Raw))):
		c.say(x, jsonrpc.NewError(m.ID, -32603, "out of memory budget for questions; try again later", nil))
		return
	}
	if c.Hosted != "" || !c.Parked && !c.Park.asking() && c.host(x) {
		x.Free(string(x.ID) + "/ask")
		x.Do(Tell{To: c.Hosted, Name: "question", Label: c.Ready.Session, Data: m.Raw})
		return
	}
	for _, q := range c.Park.Open {
		if rawID(q.ID).Key() == m.ID.Key() {
			return
		}
	}
	c.Park.add(m, c.Ready.Session)
	x.Do(Put{Key: serverAskKey(c.Pool, m.ID.Raw()), Value: []byte(x.ID)})
	if !c.Parked && !gather(x) {
		c.park(x)
	}
}

// wakeGather is when the questions that came together are shown. Servers ask
// several at once (2026-07-28 basic/patterns/mrtr: InputRequests is a map),
// which of a legacy server are requests of their own.
const wakeGather = "gather"

// gather puts the showing of a question off until none has come for a moment.
// False: show it now.
func gather(x *Exec) bool {
	if x.Policy.Gather <= 0 {
		return false
	}
	x.Do(Wake{Name: wakeGather, At: x.Now.Add(x.Policy.Gather)})
	return true
}

// gathered: the moment is over.
func (c *modernCall) gathered(x *Exec) {
	if !c.Parked && c.Hosted == "" && c.Park.asking() {
		c.park(x)
	}
}

func (p *parked) bytes() int64 {
	n := int64(0)
	for _, q := range p.Open {
		n += int64(len(q.Entry))
	}
	return n
}

// park answers the client's request with what is asked; the exchange with the
// server stays open.
func (c *modernCall) park(x *Exec) {
	c.Parked = true
	raw := c.Park.required(x, c.Owner, c.Ready.ServerInfo)
	x.reply(c.Stream, jsonrpc.NewResult(rawID(c.ID), raw))
}

// resume: the client is back on a new stream with its answers.
func (c *modernCall) resume(x *Exec, ev Event) {
	m := ev.Frame.Msg
	c.Stream, c.ID, c.Parked = ev.Label, m.ID.Raw(), false
	c.Token = m.At("params", "_meta", translate.MetaProgress).Raw()
	c.LogLevel, _ = m.At("params", "_meta", translate.MetaLogLevel).Str()
	c.Park.Nonce = "" // taken with the state
	x.Do(Unwake{Name: "park"})
	if c.URL.Held {
		c.resumeURLs(x, m)
		return
	}
	if c.Lost {
		c.finish(x, refusal(translate.Modern, m.ID, translate.CondInternal, "the server's stream was lost while the call was parked", []byte(`{"reason":"parked_call_lost"}`)))
		return
	}
	c.Park.answers(x, c.Pool, m, func(q *serverAsk, raw []byte) {
		x.Do(Del{Key: serverAskKey(c.Pool, q.ID)})
		c.say(x, raw)
	})
	if c.kept(slotPayload) { // the server answered while the call was parked
		if r, err := jsonrpc.Decode(x.Kept(slotPayload), jsonrpc.Limits{}); err == nil {
			c.response(x, Event{Frame: translate.Frame{Msg: r}})
			return
		}
	}
	if c.Park.asking() {
		c.park(x)
	}
}

// whileParked keeps what the server says while nobody listens.
func (c *modernCall) whileParked(x *Exec, m *jsonrpc.Message) {
	x.Keep(&c.base, slotPayload, m.Raw)
}

// parkOver: nobody came back. The server is told that the call is cancelled,
// then its questions get an answer.
func (c *modernCall) parkOver(x *Exec) {
	if !c.Parked {
		return
	}
	c.cancelUp(x, "the client did not come back")
	for i := range c.Park.Open {
		if q := &c.Park.Open[i]; !q.Answered {
			q.Answered = true
			c.say(x, jsonrpc.NewError(rawID(q.ID), -32603, "the client did not answer in time", nil))
		}
	}
	if m, err := jsonrpc.Decode(x.Kept(slotPayload), jsonrpc.Limits{}); err == nil && c.Method == "tools/call" {
		if task := translate.TaskOf(m.Result()); task.Exists() {
			c.Gone = true // the server has made a task of it meanwhile, which is cancelled
			c.born(x, m.Result(), task)
			return
		}
	}
	c.done(x)
}

// say sends a response of ours to the server, beside the call.
func (c *modernCall) say(x *Exec, raw []byte) {
	sayTo(x, c.As, c.out(raw))
}

// cancelUp tells the legacy server that its request is cancelled, with its own
// id.
func (c *modernCall) cancelUp(x *Exec, reason string) {
	if !c.up("up") {
		return
	}
	params := jsonrpc.NewObject().Int("requestId", c.UpID).Str("reason", reason).Bytes()
	x.Do(Tell{To: OpID("pass:cancel" + x.ID.rest()), Name: "post", Data: mustJSON(passPost{As: c.As, Out: c.out(jsonrpc.NewNotification("notifications/cancelled", params))})})
}

// flight marks the call as one a server may ask about on its GET stream.
func (c *modernCall) flight(x *Exec) {
	if c.Fly == "" && translate.CanRequireInput(c.Method) && c.Ready.Session != "" {
		c.Fly = flyKey(x, c.Pool)
		x.Do(Put{Key: c.Fly, Value: []byte(x.ID)})
		if pool := new(poolSession); x.r.load(c.Pool, pool) && len(pool.Pending) > 0 {
			x.Do(Tell{To: c.Pool, Name: "flight"})
		}
	}
}

// land drops what a call leaves in the store.
func (c *modernCall) land(x *Exec) {
	if c.Fly != "" {
		x.Do(Del{Key: c.Fly})
	}
	c.token(x, false)
	for _, q := range c.Park.Open {
		x.Do(Del{Key: serverAskKey(c.Pool, q.ID)})
	}
	c.landURLs(x)
	c.Park.void(x)
	if c.Park.Keys > 0 {
		x.Free(string(x.ID) + "/ask")
	}
}

// retryPost: pause before a message nobody waits for is sent again.
const retryPost = time.Second
