package session

import (
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// maxRounds bounds how often one call may come back with input_required.
const maxRounds = 10

// inputRequired: the server asks before it answers (2026-07-28 basic/
// patterns/mrtr). The client is asked on the call's own stream.
func (c *legacyCall) inputRequired(x *Exec, result jsonrpc.Value) {
	c.Rounds++
	if c.Rounds > maxRounds {
		c.failed(x, refusal(translate.Legacy, rawID(c.ID), translate.CondInternal, "the server asked for input too many times", nil))
		return
	}
	if c.State = result.Get("requestState").Raw(); len(c.State) > 0 {
		x.Do(Loss{What: string(translate.LossRequestState)})
	}
	if c.Task {
		// Asked under the task: the client that wants a task
		// gets its handle at once.
		if c.Handle == "" {
			c.early(x)
		}
		c.Asking = true
		x.Do(Tell{To: taskOp(c.Handle), Name: "ask", Data: result.Raw()})
		return
	}
	sess := new(legacySession)
	if !x.r.load(sessionOp(c.Session), sess) {
		c.failed(x, refusal(translate.Legacy, rawID(c.ID), translate.CondUnknownSession, "", nil))
		return
	}
	c.Questions.add(x, result.Get("inputRequests"))
	if len(c.Questions.Open) == 0 {
		// A state alone, as a busy server gives: again, but not at once.
		c.Pauses = true
		x.Do(Wake{Name: "again", At: x.Now.Add(x.Policy.RetryAfter)})
		return
	}
	c.Questions.ask(x, sess, c.Stream, "")
	if method := c.Questions.refused(); method != "" {
		c.Questions.withdraw(x)
		c.failed(x, refusal(translate.Legacy, rawID(c.ID), translate.CondInternal, "the server needs "+method+", which this client does not support", nil))
		return
	}
	c.patience(x)
	c.retry(x)
}

// retry sends the call again once every question is answered.
func (c *legacyCall) retry(x *Exec) {
	if !c.Questions.complete() {
		return
	}
	c.sendAgain(x, c.Questions.responses())
}

// sendAgain is the retry of an input_required call: its own params, the
// answers and the exact state.
func (c *legacyCall) sendAgain(x *Exec, responses []byte) {
	m, err := jsonrpc.Decode(x.Kept(slotRequest), jsonrpc.Limits{})
	if err != nil {
		c.failed(x, refusal(translate.Legacy, rawID(c.ID), translate.CondInternal, "", nil))
		return
	}
	e := m.Edit()
	if len(responses) > 0 {
		e.Set(m.Params(), "inputResponses", responses)
	}
	if len(c.State) > 0 {
		e.Set(m.Params(), "requestState", c.State)
	}
	c.Questions, c.Asking, c.Pauses = questions{}, false, false
	raw := e.Bytes()
	x.Keep(&c.base, slotRetry, raw)
	c.open(x, raw, c.Version)
}

func (c *legacyCall) answer(x *Exec, ev Event) {
	method, rpcError := c.Questions.answered(x, ev.Label, ev.Name, ev.Frame.Msg)
	if rpcError != nil {
		c.Questions.withdraw(x)
		c.failed(x, Out{Raw: errorWith(rawID(c.ID), rpcError), Final: true})
		return
	}
	if method != "" {
		c.retry(x)
	}
}

// patience bounds how long questions of a call wait for a client that has
// left: it may still answer what it was asked, but no stream can ask again.
func (c *legacyCall) patience(x *Exec) {
	if c.Gone && len(c.Questions.Open) > 0 {
		x.Do(Wake{Name: "gone", At: x.Now.Add(x.Policy.ParkFor)})
	}
}

func (c *legacyCall) abandoned(x *Exec) {
	if len(c.Questions.Open) > 0 {
		c.Questions.withdraw(x)
		x.Do(Done{})
	}
}
