package peers

import (
	"context"
	"encoding/json"
)

func relatedTask(id string) json.RawMessage {
	return object(KeyRelatedTask, map[string]string{"taskId": id})
}

func (c *legacyCall) createTask(tl *tool, p *callParams, qs []question, answers map[string]json.RawMessage) (json.RawMessage, *RPCError) {
	s := c.s
	t, ok := s.startTask(taskSpec{
		session: c.sess.id,
		ttl:     s.clampTTL(p.Task.TTL),
		token:   p.Meta.ProgressToken,
		work: func(ctx context.Context, t *task) (json.RawMessage, *RPCError) {
			if answers == nil && qs != nil {
				var rerr *RPCError
				if answers, rerr = s.tasks.ask(ctx, t, qs, s.askedInTask(t, c.sess)); rerr != nil {
					return toolError("the question was not answered: " + rerr.Message), nil
				}
			}
			return tl.run(ctx, &toolRun{args: p.Arguments, answers: answers, progress: func(done, total int, text string) {
				s.taskProgress(t, c.sess, done, total, text)
			}})
		},
		finish: finishLegacy,
	})
	if !ok {
		return nil, rpcErrorf(CodeInternal, "the server is closing")
	}
	s.tasks.mu.Lock()
	defer s.tasks.mu.Unlock()
	return object("task", t.legacyView(s.o.PollInterval)), nil
}

// finishLegacy: a tool result with isError makes a failed task (2025-11-25
// tasks, "Task Status"), and tasks/result still gives that result.
func finishLegacy(t *task, result json.RawMessage, rerr *RPCError) {
	t.result, t.err = result, rerr
	t.status = StatusCompleted
	var r struct {
		IsError bool
		Content []struct{ Text string }
	}
	switch {
	case rerr != nil:
		t.status, t.message = StatusFailed, rerr.Message
	case json.Unmarshal(result, &r) == nil && r.IsError:
		t.status = StatusFailed
		if len(r.Content) > 0 {
			t.message = r.Content[0].Text
		}
	}
}

// askedInTask sends a task's questions on the GET stream where the options say
// so; else they wait for a tasks/result stream to pick them up, as real
// servers do.
func (s *LegacyServer) askedInTask(t *task, sess *legacySession) func([]*openQuestion) {
	if !s.o.NeedGET {
		return nil
	}
	return func(open []*openQuestion) {
		for _, q := range open {
			_, msg := s.questionMessage(t, sess, q.question)
			sess.require(msg)
		}
	}
}

// questionMessage registers a question of a task with a session and renders
// its request.
func (s *LegacyServer) questionMessage(t *task, sess *legacySession, q question) (int, json.RawMessage) {
	id := sess.expect(func(result json.RawMessage, rerr *RPCError) { s.tasks.answer(t, q.key, result, rerr) })
	return id, requestMessage(id, "elicitation/create", with(q.params, "_meta", relatedTask(t.id)))
}

// taskProgress sends progress on the task's oldest tasks/result stream, else on
// the GET stream: each message goes to one stream only.
func (s *LegacyServer) taskProgress(t *task, sess *legacySession, done, total int, text string) {
	if t.token == nil {
		return
	}
	msg := progressMessage(t.token, done, total, text, relatedTask(t.id))
	s.tasks.mu.Lock()
	defer s.tasks.mu.Unlock()
	if len(t.waiters) > 0 {
		t.waiters[0].push(msg)
		return
	}
	sess.notify(msg)
}

// taskChanged sends notifications/tasks/status on the GET stream of the
// creating session. It runs with the store's mutex held.
func (s *LegacyServer) taskChanged(t *task, statusChanged bool) {
	if !statusChanged {
		return
	}
	s.smu.Lock()
	sess := s.sessions[t.session]
	s.smu.Unlock()
	if sess != nil {
		sess.notify(requestMessage(nil, "notifications/tasks/status", t.legacyView(s.o.PollInterval)))
	}
}

// lookup finds the task that params name and this session may see.
func (c *legacyCall) lookup() (*task, *RPCError) {
	var p struct{ TaskID string }
	if json.Unmarshal(c.params, &p) != nil || p.TaskID == "" {
		return nil, rpcErrorf(CodeInvalidParams, "taskId is missing")
	}
	if t := c.s.tasks.get(p.TaskID, c.scope()); t != nil {
		return t, nil
	}
	return nil, taskNotFound()
}

func taskNotFound() *RPCError {
	return rpcErrorf(CodeInvalidParams, "Failed to retrieve task: Task not found")
}

func (c *legacyCall) scope() string {
	if c.s.o.TasksPerSession {
		return c.sess.id
	}
	return ""
}

func (c *legacyCall) view(t *task) json.RawMessage {
	c.s.tasks.mu.Lock()
	defer c.s.tasks.mu.Unlock()
	return t.legacyView(c.s.o.PollInterval)
}

func (c *legacyCall) getTask() (json.RawMessage, *RPCError) {
	t, rerr := c.lookup()
	if rerr != nil {
		return nil, rerr
	}
	return c.view(t), nil
}

func (c *legacyCall) cancelTask() (json.RawMessage, *RPCError) {
	t, rerr := c.lookup()
	if rerr != nil {
		return nil, rerr
	}
	if !c.s.tasks.cancelTask(t) {
		return nil, rpcErrorf(CodeInvalidParams, "Cannot cancel task: it is already in a terminal status")
	}
	return c.view(t), nil
}

func (c *legacyCall) listTasks() (json.RawMessage, *RPCError) {
	var p struct{ Cursor string }
	_ = json.Unmarshal(c.params, &p)
	page, next, rerr := c.s.tasks.list(c.scope(), p.Cursor, c.s.o.PageSize, func(t *task) json.RawMessage {
		return t.legacyView(c.s.o.PollInterval)
	})
	if rerr != nil {
		return nil, rerr
	}
	pairs := []any{"tasks", rawList(page)}
	if next != "" {
		pairs = append(pairs, "nextCursor", next)
	}
	return object(pairs...), nil
}

// taskResult blocks until the task is over (2025-11-25 tasks, "Result
// Retrieval"), carrying its questions and progress meanwhile.
func (c *legacyCall) taskResult() (json.RawMessage, *RPCError) {
	t, rerr := c.lookup()
	if rerr != nil {
		return nil, rerr
	}
	if !c.s.o.JSONResponses {
		c.out.begin()
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	// The task goes on without its reader; only this stream ends.
	defer context.AfterFunc(c.out.gone, cancel)()
	w := &resultStream{c: c, t: t, box: newOutbox(), sent: map[int]string{}}
	w.attach()
	defer w.detach()
	for {
		msgs, changed, over := w.next()
		for _, msg := range msgs {
			_ = c.out.send(msg)
		}
		if over {
			return w.outcome()
		}
		if !c.s.idle(ctx, c.out, changed, w.box.wake) {
			return nil, cancelledError(ctx.Err())
		}
	}
}

// resultStream is one open tasks/result.
type resultStream struct {
	c    *legacyCall
	t    *task
	box  *outbox
	sent map[int]string // request ids that went out here, with their keys
}

func (w *resultStream) attach() {
	w.c.s.tasks.mu.Lock()
	defer w.c.s.tasks.mu.Unlock()
	if !w.c.s.o.JSONResponses {
		w.t.waiters = append(w.t.waiters, w.box)
	}
}

// detach hands unanswered questions to the next stream. Their ids stay valid,
// for an answer may be on its way.
func (w *resultStream) detach() {
	st := w.c.s.tasks
	st.mu.Lock()
	defer st.mu.Unlock()
	w.t.waiters = removeBox(w.t.waiters, w.box)
	for _, q := range w.t.open {
		if q.holder == w.box {
			q.holder = nil
		}
	}
	if !w.t.gone {
		close(w.t.changed)
		w.t.changed = make(chan struct{})
	}
}

// next collects what this stream has to send.
func (w *resultStream) next() (msgs []json.RawMessage, changed <-chan struct{}, over bool) {
	s, st := w.c.s, w.c.s.tasks
	msgs = w.box.take()
	st.mu.Lock()
	defer st.mu.Unlock()
	open := map[string]bool{}
	for _, q := range w.t.open {
		open[q.key] = true
		if q.holder != nil || s.o.NeedGET {
			continue
		}
		q.holder = w.box
		id, msg := s.questionMessage(w.t, w.c.sess, q.question)
		w.sent[id] = q.key
		msgs = append(msgs, msg)
	}
	for id, key := range w.sent {
		if open[key] {
			continue
		}
		delete(w.sent, id)
		// Withdrawn by the task's end, not answered.
		if w.c.sess.forget(id) {
			msgs = append(msgs, requestMessage(nil, "notifications/cancelled",
				object("requestId", id, "reason", "the task is over", "_meta", relatedTask(w.t.id))))
		}
	}
	return msgs, w.t.changed, w.t.gone || terminal(w.t.status)
}

// outcome is what the underlying request would have returned, with the task it
// belongs to.
func (w *resultStream) outcome() (json.RawMessage, *RPCError) {
	w.c.s.tasks.mu.Lock()
	defer w.c.s.tasks.mu.Unlock()
	t := w.t
	switch {
	case t.gone:
		return nil, taskNotFound()
	case t.status == StatusCancelled:
		return nil, rpcErrorf(CodeInternal, "Task %s was cancelled", t.id)
	case t.err != nil:
		return nil, t.err
	}
	return with(t.result, "_meta", relatedTask(t.id)), nil
}
