package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file. Parsing takes time that grows with the square of depth and
// of the keys of one mapping, and stack with depth.
const (
	MaxSource  = 1 << 20 // bytes of a file
	maxTokens  = 250_000
	maxDepth   = 32
	maxKeys    = 1000    // of one mapping
	maxAnchors = 1000    // and tags
	maxNodes   = 500_000 // with what aliases stand for
)

type shape uint8

const (
	null    shape = iota
	text          // quoted, a block, or a plain word
	number        // plain, whole or not
	boolean       // true, false
	list
	object
	// given is the default of a key: any scalar.
	given
)

var shapeWords = [...]string{null: "nothing", text: "text", number: "a number", boolean: "a boolean", list: "a list", object: "a group of keys", given: "a default"}

// node is a value of the file: YAML without its anchors, merge keys and styles.
type node struct {
	shape   shape
	mark    mark
	text    string // of a scalar, as written
	items   []*node
	members []member
}

// member is a key and its value.
type member struct {
	key   string
	mark  mark
	value *node
}

// member returns the value of a key, nil if there is none.
func (n *node) member(key string) *node {
	for _, m := range n.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// tree parses src. It returns nil where the file is no YAML of one document,
// which has been reported then.
func tree(src []byte, p *problems) *node {
	if len(src) > MaxSource {
		p.add(mark{}, "", "is larger than %d KiB; a configuration is shorter", MaxSource>>10)
		return nil
	}
	s := strings.TrimPrefix(string(src), "\uFEFF")
	if !plainText(s, p) {
		return nil
	}
	file, err := parseYAML(s, p)
	if err != nil {
		p.syntax(err)
		return nil
	}
	if file == nil {
		return nil
	}
	var body ast.Node
	for i, doc := range file.Docs {
		if i > 0 {
			m := mark{}
			if doc.Start != nil {
				m = markOf(doc.Start)
			}
			p.add(m, "", "a second document begins here; a configuration is one document, so remove this --- and what follows, or make it a file of its own")
			return nil
		}
		body = doc.Body
		if d, ok := body.(*ast.DirectiveNode); ok {
			p.add(markOf(d.GetToken()), "", "%s", "a % at the start of a line is not for configurations; remove the line, and --- behind it")
			return nil
		}
	}
	b := &builder{p: p, anchors: map[string]*node{}}
	var root *node
	if body != nil {
		root = b.node(body, 0)
	}
	if b.failed {
		return nil
	}
	if root == nil || root.shape == null {
		p.add(mark{1, 1}, "", "is empty; the least it needs is routes: [{path: /mcp, upstream: https://HOST/PATH}]")
		return nil
	}
	return root
}

// plainText: YAML is UTF-8 without control characters.
func plainText(s string, p *problems) bool {
	line, column := 1, 0
	for i, r := range s {
		column++
		bad := ""
		switch {
		case r == '\n':
			line, column = line+1, 0
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			bad = "is no UTF-8; save the file as UTF-8"
		case r < ' ' && r != '\t' && r != '\r' || r == 0x7f:
			bad = fmt.Sprintf("holds the control character U+%04X; write it as an escape in double quotes, or leave it out", r)
		}
		if bad != "" {
			p.add(mark{line, column}, "", "%s", bad)
			return false
		}
	}
	return true
}

// parseYAML returns nil and no error for what it has reported itself. The
// library has its own opinion of hostile files, so that it is not trusted to
// return.
func parseYAML(s string, p *problems) (f *ast.File, err error) {
	defer func() {
		if recover() != nil {
			f, err = nil, errors.New("cannot be read as YAML")
		}
	}()
	tokens := lexer.Tokenize(s)
	if !bounded(tokens, p) {
		return nil, nil
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// level is a mapping or list that is open while tokens are counted.
type level struct {
	column int // 0: in brackets
	seq    bool
	keys   int
}

// bounded looks for nesting and sizes that would cost the parser too much.
func bounded(tokens token.Tokens, p *problems) bool {
	if len(tokens) > maxTokens {
		p.add(mark{}, "", "has more than %d parts; a configuration is shorter", maxTokens)
		return false
	}
	var open []level
	anchors := 0
	for _, tk := range tokens {
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			open = append(open, level{})
		case token.SequenceEndType, token.MappingEndType:
			if n := len(open); n > 0 && open[n-1].column == 0 {
				open = open[:n-1]
			}
		case token.SequenceEntryType:
			open = enter(open, tk.Position.Column, true)
		case token.MappingKeyType:
			open = enter(open, tk.Position.Column, false)
		case token.MappingValueType:
			column := tk.Position.Column
			if tk.Prev != nil {
				column = tk.Prev.Position.Column
			}
			open = enter(open, column, false)
			if n := len(open); open[n-1].keys > maxKeys {
				p.add(markOf(tk), "", "these are more than %d keys in one place", maxKeys)
				return false
			}
		case token.AnchorType, token.TagType:
			if anchors++; anchors > maxAnchors {
				p.add(markOf(tk), "", "there are more than %d anchors and tags", maxAnchors)
				return false
			}
		}
		if len(open) > maxDepth {
			p.add(markOf(tk), "", "is nested more than %d levels deep; nothing here needs that", maxDepth)
			return false
		}
	}
	return true
}

// enter notes an entry of a block list or mapping at a column.
func enter(open []level, column int, seq bool) []level {
	n := len(open)
	if n > 0 && open[n-1].column == 0 {
		open[n-1].keys++ // in brackets columns mean nothing
		return open
	}
	for n > 0 && open[n-1].column != 0 && (open[n-1].column > column || open[n-1].column == column && open[n-1].seq && !seq) {
		n--
	}
	open = open[:n]
	if n > 0 && open[n-1].column == column && open[n-1].seq == seq {
		open[n-1].keys++
		return open
	}
	return append(open, level{column: column, seq: seq, keys: 1})
}

func markOf(tk *token.Token) mark {
	if tk == nil || tk.Position == nil {
		return mark{}
	}
	return mark{max(tk.Position.Line, 1), max(tk.Position.Column, 1)}
}

// syntax reports an error of the YAML library.
func (p *problems) syntax(err error) {
	m, text := mark{1, 1}, err.Error()
	if e, ok := errors.AsType[yaml.Error](err); ok {
		m, text = markOf(e.GetToken()), e.GetMessage()
	}
	for _, row := range syntaxWords {
		if strings.Contains(text, row.theirs) {
			text = row.ours
			break
		}
	}
	p.add(m, "", "%s", text)
}

// syntaxWords say what the library means and what to do about it.
var syntaxWords = []struct{ theirs, ours string }{
	{"cannot be read as YAML", "cannot be read as YAML; look for brackets and quotes that do not match"},
	{"tab character", tabText},
	{"'\\t'", tabText},
	{"'\t'", tabText},
	{"single-quoted text", "a text that begins with ' does not end; put a ' behind it"},
	{"could not find end character of double-quoted text", "a text that begins with \" does not end; put a \" behind it, or look for a \\ in it, which is written \\\\"},
	{"found unknown escape character", "an escape in a text in double quotes is unknown; write \\\\ for a \\, or use single quotes"},
	{"not enough length for escaped", "an escape in a text in double quotes is cut short; want \\uXXXX or \\UXXXXXXXX"},
	{"surrogate", "an escape in a text in double quotes is half a character; want both halves of the pair"},
	{"',' or ']'", "a list in [ ] has no , between two entries, or no ] at its end"},
	{"sequence end token ']'", "a list that begins with [ does not end; put a ] behind it"},
	{"',' or '}'", "keys in { } have no , between them, or no } at their end"},
	{"mapping end token '}'", "keys that begin with { do not end; put a } behind them"},
	{"could not find flow map content", "keys that begin with { do not end; put a } behind them"},
	{"corresponding to ']'", "a ] stands here without its ["},
	{"corresponding to '}'", "a } stands here without its {"},
	{"expected sequence element", "a list in [ ] has nothing between two commas"},
	{"mapping value is not allowed in this context", "a key: value stands where a value was expected; put it on a line of its own, or put quotes around a text that holds \": \""},
	{"map key-value is pre-defined", "a value stands where none can; look for a key without its : further up, or check the indentation"},
	{"value is not allowed in this context", "a value stands where a key was expected; check its indentation, or put quotes around a text of several parts"},
	{"block sequence entries", "a list with - begins behind a key; put it on lines of its own"},
	{"sequence was used where mapping is expected", "a list with - stands among keys; check its indentation"},
	{"non-map value is specified", "a word stands where a key: value was expected; put : and a value behind it, or check its indentation"},
	{"unexpected key name", "a word stands where a key: value was expected; put : and a value behind it, or check its indentation"},
	{"implicit line break", "a key reaches over more than one line; check the quotes and the : before it"},
	{"unexpected map key", "a key stands where none can; check its indentation"},
	{"invalid key for this map", "a key stands where none can; check its indentation"},
	{"undefined map key", "a ? begins a key that does not follow; write key: value"},
	{"could not find map", "a : has no key before it, or no value behind it"},
	{"value for mapping key", "a key has no : and value behind it"},
	{"expected map key-value delimiter", "a key has no : and value behind it"},
	{"undefined alias name", "* names no anchor; write *NAME for an &NAME further up, or put quotes around a text that begins with *"},
	{"undefined anchor", "& names nothing; write &NAME before a value, or put quotes around a text that begins with &"},
	{"alias value", "* names no anchor; write *NAME for an &NAME further up, or put quotes around a text that begins with *"},
	{"anchor", "an & stands where no anchor can; put it before one value, or put quotes around a text that begins with &"},
	{"tag", "a ! stands where no tag can; put quotes around a text that begins with !"},
	{"directive", "a % at the start of a line is not for configurations; put quotes around a text that begins with %"},
	{"YAML version", "a % at the start of a line is not for configurations; leave it out"},
	{"reserved character", "a text cannot begin with this character; put quotes around it"},
	{"document separator", "--- stands inside of a text or of brackets; close them first"},
	{"multi-line content", "a block of text behind | or > has no lines; indent them under the key"},
	{"unexpected end content", "something stands behind the end of the document; a configuration is one document"},
	{"unexpected scalar value", "a value stands where none can; check its indentation and quotes"},
}

const tabText = "a tab indents this line; YAML takes blanks only"
