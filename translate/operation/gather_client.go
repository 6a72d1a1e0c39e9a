package operation

import (
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
)

// request takes a client's request: it goes on with an operation or begins one.
func (g *Gatherer) request(ln *lane, r *capture.Record, m *jsonrpc.Message) {
	facts := translate.Facts(m, m.Method)
	j, role := g.goesOn(ln, r, m, facts)
	if j == nil {
		j, role = g.begin(ln, r, m, kindOf(m.Method), m.Method, nameOf(m, facts)), RoleRequest
		if translate.CanRequireInput(m.Method) {
			ln.calls = append(ln.calls, j)
			j.flying = true
			ln.flying++
		}
		if m.Method == "initialize" {
			j.op.Client = clientOf(m.Params().Get("clientInfo"))
		}
		if m.Method == "subscriptions/listen" {
			ln.listens[m.ID.Key()] = j
		}
	}
	at := place{j, g.add(j, r, m, role, -1)}
	if r.Stream != "" {
		g.streams[r.Stream] = at
	}
	p := &pend{place: at, lane: ln, method: m.Method, role: role, keys: [2]string{exchangeKey(r, m.ID), laneKey(ln, m.ID)}}
	for _, key := range p.keys {
		g.pending[key] = p
	}
	ln.waiting[p] = struct{}{}
	if token, ok := keyOf(facts.Token); ok {
		if j.tokens == nil {
			j.tokens = map[string]struct{}{}
		}
		j.tokens[token] = struct{}{}
		ln.tokens[token] = j
	}
	if role == RoleRequest || role == RoleUpdate {
		j.answers(r, m.Params().Get("inputResponses"))
	}
}

// exchangeKey finds a reply to a request toward the server on the exchange it
// opened, laneKey wherever else it comes: on a connection, or on a stream that
// was resumed.
func exchangeKey(r *capture.Record, id jsonrpc.ID) string {
	if r.Stream == "" {
		return "conn " + r.Conn + " " + id.Key()
	}
	return "stream " + r.Stream + " " + id.Key()
}

func laneKey(ln *lane, id jsonrpc.ID) string { return ln.key + " " + id.Key() }

// keyOf is equal for equal JSON strings and numbers.
func keyOf(v jsonrpc.Value) (string, bool) {
	if !v.Exists() {
		return "", false
	}
	id, err := jsonrpc.IDFromRaw(v.Raw())
	return id.Key(), err == nil
}

// taskRoles are the requests about one task.
var taskRoles = map[string]Role{
	"tasks/get":    RolePoll,
	"tasks/result": RolePoll,
	"tasks/update": RoleUpdate,
	"tasks/cancel": RoleCancel,
}

// goesOn finds the operation a request is a further step of.
func (g *Gatherer) goesOn(ln *lane, r *capture.Record, m *jsonrpc.Message, facts translate.Fact) (*job, Role) {
	if role, ok := taskRoles[m.Method]; ok {
		id, _ := m.Params().Get("taskId").Str()
		if j := g.task(ln, r, id); j != nil {
			return j, role
		}
		return nil, RoleRequest
	}
	if cursor, ok := facts.Cursor.Str(); ok && isList(m.Method) {
		key := m.Method + " " + cursor
		if waiting := ln.cursors[key]; len(waiting) > 0 {
			ln.cursors[key] = waiting[1:]
			return waiting[0], RoleRequest
		}
	}
	if translate.CanRequireInput(m.Method) {
		return g.round(ln, r, m, facts), RoleRequest
	}
	return nil, RoleRequest
}

// task finds the task a client speaks of: in its own session first, for ids
// that count from 1 in each.
func (g *Gatherer) task(ln *lane, r *capture.Record, id string) *job {
	if id == "" {
		return nil
	}
	if j := g.tasks[ln.key+"\n"+id]; j != nil {
		return j
	}
	return g.tasks["principal "+r.Principal+"\n"+id]
}

// round finds the call that a request with requestState or inputResponses goes
// on with (2026-07-28 basic/patterns/mrtr). Without a state it is the latest
// call of that name that asked for input.
func (g *Gatherer) round(ln *lane, r *capture.Record, m *jsonrpc.Message, facts translate.Fact) *job {
	if state, ok := facts.State.Str(); ok {
		if j := g.states[stateKey(r, state)]; j != nil && !j.ended && j.op.Method == m.Method {
			return j
		}
		return nil
	}
	if !m.Params().Get("inputResponses").Exists() {
		return nil
	}
	name := nameOf(m, facts)
	for i, tries := len(ln.calls)-1, 0; i >= 0 && tries < maxFrontier; i, tries = i-1, tries+1 {
		if j := ln.calls[i]; !j.ended && len(j.open) > 0 && j.op.Method == m.Method && j.op.Name == name {
			return j
		}
	}
	return nil
}

func stateKey(r *capture.Record, state string) string { return r.Principal + "\n" + state }

// kindOf says what a request that begins an operation is.
func kindOf(method string) Kind {
	switch {
	case method == "initialize" || method == "server/discover":
		return Open
	case method == "subscriptions/listen":
		return Listen
	case isList(method):
		return List
	}
	return Call
}

// listMembers: the listings and the member that holds their items.
var listMembers = map[string]string{
	"tools/list":               "tools",
	"prompts/list":             "prompts",
	"resources/list":           "resources",
	"resources/templates/list": "resourceTemplates",
	"tasks/list":               "tasks",
}

func isList(method string) bool { return listMembers[method] != "" }

// nameOf is what a request asks for.
func nameOf(m *jsonrpc.Message, facts translate.Fact) string {
	if facts.Name != "" {
		return facts.Name
	}
	params := m.Params()
	switch m.Method {
	case "resources/subscribe", "resources/unsubscribe":
		uri, _ := params.Get("uri").Str()
		return uri
	case "completion/complete":
		ref := params.Get("ref")
		for _, key := range []string{"name", "uri"} {
			if s, ok := ref.Get(key).Str(); ok {
				return s
			}
		}
	case "tasks/result":
		id, _ := params.Get("taskId").Str()
		return id
	}
	return ""
}

// answers notes what an entry of inputResponses answers.
func (j *job) answers(r *capture.Record, responses jsonrpc.Value) {
	for key, v := range responses.Members() {
		i, ok := j.open[key]
		if !ok {
			continue
		}
		delete(j.open, key)
		q := &j.op.Questions[i]
		q.Answer, q.Answered = v.Raw(), r.Time
	}
}

// said takes a client's notification.
func (g *Gatherer) said(ln *lane, r *capture.Record, m *jsonrpc.Message) {
	at := place{}
	switch m.Method {
	case "notifications/initialized":
		if j := g.opening(ln); j != nil {
			at = place{j, g.add(j, r, m, RoleOther, -1)}
		}
	case "notifications/cancelled":
		at = g.cancelled(ln, r, m)
	case "notifications/progress": // about the server's own request
		if j := g.asking(ln); j != nil {
			at = place{j, g.add(j, r, m, RoleProgress, -1)}
		}
	}
	if at.job == nil {
		j := g.begin(ln, r, m, Notice, m.Method, "")
		at = place{j, g.add(j, r, m, RoleRequest, -1)}
		j.given = true
		g.end(j, r)
	}
	if r.Stream != "" {
		g.streams[r.Stream] = at
	}
}

// opening is the session's initialize.
func (g *Gatherer) opening(ln *lane) *job {
	if ln.opened != nil && ln.opened.op.Method == "initialize" {
		return ln.opened
	}
	return nil
}

// asking is the operation of the only question a client could report on.
func (g *Gatherer) asking(ln *lane) *job {
	if len(ln.asks) != 1 {
		return nil
	}
	for _, q := range ln.asks {
		return q.job
	}
	return nil
}

// cancelled takes a client's cancel of one of its requests.
func (g *Gatherer) cancelled(ln *lane, r *capture.Record, m *jsonrpc.Message) place {
	key, ok := keyOf(m.Params().Get("requestId"))
	if !ok {
		return place{}
	}
	p := g.pending[ln.key+" "+key]
	if p == nil {
		p = g.pending["conn "+r.Conn+" "+key]
	}
	if p == nil {
		return place{}
	}
	at := place{p.job, g.add(p.job, r, m, RoleCancel, p.part)}
	if p.role == RoleRequest && p.job.op.TaskID == "" {
		p.job.cancel = true
		g.end(p.job, r)
	}
	return at
}

// answer takes a client's response to a request of the server's.
func (g *Gatherer) answer(ln *lane, r *capture.Record, m *jsonrpc.Message) {
	q := ln.asks[m.ID.Key()]
	if q == nil {
		g.stray(ln, r, m)
		return
	}
	delete(ln.asks, m.ID.Key())
	role := RoleOther
	if q.index >= 0 {
		role = RoleAnswer
		asked := &q.job.op.Questions[q.index]
		asked.Answered = r.Time
		if m.Kind == jsonrpc.Response {
			asked.Answer = m.Result().Raw()
		} else {
			asked.Error = m.Error().Raw()
		}
	}
	i := g.add(q.job, r, m, role, q.part)
	if r.Stream != "" {
		g.streams[r.Stream] = place{q.job, i}
	}
}

// bare takes a record without a message: an HTTP request that has none, a
// status without a body, or the end of a stream.
func (g *Gatherer) bare(r *capture.Record) {
	ln := g.laneOf(r, nil)
	if r.Dir == translate.ToClient {
		g.status(ln, r)
		return
	}
	kind, role := Notice, RoleRequest
	switch r.Verb {
	case "GET":
		kind = Listen
	case "DELETE":
		kind = Close
	}
	j := g.begin(ln, r, nil, kind, strings.ToValidUTF8(r.Verb, ""), "")
	at := place{j, g.add(j, r, nil, role, -1)}
	if kind == Notice {
		j.given = true
		g.end(j, r)
	}
	if r.Stream != "" {
		g.streams[r.Stream] = at
	}
}

// stray makes an operation of a record that belongs to nothing, or a part of
// what its stream is about.
func (g *Gatherer) stray(ln *lane, r *capture.Record, m *jsonrpc.Message) {
	if at, ok := g.streams[r.Stream]; ok && r.Dir == translate.ToClient {
		g.add(at.job, r, m, RoleOther, -1)
		return
	}
	method := ""
	if m != nil {
		method = m.Method
	}
	j := g.begin(ln, r, m, Notice, method, "")
	i := g.add(j, r, m, RoleRequest, -1)
	j.given = true
	g.end(j, r)
	if r.Stream != "" && r.Dir == translate.ToServer {
		g.streams[r.Stream] = place{j, i}
	}
}
