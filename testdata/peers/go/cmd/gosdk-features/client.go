package main

import (
	"context"
	base64std "encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// peer is the client and its user.
type peer struct {
	*mcp.ClientSession
	client *mcp.Client
	modern bool

	mu       sync.Mutex // protects the fields below
	action   string
	asked    []string
	sampled  []string
	logs     []string
	changed  map[string]bool
	updated  map[string]bool
	progress []string
	onNote   func()
}

func newPeer(modern bool) *peer {
	p := &peer{modern: modern, action: "accept"}
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
			p.mu.Lock()
			defer p.mu.Unlock()
			p.updated[r.Params.URI] = true
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.logs = append(p.logs, fmt.Sprintf("%s %s: %v", r.Params.Level, r.Params.Logger, r.Params.Data))
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			p.mu.Lock()
			p.progress = append(p.progress, fmt.Sprintf("%g/%g %s", r.Params.Progress, r.Params.Total, r.Params.Message))
			note := p.onNote
			p.mu.Unlock()
			if note != nil {
				note()
			}
		},
	})
	p.client.AddRoots(&mcp.Root{URI: "file:///one", Name: "one"})
	return p
}

func (p *peer) change(kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed != nil {
		p.changed[kind] = true
	}
}

func (p *peer) elicit(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Params.Mode == "url" {
		p.asked = append(p.asked, r.Params.Message+": "+r.Params.URL)
		return &mcp.ElicitResult{Action: p.action}, nil
	}
	p.asked = append(p.asked, r.Params.Message)
	if p.action != "accept" {
		return &mcp.ElicitResult{Action: p.action}, nil
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
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}

func (p *peer) sample(_ context.Context, r *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
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
		p.sampled = append(p.sampled, "tool_result with "+strings.Join(names, ","))
		return answer("endTurn", &mcp.TextContent{Text: "it is " + text(block.Content)})
	case *mcp.TextContent:
		if len(names) > 0 {
			p.sampled = append(p.sampled, "text with "+strings.Join(names, ","))
			return answer("toolUse", &mcp.ToolUseContent{ID: "use-1", Name: "lookup", Input: fields{"key": "k"}})
		}
		p.sampled = append(p.sampled, fmt.Sprintf("%s (%s, %d)", block.Text, r.Params.SystemPrompt, r.Params.MaxTokens))
	}
	return answer("endTurn", &mcp.TextContent{Text: "something"})
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

func (p *peer) tool(ctx context.Context, name string, args fields, meta mcp.Meta) (*mcp.CallToolResult, error) {
	if args == nil {
		args = fields{}
	}
	return p.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args, Meta: meta})
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
			return text(r.Content), r.StructuredContent, nil
		})
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

func base64(data []byte) string { return base64std.StdEncoding.EncodeToString(data) }
