package operation

import (
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
)

// became: the call is a task from now on.
func (g *Gatherer) became(j *job, r *capture.Record, task jsonrpc.Value) {
	id, _ := task.Get("taskId").Str()
	j.op.Kind, j.op.TaskID = Task, id
	j.land()
	g.tasks[j.lane.key+"\n"+id] = j
	g.tasks["principal "+j.op.Principal+"\n"+id] = j
	if !j.ended {
		j.lane.live[j] = struct{}{}
	}
	g.seen(j, r, task)
}

// seen reads a task as an answer or a notification shows it.
func (g *Gatherer) seen(j *job, r *capture.Record, task jsonrpc.Value) {
	status, ok := task.Get("status").Str()
	if !ok {
		return
	}
	// Notifications may come late: nothing follows a terminal status.
	if !translate.Terminal(j.op.TaskStatus) {
		j.op.TaskStatus = status
	}
	j.questions(r, task.Get("inputRequests"), true)
	p := translate.PayloadOf(task)
	if p.Result != nil || p.Error != nil {
		j.op.Result, j.op.Error = p.Result, p.Error
	}
	if translate.Terminal(status) {
		g.end(j, r)
	}
}

// looked takes the answer to a request about a task.
func (g *Gatherer) looked(p *pend, r *capture.Record, m *jsonrpc.Message) {
	j := p.job
	switch {
	case p.method == "tasks/result" && m.Kind == jsonrpc.ErrorResponse:
		if j.op.Result == nil {
			j.op.Error = m.Error().Raw()
		}
		g.end(j, r)
	case p.method == "tasks/result":
		j.op.Result, j.op.Error = m.Result().Raw(), nil
		g.end(j, r)
	case m.Kind == jsonrpc.ErrorResponse:
		if p.method == "tasks/get" {
			j.pollErr = m.Error().Raw()
		}
	default:
		j.pollErr = nil
		g.seen(j, r, m.Result())
	}
}

// orphan takes the answer to a request about a task whose creation the capture
// does not have. From here on that task is known.
func (g *Gatherer) orphan(p *pend, r *capture.Record, m *jsonrpc.Message) {
	j := p.job
	if m.Kind == jsonrpc.ErrorResponse {
		j.given = true
		j.op.Error = m.Error().Raw()
		g.end(j, r)
		return
	}
	id := j.op.Name
	result := m.Result()
	if id == "" || p.method == "tasks/update" || p.method == "tasks/cancel" && !result.Get("status").Exists() {
		j.given = true
		j.op.Result = result.Raw()
		g.end(j, r)
		return
	}
	j.op.Kind, j.op.TaskID = Task, id
	g.tasks[j.lane.key+"\n"+id] = j
	g.tasks["principal "+j.op.Principal+"\n"+id] = j
	j.lane.live[j] = struct{}{}
	if p.method == "tasks/result" {
		j.op.Result = result.Raw()
		g.end(j, r)
		return
	}
	g.seen(j, r, result)
}

// questions notes the entries of inputRequests. A task shows each until it is
// answered and never uses a key again (tasks extension, Task Input); in an
// exchange of several rounds a key that comes again is a new question once the
// one before was answered.
func (j *job) questions(r *capture.Record, requests jsonrpc.Value, task bool) {
	if requests.Len() == 0 {
		return
	}
	if j.open == nil {
		j.open, j.asked = map[string]int{}, map[string]struct{}{}
	}
	for key, v := range requests.Members() {
		if _, shown := j.asked[key]; task && shown {
			continue
		}
		if _, open := j.open[key]; open {
			continue
		}
		method, _ := v.Get("method").Str()
		j.asked[key] = struct{}{}
		j.open[key] = len(j.op.Questions)
		j.op.Questions = append(j.op.Questions, Question{Key: string(jsonrpc.Quote(key)), Method: method, Params: v.Get("params").Raw(), Asked: r.Time})
	}
}
