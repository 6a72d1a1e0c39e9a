package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"peers/play"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// peer is the client and its user.
type peer struct {
	*client.Client
	play.User
	modern bool
	files  []mcp.Root // protected by Mu
}

func run(ctx context.Context, url string, modern bool) error {
	p := &peer{
		modern: modern, files: []mcp.Root{{URI: "file:///one", Name: "one"}},
		User: play.User{Action: "accept", Changed: map[string]bool{}, Updated: map[string]bool{}},
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
		client.WithProtocolVersion(play.Version(modern)),
		client.WithElicitationHandler(p), client.WithSamplingHandler(p), client.WithRootsHandler(p),
	)
	p.OnNotification(p.notified)
	p.OnConnectionLost(func(err error) { play.Step("lost", fields{"message": err.Error()}) })
	if err := p.Start(ctx); err != nil {
		return err
	}
	defer p.Close()
	var request mcp.InitializeRequest
	request.Params.ProtocolVersion = play.Version(modern)
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
		play.Do(ctx, f.name, f.run)
	}
	return nil
}

func (p *peer) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	action, content, err := p.Answer(r.Params.Mode, r.Params.Message, r.Params.URL, r.Params.RequestedSchema)
	answer := mcp.ElicitationResponse{Action: mcp.ElicitationResponseAction(action)}
	if content != nil {
		answer.Content = content
	}
	return &mcp.ElicitationResult{ElicitationResponse: answer}, err
}

func (p *peer) CreateMessage(_ context.Context, r mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
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
		p.Sampled = append(p.Sampled, fmt.Sprintf("%s (%s, %d)", last.Text, r.CreateMessageParams.SystemPrompt, r.CreateMessageParams.MaxTokens))
		return answer("endTurn", mcp.NewTextContent("something"))
	case last.Type == "text":
		p.Sampled = append(p.Sampled, "text with "+strings.Join(names, ","))
		return answer("toolUse", mcp.ToolUseContent{Type: "tool_use", ID: "use-1", Name: "lookup", Input: fields{"key": "k"}})
	}
	p.Sampled = append(p.Sampled, last.Type+" with "+strings.Join(names, ","))
	return answer("endTurn", mcp.NewTextContent("it is "+last.Content[0].Text))
}

func (p *peer) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return &mcp.ListRootsResult{Roots: slices.Clone(p.files)}, nil
}

func (p *peer) notified(n mcp.JSONRPCNotification) {
	more := n.Params.AdditionalFields
	if n.Method == "notifications/progress" {
		p.Note(fmt.Sprintf("%v/%v %v", more["progress"], more["total"], more["message"]))
		return
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	switch n.Method {
	case "notifications/message":
		p.Logs = append(p.Logs, fmt.Sprintf("%v %v: %v", more["level"], more["logger"], more["data"]))
	case "notifications/resources/updated":
		p.Updated[fmt.Sprint(more["uri"])] = true
	default:
		if kind, ok := strings.CutSuffix(strings.TrimPrefix(n.Method, "notifications/"), "/list_changed"); ok {
			p.Changed[kind] = true
		}
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

func (p *peer) askingTool(name string) func(context.Context) (fields, error) {
	return func(ctx context.Context) (fields, error) {
		return p.Asking(func() (string, any, error) {
			r, err := p.tool(ctx, name, nil, nil)
			if err != nil {
				return "", nil, err
			}
			return words(r.Content), r.StructuredContent, nil
		})
	}
}

// touched has the server change everything.
func (p *peer) touched(ctx context.Context) func() error {
	return func() error {
		_, err := p.tool(ctx, "touch", nil, nil)
		return err
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
