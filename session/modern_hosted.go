package session

import (
	"encoding/json"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// A hosted task is a plain call of a modern client that declared the tasks
// extension, turned into a task when the legacy server asks something in it
// (--park task): the server knows a call only, so all of the task is with us.

// host turns the call into a task of ours.
func (c *modernCall) host(x *Exec) bool {
	if !x.Policy.ParkTask || !c.Declared || c.Method != "tools/call" || c.Hosted != "" {
		return false
	}
	if !x.r.within(countTasks, c.Limit, x.Policy.Tasks, x.Policy.Above.Tasks) || !x.Reserve("hosted/"+string(x.ID)) {
		return false // parked by state then
	}
	handle := x.Handles().SealTask(TaskRef{Upstream: x.r.upstream, Session: string(c.Pool), ID: x.Token(18), Principal: c.Owner, Minted: true})
	task := mintedTask(x, handle, 0, "")
	c.Hosted = OpID("mtask:" + handle)
	b := modernBirth{Pool: c.Pool, As: c.As, Owner: c.Owner, Task: task, Ready: c.Ready, Asks: c.Asks, Limit: c.Limit, Caps: c.Caps, Call: x.ID}
	parsed := translate.ParseResult(task)
	created := translate.CreateToModern(jsonrpc.Value{}, parsed, translate.TaskView{ID: handle, Status: translate.Working}, c.Ready.ServerInfo)
	x.Do(
		Tell{To: c.Pool, Name: "lease"},
		Tell{To: c.Hosted, Name: "born", Data: mustJSON(b)},
	)
	x.reply(c.Stream, jsonrpc.NewResult(rawID(c.ID), created))
	return true
}

// hostedAnswer hands the call's answer to its task and ends the call.
func (c *modernCall) hostedAnswer(x *Exec, raw []byte) {
	x.Free("hosted/" + string(x.ID))
	x.Do(Tell{To: c.Hosted, Name: "answered", Data: raw})
	c.done(x)
}

// hostedNews: what the task wants of its call.
func (c *modernCall) hostedNews(x *Exec, ev Event) {
	switch ev.Name {
	case "say":
		if m, err := jsonrpc.Decode(ev.Data, jsonrpc.Limits{}); err == nil {
			x.Do(Del{Key: serverAskKey(c.Pool, m.ID.Raw())})
			c.say(x, ev.Data)
		}
	case "shut":
		x.Free("hosted/" + string(x.ID))
		c.cancelUp(x, "the task was cancelled")
		c.done(x)
	}
}

// answered: the hosted call is over. Only we have the payload, so it stays
// until the task is forgotten.
func (t *modernTask) answered(x *Exec, raw []byte) {
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil || t.Final || t.Call == "" {
		return
	}
	t.Call, t.Hosted, t.Status = "", true, translate.Completed
	t.Paid, t.paidNow = "result", m.Result().Raw()
	if m.Kind == jsonrpc.ErrorResponse {
		t.Status, t.Paid, t.paidNow = translate.Failed, "error", m.Error().Raw()
	}
	if !x.Grow(heldKey(t.ID), int64(len(t.paidNow))) {
		x.Do(Loss{What: string(translate.LossHeldBudget)})
		t.Status, t.Paid, t.paidNow = translate.Failed, "error", []byte(heldBudgetError)
	}
	x.Keep(&t.base, slotPayload, t.paidNow)
	t.Task = translate.Restate(translate.ParseResult(t.Task), t.Status, "", x.Now.UTC().Format(timeLayout))
	t.finish(x)
}

const heldBudgetError = `{"code":-32603,"message":"the result does not fit the proxy's budget for held results","data":{"reason":"held_budget"}}`

// cancelHosted ends a hosted task: the call is cancelled at the server.
func (t *modernTask) cancelHosted(x *Exec, w waiter) {
	x.Do(Tell{To: t.Call, Name: "shut"})
	t.Call, t.Hosted, t.Status = "", true, translate.Cancelled
	t.Task = translate.Restate(translate.ParseResult(t.Task), t.Status, "", x.Now.UTC().Format(timeLayout))
	t.finish(x)
	x.reply(w.Stream, jsonrpc.NewResult(w.id(), t.ack()))
}

// sayHosted answers the server through the call; it is settled at once.
func (t *modernTask) sayHosted(x *Exec, q *serverAsk) {
	x.Do(Tell{To: t.Call, Name: "say", Data: q.Answer})
	q.Answer = json.RawMessage(nil)
}
