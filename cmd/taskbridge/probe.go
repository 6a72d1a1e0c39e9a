package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/upstream"
)

func (a *app) probeCommand() *cobra.Command {
	f := &upstreamFlags{}
	var asJSON bool
	var config, server string
	cmd := &cobra.Command{
		Use:   "probe (URL | -- CMD ARGS...)",
		Short: "Find out which revisions a server speaks and what it offers",
		RunE: guarded(func(cmd *cobra.Command, args []string) error {
			rest := f.splitCommand(cmd, args)
			if config != "" {
				return a.probeConfig(cmd, f, config, server, rest, asJSON)
			}
			if server != "" {
				return usagef("--server names one of a client's servers; give its configuration with --mcp-config FILE")
			}
			if err := f.givenURL(cmd, rest); err != nil {
				return err
			}
			return a.probe(cmd.Context(), f, cmd.Flags(), asJSON)
		}),
	}
	f.register(cmd.Flags())
	cmd.Flags().StringVar(&config, "mcp-config", "", "a client's own configuration `FILE`, whose servers are probed")
	cmd.Flags().StringVar(&server, "server", "", "`NAME` of the one server of --mcp-config to probe")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an object; a failure is one line of JSON on standard error")
	return cmd
}

func (a *app) probe(ctx context.Context, f *upstreamFlags, fs *pflag.FlagSet, asJSON bool) error {
	s, err := f.resolve(a, fs)
	if err != nil {
		return err
	}
	if s.exposed {
		fmt.Fprintln(a.stderr, "warning: a credential goes over plain http:// to another machine; use https://")
	}
	r, err := a.ask(ctx, f, s)
	if err != nil {
		return probeFailure(err, s.shown)
	}
	if asJSON {
		return probeJSON(a.stdout, s.shown, r)
	}
	_, err = io.WriteString(a.stdout, probeText(s.shown, r))
	return err
}

// ask probes a server.
func (a *app) ask(ctx context.Context, f *upstreamFlags, s server) (upstream.Result, error) {
	info := buildInfo()
	o := upstream.ProbeOptions{Upstream: upstreamName, ClientVersion: info.Version, LegacyFace: true}
	if s.child != nil {
		c := *s.child
		c.Name = upstreamName
		c.ShowTail = true
		dialer, err := upstream.NewStdio(c)
		if err != nil {
			return upstream.Result{}, usagef("%w", err)
		}
		defer dialer.Close()
		return dialer.Probe(ctx, o)
	}
	if s.ws {
		dialer, err := upstream.NewWebSocket(s.webSocket(upstreamName, f.connectTimeout, upstream.WebSocketOptions{UserAgent: "taskbridge/" + info.Version}))
		if err != nil {
			return upstream.Result{}, usagef("%w", err)
		}
		defer dialer.Close()
		return dialer.Probe(ctx, session.Target{Upstream: upstreamName}, o)
	}
	dialer, err := upstream.NewHTTP(upstream.HTTPOptions{
		Upstreams:      map[string]upstream.HTTPUpstream{upstreamName: s.http},
		RootCAs:        s.roots,
		ConnectTimeout: f.connectTimeout,
		UserAgent:      "taskbridge/" + info.Version,
	})
	if err != nil {
		return upstream.Result{}, usagef("%w", err)
	}
	defer dialer.Close()
	conn, err := dialer.Dial(ctx, session.Target{Upstream: upstreamName})
	if err != nil {
		return upstream.Result{}, err
	}
	defer conn.Close()
	return upstream.Probe(ctx, conn, o)
}

// probeFailure is the exit code and name of a failed probe.
func probeFailure(err error, shown string) error {
	if usage, ok := errors.AsType[*failure](err); ok {
		return usage
	}
	f := &failure{code: exitUnreachable, name: "upstream_unusable", err: err, url: shown}
	de, ok := errors.AsType[*session.DialError](err)
	if ok {
		f.status = de.Status
		// The upstream's name means nothing to who gave one URL.
		f.err = fmt.Errorf("probe %s: %w", shown, de.Err)
	}
	switch {
	case f.status == http.StatusUnauthorized || f.status == http.StatusForbidden:
		f.code, f.name = exitRefused, "upstream_refused"
	case errors.Is(err, context.DeadlineExceeded):
		f.name = "upstream_timeout"
	case ok && (de.Fail == session.FailUnreachable || de.Fail == session.FailProcess):
		f.name = "upstream_unreachable"
	case errors.Is(err, upstream.ErrUndecided):
		f.name = "upstream_undecided"
	}
	return f
}

// probeResult is what probe --json prints. Raw members are the server's own.
type probeResult struct {
	URL           string          `json:"url"`
	Transport     string          `json:"transport"` // streamable-http, http+sse, websocket or stdio
	Era           string          `json:"era"`
	Version       string          `json:"version"`
	Versions      []string        `json:"versions"`
	Dual          bool            `json:"dual"`
	LegacyVersion string          `json:"legacyVersion,omitempty"`
	Tasks         bool            `json:"tasks"`
	LegacyTasks   bool            `json:"legacyTasks"`
	Session       bool            `json:"session"`
	ServerInfo    json.RawMessage `json:"serverInfo"`
	Capabilities  json.RawMessage `json:"capabilities"`
	Instructions  string          `json:"instructions,omitempty"`
}

func probeJSON(w io.Writer, shown string, r upstream.Result) error {
	raw, err := json.Marshal(probeResult{
		URL: shown, Transport: r.Transport, Era: r.Era.String(), Version: r.Version, Versions: append([]string{}, r.Versions...),
		Dual: r.Dual, LegacyVersion: r.LegacyVersion, Tasks: r.Tasks, LegacyTasks: r.LegacyTasks, Session: r.Session,
		ServerInfo: r.ServerInfo, Capabilities: r.Capabilities, Instructions: r.Instructions,
	})
	if err != nil {
		return err
	}
	_, err = w.Write(append(asciiControls(raw), '\n'))
	return err
}

func probeText(shown string, r upstream.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", showText(shown, maxShown))
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-13s %s\n", name, text)
		}
	}
	era := r.Era.String() + ", " + r.Version
	if r.Dual {
		era += "; also legacy, " + r.LegacyVersion
	}
	line("transport", r.Transport)
	line("era", showText(era, maxShown))
	line("versions", showText(strings.Join(r.Versions, ", "), maxShown))
	line("server", serverText(r.ServerInfo))
	line("capabilities", capabilityText(r.Capabilities))
	line("tasks", tasksText(r))
	line("instructions", showText(r.Instructions, maxShown))
	return b.String()
}

func serverText(info []byte) string {
	var s struct{ Name, Title, Version string }
	if json.Unmarshal(info, &s) != nil {
		return "unnamed"
	}
	text := showText(s.Name, maxShown) + " " + showText(s.Version, maxShown)
	if s.Title != "" && s.Title != s.Name {
		text += " (" + showText(s.Title, maxShown) + ")"
	}
	return strings.TrimSpace(text)
}

// capabilityText lists the names, with what is switched on inside.
func capabilityText(caps []byte) string {
	var all map[string]json.RawMessage
	if json.Unmarshal(caps, &all) != nil || len(all) == 0 {
		return "none"
	}
	var names []string
	for name, raw := range all {
		var inside map[string]json.RawMessage
		_ = json.Unmarshal(raw, &inside)
		var on []string
		for key, v := range inside {
			if !bytes.Equal(v, []byte("false")) {
				on = append(on, key)
			}
		}
		slices.Sort(on)
		if len(on) > 0 {
			name += " (" + strings.Join(on, ", ") + ")"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return showText(strings.Join(names, ", "), 2*maxShown)
}

func tasksText(r upstream.Result) string {
	switch {
	case r.Era == translate.Modern && r.Tasks && r.Dual && r.LegacyTasks:
		return "yes, in both eras"
	case r.Era == translate.Modern && r.Tasks:
		return "yes, the tasks extension"
	case r.Tasks:
		return "yes, as of " + r.Version
	case r.LegacyTasks:
		return "only in the legacy era"
	}
	return "no"
}
