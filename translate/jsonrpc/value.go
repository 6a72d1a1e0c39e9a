package jsonrpc

import (
	"errors"
	"iter"
	"math"
	"strconv"
)

// Type is the JSON type of a value.
type Type uint8

// The JSON types. Absent is the type of the zero Value.
const (
	Absent Type = iota
	Null
	Bool
	Number
	String
	Object
	Array
)

func (t Type) String() string {
	switch t {
	case Absent:
		return "absent"
	case Null:
		return "null"
	case Bool:
		return "boolean"
	case Number:
		return "number"
	case String:
		return "string"
	case Object:
		return "object"
	case Array:
		return "array"
	}
	return "Type(" + strconv.Itoa(int(t)) + ")"
}

// doc is a checked text and the nodes recorded in it.
type doc struct {
	raw   []byte
	nodes []node
}

func (d *doc) span(i uint32) []byte {
	n := &d.nodes[i]
	return d.raw[n.start:n.end:n.end]
}

// keyBytes is the decoded key of a member. Lone surrogates are kept apart, so
// different keys never decode to the same bytes.
func (d *doc) keyBytes(i uint32) []byte {
	n := &d.nodes[i]
	if n.keyStart == n.keyEnd {
		return nil
	}
	key := d.raw[n.keyStart+1 : n.keyEnd-1]
	if n.flags&flagKeyEscaped != 0 {
		return appendUnescaped(nil, key, keepSurrogates)
	}
	return key
}

func (d *doc) keyIs(i uint32, key string) bool {
	n := &d.nodes[i]
	if n.flags&flagKeyEscaped != 0 {
		return string(d.keyBytes(i)) == key
	}
	return int(n.keyEnd-n.keyStart) == len(key)+2 && string(d.raw[n.keyStart+1:n.keyEnd-1]) == key
}

const noParent = math.MaxUint32

// Value is a read-only view on one value of a message or fragment. The zero
// Value is an absent one; every method works on it.
type Value struct {
	d         *doc
	i, parent uint32
}

var errAbsent = errors.New("jsonrpc: parse an absent value")

// Limit of ParseValue: what it tracks is everything, at 24 bytes a value.
const maxFragmentMembers = 1 << 20

// ParseValue reads a JSON text of any type, recording every member in it; hence
// a repeated member is refused at any depth. It is meant for small parts: more
// than about a million values are refused. Errors are *DecodeError.
func ParseValue(raw []byte) (Value, error) {
	return ParseValueLimits(raw, Limits{MaxMembers: maxFragmentMembers})
}

// ParseValueLimits is ParseValue with other limits.
func ParseValueLimits(raw []byte, lim Limits) (Value, error) {
	p := newParser(raw, lim)
	defer p.release()
	if err := p.parseWhole(trackEverything); err != nil {
		return Value{}, err
	}
	return Value{d: &doc{raw: raw, nodes: p.takeNodes()}, parent: noParent}, nil
}

func (v Value) node() *node { return &v.d.nodes[v.i] }

// Exists says that the value is there, be it null.
func (v Value) Exists() bool { return v.d != nil }

// Raw is the value's text as received, without white space around it. It must
// not be changed.
func (v Value) Raw() []byte {
	if v.d == nil {
		return nil
	}
	return v.d.span(v.i)
}

// Type is the value's JSON type.
func (v Value) Type() Type {
	if v.d == nil {
		return Absent
	}
	return Type(v.node().flags & flagType)
}

// Tracked says that the members are recorded, so that Get, Members, Elems and Len
// see them. Scalars are never tracked.
func (v Value) Tracked() bool { return v.d != nil && v.node().flags&flagTracked != 0 }

// Key is the decoded member name, empty for an element and the root. A lone
// surrogate in it is three bytes that are no valid UTF-8, so that different names
// stay different; AppendString turns them into the escape again.
func (v Value) Key() string {
	if v.d == nil {
		return ""
	}
	return string(v.d.keyBytes(v.i))
}

// Get returns the member of a tracked object with this decoded name. It searches
// from the first member on; over many names use Members.
func (v Value) Get(key string) Value {
	if v.Type() == Object && v.Tracked() {
		for i, end := v.i+1, v.node().next; i < end; i = v.d.nodes[i].next {
			if v.d.keyIs(i, key) {
				return Value{v.d, i, v.i}
			}
		}
	}
	return Value{}
}

// Parse reads an untracked value as a fragment of its own, everything in it
// tracked. Edits of the fragment are relative to v.Raw().
func (v Value) Parse() (Value, error) {
	if v.d == nil {
		return Value{}, errAbsent
	}
	return ParseValue(v.Raw())
}

// Str decodes a string. A lone surrogate reads as U+FFFD in this view only; the
// bytes keep the escape.
func (v Value) Str() (string, bool) {
	if v.Type() != String {
		return "", false
	}
	n := v.node()
	text := v.d.raw[n.start+1 : n.end-1]
	if n.flags&flagEscaped == 0 {
		return string(text), true
	}
	return string(appendUnescaped(nil, text, replaceSurrogates)), true
}

// Is says that the value is a string equal to s.
func (v Value) Is(s string) bool {
	if v.Type() != String {
		return false
	}
	n := v.node()
	text := v.d.raw[n.start+1 : n.end-1]
	if n.flags&flagEscaped == 0 {
		return string(text) == s
	}
	return string(appendUnescaped(nil, text, keepSurrogates)) == s
}

// Int reads a number with an integral value, however it is spelled, within
// ±(2^53-1).
func (v Value) Int() (int64, bool) {
	if v.Type() != Number {
		return 0, false
	}
	return splitNumber(v.Raw()).int()
}

// Float reads a number as the nearest float64; false if it is out of range.
func (v Value) Float() (float64, bool) {
	if v.Type() != Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.Raw()), 64)
	return f, err == nil
}

// Bool reads a boolean.
func (v Value) Bool() (value, ok bool) {
	if v.Type() != Bool {
		return false, false
	}
	return v.Raw()[0] == 't', true
}

// Members yields the members of a tracked object in their order, with decoded
// names.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.Type() != Object {
			return
		}
		for m := range v.children() {
			if !yield(m.Key(), m) {
				return
			}
		}
	}
}

// Elems yields the elements of a tracked array.
func (v Value) Elems() iter.Seq[Value] {
	if v.Type() != Array {
		return func(func(Value) bool) {}
	}
	return v.children()
}

func (v Value) children() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if !v.Tracked() {
			return
		}
		for i, end := v.i+1, v.node().next; i < end; i = v.d.nodes[i].next {
			if !yield(Value{v.d, i, v.i}) {
				return
			}
		}
	}
}

// Len counts the members or elements of a tracked container.
func (v Value) Len() int {
	n := 0
	for range v.children() {
		n++
	}
	return n
}
