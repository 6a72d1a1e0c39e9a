package session

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// legacyCall is a legacy client's request on its way to a modern server.
type legacyCall struct {
	base
	Stream  string    `json:",omitempty"`
	ID      []byte    `json:",omitempty"`
	UpID    []byte    `json:",omitempty"` // toward the server, once the call was sent again
	Sent    int       `json:",omitempty"` // how often it was sent again
	Method  string    `json:",omitempty"`
	Session string    `json:",omitempty"`
	Version string    `json:",omitempty"` // toward the server
	As      Principal `json:",omitempty"`
	Owner   Principal `json:",omitempty"`
	Caps    []byte    `json:",omitempty"` // what the client can be asked, of a tools/call
	// Task: the client asked for a task; TTL what it asked for. Handle is set
	// once the client has one of ours.
	Task     bool    `json:",omitempty"`
	TTL      int64   `json:",omitempty"`
	Token    []byte  `json:",omitempty"`
	Progress float64 `json:",omitempty"` // last value relayed
	Handle   string  `json:",omitempty"`
	// The request as sent is kept beside the state where a retry may be needed.
	Declared  bool      `json:",omitempty"` // the request declared the tasks extension
	Cancelled bool      `json:",omitempty"`
	Limit     string    `json:",omitempty"`
	Rounds    int       `json:",omitempty"`
	Questions questions `json:",omitzero"`
	State     []byte    `json:",omitempty"` // requestState to echo
	Asking    bool      `json:",omitempty"` // the task asks for us; the call goes on with its answers
	Gone      bool      `json:",omitempty"` // the client has closed its stream, which is no cancel
	Orphan    bool      `json:",omitempty"` // the session is gone: it is over with the stream
	// Relist is "asked" while the tool list is fetched anew for this call, then
	// "done"; Marks are the mirrored arguments it was last sent with.
	Relist string `json:",omitempty"`
	Pauses bool   `json:",omitempty"` // before a round that asks nothing
	Marks  []byte `json:",omitempty"`
}

func (c *legacyCall) Step(x *Exec, ev Event) {
	switch ev.Kind {
	case EvClient:
		if c.Stream != "" { // of two at once, both of which saw none
			x.refuse(ev.Label, translate.Legacy, ev.Frame.Msg.ID, translate.CondDuplicateID, duplicateID, nil)
			return
		}
		c.client(x, ev)
	case EvOpened:
		if c.Handle == "" {
			x.Do(Send{Stream: c.Stream, Out: Out{Begin: true}})
		}
	case EvServer:
		c.server(x, ev)
	case EvServerEnd:
		if c.Stream != "" && len(c.Questions.Open) == 0 && !c.Asking && !c.Pauses && c.Relist != "asked" && ev.Label == "up" && !c.up("up") {
			c.failed(x, failedOut(translate.Legacy, rawID(c.ID), ev))
		}
	case EvTimer:
		switch {
		case c.Stream == "":
		case ev.Name == "gone":
			c.abandoned(x)
		case ev.Name == "again":
			c.sendAgain(x, nil)
		case c.Handle == "" && !c.Cancelled:
			c.early(x)
		}
	case EvClientGone:
		if c.Stream != "" {
			c.Questions.lost(c.Stream)
			c.Gone = true
			c.patience(x)
			if c.Orphan {
				c.over(x)
			}
		}
	case EvAnswer:
		c.answer(x, ev)
	case EvCancel:
		if c.Stream == "" {
			cancelDriven(x)
			break
		}
		c.cancel(x)
	case EvOp:
		c.told(x, ev)
	}
	if c.Stream == "" {
		x.Do(Done{}) // an event for a call that is over
	}
}

// told is news from another operation.
func (c *legacyCall) told(x *Exec, ev Event) {
	switch ev.Name {
	case "answers": // of questions asked under the task
		c.sendAgain(x, ev.Data)
	case "marks":
		c.relisted(x)
	case "ended":
		c.ended(x, ev.Data)
	case "shut": // tasks/cancel of the task this call runs under
		x.Free(string(x.ID))
		x.Do(Shut{Label: "up"}, Done{})
	}
}

func (c *legacyCall) client(x *Exec, ev Event) {
	m, sess := ev.Frame.Msg, ev.Session
	c.Stream, c.ID, c.Method = ev.Label, json.RawMessage(m.ID.Raw()), m.Method
	c.Session, c.As, c.Owner = sess.ID, ev.Caller.Principal, taskPrincipal(ev.Caller)
	c.Version = sess.ServerVersion
	c.Token = json.RawMessage(m.At("params", "_meta", translate.MetaProgress).Raw())
	if m.Method == "tools/call" {
		c.Caps = sess.ClientCaps
	}
	if m.Method == "tools/call" && m.At("params", "task").Exists() && sess.Tasks {
		if !c.admit(x, m.At("params", "task")) {
			return
		}
	}
	opened, ok := openCursor(x, m, c.Owner)
	if !ok {
		c.failed(x, refusal(translate.Legacy, m.ID, translate.CondInvalidParams, "invalid cursor", nil))
		return
	}
	raw := translate.RequestToModern(opened, sess.modernRequest(c.Task))
	c.Declared = c.Task
	if translate.CanRequireInput(m.Method) {
		x.Keep(&c.base, slotRequest, raw)
	}
	header := modernHeaders(m, ev.Caller.Header)
	if c.mirror(x, sess, m, header) {
		c.openAs(x, raw, header, sess.ServerVersion)
	}
}

// admit checks params.task and sets room aside for a result we may hold.
func (c *legacyCall) admit(x *Exec, task jsonrpc.Value) bool {
	ttl := task.Get("ttl")
	ms, ok := translate.Milliseconds(ttl)
	if ttl.Exists() && ttl.Type() != jsonrpc.Null && !ok || task.Type() != jsonrpc.Object {
		x.refuse(c.Stream, translate.Legacy, rawID(c.ID), translate.CondInvalidParams, "task.ttl must be a number of milliseconds, 0 or null for no preference", nil)
		x.Do(Done{})
		return false
	}
	sess := new(legacySession)
	x.r.load(sessionOp(c.Session), sess)
	if !x.r.within(countTasks, sess.Limit, x.Policy.Tasks, x.Policy.Above.Tasks) || !roomForEnded(x, sess.Limit, c.Owner) {
		x.Do(Limited{countTasks}, Send{Stream: c.Stream, Out: tooMany(translate.Legacy, rawID(c.ID), countTasks, "too many tasks; try again when some have ended")}, Done{})
		return false
	}
	c.Limit = sess.Limit
	if !x.Reserve(string(x.ID)) {
		out := refusal(translate.Legacy, rawID(c.ID), translate.CondInternal, "too many tasks are held at the moment; try again later", []byte(`{"retryAfterMs":1000}`))
		x.Do(Send{Stream: c.Stream, Out: out}, Done{})
		return false
	}
	c.Task, c.TTL = true, min(ms, x.Policy.MaxTTL.Milliseconds())
	x.Do(Wake{Name: "handle", At: x.Now.Add(x.Policy.TaskHandleAfter)})
	return true
}

// anew gives the call an id of its own for being sent again: that is another
// request (2026-07-28 basic/patterns/mrtr, Client Requirements).
func (c *legacyCall) anew(raw []byte) []byte {
	c.Sent++
	c.UpID = jsonrpc.Quote("again-" + strconv.Itoa(c.Sent) + "-" + string(c.ID))
	if m, err := jsonrpc.Decode(raw, jsonrpc.Limits{}); err == nil {
		return withID(m, rawID(c.UpID))
	}
	return raw
}

// open sends the call again with the headers it needs.
func (c *legacyCall) open(x *Exec, raw []byte, version string) {
	raw = c.anew(raw)
	out := modernOut(raw, version, nil)
	sess := new(legacySession)
	if m, err := jsonrpc.Decode(raw, jsonrpc.Limits{}); err == nil && x.r.load(sessionOp(c.Session), sess) && !c.mirror(x, sess, m, out.Header) {
		return
	}
	x.Do(Open{Label: "up", Upstream: x.r.upstream, As: c.As, Out: out, Feeds: c.Stream})
}

// openAs is open where the headers are known already.
func (c *legacyCall) openAs(x *Exec, raw []byte, header http.Header, version string) {
	out := Outgoing{Verb: http.MethodPost, Msg: raw, Version: version, Header: header}
	x.Do(Open{Label: "up", Upstream: x.r.upstream, As: c.As, Out: out, Feeds: c.Stream})
}

func (c *legacyCall) server(x *Exec, ev Event) {
	m := ev.Frame.Msg
	switch m.Kind {
	case jsonrpc.Notification:
		c.notification(x, m)
	case jsonrpc.ErrorResponse, jsonrpc.Response:
		if !c.answered(m) {
			x.r.metrics.Dropped("answer")
			return
		}
		if m.Kind == jsonrpc.ErrorResponse {
			c.error(x, ev)
			return
		}
		c.result(x, ev)
	}
}

// answered: m answers the request as it was sent last.
func (c *legacyCall) answered(m *jsonrpc.Message) bool {
	if len(c.UpID) > 0 {
		return answers(m, c.UpID)
	}
	return answers(m, c.ID)
}

func (c *legacyCall) notification(x *Exec, m *jsonrpc.Message) {
	if c.Handle == "" {
		if m.Method == "notifications/progress" && !c.rises(m) {
			x.r.metrics.Dropped("progress")
			return
		}
		x.Do(Send{Stream: c.Stream, Out: Out{Raw: m.Raw}})
		return
	}
	if m.Method == "notifications/progress" {
		if s, _ := m.At("params", "message").Str(); s != "" {
			x.Do(Tell{To: taskOp(c.Handle), Name: "message", Data: []byte(s)})
		}
	}
}

// rises: progress under the call's own token that does not fall (2026-07-28
// basic/patterns/progress, Behavior Requirements).
func (c *legacyCall) rises(m *jsonrpc.Message) bool {
	value, ok := m.At("params", "progress").Float()
	if !ok || len(c.Token) == 0 || !jsonrpc.Equal(m.At("params", "progressToken").Raw(), c.Token) || value < c.Progress {
		return false
	}
	c.Progress = value
	return true
}

func (c *legacyCall) error(x *Exec, ev Event) {
	m := ev.Frame.Msg
	if !c.Declared && c.kept(slotRequest) && missingTasks(m.Error()) {
		c.declare(x)
		return
	}
	if c.headerMissed(x, ev) {
		return
	}
	c.refused(x, m.Raw)
}

// refused: the server's error is the call's answer, or its task's.
func (c *legacyCall) refused(x *Exec, answer []byte) {
	m, err := jsonrpc.Decode(answer, jsonrpc.Limits{})
	if err != nil {
		c.failed(x, refusal(translate.Legacy, rawID(c.ID), translate.CondInternal, "", nil))
		return
	}
	raw, _ := translate.ResultToLegacy(c.Method, m, false)
	if c.Handle != "" {
		x.Free(string(x.ID))
		x.Do(Tell{To: taskOp(c.Handle), Name: "error", Data: m.Error().Raw()}, Done{})
		return
	}
	if e, err := jsonrpc.Decode(raw, jsonrpc.Limits{}); err == nil {
		raw = withID(e, rawID(c.ID))
	}
	c.failed(x, Out{Raw: raw, Final: true})
}

// missingTasks: -32021 that names the tasks extension (tasks extension,
// Capability Negotiation).
func missingTasks(e jsonrpc.Value) bool {
	code, _ := e.Get("code").Int()
	if code != -32021 {
		return false
	}
	return e.Get("data").Get("requiredCapabilities").Get("extensions").Get(translate.ExtTasks).Exists()
}

// declare sends the call once more, now with the extension: its task is
// driven here.
func (c *legacyCall) declare(x *Exec) {
	m, sess, ok := c.again(x)
	if !ok {
		return
	}
	c.Declared = true
	raw := translate.RequestToModern(m, sess.modernRequest(true))
	x.Keep(&c.base, slotRequest, raw)
	c.open(x, raw, sess.ServerVersion)
}

// again reads what a retry needs; without it the call fails.
func (c *legacyCall) again(x *Exec) (*jsonrpc.Message, *legacySession, bool) {
	m, err := jsonrpc.Decode(x.Kept(slotRequest), jsonrpc.Limits{})
	sess := new(legacySession)
	if err != nil || !x.r.load(sessionOp(c.Session), sess) {
		c.failed(x, refusal(translate.Legacy, rawID(c.ID), translate.CondUnknownSession, sessionOver, nil))
		return nil, nil, false
	}
	return m, sess, true
}

func (c *legacyCall) result(x *Exec, ev Event) {
	m := ev.Frame.Msg
	result := m.Result()
	kind, _ := result.Get("resultType").Str()
	if task := translate.TaskOf(result); c.Method == "tools/call" && (task.Exists() || kind == "task") {
		c.born(x, result, task)
		return
	}
	if c.Cancelled {
		c.over(x) // no task came of it, so nothing is left to cancel
		return
	}
	if kind == "input_required" && translate.CanRequireInput(c.Method) {
		c.inputRequired(x, result)
		return
	}
	if c.Task {
		c.hold(x, result)
		return
	}
	sess := new(legacySession)
	x.r.load(sessionOp(c.Session), sess)
	if c.Method == "tools/list" && ev.Frame.HTTP != nil { // other transports have no headers
		m = c.listed(x, sess, m)
	}
	raw, lost := translate.ResultToLegacy(c.Method, m, sess.Tasks)
	raw = x.fit(c.Method, sess, raw, lost)
	if len(c.UpID) > 0 {
		if r, err := jsonrpc.Decode(raw, jsonrpc.Limits{}); err == nil {
			raw = withID(r, rawID(c.ID))
		}
	}
	x.reply(c.Stream, sealCursor(x, raw, c.Method, c.Owner))
	x.Do(Done{})
}

// cancelDriven leads a cancel that crossed the end of its call on to the task
// the call has become.
func cancelDriven(x *Exec) {
	session, id, _ := strings.Cut(string(x.ID[len("lcall:"):]), ":")
	key := "wait/" + session + "/" + id
	if raw, ok := x.Get(key); ok {
		op, stream, _ := strings.Cut(string(raw), " ")
		x.Do(Del{Key: key}, Tell{To: OpID(op), Name: "cancelled", Data: []byte(stream)})
	}
}

// over ends a call the client has cancelled: it is not answered any more.
func (c *legacyCall) over(x *Exec) {
	x.Free(string(x.ID))
	x.Do(Send{Stream: c.Stream, Out: Out{Final: true}}, Done{})
}

// failed ends the call with an answer, or its task with one.
func (c *legacyCall) failed(x *Exec, out Out) {
	if c.Cancelled {
		c.over(x)
		return
	}
	x.Free(string(x.ID))
	if c.Handle == "" {
		x.Do(Send{Stream: c.Stream, Out: out}, Done{})
		return
	}
	raw := []byte(`{"code":-32603,"message":"the upstream server gave no answer"}`)
	if m, err := jsonrpc.Decode(out.Raw, jsonrpc.Limits{}); err == nil && m.Error().Exists() {
		raw = m.Error().Raw()
	}
	x.Do(Tell{To: taskOp(c.Handle), Name: "error", Data: raw}, Done{})
}

func taskOp(handle string) OpID { return OpID("ltask:" + handle) }

// taskBirth is what a call tells the task it becomes.
type taskBirth struct {
	Born     string    `json:",omitempty"` // createdAt the client was told with a handle of ours
	Session  string    `json:",omitempty"`
	As       Principal `json:",omitempty"`
	Owner    Principal `json:",omitempty"`
	ServerID string    `json:",omitempty"`
	Task     []byte    `json:",omitempty"` // as the server sent it
	Result   []byte    `json:",omitempty"` // held result
	Call     OpID      `json:",omitempty"` // still running under the handle
	TTL      int64     `json:",omitempty"`
	Token    []byte    `json:",omitempty"`
	Limit    string    `json:",omitempty"`
	Caps     []byte    `json:",omitempty"` // of the client
	Driver   *waiter   `json:",omitempty"`
	Cancel   bool      `json:",omitempty"`
}

// errorWith is an error response around a raw error object.
func errorWith(id jsonrpc.ID, rpcError []byte) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id.Raw()...)
	b = append(b, `,"error":`...)
	return append(append(b, rpcError...), '}')
}

// cancel: notifications/cancelled. A call sent as a task may have become one
// already, so its handle is awaited and the task cancelled then.
func (c *legacyCall) cancel(x *Exec) {
	if c.Handle != "" {
		return // the request is answered; only tasks/cancel stops the task
	}
	c.Questions.withdraw(x)
	if c.Task {
		c.Cancelled = true
		x.Do(Unwake{Name: "handle"})
		return
	}
	x.Do(Send{Stream: c.Stream, Out: Out{Final: true}}, Shut{Label: "up"}, Done{})
}
