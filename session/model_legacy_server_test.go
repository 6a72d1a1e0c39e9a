package session_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
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

// born makes the task and returns its handle.
func (s *modernSim) born(p *simPlan) string {
	k := &simTask{id: fmt.Sprintf("task-%d", p.n), who: p.who, plan: p, born: time.Now(), status: translate.Working,
		keys: map[string]*simQuestion{}, dead: make(chan struct{}), news: make(chan struct{}, 1)}
	s.mu.Lock()
	s.tasks[k.id], p.task = k, k
	if p.work == 0 && len(p.rounds) == 0 && p.end != "never" {
		s.finishLocked(k)
	} else {
		s.wg.Go(func() { s.live(k) })
	}
	if p.ttl > 0 {
		time.AfterFunc(p.ttl, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			k.gone = true
			s.overLocked(k)
			select {
			case <-k.dead:
			default:
				close(k.dead)
			}
		})
	}
	head := s.headLocked(k)
	s.mu.Unlock()
	return `{"resultType":"task",` + head + `}`
}

// live is the task's life: questions, work, an end.
func (s *modernSim) live(k *simTask) {
	p := k.plan
	for _, r := range p.rounds {
		if !s.sleep(r.after, k.dead) {
			return
		}
		s.mu.Lock()
		if k.status == translate.Cancelled {
			s.mu.Unlock()
			return
		}
		for _, key := range r.keys {
			qid := taskQID(p, key.name)
			q := &simQuestion{id: qid, plan: p, kind: key.kind}
			s.asked[qid], k.keys[key.name] = q, q
		}
		k.status = translate.InputRequired
		s.pushLocked(k)
		s.mu.Unlock()
		if !s.answered(k, r) {
			return
		}
	}
	s.mu.Lock()
	k.message = "at work"
	s.pushLocked(k)
	s.mu.Unlock()
	if p.end == "never" {
		s.sleep(1000*time.Hour, k.dead)
		return
	}
	if !s.sleep(p.work, k.dead) {
		return
	}
	s.mu.Lock()
	s.finishLocked(k)
	s.pushLocked(k)
	s.mu.Unlock()
}

// answered waits until each question of a round is answered or has vanished;
// an answered one stays listed for a while, as the server is only eventually
// consistent.
func (s *modernSim) answered(k *simTask, r simRound) bool {
	var late <-chan time.Time
	if r.vanish > 0 {
		late = time.After(r.vanish)
	}
	for {
		s.mu.Lock()
		left := len(k.keys)
		s.mu.Unlock()
		if left == 0 {
			break
		}
		select {
		case <-k.news:
			if !s.sleep(k.plan.lag, k.dead) {
				return false
			}
			s.mu.Lock()
			maps.DeleteFunc(k.keys, func(_ string, q *simQuestion) bool { return !q.accepted.IsZero() })
			s.restateLocked(k)
			s.mu.Unlock()
		case <-late:
			s.mu.Lock()
			s.overLocked(k)
			clear(k.keys)
			s.restateLocked(k)
			s.mu.Unlock()
		case <-k.dead:
			return false
		case <-s.ctx.Done():
			return false
		}
	}
	return true
}

func (s *modernSim) restateLocked(k *simTask) {
	if k.status == translate.InputRequired && len(k.keys) == 0 {
		k.status = translate.Working
	}
	s.pushLocked(k)
}

// overLocked: nobody needs to answer any more.
func (s *modernSim) overLocked(k *simTask) {
	for _, q := range k.keys {
		if q.over.IsZero() {
			q.over = time.Now()
		}
	}
}

func (s *modernSim) finishLocked(k *simTask) {
	if translate.Terminal(k.status) {
		return
	}
	k.status = map[string]string{"ok": translate.Completed, "isError": translate.Completed, "error": translate.Failed, "cancelled": translate.Cancelled}[k.plan.end]
	k.plan.ended = time.Now()
	s.trace = append(s.trace, s.at()+"    task "+k.id+" is "+k.status)
	s.overLocked(k)
	clear(k.keys)
}

// state is the detailed task, "" when it is gone.
func (s *modernSim) state(k *simTask, kind string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stateLocked(k, kind)
}

func (s *modernSim) headLocked(k *simTask) string {
	ttl := "null"
	if k.plan.ttl > 0 {
		ttl = strconv.FormatInt(k.plan.ttl.Milliseconds(), 10)
	}
	message := ""
	if k.message != "" {
		message = `,"statusMessage":"` + k.message + `"`
	}
	return fmt.Sprintf(`"taskId":%q,"status":%q,"createdAt":%q,"lastUpdatedAt":%q,"ttlMs":%s,"pollIntervalMs":%d%s`, k.id, k.status,
		k.born.UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339), ttl, 200+300*(k.plan.n%5), message)
}

func (s *modernSim) stateLocked(k *simTask, kind string) string {
	if k.gone {
		return ""
	}
	b := "{" + kind + s.headLocked(k)
	if kind != "" {
		b = `{"resultType":"` + kind + `",` + s.headLocked(k)
	}
	switch k.status {
	case translate.Completed:
		b += `,"result":` + k.plan.result()
	case translate.Failed:
		b += `,"error":` + k.plan.rpcError()
	case translate.InputRequired:
		var entries []string
		for _, name := range slices.Sorted(maps.Keys(k.keys)) {
			entries = append(entries, `"`+name+`":{`+simKey{name, k.keys[name].kind}.request(k.keys[name].id)+`}`)
		}
		b += `,"inputRequests":{` + strings.Join(entries, ",") + `}`
	}
	return b + "}"
}

// pushLocked tells the listen streams; like every say but under the lock.
func (s *modernSim) pushLocked(k *simTask) {
	state := s.stateLocked(k, "")
	for x, l := range s.listens {
		if l.ids[k.id] && state != "" {
			raw := `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + l.sub + `},` + state[1:] + `}`
			x.ch <- fakeEvent{msg: mustDecode(raw)}
		}
	}
}

func (s *modernSim) update(x *simExchange, k *simTask) {
	r := s.draw("update" + k.id)
	if !x.wait(moments(r, 200*time.Millisecond)) {
		return
	}
	fail := 0
	if !s.isCalm() {
		fail = r.IntN(12)
	}
	for name, v := range x.msg.At("params", "inputResponses").Members() {
		s.mu.Lock()
		q := s.asked[taskQID(k.plan, name)]
		s.mu.Unlock()
		switch {
		case q == nil:
			s.wrong("tasks/update with %s, which nobody asked", name)
			continue
		case !q.acked.IsZero() && q.acked.Before(x.at):
			s.wrong("%s was answered again after the acknowledgement", q.id)
		case fail == 1:
			s.mu.Lock()
			q.rejected++
			s.mu.Unlock()
			continue
		}
		s.took(q, string(v.Raw()))
	}
	if fail == 1 {
		x.error(200, -32603, "not now")
		return
	}
	select {
	case k.news <- struct{}{}:
	default:
	}
	if fail == 2 {
		x.lose("broken")
		return
	}
	s.mu.Lock()
	for name := range x.msg.At("params", "inputResponses").Members() {
		if q := s.asked[taskQID(k.plan, name)]; q != nil && q.acked.IsZero() {
			q.acked = time.Now()
		}
	}
	gone := k.gone
	s.mu.Unlock()
	if gone {
		x.error(200, -32602, "no such task")
		return
	}
	x.result(`{"resultType":"complete"}`)
}

func (s *modernSim) cancel(x *simExchange, k *simTask) {
	r := s.draw("cancel" + k.id)
	if !x.wait(moments(r, 300*time.Millisecond)) {
		return
	}
	s.mu.Lock()
	k.plan.cancels++
	gone, mode := k.gone, k.plan.cancel
	s.mu.Unlock()
	if gone {
		x.error(200, -32602, "no such task")
		return
	}
	stop := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !translate.Terminal(k.status) && !k.gone {
			k.status = translate.Cancelled
			k.plan.ended = time.Now()
			s.overLocked(k)
			clear(k.keys)
			close(k.dead)
			s.pushLocked(k)
		}
	}
	switch mode {
	case "honour":
		stop()
	case "late":
		time.AfterFunc(700*time.Millisecond, stop)
	}
	x.result(`{"resultType":"complete"}`)
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
