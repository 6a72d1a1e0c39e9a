package session

import (
	"encoding/json"
	"net/http"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// poolSession is our session with a legacy server on behalf of modern
// clients of one principal, client info and capabilities. Calls start after the server took notifications/initialized and the
// GET stream is open or refused.
type poolSession struct {
	base
	As         Principal             `json:",omitempty"`
	Phase      string                `json:",omitempty"` // "", opening, ready
	Private    bool                  `json:",omitempty"` // leased by one call
	Limit      string                `json:",omitempty"` // counted under
	Session    string                `json:",omitempty"`
	Version    string                `json:",omitempty"`
	Init       []byte                `json:",omitempty"` // result of initialize
	View       poolReady             `json:",omitzero"`  // what calls need of it
	ClientInfo []byte                `json:",omitempty"`
	ClientCaps []byte                `json:",omitempty"` // legacy form
	Waiting    []OpID                `json:",omitempty"`
	Leases     int                   `json:",omitempty"` // calls, tasks and listens that use it
	Used       time.Time             `json:",omitzero"`
	Began      time.Time             `json:",omitzero"` // when initialize was sent, for observers
	GetTries   int                   `json:",omitempty"`
	NoGet      bool                  `json:",omitempty"` // the server offers no GET stream
	Tools      toolSupport           `json:",omitempty"` // while pages come
	Pages      int                   `json:",omitempty"`
	ToolWait   []OpID                `json:",omitempty"`
	Listens    []OpID                `json:",omitempty"`
	Subs       map[string]int        `json:",omitempty"` // resources and how many listens want them
	Confirming map[string]confirming `json:",omitempty"` // resources the server has not confirmed yet
	Level      string                `json:",omitempty"` // the most verbose log level wanted; View.Level is the server's
	LevelSent  string                `json:",omitempty"`
	LevelWait  []OpID                `json:",omitempty"`
	// Pending are questions of the server that belong to nothing yet.
	Pending []json.RawMessage `json:",omitempty"`
}

// poolNeed is what a call says when it needs the session.
type poolNeed struct {
	As         Principal
	ClientInfo []byte
	ClientCaps []byte
	Private    bool
	Limit      string
}

// poolReady is what it hears.
type poolReady struct {
	Session, Version string
	ServerInfo       []byte
	Tasks            bool
	Cancel           bool
	Logging          bool
	Level            string `json:",omitempty"` // log level the session has asked for
	Error            []byte `json:",omitempty"` // instead: a JSON-RPC error
	Out              *Out   `json:",omitempty"` // instead: what the client gets
}

func (p *poolSession) Step(x *Exec, ev Event) {
	switch ev.Kind {
	case EvOp:
		p.told(x, ev)
	case EvOpened:
		if ev.Label == "get" {
			p.GetTries = 0
			x.Do(Unwake{Name: "begin"})
			p.ready(x)
		}
	case EvServer:
		p.server(x, ev)
	case EvServerEnd:
		p.serverEnd(x, ev)
	case EvTimer:
		p.timer(x, ev.Name)
	}
}

func (p *poolSession) told(x *Exec, ev Event) {
	switch ev.Name {
	case "need":
		p.need(x, ev)
	case "lease":
		p.Leases++
		p.known(x)
	case "release":
		p.Leases--
		p.Used = x.Now
		if p.Private && p.Leases <= 0 {
			p.close(x)
		}
	case "lost":
		if p.Phase == "ready" && string(ev.Data) == p.Session {
			p.lost(x)
		}
	case "tools":
		p.Used = x.Now
		p.ToolWait = append(p.ToolWait, ev.From)
		p.listTools(x)
	case "level":
		p.level(x, ev)
	case "notice":
		if m, err := jsonrpc.Decode(ev.Data, jsonrpc.Limits{}); err == nil && p.Phase != "" {
			p.notice(x, m)
		}
	case "listen":
		p.Listens = append(p.Listens, ev.From)
	case "stray":
		if m, err := jsonrpc.Decode(ev.Data, jsonrpc.Limits{}); err == nil && p.Phase != "" {
			p.question(x, m)
		}
	case "flight":
		p.flight(x, ev.From)
	case "subscribe", "unsubscribe":
		p.subscribe(x, ev)
	case "unlisten":
		p.Listens = removeOp(p.Listens, ev.From)
	}
	if p.Phase == "" {
		x.Do(Done{})
	}
}

func removeOp(list []OpID, op OpID) []OpID {
	for i, o := range list {
		if o == op {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

func (p *poolSession) need(x *Exec, ev Event) {
	var n poolNeed
	if json.Unmarshal(ev.Data, &n) != nil {
		return
	}
	p.Used = x.Now
	p.As = n.As
	if p.Phase == "ready" {
		p.tellReady(x, ev.From)
		return
	}
	p.Waiting = append(p.Waiting, ev.From)
	if p.Phase == "" {
		if !x.r.within(countUpstreams, n.Limit, x.Policy.Upstreams, x.Policy.Above.Upstreams) {
			x.Do(Limited{"server_sessions"})
			out := tooMany(translate.Modern, jsonrpc.ID{}, "server_sessions", "too many sessions with the upstream server; try again later")
			p.fail(x, poolReady{Out: &out})
			return
		}
		p.ClientInfo, p.ClientCaps, p.Private, p.Limit = n.ClientInfo, n.ClientCaps, n.Private, n.Limit
		x.Do(counted(countUpstreams, p.Limit, 1)...)
		p.initialize(x)
		x.Do(Wake{Name: "idle", At: x.Now.Add(x.Policy.SessionIdle)})
	}
}

func (p *poolSession) initialize(x *Exec) {
	p.Phase, p.Session, p.Version, p.Began = "opening", "", "", x.Now
	p.Level = "" // a new session has none
	p.levelOver(x)
	params := jsonrpc.NewObject().Str("protocolVersion", translate.LatestLegacy).
		Raw("capabilities", p.ClientCaps).Raw("clientInfo", p.ClientInfo).Bytes()
	msg := jsonrpc.NewRequest(jsonrpc.IntID(x.NextID("up/"+string(x.ID))), "initialize", params)
	p.open(x, "init", Outgoing{Verb: http.MethodPost, Msg: msg})
	x.Do(Wake{Name: "opening", At: x.Now.Add(openPatience)})
}

// openPatience: how long a server may take until its session is there. All
// calls of its callers wait for it (2025-11-25 basic/lifecycle, Timeouts).
const openPatience = 2 * time.Minute

func (p *poolSession) open(x *Exec, label string, out Outgoing) {
	x.Do(Open{Label: label, Upstream: x.r.upstream, As: p.As, Out: p.out(out)})
	if label == "tools" || label == "level" {
		x.Do(Wake{Name: label, At: x.Now.Add(askPatience)})
	}
}

// askPatience: how long calls wait for what their session asks the server for
// first. They go on without it while their clients still wait for them.
const askPatience = 20 * time.Second

// out puts the session on a message.
func (p *poolSession) out(out Outgoing) Outgoing {
	out.Session = p.Session
	out.speaks(p.Version)
	return out
}

func (p *poolSession) server(x *Exec, ev Event) {
	m := ev.Frame.Msg
	switch {
	case m.Kind == jsonrpc.Request:
		p.question(x, m)
	case m.Kind == jsonrpc.Notification:
		p.notice(x, m)
	case ev.Label == "init" && p.Phase == "opening" && p.Init == nil:
		p.opened(x, ev)
	case ev.Label == "tools":
		x.Do(Shut{Label: "tools"})
		delete(p.Ups, "tools")
		p.toolPage(x, m)
	case p.confirms(ev.Label) != "":
		p.confirmed(x, p.confirms(ev.Label), m.Kind == jsonrpc.Response)
	case ev.Label == "level":
		x.Do(Shut{Label: "level"})
		delete(p.Ups, "level")
		p.levelSet(x)
	}
}

func (p *poolSession) opened(x *Exec, ev Event) {
	m := ev.Frame.Msg
	if m.Kind == jsonrpc.ErrorResponse {
		p.fail(x, poolReady{Error: json.RawMessage(m.Error().Raw())})
		return
	}
	if ev.Frame.HTTP != nil {
		p.Session = ev.Frame.HTTP.Header.Get(headerSession)
	}
	p.Version, _ = m.Result().Get("protocolVersion").Str()
	if f, known := translate.Lookup(p.Version); p.Version != "" && (!known || f.Era != translate.Legacy) {
		// 2025-11-25 basic/lifecycle, Version Negotiation: a client that does not
		// speak the server's version disconnects.
		if p.Session != "" {
			x.Do(Tell{To: OpID("pass:end-" + string(x.ID)), Name: "delete", Data: mustJSON(passDelete{p.Session, "", p.As})})
		}
		p.fail(x, poolReady{Error: []byte(`{"code":-32603,"message":"the server answers initialize with a protocol version this proxy does not speak"}`)})
		return
	}
	p.Init = json.RawMessage(m.Result().Raw())
	p.View = p.look()
	x.Do(Shut{Label: "init"})
	delete(p.Ups, "init")
	p.open(x, "inited", Outgoing{Verb: http.MethodPost, Msg: jsonrpc.NewNotification("notifications/initialized", nil)})
}

func (p *poolSession) fail(x *Exec, r poolReady) {
	for _, op := range p.Waiting {
		x.Do(Tell{To: op, Name: "ready", Data: mustJSON(r)})
	}
	for _, op := range p.ToolWait {
		x.Do(Tell{To: op, Name: "tools"})
	}
	p.levelOver(x)
	p.end(x)
}

// end drops the session's records.
func (p *poolSession) end(x *Exec) {
	if p.Phase != "" {
		x.Do(counted(countUpstreams, p.Limit, -1)...)
	}
	p.left(x, "")
	p.unpend(x)
	x.Do(Del{Key: toolsKey(x.ID)}, Del{Key: rootsKey(x.ID)}, Del{Key: "seq/up/" + string(x.ID)}, Done{})
}

// left says that the session with the server is over, if there was one.
func (p *poolSession) left(x *Exec, fail string) {
	if p.Phase == "ready" {
		x.leave(ServerSession{Version: p.Version, Began: p.Began, Fail: fail}, p.As, p.Session)
	}
}

// ready answers those who waited.
func (p *poolSession) ready(x *Exec) {
	if p.Phase != "opening" {
		return
	}
	p.Phase = "ready"
	x.Do(Unwake{Name: "opening"})
	for _, op := range p.Waiting {
		p.tellReady(x, op)
	}
	p.Waiting = nil
	p.resubscribe(x)
	if len(p.ToolWait) > 0 {
		p.listTools(x)
	}
}

func (p *poolSession) view() poolReady { return p.View }

// look reads what calls need out of the initialize result, once.
func (p *poolSession) look() poolReady {
	init := translate.ParseResult(p.Init)
	caps := init.Get("capabilities")
	return poolReady{
		Session: p.Session, Version: p.Version, ServerInfo: json.RawMessage(init.Get("serverInfo").Raw()),
		Tasks: translate.LegacyTakesTasks(caps), Cancel: caps.Get("tasks").Get("cancel").Exists(), Logging: caps.Get("logging").Exists(),
	}
}

func (p *poolSession) tellReady(x *Exec, op OpID) {
	x.Do(Tell{To: op, Name: "ready", Data: mustJSON(p.view())})
}

func (p *poolSession) serverEnd(x *Exec, ev Event) {
	switch ev.Label {
	case "init":
		if p.Init == nil {
			out := failedOut(translate.Modern, jsonrpc.ID{}, ev)
			p.fail(x, poolReady{Out: &out})
		}
	case "inited":
		if ev.Fail != FailNone || !statusOK(ev) {
			out := failedOut(translate.Modern, jsonrpc.ID{}, ev)
			p.fail(x, poolReady{Out: &out})
			return
		}
		p.openGet(x)
	case "get":
		p.getEnded(x, ev)
	case "tools":
		p.toolsFailed(x)
	case "level":
		p.levelSet(x)
	default:
		if uri := p.confirms(ev.Label); uri != "" {
			p.confirmed(x, uri, false)
		}
	}
}

// openGet opens the stream on which a server may ask outside of any request.
func (p *poolSession) openGet(x *Exec) {
	if p.Session == "" || p.NoGet {
		p.ready(x)
		return
	}
	p.open(x, "get", Outgoing{Verb: http.MethodGet})
	// Some servers send nothing, not even headers, before there is a message.
	x.Do(Wake{Name: "begin", At: x.Now.Add(getPatience)})
}

// getPatience: how long the first calls wait for a GET stream to open.
const getPatience = time.Second

// getEnded: a server without GET streams says so once; a stream that broke
// is opened again with back-off.
func (p *poolSession) getEnded(x *Exec, ev Event) {
	status := 0
	if ev.Frame.HTTP != nil {
		status = ev.Frame.HTTP.Status
	}
	switch {
	case status == 404 && p.Phase == "ready":
		p.lost(x)
		return
	case status/100 == 4:
		p.NoGet = true
	default:
		p.GetTries++
		x.Do(Wake{Name: "get", At: x.Now.Add(backoff(x.Policy.RetryAfter, p.GetTries))})
	}
	p.ready(x)
}

// lost: the server forgot the session. The next call opens a new one; task
// ids stay the same.
func (p *poolSession) lost(x *Exec) {
	p.left(x, failForgotten)
	x.Do(Shut{Label: "get"}) // settled by the runner, which needs its name still
	p.Init = nil
	p.initialize(x)
}

func (p *poolSession) timer(x *Exec, name string) {
	switch name {
	case "pend":
		p.pendOver(x)
	case "get":
		if p.Phase == "ready" && !p.up("get") && !p.NoGet {
			p.open(x, "get", Outgoing{Verb: http.MethodGet})
		}
	case "begin":
		p.ready(x)
	case "tools":
		if p.up(name) {
			x.Do(Shut{Label: name})
			p.toolsFailed(x)
		}
	case "level":
		if p.up(name) {
			x.Do(Shut{Label: name})
			p.View.Level = p.LevelSent // it is not asked twice
			p.levelOver(x)
		}
	case "opening":
		if p.Phase == "opening" {
			out := refusal(translate.Modern, jsonrpc.ID{}, translate.CondUpstreamTimeout, "the upstream server did not open a session in time", nil)
			p.fail(x, poolReady{Out: &out})
		}
	case "idle":
		due := p.Used.Add(x.Policy.SessionIdle)
		if p.Phase != "ready" || p.Leases > 0 || len(p.Listens) > 0 || len(p.ToolWait) > 0 || x.r.has(flyPrefix(x.ID)) {
			due = x.Now.Add(x.Policy.SessionIdle)
		}
		if due.After(x.Now) {
			x.Do(Wake{Name: "idle", At: due})
			return
		}
		p.close(x)
	}
}

func (p *poolSession) close(x *Exec) {
	if p.Session != "" {
		x.Do(Tell{To: OpID("pass:end-" + string(x.ID)), Name: "delete", Data: mustJSON(passDelete{p.Session, p.Version, p.As})})
	}
	p.end(x)
}
