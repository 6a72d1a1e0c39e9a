package config

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is how values of one kind are read and described. read puts the value
// into its place or reports what is wrong with it.
type kind[V any] struct {
	word   string // in the table of docs/config.md
	schema schema
	// example of a value, for a key that is missing; word where it is empty.
	example string
	parts   []part // keys inside, for groups and lists of groups
	list    bool
	fill    bool // read has defaults of its own, and runs where the key is missing
	read    func(r *reader, at place, into *V)
	show    func(v *V) *shown // the inverse of read; nil: it is not printed
}

// part is a key as the docs and the schema see it.
type part struct {
	name, word, def, doc string
	example              string
	required, exact      bool // exact: def is a value, not words about one
	list                 bool
	schema               schema
	parts                []part
}

// key is a row of a table: one key of a group that is kept in a T.
type key[T any] struct {
	part
	apply bool // def is read where the key is missing
	hint  bool // no key at all: doc says what somebody meant by its name
	read  func(r *reader, at place, into *T)
	show  func(from *T) *shown // nil: it is not printed
	// always: it has a value, which is printed where it is zero, too.
	always bool
}

// row makes a key whose value is kept where get says. A def is read as if it
// stood in the file; one in parentheses is only told.
func row[T, V any](name string, k kind[V], get func(*T) *V, def, doc string) key[T] {
	out := key[T]{part: part{name: name, word: k.word, def: strings.Trim(def, "()"), doc: doc, example: cmp.Or(k.example, k.word), list: k.list, schema: k.schema, parts: k.parts}}
	out.apply = k.fill || def != "" && !strings.HasPrefix(def, "(")
	out.exact = def != "" && !strings.HasPrefix(def, "(")
	out.required, out.always = def == "(required)", out.exact
	if out.required {
		out.def = ""
	}
	out.read = func(r *reader, at place, into *T) { k.read(r, at, get(into)) }
	if k.show != nil {
		out.show = func(from *T) *shown { return k.show(get(from)) }
	}
	return out
}

// misplaced is a name that is no key here, and what to tell whoever writes it.
func misplaced[T any](name, doc string) key[T] {
	return key[T]{part: part{name: name, doc: doc}, hint: true}
}

// lift makes rows of a part rows of the whole. Without defaults the part keeps
// what it has.
func lift[T, P any](keys []key[P], get func(*T) *P, defaults string) []key[T] {
	var out []key[T]
	for _, k := range keys {
		l := key[T]{part: k.part, apply: k.apply, hint: k.hint, always: k.always}
		if defaults != "" {
			l.apply, l.exact, l.def = false, false, defaults
		}
		read := k.read
		l.read = func(r *reader, at place, into *T) { read(r, at, get(into)) }
		if show := k.show; show != nil {
			l.show = func(from *T) *shown { return show(get(from)) }
		}
		out = append(out, l)
	}
	return out
}

// group is the kind of a mapping with these keys; what names it in errors, as
// in "a route".
func group[T any](what string, keys []key[T], more schema) kind[T] {
	k := kind[T]{word: "group"}
	for _, one := range keys {
		if !one.hint {
			k.parts = append(k.parts, one.part)
		}
	}
	k.schema = groupSchema(k.parts, more)
	k.show = func(from *T) *shown { return showGroup(keys, from) }
	k.read = func(r *reader, at place, into *T) {
		if at.shape != object {
			r.want(at, "keys under it, "+keyNames(k.parts))
			return
		}
		readKeys(r, at, what, keys, into)
	}
	return k
}

// keyNames are a few keys of a group.
func keyNames(parts []part) string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	if len(names) > 6 {
		return "such as " + oneOf(append(names[:2:2], names[len(names)-1]))
	}
	return oneOf(names)
}

func readKeys[T any](r *reader, at place, what string, keys []key[T], into *T) {
	for _, m := range at.members {
		if !slices.ContainsFunc(keys, func(k key[T]) bool { return !k.hint && k.name == m.key }) {
			unknownKey(r, at, m, what, keys)
		}
	}
	for _, k := range keys {
		if k.hint {
			continue
		}
		var here place
		switch n := at.node.member(k.name); {
		case n != nil:
			here = at.member(k.name, n)
		case k.required:
			r.bad(at, "%s has no %s; add %s: %s", what, k.name, k.name, k.example)
			continue
		case k.apply:
			here = at.member(k.name, &node{shape: given, text: k.def})
		default:
			continue
		}
		if r.visit(here) {
			k.read(r, here, into)
		}
	}
}

func unknownKey[T any](r *reader, at place, m member, what string, keys []key[T]) {
	path := at.member(m.key, m.value).path
	if at.path == "" && strings.HasPrefix(m.key, "x-") {
		return // a place for anchors
	}
	var names []string
	for _, k := range keys {
		if k.hint && k.name == m.key {
			r.add(m.mark, path, "%s has no such key; %s", what, k.doc)
			return
		}
		if !k.hint {
			names = append(names, k.name)
		}
	}
	if len(path) > 200 {
		path = at.path
	}
	if like := nearest(m.key, names); like != "" {
		r.add(m.mark, path, "%s has no such key; did you mean %s?", what, like)
		return
	}
	if homes := homesOf(r.root, m.key, ""); len(homes) > 0 {
		where := "under " + oneOf(homes)
		if homes[0] == "" {
			where = "at the top"
		}
		r.add(m.mark, path, "%s has no such key; it belongs %s", what, where)
		return
	}
	slices.Sort(names)
	r.add(m.mark, path, "%s has no such key; it has %s", what, strings.Join(names, ", "))
}

// homesOf are what a key of this name may stand under, at most three; "" is the
// file itself.
func homesOf(parts []part, name, under string) []string {
	var out []string
	for _, p := range parts {
		path := under + p.name
		if p.name == name {
			out = append(out, strings.TrimSuffix(under, "."))
		}
		if p.list {
			path += "[]"
		}
		out = append(out, homesOf(p.parts, name, path+".")...)
	}
	return out[:min(len(out), 3)]
}

// listOf is a list of values of a kind, at most limit.
func listOf[V any](k kind[V], limit int) kind[[]V] {
	out := kind[[]V]{word: "list of " + k.word, parts: k.parts, list: true}
	if k.word == "group" {
		out.word = "list"
	}
	out.schema = schema{"type": "array", "items": k.schema, "maxItems": limit}
	if k.show != nil {
		out.show = showList(k.show)
	}
	out.read = func(r *reader, at place, into *[]V) {
		if at.shape == given {
			return // lists are empty where they are not given
		}
		if at.shape != list {
			how := "a list: put [ ] around it"
			if k.parts != nil {
				how = "a list: begin each entry with -"
			}
			r.want(at, how)
			return
		}
		if len(at.items) > limit {
			r.bad(at, "has %d entries; at most %d are allowed", len(at.items), limit)
			return
		}
		*into = make([]V, 0, len(at.items))
		for i := range at.items {
			here := at.item(i)
			if !r.visit(here) {
				return
			}
			var v V
			k.read(r, here, &v)
			*into = append(*into, v)
		}
	}
	return out
}

// some is a list that is not empty. That it is not is checked with what else
// must fit together.
func some[V any](k kind[[]V]) kind[[]V] {
	k.schema = maps.Clone(k.schema)
	k.schema["minItems"] = 1
	return k
}

// pairsOf is a mapping from free names to texts; add makes an entry of one or
// says what is wrong with it, never quoting the value.
func pairsOf[V any](word string, limit int, names schema, add func(name, value string) (V, string)) kind[[]V] {
	out := kind[[]V]{word: word}
	out.schema = schema{"type": "object", "maxProperties": limit, "propertyNames": names,
		"additionalProperties": schema{"type": []any{"string", "number", "boolean"}}}
	out.read = func(r *reader, at place, into *[]V) {
		if at.shape != object {
			r.want(at, "names with a value each, as in NAME: value")
			return
		}
		if len(at.members) > limit {
			r.bad(at, "has %d entries; at most %d are allowed", len(at.members), limit)
			return
		}
		for _, m := range at.members {
			here := at.member(m.key, m.value)
			if !r.visit(here) {
				return
			}
			if here.shape == list || here.shape == object || here.shape == null {
				r.want(here, "text")
				continue
			}
			value, ok := r.expand(here)
			if !ok {
				continue
			}
			v, wrong := add(m.key, value)
			if wrong != "" {
				r.bad(here, "%s", wrong)
				continue
			}
			*into = append(*into, v)
		}
	}
	return out
}

// textOf is a text that check finds nothing wrong with; its values may be
// quoted in errors, as they stand in the file, if shown is set.
func textOf(word, what string, shown bool, s schema, check func(string) string) kind[string] {
	return kind[string]{word: word, schema: orVariable(s), show: showText, read: func(r *reader, at place, into *string) {
		if check == nil && (at.shape == number || at.shape == boolean) {
			r.want(at, what+": put quotes around it")
			return
		}
		v, ok := r.text(at, what)
		if !ok {
			return
		}
		wrong := ""
		if v == "" && at.shape != given {
			wrong = "is empty; want " + what
		} else if v != "" && check != nil {
			wrong = check(v)
		}
		switch {
		case wrong == "":
			*into = v
		case shown && v != "":
			r.bad(at, "%s %s", at.source(), wrong)
		default:
			r.bad(at, "%s", wrong)
		}
	}}
}

// words is one of a few.
func words(of ...string) kind[string] {
	s := schema{"type": "string", "enum": anys(of)}
	k := textOf(strings.Join(of, " | "), oneOf(of), true, s, func(v string) string {
		if slices.Contains(of, v) {
			return ""
		}
		if like := nearest(v, of); like != "" {
			return "is unknown; did you mean " + like + "?"
		}
		return "is unknown; want " + oneOf(of)
	})
	k.example = of[0]
	return k
}

// called gives a kind another word for the docs.
func called[V any](word string, k kind[V]) kind[V] {
	k.word = word
	return k
}

// fileName is joined to the folder of the file.
func fileName(word string) kind[string] {
	k := textOf(word, "the name of a file or folder", true, schema{"type": "string", "minLength": 1}, nil)
	k.example, k.show = "NAME", showFile
	plain := k.read
	k.read = func(r *reader, at place, into *string) {
		plain(r, at, into)
		*into = r.join(*into)
	}
	return k
}

func (r *reader) join(name string) string {
	if name == "" || name == "-" || r.folder == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(r.folder, name)
}

const durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

var durationForm = regexp.MustCompile(durationPattern)

// duration names its unit; zero means something where zero is set.
func duration(zero bool) kind[time.Duration] {
	const what = "a duration such as 500ms, 10s or 2m"
	s := schema{"type": "string", "pattern": durationPattern}
	if zero {
		s = schema{"anyOf": []any{s, schema{"type": "string", "pattern": "^0$"}, schema{"type": "integer", "enum": []any{0}}}}
	}
	return kind[time.Duration]{word: "duration", schema: orVariable(s), show: showPlain(durationText), read: func(r *reader, at place, into *time.Duration) {
		if at.shape == number && at.text == "0" && !zero {
			r.bad(at, "0 must be above zero")
			return
		}
		if at.shape == number && at.text != "0" {
			r.bad(at, "%s has no unit; want a duration such as %ss or %sms", at.source(), at.text, at.text)
			return
		}
		v := at.text
		if at.shape != number {
			var ok bool
			if v, ok = r.text(at, what); !ok {
				return
			}
		}
		if zero && v == "0" {
			*into = 0
			return
		}
		d, err := time.ParseDuration(v)
		switch {
		case !durationForm.MatchString(v) || err != nil:
			r.bad(at, "%s is no duration; want one such as 500ms, 10s or 2m", at.source())
		case d == 0 && !zero:
			r.bad(at, "%s must be above zero", at.source())
		default:
			*into = d
		}
	}}
}

const sizePattern = `^[1-9][0-9]{0,15} ?(B|KiB|MiB|GiB)?$`

var sizeForm = regexp.MustCompile(sizePattern)

// size is a number of bytes, up to limit.
func size(limit int64) kind[int64] {
	const what = "a size such as 64MiB or 1048576"
	s := schema{"anyOf": []any{schema{"type": "string", "pattern": sizePattern}, schema{"type": "integer", "minimum": 1, "maximum": limit}}}
	return kind[int64]{word: "size", schema: orVariable(s), show: showPlain(sizeText), read: func(r *reader, at place, into *int64) {
		v := at.text
		if at.shape != number {
			var ok bool
			if v, ok = r.text(at, what); !ok {
				return
			}
		}
		if !sizeForm.MatchString(v) {
			r.bad(at, "%s is no size; want one such as 64MiB or 1048576", at.source())
			return
		}
		digits := strings.TrimRight(v, " BKiMG")
		n, _ := strconv.ParseInt(digits, 10, 64)
		unit := int64(1)
		switch strings.TrimSpace(v[len(digits):]) {
		case "KiB":
			unit = 1 << 10
		case "MiB":
			unit = 1 << 20
		case "GiB":
			unit = 1 << 30
		}
		if n > limit/unit {
			r.bad(at, "%s is too large; at most %s", at.source(), sizeText(limit))
			return
		}
		*into = n * unit
	}}
}

func sizeText(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if bytes := int64(1) << (30 - 10*i); n >= bytes && n%bytes == 0 {
			return strconv.FormatInt(n/bytes, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10)
}

type whole interface{ ~int | ~int64 }

// integer is a whole number between two others.
func integer[V whole](from, to V) kind[V] {
	s := schema{"type": "integer", "minimum": int64(from), "maximum": int64(to)}
	return kind[V]{word: "number", schema: orVariable(s), show: showPlain(func(n V) string { return strconv.FormatInt(int64(n), 10) }), read: func(r *reader, at place, into *V) {
		v, ok := r.scalar(at, number, "a whole number, without quotes")
		if !ok {
			return
		}
		n, err := strconv.ParseInt(v, 10, 64)
		switch {
		case err != nil:
			r.bad(at, "%s is no whole number; want one from %d to %d", at.source(), from, to)
		case V(n) < from || V(n) > to || int64(V(n)) != n:
			r.bad(at, "%s is out of range; want a whole number from %d to %d", at.source(), from, to)
		default:
			*into = V(n)
		}
	}}
}

var decimalForm = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9})?$`)

// rate is a number above zero, times a second.
func rate() kind[float64] {
	s := schema{"type": "number", "exclusiveMinimum": 0, "maximum": 1e9}
	return kind[float64]{word: "decimal", schema: orVariable(s), show: showPlain(func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }), read: func(r *reader, at place, into *float64) {
		v, ok := r.scalar(at, number, "a number such as 50 or 0.5, without quotes")
		if !ok {
			return
		}
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || !decimalForm.MatchString(v) || f <= 0 || f > 1e9 {
			r.bad(at, "%s is no rate; want a number above zero such as 50 or 0.5", at.source())
			return
		}
		*into = f
	}}
}

func yesNo() kind[bool] {
	const what = "true or false, without quotes"
	return kind[bool]{word: "true | false", schema: orVariable(schema{"type": "boolean"}), show: showPlain(strconv.FormatBool), read: func(r *reader, at place, into *bool) {
		v, ok := r.scalar(at, boolean, what)
		if !ok {
			return
		}
		switch strings.ToLower(v) {
		case "true":
			*into = true
		case "false":
			*into = false
		default:
			r.bad(at, "%s is neither; want true or false", at.source())
		}
	}}
}
