package session_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
//	                 version: the server's only modern revision;
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
// are met first; $K64 is a text of 64 KiB. Whatever the proxy says must be taken by a step before the
// next client-in, server-in or wait: traffic nobody expects fails.
//
// Keys: client-in: principal (A), version (the newest), open, session ($SESSION), verb (POST),
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
	witness witness
	face    session.Face
	policy  session.Policy
	held    *session.HeldBudget
	era     translate.Era // the client's

	vars     vars
	sentIDs  map[string]bool             // of requests to a modern server
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
}

func newStage(t *testing.T, sc *scenario, form string) *stage {
	return &stage{t: t, sc: sc, form: form, policy: session.Policy{Gather: -1}, server: &fakeServer{noListen: true}, store: memory.New(), metrics: &fakeMetrics{},
		vars: vars{"K64": strings.Repeat("x", 64<<10)}, sentIDs: map[string]bool{}, fixed: vars{}, ends: map[string]*jsonrpc.Message{}, clients: map[string]*fakeClient{}, ups: map[string]*fakeExchange{}, since: time.Now()}
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
			Policy: s.policy, Held: s.held, Metrics: s.metrics, Observers: []session.Observer{&s.witness},
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
		s.witness.answered(s.t)
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
	s.witness.check(s.t)
	if len(s.runners) == 1 { // of two, the other may be told the answer
		s.witness.answered(s.t)
	}
	lost := 0
	for _, n := range s.metrics.losses {
		lost += n
	}
	if got := len(s.witness.losses); got != lost {
		s.t.Errorf("the observer heard of %d losses of %d", got, lost)
	}
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
	if v := st.opt("version"); v != "" { // the only modern revision of the server
		s.face.Version, s.face.Versions = v, []string{v}
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
		case "held-budget": // with the smallest message limit
			n, _ := strconv.ParseInt(v, 10, 64)
			s.held = session.NewHeldBudget(n)
			s.policy.MessageLimit = 1
		case "gather":
			s.policy.Gather, _ = time.ParseDuration(v)
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
