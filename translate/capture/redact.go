package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// RedactKinds says what NewRedactor takes, for help texts.
const RedactKinds = "secrets, key:NAME, value:REGEX or path:JSONPATH"

// Redactor takes out of records what somebody does not want kept. What it takes
// becomes "[redacted:KIND]" in its place; the message stays one, with its id and
// method. Safe for concurrent use.
type Redactor struct {
	secrets bool
	keys    []string
	values  []*regexp.Regexp
	paths   []*jsonpath.Path
}

// The kinds as records name them. A key's name is told, an expression is not:
// it may hold what it is to find.
const (
	kindSecrets = "secrets"
	kindKey     = "key:"
	kindValue   = "value"
	kindPath    = "path"
)

// NewRedactor returns a Redactor for kinds:
//
//   - secrets: what is known for one by its name (password, api_key, …) or its
//     form (bearer tokens, JWTs, private keys, keys of well-known services);
//   - key:NAME: the values of every member of that name, in either case;
//   - value:REGEX: what matches of every string, and every number that does
//     (RE2 syntax);
//   - path:JSONPATH: what the expression finds in a message (RFC 9535).
//
// Text that is JSON itself is looked into. Names in JSON Schemas are no members.
func NewRedactor(kinds []string) (*Redactor, error) {
	r := &Redactor{}
	for _, k := range kinds {
		name, arg, _ := strings.Cut(k, ":")
		if name != kindSecrets && arg == "" {
			return nil, fmt.Errorf("%q: want %s", k, RedactKinds)
		}
		switch name {
		case "secrets":
			if k != kindSecrets {
				return nil, fmt.Errorf("%q: secrets takes nothing; want %s", k, RedactKinds)
			}
			r.secrets = true
		case "key":
			r.keys = append(r.keys, arg)
		case "value":
			re, err := regexp.Compile(arg)
			if err != nil {
				return nil, fmt.Errorf("value: %w", err)
			}
			if re.MatchString("") {
				return nil, errors.New("value: the expression matches empty text, so it would match everywhere")
			}
			r.values = append(r.values, re)
		case "path":
			p, err := jsonpath.Parse(arg)
			if err != nil {
				return nil, fmt.Errorf("%s: %w; want one such as path:$.params.arguments.password", k, err)
			}
			r.paths = append(r.paths, p)
		default:
			return nil, fmt.Errorf("%q: want %s", k, RedactKinds)
		}
	}
	return r, nil
}

// Kinds are the kinds as a capture's header may show them.
func (r *Redactor) Kinds() (kinds []string) {
	if r.secrets {
		kinds = append(kinds, kindSecrets)
	}
	for _, k := range r.keys {
		kinds = append(kinds, kindKey+k)
	}
	if len(r.values) > 0 {
		kinds = append(kinds, kindValue)
	}
	if len(r.paths) > 0 {
		kinds = append(kinds, kindPath)
	}
	return kinds
}

func redacted(kind string) string { return "[redacted:" + kind + "]" }

// Record redacts r and says in Redacted what was taken, beside what it says
// already.
func (r *Redactor) Record(rec *Record) {
	w := &walk{r: r, took: map[string]bool{}, texts: map[string]string{}}
	if rec.Msg != nil {
		rec.Msg = w.message(rec.Msg)
	}
	rec.Header = w.header(rec.Header)
	for kind := range w.took {
		if !slices.Contains(rec.Redacted, kind) {
			rec.Redacted = append(rec.Redacted, kind)
		}
	}
	slices.Sort(rec.Redacted)
}

// walk is one record's redaction.
type walk struct {
	r     *Redactor
	took  map[string]bool
	texts map[string]string // scalars that were taken, as headers mirror them, with their kind
	depth int               // of JSON in text in JSON
}

func (w *walk) message(raw []byte) []byte {
	v, err := jsonrpc.ParseValue(raw)
	if err != nil || v.Type() != jsonrpc.Object {
		return w.withheld(raw)
	}
	e := v.Edit()
	w.object(e, v, atRoot)
	for _, p := range w.r.paths {
		w.path(e, v, p)
	}
	return e.Bytes()
}

// withheld is a message that cannot be looked into, for it has a member twice or
// too many: none of what it says is kept.
func (w *walk) withheld(raw []byte) []byte {
	kind := w.r.Kinds()
	if len(kind) == 0 {
		return raw
	}
	w.took[kind[0]] = true
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil {
		return nil
	}
	e := m.Edit()
	e.Replace(m.Params(), holder(kind[0]))
	e.Replace(m.Result(), holder(kind[0]))
	if m.Kind == jsonrpc.ErrorResponse {
		failure := jsonrpc.NewObject().Raw("code", cmpRaw(m.Error().Get("code"), "-32603")).Str("message", redacted(kind[0])).Bytes()
		e.Replace(m.Error(), failure)
	}
	return e.Bytes()
}

func cmpRaw(v jsonrpc.Value, fallback string) []byte {
	if v.Exists() {
		return v.Raw()
	}
	return []byte(fallback)
}

// holder stands for an object that had to be one.
func holder(kind string) []byte {
	return jsonrpc.NewObject().Str("redacted", redacted(kind)).Bytes()
}

// take puts a mark in a value's place.
func (w *walk) take(e *jsonrpc.Edit, v jsonrpc.Value, kind string) {
	w.took[kind] = true
	w.mirrored(v, kind)
	e.Replace(v, jsonrpc.Quote(redacted(kind)))
}

// mirrored remembers how headers say what is taken.
func (w *walk) mirrored(v jsonrpc.Value, kind string) {
	if header, ok, err := translate.ParamHeader(v); ok && err == nil {
		w.texts[header] = kind
	}
	for _, m := range v.Members() {
		w.mirrored(m, kind)
	}
	for el := range v.Elems() {
		w.mirrored(el, kind)
	}
}

// path takes what an expression finds.
func (w *walk) path(e *jsonrpc.Edit, root jsonrpc.Value, p *jsonpath.Path) {
	dec := json.NewDecoder(bytes.NewReader(root.Raw()))
	dec.UseNumber()
	var input any
	if dec.Decode(&input) != nil {
		return // cannot be: it was parsed
	}
	for _, node := range p.SelectLocated(input) {
		v := follow(root, node.Path)
		switch {
		case len(node.Path) == 0:
			for name, m := range root.Members() {
				w.takeTop(e, name, m, kindPath)
			}
		case len(node.Path) == 1:
			w.takeTop(e, v.Key(), v, kindPath)
		case len(node.Path) == 2 && isName(node.Path[0], "error") && isName(node.Path[1], "code"):
		default:
			w.take(e, v, kindPath)
		}
	}
}

func isName(s spec.NormalSelector, name string) bool {
	n, ok := s.(spec.Name)
	return ok && string(n) == name
}

func follow(v jsonrpc.Value, path spec.NormalizedPath) jsonrpc.Value {
	for _, step := range path {
		switch step := step.(type) {
		case spec.Name:
			v = v.Get(string(step))
		case spec.Index:
			n := 0
			var found jsonrpc.Value
			for el := range v.Elems() {
				if n == int(step) {
					found = el
					break
				}
				n++
			}
			v = found
		}
	}
	return v
}

// takeTop takes a member of the message itself, of which id, method and the
// version stay, and what holds the rest stays an object.
func (w *walk) takeTop(e *jsonrpc.Edit, name string, v jsonrpc.Value, kind string) {
	switch name {
	case "jsonrpc", "id", "method":
		return
	case "error":
		if v.Type() == jsonrpc.Object {
			for part, m := range v.Members() {
				if part != "code" {
					w.take(e, m, kind)
				}
			}
			return
		}
	case "params", "result":
		w.took[kind] = true
		w.mirrored(v, kind)
		e.Replace(v, holder(kind))
		return
	}
	w.take(e, v, kind)
}

// header redacts the headers that mirror a message: what was taken there is
// taken here.
func (w *walk) header(in http.Header) http.Header {
	var out http.Header
	for name, values := range in {
		if name != translate.HeaderName && !strings.HasPrefix(name, translate.HeaderParamPrefix) {
			continue
		}
		for i, v := range values {
			if clean, changed := w.headerValue(name, v); changed {
				if out == nil {
					out = in.Clone()
				}
				out[name][i] = clean
			}
		}
	}
	if out == nil {
		return in
	}
	return out
}

func (w *walk) headerValue(name, value string) (string, bool) {
	text, ok := translate.DecodeHeader(value)
	if !ok {
		text = value
	}
	if kind := w.texts[value]; kind != "" {
		return redacted(kind), true
	}
	param, isParam := strings.CutPrefix(name, translate.HeaderParamPrefix)
	if kind := w.keyKind(param); isParam && kind != "" {
		w.took[kind] = true
		return redacted(kind), true
	}
	if clean, changed := w.text(text); changed {
		return translate.EncodeHeader(clean), true
	}
	return value, false
}
