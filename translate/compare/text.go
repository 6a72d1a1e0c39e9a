package compare

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"taskbridge/translate/jsonrpc"
)

const (
	maxShown     = 200      // bytes of Was and Now
	maxDiffed    = 64 << 10 // bytes of each side of a unified diff
	maxDiffLines = 40
)

// pathText writes a path as RFC 9535 has it; elements with names as a filter
// that selects them.
func pathText(path []step) string {
	var b strings.Builder
	b.WriteByte('$')
	for _, s := range path {
		switch {
		case s.key != "":
			b.WriteString("[?@." + s.key + "==" + quoted(s.name) + "]")
		case s.index >= 0:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case isName(s.name):
			b.WriteString("." + s.name)
		default:
			b.WriteString("[" + quoted(s.name) + "]")
		}
	}
	return b.String()
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// quoted is a name in single quotes (RFC 9535 section 2.7).
func quoted(s string) string {
	q := strings.ReplaceAll(string(jsonrpc.Quote(strings.ToValidUTF8(s, "\uFFFD"))), `\"`, `"`)
	return "'" + strings.ReplaceAll(q[1:len(q)-1], "'", `\'`) + "'"
}

// show is a value on one line, cut short.
func show(n *node) string {
	if n == nil {
		return ""
	}
	var p printer
	p.max = maxShown
	p.value(n)
	return clip(p.b.String(), maxShown)
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// jsonText is n as JSON on one line.
func jsonText(n *node) string {
	var p printer
	p.value(n)
	return p.b.String()
}

// printer writes a value as JSON, on one line or indented. It stops soon after
// max bytes, if that is not 0.
type printer struct {
	b      strings.Builder
	indent bool
	level  int
	max    int
}

func (p *printer) full() bool { return p.max > 0 && p.b.Len() > p.max }

func (p *printer) line() {
	if p.indent {
		p.b.WriteByte('\n')
		for range min(p.level, 40) {
			p.b.WriteString("  ")
		}
	}
}

func (p *printer) value(n *node) {
	if p.full() {
		return
	}
	switch n.typ {
	case jsonrpc.Object, jsonrpc.Array:
		p.container(n)
	case jsonrpc.String:
		p.string(n)
	default:
		p.b.WriteString(n.raw)
	}
}

// string: JSON in text is shown as such where lines are.
func (p *printer) string(n *node) {
	if p.indent && n.text != nil {
		p.value(n.text)
		return
	}
	s := n.raw
	if p.max > 0 {
		s = clip(s, p.max)
	}
	p.b.Write(jsonrpc.Quote(s))
}

func (p *printer) container(n *node) {
	open, shut := byte('{'), byte('}')
	if n.typ == jsonrpc.Array {
		open, shut = '[', ']'
	}
	p.b.WriteByte(open)
	p.level++
	for i, kid := range n.kids {
		if p.full() {
			break
		}
		if i > 0 {
			p.b.WriteByte(',')
		}
		p.line()
		if n.typ == jsonrpc.Object {
			p.b.Write(jsonrpc.Quote(clip(n.keys[i], maxShown)))
			p.b.WriteByte(':')
			if p.indent {
				p.b.WriteByte(' ')
			}
		}
		p.value(kid)
	}
	p.level--
	if len(n.kids) > 0 {
		p.line()
	}
	p.b.WriteByte(shut)
}

// showBoth shows two values; of long ones the part where they begin to differ.
func showBoth(was, now *node) (string, string) {
	if was == nil || now == nil {
		return show(was), show(now)
	}
	a, b := oneLine(was), oneLine(now)
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	const before = 40
	if max(len(a), len(b)) <= maxShown || same <= maxShown-before {
		return clip(a, maxShown), clip(b, maxShown)
	}
	from := same - before
	for !utf8.RuneStart(a[from]) {
		from--
	}
	return "…" + clip(a[from:], maxShown), "…" + clip(b[from:], maxShown)
}

func oneLine(n *node) string {
	p := printer{max: maxDiffed}
	p.value(n)
	return p.b.String()
}

// unified is a short unified diff of two values, empty where one is missing or
// both are one line, however long.
func unified(was, now *node) string {
	if was == nil || now == nil {
		return ""
	}
	a, b := lines(was), lines(now)
	if strings.Count(a, "\n") <= 1 && strings.Count(b, "\n") <= 1 {
		return ""
	}
	out := udiff.Unified("was", "now", a, b)
	kept := strings.SplitAfterN(out, "\n", maxDiffLines+1)
	if len(kept) > maxDiffLines {
		return strings.Join(kept[:maxDiffLines], "") + "…\n"
	}
	return out
}

// lines is a value as lines: text by its own, all else indented.
func lines(n *node) string {
	if n == nil {
		return ""
	}
	if n.typ == jsonrpc.String && n.text == nil {
		return clip(n.raw, maxDiffed) + "\n"
	}
	p := printer{indent: true, max: maxDiffed}
	p.value(n)
	return clip(p.b.String(), maxDiffed) + "\n"
}
