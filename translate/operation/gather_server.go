package operation

import (
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
)

// status takes what HTTP answered without a message.
func (g *Gatherer) status(ln *lane, r *capture.Record) {
	at, ok := g.streams[r.Stream]
	if !ok {
		g.stray(ln, r, nil)
		return
	}
	j, asked := at.job, &at.job.op.Parts[at.part]
	request := asked.Msg != nil && asked.Msg.Kind == jsonrpc.Request
	refused := r.Status >= 400
	if request && !refused {
		g.add(j, r, nil, RoleOther, -1) // headers, or the end of an exchange that had messages
		return
	}
	if request {
		p := g.pending[exchangeKey(asked.Record, asked.Msg.ID)]
		if p == nil || p.job != j || p.part != at.part {
			g.add(j, r, nil, RoleOther, -1)
			return
		}
		g.settled(p)
	}
	g.add(j, r, nil, RoleReply, at.part)
	switch {
	case refused && asked.Role == RoleRequest && j.op.TaskID == "":
		j.op.Outcome, j.op.Status = Refused, r.Status
		g.end(j, r)
	case j.op.Kind == Close || j.op.Kind == Listen && r.Status >= 300:
		j.given = true
		g.end(j, r)
	case j.op.Kind == Listen:
		j.given = true
	}
}

// settled forgets a request that was answered.
func (g *Gatherer) settled(p *pend) {
	for _, key := range p.keys {
		if g.pending[key] == p {
			delete(g.pending, key)
		}
	}
	delete(p.lane.waiting, p)
}

// reply takes a server's response.
func (g *Gatherer) reply(ln *lane, r *capture.Record, m *jsonrpc.Message) {
	p := g.pending[exchangeKey(r, m.ID)]
	if p == nil && !m.ID.IsZero() {
		p = g.pending[laneKey(ln, m.ID)]
	}
	if p == nil && m.ID.IsZero() {
		p = g.nameless(ln, r)
	}
	if p == nil {
		g.stray(ln, r, m)
		return
	}
	g.settled(p)
	j := p.job
	g.add(j, r, m, RoleReply, p.part)
	g.named(j, r)
	switch {
	case p.role == RoleRequest && translate.TaskMethod(p.method):
		g.orphan(p, r, m)
	case p.role == RoleRequest:
		g.answered(j, r, m)
	default:
		g.looked(p, r, m)
	}
}

// nameless finds what an error without an id answers: what its exchange asked,
// else the only request of its connection without an answer.
func (g *Gatherer) nameless(ln *lane, r *capture.Record) *pend {
	if at, ok := g.streams[r.Stream]; ok {
		if msg := at.job.op.Parts[at.part].Msg; msg != nil && msg.Kind == jsonrpc.Request {
			return g.pending[exchangeKey(at.job.op.Parts[at.part].Record, msg.ID)]
		}
	}
	if r.Conn != "" && len(ln.waiting) == 1 {
		for p := range ln.waiting {
			return p
		}
	}
	return nil
}

// named learns the session from the first answer that tells it.
func (g *Gatherer) named(j *job, r *capture.Record) {
	if j.op.Method != "initialize" || j.op.Session != "" {
		return
	}
	key := "principal " + j.op.Principal // a server without sessions
	session := r.Session
	if session == "" {
		session = r.Header.Get(translate.HeaderSession)
	}
	switch {
	case session != "":
		j.op.Session = session
		key = "session " + session
	case j.op.Conn != "":
		return
	}
	g.lanes[key] = j.lane
}

// answered takes the answer to a request that began an operation, or a round or
// page of it.
func (g *Gatherer) answered(j *job, r *capture.Record, m *jsonrpc.Message) {
	if j.op.Outcome == Refused {
		return
	}
	j.given = true
	if m.Kind == jsonrpc.ErrorResponse {
		j.op.Result, j.op.Error, j.pages = nil, m.Error().Raw(), nil
		g.end(j, r)
		return
	}
	result := m.Result()
	kind, _ := result.Get("resultType").Str()
	task := translate.TaskOf(result)
	switch {
	case j.op.Kind == List:
		g.page(j, r, result)
		return
	case j.op.Kind == Call && translate.CanRequireInput(j.op.Method) && kind == "input_required":
		j.given = false
		j.questions(r, result.Get("inputRequests"), false)
		if state, ok := result.Get("requestState").Str(); ok {
			g.states[stateKey(j.op.Parts[0].Record, state)] = j
		}
		return
	case j.op.Method == "tools/call" && task.Exists():
		g.became(j, r, task)
		return
	case j.op.Kind == Open:
		g.openedBy(j, result)
	}
	j.op.Result = result.Raw()
	g.end(j, r)
}

// openedBy reads the server's side of a handshake.
func (g *Gatherer) openedBy(j *job, result jsonrpc.Value) {
	if j.op.Method != "initialize" {
		return
	}
	if v, ok := result.Get("protocolVersion").Str(); ok {
		j.op.Version = v
	}
	j.lane.version, j.lane.client, j.lane.opened = j.op.Version, j.op.Client, j
}

// page takes one answer of a listing. It may be the last: whether the client
// goes on is its own affair.
func (g *Gatherer) page(j *job, r *capture.Record, result jsonrpc.Value) {
	j.pages = append(j.pages, result)
	if cursor, ok := result.Get("nextCursor").Str(); ok {
		key := j.op.Method + " " + cursor
		j.lane.cursors[key] = append(j.lane.cursors[key], j)
	}
	g.end(j, r)
}

// ask takes a server's own request.
func (g *Gatherer) ask(ln *lane, r *capture.Record, m *jsonrpc.Message) {
	j := g.about(ln, r, m)
	q := &question{place{j, 0}, -1}
	if m.Method == "ping" {
		q.part = g.add(j, r, m, RoleOther, -1)
	} else {
		q.part, q.index = g.add(j, r, m, RoleAsk, -1), len(j.op.Questions)
		j.op.Questions = append(j.op.Questions, Question{Key: m.ID.String(), Method: m.Method, Params: m.Params().Raw(), Asked: r.Time})
	}
	ln.asks[m.ID.Key()] = q
}

// about finds the operation a server's request belongs to: its related-task;
// else the request whose stream brought it; else the latest call in flight in
// that session; else the session's only live task; else the stream itself.
func (g *Gatherer) about(ln *lane, r *capture.Record, m *jsonrpc.Message) *job {
	if id := translate.RelatedTask(m.Params()); id != "" {
		if j := g.task(ln, r, id); j != nil {
			return j
		}
	}
	at, onStream := g.streams[r.Stream]
	if onStream && at.job.op.Kind != Listen {
		return at.job
	}
	if m.Method != "ping" {
		if j := ln.inFlight(); j != nil {
			return j
		}
		if len(ln.live) == 1 {
			for j := range ln.live {
				return j
			}
		}
	}
	if onStream {
		return at.job
	}
	j := g.begin(ln, r, m, Notice, m.Method, "")
	j.given = true
	g.end(j, r)
	return j
}

// notice takes a server's notification.
func (g *Gatherer) notice(ln *lane, r *capture.Record, m *jsonrpc.Message) {
	params := m.Params()
	role := RoleOther
	var j *job
	switch m.Method {
	case "notifications/progress":
		role, j = RoleProgress, g.byToken(ln, r, params.Get("progressToken"))
	case "notifications/message":
		role = RoleLog
	case "notifications/elicitation/complete":
		role = RoleStatus
	case "notifications/tasks", "notifications/tasks/status":
		role = RoleStatus
		if id, ok := params.Get("taskId").Str(); ok {
			j = g.task(ln, r, id)
		}
		if j != nil {
			g.add(j, r, m, role, -1)
			g.seen(j, r, params)
			return
		}
	case "notifications/cancelled":
		if g.withdrawn(ln, r, m) {
			return
		}
	}
	if id := translate.RelatedTask(params); j == nil && id != "" {
		j = g.task(ln, r, id)
	}
	if at, ok := g.streams[r.Stream]; j == nil && ok {
		j = at.job
	}
	if id, ok := keyOf(params.Get("_meta").Get(translate.MetaSubscription)); j == nil && ok {
		j = ln.listens[id]
	}
	if j == nil && role != RoleOther && ln.flying == 1 {
		j = ln.inFlight() // of several nobody can say which
	}
	if j == nil {
		g.stray(ln, r, m)
		return
	}
	g.add(j, r, m, role, -1)
}

// byToken finds what a progress notification is about: the stream's own
// operation if the token is its, for clients that use a token twice.
func (g *Gatherer) byToken(ln *lane, r *capture.Record, token jsonrpc.Value) *job {
	key, ok := keyOf(token)
	if !ok {
		return nil
	}
	if at, onStream := g.streams[r.Stream]; onStream {
		if _, own := at.job.tokens[key]; own {
			return at.job
		}
	}
	return ln.tokens[key]
}

// withdrawn takes a server's cancel of its own question, or of a listen.
func (g *Gatherer) withdrawn(ln *lane, r *capture.Record, m *jsonrpc.Message) bool {
	key, ok := keyOf(m.Params().Get("requestId"))
	if !ok {
		return false
	}
	if q := ln.asks[key]; q != nil {
		g.add(q.job, r, m, RoleCancel, q.part)
		if q.index >= 0 {
			q.job.op.Questions[q.index].Withdrawn = true
		}
		return true
	}
	if j := ln.listens[key]; j != nil {
		g.add(j, r, m, RoleCancel, 0)
		return true
	}
	return false
}
