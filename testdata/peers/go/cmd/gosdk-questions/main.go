// Command gosdk-questions is a server on go-sdk with the tools of five scenarios
// of the official suite that go-sdk's own conformance server cannot play for the
// other era: it drops the second round of questions toward legacy clients, and
// four of its tools ask only by requests, which a modern session has not.
//
// With -era legacy it opens sessions and asks by requests; with -era modern it
// asks by input_required. It prints "listening on http://HOST:PORT/mcp" when
// ready and ends when its standard input closes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"peers/play"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "address to listen on")
	era := flag.String("era", "legacy", "legacy or modern")
	flag.Parse()

	server := mcp.NewServer(&mcp.Implementation{Name: "gosdk-questions", Version: "1.0.0"}, nil)
	switch *era {
	case "legacy":
		tool(server, "test_input_required_result_multi_round", rounds)
	case "modern":
		tool(server, "test_sampling", sample)
		tool(server, "test_elicitation", elicit)
		tool(server, "test_elicitation_sep1034_defaults", asking("Test defaults for primitives", defaults))
		tool(server, "test_elicitation_sep1330_enums", asking("Test enum schemas", enums))
	default:
		log.Fatalf("-era: want legacy or modern, got %q", *era)
	}

	play.Serve(*addr, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: *era == "modern"}))
}

type (
	request = *mcp.CallToolRequest
	result  = *mcp.CallToolResult
)

type arguments struct {
	Prompt  string `json:"prompt,omitempty"`
	Message string `json:"message,omitempty"`
}

func tool(s *mcp.Server, name string, run func(context.Context, request, arguments) (result, error)) {
	mcp.AddTool(s, &mcp.Tool{Name: name, Description: "Asks the client"}, func(ctx context.Context, r request, a arguments) (result, any, error) {
		out, err := run(ctx, r, a)
		return out, nil, err
	})
}

func text(format string, args ...any) result {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func schema(properties string) map[string]any {
	var out map[string]any
	if err := json.Unmarshal([]byte(properties), &out); err != nil {
		log.Fatal(err)
	}
	return map[string]any{"type": "object", "properties": out}
}

// rounds asks twice in a row, by requests of its own.
func rounds(ctx context.Context, r request, _ arguments) (result, error) {
	name, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Step 1: What is your name?", RequestedSchema: schema(`{"name":{"type":"string"}}`)})
	if err != nil {
		return nil, err
	}
	colour, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Step 2: What is your favorite color?", RequestedSchema: schema(`{"color":{"type":"string"}}`)})
	if err != nil {
		return nil, err
	}
	return text("%v likes %v", name.Content["name"], colour.Content["color"]), nil
}

const question = "question"

func sample(_ context.Context, r request, a arguments) (result, error) {
	if answer, ok := r.Params.InputResponses[question].(*mcp.CreateMessageWithToolsResult); ok && len(answer.Content) > 0 {
		if c, ok := answer.Content[0].(*mcp.TextContent); ok {
			return text("LLM response: %s", c.Text), nil
		}
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{question: &mcp.CreateMessageParams{
		Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: a.Prompt}}},
		MaxTokens: 100,
	}}}, nil
}

func elicit(ctx context.Context, r request, a arguments) (result, error) {
	return asking(a.Message, `{"username":{"type":"string","description":"User's response"}}`)(ctx, r, a)
}

func asking(message, properties string) func(context.Context, request, arguments) (result, error) {
	return func(_ context.Context, r request, _ arguments) (result, error) {
		if answer, ok := r.Params.InputResponses[question].(*mcp.ElicitResult); ok {
			return text("action=%s, content=%v", answer.Action, answer.Content), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{question: &mcp.ElicitParams{Message: message, RequestedSchema: schema(properties)}}}, nil
	}
}

// The forms the scenarios elicitation-sep1034-defaults and
// elicitation-sep1330-enums look for.
const (
	defaults = `{
		"name": {"type": "string", "default": "John Doe"},
		"age": {"type": "integer", "default": 30},
		"score": {"type": "number", "default": 95.5},
		"status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
		"verified": {"type": "boolean", "default": true}}`
	enums = `{
		"untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
		"titledSingle": {"type": "string", "oneOf": [{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"}]},
		"legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
		"untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
		"titledMulti": {"type": "array", "items": {"anyOf": [{"const": "value1", "title": "First Choice"}, {"const": "value2", "title": "Second Choice"}]}}}`
)
