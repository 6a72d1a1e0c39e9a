package capture

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// MaskPrefix begins what stands for a task's id, a requestState or a sealed
// handle in a capture. The hash behind it is the same wherever the same text
// stood, so they still match each other.
const MaskPrefix = "hmac:"

// The kinds of text that are masked, each under a name of its own so that equal
// texts of two kinds look different.
const (
	maskPrincipal = "principal"
	maskSession   = "session"
	maskHandle    = "handle"
)

// Concealer takes out of records what opens something to whoever knows it: in
// MCP a session's id, a task's id and a requestState are bearer secrets, and so
// is who the caller is. It is not for concurrent use.
type Concealer struct {
	mask  func(kind, text string) string
	masks *simplelru.LRU[named, string] // the newest
}

// named is a text of a kind.
type named struct{ kind, text string }

// maxMasks bounds the texts whose masks are remembered.
const maxMasks = 4 << 10

// NewConcealer returns a Concealer. mask is a keyed hash of a text of a kind, in
// letters and digits.
func NewConcealer(mask func(kind, text string) string) *Concealer {
	c := &Concealer{mask: mask}
	c.masks, _ = simplelru.NewLRU[named, string](maxMasks, nil) // the size is above zero
	return c
}

func (c *Concealer) masked(kind, text string) string {
	if text == "" {
		return ""
	}
	mask, ok := c.masks.Get(named{kind, text})
	if !ok {
		mask = c.mask(kind, text)
		c.masks.Add(named{kind, text}, mask)
	}
	return mask
}

// Record conceals r: Session and Principal come as they are, Header with
// whatever was said.
func (c *Concealer) Record(r *Record) { c.Message(r, nil) }

// Message is Record where r's message has been decoded.
func (c *Concealer) Message(r *Record, m *jsonrpc.Message) {
	r.Principal = c.masked(maskPrincipal, r.Principal)
	r.Session = c.masked(maskSession, r.Session)
	method := ""
	holds := mayHold(r.Msg)
	if m == nil && holds {
		var err error
		if m, err = jsonrpc.Decode(r.Msg, jsonrpc.Limits{}); err != nil {
			r.Msg = nil // what cannot be read cannot be vouched for
		}
	}
	if m != nil {
		method = m.Method
		if holds {
			r.Msg = c.sealedIn(c.message(m))
		}
	}
	r.Header = c.header(r.Header, method)
}

// hints: one of them is in every message that holds something secret. Each is
// looked for by a byte of it that is rare: this is done for every message.
var hints = []struct {
	rare          byte
	before, after string
}{
	{'I', "task", "d"},
	{'S', "request", "tate"},
	{'_', "tb1", ""},
	{'\\', "", "u00"}, // a letter of them is escaped
}

// mayHold says whether it is worth while to look for secrets in raw.
func mayHold(raw []byte) bool {
	for _, h := range hints {
		for at := 0; ; at++ {
			i := bytes.IndexByte(raw[at:], h.rare)
			if i < 0 {
				break
			}
			at += i
			if bytes.HasSuffix(raw[:at], []byte(h.before)) && bytes.HasPrefix(raw[at+1:], []byte(h.after)) {
				return true
			}
		}
	}
	return false
}

func (c *Concealer) handle(text string) string { return MaskPrefix + c.masked(maskHandle, text) }

// message conceals the spans where a secret stands.
func (c *Concealer) message(m *jsonrpc.Message) []byte {
	f := translate.Facts(m, m.Method)
	e := m.Edit()
	for _, v := range f.TaskIDs {
		c.conceal(e, v)
	}
	c.conceal(e, f.State)
	for _, holder := range []jsonrpc.Value{m.Params(), m.Result()} {
		c.related(e, holder.Get("result").Get("_meta"))
		for _, q := range holder.Get("inputRequests").Members() {
			c.related(e, q.Get("params").Get("_meta"))
		}
	}
	c.task(e, m.Result())
	return e.Bytes()
}

// related conceals a related task where it rarely stands, in questions and
// results inside of tasks: what is in it was not recorded by Decode.
func (c *Concealer) related(e *jsonrpc.Edit, meta jsonrpc.Value) {
	v, err := meta.Get(translate.MetaRelatedTask).Parse()
	if err != nil {
		return
	}
	inner := v.Edit()
	c.conceal(inner, v.Get("taskId"))
	e.Replace(meta.Get(translate.MetaRelatedTask), inner.Bytes())
}

func (c *Concealer) conceal(e *jsonrpc.Edit, v jsonrpc.Value) {
	switch v.Type() {
	case jsonrpc.Absent, jsonrpc.Null:
		return
	}
	text, ok := v.Str()
	if !ok {
		text = string(v.Raw()) // a requestState is a string; one that is none is no less secret
	}
	e.Replace(v, jsonrpc.Quote(c.handle(text)))
}

// task conceals the ids in an answer about tasks. What it answers is not known
// here, so its form has to tell: a result that has an id and a status is a task, or
// an id that stood for one before.
func (c *Concealer) task(e *jsonrpc.Edit, result jsonrpc.Value) {
	id := result.Get("taskId")
	text, _ := id.Str()
	if result.Get("status").Exists() || c.masks.Contains(named{maskHandle, text}) {
		c.conceal(e, id)
	}
	c.conceal(e, result.Get("task").Get("taskId"))
	for t := range result.Get("tasks").Elems() {
		c.conceal(e, t.Get("taskId"))
	}
}

// sealedIn conceals sealed handles wherever else they stand: error texts name
// them, cursors are such.
func (c *Concealer) sealedIn(raw []byte) []byte {
	text := string(raw)
	if !strings.Contains(text, sealPrefix) {
		return raw
	}
	return []byte(c.sealedText(text))
}

const (
	// sealPrefix begins what session.Handles seals, leastSealed is what follows
	// it at least.
	sealPrefix  = "tb1_"
	leastSealed = 40
)

func (c *Concealer) sealedText(text string) string {
	var b strings.Builder
	for {
		at := strings.Index(text, sealPrefix)
		if at < 0 {
			b.WriteString(text)
			return b.String()
		}
		end := at + len(sealPrefix)
		for end < len(text) && isSealChar(text[end]) {
			end++
		}
		b.WriteString(text[:at])
		if found := text[at:end]; len(found) >= len(sealPrefix)+leastSealed {
			b.WriteString(c.handle(found))
		} else {
			b.WriteString(found)
		}
		text = text[end:]
	}
}

func isSealChar(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_'
}

// header keeps the protocol's own headers, with what is secret in them masked.
func (c *Concealer) header(in http.Header, method string) http.Header {
	out, own := in, false
	change := func() {
		if !own {
			own, out = true, in.Clone()
		}
	}
	for name, values := range in {
		if !KeptHeader(name) {
			change()
			delete(out, name)
			continue
		}
		for i, v := range values {
			if clean := c.headerValue(name, method, v); clean != v {
				change()
				out[name][i] = clean
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (c *Concealer) headerValue(name, method, v string) string {
	switch name {
	case translate.HeaderSession:
		return c.masked(maskSession, v)
	case "Www-Authenticate":
		return CleanChallenge(v)
	case translate.HeaderName:
		if translate.TaskMethod(method) {
			if text, ok := translate.DecodeHeader(v); ok {
				v = text
			}
			return c.handle(v)
		}
	}
	if !strings.Contains(v, sealPrefix) {
		return v
	}
	return c.sealedText(v)
}

// KeptHeader says whether a capture keeps a header, whose name is canonical:
// those the protocol gives a meaning, none that carries a credential.
func KeptHeader(name string) bool {
	switch name {
	case translate.HeaderVersion, translate.HeaderSession, translate.HeaderMethod, translate.HeaderName, translate.HeaderLastEvent,
		"Accept", "Allow", "Content-Type", "Retry-After", "Www-Authenticate":
		return true
	}
	return strings.HasPrefix(name, translate.HeaderParamPrefix)
}

// toldByChallenge are the parameters of a challenge that say what is wanted
// (RFC 6750 section 3, RFC 9728 section 5.1); others may hold nonces and
// exchanged tokens.
var toldByChallenge = map[string]bool{
	"realm": true, "scope": true, "error": true, "error_description": true, "error_uri": true, "resource_metadata": true,
}

// CleanChallenge is a WWW-Authenticate line with its scheme and the parameters
// that hold no secret.
func CleanChallenge(line string) string {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	var kept []string
	for rest != "" {
		name, after, found := strings.Cut(rest, "=")
		if !found {
			break
		}
		name = strings.TrimSpace(name)
		value, next := challengeValue(strings.TrimLeft(after, " \t"))
		if toldByChallenge[strings.ToLower(name)] {
			kept = append(kept, name+"="+value)
		}
		rest = strings.TrimLeft(next, " \t,")
	}
	if len(kept) == 0 {
		return scheme
	}
	return scheme + " " + strings.Join(kept, ", ")
}

// challengeValue parts the value s begins with from what follows.
func challengeValue(s string) (value, rest string) {
	if !strings.HasPrefix(s, `"`) {
		if i := strings.IndexAny(s, ", \t"); i >= 0 {
			return s[:i], s[i:]
		}
		return s, ""
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[:i+1], s[i+1:]
		}
	}
	return s, ""
}
