package session_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbridge/translate"
)

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
