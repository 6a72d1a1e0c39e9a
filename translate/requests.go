package translate

import "taskbridge/translate/jsonrpc"

// ModernRequest is what a request carries toward a modern server that a
// legacy client said once, in initialize or logging/setLevel.
type ModernRequest struct {
	Version    string
	ClientInfo []byte // raw JSON object
	ClientCaps []byte // raw JSON object, see ClientCapsToModern
	LogLevel   string // empty: none
}

func (r ModernRequest) members() []member {
	set := []member{{MetaVersion, jsonrpc.Quote(r.Version)}}
	if len(r.ClientInfo) > 0 {
		set = append(set, member{MetaClientInfo, r.ClientInfo})
	}
	caps := r.ClientCaps
	if len(caps) == 0 {
		caps = []byte("{}")
	}
	set = append(set, member{MetaClientCaps, caps})
	if r.LogLevel != "" {
		set = append(set, member{MetaLogLevel, jsonrpc.Quote(r.LogLevel)})
	}
	return set
}

// RequestToModern turns a legacy client's request into a modern one: _meta is
// written over (2026-07-28 basic/index, Per-request protocol fields), task
// augmentation goes (the server decides, tasks extension, Capability
// Negotiation). The id stays the client's own token.
func RequestToModern(m *jsonrpc.Message, r ModernRequest) []byte {
	e := m.Edit()
	params := m.Params()
	if !params.Exists() {
		b := jsonrpc.NewObject()
		for _, s := range r.members() {
			b.Raw(s.key, s.raw)
		}
		e.Insert(m.Root(), "params", jsonrpc.NewObject().Raw("_meta", b.Bytes()).Bytes())
		return e.Bytes()
	}
	if m.Method == "tools/call" {
		if v := params.Get("task"); v.Exists() {
			e.Delete(v)
		}
	}
	editMeta(e, params, append([]string{MetaRelatedTask}, requestMeta...), r.members()...)
	return e.Bytes()
}

// NewModernRequest builds a request of our own toward a modern server.
// params are further members of params, raw.
func NewModernRequest(id jsonrpc.ID, method string, r ModernRequest, params ...Param) []byte {
	meta := jsonrpc.NewObject()
	for _, s := range r.members() {
		meta.Raw(s.key, s.raw)
	}
	b := jsonrpc.NewObject()
	for _, p := range params {
		b.Raw(p.Key, p.Raw)
	}
	b.Raw("_meta", meta.Bytes())
	return jsonrpc.NewRequest(id, method, b.Bytes())
}

// Param is a member of params with its raw JSON value.
type Param struct {
	Key string
	Raw []byte
}

// LegacyRequest is what changes on a modern request toward a legacy server.
type LegacyRequest struct {
	// Task adds params.task (2025-11-25 tasks, Task Parameters).
	Task bool
	// ID, if set, takes the place of the request's id and progress token: a
	// session several callers share knows each by a number of its own.
	ID []byte
}

// RequestToLegacy turns a modern client's request into a legacy one: the
// per-request fields leave _meta, MRTR members leave params. related-task does
// not exist in the modern era: an id there would be one of our handles.
func RequestToLegacy(m *jsonrpc.Message, r LegacyRequest) []byte {
	e := m.Edit()
	params := m.Params()
	if len(r.ID) > 0 {
		setMember(e, m.Root(), "id", r.ID)
		if token := params.Get("_meta").Get(MetaProgress); token.Exists() {
			e.Replace(token, r.ID)
		}
	}
	if !params.Exists() {
		return e.Bytes()
	}
	editMeta(e, params, append([]string{MetaRelatedTask}, requestMeta...))
	if !CanRequireInput(m.Method) {
		return e.Bytes()
	}
	for _, key := range []string{"inputResponses", "requestState"} {
		if v := params.Get(key); v.Exists() {
			e.Delete(v)
		}
	}
	if m.Method == "tools/call" {
		task := params.Get("task")
		switch {
		case r.Task && task.Exists():
			e.Replace(task, []byte("{}"))
		case r.Task:
			e.Insert(params, "task", []byte("{}"))
		case task.Exists():
			e.Delete(task)
		}
	}
	return e.Bytes()
}
