package main

import (
	"context"
	base64std "encoding/base64"
	"errors"
	"fmt"
	"peers/play"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// peer is the client and its user.
type peer struct {
	*mcp.ClientSession
	client *mcp.Client
	play.User
	modern bool
}

func newPeer(modern bool) *peer {
	p := &peer{modern: modern, User: play.User{Action: "accept"}}
	p.client = mcp.NewClient(&mcp.Implementation{Name: "gosdk-features-client", Version: "1.0.0"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			RootsV2:     &mcp.RootCapabilities{ListChanged: true},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
		},
		ElicitationHandler:            p.elicit,
		CreateMessageWithToolsHandler: p.sample,
		ToolListChangedHandler:        func(context.Context, *mcp.ToolListChangedRequest) { p.change("tools") },
		PromptListChangedHandler:      func(context.Context, *mcp.PromptListChangedRequest) { p.change("prompts") },
		ResourceListChangedHandler:    func(context.Context, *mcp.ResourceListChangedRequest) { p.change("resources") },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			p.Mu.Lock()
			defer p.Mu.Unlock()
			p.Updated[r.Params.URI] = true
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			p.Mu.Lock()
			defer p.Mu.Unlock()
			p.Logs = append(p.Logs, fmt.Sprintf("%s %s: %v", r.Params.Level, r.Params.Logger, r.Params.Data))
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			p.Note(fmt.Sprintf("%g/%g %s", r.Params.Progress, r.Params.Total, r.Params.Message))
		},
	})
	p.client.AddRoots(&mcp.Root{URI: "file:///one", Name: "one"})
	return p
}

func (p *peer) change(kind string) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.Changed != nil {
		p.Changed[kind] = true
	}
}

func (p *peer) elicit(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	action, content, err := p.Answer(r.Params.Mode, r.Params.Message, r.Params.URL, r.Params.RequestedSchema)
	return &mcp.ElicitResult{Action: action, Content: content}, err
}

func (p *peer) sample(_ context.Context, r *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	answer := func(stop string, block mcp.Content) (*mcp.CreateMessageWithToolsResult, error) {
		return &mcp.CreateMessageWithToolsResult{Model: "peer-model", Role: "assistant", StopReason: stop, Content: []mcp.Content{block}}, nil
	}
	last := r.Params.Messages[len(r.Params.Messages)-1].Content[0]
	var names []string
	for _, tool := range r.Params.Tools {
		names = append(names, tool.Name)
	}
	switch block := last.(type) {
	case *mcp.ToolResultContent:
		p.Sampled = append(p.Sampled, "tool_result with "+strings.Join(names, ","))
		return answer("endTurn", &mcp.TextContent{Text: "it is " + text(block.Content)})
	case *mcp.TextContent:
		if len(names) > 0 {
			p.Sampled = append(p.Sampled, "text with "+strings.Join(names, ","))
			return answer("toolUse", &mcp.ToolUseContent{ID: "use-1", Name: "lookup", Input: fields{"key": "k"}})
		}
		p.Sampled = append(p.Sampled, fmt.Sprintf("%s (%s, %d)", block.Text, r.Params.SystemPrompt, r.Params.MaxTokens))
	}
	return answer("endTurn", &mcp.TextContent{Text: "something"})
}

func (p *peer) tool(ctx context.Context, name string, args fields, meta mcp.Meta) (*mcp.CallToolResult, error) {
	if args == nil {
		args = fields{}
	}
	return p.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args, Meta: meta})
}

func (p *peer) askingTool(name string) func(context.Context) (fields, error) {
	return func(ctx context.Context) (fields, error) {
		return p.Asking(func() (string, any, error) {
			r, err := p.tool(ctx, name, nil, nil)
			if err != nil {
				return "", nil, err
			}
			return text(r.Content), r.StructuredContent, nil
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
	var rpc *jsonrpc.Error
	if errors.As(err, &rpc) {
		return fields{"code": rpc.Code}, nil
	}
	return fields{"message": fmt.Sprint(err)}, nil
}

func base64(data []byte) string { return base64std.StdEncoding.EncodeToString(data) }
