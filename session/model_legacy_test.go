package session_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// TestModelLegacyClients: legacy clients before a modern server, held against
// the rules of 2025-11-25 basic/utilities/tasks.
func TestModelLegacyClients(t *testing.T) { checkModel(t, []uint64{4774}, playLegacy) }

// legacyModel is what the clients know and what the rules say of it.
type legacyModel struct {
	*modernSim
	clients  []*legacyClient
	handles  map[string]*legacyHandle
	order    []string // of handles
	requests []*legacyReq
	calls    int
}

// legacyClient is one session.
type legacyClient struct {
	who     string
	id      string
	caps    string
	able    bool
	next    int
	get     *simReq
	deleted bool
	ended   time.Time
}

// legacyHandle is a task as the clients have seen it.
type legacyHandle struct {
	id, who   string
	plan      *simPlan
	end       string // the terminal status seen first
	endAt     time.Time
	cancelled time.Time // tasks/cancel was accepted
	payload   string
	canceling bool // some tasks/cancel was sent
}

type legacyReq struct {
	*simReq
	c      *legacyClient
	handle string
	plan   *simPlan // of a tools/call
	task   bool
	cursor string
}

func playLegacy(m *sim) {
	m.face = session.Face{Era: translate.Modern, Version: translate.LatestModern, Tasks: true}
	s := &modernSim{sim: m, plans: map[int]*simPlan{}, tasks: map[string]*simTask{}, asked: map[string]*simQuestion{}, listens: map[*simExchange]*simListen{},
		listen: pickOne(m.rng, []string{"refuse", "grant", "some"}), moodyIn: pickOne(m.rng, []int{6, 15, 1 << 30})}
	m.serve = s.handle
	l := &legacyModel{modernSim: s, handles: map[string]*legacyHandle{}}
	m.begin()
	for _, who := range []string{"A", "A", "B"} {
		l.join(who, false)
	}
	for range m.steps {
		l.act()
	}
	l.settle()
}

// join opens a session.
func (l *legacyModel) join(who string, able bool) *legacyClient {
	c := &legacyClient{who: who, caps: `{"elicitation":{},"sampling":{}}`, able: true}
	if !able && in(l.rng, 4) {
		c.able, c.caps = false, pickOne(l.rng, []string{`{"elicitation":{}}`, `{}`, `{"roots":{}}`})
	}
	q := l.ask(c, "initialize", `{"protocolVersion":"2025-11-25","capabilities":`+c.caps+`,"clientInfo":{"name":"c","version":"1"}}`)
	settled()
	if q.got == nil || q.got.Kind != jsonrpc.Response {
		l.wrong("initialize was not answered well")
		return c
	}
	l.mu.Lock()
	l.clients = append(l.clients, c)
	l.mu.Unlock()
	return c
}

// ask sends a request of a session.
func (l *legacyModel) ask(c *legacyClient, method, params string) *legacyReq {
	q := &legacyReq{simReq: &simReq{id: l.nextID(c), method: method}, c: c}
	raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, q.id, method, params)
	l.put(q, http.MethodPost, []byte(raw))
	return q
}

func (l *legacyModel) nextID(c *legacyClient) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.next++
	return c.next
}

// put sends and follows what comes back.
func (l *legacyModel) put(q *legacyReq, verb string, raw []byte) {
	l.note("> %s %.4s %s %s", q.c.who, q.c.id, verb, raw)
	l.mu.Lock()
	l.requests = append(l.requests, q)
	l.mu.Unlock()
	l.send(q.simReq, simCaller(q.c.who, translate.Legacy, q.c.id), verb, raw, func(m *jsonrpc.Message) { l.hear(q, m) }, func() { l.done(q) })
}

// post sends what is no request.
func (l *legacyModel) post(c *legacyClient, raw string) {
	l.note("> %s %.4s %s", c.who, c.id, raw)
	q := &simReq{method: "post"}
	l.send(q, simCaller(c.who, translate.Legacy, c.id), http.MethodPost, []byte(raw), func(*jsonrpc.Message) { l.wrong("an answer to what is no request") }, func() {})
}

// act is one step of the schedule.
func (l *legacyModel) act() {
	r := l.rng
	if !in(r, 4) {
		settled()
		time.Sleep(pickOne(r, []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second, 3 * time.Second}))
	}
	if in(r, 2) {
		settled()
	}
	c := pickOne(r, l.clients)
	h := l.pickHandle(r, c)
	switch n := r.IntN(100); {
	case n < 25 || h == nil && n < 75:
		l.call(c, r, !in(r, 4))
	case n < 35:
		l.about(c, "tasks/get", h)
	case n < 57:
		l.about(c, "tasks/result", h)
	case n < 62:
		l.list(c, "")
	case n < 72:
		l.about(c, "tasks/cancel", h)
	case n < 80:
		if q := pickOne(r, l.waiting(c)); q != nil {
			l.note("> drops %d", q.id)
			l.drop(q.simReq)
			l.mu.Lock()
			if q.plan != nil && q.plan.dropped.IsZero() {
				q.plan.dropped = time.Now()
			}
			l.mu.Unlock()
		}
	case n < 87:
		q := pickOne(r, l.waiting(c))
		if q == nil || q.method != "tools/call" && q.method != "tasks/result" {
			return
		}
		l.mu.Lock()
		q.cancelled = time.Now()
		l.mu.Unlock()
		l.post(c, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, q.id))
	case n < 94:
		if c.get == nil || !in(r, 3) {
			l.openGet(c)
		} else {
			l.note("> %s drops its GET stream", c.who)
			l.drop(c.get)
			c.get = nil
		}
	case n < 96:
		q := &legacyReq{simReq: &simReq{method: "DELETE"}, c: c}
		l.mu.Lock()
		c.deleted, c.ended = true, time.Now()
		l.mu.Unlock()
		l.put(q, http.MethodDelete, nil)
		settled()
		l.clients = slices.DeleteFunc(l.clients, func(o *legacyClient) bool { return o == c })
		l.join(c.who, false)
	default:
		l.foreign(c, r)
	}
}

func (l *legacyModel) openGet(c *legacyClient) {
	if c.get != nil {
		l.drop(c.get)
	}
	q := &legacyReq{simReq: &simReq{method: "GET"}, c: c}
	c.get = q.simReq
	l.put(q, http.MethodGet, nil)
}

func (l *legacyModel) call(c *legacyClient, r *rand.Rand, task bool) {
	l.calls++
	p := l.newPlan(l.calls, c.who)
	p.able, p.asTask = c.able, task
	l.mu.Lock()
	l.plans[p.n] = p
	l.mu.Unlock()
	extra := ""
	if task {
		extra = pickOne(r, []string{`,"task":{}`, `,"task":{"ttl":1800000}`})
	}
	if in(r, 3) {
		extra += fmt.Sprintf(`,"_meta":{"progressToken":"p%d"}`, p.n)
	}
	q := &legacyReq{simReq: &simReq{id: l.nextID(c), method: "tools/call"}, c: c, plan: p, task: task}
	l.put(q, http.MethodPost, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{"n":%d}%s}}`, q.id, p.n, extra))
}

func (l *legacyModel) about(c *legacyClient, method string, h *legacyHandle) *legacyReq {
	q := &legacyReq{simReq: &simReq{id: l.nextID(c), method: method}, c: c, handle: h.id}
	if method == "tasks/cancel" {
		l.mu.Lock()
		h.canceling = true
		l.mu.Unlock()
	}
	l.put(q, http.MethodPost, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"taskId":%q}}`, q.id, method, h.id))
	return q
}

func (l *legacyModel) list(c *legacyClient, cursor string) *legacyReq {
	params := "{}"
	if cursor != "" {
		params = `{"cursor":` + strconv.Quote(cursor) + `}`
	}
	q := l.ask(c, "tasks/list", params)
	q.cursor = cursor
	return q
}

// foreign asks for a task of somebody else.
func (l *legacyModel) foreign(c *legacyClient, r *rand.Rand) {
	l.mu.Lock()
	var others []*legacyHandle
	for _, id := range l.order {
		if h := l.handles[id]; h.who != c.who {
			others = append(others, h)
		}
	}
	l.mu.Unlock()
	if h := pickOne(r, others); h != nil {
		q := &legacyReq{simReq: &simReq{id: l.nextID(c), method: "foreign"}, c: c, handle: h.id}
		l.put(q, http.MethodPost, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"taskId":%q}}`, q.id,
			pickOne(r, []string{"tasks/get", "tasks/result", "tasks/cancel"}), h.id))
	}
}

func (l *legacyModel) pickHandle(r *rand.Rand, c *legacyClient) *legacyHandle {
	l.mu.Lock()
	defer l.mu.Unlock()
	var mine []*legacyHandle
	for _, id := range l.order {
		if h := l.handles[id]; h.who == c.who {
			mine = append(mine, h)
		}
	}
	if len(mine) > 4 && !in(r, 3) {
		mine = mine[len(mine)-4:] // the newest are the liveliest
	}
	return pickOne(r, mine)
}

// waiting are a session's requests without an answer yet.
func (l *legacyModel) waiting(c *legacyClient) (list []*legacyReq) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.requests {
		if q.c == c && q.simReq.live() && q.cancelled.IsZero() && q.method != "GET" {
			list = append(list, q)
		}
	}
	return list
}

// hear: a message on a request's stream that is not its answer.
func (l *legacyModel) hear(q *legacyReq, m *jsonrpc.Message) {
	switch m.Method {
	case "elicitation/create", "sampling/createMessage":
		l.question(q, m)
	case "notifications/cancelled":
		id := string(m.At("params", "requestId").Raw())
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, a := range l.asks() {
			if a.id == id && a.req == q.simReq && a.withdrawn.IsZero() {
				a.withdrawn = time.Now()
				return
			}
		}
		l.wrongLocked(l.at() + "a question is withdrawn that was not asked on this stream: " + string(m.Raw))
	case "notifications/tasks/status":
		l.sees(q.c.who, dig(plain(m.Raw), "params"), "a status notification", time.Now())
	case "notifications/progress":
		if id := translate.RelatedTask(m.Params()); id != "" {
			l.mu.Lock()
			if h := l.handles[id]; h != nil && h.who != q.c.who {
				l.wrongLocked(l.at() + "progress of a foreign task")
			}
			l.mu.Unlock()
		}
	default:
		l.wrong("unexpected to a legacy client: %s", m.Raw)
	}
}

// asks needs l.mu.
func (l *legacyModel) asks() (all []*simAsk) {
	for _, q := range l.asked {
		all = append(all, q.asks...)
	}
	return all
}

// question: the proxy asks on a stream.
func (l *legacyModel) question(q *legacyReq, m *jsonrpc.Message) {
	match := qidText.FindSubmatch(m.Raw)
	if match == nil {
		l.wrong("a question nobody put: %s", m.Raw)
		return
	}
	now, qid := time.Now(), string(match[1])
	l.mu.Lock()
	u := l.asked[qid]
	bad := func(format string, args ...any) {
		l.wrongLocked(l.at() + qid + " " + fmt.Sprintf(format, args...))
	}
	if u == nil || u.plan.who != q.c.who {
		bad("reaches the wrong client")
		l.mu.Unlock()
		return
	}
	for _, a := range u.asks {
		if a.live() {
			bad("is asked twice at once, as %s and %s", a.id, m.ID.Raw())
		}
	}
	if !u.accepted.IsZero() && u.accepted.Before(now) && u.rejected == 0 {
		bad("is asked after its answer was accepted")
	}
	if q.method == "tasks/result" && u.over.Before(now.Add(-10*time.Second)) && !u.over.IsZero() {
		bad("is asked long after it vanished")
	}
	if q.c.deleted && q.c.ended.Before(now) {
		bad("is asked in a session that has ended")
	}
	kind := strings.TrimSuffix(u.kind, "ing")
	if !strings.Contains(q.c.caps, kind) {
		bad("is asked of a client that did not declare %s", u.kind)
	}
	related := translate.RelatedTask(m.Params())
	switch {
	case u.plan.asTask:
		h := l.handles[related]
		if h == nil { // its call's stream was dropped, or its answer is not read yet
			h = &legacyHandle{id: related, who: u.plan.who}
			l.handles[related] = h
		}
		if h.plan == nil {
			h.plan = u.plan
		}
		if h.plan != u.plan || related == "" {
			bad("does not name its task but %q", related)
		} else if h.end != "" && h.endAt.Before(now) {
			bad("is asked although its task is %s", h.end)
		}
	case related != "" && q.plan != nil:
		bad("names a task, %q, to a client that asked for none", related)
	}
	c := q.c
	a := &simAsk{req: q.simReq, gone: func() bool { return c.deleted }, id: string(m.ID.Raw()), at: now}
	n := len(u.asks)
	u.asks = append(u.asks, a)
	l.mu.Unlock()
	r := l.draw("answer" + qid)
	how, wait := r.IntN(12), moments(r, 3*time.Second)
	if l.isCalm() {
		how, wait = 0, 0
	}
	l.wg.Go(func() { l.reply(c, u, a, n, how, wait) })
}

// reply is what a client does about a question.
func (l *legacyModel) reply(c *legacyClient, u *simQuestion, a *simAsk, n, how int, wait time.Duration) {
	late := false
	switch how {
	case 8: // never
		return
	case 9: // late
		wait, late = 20*time.Second, true
	}
	if !l.sleep(wait, nil) {
		return
	}
	l.mu.Lock()
	if c.deleted || !a.withdrawn.IsZero() && !late {
		l.mu.Unlock()
		return
	}
	a.answered = time.Now()
	value := unique(u.id, n)
	raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"v":%q}}}`, a.id, value)
	if u.kind == "sampling" {
		raw = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"role":"assistant","content":{"type":"text","text":%q},"model":"m"}}`, a.id, value)
	}
	switch how {
	case 6:
		raw = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"refused %s"}}`, a.id, u.id)
		value = `"cancel"`
		if u.kind == "sampling" {
			u.plan.refusedBy = "refused " + u.id
		}
	case 5:
		if u.kind == "elicitation" {
			raw = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, a.id)
			value = `"decline"`
		}
	}
	u.sent = append(u.sent, value)
	l.mu.Unlock()
	l.post(c, raw)
	if how == 7 {
		l.post(c, strings.Replace(raw, value, "second", 1))
	}
}
