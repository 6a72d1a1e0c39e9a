package jsonrpc

import (
	"bytes"
	"fmt"
	"math"
	"sync"
)

// node is one recorded value. Nodes lie in document order, so the first member
// of a tracked container is the node after it and next is its next sibling.
type node struct {
	keyStart, keyEnd uint32 // key token with its quotes; equal when there is no key
	start, end       uint32
	next             uint32 // first node after this value's subtree; 0 while it is open
	flags            uint8
}

const (
	flagType       = 0x07
	flagTracked    = 0x08 // the members are recorded
	flagKeyEscaped = 0x10
	flagEscaped    = 0x20 // a string with escapes
)

// frame is a tracked container that is still open.
type frame struct {
	node     uint32
	isObject bool
	suspect  bool   // two keys may be equal: compare them at the end
	seen     uint64 // one bit a key, by length and edge bytes
	track    *track
}

// parser holds the state of one pass; its slices are reused through parserPool.
type parser struct {
	raw      []byte
	nodes    []node
	frames   []frame
	open     []byte // skip's: kinds of the open untracked containers
	maxDepth int
	maxNodes int
	repeated *DecodeError // first repeated member; the pass goes on to find the id
	scratch  []byte

	keyStart, keyEnd int
	keyEscaped       bool
}

const (
	defaultMaxDepth   = 512
	defaultMaxMembers = 1 << 16

	// maxPooledNodes keeps one huge message from pinning its scratch memory.
	maxPooledNodes = 1 << 12
	// maxPairwise is the number of keys up to which comparing all pairs beats a map.
	maxPairwise = 16
)

var parserPool = sync.Pool{New: func() any { return new(parser) }}

func newParser(raw []byte, lim Limits) *parser {
	p := parserPool.Get().(*parser)
	p.raw, p.maxDepth, p.maxNodes = raw, lim.MaxDepth, lim.MaxMembers
	if p.maxDepth <= 0 {
		p.maxDepth = defaultMaxDepth
	}
	if p.maxNodes <= 0 {
		p.maxNodes = defaultMaxMembers
	}
	p.reset()
	return p
}

func (p *parser) reset() {
	p.nodes, p.frames, p.open = p.nodes[:0], p.frames[:0], p.open[:0]
	p.repeated = nil
	p.keyStart, p.keyEnd, p.keyEscaped = 0, 0, false
}

func (p *parser) release() {
	p.raw, p.repeated = nil, nil
	if cap(p.nodes) > maxPooledNodes {
		p.nodes = nil
	}
	if cap(p.scratch) > maxPooledNodes {
		p.scratch = nil
	}
	if cap(p.open) > 8*defaultMaxDepth {
		p.open = nil
	}
	parserPool.Put(p)
}

// takeNodes copies the nodes out at their exact size.
func (p *parser) takeNodes() []node {
	nodes := make([]node, len(p.nodes))
	copy(nodes, p.nodes)
	return nodes
}

func (p *parser) fail(pos int, msg string) *DecodeError {
	if pos >= len(p.raw) {
		pos, msg = len(p.raw), msgEnd
	}
	return &DecodeError{Code: CodeParse, Msg: msg, Offset: pos}
}

func (p *parser) refuse(pos int, msg string) *DecodeError {
	return &DecodeError{Code: CodeInvalidRequest, Msg: msg, Offset: pos}
}

// parseWhole checks that raw is one value between optional white space.
func (p *parser) parseWhole(t *track) *DecodeError {
	end, err := p.parse(skipSpace(p.raw, 0), t)
	if err != nil {
		return err
	}
	if end = skipSpace(p.raw, end); end < len(p.raw) {
		return p.fail(end, "data after the JSON value")
	}
	return p.repeated
}

// parse reads the value at pos and returns the offset after it. It never calls
// itself: depth costs an entry in p.frames or p.open, not stack.
func (p *parser) parse(pos int, t *track) (int, *DecodeError) {
	if uint64(len(p.raw)) > math.MaxUint32 {
		return 0, p.refuse(0, "message of 4 GiB or more")
	}
	for {
		end, opened, err := p.value(pos, t)
		if err != nil {
			return 0, err
		}
		pos = end
		if !opened {
			var done bool
			if pos, done, err = p.closeUp(pos); done || err != nil {
				return pos, err
			}
		}
		if pos, t, err = p.member(pos); err != nil {
			return 0, err
		}
	}
}

// value records the value at pos. opened says that a tracked container with at
// least one member begins, the offset being that of the first member.
func (p *parser) value(pos int, t *track) (end int, opened bool, err *DecodeError) {
	if len(p.nodes) >= p.maxNodes {
		return 0, false, p.refuse(pos, fmt.Sprintf("more than %d members", p.maxNodes))
	}
	n := node{keyStart: uint32(p.keyStart), keyEnd: uint32(p.keyEnd), start: uint32(pos)}
	if p.keyEscaped {
		n.flags = flagKeyEscaped
	}
	c := byteAt(p.raw, pos)
	if c != '{' && c != '[' {
		end, typ, escaped, msg := scanScalar(p.raw, pos)
		if msg != "" {
			return 0, false, p.fail(end, msg)
		}
		n.flags |= uint8(typ)
		if escaped {
			n.flags |= flagEscaped
		}
		p.add(n, end)
		return end, false, nil
	}
	typ := containerType(c)
	n.flags |= uint8(typ)
	if t == nil {
		if end, err = p.skip(pos); err == nil {
			p.add(n, end)
		}
		return end, false, err
	}
	if len(p.frames) >= p.maxDepth {
		return 0, false, p.tooDeep(pos)
	}
	n.flags |= flagTracked
	pos = skipSpace(p.raw, pos+1)
	if byteAt(p.raw, pos) == closing(c) {
		p.add(n, pos+1)
		return pos + 1, false, nil
	}
	p.frames = append(p.frames, frame{node: uint32(len(p.nodes)), isObject: c == '{', track: t})
	p.add(n, pos)
	p.nodes[len(p.nodes)-1].next = 0 // until it is closed
	return pos, true, nil
}

func containerType(c byte) Type {
	if c == '{' {
		return Object
	}
	return Array
}

// closing is the bracket that ends what c begins: in ASCII they stand two apart.
func closing(c byte) byte { return c + 2 }

func (p *parser) add(n node, end int) {
	n.end, n.next = uint32(end), uint32(len(p.nodes)+1)
	p.nodes = append(p.nodes, n)
}

func (p *parser) tooDeep(pos int) *DecodeError {
	return p.refuse(pos, fmt.Sprintf("nested deeper than %d", p.maxDepth))
}

// closeUp goes from the end of a value to the next member, closing the containers
// that end on the way; done when the outermost value is over.
func (p *parser) closeUp(pos int) (next int, done bool, err *DecodeError) {
	for {
		if len(p.frames) == 0 {
			return pos, true, nil
		}
		f := &p.frames[len(p.frames)-1]
		pos = skipSpace(p.raw, pos)
		c := byteAt(p.raw, pos)
		if c == ',' {
			return skipSpace(p.raw, pos+1), false, nil
		}
		if f.isObject && c != '}' || !f.isObject && c != ']' {
			return 0, false, p.fail(pos, msgSeparator)
		}
		pos++
		p.nodes[f.node].end = uint32(pos)
		p.nodes[f.node].next = uint32(len(p.nodes))
		if f.suspect {
			p.checkRepeated(f.node)
		}
		p.frames = p.frames[:len(p.frames)-1]
	}
}

// member reads the key, if any, of the member at pos, and says what to track of
// its value.
func (p *parser) member(pos int) (int, *track, *DecodeError) {
	f := &p.frames[len(p.frames)-1]
	p.keyStart, p.keyEnd, p.keyEscaped = 0, 0, false
	if !f.isObject {
		return pos, f.track.any, nil
	}
	end, escaped, err := p.key(pos)
	if err != nil {
		return 0, nil, err
	}
	p.keyStart, p.keyEnd, p.keyEscaped = pos, end, escaped
	f.note(p.raw[pos+1:end-1], escaped)
	if pos, err = p.colon(end); err != nil {
		return 0, nil, err
	}
	if c := byteAt(p.raw, pos); c != '{' && c != '[' {
		return pos, nil, nil // scalars need no look-up
	}
	name := p.raw[p.keyStart+1 : p.keyEnd-1]
	if escaped {
		p.scratch = appendUnescaped(p.scratch[:0], name, keepSurrogates)
		name = p.scratch
	}
	return pos, f.track.child(name), nil
}

func (p *parser) key(pos int) (end int, escaped bool, err *DecodeError) {
	if byteAt(p.raw, pos) != '"' {
		return 0, false, p.fail(pos, msgName)
	}
	end, escaped, msg := scanString(p.raw, pos)
	if msg != "" {
		return 0, false, p.fail(end, msg)
	}
	return end, escaped, nil
}

func (p *parser) colon(pos int) (int, *DecodeError) {
	pos = skipSpace(p.raw, pos)
	if byteAt(p.raw, pos) != ':' {
		return 0, p.fail(pos, msgColon)
	}
	return skipSpace(p.raw, pos+1), nil
}

// note marks the object as suspect when the new key may equal an earlier one.
func (f *frame) note(key []byte, escaped bool) {
	h := uint(len(key))
	if h > 0 {
		h = h*31 + uint(key[0])*7 + uint(key[h-1])
	}
	bit := uint64(1) << (h % 64)
	if escaped || f.seen&bit != 0 {
		f.suspect = true
	}
	f.seen |= bit
}

// checkRepeated looks for two equal keys, compared decoded: with a repeated
// member one parser reads the first and another the last, which would let a
// message pass our rules as one thing and reach the server as another.
func (p *parser) checkRepeated(container uint32) {
	if p.repeated != nil {
		return
	}
	doc := &doc{raw: p.raw, nodes: p.nodes}
	first, end := container+1, p.nodes[container].next
	count := 0
	for i := first; i < end; i = p.nodes[i].next {
		count++
	}
	if count <= maxPairwise {
		p.checkPairs(doc, first, end)
		return
	}
	seen := make(map[string]struct{}, count)
	for i := first; i < end; i = p.nodes[i].next {
		key := doc.keyBytes(i)
		if _, ok := seen[string(key)]; ok {
			p.setRepeated(i, key)
			return
		}
		seen[string(key)] = struct{}{}
	}
}

func (p *parser) checkPairs(doc *doc, first, end uint32) {
	for i := p.nodes[first].next; i < end; i = p.nodes[i].next {
		key := doc.keyBytes(i)
		for j := first; j < i; j = p.nodes[j].next {
			if bytes.Equal(key, doc.keyBytes(j)) {
				p.setRepeated(i, key)
				return
			}
		}
	}
}

func (p *parser) setRepeated(i uint32, key []byte) {
	const shown = 64
	p.repeated = p.refuse(int(p.nodes[i].keyStart), fmt.Sprintf("repeated member %.*q", shown, key))
}

// skip checks the untracked container at pos and returns the offset after it.
// Most bytes of a large message are passed here, so it is one loop over its
// tokens with all state in local variables.
func (p *parser) skip(pos int) (int, *DecodeError) {
	raw, room, open := p.raw, p.maxDepth-len(p.frames), p.open[:0]
	inObject := false // a member begins at pos
	for {
		if inObject {
			if byteAt(raw, pos) != '"' {
				return 0, p.fail(pos, msgName)
			}
			end, _, msg := scanString(raw, pos)
			if msg != "" {
				return 0, p.fail(end, msg)
			}
			if pos = skipSpace(raw, end); byteAt(raw, pos) != ':' {
				return 0, p.fail(pos, msgColon)
			}
			pos = skipSpace(raw, pos+1)
		}
		c := byteAt(raw, pos)
		if c == '{' || c == '[' {
			if len(open) >= room {
				return 0, p.tooDeep(pos)
			}
			if pos = skipSpace(raw, pos+1); byteAt(raw, pos) != closing(c) {
				open, inObject = append(open, c), c == '{'
				continue
			}
			pos++
		} else {
			var msg string
			if c == '"' {
				pos, _, msg = scanString(raw, pos)
			} else {
				pos, _, _, msg = scanScalar(raw, pos)
			}
			if msg != "" {
				return 0, p.fail(pos, msg)
			}
		}
		for ; ; pos++ { // from the end of a value to the next one
			if len(open) == 0 {
				p.open = open
				return pos, nil
			}
			pos = skipSpace(raw, pos)
			kind := open[len(open)-1]
			if c = byteAt(raw, pos); c == ',' {
				pos, inObject = skipSpace(raw, pos+1), kind == '{'
				break
			}
			if c != closing(kind) {
				return 0, p.fail(pos, msgSeparator)
			}
			open = open[:len(open)-1]
		}
	}
}
