package session_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// refetch answers what the proxy asks once more because it has forgotten how
// a task ended: eviction costs a round trip, never a task. Only where a
// scenario runs with two runners or a forgetful one, and only ends of tasks.
func (s *stage) refetch() {
	if s.form == "one" {
		return
	}
	for more := true; more; {
		more = false
		for _, e := range s.pendingUps() {
			if old := s.ends[asked(e)]; old != nil {
				s.say(e, old)
				more = true
			}
		}
	}
}

// say answers an exchange with an answer another one got.
func (s *stage) say(e *fakeExchange, old *jsonrpc.Message) {
	e.matched = true
	id, _ := parseTree(e.msg.ID.Raw())
	v, _ := parseTree(old.Raw)
	v.(*jobj).set("id", id)
	s.tell(e, fakeEvent{env: &translate.Envelope{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}}},
		fakeEvent{msg: s.decode(appendTree(nil, v))}, fakeEvent{end: true})
}

// asked names a request about a task, whatever its id.
func asked(e *fakeExchange) string {
	if e.msg == nil {
		return ""
	}
	id, _ := e.msg.At("params", "taskId").Str()
	switch e.msg.Method {
	case "tasks/get", "tasks/cancel": // a legacy server answers both with the task
		return "tasks/get " + id
	case "tasks/result":
		return "tasks/result " + id
	}
	return ""
}

// learn remembers how a task ended.
func (s *stage) learn(e *fakeExchange, m *jsonrpc.Message) {
	status, _ := m.Result().Get("status").Str()
	if key := asked(e); key != "" && (translate.Terminal(status) || e.msg.Method == "tasks/result") {
		s.ends[key] = m
	}
}

// quiet fails on anything said that no step has taken; -update takes it.
func (s *stage) quiet() {
	synctest.Wait()
	s.refetch()
	if !*update {
		if text := s.pendingText(); strings.HasPrefix(text, "pending") {
			s.fatalf("the proxy said more than the steps before this one took")
		}
		return
	}
	for s.takeAll() {
		synctest.Wait()
	}
}

// takeAll makes steps of all that is pending and says whether anything was.
func (s *stage) takeAll() (any bool) {
	for _, e := range s.pendingUps() {
		any = true
		st := &step{title: "server-out", verb: "server-out"}
		if e.out.Verb != http.MethodPost {
			st.setOpt("verb", e.out.Verb)
		}
		s.rewrite(st, s.answersTo(e), e.out.Msg)
		s.took(st, e)
		s.written = append(s.written, st)
	}
	for _, c := range s.order {
		for _, o := range c.pending() {
			any = true
			c.taken++
			st := &step{title: "client-out", verb: "client-out", name: c.name}
			var id jsonrpc.ID
			if c.msg != nil {
				id = c.msg.ID
			}
			s.rewrite(st, id, o.Raw)
			s.rewriteOut(st, c, o)
			s.written = append(s.written, st)
		}
	}
	return any
}

// end compares what is left with what may be.
func (s *stage) end(st *step) {
	var streams, exchanges []string
	for _, c := range s.order {
		c.mu.Lock()
		if !c.done && !c.gone {
			streams = append(streams, c.name)
		}
		c.mu.Unlock()
	}
	s.server.mu.Lock()
	for _, e := range s.server.exchanges {
		if !e.ended && !e.isClosed() {
			exchanges = append(exchanges, e.name)
		}
	}
	s.server.mu.Unlock()
	s.left(st, "streams", strings.Join(streams, " "))
	s.left(st, "exchanges", strings.Join(exchanges, " "))
	s.left(st, "store", strings.Join(s.kinds(), " "))
	s.metrics.mu.Lock()
	losses, drops := counts(s.metrics.losses), counts(s.metrics.drops)
	s.metrics.mu.Unlock()
	s.left(st, "losses", losses)
	s.left(st, "drops", drops)
}

func counts(m map[string]int) string {
	var list []string
	for k, n := range m {
		list = append(list, fmt.Sprintf("%s×%d", k, n))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func (s *stage) left(st *step, key, got string) {
	if *update {
		if got == "" {
			st.setOpt(key)
		} else {
			st.setOpt(key, got)
		}
		return
	}
	if got != st.opt(key) {
		s.fatalf("%s left: %q, want %q", key, got, st.opt(key))
	}
}

// kinds of the records in the store, but for counters, each once.
func (s *stage) kinds() []string {
	var kinds []string
	after := ""
	for {
		list, err := s.store.List(s.ctx, "", after, 0)
		if err != nil {
			s.fatalf("%v", err)
		}
		if len(list) == 0 {
			break
		}
		for _, e := range list {
			after = e.Key
			kind, rest, _ := strings.Cut(e.Key, "/")
			switch kind {
			case "seq", "askseq":
				continue
			case "count":
				if s.step == nil && string(e.Value) != "0" {
					s.t.Errorf("%s is still %s", e.Key, e.Value)
				}
				continue
			case "op":
				kind += "/" + session.OpID(rest).Kind()
				if kind == "op/lwatch" && s.server.noListen && s.step != nil {
					continue // remembers for a while that listening was refused
				}
			case "wake":
				if _, err := s.store.Get(s.ctx, "op/"+rest); err != nil {
					s.t.Errorf("timer of an operation that is gone: %s", rest)
				}
				continue
			}
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// leave lets everybody go and days pass: nothing but counters may stay.
func (s *stage) leave() {
	s.server.mu.Lock()
	s.server.drain = true
	all := slices.Clone(s.server.exchanges)
	s.server.mu.Unlock()
	for _, c := range s.order {
		c.cancel()
	}
	synctest.Wait()
	for _, e := range all {
		if !e.ended && !e.isClosed() {
			e.events <- fakeEvent{err: dialError("broken")}
		}
	}
	for range 40 {
		time.Sleep(2 * time.Hour)
		synctest.Wait()
	}
	if kinds := s.kinds(); len(kinds) > 0 && s.sc.leaks() == "" {
		s.t.Errorf("left in the store for ever: %v", kinds)
	}
}

// leaks is what a scenario says stays for ever, with a reason.
func (sc *scenario) leaks() string {
	for line := range strings.Lines(sc.comment) {
		if k, v := cut(line); k == "Leaks" {
			return v
		}
	}
	return ""
}
