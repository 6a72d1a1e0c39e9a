package session_test

import (
	"fmt"
	"strings"
	"time"

	"taskbridge/translate"
)

// ask puts a round's questions and waits for all answers.
func (s *legacySim) ask(w *simWork, r simRound) bool {
	s.mu.Lock()
	if translate.Terminal(w.status) {
		s.mu.Unlock()
		return false
	}
	for _, k := range r.keys {
		s.asks++
		q := &simAsked{id: fmt.Sprintf("sq-%d", s.asks), qid: fmt.Sprintf("T%d/%s", w.plan.n, k.name), work: w, kind: k.kind, got: make(chan struct{})}
		q.raw = fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,%s}`, q.id, k.request(q.qid))
		s.asked[q.id], s.qids[q.qid] = q, q
		w.open = append(w.open, q)
	}
	if w.id != "" && !s.silent {
		w.status = translate.InputRequired
	}
	mine := w.open
	s.mu.Unlock()
	s.flush(w.sess)
	var late <-chan time.Time
	if r.vanish > 0 {
		late = time.After(r.vanish)
	}
	for _, q := range mine {
		select {
		case <-q.got:
		case <-late:
			s.withdraw(w)
		case <-w.dead:
			return false
		case <-s.ctx.Done():
			return false
		}
	}
	s.mu.Lock()
	for _, q := range w.open {
		if q.over.IsZero() {
			q.over = time.Now()
		}
	}
	w.open = nil
	if w.status == translate.InputRequired {
		w.status = translate.Working
	}
	s.mu.Unlock()
	return true
}

// withdraw takes questions back; the rest of the round goes on without them.
func (s *legacySim) withdraw(w *simWork) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range w.open {
		if q.answers == 0 && q.over.IsZero() {
			q.over = time.Now()
			if q.on != nil && q.on.ctx.Err() == nil {
				q.told = time.Now()
				s.trace = append(s.trace, s.at()+"    server withdraws "+q.qid)
				q.on.ch <- fakeEvent{msg: mustDecode(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`, q.id))}
			}
			close(q.got)
		}
	}
}

// flush sends what is asked and not sent yet on a stream that is open.
func (s *legacySim) flush(sess *simSession) {
	r := s.draw("flush")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.tasks {
		if w.sess == sess {
			s.flushLocked(w, in(r, 3))
		}
	}
	for _, w := range s.running {
		if w.sess == sess {
			s.flushLocked(w, in(r, 3))
		}
	}
}

func (s *legacySim) flushLocked(w *simWork, onGet bool) {
	for _, q := range w.open {
		if q.on != nil && q.on.ctx.Err() == nil || q.answers > 0 || !q.over.IsZero() {
			continue
		}
		raw := q.raw
		switch {
		case w.id == "" && (!onGet || w.sess.get == nil):
			q.on = w.x
		case w.id != "" && len(w.results) > 0 && (!onGet || w.sess.get == nil):
			q.on = w.results[0]
			if w.plan.n%2 == 0 {
				raw = tagged(raw, w.id)
			}
		case w.sess.get != nil && (w.id != "" || s.noneElse(w)):
			q.on = w.sess.get
			if w.id != "" {
				raw = tagged(raw, w.id)
			}
		case w.id == "":
			q.on = w.x
		default:
			continue
		}
		s.trace = append(s.trace, s.at()+"    server asks "+raw)
		q.on.ch <- fakeEvent{msg: mustDecode(raw)}
	}
}

// noneElse: nothing else of the session is at work, so a question without a
// tag on the GET stream can only be this call's.
func (s *legacySim) noneElse(w *simWork) bool {
	for _, o := range s.running {
		if o != w && o.sess == w.sess && o.status == "" {
			return false
		}
	}
	for _, o := range s.tasks {
		if o.sess == w.sess && !translate.Terminal(o.status) {
			return false
		}
	}
	return true
}

func tagged(raw, id string) string {
	return strings.Replace(raw, `"params":{`, `"params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}},`, 1)
}

// endLocked ends work once.
func (s *legacySim) endLocked(w *simWork, status string) {
	if translate.Terminal(w.status) {
		return
	}
	w.status = status
	w.plan.ended = time.Now()
	s.trace = append(s.trace, s.at()+fmt.Sprintf("    call %d %s is %s", w.plan.n, w.id, status))
	for _, q := range w.open {
		if q.over.IsZero() {
			q.over = time.Now()
		}
	}
	close(w.dead)
	for _, x := range w.results {
		s.payLocked(w, x)
	}
	w.results = nil
}

func (s *legacySim) task(w *simWork) string { s.mu.Lock(); defer s.mu.Unlock(); return s.taskLocked(w) }

func (s *legacySim) taskLocked(w *simWork) string {
	return fmt.Sprintf(`{"taskId":%q,"status":%q,"createdAt":%q,"lastUpdatedAt":%q,"ttl":null,"pollInterval":%d}`, w.id, w.status,
		w.born.UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339), 200+300*(w.plan.n%5))
}

// payLocked answers a tasks/result.
func (s *legacySim) payLocked(w *simWork, x *simExchange) {
	body := x.answer("result", `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+w.id+`"}},`+w.plan.result()[1:])
	switch {
	case w.status == translate.Cancelled:
		body = x.answer("error", `{"code":-32603,"message":"cancelled"}`)
	case w.plan.end == "error":
		body = x.answer("error", w.plan.rpcError())
	}
	x.ch <- fakeEvent{msg: mustDecode(body)}
	x.ch <- fakeEvent{end: true}
}
