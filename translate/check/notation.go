package check

import (
	"fmt"
	"strings"
	"sync"
)

// The definitions are written in a short notation, a row a definition:
//
//	Name: member! type; 3-:member type; 4:member type
//
// A member with "!" is required. Digits before a colon say in which revisions
// (see revisions) a member or an alternative stands: "3-" from the third on,
// "-3" until it, "4" in it alone. Types:
//
//	string integer number boolean null object any   as in JSON; object: any members
//	"a"|"b"                                         one of these strings
//	A|B                                             one of both
//	[A] {A}                                         array of A; object whose members are all A
//	(member type; …)                                object with these members
//	Name                                            the definition of that name
//	<member: a=A, b=B>                              the definition that the member's value names;
//	                                                "*=A" for any other value, "-=A" where it is absent
//	<has: a=A, b=B>                                 the first whose member is there
//	A & B                                           both at once (of a whole row)
//
// Members that a definition does not name are free.

// revision is the place of a protocol revision in revisions, from 1.
type revision uint8

// shape is a compiled type.
type shape struct {
	kind    kind
	words   []string          // oneOf strings
	elem    *shape            // array, mapOf
	members []member          // object
	alts    []*shape          // either, allOf
	member  string            // picked: the member that decides; empty: the first that is there
	choices []choice          // picked
	name    string            // of the definition, for messages
	byName  map[string]*shape // picked: choices by value
	other   *shape            // picked: "*"
	absent  *shape            // picked: "-"
}

type kind uint8

const (
	anything kind = iota
	aString
	anInteger
	aNumber
	aBoolean
	aNull
	anObject // with members, or any
	anArray
	mapOf
	oneOf
	either
	allOf
	picked
)

type member struct {
	name     string
	required bool
	shape    *shape
}

type choice struct {
	value string
	shape *shape
}

// notation reads the rows for one revision.
type notation struct {
	rows map[string]string
	rev  revision
	done map[string]*shape
}

var compiled [len(revisions) + 1]struct {
	once sync.Once
	n    *notation
}

// shapeOf is the compiled definition of a revision; nil if it has none.
func shapeOf(name string, rev revision) *shape {
	c := &compiled[rev]
	c.once.Do(func() {
		c.n = &notation{rows: rowsByName(), rev: rev, done: map[string]*shape{}}
		for name := range c.n.rows {
			c.n.definition(name)
		}
	})
	return c.n.done[name]
}

func rowsByName() map[string]string {
	rows := map[string]string{}
	for line := range strings.Lines(definitions) {
		if name, row, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.HasPrefix(name, "#") {
			rows[name] = row
		}
	}
	return rows
}

func (n *notation) definition(name string) *shape {
	if s, ok := n.done[name]; ok {
		return s
	}
	row, ok := n.rows[name]
	if !ok {
		panic("check: no definition " + name)
	}
	p := &rowParser{n: n, name: name, text: row}
	var s *shape
	if strings.HasPrefix(row, "= ") {
		p.text = row[2:]
		s = p.all()
	} else {
		s = &shape{kind: anObject, members: p.membersUntil(0)}
	}
	if p.text != "" {
		p.fail("unexpected " + p.text)
	}
	if s.name != "" { // another definition's: this one only renames it
		renamed := *s
		s = &renamed
	}
	s.name = name
	n.done[name] = s
	return s
}

// rowParser reads one row. The rows are our own: what cannot be read is a
// mistake in this package, which every test meets.
type rowParser struct {
	n    *notation
	name string
	text string
}

func (p *rowParser) fail(why string) {
	panic(fmt.Sprintf("check: definition %s: %s", p.name, why))
}

func (p *rowParser) skip(s string) bool {
	p.text = strings.TrimLeft(p.text, " ")
	if rest, ok := strings.CutPrefix(p.text, s); ok {
		p.text = strings.TrimLeft(rest, " ")
		return true
	}
	return false
}

func (p *rowParser) want(s string) {
	if !p.skip(s) {
		p.fail("want " + s + " at " + p.text)
	}
}

// word reads up to one of the bytes in stop.
func (p *rowParser) word(stop string) string {
	i := strings.IndexAny(p.text, stop)
	if i < 0 {
		i = len(p.text)
	}
	w := p.text[:i]
	p.text = p.text[i:]
	return w
}

// here reads revisions before a member or alternative, if they are given.
func (p *rowParser) here() bool {
	i := strings.IndexByte(p.text, ':')
	if i < 0 || i > 3 || strings.Trim(p.text[:i], "0123456789-") != "" {
		return true
	}
	window := p.text[:i]
	p.text = strings.TrimLeft(p.text[i+1:], " ")
	return inWindow(window, p.n.rev)
}

func inWindow(window string, rev revision) bool {
	from, to, ranged := strings.Cut(window, "-")
	if !ranged {
		to = from
	}
	return (from == "" || int(rev) >= int(from[0]-'0')) && (to == "" || int(rev) <= int(to[0]-'0'))
}

// membersUntil reads members up to end, or up to the row's end for 0.
func (p *rowParser) membersUntil(end byte) []member {
	var out []member
	for {
		if end != 0 && p.skip(string(end)) || end == 0 && p.text == "" {
			return out
		}
		here := p.here()
		name, required := strings.CutSuffix(p.word(" "), "!")
		p.text = strings.TrimLeft(p.text, " ")
		m := member{name: name, required: required, shape: p.alternatives()}
		if here {
			out = append(out, m)
		}
		p.skip(";")
	}
}

func (p *rowParser) all() *shape {
	s := p.alternatives()
	if !p.skip("&") {
		return s
	}
	return &shape{kind: allOf, alts: []*shape{s, p.all()}}
}

func (p *rowParser) alternatives() *shape {
	s := p.one()
	if !strings.HasPrefix(p.text, "|") {
		return s
	}
	alts := []*shape{s}
	for p.skip("|") {
		alts = append(alts, p.one())
	}
	if words := onlyWords(alts); words != nil {
		return &shape{kind: oneOf, words: words}
	}
	return &shape{kind: either, alts: alts}
}

func onlyWords(alts []*shape) []string {
	var words []string
	for _, a := range alts {
		if a.kind != oneOf {
			return nil
		}
		words = append(words, a.words...)
	}
	return words
}

var plainTypes = map[string]kind{
	"string": aString, "integer": anInteger, "number": aNumber, "boolean": aBoolean,
	"null": aNull, "object": anObject, "any": anything,
}

func (p *rowParser) one() *shape {
	switch {
	case p.skip("["):
		s := &shape{kind: anArray, elem: p.alternatives()}
		p.want("]")
		return s
	case p.skip("{"):
		s := &shape{kind: mapOf, elem: p.alternatives()}
		p.want("}")
		return s
	case p.skip("("):
		return &shape{kind: anObject, members: p.membersUntil(')')}
	case p.skip("<"):
		return p.pick()
	case strings.HasPrefix(p.text, `"`):
		p.text = p.text[1:]
		w := p.word(`"`)
		p.text = p.text[1:]
		return &shape{kind: oneOf, words: []string{w}}
	}
	name := p.word("|;])}>, ")
	if k, ok := plainTypes[name]; ok {
		return &shape{kind: k}
	}
	return p.n.definition(name)
}

func (p *rowParser) pick() *shape {
	s := &shape{kind: picked, member: p.word(":"), byName: map[string]*shape{}}
	p.want(":")
	for !p.skip(">") {
		here := p.here()
		value := p.word("=")
		p.want("=")
		c := choice{value: value, shape: p.alternatives()}
		p.skip(",")
		switch {
		case !here:
		case value == "*":
			s.other = c.shape
		case value == "-":
			s.absent = c.shape
		default:
			s.choices = append(s.choices, c)
			s.byName[value] = c.shape
		}
	}
	if s.member == "has" {
		s.member = ""
	}
	return s
}
