package session

import (
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

func (t *legacyTask) drop(x *Exec) {
	t.Final = true
	t.leave(x)
	if t.Index != "" {
		x.Do(Del{Key: t.Index})
	}
	if t.Held {
		x.Do(Del{Key: heldKey(t.handle(x))})
		x.Free(heldKey(t.handle(x)))
	}
	if t.Limit != "" {
		x.Do(counted(countedAs(t.Over), t.Limit, -1)...)
	}
	if t.Call != "" {
		x.Do(Tell{To: t.Call, Name: "shut"})
	}
	t.withdrawAll(x)
	x.Do(Done{})
}

// tasks/cancel (2025-11-25 tasks, Task Cancellation): terminal tasks refuse;
// else the server is told and the task is cancelled for good.
func (t *legacyTask) cancel(x *Exec, w waiter) {
	if t.Final {
		t.refuseCancel(x, w)
		return
	}
	if t.ServerID == "" {
		t.endWith(x, translate.Cancelled, nil)
		x.reply(w.Stream, jsonrpc.NewResult(w.id(), t.shown(x)))
		return
	}
	t.Cancels = append(t.Cancels, w)
	t.openCancel(x)
}

func (t *legacyTask) refuseCancel(x *Exec, w waiter) {
	x.refuse(w.Stream, translate.Legacy, w.id(), translate.CondInvalidParams,
		"Cannot cancel task: already in terminal status '"+t.Status+"'", nil)
}
