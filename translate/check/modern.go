package check

import (
	"slices"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// logLevels from the least severe up (2026-07-28 server/utilities/logging).
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// modernRequest: what every request carries with it.
func (c *Checker) modernRequest(ev *event) {
	meta, req := ev.m.Params().Get("_meta"), ev.req
	caps := meta.Get(translate.MetaClientCaps)
	req.lacking = !meta.Get(translate.MetaVersion).Exists() || caps.Type() != jsonrpc.Object
	if !meta.Get(translate.MetaClientInfo).Exists() && meta.Exists() {
		c.find(ev, "meta/client-info", "")
	}
	req.caps = capsOf(caps)
	if level, ok := meta.Get(translate.MetaLogLevel).Str(); ok {
		req.level = int8(slices.Index(logLevels, level))
	}
	if req.level >= 0 {
		ev.lane.logAsked++
	}
	if meta.Get(translate.MetaRelatedTask).Exists() {
		c.find(ev, "related/modern", "")
	}
	params := ev.m.Params()
	if params.Get("task").Exists() && ev.m.Method == "tools/call" {
		c.find(ev, "message/other-dialect", "params.task is of 2025-11-25")
	}
	if caps.Get("tasks").Exists() {
		c.find(ev, "message/other-dialect", "capabilities.tasks is of 2025-11-25")
	}
	if ev.m.Method == "subscriptions/listen" {
		req.listen = listenOf(params.Get("notifications"))
	}
	c.echoed(ev)
}

func capsOf(v jsonrpc.Value) caps {
	var out caps
	set := func(on bool, c caps) {
		if on {
			out |= c
		}
	}
	e := v.Get("elicitation")
	set(declared(v.Get("extensions"), translate.ExtTasks), capTasks)
	set(e.Type() == jsonrpc.Object && (e.Len() == 0 || declared(e, "form") || !declared(e, "url")), capForm)
	set(declared(e, "url"), capURL)
	set(declared(v, "sampling"), capSampling)
	set(declared(v, "sampling tools"), capSamplingTools)
	set(declared(v, "roots"), capRoots)
	return out
}

func listenOf(filter jsonrpc.Value) *listen {
	on := func(key string) bool { b, _ := filter.Get(key).Bool(); return b }
	return &listen{
		tools: on("toolsListChanged"), prompts: on("promptsListChanged"), resources: on("resourcesListChanged"),
		updates: filter.Get("resourceSubscriptions").Exists(), tasks: filter.Get("taskIds").Exists(),
	}
}

// echoed: a retry carries the state it was given (basic/patterns/mrtr, Client
// Requirements).
func (c *Checker) echoed(ev *event) {
	v := ev.m.Params().Get("requestState")
	text, ok := v.Str()
	if !ok || len(ev.r.Redacted) > 0 || ev.m.Method == "tasks/update" {
		return
	}
	s, ok := c.states.Get(stateKey{ev.r.Leg, hash(text)})
	switch {
	case !ok && c.o.Middle, !ok && c.states.forgot:
	case !ok:
		c.find(ev, "mrtr/unknown-state", "the requestState was not given before")
	case s.what != c.what(ev.req):
		c.find(ev, "mrtr/foreign-state", "the requestState was given for another request than this %s", ev.m.Method)
	case s.id == ev.req.id && s.lane == ev.lane.n:
		c.find(ev, "mrtr/same-id", "")
	}
}

func (c *Checker) what(req *request) uint64 { return hash(req.method, req.name) }

// modernResult: resultType and what goes with it.
func (c *Checker) modernResult(ev *event) {
	r, req := ev.m.Result(), ev.req
	kind, _ := r.Get("resultType").Str()
	switch kind {
	case "", "complete":
	case "input_required":
		if !translate.CanRequireInput(req.method) {
			c.find(ev, "result/type", "%s cannot be input_required", req.method)
			break
		}
		c.inputRequired(ev)
	case "task":
		if req.method != "tools/call" {
			c.find(ev, "result/type", "%s cannot become a task", req.method)
		}
	default:
		c.find(ev, "result/type", "resultType %q is none the specification has", clip(kind))
	}
	if ttl := r.Get("ttlMs"); ttl.Type() == jsonrpc.Number && kind != "task" && ev.row != nil && !translate.TaskMethod(req.method) {
		if n, ok := ttl.Float(); ok && n < 0 {
			c.find(ev, "result/ttl-negative", "ttlMs is %s", clip(string(ttl.Raw())))
		}
	}
	if !r.Get("_meta").Get(translate.MetaServerInfo).Exists() {
		c.find(ev, "meta/server-info", "")
	}
	c.toolRules(ev)
	if kind == "" || kind == "complete" {
		c.structured(ev, r)
	}
	if req.listen != nil && ev.st != nil && !req.listen.acknowledged {
		c.find(ev, "listen/acknowledged", "the subscription ended without one")
	}
}

func (c *Checker) inputRequired(ev *event) {
	r, req := ev.m.Result(), ev.req
	requests, text := r.Get("inputRequests"), r.Get("requestState")
	if !requests.Exists() && !text.Exists() {
		c.find(ev, "result/input-empty", "")
	}
	if s, ok := text.Str(); ok {
		c.states.Add(stateKey{ev.r.Leg, hash(s)}, &state{c.what(req), req.id, ev.lane.n})
	}
	c.mayAsk(ev, requests, req.caps)
}

// mayAsk: inputRequests hold what the client declared.
func (c *Checker) mayAsk(ev *event, requests jsonrpc.Value, has caps) {
	for key, entry := range requests.Members() {
		method, _ := entry.Get("method").Str()
		params := entry.Get("params")
		need, word := capRoots, "roots"
		switch method {
		case "roots/list":
		case "elicitation/create":
			need, word = capForm, "elicitation by form"
			if params.Get("mode").Is("url") {
				need, word = capURL, "elicitation by url"
			}
		case "sampling/createMessage":
			need, word = capSampling, "sampling"
			if params.Get("tools").Exists() {
				need, word = capSampling|capSamplingTools, "sampling with tools"
			}
		default:
			continue // message/member-value has been said
		}
		if has&need != need {
			c.find(ev, "capability/client", "%s (%s), and the client did not declare %s", method, clip(key), word)
		}
	}
}

// modernNotice: where notifications may go.
func (c *Checker) modernNotice(ev *event) {
	m := ev.m
	meta := m.Params().Get("_meta")
	if meta.Get(translate.MetaRelatedTask).Exists() {
		c.find(ev, "related/modern", "")
	}
	req, sub := c.subscription(ev, meta.Get(translate.MetaSubscription))
	if m.Method == "notifications/message" {
		c.logged(ev, req, sub)
	}
	if !sub || m.Method == "notifications/cancelled" {
		return
	}
	if m.Method == "notifications/message" || m.Method == "notifications/progress" {
		c.find(ev, "listen/request-scoped", "%s came on a subscription", m.Method)
		return
	}
	if req == nil {
		return
	}
	l := req.listen
	switch id := meta.Get(translate.MetaSubscription); {
	case !id.Exists():
		c.find(ev, "listen/subscription-id", "%s has no %s", m.Method, translate.MetaSubscription)
	case idHash(id) != req.id:
		c.find(ev, "listen/subscription-id", "%s has the id %s", m.Method, clip(string(id.Raw())))
	}
	if m.Method == "notifications/subscriptions/acknowledged" {
		l.acknowledged = true
		return
	}
	if !l.acknowledged {
		c.find(ev, "listen/acknowledged", "%s came before it", clip(m.Method))
		l.acknowledged = true // said once
	}
	if !l.wants(m.Method) {
		c.find(ev, "listen/not-asked", "%s was not asked for", m.Method)
	}
}

// subscription is the listen request that a notification belongs to. sub: it is
// one of a subscription, known or not.
func (c *Checker) subscription(ev *event, id jsonrpc.Value) (req *request, sub bool) {
	if ev.st != nil {
		req = ev.st.req
		return req, req != nil && req.listen != nil
	}
	if !id.Exists() {
		return nil, false
	}
	req, ok := c.requests.Get(requestKey{ev.lane.n, translate.ToServer, idHash(id)})
	if !ok || req.listen == nil {
		if !ok && c.known(ev) {
			c.find(ev, "listen/subscription-id", "no subscription has the id %s", clip(string(id.Raw())))
		}
		return nil, true
	}
	return req, true
}

func (l *listen) wants(method string) bool {
	switch method {
	case "notifications/tools/list_changed":
		return l.tools
	case "notifications/prompts/list_changed":
		return l.prompts
	case "notifications/resources/list_changed":
		return l.resources
	case "notifications/resources/updated":
		return l.updates
	case "notifications/tasks":
		return l.tasks
	}
	return true
}

// logged: a log message belongs to the request on whose stream it comes
// (server/utilities/logging, Per-request log level).
func (c *Checker) logged(ev *event, req *request, sub bool) {
	if sub {
		return // listen/request-scoped
	}
	if ev.st == nil {
		if ev.lane.logAsked <= 0 && c.known(ev) && !ev.lane.shared {
			c.find(ev, "log/not-asked", "no request in flight asked for log messages")
		}
		return
	}
	if req == nil {
		return
	}
	level, _ := ev.m.Params().Get("level").Str()
	switch at := slices.Index(logLevels, level); {
	case req.level < 0:
		c.find(ev, "log/not-asked", "the request asked for none")
	case at >= 0 && at < int(req.level):
		c.find(ev, "log/below-level", "%s is below %s", level, logLevels[req.level])
	}
}
