package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// TaskRun is what a RunTask saw.
type TaskRun struct {
	TaskID    string            // empty when the server answered without a task
	Created   json.RawMessage   // result of the creating call
	Last      json.RawMessage   // newest tasks/get result
	Statuses  []string          // statuses seen, without repeats
	Questions []json.RawMessage // params of the questions answered, in order
	Polls     int               // tasks/get requests
	Result    json.RawMessage   // final result, or nil
	Error     json.RawMessage   // final JSON-RPC error, or nil
}

// Status returns the newest status.
func (t TaskRun) Status() string {
	if len(t.Statuses) == 0 {
		return ""
	}
	return t.Statuses[len(t.Statuses)-1]
}

// Text returns the first text block of the result.
func (t TaskRun) Text() string { return firstText(t.Result) }

func (t *TaskRun) saw(status string) {
	if status != t.Status() {
		t.Statuses = append(t.Statuses, status)
	}
}

// taskState is what RunTask reads of a task of either era.
type taskState struct {
	TaskID         string
	Status         string
	PollInterval   *float64
	PollIntervalMs *float64
	InputRequests  map[string]struct {
		Method string
		Params json.RawMessage
	}
	Result json.RawMessage
	Error  json.RawMessage
}

// pause waits for the interval the task suggests, one second if none, as
// widely used clients do.
func (s *taskState) pause(ctx context.Context) error {
	ms := 1000.0
	for _, given := range []*float64{s.PollInterval, s.PollIntervalMs} {
		if given != nil {
			ms = min(max(*given, 1), 60_000)
		}
	}
	return wait(ctx, time.Duration(ms*float64(time.Millisecond)))
}

// RunTask calls a tool as a task, polls until it is over or wants input, and
// fetches its result, answering questions meanwhile (nil answer: OnRequest). A
// JSON-RPC error of the creating call ends in TaskRun.Error.
func (c *LegacyClient) RunTask(ctx context.Context, tool string, args any, answer Answer) (run TaskRun, err error) {
	if answer == nil {
		answer = c.OnRequest
	}
	var asked questionLog
	defer func() { run.Questions = asked.list() }()
	recorded := asked.record(answer)
	ttl := c.TaskTTL
	if ttl <= 0 {
		ttl = time.Minute
	}
	r, err := c.call(ctx, "tools/call", object("name", tool, "arguments", argsOf(args),
		"task", object("ttl", milliseconds(ttl))), recorded)
	if err != nil || r.Error != nil {
		run.Error = r.Error
		return run, err
	}
	run.Created = r.Result
	var created struct{ Task *taskState }
	if err := r.Decode(&created); err != nil {
		return run, err
	}
	if created.Task == nil || created.Task.TaskID == "" {
		return run, fmt.Errorf("tools/call as a task gave no task: %.200s", r.Result)
	}
	state := created.Task
	run.TaskID = state.TaskID
	run.saw(state.Status)
	c.expectQuestions(run.TaskID, recorded)
	defer c.expectQuestions(run.TaskID, nil)
	for !terminal(state.Status) && state.Status != StatusInputRequired {
		if err := state.pause(ctx); err != nil {
			return run, err
		}
		if state, err = c.pollTask(ctx, &run); err != nil {
			return run, err
		}
	}
	// Blocks while the task goes on, with its questions on the same stream
	// (2025-11-25 tasks, "Input Required Status").
	r, err = c.call(ctx, "tasks/result", object("taskId", run.TaskID), recorded)
	if err != nil {
		return run, err
	}
	if run.Result, run.Error = r.Result, r.Error; r.Result == nil && r.Error == nil {
		return run, r.Err()
	}
	if !terminal(state.Status) {
		_, err = c.pollTask(ctx, &run)
	}
	return run, err
}

// questionLog lists the questions that an Answer got; they are answered beside
// the run, some perhaps after it.
type questionLog struct {
	mu  sync.Mutex // protects all
	all []json.RawMessage
}

func (l *questionLog) record(answer Answer) Answer {
	return func(method string, params json.RawMessage) (any, any) {
		l.mu.Lock()
		l.all = append(l.all, params)
		l.mu.Unlock()
		if answer == nil {
			return nil, rpcErrorf(CodeMethodNotFound, "Method not found")
		}
		return answer(method, params)
	}
}

func (l *questionLog) list() []json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func (c *LegacyClient) expectQuestions(taskID string, answer Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer == nil {
		delete(c.answers, taskID)
		return
	}
	if c.answers == nil {
		c.answers = map[string]Answer{}
	}
	c.answers[taskID] = answer
}

func (c *LegacyClient) pollTask(ctx context.Context, run *TaskRun) (*taskState, error) {
	r, err := c.Call(ctx, "tasks/get", object("taskId", run.TaskID))
	return run.polled(r, err)
}

func (t *TaskRun) polled(r Reply, err error) (*taskState, error) {
	t.Polls++
	if err != nil {
		return nil, err
	}
	var state taskState
	if err := r.Decode(&state); err != nil {
		return nil, fmt.Errorf("tasks/get: %w", err)
	}
	t.Last = r.Result
	t.saw(state.Status)
	return &state, nil
}

func argsOf(args any) any {
	if args == nil {
		return struct{}{}
	}
	return args
}

const maxRounds = 10 // of input_required, as widely used clients have it

// RunTask calls a tool and drives whatever comes of it to the end:
// input_required is answered and the call retried, a task is polled and its
// questions answered. A server that answers at once leaves TaskID empty. nil
// answer leaves questions open. An answer that is an error cannot be sent in
// this era and cancels the task.
func (c *ModernClient) RunTask(ctx context.Context, tool string, args any, answer Answer) (TaskRun, error) {
	var run TaskRun
	r, state, err := c.create(ctx, &run, tool, args, answer)
	if err != nil || r.Error != nil {
		run.Error = r.Error
		return run, err
	}
	if state == nil {
		run.Result = r.Result
		return run, nil
	}
	run.TaskID = state.TaskID
	run.saw(state.Status)
	answered := map[string]bool{}
	for !terminal(state.Status) {
		if err := state.pause(ctx); err != nil {
			return run, err
		}
		r, err := c.Call(ctx, "tasks/get", object("taskId", run.TaskID))
		if state, err = run.polled(r, err); err != nil {
			return run, err
		}
		if err := c.answerTask(ctx, &run, state, answered, answer); err != nil {
			return run, err
		}
	}
	run.Result, run.Error = state.Result, state.Error
	return run, nil
}

// create sends tools/call until it gives something else than input_required; a
// nil state means a plain outcome.
func (c *ModernClient) create(ctx context.Context, run *TaskRun, tool string, args any, answer Answer) (Reply, *taskState, error) {
	params := []any{"name", tool, "arguments", argsOf(args)}
	for range maxRounds {
		r, err := c.Call(ctx, "tools/call", object(params...))
		if err != nil || r.Error != nil {
			return r, nil, err
		}
		run.Created = r.Result
		var result struct {
			ResultType   string
			RequestState json.RawMessage
			taskState
		}
		if err := r.Decode(&result); err != nil {
			return r, nil, err
		}
		switch result.ResultType {
		case "task":
			return r, &result.taskState, nil
		case "input_required":
		default:
			return r, nil, nil
		}
		if answer == nil {
			return r, nil, nil
		}
		var responses []any
		for key, q := range result.InputRequests {
			reply, errObj := answer(q.Method, q.Params)
			if errObj != nil {
				return r, nil, nil // the call is given up
			}
			run.Questions = append(run.Questions, q.Params)
			responses = append(responses, key, reply)
		}
		params = []any{"name", tool, "arguments", argsOf(args), "inputResponses", object(responses...)}
		if result.RequestState != nil {
			params = append(params, "requestState", result.RequestState)
		}
	}
	return Reply{}, nil, fmt.Errorf("tools/call %s: input_required %d times", tool, maxRounds)
}

// answerTask answers the questions not answered before, all in one update.
func (c *ModernClient) answerTask(ctx context.Context, run *TaskRun, state *taskState, answered map[string]bool, answer Answer) error {
	if answer == nil || state.Status != StatusInputRequired {
		return nil
	}
	var responses []any
	for key, q := range state.InputRequests {
		if answered[key] {
			continue
		}
		answered[key] = true
		run.Questions = append(run.Questions, q.Params)
		reply, errObj := answer(q.Method, q.Params)
		if errObj != nil {
			r, err := c.Call(ctx, "tasks/cancel", object("taskId", run.TaskID))
			if err != nil {
				return err
			}
			return r.Err()
		}
		responses = append(responses, key, reply)
	}
	if responses == nil {
		return nil
	}
	r, err := c.Call(ctx, "tasks/update", object("taskId", run.TaskID, "inputResponses", object(responses...)))
	if err != nil {
		return err
	}
	return r.Err()
}
