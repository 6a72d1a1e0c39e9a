package session_test

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"testing/synctest"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

func (s *stage) serverOut(st *step) bool {
	synctest.Wait()
	var first *fakeExchange
	var why string
	for _, e := range s.pendingUps() {
		if v := st.opt("verb"); v != e.out.Verb && (v != "" || e.out.Verb != http.MethodPost) {
			continue
		}
		if e.msg != nil && first != nil && !sameMethod(st.body, e.method()) {
			continue
		}
		if w := s.compare(st, s.answersTo(e), e.out.Msg); w != "" {
			if first == nil || sameMethod(st.body, e.method()) {
				first, why = e, w
			}
			continue
		}
		s.took(st, e)
		return true
	}
	if *update {
		if first == nil {
			return false
		}
		s.rewrite(st, s.answersTo(first), first.out.Msg)
		s.took(st, first)
		return true
	}
	if first == nil {
		s.fatalf("nothing of the kind went to the server")
	}
	s.fatalf("%s", why)
	return false
}

// answersTo: an answer of ours to the server shows its id always.
func (s *stage) answersTo(e *fakeExchange) jsonrpc.ID { return jsonrpc.ID{} }

func sameMethod(body, method string) bool {
	return method != "" && strings.Contains(body, `"`+method+`"`)
}

// took makes e the exchange of a step and checks what must hold for each.
func (s *stage) took(st *step, e *fakeExchange) {
	if st.name == "" {
		st.name = "u" + strconv.Itoa(len(s.ups)+1)
		st.title = strings.TrimSpace("server-out " + st.name + " " + strings.Join(st.words, " "))
	}
	if s.ups[st.name] != nil {
		s.fatalf("exchange %q was there before", st.name)
	}
	e.matched, e.name = true, st.name
	s.ups[st.name], s.lastUp = e, e
	who := st.opt("principal")
	if who == "" {
		who = "A"
	}
	if e.target.Principal != session.HashPrincipal("token", who) || e.target.Credential.Get("Authorization") != "Bearer "+who {
		s.fatalf("sent as %s with %v, want %s", e.target.Principal, e.target.Credential, who)
	}
	s.rules(e)
	if v := st.opt("version"); v != "" && v != e.out.Version {
		s.fatalf("version %q, want %q", e.out.Version, v)
	}
	if v := st.opt("session"); v != "" {
		if v == "none" {
			v = ""
		}
		if why := s.vars.match(s.vars.expand(v), e.out.Session, "session"); why != "" {
			s.fatalf("%s", why)
		}
	}
	s.headers(st, e.out.Header)
	s.timely(st, e.at)
	if st.opt("manual") != "" || s.face.Era == translate.Modern {
		return
	}
	switch {
	case e.out.Verb == http.MethodDelete:
		s.tell(e, fakeEvent{env: &translate.Envelope{Status: 200}}, fakeEvent{end: true})
	case e.msg != nil && e.msg.Kind != jsonrpc.Request:
		s.tell(e, fakeEvent{env: &translate.Envelope{Status: 202}}, fakeEvent{end: true})
	}
}

// rules hold for everything that goes to a server of an era.
func (s *stage) rules(e *fakeExchange) {
	modern := translate.LooksModern(e.out.Version)
	if e.msg == nil || e.msg.Kind != jsonrpc.Request {
		return
	}
	if !modern {
		if e.out.Header.Get("Mcp-Method") != "" && s.era != s.face.Era {
			s.fatalf("a legacy server got modern headers %v", e.out.Header)
		}
		return
	}
	if s.era == translate.Modern {
		return // passed through
	}
	if e.out.Session != "" {
		s.fatalf("a modern server got a session")
	}
	// 2026-07-28 basic/patterns/mrtr, Client Requirements: a retry has an id of
	// its own.
	id := e.msg.Method + " " + e.msg.ID.Key()
	if retry := e.msg.At("params", "inputResponses").Exists() || e.msg.At("params", "requestState").Exists(); retry && s.sentIDs[id] {
		s.fatalf("a retry has the id %s of another request", e.msg.ID)
	}
	s.sentIDs[id] = true
	if got := e.out.Header.Get("Mcp-Method"); got != e.msg.Method {
		s.fatalf("Mcp-Method %q, want %q", got, e.msg.Method)
	}
	name := ""
	if key := translate.NameMember(e.msg.Method); key != "" {
		name, _ = e.msg.At("params", key).Str()
	}
	if got := e.out.Header.Get("Mcp-Name"); got != name {
		s.fatalf("Mcp-Name %q, want %q", got, name)
	}
}

func (s *stage) tell(e *fakeExchange, events ...fakeEvent) {
	for _, ev := range events {
		if ev.env != nil {
			e.opened = true
		}
		if ev.end || ev.err != nil {
			e.ended = true
		}
		e.events <- ev
	}
	synctest.Wait()
}

func (s *stage) serverIn(st *step) {
	e := s.exchange(st.name)
	s.moving()
	if fail := st.opt("fail"); fail != "" {
		s.tell(e, fakeEvent{err: dialError(fail)})
		return
	}
	var m *jsonrpc.Message
	if st.body != "" {
		var id []byte
		if e.msg != nil {
			id = e.msg.ID.Raw()
		}
		raw := s.message(st.body, id)
		s.lastSaid = bytes.Clone(raw)
		m = s.decode(raw)
	}
	final := m != nil && (m.Kind == jsonrpc.Response || m.Kind == jsonrpc.ErrorResponse)
	if !e.opened {
		env := &translate.Envelope{Status: 200, Header: headerOf(st.opts["header"])}
		if v := st.opt("status"); v != "" {
			env.Status, _ = strconv.Atoi(v)
		}
		switch {
		case st.opt("sse") != "", m != nil && !final:
			env.Header.Set("Content-Type", "text/event-stream")
		case m != nil:
			env.Header.Set("Content-Type", "application/json")
		}
		for k, v := range env.Header {
			for i := range v {
				env.Header[k][i] = s.vars.text(v[i])
			}
		}
		s.tell(e, fakeEvent{env: env})
	}
	if m != nil {
		if final {
			s.learn(e, m)
		}
		s.tell(e, fakeEvent{msg: m})
	}
	if final || st.opt("end") != "" || m == nil && st.opt("sse") == "" {
		if !e.ended && !(final && st.opt("more") != "") {
			s.tell(e, fakeEvent{end: true})
		}
	}
}
