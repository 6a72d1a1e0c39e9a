package peers

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
)

// legacyCall is one request being answered.
type legacyCall struct {
	s      *LegacyServer
	sess   *legacySession
	id     json.RawMessage
	params json.RawMessage
	out    *reply
	// ctx ends with the session or a notifications/cancelled, not with the
	// connection: a disconnect is no cancellation (2025-11-25 transports,
	// "Sending Messages to the Server").
	ctx context.Context
}

type legacyMethod func(*legacyCall) (json.RawMessage, *RPCError)

func (s *LegacyServer) method(name string) legacyMethod {
	switch name {
	case "ping", "logging/setLevel":
		return func(*legacyCall) (json.RawMessage, *RPCError) { return object(), nil }
	case "tools/list":
		return (*legacyCall).listTools
	case "tools/call":
		return (*legacyCall).callTool
	case "resources/list":
		return func(*legacyCall) (json.RawMessage, *RPCError) { return resourceList(), nil }
	case "resources/templates/list":
		return func(*legacyCall) (json.RawMessage, *RPCError) { return templateList(), nil }
	case "resources/read":
		return func(c *legacyCall) (json.RawMessage, *RPCError) { return readResource(c.params, CodeResourceNotFound) }
	case "resources/subscribe", "resources/unsubscribe":
		return func(c *legacyCall) (json.RawMessage, *RPCError) {
			return c.subscribe(name == "resources/subscribe")
		}
	case "prompts/list":
		return func(*legacyCall) (json.RawMessage, *RPCError) { return promptList(), nil }
	case "prompts/get":
		return func(c *legacyCall) (json.RawMessage, *RPCError) { return getPrompt(c.params) }
	}
	if s.o.NoTasks {
		return nil
	}
	switch name {
	case "tasks/get":
		return (*legacyCall).getTask
	case "tasks/result":
		return (*legacyCall).taskResult
	case "tasks/list":
		return (*legacyCall).listTasks
	case "tasks/cancel":
		return (*legacyCall).cancelTask
	}
	return nil
}

func (s *LegacyServer) request(out *reply, sess *legacySession, m *message) {
	run := s.method(m.Method)
	if run == nil {
		out.finish(http.StatusOK, errorMessage(m.ID, rpcErrorf(CodeMethodNotFound, "Method not found")))
		return
	}
	ctx, cancel := context.WithCancel(sess.ctx)
	defer cancel()
	key := string(m.ID)
	sess.mu.Lock()
	sess.calls[key] = cancel
	sess.mu.Unlock()
	defer func() {
		sess.mu.Lock()
		delete(sess.calls, key)
		sess.mu.Unlock()
	}()
	c := &legacyCall{s: s, sess: sess, id: m.ID, params: m.Params, out: out, ctx: ctx}
	result, rerr := run(c)
	switch {
	case ctx.Err() != nil:
		// No response to a cancelled request (2025-11-25 cancellation); a
		// stream just ends.
		if !out.streaming() {
			out.finish(http.StatusAccepted, nil)
		}
	case rerr != nil:
		out.finish(http.StatusOK, errorMessage(m.ID, rerr))
	default:
		out.finish(http.StatusOK, resultMessage(m.ID, result))
	}
}

func (c *legacyCall) listTools() (json.RawMessage, *RPCError) {
	return c.s.toolPage(c.params, func(t *tool) json.RawMessage {
		pairs := []any{"name", t.name, "description", t.description, "inputSchema", json.RawMessage(t.schema)}
		if !c.s.o.NoTasks {
			pairs = append(pairs, "execution", map[string]string{"taskSupport": t.support})
		}
		return object(pairs...)
	})
}

type callParams struct {
	Name      string
	Arguments json.RawMessage
	Task      *struct{ TTL *float64 }
	Meta      struct {
		ProgressToken json.RawMessage
	} `json:"_meta"`
}

// toolOf finds the tool that params name.
func (c *core) toolOf(params json.RawMessage) (*tool, *callParams, *RPCError) {
	var p callParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, nil, rpcErrorf(CodeInvalidParams, "invalid params: %v", err)
	}
	if len(p.Arguments) == 0 || string(p.Arguments) == "null" {
		p.Arguments = json.RawMessage("{}")
	}
	if !isObject(p.Arguments) {
		return nil, nil, rpcErrorf(CodeInvalidParams, "arguments must be an object")
	}
	t := c.tool(p.Name)
	if t == nil {
		return nil, nil, rpcErrorf(CodeInvalidParams, "Unknown tool: %s", p.Name)
	}
	return t, &p, nil
}

func (c *legacyCall) callTool() (json.RawMessage, *RPCError) {
	t, p, rerr := c.s.toolOf(c.params)
	if rerr != nil {
		return nil, rerr
	}
	asTask := p.Task != nil
	if c.s.o.NoTasks {
		asTask = false // "ignoring any task-augmentation metadata if present"
	} else if asTask && t.support == forbidden {
		return nil, rpcErrorf(CodeMethodNotFound, "Tool %s does not support task augmentation", t.name)
	} else if !asTask && t.support == required {
		return nil, rpcErrorf(CodeMethodNotFound, "Tool %s requires task augmentation", t.name)
	}
	var qs []question
	if t.questions != nil {
		if !c.sess.elicit {
			return toolError("the client does not support elicitation"), nil
		}
		qs = t.questions(p.Arguments)
	}
	if !c.s.o.JSONResponses {
		c.out.begin()
	}
	var answers map[string]json.RawMessage
	if qs != nil && (t.askFirst || !asTask) {
		if answers, rerr = c.askPlain(qs); rerr != nil {
			return toolError("the question was not answered: " + rerr.Message), nil
		}
	}
	c.s.counted(t.name, p.Arguments)
	if asTask {
		return c.createTask(t, p, qs, answers)
	}
	return t.run(c.ctx, &toolRun{args: p.Arguments, answers: answers, progress: func(done, total int, text string) {
		c.progress(p.Meta.ProgressToken, done, total, text)
	}})
}

func (c *legacyCall) progress(token json.RawMessage, done, total int, text string) {
	if token == nil {
		return
	}
	msg := progressMessage(token, done, total, text, nil)
	if c.s.o.JSONResponses {
		c.sess.notify(msg)
		return
	}
	_ = c.out.send(msg)
}

func progressMessage(token json.RawMessage, done, total int, text string, meta json.RawMessage) json.RawMessage {
	pairs := []any{"progressToken", token, "progress", done, "total", total, "message", text}
	if meta != nil {
		pairs = append(pairs, "_meta", meta)
	}
	return requestMessage(nil, "notifications/progress", object(pairs...))
}

// askPlain sends all questions at once and waits for the answers.
func (c *legacyCall) askPlain(qs []question) (map[string]json.RawMessage, *RPCError) {
	type answer struct {
		result json.RawMessage
		err    *RPCError
	}
	ids := make([]int, len(qs))
	got := make([]chan answer, len(qs))
	for i, q := range qs {
		ch := make(chan answer, 1)
		got[i] = ch
		ids[i] = c.sess.expect(func(result json.RawMessage, err *RPCError) { ch <- answer{result, err} })
		c.tell(requestMessage(ids[i], "elicitation/create", q.params))
	}
	defer func() {
		for _, id := range ids {
			if c.sess.forget(id) {
				c.tell(requestMessage(nil, "notifications/cancelled", object("requestId", id)))
			}
		}
	}()
	answers := map[string]json.RawMessage{}
	for i, q := range qs {
		select {
		case a := <-got[i]:
			if a.err != nil {
				return nil, a.err
			}
			answers[q.key] = a.result
		case <-c.ctx.Done():
			return nil, cancelledError(c.ctx.Err())
		}
	}
	return answers, nil
}

// tell sends a question, or its withdrawal, on the call's own stream or the GET
// stream.
func (c *legacyCall) tell(msg json.RawMessage) {
	if c.s.o.NeedGET {
		c.sess.require(msg)
		return
	}
	_ = c.out.send(msg)
}

func (c *legacyCall) subscribe(on bool) (json.RawMessage, *RPCError) {
	var p struct{ URI string }
	if json.Unmarshal(c.params, &p) != nil || p.URI == "" {
		return nil, rpcErrorf(CodeInvalidParams, "uri is missing")
	}
	c.sess.mu.Lock()
	defer c.sess.mu.Unlock()
	c.sess.subscribed[p.URI] = on
	return object(), nil
}

// removeBox takes a stream off a list.
func removeBox(list []*outbox, box *outbox) []*outbox {
	return slices.DeleteFunc(list, func(b *outbox) bool { return b == box })
}
