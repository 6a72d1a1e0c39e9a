package peers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"sync"
)

// ModernServer is a 2026-07-28 server with the tasks extension. It answers
// tools/call and subscriptions/listen with event streams, other requests with
// JSON.
type ModernServer struct {
	*core
	key []byte // of requestState

	lmu       sync.Mutex // protects listeners; taken with the store's mutex held
	listeners map[*listener]bool
}

var _ http.Handler = (*ModernServer)(nil)

// NewModernServer returns a running server; Close ends it.
func NewModernServer(o ServerOptions) *ModernServer {
	s := &ModernServer{core: newCore("modern server", o), key: []byte(rand.Text()), listeners: map[*listener]bool{}}
	s.tasks.onChange = func(t *task, _ bool) { s.taskChanged(t) }
	return s
}

// ServeHTTP implements http.Handler.
func (s *ModernServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, func(out *reply) {
		if r.Method != http.MethodPost {
			// Neither GET streams nor sessions exist (2026-07-28 transports,
			// "Earlier Streamable HTTP Revisions").
			s.trace(false, r.Method, 0, r.Header, nil)
			w.Header().Set("Allow", http.MethodPost)
			out.finish(http.StatusMethodNotAllowed, nil)
			return
		}
		m, ok := s.readMessage(out, r)
		if !ok {
			return
		}
		switch {
		case m.isResponse():
			// "The client MUST NOT send JSON-RPC responses."
			out.finish(http.StatusBadRequest, errorMessage(nil, rpcErrorf(CodeInvalidRequest, "responses are not accepted")))
		case m.isNotification():
			out.finish(http.StatusAccepted, nil)
		default:
			s.request(out, r, m)
		}
	})
}

// modernCall is one request being answered.
type modernCall struct {
	s      *ModernServer
	id     json.RawMessage
	params json.RawMessage
	meta   requestMeta
	out    *reply
	ctx    context.Context // ends with the connection: that is the cancellation
}

type requestMeta struct {
	version  string
	elicit   bool
	tasks    bool // the extension is declared
	progress json.RawMessage
}

func (s *ModernServer) request(out *reply, r *http.Request, m *message) {
	meta, rerr := s.check(r.Header, m)
	if rerr != nil {
		out.finish(http.StatusBadRequest, errorMessage(m.ID, rerr))
		return
	}
	run := s.method(m.Method)
	if run == nil {
		// 404 and the error together (2026-07-28 transports, "Protocol Version
		// Header").
		out.finish(http.StatusNotFound, errorMessage(m.ID, rpcErrorf(CodeMethodNotFound, "Method not found")))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	c := &modernCall{s: s, id: m.ID, params: m.Params, meta: meta, out: out, ctx: ctx}
	result, rerr := run(c)
	switch {
	case r.Context().Err() != nil:
		// Nothing may follow a cancellation.
	case rerr != nil && rerr.Code == CodeMissingCapability:
		out.finish(http.StatusBadRequest, errorMessage(m.ID, rerr))
	case rerr != nil:
		out.finish(http.StatusOK, errorMessage(m.ID, rerr))
	case result != nil:
		out.finish(http.StatusOK, resultMessage(m.ID, result))
	}
}

// check does everything that comes before the method itself: version header,
// _meta, agreement of the two, version, then the mirrored headers.
func (s *ModernServer) check(h http.Header, m *message) (requestMeta, *RPCError) {
	var none requestMeta
	meta, rerr := readMeta(m.Params)
	if m.Method == "initialize" && meta.version == "" {
		// Legacy clients have no other way to learn why it fails (2026-07-28
		// versioning, "Backward Compatibility").
		var p struct{ ProtocolVersion string }
		_ = json.Unmarshal(m.Params, &p)
		return none, &RPCError{Code: CodeBadVersion, Message: "Unsupported protocol version: this server speaks only " + ModernVersion,
			Data: object("supported", []string{ModernVersion}, "requested", p.ProtocolVersion)}
	}
	header := h.Get("MCP-Protocol-Version")
	if header == "" {
		return none, rpcErrorf(CodeHeaderMismatch, "Header mismatch: MCP-Protocol-Version header is missing")
	}
	if rerr != nil {
		return none, rerr
	}
	if meta.version != header {
		return none, rpcErrorf(CodeHeaderMismatch, "Header mismatch: MCP-Protocol-Version header value '%s' does not match body value '%s'", header, meta.version)
	}
	if meta.version != ModernVersion {
		return none, &RPCError{Code: CodeBadVersion, Message: "Unsupported protocol version",
			Data: object("supported", []string{ModernVersion}, "requested", meta.version)}
	}
	return meta, checkHeaders(h, m)
}

// readMeta reads the required fields of _meta (2026-07-28 basic/index,
// "Per-request protocol fields").
func readMeta(params json.RawMessage) (requestMeta, *RPCError) {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil || p.Meta == nil {
		return requestMeta{}, rpcErrorf(CodeInvalidParams, "Invalid params: _meta is missing")
	}
	var meta requestMeta
	if json.Unmarshal(p.Meta[KeyProtocolVersion], &meta.version) != nil || meta.version == "" {
		return meta, rpcErrorf(CodeInvalidParams, "Invalid params: _meta lacks %s", KeyProtocolVersion)
	}
	var caps struct {
		Elicitation json.RawMessage
		Extensions  map[string]json.RawMessage
	}
	if !isObject(p.Meta[KeyClientCapabilities]) || json.Unmarshal(p.Meta[KeyClientCapabilities], &caps) != nil {
		return meta, rpcErrorf(CodeInvalidParams, "Invalid params: _meta lacks %s", KeyClientCapabilities)
	}
	meta.elicit = elicitsForms(caps.Elicitation)
	meta.tasks = isObject(caps.Extensions[TasksExtension])
	meta.progress = p.Meta["progressToken"]
	return meta, nil
}

type modernMethod func(*modernCall) (json.RawMessage, *RPCError)

func (s *ModernServer) method(name string) modernMethod {
	switch name {
	case "server/discover":
		return (*modernCall).discover
	case "tools/list":
		return (*modernCall).listTools
	case "tools/call":
		return (*modernCall).callTool
	case "resources/list":
		return func(*modernCall) (json.RawMessage, *RPCError) { return cacheable(resourceList()), nil }
	case "resources/templates/list":
		return func(*modernCall) (json.RawMessage, *RPCError) { return cacheable(templateList()), nil }
	case "resources/read":
		return func(c *modernCall) (json.RawMessage, *RPCError) {
			result, rerr := readResource(c.params, CodeInvalidParams)
			if rerr != nil {
				return nil, rerr
			}
			return cacheable(result), nil
		}
	case "prompts/list":
		return func(*modernCall) (json.RawMessage, *RPCError) { return cacheable(promptList()), nil }
	case "prompts/get":
		return func(c *modernCall) (json.RawMessage, *RPCError) { return completed(getPrompt(c.params)) }
	case "subscriptions/listen":
		return (*modernCall).listen
	}
	if s.o.NoTasks {
		return nil
	}
	switch name {
	case "tasks/get":
		return (*modernCall).getTask
	case "tasks/update":
		return (*modernCall).updateTask
	case "tasks/cancel":
		return (*modernCall).cancelTask
	}
	return nil
}

func serverInfoMeta() json.RawMessage {
	return object(KeyServerInfo, map[string]string{"name": "taskbridge-modern-peer", "version": "1.0.0"})
}

// complete marks a result as final and says who answered.
func complete(result json.RawMessage) json.RawMessage {
	return with(result, "resultType", "complete", "_meta", serverInfoMeta())
}

func completed(result json.RawMessage, rerr *RPCError) (json.RawMessage, *RPCError) {
	if rerr != nil {
		return nil, rerr
	}
	return complete(result), nil
}

// cacheable adds the hints of 2026-07-28 caching; the lists never change but
// for ToolsChanged, so a client that caches must also listen.
func cacheable(result json.RawMessage) json.RawMessage {
	return with(complete(result), "ttlMs", 0, "cacheScope", "public")
}

func (c *modernCall) discover() (json.RawMessage, *RPCError) {
	caps := []any{
		"tools", map[string]bool{"listChanged": true},
		"resources", map[string]bool{"subscribe": true},
		"prompts", struct{}{},
	}
	if !c.s.o.NoTasks {
		caps = append(caps, "extensions", object(TasksExtension, struct{}{}))
	}
	return cacheable(object(
		"supportedVersions", []string{ModernVersion},
		"capabilities", object(caps...),
		"instructions", readmeText,
	)), nil
}

func (c *modernCall) listTools() (json.RawMessage, *RPCError) {
	page, rerr := c.s.toolPage(c.params, func(t *tool) json.RawMessage {
		return object("name", t.name, "description", t.description, "inputSchema", json.RawMessage(t.schema))
	})
	if rerr != nil {
		return nil, rerr
	}
	return cacheable(page), nil
}

func missingCapability(capabilities json.RawMessage) *RPCError {
	return &RPCError{Code: CodeMissingCapability, Message: "Missing required client capability",
		Data: object("requiredCapabilities", capabilities)}
}

func missingTasks() *RPCError {
	return missingCapability(object("extensions", object(TasksExtension, struct{}{})))
}
