package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Scenarios run operations through a real Runner on a memory store under a
// virtual clock, between a scripted client and a scripted server.
//
// A scenario is a txtar file in testdata/scenarios. Its comment says why and
// cites the specification and the case. Its sections are steps, in order:
//
//	setup            client: legacy | modern; server: legacy | modern | dual;
//	                 policy: NAME VALUE; listen: yes (else our own
//	                 subscriptions/listen are refused without a step)
//	vars             lines "NAME JSON": "$NAME" stands for the value
//	include NAME     the sections of include/NAME.txtar come here
//	client-in S      a client sends a message on the new stream S
//	client-out S     the client gets it on S; "final" ends the stream
//	client-gone S    the reader of S leaves
//	server-out U     the proxy sends it upstream, as exchange U
//	server-in U      the server says it on U (or the newest exchange)
//	server-closed U  the proxy has closed U
//	wait D           time passes
//	end              what is left; nothing else may be
//
// A section begins with "key: value" lines; the message follows. Messages get
// "jsonrpc", responses the id of the request they answer; a request or answer
// of ours whose section shows no id may have any. Names are bound where they
// are met first. Whatever the proxy says must be taken by a step before the
// next client-in, server-in or wait: traffic nobody expects fails.
//
// Keys: client-in: principal (A), open, session ($SESSION), verb (POST),
// header. client-out: status, header, at (time since the last step that let
// something happen), bytes: same (as the server's last message). server-out:
// verb, header, principal, session, version, at, bytes: same (as the client's
// last message), manual (legacy servers accept notifications and answers
// with 202 by themselves otherwise). server-in: status, header, sse (an event
// stream that stays open), end, fail. All: form (only in these forms: one,
// two, forget). end: store, losses, drops, exchanges, streams.
//
// Each scenario runs in three forms: one runner; two runners on one store
// that get the client's messages by turns; one runner that forgets all but
// store, credentials and sockets before each step. After the end everybody
// leaves and days pass: the store must then hold nothing but counters.
var update = flag.Bool("update", false, "rewrite what scenarios expect")

func scenarioNames(t testing.TB) []string {
	files, err := filepath.Glob(filepath.Join(scenarioDir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".txtar"))
	}
	return names
}

func TestScenarios(t *testing.T) {
	for _, name := range scenarioNames(t) {
		t.Run(name, func(t *testing.T) { runScenario(t, name) })
	}
}

// runScenario runs one scenario in all forms.
func runScenario(t *testing.T, name string) {
	for _, form := range []string{"one", "two", "forget"} {
		t.Run(form, func(t *testing.T) {
			sc, err := loadScenario(name)
			if err != nil {
				t.Fatal(err)
			}
			if sc.skip != "" && !*update {
				t.Skip(sc.skip)
			}
			var s *stage
			synctest.Test(t, func(t *testing.T) {
				s = newStage(t, sc, form)
				s.play()
			})
			if *update && form == "one" && !t.Failed() {
				if err := sc.write(s.written); err != nil {
					t.Fatal(err)
				}
			}
			if *update {
				t.SkipNow()
			}
		})
	}
}

// stage is a scenario being played.
type stage struct {
	t       *testing.T
	sc      *scenario
	form    string
	server  *fakeServer
	store   session.Store
	runners []*session.Runner
	metrics *fakeMetrics
	face    session.Face
	policy  session.Policy
	era     translate.Era // the client's

	vars     vars
	fixed    vars                        // set by vars sections
	ends     map[string]*jsonrpc.Message // how tasks ended, by what was asked
	clients  map[string]*fakeClient
	order    []*fakeClient
	ups      map[string]*fakeExchange
	lastUp   *fakeExchange
	lastIn   []byte // newest client message, for bytes: same
	lastSaid []byte
	since    time.Time
	turn     int
	n        int
	step     *step
	ctx      context.Context
	written  []*step
	mu       sync.Mutex
}

func newStage(t *testing.T, sc *scenario, form string) *stage {
	return &stage{t: t, sc: sc, form: form, server: &fakeServer{noListen: true}, store: memory.New(), metrics: &fakeMetrics{},
		vars: vars{}, fixed: vars{}, ends: map[string]*jsonrpc.Message{}, clients: map[string]*fakeClient{}, ups: map[string]*fakeExchange{}, since: time.Now()}
}

func (s *stage) fatalf(format string, args ...any) {
	s.t.Helper()
	at := "end"
	if s.step != nil {
		at = fmt.Sprintf("step %d (%s)", s.n, s.step.title)
		if s.step.from != "" {
			at += " of " + s.step.from
		}
	}
	s.t.Fatalf("%s: %s\n%s", at, fmt.Sprintf(format, args...), s.pendingText())
}

// pendingText shows what the proxy said and no step has taken.
func (s *stage) pendingText() string {
	var b strings.Builder
	for _, e := range s.pendingUps() {
		fmt.Fprintf(&b, "  to server: %s %s %v\n", e.out.Verb, e.out.Msg, e.out.Header)
	}
	for _, c := range s.order {
		for _, o := range c.pending() {
			fmt.Fprintf(&b, "  to client on %s: %s final=%v status=%d %v\n", c.name, o.Raw, o.Final, o.Status, o.Header)
		}
	}
	if b.Len() == 0 {
		return "nothing else is pending"
	}
	return "pending:\n" + b.String()
}

func (s *stage) pendingUps() (list []*fakeExchange) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	for _, e := range s.server.exchanges {
		if !e.matched {
			list = append(list, e)
		}
	}
	return list
}

// errorLog fails the test on anything the runner logs as an error.
type errorLog struct{ t *testing.T }

func (w errorLog) Write(p []byte) (int, error) {
	if !w.t.Failed() {
		w.t.Errorf("logged: %s", p)
	}
	return len(p), nil
}

func (s *stage) start() {
	handles, err := session.NewHandles([][]byte{bytes.Repeat([]byte("k"), session.MinStateKey)})
	if err != nil {
		s.t.Fatal(err)
	}
	n := 1
	if s.form == "two" {
		n = 2
	}
	for range n {
		r, err := session.New(session.Options{Store: s.store, Dialer: s.server, Faces: fakeFaces{s.face}, Handles: handles,
			Policy: s.policy, Metrics: s.metrics,
			Logger: slog.New(slog.NewTextHandler(errorLog{s.t}, &slog.HandlerOptions{Level: slog.LevelError}))})
		if err != nil {
			s.t.Fatal(err)
		}
		s.runners = append(s.runners, r)
	}
}

func (s *stage) play() {
	ctx, cancel := context.WithCancel(s.t.Context())
	s.ctx = ctx
	defer func() {
		cancel()
		for _, r := range s.runners {
			r.Close()
		}
		s.store.Close()
		synctest.Wait()
	}()
	ended := false
	for _, st := range s.sc.steps {
		s.n++
		s.step = st
		if forms := st.opt("form"); forms != "" && !slices.Contains(strings.Fields(forms), s.form) {
			s.written = append(s.written, st)
			continue
		}
		ended = ended || st.verb == "end"
		s.do(st)
		if s.t.Failed() {
			return
		}
	}
	if !ended {
		s.step = &step{title: "end", verb: "end"}
		s.do(s.step)
	}
	s.step = nil
	s.leave()
}

func (s *stage) do(st *step) {
	switch st.verb {
	case "client-in", "client-gone", "server-in", "wait", "end":
		s.quiet()
	}
	switch st.verb {
	case "setup":
		s.setup(st)
	case "vars":
		s.define(st)
	case "client-in":
		s.clientIn(st)
	case "client-out":
		if !s.clientOut(st) {
			return
		}
	case "client-gone":
		s.clientGone(st)
	case "server-out":
		if !s.serverOut(st) {
			return
		}
	case "server-in":
		s.serverIn(st)
	case "server-closed":
		synctest.Wait()
		e := s.exchange(st.name)
		if !e.isClosed() {
			s.fatalf("the exchange is still open")
		}
		e.ended = true
	case "wait":
		d, err := time.ParseDuration(st.name)
		if err != nil {
			s.fatalf("%v", err)
		}
		s.moving()
		time.Sleep(d)
		synctest.Wait()
	case "end":
		s.end(st)
	}
	s.written = append(s.written, st)
}

// moving is called before something happens.
func (s *stage) moving() {
	if s.form == "forget" {
		for _, r := range s.runners {
			r.Forget()
		}
	}
	s.since = time.Now()
}

func (s *stage) setup(st *step) {
	switch st.opt("server") {
	case "": // policy before an include that sets the rest up
	case "modern":
		s.face = session.Face{Era: translate.Modern, Version: translate.LatestModern, Tasks: true}
	case "dual":
		s.face = session.Face{Era: translate.Modern, Version: translate.LatestModern, Dual: true, Tasks: true}
	case "legacy":
		s.face = session.Face{Era: translate.Legacy, Version: translate.LatestLegacy}
	default:
		s.fatalf("server: want legacy, modern or dual")
	}
	s.era = translate.Legacy
	if st.opt("client") == "modern" {
		s.era = translate.Modern
	}
	for _, p := range st.opts["policy"] {
		k, v, _ := strings.Cut(p, " ")
		switch k {
		case "tool-errors-completed":
			s.policy.ToolErrorsCompleted = true
		case "refuse-undeclared":
			s.policy.RefuseUndeclared = true
		case "seal-same-era":
			s.policy.SealSameEra = true
		case "page-size":
			s.policy.PageSize, _ = strconv.Atoi(v)
		default:
			s.fatalf("unknown policy %q", p)
		}
	}
	if st.opt("listen") != "" {
		s.server.noListen = false
	}
	if st.opt("server") != "" {
		s.start()
	}
}

func (s *stage) define(st *step) {
	for line := range strings.Lines(st.body) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, raw, _ := strings.Cut(line, " ")
		v, err := parseTree([]byte(raw))
		if err != nil {
			s.fatalf("%s: %v", name, err)
		}
		s.vars[name], s.fixed[name] = v, v
	}
}

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
	modern := e.out.Version == translate.LatestModern
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

var _ io.Writer = errorLog{}
