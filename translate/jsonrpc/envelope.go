package jsonrpc

// envelope is what the members of the outermost object are, by node, 0 for none.
type envelope struct {
	version, id, method, params, result, errObj uint32
}

// readEnvelope applies the rules of JSON-RPC 2.0 sections 4 and 5 as narrowed by
// MCP 2026-07-28 basic/index, Messages: ids are strings or numbers and never
// null, params is an object. Members the specification does not name pass.
func (m *Message) readEnvelope() *DecodeError {
	if Type(m.doc.nodes[0].flags&flagType) != Object {
		return m.invalid(0, "message is not an object")
	}
	var env envelope
	for i, end := uint32(1), m.doc.nodes[0].next; i < end; i = m.doc.nodes[i].next {
		if at := env.slot(&m.doc, i); at != nil {
			*at = i
		}
	}
	if !m.envelopeMember(env.version).Is("2.0") {
		return m.invalid(env.version, `jsonrpc is not "2.0"`)
	}
	m.params, m.result, m.errObj = env.params, env.result, env.errObj
	if env.method != 0 {
		return m.readCall(env)
	}
	return m.readAnswer(env)
}

func (e *envelope) slot(d *doc, i uint32) *uint32 {
	switch {
	case d.keyIs(i, "jsonrpc"):
		return &e.version
	case d.keyIs(i, "id"):
		return &e.id
	case d.keyIs(i, "method"):
		return &e.method
	case d.keyIs(i, "params"):
		return &e.params
	case d.keyIs(i, "result"):
		return &e.result
	case d.keyIs(i, "error"):
		return &e.errObj
	}
	return nil
}

func (m *Message) invalid(i uint32, msg string) *DecodeError {
	return &DecodeError{Code: CodeInvalidRequest, Msg: msg, Offset: int(m.doc.nodes[i].start)}
}

// readCall reads a request or a notification.
func (m *Message) readCall(env envelope) *DecodeError {
	if env.result != 0 || env.errObj != 0 {
		return m.invalid(env.method, "message is both a call and a response")
	}
	method, ok := m.envelopeMember(env.method).Str()
	if !ok || method == "" {
		return m.invalid(env.method, "method is not a non-empty string")
	}
	if env.params != 0 && m.Params().Type() != Object {
		return m.invalid(env.params, "params is not an object")
	}
	m.Method, m.Kind = method, Notification
	if env.id != 0 {
		m.Kind = Request
		return m.readID(env.id)
	}
	return nil
}

func (m *Message) readID(i uint32) *DecodeError {
	id, err := IDFromRaw(m.doc.span(i))
	if err != nil {
		return m.invalid(i, "id is neither a string nor a number")
	}
	m.ID = id
	return nil
}

// readAnswer reads a response. An error may lack an id or have null there: that
// is how a peer answers what it could not read (JSON-RPC 2.0 section 5).
func (m *Message) readAnswer(env envelope) *DecodeError {
	switch {
	case env.result == 0 && env.errObj == 0:
		return m.invalid(0, "message has none of method, result and error")
	case env.result != 0 && env.errObj != 0:
		return m.invalid(env.errObj, "response has both result and error")
	case env.result != 0:
		m.Kind = Response
		if m.Result().Type() != Object {
			return m.invalid(env.result, "result is not an object")
		}
		if env.id == 0 {
			return m.invalid(0, "response without id")
		}
		return m.readID(env.id)
	}
	m.Kind = ErrorResponse
	if err := m.checkError(env.errObj); err != nil {
		return err
	}
	if env.id == 0 {
		return nil
	}
	if m.envelopeMember(env.id).Type() == Null {
		m.ID = NullID()
		return nil
	}
	return m.readID(env.id)
}

func (m *Message) checkError(i uint32) *DecodeError {
	e := m.Error()
	if e.Type() != Object {
		return m.invalid(i, "error is not an object")
	}
	if _, ok := e.Get("code").Int(); !ok {
		return m.invalid(i, "error code is not an integer")
	}
	if e.Get("message").Type() != String {
		return m.invalid(i, "error message is not a string")
	}
	return nil
}
