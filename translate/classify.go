package translate

import (
	"net/http"
	"slices"
	"strings"

	"taskbridge/translate/jsonrpc"
)

// Classified is what a message on an HTTP request says about its sender.
type Classified struct {
	Era Era
	// Version is the modern revision, checked, or the legacy header's value,
	// which may be empty: the session's own counts then. Refused for its
	// version, a modern request has the one it asked for.
	Version string
	// Detail and Data say why a message was refused; Data is error.data.
	Detail string
	Data   []byte
}

func (c Classified) refuse(cond Cond, detail string) (Classified, Cond) {
	c.Detail = detail
	return c, cond
}

// Classify decides the era of one message and checks what its headers say
// against its body. The era is a property of the request, never of the
// connection or the session (2026-07-28 basic/versioning: a request with
// modern _meta is served statelessly): modern when params._meta has a
// protocol version, whatever it is, or when the version header names a
// revision of the modern era; else legacy. CondNone means the message may be
// handed on.
func Classify(h http.Header, msg *jsonrpc.Message) (Classified, Cond) {
	meta := msg.Params().Get("_meta")
	if ModernHeader(h) || meta.Get(MetaVersion).Exists() {
		c := Classified{Era: Modern}
		switch msg.Kind {
		case jsonrpc.Request:
			return c.request(h, msg, meta)
		case jsonrpc.Notification:
			return c.notification(h, msg, meta)
		}
		// streamable-http, Sending Messages: the client MUST NOT send responses.
		return c.refuse(CondInvalidRequest, "responses are not part of this protocol version: answer with inputResponses")
	}
	return classifyLegacy(h)
}

// ModernHeader: the version header, in any of its lines, names a modern
// revision. It decides alone where a request has no message (GET, DELETE).
func ModernHeader(h http.Header) bool {
	return slices.ContainsFunc(h[HeaderVersion], LooksModern)
}

// classifyLegacy checks the version header (2025-11-25 basic/transports,
// Protocol Version Header: invalid or unsupported is 400; absent is fine,
// revisions before 2025-06-18 do not know it).
func classifyLegacy(h http.Header) (Classified, Cond) {
	c := Classified{Era: Legacy}
	if name := doubled(h); name != "" {
		return c.refuse(CondBadHeader, name+" is sent twice")
	}
	version, given := only(h, HeaderVersion)
	if !given || version == "" {
		return c, CondNone
	}
	f, known := Lookup(version)
	if !known || f.Era != Legacy {
		c.Data = VersionData(version, nil)
		return c.refuse(CondUnsupportedVersion, "unsupported MCP-Protocol-Version")
	}
	c.Version = f.Version
	return c, CondNone
}

// ClassifyVerb is Classify for a request without a message.
func ClassifyVerb(h http.Header) (Classified, Cond) {
	if ModernHeader(h) {
		return Classified{Era: Modern}, CondVerb
	}
	return classifyLegacy(h)
}

// request checks a modern request: first which revision it speaks, because
// the rest depends on it, then the required _meta, then the mirrors, last
// what the caller has to declare.
func (c Classified) request(h http.Header, msg *jsonrpc.Message, meta jsonrpc.Value) (Classified, Cond) {
	if c, cond := c.version(h, meta, true); cond != CondNone {
		return c, cond
	}
	f, _ := Lookup(h[HeaderVersion][0])
	c.Version = f.Version
	caps := meta.Get(MetaClientCaps)
	if caps.Type() != jsonrpc.Object {
		return c.refuse(CondMissingMeta, "params._meta has no "+MetaClientCaps)
	}
	if name := doubled(h); name != "" {
		return c.refuse(CondHeaderMismatch, name+" is sent twice")
	}
	method, given := only(h, HeaderMethod)
	if !given {
		return c.refuse(CondHeaderMismatch, "Mcp-Method is missing")
	}
	if method != msg.Method {
		return c.refuse(CondHeaderMismatch, "Mcp-Method differs from the body's method")
	}
	if ActionFor(msg.Method, Modern) == Refuse {
		return c.refuse(CondUnknownMethod, "method not found")
	}
	if why := checkName(h, msg); why != "" {
		return c.refuse(CondHeaderMismatch, why)
	}
	if needsTasks(msg) && !declaresTasks(caps) {
		c.Data = []byte(`{"requiredCapabilities":{"extensions":{"` + ExtTasks + `":{}}}}`)
		return c.refuse(CondMissingCapability, "the tasks extension is not declared in "+MetaClientCaps)
	}
	return c, CondNone
}

// notification checks only what is there: the revision defines no header
// requirements for notifications, but a header that contradicts the body
// would let two hops read two messages (streamable-http, Sending Messages,
// Server Validation).
func (c Classified) notification(h http.Header, msg *jsonrpc.Message, meta jsonrpc.Value) (Classified, Cond) {
	if c, cond := c.version(h, meta, false); cond != CondNone {
		return c, cond
	}
	if name := doubled(h); name != "" {
		return c.refuse(CondHeaderMismatch, name+" is sent twice")
	}
	if v, given := only(h, HeaderVersion); given {
		c.Version = v
	} else {
		c.Version, _ = meta.Get(MetaVersion).Str()
	}
	if method, given := only(h, HeaderMethod); given && method != msg.Method {
		return c.refuse(CondHeaderMismatch, "Mcp-Method differs from the body's method")
	}
	if ActionFor(msg.Method, Modern) == Refuse {
		return c.refuse(CondUnknownMethod, "method not found")
	}
	return c, CondNone
}

// version checks header and body version against each other, then against
// what we speak (streamable-http, Protocol Version Header). Requests must
// have both.
func (c Classified) version(h http.Header, meta jsonrpc.Value, must bool) (Classified, Cond) {
	body := meta.Get(MetaVersion)
	if body.Type() != jsonrpc.String && (must || body.Exists()) {
		return c.refuse(CondMissingMeta, "params._meta has no "+MetaVersion)
	}
	lines := h[HeaderVersion]
	if len(lines) > 1 {
		return c.refuse(CondHeaderMismatch, "MCP-Protocol-Version is sent twice")
	}
	if len(lines) == 0 && must {
		return c.refuse(CondHeaderMismatch, "MCP-Protocol-Version is missing")
	}
	var version string
	if len(lines) == 1 {
		version = lines[0]
		if body.Exists() && !equalText(body, version) {
			return c.refuse(CondHeaderMismatch, "MCP-Protocol-Version differs from "+MetaVersion)
		}
	} else {
		version, _ = body.Str()
	}
	if f, known := Lookup(version); !known || f.Era != Modern {
		c.Version, c.Data = version, VersionData(version, nil)
		return c.refuse(CondUnsupportedVersion, "unsupported protocol version")
	}
	return c, CondNone
}

// VersionData is the data of an unsupported version (basic/versioning,
// Protocol Version Negotiation): what the server behind serves, or, where that
// is not known, every revision of this endpoint, the modern ones first. The
// request's own is cut: it may be as long as a body.
func VersionData(requested string, supported []string) []byte {
	if len(supported) == 0 {
		supported = slices.Concat(Versions(Modern), Versions(Legacy))
	}
	const most = 64
	if len(requested) > most {
		requested = strings.ToValidUTF8(requested[:most], "")
	}
	list := []byte{'['}
	for _, v := range supported {
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = jsonrpc.AppendString(list, v)
	}
	return jsonrpc.NewObject().Raw("supported", append(list, ']')).Str("requested", strings.ToValidUTF8(requested, "")).Bytes()
}

// checkName compares Mcp-Name, decoded, with the member it mirrors and says
// what is wrong. A request without that member is not refused here: the
// server has words for it.
func checkName(h http.Header, msg *jsonrpc.Message) string {
	key := NameMember(msg.Method)
	if key == "" {
		return ""
	}
	body := msg.Params().Get(key)
	header, given := only(h, HeaderName)
	switch {
	case !given && body.Type() == jsonrpc.String:
		return "Mcp-Name is missing"
	case !given:
		return ""
	}
	name, ok := DecodeHeader(header)
	if !ok {
		return "Mcp-Name is not encoded properly"
	}
	if !equalText(body, name) {
		return "Mcp-Name differs from params." + key
	}
	return ""
}

// needsTasks: methods of the tasks extension, and a listen that names tasks.
func needsTasks(msg *jsonrpc.Message) bool {
	switch msg.Method {
	case "tasks/get", "tasks/update", "tasks/cancel":
		return true
	case "subscriptions/listen":
		return msg.Params().Get("notifications").Get("taskIds").Exists()
	}
	return false
}

func declaresTasks(caps jsonrpc.Value) bool {
	return caps.Get("extensions").Get(ExtTasks).Type() == jsonrpc.Object
}

// only returns a header's first line.
func only(h http.Header, name string) (value string, given bool) {
	if v := h[name]; len(v) > 0 {
		return v[0], true
	}
	return "", false
}

// doubled names an Mcp header that has two lines: hops differ in which of
// them they read.
func doubled(h http.Header) string {
	for name, lines := range h {
		if len(lines) > 1 && strings.HasPrefix(name, "Mcp-") {
			return name
		}
	}
	return ""
}
