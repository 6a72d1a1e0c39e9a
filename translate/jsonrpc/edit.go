package jsonrpc

import (
	"bytes"
	"cmp"
	"slices"
)

// Edit collects changes to one message or fragment and splices them into its
// bytes in one pass. Everything it is not told to change stays byte for byte.
// Changes that name an absent Value do nothing; changes inside a deleted or
// replaced value are dropped. It is not for concurrent use.
type Edit struct {
	d     *doc
	root  uint32
	whole bool // the text around the root belongs to the output
	ops   []editOp
	few   [6]editOp // backs ops while they are few
}

type editKind uint8

const (
	opDelete editKind = iota
	opReplace
	opRename
	opInsert
)

type editOp struct {
	node uint32
	kind editKind
	key  string
	raw  []byte
}

// Edit begins edits of the whole message; the output is m.Raw with them applied.
func (m *Message) Edit() *Edit { return newEdit(&m.doc, 0, true) }

// Edit begins edits of this value; the output is v.Raw() with them applied.
func (v Value) Edit() *Edit {
	if v.d == nil {
		return newEdit(&doc{nodes: []node{{next: 1}}}, 0, false)
	}
	return newEdit(v.d, v.i, false)
}

func newEdit(d *doc, root uint32, whole bool) *Edit {
	e := &Edit{d: d, root: root, whole: whole}
	e.ops = e.few[:0]
	return e
}

func (e *Edit) add(v Value, op editOp) {
	if v.d != e.d || v.i < e.root || v.i >= e.d.nodes[e.root].next {
		panic("jsonrpc: edit of a value outside the edited one")
	}
	op.node = v.i
	e.ops = append(e.ops, op)
}

// Delete removes the member or element and one comma. The root stays.
func (e *Edit) Delete(v Value) {
	if v.Exists() && v.i != e.root {
		e.add(v, editOp{kind: opDelete})
	}
}

// Replace puts another JSON text in the value's place; the last of several wins.
func (e *Edit) Replace(v Value, raw []byte) {
	if v.Exists() {
		e.add(v, editOp{kind: opReplace, raw: raw})
	}
}

// Rename replaces the key of a member.
func (e *Edit) Rename(v Value, key string) {
	if v.Exists() && v.i != e.root && v.node().keyStart != v.node().keyEnd {
		e.add(v, editOp{kind: opRename, key: key})
	}
}

// Insert adds a member at the end of the object and reports whether obj is one.
// It does not look for a member of that name; see Set.
func (e *Edit) Insert(obj Value, key string, raw []byte) bool {
	if obj.Type() != Object {
		return false
	}
	e.add(obj, editOp{kind: opInsert, key: key, raw: raw})
	return true
}

// Set replaces the member of that name in a tracked object, or inserts it.
func (e *Edit) Set(obj Value, key string, raw []byte) bool {
	if v := obj.Get(key); v.Exists() {
		e.Replace(v, raw)
		return true
	}
	return e.Insert(obj, key, raw)
}

// Bytes is the edited text: the original slice if nothing was changed, else a new
// one.
func (e *Edit) Bytes() []byte {
	s := e.splice()
	if s.pieces == nil {
		return s.dst
	}
	return bytes.Join(append(s.pieces, s.dst), nil)
}

// Pieces is Bytes in parts, for who writes it out: long ones are not copied but
// parts of the original, which must not change.
func (e *Edit) Pieces() [][]byte {
	s := e.splice()
	return append(s.pieces, s.dst)
}

func (e *Edit) splice() splice {
	if len(e.ops) == 0 {
		start, end := e.bounds()
		return splice{dst: e.d.raw[start:end:end]}
	}
	// By node, in the order given for the same node: a parent comes before its
	// members, so one walk down meets all of them.
	slices.SortStableFunc(e.ops, func(a, b editOp) int { return cmp.Compare(a.node, b.node) })
	start, end := e.bounds()
	s := splice{d: e.d, ops: e.ops, from: start}
	if size := e.size(); size < bigPiece {
		s.dst = make([]byte, 0, size)
	}
	s.value(e.root)
	s.put(e.d.raw[s.from:end])
	return s
}

func (e *Edit) bounds() (start, end uint32) {
	if e.whole {
		return 0, uint32(len(e.d.raw))
	}
	n := &e.d.nodes[e.root]
	return n.start, n.end
}

func (e *Edit) size() int {
	start, end := e.bounds()
	size := int(end - start)
	for i := range e.ops {
		size += len(e.ops[i].key) + len(e.ops[i].raw) + len(`"":,`)
	}
	return size
}

// bigPiece is the length from which a piece of text is copied only once the
// length of the whole is known: then its room need not be cleared first.
const bigPiece = 32 << 10

// splice is the state of one pass over the changes: the bytes before from are
// dealt with.
type splice struct {
	d      *doc
	ops    []editOp // still to do
	pieces [][]byte // of the output
	dst    []byte   // what follows them
	from   uint32
}

func (s *splice) put(text []byte) {
	if len(text) < bigPiece {
		s.dst = append(s.dst, text...)
		return
	}
	s.pieces, s.dst = append(s.pieces, s.dst, text), nil
}

// cut copies up to start and leaves out what is between start and end.
func (s *splice) cut(start, end uint32) {
	s.put(s.d.raw[s.from:start])
	s.from = end
}

// take returns the changes of node i.
func (s *splice) take(i uint32) []editOp {
	ops := s.peek(i)
	s.ops = s.ops[len(ops):]
	return ops
}

func (s *splice) peek(i uint32) []editOp {
	n := 0
	for n < len(s.ops) && s.ops[n].node == i {
		n++
	}
	return s.ops[:n]
}

// drop leaves out the changes inside node i.
func (s *splice) drop(i uint32) {
	for len(s.ops) > 0 && s.ops[0].node < s.d.nodes[i].next {
		s.ops = s.ops[1:]
	}
}

func (s *splice) pending(i uint32) bool {
	return len(s.ops) > 0 && s.ops[0].node < s.d.nodes[i].next
}

// value applies the changes of node i and below. It recurses over recorded
// containers only, no deeper than the depth limit of the decoder.
func (s *splice) value(i uint32) {
	n := &s.d.nodes[i]
	ops := s.take(i)
	if k := lastOf(ops, opReplace); k >= 0 {
		s.cut(n.start, n.end)
		s.put(ops[k].raw)
		s.drop(i)
		return
	}
	hasMembers, counted := false, false
	if s.pending(i) {
		hasMembers, counted = s.members(i), true
	}
	if lastOf(ops, opInsert) < 0 {
		return
	}
	tail := s.tail(n)
	if !counted {
		hasMembers = tail > n.start+1
	}
	s.cut(tail, tail)
	s.insert(ops, hasMembers)
}

// lastOf is the index of the last change of that kind, -1 for none.
func lastOf(ops []editOp, kind editKind) int {
	for k := len(ops) - 1; k >= 0; k-- {
		if ops[k].kind == kind {
			return k
		}
	}
	return -1
}

// tail is the offset after an object's last member, or after its bracket. It
// reads the bytes, so untracked objects can be added to as well.
func (s *splice) tail(n *node) uint32 {
	pos := n.end - 1
	for isSpace(s.d.raw[pos-1]) {
		pos--
	}
	return pos
}

func (s *splice) insert(ops []editOp, hasMembers bool) {
	for k := range ops {
		if ops[k].kind != opInsert {
			continue
		}
		if hasMembers {
			s.dst = append(s.dst, ',')
		}
		hasMembers = true
		s.dst = append(AppendString(s.dst, ops[k].key), ':')
		s.put(ops[k].raw)
	}
}

// members applies the changes of the members of container i and says whether
// any member is left.
func (s *splice) members(i uint32) (left bool) {
	end := s.d.nodes[i].next
	from := s.d.nodes[i].start + 1 // after the bracket or comma before the member
	for c := i + 1; c < end; c = s.d.nodes[c].next {
		n := &s.d.nodes[c]
		next := n.end // after the comma, if there is one
		if n.next < end {
			next = uint32(skipSpace(s.d.raw, int(n.end))) + 1
		}
		switch {
		case !s.pending(c):
			left = true
		case lastOf(s.peek(c), opDelete) >= 0:
			s.drop(c)
			if left { // with the comma before it
				s.cut(from-1, n.end)
			} else { // with the comma after it, if there is one
				s.cut(from, next)
			}
		default:
			left = true
			if ops := s.peek(c); lastOf(ops, opRename) >= 0 {
				s.cut(n.keyStart, n.keyEnd)
				s.dst = AppendString(s.dst, ops[lastOf(ops, opRename)].key)
			}
			s.value(c)
		}
		from = next
	}
	return left
}
