package check

import (
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// owner is whose lists and tasks an event is about: a connection's own, or a
// caller's where sessions come and go.
func owner(ev *event) uint64 {
	if ev.lane != nil && ev.lane.conn {
		return ev.lane.n
	}
	return hash(ev.r.Principal)
}

// legacyResult: what a legacy server gives beside its definition.
func (c *Checker) legacyResult(ev *event) {
	r := ev.m.Result()
	if ev.req.method == "initialize" {
		c.initializeResult(ev)
	}
	for _, key := range []string{"resultType", "inputRequests", "requestState"} {
		if r.Get(key).Exists() {
			c.find(ev, "message/other-dialect", "result.%s is of 2026-07-28", key)
		}
	}
	if r.Get("_meta").Get(translate.MetaServerInfo).Exists() {
		c.find(ev, "message/other-dialect", "result._meta has %s, which is of 2026-07-28", translate.MetaServerInfo)
	}
	c.toolRules(ev)
	if !r.Get("task").Exists() && !ev.guessed && ev.rev >= r20250618 {
		c.structured(ev, r)
	}
}

// toolRules keeps what a list says of its tools.
func (c *Checker) toolRules(ev *event) {
	if ev.req.method != "tools/list" {
		return
	}
	// The whole list, since marks stand anywhere in a schema.
	for t := range ev.m.Result().Get("tools").Elems() {
		name, _ := t.Get("name").Str()
		known := &tool{output: t.Get("outputSchema").Exists(), support: translate.TaskSupport(t)}
		if ev.modern {
			marks, why := translate.ToolMarks(t)
			if why != "" {
				c.find(ev, "tool/header-marks", "tool %q: %s", clip(name), why)
			}
			known.marks = marks
			if t.Get("execution").Get("taskSupport").Exists() {
				c.find(ev, "message/other-dialect", "tool %q: execution.taskSupport is of 2025-11-25", clip(name))
			}
		}
		c.tools.Add(toolKey{ev.r.Leg, owner(ev), hash(clip(name))}, known)
	}
}

func (c *Checker) toolOf(ev *event, name string) *tool {
	t, _ := c.tools.Get(toolKey{ev.r.Leg, owner(ev), hash(name)})
	return t
}

// structured: a tool that has an outputSchema gives structuredContent (server/tools,
// Output Schema).
func (c *Checker) structured(ev *event, r jsonrpc.Value) {
	if ev.req.method != "tools/call" || r.Get("structuredContent").Exists() {
		return
	}
	if isError, _ := r.Get("isError").Bool(); isError {
		return
	}
	if t := c.toolOf(ev, ev.req.name); t != nil && t.output {
		c.find(ev, "result/structured-missing", "tool %q has an outputSchema", ev.req.name)
	}
}
