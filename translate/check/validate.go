package check

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"

	"taskbridge/translate/jsonrpc"
)

// fault is one place where a value breaks its shape.
type fault struct {
	path string
	kind faultKind
	want string
	got  string
}

type faultKind uint8

const (
	missing faultKind = iota
	wrongType
	wrongValue
)

// maxFaults bounds what is said about one message: a list of a thousand broken
// tools needs no thousand findings.
const maxFaults = 8

// validator walks one value. Its depth is that of our own definitions.
type validator struct {
	path   []string
	faults []fault
}

// validate holds v against s. root is how the value is called in paths.
func validate(root string, v jsonrpc.Value, s *shape) []fault {
	w := validator{path: []string{root}}
	w.value(v, s)
	return w.faults
}

func (w *validator) full() bool { return len(w.faults) >= maxFaults }

func (w *validator) add(kind faultKind, want, got string, at ...string) {
	if !w.full() {
		path := strings.Join(append(w.path[:len(w.path):len(w.path)], at...), ".")
		w.faults = append(w.faults, fault{path, kind, want, got})
	}
}

func (w *validator) value(v jsonrpc.Value, s *shape) {
	switch s.kind {
	case either:
		w.either(v, s)
		return
	case allOf:
		for _, a := range s.alts {
			w.value(v, a)
		}
		return
	}
	if !fits(v, s) {
		w.add(wrongType, typeWord(s), v.Type().String())
		return
	}
	switch s.kind {
	case oneOf:
		w.word(v, s)
	case anObject:
		w.members(v, s.members)
	case anArray:
		i := 0
		for e := range v.Elems() {
			if w.full() {
				return
			}
			w.in(strconv.Itoa(i), e, s.elem)
			i++
		}
	case mapOf:
		for key, e := range v.Members() {
			if w.full() {
				return
			}
			w.in(key, e, s.elem)
		}
	case picked:
		w.pick(v, s)
	}
}

func (w *validator) in(name string, v jsonrpc.Value, s *shape) {
	w.path = append(w.path, name)
	w.value(v, s)
	w.path = w.path[:len(w.path)-1]
}

func (w *validator) members(v jsonrpc.Value, list []member) {
	if len(list) == 0 {
		return
	}
	if small := len(list) < 4; small {
		for i := range list {
			w.one(v.Get(list[i].name), &list[i])
		}
		return
	}
	var seen uint64 // definitions have fewer than 64 members
	for key, e := range v.Members() {
		for i := range list {
			if list[i].name == key {
				seen |= 1 << i
				w.in(key, e, list[i].shape)
				break
			}
		}
	}
	for i := range list {
		if list[i].required && seen&(1<<i) == 0 {
			w.add(missing, "", "", list[i].name)
		}
	}
}

func (w *validator) one(e jsonrpc.Value, m *member) {
	switch {
	case e.Exists():
		w.in(m.name, e, m.shape)
	case m.required:
		w.add(missing, "", "", m.name)
	}
}

// either takes the alternative whose JSON type fits; two of one type do not
// stand in the definitions.
func (w *validator) either(v jsonrpc.Value, s *shape) {
	var want []string
	for _, a := range s.alts {
		if fits(v, a) {
			w.value(v, a)
			return
		}
		want = append(want, typeWord(a))
	}
	w.add(wrongType, strings.Join(want, " or "), v.Type().String())
}

func (w *validator) pick(v jsonrpc.Value, s *shape) {
	if s.member == "" {
		names := make([]string, 0, len(s.choices))
		for _, c := range s.choices {
			if v.Get(c.value).Exists() {
				w.value(v, c.shape)
				return
			}
			names = append(names, c.value)
		}
		if s.absent != nil {
			w.value(v, s.absent)
			return
		}
		w.add(missing, "", "", strings.Join(names, "|"))
		return
	}
	d := v.Get(s.member)
	if !d.Exists() {
		if s.absent == nil {
			w.add(missing, "", "", s.member)
		} else {
			w.value(v, s.absent)
		}
		return
	}
	word, ok := d.Str()
	switch c := s.byName[word]; {
	case !ok && s.other == nil:
		w.add(wrongType, "string", d.Type().String(), s.member)
	case c != nil:
		w.value(v, c)
	case s.other != nil:
		w.value(v, s.other)
	default:
		names := make([]string, 0, len(s.choices))
		for _, c := range s.choices {
			names = append(names, c.value)
		}
		w.add(wrongValue, strings.Join(names, ", "), clip(word), s.member)
	}
}

func (w *validator) word(v jsonrpc.Value, s *shape) {
	if slices.ContainsFunc(s.words, v.Is) {
		return
	}
	got, _ := v.Str()
	w.add(wrongValue, strings.Join(s.words, ", "), clip(got))
}

// fits says whether the value's JSON type is the shape's.
func fits(v jsonrpc.Value, s *shape) bool {
	t := v.Type()
	switch s.kind {
	case aString, oneOf:
		return t == jsonrpc.String
	case anInteger:
		return t == jsonrpc.Number && integral(v)
	case aNumber:
		return t == jsonrpc.Number
	case aBoolean:
		return t == jsonrpc.Bool
	case aNull:
		return t == jsonrpc.Null
	case anObject, mapOf, picked:
		return t == jsonrpc.Object
	case anArray:
		return t == jsonrpc.Array
	case either, allOf:
		for _, a := range s.alts {
			if fits(v, a) {
				return true
			}
		}
		return false
	}
	return true
}

// integral: 1.0 is an integer, and so is one that no double holds.
func integral(v jsonrpc.Value) bool {
	if _, ok := v.Int(); ok {
		return true
	}
	return !bytes.ContainsAny(v.Raw(), ".eE")
}

func typeWord(s *shape) string {
	switch s.kind {
	case aString, oneOf:
		return "string"
	case anInteger:
		return "integer"
	case aNumber:
		return "number"
	case aBoolean:
		return "boolean"
	case aNull:
		return "null"
	case anArray:
		return "array"
	case either:
		var words []string
		for _, a := range s.alts {
			words = append(words, typeWord(a))
		}
		return strings.Join(words, " or ")
	}
	return "object"
}

// clip keeps what a message quotes of a peer short.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

var pathsByShape sync.Map // *shape → *jsonrpc.Paths

// pathsOf are the places of a text that the shape looks at.
func pathsOf(s *shape) *jsonrpc.Paths {
	if p, ok := pathsByShape.Load(s); ok {
		return p.(*jsonrpc.Paths)
	}
	var rows [][]string
	collect(s, nil, &rows)
	p, _ := pathsByShape.LoadOrStore(s, jsonrpc.NewPaths(rows))
	return p.(*jsonrpc.Paths)
}

func collect(s *shape, at []string, rows *[][]string) {
	down := func(name string, to *shape) { collect(to, append(at[:len(at):len(at)], name), rows) }
	switch s.kind {
	case anObject:
		if len(s.members) > 0 {
			*rows = append(*rows, at)
		}
		for _, m := range s.members {
			down(m.name, m.shape)
		}
	case anArray, mapOf:
		*rows = append(*rows, at)
		down("*", s.elem)
	case either, allOf:
		for _, a := range s.alts {
			collect(a, at, rows)
		}
	case picked:
		*rows = append(*rows, at)
		for _, c := range s.choices {
			collect(c.shape, at, rows)
		}
		for _, c := range []*shape{s.other, s.absent} {
			if c != nil {
				collect(c, at, rows)
			}
		}
	}
}
