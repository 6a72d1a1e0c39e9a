package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
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

// Model tests run random schedules: simulated clients and a simulated server
// of the other era act at random moments of a virtual clock, with a Runner
// between them, while a model of the rules watches every message. A schedule
// is its seed: the same seed makes the same plans and the same actions at the
// same moments. What happens within one moment is left to the scheduler, so a
// failure that needs a race may want several runs of its seed.
//
//	TASKBRIDGE_MODEL_SEED=7 go test ./session -run TestModelLegacyClients
//
// runs one schedule and prints its trace.

// schedules is how many seeds one test runs.
func schedules(t *testing.T) (first, n uint64) {
	if s := os.Getenv("TASKBRIDGE_MODEL_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return seed, 1
	}
	switch {
	case os.Getenv("TASKBRIDGE_E2E") == "full":
		return 1, 10000
	case testing.Short():
		return 1, 30
	}
	return 1, 60
}

// modelSteps is how many actions a schedule has.
const modelSteps = 40

// checkModel runs schedules and shows the first few that fail, each with as
// few actions as still fail. Seeds that failed once are played several times
// before the others: what they found needs a race.
func checkModel(t *testing.T, once []uint64, play func(m *sim)) {
	first, n := schedules(t)
	bad := 0
	check := func(seed uint64) {
		m := runModel(t, seed, modelSteps, play)
		if len(m.problems) == 0 {
			if n == 1 {
				t.Logf("seed %d (%s)\n%s", seed, m.form, strings.Join(m.trace, "\n"))
			}
			return
		}
		bad++
		t.Errorf("%s", shrunk(t, m, n > 1, play))
	}
	if n > 1 {
		for _, seed := range once {
			for range 5 {
				check(seed)
			}
		}
	}
	for seed := first; seed < first+n && bad < 3; seed++ {
		check(seed)
	}
}

// shrunk tells of a schedule that failed, with as few actions as still fail.
func shrunk(t *testing.T, m *sim, short bool, play func(m *sim)) string {
	for steps := 5; steps < modelSteps; steps += 5 {
		if small := runModel(t, m.seed, steps, play); len(small.problems) > 0 {
			m = small
			break
		}
	}
	trace := m.trace
	if from := slices.IndexFunc(trace, func(l string) bool { return strings.HasPrefix(l, "WRONG") }); short && from > 60 {
		trace = trace[from-60:]
	}
	if short && len(trace) > 80 {
		trace = trace[:80]
	}
	return fmt.Sprintf("seed %d, %d steps, form %s:\n%s\n--\n%s", m.seed, m.steps, m.form, strings.Join(m.problems, "\n"), strings.Join(trace, "\n"))
}

// sim is one schedule being played.
type sim struct {
	t       *testing.T
	seed    uint64
	steps   int
	form    string // one, two, forget
	rng     *rand.Rand
	store   session.Store
	runners []*session.Runner
	helds   []*session.HeldBudget
	metrics *fakeMetrics
	witness witness
	policy  session.Policy
	face    session.Face
	serve   func(x *simExchange)
	ctx     context.Context
	start   time.Time
	turn    int
	wg      sync.WaitGroup

	mu       sync.Mutex // protects the fields below and the model's
	draws    map[string]uint64
	trace    []string
	problems []string
	open     map[*simExchange]bool
	calm     bool // the server misbehaves no more, clients answer at once
	down     bool // the server cannot be reached any more
	troubles int  // failures the server made
}

func runModel(t *testing.T, seed uint64, steps int, play func(m *sim)) *sim {
	m := &sim{seed: seed, steps: steps, form: []string{"one", "two", "forget"}[seed%3], metrics: &fakeMetrics{},
		draws: map[string]uint64{}, open: map[*simExchange]bool{}, rng: rand.New(rand.NewPCG(seed, 1))}
	synctest.Test(t, func(t *testing.T) {
		m.t, m.start, m.store = t, time.Now(), memory.New()
		ctx, cancel := context.WithCancel(t.Context())
		m.ctx = ctx
		m.policy.TaskKeep, m.policy.TaskGrace, m.policy.ParkFor, m.policy.SessionIdle = 20*time.Minute, time.Minute, 2*time.Minute, 10*time.Minute
		m.policy.PageSize = 3
		play(m)
		m.leave()
		cancel()
		for _, r := range m.runners {
			r.Close()
		}
		m.store.Close()
		m.wg.Wait()
		synctest.Wait()
	})
	return m
}

// begin makes the runners.
func (m *sim) begin() {
	handles, err := session.NewHandles([][]byte{bytes.Repeat([]byte("k"), session.MinStateKey)})
	if err != nil {
		m.t.Fatal(err)
	}
	n := 1
	if m.form == "two" {
		n = 2
	}
	held := session.NewHeldBudget(64 << 20) // one a process
	m.helds = append(m.helds, held)
	for i := range n {
		var key [32]byte
		key[0], key[1], key[2] = byte(m.seed), byte(m.seed>>8), byte(i)
		r, err := session.New(session.Options{Store: m.store, Dialer: simDialer{m}, Faces: fakeFaces{m.face}, Handles: handles,
			Policy: m.policy, Metrics: m.metrics, Observers: []session.Observer{&m.witness}, Held: held, Rand: &lockedRand{r: rand.NewChaCha8(key)},
			Logger: slog.New(slog.NewTextHandler(simLog{m}, &slog.HandlerOptions{Level: slog.LevelError}))})
		if err != nil {
			m.t.Fatal(err)
		}
		m.runners = append(m.runners, r)
	}
}

type lockedRand struct {
	mu sync.Mutex
	r  io.Reader
}

func (l *lockedRand) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(p)
}

// simLog takes what a runner logs as an error for a failure.
type simLog struct{ m *sim }

func (w simLog) Write(p []byte) (int, error) {
	if w.m.ctx.Err() == nil {
		w.m.wrong("logged: %s", p)
	}
	return len(p), nil
}

func (m *sim) at() string { return fmt.Sprintf("%9.3f ", time.Since(m.start).Seconds()) }

// note adds a line to the trace.
func (m *sim) note(format string, args ...any) {
	line := m.at() + fmt.Sprintf(format, args...)
	if len(line) > 400 {
		line = line[:400] + "…"
	}
	m.mu.Lock()
	m.trace = append(m.trace, line)
	m.mu.Unlock()
}

// wrong is a rule broken.
func (m *sim) wrong(format string, args ...any) {
	line := m.at() + fmt.Sprintf(format, args...)
	m.mu.Lock()
	m.wrongLocked(line)
	m.mu.Unlock()
}

func (m *sim) wrongLocked(line string) {
	if len(m.problems) < 20 {
		m.problems = append(m.problems, "WRONG "+line)
		m.trace = append(m.trace, "WRONG "+line)
	}
}

// draw gives the random numbers of one named thing: they depend on the seed,
// the name and how often it was drawn before, not on what else happens.
func (m *sim) draw(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	m.mu.Lock()
	m.draws[name]++
	n := m.draws[name]
	m.mu.Unlock()
	return rand.New(rand.NewPCG(m.seed, h.Sum64()+n))
}

// in says yes once in n.
func in(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// moments are rounded, so that things often happen at once.
func moments(r *rand.Rand, max time.Duration) time.Duration {
	const grain = 50 * time.Millisecond
	return time.Duration(r.Int64N(int64(max/grain)+1)) * grain
}

// sleep is false when the schedule is over or done is closed.
func (m *sim) sleep(d time.Duration, done <-chan struct{}) bool {
	if d <= 0 {
		return m.ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
	case <-m.ctx.Done():
	}
	return false
}

func (m *sim) isCalm() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.calm }

// runner takes turns; a forgetful one forgets first.
func (m *sim) runner() *session.Runner {
	m.mu.Lock()
	r := m.runners[m.turn%len(m.runners)]
	m.turn++
	m.mu.Unlock()
	if m.form == "forget" {
		r.Forget()
	}
	return r
}

// simReq is one request of a simulated client.
type simReq struct {
	m      *sim
	id     int
	method string
	stream *session.ClientStream
	cancel context.CancelFunc
	at     time.Time

	// under m.mu
	dropped   time.Time // the client closed the stream
	cancelled time.Time // the client sent notifications/cancelled
	final     time.Time
	answers   int
	got       *jsonrpc.Message // the answer
	status    int
	header    http.Header
}

// live says whether the client still reads the stream; it needs m.mu.
func (q *simReq) live() bool { return q.dropped.IsZero() && q.final.IsZero() }

// send hands one message over and reads what comes until the end. hear gets
// each message that is not the answer, done the end.
func (m *sim) send(q *simReq, caller session.Caller, verb string, raw []byte, hear func(*jsonrpc.Message), done func()) {
	in := session.Inbound{Caller: caller, Frame: translate.Frame{Leg: translate.ClientLeg, Dir: translate.ToServer, Time: time.Now(), HTTP: &translate.Envelope{Verb: verb}}}
	if raw != nil {
		msg, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
		if err != nil {
			m.t.Errorf("%v: %s", err, raw)
			return
		}
		in.Frame.Msg = msg
	}
	r := m.runner()
	ctx, cancel := context.WithCancel(m.ctx)
	m.mu.Lock()
	q.m, q.stream, q.cancel, q.at = m, r.NewStream(), cancel, time.Now()
	if !q.dropped.IsZero() { // before it was sent at all
		cancel()
	}
	m.mu.Unlock()
	taken := make(chan struct{})
	m.wg.Go(func() {
		defer cancel()
		for {
			o, ok := q.stream.Next(ctx)
			if !ok {
				break
			}
			if o.Raw != nil {
				msg, err := jsonrpc.Decode(o.Raw, jsonrpc.Limits{})
				if err != nil {
					m.wrong("to a client: %v: %s", err, o.Raw)
					continue
				}
				if msg.Kind == jsonrpc.Response || msg.Kind == jsonrpc.ErrorResponse {
					m.mu.Lock()
					q.answers++
					q.got, q.status = msg, o.Status
					m.mu.Unlock()
					if q.answers > 1 || !o.Final {
						m.wrong("request %d %s: answer %d, final %v: %s", q.id, q.method, q.answers, o.Final, o.Raw)
					}
					if msg.ID.Key() != jsonrpc.IntID(int64(q.id)).Key() {
						m.wrong("request %d %s got the answer of another: %s", q.id, q.method, o.Raw)
					}
				} else if o.Final {
					m.wrong("request %d %s ends with what is no answer: %s", q.id, q.method, o.Raw)
				}
				m.note("< %d %s", q.id, o.Raw)
				if msg.Kind == jsonrpc.Request || msg.Kind == jsonrpc.Notification {
					hear(msg)
				}
			}
			if o.Final {
				m.mu.Lock()
				q.final, q.header = time.Now(), o.Header
				if q.status == 0 {
					q.status = o.Status
				}
				m.mu.Unlock()
				done()
				break
			}
		}
		<-taken // a listener hands the message over before it looks for its reader
		q.stream.Gone()
	})
	r.Client(ctx, in, q.stream)
	close(taken)
}

// drop closes a request's stream as a client does.
func (m *sim) drop(q *simReq) {
	m.mu.Lock()
	if q.live() {
		q.dropped = time.Now()
	}
	cancel := q.cancel
	m.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// leave lets days pass while nobody can be reached: nothing may be left.
func (m *sim) leave() {
	m.note("everybody leaves")
	m.mu.Lock()
	m.down = true
	var open []*simExchange
	for x := range m.open {
		open = append(open, x)
	}
	m.mu.Unlock()
	synctest.Wait()
	for _, x := range open {
		select {
		case x.ch <- fakeEvent{err: dialError("broken")}:
		default:
		}
	}
	for range 12 {
		time.Sleep(10 * time.Minute)
		synctest.Wait()
	}
	left := map[string]int{}
	after := ""
	for {
		list, err := m.store.List(m.ctx, "", after, 0)
		if err != nil || len(list) == 0 {
			break
		}
		for _, e := range list {
			after = e.Key
			kind, rest, _ := strings.Cut(e.Key, "/")
			switch kind {
			case "seq", "askseq":
				continue
			case "op", "wake", "blob":
				kind += "/" + session.OpID(rest).Kind()
			}
			if left[kind]++; left[kind] == 1 {
				m.note("left: %s = %s", e.Key, e.Value)
			}
		}
	}
	m.note("losses %v, drops %v", m.metrics.losses, m.metrics.drops)
	if len(left) > 0 {
		m.wrong("left in the store: %v", left)
	}
	for _, h := range m.helds {
		if h.InUse() != 0 {
			m.wrong("%d bytes are still reserved for %d results", h.InUse(), h.Len())
		}
	}
}

// caller is who sends.
func simCaller(who string, era translate.Era, sess string) session.Caller {
	version := translate.LatestLegacy
	if era == translate.Modern {
		version = translate.LatestModern
	}
	return session.Caller{Principal: session.HashPrincipal("token", who), Era: era, Version: version, Session: sess,
		Credential: http.Header{"Authorization": {"Bearer " + who}}}
}

// plain reads a message into Go values.
func plain(raw []byte) map[string]any {
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(errors.Join(err, errors.New(string(raw))))
	}
	return v
}

// dig follows members.
func dig(v any, path ...string) any {
	for _, k := range path {
		o, _ := v.(map[string]any)
		v = o[k]
	}
	return v
}

func text(v any) string { s, _ := v.(string); return s }

// pickOne is a random element, or the zero value of none.
func pickOne[T any](r *rand.Rand, list []T) (v T) {
	if len(list) > 0 {
		v = list[r.IntN(len(list))]
	}
	return v
}

// settled waits until nothing moves at this moment.
func settled() { synctest.Wait() }

func mustDecode(raw string) *jsonrpc.Message {
	m, err := jsonrpc.Decode([]byte(raw), jsonrpc.Limits{})
	if err != nil {
		panic(fmt.Sprint(err, raw))
	}
	return m
}
