// Command mcpgo-client runs one scenario of an mcp-go client against a server:
//
//	mcpgo-client [-era legacy|modern|auto] [-header 'Name: value']… [-task ID] URL SCENARIO
//
// It prints one JSON object a line, the last {"ok":true} or {"ok":false,"error":…},
// and exits 0 or 1. Everything is over within 30 seconds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"peers/play"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

type fields = play.Fields

type headerFlag map[string]string

func (h headerFlag) String() string { return "" }

func (h headerFlag) Set(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("want 'Name: value', got %q", line)
	}
	h[strings.TrimSpace(name)] = strings.TrimSpace(value)
	return nil
}

// user answers every question with a form that fits it.
type user struct{}

var (
	answer = mcp.ElicitationResponseActionAccept // scenarios change it
	silent bool
	taskID string
)

func (user) Elicit(_ context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	play.Step("question", fields{"message": request.Params.Message, "mode": request.Params.Mode})
	if silent {
		select {}
	}
	if answer != mcp.ElicitationResponseActionAccept {
		return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: answer}}, nil
	}
	content := fields{}
	raw, _ := json.Marshal(request.Params.RequestedSchema)
	var schema struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(raw, &schema)
	for name, property := range schema.Properties {
		if property.Type == "boolean" {
			content[name] = true
		} else {
			content[name] = "Ada"
		}
	}
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: content,
	}}, nil
}

func (user) CreateMessage(_ context.Context, request mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	play.Step("sampling", fields{"messages": len(request.Messages)})
	return &mcp.CreateMessageResult{
		SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent("something")},
		Model:           "peer-model",
	}, nil
}

func (user) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: "file:///peer", Name: "peer"}}}, nil
}

type peer struct {
	*client.Client
	ids int64
}

var scenarios = map[string]func(context.Context, *peer) error{
	"initialize": initialize,
	"list":       list,
	"call":       func(ctx context.Context, p *peer) error { return p.call(ctx, "echo", fields{"text": "hello"}) },
	"greet":      func(ctx context.Context, p *peer) error { return p.call(ctx, "greet", fields{"name": "Ada"}) },
	"ask":        func(ctx context.Context, p *peer) error { return p.call(ctx, "ask_name", nil) },
	"optional-plain": func(ctx context.Context, p *peer) error {
		return p.call(ctx, "slow_compute", fields{"seconds": 1, "label": "plain"})
	},
	"required-plain": func(ctx context.Context, p *peer) error { return p.call(ctx, "failing_job", nil) },
	"unknown-tool":   func(ctx context.Context, p *peer) error { return p.call(ctx, "no_such_tool", nil) },
	"ping":           func(ctx context.Context, p *peer) error { return p.Ping(ctx) },
	"task": func(ctx context.Context, p *peer) error {
		return p.task(ctx, "slow_compute", fields{"seconds": 2, "label": "x"})
	},
	"failing":        func(ctx context.Context, p *peer) error { return p.task(ctx, "failing_job", nil) },
	"protocol-error": func(ctx context.Context, p *peer) error { return p.task(ctx, "protocol_error_job", nil) },
	"question": func(ctx context.Context, p *peer) error {
		return p.task(ctx, "confirm_delete", fields{"filename": "a.txt"})
	},
	"tasklist":        tasklist,
	"cancel":          cancelTask,
	"cancel-finished": cancelFinished,
	"unknown-task":    unknownTask,
	"resources":       resources,
	"prompts":         prompts,
}

// more are scenarios of tasks that are in no table of all that a client can do.
var more = map[string]func(context.Context, *peer) error{
	"task-immediate": func(ctx context.Context, p *peer) error {
		return p.task(ctx, "slow_compute", fields{"seconds": 0, "label": "now"})
	},
	"two":           func(ctx context.Context, p *peer) error { return p.task(ctx, "multi_input", nil) },
	"rounds":        func(ctx context.Context, p *peer) error { return p.task(ctx, "rounds_task", nil) },
	"sample-task":   func(ctx context.Context, p *peer) error { return p.task(ctx, "sample_task", nil) },
	"roots-task":    func(ctx context.Context, p *peer) error { return p.task(ctx, "roots_task", nil) },
	"ask-then-task": func(ctx context.Context, p *peer) error { return p.task(ctx, "test_tool_with_task", nil) },
	"slow-plain": func(ctx context.Context, p *peer) error {
		return p.task(ctx, "slow_plain", fields{"seconds": 2})
	},
	"question-decline": func(ctx context.Context, p *peer) error {
		answer = mcp.ElicitationResponseActionDecline
		return p.task(ctx, "confirm_delete", fields{"filename": "a.txt"})
	},
	"question-cancel": func(ctx context.Context, p *peer) error {
		answer = mcp.ElicitationResponseActionCancel
		return p.task(ctx, "confirm_delete", fields{"filename": "a.txt"})
	},
	"question-plain": func(ctx context.Context, p *peer) error {
		return p.call(ctx, "confirm_delete", fields{"filename": "p.txt"})
	},
	"task-result":    taskResult,
	"cancel-waiting": cancelWaiting,
	"expiry-waiting": expiryWaiting,
	"leave":          leave,
	"take-over":      func(ctx context.Context, p *peer) error { return p.result(ctx, taskID) },
}

func main() {
	headers := headerFlag{}
	era := flag.String("era", "auto", "legacy, modern or auto")
	flag.Var(headers, "header", "a header of every request")
	flag.StringVar(&taskID, "task", "", "the task that take-over takes over")
	flag.Parse()
	run := scenarios[flag.Arg(1)]
	if run == nil {
		run = more[flag.Arg(1)]
	}
	if flag.NArg() != 2 || run == nil {
		fmt.Fprintf(os.Stderr, "usage: mcpgo-client [-era legacy|modern|auto] [-header 'Name: value']… [-task ID] URL SCENARIO\nmore: %s\nscenarios: %s\n",
			strings.Join(slices.Sorted(maps.Keys(more)), " "),
			strings.Join(slices.Sorted(maps.Keys(scenarios)), " "))
		os.Exit(2)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	play.End(execute(ctx, flag.Arg(0), *era, headers, run))
}

func execute(ctx context.Context, url, era string, headers headerFlag, run func(context.Context, *peer) error) error {
	options := []client.ClientOption{client.WithElicitationHandler(user{})}
	if more[flag.Arg(1)] != nil {
		options = append(options, client.WithSamplingHandler(user{}), client.WithRootsHandler(user{}))
	}
	httpOptions := []transport.StreamableHTTPCOption{
		transport.WithHTTPHeaders(headers),
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
	}
	switch era {
	case "legacy":
		options = append(options, client.WithProtocolVersion("2025-11-25"))
		// The GET stream, where server requests and notifications arrive; it rules the modern era out.
		httpOptions = append(httpOptions, transport.WithContinuousListening())
	case "modern":
		options = append(options, client.WithProtocolVersion("2026-07-28"))
	case "auto":
	default:
		return fmt.Errorf("-era: want legacy, modern or auto, got %q", era)
	}
	tr, err := transport.NewStreamableHTTP(url, httpOptions...)
	if err != nil {
		return err
	}
	p := &peer{Client: client.NewClient(tr, options...), ids: 1_000_000}
	if err := p.Start(ctx); err != nil {
		return err
	}
	defer p.Close()
	var request mcp.InitializeRequest
	request.Params.ClientInfo = mcp.Implementation{Name: "mcpgo-peer-client", Version: "1.0.0"}
	if _, err := p.Initialize(ctx, request); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	return run(ctx, p)
}

func initialize(_ context.Context, p *peer) error {
	capabilities := p.GetServerCapabilities()
	play.Step("initialize", fields{
		"protocolVersion": p.ProtocolVersion(),
		"session":         p.GetSessionId() != "",
		"tasks":           capabilities.Tasks != nil,
		"tools":           capabilities.Tools != nil,
		"extensions":      slices.Sorted(maps.Keys(capabilities.Extensions)),
	})
	return nil
}

func list(ctx context.Context, p *peer) error {
	result, err := p.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return err
	}
	for _, tool := range result.Tools {
		var support any
		if tool.Execution != nil {
			support = tool.Execution.TaskSupport
		}
		play.Step("tool", fields{"name": tool.Name, "taskSupport": support})
	}
	play.Step("list", fields{"count": len(result.Tools)})
	return nil
}

func text(content []mcp.Content) string {
	var parts []string
	for _, block := range content {
		if t, ok := block.(mcp.TextContent); ok {
			parts = append(parts, t.Text)
		} else {
			parts = append(parts, fmt.Sprintf("[%T]", block))
		}
	}
	return strings.Join(parts, "\n")
}

func (p *peer) call(ctx context.Context, tool string, arguments fields) error {
	var request mcp.CallToolRequest
	request.Params.Name = tool
	if arguments != nil {
		request.Params.Arguments = arguments
	}
	result, err := p.CallTool(ctx, request)
	if err != nil {
		play.Step("error", fields{"error": err.Error()})
		return nil
	}
	play.Step("result", fields{"text": text(result.Content), "isError": result.IsError, "structured": result.StructuredContent})
	return nil
}

// create makes a task. The client's CallTool parses no CreateTaskResult, so the
// request goes through the transport.
func (p *peer) create(ctx context.Context, tool string, arguments fields) (mcp.Task, error) {
	params := fields{"name": tool, "task": fields{"ttl": 60_000}}
	if arguments != nil {
		params["arguments"] = arguments
	}
	p.ids++
	response, err := p.GetTransport().SendRequest(ctx, transport.JSONRPCRequest{
		JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(p.ids), Method: string(mcp.MethodToolsCall), Params: params,
	})
	if err != nil {
		return mcp.Task{}, err
	}
	if response.Error != nil {
		return mcp.Task{}, fmt.Errorf("%d: %s", response.Error.Code, response.Error.Message)
	}
	var created struct {
		Task mcp.Task `json:"task"`
	}
	if err := json.Unmarshal(response.Result, &created); err != nil {
		return mcp.Task{}, err
	}
	if created.Task.TaskId == "" {
		return mcp.Task{}, fmt.Errorf("no task in %s", response.Result)
	}
	return created.Task, nil
}

func (p *peer) get(ctx context.Context, id string) (*mcp.GetTaskResult, error) {
	return p.GetTask(ctx, mcp.GetTaskRequest{Params: mcp.GetTaskParams{TaskId: id}})
}

func (p *peer) cancel(ctx context.Context, id string) (*mcp.CancelTaskResult, error) {
	return p.CancelTask(ctx, mcp.CancelTaskRequest{Params: mcp.CancelTaskParams{TaskId: id}})
}

// poll polls to the end, or to input_required, where tasks/result has to be opened.
func (p *peer) poll(ctx context.Context, task mcp.Task) (statuses []string, last mcp.Task, err error) {
	for last = task; ; {
		if status := string(last.Status); len(statuses) == 0 || statuses[len(statuses)-1] != status {
			statuses = append(statuses, status)
		}
		if last.Status.IsTerminal() || last.Status == mcp.TaskStatusInputRequired {
			return statuses, last, nil
		}
		interval := 200 * time.Millisecond
		if last.PollInterval != nil {
			interval = max(50*time.Millisecond, time.Duration(*last.PollInterval)*time.Millisecond)
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return statuses, last, ctx.Err()
		}
		result, err := p.get(ctx, task.TaskId)
		if err != nil {
			return statuses, last, err
		}
		last = result.Task
	}
}

func (p *peer) task(ctx context.Context, tool string, arguments fields) error {
	task, err := p.create(ctx, tool, arguments)
	if err != nil {
		play.Step("error", fields{"error": err.Error()})
		return nil
	}
	play.Step("created", fields{"status": task.Status, "ttl": task.TTL, "pollInterval": task.PollInterval})
	statuses, last, err := p.poll(ctx, task)
	if err != nil {
		return err
	}
	play.Step("polled", fields{"statuses": statuses, "message": last.StatusMessage})
	return p.result(ctx, task.TaskId)
}

// result waits for the end of a task.
func (p *peer) result(ctx context.Context, id string) error {
	result, err := p.TaskResult(ctx, mcp.TaskResultRequest{Params: mcp.TaskResultParams{TaskId: id}})
	if err != nil {
		play.Step("error", fields{"error": err.Error()})
		return nil
	}
	play.Step("result", fields{"text": text(result.Content), "isError": result.IsError})
	return nil
}

// taskResult asks for the result at once: it has to block until the end.
func taskResult(ctx context.Context, p *peer) error {
	task, err := p.create(ctx, "slow_compute", fields{"seconds": 1, "label": "blocked"})
	if err != nil {
		return err
	}
	started := time.Now()
	if err := p.result(ctx, task.TaskId); err != nil {
		return err
	}
	play.Step("waited", fields{"blocked": time.Since(started) > 500*time.Millisecond})
	return p.result(ctx, task.TaskId)
}

func cancelWaiting(ctx context.Context, p *peer) error {
	task, err := p.create(ctx, "slow_compute", fields{"seconds": 60, "label": "w"})
	if err != nil {
		return err
	}
	ended := make(chan error)
	go func() { ended <- p.result(ctx, task.TaskId) }()
	time.Sleep(300 * time.Millisecond)
	if _, err := p.cancel(ctx, task.TaskId); err != nil {
		return err
	}
	return <-ended
}

// expiryWaiting waits for a task whose question nobody answers.
func expiryWaiting(ctx context.Context, p *peer) error {
	silent = true
	task, err := p.create(ctx, "confirm_delete", fields{"filename": "e.txt"})
	if err != nil {
		return err
	}
	if err := p.result(ctx, task.TaskId); err != nil {
		return err
	}
	_, err = p.get(ctx, task.TaskId)
	play.Step("get", fields{"error": fmt.Sprint(err), "invalidParams": errors.Is(err, mcp.ErrInvalidParams)})
	return nil
}

// leave waits in front of a question until somebody kills it.
func leave(ctx context.Context, p *peer) error {
	silent = true
	task, err := p.create(ctx, "confirm_delete", fields{"filename": "k.txt"})
	if err != nil {
		return err
	}
	play.Step("task", fields{"id": task.TaskId})
	return p.result(ctx, task.TaskId)
}

func tasklist(ctx context.Context, p *peer) error {
	task, err := p.create(ctx, "slow_compute", fields{"seconds": 5, "label": "listed"})
	if err != nil {
		return err
	}
	result, err := p.ListTasks(ctx, mcp.ListTasksRequest{})
	if err != nil {
		return err
	}
	found := slices.ContainsFunc(result.Tasks, func(other mcp.Task) bool { return other.TaskId == task.TaskId })
	play.Step("tasklist", fields{"count": len(result.Tasks), "found": found})
	_, err = p.cancel(ctx, task.TaskId)
	return err
}

func cancelTask(ctx context.Context, p *peer) error {
	task, err := p.create(ctx, "slow_compute", fields{"seconds": 60, "label": "c"})
	if err != nil {
		return err
	}
	cancelled, err := p.cancel(ctx, task.TaskId)
	if err != nil {
		return err
	}
	play.Step("cancelled", fields{"status": cancelled.Status, "sameTask": cancelled.TaskId == task.TaskId})
	after, err := p.get(ctx, task.TaskId)
	if err != nil {
		return err
	}
	play.Step("after", fields{"status": after.Status})
	return nil
}

func cancelFinished(ctx context.Context, p *peer) error {
	task, err := p.create(ctx, "slow_compute", fields{"seconds": 0, "label": "f"})
	if err != nil {
		return err
	}
	statuses, _, err := p.poll(ctx, task)
	if err != nil {
		return err
	}
	play.Step("polled", fields{"statuses": statuses})
	if _, err = p.cancel(ctx, task.TaskId); err == nil {
		return errors.New("a finished task was cancelled")
	}
	play.Step("cancel", fields{"error": err.Error(), "invalidParams": errors.Is(err, mcp.ErrInvalidParams)})
	return nil
}

func unknownTask(ctx context.Context, p *peer) error {
	_, err := p.get(ctx, "no-such-task")
	if err == nil {
		return errors.New("an unknown task was found")
	}
	play.Step("get", fields{"error": err.Error(), "invalidParams": errors.Is(err, mcp.ErrInvalidParams)})
	return nil
}

func resources(ctx context.Context, p *peer) error {
	result, err := p.ListResources(ctx, mcp.ListResourcesRequest{})
	if err != nil {
		return err
	}
	var uris []string
	for _, resource := range result.Resources {
		uris = append(uris, resource.URI)
	}
	play.Step("list", fields{"uris": uris})
	read, err := p.ReadResource(ctx, mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: "peer://note"}})
	if err != nil {
		return err
	}
	if contents, ok := read.Contents[0].(mcp.TextResourceContents); ok {
		play.Step("read", fields{"text": contents.Text})
	}
	return nil
}

func prompts(ctx context.Context, p *peer) error {
	var request mcp.GetPromptRequest
	request.Params.Name = "hello"
	request.Params.Arguments = map[string]string{"name": "Ada"}
	result, err := p.GetPrompt(ctx, request)
	if err != nil {
		return err
	}
	if t, ok := result.Messages[0].Content.(mcp.TextContent); ok {
		play.Step("get", fields{"text": t.Text})
	}
	return nil
}
