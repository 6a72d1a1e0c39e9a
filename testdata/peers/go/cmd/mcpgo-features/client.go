package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// peer is the client and its user.
type peer struct {
	*client.Client
	modern bool

	mu       sync.Mutex // protects the fields below
	action   mcp.ElicitationResponseAction
	files    []mcp.Root
	asked    []string
	sampled  []string
	logs     []string
	changed  map[string]bool
	updated  map[string]bool
	progress []string
	onNote   func()
}

func run(ctx context.Context, url string, modern bool) error {
	p := &peer{
		modern: modern, action: mcp.ElicitationResponseActionAccept, files: []mcp.Root{{URI: "file:///one", Name: "one"}},
		changed: map[string]bool{}, updated: map[string]bool{},
	}
	options := []transport.StreamableHTTPCOption{transport.WithHTTPLogger(slog.New(slog.DiscardHandler))}
	if !modern {
		options = append(options, transport.WithContinuousListening()) // the GET stream
	}
	tr, err := transport.NewStreamableHTTP(url, options...)
	if err != nil {
		return err
	}
	p.Client = client.NewClient(tr,
		client.WithProtocolVersion(version(modern)),
		client.WithElicitationHandler(p), client.WithSamplingHandler(p), client.WithRootsHandler(p),
	)
	p.OnNotification(p.notified)
	p.OnConnectionLost(func(err error) { printLine(fields{"step": "lost", "message": err.Error()}) })
	if err := p.Start(ctx); err != nil {
		return err
	}
	defer p.Close()
	var request mcp.InitializeRequest
	request.Params.ProtocolVersion = version(modern)
	request.Params.ClientInfo = mcp.Implementation{Name: "mcpgo-features-client", Version: "1.0.0"}
	request.Params.Capabilities = mcp.ClientCapabilities{
		Sampling:    &mcp.SamplingCapability{Tools: &struct{}{}},
		Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}},
	}
	init, err := p.Initialize(ctx, request)
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	for _, f := range p.features(init) {
		result, err := f.run(ctx)
		if err != nil {
			result = fields{"message": err.Error()}
		}
		if result == nil {
			continue
		}
		result["step"] = f.name
		printLine(result)
	}
	return nil
}

func (p *peer) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := func(content any) (*mcp.ElicitationResult, error) {
		return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: p.action, Content: content}}, nil
	}
	if r.Params.Mode == "url" {
		p.asked = append(p.asked, r.Params.Message+": "+r.Params.URL)
		return answer(nil)
	}
	p.asked = append(p.asked, r.Params.Message)
	if p.action != mcp.ElicitationResponseActionAccept {
		return answer(nil)
	}
	raw, _ := json.Marshal(r.Params.RequestedSchema)
	var schema struct {
		Properties map[string]struct{ Default any }
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, err
	}
	content := fields{}
	for name, property := range schema.Properties {
		content[name] = property.Default
		if property.Default == nil {
			content[name] = map[string]string{"name": "Ada", "colour": "green"}[name]
		}
	}
	return answer(content)
}

func (p *peer) CreateMessage(_ context.Context, r mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := func(stop string, content any) (*mcp.CreateMessageResult, error) {
		return &mcp.CreateMessageResult{SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: content}, Model: "peer-model", StopReason: stop}, nil
	}
	raw, err := json.Marshal(r.CreateMessageParams.Messages[len(r.CreateMessageParams.Messages)-1].Content)
	if err != nil {
		return nil, err
	}
	var last struct {
		Type, Text string
		Content    []struct{ Text string }
	}
	if err := json.Unmarshal(raw, &last); err != nil {
		return nil, err
	}
	var names []string
	for _, tool := range r.CreateMessageParams.Tools {
		names = append(names, tool.Name)
	}
	switch {
	case len(names) == 0:
		p.sampled = append(p.sampled, fmt.Sprintf("%s (%s, %d)", last.Text, r.CreateMessageParams.SystemPrompt, r.CreateMessageParams.MaxTokens))
		return answer("endTurn", mcp.NewTextContent("something"))
	case last.Type == "text":
		p.sampled = append(p.sampled, "text with "+strings.Join(names, ","))
		return answer("toolUse", mcp.ToolUseContent{Type: "tool_use", ID: "use-1", Name: "lookup", Input: fields{"key": "k"}})
	}
	p.sampled = append(p.sampled, last.Type+" with "+strings.Join(names, ","))
	return answer("endTurn", mcp.NewTextContent("it is "+last.Content[0].Text))
}

func (p *peer) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &mcp.ListRootsResult{Roots: slices.Clone(p.files)}, nil
}

func (p *peer) notified(n mcp.JSONRPCNotification) {
	p.mu.Lock()
	more := n.Params.AdditionalFields
	var note func()
	switch n.Method {
	case "notifications/message":
		p.logs = append(p.logs, fmt.Sprintf("%v %v: %v", more["level"], more["logger"], more["data"]))
	case "notifications/resources/updated":
		p.updated[fmt.Sprint(more["uri"])] = true
	case "notifications/progress":
		p.progress = append(p.progress, fmt.Sprintf("%v/%v %v", more["progress"], more["total"], more["message"]))
		note = p.onNote
	default:
		if kind, ok := strings.CutSuffix(strings.TrimPrefix(n.Method, "notifications/"), "/list_changed"); ok {
			p.changed[kind] = true
		}
	}
	p.mu.Unlock()
	if note != nil {
		note()
	}
}

// until waits, 5 seconds at most.
func (p *peer) until(holds func() bool) {
	for range 100 {
		p.mu.Lock()
		ok := holds()
		p.mu.Unlock()
		if ok {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (p *peer) tool(ctx context.Context, name string, args fields, meta *mcp.Meta) (*mcp.CallToolResult, error) {
	if args == nil {
		args = fields{}
	}
	var request mcp.CallToolRequest
	request.Params.Name, request.Params.Arguments, request.Params.Meta = name, args, meta
	return p.CallTool(ctx, request)
}

// asking runs what may ask and tells what was asked.
func (p *peer) asking(run func() (string, any, error)) (fields, error) {
	p.mu.Lock()
	p.asked, p.sampled = []string{}, nil
	p.mu.Unlock()
	said, structured, err := run()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	result := fields{"text": said, "asked": p.asked}
	if p.sampled != nil {
		result["sampled"] = p.sampled
	}
	if structured != nil {
		result["structured"] = structured
	}
	return result, nil
}

func (p *peer) askingTool(name string) func(context.Context) (fields, error) {
	return func(ctx context.Context) (fields, error) {
		return p.asking(func() (string, any, error) {
			r, err := p.tool(ctx, name, nil, nil)
			if err != nil {
				return "", nil, err
			}
			return words(r.Content), r.StructuredContent, nil
		})
	}
}

// refused gives the error's code.
func refused(err error) (fields, error) {
	for code, known := range map[int]error{-32602: mcp.ErrInvalidParams, -32002: mcp.ErrResourceNotFound, -32601: mcp.ErrMethodNotFound, -32603: mcp.ErrInternalError} {
		if errors.Is(err, known) {
			return fields{"code": code}, nil
		}
	}
	return fields{"message": fmt.Sprint(err)}, nil
}

func sorted(set map[string]bool) []string {
	return append([]string{}, slices.Sorted(maps.Keys(set))...)
}

// touch has the server change everything; the user sees what comes of it.
func (p *peer) touch(ctx context.Context) (changed, updated []string, err error) {
	p.mu.Lock()
	p.changed, p.updated = map[string]bool{}, map[string]bool{}
	p.mu.Unlock()
	if _, err := p.tool(ctx, "touch", nil, nil); err != nil {
		return nil, nil, err
	}
	p.until(func() bool { return len(p.changed) == 3 })
	time.Sleep(100 * time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	return sorted(p.changed), sorted(p.updated), nil
}
