package check

import (
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// legacyRequest: what a client may ask when (2025-11-25 basic/lifecycle).
func (c *Checker) legacyRequest(ev *event) {
	m, l := ev.m, ev.lane
	if m.Method == "initialize" {
		c.initialize(ev)
		return
	}
	switch {
	case l.shared:
		c.sessionless(ev)
		return
	case m.Method == "ping":
		return
	case !l.began() && l.conn:
		c.find(ev, "lifecycle/no-initialize", "%s came before initialize", clip(m.Method))
	case l.began() && !l.answered:
		c.find(ev, "lifecycle/before-answer", "%s came before the answer to initialize", clip(m.Method))
	case l.began() && l.went == 0 && !l.initialized:
		l.went = ev.r.Line
		// Over HTTP the two may overtake each other; the lane's end tells.
		if l.conn {
			c.find(ev, "lifecycle/no-initialized", "%s came before notifications/initialized", clip(m.Method))
			l.initialized = true // said once
		}
	}
	c.serverMayServe(ev)
}

func (c *Checker) initialize(ev *event) {
	l := ev.lane
	if l.began() {
		c.findSee(ev, l.initLine, "lifecycle/initialize-twice", "")
	}
	l.initLine, l.gaps, l.answered = ev.r.Line, c.gaps, false
	l.clientCaps = keepCaps(ev.body.Get("capabilities"))
}

// initializeResult: what was agreed.
func (c *Checker) initializeResult(ev *event) {
	l := ev.lane
	version, _ := ev.m.Result().Get("protocolVersion").Str()
	rev, unknown := legacyRevision(version)
	if unknown {
		c.find(ev, "lifecycle/version-answer", "protocolVersion is %q", clip(version))
	} else {
		l.rev, l.version = rev, version
	}
	l.answered = true
	l.serverCaps = keepCaps(ev.body.Get("capabilities"))
	if ev.st == nil {
		return
	}
	// A session is named by the answer that begins it.
	if ev.r.Session != "" {
		l.shared = false
		c.assigns[ev.r.Leg].given++
		c.lanes.Add(hash(ev.r.Leg.String(), "\x00"+ev.r.Session), l)
		return
	}
	c.assigns[ev.r.Leg].not++
	all := c.laneOf(ev)
	all.rev, all.version = l.rev, l.version
}

// laneEnds: what has to have come by the end of a session.
func (c *Checker) laneEnds(l *lane) {
	if l.began() && l.answered && !l.initialized && l.went > 0 && !l.shared && l.gaps == c.gaps && !l.conn {
		l.initialized = true
		rule := ruleByID["lifecycle/no-initialized"]
		side := Client
		if l.leg == translate.ServerLeg && !c.o.Direct {
			side = Proxy
		}
		c.emit(Finding{
			Line: l.went, Rule: rule, Severity: rule.Severity, Leg: l.leg, Side: side, Version: l.version,
			Message: "the session went on without notifications/initialized", See: l.initLine,
		})
	}
}

// sessionless: a request without a session id, where the server gives one to
// everybody (2025-11-25 basic/transports, Session Management 2).
func (c *Checker) sessionless(ev *event) {
	a := c.assigns[ev.r.Leg]
	if ev.r.Verb == "" || ev.m != nil && ev.m.Method == "ping" || a.given == 0 || a.not > 0 || c.gaps > 0 {
		return
	}
	c.find(ev, "session/missing", "")
}

// serverMayServe: a client uses what the server declared.
func (c *Checker) serverMayServe(ev *event) {
	l := ev.lane
	if !l.answered || !l.serverCaps.Exists() || ev.row == nil || ev.row.Needs == "" {
		return
	}
	if !declared(l.serverCaps, ev.row.Needs) {
		c.find(ev, "capability/server", "%s is used, and the server did not declare %s", ev.m.Method, ev.row.Needs)
	}
}

// serverRequest: what a server may ask when.
func (c *Checker) serverRequest(ev *event) {
	if ev.modern {
		return // method/server-request has been said
	}
	m, l := ev.m, ev.lane
	if m.Method != "ping" && l.began() && !l.initialized && l.conn {
		c.find(ev, "lifecycle/server-too-early", "%s came before notifications/initialized", clip(m.Method))
	}
	c.clientMay(ev)
	c.relatedQuestion(ev)
}

// clientMay: a server asks for what the client declared (2025-11-25 client/*).
func (c *Checker) clientMay(ev *event) {
	l := ev.lane
	if !l.began() || !l.clientCaps.Exists() || ev.row == nil || ev.row.Needs == "" {
		return
	}
	if !declared(l.clientCaps, ev.row.Needs) {
		c.find(ev, "capability/client", "%s, and the client did not declare %s", ev.m.Method, ev.row.Needs)
		return
	}
	params := ev.m.Params()
	switch ev.m.Method {
	case "elicitation/create":
		e := l.clientCaps.Get("elicitation")
		if params.Get("mode").Is("url") {
			if !declared(e, "url") {
				c.find(ev, "capability/client", "elicitation by url, and the client did not declare that mode")
			}
		} else if e.Len() > 0 && !declared(e, "form") && declared(e, "url") {
			c.find(ev, "capability/client", "elicitation by form, and the client did not declare that mode")
		}
		c.clientTask(ev, params, "tasks requests elicitation create")
	case "sampling/createMessage":
		if (params.Get("tools").Exists() || params.Get("toolChoice").Exists()) && !declared(l.clientCaps, "sampling tools") {
			c.find(ev, "capability/client", "sampling with tools, and the client did not declare sampling.tools")
		}
		c.clientTask(ev, params, "tasks requests sampling createMessage")
	}
}

func (c *Checker) clientTask(ev *event, params jsonrpc.Value, needs string) {
	if params.Get("task").Exists() && ev.rev == r20251125 && !declared(ev.lane.clientCaps, needs) {
		c.find(ev, "capability/client", "%s as a task, and the client did not declare that", ev.m.Method)
	}
}

// notices a legacy server announces by a capability.
var noticeNeeds = []struct{ method, needs string }{
	{"notifications/message", "logging"},
	{"notifications/tools/list_changed", "tools listChanged"},
	{"notifications/prompts/list_changed", "prompts listChanged"},
	{"notifications/resources/list_changed", "resources listChanged"},
	{"notifications/resources/updated", "resources subscribe"},
}

// notification looks at one of either side.
func (c *Checker) notification(ev *event) {
	m, l := ev.m, ev.lane
	switch m.Method {
	case "notifications/initialized":
		l.initialized = true
	case "notifications/cancelled":
		c.cancelled(ev)
	case "notifications/progress":
		c.progress(ev)
	case "notifications/tasks/status", "notifications/tasks":
		c.taskNotice(ev)
	}
	if ev.by == byServer && !ev.modern && l.answered && l.serverCaps.Exists() {
		for _, n := range noticeNeeds {
			if n.method == m.Method && !declared(l.serverCaps, n.needs) {
				c.find(ev, "capability/undeclared-notice", "%s, and the server did not declare %s", m.Method, n.needs)
			}
		}
	}
	if ev.by == byServer && ev.modern {
		c.modernNotice(ev)
	}
}

func (c *Checker) cancelled(ev *event) {
	l := ev.lane
	id := ev.m.Params().Get("requestId")
	if !id.Exists() {
		return
	}
	req, ok := c.requests.Get(requestKey{l.n, ev.r.Dir, idHash(id)})
	if ev.modern {
		c.modernCancelled(ev, id, ok)
		return
	}
	switch {
	case l.shared, !ok && !l.conn:
		// Over HTTP each message has a connection of its own: one that was cut off
		// before its request went out may be cancelled by another all the same.
	case !ok:
		c.find(ev, "cancel/unknown", "nothing was asked with the id %s", clip(string(id.Raw())))
	case req.method == "initialize":
		c.findSee(ev, req.line, "lifecycle/initialize-cancelled", "")
	case req.asTask && req.answered == 0 && req.method == "tools/call":
		c.findSee(ev, req.line, "task/cancel-notification", "the call was made as a task")
	}
}

func (c *Checker) modernCancelled(ev *event, id jsonrpc.Value, ok bool) {
	switch {
	case ev.by == byServer:
		req, asked := c.requests.Peek(requestKey{ev.lane.n, translate.ToServer, idHash(id)})
		if ev.st != nil {
			req, asked = ev.st.req, ev.st.req != nil
		}
		if asked && req.listen == nil {
			c.findSee(ev, req.line, "cancel/server", "%s is cancelled", req.method)
		}
	case !ev.lane.conn:
		c.find(ev, "cancel/http", "")
	case !ok:
		c.find(ev, "cancel/unknown", "nothing was asked with the id %s", clip(string(id.Raw())))
	}
}
