// Command mcpgo-server is a server on mcp-go: plain tools, and tools that run
// as legacy (2025-11-25) tasks. It advertises the legacy revision only, unless
// -era both lets clients find the modern one (which has no tasks here).
//
// It prints "listening on http://HOST:PORT/mcp" when ready and ends when its
// standard input closes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"peers/play"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "address to listen on")
	era := flag.String("era", "legacy", "legacy or both")
	flag.Parse()

	var options []server.StreamableHTTPOption
	switch *era {
	case "legacy":
		options = append(options, server.WithStreamableHTTPProtocolVersions("2025-11-25"))
	case "both":
	default:
		log.Fatalf("-era: want legacy or both, got %q", *era)
	}

	play.Serve(*addr, server.NewStreamableHTTPServer(newServer(), append(options, server.WithStateful(true))...))
}

func newServer() *server.MCPServer {
	s := server.NewMCPServer("mcpgo-peer", "1.0.0",
		server.WithToolCapabilities(true),
		server.WithTaskCapabilities(true, true, true),
		server.WithResourceCapabilities(true, true),
		server.WithPromptCapabilities(true),
		server.WithElicitation(),
		server.WithLogging(),
		server.WithInstructions("A fixture. Ask it anything."),
	)

	s.AddTool(mcp.NewTool("greet",
		mcp.WithDescription("Says hello"),
		mcp.WithString("name", mcp.Required()),
	), func(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("Hello, " + request.GetString("name", "") + "!"), nil
	})

	s.AddTool(mcp.NewTool("echo",
		mcp.WithDescription("Gives its arguments back"),
		mcp.WithString("text"),
	), func(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultStructured(request.GetArguments(), request.GetString("text", "")), nil
	})

	s.AddTool(mcp.NewTool("ask_name",
		mcp.WithDescription("Asks for a name during a plain call"),
	), askName)

	// Optional and registered as a plain tool: mcp-go runs it as a task when asked to.
	s.AddTool(mcp.NewTool("slow_compute",
		mcp.WithDescription("Waits, then answers"),
		mcp.WithTaskSupport(mcp.TaskSupportOptional),
		mcp.WithNumber("seconds", mcp.DefaultNumber(1)),
		mcp.WithString("label"),
	), func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		seconds := request.GetFloat("seconds", 1)
		if err := wait(ctx, request, time.Duration(seconds*float64(time.Second))); err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(fmt.Sprintf("computed %s in %g s", request.GetString("label", ""), seconds)), nil
	})

	s.AddTaskTool(mcp.NewTool("failing_job",
		mcp.WithDescription("Ends with isError"),
		mcp.WithTaskSupport(mcp.TaskSupportRequired),
	), func(context.Context, mcp.CallToolRequest) (*mcp.CreateTaskResult, error) {
		time.Sleep(200 * time.Millisecond)
		return &mcp.CreateTaskResult{
			Content: []mcp.Content{mcp.NewTextContent("failing_job failed on purpose")},
			IsError: true,
		}, nil
	})

	s.AddTaskTool(mcp.NewTool("protocol_error_job",
		mcp.WithDescription("Ends with an error"),
		mcp.WithTaskSupport(mcp.TaskSupportRequired),
	), func(context.Context, mcp.CallToolRequest) (*mcp.CreateTaskResult, error) {
		time.Sleep(200 * time.Millisecond)
		return nil, errors.New("protocol_error_job broke on purpose")
	})

	s.AddResource(mcp.NewResource("peer://note", "note", mcp.WithMIMEType("text/plain")),
		func(_ context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.TextResourceContents{
				URI: request.Params.URI, MIMEType: "text/plain", Text: "a note",
			}}, nil
		})
	s.AddPrompt(mcp.NewPrompt("hello", mcp.WithArgument("name", mcp.RequiredArgument())),
		func(_ context.Context, request mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return mcp.NewGetPromptResult("A greeting", []mcp.PromptMessage{
				mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent("Say hello to "+request.Params.Arguments["name"])),
			}), nil
		})

	return s
}

// askName is one handler for both eras: mcp-go asks a legacy client itself and
// calls the handler again, a modern client gets input_required and retries.
func askName(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	const key = "name"
	if answer := server.ElicitationResponse(request.Params.InputResponses, key); answer != nil {
		if answer.Action != mcp.ElicitationResponseActionAccept {
			return mcp.NewToolResultText(fmt.Sprintf("No name (%s)", answer.Action)), nil
		}
		content, _ := answer.Content.(map[string]any)
		return mcp.NewToolResultText(fmt.Sprintf("Hello, %v", content["name"])), nil
	}
	return server.NewInputRequestBuilder("asked").Elicit(key, mcp.ElicitationParams{
		Mode:    mcp.ElicitationModeForm,
		Message: "What is your name?",
		RequestedSchema: map[string]any{
			"type":       "object",
			"properties": map[string]any{"name": map[string]any{"type": "string"}},
			"required":   []string{"name"},
		},
	}).ToolResult(), nil
}

// wait sleeps. The context of a task's handler is cancelled as soon as the
// answer to the creating request is out, so a task must not heed it; the price
// is that a cancelled task runs on unseen.
func wait(ctx context.Context, request mcp.CallToolRequest, d time.Duration) error {
	if request.Params.Task != nil {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
