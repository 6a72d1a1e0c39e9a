package compare

import (
	"crypto/sha256"
	"slices"
	"strconv"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// Captures compares all operations of one leg of two captures. Operations are
// matched by method, name and arguments, in their order in each session; which
// session of B a session of A is compared with is found by what happens in them.
// What stays over is missing from B or extra in it.
func Captures(a, b []*operation.Operation, o Options) *Report {
	m := &matcher{cross: eras(a) != eras(b), o: o, digests: map[*operation.Operation]string{}, mate: map[*operation.Operation]*operation.Operation{}, keys: map[*operation.Operation]string{}}
	for _, op := range slices.Concat(a, b) {
		m.keys[op] = m.key(op)
	}
	m.byLane(a, b)
	m.inOrder(a, b)
	return m.report(a, b)
}

// eras are those that the operations speak, as bits.
func eras(ops []*operation.Operation) (e uint8) {
	for _, op := range ops {
		e |= 1 << op.Era
	}
	return e
}

type matcher struct {
	cross   bool
	o       Options
	keys    map[*operation.Operation]string
	digests map[*operation.Operation]string               // of what came
	mate    map[*operation.Operation]*operation.Operation // both ways
}

// key is equal for operations in which a client wants the same.
func (m *matcher) key(op *operation.Operation) string {
	switch {
	case op.Kind == operation.Open && m.cross:
		return "open"
	case op.Kind == operation.Listen && m.cross:
		return "listen " + op.Lane + " " + strconv.Itoa(op.N) + op.Era.String() // matches none, see excused
	}
	digest := sha256.Sum256(arguments(op).canonical([]byte(op.Method+"\n"+op.Name+"\n"), false))
	return string(digest[:])
}

// volatileParams are members of params that are of one run, or of one era.
var volatileParams = []string{"_meta", "task", "taskId", "cursor", "requestState", "inputResponses", "requestId", "progressToken"}

// arguments are what a client asks with.
func arguments(op *operation.Operation) *node {
	msg := op.First().Msg
	if msg == nil || op.Kind == operation.Open {
		return nil
	}
	params := parse(msg.Params().Raw())
	if params == nil {
		return object()
	}
	for _, name := range volatileParams {
		params.drop(name)
	}
	params.get("notifications").dropIn("taskIds")
	if args := params.get("arguments"); args != nil && (args.typ == jsonrpc.Null || len(args.kids) == 0) {
		params.drop("arguments") // a widely used client writes null for none
	}
	return params
}

func (n *node) dropIn(key string) {
	if n != nil {
		n.drop(key)
	}
}

// lane is one session's operations.
type lane struct {
	ops  []*operation.Operation
	used bool
}

func lanes(ops []*operation.Operation) (out []*lane) {
	byKey := map[string]*lane{}
	for _, op := range ops {
		l := byKey[op.Lane]
		if l == nil {
			l = &lane{}
			byKey[op.Lane] = l
			out = append(out, l)
		}
		l.ops = append(l.ops, op)
	}
	return out
}

// byLane pairs sessions: those that are equal in requests and in what came of
// them first, then the most alike.
func (m *matcher) byLane(a, b []*operation.Operation) {
	left, right := lanes(a), lanes(b)
	if len(left) > 1 && len(right) > 1 {
		m.equal(left, right, func(op *operation.Operation) string { return m.keys[op] + m.came(op) })
	}
	left, right = unused(left), unused(right)
	if len(left) == 1 && len(right) == 1 {
		m.join(left[0], right[0])
		return
	}
	work := 0
	for _, l := range left {
		work += len(l.ops) * len(right)
	}
	if work > maxAlike { // too many to weigh each against each
		m.equal(left, right, func(op *operation.Operation) string { return m.keys[op] })
		return
	}
	m.alike(left, right)
}

func unused(lanes []*lane) []*lane {
	return slices.DeleteFunc(lanes, func(l *lane) bool { return l.used })
}

// equal pairs the sessions that have the same sign.
func (m *matcher) equal(left, right []*lane, sign func(*operation.Operation) string) {
	waiting := map[[sha256.Size]byte][]*lane{}
	for _, l := range right {
		key := l.sign(sign)
		waiting[key] = append(waiting[key], l)
	}
	for _, l := range left {
		key := l.sign(sign)
		if list := waiting[key]; len(list) > 0 {
			waiting[key] = list[1:]
			m.join(l, list[0])
		}
	}
}

// sign is a digest of a session's operations. Their order counts only as far as
// one had to come after another for sure, so it is left out.
func (l *lane) sign(of func(*operation.Operation) string) [sha256.Size]byte {
	parts := make([]string, len(l.ops))
	for i, op := range l.ops {
		parts[i] = of(op)
	}
	slices.Sort(parts)
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// came is a digest of what came of an operation.
func (m *matcher) came(op *operation.Operation) string {
	if known, ok := m.digests[op]; ok {
		return known
	}
	doc := document(op, m.cross, m.o.Ignore)
	doc.drop("notices")
	digest := doc.digest(!m.o.IgnoreNumberSpelling)
	m.digests[op] = string(digest[:])
	return m.digests[op]
}

func (m *matcher) join(l, r *lane) {
	l.used, r.used = true, true
	m.inOrder(l.ops, r.ops)
}

// maxAlike bounds the work of weighing sessions against each other: operations
// of one side times sessions of the other.
const maxAlike = 1 << 23

// alike pairs sessions by how much they have in common: requests, and requests
// of which the same came.
func (m *matcher) alike(left, right []*lane) {
	counts := make([]map[string]int, len(right))
	for i, r := range right {
		counts[i] = m.count(r)
	}
	for _, l := range left {
		mine := m.count(l)
		best, most := -1, 0
		for i, r := range right {
			if r.used {
				continue
			}
			common := 0
			for key, n := range mine {
				common += min(n, counts[i][key])
			}
			if common > most {
				best, most = i, common
			}
		}
		if best >= 0 {
			m.join(l, right[best])
		}
	}
}

// count counts a session's requests, and each again with what came of it.
func (m *matcher) count(l *lane) map[string]int {
	out := map[string]int{}
	for _, op := range l.ops {
		out[m.keys[op]]++
		out[m.keys[op]+m.came(op)]++
	}
	return out
}

// inOrder matches what has no mate yet, by key, in the order begun. Where there
// is no session there is no order either: then those of which the same came
// belong together.
func (m *matcher) inOrder(a, b []*operation.Operation) {
	crowded := map[string]int{}
	for _, op := range b {
		crowded[m.keys[op]]++
	}
	m.match(a, b, func(op *operation.Operation) string {
		if op.Session != "" || op.Conn != "" || crowded[m.keys[op]] < 2 {
			return ""
		}
		return m.keys[op] + m.came(op)
	})
	m.match(a, b, func(op *operation.Operation) string { return m.keys[op] })
}

// match pairs what has no mate and the same key, in order; none with "".
func (m *matcher) match(a, b []*operation.Operation, key func(*operation.Operation) string) {
	waiting := map[string][]*operation.Operation{}
	for _, op := range b {
		if m.mate[op] == nil {
			waiting[key(op)] = append(waiting[key(op)], op)
		}
	}
	for _, op := range a {
		if m.mate[op] != nil {
			continue
		}
		k := key(op)
		if list := waiting[k]; k != "" && len(list) > 0 {
			waiting[k] = list[1:]
			m.mate[op], m.mate[list[0]] = list[0], op
		}
	}
}

// report compares the pairs, in A's order and then B's.
func (m *matcher) report(a, b []*operation.Operation) *Report {
	r := &Report{}
	selected := m.o.Select
	if selected == nil {
		selected = func(*operation.Operation) bool { return true }
	}
	for _, op := range a {
		other := m.mate[op]
		if !selected(op) && (other == nil || !selected(other)) {
			continue
		}
		if other != nil {
			r.Pairs = append(r.Pairs, Operations(op, other, m.o))
			continue
		}
		m.alone(r, op, Pair{A: op}, m.o.CutB)
	}
	for _, op := range b {
		if m.mate[op] == nil && selected(op) {
			m.alone(r, op, Pair{B: op}, m.o.CutA)
		}
	}
	return r
}

// alone reports an operation that only one side has.
func (m *matcher) alone(r *Report, op *operation.Operation, p Pair, cut bool) {
	if why := m.excused(op); why != "" {
		r.Skipped = append(r.Skipped, Skip{op, why})
		return
	}
	x := Difference{Path: "$", Kind: KindMissing, Severity: Worse, Text: "only the first capture has it", Was: string(op.Outcome)}
	switch {
	case p.A == nil && op.Kind == operation.List:
		x = Difference{Path: "$", Kind: KindExtra, Severity: Note, Text: "only the second capture has it; a listing more does no harm", Now: string(op.Outcome)}
	case p.A == nil:
		x = Difference{Path: "$", Kind: KindExtra, Severity: Changed, Text: "only the second capture has it", Now: string(op.Outcome)}
	}
	p.Verdict, p.Differences = Different, []Difference{x}
	switch {
	case x.Severity == Note:
		p.Verdict = Same
	case cut:
		p.Verdict, p.Reason = Inconclusive, "the other capture breaks off; it may have come after that"
	case op.Gap:
		p.Verdict, p.Reason = Inconclusive, "frames were dropped from the capture while it ran"
	}
	r.Pairs = append(r.Pairs, p)
}

// excused says why it is no matter that the other side does not have it, or "".
func (m *matcher) excused(op *operation.Operation) string {
	if why := housekeeping[op.Kind]; why != "" {
		return why
	}
	if why := timed[op.Method]; why != "" {
		return why
	}
	if !m.cross {
		return ""
	}
	if why := noCounterpart[op.Method]; why != "" {
		return why
	}
	switch {
	case op.Method != "" && translate.ActionFor(op.Method, op.Era) != translate.Forward && translate.ActionFor(op.Method, op.Era) != translate.Operate:
		return "the other era has no " + op.Method // a name of the protocol's own
	}
	return ""
}
