package capture

import (
	"strconv"
	"strings"

	"taskbridge/translate/jsonrpc"
)

// where a container stands, as far as that says what the names in it are.
type where uint8

const (
	atData      where = iota // what peers say to each other
	atRoot                   // the message
	atBody                   // params or result
	atError                  // a JSON-RPC error
	atQuestions              // inputRequests: an entry each
	atQuestion               // one of them
	atTools                  // the list
	atTool                   // one of them
	atSchema                 // a JSON Schema
	atProps                  // names of properties, with a schema each
	atSecret                 // the schema of a property whose values are taken
)

// below is where a member of that name leads.
func (at where) below(name string) where {
	switch at {
	case atRoot:
		switch name {
		case "params", "result":
			return atBody
		case "error":
			return atError
		}
	case atBody:
		switch name {
		case "inputRequests":
			return atQuestions
		case "tools":
			return atTools
		case "requestedSchema":
			return atSchema
		}
	case atQuestions:
		return atQuestion
	case atQuestion:
		if name == "params" {
			return atBody
		}
	case atTool:
		if name == "inputSchema" || name == "outputSchema" {
			return atSchema
		}
	case atProps:
		return atSchema
	case atSchema, atSecret:
		switch name {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			return atProps
		case "default", "const", "enum", "example", "examples":
			return atData
		}
		return at
	}
	return atData
}

// toldBySchema are the members of a schema that say nothing of a value.
var toldBySchema = map[string]bool{
	"type": true, "title": true, "description": true, "format": true, "pattern": true, "minLength": true, "maxLength": true,
	"minimum": true, "maximum": true, "items": true, "properties": true, "required": true, "anyOf": true, "oneOf": true, "allOf": true,
	"not": true, "additionalProperties": true, "$ref": true, "$comment": true, "nullable": true, "readOnly": true, "writeOnly": true,
	"deprecated": true, "enumNames": true, "x-mcp-header": true, "$schema": true, "contentEncoding": true, "contentMediaType": true,
}

// object redacts the members of v.
func (w *walk) object(e *jsonrpc.Edit, v jsonrpc.Value, at where) {
	var taken map[string]bool
	for name, m := range v.Members() {
		w.member(e, name, m, at)
		if at == atData {
			if clean, changed := w.patterns(name); changed {
				if taken == nil {
					taken = map[string]bool{}
				}
				e.Rename(m, unused(v, taken, clean))
			}
		}
	}
}

// unused is name, or like it, for a member that is renamed: an object has none
// twice.
func unused(v jsonrpc.Value, taken map[string]bool, name string) string {
	free := name
	for n := 2; taken[free] || v.Get(free).Exists(); n++ {
		free = name + " " + strconv.Itoa(n)
	}
	taken[free] = true
	return free
}

func (w *walk) member(e *jsonrpc.Edit, name string, m jsonrpc.Value, at where) {
	switch {
	case at == atRoot && (name == "jsonrpc" || name == "id" || name == "method"):
		return
	case at == atRoot && w.userKind(name) != "":
		w.takeTop(e, name, m, w.userKind(name))
		return
	case at == atRoot:
	case at == atError && name == "code":
		return
	case m.Type() == jsonrpc.Null:
		return
	case at == atProps || at == atSchema || at == atSecret:
		w.schemaMember(e, name, m, at)
		return
	case isID(name, at):
		return
	default:
		if kind := w.keyKind(name); kind != "" && (kind != kindSecrets || m.Type() != jsonrpc.Bool) {
			w.take(e, m, kind)
			return
		}
	}
	w.value(e, m, at.below(name))
}

// schemaMember: in a schema a name is no member whose value is there, but a
// default of it is.
func (w *walk) schemaMember(e *jsonrpc.Edit, name string, m jsonrpc.Value, at where) {
	next := at.below(name)
	kind := w.keyKind(name)
	scalar := m.Type() == jsonrpc.String || m.Type() == jsonrpc.Number
	switch {
	case at == atSecret && !toldBySchema[name]:
		w.take(e, m, w.secretKind(kind))
		return
	case kind != "" && (scalar || at == atProps && m.Type() == jsonrpc.Array):
		w.take(e, m, kind)
		return
	case at == atProps && kind != "":
		next = atSecret
	}
	w.value(e, m, next)
}

// secretKind is the kind to name for a value in the schema of a property that is
// taken.
func (w *walk) secretKind(kind string) string {
	switch {
	case kind != "":
		return kind
	case w.r.secrets:
		return kindSecrets
	}
	return kindKey + w.r.keys[0]
}

// isID: what messages are matched by is not to be changed.
func isID(name string, at where) bool {
	switch name {
	case "progressToken", "requestId":
		return true
	case "taskId", "requestState", "cursor", "nextCursor":
		return at == atBody // which was made a hash of where it is secret
	}
	return false
}

func (w *walk) value(e *jsonrpc.Edit, v jsonrpc.Value, at where) {
	switch v.Type() {
	case jsonrpc.Object:
		w.object(e, v, at)
	case jsonrpc.Array:
		next := at
		if at == atTools {
			next = atTool
		}
		for el := range v.Elems() {
			w.value(e, el, next)
		}
	case jsonrpc.String:
		text, _ := v.Str()
		if clean, changed := w.text(text); changed {
			e.Replace(v, jsonrpc.Quote(clean))
		}
	case jsonrpc.Number:
		for _, re := range w.r.values {
			if re.Match(v.Raw()) {
				w.take(e, v, kindValue)
			}
		}
	}
}

// maxTextDepth bounds JSON in text in JSON in text.
const maxTextDepth = 4

// text redacts a string. JSON in it is looked into: tools give results both ways.
func (w *walk) text(s string) (string, bool) {
	changed := false
	if t := strings.TrimLeft(s, " \t\r\n"); w.depth < maxTextDepth && t != "" && (t[0] == '{' || t[0] == '[' || t[0] == '"') {
		if v, err := jsonrpc.ParseValue([]byte(s)); err == nil {
			w.depth++
			e := v.Edit()
			w.value(e, v, atData)
			w.depth--
			if clean := string(e.Bytes()); clean != strings.TrimSpace(s) {
				s, changed = clean, true
			}
		}
	}
	clean, more := w.patterns(s)
	return clean, changed || more
}

// patterns takes what matches.
func (w *walk) patterns(s string) (string, bool) {
	changed := false
	if w.r.secrets {
		for i := range secretForms {
			if clean, ok := secretForms[i].take(s); ok {
				s, changed = clean, true
				w.took[kindSecrets] = true
			}
		}
	}
	for _, re := range w.r.values {
		if re.MatchString(s) {
			s, changed = re.ReplaceAllLiteralString(s, redacted(kindValue)), true
			w.took[kindValue] = true
		}
	}
	return s, changed
}

// keyKind is the kind that takes the value of a member of that name, or "".
func (w *walk) keyKind(name string) string {
	if kind := w.userKind(name); kind != "" {
		return kind
	}
	if w.r.secrets && secretName(name) {
		return kindSecrets
	}
	return ""
}

func (w *walk) userKind(name string) string {
	for _, k := range w.r.keys {
		if strings.EqualFold(k, name) {
			return kindKey + k
		}
	}
	return ""
}
