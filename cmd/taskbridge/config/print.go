package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// shown is a value as a configuration has it: what its kind's read would make
// the same value of.
type shown struct {
	text    string
	plain   bool // without quotes
	written bool // as it stands in the file where variables are in it: they may be secrets
	hide    func(string) string
	zero    bool // left out, but of a key that always has a value
	list    bool
	items   []*shown
	members []shownMember // of a group
}

type shownMember struct {
	name  string
	value *shown
}

// Redacted stands for a secret.
const Redacted = "(redacted)"

// showing gives a kind another way to be printed.
func showing[V any](k kind[V], show func(*V) *shown) kind[V] {
	k.show = show
	return k
}

func showPlain[V any](text func(V) string) func(*V) *shown {
	return func(v *V) *shown {
		s := text(*v)
		return &shown{text: s, plain: true, zero: s == "0" || s == "false"}
	}
}

func showText(v *string) *shown { return &shown{text: *v, zero: *v == ""} }

func showWritten(v *string) *shown { return &shown{text: *v, zero: *v == "", written: true} }

func showArgument(v *string) *shown {
	s := showWritten(v)
	s.hide = hideInArgument
	return s
}

func showURL(v *string) *shown {
	return &shown{text: *v, zero: *v == "", written: true, hide: hideInURL}
}

// showFile makes names good anywhere: they were joined to the file's folder.
func showFile(v *string) *shown { return &shown{text: absolute(*v), zero: *v == ""} }

func absolute(name string) string {
	if abs, err := filepath.Abs(name); err == nil && name != "" && name != "-" {
		return abs
	}
	return name
}

// showAfter shows what follows a word, which is a file's name.
func showAfter(word string) func(*string) *shown {
	return func(v *string) *shown {
		s := *v
		if name, ok := strings.CutPrefix(s, word); ok && !strings.Contains(name, "://") {
			s = word + absolute(name)
		}
		return &shown{text: s, zero: s == "", hide: hideInURL}
	}
}

// showWeight: a weight of zero says something, whoever gave it.
func showWeight(n *int) *shown { return &shown{text: strconv.Itoa(*n), plain: true} }

func splitEnv(pair string) (name, value string) {
	name, value, _ = strings.Cut(pair, "=")
	return name, value
}

func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	if s == "0s" {
		return "0"
	}
	return s
}

func showList[V any](one func(*V) *shown) func(*[]V) *shown {
	return func(list *[]V) *shown {
		out := &shown{list: true, zero: len(*list) == 0}
		for i := range *list {
			out.items = append(out.items, one(&(*list)[i]))
		}
		return out
	}
}

// showPairs shows a mapping from free names to texts, which hide may not let be
// seen.
func showPairs[V any](k kind[[]V], split func(V) (name, value string), hide func(string) string) kind[[]V] {
	k.show = func(list *[]V) *shown {
		out := &shown{zero: len(*list) == 0}
		for _, v := range *list {
			name, value := split(v)
			out.members = append(out.members, shownMember{name, &shown{text: value, written: hide != nil, hide: hide}})
		}
		return out
	}
	return k
}

// showGroup leaves out what is zero of keys that may have no value, and a group
// without what it must have.
func showGroup[T any](keys []key[T], from *T) *shown {
	out := &shown{}
	for _, k := range keys {
		if k.hint || k.show == nil {
			continue
		}
		v := k.show(from)
		if v == nil || v.zero && !k.always {
			if k.required {
				return &shown{zero: true}
			}
			continue
		}
		out.members = append(out.members, shownMember{k.name, v})
	}
	out.zero = len(out.members) == 0
	return out
}

// showUpstream leaves out what is not for this one.
func showUpstream(u *Upstream) *shown {
	out := showGroup(upstreamKeys, u)
	not := onlyFor["command"]
	if len(u.Command) > 0 {
		not = onlyFor["url"]
	}
	out.members = slices.DeleteFunc(out.members, func(m shownMember) bool {
		return slices.Contains(not, m.name) || m.name == "transport" && strings.HasPrefix(strings.ToLower(u.URL), "ws")
	})
	for _, m := range out.members {
		if m.name == "health" && u.Health.Interval == 0 {
			m.value.members = slices.DeleteFunc(m.value.members, func(m shownMember) bool { return m.name == "timeout" || m.name == "pass-after" })
		}
	}
	return out
}

var (
	// onlyVariable is a value, as written, that shows no secret of its own.
	onlyVariable = regexp.MustCompile(`^((?i:bearer|basic|token) )?\$\{[A-Za-z_][A-Za-z0-9_]*\}$`)
	// userOfURL ends at the last @ before the path, as for who reads the URL; a
	// variable's default may hold anything.
	userOfURL     = regexp.MustCompile(`://(?:\$\{[^}]*\}|[^/?#])*@`)
	userVariables = regexp.MustCompile(`^://\$\{[A-Za-z_][A-Za-z0-9_]*\}(:\$\{[A-Za-z_][A-Za-z0-9_]*\})?@$`)
	variable      = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)`)
	plainScalar   = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./+-]*(:[A-Za-z0-9_./+-]+)*$`)
)

// hideInArgument: arguments are URLs, too, of databases say.
func hideInArgument(s string) string {
	if strings.Contains(s, "://") {
		return hideInURL(s)
	}
	return s
}

// hideNothing has a value stand as it is written.
func hideNothing(s string) string { return s }

func hideSecret(s string) string {
	if onlyVariable.MatchString(s) {
		return s
	}
	return Redacted
}

// hideInURL hides the user, and what parameters are.
func hideInURL(s string) string {
	s = userOfURL.ReplaceAllStringFunc(s, func(user string) string {
		if userVariables.MatchString(user) {
			return user
		}
		return "://redacted@"
	})
	// A variable's default may hold a ?, which hides too much then, not too little.
	before, query, ok := strings.Cut(s, "?")
	if !ok {
		return s
	}
	query, _, _ = strings.Cut(query, "#")
	parts := strings.Split(query, "&")
	for i, p := range parts {
		if name, value, ok := strings.Cut(p, "="); !ok {
			parts[i] = "redacted"
		} else if !onlyVariable.MatchString(value) {
			parts[i] = name + "=redacted"
		}
	}
	return before + "?" + strings.Join(parts, "&")
}

// Print writes the configuration as a file that says the same, with where each
// value came from behind it. Names of files are absolute. Secrets are not shown:
// Redacted stands for headers and environments of programs that are not a
// variable alone, and URLs lose users and parameters. given is what went over the
// file at a path, "" for nothing.
func (f *File) Print(w io.Writer, given func(path string) string) error {
	d := &document{File: *f}
	for _, r := range f.Routes {
		raw := rawRoute{Route: r, sse: cmp.Or(r.SSEPath, "off")}
		if !nameForm.MatchString(r.Name) {
			raw.Name = "" // it is made of the path again
		}
		d.routes = append(d.routes, raw)
	}
	p := &printer{f: f, given: given}
	p.group("", "", showGroup(fileKeys, d))
	_, err := w.Write(p.b.Bytes())
	return err
}

type printer struct {
	f     *File
	given func(path string) string
	b     bytes.Buffer
}

func (p *printer) group(indent, path string, s *shown) {
	for _, m := range s.members {
		at := place{path: path}.member(m.name, nil).path
		p.b.WriteString(indent + scalarText(m.name) + ":")
		switch v := m.value; {
		case v.list && (len(v.items) == 0 || v.items[0].members == nil):
			p.line(" "+p.flow(at, v), at)
		case v.list:
			p.b.WriteByte('\n')
			p.items(indent, at, v)
		case v.members != nil:
			p.b.WriteByte('\n')
			p.group(indent+"  ", at, v)
		default:
			p.line(" "+p.scalar(at, v), at)
		}
	}
}

// items writes groups with - before the first key of each.
func (p *printer) items(indent, path string, s *shown) {
	for i, item := range s.items {
		begin := p.b.Len()
		p.group(indent+"    ", indexed(path, i), item)
		copy(p.b.Bytes()[begin+len(indent)+2:], "- ")
	}
}

func (p *printer) flow(path string, s *shown) string {
	var list []string
	for i, item := range s.items {
		list = append(list, p.scalar(indexed(path, i), item))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func (p *printer) scalar(path string, s *shown) string {
	if s.plain {
		return s.text
	}
	text, ok := "", false
	if s.written && p.over(path) == "" {
		text, ok = p.f.written[p.f.real(path)]
	}
	if !ok {
		text = s.text
	}
	if s.hide != nil {
		hidden := s.hide(text)
		if ok || hidden == Redacted {
			return scalarText(hidden)
		}
		text = hidden
	}
	if !ok {
		text = strings.ReplaceAll(text, "${", "$${")
	}
	return scalarText(text)
}

// scalarText is a text in YAML: JSON's strings are YAML's.
func scalarText(s string) string {
	if plainScalar.MatchString(s) && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(s)) {
		return s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a text is always JSON
	return strings.TrimSuffix(b.String(), "\n")
}

func (p *printer) line(text, path string) {
	p.b.WriteString(text + "  # " + p.source(path) + "\n")
}

// over is what went over the file at a path, or at what that stands in.
func (p *printer) over(path string) string {
	for {
		if by := p.given(path); by != "" {
			return by
		}
		cut := max(strings.LastIndexByte(path, '.'), strings.LastIndexByte(path, '['))
		if cut < 0 {
			return ""
		}
		path = path[:cut]
	}
}

// source says where a value came from.
func (p *printer) source(path string) string {
	if by := p.over(path); by != "" {
		return by
	}
	for _, at := range p.f.homes(path) {
		if m, ok := p.f.marks[at]; ok {
			text := filepath.Base(p.f.Name) + ":" + strconv.Itoa(m.line)
			if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				text = strconv.Quote(text)
			}
			for _, v := range variable.FindAllStringSubmatch(p.f.written[at], -1) {
				text += fmt.Sprintf(", ${%s}", v[1])
			}
			return text
		}
	}
	return "default"
}

var (
	inUpstream = regexp.MustCompile(`^routes\[(\d+)\]\.upstreams\[(\d+)\]`)
	inRoute    = regexp.MustCompile(`^routes\[\d+\]\.`)
)

// real is where the file has what is printed at a path.
func (f *File) real(path string) string {
	m := inUpstream.FindStringSubmatch(path)
	if m == nil {
		return path
	}
	i, _ := strconv.Atoi(m[1])
	j, _ := strconv.Atoi(m[2])
	at, rest := f.UpstreamPath(i, j), path[len(m[0]):]
	if strings.HasSuffix(at, ".command") {
		if of, ok := strings.CutPrefix(rest, ".command"); ok {
			rest = of
		}
	}
	return at + rest
}

// homes are where the value of a path may come from, the nearest first.
func (f *File) homes(path string) []string {
	list := []string{f.real(path)}
	if m := inUpstream.FindString(path); m != "" {
		if strings.HasPrefix(path[len(m):], ".era") {
			list = append(list, path[:strings.LastIndex(m, ".upstreams[")]+".era", "defaults.era")
		}
		return list
	}
	if m := inRoute.FindString(path); m != "" {
		list = append(list, "defaults."+path[len(m):])
	}
	if path == "listeners[0].address" {
		list = append(list, "listen")
	}
	return list
}
