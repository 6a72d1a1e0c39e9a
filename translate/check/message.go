package check

import (
	"bytes"
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// maxNodes bounds what is recorded of one message, at 24 bytes each.
const maxNodes = 1 << 20

// message looks at a message that could be read.
func (c *Checker) message(ev *event) {
	c.place(ev)
	c.open(ev)
	switch ev.m.Kind {
	case jsonrpc.Request:
		c.request(ev)
	case jsonrpc.Notification:
		c.notification(ev)
	default:
		c.response(ev)
	}
	if ev.st != nil {
		c.exchange(ev)
	}
}

// place finds what the record belongs to, and what is spoken there.
func (c *Checker) place(ev *event) {
	r := ev.r
	if isHTTP(r.Transport) && r.Stream != "" {
		key := streamKey{r.Leg, hash(r.Stream)}
		if ev.by == byServer {
			ev.st, _ = c.streams.Get(key)
		} else {
			ev.st = &stream{verb: r.Verb, line: r.Line, resumes: len(r.Header[translate.HeaderLastEvent]) > 0, version: headerOf(r.Header, translate.HeaderVersion)}
			c.streams.Add(key, ev.st)
		}
	}
	if ev.st != nil && ev.by == byServer {
		ev.lane = ev.st.lane
	}
	if ev.lane == nil {
		ev.lane = c.laneOf(ev)
	}
	if ev.m != nil && ev.m.Kind == jsonrpc.Request && ev.m.Method == "initialize" && ev.by == byClient && ev.lane.shared {
		ev.lane = c.newLane(r.Leg) // named when the answer names it
		ev.lane.shared = true
	}
	c.era(ev)
	if ev.st != nil && ev.by == byClient {
		ev.st.lane, ev.st.modern, ev.st.rev = ev.lane, ev.modern, ev.rev
		if ev.m != nil {
			ev.st.kind = ev.m.Kind
		}
		ev.st.afterEnd = ev.lane.endedLine > 0
	}
}

// era decides what the message is to be held against (2026-07-28
// basic/versioning: the era is a property of the request).
func (c *Checker) era(ev *event) {
	l := ev.lane
	switch {
	case ev.by == byClient:
		ev.modern = translate.ModernHeader(ev.r.Header) || ev.m != nil && ev.m.At("params", "_meta", translate.MetaVersion).Exists() ||
			ev.m != nil && ev.m.Kind != jsonrpc.Request && l.conn && l.modern && !l.began()
		if ev.m != nil && ev.m.Method == "notifications/cancelled" && l.conn {
			if req, ok := c.requests.Peek(requestKey{l.n, translate.ToServer, idHash(ev.m.Params().Get("requestId"))}); ok {
				ev.modern = req.modern
			}
		}
	case ev.st != nil:
		ev.modern = ev.st.modern
	default:
		ev.modern = l.modern && !l.began()
		if ev.m != nil {
			c.eraOfServer(ev)
		}
	}
	if ev.modern {
		ev.rev = r20260728
		if ev.by == byClient {
			l.modern = true
		}
		return
	}
	c.revision(ev)
}

// eraOfServer: a server that speaks both on one connection.
func (c *Checker) eraOfServer(ev *event) {
	switch ev.m.Kind {
	case jsonrpc.Notification:
		params := ev.m.Params()
		if params.Get("_meta").Get(translate.MetaSubscription).Exists() {
			ev.modern = true
		} else if token := params.Get("progressToken"); token.Exists() {
			if req, ok := c.tokens.Peek(tokenKey{ev.lane.n, translate.ToServer, idHash(token)}); ok {
				ev.modern = req.modern
			}
		}
	case jsonrpc.Response, jsonrpc.ErrorResponse:
		if req, ok := c.requests.Peek(requestKey{ev.lane.n, translate.ToServer, idKey(ev.m.ID)}); ok {
			ev.modern = req.modern
		}
	}
}

// revision is the legacy one: negotiated, else the header's, else the newest.
func (c *Checker) revision(ev *event) {
	if ev.m != nil && ev.m.Method == "initialize" {
		v, _ := ev.m.Params().Get("protocolVersion").Str()
		ev.rev, ev.guessed = legacyRevision(v)
		return
	}
	if ev.lane.rev > 0 {
		ev.rev = ev.lane.rev
		return
	}
	version := headerOf(ev.r.Header, translate.HeaderVersion)
	if ev.st != nil {
		version = ev.st.version
	}
	ev.rev, ev.guessed = legacyRevision(version)
}

func legacyRevision(version string) (rev revision, guessed bool) {
	for i, v := range revisions[:r20251125] {
		if v == version {
			return revision(i + 1), false
		}
	}
	return r20251125, true
}

func headerOf(h map[string][]string, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// idHash is that of an id or token, equal for equal JSON values.
func idHash(v jsonrpc.Value) uint64 {
	id, err := jsonrpc.IDFromRaw(v.Raw())
	if err != nil {
		return hashBytes(v.Raw())
	}
	return idKey(id)
}

func idKey(id jsonrpc.ID) uint64 { return hash(id.Key()) }

// open reads the message's body with all that its definition looks at.
func (c *Checker) open(ev *event) {
	m := ev.m
	switch m.Kind {
	case jsonrpc.Request, jsonrpc.Notification:
		c.methodRules(ev)
		if ev.row != nil {
			c.members(ev, "params", m.Params(), shapeOf(ev.row.Params, ev.rev))
		}
	}
}

// members holds a value against a definition.
func (c *Checker) members(ev *event, root string, v jsonrpc.Value, s *shape) {
	if s == nil {
		return
	}
	raw := v.Raw()
	if !v.Exists() {
		raw = []byte("{}")
	}
	body, err := pathsOf(s).Parse(raw, jsonrpc.Limits{MaxMembers: maxNodes})
	if err != nil {
		c.unread(ev, err)
		return
	}
	ev.body = body
	if len(ev.r.Redacted) > 0 {
		return // what was taken out has another type, or none
	}
	for _, f := range validate(root, body, s) {
		c.fault(ev, f)
	}
	c.metaKeys(ev, body.Get("_meta"))
}

// faultRules are rules of their own for members that matter most, by where they
// are missing.
var faultRules = []struct{ path, rule string }{
	{"params._meta.io.modelcontextprotocol/", "meta/required"},
	{"result.resultType", "result/type-missing"},
}

func (c *Checker) fault(ev *event, f fault) {
	switch f.kind {
	case missing:
		for _, r := range faultRules {
			if strings.HasPrefix(f.path, r.path) {
				c.find(ev, r.rule, "%s is missing", f.path)
				return
			}
		}
		if f.path == "params._meta" && ev.modern {
			c.find(ev, "meta/required", "params._meta is missing")
			return
		}
		c.find(ev, "message/member-missing", "%s is missing", f.path)
	case wrongType:
		c.find(ev, "message/member-type", "%s is %s, not %s", f.path, f.got, f.want)
	case wrongValue:
		if f.path == "result.resultType" {
			c.find(ev, "result/type", "resultType is %q, not %s", f.got, f.want)
			return
		}
		c.find(ev, "message/member-value", "%s is %q, not one of %s", f.path, f.got, f.want)
	}
}

// unread says why a message could not be read, as exactly as can be told.
func (c *Checker) unread(ev *event, err error) {
	de, ok := err.(*jsonrpc.DecodeError)
	if !ok {
		c.find(ev, "json/malformed", "%v", err)
		return
	}
	if ev.st != nil && ev.by == byClient {
		ev.st.refused = true
	}
	switch {
	case strings.HasPrefix(de.Msg, "repeated member"):
		c.find(ev, "json/repeated-member", "%s at byte %d", de.Msg, de.Offset)
		return
	case strings.HasPrefix(de.Msg, "more than"):
		c.say(Finding{Line: ev.r.Line, Rule: ruleByID["capture/unchecked"], Leg: ev.r.Leg, Message: "the message has " + de.Msg + "; it was not checked"})
		return
	case de.Code == jsonrpc.CodeParse:
		c.find(ev, "json/malformed", "%s at byte %d", de.Msg, de.Offset)
		return
	}
	id := envelopeID(ev.r.Msg)
	switch {
	case de.Call && id.Type() == jsonrpc.Null:
		c.find(ev, "id/null", "")
	case de.Call && id.Exists() && id.Type() != jsonrpc.String && id.Type() != jsonrpc.Number:
		c.find(ev, "id/type", "the id is %s", id.Type())
	default:
		c.find(ev, "message/envelope", "%s", de.Msg)
	}
}

var envelopePaths = jsonrpc.NewPaths(nil)

func envelopeID(raw []byte) jsonrpc.Value {
	v, err := envelopePaths.Parse(raw, jsonrpc.Limits{})
	if err != nil {
		return jsonrpc.Value{}
	}
	return v.Get("id")
}

// batch takes an array apart where the revision has them.
func (c *Checker) batch(ev *event) {
	c.place(ev)
	if ev.modern || ev.rev != r20250326 && !ev.guessed {
		c.find(ev, "message/batch", "")
		if ev.st != nil {
			ev.st.refused = true
		}
		return
	}
	list, err := jsonrpc.DecodeBatch(ev.r.Msg, jsonrpc.Limits{MaxMembers: maxNodes})
	if err != nil {
		c.unread(ev, err)
		return
	}
	for _, m := range list {
		part := *ev.r
		part.Msg = bytes.TrimSpace(m.Raw)
		part.Transport = "batch" // its parts have no exchange of their own
		one := &event{r: &part, m: m, by: ev.by, lane: ev.lane, rev: ev.rev, guessed: ev.guessed}
		c.open(one)
		switch m.Kind {
		case jsonrpc.Request:
			c.request(one)
		case jsonrpc.Notification:
			c.notification(one)
		default:
			c.response(one)
		}
	}
}

// methodRules: is there such a method, and may this side send it so?
func (c *Checker) methodRules(ev *event) {
	m := ev.m
	row, known := rowOf(m.Method, ev.rev)
	ev.row = row
	switch {
	case ev.modern && ev.by == byServer && m.Kind == jsonrpc.Request:
		c.find(ev, "method/server-request", "%s came as a request", clip(m.Method))
	case row == nil && known && !ev.guessed:
		id := "method/not-in-revision"
		if notification(m.Method) {
			id = "method/removed-notification"
		}
		c.find(ev, id, "%s is not a method of %s", m.Method, revisions[ev.rev-1])
	case row != nil && row.By&ev.by == 0:
		c.find(ev, "method/direction", "%s is not for %s to send", m.Method, peerWord(ev.by))
	}
	if known && notification(m.Method) != (m.Kind == jsonrpc.Notification) {
		c.find(ev, "method/kind", "%s came as a %s", m.Method, m.Kind)
	}
}

func peerWord(s sender) string {
	if s == byServer {
		return "a server"
	}
	return "a client"
}

// metaKeys checks names in _meta (basic/index, _meta: Key name format).
func (c *Checker) metaKeys(ev *event, meta jsonrpc.Value) {
	for key := range meta.Members() {
		if !metaKey(key) {
			c.find(ev, "meta/key", "%q is no well-formed key", clip(key))
			return
		}
	}
}

func metaKey(key string) bool {
	prefix, name, hasPrefix := strings.Cut(key, "/")
	if !hasPrefix {
		prefix, name = "", key
	} else {
		for label := range strings.SplitSeq(prefix, ".") {
			if label == "" || !letter(label[0]) || !letter(label[len(label)-1]) && !digit(label[len(label)-1]) || !every(label, "-") {
				return false
			}
		}
	}
	if name == "" {
		return hasPrefix
	}
	ends := func(b byte) bool { return letter(b) || digit(b) }
	return ends(name[0]) && ends(name[len(name)-1]) && every(name, "-_.")
}

func letter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }
func digit(b byte) bool  { return b >= '0' && b <= '9' }

func every(s, more string) bool {
	for i := range len(s) {
		if !letter(s[i]) && !digit(s[i]) && strings.IndexByte(more, s[i]) < 0 {
			return false
		}
	}
	return true
}
