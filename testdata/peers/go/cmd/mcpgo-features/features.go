package main

import (
	"context"
	"fmt"
	"peers/play"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

type feature struct {
	name string
	run  func(context.Context) (fields, error)
}

// features are all of them, in the order they are played.
func (p *peer) features(init *mcp.InitializeResult) []feature {
	return []feature{
		{"connect", func(context.Context) (fields, error) { return p.connect(init), nil }},
		{"discover", func(ctx context.Context) (fields, error) {
			if !p.modern {
				return nil, nil
			}
			r, err := p.Discover(ctx, mcp.DiscoverRequest{})
			if err != nil {
				return nil, err
			}
			return fields{"versions": slices.Contains(r.SupportedVersions, play.Version(true))}, nil
		}},
		{"ping", func(ctx context.Context) (fields, error) {
			if err := p.Ping(ctx); p.modern || err != nil { // sends nothing in the modern era
				return nil, err
			}
			return fields{"empty": true}, nil
		}},
		{"tools-list", p.toolsList},
		{"call", func(ctx context.Context) (fields, error) {
			r, err := p.tool(ctx, "add", fields{"a": 2, "b": 3}, nil)
			if err != nil {
				return nil, err
			}
			return fields{"text": words(r.Content), "structured": r.StructuredContent}, nil
		}},
		{"call-error", func(ctx context.Context) (fields, error) {
			r, err := p.tool(ctx, "fail", nil, nil)
			if err != nil {
				return nil, err
			}
			return fields{"text": words(r.Content), "isError": r.IsError}, nil
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
			_, err := p.prompt(ctx, "no_such_prompt", nil)
			return refused(err)
		}},
		{"prompt-asks", func(ctx context.Context) (fields, error) {
			return p.Asking(func() (string, any, error) {
				r, err := p.prompt(ctx, "asking", nil)
				if err != nil {
					return "", nil, err
				}
				return words(r.Messages[0].Content), nil, nil
			})
		}},
		{"resources-list", p.resourcesList},
		{"templates", p.templates},
		{"read", p.reads},
		{"read-missing", func(ctx context.Context) (fields, error) {
			_, err := p.read(ctx, "peer://nothing")
			return refused(err)
		}},
		{"read-asks", func(ctx context.Context) (fields, error) {
			return p.Asking(func() (string, any, error) {
				said, err := p.read(ctx, "peer://asking")
				return said, nil, err
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
		{"close", func(context.Context) (fields, error) { return fields{"closed": true}, p.Close() }},
	}
}

func (p *peer) connect(init *mcp.InitializeResult) fields {
	c := p.GetServerCapabilities()
	return fields{
		"server": init.ServerInfo.Name, "instructions": init.Instructions, "version": p.ProtocolVersion(), "session": p.GetSessionId() != "",
		"capabilities": fields{
			"tools": c.Tools != nil && c.Tools.ListChanged, "prompts": c.Prompts != nil && c.Prompts.ListChanged,
			"resources": c.Resources != nil && c.Resources.ListChanged, "subscribe": c.Resources != nil && c.Resources.Subscribe,
			"logging": c.Logging != nil, "completions": c.Completions != nil,
		},
	}
}

// paged says that a list came in pages; a modern client's table has no such member.
func (p *peer) paged(result fields, cursor mcp.Cursor) fields {
	if !p.modern {
		result["paged"] = cursor != ""
	}
	return result
}

func (p *peer) toolsList(ctx context.Context) (fields, error) {
	first, err := p.ListToolsByPage(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil, err
	}
	all, err := p.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	var add mcp.Tool
	for tool, err := range p.IterTools(ctx, mcp.ListToolsRequest{}) {
		if err != nil {
			return nil, err
		}
		if names = append(names, tool.Name); tool.Name == "add" {
			add = tool
		}
	}
	if slices.Sort(names); len(names) != len(all.Tools) {
		return nil, fmt.Errorf("%d tools by pages, %d one by one", len(all.Tools), len(names))
	}
	var output []string
	for name := range add.OutputSchema.Properties {
		output = append(output, name)
	}
	readOnly := add.Annotations.ReadOnlyHint != nil && *add.Annotations.ReadOnlyHint
	return p.paged(fields{"names": names, "add": fields{"title": add.Title, "readOnly": readOnly, "icons": len(add.Icons), "output": output}}, first.NextCursor), nil
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
		case mcp.TextContent:
			blocks = append(blocks, "text "+c.Text)
			if c.Annotations != nil && c.Annotations.Priority != nil {
				result["priority"] = *c.Annotations.Priority
			}
		case mcp.ImageContent:
			blocks = append(blocks, "image "+c.Data)
		case mcp.AudioContent:
			blocks = append(blocks, "audio "+c.Data)
		case mcp.ResourceLink:
			blocks = append(blocks, "resource_link "+c.URI)
		case mcp.EmbeddedResource:
			if t, ok := c.Resource.(mcp.TextResourceContents); ok {
				blocks = append(blocks, "resource "+t.Text)
			}
		}
	}
	result["blocks"] = blocks
	return result, nil
}

func (p *peer) progressed(ctx context.Context) (fields, error) {
	p.Mu.Lock()
	p.Progress = nil
	p.Mu.Unlock()
	r, err := p.tool(ctx, "progress", fields{"steps": 3}, &mcp.Meta{ProgressToken: "token-1"})
	if err != nil {
		return nil, err
	}
	p.Until(func() bool { return len(p.Progress) >= 3 })
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return fields{"text": words(r.Content), "notes": slices.Clone(p.Progress)}, nil
}

func (p *peer) cancel(ctx context.Context) (fields, error) {
	id := fmt.Sprint(time.Now().UnixNano())
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	p.Mu.Lock()
	p.OnNote = cancel
	p.Mu.Unlock()
	outcome := "answered"
	if _, err := p.tool(short, "wait", fields{"id": id}, &mcp.Meta{ProgressToken: "token-2"}); err != nil {
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
		if answer = words(r.Content); answer == "yes" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fields{"call": outcome, "cancelled": answer}, nil
}

func (p *peer) log(ctx context.Context) (fields, error) {
	lines := fields{}
	for _, level := range []mcp.LoggingLevel{mcp.LoggingLevelInfo, mcp.LoggingLevelError} {
		p.Mu.Lock()
		p.Logs = []string{}
		p.Mu.Unlock()
		var request mcp.SetLevelRequest
		request.Params.Level = level
		if err := p.SetLevel(ctx, request); err != nil { // the modern era has it in each request
			return nil, err
		}
		if _, err := p.tool(ctx, "log", nil, nil); err != nil {
			return nil, err
		}
		p.Until(func() bool { return len(p.Logs) >= map[mcp.LoggingLevel]int{"info": 2, "error": 1}[level] })
		time.Sleep(50 * time.Millisecond)
		p.Mu.Lock()
		lines[string(level)] = slices.Clone(p.Logs)
		p.Mu.Unlock()
	}
	return fields{"lines": lines}, nil
}

func (p *peer) promptsList(ctx context.Context) (fields, error) {
	first, err := p.ListPromptsByPage(ctx, mcp.ListPromptsRequest{})
	if err != nil {
		return nil, err
	}
	all, err := p.ListPrompts(ctx, mcp.ListPromptsRequest{})
	if err != nil {
		return nil, err
	}
	var names, arguments []string
	for prompt, err := range p.IterPrompts(ctx, mcp.ListPromptsRequest{}) {
		if err != nil {
			return nil, err
		}
		names = append(names, prompt.Name)
		for _, a := range prompt.Arguments {
			arguments = append(arguments, fmt.Sprintf("%s %v", a.Name, a.Required))
		}
	}
	if slices.Sort(names); len(names) != len(all.Prompts) {
		return nil, fmt.Errorf("%d prompts by pages, %d one by one", len(all.Prompts), len(names))
	}
	return p.paged(fields{"names": names, "arguments": arguments}, first.NextCursor), nil
}

func (p *peer) prompt(ctx context.Context, name string, arguments map[string]string) (*mcp.GetPromptResult, error) {
	var request mcp.GetPromptRequest
	request.Params.Name, request.Params.Arguments = name, arguments
	return p.GetPrompt(ctx, request)
}

func (p *peer) promptGet(ctx context.Context) (fields, error) {
	hello, err := p.prompt(ctx, "hello", map[string]string{"name": "Ada"})
	if err != nil {
		return nil, err
	}
	plain, err := p.prompt(ctx, "plain", nil)
	if err != nil {
		return nil, err
	}
	return fields{
		"description": hello.Description, "role": hello.Messages[0].Role,
		"text": words(hello.Messages[0].Content), "plain": words(plain.Messages[0].Content),
	}, nil
}

func (p *peer) resourcesList(ctx context.Context) (fields, error) {
	first, err := p.ListResourcesByPage(ctx, mcp.ListResourcesRequest{})
	if err != nil {
		return nil, err
	}
	all, err := p.ListResources(ctx, mcp.ListResourcesRequest{})
	if err != nil {
		return nil, err
	}
	var uris []string
	result := fields{}
	for resource, err := range p.IterResources(ctx, mcp.ListResourcesRequest{}) {
		if err != nil {
			return nil, err
		}
		if uris = append(uris, resource.URI); resource.Name == "note" {
			result["mimeType"] = resource.MIMEType
		}
	}
	if slices.Sort(uris); len(uris) != len(all.Resources) {
		return nil, fmt.Errorf("%d resources by pages, %d one by one", len(all.Resources), len(uris))
	}
	result["uris"] = uris
	return p.paged(result, first.NextCursor), nil
}

func (p *peer) templates(ctx context.Context) (fields, error) {
	for _, list := range []func(context.Context, mcp.ListResourceTemplatesRequest) (*mcp.ListResourceTemplatesResult, error){p.ListResourceTemplates, p.ListResourceTemplatesByPage} {
		if r, err := list(ctx, mcp.ListResourceTemplatesRequest{}); err != nil || len(r.ResourceTemplates) != 1 {
			return nil, fmt.Errorf("want one template: %v %v", r, err)
		}
	}
	var templates []string
	for t, err := range p.IterResourceTemplates(ctx, mcp.ListResourceTemplatesRequest{}) {
		if err != nil {
			return nil, err
		}
		templates = append(templates, t.Name+" "+t.URITemplate.Raw())
	}
	return fields{"templates": templates}, nil
}

func (p *peer) read(ctx context.Context, uri string) (string, error) {
	r, err := p.ReadResource(ctx, mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: uri}})
	if err != nil {
		return "", err
	}
	if blob, ok := r.Contents[0].(mcp.BlobResourceContents); ok {
		return blob.Blob, nil
	}
	return r.Contents[0].(mcp.TextResourceContents).Text, nil
}

func (p *peer) reads(ctx context.Context) (fields, error) {
	result := fields{}
	for member, uri := range map[string]string{"text": note, "blob": "peer://pixel", "template": "peer://item/7"} {
		said, err := p.read(ctx, uri)
		if err != nil {
			return nil, err
		}
		result[member] = said
	}
	return result, nil
}

func (p *peer) complete(ctx context.Context) (fields, error) {
	hello := mcp.PromptReference{Type: "ref/prompt", Name: "hello"}
	result := fields{}
	for member, params := range map[string]mcp.CompleteParams{
		"prompt":   {Ref: hello, Argument: mcp.CompleteArgument{Name: "name", Value: "A"}},
		"context":  {Ref: hello, Argument: mcp.CompleteArgument{Name: "name", Value: "A"}, Context: mcp.CompleteContext{Arguments: map[string]string{"other": "Ada"}}},
		"template": {Ref: mcp.ResourceReference{Type: "ref/resource", URI: "peer://item/{id}"}, Argument: mcp.CompleteArgument{Name: "id", Value: "1"}},
	} {
		r, err := p.Complete(ctx, mcp.CompleteRequest{Params: params})
		if err != nil {
			return nil, err
		}
		result[member] = r.Completion.Values
	}
	return result, nil
}

// subscribe: in the modern era Subscribe and Unsubscribe only edit the filter
// of the next listen.
func (p *peer) subscribe(ctx context.Context) (fields, error) {
	lists := mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}
	listen := func() (stop func(), err error) {
		if !p.modern {
			return func() {}, nil
		}
		filter := lists
		filter.ResourceSubscriptions = p.PendingSubscriptionFilter().ResourceSubscriptions
		if stop, err = p.ListenAsync(ctx, filter, func(error) {}); err == nil {
			time.Sleep(300 * time.Millisecond) // it tells nobody when the server has acknowledged
		}
		return stop, err
	}
	var on mcp.SubscribeRequest
	on.Params.URI = note
	if err := p.Subscribe(ctx, on); err != nil {
		return nil, err
	}
	stop, err := listen()
	if err != nil {
		return nil, err
	}
	changed, updated, err := p.Touch(p.touched(ctx))
	if err != nil {
		return nil, err
	}
	var off mcp.UnsubscribeRequest
	off.Params.URI = note
	if err := p.Unsubscribe(ctx, off); err != nil {
		return nil, err
	}
	stop()
	if stop, err = listen(); err != nil {
		return nil, err
	}
	defer stop()
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
		return words(r.Content), nil
	})
}

func (p *peer) roots(ctx context.Context) (fields, error) {
	before, err := p.tool(ctx, "roots", nil, nil)
	if err != nil {
		return nil, err
	}
	p.Mu.Lock()
	p.files = append(p.files, mcp.Root{URI: "file:///two", Name: "two"})
	p.Mu.Unlock()
	result := fields{}
	if !p.modern {
		if err := p.RootListChanges(ctx); err != nil {
			return nil, err
		}
		result["changed"] = "sent"
	}
	after, err := p.tool(ctx, "roots", nil, nil)
	if err != nil {
		return nil, err
	}
	result["before"], result["after"] = words(before.Content), words(after.Content)
	return result, nil
}
