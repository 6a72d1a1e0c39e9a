package session

import (
	"encoding/json"
	"net/http"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// modernCall is a modern client's request on its way to a legacy server.
type modernCall struct {
	base
	Stream   string      `json:",omitempty"`
	ID       []byte      `json:",omitempty"`
	Method   string      `json:",omitempty"`
	Name     string      `json:",omitempty"` // tool
	As       Principal   `json:",omitempty"`
	Owner    Principal   `json:",omitempty"`
	Pool     OpID        `json:",omitempty"`
	Private  bool        `json:",omitempty"`
	Header   http.Header `json:",omitempty"`
	Declared bool        `json:",omitempty"` // the tasks extension
	Asks     bool        `json:",omitempty"` // can be asked something
	LogLevel string      `json:",omitempty"`
	Token    []byte      `json:",omitempty"` // the client's progress token
	Tokened  bool        `json:",omitempty"` // notices on other streams find the call by its progress token
	Progress float64     `json:",omitempty"` // last value relayed
	UpID     int64       `json:",omitempty"` // request id toward the server
	Ready    poolReady   `json:",omitzero"`
	AsTask   bool        `json:",omitempty"`
	Drive    bool        `json:",omitempty"`
	Limit    string      `json:",omitempty"`
	Tried    bool        `json:",omitempty"` // sent once more after a lost session
	Leveled  bool        `json:",omitempty"` // the session was told its log level
	Relisted bool        `json:",omitempty"` // the tool list was read anew for this call
	Gone     bool        `json:",omitempty"` // the client has left
	Streams  bool        `json:",omitempty"` // the server answers by an event stream
	Caps     []byte      `json:",omitempty"` // what the client declared
	Hosted   OpID        `json:",omitempty"` // the task this call was turned into
	Fly      string      `json:",omitempty"` // its record as a call in flight
	Parked   bool        `json:",omitempty"` // no stream of the client is open
	Lost     bool        `json:",omitempty"` // the server's stream broke while parked
	Park     parked      `json:",omitzero"`
	URL      urlWait     `json:",omitzero"`

	raw []byte // the client's message, in the step that brought it
	msg *jsonrpc.Message
}

func (c *modernCall) endStep() { c.raw, c.msg = nil, nil }

func (c *modernCall) Step(x *Exec, ev Event) {
	switch ev.Kind {
	case EvClient:
		if ev.Name == "resume" {
			if c.Stream == "" {
				x.refuse(ev.Label, translate.Modern, ev.Frame.Msg.ID, translate.CondInvalidParams, badState, nil)
				break
			}
			c.resume(x, ev)
			break
		}
		c.client(x, ev)
	case EvOp:
		c.told(x, ev)
	case EvTimer:
		switch ev.Name {
		case "url":
			c.sendVisited(x, true)
		case wakeGather:
			c.gathered(x)
		default:
			c.parkOver(x)
		}
	case EvOpened:
		// Not yet ours too: an error code may want a status of its own.
		c.Streams = true
	case EvServer:
		c.server(x, ev)
	case EvServerEnd:
		if ev.Label == "up" {
			c.ended(x, ev)
		}
	case EvClientGone:
		c.gone(x)
	}
	if c.Stream == "" {
		x.Free(string(x.ID) + "/ask") // of a step that is run again
		if ev.Kind == EvOp && ev.Name == "question" && ev.From.Kind() == "pool" {
			// It crossed the call's end; by now it may be known whose it is.
			x.Do(Tell{To: ev.From, Name: "stray", Data: ev.Data})
		}
		x.Do(Done{})
	}
}

// poolOf names the session a caller's calls share. Callers who cannot be
// told apart lease one each, so that nothing of one reaches another.
func poolOf(x *Exec, caller Caller, info, caps []byte, lease string) OpID {
	if caller.Open {
		return OpID("pool:" + x.Handles().mark("lease", lease)) // each once
	}
	return OpID("pool:" + x.r.mask("pool", x.r.upstream+"\x00"+string(caller.Principal)+"\x00"+string(info)+"\x00"+string(caps)))
}

func (c *modernCall) client(x *Exec, ev Event) {
	m := ev.Frame.Msg
	meta := m.At("params", "_meta")
	caps := meta.Get(translate.MetaClientCaps)
	info := clientInfo(meta)
	legacyCaps := translate.ClientCapsToLegacy(caps.Raw())
	c.Stream, c.ID, c.Method = ev.Label, json.RawMessage(m.ID.Raw()), m.Method
	c.Name, _ = m.At("params", "name").Str()
	c.As, c.Owner, c.Private = ev.Caller.Principal, taskPrincipal(ev.Caller), ev.Caller.Open
	c.Pool = poolOf(x, ev.Caller, info, legacyCaps, ev.Label)
	c.Declared = translate.DeclaresTasks(m)
	c.Asks = caps.Get("elicitation").Exists() || caps.Get("sampling").Exists() || caps.Get("roots").Exists()
	c.LogLevel, _ = meta.Get(translate.MetaLogLevel).Str()
	c.Token = json.RawMessage(meta.Get(translate.MetaProgress).Raw())
	c.Header = legacyHeaders(ev.Caller.Header)
	c.raw, c.msg = m.Raw, m
	c.Caps = json.RawMessage(caps.Raw())
	if translate.CanRequireInput(m.Method) && c.Asks {
		c.Park.Digest = translate.CallDigest(m)
	}
	if c.LogLevel != "" && levelRank(c.LogLevel) < 0 {
		x.refuse(c.Stream, translate.Modern, m.ID, translate.CondInvalidParams, "unknown log level", nil)
		x.Do(Done{})
		return
	}
	c.Limit = x.r.limitKey(ev.Caller)
	c.need(x, info, legacyCaps)
}

// clientInfo is who a modern request says it comes from.
func clientInfo(meta jsonrpc.Value) []byte {
	return rawOr(meta.Get(translate.MetaClientInfo), `{"name":"unknown","version":"0"}`)
}

// legacyHeaders leaves out what only modern servers know.
func legacyHeaders(h http.Header) http.Header {
	var out http.Header
	for k, v := range h {
		if len(k) >= 4 && k[:4] == "Mcp-" {
			continue
		}
		if out == nil {
			out = http.Header{}
		}
		out[k] = v
	}
	return out
}

// need asks for a session. The usual case, one that is ready, is read from
// the store without waking its operation.
func (c *modernCall) need(x *Exec, info, caps json.RawMessage) {
	pool := new(poolSession)
	if !c.Private && x.r.load(c.Pool, pool) && pool.Phase == "ready" && x.Now.Sub(pool.Used) < x.Policy.SessionIdle/8 {
		c.Ready = pool.view()
		c.proceed(x)
		return
	}
	x.Keep(&c.base, slotRequest, c.raw)
	if c.Private {
		x.Do(Tell{To: c.Pool, Name: "need", Data: mustJSON(poolNeed{c.As, info, caps, true, c.Limit})}, Tell{To: c.Pool, Name: "lease"})
		return
	}
	x.Do(Tell{To: c.Pool, Name: "need", Data: mustJSON(poolNeed{c.As, info, caps, false, c.Limit})})
}

func (c *modernCall) told(x *Exec, ev Event) {
	switch ev.Name {
	case "ready":
		if c.up("up") {
			return
		}
		if json.Unmarshal(ev.Data, &c.Ready) != nil {
			return
		}
		switch {
		case c.Ready.Error != nil:
			c.finish(x, Out{Raw: errorWith(rawID(c.ID), c.Ready.Error), Final: true})
		case c.Ready.Out != nil:
			out := *c.Ready.Out
			if m, err := jsonrpc.Decode(out.Raw, jsonrpc.Limits{}); err == nil {
				out.Raw = withID(m, rawID(c.ID))
			}
			c.finish(x, out)
		default:
			c.proceed(x)
		}
	case "question":
		if m, err := jsonrpc.Decode(ev.Data, jsonrpc.Limits{}); err == nil && c.Stream != "" {
			c.question(x, m)
		}
	case "withdrawn":
		c.withdrawn(x, ev.Data)
	case "completed":
		c.completed(x, string(ev.Data))
	case "level":
		if !c.up("up") && c.UpID == 0 && c.Stream != "" {
			c.proceed(x)
		}
	case "notice":
		if m, err := jsonrpc.Decode(ev.Data, jsonrpc.Limits{}); err == nil && c.Stream != "" {
			c.notification(x, m)
		}
	case "log":
		if m, err := jsonrpc.Decode(ev.Data, jsonrpc.Limits{}); err == nil && c.Stream != "" {
			c.logLine(x, m)
		}
	case "say", "shut":
		c.hostedNews(x, ev)
	case "tools":
		if !c.up("up") && (c.UpID == 0 || c.Relisted) {
			c.decide(x)
		}
	}
}

// proceed goes on once a session is there.
func (c *modernCall) proceed(x *Exec) {
	switch {
	case c.Method == "server/discover":
		pool := new(poolSession)
		if !x.r.load(c.Pool, pool) {
			c.finish(x, refusal(translate.Modern, rawID(c.ID), translate.CondInternal, "", nil))
			return
		}
		c.finish(x, Out{Raw: jsonrpc.NewResult(rawID(c.ID), translate.DiscoverResult(translate.ParseResult(pool.Init))), Final: true})
	case !c.leveled(x):
		// "level" comes
	case c.Method == "tools/call" && c.Ready.Tasks:
		if _, known := x.Get(toolsKey(c.Pool)); !known {
			if !c.kept(slotRequest) {
				x.Keep(&c.base, slotRequest, c.raw)
			}
			x.Do(Tell{To: c.Pool, Name: "tools"})
			return
		}
		c.decide(x)
	default:
		c.send(x)
	}
}

// decide: whether the call becomes a legacy task.
func (c *modernCall) decide(x *Exec) {
	raw, _ := x.Get(toolsKey(c.Pool))
	support := toolSupport(raw).of(c.Name)
	if (support == "required" || support == "optional") && !x.r.within(countTasks, c.Limit, x.Policy.Tasks, x.Policy.Above.Tasks) {
		x.Do(Limited{countTasks})
		c.finish(x, tooMany(translate.Modern, rawID(c.ID), countTasks, "too many tasks; try again when some have ended"))
		return
	}
	switch {
	case support == "required" && c.Declared, support == "optional" && c.Declared:
		c.AsTask = true
	case support == "required" && x.Policy.RefuseUndeclared:
		data := []byte(`{"requiredCapabilities":{"extensions":{"` + translate.ExtTasks + `":{}}}}`)
		c.finish(x, refusal(translate.Modern, rawID(c.ID), translate.CondMissingCapability, "this tool runs only as a task; declare the tasks extension", data))
		return
	case support == "required", support == "optional" && c.Asks:
		// A plain call of an optional tool that asks hangs in a widely used
		// server, so it is driven as a task.
		c.AsTask, c.Drive = true, true
	}
	if c.Relisted && !c.AsTask {
		c.unchanged(x)
		return
	}
	x.Unkeep(&c.base, slotPayload) // what a relisted call was refused with
	c.send(x)
}

func (c *modernCall) send(x *Exec) {
	if c.raw == nil {
		c.raw = x.Kept(slotRequest)
	}
	m := c.msg
	if m == nil {
		var err error
		if m, err = jsonrpc.Decode(c.raw, jsonrpc.Limits{}); err != nil {
			c.finish(x, refusal(translate.Modern, rawID(c.ID), translate.CondInternal, "", nil))
			return
		}
	}
	m, ok := openCursor(x, m, c.Owner)
	if !ok {
		c.finish(x, refusal(translate.Modern, rawID(c.ID), translate.CondInvalidParams, "invalid cursor", nil))
		return
	}
	c.UpID = x.NextID("up/" + string(c.Pool))
	// The session is shared, so ids and tokens of its callers may be equal.
	raw := translate.RequestToLegacy(m, translate.LegacyRequest{Task: c.AsTask, ID: intRaw(c.UpID)})
	if !c.kept(slotRequest) && !c.Tried && (c.Ready.Session != "" || translate.CanRequireInput(c.Method)) {
		// A session the server has forgotten (404) has run nothing: the call is
		// sent once more in a new one. So is one that URLs stand before.
		x.Keep(&c.base, slotRequest, c.raw)
	}
	c.flight(x)
	c.token(x, true)
	x.Do(Open{Label: "up", Upstream: x.r.upstream, As: c.As, Out: c.out(raw), Feeds: c.Stream})
}

func (c *modernCall) out(raw []byte) Outgoing {
	out := Outgoing{Verb: http.MethodPost, Msg: raw, Session: c.Ready.Session, Header: c.Header}
	out.speaks(c.Ready.Version)
	return out
}

func (c *modernCall) ended(x *Exec, ev Event) {
	if c.Hosted != "" {
		c.hostedAnswer(x, jsonrpc.NewError(jsonrpc.IntID(0), -32603, "the server's stream was lost", nil))
		return
	}
	if c.URL.Held {
		return // answered; it will be sent again
	}
	if c.Parked {
		c.Lost = !c.kept(slotPayload)
		return
	}
	if h := ev.Frame.HTTP; h != nil && h.Status == 404 && ev.Fail == FailNone && c.Ready.Session != "" {
		c.sessionLost(x)
		return
	}
	if h := ev.Frame.HTTP; h != nil && ev.Fail == FailNone && translate.NoSuchMethod(c.Method, h.Status) {
		c.finish(x, refusal(translate.Modern, rawID(c.ID), translate.CondUnknownMethod, "method not found: "+c.Method, nil))
		return
	}
	c.finish(x, failedOut(translate.Modern, rawID(c.ID), ev))
}

// gone: toward a modern client the closed stream is the cancel; the legacy
// server hears it with its own request id, at once. A call sent as a task may
// have become one: its handle is awaited, then cancelled.
func (c *modernCall) gone(x *Exec) {
	if c.AsTask && c.up("up") {
		c.Gone = true
		return
	}
	if c.Parked || c.Hosted != "" {
		return
	}
	c.cancelUp(x, "the client closed its stream")
	c.done(x)
}
