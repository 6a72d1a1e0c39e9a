package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"peers/play"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// features is the server: the same tools, prompts and resources in either era.
// A legacy one asks the client by requests, a modern one by input_required.
type features struct {
	*mcp.Server
	modern    bool
	cancelled sync.Map // ids of `wait` calls that were cancelled
}

func newFeatures(modern bool) *features {
	s := &features{modern: modern}
	s.Server = mcp.NewServer(&mcp.Implementation{Name: "features", Version: "1.0.0"}, &mcp.ServerOptions{
		SupportedProtocolVersions: []string{play.Version(modern)},
		Instructions:              "A server with every feature.",
		PageSize:                  2,
		CompletionHandler:         complete,
		SubscribeHandler:          func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler:        func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		Capabilities: &mcp.ServerCapabilities{
			Logging: &mcp.LoggingCapabilities{}, Completions: &mcp.CompletionCapabilities{},
			Tools: &mcp.ToolCapabilities{ListChanged: true}, Prompts: &mcp.PromptCapabilities{ListChanged: true},
			Resources: &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
		},
	})
	for _, t := range s.tools() {
		s.AddTool(t.tool, t.run)
	}
	s.prompts()
	s.resources()
	return s
}

func handler(modern bool) http.Handler {
	s := newFeatures(modern)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.Server }, &mcp.StreamableHTTPOptions{Stateless: modern, PropagateRequestCancellation: true})
}

type tool struct {
	tool *mcp.Tool
	run  mcp.ToolHandler
}

func object(properties fields) fields {
	if properties == nil {
		return fields{"type": "object"}
	}
	return fields{"type": "object", "properties": properties, "required": slices.Sorted(maps.Keys(properties))}
}

var (
	number = fields{"type": "number"}
	word   = fields{"type": "string"}
)

func says(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

type toolArgs struct {
	A, B  float64
	Steps int
	ID    string
}

func (s *features) tools() []tool {
	plain := func(name string, properties fields, run func(context.Context, *mcp.CallToolRequest, toolArgs) (*mcp.CallToolResult, error)) tool {
		return tool{&mcp.Tool{Name: name, Description: "The tool " + name, InputSchema: object(properties)}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var args toolArgs
			if err := json.Unmarshal(r.Params.Arguments, &args); err != nil && len(r.Params.Arguments) > 0 {
				return nil, err
			}
			return run(ctx, r, args)
		}}
	}
	add := plain("add", fields{"a": number, "b": number}, func(_ context.Context, _ *mcp.CallToolRequest, args toolArgs) (*mcp.CallToolResult, error) {
		r := says("%g", args.A+args.B)
		r.StructuredContent = fields{"sum": args.A + args.B}
		return r, nil
	})
	add.tool.Title, add.tool.OutputSchema = "Addition", object(fields{"sum": number})
	add.tool.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}
	add.tool.Icons = []mcp.Icon{{Source: "data:image/png;base64,iVBORw0KGgo=", MIMEType: "image/png", Sizes: []string{"16x16"}}}
	asks := func(name string, run func(a *asking) (*mcp.CallToolResult, error)) tool {
		return plain(name, nil, func(ctx context.Context, r *mcp.CallToolRequest, _ toolArgs) (*mcp.CallToolResult, error) {
			a := &asking{ctx: ctx, s: s, session: r.Session, got: r.Params.InputResponses, state: r.Params.RequestState}
			result, err := run(a)
			if errors.Is(err, errAsked) {
				return &mcp.CallToolResult{InputRequests: a.ask, RequestState: a.next}, nil
			}
			return result, err
		})
	}
	return append([]tool{
		add,
		plain("fail", nil, func(context.Context, *mcp.CallToolRequest, toolArgs) (*mcp.CallToolResult, error) {
			r := says("failed on purpose")
			r.IsError = true
			return r, nil
		}),
		plain("contents", nil, func(context.Context, *mcp.CallToolRequest, toolArgs) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{
				&mcp.TextContent{Text: "words", Annotations: &mcp.Annotations{Audience: []mcp.Role{"user"}, Priority: 0.5}},
				&mcp.ImageContent{Data: []byte("image"), MIMEType: "image/png"},
				&mcp.AudioContent{Data: []byte("audio"), MIMEType: "audio/wav"},
				&mcp.ResourceLink{URI: "peer://note", Name: "note"},
				&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "peer://note", MIMEType: "text/plain", Text: "a note"}},
			}}, nil
		}),
		plain("progress", fields{"steps": fields{"type": "integer"}}, progress),
		plain("wait", fields{"id": word}, s.wait),
		plain("cancelled", fields{"id": word}, func(_ context.Context, _ *mcp.CallToolRequest, args toolArgs) (*mcp.CallToolResult, error) {
			if _, ok := s.cancelled.Load(args.ID); ok {
				return says("yes"), nil
			}
			return says("no"), nil
		}),
		plain("log", nil, func(ctx context.Context, r *mcp.CallToolRequest, _ toolArgs) (*mcp.CallToolResult, error) {
			for _, level := range []mcp.LoggingLevel{"debug", "info", "error"} {
				if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: level, Logger: "features", Data: "a line of level " + string(level)}); err != nil {
					return nil, err
				}
			}
			return says("logged"), nil
		}),
		plain("touch", nil, func(ctx context.Context, _ *mcp.CallToolRequest, _ toolArgs) (*mcp.CallToolResult, error) {
			// To add what is there already is a change to the SDK.
			s.AddTool(add.tool, add.run)
			s.prompts()
			s.resources()
			return says("touched"), s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "peer://note"})
		}),
	}, askingTools(asks)...)
}

func progress(ctx context.Context, r *mcp.CallToolRequest, args toolArgs) (*mcp.CallToolResult, error) {
	for i := range args.Steps {
		if token := r.Params.GetProgressToken(); token != nil {
			note := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Total: float64(args.Steps), Message: fmt.Sprintf("step %d", i+1)}
			if err := r.Session.NotifyProgress(ctx, note); err != nil {
				return nil, err
			}
		}
		time.Sleep(30 * time.Millisecond)
	}
	return says("%d steps", args.Steps), nil
}

func (s *features) wait(ctx context.Context, r *mcp.CallToolRequest, args toolArgs) (*mcp.CallToolResult, error) {
	if token := r.Params.GetProgressToken(); token != nil {
		if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1}); err != nil {
			return nil, err
		}
	}
	select {
	case <-ctx.Done():
		s.cancelled.Store(args.ID, true)
		return nil, ctx.Err()
	case <-time.After(20 * time.Second):
		return says("waited"), nil
	}
}

func (s *features) prompts() {
	said := func(text string) *mcp.GetPromptResult {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}
	}
	s.AddPrompt(&mcp.Prompt{Name: "hello", Description: "A greeting", Arguments: []*mcp.PromptArgument{{Name: "name", Description: "Whom", Required: true}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			result := said("Say hello to " + r.Params.Arguments["name"])
			result.Description = "A greeting"
			return result, nil
		})
	s.AddPrompt(&mcp.Prompt{Name: "plain", Description: "Without arguments"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return said("Say something"), nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "asking", Description: "Asks for a name"}, func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		a := &asking{ctx: ctx, s: s, session: r.Session, got: r.Params.InputResponses}
		answer, err := a.elicit("name", nameQuestion)
		if errors.Is(err, errAsked) {
			return &mcp.GetPromptResult{InputRequests: a.ask}, nil
		}
		if err != nil {
			return nil, err
		}
		return said(fmt.Sprintf("Say hello to %v", answer.Content["name"])), nil
	})
}

func (s *features) resources() {
	text := func(uri, text string) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: text}}}, nil
	}
	s.AddResource(&mcp.Resource{URI: "peer://note", Name: "note", Description: "A note", MIMEType: "text/plain", Size: 6},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return text(r.Params.URI, "a note")
		})
	s.AddResource(&mcp.Resource{URI: "peer://pixel", Name: "pixel", Description: "Bytes", MIMEType: "image/png"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "image/png", Blob: []byte("pixel")}}}, nil
		})
	s.AddResource(&mcp.Resource{URI: "peer://asking", Name: "asking", Description: "Asks for a name", MIMEType: "text/plain"},
		func(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			a := &asking{ctx: ctx, s: s, session: r.Session, got: r.Params.InputResponses}
			answer, err := a.elicit("name", nameQuestion)
			if errors.Is(err, errAsked) {
				return &mcp.ReadResourceResult{InputRequests: a.ask}, nil
			}
			if err != nil {
				return nil, err
			}
			return text(r.Params.URI, fmt.Sprintf("for %v", answer.Content["name"]))
		})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "peer://item/{id}", Name: "item", Description: "An item", MIMEType: "text/plain"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return text(r.Params.URI, "item "+strings.TrimPrefix(r.Params.URI, "peer://item/"))
		})
}

func complete(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	all := []string{"Ada", "Alan", "Grace"}
	if r.Params.Ref.Type == "ref/resource" {
		all = []string{"1", "10", "2"}
	}
	chosen := map[string]bool{}
	if r.Params.Context != nil {
		for _, value := range r.Params.Context.Arguments {
			chosen[value] = true
		}
	}
	values := []string{}
	for _, value := range all {
		if strings.HasPrefix(value, r.Params.Argument.Value) && !chosen[value] {
			values = append(values, value)
		}
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values, Total: len(values)}}, nil
}
