package compare

import (
	"crypto/sha256"
	"slices"
	"strconv"

	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// differ compares one pair.
type differ struct {
	o       Options
	cross   bool
	a, b    *operation.Operation
	da, db  *node
	found   []Difference
	notes   int // of them
	omitted int
	differs bool // more than notes was found, omitted ones too
}

// step is one part of a path: a member's name, an element's index, or an
// element of a list that has names.
type step struct {
	name  string
	index int // -1: a name
	key   string
}

func member(name string) step { return step{name: name, index: -1} }

func (d *differ) add(x Difference) {
	if !d.admits(x.Severity) {
		return
	}
	d.found = append(d.found, x)
}

// admits counts a difference and says whether it is kept: notes never take the
// place of graver ones.
func (d *differ) admits(s Severity) bool {
	full := d.notes >= maxNotes
	if s == Note {
		d.notes++
	} else {
		d.differs = true
		full = len(d.found)-min(d.notes, maxNotes) >= maxDifferences
	}
	if full {
		d.omitted++
	}
	return !full
}

// tell adds what was found at a path, as the rows of graves have it.
func (d *differ) tell(path []step, kind Kind, was, now *node) {
	row := defaults[kind]
	for _, r := range graves {
		if (r.kind == "" || r.kind == kind) && (r.now == "" || r.now == now.str()) && fits(r.path, path) {
			row = r
			break
		}
	}
	if !d.admits(row.severity) {
		return
	}
	if row.as == "" {
		row.as = kind
	}
	x := Difference{Path: pathText(path), Kind: row.as, Severity: row.severity, Text: row.text}
	if row.as != kind {
		x.Text += " (" + string(kind) + ")"
	}
	x.Was, x.Now = showBoth(was, now)
	x.Unified = unified(was, now)
	d.found = append(d.found, x)
}

// document compares one member of the two documents.
func (d *differ) document(name string) {
	a, b := d.da.get(name), d.db.get(name)
	if a != nil || b != nil {
		d.diff([]step{member(name)}, a, b)
	}
}

// diff recurses as deep as the values are.
func (d *differ) diff(path []step, a, b *node) {
	switch {
	case a == b:
	case a == nil:
		d.tell(path, KindAdded, nil, b)
	case b == nil:
		d.tell(path, KindGone, a, nil)
	case a.typ != b.typ:
		d.tell(path, KindType, a, b)
	case a.text != nil && b.text != nil:
		d.diff(path, a.text, b.text)
	case a.typ == jsonrpc.Object:
		d.members(path, a, b)
	case a.typ == jsonrpc.Array:
		d.elements(path, a, b)
	case a.raw == b.raw:
	case a.typ == jsonrpc.Number && number(a.raw) == number(b.raw):
		if !d.o.IgnoreNumberSpelling {
			d.tell(path, KindSpelling, a, b)
		}
	default:
		d.tell(path, KindValue, a, b)
	}
}

// index finds members by name.
func (n *node) index() func(string) *node {
	const few = 16
	if len(n.keys) <= few {
		return n.get
	}
	byKey := make(map[string]*node, len(n.keys))
	for i, key := range n.keys {
		byKey[key] = n.kids[i]
	}
	return func(key string) *node { return byKey[key] }
}

func (d *differ) members(path []step, a, b *node) {
	inA, inB := a.index(), b.index()
	for i, key := range a.keys {
		d.diff(append(path[:len(path):len(path)], member(key)), a.kids[i], inB(key))
	}
	for i, key := range b.keys {
		if inA(key) == nil {
			d.diff(append(path[:len(path):len(path)], member(key)), nil, b.kids[i])
		}
	}
}

func (d *differ) elements(path []step, a, b *node) {
	for _, r := range keyed {
		if fits(r.path, path) && d.items(path, a, b, r.key) {
			return
		}
	}
	spelling := !d.o.IgnoreNumberSpelling
	da, db := digests(a, spelling), digests(b, spelling)
	if slices.Equal(da, db) {
		return
	}
	set := slices.ContainsFunc(sets, func(p string) bool { return fits(p, path) })
	onlyA, onlyB := apart(da, db)
	if set || len(onlyA)+len(onlyB) == 0 {
		if !set {
			d.tell(path, KindOrder, a, b)
		}
		for _, i := range onlyA {
			d.diff(at(path, i), a.kids[i], nil)
		}
		for _, i := range onlyB {
			d.diff(at(path, i), nil, b.kids[i])
		}
		return
	}
	d.aligned(path, a, b, da, db)
}

func at(path []step, i int) []step {
	return append(path[:len(path):len(path)], step{index: i})
}

// aligned compares arrays that differ in elements: what is equal at both ends
// stays out, the rest goes by place; where one side has none left there, an
// element is gone or added.
func (d *differ) aligned(path []step, a, b *node, da, db [][sha256.Size]byte) {
	from := 0
	for from < min(len(da), len(db)) && da[from] == db[from] {
		from++
	}
	endA, endB := len(da), len(db)
	for endA > from && endB > from && da[endA-1] == db[endB-1] {
		endA--
		endB--
	}
	for i := from; i < max(endA, endB); i++ {
		var x, y *node
		if i < endA {
			x = a.kids[i]
		}
		if i < endB {
			y = b.kids[i]
		}
		d.diff(at(path, i), x, y)
	}
}

func digests(n *node, spelling bool) [][sha256.Size]byte {
	out := make([][sha256.Size]byte, len(n.kids))
	for i, kid := range n.kids {
		out[i] = kid.digest(spelling)
	}
	return out
}

// apart returns the places of what only one of two lists has, counted.
func apart(a, b [][sha256.Size]byte) (onlyA, onlyB []int) {
	count := map[[sha256.Size]byte]int{}
	for _, x := range b {
		count[x]++
	}
	for i, x := range a {
		if count[x] == 0 {
			onlyA = append(onlyA, i)
			continue
		}
		count[x]--
	}
	for i := len(b) - 1; i >= 0; i-- {
		if count[b[i]] > 0 {
			count[b[i]]--
			onlyB = append(onlyB, i)
		}
	}
	slices.Reverse(onlyB)
	return onlyA, onlyB
}

// items compares lists whose elements have names; false if some have none.
func (d *differ) items(path []step, a, b *node, key string) bool {
	namesA, namesB := names(a, key), names(b, key)
	if namesA == nil || namesB == nil {
		return false
	}
	inB := map[string]*node{}
	for i, n := range namesB {
		inB[n] = b.kids[i]
	}
	inA := map[string]bool{}
	var order []string // of what both have, as A has it
	for i, n := range namesA {
		inA[n] = true
		d.diff(append(path[:len(path):len(path)], step{name: n, key: key}), a.kids[i], inB[n])
		if inB[n] != nil {
			order = append(order, n)
		}
	}
	var now []string
	for i, n := range namesB {
		if !inA[n] {
			d.diff(append(path[:len(path):len(path)], step{name: n, key: key}), nil, b.kids[i])
			continue
		}
		now = append(now, n)
	}
	if !slices.Equal(order, now) {
		d.tell(path, KindOrder, texts(order), texts(now))
	}
	return true
}

// names are the elements' own, a second one of a name with its number.
func names(n *node, key string) []string {
	out := make([]string, len(n.kids))
	seen := map[string]int{}
	for i, kid := range n.kids {
		v := kid.get(key)
		if v == nil || v.typ != jsonrpc.String {
			return nil
		}
		out[i] = v.raw
		if seen[v.raw]++; seen[v.raw] > 1 {
			out[i] += " #" + strconv.Itoa(seen[v.raw])
		}
	}
	return out
}

func texts(list []string) *node {
	n := array()
	for _, s := range list {
		n.kids = append(n.kids, str(s))
	}
	return n
}
