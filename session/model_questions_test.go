package session_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"
)

// simPlan is what the simulated server does with one tool call. It hangs on
// the seed and the call's number alone.
type simPlan struct {
	n      int
	who    string
	kind   string // plain, error, task, unreachable, broken, 500, lost
	delay  time.Duration
	early  []simRound // questions before an answer or a task
	rounds []simRound // questions inside the task
	work   time.Duration
	end    string // ok, isError, error, cancelled, never
	ttl    time.Duration
	cancel string // honour, ignore, late
	lag    time.Duration
	strict bool // no task, no answer
	able   bool // the client declared all that may be asked

	// under sim.mu
	started   int
	states    map[string]bool
	cancels   int
	stopped   bool // the server was told that the call is cancelled
	ended     time.Time
	refusedBy string // what a client said instead of an answer
	asTask    bool
	task      *simTask
	dropped   time.Time
}

// simRound are questions asked together.
type simRound struct {
	after  time.Duration
	keys   []simKey
	vanish time.Duration // 0: they wait for ever
}

type simKey struct{ name, kind string }

// newPlan draws what becomes of call n.
func (m *sim) newPlan(n int, who string) *simPlan {
	r := m.draw("plan")
	p := &simPlan{n: n, who: who, delay: moments(r, 1200*time.Millisecond), work: moments(r, 10*time.Second), lag: moments(r, 600*time.Millisecond),
		strict: in(r, 2), states: map[string]bool{}}
	p.kind = pickOne(r, []string{"plain", "plain", "plain", "error", "task", "task", "task", "task", "task", "task", "unreachable", "broken", "500", "lost"})
	p.end = pickOne(r, []string{"ok", "ok", "ok", "ok", "isError", "error", "cancelled", "never"})
	p.cancel = pickOne(r, []string{"honour", "honour", "ignore", "late"})
	if in(r, 10) {
		p.delay = 20 * time.Second
	}
	if in(r, 8) {
		p.work = 0
	}
	if in(r, 8) {
		p.ttl = 2*time.Second + moments(r, 10*time.Second)
	}
	if in(r, 4) && p.kind == "task" || in(r, 3) && p.kind == "plain" {
		p.early = drawRounds(r, 1+r.IntN(2), "e", false)
	}
	if p.kind == "task" && in(r, 2) {
		p.rounds = drawRounds(r, 1+r.IntN(3), "k", true)
	}
	return p
}

func drawRounds(r *rand.Rand, n int, prefix string, vanish bool) (list []simRound) {
	for i := range n {
		round := simRound{after: moments(r, 3*time.Second)}
		for j := range 1 + r.IntN(3) {
			kind := "elicitation"
			if in(r, 4) {
				kind = "sampling"
			}
			round.keys = append(round.keys, simKey{fmt.Sprintf("%s%d%c", prefix, i, 'a'+j), kind})
		}
		if vanish && in(r, 5) {
			round.vanish = 500*time.Millisecond + moments(r, 5*time.Second)
		}
		list = append(list, round)
	}
	return list
}

// request is the question as a server puts it; its text says which it is.
func (k simKey) request(qid string) string {
	if k.kind == "sampling" {
		return `"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Q ` + qid + `."}}],"maxTokens":5}`
	}
	return `"method":"elicitation/create","params":{"mode":"form","message":"Q ` + qid + `.","requestedSchema":{"type":"object","properties":{}}}`
}

var qidText = regexp.MustCompile(`Q ([^".]+)\.`)

// result is how the call or its task answers.
func (p *simPlan) result() string {
	if p.end == "isError" {
		return fmt.Sprintf(`{"content":[{"type":"text","text":"done %d"}],"isError":true}`, p.n)
	}
	return fmt.Sprintf(`{"content":[{"type":"text","text":"done %d"}],"structuredContent":{"n":%d}}`, p.n, p.n)
}

func (p *simPlan) rpcError() string {
	return fmt.Sprintf(`{"code":%d,"message":"failed %d","data":{"n":%d}}`, -31000-p.n, p.n, p.n)
}

// simQuestion is one question over its life, by what its text says.
type simQuestion struct {
	id       string
	plan     *simPlan
	kind     string
	accepted time.Time // the server took an answer
	acked    time.Time // and its acknowledgement went out
	rejected int       // the server answered an answer with an error
	over     time.Time // the server wants no answer any more
	got      string    // the answer it took
	sent     []string  // answers clients sent
	asks     []*simAsk
}

// simAsk is one request of the proxy for a question to one client.
type simAsk struct {
	req       *simReq
	gone      func() bool // the session is no more; under sim.mu
	id        string
	at        time.Time
	withdrawn time.Time
	answered  time.Time
}

// live needs sim.mu: the client may still be looking at it.
func (a *simAsk) live() bool {
	return a.req.live() && a.req.cancelled.IsZero() && a.withdrawn.IsZero() && a.answered.IsZero() && !a.gone()
}

func taskQID(p *simPlan, key string) string { return fmt.Sprintf("T%d/%s", p.n, key) }

func callQID(p *simPlan, key string) string { return fmt.Sprintf("C%d/%s", p.n, key) }

// unique is a text no two answers share.
func unique(qid string, n int) string { return strings.ReplaceAll(qid, "/", "-") + "#" + fmt.Sprint(n) }
