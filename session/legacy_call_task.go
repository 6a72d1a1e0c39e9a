package session

import (
	"encoding/json"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

func (c *legacyCall) birth() taskBirth {
	return taskBirth{Session: c.Session, As: c.As, Owner: c.Owner, TTL: c.TTL, Token: c.Token, Cancel: c.Cancelled, Limit: c.Limit, Caps: c.Caps}
}

// namelessTask is said of a task nobody could ever ask for.
const namelessTask = "the server made a task without a usable taskId"

// born: the server made a task of the call.
func (c *legacyCall) born(x *Exec, result, task jsonrpc.Value) {
	id, _ := task.Get("taskId").Str()
	if id == "" {
		c.failed(x, refusal(translate.Legacy, rawID(c.ID), translate.CondInternal, namelessTask, nil))
		return
	}
	b := c.birth()
	b.ServerID, b.Task = id, json.RawMessage(task.Raw())
	if c.TTL > 0 {
		x.Do(Loss{What: string(translate.LossRequestedTTL)})
	}
	x.Free(string(x.ID))
	if c.Handle != "" {
		x.Do(Tell{To: taskOp(c.Handle), Name: "alias", Data: mustJSON(b)}, Done{})
		return
	}
	handle := x.Handles().SealTask(TaskRef{Upstream: x.r.upstream, ID: id, Principal: c.Owner})
	if handle == "" {
		c.failed(x, refusal(translate.Legacy, rawID(c.ID), translate.CondInternal, "the server's task id is too long", nil))
		return
	}
	if !c.Task { // driven: the plain call waits for the task's end
		if c.Gone { // nobody waits; the work goes on
			x.Do(Tell{To: taskOp(handle), Name: "born", Data: mustJSON(b)}, Done{})
			return
		}
		b.Driver = &waiter{Stream: c.Stream, ID: c.ID, Session: c.Session, Driven: true, Token: c.Token}
		x.Do(Put{Key: waitKey(c.Session, rawID(c.ID)), Value: []byte("ltask:" + handle + " " + c.Stream)})
		x.Do(Tell{To: taskOp(handle), Name: "born", Data: mustJSON(b)}, Attach{Stream: c.Stream, Op: taskOp(handle)}, Done{})
		return
	}
	created := translate.CreateToLegacy(result, task, translate.TaskView{ID: handle, Status: translate.Working})
	x.Do(
		Tell{To: taskOp(handle), Name: "born", Data: mustJSON(b)},
	)
	if !c.Cancelled {
		x.reply(c.Stream, jsonrpc.NewResult(rawID(c.ID), created))
	} else {
		x.Do(Send{Stream: c.Stream, Out: Out{Final: true}})
	}
	x.Do(Done{})
}

// mint makes a handle for a task only we know; b tells the task, which is
// there before the client can ask for it.
func (c *legacyCall) mint(x *Exec, name string, b taskBirth) {
	c.Handle = x.Handles().SealTask(TaskRef{Upstream: x.r.upstream, ID: x.Token(18), Principal: c.Owner, Minted: true})
	b.Born = x.Now.UTC().Format(timeLayout)
	task := mintedTask(x, c.Handle, c.TTL, b.Born)
	x.Do(Tell{To: taskOp(c.Handle), Name: name, Data: mustJSON(b)})
	x.reply(c.Stream, jsonrpc.NewResult(rawID(c.ID), jsonrpc.NewObject().Raw("task", task).Bytes()))
}

// mintedTask is the legacy Task of a handle of ours, always born working: at
// now, if that is given, which is what its client was told already.
func mintedTask(x *Exec, handle string, ttl int64, now string) []byte {
	if now == "" {
		now = x.Now.UTC().Format(timeLayout)
	}
	b := jsonrpc.NewObject().Str("taskId", handle).Str("status", translate.Working).
		Str("createdAt", now).Str("lastUpdatedAt", now)
	if ttl > 0 {
		b.Int("ttl", ttl)
	} else {
		b.Null("ttl")
	}
	return b.Int("pollInterval", x.Policy.PollDefault.Milliseconds()).Bytes()
}

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// early: no answer yet; the client gets a handle and the call runs on.
func (c *legacyCall) early(x *Exec) {
	b := c.birth()
	b.Call = x.ID
	c.mint(x, "running", b)
}

// hold: the server answered a task call plainly; the result stays with us.
func (c *legacyCall) hold(x *Exec, result jsonrpc.Value) {
	b := c.birth()
	b.Result = json.RawMessage(result.Raw())
	x.Free(string(x.ID))
	if c.Handle == "" {
		c.mint(x, "held", b)
	} else {
		x.Do(Tell{To: taskOp(c.Handle), Name: "result", Data: mustJSON(b)})
	}
	x.Do(Done{})
}
