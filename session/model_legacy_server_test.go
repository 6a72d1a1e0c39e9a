package session_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// modernSim is a simulated modern server with a task engine.
type modernSim struct {
	*sim
	plans   map[int]*simPlan
	tasks   map[string]*simTask
	asked   map[string]*simQuestion
	listens map[*simExchange]*simListen
	listen  string // refuse, grant, some
	moodyIn int    // one in so many exchanges fails
}

type simListen struct {
	ids map[string]bool
	sub string
}

// simTask is one task of the server.
type simTask struct {
	id, who string
	plan    *simPlan
	born    time.Time
	status  string
	keys    map[string]*simQuestion
	message string
	dead    chan struct{} // cancelled, or its ttl is over
	news    chan struct{} // an answer came
	gone    bool
}

func (s *modernSim) handle(x *simExchange) {
	if x.out.Verb != http.MethodPost || x.msg == nil {
		s.wrong("a modern server got %s", x.out.Verb)
		x.status(405)
		return
	}
	id, _ := x.msg.At("params", "taskId").Str()
	r := s.draw(x.msg.Method + id)
	switch x.msg.Method {
	case "server/discover":
		x.result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"serverInfo":{"name":"s","version":"1"},"ttlMs":0,"cacheScope":"private",` +
			`"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
	case "tools/call":
		s.call(x)
	case "tasks/get", "tasks/update", "tasks/cancel":
		s.mu.Lock()
		k := s.tasks[id]
		s.mu.Unlock()
		if k == nil {
			s.wrong("%s of a task that never was: %q", x.msg.Method, id)
			x.error(200, -32602, "no such task")
			return
		}
		if x.as != session.HashPrincipal("token", k.who) {
			s.wrong("%s of %s's task as somebody else", x.msg.Method, k.who)
		}
		if x.out.Header.Get("Mcp-Name") != id {
			s.wrong("%s: Mcp-Name %q for %q", x.msg.Method, x.out.Header.Get("Mcp-Name"), id)
		}
		if x.trouble(r, s.moodyIn) {
			return
		}
		switch x.msg.Method {
		case "tasks/get":
			stale, jitter := in(r, 2), moments(r, 300*time.Millisecond)
			then := s.state(k, "complete")
			if !x.wait(jitter) {
				return
			}
			if !stale {
				then = s.state(k, "complete")
			}
			if then == "" {
				x.error(200, -32602, "no such task")
				return
			}
			x.result(then)
		case "tasks/update":
			s.update(x, k)
		case "tasks/cancel":
			s.cancel(x, k)
		}
	case "subscriptions/listen":
		s.subscribe(x)
	default:
		s.wrong("unexpected upstream: %s", x.msg.Raw)
		x.error(404, -32601, "method not found")
	}
}

// callNumber says which call of the schedule a tools/call is.
func callNumber(m *jsonrpc.Message) int {
	args, _ := m.At("params", "arguments").Parse()
	n, _ := strconv.Atoi(string(args.Get("n").Raw()))
	return n
}

func (s *modernSim) call(x *simExchange) {
	n := callNumber(x.msg)
	declared := strings.Contains(string(x.msg.At("params", "_meta", translate.MetaClientCaps).Raw()), translate.ExtTasks)
	state, _ := x.msg.At("params", "requestState").Str()
	s.mu.Lock()
	p := s.plans[n]
	s.mu.Unlock()
	if x.as != session.HashPrincipal("token", p.who) {
		s.wrong("call %d came as somebody else", n)
	}
	if p.kind == "unreachable" {
		x.lose("unreachable")
		return
	}
	if p.kind == "task" && p.strict && !declared {
		x.begin(400, false)
		x.say(x.answer("error", `{"code":-32021,"message":"tasks","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`))
		x.close()
		return
	}
	round := 0
	if state == "" {
		s.mu.Lock()
		p.started++
		if p.started > 1 {
			s.wrongLocked(fmt.Sprintf("call %d is run %d times", n, p.started))
		}
		s.mu.Unlock()
	} else {
		fmt.Sscanf(state, "state-%d", &round)
		s.retried(x, p, round, state)
	}
	if !x.wait(p.delay) {
		s.mu.Lock()
		p.stopped = true
		s.mu.Unlock()
		return
	}
	if round < len(p.early) {
		s.earlyAsk(x, p, round)
		return
	}
	switch p.kind {
	case "broken":
		x.lose("broken")
	case "lost":
		x.begin(200, true)
		x.lose("broken")
	case "500":
		x.status(500)
	case "error":
		x.begin(200, false)
		x.say(x.answer("error", p.rpcError()))
		x.close()
	case "task":
		if declared || p.n%5 == 0 { // some make tasks for clients that know none
			x.result(s.born(p))
			return
		}
		fallthrough
	default:
		s.mu.Lock()
		p.ended = time.Now()
		s.mu.Unlock()
		if p.end == "error" {
			x.begin(200, false)
			x.say(x.answer("error", p.rpcError()))
			x.close()
			return
		}
		if in(s.draw("sse"), 2) {
			x.begin(200, true)
			x.say(x.answer("result", `{"resultType":"complete",`+p.result()[1:]))
			x.close()
			return
		}
		x.result(`{"resultType":"complete",` + p.result()[1:])
	}
}

// earlyAsk answers with input_required.
func (s *modernSim) earlyAsk(x *simExchange, p *simPlan, round int) {
	var entries []string
	s.mu.Lock()
	for _, k := range p.early[round].keys {
		qid := callQID(p, k.name)
		if s.asked[qid] == nil {
			s.asked[qid] = &simQuestion{id: qid, plan: p, kind: k.kind}
		}
		entries = append(entries, `"`+k.name+`":{`+k.request(qid)+`}`)
	}
	s.mu.Unlock()
	x.result(fmt.Sprintf(`{"resultType":"input_required","inputRequests":{%s},"requestState":"state-%d"}`, strings.Join(entries, ","), round+1))
}

// retried checks a retry: each state once, with an answer for each key.
func (s *modernSim) retried(x *simExchange, p *simPlan, round int, state string) {
	s.mu.Lock()
	if p.states[state] {
		s.wrongLocked(s.at() + fmt.Sprintf("call %d: %s is used twice", p.n, state))
	}
	p.states[state] = true
	s.mu.Unlock()
	for _, k := range p.early[round-1].keys {
		v := x.msg.At("params", "inputResponses").Get(k.name)
		if !v.Exists() {
			s.wrong("call %d: retry without %s", p.n, k.name)
			continue
		}
		s.took(s.asked[callQID(p, k.name)], string(v.Raw()))
	}
}

// took is an answer the server accepts.
func (s *modernSim) took(q *simQuestion, raw string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.got != "" && q.got != raw && q.rejected == 0 {
		s.wrongLocked(s.at() + fmt.Sprintf("%s is answered %s after %s", q.id, raw, q.got))
	}
	known := false
	for _, a := range q.sent {
		known = known || strings.Contains(raw, a)
	}
	if !known && (!strings.Contains(raw, `"cancel"`) || q.plan.able && len(q.sent) == 0) {
		s.wrongLocked(s.at() + fmt.Sprintf("%s got the answer %s, which no client gave", q.id, raw))
	}
	q.got = raw
	if q.accepted.IsZero() {
		q.accepted = time.Now()
	}
}

func (s *modernSim) subscribe(x *simExchange) {
	r := s.draw("listen")
	if s.listen == "refuse" {
		x.error(404, -32601, "method not found")
		return
	}
	if !x.wait(moments(r, 300*time.Millisecond)) || x.trouble(r, s.moodyIn) {
		return
	}
	l := &simListen{ids: map[string]bool{}, sub: string(x.msg.ID.Raw())}
	var granted []string
	for v := range x.msg.At("params", "notifications", "taskIds").Elems() {
		id, _ := v.Str()
		if s.listen == "some" && in(s.draw("grant"+id), 2) {
			continue
		}
		l.ids[id] = true
		granted = append(granted, strconv.Quote(id))
	}
	x.begin(200, true)
	x.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + l.sub +
		`},"notifications":{"taskIds":[` + strings.Join(granted, ",") + `]}}}`)
	s.mu.Lock()
	s.listens[x] = l
	s.mu.Unlock()
	lost := in(r, 2) && !s.isCalm()
	d := 1000 * time.Hour
	if lost {
		d = 1 + moments(r, 8*time.Second)
	}
	over := x.wait(d)
	s.mu.Lock()
	delete(s.listens, x)
	s.mu.Unlock()
	if over {
		x.lose("broken")
	}
}
