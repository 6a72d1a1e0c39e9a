package check

import (
	"mime"
	"strings"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// silent looks at what HTTP said without a message.
func (c *Checker) silent(ev *event) {
	c.place(ev)
	if ev.st == nil {
		return
	}
	if ev.by == byClient {
		ev.st.refused = ev.r.Verb == "POST" // with a body that was no message
	}
	c.exchange(ev)
}

// exchange looks at what HTTP said around a message, or without one.
func (c *Checker) exchange(ev *event) {
	if ev.by == byClient {
		c.asked(ev)
		return
	}
	if ev.st.told || ev.r.Status == 0 {
		return
	}
	ev.st.told, ev.st.status = true, ev.r.Status
	kind, _, _ := mime.ParseMediaType(headerOf(ev.r.Header, "Content-Type"))
	ev.st.events, ev.st.plain = kind == "text/event-stream", kind == "application/json"
	c.replied(ev, kind)
	c.sessionReply(ev)
}

// asked looks at the headers of a request.
func (c *Checker) asked(ev *event) {
	h := ev.r.Header
	for name, lines := range h {
		if len(lines) > 1 && strings.HasPrefix(name, "Mcp-") {
			c.find(ev, "header/doubled", "%s is sent %d times", name, len(lines))
		}
	}
	c.accepts(ev)
	if ev.modern {
		c.modernHeaders(ev)
	} else {
		c.legacyHeaders(ev)
	}
}

func (c *Checker) accepts(ev *event) {
	lines, given := ev.r.Header["Accept"]
	if !given {
		return // not recorded, or not sent: not to be told apart
	}
	all := strings.ToLower(strings.Join(lines, ","))
	if strings.Contains(all, "*/*") {
		return
	}
	want := []string{"application/json", "text/event-stream"}
	if ev.r.Verb == "GET" {
		want = want[1:]
	}
	if ev.r.Verb == "DELETE" {
		return
	}
	for _, w := range want {
		if !strings.Contains(all, w) {
			c.find(ev, "header/accept", "Accept lists no %s", w)
		}
	}
}

func (c *Checker) modernHeaders(ev *event) {
	h, m := ev.r.Header, ev.m
	if ev.r.Verb != "" && ev.r.Verb != "POST" {
		c.find(ev, "http/verb", "%s", clip(ev.r.Verb))
		return
	}
	if len(h[translate.HeaderSession]) > 0 {
		c.find(ev, "session/modern", "the request has a session id")
	}
	if m == nil || m.Kind != jsonrpc.Request || ev.r.Verb == "" {
		return
	}
	version := headerOf(h, translate.HeaderVersion)
	body := m.At("params", "_meta", translate.MetaVersion)
	switch {
	case version == "":
		c.find(ev, "header/version-missing", "")
	case body.Exists() && !body.Is(version):
		c.find(ev, "header/version-mismatch", "the header is %q", clip(version))
	}
	if method := headerOf(h, translate.HeaderMethod); method != m.Method {
		c.find(ev, "header/method", "Mcp-Method is %q", clip(method))
	}
	c.nameHeader(ev)
	c.paramHeaders(ev)
}

func (c *Checker) nameHeader(ev *event) {
	if len(ev.r.Redacted) > 0 {
		return
	}
	want, ok := translate.MirroredName(ev.m)
	header, given := ev.r.Header[translate.HeaderName]
	if !ok {
		return
	}
	if !given || len(header) == 0 {
		c.find(ev, "header/name", "Mcp-Name is missing")
		return
	}
	switch got, ok := translate.DecodeHeader(header[0]); {
	case !ok:
		c.find(ev, "header/name", "Mcp-Name is not encoded properly")
	case got != want:
		c.find(ev, "header/name", "Mcp-Name is %q", clip(got))
	}
}

// paramHeaders holds Mcp-Param-* against the marks of the last list.
func (c *Checker) paramHeaders(ev *event) {
	if ev.m.Method != "tools/call" || len(ev.r.Redacted) > 0 {
		return
	}
	if t := c.toolOf(ev, ev.req.name); t != nil && len(t.marks) > 0 {
		if why := translate.CheckParamHeaders(ev.r.Header, ev.m, t.marks); why != "" {
			c.find(ev, "header/param", "%s", why)
		}
	}
}

func (c *Checker) legacyHeaders(ev *event) {
	h, l := ev.r.Header, ev.lane
	version := headerOf(h, translate.HeaderVersion)
	opening := ev.m != nil && ev.m.Method == "initialize"
	if ev.r.Verb == "" || opening || l.shared {
		return
	}
	c.afterEnd(ev)
	switch {
	case l.rev < r20250618 || !l.answered:
	case version == "":
		c.find(ev, "header/version-missing", "")
	case l.version != "" && version != l.version:
		c.find(ev, "header/version-negotiated", "the header is %q, agreed was %s", clip(version), l.version)
	}
}

// afterEnd: requests that were under way when the session ended are nobody's
// fault.
const underWay = time.Second

func (c *Checker) afterEnd(ev *event) {
	l := ev.lane
	if l.endedLine == 0 || ev.r.Verb == "DELETE" || ev.r.Time.Sub(l.endedAt) < underWay {
		return
	}
	c.findSee(ev, l.endedLine, "session/ended", "the session had ended")
}

// replied looks at the status of a reply.
func (c *Checker) replied(ev *event, contentType string) {
	st, status := ev.st, ev.r.Status
	good := status >= 200 && status < 300
	if ev.modern && st.verb != "" && st.verb != "POST" {
		if status != 405 {
			c.find(ev, "http/verb-served", "%s is answered with %d", clip(st.verb), status)
		}
		return
	}
	switch st.verb {
	case "POST":
	case "GET":
		if good && contentType != "" && !st.events {
			c.find(ev, "http/content-type", "GET is answered as %s", clip(contentType))
		}
		return
	default:
		return
	}
	if !ev.modern && good && st.version != "" && !knownVersion(st.version) {
		c.find(ev, "http/bad-version", "revision %q was served", clip(st.version))
	}
	if st.kind != jsonrpc.Request && st.kind != 0 {
		if good && (status != 202 || ev.m != nil && ev.m.ID.IsZero()) {
			c.find(ev, "http/accepted", "answered with %d", status)
		}
		return
	}
	if st.kind == 0 {
		return // a body that could not be read
	}
	if good && contentType != "" && !st.events && !st.plain {
		c.find(ev, "http/content-type", "answered as %s", clip(contentType))
	}
	if ev.m == nil {
		return
	}
	switch ev.m.Kind {
	case jsonrpc.Response:
		if status != 200 {
			c.find(ev, "http/result-status", "a result came with status %d", status)
		}
	case jsonrpc.ErrorResponse:
		c.errorStatus(ev)
	}
}

// errorStatus: where an error has a status of its own. One that comes on an
// event stream came too late for it, and what a legacy server says to a probe
// is not bound by it.
func (c *Checker) errorStatus(ev *event) {
	st, req := ev.st, ev.st.req
	if !ev.modern || st.events || req == nil || req.method == "server/discover" {
		return
	}
	code, _ := ev.m.Error().Get("code").Int()
	want := translate.ErrorStatus(code)
	if code == codeInvalidParams && req.lacking {
		want = 400
	}
	if code == codeMethodNotFound && req.row != nil && (req.method == "tools/call" || req.method == "prompts/get") {
		return // of what it names, which is not the method
	}
	if want != 0 && ev.r.Status != want {
		c.find(ev, "http/error-status", "error %d came with status %d, not %d", code, ev.r.Status, want)
	}
}

func knownVersion(version string) bool {
	_, known := translate.Lookup(version)
	return known
}

// sessionReply: how sessions end, and that they have.
func (c *Checker) sessionReply(ev *event) {
	st, l, status := ev.st, ev.lane, ev.r.Status
	if ev.modern {
		if len(ev.r.Header[translate.HeaderSession]) > 0 {
			c.find(ev, "session/modern", "the answer has a session id")
		}
		return
	}
	if l.shared {
		return
	}
	good := status >= 200 && status < 300
	switch {
	case st.afterEnd && good && st.verb != "DELETE":
		c.findSee(ev, l.endedLine, "session/served", "answered with %d after the session's end", status)
	case l.endedLine > 0:
	case status == 404 && st.kind != 0, st.verb == "DELETE" && good:
		if status == 404 && ev.m != nil && ev.m.Kind == jsonrpc.Response {
			return
		}
		l.endedLine, l.endedAt = ev.r.Line, ev.r.Time
	}
}
