package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

var (
	nameQuestion   = form("What is your name?", fields{"name": fields{"type": "string"}}, "name")
	colourQuestion = form("Which colour?", fields{"colour": fields{"type": "string"}}, "colour")
	formQuestion   = form("All about you?", fields{
		"name":   fields{"type": "string", "title": "Name", "minLength": 1, "default": "Ada"},
		"age":    fields{"type": "integer", "minimum": 0, "default": 36},
		"height": fields{"type": "number", "default": 170},
		"member": fields{"type": "boolean", "default": true},
		"colour": fields{"type": "string", "enum": []string{"red", "green"}, "default": "green"},
		"days":   fields{"type": "array", "items": fields{"type": "string", "enum": []string{"mon", "tue"}}, "default": []string{"tue"}},
	}, "name")
	urlQuestion  = mcp.ElicitationParams{Mode: "url", Message: "Please look", URL: "https://example.com/page", ElicitationID: "e-1"}
	saySomething = mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{said("Say something")}, MaxTokens: 50, SystemPrompt: "Be short"}
)

func form(message string, properties fields, required ...string) mcp.ElicitationParams {
	return mcp.ElicitationParams{Mode: "form", Message: message, RequestedSchema: fields{"type": "object", "properties": properties, "required": required}}
}

func said(text string) mcp.SamplingMessage {
	return mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.NewTextContent(text)}
}

func withTools(more ...mcp.SamplingMessage) mcp.CreateMessageParams {
	return mcp.CreateMessageParams{
		Messages: append([]mcp.SamplingMessage{said("What is under k?")}, more...), MaxTokens: 50,
		Tools:      []mcp.Tool{mcp.NewTool("lookup", mcp.WithDescription("Looks up"), mcp.WithString("key", mcp.Required()))},
		ToolChoice: &mcp.ToolChoice{Mode: mcp.ToolChoiceModeAuto},
	}
}

func member(answer *mcp.ElicitationResult, name string) string {
	content, _ := answer.Content.(fields)
	return fmt.Sprint(content[name])
}

// words is the text of what a model or a tool gave.
func words(content any) string {
	raw, _ := json.Marshal(content)
	var block struct{ Text string }
	if json.Unmarshal(raw, &block) == nil {
		return block.Text
	}
	var blocks []struct{ Text string }
	if json.Unmarshal(raw, &blocks) == nil && len(blocks) > 0 {
		return blocks[0].Text
	}
	return string(raw)
}

func roots(r *mcp.ListRootsResult) string {
	var uris []string
	for _, root := range r.Roots {
		uris = append(uris, root.URI)
	}
	return strings.Join(uris, " ")
}

func asked(state string) *server.InputRequestBuilder { return server.NewInputRequestBuilder(state) }

var askingTools = map[string]server.ToolHandlerFunc{
	"ask": func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer := server.ElicitationResponse(r.Params.InputResponses, "name")
		switch {
		case answer == nil:
			return asked("").Elicit("name", nameQuestion).ToolResult(), nil
		case answer.Action != mcp.ElicitationResponseActionAccept:
			return mcp.NewToolResultText(fmt.Sprintf("No name (%s)", answer.Action)), nil
		}
		return mcp.NewToolResultText("Hello, " + member(answer, "name")), nil
	},
	"ask_form": func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer := server.ElicitationResponse(r.Params.InputResponses, "form")
		if answer == nil {
			return asked("").Elicit("form", formQuestion).ToolResult(), nil
		}
		return mcp.NewToolResultStructured(answer.Content, string(answer.Action)), nil
	},
	"ask_twice": func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if name := server.ElicitationResponse(r.Params.InputResponses, "name"); name != nil {
			return asked(member(name, "name")).Elicit("colour", colourQuestion).ToolResult(), nil
		}
		if colour := server.ElicitationResponse(r.Params.InputResponses, "colour"); colour != nil {
			return mcp.NewToolResultText(r.Params.RequestState + " likes " + member(colour, "colour")), nil
		}
		return asked("").Elicit("name", nameQuestion).ToolResult(), nil
	},
	"ask_all": func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		got := r.Params.InputResponses
		name, sample, list := server.ElicitationResponse(got, "name"), server.SamplingResponse(got, "sample"), server.RootsResponse(got, "roots")
		if name == nil || sample == nil || list == nil {
			return asked("").Elicit("name", nameQuestion).Sample("sample", saySomething).Roots("roots").ToolResult(), nil
		}
		return mcp.NewToolResultText(fmt.Sprintf("%s, %s, %s", member(name, "name"), words(sample.Content), roots(list))), nil
	},
	"ask_url": func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer := server.ElicitationResponse(r.Params.InputResponses, "page")
		if answer == nil {
			return asked("").Elicit("page", urlQuestion).ToolResult(), nil
		}
		return mcp.NewToolResultText(fmt.Sprintf("page: %s", answer.Action)), nil
	},
	"sample": func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer := server.SamplingResponse(r.Params.InputResponses, "sample")
		if answer == nil {
			return asked("").Sample("sample", saySomething).ToolResult(), nil
		}
		return mcp.NewToolResultText(answer.Model + ": " + words(answer.Content)), nil
	},
	"sample_tools": sampleTools,
	"roots": func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		list := server.RootsResponse(r.Params.InputResponses, "roots")
		if list == nil {
			return asked("").Roots("roots").ToolResult(), nil
		}
		return mcp.NewToolResultText(roots(list)), nil
	},
}

// sampleTools samples with a tool and again with what the tool gave; the
// model's call is in the state meanwhile.
func sampleTools(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if first := server.SamplingResponse(r.Params.InputResponses, "first"); first != nil {
		raw, err := json.Marshal(first.Content)
		if err != nil {
			return nil, err
		}
		use, err := toolUse(raw)
		if err != nil {
			return nil, err
		}
		state, _ := json.Marshal(use)
		result := mcp.ToolResultContent{Type: "tool_result", ToolUseID: use.ID, Content: []mcp.Content{mcp.NewTextContent("42")}}
		return asked(string(state)).Sample("second", withTools(
			mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: use}, mcp.SamplingMessage{Role: mcp.RoleUser, Content: result},
		)).ToolResult(), nil
	}
	second := server.SamplingResponse(r.Params.InputResponses, "second")
	if second == nil {
		return asked("").Sample("first", withTools()).ToolResult(), nil
	}
	use, err := toolUse([]byte(r.Params.RequestState))
	if err != nil {
		return nil, err
	}
	input, _ := json.Marshal(use.Input)
	return mcp.NewToolResultText(fmt.Sprintf("%s %s: %s", use.Name, input, words(second.Content))), nil
}

// toolUse finds the call of a tool in a content block or a list of them.
func toolUse(raw []byte) (use mcp.ToolUseContent, err error) {
	blocks := []json.RawMessage{raw}
	if strings.HasPrefix(string(raw), "[") {
		if err := json.Unmarshal(raw, &blocks); err != nil {
			return use, err
		}
	}
	for _, block := range blocks {
		if json.Unmarshal(block, &use) == nil && use.Type == "tool_use" {
			return use, nil
		}
	}
	return use, errors.New("no tool was used: " + string(raw))
}
