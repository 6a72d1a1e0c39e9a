package session_test

import (
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
