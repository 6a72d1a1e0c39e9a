package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// message makes the bytes of a scripted message. id is what a response
// answers, nil for none. What is written whole goes as it is written.
func (s *stage) message(body string, id []byte) []byte {
	if strings.Contains(body, `"jsonrpc"`) && !strings.Contains(body, "$") {
		return []byte(body)
	}
	v, err := parseTree([]byte(body))
	if err != nil {
		s.fatalf("message: %v\n%s", err, body)
	}
	o, ok := s.vars.expand(v).(*jobj)
	if !ok {
		s.fatalf("message: want an object")
	}
	full := &jobj{}
	full.set("jsonrpc", "2.0")
	if _, ok := o.vals["id"]; !ok && id != nil && (o.vals["result"] != nil || o.vals["error"] != nil) {
		full.set("id", json.Number(id))
	}
	for _, k := range o.keys {
		full.set(k, o.vals[k])
	}
	return appendTree(nil, full)
}

func (s *stage) decode(raw []byte) *jsonrpc.Message {
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil {
		s.fatalf("%v: %s", err, raw)
	}
	return m
}

func (s *stage) clientIn(st *step) {
	s.moving()
	name := st.name
	if name == "" {
		name = "r" + strconv.Itoa(len(s.order)+1)
		st.name, st.title = name, "client-in "+name
	}
	who := st.opt("principal")
	if who == "" {
		who = "A"
	}
	in := session.Inbound{
		Caller: session.Caller{Principal: session.HashPrincipal("token", who), Era: s.era, Version: translate.LatestLegacy,
			Credential: http.Header{"Authorization": {"Bearer " + who}}, Open: st.opt("open") != "", Header: headerOf(st.opts["header"])},
		Frame: translate.Frame{Leg: translate.ClientLeg, Dir: translate.ToServer, Time: time.Now(), HTTP: &translate.Envelope{Verb: http.MethodPost}},
	}
	if e := st.opt("era"); e == "modern" || e == "" && s.era == translate.Modern {
		in.Caller.Era, in.Caller.Version = translate.Modern, translate.LatestModern
		if v := st.opt("version"); v != "" {
			in.Caller.Version = v
		}
	}
	c := &fakeClient{name: name}
	if st.body != "" {
		raw := s.message(st.body, nil)
		s.lastIn = bytes.Clone(raw)
		c.msg = s.decode(raw)
		in.Frame.Msg = c.msg
	}
	if v := st.opt("verb"); v != "" {
		in.Frame.HTTP.Verb = v
	}
	if in.Caller.Era == translate.Legacy && (c.msg == nil || c.msg.Method != "initialize") {
		want := st.opt("session")
		if want == "" {
			want = "$SESSION"
		}
		if want != "none" {
			in.Caller.Session, _ = s.vars.expand(want).(string)
		}
	}
	runner := s.runners[s.turn%len(s.runners)]
	s.turn++
	c.stream = runner.NewStream()
	ctx, cancel := context.WithCancel(s.ctx)
	c.cancel = cancel
	s.clients[name] = c
	s.order = append(s.order, c)
	go c.read(ctx)
	runner.Client(ctx, in, c.stream)
	synctest.Wait()
	// Responses and notifications are accepted without a word.
	if c.msg != nil && c.msg.Kind != jsonrpc.Request && st.opt("manual") == "" {
		outs := c.pending()
		if len(outs) == 1 && outs[0].Final && outs[0].Status == 202 && outs[0].Raw == nil {
			c.taken++
		}
	}
}

func (s *stage) clientGone(st *step) {
	s.moving()
	c := s.clients[st.name]
	if c == nil {
		s.fatalf("no client stream %q", st.name)
	}
	c.gone = true
	c.cancel()
	synctest.Wait()
}

func (s *stage) exchange(name string) *fakeExchange {
	if name == "" {
		if s.lastUp == nil {
			s.fatalf("no exchange yet")
		}
		return s.lastUp
	}
	e := s.ups[name]
	if e == nil {
		s.fatalf("no exchange %q", name)
	}
	return e
}

// wanted reads a section's message, completed by what messages share.
func (s *stage) wanted(body string, id jsonrpc.ID, got *jsonrpc.Message) any {
	v, err := parseTree([]byte(body))
	if err != nil {
		s.fatalf("message: %v\n%s", err, body)
	}
	o, ok := s.vars.expand(v).(*jobj)
	if !ok {
		return v
	}
	o.set("jsonrpc", "2.0")
	_, hasID := o.vals["id"]
	method, _ := o.vals["method"].(string)
	switch {
	case hasID:
	case method != "" && !strings.HasPrefix(method, "notifications/"):
		if got != nil && got.Kind == jsonrpc.Request {
			o.set("id", "$ANY")
		}
	case method == "" && !id.IsZero():
		idv, err := parseTree(id.Raw())
		if err != nil {
			s.fatalf("id: %v", err)
		}
		o.set("id", idv)
	case method == "" && got != nil && !got.ID.IsZero():
		o.set("id", "$ANY")
	}
	return o
}

// compare says why raw is not what the section wants; binds names when it is.
func (s *stage) compare(st *step, id jsonrpc.ID, raw []byte) string {
	if st.opt("bytes") == "same" {
		want := s.lastIn
		if st.verb == "client-out" {
			want = s.lastSaid
		}
		if !bytes.Equal(want, raw) {
			return fmt.Sprintf("bytes differ:\n want %s\n  got %s", want, raw)
		}
		return ""
	}
	if len(raw) == 0 || st.body == "" {
		if (len(raw) == 0) != (st.body == "") {
			return fmt.Sprintf("want %q, got %q", st.body, raw)
		}
		return ""
	}
	got, err := parseTree(raw)
	if err != nil {
		return err.Error()
	}
	try := s.vars.clone()
	if why := try.match(s.wanted(st.body, id, s.decode(raw)), got, "message"); why != "" {
		return why + "\n  got " + string(raw)
	}
	s.vars = try
	return ""
}

// rewrite puts what came into the section, for -update.
func (s *stage) rewrite(st *step, id jsonrpc.ID, raw []byte) {
	if st.opt("bytes") == "same" {
		st.setOpt("bytes")
	}
	if len(raw) == 0 {
		st.body = ""
		return
	}
	v, err := parseTree(raw)
	if err != nil {
		s.fatalf("%v", err)
	}
	named := ""
	if want, err := parseTree([]byte(st.body)); err == nil {
		s.vars.bind(want, v)
		if o, ok := want.(*jobj); ok {
			named, _ = o.vals["id"].(string)
		}
	}
	o := s.vars.template(v, s.fixed).(*jobj)
	o.del("jsonrpc")
	m := s.decode(raw)
	switch {
	case m.Kind == jsonrpc.Request && isVar(named):
		o.set("id", named)
	case m.Kind == jsonrpc.Request && st.verb == "client-out":
		for n := 1; ; n++ {
			name := "Q" + strconv.Itoa(n)
			if _, ok := s.vars[name]; !ok {
				idv, _ := parseTree(m.ID.Raw())
				s.vars[name] = idv
				o.set("id", "$"+name)
				break
			}
		}
	case m.Kind == jsonrpc.Request, !id.IsZero() && m.ID.Key() == id.Key():
		o.del("id")
	}
	st.body = string(pretty(nil, o, 0))
}

func (s *stage) clientOut(st *step) bool {
	c := s.clients[st.name]
	if c == nil && st.name == "" && len(s.order) > 0 {
		c = s.order[len(s.order)-1]
	}
	if c == nil {
		s.fatalf("no client stream %q", st.name)
	}
	synctest.Wait()
	if len(c.pending()) == 0 {
		s.refetch()
	}
	outs := c.pending()
	if st.opt("begin") != "" && c.begun && st.body == "" && !st.has("final") {
		return true
	}
	if len(outs) == 0 {
		if *update {
			return false
		}
		s.fatalf("nothing came on %s", c.name)
	}
	o := outs[0]
	c.taken++
	var id jsonrpc.ID
	if c.msg != nil {
		id = c.msg.ID
	}
	if why := s.compare(st, id, o.Raw); why != "" {
		if !*update {
			s.fatalf("%s", why)
		}
		s.rewrite(st, id, o.Raw)
	}
	if *update {
		s.rewriteOut(st, c, o)
		return true
	}
	if o.Final != st.has("final") {
		s.fatalf("final is %v", o.Final)
	}
	if status := outStatus(o); status != st.opt("status") {
		s.fatalf("status %q, want %q", status, st.opt("status"))
	}
	s.headers(st, o.Header)
	s.timely(st, o.at)
	return true
}

// outStatus is the status of a plain reply where it says something.
func outStatus(o fakeOut) string {
	if !o.first || !o.Final || o.Status == 0 || o.Status == 200 {
		return ""
	}
	return strconv.Itoa(o.Status)
}

func (s *stage) rewriteOut(st *step, c *fakeClient, o fakeOut) {
	words := []string{"client-out", c.name}
	if o.Final {
		words = append(words, "final")
		st.words = []string{"final"}
	}
	st.title, st.name = strings.Join(words, " "), c.name
	if status := outStatus(o); status != "" {
		st.setOpt("status", status)
	} else {
		st.setOpt("status")
	}
	s.headers(st, o.Header)
}

// headers compares the listed ones and binds names.
func (s *stage) headers(st *step, got http.Header) {
	for _, l := range st.opts["header"] {
		k, v := cut(l)
		if why := s.vars.match(s.vars.expand(v), got.Get(k), "header "+k); why != "" {
			s.fatalf("%s", why)
		}
	}
}

func (s *stage) timely(st *step, at time.Time) {
	want := st.opt("at")
	if want == "" {
		return
	}
	d, err := time.ParseDuration(want)
	if err != nil || at.Sub(s.since) != d {
		s.fatalf("came after %v, want %s", at.Sub(s.since), want)
	}
}
