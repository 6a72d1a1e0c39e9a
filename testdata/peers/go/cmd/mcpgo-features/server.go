package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"peers/play"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// features is the server. mcp-go has one handler for both eras: it asks legacy
// clients by requests of its own.
type features struct {
	*server.MCPServer
	modern    bool
	cancelled sync.Map // ids of `wait` calls that were cancelled

	mu       sync.Mutex                      // protects the field below
	watching map[string]server.ClientSession // of peer://note, by session
}

const note = "peer://note"

func handler(modern bool) http.Handler {
	s := &features{modern: modern, watching: map[string]server.ClientSession{}}
	s.MCPServer = server.NewMCPServer("features", "1.0.0",
		server.WithInstructions("A server with every feature."),
		server.WithToolCapabilities(true), server.WithPromptCapabilities(true), server.WithResourceCapabilities(true, true),
		server.WithLogging(), server.WithCompletions(), server.WithElicitation(), server.WithRoots(),
		server.WithPromptCompletionProvider(completer{}), server.WithResourceCompletionProvider(completer{}),
		server.WithPaginationLimit(2), server.WithHooks(s.hooks()),
	)
	s.EnableSampling()
	s.tools()
	s.prompts()
	s.resources()
	return server.NewStreamableHTTPServer(s.MCPServer, server.WithStreamableHTTPProtocolVersions(play.Version(modern)), server.WithStateful(!modern))
}

// hooks keep the subscriptions, which the SDK's HTTP sessions do not.
func (s *features) hooks() *server.Hooks {
	hooks := new(server.Hooks)
	watch := func(ctx context.Context, on bool) {
		session := server.ClientSessionFromContext(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.watching, session.SessionID()); on {
			s.watching[session.SessionID()] = session
		}
	}
	hooks.AddBeforeSubscribe(func(ctx context.Context, _ any, r *mcp.SubscribeRequest) { watch(ctx, r.Params.URI == note) })
	hooks.AddBeforeUnsubscribe(func(ctx context.Context, _ any, _ *mcp.UnsubscribeRequest) { watch(ctx, false) })
	hooks.AddBeforeAny(func(ctx context.Context, _ any, _ mcp.MCPMethod, message any) {
		if r, ok := message.(*mcp.SubscriptionsListenRequest); ok && slices.Contains(r.Params.Notifications.ResourceSubscriptions, note) {
			watch(ctx, true)
		}
	})
	return hooks
}

func (s *features) touch(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	s.mu.Lock()
	for _, session := range s.watching {
		updated := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
			Method: mcp.MethodNotificationResourceUpdated, Params: mcp.NotificationParams{AdditionalFields: fields{"uri": note}},
		}}
		select {
		case session.NotificationChannel() <- updated:
		default:
		}
	}
	s.mu.Unlock()
	for _, kind := range []string{"tools", "prompts", "resources"} {
		s.SendNotificationToAllClients("notifications/"+kind+"/list_changed", nil)
	}
	time.Sleep(100 * time.Millisecond) // what is left when this call's stream ends is lost
	return mcp.NewToolResultText("touched"), nil
}

func (s *features) tools() {
	plain := func(name string, run server.ToolHandlerFunc, options ...mcp.ToolOption) {
		s.AddTool(mcp.NewTool(name, append([]mcp.ToolOption{mcp.WithDescription("The tool " + name)}, options...)...), run)
	}
	add := mcp.NewTool("add", mcp.WithDescription("The tool add"), mcp.WithNumber("a", mcp.Required()), mcp.WithNumber("b", mcp.Required()),
		mcp.WithTitleAnnotation("Addition"), mcp.WithReadOnlyHintAnnotation(true), mcp.WithIdempotentHintAnnotation(true))
	add.Title = "Addition"
	add.RawOutputSchema = json.RawMessage(`{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}`)
	add.Icons = []mcp.Icon{{Src: "data:image/png;base64,iVBORw0KGgo=", MIMEType: "image/png", Sizes: []string{"16x16"}}}
	s.AddTool(add, func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		sum := r.GetFloat("a", 0) + r.GetFloat("b", 0)
		return mcp.NewToolResultStructured(fields{"sum": sum}, fmt.Sprint(sum)), nil
	})
	plain("fail", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultError("failed on purpose"), nil
	})
	plain("contents", contents)
	plain("progress", progress, mcp.WithNumber("steps", mcp.Required()))
	plain("wait", s.wait, mcp.WithString("id", mcp.Required()))
	plain("cancelled", func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if _, ok := s.cancelled.Load(r.GetString("id", "")); ok {
			return mcp.NewToolResultText("yes"), nil
		}
		return mcp.NewToolResultText("no"), nil
	}, mcp.WithString("id", mcp.Required()))
	plain("log", func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for _, level := range []mcp.LoggingLevel{"debug", "info", "error"} {
			line := mcp.NewLoggingMessageNotification(level, "features", "a line of level "+string(level))
			if err := s.SendLogMessageToClient(ctx, line); err != nil {
				return nil, err
			}
			// Each goes on whichever stream is open, where nothing orders them.
			time.Sleep(100 * time.Millisecond)
		}
		return mcp.NewToolResultText("logged"), nil
	})
	plain("touch", s.touch)
	for name, run := range askingTools {
		plain(name, run)
	}
}

func contents(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	words := mcp.NewTextContent("words")
	priority := 0.5
	words.Annotations = &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}, Priority: &priority}
	return &mcp.CallToolResult{Content: []mcp.Content{
		words,
		mcp.NewImageContent("aW1hZ2U=", "image/png"),
		mcp.NewAudioContent("YXVkaW8=", "audio/wav"),
		mcp.NewResourceLink(note, "note", "", ""),
		mcp.NewEmbeddedResource(mcp.TextResourceContents{URI: note, MIMEType: "text/plain", Text: "a note"}),
	}}, nil
}

func notify(ctx context.Context, r mcp.CallToolRequest, more fields) error {
	if r.Params.Meta == nil || r.Params.Meta.ProgressToken == nil {
		return nil
	}
	more["progressToken"] = r.Params.Meta.ProgressToken
	return server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress", more)
}

func progress(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	steps := r.GetInt("steps", 0)
	for i := range steps {
		if err := notify(ctx, r, fields{"progress": i + 1, "total": steps, "message": fmt.Sprintf("step %d", i+1)}); err != nil {
			return nil, err
		}
		time.Sleep(30 * time.Millisecond)
	}
	return mcp.NewToolResultText(fmt.Sprintf("%d steps", steps)), nil
}

func (s *features) wait(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if err := notify(ctx, r, fields{"progress": 1}); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		s.cancelled.Store(r.GetString("id", ""), true)
		return nil, ctx.Err()
	case <-time.After(20 * time.Second):
		return mcp.NewToolResultText("waited"), nil
	}
}

func (s *features) prompts() {
	said := func(description, text string) (*mcp.GetPromptResult, error) {
		return mcp.NewGetPromptResult(description, []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(text))}), nil
	}
	s.AddPrompt(mcp.NewPrompt("hello", mcp.WithPromptDescription("A greeting"), mcp.WithArgument("name", mcp.ArgumentDescription("Whom"), mcp.RequiredArgument())),
		func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return said("A greeting", "Say hello to "+r.Params.Arguments["name"])
		})
	s.AddPrompt(mcp.NewPrompt("plain", mcp.WithPromptDescription("Without arguments")), func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return said("", "Say something")
	})
	s.AddPrompt(mcp.NewPrompt("asking", mcp.WithPromptDescription("Asks for a name")), func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		if answer := server.ElicitationResponse(r.Params.InputResponses, "name"); answer != nil {
			return said("", "Say hello to "+member(answer, "name"))
		}
		return server.NewInputRequestBuilder("asked").Elicit("name", nameQuestion).PromptResult(), nil
	})
}

func (s *features) resources() {
	text := func(uri, text string) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: "text/plain", Text: text}}, nil
	}
	s.AddResource(mcp.NewResource(note, "note", mcp.WithResourceDescription("A note"), mcp.WithMIMEType("text/plain")),
		func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return text(r.Params.URI, "a note")
		})
	s.AddResource(mcp.NewResource("peer://pixel", "pixel", mcp.WithResourceDescription("Bytes"), mcp.WithMIMEType("image/png")),
		func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.BlobResourceContents{URI: r.Params.URI, MIMEType: "image/png", Blob: "cGl4ZWw="}}, nil
		})
	// A resource of this SDK can ask a legacy client only: its handlers return contents, no result.
	s.AddResource(mcp.NewResource("peer://asking", "asking", mcp.WithResourceDescription("Asks for a name"), mcp.WithMIMEType("text/plain")),
		func(ctx context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			answer, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: nameQuestion})
			if err != nil {
				return nil, err
			}
			return text(r.Params.URI, "for "+member(answer, "name"))
		})
	s.AddResourceTemplate(mcp.NewResourceTemplate("peer://item/{id}", "item", mcp.WithTemplateDescription("An item"), mcp.WithTemplateMIMEType("text/plain")),
		func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return text(r.Params.URI, "item "+strings.TrimPrefix(r.Params.URI, "peer://item/"))
		})
}

type completer struct{}

func (completer) CompletePromptArgument(_ context.Context, _ string, argument mcp.CompleteArgument, chosen mcp.CompleteContext) (*mcp.Completion, error) {
	return completion([]string{"Ada", "Alan", "Grace"}, argument, chosen), nil
}

func (completer) CompleteResourceArgument(_ context.Context, _ string, argument mcp.CompleteArgument, chosen mcp.CompleteContext) (*mcp.Completion, error) {
	return completion([]string{"1", "10", "2"}, argument, chosen), nil
}

func completion(all []string, argument mcp.CompleteArgument, chosen mcp.CompleteContext) *mcp.Completion {
	values := []string{}
	for _, value := range all {
		taken := false
		for _, other := range chosen.Arguments {
			taken = taken || other == value
		}
		if !taken && strings.HasPrefix(value, argument.Value) {
			values = append(values, value)
		}
	}
	return &mcp.Completion{Values: values, Total: len(values)}
}
