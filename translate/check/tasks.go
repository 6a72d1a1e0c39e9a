package check

import (
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

func (c *Checker) taskKey(ev *event, id string) taskKey {
	return taskKey{ev.r.Leg, owner(ev), hash(id)}
}

// taskRequest: what a client may do about tasks, and what it asks of which.
func (c *Checker) taskRequest(ev *event) {
	m, req := ev.m, ev.req
	params := m.Params()
	if m.Method == "tools/call" && !ev.modern {
		req.asTask = params.Get("task").Exists()
		c.taskCall(ev)
	}
	if id, ok := params.Get("taskId").Str(); ok && translate.TaskMethod(m.Method) {
		req.taskID = hash(id)
		req.task, _ = c.tasks.Get(c.taskKey(ev, id))
		req.gone = req.task != nil && req.task.terminal > 0
		c.relatedRequest(ev)
		if m.Method == "tasks/update" && ev.modern {
			c.answered(ev)
		}
	}
	if !ev.modern || req.caps&capTasks != 0 || req.row == nil {
		return
	}
	if translate.TaskMethod(m.Method) || req.listen != nil && req.listen.tasks {
		c.find(ev, "capability/tasks-undeclared", "%s without the extension declared", m.Method)
	}
}

// taskCall: where a client may ask for a task, and must (2025-11-25 tasks,
// Tool-Level Negotiation).
func (c *Checker) taskCall(ev *event) {
	l, req := ev.lane, ev.req
	if !l.answered || !l.serverCaps.Exists() || ev.rev != r20251125 || ev.guessed {
		return
	}
	takes := translate.LegacyTakesTasks(l.serverCaps)
	t := c.toolOf(ev, req.name)
	switch {
	case req.asTask && !takes:
		c.find(ev, "capability/task-call", "the server did not declare tasks.requests.tools.call")
	case req.asTask && t != nil && t.support != "optional" && t.support != "required":
		c.find(ev, "capability/task-call", "tool %q takes no task", req.name)
	case !req.asTask && takes && t != nil && t.support == "required":
		c.find(ev, "capability/task-call", "tool %q must be called as a task", req.name)
	}
}

// answered: inputResponses names keys that were asked.
func (c *Checker) answered(ev *event) {
	t := ev.req.task
	if t == nil || t.keys == nil || len(t.keys) >= maxKeys {
		return
	}
	for key := range ev.m.Params().Get("inputResponses").Members() {
		if _, asked := t.keys[hash(key)]; !asked {
			c.find(ev, "task/unknown-key", "%q was not asked", clip(key))
		}
	}
}

// taskResponse: what the answer says of a task.
func (c *Checker) taskResponse(ev *event) {
	req := ev.req
	if ev.by != byServer {
		return // tasks that clients hold: members are checked, no more
	}
	failed := ev.m.Kind == jsonrpc.ErrorResponse
	switch req.method {
	case "tools/call":
		if !failed {
			c.created(ev)
		}
	case "tasks/get", "tasks/cancel", "tasks/update", "tasks/result":
		if req.modern && req.caps&capTasks == 0 {
			c.servedUndeclared(ev, failed)
			return
		}
		if failed {
			c.taskError(ev)
			return
		}
		c.taskShown(ev)
	case "tasks/list":
		for t := range ev.m.Result().Get("tasks").Elems() {
			if id, ok := t.Get("taskId").Str(); ok {
				c.observe(ev, id, t, req.line)
			}
		}
	}
}

func (c *Checker) servedUndeclared(ev *event, failed bool) {
	code, _ := ev.m.Error().Get("code").Int()
	if !failed || code != codeMissingCapability && code != codeMethodNotFound && code != -32003 {
		c.find(ev, "capability/tasks-served", "%s was served without the extension", ev.req.method)
	}
}

// created: a call that became a task, or did not.
func (c *Checker) created(ev *event) {
	r, req := ev.m.Result(), ev.req
	v := r.Get("task")
	if ev.modern {
		if v = r; !r.Get("resultType").Is("task") {
			return
		}
		if req.caps&capTasks == 0 {
			c.find(ev, "task/unasked", "a task for a caller that did not declare the extension")
		}
	} else {
		switch {
		case v.Exists() && !req.asTask:
			c.find(ev, "task/unasked", "a task for a call that asked for none")
		case !v.Exists() && req.asTask && ev.lane.answered && translate.LegacyTakesTasks(ev.lane.serverCaps):
			if t := c.toolOf(ev, req.name); t == nil || t.support == "optional" || t.support == "required" {
				c.find(ev, "task/not-created", "a plain result for a call made as a task")
			}
		}
	}
	id, ok := v.Get("taskId").Str()
	if !ok {
		return
	}
	key := c.taskKey(ev, id)
	if before, exists := c.tasks.Get(key); exists && before.seen {
		c.findSee(ev, before.line, "task/id-reused", "task %q was given before", clip(id))
	}
	t := &task{line: ev.r.Line, modern: ev.modern, seen: true, req: req, ttl: -1}
	c.tasks.Add(key, t)
	req.task, req.taskID = t, hash(id)
	status, _ := v.Get("status").Str()
	if !ev.modern && status != "" && status != translate.Working {
		c.find(ev, "task/created-status", "the task begins as %s", clip(status))
	}
	c.observe(ev, id, v, req.line)
}

// taskShown: the results of the task methods.
func (c *Checker) taskShown(ev *event) {
	r, req := ev.m.Result(), ev.req
	id, _ := r.Get("taskId").Str()
	switch {
	case req.method == "tasks/result":
		c.payload(ev)
		return
	case req.modern && req.method != "tasks/get":
		return // acknowledged
	case id != "" && hash(id) != req.taskID:
		c.find(ev, "task/other-id", "the answer is about %q", clip(id))
		return
	}
	if req.method == "tasks/cancel" {
		switch status, _ := r.Get("status").Str(); {
		case req.gone:
			c.findSee(ev, req.task.terminal, "task/cancel-terminal", "the task had ended as %s", req.task.status)
		case status != translate.Cancelled && status != "":
			c.find(ev, "task/cancel-status", "the task is shown as %s", clip(status))
		}
	}
	if id == "" {
		return
	}
	if t := c.observe(ev, id, r, req.line); t != nil {
		t.polled = true
	}
}

// taskError: the errors of the task methods.
func (c *Checker) taskError(ev *event) {
	req := ev.req
	code, _ := ev.m.Error().Get("code").Int()
	t := req.task
	if req.method == "tasks/result" && t != nil && t.seen {
		return // may be the error of the task itself
	}
	switch {
	case t == nil && code == codeInvalidParams && req.row != nil:
		c.find(ev, "task/unknown", "no task with this id was given before")
	case t == nil && req.row != nil && code != codeMethodNotFound && code != -32603 && code != codeMissingCapability:
		c.find(ev, "task/unknown-code", "code %d for a task that was not given before", code)
	case t == nil || !t.seen || code != codeInvalidParams || req.method != "tasks/get":
	case !t.polled && t.modern && ev.r.Time.Sub(t.createdAt) < time.Minute && !t.over(ev.r.Time):
		c.findSee(ev, t.line, "task/not-durable", "the task just given is unknown")
	case !t.over(ev.r.Time) && t.status != translate.Cancelled:
		c.findSee(ev, t.line, "task/gone-early", "the task is unknown before its ttl has passed")
	}
}

// over: its ttl has passed.
func (t *task) over(now time.Time) bool {
	return t.ttl >= 0 && (t.createdAt.IsZero() || now.Sub(t.createdAt) >= t.ttl)
}

// payload: what tasks/result gave (2025-11-25 tasks, Result Retrieval).
func (c *Checker) payload(ev *event) {
	t := ev.req.task
	if t == nil || len(ev.r.Redacted) > 0 {
		return
	}
	sum := hashBytes(ev.m.Result().Raw())
	if t.resultLine > 0 && t.result != sum {
		c.findSee(ev, t.resultLine, "task/result-changed", "")
	}
	if t.resultLine == 0 {
		t.result, t.resultLine = sum, ev.r.Line
	}
}

// taskNotice: a status that was not asked for.
func (c *Checker) taskNotice(ev *event) {
	params := ev.m.Params()
	if !ev.modern {
		if _, has := relatedOf(params); has {
			c.find(ev, "related/unwanted", "%s has related-task", ev.m.Method)
		}
	}
	if id, ok := params.Get("taskId").Str(); ok && ev.by == byServer {
		c.observe(ev, id, params, 0)
	}
}

// observe takes a task's state in. asked is the line of the request it answers,
// 0 for a notification. What was asked before the task was seen to end may still
// tell of the time before; so may a notification on another stream.
func (c *Checker) observe(ev *event, id string, v jsonrpc.Value, asked int) *task {
	key := c.taskKey(ev, id)
	t, ok := c.tasks.Get(key)
	if !ok {
		t = &task{line: ev.r.Line, modern: ev.modern, ttl: -1}
		c.tasks.Add(key, t)
	}
	status, _ := v.Get("status").Str()
	later := asked > 0 && asked > t.terminal || asked == 0 && (ev.lane.conn || t.stream == hash(ev.r.Stream))
	switch {
	case t.terminal > 0 && status != "" && status != t.status:
		if later {
			id := "task/terminal-changed"
			if asked == 0 && t.stream != hash(ev.r.Stream) && toldLate(t, v) {
				id = "task/told-late"
			}
			c.findSee(ev, t.terminal, id, "the task had ended as %s and is now %s", t.status, clip(status))
		}
	case t.resultLine > 0 && asked > t.resultLine && status != "" && !translate.Terminal(status):
		c.findSee(ev, t.resultLine, "task/result-early", "tasks/result was answered, and the task is %s", clip(status))
	default:
		t.status = clip(status)
		if t.terminal == 0 && translate.Terminal(status) {
			t.terminal, t.stream, t.ended = ev.r.Line, hash(ev.r.Stream), updatedAt(v)
		}
	}
	c.times(ev, t, v)
	c.inTask(ev, t, v, status)
	return t
}

// toldLate says whether by its own time a state is none that came after the
// task's end. A proxy that puts several HTTP streams on one connection cannot know
// their order (2025-11-25 basic/transports, sending messages to the server).
func toldLate(t *task, v jsonrpc.Value) bool {
	at := updatedAt(v)
	return !at.IsZero() && !at.After(t.ended)
}

// updatedAt is zero where it is no time.
func updatedAt(v jsonrpc.Value) time.Time {
	text, _ := v.Get("lastUpdatedAt").Str()
	at, err := isoTime(text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// times: createdAt, lastUpdatedAt and ttl.
func (c *Checker) times(ev *event, t *task, v jsonrpc.Value) {
	name := "ttl"
	if ev.modern {
		name = "ttlMs"
	}
	switch ttl := v.Get(name); ttl.Type() {
	case jsonrpc.Null:
		t.ttl = -1
	case jsonrpc.Number:
		if ms, ok := ttl.Float(); ok && ms >= 0 && ms < 1e12 {
			t.ttl = time.Duration(ms) * time.Millisecond
		}
	}
	if len(ev.r.Redacted) > 0 {
		return
	}
	for _, key := range []string{"createdAt", "lastUpdatedAt"} {
		text, ok := v.Get(key).Str()
		if !ok {
			continue
		}
		at, err := isoTime(text)
		if err != nil {
			c.find(ev, "task/timestamp", "%s is %q", key, clip(text))
			continue
		}
		if key != "createdAt" {
			continue
		}
		if sum := uint64(at.UnixNano()); t.created != 0 && t.created != sum {
			c.find(ev, "task/created-changed", "createdAt is %q, and was another time", clip(text))
		} else {
			t.created, t.createdAt = sum, at
		}
	}
}

// isoTime reads an ISO 8601 timestamp in the profile of RFC 3339 section 5.6,
// and the basic offset without a colon that ISO 8601 has too.
func isoTime(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		if basic, err2 := time.Parse("2006-01-02T15:04:05.999999999Z0700", text); err2 == nil {
			return basic, nil
		}
	}
	return at, err
}

// inTask: what stands in a modern task beside its members, by status, and what
// must not stand in a legacy one.
func (c *Checker) inTask(ev *event, t *task, v jsonrpc.Value, status string) {
	if !ev.modern {
		for _, key := range []string{"ttlMs", "pollIntervalMs", "inputRequests"} {
			if v.Get(key).Exists() {
				c.find(ev, "message/other-dialect", "a task has %s, which is of the tasks extension", key)
			}
		}
		return
	}
	for _, key := range []string{"ttl", "pollInterval"} {
		if v.Get(key).Exists() {
			c.find(ev, "message/other-dialect", "a task has %s, which is of 2025-11-25", key)
		}
	}
	if ev.req != nil && ev.req.method == "tools/call" {
		return // given without its details
	}
	for _, row := range []struct{ key, status string }{{"inputRequests", translate.InputRequired}, {"result", translate.Completed}, {"error", translate.Failed}} {
		if v.Get(row.key).Exists() && status != row.status {
			c.find(ev, "task/payload", "%s stands in a task that is %s", row.key, clip(status))
		}
	}
	has := caps(0)
	if ev.req != nil {
		has = ev.req.caps
	}
	for key, entry := range v.Get("inputRequests").Members() {
		sum := hashBytes(entry.Raw())
		if t.keys == nil {
			t.keys = map[uint64]uint64{}
		}
		if before, ok := t.keys[hash(key)]; ok && before != sum && len(ev.r.Redacted) == 0 {
			c.find(ev, "task/key-reused", "key %q meant another request before", clip(key))
		} else if len(t.keys) < maxKeys {
			t.keys[hash(key)] = sum
		}
	}
	if ev.req != nil && t.req != nil {
		c.mayAsk(ev, v.Get("inputRequests"), has|t.req.caps)
	}
}
