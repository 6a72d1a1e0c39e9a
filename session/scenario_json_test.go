package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// jobj is a JSON object whose members keep their order.
type jobj struct {
	keys []string
	vals map[string]any
}

func (o *jobj) set(key string, v any) {
	if _, ok := o.vals[key]; !ok {
		o.keys = append(o.keys, key)
	}
	if o.vals == nil {
		o.vals = map[string]any{}
	}
	o.vals[key] = v
}

func (o *jobj) del(key string) {
	delete(o.vals, key)
	o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == key })
}

// parseTree reads JSON into *jobj, []any, string, json.Number, bool and nil.
func parseTree(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := readTree(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one JSON value")
	}
	return v, nil
}

func readTree(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		o := &jobj{vals: map[string]any{}}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := readTree(d)
			if err != nil {
				return nil, err
			}
			o.set(k.(string), v)
		}
		_, err := d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := readTree(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
	return t, nil
}

func appendTree(b []byte, v any) []byte {
	switch v := v.(type) {
	case *jobj:
		b = append(b, '{')
		for i, k := range v.keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendQuoted(b, k), ':')
			b = appendTree(b, v.vals[k])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendTree(b, e)
		}
		return append(b, ']')
	case string:
		return appendQuoted(b, v)
	case json.Number:
		return append(b, v...)
	case bool:
		return fmt.Append(b, v)
	}
	return append(b, "null"...)
}

func appendQuoted(b []byte, s string) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}

// pretty keeps what fits on a line there and breaks the rest by members.
func pretty(b []byte, v any, indent int) []byte {
	one := appendTree(nil, v)
	if len(one)+indent <= 110 {
		return append(b, one...)
	}
	pad := strings.Repeat(" ", indent+1)
	switch v := v.(type) {
	case *jobj:
		b = append(b, '{')
		for i, k := range v.keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(b, '\n'), pad...)
			b = append(appendQuoted(b, k), ": "...)
			b = pretty(b, v.vals[k], indent+1)
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(b, '\n'), pad...)
			b = pretty(b, e, indent+1)
		}
		return append(b, ']')
	}
	return append(b, one...)
}

// vars are the names a scenario has given to values: "$NAME" as a whole
// string stands for the value, inside a longer string for its text. "$ANY"
// is never bound.
type vars map[string]any

func isVar(s string) bool {
	if len(s) < 2 || s[0] != '$' {
		return false
	}
	for _, c := range s[1:] {
		if c != '_' && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// expand puts values where names stand. A member "..." is replaced by the
// members of its value; names not bound yet stay.
func (vs vars) expand(v any) any {
	switch v := v.(type) {
	case *jobj:
		o := &jobj{vals: map[string]any{}}
		for _, k := range v.keys {
			e := vs.expand(v.vals[k])
			if from, ok := e.(*jobj); ok && k == "..." {
				for _, fk := range from.keys {
					o.set(fk, from.vals[fk])
				}
				continue
			}
			o.set(k, e)
		}
		return o
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = vs.expand(e)
		}
		return list
	case string:
		if isVar(v) {
			if bound, ok := vs[v[1:]]; ok {
				return vs.expand(bound)
			}
			return v
		}
		return vs.text(v)
	}
	return v
}

// text replaces names inside a string, longest name first.
func (vs vars) text(s string) string {
	if !strings.Contains(s, "$") {
		return s
	}
	names := make([]string, 0, len(vs))
	for k := range vs {
		names = append(names, k)
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, k := range names {
		switch bound := vs[k].(type) {
		case string:
			s = strings.ReplaceAll(s, "$"+k, bound)
		case json.Number:
			s = strings.ReplaceAll(s, "$"+k, string(bound))
		}
	}
	return s
}

// match compares what came with what is wanted (already expanded) and binds
// the names it meets; why says where they differ first.
func (vs vars) match(want, got any, path string) (why string) {
	if name, ok := want.(string); ok && isVar(name) {
		if name == "$ANY" {
			return ""
		}
		if bound, ok := vs[name[1:]]; ok {
			return vs.match(vs.expand(bound), got, path)
		}
		vs[name[1:]] = got
		return ""
	}
	switch want := want.(type) {
	case *jobj:
		g, ok := got.(*jobj)
		if !ok {
			return fmt.Sprintf("%s: want an object, got %s", path, appendTree(nil, got))
		}
		for _, k := range want.keys {
			v, ok := g.vals[k]
			if !ok {
				return fmt.Sprintf("%s.%s is missing", path, k)
			}
			if why := vs.match(want.vals[k], v, path+"."+k); why != "" {
				return why
			}
		}
		for _, k := range g.keys {
			if _, ok := want.vals[k]; !ok {
				return fmt.Sprintf("%s.%s is not wanted: %s", path, k, appendTree(nil, g.vals[k]))
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(want) {
			return fmt.Sprintf("%s: want %d elements, got %s", path, len(want), appendTree(nil, got))
		}
		for i := range want {
			if why := vs.match(want[i], g[i], fmt.Sprintf("%s[%d]", path, i)); why != "" {
				return why
			}
		}
		return ""
	}
	if want != got {
		return fmt.Sprintf("%s: want %s, got %s", path, appendTree(nil, want), appendTree(nil, got))
	}
	return ""
}

// bind gives names the values that stand where they stand, as far as both
// trees go together, for -update.
func (vs vars) bind(want, got any) {
	switch want := want.(type) {
	case *jobj:
		if g, ok := got.(*jobj); ok {
			for _, k := range want.keys {
				if v, ok := g.vals[k]; ok {
					vs.bind(want.vals[k], v)
				}
			}
		}
	case []any:
		if g, ok := got.([]any); ok {
			for i := range min(len(g), len(want)) {
				vs.bind(want[i], g[i])
			}
		}
	case string:
		if _, ok := vs[strings.TrimPrefix(want, "$")]; !ok && isVar(want) && want != "$ANY" {
			vs[want[1:]] = got
		}
	}
}

// template is the inverse of expand, for -update: bound values become names.
func (vs vars) template(v any, fixed vars) any {
	if o, ok := v.(*jobj); ok {
		for k, f := range fixed {
			if fo, ok := f.(*jobj); ok && len(fo.keys) > 0 && vs.clone().match(vs.expand(fo), o, "") == "" {
				return "$" + k
			}
		}
		out := &jobj{vals: map[string]any{}}
		for _, k := range o.keys {
			out.set(k, vs.template(o.vals[k], fixed))
		}
		return out
	}
	if list, ok := v.([]any); ok {
		out := make([]any, len(list))
		for i, e := range list {
			out[i] = vs.template(e, fixed)
		}
		return out
	}
	if s, ok := v.(string); ok {
		for k, bound := range vs {
			if b, ok := bound.(string); ok && len(b) > 8 && strings.Contains(s, b) {
				s = strings.ReplaceAll(s, b, "$"+k)
			}
		}
		return s
	}
	return v
}

func (vs vars) clone() vars {
	out := make(vars, len(vs))
	maps.Copy(out, vs)
	return out
}
