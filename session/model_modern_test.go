package session_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// TestModelModernClients: modern clients before a legacy server, held against
// the tasks extension and 2026-07-28 basic/patterns/mrtr.
func TestModelModernClients(t *testing.T) { checkModel(t, []uint64{802, 8357, 9901}, playModern) }

type modernModel struct {
	*legacySim
	clients  []*modernClient
	handles  map[string]*modernHandle
	order    []string
	parks    []*modernPark
	requests []*modernReq
	calls    int
	ids      int
}

// modernClient is one client: nothing of it is kept between requests but what
// it declares.
type modernClient struct {
	who, info, caps string
	tasks, able     bool
}

// modernHandle is a task as the clients have seen it.
type modernHandle struct {
	id, who string
	plan    *simPlan
	end     string
	endAt   time.Time
	final   string            // its terminal state as shown first
	keys    map[string]string // key -> which question
	done    map[string]time.Time
	open    []string // keys listed last
}

// modernPark is a call a client was sent away from.
type modernPark struct {
	c     *modernClient
	plan  *simPlan
	tool  string
	state string
	keys  map[string]string // key -> question
	sends int               // retries that may resume it
	good  int               // and those that did
	dead  bool
}

type modernReq struct {
	*simReq
	c      *modernClient
	handle string
	plan   *simPlan
	tool   string
	park   *modernPark // what it resumes
	bad    bool        // it must not
	keys   []string    // of a tasks/update
	listen map[string]bool
}

func playModern(m *sim) {
	m.face = session.Face{Era: translate.Legacy, Version: translate.LatestLegacy}
	r := m.rng
	s := &legacySim{sim: m, plans: map[int]*simPlan{}, tasks: map[string]*simWork{}, running: map[string]*simWork{}, sessions: map[string]*simSession{},
		asked: map[string]*simAsked{}, qids: map[string]*simAsked{}, noGet: in(r, 3), bound: in(r, 3), silent: in(r, 2), noCancel: in(r, 6),
		loses: pickOne(r, []int{0, 0, 30}), moodyIn: pickOne(r, []int{8, 20, 1 << 30, 1 << 30})}
	m.serve = s.handle
	l := &modernModel{legacySim: s, handles: map[string]*modernHandle{}}
	m.begin()
	for _, who := range []string{"A", "A", "B"} {
		c := &modernClient{who: who, info: pickOne(r, []string{"one", "two"}), tasks: !in(r, 4), able: !in(r, 5)}
		caps := []string{}
		if c.able {
			caps = append(caps, `"elicitation":{}`, `"sampling":{}`)
		}
		if c.tasks {
			caps = append(caps, `"extensions":{"io.modelcontextprotocol/tasks":{}}`)
		}
		c.caps = "{" + strings.Join(caps, ",") + "}"
		l.clients = append(l.clients, c)
	}
	for range m.steps {
		l.act()
	}
	l.settle()
}

// ask sends a request of a client.
func (l *modernModel) ask(q *modernReq, method, params string) *modernReq {
	l.mu.Lock()
	l.ids++
	q.simReq = &simReq{id: l.ids, method: method}
	l.requests = append(l.requests, q)
	l.mu.Unlock()
	meta := fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":%q,"version":"1"},"io.modelcontextprotocol/clientCapabilities":%s},`, q.c.info, q.c.caps)
	raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s%s}`, q.id, method, meta, params[1:])
	l.note("> %s %s %d %s", q.c.who, method, q.id, params)
	l.send(q.simReq, simCaller(q.c.who, translate.Modern, ""), http.MethodPost, []byte(raw), func(m *jsonrpc.Message) { l.hear(q, m) }, func() { l.done(q) })
	return q
}

func (l *modernModel) call(c *modernClient, tool string) *modernReq {
	l.calls++
	p := l.newPlan(l.calls, c.who)
	p.able = c.able
	l.mu.Lock()
	l.plans[p.n] = p
	l.mu.Unlock()
	return l.ask(&modernReq{c: c, plan: p, tool: tool}, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"n":%d}}`, tool, p.n))
}

func (l *modernModel) about(c *modernClient, method string, h *modernHandle, more string) *modernReq {
	return l.ask(&modernReq{c: l.with(c), handle: h.id}, method, fmt.Sprintf(`{"taskId":%q%s}`, h.id, more))
}

// with is c declaring the tasks extension, as whoever has a handle does.
func (l *modernModel) with(c *modernClient) *modernClient {
	if c.tasks {
		return c
	}
	d := *c
	d.caps = `{"elicitation":{},"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	return &d
}

func (l *modernModel) act() {
	r := l.rng
	if !in(r, 4) {
		settled()
		time.Sleep(pickOne(r, []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second, 3 * time.Second}))
	}
	if in(r, 2) {
		settled()
	}
	c := pickOne(r, l.clients)
	h := l.pick(r, c)
	switch n := r.IntN(100); {
	case n < 30 || h == nil && n < 60:
		l.call(c, pickOne(r, []string{"opt", "opt", "req", "plain"}))
	case n < 48 && h != nil:
		l.about(c, "tasks/get", h, "")
	case n < 58 && h != nil:
		l.update(c, r, h)
	case n < 64 && h != nil:
		l.about(c, "tasks/cancel", h, "")
	case n < 72:
		l.listen(c, r)
	case n < 80:
		var mine []*modernReq
		l.mu.Lock()
		for _, q := range l.requests {
			if q.c.who == c.who && q.live() {
				mine = append(mine, q)
			}
		}
		l.mu.Unlock()
		if q := pickOne(r, mine); q != nil {
			l.note("> drops %d", q.id)
			l.drop(q.simReq)
			l.mu.Lock()
			if q.plan != nil && q.final.IsZero() {
				q.plan.dropped = time.Now()
			}
			l.mu.Unlock()
		}
	case n < 95:
		l.mu.Lock()
		var mine []*modernPark
		for _, p := range l.parks {
			if p.c.who == c.who {
				mine = append(mine, p)
			}
		}
		l.mu.Unlock()
		if p := pickOne(r, mine); p != nil {
			l.retry(p, r)
		}
	default:
		l.mu.Lock()
		var others []*modernHandle
		for _, id := range l.order {
			if h := l.handles[id]; h.who != c.who {
				others = append(others, h)
			}
		}
		l.mu.Unlock()
		if h := pickOne(r, others); h != nil {
			l.ask(&modernReq{c: l.with(c), handle: h.id, bad: true}, pickOne(r, []string{"tasks/get", "tasks/cancel"}), fmt.Sprintf(`{"taskId":%q}`, h.id))
		}
	}
}

func (l *modernModel) pick(r *rand.Rand, c *modernClient) *modernHandle {
	l.mu.Lock()
	defer l.mu.Unlock()
	var mine []*modernHandle
	for _, id := range l.order {
		if h := l.handles[id]; h.who == c.who {
			mine = append(mine, h)
		}
	}
	if len(mine) > 3 && !in(r, 3) {
		mine = mine[len(mine)-3:]
	}
	return pickOne(r, mine)
}

// value makes an answer to a question; it needs l.mu.
func (l *modernModel) value(qid string) string {
	q := l.qids[qid]
	v := unique(qid, len(q.sent))
	q.sent = append(q.sent, v)
	if q.kind == "sampling" {
		return fmt.Sprintf(`{"role":"assistant","content":{"type":"text","text":%q},"model":"m"}`, v)
	}
	return fmt.Sprintf(`{"action":"accept","content":{"v":%q}}`, v)
}

// responses answers some of the keys; r nil: all.
func (l *modernModel) responses(r *rand.Rand, keys map[string]string) (string, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list, given []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if r != nil && in(r, 3) {
			continue
		}
		given = append(given, key)
		list = append(list, fmt.Sprintf(`%q:%s`, key, l.value(keys[key])))
	}
	if r != nil && in(r, 4) {
		list = append(list, `"zz":{"action":"cancel"}`)
	}
	return "{" + strings.Join(list, ",") + "}", given
}

func (l *modernModel) update(c *modernClient, r *rand.Rand, h *modernHandle) {
	keys := map[string]string{}
	l.mu.Lock()
	for _, k := range h.open {
		keys[k] = h.keys[k]
	}
	if r != nil && in(r, 5) { // some of those answered before
		for k := range h.done {
			keys[k] = h.keys[k]
		}
	}
	l.mu.Unlock()
	raw, given := l.responses(r, keys)
	l.ask(&modernReq{c: l.with(c), handle: h.id, keys: given}, "tasks/update", fmt.Sprintf(`{"taskId":%q,"inputResponses":%s}`, h.id, raw))
}

func (l *modernModel) listen(c *modernClient, r *rand.Rand) {
	ids := map[string]bool{}
	var list []string
	l.mu.Lock()
	for _, id := range l.order {
		if in(r, 2) {
			ids[id] = l.handles[id].who == c.who
			list = append(list, fmt.Sprintf("%q", id))
		}
	}
	l.mu.Unlock()
	l.ask(&modernReq{c: l.with(c), listen: ids}, "subscriptions/listen", `{"notifications":{"taskIds":[`+strings.Join(list, ",")+`],"toolsListChanged":true}}`)
}

// retry comes back to a parked call, in one of several ways.
func (l *modernModel) retry(p *modernPark, r *rand.Rand) {
	how := 0
	if r != nil {
		how = r.IntN(10)
	}
	body := func(raw string, n int) string {
		return fmt.Sprintf(`{"name":%q,"arguments":{"n":%d},"inputResponses":%s,"requestState":%q}`, p.tool, n, raw, p.state)
	}
	good := func(raw string) {
		l.mu.Lock()
		p.sends++
		l.mu.Unlock()
		l.ask(&modernReq{c: p.c, plan: p.plan, tool: p.tool, park: p}, "tools/call", body(raw, p.plan.n))
	}
	switch how {
	case 8: // somebody else's
		for _, c := range l.clients {
			if c.who != p.c.who {
				l.ask(&modernReq{c: c, plan: p.plan, park: p, bad: true}, "tools/call", body(`{}`, p.plan.n))
				return
			}
		}
	case 9: // another call's
		l.ask(&modernReq{c: p.c, plan: p.plan, park: p, bad: true}, "tools/call", body(`{}`, p.plan.n+1000))
	case 7: // twice at once
		raw, _ := l.responses(nil, p.keys)
		good(raw)
		good(raw)
	case 5, 6:
		raw, _ := l.responses(r, p.keys)
		good(raw)
	default:
		raw, _ := l.responses(nil, p.keys)
		good(raw)
	}
}

func (l *modernModel) hear(q *modernReq, m *jsonrpc.Message) {
	if m.Kind == jsonrpc.Request {
		l.wrong("a modern client got a request: %s", m.Raw)
		return
	}
	v := plain(m.Raw)
	if q.listen == nil {
		l.wrong("unexpected to a modern client: %s", m.Raw)
		return
	}
	if sub, _ := dig(v, "params", "_meta", translate.MetaSubscription).(float64); int(sub) != q.id {
		l.wrong("a message of listen %d names %v", q.id, sub)
	}
	switch m.Method {
	case "notifications/subscriptions/acknowledged":
		ids, _ := dig(v, "params", "notifications", "taskIds").([]any)
		for _, id := range ids {
			if !q.listen[text(id)] {
				l.wrong("a foreign task is acknowledged")
			}
		}
	case "notifications/tasks":
		if dig(v, "params", "resultType") != nil {
			l.wrong("notifications/tasks with a resultType: %s", m.Raw)
		}
		l.sees(q.c.who, v["params"], "notifications/tasks")
	default:
		l.wrong("unexpected on a listen stream: %s", m.Raw)
	}
}

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
