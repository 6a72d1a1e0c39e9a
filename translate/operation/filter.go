package operation

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Filter picks operations. The zero Filter picks all.
type Filter struct{ terms []term }

// term is one condition; all must hold.
type term struct {
	key   string // empty: plain text
	value string
}

// filterKeys: what each key of the grammar looks at. A value may hold * for
// any run of characters.
var filterKeys = []struct {
	key   string
	holds func(op *Operation, value string) bool
}{
	// tool: the tool called.
	{"tool", func(op *Operation, v string) bool { return op.Method == "tools/call" && glob(v, op.Name) }},
	// method: the method of any of its requests, or GET, DELETE.
	{"method", hasMethod},
	// id: the JSON-RPC id of any of its requests.
	{"id", hasID},
	// task: the task's id.
	{"task", func(op *Operation, v string) bool { return op.TaskID != "" && glob(v, op.TaskID) }},
	// kind: open, call, task, list, listen, notice or close.
	{"kind", func(op *Operation, v string) bool { return glob(v, string(op.Kind)) }},
	// status: how it ended (ok, tool-error, error, cancelled, refused, unfinished), the task's status or the HTTP status.
	{"status", hasStatus},
	// side: the leg it was seen on: client or server.
	{"side", func(op *Operation, v string) bool { return glob(v, op.Leg.String()) }},
	// era: legacy, modern or a revision.
	{"era", func(op *Operation, v string) bool { return glob(v, op.Era.String()) || glob(v, op.Version) }},
	// loss: a loss of translation it had.
	{"loss", func(op *Operation, v string) bool {
		return slices.ContainsFunc(op.Losses, func(l translate.Loss) bool { return glob(v, string(l)) })
	}},
}

// ParseFilter reads conditions parted by blanks: key:value or plain text, which
// stands in a name, an id or a message, in capitals or not. A value or text with
// blanks or colons goes in double quotes: tool:"my tool" "http://x".
func ParseFilter(s string) (Filter, error) {
	var f Filter
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		var t term
		if key, rest, ok := strings.Cut(s, ":"); ok && !strings.ContainsAny(key, " \t\n\"") {
			if !isKey(key) {
				return Filter{}, fmt.Errorf("filter: there is no key %q; keys are %s; text with a colon goes in double quotes", key, keyNames())
			}
			t.key, s = key, rest
		}
		var err error
		if t.value, s, err = word(s); err != nil {
			return Filter{}, err
		}
		if t.value == "" {
			return Filter{}, fmt.Errorf("filter: %s: has no value", t.key)
		}
		f.terms = append(f.terms, t)
	}
	return f, nil
}

func isKey(key string) bool {
	for i := range filterKeys {
		if filterKeys[i].key == key {
			return true
		}
	}
	return false
}

func keyNames() string {
	var b strings.Builder
	for _, k := range filterKeys {
		b.WriteString(k.key + ": ")
	}
	return strings.TrimSpace(b.String())
}

// word takes the first word of s, which may be quoted.
func word(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		if i := strings.IndexAny(s, " \t\n"); i >= 0 {
			return s[:i], s[i:], nil
		}
		return s, "", nil
	}
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", errors.New("filter: a double quote is not closed")
	}
	value, err = strconv.Unquote(quoted)
	return value, s[len(quoted):], err
}

// Match says that every condition holds for op.
func (f Filter) Match(op *Operation) bool {
	for _, t := range f.terms {
		if !t.match(op) {
			return false
		}
	}
	return true
}

func (t term) match(op *Operation) bool {
	for i := range filterKeys {
		if filterKeys[i].key == t.key {
			return filterKeys[i].holds(op, t.value)
		}
	}
	return hasText(op, t.value)
}

func hasText(op *Operation, text string) bool {
	low := bytes.ToLower([]byte(text))
	for _, s := range []string{op.Method, op.Name, op.TaskID, op.Client, op.Session} {
		if bytes.Contains(bytes.ToLower([]byte(s)), low) {
			return true
		}
	}
	return slices.ContainsFunc(op.Parts, func(p Part) bool {
		return bytes.Contains(bytes.ToLower(p.Record.Msg), low)
	})
}

func hasMethod(op *Operation, v string) bool {
	return glob(v, op.Method) || slices.ContainsFunc(op.Parts, func(p Part) bool {
		return p.Msg != nil && p.Msg.Kind == jsonrpc.Request && glob(v, p.Msg.Method)
	})
}

func hasID(op *Operation, v string) bool {
	return slices.ContainsFunc(op.Parts, func(p Part) bool {
		if p.Msg == nil || p.Msg.Kind != jsonrpc.Request {
			return false
		}
		id := p.Msg.ID.String()
		return id == v || glob(v, strings.Trim(id, `"`))
	})
}

func hasStatus(op *Operation, v string) bool {
	return glob(v, string(op.Outcome)) || op.TaskStatus != "" && glob(v, op.TaskStatus) ||
		op.Status != 0 && glob(v, strconv.Itoa(op.Status))
}

// glob: * in the pattern stands for any run of characters. It takes time in
// proportion to both lengths' product at most.
func glob(pattern, s string) bool {
	star, back := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, back = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p++
			i++
		case star >= 0:
			back++
			p, i = star+1, back
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
