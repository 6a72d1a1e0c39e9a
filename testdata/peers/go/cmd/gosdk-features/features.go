package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type feature struct {
	name string
	run  func(context.Context) (fields, error)
}

// features are all of them, in the order they are played.
func (p *peer) features() []feature {
	return []feature{
		{"connect", p.connect},
		{"ping", func(ctx context.Context) (fields, error) {
			if p.modern {
				return nil, nil
			}
			return fields{"empty": true}, p.Ping(ctx, nil)
		}},
		{"tools-list", p.toolsList},
		{"call", func(ctx context.Context) (fields, error) {
			r, err := p.tool(ctx, "add", fields{"a": 2, "b": 3}, nil)
			if err != nil {
				return nil, err
			}
			return fields{"text": text(r.Content), "structured": r.StructuredContent}, nil
		}},
		{"call-error", func(ctx context.Context) (fields, error) {
			r, err := p.tool(ctx, "fail", nil, nil)
			if err != nil {
				return nil, err
			}
			return fields{"text": text(r.Content), "isError": r.IsError}, nil
		}},
		{"unknown-tool", func(ctx context.Context) (fields, error) {
			_, err := p.tool(ctx, "no_such_tool", nil, nil)
			return refused(err)
		}},
		{"contents", p.contents},
		{"progress", p.progressed},
		{"cancel", p.cancel},
		{"log", p.log},
		{"prompts-list", p.promptsList},
		{"prompt-get", p.promptGet},
		{"prompt-unknown", func(ctx context.Context) (fields, error) {
			_, err := p.GetPrompt(ctx, &mcp.GetPromptParams{Name: "no_such_prompt"})
			return refused(err)
		}},
		{"prompt-asks", func(ctx context.Context) (fields, error) {
			return p.Asking(func() (string, any, error) {
				r, err := p.GetPrompt(ctx, &mcp.GetPromptParams{Name: "asking"})
				if err != nil {
					return "", nil, err
				}
				return text([]mcp.Content{r.Messages[0].Content}), nil, nil
			})
		}},
		{"resources-list", p.resourcesList},
		{"templates", p.templates},
		{"read", p.read},
		{"read-missing", func(ctx context.Context) (fields, error) {
			_, err := p.ReadResource(ctx, &mcp.ReadResourceParams{URI: "peer://nothing"})
			return refused(err)
		}},
		{"read-asks", func(ctx context.Context) (fields, error) {
			return p.Asking(func() (string, any, error) {
				r, err := p.ReadResource(ctx, &mcp.ReadResourceParams{URI: "peer://asking"})
				if err != nil {
					return "", nil, err
				}
				return r.Contents[0].Text, nil, nil
			})
		}},
		{"complete", p.complete},
		{"subscribe", p.subscribe},
		{"ask", p.askingTool("ask")},
		{"ask-declined", p.declined},
		{"ask-form", p.askingTool("ask_form")},
		{"ask-twice", p.askingTool("ask_twice")},
		{"ask-all", p.askingTool("ask_all")},
		{"ask-url", p.askingTool("ask_url")},
		{"sample", p.askingTool("sample")},
		{"sample-tools", p.askingTool("sample_tools")},
		{"roots", p.roots},
		{"notify-progress", func(ctx context.Context) (fields, error) {
			// A client's progress on what it does; the tool after it shows that the session goes on.
			if err := p.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "t", Progress: 1}); err != nil {
				return nil, err
			}
			r, err := p.tool(ctx, "add", fields{"a": 1, "b": 1}, nil)
			if err != nil {
				return nil, err
			}
			return fields{"sent": true, "text": text(r.Content)}, nil
		}},
		{"close", func(context.Context) (fields, error) {
			if err := p.Close(); err != nil {
				return nil, err
			}
			_ = p.Wait()
			return fields{"closed": true}, nil
		}},
	}
}

func (p *peer) connect(context.Context) (fields, error) {
	r := p.InitializeResult()
	c := r.Capabilities
	return fields{
		"server": r.ServerInfo.Name, "instructions": r.Instructions, "version": r.ProtocolVersion, "session": p.ID() != "",
		"capabilities": fields{
			"tools": c.Tools != nil && c.Tools.ListChanged, "prompts": c.Prompts != nil && c.Prompts.ListChanged,
			"resources": c.Resources != nil && c.Resources.ListChanged, "subscribe": c.Resources != nil && c.Resources.Subscribe,
			"logging": c.Logging != nil, "completions": c.Completions != nil,
		},
	}, nil
}

// paged says that a list came in pages; a modern client's table has no such member.
func (p *peer) paged(result fields, cursor string) fields {
	if !p.modern {
		result["paged"] = cursor != ""
	}
	return result
}

func (p *peer) toolsList(ctx context.Context) (fields, error) {
	first, err := p.ListTools(ctx, nil)
	if err != nil {
		return nil, err
	}
	var names []string
	var add *mcp.Tool
	for tool, err := range p.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if names = append(names, tool.Name); tool.Name == "add" {
			add = tool
		}
	}
	slices.Sort(names)
	if add == nil || add.Annotations == nil {
		return nil, fmt.Errorf("no tool add with annotations: %v", names)
	}
	schema, _ := add.OutputSchema.(fields)
	properties, _ := schema["properties"].(fields)
	var output []string
	for name := range properties {
		output = append(output, name)
	}
	return p.paged(fields{"names": names, "add": fields{
		"title": add.Title, "readOnly": add.Annotations.ReadOnlyHint, "icons": len(add.Icons), "output": output,
	}}, first.NextCursor), nil
}

func (p *peer) contents(ctx context.Context) (fields, error) {
	r, err := p.tool(ctx, "contents", nil, nil)
	if err != nil {
		return nil, err
	}
	var blocks []string
	result := fields{}
	for _, block := range r.Content {
		switch c := block.(type) {
		case *mcp.TextContent:
			blocks = append(blocks, "text "+c.Text)
			if c.Annotations != nil {
				result["priority"] = c.Annotations.Priority
			}
		case *mcp.ImageContent:
			blocks = append(blocks, "image "+base64(c.Data))
		case *mcp.AudioContent:
			blocks = append(blocks, "audio "+base64(c.Data))
		case *mcp.ResourceLink:
			blocks = append(blocks, "resource_link "+c.URI)
		case *mcp.EmbeddedResource:
			blocks = append(blocks, "resource "+c.Resource.Text)
		}
	}
	result["blocks"] = blocks
	return result, nil
}

func (p *peer) progressed(ctx context.Context) (fields, error) {
	p.Mu.Lock()
	p.Progress = nil
	p.Mu.Unlock()
	params := &mcp.CallToolParams{Name: "progress", Arguments: fields{"steps": 3}}
	params.SetProgressToken("token-1")
	r, err := p.CallTool(ctx, params)
	if err != nil {
		return nil, err
	}
	p.Until(func() bool { return len(p.Progress) >= 3 })
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return fields{"text": text(r.Content), "notes": slices.Clone(p.Progress)}, nil
}

func (p *peer) cancel(ctx context.Context) (fields, error) {
	id := fmt.Sprintf("%d", time.Now().UnixNano())
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	p.Mu.Lock()
	p.OnNote = cancel
	p.Mu.Unlock()
	params := &mcp.CallToolParams{Name: "wait", Arguments: fields{"id": id}}
	params.SetProgressToken("token-2")
	outcome := "answered"
	if _, err := p.CallTool(short, params); err != nil {
		outcome = "aborted"
	}
	p.Mu.Lock()
	p.OnNote = nil
	p.Mu.Unlock()
	answer := ""
	for range 100 {
		r, err := p.tool(ctx, "cancelled", fields{"id": id}, nil)
		if err != nil {
			return nil, err
		}
		if answer = text(r.Content); answer == "yes" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fields{"call": outcome, "cancelled": answer}, nil
}

func (p *peer) log(ctx context.Context) (fields, error) {
	lines := fields{}
	for level, want := range map[string]int{"info": 2, "error": 1} {
		p.Mu.Lock()
		p.Logs = []string{}
		p.Mu.Unlock()
		var meta mcp.Meta
		if p.modern {
			meta = mcp.Meta{mcp.MetaKeyLogLevel: level}
		} else if err := p.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: mcp.LoggingLevel(level)}); err != nil {
			return nil, err
		}
		if _, err := p.tool(ctx, "log", nil, meta); err != nil {
			return nil, err
		}
		p.Until(func() bool { return len(p.Logs) >= want })
		time.Sleep(50 * time.Millisecond)
		p.Mu.Lock()
		lines[level] = slices.Clone(p.Logs)
		p.Mu.Unlock()
	}
	return fields{"lines": lines}, nil
}

func (p *peer) promptsList(ctx context.Context) (fields, error) {
	var names, arguments []string
	for prompt, err := range p.Prompts(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, prompt.Name)
		for _, a := range prompt.Arguments {
			arguments = append(arguments, fmt.Sprintf("%s %v", a.Name, a.Required))
		}
	}
	slices.Sort(names)
	first, err := p.ListPrompts(ctx, nil)
	if err != nil {
		return nil, err
	}
	return p.paged(fields{"names": names, "arguments": arguments}, first.NextCursor), nil
}

func (p *peer) promptGet(ctx context.Context) (fields, error) {
	hello, err := p.GetPrompt(ctx, &mcp.GetPromptParams{Name: "hello", Arguments: map[string]string{"name": "Ada"}})
	if err != nil {
		return nil, err
	}
	plain, err := p.GetPrompt(ctx, &mcp.GetPromptParams{Name: "plain"})
	if err != nil {
		return nil, err
	}
	return fields{
		"description": hello.Description, "role": hello.Messages[0].Role,
		"text": text([]mcp.Content{hello.Messages[0].Content}), "plain": text([]mcp.Content{plain.Messages[0].Content}),
	}, nil
}

func (p *peer) resourcesList(ctx context.Context) (fields, error) {
	var uris []string
	result := fields{}
	for resource, err := range p.Resources(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if uris = append(uris, resource.URI); resource.Name == "note" {
			result["mimeType"] = resource.MIMEType
		}
	}
	slices.Sort(uris)
	result["uris"] = uris
	first, err := p.ListResources(ctx, nil)
	if err != nil {
		return nil, err
	}
	return p.paged(result, first.NextCursor), nil
}

func (p *peer) templates(ctx context.Context) (fields, error) {
	if _, err := p.ListResourceTemplates(ctx, nil); err != nil {
		return nil, err
	}
	var templates []string
	for t, err := range p.ResourceTemplates(ctx, nil) {
		if err != nil {
			return nil, err
		}
		templates = append(templates, t.Name+" "+t.URITemplate)
	}
	return fields{"templates": templates}, nil
}

func (p *peer) read(ctx context.Context) (fields, error) {
	result := fields{}
	for member, uri := range map[string]string{"text": "peer://note", "blob": "peer://pixel", "template": "peer://item/7"} {
		r, err := p.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			return nil, err
		}
		if result[member] = r.Contents[0].Text; member == "blob" {
			result[member] = base64(r.Contents[0].Blob)
		}
	}
	return result, nil
}

func (p *peer) complete(ctx context.Context) (fields, error) {
	hello := &mcp.CompleteReference{Type: "ref/prompt", Name: "hello"}
	result := fields{}
	for member, params := range map[string]*mcp.CompleteParams{
		"prompt":   {Ref: hello, Argument: mcp.CompleteParamsArgument{Name: "name", Value: "A"}},
		"context":  {Ref: hello, Argument: mcp.CompleteParamsArgument{Name: "name", Value: "A"}, Context: &mcp.CompleteContext{Arguments: map[string]string{"other": "Ada"}}},
		"template": {Ref: &mcp.CompleteReference{Type: "ref/resource", URI: "peer://item/{id}"}, Argument: mcp.CompleteParamsArgument{Name: "id", Value: "1"}},
	} {
		r, err := p.Complete(ctx, params)
		if err != nil {
			return nil, err
		}
		result[member] = r.Completion.Values
	}
	return result, nil
}

func (p *peer) subscribe(ctx context.Context) (fields, error) {
	if err := p.Subscribe(ctx, &mcp.SubscribeParams{URI: "peer://note"}); err != nil {
		return nil, err
	}
	changed, updated, err := p.Touch(p.touched(ctx))
	if err != nil {
		return nil, err
	}
	if err := p.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: "peer://note"}); err != nil {
		return nil, err
	}
	time.Sleep(100 * time.Millisecond) // a modern client only closes its stream
	_, after, err := p.Touch(p.touched(ctx))
	if err != nil {
		return nil, err
	}
	return fields{"during": fields{"changed": changed, "updated": updated}, "after": after}, nil
}

func (p *peer) declined(ctx context.Context) (fields, error) {
	return p.Declined(func() (string, error) {
		r, err := p.tool(ctx, "ask", nil, nil)
		if err != nil {
			return "", err
		}
		return text(r.Content), nil
	})
}

func (p *peer) roots(ctx context.Context) (fields, error) {
	before, err := p.tool(ctx, "roots", nil, nil)
	if err != nil {
		return nil, err
	}
	// In the legacy era this sends notifications/roots/list_changed.
	p.client.AddRoots(&mcp.Root{URI: "file:///two", Name: "two"})
	time.Sleep(100 * time.Millisecond)
	after, err := p.tool(ctx, "roots", nil, nil)
	if err != nil {
		return nil, err
	}
	result := fields{"before": text(before.Content), "after": text(after.Content)}
	p.client.RemoveRoots("file:///two")
	if third, err := p.tool(ctx, "roots", nil, nil); err != nil || text(third.Content) != text(before.Content) {
		return nil, fmt.Errorf("a removed root is still there: %v %v", third, err)
	}
	if !p.modern {
		result["changed"] = "sent"
	}
	return result, nil
}
