package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// schema is a JSON schema, or a part of one.
type schema map[string]any

func anys(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

// orVariable allows text with a ${VAR} where a value of this kind stands: what
// it expands to is not known to an editor.
func orVariable(s schema) schema {
	if s["type"] == "string" && s["pattern"] == nil && s["enum"] == nil {
		return s // allows it already
	}
	either := []any{s}
	if inner, ok := s["anyOf"].([]any); ok && len(s) == 1 {
		either = slices.Clone(inner)
	}
	return schema{"anyOf": append(either, schema{"type": "string", "pattern": `\$\{`})}
}

// groupSchema is an object with these keys and no others.
func groupSchema(parts []part, more schema) schema {
	properties := schema{}
	required := []any{}
	for _, p := range parts {
		one := schema{"description": p.doc}
		maps.Copy(one, p.schema)
		if p.def != "" {
			one["description"] = p.doc + " Default: " + p.def + "."
		}
		properties[p.name] = one
		if p.required {
			required = append(required, p.name)
		}
	}
	out := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	maps.Copy(out, more)
	return out
}

// Schema is the JSON schema (draft 2020-12) of a configuration file, for
// editors. Parse knows more: what must be unique, fit together or exist.
func Schema() []byte {
	root := schema{
		"$schema":           "https://json-schema.org/draft/2020-12/schema",
		"title":             "Taskbridge configuration",
		"patternProperties": schema{"^x-": true},
	}
	maps.Copy(root, fileKind.schema)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		panic("config: the schema is no JSON: " + err.Error()) // only literals of ours
	}
	return b.Bytes()
}
