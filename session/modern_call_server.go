package session

import (
	"encoding/json"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

func (c *modernCall) server(x *Exec, ev Event) {
	m := ev.Frame.Msg
	switch m.Kind {
	case jsonrpc.Request:
		if translate.IsQuestion(m.Method) && translate.RelatedTask(m.Params()) == "" {
			c.question(x, m)
			return
		}
		routeQuestion(x, c.Pool, c.Ready.Session, m, func(raw []byte) {
			c.say(x, raw)
		}, nil)
	case jsonrpc.Notification:
		c.notification(x, m)
	default:
		if ev.Label != "up" || !m.ID.IsZero() && m.ID.Key() != jsonrpc.IntID(c.UpID).Key() {
			x.r.metrics.Dropped("answer")
			return
		}
		switch {
		case c.Hosted != "":
			c.hostedAnswer(x, m.Raw)
			return
		case c.Parked:
			c.whileParked(x, m)
			return
		}
		c.response(x, ev)
	}
}

// withdrawn: the server took a question back.
func (c *modernCall) withdrawn(x *Exec, id []byte) {
	if c.Hosted != "" {
		x.Do(Tell{To: c.Hosted, Name: "withdrawn", Data: id})
		return
	}
	if c.Park.withdrawn(id) {
		x.Do(Del{Key: serverAskKey(c.Pool, id)})
	}
}

// notification: progress under the client's own token, log lines only as far
// as this request asked for them (2026-07-28 server/utilities/logging).
func (c *modernCall) notification(x *Exec, m *jsonrpc.Message) {
	if m.Method == "notifications/cancelled" {
		c.withdrawn(x, m.At("params", "requestId").Raw())
		return
	}
	if m.Method == "notifications/message" {
		c.logLine(x, m)
		return
	}
	if c.Parked || c.Hosted != "" {
		return // nobody listens
	}
	switch m.Method {
	case "notifications/progress":
		c.progress(x, m)
	default:
		if translate.OfExtension(m.Method) && translate.RelatedTask(m.Params()) == "" {
			x.Do(Send{Stream: c.Stream, Out: Out{Raw: m.Raw}})
			return
		}
		streamNotice(x, c.Pool, m)
	}
}

// progress goes to the client under its own token. A server that spreads a
// session's notices over its streams may overtake itself; a value must not
// fall (basic/utilities/progress, Progress Flow).
func (c *modernCall) progress(x *Exec, m *jsonrpc.Message) {
	token := m.At("params", "progressToken")
	if string(token.Raw()) != string(intRaw(c.UpID)) {
		routeNotice(x, c.Pool, m) // of another call in the session
		return
	}
	value, _ := m.At("params", "progress").Float()
	if len(c.Token) == 0 || value < c.Progress {
		return
	}
	c.Progress = value
	e := m.Edit()
	e.Replace(token, c.Token)
	x.Do(Send{Stream: c.Stream, Out: Out{Raw: e.Bytes()}})
}

// token keeps or drops the record by which notices on other streams than the
// call's own find it.
func (c *modernCall) token(x *Exec, keep bool) {
	switch key := tokenKey(c.Pool, intRaw(c.UpID)); {
	case keep && len(c.Token) > 0:
		x.Do(Put{Key: key, Value: []byte(x.ID)})
	case !keep && c.Tokened:
		x.Do(Del{Key: key})
	}
	c.Tokened = keep && len(c.Token) > 0
}

func (c *modernCall) response(x *Exec, ev Event) {
	m := ev.Frame.Msg
	if c.relist(x, m) {
		return
	}
	if m.Kind == jsonrpc.ErrorResponse {
		if h := ev.Frame.HTTP; h != nil && h.Status == 404 && c.Ready.Session != "" {
			c.sessionLost(x)
			return
		}
		c.error(x, m)
		return
	}
	if task := translate.TaskOf(m.Result()); c.Method == "tools/call" && (task.Exists() || c.AsTask && m.Result().Get("task").Exists()) {
		c.born(x, m.Result(), task)
		return
	}
	if c.Gone {
		x.Do(Done{})
		return
	}
	if c.Method == "tools/list" {
		c.listed(x, m)
	}
	raw := translate.ResultToModern(c.Method, m, c.ID, c.Ready.ServerInfo)
	c.finish(x, Out{Raw: sealCursor(x, raw, c.Method, c.Owner), Final: true})
}

func (c *modernCall) error(x *Exec, m *jsonrpc.Message) {
	code, _ := m.Error().Get("code").Int()
	if code == -32042 && c.wantsURLs(x, m) {
		return
	}
	raw := translate.ResultToModern(c.Method, m, nil, nil)
	status := translate.ErrorStatus(code)
	if code == -32601 && c.Method == "tools/call" {
		// 404 is for methods the server does not have; about a tool it is 200
		// with -32602.
		if r, err := jsonrpc.Decode(raw, jsonrpc.Limits{}); err == nil {
			e := r.Edit()
			e.Replace(r.Error().Get("code"), []byte("-32602"))
			raw, status = e.Bytes(), 0
		}
	}
	if r, err := jsonrpc.Decode(raw, jsonrpc.Limits{}); err == nil {
		raw = withID(r, rawID(c.ID))
	}
	c.finish(x, Out{Raw: raw, Final: true, Status: status})
}

// finish answers and ends the call.
func (c *modernCall) finish(x *Exec, out Out) {
	if c.Streams && out.Status == 0 {
		x.Do(Send{Stream: c.Stream, Out: Out{Begin: true}})
	}
	x.Do(Send{Stream: c.Stream, Out: out})
	c.done(x)
}

func (c *modernCall) done(x *Exec) {
	c.land(x)
	if c.Private {
		x.Do(Tell{To: c.Pool, Name: "release"})
	}
	x.Do(Done{})
}

// born: the server made a task; it is the task's business from here on.
func (c *modernCall) born(x *Exec, result, task jsonrpc.Value) {
	id, _ := task.Get("taskId").Str()
	if id == "" {
		c.finish(x, refusal(translate.Modern, rawID(c.ID), translate.CondInternal, namelessTask, nil))
		return
	}
	handle := x.Handles().SealTask(TaskRef{Upstream: x.r.upstream, Session: string(c.Pool), ID: id, Principal: c.Owner})
	if handle == "" {
		c.finish(x, refusal(translate.Modern, rawID(c.ID), translate.CondInternal, "the server's task id is too long", nil))
		return
	}
	op := OpID("mtask:" + handle)
	b := modernBirth{Pool: c.Pool, As: c.As, Owner: c.Owner, ServerID: id, Task: json.RawMessage(task.Raw()), Ready: c.Ready, Asks: c.Asks, Cancel: c.Gone, Limit: c.Limit, Caps: c.Caps}
	b.Asked, b.Keys = c.Park.handOver(), c.Park.Keys
	x.Do(Put{Key: serverTaskKey(c.Pool, id), Value: []byte(op)})
	// Last, so that a question that waits for the task finds it.
	lease := Tell{To: c.Pool, Name: "lease"}
	if len(c.Token) > 0 {
		b.Token, c.Tokened = intRaw(c.UpID), false // its record is the task's now
		x.Do(Put{Key: tokenKey(c.Pool, b.Token), Value: []byte(op)})
	}
	if c.Drive && !c.Gone {
		b.Driver = &waiter{Stream: c.Stream, ID: c.ID, Driven: true, Token: c.Token}
		b.Digest = c.Park.Digest
		x.Do(Tell{To: op, Name: "born", Data: mustJSON(b)}, Attach{Stream: c.Stream, Op: op}, lease)
		c.done(x)
		return
	}
	status, _ := task.Get("status").Str()
	view := translate.TaskView{ID: handle, Status: bornStatus(status)}
	created := translate.CreateToModern(result, task, view, c.Ready.ServerInfo)
	if x.Policy.InlineWait > 0 && !c.Gone {
		b.Driver = &waiter{Stream: c.Stream, ID: c.ID, Driven: true, Token: c.Token}
		b.Inline = created
		x.Do(Tell{To: op, Name: "born", Data: mustJSON(b)}, Attach{Stream: c.Stream, Op: op}, lease)
		c.done(x)
		return
	}
	x.Do(Tell{To: op, Name: "born", Data: mustJSON(b)}, lease)
	c.finish(x, Out{Raw: jsonrpc.NewResult(rawID(c.ID), created), Final: true})
}

// bornStatus: a handle is shown with no status that would need a payload.
func bornStatus(legacy string) string {
	if legacy == translate.Cancelled {
		return legacy
	}
	return translate.Working
}

// sessionLost: the server forgot the session, so the request has not run; it
// is sent once more in a new one.
func (c *modernCall) sessionLost(x *Exec) {
	m, err := jsonrpc.Decode(x.Kept(slotRequest), jsonrpc.Limits{})
	if c.Tried || err != nil {
		c.finish(x, refusal(translate.Modern, rawID(c.ID), translate.CondUpstreamBroken, "the upstream server lost its session", nil))
		return
	}
	c.token(x, false)
	c.Tried, c.Leveled, c.UpID = true, false, 0
	meta := m.At("params", "_meta")
	need := poolNeed{As: c.As, ClientInfo: clientInfo(meta), ClientCaps: translate.ClientCapsToLegacy(c.Caps), Private: c.Private, Limit: c.Limit}
	x.Do(Shut{Label: "up"}, Tell{To: c.Pool, Name: "lost", Data: []byte(c.Ready.Session)}, Tell{To: c.Pool, Name: "need", Data: mustJSON(need)})
	delete(c.Ups, "up")
}
