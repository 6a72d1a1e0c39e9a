package peers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"sync"
)

// LegacyServer is a 2025-11-25 Streamable HTTP server with sessions and tasks.
// It answers tools/call and tasks/result with event streams, other requests
// with JSON.
type LegacyServer struct {
	*core

	smu      sync.Mutex // protects sessions and readmes
	sessions map[string]*legacySession
}

var _ http.Handler = (*LegacyServer)(nil)

// NewLegacyServer returns a running server; Close ends it.
func NewLegacyServer(o ServerOptions) *LegacyServer {
	s := &LegacyServer{core: newCore("legacy server", o), sessions: map[string]*legacySession{}}
	if s.o.JSONResponses {
		s.o.NeedGET = true // there is no other stream
	}
	s.tasks.onChange = s.taskChanged
	return s
}

// legacySession is one initialize handshake and what belongs to it.
type legacySession struct {
	id     string
	elicit bool // the client answers form elicitation
	ctx    context.Context
	end    context.CancelFunc

	mu         sync.Mutex // protects everything below
	get        *outbox    // the open GET stream, nil when there is none
	waiting    []json.RawMessage
	calls      map[string]context.CancelFunc // in flight, by raw id
	pending    map[int]func(json.RawMessage, *RPCError)
	lastID     int
	subscribed map[string]bool
}

// ServeHTTP implements http.Handler.
func (s *LegacyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, func(out *reply) {
		switch r.Method {
		case http.MethodPost:
			s.post(out, r)
		case http.MethodGet:
			s.trace(false, r.Method, 0, r.Header, nil)
			s.openGET(out, r)
		case http.MethodDelete:
			s.trace(false, r.Method, 0, r.Header, nil)
			if sess := s.session(out, r); sess != nil {
				s.endSession(sess)
				out.finish(http.StatusOK, nil)
			}
		default:
			w.Header().Set("Allow", "GET, POST, DELETE")
			out.finish(http.StatusMethodNotAllowed, nil)
		}
	})
}

func (s *LegacyServer) post(out *reply, r *http.Request) {
	m, ok := s.readMessage(out, r)
	if !ok {
		return
	}
	if m.Method == "initialize" && m.isRequest() {
		s.initialize(out, m)
		return
	}
	sess := s.session(out, r)
	if sess == nil {
		return
	}
	switch {
	case m.isResponse():
		sess.answered(m)
		out.finish(http.StatusAccepted, nil)
	case m.isNotification():
		if m.Method == "notifications/cancelled" {
			sess.cancelCall(m.Params)
		}
		out.finish(http.StatusAccepted, nil)
	default:
		s.request(out, sess, m)
	}
}

// session finds the request's session, or answers as the transport demands:
// 400 without the header, 404 for an unknown one (2025-11-25 transports,
// "Session Management"), 400 for a version that was not negotiated. The
// messages are those of widely used servers.
func (s *LegacyServer) session(out *reply, r *http.Request) *legacySession {
	fail := func(status, code int, text string) *legacySession {
		out.finish(status, errorMessage(nil, rpcErrorf(code, "%s", text)))
		return nil
	}
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" {
		return fail(http.StatusBadRequest, -32000, "Bad Request: Server not initialized")
	}
	s.smu.Lock()
	sess := s.sessions[id]
	s.smu.Unlock()
	if sess == nil {
		return fail(http.StatusNotFound, -32001, "Session not found")
	}
	if v := r.Header.Get("MCP-Protocol-Version"); v != "" && v != LegacyVersion {
		return fail(http.StatusBadRequest, -32000, "Bad Request: Unsupported protocol version")
	}
	return sess
}

func (s *LegacyServer) initialize(out *reply, m *message) {
	var p struct {
		ProtocolVersion string
		Capabilities    map[string]json.RawMessage
	}
	if json.Unmarshal(m.Params, &p) != nil || p.ProtocolVersion == "" {
		out.finish(http.StatusOK, errorMessage(m.ID, rpcErrorf(CodeInvalidParams, "initialize needs a protocolVersion")))
		return
	}
	sess := &legacySession{id: rand.Text(), elicit: elicitsForms(p.Capabilities["elicitation"]),
		calls: map[string]context.CancelFunc{}, pending: map[int]func(json.RawMessage, *RPCError){},
		subscribed: map[string]bool{}}
	sess.ctx, sess.end = context.WithCancel(s.ctx)
	s.smu.Lock()
	s.sessions[sess.id] = sess
	s.smu.Unlock()
	caps := []any{
		"tools", map[string]bool{"listChanged": true},
		"resources", map[string]bool{"subscribe": true},
		"prompts", struct{}{},
		"logging", struct{}{}, // a level may be set; nothing is ever logged
	}
	if !s.o.NoTasks {
		caps = append(caps, "tasks", json.RawMessage(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`))
	}
	out.w.Header().Set("Mcp-Session-Id", sess.id)
	out.finish(http.StatusOK, resultMessage(m.ID, object(
		// The only version it knows, whatever was asked for (2025-11-25
		// lifecycle, "Version Negotiation").
		"protocolVersion", LegacyVersion,
		"capabilities", object(caps...),
		"serverInfo", map[string]string{"name": "taskbridge-legacy-peer", "version": "1.0.0"},
		"instructions", readmeText,
	)))
}

// elicitsForms reads an elicitation capability: an empty object means forms
// (2025-11-25 elicitation, "Capabilities").
func elicitsForms(capability json.RawMessage) bool {
	var modes map[string]json.RawMessage
	if !isObject(capability) || json.Unmarshal(capability, &modes) != nil {
		return false
	}
	return modes["form"] != nil || modes["url"] == nil
}

func (s *LegacyServer) endSession(sess *legacySession) {
	s.smu.Lock()
	delete(s.sessions, sess.id)
	s.smu.Unlock()
	sess.end()
	if s.o.TasksPerSession {
		s.tasks.removeAll(func(t *task) bool { return t.session == sess.id })
	}
}

// Sessions returns how many sessions are open.
func (s *LegacyServer) Sessions() int {
	s.smu.Lock()
	defer s.smu.Unlock()
	return len(s.sessions)
}

// EndSessions forgets all sessions as a restart would: their streams end and
// later requests get 404.
func (s *LegacyServer) EndSessions() {
	for _, sess := range s.allSessions() {
		s.endSession(sess)
	}
}

func (s *LegacyServer) allSessions() []*legacySession {
	s.smu.Lock()
	defer s.smu.Unlock()
	var all []*legacySession
	for _, sess := range s.sessions {
		all = append(all, sess)
	}
	return all
}

// ToolsChanged sends notifications/tools/list_changed to every session with an
// open GET stream.
func (s *LegacyServer) ToolsChanged() {
	for _, sess := range s.allSessions() {
		sess.notify(requestMessage(nil, "notifications/tools/list_changed", nil))
	}
}

// ResourceUpdated sends notifications/resources/updated to the sessions that
// subscribed to uri.
func (s *LegacyServer) ResourceUpdated(uri string) {
	for _, sess := range s.allSessions() {
		sess.mu.Lock()
		wants := sess.subscribed[uri]
		sess.mu.Unlock()
		if wants {
			sess.notify(requestMessage(nil, "notifications/resources/updated", object("uri", uri)))
		}
	}
}

// openGET serves the standalone stream. A session has one: a second would
// leave open which gets a message, and none may go out on both (2025-11-25
// transports, "Multiple Connections").
func (s *LegacyServer) openGET(out *reply, r *http.Request) {
	sess := s.session(out, r)
	if sess == nil {
		return
	}
	box := newOutbox()
	sess.mu.Lock()
	if sess.get != nil {
		sess.mu.Unlock()
		out.finish(http.StatusConflict, errorMessage(nil, rpcErrorf(-32000, "Conflict: Only one SSE stream is allowed per session")))
		return
	}
	sess.get = box
	for _, msg := range sess.waiting {
		box.push(msg)
	}
	sess.waiting = nil
	sess.mu.Unlock()
	defer func() {
		sess.mu.Lock()
		sess.get = nil
		sess.mu.Unlock()
	}()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(sess.ctx, cancel)()
	out.begin()
	for {
		for _, msg := range box.take() {
			if out.send(msg) != nil {
				return
			}
		}
		if !s.idle(ctx, out, box.wake, nil) {
			return
		}
	}
}

// notify sends on the GET stream, or nowhere when none is open.
func (sess *legacySession) notify(msg json.RawMessage) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if sess.get != nil {
		sess.get.push(msg)
	}
}

// require sends on the GET stream now, or when one opens.
func (sess *legacySession) require(msg json.RawMessage) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if sess.get != nil {
		sess.get.push(msg)
		return
	}
	sess.waiting = append(sess.waiting, msg)
}

// expect reserves an id for a request to the client; done gets its answer.
func (sess *legacySession) expect(done func(json.RawMessage, *RPCError)) int {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.lastID++
	sess.pending[sess.lastID] = done
	return sess.lastID
}

// forget gives up a request; false if it has been answered.
func (sess *legacySession) forget(id int) bool {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	_, ok := sess.pending[id]
	delete(sess.pending, id)
	return ok
}

func (sess *legacySession) answered(m *message) {
	var id int
	if json.Unmarshal(m.ID, &id) != nil {
		return
	}
	sess.mu.Lock()
	done := sess.pending[id]
	delete(sess.pending, id)
	sess.mu.Unlock()
	if done == nil {
		return
	}
	if m.Error == nil {
		done(m.Result, nil)
		return
	}
	rerr := &RPCError{Code: CodeInternal}
	_ = json.Unmarshal(m.Error, rerr)
	done(nil, rerr)
}

func (sess *legacySession) cancelCall(params json.RawMessage) {
	var p struct{ RequestID json.RawMessage }
	if json.Unmarshal(params, &p) != nil {
		return
	}
	sess.mu.Lock()
	cancel := sess.calls[string(p.RequestID)]
	sess.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
