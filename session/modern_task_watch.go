package session

import (
	"encoding/json"
	"net/http"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// look asks the server for the task's state.
func (t *modernTask) look(x *Exec) {
	if !t.up("get") {
		t.open(x, "get", "tasks/get")
	}
}

// hold keeps a tasks/result open: the stream on which legacy servers put a
// task's questions (2025-11-25 tasks, Input Required Status).
func (t *modernTask) hold(x *Exec) {
	if t.Refused && !translate.Terminal(t.Status) {
		return // till the timer
	}
	if !t.up("result") && t.Paid == "" && !t.Final && t.Failure == nil && (t.Asks || translate.Terminal(t.Status) || t.Status == translate.InputRequired) {
		t.open(x, "result", "tasks/result")
	}
}

// open sends a request about the task in the session that knows it. Without
// one (a restart) the pool is asked first.
func (t *modernTask) open(x *Exec, label, method string) {
	if t.ServerID == "" {
		return // hosted: the server knows a call only
	}
	if t.Ready.Version == "" {
		t.need(x)
		return
	}
	params := jsonrpc.NewObject().Str("taskId", t.ServerID).Bytes()
	msg := jsonrpc.NewRequest(jsonrpc.IntID(x.NextID("up/"+string(t.Pool))), method, params)
	t.send(x, label, msg)
}

func (t *modernTask) send(x *Exec, label string, msg []byte) {
	x.Do(Open{Label: label, Upstream: x.r.upstream, As: t.As, Out: t.out(msg), Paced: t.paced})
}

func (t *modernTask) out(msg []byte) Outgoing {
	out := Outgoing{Verb: http.MethodPost, Msg: msg, Session: t.Ready.Session}
	out.speaks(t.Ready.Version)
	return out
}

func (t *modernTask) need(x *Exec) {
	n := poolNeed{As: t.As, ClientInfo: json.RawMessage(`{"name":"taskbridge","version":` + string(jsonrpc.Quote(x.Policy.Version)) + `}`), ClientCaps: json.RawMessage("{}"), Limit: t.Limit}
	x.Do(Tell{To: t.Pool, Name: "need", Data: mustJSON(n)})
}

func (t *modernTask) ready(x *Exec, r poolReady) {
	if r.Version == "" {
		raw := []byte(`{"code":-32603,"message":"the upstream server could not be reached"}`)
		if r.Error != nil {
			raw = r.Error
		}
		t.troubled(x, raw)
		return
	}
	t.Ready = r
	if !t.Leased {
		t.Leased = true
		x.Do(Tell{To: t.Pool, Name: "lease"})
	}
	t.sayAgain(x)
	t.look(x)
	if len(t.Cancels) > 0 && !t.up("cancel") {
		t.open(x, "cancel", "tasks/cancel")
	}
}

func (t *modernTask) timer(x *Exec, name string) {
	switch name {
	case "look":
		if !t.Final && t.Failure == nil && t.watched() {
			t.paced = true
			t.look(x)
			t.paced = false
		}
	case "hold":
		t.Refused = false
		t.hold(x)
	case "say":
		t.sayAgain(x)
	case "inline":
		t.inlineOver(x)
	case wakeGather:
		if t.Driver != nil && t.Park.asking() {
			t.park(x)
		}
	case "park":
		t.parkOver(x)
	case "forget":
		if t.watched() {
			x.Do(Wake{Name: "forget", At: x.Now.Add(x.Policy.TaskGrace)})
			return
		}
		t.drop(x)
	}
}

func (t *modernTask) watched() bool {
	return t.Driver != nil || t.Parked || len(t.Watchers) > 0 || len(t.Gets) > 0
}

// watch looks at the server while a driven call or a listen stream waits.
func (t *modernTask) watch(x *Exec) {
	if t.Final || t.Failure != nil || (t.Driver == nil && !t.Parked && len(t.Watchers) == 0) || t.up("get") {
		return
	}
	if !x.Now.Before(t.Next) {
		t.look(x)
		return
	}
	x.Do(Wake{Name: "look", At: t.Next})
}
