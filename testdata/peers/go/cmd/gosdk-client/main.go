// Command gosdk-client runs one scenario of a go-sdk client, pinned to the
// modern era, against a server:
//
//	gosdk-client URL SCENARIO [NAME [JSON]]
//
// It prints one JSON object a line, the last {"ok":true} or {"ok":false,"error":…},
// and exits 0 or 1. Everything is over within 30 seconds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"peers/play"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const version = "2026-07-28"

type fields = play.Fields

func fail(name string, err error) {
	var rpc *jsonrpc.Error
	if errors.As(err, &rpc) {
		play.Step(name, fields{"error": fields{"code": rpc.Code, "message": rpc.Message}})
		return
	}
	play.Step(name, fields{"error": err.Error()})
}

// transportTo is what leads to url: an endpoint, or "stdio:" and a JSON array, a
// command to start.
func transportTo(url string) mcp.Transport {
	raw, ok := strings.CutPrefix(url, "stdio:")
	if !ok {
		return &mcp.StreamableClientTransport{Endpoint: url}
	}
	var argv []string
	if err := json.Unmarshal([]byte(raw), &argv); err != nil || len(argv) == 0 {
		panic("stdio: wants a JSON array of a command")
	}
	return &mcp.CommandTransport{Command: exec.Command(argv[0], argv[1:]...)}
}

type peer struct {
	*mcp.ClientSession
	progress chan float64
	args     []string // after the scenario
}

func (p *peer) arg(i int) string {
	if i < len(p.args) {
		return p.args[i]
	}
	return ""
}

var scenarios = map[string]func(context.Context, *peer) error{
	"initialize": initialize,
	"list":       list,
	"call":       func(ctx context.Context, p *peer) error { return p.call(ctx, "echo", fields{"text": "hello"}, nil) },
	"greet":      func(ctx context.Context, p *peer) error { return p.call(ctx, "greet", fields{"name": "Ada"}, nil) },
	"ask":        func(ctx context.Context, p *peer) error { return p.call(ctx, "ask_name", nil, nil) },
	"ask-twice":  func(ctx context.Context, p *peer) error { return p.call(ctx, "ask_twice", nil, nil) },
	"sample":     func(ctx context.Context, p *peer) error { return p.call(ctx, "sample", nil, nil) },
	"roots":      func(ctx context.Context, p *peer) error { return p.call(ctx, "roots", nil, nil) },
	"optional-plain": func(ctx context.Context, p *peer) error {
		return p.call(ctx, "slow_compute", fields{"seconds": 1, "label": "plain"}, nil)
	},
	"required-plain": func(ctx context.Context, p *peer) error { return p.call(ctx, "failing_job", nil, nil) },
	"protocol-error": func(ctx context.Context, p *peer) error { return p.call(ctx, "protocol_error_job", nil, nil) },
	"question-plain": func(ctx context.Context, p *peer) error {
		return p.call(ctx, "confirm_delete", fields{"filename": "p.txt"}, nil)
	},
	"unknown-tool": func(ctx context.Context, p *peer) error { return p.call(ctx, "no_such_tool", nil, nil) },
	"progress":     progress,
	"cancel-call":  cancelCall,
	"resources":    func(ctx context.Context, p *peer) error { return p.resources(ctx, "peer://note") },
	"prompts": func(ctx context.Context, p *peer) error {
		return p.prompt(ctx, "hello", map[string]string{"name": "Ada"})
	},
	"tool":     tool,
	"prompt":   prompt,
	"resource": func(ctx context.Context, p *peer) error { return p.read(ctx, p.arg(0)) },
}

func main() {
	if len(os.Args) < 3 || scenarios[os.Args[2]] == nil {
		fmt.Fprintf(os.Stderr, "usage: gosdk-client URL SCENARIO [NAME [JSON]]\nscenarios: %s\n",
			strings.Join(slices.Sorted(maps.Keys(scenarios)), " "))
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	play.End(execute(ctx, os.Args[1], scenarios[os.Args[2]], os.Args[3:]))
}

func execute(ctx context.Context, url string, run func(context.Context, *peer) error, args []string) error {
	p := &peer{progress: make(chan float64, 64), args: args}
	options := &mcp.ClientOptions{
		Capabilities:       &mcp.ClientCapabilities{RootsV2: &mcp.RootCapabilities{}},
		ElicitationHandler: elicit,
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			play.Step("sampling", fields{"text": textOf(r.Params.Messages[0].Content)})
			return &mcp.CreateMessageResult{Model: "peer-model", Role: "assistant", StopReason: "endTurn", Content: &mcp.TextContent{Text: "something"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			select {
			case p.progress <- r.Params.Progress:
			default:
			}
		},
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "gosdk-peer-client", Version: "1.0.0"}, options)
	client.AddRoots(&mcp.Root{URI: "file:///peer", Name: "peer"})
	session, err := client.Connect(ctx, transportTo(url), &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer session.Close()
	p.ClientSession = session
	if got := session.InitializeResult().ProtocolVersion; got != version {
		return fmt.Errorf("the session speaks %s", got)
	}
	return run(ctx, p)
}

// elicit fills a form that fits.
func elicit(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	play.Step("question", fields{"message": r.Params.Message})
	raw, _ := json.Marshal(r.Params.RequestedSchema)
	var schema struct {
		Properties map[string]struct {
			Type    string
			Default any
			Enum    []any
		}
	}
	_ = json.Unmarshal(raw, &schema)
	content := fields{}
	for name, property := range schema.Properties {
		switch {
		case property.Default != nil:
			content[name] = property.Default
		case len(property.Enum) > 0:
			content[name] = property.Enum[0]
		case property.Type == "boolean":
			content[name] = true
		case name == "colour" || name == "color":
			content[name] = "green"
		case property.Type == "string":
			content[name] = "Ada"
		}
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}

func initialize(_ context.Context, p *peer) error {
	r := p.InitializeResult()
	play.Step("initialize", fields{
		"protocolVersion": r.ProtocolVersion, "server": r.ServerInfo.Name, "session": p.ID() != "",
		"tools": r.Capabilities.Tools != nil, "extensions": slices.Sorted(maps.Keys(r.Capabilities.Extensions)),
	})
	return nil
}

func list(ctx context.Context, p *peer) error {
	count := 0
	for t, err := range p.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		count++
		play.Step("tool", fields{"name": t.Name})
	}
	play.Step("list", fields{"count": count})
	return nil
}

func textOf(content ...mcp.Content) string {
	var parts []string
	for _, block := range content {
		switch c := block.(type) {
		case *mcp.TextContent:
			parts = append(parts, c.Text)
		case *mcp.EmbeddedResource:
			parts = append(parts, "[resource]")
		case *mcp.ImageContent:
			parts = append(parts, "[image]")
		default:
			parts = append(parts, fmt.Sprintf("[%T]", block))
		}
	}
	return strings.Join(parts, "\n")
}

func (p *peer) call(ctx context.Context, name string, arguments fields, token any) error {
	if arguments == nil {
		arguments = fields{}
	}
	params := &mcp.CallToolParams{Name: name, Arguments: arguments}
	if token != nil {
		params.SetProgressToken(token)
	}
	r, err := p.CallTool(ctx, params)
	if err != nil {
		fail("result", err)
		return nil
	}
	line := fields{"text": textOf(r.Content...), "isError": r.IsError}
	if r.StructuredContent != nil {
		line["structured"] = r.StructuredContent
	}
	play.Step("result", line)
	return nil
}

func progress(ctx context.Context, p *peer) error {
	if name := p.arg(0); name != "" {
		return p.withProgress(ctx, name, nil, 3)
	}
	return p.withProgress(ctx, "progress", fields{"steps": 4}, 4)
}

func (p *peer) withProgress(ctx context.Context, name string, arguments fields, want int) error {
	if err := p.call(ctx, name, arguments, "token-1"); err != nil {
		return err
	}
	var seen []float64
	for range want {
		select {
		case v := <-p.progress:
			seen = append(seen, v)
		case <-time.After(2 * time.Second):
		}
	}
	play.Step("progress", fields{"seen": seen})
	return nil
}

func cancelCall(ctx context.Context, p *peer) error {
	short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, err := p.CallTool(short, &mcp.CallToolParams{Name: "slow_compute", Arguments: fields{"seconds": 20, "label": "c"}})
	play.Step("call", fields{"failed": err != nil})
	if _, err := p.ListTools(ctx, nil); err != nil {
		return err
	}
	play.Step("alive", nil)
	return nil
}

func (p *peer) resources(ctx context.Context, uri string) error {
	listed, err := p.ListResources(ctx, nil)
	if err != nil {
		return err
	}
	found := slices.ContainsFunc(listed.Resources, func(r *mcp.Resource) bool { return r.URI == uri })
	play.Step("list", fields{"found": found})
	return p.read(ctx, uri)
}

func (p *peer) read(ctx context.Context, uri string) error {
	read, err := p.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		fail("read", err)
		return nil
	}
	play.Step("read", fields{"text": read.Contents[0].Text})
	return nil
}

func (p *peer) prompt(ctx context.Context, name string, arguments map[string]string) error {
	r, err := p.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: arguments})
	if err != nil {
		fail("get", err)
		return nil
	}
	play.Step("get", fields{"text": textOf(r.Messages[0].Content), "messages": len(r.Messages)})
	return nil
}

func tool(ctx context.Context, p *peer) error {
	arguments := fields{}
	if raw := p.arg(1); raw != "" {
		if err := json.Unmarshal([]byte(raw), &arguments); err != nil {
			return err
		}
	}
	return p.call(ctx, p.arg(0), arguments, nil)
}

func prompt(ctx context.Context, p *peer) error {
	arguments := map[string]string{}
	if raw := p.arg(1); raw != "" {
		if err := json.Unmarshal([]byte(raw), &arguments); err != nil {
			return err
		}
	}
	return p.prompt(ctx, p.arg(0), arguments)
}
