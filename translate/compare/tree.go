package compare

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	"taskbridge/translate/jsonrpc"
)

// node is a JSON value with its members open.
type node struct {
	typ  jsonrpc.Type
	raw  string // of a number: as spelled; of a string: decoded; else the text
	keys []string
	kids []*node
	// text is the JSON a string holds, if it holds an object or an array.
	text *node
}

// maxText is the longest string looked into for JSON.
const maxText = 4 << 20

// parse reads a raw value; nil for none. What cannot be read (a repeated
// member, more than a million values) is compared by its bytes.
func parse(raw []byte) *node {
	if len(raw) == 0 {
		return nil
	}
	v, err := jsonrpc.ParseValue(raw)
	if err != nil {
		return &node{typ: jsonrpc.String, raw: string(raw)}
	}
	return fromValue(v, true)
}

// fromValue recurses no deeper than ParseValue allows, twice with JSON in text.
func fromValue(v jsonrpc.Value, openText bool) *node {
	n := &node{typ: v.Type()}
	switch n.typ {
	case jsonrpc.Object:
		for key, m := range v.Members() {
			n.keys = append(n.keys, key)
			n.kids = append(n.kids, fromValue(m, openText))
		}
	case jsonrpc.Array:
		for e := range v.Elems() {
			n.kids = append(n.kids, fromValue(e, openText))
		}
	case jsonrpc.String:
		n.raw, _ = v.Str()
		if openText {
			n.text = jsonIn(n.raw)
		}
	default:
		n.raw = string(v.Raw())
	}
	return n
}

func jsonIn(s string) *node {
	t := strings.TrimLeft(s, " \t\r\n")
	if t == "" || t[0] != '{' && t[0] != '[' || len(t) > maxText {
		return nil
	}
	v, err := jsonrpc.ParseValue([]byte(s))
	if err != nil {
		return nil
	}
	return fromValue(v, false)
}

func str(s string) *node { return &node{typ: jsonrpc.String, raw: s} }

func array(kids ...*node) *node { return &node{typ: jsonrpc.Array, kids: kids} }

// object takes names and values in turn; nil values are left out.
func object(pairs ...any) *node {
	n := &node{typ: jsonrpc.Object}
	for i := 0; i < len(pairs); i += 2 {
		if v := pairs[i+1].(*node); v != nil {
			n.keys = append(n.keys, pairs[i].(string))
			n.kids = append(n.kids, v)
		}
	}
	return n
}

func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	if i := slices.Index(n.keys, key); i >= 0 {
		return n.kids[i]
	}
	return nil
}

func (n *node) at(path ...string) *node {
	for _, key := range path {
		n = n.get(key)
	}
	return n
}

// str is a string's value, empty for all else.
func (n *node) str() string {
	if n == nil || n.typ != jsonrpc.String {
		return ""
	}
	return n.raw
}

// list are the elements or members' values, none of nil.
func (n *node) list() []*node {
	if n == nil {
		return nil
	}
	return n.kids
}

func (n *node) remove(i int) {
	if n.typ == jsonrpc.Object {
		n.keys = slices.Delete(n.keys, i, i+1)
	}
	n.kids = slices.Delete(n.kids, i, i+1)
}

func (n *node) drop(key string) {
	if i := slices.Index(n.keys, key); i >= 0 {
		n.remove(i)
	}
}

func (n *node) set(key string, v *node) {
	if i := slices.Index(n.keys, key); i >= 0 {
		n.kids[i] = v
		return
	}
	n.keys = append(n.keys, key)
	n.kids = append(n.kids, v)
}

// number is equal for numbers of the same value.
func number(raw string) string {
	if id, err := jsonrpc.IDFromRaw([]byte(raw)); err == nil {
		return id.Key()
	}
	return raw
}

// canonical writes a text equal for values the comparison takes for the same.
func (n *node) canonical(b []byte, spelling bool) []byte {
	switch {
	case n == nil:
		return append(b, '-')
	case n.text != nil:
		return n.text.canonical(append(b, 't'), spelling)
	}
	switch n.typ {
	case jsonrpc.Object:
		order := make([]int, len(n.keys))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(i, j int) int { return strings.Compare(n.keys[i], n.keys[j]) })
		b = append(b, '{')
		for _, i := range order {
			b = append(jsonrpc.AppendString(b, n.keys[i]), ':')
			b = append(n.kids[i].canonical(b, spelling), ',')
		}
		return append(b, '}')
	case jsonrpc.Array:
		b = append(b, '[')
		for _, kid := range n.kids {
			b = append(kid.canonical(b, spelling), ',')
		}
		return append(b, ']')
	case jsonrpc.String:
		return jsonrpc.AppendString(b, n.raw)
	case jsonrpc.Number:
		if !spelling {
			return append(b, number(n.raw)...)
		}
	}
	return append(b, n.raw...)
}

func (n *node) digest(spelling bool) [sha256.Size]byte {
	return sha256.Sum256(n.canonical(nil, spelling))
}

// value is n as the JSONPath library takes it. Text that is JSON is open, so
// that paths lead into it.
func (n *node) value() any {
	if n.text != nil {
		return n.text.value()
	}
	switch n.typ {
	case jsonrpc.Object:
		m := make(map[string]any, len(n.kids))
		for i, kid := range n.kids {
			m[n.keys[i]] = kid.value()
		}
		return m
	case jsonrpc.Array:
		s := make([]any, len(n.kids))
		for i, kid := range n.kids {
			s[i] = kid.value()
		}
		return s
	case jsonrpc.String:
		return n.raw
	case jsonrpc.Number:
		return json.Number(n.raw)
	case jsonrpc.Bool:
		return n.raw == "true"
	}
	return nil
}
