package peers

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

func (c *modernCall) callTool() (json.RawMessage, *RPCError) {
	t, p, rerr := c.s.toolOf(c.params)
	if rerr != nil {
		return nil, rerr
	}
	if t.support == required && !c.meta.tasks && !c.s.o.NoTasks {
		return nil, missingTasks()
	}
	asTask := t.support != forbidden && c.meta.tasks && !c.s.o.NoTasks &&
		(t.plainAnyway == nil || !t.plainAnyway(p.Arguments))
	var qs []question
	if t.questions != nil {
		if !c.meta.elicit {
			return nil, missingCapability(object("elicitation", struct{}{}))
		}
		qs = t.questions(p.Arguments)
	}
	var answers map[string]json.RawMessage
	if qs != nil && (t.askFirst || !asTask) {
		var interim json.RawMessage
		if answers, interim, rerr = c.roundTrip(t, p, qs); rerr != nil || interim != nil {
			return interim, rerr
		}
	}
	c.s.counted(t.name, p.Arguments)
	if asTask {
		return c.createTask(t, p, qs, answers)
	}
	if !c.s.o.JSONResponses {
		c.out.begin()
	}
	return completed(t.run(c.ctx, &toolRun{args: p.Arguments, answers: answers, progress: func(done, total int, text string) {
		if c.meta.progress != nil && !c.s.o.JSONResponses && c.ctx.Err() == nil {
			_ = c.out.send(progressMessage(c.meta.progress, done, total, text, nil))
		}
	}}))
}

// requestState is what a call that waits for input carries through the client:
// answers so far, bound to the call and a date (2026-07-28 MRTR, "Server
// Requirements").
type requestState struct {
	Call    string                     `json:"call"` // digest of tool and arguments
	Expires int64                      `json:"expires"`
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
}

const stateLife = 10 * time.Minute

// roundTrip returns the answers the call brought with it, or the result that
// asks for what is missing. Answers without our state belong to no question
// and are ignored.
func (c *modernCall) roundTrip(t *tool, p *callParams, qs []question) (map[string]json.RawMessage, json.RawMessage, *RPCError) {
	var in struct {
		InputResponses map[string]json.RawMessage
		RequestState   *string
	}
	if json.Unmarshal(c.params, &in) != nil {
		return nil, nil, rpcErrorf(CodeInvalidParams, "inputResponses must be an object, requestState a string")
	}
	digest := sha256.Sum256([]byte(t.name + "\x00" + string(p.Arguments)))
	state := requestState{Call: hex.EncodeToString(digest[:])}
	if in.RequestState != nil {
		old, ok := c.s.openState(*in.RequestState)
		if !ok || old.Call != state.Call || c.s.o.Clock().Unix() > old.Expires {
			return nil, nil, rpcErrorf(CodeInvalidParams, "requestState is not valid for this request")
		}
		state.Answers = old.Answers
	}
	if state.Answers == nil {
		state.Answers = map[string]json.RawMessage{}
	}
	var missing []question
	for _, q := range qs {
		if answer := in.InputResponses[q.key]; in.RequestState != nil && isObject(answer) {
			state.Answers[q.key] = answer
		}
		if state.Answers[q.key] == nil {
			missing = append(missing, q)
		}
	}
	if missing == nil {
		return state.Answers, nil, nil
	}
	state.Expires = c.s.o.Clock().Add(stateLife).Unix()
	return nil, object("resultType", "input_required", "_meta", serverInfoMeta(),
		"inputRequests", inputRequests(missing), "requestState", c.s.sealState(state)), nil
}

func (s *ModernServer) mac(body string) string {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(body))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func (s *ModernServer) sealState(state requestState) string {
	body := base64.RawURLEncoding.EncodeToString(raw(state))
	return body + "." + s.mac(body)
}

func (s *ModernServer) openState(text string) (requestState, bool) {
	var state requestState
	body, sum, _ := strings.Cut(text, ".")
	if !hmac.Equal([]byte(sum), []byte(s.mac(body))) {
		return state, false
	}
	b, err := base64.RawURLEncoding.DecodeString(body)
	return state, err == nil && json.Unmarshal(b, &state) == nil
}

func (c *modernCall) createTask(tl *tool, p *callParams, qs []question, answers map[string]json.RawMessage) (json.RawMessage, *RPCError) {
	s := c.s
	t, ok := s.startTask(taskSpec{
		ttl: s.o.TTL,
		work: func(ctx context.Context, t *task) (json.RawMessage, *RPCError) {
			if answers == nil && qs != nil {
				var rerr *RPCError
				if answers, rerr = s.tasks.ask(ctx, t, qs, nil); rerr != nil {
					return nil, rerr
				}
			}
			// Progress notifications "are not supported on tasks"; the status
			// message says how far it is.
			return tl.run(ctx, &toolRun{args: p.Arguments, answers: answers, progress: func(_, _ int, text string) {
				s.tasks.change(t, func() { t.message = text })
			}})
		},
		finish: finishModern,
	})
	if !ok {
		return nil, rpcErrorf(CodeInternal, "the server is closing")
	}
	s.tasks.mu.Lock()
	defer s.tasks.mu.Unlock()
	return with(t.modernView(s.o.PollInterval), "resultType", "task", "_meta", serverInfoMeta()), nil
}

// finishModern: failed is for JSON-RPC errors only, a result with isError is
// completed (tasks extension, "Task Execution Errors"). Widely used clients
// want resultType inside the inline result too.
func finishModern(t *task, result json.RawMessage, rerr *RPCError) {
	t.err = rerr
	if rerr != nil {
		t.status, t.message = StatusFailed, rerr.Message
		return
	}
	t.status, t.message = StatusCompleted, ""
	t.result = with(result, "resultType", "complete")
}

// lookup finds the task that params name, for a client that declared the
// extension; the capability comes first, even for unknown ids.
func (c *modernCall) lookup() (*task, *RPCError) {
	if !c.meta.tasks {
		return nil, missingTasks()
	}
	var p struct{ TaskID string }
	if json.Unmarshal(c.params, &p) != nil || p.TaskID == "" {
		return nil, rpcErrorf(CodeInvalidParams, "taskId is missing")
	}
	if t := c.s.tasks.get(p.TaskID, ""); t != nil {
		return t, nil
	}
	return nil, taskNotFound()
}

func (c *modernCall) getTask() (json.RawMessage, *RPCError) {
	t, rerr := c.lookup()
	if rerr != nil {
		return nil, rerr
	}
	c.s.tasks.mu.Lock()
	defer c.s.tasks.mu.Unlock()
	return complete(t.modernView(c.s.o.PollInterval)), nil
}

func (c *modernCall) updateTask() (json.RawMessage, *RPCError) {
	t, rerr := c.lookup()
	if rerr != nil {
		return nil, rerr
	}
	var p struct{ InputResponses map[string]json.RawMessage }
	if json.Unmarshal(c.params, &p) != nil || p.InputResponses == nil {
		return nil, rpcErrorf(CodeInvalidParams, "inputResponses is missing")
	}
	for key, answer := range p.InputResponses {
		if isObject(answer) {
			c.s.tasks.answer(t, key, answer, nil)
		}
	}
	return complete(object()), nil
}

// cancelTask acknowledges whatever the task's status: cancellation is
// cooperative (tasks extension, "Task Cancellation").
func (c *modernCall) cancelTask() (json.RawMessage, *RPCError) {
	t, rerr := c.lookup()
	if rerr != nil {
		return nil, rerr
	}
	c.s.tasks.cancelTask(t)
	return complete(object()), nil
}
