package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Values of execution.taskSupport (2025-11-25 tasks, "Tool-Level Negotiation").
const (
	forbidden = "forbidden"
	optional  = "optional"
	required  = "required"
)

// tool is one tool of both servers. Its questions are declared, not asked from
// inside run, so that the same tool works in a task (asked while it runs), in a
// plain legacy call (asked on the stream) and in a plain modern call (asked by
// input_required, the call coming again with the answers).
type tool struct {
	name        string
	description string
	schema      string // inputSchema
	support     string
	questions   func(args json.RawMessage) []question
	askFirst    bool // before the task is created
	// plainAnyway tells that a modern server answers these arguments with a
	// plain result although a task was possible.
	plainAnyway func(args json.RawMessage) bool
	run         func(ctx context.Context, c *toolRun) (json.RawMessage, *RPCError)
}

type question struct {
	key    string
	params json.RawMessage // of elicitation/create
}

type toolRun struct {
	args     json.RawMessage
	answers  map[string]json.RawMessage // an elicitation result for each key
	progress func(done, total int, text string)
}

const (
	emptySchema = `{"type":"object","properties":{}}`
	progressGap = 10 * time.Millisecond
	maxBig      = 256 << 20
)

func builtinTools() []*tool {
	return []*tool{
		{name: "greet", description: "Greet somebody.", support: forbidden, run: runGreet,
			schema: `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`},
		{name: "slow_compute", description: "Compute for some seconds.", support: optional, run: runSlowCompute,
			plainAnyway: func(args json.RawMessage) bool { return secondsOf(args) <= 0 },
			schema:      `{"type":"object","properties":{"seconds":{"type":"number"},"label":{"type":"string"}}}`},
		{name: "failing_job", description: "A job that ends in a tool error.", support: required, schema: emptySchema,
			run: func(context.Context, *toolRun) (json.RawMessage, *RPCError) {
				return toolError("the job failed on purpose"), nil
			}},
		{name: "protocol_error_job", description: "A job that ends in a JSON-RPC error.", support: optional, schema: emptySchema,
			run: func(context.Context, *toolRun) (json.RawMessage, *RPCError) {
				return nil, &RPCError{Code: CodeInternal, Message: "protocol error on purpose",
					Data: object("reason", "demonstration")}
			}},
		{name: "confirm_delete", description: "Delete a file once that is confirmed.", support: required,
			schema:    `{"type":"object","properties":{"filename":{"type":"string"}},"required":["filename"]}`,
			questions: confirmQuestion, run: runConfirm},
		{name: "multi_input", description: "Ask for a name and a colour at once.", support: required, schema: emptySchema,
			questions: func(json.RawMessage) []question {
				return []question{askString("name", "What is your name?"), askString("colour", "What is your favourite colour?")}
			}, run: runMulti},
		{name: "test_tool_with_task", description: "Ask for a name, then greet it in a task.", support: required,
			schema: emptySchema, askFirst: true, questions: nameQuestion, run: runAskName},
		{name: "ask_name", description: "Ask for a name and greet it.", support: forbidden,
			schema: emptySchema, askFirst: true, questions: nameQuestion, run: runAskName},
		{name: "echo", description: "Give the arguments back.", support: forbidden,
			schema: `{"type":"object","additionalProperties":true}`, run: runEcho},
		{name: "slow_plain", description: "Answer after some seconds, never as a task.", support: forbidden, run: runSlowPlain,
			schema: `{"type":"object","properties":{"seconds":{"type":"number"}},"required":["seconds"]}`},
		{name: "progress", description: "Report progress in steps.", support: optional, run: runProgress,
			plainAnyway: func(json.RawMessage) bool { return true },
			schema:      `{"type":"object","properties":{"steps":{"type":"integer"}},"required":["steps"]}`},
		{name: "big", description: "Give a text of so many bytes.", support: forbidden, run: runBig,
			schema: `{"type":"object","properties":{"bytes":{"type":"integer"}},"required":["bytes"]}`},
	}
}

func runGreet(_ context.Context, c *toolRun) (json.RawMessage, *RPCError) {
	var args struct{ Name *string }
	if err := json.Unmarshal(c.args, &args); err != nil || args.Name == nil {
		// Bad arguments are tool errors, which a model can correct
		// (2026-07-28 tools, "Error Handling").
		return toolError("greet needs a name"), nil
	}
	return textResult("Hello, " + *args.Name + "!"), nil
}

func secondsOf(args json.RawMessage) float64 {
	var a struct{ Seconds float64 }
	_ = json.Unmarshal(args, &a)
	return min(max(a.Seconds, 0), 24*60*60)
}

func runSlowCompute(ctx context.Context, c *toolRun) (json.RawMessage, *RPCError) {
	const quarters = 4
	total := time.Duration(secondsOf(c.args) * float64(time.Second))
	for i := range quarters {
		if err := wait(ctx, total/quarters); err != nil {
			return nil, cancelledError(err)
		}
		if i+1 < quarters {
			c.progress(i+1, quarters, fmt.Sprintf("%d of %d quarters done", i+1, quarters))
		}
	}
	var a struct{ Label string }
	_ = json.Unmarshal(c.args, &a)
	return textResult(fmt.Sprintf("Computed %s for %v.", a.Label, total)), nil
}

func runSlowPlain(ctx context.Context, c *toolRun) (json.RawMessage, *RPCError) {
	d := time.Duration(secondsOf(c.args) * float64(time.Second))
	if err := wait(ctx, d); err != nil {
		return nil, cancelledError(err)
	}
	return textResult(fmt.Sprintf("Answered after %v.", d)), nil
}

func runProgress(ctx context.Context, c *toolRun) (json.RawMessage, *RPCError) {
	var a struct{ Steps int }
	_ = json.Unmarshal(c.args, &a)
	for i := range a.Steps {
		if err := wait(ctx, progressGap); err != nil {
			return nil, cancelledError(err)
		}
		c.progress(i+1, a.Steps, fmt.Sprintf("step %d of %d", i+1, a.Steps))
	}
	return textResult(fmt.Sprintf("Took %d steps.", a.Steps)), nil
}

func runBig(_ context.Context, c *toolRun) (json.RawMessage, *RPCError) {
	var a struct{ Bytes int }
	if err := json.Unmarshal(c.args, &a); err != nil || a.Bytes < 0 || a.Bytes > maxBig {
		return toolError(fmt.Sprintf("big needs bytes from 0 to %d", maxBig)), nil
	}
	return textResult(strings.Repeat("x", a.Bytes)), nil
}

func runEcho(_ context.Context, c *toolRun) (json.RawMessage, *RPCError) {
	return with(textResult(string(c.args)), "structuredContent", c.args), nil
}

func confirmQuestion(args json.RawMessage) []question {
	name := filenameOf(args)
	return []question{{key: "confirm", params: object(
		"mode", "form",
		"message", fmt.Sprintf("Delete %s?", name),
		"requestedSchema", json.RawMessage(`{"type":"object","properties":{"confirm":{"type":"boolean"}},"required":["confirm"]}`),
	)}}
}

func filenameOf(args json.RawMessage) string {
	var a struct{ Filename string }
	_ = json.Unmarshal(args, &a)
	return a.Filename
}

func runConfirm(_ context.Context, c *toolRun) (json.RawMessage, *RPCError) {
	name := filenameOf(c.args)
	content, accepted := acceptedContent(c.answers["confirm"])
	if !accepted || string(content["confirm"]) == "false" {
		return textResult("Kept " + name + "."), nil
	}
	return textResult("Deleted " + name + "."), nil
}

func nameQuestion(json.RawMessage) []question {
	return []question{askString("name", "What is your name?")}
}

func askString(key, text string) question {
	return question{key: key, params: object(
		"mode", "form",
		"message", text,
		"requestedSchema", object("type", "object",
			"properties", object(key, object("type", "string")),
			"required", []string{key}),
	)}
}

func runAskName(_ context.Context, c *toolRun) (json.RawMessage, *RPCError) {
	name, ok := answerText(c.answers["name"], "name")
	if !ok {
		return textResult("No name given."), nil
	}
	return textResult("Hello, " + name + "!"), nil
}

func runMulti(_ context.Context, c *toolRun) (json.RawMessage, *RPCError) {
	name, ok := answerText(c.answers["name"], "name")
	colour, also := answerText(c.answers["colour"], "colour")
	if !ok || !also {
		return textResult("Not everything was answered."), nil
	}
	return textResult(fmt.Sprintf("%s likes %s.", name, colour)), nil
}

// acceptedContent returns the content of an elicitation result, and whether
// the user accepted.
func acceptedContent(answer json.RawMessage) (map[string]json.RawMessage, bool) {
	var a struct {
		Action  string
		Content map[string]json.RawMessage
	}
	if json.Unmarshal(answer, &a) != nil || a.Action != "accept" {
		return nil, false
	}
	return a.Content, true
}

// answerText returns the accepted string for key, or any other string of the
// answer: test clients answer by position, not by schema.
func answerText(answer json.RawMessage, key string) (string, bool) {
	content, ok := acceptedContent(answer)
	if !ok {
		return "", false
	}
	var s string
	if json.Unmarshal(content[key], &s) == nil && s != "" {
		return s, true
	}
	for _, v := range content {
		if json.Unmarshal(v, &s) == nil {
			return s, true
		}
	}
	return "", false
}

func textResult(text string) json.RawMessage {
	return object("content", []any{map[string]string{"type": "text", "text": text}})
}

func toolError(text string) json.RawMessage {
	return object("content", []any{map[string]string{"type": "text", "text": text}}, "isError", true)
}

// cancelledError marks a run that ended early. Only a closing server sends it:
// a cancelled call gets no response and a cancelled task keeps its status.
func cancelledError(err error) *RPCError { return rpcErrorf(CodeInternal, "cancelled: %v", err) }

// wait sleeps for d, or returns the context's error.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
