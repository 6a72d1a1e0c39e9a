package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// errAsked: the client has to be asked first, by the call's own answer.
var errAsked = errors.New("asked")

// asking asks the client in a call: at once where that is a legacy client, by
// input_required where it is a modern one.
type asking struct {
	ctx     context.Context
	s       *features
	session *mcp.ServerSession
	got     mcp.InputResponseMap
	state   string              // that came back
	ask     mcp.InputRequestMap // what is to be asked
	next    string              // the state that goes with it
}

func (a *asking) one(key string, request mcp.InputRequest) (mcp.InputResponse, error) {
	if answer, ok := a.got[key]; ok {
		return answer, nil
	}
	if a.s.modern {
		if a.ask == nil {
			a.ask = mcp.InputRequestMap{}
		}
		a.ask[key] = request
		return nil, errAsked
	}
	switch p := request.(type) {
	case *mcp.ElicitParams:
		return a.session.Elicit(a.ctx, p)
	case *mcp.CreateMessageWithToolsParams:
		return a.session.CreateMessageWithTools(a.ctx, p)
	case *mcp.CreateMessageParams:
		r, err := a.session.CreateMessage(a.ctx, p)
		if err != nil {
			return nil, err
		}
		return &mcp.CreateMessageWithToolsResult{Model: r.Model, Role: r.Role, Content: []mcp.Content{r.Content}}, nil
	default:
		return a.session.ListRoots(a.ctx, nil)
	}
}

func (a *asking) elicit(key string, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	answer, err := a.one(key, params)
	if err != nil {
		return nil, err
	}
	return answer.(*mcp.ElicitResult), nil
}

func (a *asking) sample(key string, params mcp.InputRequest) (*mcp.CreateMessageWithToolsResult, error) {
	answer, err := a.one(key, params)
	if err != nil {
		return nil, err
	}
	return answer.(*mcp.CreateMessageWithToolsResult), nil
}

func (a *asking) roots(key string) (string, error) {
	answer, err := a.one(key, &mcp.ListRootsParams{})
	if err != nil {
		return "", err
	}
	var uris []string
	for _, root := range answer.(*mcp.ListRootsResult).Roots {
		uris = append(uris, root.URI)
	}
	return strings.Join(uris, " "), nil
}

var (
	nameQuestion   = &mcp.ElicitParams{Mode: "form", Message: "What is your name?", RequestedSchema: object(fields{"name": word})}
	colourQuestion = &mcp.ElicitParams{Mode: "form", Message: "Which colour?", RequestedSchema: object(fields{"colour": word})}
	formQuestion   = &mcp.ElicitParams{Mode: "form", Message: "All about you?", RequestedSchema: fields{
		"type": "object", "required": []string{"name"}, "properties": fields{
			"name":   fields{"type": "string", "title": "Name", "minLength": 1, "default": "Ada"},
			"age":    fields{"type": "integer", "minimum": 0, "default": 36},
			"height": fields{"type": "number", "default": 170},
			"member": fields{"type": "boolean", "default": true},
			"colour": fields{"type": "string", "enum": []string{"red", "green"}, "default": "green"},
			"days":   fields{"type": "array", "items": fields{"type": "string", "enum": []string{"mon", "tue"}}, "default": []string{"tue"}},
		},
	}}
	lookup = &mcp.Tool{Name: "lookup", Description: "Looks up", InputSchema: object(fields{"key": word})}
)

func urlQuestion() *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: "url", Message: "Please look", URL: "https://example.com/page", ElicitationID: "e-1"}
}

func saySomething() *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{
		Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "Say something"}}},
		MaxTokens: 50, SystemPrompt: "Be short",
	}
}

func withTools(messages ...*mcp.SamplingMessageV2) *mcp.CreateMessageWithToolsParams {
	first := &mcp.SamplingMessageV2{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "What is under k?"}}}
	return &mcp.CreateMessageWithToolsParams{
		Messages: append([]*mcp.SamplingMessageV2{first}, messages...), MaxTokens: 50,
		Tools: []*mcp.Tool{lookup}, ToolChoice: &mcp.ToolChoice{Mode: "auto"},
	}
}

func text(content []mcp.Content) string {
	for _, block := range content {
		if t, ok := block.(*mcp.TextContent); ok {
			return t.Text
		}
	}
	return fmt.Sprintf("%T", content)
}

func askingTools(on func(name string, run func(a *asking) (*mcp.CallToolResult, error)) tool) []tool {
	return []tool{
		on("ask", func(a *asking) (*mcp.CallToolResult, error) {
			answer, err := a.elicit("name", nameQuestion)
			if err != nil {
				return nil, err
			}
			if answer.Action != "accept" {
				return says("No name (%s)", answer.Action), nil
			}
			return says("Hello, %v", answer.Content["name"]), nil
		}),
		on("ask_form", func(a *asking) (*mcp.CallToolResult, error) {
			answer, err := a.elicit("form", formQuestion)
			if err != nil {
				return nil, err
			}
			r := says("%s", answer.Action)
			r.StructuredContent = answer.Content
			return r, nil
		}),
		on("ask_twice", askTwice),
		on("ask_all", askAll),
		on("ask_url", func(a *asking) (*mcp.CallToolResult, error) {
			answer, err := a.elicit("page", urlQuestion())
			if err != nil {
				return nil, err
			}
			return says("page: %s", answer.Action), nil
		}),
		on("sample", func(a *asking) (*mcp.CallToolResult, error) {
			answer, err := a.sample("sample", saySomething())
			if err != nil {
				return nil, err
			}
			return says("%s: %s", answer.Model, text(answer.Content)), nil
		}),
		on("sample_tools", sampleTools),
		on("roots", func(a *asking) (*mcp.CallToolResult, error) {
			uris, err := a.roots("roots")
			if err != nil {
				return nil, err
			}
			return says("%s", uris), nil
		}),
	}
}

func askTwice(a *asking) (*mcp.CallToolResult, error) {
	name := a.state
	if name == "" {
		answer, err := a.elicit("name", nameQuestion)
		if err != nil {
			return nil, err
		}
		name = fmt.Sprint(answer.Content["name"])
	}
	a.next = name
	colour, err := a.elicit("colour", colourQuestion)
	if err != nil {
		return nil, err
	}
	return says("%s likes %v", name, colour.Content["colour"]), nil
}

// askAll asks three things at once.
func askAll(a *asking) (*mcp.CallToolResult, error) {
	var name *mcp.ElicitResult
	var sample *mcp.CreateMessageWithToolsResult
	var roots string
	var errs [3]error
	asks := []func(){
		func() { name, errs[0] = a.elicit("name", nameQuestion) },
		func() { sample, errs[1] = a.sample("sample", saySomething()) },
		func() { roots, errs[2] = a.roots("roots") },
	}
	if a.s.modern {
		for _, ask := range asks {
			ask()
		}
	} else {
		var wg sync.WaitGroup
		for _, ask := range asks {
			wg.Go(ask)
		}
		wg.Wait()
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return says("%v, %s, %s", name.Content["name"], text(sample.Content), roots), nil
}

// sampleTools samples with a tool and again with what the tool gave. A modern
// server keeps the model's call in the state.
func sampleTools(a *asking) (*mcp.CallToolResult, error) {
	use := new(mcp.ToolUseContent)
	if a.state == "" {
		answer, err := a.sample("first", withTools())
		if err != nil {
			return nil, err
		}
		ok := false
		for _, block := range answer.Content {
			if u, is := block.(*mcp.ToolUseContent); is {
				use, ok = u, true
			}
		}
		if !ok {
			return nil, fmt.Errorf("no tool was used: %v", answer.Content)
		}
		state, err := json.Marshal(fields{"id": use.ID, "name": use.Name, "input": use.Input})
		if err != nil {
			return nil, err
		}
		a.next = string(state)
	} else if err := json.Unmarshal([]byte(a.state), use); err != nil {
		return nil, err
	}
	answer, err := a.sample("second", withTools(
		&mcp.SamplingMessageV2{Role: "assistant", Content: []mcp.Content{use}},
		&mcp.SamplingMessageV2{Role: "user", Content: []mcp.Content{&mcp.ToolResultContent{ToolUseID: use.ID, Content: []mcp.Content{&mcp.TextContent{Text: "42"}}}}},
	))
	if err != nil {
		return nil, err
	}
	input, _ := json.Marshal(use.Input)
	return says("%s %s: %s", use.Name, input, text(answer.Content)), nil
}
