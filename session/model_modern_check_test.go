package session_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskbridge/translate"
)

// sees checks a DetailedTask.
func (l *modernModel) sees(who string, v any, where string) {
	id, status := text(dig(v, "taskId")), text(dig(v, "status"))
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.handles[id]
	if h == nil || h.who != who {
		l.wrongLocked(l.at() + fmt.Sprintf("task %.12s in %s is not %s's", id, where, who))
		return
	}
	bad := func(format string, args ...any) {
		l.wrongLocked(l.at() + fmt.Sprintf("task of call %d in %s ", h.plan.n, where) + fmt.Sprintf(format, args...))
	}
	o := v.(map[string]any)
	if ttl, ok := o["ttlMs"]; !ok || ttl != nil {
		bad("has ttlMs %v", ttl)
	}
	for _, k := range []string{"ttl", "pollInterval", "task"} {
		if _, ok := o[k]; ok {
			bad("has %s", k)
		}
	}
	_, hasResult := o["result"]
	_, hasError := o["error"]
	requests, hasRequests := o["inputRequests"].(map[string]any)
	if hasResult != (status == translate.Completed) || hasError != (status == translate.Failed) || hasRequests != (status == translate.InputRequired) || hasRequests && len(requests) == 0 {
		bad("is %s with result %v, error %v, inputRequests %v", status, hasResult, hasError, o["inputRequests"])
	}
	now := time.Now()
	if translate.Terminal(status) {
		h.open = nil
		final, _ := json.Marshal([]any{status, o["result"], o["error"]})
		if h.end == "" {
			h.end, h.endAt, h.final = status, now, string(final)
			l.payload(h.plan, o, bad)
		}
		if h.final != string(final) {
			bad("ends as %s after %s", final, h.final)
		}
		return
	}
	if status != translate.Working && status != translate.InputRequired {
		bad("has the status %q", status)
	}
	if h.end != "" && h.endAt.Before(now) {
		bad("is %s after %s", status, h.end)
	}
	h.open = nil
	for key, entry := range requests {
		raw, _ := json.Marshal(entry)
		match := qidText.FindSubmatch(raw)
		if match == nil || l.qids[string(match[1])] == nil || l.qids[string(match[1])].work.plan != h.plan {
			bad("shows a question of something else: %s", raw)
			continue
		}
		qid := string(match[1])
		if h.keys[key] != "" && h.keys[key] != qid {
			bad("uses key %s for %s after %s", key, qid, h.keys[key])
		}
		if at := h.done[key]; !at.IsZero() && at.Before(now) {
			bad("still asks %s, which was answered", key)
		}
		if dig(entry, "params", "_meta", translate.MetaRelatedTask) != nil {
			bad("names the server's task in a question")
		}
		h.keys[key] = qid
		h.open = append(h.open, key)
	}
}

// payload checks an end against what the server gave; it needs l.mu.
func (l *modernModel) payload(p *simPlan, o map[string]any, bad func(string, ...any)) {
	w := l.tasks[fmt.Sprintf("task-%d", p.n)]
	switch {
	case o["result"] != nil:
		list, _ := dig(o["result"], "content").([]any)
		if len(list) != 1 || text(dig(list[0], "text")) != fmt.Sprintf("done %d", p.n) || p.end == "error" || p.end == "cancelled" {
			bad("has the result %v", o["result"])
		}
		if dig(o["result"], "_meta", translate.MetaRelatedTask) != nil {
			bad("has related-task in its result")
		}
		if w == nil || !translate.Terminal(w.status) {
			bad("has a result before the server had")
		}
	case o["error"] != nil:
		if code, _ := dig(o["error"], "code").(float64); p.end != "error" || int(code) != -31000-p.n {
			bad("has the error %v", o["error"])
		}
	default:
		if w == nil || w.status != translate.Cancelled {
			bad("is cancelled, which the server did not say")
		}
	}
}

func (l *modernModel) done(q *modernReq) {
	l.mu.Lock()
	got := q.got
	l.mu.Unlock()
	if got == nil {
		l.wrong("%s %d ends without an answer, status %d", q.method, q.id, q.status)
		return
	}
	v := plain(got.Raw)
	code, _ := dig(v, "error", "code").(float64)
	message := text(dig(v, "error", "message"))
	switch {
	case q.bad && q.park != nil:
		if code != -32602 || !strings.HasPrefix(message, "invalid requestState") {
			l.wrong("a foreign or changed retry is answered %s", got.Raw)
		}
	case q.bad:
		if code != -32602 || message != "Failed to retrieve task: Task not found" {
			l.wrong("a foreign task is answered %s", got.Raw)
		}
	case q.method == "tools/call":
		l.called(q, v)
	case v["error"] != nil:
		l.excused(q, v)
	case q.method == "tasks/get":
		if text(dig(v, "result", "resultType")) != "complete" {
			l.wrong("tasks/get is answered %s", got.Raw)
		}
		l.sees(q.c.who, v["result"], "tasks/get")
	case q.method == "tasks/update", q.method == "tasks/cancel":
		o := v["result"].(map[string]any)
		delete(o, "_meta")
		if len(o) != 1 || text(o["resultType"]) != "complete" {
			l.wrong("%s is acknowledged with %s", q.method, got.Raw)
		}
		l.mu.Lock()
		for _, k := range q.keys {
			if h := l.handles[q.handle]; h.done[k].IsZero() {
				h.done[k] = time.Now()
			}
		}
		l.mu.Unlock()
	}
}

// called: a tools/call or its retry was answered.
func (l *modernModel) called(q *modernReq, v map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := q.plan
	bad := func(format string, args ...any) {
		l.wrongLocked(l.at() + fmt.Sprintf("call %d ", p.n) + fmt.Sprintf(format, args...))
	}
	message := text(dig(v, "error", "message"))
	if q.park != nil {
		if strings.HasPrefix(message, "invalid requestState") {
			if q.park.sends == 1 && !q.park.dead && l.fresh(q) {
				bad("refuses the only retry: %s", message)
			}
			return
		}
		if q.park.good++; q.park.good > 1 {
			bad("resumes twice with one state")
		}
		q.park.dead = true
	}
	result, _ := v["result"].(map[string]any)
	switch kind := text(dig(result, "resultType")); {
	case kind == "input_required":
		park := &modernPark{c: q.c, plan: p, tool: q.tool, state: text(result["requestState"]), keys: map[string]string{}}
		for key, entry := range result["inputRequests"].(map[string]any) {
			raw, _ := json.Marshal(entry)
			match := qidText.FindSubmatch(raw)
			if match == nil || l.qids[string(match[1])] == nil {
				bad("asks what nobody asked: %s", raw)
				continue
			}
			if o := l.qids[string(match[1])].work.plan; o != p {
				bad("asks what call %d needs", o.n)
			}
			park.keys[key] = string(match[1])
		}
		if len(park.keys) == 0 {
			bad("is sent away with nothing to answer")
		}
		if !q.c.able {
			bad("asks a client that declared nothing")
		}
		l.parks = append(l.parks, park)
	case kind == "task":
		id := text(result["taskId"])
		if !q.c.tasks {
			bad("gives a handle to a client without the extension")
		}
		if l.handles[id] != nil {
			bad("has a handle that was there before")
		}
		l.handles[id] = &modernHandle{id: id, who: p.who, plan: p, keys: map[string]string{}, done: map[string]time.Time{}}
		l.order = append(l.order, id)
	case result != nil:
		list, _ := dig(result, "content").([]any)
		if kind != "complete" || len(list) != 1 || text(dig(list[0], "text")) != fmt.Sprintf("done %d", p.n) || p.end == "error" || p.kind == "error" {
			bad("has the result %v", result)
		}
		if p.ended.IsZero() {
			bad("has a result before the server had")
		}
	default:
		code, _ := dig(v, "error", "code").(float64)
		switch {
		case int(code) == -31000-p.n:
		case l.troubles > 0, slices.Contains([]string{"unreachable", "broken", "500", "lost"}, p.kind):
		case p.end == "cancelled" && strings.Contains(message, "cancelled"):
		case !p.dropped.IsZero():
		default:
			bad("ends with %v", v["error"])
		}
	}
}

// mute: the server waits for an answer it cannot get: it has no stream to ask
// on and does not say so, or our refusal could not be delivered however often
// it was tried. It needs l.mu.
func (l *modernModel) mute(p *simPlan) bool {
	for _, q := range l.qids {
		if q.work.plan == p && (q.on == nil || q.answers == 0 && !p.able && l.troubles > 0) {
			return true
		}
	}
	return false
}

// fresh: a retry within the time a parked call waits.
func (l *modernModel) fresh(q *modernReq) bool {
	return l.troubles == 0 && q.at.Sub(l.start) < 100*time.Second
}

func (l *modernModel) excused(q *modernReq, v map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	code, _ := dig(v, "error", "code").(float64)
	switch {
	case code == -32602 && l.bound && l.troubles > 0:
	case (code == -32603 || code == -32602) && l.troubles > 0:
	default:
		l.wrongLocked(l.at() + fmt.Sprintf("%s %d is answered %v", q.method, q.id, v["error"]))
	}
}

// settle: the server behaves; clients come back to everything and answer all.
func (l *modernModel) settle() {
	settled()
	l.note("from here on all is calm")
	l.mu.Lock()
	l.calm = true
	l.mu.Unlock()
	by := map[string]*modernClient{}
	for _, c := range l.clients {
		by[c.who] = c
	}
	for round := range 25 {
		l.mu.Lock()
		var parks []*modernPark
		for _, p := range l.parks {
			if !p.dead && p.sends == 0 {
				parks = append(parks, p)
			}
		}
		var handles []*modernHandle
		for _, id := range l.order {
			if h := l.handles[id]; h.end == "" {
				handles = append(handles, h)
			}
		}
		l.mu.Unlock()
		for _, p := range parks {
			l.retry(p, nil)
		}
		for _, h := range handles {
			l.about(by[h.who], "tasks/get", h, "")
			settled()
			time.Sleep(500 * time.Millisecond)
			settled()
			l.mu.Lock()
			open := len(h.open)
			l.mu.Unlock()
			if open > 0 {
				l.update(by[h.who], nil, h)
			}
			if h.plan.end == "never" && round == 0 {
				l.about(by[h.who], "tasks/cancel", h, "")
			}
		}
		if len(parks)+len(handles) == 0 && round > 5 {
			break
		}
		time.Sleep(2 * time.Second)
		settled()
	}
	l.mu.Lock()
	var endless []*modernReq
	for _, q := range l.requests {
		if q.plan != nil && q.plan.end == "never" && q.live() {
			endless = append(endless, q)
		}
	}
	l.mu.Unlock()
	for _, q := range endless {
		l.drop(q.simReq)
	}
	time.Sleep(5 * time.Minute) // parked calls whose clients are gone end
	settled()
	l.mu.Lock()
	for _, q := range l.requests {
		if q.live() && q.listen == nil && (q.plan == nil || q.plan.end != "never" && !l.mute(q.plan)) {
			l.wrongLocked(l.at() + fmt.Sprintf("%s %d is never answered", q.method, q.id))
		}
	}
	for _, id := range l.order {
		h := l.handles[id]
		w := l.tasks[fmt.Sprintf("task-%d", h.plan.n)]
		if h.end == "" && w != nil && translate.Terminal(w.status) && !w.lost {
			l.wrongLocked(l.at() + fmt.Sprintf("the task of call %d never ends: it is %s", h.plan.n, w.status))
		}
		if h.end == "" && w != nil && !w.lost && w.plan.end != "never" && !l.mute(w.plan) && l.troubles == 0 && !translate.Terminal(w.status) {
			l.wrongLocked(l.at() + fmt.Sprintf("the task of call %d is stuck", h.plan.n))
		}
	}
	for _, w := range l.running {
		if p := w.plan; w.status == "" && p.end != "never" && l.troubles == 0 {
			l.wrongLocked(l.at() + fmt.Sprintf("call %d still runs at the server, dropped at %v", p.n, p.dropped.Sub(l.start)))
		}
	}
	reqs := slices.Clone(l.requests)
	l.mu.Unlock()
	for _, id := range l.order {
		h := l.handles[id]
		l.about(by[h.who], "tasks/get", h, "") // its end is the same
	}
	settled()
	time.Sleep(10 * time.Second)
	settled()
	for _, q := range reqs {
		l.drop(q.simReq)
	}
	settled()
}
