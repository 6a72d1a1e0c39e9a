package session_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// legacySim is a simulated legacy server: sessions, calls that ask while they
// run, and tasks.
type legacySim struct {
	*sim
	plans    map[int]*simPlan
	tasks    map[string]*simWork
	running  map[string]*simWork // by session and request id
	sessions map[string]*simSession
	asked    map[string]*simAsked // by our request id
	qids     map[string]*simAsked
	asks     int
	noGet    bool // GET is 405
	bound    bool // tasks are known in their session only
	silent   bool // tasks never say input_required
	noCancel bool // no tasks/cancel
	loses    int  // one in so many requests comes to a lost session
	moodyIn  int
}

type simSession struct {
	id, who string
	get     *simExchange
	gone    bool
}

// simWork is a call or a task at work.
type simWork struct {
	plan    *simPlan
	id      string // of a task
	sess    *simSession
	x       *simExchange // of a call
	results []*simExchange
	status  string
	born    time.Time
	open    []*simAsked
	dead    chan struct{}
	ended   chan struct{}
	lost    bool
}

// simAsked is one request of the server.
type simAsked struct {
	id, qid string
	work    *simWork
	kind    string
	raw     string
	on      *simExchange
	sent    []string
	answers int
	over    time.Time
	tried   time.Time // an answer was first on its way
	told    time.Time // the proxy heard that it is withdrawn
	got     chan struct{}
}

const lostBody = `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`

func (s *legacySim) handle(x *simExchange) {
	m := x.msg
	if m != nil && m.Method == "initialize" {
		s.initialize(x)
		return
	}
	s.mu.Lock()
	sess := s.sessions[x.out.Session]
	if sess != nil && !sess.gone && s.loses > 0 && !s.calm && len(s.sessions) < 12 && x.out.Verb != http.MethodDelete {
		s.mu.Unlock()
		if in(s.draw("loses"+sess.id), s.loses) {
			s.lose(sess)
		}
		s.mu.Lock()
	}
	gone := sess == nil || sess.gone
	s.mu.Unlock()
	if gone {
		if sess == nil {
			s.wrong("a session the server never gave: %q", x.out.Session)
		}
		s.mu.Lock()
		s.troubles++
		s.mu.Unlock()
		x.begin(404, false)
		if in(s.draw("404"), 2) && m != nil {
			x.say(lostBody)
		}
		x.close()
		return
	}
	if x.as != session.HashPrincipal("token", sess.who) {
		s.wrong("%s's session is used by somebody else", sess.who)
	}
	switch {
	case x.out.Verb == http.MethodGet:
		s.get(x, sess)
	case x.out.Verb == http.MethodDelete:
		s.mu.Lock()
		sess.gone = true
		s.mu.Unlock()
		x.status(200)
	case m.Kind == jsonrpc.Response || m.Kind == jsonrpc.ErrorResponse:
		s.answer(x, m)
	case m.Method == "notifications/cancelled":
		s.mu.Lock()
		if w := s.running[sess.id+" "+string(m.At("params", "requestId").Raw())]; w != nil {
			w.plan.stopped = true
			s.endLocked(w, translate.Cancelled)
		}
		s.mu.Unlock()
		x.status(202)
	case m.Kind == jsonrpc.Notification:
		x.status(202)
	case m.Method == "tools/list":
		if !x.trouble(s.draw("tools/list"), s.moodyIn) {
			x.result(`{"tools":[{"name":"opt","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},` +
				`{"name":"req","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"plain","inputSchema":{"type":"object"}}]}`)
		}
	case m.Method == "tools/call":
		s.call(x, sess)
	case strings.HasPrefix(m.Method, "tasks/"):
		s.about(x, sess)
	default:
		s.wrong("unexpected upstream: %s", m.Raw)
		x.error(200, -32601, "method not found")
	}
}

func (s *legacySim) initialize(x *simExchange) {
	s.mu.Lock()
	who := ""
	for _, w := range []string{"A", "B"} {
		if x.as == session.HashPrincipal("token", w) {
			who = w
		}
	}
	sess := &simSession{id: fmt.Sprintf("s-%d", len(s.sessions)+1), who: who}
	s.sessions[sess.id] = sess
	s.mu.Unlock()
	cancel := `"cancel":{},`
	if s.noCancel {
		cancel = ""
	}
	x.begin(200, false, "Mcp-Session-Id: "+sess.id)
	x.say(x.answer("result", `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{`+cancel+`"list":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}`))
	x.close()
}

// lose forgets a session and what hangs on it.
func (s *legacySim) lose(sess *simSession) {
	s.note("    the server loses session %s", sess.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	sess.gone = true
	s.troubles++
	if sess.get != nil {
		sess.get.ch <- fakeEvent{err: dialError("broken")}
		sess.get = nil
	}
	for _, w := range s.running {
		if w.sess == sess && w.status == "" {
			w.lost = true
			s.endLocked(w, translate.Cancelled)
			w.x.ch <- fakeEvent{err: dialError("broken")}
		}
	}
	for _, w := range s.tasks {
		if w.sess == sess {
			for _, x := range w.results {
				x.ch <- fakeEvent{err: dialError("broken")}
			}
			w.results = nil
			if s.bound {
				w.lost = true
				s.endLocked(w, translate.Cancelled)
			}
		}
	}
}

func (s *legacySim) get(x *simExchange, sess *simSession) {
	if s.noGet {
		x.begin(405, false)
		x.close()
		return
	}
	x.begin(200, true)
	s.mu.Lock()
	sess.get = x
	s.mu.Unlock()
	s.flush(sess)
	d := 1000 * time.Hour
	if in(s.draw("get"), 3) && !s.isCalm() {
		d = 1 + moments(s.draw("get"), 5*time.Second)
	}
	lost := x.wait(d)
	s.mu.Lock()
	if sess.get == x {
		sess.get = nil
	}
	s.mu.Unlock()
	if lost {
		x.lose("broken")
	}
}

// answer takes a client's answer to a request of the server.
func (s *legacySim) answer(x *simExchange, m *jsonrpc.Message) {
	id := strings.Trim(string(m.ID.Raw()), `"`)
	s.mu.Lock()
	q := s.asked[id]
	if q != nil && q.tried.IsZero() {
		q.tried = x.at
	}
	s.mu.Unlock()
	if x.trouble(s.draw("answer"), s.moodyIn) {
		return
	}
	s.mu.Lock()
	bad := func(format string, args ...any) {
		s.wrongLocked(s.at() + fmt.Sprintf(format, args...))
	}
	switch {
	case q == nil:
		bad("an answer to what the server never asked: %s", m.Raw)
	case q.answers > 0:
		bad("%s is answered twice: %s", q.qid, m.Raw)
	case !q.told.IsZero() && q.told.Before(q.tried) && m.Kind == jsonrpc.Response && !q.on.closed.Equal(q.told): // else its stream was closed before it was read
		bad("%s is answered after it was withdrawn or over: %s", q.qid, m.Raw)
	}
	if q != nil {
		q.answers++
		known := m.Kind == jsonrpc.ErrorResponse || strings.Contains(string(m.Raw), `"cancel"`)
		for _, v := range q.sent {
			known = known || strings.Contains(string(m.Raw), v)
		}
		if !known {
			bad("%s got an answer no client gave: %s", q.qid, m.Raw)
		}
		if m.Kind == jsonrpc.ErrorResponse && q.work.plan.able && !strings.Contains(string(m.Raw), "in time") && !translate.Terminal(q.work.status) && q.work.plan.dropped.IsZero() {
			bad("%s got an error although the client can be asked: %s", q.qid, m.Raw)
		}
		related := translate.RelatedTask(m.Result())
		if m.Kind == jsonrpc.Response && q.work.id != "" && related != q.work.id {
			bad("the answer to %s is related to %q", q.qid, related)
		}
		if q.over.IsZero() {
			q.over = time.Now()
			close(q.got)
		}
	}
	s.mu.Unlock()
	x.status(202)
}

func (s *legacySim) call(x *simExchange, sess *simSession) {
	n := callNumber(x.msg)
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
	asTask := x.msg.At("params", "task").Exists()
	name, _ := x.msg.At("params", "name").Str()
	if name == "req" && !asTask {
		x.error(200, -32601, "tool req needs task augmentation")
		return
	}
	if name == "plain" && asTask {
		s.wrong("a tool that is no task was called as one")
	}
	w := &simWork{plan: p, sess: sess, dead: make(chan struct{}), ended: make(chan struct{}), born: time.Now()}
	s.mu.Lock()
	p.started++
	if p.started > 1 {
		s.wrongLocked(s.at() + fmt.Sprintf("call %d is run %d times", n, p.started))
	}
	if asTask {
		w.id, w.status = fmt.Sprintf("task-%d", n), translate.Working
		s.tasks[w.id] = w
	} else {
		w.x = x
		s.running[sess.id+" "+string(x.msg.ID.Raw())] = w
	}
	s.mu.Unlock()
	if asTask {
		if !x.wait(p.delay % time.Second) {
			return
		}
		switch p.kind {
		case "broken", "lost":
			x.lose("broken")
		case "500":
			x.status(500)
		case "error":
			x.begin(200, false)
			x.say(x.answer("error", p.rpcError()))
			x.close()
		default:
			s.wg.Go(func() { s.work(w) })
			x.result(`{"task":` + s.task(w) + `}`)
		}
		return
	}
	x.begin(200, true)
	s.wg.Go(func() { s.work(w) })
	select {
	case <-w.ended:
	case <-x.done:
		return
	}
	s.mu.Lock()
	lost, stopped := w.lost, p.stopped
	s.mu.Unlock()
	switch {
	case lost:
	case stopped:
		x.close() // a cancelled request has no answer
	case p.kind == "broken" || p.kind == "lost" || p.kind == "500":
		x.lose("broken")
	case p.end == "error" || p.kind == "error":
		x.say(x.answer("error", p.rpcError()))
		x.close()
	default:
		x.say(x.answer("result", p.result()))
		x.close()
	}
}

// work runs a call or task: its questions, its time, its end.
func (s *legacySim) work(w *simWork) {
	defer close(w.ended)
	rounds := w.plan.rounds
	if w.id == "" {
		rounds = append(rounds[:len(rounds):len(rounds)], w.plan.early...)
	}
	for _, r := range rounds {
		if !s.sleep(r.after, w.dead) || !s.ask(w, r) {
			return
		}
	}
	d := w.plan.work
	if w.plan.end == "never" {
		d = 200 * time.Second
		if w.id != "" {
			d = 1000 * time.Hour
		}
	}
	if !s.sleep(d, w.dead) {
		return
	}
	s.mu.Lock()
	s.endLocked(w, map[string]string{"ok": translate.Completed, "isError": []string{translate.Completed, translate.Failed}[w.plan.n%2],
		"error": translate.Failed, "cancelled": translate.Cancelled, "never": translate.Completed}[w.plan.end])
	s.mu.Unlock()
	if sess := w.sess; w.id != "" && in(s.draw("status"), 2) {
		s.mu.Lock()
		if sess.get != nil && !sess.gone {
			sess.get.ch <- fakeEvent{msg: mustDecode(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":` + s.taskLocked(w) + `}`)}
		}
		s.mu.Unlock()
	}
}

func (s *legacySim) about(x *simExchange, sess *simSession) {
	id, _ := x.msg.At("params", "taskId").Str()
	r := s.draw(x.msg.Method + id)
	s.mu.Lock()
	w := s.tasks[id]
	known := w != nil && !w.lost && (!s.bound || w.sess == sess) && w.plan.who == sess.who
	if known && !s.bound && w.sess.gone {
		w.sess = sess // the task lives on in the session that asks for it
	}
	s.mu.Unlock()
	if w == nil {
		s.wrong("%s of a task that never was: %q", x.msg.Method, id)
	}
	if x.trouble(r, s.moodyIn) {
		return
	}
	if !known {
		x.error(200, -32602, "unknown task")
		return
	}
	if !x.wait(moments(r, 200*time.Millisecond)) {
		return
	}
	switch x.msg.Method {
	case "tasks/get":
		x.result(s.task(w))
	case "tasks/cancel":
		s.mu.Lock()
		w.plan.cancels++
		refused := translate.Terminal(w.status)
		if !refused && w.plan.cancel != "ignore" {
			s.endLocked(w, translate.Cancelled)
		}
		s.mu.Unlock()
		switch {
		case s.noCancel:
			x.error(200, -32601, "no such method")
		case refused:
			x.error(200, -32602, "the task has ended")
		default:
			x.result(s.task(w))
		}
	case "tasks/result":
		x.begin(200, true)
		s.mu.Lock()
		if translate.Terminal(w.status) {
			s.payLocked(w, x)
			s.mu.Unlock()
			return
		}
		w.results = append(w.results, x)
		s.flushLocked(w, false)
		s.mu.Unlock()
		d := 1000 * time.Hour
		if in(r, 3) && !s.isCalm() {
			d = 1 + moments(r, 5*time.Second)
		}
		if x.m.sleep(d, x.done) {
			s.mu.Lock()
			there := false
			for i, o := range w.results {
				if o == x {
					w.results, there = append(w.results[:i], w.results[i+1:]...), true
					break
				}
			}
			s.mu.Unlock()
			if there {
				x.lose("broken")
			}
			return
		}
		s.mu.Lock()
		for i, o := range w.results {
			if o == x {
				w.results = append(w.results[:i], w.results[i+1:]...)
				break
			}
		}
		s.mu.Unlock()
	default:
		s.wrong("unexpected upstream: %s", x.msg.Raw)
		x.error(200, -32601, "method not found")
	}
}
