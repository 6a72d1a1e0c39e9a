package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbridge/cmd/peers"
	"taskbridge/translate"
	"taskbridge/upstream"
)

const (
	demoTimeout = 30 * time.Second // for one conversation
	demoDrain   = 2 * time.Second
	demoTool    = "confirm_delete"
	demoPoll    = 250 * time.Millisecond // slow enough to read the trace
)

func (a *app) demoCommand() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show both directions at work with built-in clients and servers",
		Long: "Starts a legacy and a modern server and a bridge before each, runs a task that asks a question\n" +
			"from a client of the other era through both, and prints what each side saw. Then it stays up\n" +
			"for clients of yours.",
		Args: noArgs,
		RunE: guarded(func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), once) }),
	}
	cmd.Flags().BoolVar(&once, "once", false, "end after the two conversations; exit 0 if both went well")
	return cmd
}

// demoPair is a server, the bridge before it and the client that talks through.
type demoPair struct {
	title          string
	client, server string // what each speaks
	peer           interface {
		http.Handler
		Calls(tool string) int
		Close() error
	}
	talk func(ctx context.Context, url string) (peers.TaskRun, error)

	srv        *http.Server
	bridge     *bridge
	trace      *trace
	url        string // of the bridge
	serverURL  string
	served     chan struct{}
	bridgeDone chan error
}

func (a *app) demo(ctx context.Context, once bool) error {
	colour := colourful(a.stdout)
	pairs := []*demoPair{
		{
			title: "A legacy client and a modern server", client: "legacy " + peers.LegacyVersion, server: "modern " + peers.ModernVersion,
			peer: peers.NewModernServer(peers.ServerOptions{PollInterval: demoPoll}), talk: talkLegacy,
		},
		{
			title: "A modern client and a legacy server", client: "modern " + peers.ModernVersion, server: "legacy " + peers.LegacyVersion,
			peer: peers.NewLegacyServer(peers.ServerOptions{PollInterval: demoPoll}), talk: talkModern,
		},
	}
	defer func() {
		for _, p := range pairs {
			p.close()
		}
	}()
	var failed error
	for _, p := range pairs {
		if err := p.start(ctx, a.stdout, colour); err != nil {
			return err
		}
		if err := p.converse(ctx, a.stdout); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", strings.ToLower(p.title), err))
		}
	}
	if once || failed != nil {
		return failed
	}
	_, err := io.WriteString(a.stdout, demoInvitation(pairs))
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// start brings up server and bridge, the bridge wired as serve wires it.
func (p *demoPair) start(ctx context.Context, out io.Writer, colour bool) error {
	ln, err := listen(ctx, "127.0.0.1:0", true)
	if err != nil {
		return fmt.Errorf("start the demo's server: %w", err)
	}
	p.srv = &http.Server{Handler: p.peer, ReadHeaderTimeout: 10 * time.Second}
	p.served = make(chan struct{})
	go func() { defer close(p.served); _ = p.srv.Serve(ln) }()
	p.serverURL = "http://" + ln.Addr().String() + "/mcp"
	p.trace = newTrace(out, colour)
	routes := oneRoute(server{http: upstream.HTTPUpstream{URL: p.serverURL}}, translate.EraUnknown, upstream.DefaultConnectTimeout)
	routes[0].path = "/mcp"
	p.bridge, err = newBridge(ctx, bridgeConfig{
		listeners: []listenerConfig{{name: defaultName, loopback: true}}, routes: routes,
		maxMessage: upstream.DefaultMaxMessage,
		log:        slog.New(slog.DiscardHandler), tap: p.trace,
	})
	if err != nil {
		return fmt.Errorf("start the demo's bridge: %w", err)
	}
	var front net.Listener
	if front, err = listen(ctx, "127.0.0.1:0", true); err != nil {
		return fmt.Errorf("start the demo's bridge: %w", err)
	}
	p.bridgeDone = make(chan error, 1)
	go func() { p.bridgeDone <- p.bridge.doors[0].serve(front) }()
	p.url = "http://" + front.Addr().String() + "/mcp"
	return nil
}

// converse runs the task and says how it went.
func (p *demoPair) converse(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	fmt.Fprintf(out, "\n%s: the tool %s runs as a task and asks before it deletes.\n\n", p.title, demoTool)
	p.trace.header("client, "+p.client, "server, "+p.server)
	run, err := p.talk(ctx, p.url)
	p.trace.flush()
	switch calls := p.peer.Calls(demoTool); {
	case err != nil:
	case run.Error != nil:
		err = fmt.Errorf("the task ended with %s", showText(string(run.Error), maxShown))
	case run.Status() != peers.StatusCompleted || len(run.Questions) != 1:
		err = fmt.Errorf("the task is %s after %d questions, want completed after 1", run.Status(), len(run.Questions))
	case calls != 1:
		err = fmt.Errorf("the tool ran %d times, want once", calls)
	}
	if err != nil {
		fmt.Fprintf(out, "\nfailed: %s\n", showText(err.Error(), maxShownError))
		return err
	}
	fmt.Fprintf(out, "\nok: the client saw %s and got %q; the server ran the tool once.\n",
		strings.Join(run.Statuses, ", "), run.Text())
	return nil
}

var demoArgs = map[string]string{"filename": "old-report.txt"}

func talkLegacy(ctx context.Context, url string) (peers.TaskRun, error) {
	c := &peers.LegacyClient{URL: url, HTTP: demoHTTP()}
	defer c.Close()
	if _, err := c.Initialize(ctx); err != nil {
		return peers.TaskRun{}, err
	}
	return c.RunTask(ctx, demoTool, demoArgs, peers.Accept(map[string]any{"confirm": true}))
}

func talkModern(ctx context.Context, url string) (peers.TaskRun, error) {
	c := &peers.ModernClient{URL: url, HTTP: demoHTTP(), Tasks: true}
	defer c.Close()
	r, err := c.Call(ctx, "server/discover", nil)
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		return peers.TaskRun{}, err
	}
	return c.RunTask(ctx, demoTool, demoArgs, peers.Accept(map[string]any{"confirm": true}))
}

// demoHTTP goes to loopback whatever proxy the environment names.
func demoHTTP() *http.Client { return &http.Client{Transport: &http.Transport{}} }

func (p *demoPair) close() {
	if p.bridge != nil {
		if p.bridgeDone != nil {
			p.bridge.drain(demoDrain)
			<-p.bridgeDone
		} else {
			p.bridge.close()
		}
	}
	p.peer.Close()
	if p.srv != nil {
		p.srv.Close()
		<-p.served
	}
	if p.trace != nil {
		p.trace.close()
	}
}

func demoInvitation(pairs []*demoPair) string {
	const npx = "  npx @modelcontextprotocol/inspector "
	modern, legacy := pairs[0], pairs[1]
	var b strings.Builder
	b.WriteString("\nBoth bridges stay up; each takes clients of any revision. Ctrl-C ends them.\n\n")
	fmt.Fprintf(&b, "  %s   before a modern server (itself at %s)\n", modern.url, modern.serverURL)
	fmt.Fprintf(&b, "  %s   before a legacy server (itself at %s)\n", legacy.url, legacy.serverURL)
	b.WriteString("\nThe MCP Inspector as a page, and on the command line as a client of either era:\n\n")
	fmt.Fprintf(&b, "%s--transport http --server-url %s\n", npx, modern.url)
	fmt.Fprintf(&b, "%s--cli --transport http --server-url %s --protocol-era legacy --method tools/list\n", npx, modern.url)
	fmt.Fprintf(&b, "%s--cli --transport http --server-url %s --protocol-era modern --method tools/list\n\n", npx, legacy.url)
	return b.String()
}

// colourful: only a terminal gets colours, and none if its user wants none
// (no-color.org).
func colourful(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && terminal(w)
}

// terminal: somebody looks at it, on something that can move its cursor.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
