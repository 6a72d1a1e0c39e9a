package operation

import (
	"iter"
	"slices"
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
)

// Gather groups the records of one leg into operations, in the order they
// began. Records are taken in the order given and never changed; their bytes
// are referred to, not copied. Nothing in a capture makes it fail: what belongs
// to nothing known becomes an operation of its own (Notice) or a part in the
// role Other.
func Gather(records iter.Seq[*capture.Record], leg translate.Leg) []*Operation {
	g := NewGatherer(leg)
	for r := range records {
		g.Add(r)
	}
	return g.Operations()
}

// Gatherer is Gather for records that come one by one.
type Gatherer struct {
	leg     translate.Leg
	jobs    []*job
	lanes   map[string]*lane
	streams map[string]place // what an HTTP exchange began with
	pending map[string]*pend // requests toward the server without an answer
	tasks   map[string]*job  // by lane and by principal
	states  map[string]*job  // by requestState
	gaps    int
	dropped int
}

// NewGatherer begins with no records.
func NewGatherer(leg translate.Leg) *Gatherer {
	return &Gatherer{
		leg: leg, lanes: map[string]*lane{}, streams: map[string]place{}, pending: map[string]*pend{},
		tasks: map[string]*job{}, states: map[string]*job{},
	}
}

// Dropped counts the frames the capture says it lost.
func (g *Gatherer) Dropped() int { return g.dropped }

// lane is what goes on in one session, or what stands for one.
type lane struct {
	key     string
	version string // negotiated by initialize
	client  string
	opened  *job // by initialize
	// frontier are the N of ended operations that no other ended one came
	// after. It is replaced, never changed.
	frontier []int
	calls    []*job               // that may ask, by the order begun; ended ones leave from the end
	waiting  map[*pend]struct{}   // requests toward the server without an answer
	flying   int                  // of calls: how many have no answer
	live     map[*job]struct{}    // tasks that have not ended
	asks     map[string]*question // the server's requests without an answer, by id
	listens  map[string]*job      // subscriptions/listen, by request id
	cursors  map[string][]*job    // lists by the cursor they go on with
	tokens   map[string]*job      // by progress token
}

// job is an operation while it is gathered.
type job struct {
	op      *Operation
	lane    *lane
	began   int // gaps seen when it did
	until   int // and when it ended
	ended   bool
	given   bool // a reply settled a plain call; or a payload came
	cancel  bool
	flying  bool // counted in its lane
	pollErr []byte
	open    map[string]int      // questions without an answer, by key
	asked   map[string]struct{} // keys a task has shown
	tokens  map[string]struct{}
	pages   []jsonrpc.Value
}

// place is a part of a job.
type place struct {
	job  *job
	part int
}

// pend is a request that waits for its answer.
type pend struct {
	place
	lane   *lane
	method string
	role   Role
	keys   [2]string
}

// question is a server's own request that waits for its answer; index is its
// place in Questions, -1 for one that is none (ping).
type question struct {
	place
	index int
}

// Add takes the next record.
func (g *Gatherer) Add(r *capture.Record) {
	if r.Dropped > 0 {
		g.gaps++
		g.dropped += r.Dropped
		return
	}
	if r.Leg != g.leg {
		return
	}
	if r.Msg == nil {
		g.bare(r)
		return
	}
	m, err := jsonrpc.Decode(r.Msg, jsonrpc.Limits{})
	if err == nil {
		g.message(r, m)
		return
	}
	if batch, err := jsonrpc.DecodeBatch(r.Msg, jsonrpc.Limits{}); err == nil {
		for _, m := range batch {
			g.message(r, m)
		}
		return
	}
	g.stray(g.laneOf(r, nil), r, nil)
}

func (g *Gatherer) message(r *capture.Record, m *jsonrpc.Message) {
	ln := g.laneOf(r, m)
	if at, ok := g.streams[r.Stream]; ok && r.Dir == translate.ToClient && at.job.op.Kind == Listen {
		at.job.given = true // it carries messages, so the server took it
	}
	switch {
	case r.Dir == translate.ToServer && m.Kind == jsonrpc.Request:
		g.request(ln, r, m)
	case r.Dir == translate.ToServer && m.Kind == jsonrpc.Notification:
		g.said(ln, r, m)
	case r.Dir == translate.ToServer:
		g.answer(ln, r, m)
	case m.Kind == jsonrpc.Request:
		g.ask(ln, r, m)
	case m.Kind == jsonrpc.Notification:
		g.notice(ln, r, m)
	default:
		g.reply(ln, r, m)
	}
}

// laneOf finds what a record belongs to: the session, the connection, what its
// exchange began in, else the principal, whose clients modern requests tell
// apart.
func (g *Gatherer) laneOf(r *capture.Record, m *jsonrpc.Message) *lane {
	key := ""
	switch {
	case r.Session != "":
		key = "session " + r.Session
	case r.Conn != "":
		key = "conn " + r.Conn
	default:
		if at, ok := g.streams[r.Stream]; ok && r.Dir == translate.ToClient {
			return at.job.lane
		}
		if m != nil && m.Method == "initialize" && r.Dir == translate.ToServer {
			return newLane("opening " + r.Stream) // named by what the answer says
		}
		key = "principal " + r.Principal
		if m != nil && isModern(r, m) {
			key += " client " + clientOf(m.Params().Get("_meta").Get(translate.MetaClientInfo))
		}
	}
	ln := g.lanes[key]
	if ln == nil {
		ln = newLane(key)
		g.lanes[key] = ln
	}
	return ln
}

func newLane(key string) *lane {
	return &lane{
		key: key, waiting: map[*pend]struct{}{}, live: map[*job]struct{}{}, asks: map[string]*question{}, listens: map[string]*job{},
		cursors: map[string][]*job{}, tokens: map[string]*job{},
	}
}

// isModern: the era is a property of the message (2026-07-28 basic/versioning).
func isModern(r *capture.Record, m *jsonrpc.Message) bool {
	return translate.ModernHeader(r.Header) || m.Method == "server/discover" || m.Method == "subscriptions/listen" ||
		m.Params().Get("_meta").Get(translate.MetaVersion).Exists()
}

// maxClient bounds a client's name and version.
const maxClient = 256

// clientOf reads an Implementation.
func clientOf(info jsonrpc.Value) string {
	name, _ := info.Get("name").Str()
	version, _ := info.Get("version").Str()
	if version != "" {
		name += "/" + version
	}
	if len(name) > maxClient {
		name = strings.ToValidUTF8(name[:maxClient], "")
	}
	return name
}

// begin starts an operation with this record.
func (g *Gatherer) begin(ln *lane, r *capture.Record, m *jsonrpc.Message, kind Kind, method, name string) *job {
	op := &Operation{
		N: len(g.jobs) + 1, Leg: g.leg, Era: translate.Legacy, Version: ln.version, Transport: r.Transport,
		Conn: r.Conn, Session: r.Session, Principal: r.Principal, Client: ln.client, Lane: ln.key,
		Kind: kind, Method: method, Name: name, Began: r.Time, After: ln.frontier,
	}
	if v := r.Header.Get(translate.HeaderVersion); v != "" {
		op.Version = v
	}
	if translate.ModernHeader(r.Header) {
		op.Era = translate.Modern
	}
	if m != nil && isModern(r, m) {
		meta := m.Params().Get("_meta")
		op.Era = translate.Modern
		if v, ok := meta.Get(translate.MetaVersion).Str(); ok {
			op.Version = v
		}
		op.Client = clientOf(meta.Get(translate.MetaClientInfo))
	}
	j := &job{op: op, lane: ln, began: g.gaps}
	g.jobs = append(g.jobs, j)
	return j
}

// add makes the record a part of j.
func (g *Gatherer) add(j *job, r *capture.Record, m *jsonrpc.Message, role Role, to int) int {
	j.op.Parts = append(j.op.Parts, Part{Record: r, Msg: m, Role: role, To: to})
	if len(r.Redacted) > 0 {
		j.op.Redacted = true
	}
	return len(j.op.Parts) - 1
}

// maxFrontier bounds Operation.After.
const maxFrontier = 128

// end settles j at r; again at a later record it only moves Ended.
func (g *Gatherer) end(j *job, r *capture.Record) {
	j.op.Ended, j.until = r.Time, g.gaps
	delete(j.lane.live, j)
	if j.ended {
		return
	}
	j.ended = true
	ln := j.lane
	j.land()
	next := make([]int, 0, len(ln.frontier)+1)
	for _, n := range ln.frontier {
		if !slices.Contains(j.op.After, n) {
			next = append(next, n)
		}
	}
	next = append(next, j.op.N)
	if len(next) > maxFrontier {
		next = next[len(next)-maxFrontier:]
	}
	ln.frontier = next
}

// land takes j out of the calls in flight.
func (j *job) land() {
	if j.flying {
		j.flying = false
		j.lane.flying--
	}
}

// inFlight is the latest call that may ask and has no answer yet.
func (ln *lane) inFlight() *job {
	for n := len(ln.calls); n > 0 && ln.calls[n-1].ended; n-- {
		ln.calls = ln.calls[:n-1]
	}
	for i, tries := len(ln.calls)-1, 0; i >= 0 && tries < maxFrontier; i, tries = i-1, tries+1 {
		if j := ln.calls[i]; !j.ended && j.op.Kind == Call {
			return j
		}
	}
	return nil
}
