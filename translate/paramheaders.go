package translate

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"taskbridge/translate/jsonrpc"
)

// headerMark is the annotation of an inputSchema property whose argument a
// header mirrors (2026-07-28 server/tools, x-mcp-header).
const headerMark = "x-mcp-header"

// maxMarks bounds the arguments of one tool that are mirrored: servers and the
// hops before them refuse header blocks that grow large.
const maxMarks = 64

// ParamMark says that an argument is mirrored: the value at Path in arguments
// goes into the header Mcp-Param-{Name}.
type ParamMark struct {
	Path []string `json:"p"`
	Name string   `json:"n"` // as in the schema
}

// Header is the mark's header in the form net/http keys it by.
func (m ParamMark) Header() string { return http.CanonicalHeaderKey(HeaderParamPrefix + m.Name) }

// ToolMarks reads the marks of one tool of a tools/list result. why is not
// empty if one of them breaks the rules: then a client must not offer the tool
// (streamable-http, Schema Extension).
func ToolMarks(tool jsonrpc.Value) (marks []ParamMark, why string) {
	raw := tool.Get("inputSchema").Raw()
	plain := bytes.Contains(raw, []byte(headerMark))
	if !plain && !bytes.Contains(raw, []byte(`\u`)) { // a key may be escaped
		return nil, ""
	}
	schema, err := jsonrpc.ParseValue(raw)
	if err != nil && plain {
		return nil, "inputSchema cannot be read: " + err.Error()
	}
	r := markReader{}
	r.schema(schema, nil, true)
	if r.why != "" {
		return nil, r.why
	}
	return r.marks, ""
}

// markReader walks a schema. Its depth is that of the decoder at most.
type markReader struct {
	marks []ParamMark
	why   string
}

// schema reads one schema; reached: only properties keys lead to it. The root
// has an empty path and is no property.
func (r *markReader) schema(s jsonrpc.Value, path []string, reached bool) {
	if s.Type() == jsonrpc.Array { // allOf, prefixItems and their like
		for e := range s.Elems() {
			r.schema(e, path, false)
		}
		return
	}
	for key, v := range s.Members() {
		switch {
		case r.why != "":
			return
		case key == headerMark:
			r.mark(s, v, path, reached && len(path) > 0)
		case key == "properties":
			for name, p := range v.Members() {
				r.schema(p, append(slices.Clip(path), name), reached)
			}
		case namedSchemas[key]:
			for _, p := range v.Members() {
				r.schema(p, path, false)
			}
		case subschemas[key]:
			r.schema(v, path, false)
		}
	}
}

// namedSchemas hold schemas under names of the server's own choice, subschemas
// are schemas or lists of them (JSON Schema 2020-12 core, section 10). What
// stands under other keywords is data: a default or an example may hold any
// member.
var (
	namedSchemas = map[string]bool{"patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true}
	subschemas   = map[string]bool{
		"items": true, "prefixItems": true, "additionalItems": true, "unevaluatedItems": true, "contains": true,
		"additionalProperties": true, "unevaluatedProperties": true, "propertyNames": true, "contentSchema": true,
		"allOf": true, "anyOf": true, "oneOf": true, "not": true, "if": true, "then": true, "else": true,
	}
)

func (r *markReader) mark(property, value jsonrpc.Value, path []string, reached bool) {
	name, ok := value.Str()
	switch {
	case !ok || name == "":
		r.why = headerMark + " must be a string that is not empty"
	case !isToken(name):
		r.why = headerMark + " is no header name"
	case !reached:
		r.why = headerMark + " stands where no chain of properties leads"
	case !primitive(property.Get("type")):
		r.why = headerMark + " stands on a property that is no string, integer or boolean"
	case slices.ContainsFunc(r.marks, func(m ParamMark) bool { return strings.EqualFold(m.Name, name) }):
		r.why = headerMark + " names one header twice"
	case len(r.marks) == maxMarks:
		r.why = fmt.Sprintf("%s stands on more than %d properties", headerMark, maxMarks)
	default:
		r.marks = append(r.marks, ParamMark{Path: path, Name: name})
	}
}

// primitive: a type a header can mirror; null beside it means "no header".
func primitive(t jsonrpc.Value) bool {
	if t.Type() != jsonrpc.Array {
		return t.Is("string") || t.Is("integer") || t.Is("boolean")
	}
	some := false
	for e := range t.Elems() {
		switch {
		case e.Is("null"):
		case primitive(e):
			some = true
		default:
			return false
		}
	}
	return some
}

// isToken: 1*tchar (RFC 9110 section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// ParamHeaders are the headers that mirror the arguments of a tools/call
// (streamable-http, Client Behavior). An error names the argument no header
// can carry.
func ParamHeaders(m *jsonrpc.Message, marks []ParamMark) (http.Header, error) {
	if len(marks) == 0 {
		return nil, nil
	}
	args, err := arguments(m)
	if err != nil {
		return nil, fmt.Errorf("params.arguments cannot be mirrored in headers: %w", err)
	}
	out := http.Header{}
	for _, mark := range marks {
		value, ok, err := ParamHeader(at(args, mark.Path))
		if err != nil {
			return nil, fmt.Errorf("argument %q cannot be mirrored in a header: %w", strings.Join(mark.Path, "."), err)
		}
		if ok {
			out[mark.Header()] = []string{value}
		}
	}
	return out, nil
}

// CheckParamHeaders is the server's side of ParamHeaders: it says what is
// wrong with the headers a client sent, or nothing (streamable-http, Server
// Behavior for Custom Headers). Headers no mark names are nobody's business.
func CheckParamHeaders(h http.Header, m *jsonrpc.Message, marks []ParamMark) string {
	if len(marks) == 0 {
		return ""
	}
	args, err := arguments(m)
	if err != nil {
		return "params.arguments cannot be read: " + err.Error()
	}
	for _, mark := range marks {
		value := at(args, mark.Path)
		header, given := only(h, mark.Header())
		has := value.Exists() && value.Type() != jsonrpc.Null
		switch {
		case has && !given:
			return mark.Header() + " is missing"
		case given && (!has || !ParamMatches(header, value)):
			return mark.Header() + " differs from the argument it mirrors"
		}
	}
	return ""
}

// arguments reads a call's arguments with everything in them; an error is a
// member that stands there twice, of which hops would read different ones.
func arguments(m *jsonrpc.Message) (jsonrpc.Value, error) {
	args := m.At("params", "arguments")
	if !args.Exists() {
		return args, nil
	}
	return args.Parse()
}

func at(v jsonrpc.Value, path []string) jsonrpc.Value {
	for _, key := range path {
		v = v.Get(key)
	}
	return v
}

// MarkedTools takes the tools out of a tools/list result whose marks break the
// rules. bad holds each one's name and what is wrong with it, good the marks of
// the others by name, empty ones too: a tool may have lost its marks.
func MarkedTools(m *jsonrpc.Message) (raw []byte, good map[string][]ParamMark, bad [][2]string) {
	e := m.Edit()
	good = map[string][]ParamMark{}
	for tool := range m.Result().Get("tools").Elems() {
		name, _ := tool.Get("name").Str()
		marks, why := ToolMarks(tool)
		if why != "" {
			bad = append(bad, [2]string{name, why})
			e.Delete(tool)
			continue
		}
		good[name] = marks
	}
	return e.Bytes(), good, bad
}
