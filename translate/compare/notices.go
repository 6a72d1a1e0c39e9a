package compare

import (
	"crypto/sha256"

	"taskbridge/translate"
	"taskbridge/translate/operation"
)

// questions pairs what the client was asked: equal ones first, in any order
// (entries of inputRequests have none), then those of one method in their order.
func (d *differ) questions() {
	a, b := d.da.get("questions").list(), d.db.get("questions").list()
	if len(a)+len(b) == 0 || d.da.get("questions") == nil || d.db.get("questions") == nil {
		return
	}
	pairs, onlyA, onlyB := pairUp(a, b,
		func(q *node) []byte { return q.canonical(nil, true) },
		func(q *node) []byte {
			return object("method", q.get("method"), "params", q.get("params")).canonical(nil, true)
		},
		func(q *node) []byte { return []byte(q.get("method").str()) })
	path := []step{member("questions")}
	for _, p := range pairs {
		x, y := a[p[0]], b[p[1]]
		d.diff(append(at(path, p[0]), member("params")), orEmpty(x.get("params")), orEmpty(y.get("params")))
		d.answers(append(at(path, p[0]), member("answer")), x, y)
	}
	for _, i := range onlyA {
		x := Difference{Path: pathText(at(path, i)), Kind: KindNotAsked, Severity: Worse, Text: "the client was not asked this", Was: show(a[i])}
		if a[i].get("method").str() == "roots/list" && d.cross {
			x.Severity, x.Text = Note, "the client was not asked for its roots again: the answer before still holds in the session"
		}
		d.add(x)
	}
	for _, i := range onlyB {
		d.add(Difference{Path: pathText(at(path, i)), Kind: KindAsked, Severity: Changed, Text: "the client was asked what it was not asked before", Now: show(b[i])})
	}
}

func orEmpty(n *node) *node {
	if n == nil {
		return object()
	}
	return n
}

// answers: what a client says is its own affair; that it says nothing is not.
func (d *differ) answers(path []step, a, b *node) {
	was, now := answerOf(a), answerOf(b)
	switch {
	case was == nil && now == nil:
	case was == nil || now == nil:
		d.add(Difference{Path: pathText(path), Kind: KindAnswer, Severity: Changed, Text: "answered on one side only", Was: show(was), Now: show(now)})
	case was.digest(true) != now.digest(true):
		d.add(Difference{Path: pathText(path), Kind: KindAnswer, Severity: Note, Text: "the client answered something else", Was: show(was), Now: show(now)})
	}
}

func answerOf(q *node) *node {
	if e := q.get("error"); e != nil {
		return object("error", e)
	}
	a := q.get("answer")
	if a == nil {
		return nil
	}
	a.drop("_meta")
	a.drop("resultType")
	return a
}

// pairUp pairs elements of two lists in rounds: in each those that a key is
// equal for, in their order.
func pairUp(a, b []*node, keys ...func(*node) []byte) (pairs [][2]int, onlyA, onlyB []int) {
	taken := make([]bool, len(b))
	mate := make([]int, len(a))
	for i := range mate {
		mate[i] = -1
	}
	for _, key := range keys {
		waiting := map[[sha256.Size]byte][]int{}
		for i, n := range b {
			if !taken[i] {
				k := sha256.Sum256(key(n))
				waiting[k] = append(waiting[k], i)
			}
		}
		for i, n := range a {
			if mate[i] >= 0 {
				continue
			}
			k := sha256.Sum256(key(n))
			if list := waiting[k]; len(list) > 0 {
				mate[i], waiting[k] = list[0], list[1:]
				taken[list[0]] = true
			}
		}
	}
	for i, k := range mate {
		if k < 0 {
			onlyA = append(onlyA, i)
			continue
		}
		pairs = append(pairs, [2]int{i, k})
	}
	for i := range b {
		if !taken[i] {
			onlyB = append(onlyB, i)
		}
	}
	return pairs, onlyA, onlyB
}

// notices compares what the server said beside its answer.
func (d *differ) notices() {
	if d.a.Kind != operation.Listen && (d.a.Outcome == operation.Unfinished || d.b.Outcome == operation.Unfinished) {
		return // the outcome says it, and how far they came is chance
	}
	if d.da.get("notices") == nil || d.db.get("notices") == nil {
		return // ignored
	}
	whole := !d.cross && d.a.Kind == operation.Call && d.b.Kind == operation.Call &&
		d.a.Outcome != operation.Cancelled && d.b.Outcome != operation.Cancelled
	seen := map[string]bool{}
	for _, m := range noticeMethods(d.a, d.b) {
		if seen[m] {
			continue
		}
		seen[m] = true
		if whole && compared(m) && !translate.OfSession(m) {
			d.sequence(m)
			continue
		}
		d.presence(m)
	}
}

func noticeMethods(ops ...*operation.Operation) (out []string) {
	for _, op := range ops {
		for _, p := range op.Parts {
			if p.IsNotice() && p.Msg.Method != "notifications/cancelled" {
				out = append(out, p.Msg.Method)
			}
		}
	}
	return out
}

// presence: how many there are depends on the clock, that there are some does
// not.
func (d *differ) presence(method string) {
	count := func(op *operation.Operation) (n int) {
		for _, p := range op.Parts {
			if p.IsNotice() && p.Msg.Method == method {
				n++
			}
		}
		return n
	}
	if count(d.a) == 0 || count(d.b) > 0 || d.b.Outcome == operation.Cancelled {
		return
	}
	x := Difference{Path: "$.notices", Kind: KindNoNotice, Severity: Worse, Text: "the server no longer sends such notices", Was: method}
	for _, r := range missingNotices {
		if (r.method == "" || r.method == method) && d.during(r.when) {
			x.Severity, x.Text = Note, "no such notices: "+r.why
			break
		}
	}
	d.add(x)
}

// during says that a condition of missingNotices holds.
func (d *differ) during(when string) bool {
	switch when {
	case acrossEra:
		return d.cross
	case onListen:
		return d.a.Kind == operation.Listen
	case whileATask:
		return d.a.Kind == operation.Task || d.b.Kind == operation.Task
	}
	return true
}

// sequence compares all notices of one method.
func (d *differ) sequence(method string) {
	var places []int // in A's document
	of := func(doc *node) *node {
		list := array()
		for i, n := range doc.get("notices").list() {
			if n.get("method").str() == method {
				list.kids = append(list.kids, n)
				if doc == d.da {
					places = append(places, i)
				}
			}
		}
		return list
	}
	a, b := of(d.da), of(d.db)
	spelling := !d.o.IgnoreNumberSpelling
	da, db := digests(a, spelling), digests(b, spelling)
	if equalDigests(da, db) {
		return
	}
	path := []step{member("notices")}
	onlyA, onlyB := apart(da, db)
	if len(onlyA)+len(onlyB) == 0 {
		d.tell(path, KindOrder, a, b)
		return
	}
	for i := range max(len(onlyA), len(onlyB)) {
		switch {
		case i >= len(onlyA):
			d.add(Difference{Path: pathText(path), Kind: KindNotice, Severity: Changed, Text: "a notice that was not sent before", Now: show(b.kids[onlyB[i]])})
		case i >= len(onlyB):
			d.add(Difference{Path: pathText(path), Kind: KindNoNotice, Severity: Worse, Text: "a notice is missing", Was: show(a.kids[onlyA[i]])})
		default:
			d.diff(at(path, places[onlyA[i]]), a.kids[onlyA[i]], b.kids[onlyB[i]])
		}
	}
}

func equalDigests(a, b [][sha256.Size]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
