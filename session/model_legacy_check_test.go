package session_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// sees checks a Task that a client is shown as it stands since then or later.
func (l *legacyModel) sees(who string, v any, where string, since time.Time) {
	id, status := text(dig(v, "taskId")), text(dig(v, "status"))
	l.mu.Lock()
	defer l.mu.Unlock()
	bad := func(format string, args ...any) {
		l.wrongLocked(l.at() + fmt.Sprintf("task %.12s in %s ", id, where) + fmt.Sprintf(format, args...))
	}
	h := l.handles[id]
	if h == nil && where != "tasks/get" && where != "tasks/cancel" { // its call's stream was dropped, or its answer is not read yet
		h = &legacyHandle{id: id, who: who}
		l.handles[id] = h
	}
	if h == nil || h.who != who {
		bad("is not %s's", who)
		return
	}
	o := v.(map[string]any)
	if _, ok := o["ttl"]; !ok {
		bad("has no ttl")
	}
	for _, k := range []string{"ttlMs", "pollIntervalMs", "result", "error", "inputRequests", "resultType", "_meta"} {
		if _, ok := o[k]; ok {
			bad("has %s", k)
		}
	}
	if text(o["createdAt"]) == "" || text(o["lastUpdatedAt"]) == "" {
		bad("has no times: %v", v)
	}
	switch {
	case translate.Terminal(status):
		if h.end == "" {
			h.end, h.endAt = status, time.Now()
		}
		if h.end != status {
			bad("is %s after %s", status, h.end)
		}
		if status == translate.Failed && text(o["statusMessage"]) == "" {
			bad("failed without a statusMessage")
		}
	case status == translate.Working || status == translate.InputRequired:
		if h.end != "" && h.endAt.Before(since) {
			bad("is %s after %s", status, h.end)
		}
	default:
		bad("has the status %q", status)
	}
	if !h.cancelled.IsZero() && h.cancelled.Before(since) && status != translate.Cancelled {
		bad("is %s after it was cancelled", status)
	}
}

// done: a stream has ended.
func (l *legacyModel) done(q *legacyReq) {
	l.mu.Lock()
	got, cancelled := q.got, q.cancelled
	l.mu.Unlock()
	if !cancelled.IsZero() && got != nil && cancelled.Before(time.Now()) && q.method != "tasks/list" {
		l.wrong("%s %d is answered after the client cancelled it: %s", q.method, q.id, got.Raw)
	}
	if got == nil {
		if cancelled.IsZero() && q.method != "GET" && q.method != "DELETE" {
			l.wrong("%s %d ends without an answer", q.method, q.id)
		}
		return
	}
	v := plain(got.Raw)
	code, _ := dig(v, "error", "code").(float64)
	switch q.method {
	case "initialize":
		q.c.id = q.header.Get("Mcp-Session-Id")
	case "foreign":
		if code != -32602 || text(dig(v, "error", "message")) != "Failed to retrieve task: Task not found" {
			l.wrong("a foreign task is answered %s", got.Raw)
		}
	case "tools/call":
		l.called(q, v)
	case "tasks/get":
		if dig(v, "result") != nil {
			l.sees(q.c.who, v["result"], "tasks/get", time.Now())
		} else {
			l.excused(q, v)
		}
	case "tasks/cancel":
		l.cancelledNow(q, v)
	case "tasks/result":
		l.resulted(q, v)
	case "tasks/list":
		list, _ := dig(v, "result", "tasks").([]any)
		for _, task := range list {
			l.sees(q.c.who, task, "tasks/list", q.at) // the page is as of some moment since
		}
		if cursor := text(dig(v, "result", "nextCursor")); cursor != "" && !l.isCalm() {
			l.wg.Go(func() {
				if l.sleep(50*time.Millisecond, nil) && !q.c.deleted {
					next := &legacyReq{simReq: &simReq{id: l.nextID(q.c), method: "tasks/list"}, c: q.c, cursor: cursor}
					l.put(next, http.MethodPost, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tasks/list","params":{"cursor":%q}}`, next.id, cursor))
				}
			})
		}
	}
}

// called: a tools/call was answered.
func (l *legacyModel) called(q *legacyReq, v map[string]any) {
	p := q.plan
	if task := dig(v, "result", "task"); task != nil {
		if !q.task {
			l.wrong("call %d asked for no task and got %v", p.n, task)
		}
		id := text(dig(task, "taskId"))
		l.mu.Lock()
		if h := l.handles[id]; h != nil && (h.plan != nil && h.plan != p || h.who != p.who) {
			l.wrongLocked("two calls have the handle " + id)
		} else if h == nil {
			l.handles[id] = &legacyHandle{id: id, who: p.who}
		}
		l.handles[id].plan = p
		l.order = append(l.order, id)
		l.mu.Unlock()
		if text(dig(task, "status")) != translate.Working {
			l.wrong("call %d: the task is born %v", p.n, dig(task, "status"))
		}
		l.sees(q.c.who, task, "tools/call", time.Now())
		// At once, as clients do: the handle must resolve.
		if in(l.draw("at once"), 2) && !q.c.deleted {
			get := &legacyReq{simReq: &simReq{id: l.nextID(q.c), method: "tasks/get"}, c: q.c, handle: id}
			l.put(get, http.MethodPost, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tasks/get","params":{"taskId":%q}}`, get.id, id))
		}
		return
	}
	if q.task && v["result"] != nil {
		l.wrong("call %d asked for a task and got %v", p.n, v["result"])
		return
	}
	l.outcome(p, nil, v, fmt.Sprintf("call %d", p.n))
}

// outcome checks the payload of a call or a tasks/result against what the
// server gave. Errors of the proxy's own need an excuse.
func (l *legacyModel) outcome(p *simPlan, h *legacyHandle, v map[string]any, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	bad := func(format string, args ...any) {
		l.wrongLocked(l.at() + what + " " + fmt.Sprintf(format, args...))
	}
	if result := dig(v, "result"); result != nil {
		if dig(result, "resultType") != nil {
			bad("has a resultType")
		}
		list, _ := dig(result, "content").([]any)
		if len(list) != 1 || text(dig(list[0], "text")) != fmt.Sprintf("done %d", p.n) || p.end == "error" || p.task != nil && (p.end == "cancelled" || p.end == "never") {
			bad("has the result %v", result)
		}
		if isError, _ := dig(result, "isError").(bool); isError != (p.end == "isError") {
			bad("has isError %v", isError)
		}
		related := text(dig(result, "_meta", translate.MetaRelatedTask, "taskId"))
		if h != nil && related != h.id || h == nil && related != "" {
			bad("is related to %q", related)
		}
		if p.ended.IsZero() {
			bad("has a result before the server had")
		}
		return
	}
	code, message := 0, text(dig(v, "error", "message"))
	if c, ok := dig(v, "error", "code").(float64); ok {
		code = int(c)
	}
	own := code == -31000-p.n && message == fmt.Sprintf("failed %d", p.n)
	switch {
	case own && (p.end == "error" || p.kind == "error") && dig(v, "error", "data", "n") != nil:
	case p.refusedBy != "" && message == p.refusedBy:
	case message == "Failed to retrieve task: Task not found":
		if p.task == nil || !p.task.gone {
			bad("is not found")
		}
	case strings.Contains(message, "does not support"):
		if p.able {
			bad("is refused for lack of what the client declared: %s", message)
		}
	case strings.Contains(message, "was cancelled"):
		if (h == nil || !h.canceling) && (p.task == nil || p.task.status != translate.Cancelled) {
			bad("is called cancelled by nobody: %s", message)
		}
	case code == -32603 && slices.Contains([]string{"unreachable", "broken", "500", "lost"}, p.kind):
	case code == -32603 && l.troubles > 0 && h != nil && h.end != "":
		// The payload has left the cache and could not be fetched just now.
	case strings.Contains(message, "session"): // it was deleted while its call ran
	default:
		bad("ends with %v", v["error"])
	}
}

// excused: a task could not be shown.
func (l *legacyModel) excused(q *legacyReq, v map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.handles[q.handle]
	code, _ := dig(v, "error", "code").(float64)
	switch {
	case code == -32602 && h.plan.task != nil && h.plan.task.gone:
	case code == -32603 && l.troubles > 0:
	default:
		l.wrongLocked(l.at() + fmt.Sprintf("%s %d is answered %v", q.method, q.id, v["error"]))
	}
}

func (l *legacyModel) cancelledNow(q *legacyReq, v map[string]any) {
	if result := dig(v, "result"); result != nil {
		l.sees(q.c.who, result, "tasks/cancel", time.Now())
		l.mu.Lock()
		h := l.handles[q.handle]
		h.cancelled = time.Now()
		if text(dig(result, "status")) != translate.Cancelled {
			l.wrongLocked("tasks/cancel shows " + text(dig(result, "status")))
		}
		l.mu.Unlock()
		return
	}
	l.mu.Lock()
	h := l.handles[q.handle]
	message := text(dig(v, "error", "message"))
	refused := strings.Contains(message, "already in terminal status")
	if refused && !strings.Contains(message, "'cancelled'") && h.plan.ended.IsZero() && h.end == "" && h.plan.refusedBy == "" && h.plan.able &&
		!slices.Contains([]string{"unreachable", "broken", "500", "lost", "error"}, h.plan.kind) && h.cancelled.IsZero() {
		l.wrongLocked(l.at() + "tasks/cancel of a task that still works is refused")
	}
	l.mu.Unlock()
	if !refused {
		l.excused(q, v)
	}
}

func (l *legacyModel) resulted(q *legacyReq, v map[string]any) {
	l.mu.Lock()
	h := l.handles[q.handle]
	key := v["result"]
	if key == nil {
		key = v["error"]
	}
	raw, _ := json.Marshal(key)
	code, _ := dig(v, "error", "code").(float64)
	message := text(dig(v, "error", "message"))
	passing := code == -32602 || code == -32603 && l.troubles > 0 && !strings.Contains(message, "cancelled") && h.plan.refusedBy == ""
	if h.payload != "" && h.payload != string(raw) && !passing {
		l.wrongLocked(l.at() + fmt.Sprintf("tasks/result gives %s after %s", raw, h.payload))
	}
	if !passing {
		h.payload = string(raw)
	}
	if !h.cancelled.IsZero() && h.cancelled.Before(time.Now()) && !strings.Contains(message, "was cancelled") && code != -32602 {
		l.wrongLocked(l.at() + "tasks/result of a cancelled task gives " + string(raw))
	}
	if h.end == translate.Completed && v["result"] == nil && !passing {
		l.wrongLocked(l.at() + "tasks/result of a completed task gives " + string(raw))
	}
	l.mu.Unlock()
	l.outcome(h.plan, h, v, fmt.Sprintf("tasks/result %d (call %d)", q.id, h.plan.n))
}

// settle: the server behaves from here on, clients answer at once and fetch
// every task to its end.
func (l *legacyModel) settle() {
	settled()
	l.note("from here on all is calm")
	l.mu.Lock()
	l.calm = true
	before := slices.Clone(l.requests)
	l.mu.Unlock()
	time.Sleep(time.Minute)
	settled()
	for _, q := range before { // what is not answered by now waits for its client
		l.drop(q.simReq)
	}
	settled()
	able := map[string]*legacyClient{}
	for _, who := range []string{"A", "B"} {
		able[who] = l.join(who, true)
		l.openGet(able[who])
	}
	settled()
	l.mu.Lock()
	order := slices.Clone(l.order)
	l.mu.Unlock()
	for _, id := range order {
		h := l.handles[id]
		l.about(able[h.who], "tasks/result", h)
		if h.plan.end == "never" {
			l.about(able[h.who], "tasks/cancel", h)
		}
	}
	time.Sleep(5 * time.Minute)
	settled()
	l.mu.Lock()
	for _, q := range l.requests {
		if q.simReq.live() && q.cancelled.IsZero() && q.method != "GET" && !l.stuck(q) {
			l.wrongLocked(l.at() + fmt.Sprintf("%s %d of session %.4s is never answered (%s)", q.method, q.id, q.c.id, l.describe(q)))
		}
	}
	for _, u := range l.asked {
		for _, a := range u.asks {
			if a.live() && !u.over.IsZero() && u.plan.dropped.IsZero() {
				l.wrongLocked(l.at() + u.id + " is over but was never withdrawn")
			}
		}
	}
	l.mu.Unlock()
	// All of it once more, from a list.
	listed := map[string]bool{}
	for _, who := range []string{"A", "B"} {
		cursor := ""
		for range 100 {
			q := l.list(able[who], cursor)
			settled()
			time.Sleep(11 * time.Second)
			settled()
			if q.got == nil {
				break
			}
			v := plain(q.got.Raw)
			tasks, _ := dig(v, "result", "tasks").([]any)
			for _, task := range tasks {
				id := text(dig(task, "taskId"))
				if listed[id] {
					l.wrong("tasks/list shows %.12s twice", id)
				}
				listed[id] = true
			}
			if cursor = text(dig(v, "result", "nextCursor")); cursor == "" {
				break
			}
		}
	}
	for _, id := range order {
		h := l.handles[id]
		get := l.about(able[h.who], "tasks/get", h)
		l.about(able[h.who], "tasks/result", h)
		settled()
		time.Sleep(time.Second)
		settled()
		if there := get.got != nil && get.got.Kind == jsonrpc.Response; there != listed[id] {
			l.wrong("task of call %d: tasks/get finds it: %v, tasks/list: %v", h.plan.n, there, listed[id])
		}
		l.mu.Lock()
		rejected := l.rejected(h.plan)
		l.mu.Unlock()
		if h.end == "" && !rejected && get.got != nil && get.got.Kind == jsonrpc.Response {
			l.wrong("task of call %d never ends: %s", h.plan.n, get.got.Raw)
		}
	}
	l.mu.Lock()
	reqs := slices.Clone(l.requests)
	l.mu.Unlock()
	for _, q := range reqs {
		l.drop(q.simReq)
	}
	settled()
}

// stuck: what may wait for ever, since its client has left it so. It needs
// l.mu.
func (l *legacyModel) stuck(q *legacyReq) bool {
	if h := l.handles[q.handle]; h != nil {
		return l.rejected(h.plan)
	}
	if q.plan == nil {
		return false
	}
	for _, u := range l.asked {
		if u.plan == q.plan && u.accepted.IsZero() && strings.HasPrefix(u.id, "C") && len(u.asks) > 0 {
			return true // a plain call whose client does not answer
		}
		if u.plan == q.plan && u.accepted.IsZero() && len(u.asks) > 0 && !q.task {
			return true
		}
	}
	return q.plan.end == "never" && !q.task
}

// rejected: the server answered two answers to one question with errors, so
// that it is not asked again. It needs l.mu.
func (l *legacyModel) rejected(p *simPlan) bool {
	for _, u := range l.asked {
		if u.plan == p && u.rejected > 1 {
			return true
		}
	}
	return false
}

func (l *legacyModel) describe(q *legacyReq) string {
	if h := l.handles[q.handle]; h != nil {
		return fmt.Sprintf("task of call %d, %+v", h.plan.n, *h)
	}
	if q.plan != nil {
		return fmt.Sprintf("call %d", q.plan.n)
	}
	return ""
}
