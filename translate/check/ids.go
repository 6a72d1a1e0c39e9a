package check

import (
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// request looks at a request of either side and remembers it.
func (c *Checker) request(ev *event) {
	m, l := ev.m, ev.lane
	req := &request{
		line: ev.r.Line, method: clip(m.Method), row: ev.row, modern: ev.modern, rev: ev.rev, id: idKey(m.ID),
		stream: hash(ev.r.Stream), level: -1,
	}
	if fact := translate.Facts(m, m.Method); fact.Name != "" {
		req.name = clip(fact.Name)
	}
	ev.req = req
	if id := envelopeNumber(m.ID); id {
		c.find(ev, "id/type", "the id is a number that is no integer")
	}
	if !l.shared {
		key := requestKey{l.n, ev.r.Dir, req.id}
		if before, ok := c.requests.Get(key); ok && (!ev.modern || before.answered == 0) && !(ev.st != nil && ev.st.resumes && before.method == req.method) {
			c.findSee(ev, before.line, "id/reused", "id %s was used before", clip(m.ID.String()))
		}
		c.requests.Add(key, req)
	}
	if ev.st != nil && ev.by == byClient {
		ev.st.req = req
	}
	c.token(ev)
	if ev.by == byClient {
		c.clientRequest(ev)
	} else {
		c.serverRequest(ev)
	}
}

// envelopeNumber: 1.0 is an integer, 1.5 is none.
func envelopeNumber(id jsonrpc.ID) bool {
	raw := id.Raw()
	if len(raw) == 0 || raw[0] == '"' {
		return false
	}
	v, err := jsonrpc.ParseValue(raw)
	return err == nil && !integral(v)
}

func (c *Checker) clientRequest(ev *event) {
	if ev.modern {
		c.modernRequest(ev)
	} else {
		c.legacyRequest(ev)
	}
	c.taskRequest(ev)
}

// find the request that a response answers: on HTTP the one of its stream, else
// by its id.
func (c *Checker) answers(ev *event) *request {
	m, l := ev.m, ev.lane
	dir := translate.ToServer
	if ev.r.Dir == translate.ToServer {
		dir = translate.ToClient
	}
	id := idKey(m.ID)
	if ev.st != nil && ev.by == byServer && ev.st.req != nil {
		if m.ID.IsZero() || ev.st.req.id == id {
			return ev.st.req
		}
		if ev.modern {
			c.find(ev, "http/wrong-stream", "the response has the id %s", clip(m.ID.String()))
			return nil
		}
	}
	if l.shared {
		return nil
	}
	req, _ := c.requests.Get(requestKey{l.n, dir, id})
	return req
}

// response looks at a result or an error.
func (c *Checker) response(ev *event) {
	m := ev.m
	if ev.modern && ev.by == byClient {
		c.find(ev, "method/client-response", "")
		return
	}
	req := c.answers(ev)
	ev.req = req
	switch {
	case ev.st != nil && ev.by == byServer && ev.st.req == nil && ev.st.kind == jsonrpc.Notification && !m.ID.IsZero():
		c.find(ev, "id/notification-answered", "")
		return
	case ev.st != nil && ev.st.verb == "GET" && ev.by == byServer && !ev.st.resumes && !m.ID.IsZero() && m.Kind == jsonrpc.Response:
		c.find(ev, "http/response-on-get", "")
	case m.ID.IsZero():
		c.withoutID(ev)
	case req == nil && !ev.lane.shared:
		c.find(ev, "id/unknown-response", "nothing was asked with the id %s", clip(m.ID.String()))
	case req == nil:
		return
	case req.answered > 0:
		c.answeredTwice(ev)
	}
	if req == nil {
		return
	}
	if req.rev != 0 {
		ev.rev, ev.modern = req.rev, req.modern
		ev.row = req.row
	}
	if m.Kind == jsonrpc.ErrorResponse {
		c.errorRules(ev)
	} else {
		c.result(ev)
	}
	c.taskResponse(ev)
	if req.answered == 0 {
		req.answered = ev.r.Line
		if req.level >= 0 {
			ev.lane.logAsked--
		}
	}
}

// A stream that is resumed tells again what it told before (2025-11-25
// basic/transports, Resumability and Redelivery).
func (c *Checker) answeredTwice(ev *event) {
	if ev.st != nil && ev.st.resumes {
		return
	}
	c.findSee(ev, ev.req.answered, "id/answered-twice", "id %s was answered before", clip(ev.m.ID.String()))
}

func (c *Checker) withoutID(ev *event) {
	st := ev.st
	if st == nil || st.req == nil || st.refused || ev.m.Kind != jsonrpc.ErrorResponse {
		return
	}
	// What HTTP itself refuses has no request to answer (403, 404 of a session).
	if st.status >= 400 || ev.r.Status >= 400 {
		return
	}
	c.find(ev, "id/null-response", "")
}

// result holds a result against its method's definition.
func (c *Checker) result(ev *event) {
	req := ev.req
	name := ""
	if ev.row != nil {
		name = ev.row.Result
	}
	if req.method == "tasks/result" && !ev.modern && ev.by == byServer {
		name = "CallToolResult" // of the one request a server takes as a task
	}
	if name != "" {
		c.members(ev, "result", ev.m.Result(), shapeOf(name, ev.rev))
	}
	if ev.by == byServer {
		if ev.modern {
			c.modernResult(ev)
		} else {
			c.legacyResult(ev)
		}
	}
	c.relatedResult(ev)
}
