package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"taskbridge/session"
	"taskbridge/session/offline"
	"taskbridge/session/replay"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/compare"
	"taskbridge/translate/operation"
	"taskbridge/translate/report"
)

func (a *app) replayCommand() *cobra.Command {
	f := &replayFlags{}
	cmd := &cobra.Command{
		Use:   "replay CAPTURE (--upstream URL | -- CMD ARGS... | --serve ADDRESS)",
		Short: "Do again what a capture's clients did, against another server, and compare",
		Long: "Reads a capture (or standard input: -), says the clients' side of it to a server and compares what comes back,\n" +
			"operation by operation, through the bridge where their eras differ. Tools that do not say they only read are\n" +
			"left alone unless allowed by name. Exit 0: every operation was compared and is the same; 1: one differs, or\n" +
			"one could not be compared.\n\n" +
			"With --serve the capture is the server: clients of either era get what was recorded. A request it has no\n" +
			"answer to gets an error that names the nearest one, and makes exit 1 of the end.",
		RunE: guarded(func(cmd *cobra.Command, args []string) error {
			rest := f.splitCommand(cmd, args)
			if len(rest) != 1 {
				return usagef("replay wants one capture, a file or - for standard input")
			}
			if f.serve != "" {
				return a.replayServe(cmd.Context(), f, cmd.Flags(), rest[0])
			}
			upstream := cmd.Flags().Lookup("upstream")
			if err := f.oneServer(cmd, upstream.Changed && len(upstream.Annotations[fromEnv]) == 0); err != nil {
				return err
			}
			return a.replay(cmd.Context(), f, cmd.Flags(), rest[0])
		}),
	}
	f.register(cmd.Flags())
	return cmd
}

// replaying is a replay that has been asked for and checked.
type replaying struct {
	f       *replayFlags
	name    string
	in      *captured
	plan    *replay.Plan
	compare compare.Options
	creds   map[string]string
	skipped []compare.Skip // before the capture was translated
}

func (a *app) replay(ctx context.Context, f *replayFlags, fs *pflag.FlagSet, name string) error {
	r := &replaying{f: f, name: name}
	if err := f.check(fs, name); err != nil {
		return err
	}
	selected, err := f.selected(fs)
	if err != nil {
		return err
	}
	if r.compare, err = f.comparing(fs); err != nil {
		return err
	}
	if r.creds, err = a.readCredentials(f.credentials); err != nil {
		return usagef("%s: %w", where(fs, "credentials"), err)
	}
	config, err := a.replayConfig(f, fs)
	if err != nil {
		return err
	}
	log, closeLog, err := f.logFlags.open(a, fs)
	if err != nil {
		return err
	}
	defer closeLog()
	config.log = log
	if r.in, err = a.readCapture(name); err != nil {
		return err
	}
	r.plan = replay.NewPlan(r.in.ops, selected, replay.Safety{Allow: f.allow, AllowUnannotated: f.allowUnannotated})
	if f.as != "recorded" {
		if err := a.inDialect(ctx, r); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(r.plan.Steps, func(s *replay.Step) bool { return s.Selected }) {
		return usagef("%s: there is no operation of a client to replay", name)
	}
	if f.dryRun {
		return a.dryRun(r.plan)
	}
	return a.replayAll(ctx, r, config)
}

// inDialect translates what the plan sends, and plans anew. What must not be
// sent is left out before, while the capture still says why.
func (a *app) inDialect(ctx context.Context, r *replaying) error {
	var ops []*operation.Operation
	safe := replay.Safety{AllowUnannotated: true}
	for _, step := range r.plan.Steps {
		switch {
		case step.Send:
			ops = append(ops, step.Op)
			safe.Allow = append(safe.Allow, step.Op.Name, step.Op.Method)
		case step.Selected:
			r.skipped = append(r.skipped, compare.Skip{Op: step.Op, Reason: string(step.Reason)})
		}
	}
	g := operation.NewGatherer(translate.ClientLeg)
	told, err := offline.Translate(ctx, offline.TranslateOptions{Operations: ops, To: r.f.as, Out: func(rec *capture.Record) error {
		g.Add(rec)
		return nil
	}})
	if err != nil {
		return fmt.Errorf("translate %s: %w", r.name, err)
	}
	a.tellTranslation(told)
	r.plan = replay.NewPlan(g.Operations(), nil, safe)
	return nil
}

// replayConfig is the bridge to the server, without a listener.
func (a *app) replayConfig(f *replayFlags, fs *pflag.FlagSet) (bridgeConfig, error) {
	c := bridgeConfig{maxMessage: f.maxMessage, stdio: true}
	if f.dryRun && f.url == "" && len(f.command) == 0 {
		return c, nil // nothing is sent to anybody
	}
	s, err := f.resolve(a, fs)
	if err != nil {
		return c, err
	}
	if s.exposed || f.credentials != "" && plainRemote(s) {
		fmt.Fprintln(a.stderr, "warning: a credential goes over plain http:// to another machine; use https://")
	}
	era, _ := translate.ParseEra(f.era)
	c.routes = oneRoute(s, era, f.connectTimeout)
	route := &c.routes[0]
	route.local = true
	// One program stands for all the clients of a capture: what bounds a caller's
	// greed has bounded them when it was recorded.
	many := session.Limit{Each: 1 << 20, All: 1 << 20}
	route.policy.Tasks, route.policy.Sessions, route.policy.Upstreams, route.policy.Streams = many, many, many, many
	return c, f.policyFlags.apply(fs, &c)
}

// replayAll sends what the plan says, compares and reports.
func (a *app) replayAll(ctx context.Context, r *replaying, config bridgeConfig) error {
	keep, err := a.newKeeper(r)
	if err != nil {
		return err
	}
	defer keep.discard()
	b, err := newBridge(ctx, config)
	if err != nil {
		return usagef("%w", err)
	}
	defer b.close()
	defer catchBrokenPipes()()
	face, err := r.reach(ctx, b)
	if err != nil {
		return replayFailure(err, config.shown())
	}
	progress := a.newProgress(r.plan)
	out, err := replay.Run(ctx, replay.Options{
		Hub: b.routes[0].hub, Plan: r.plan, Credentials: r.creds, Concurrency: r.f.concurrency, Speed: r.f.speed,
		Timeout: r.f.timeout, Seed: r.f.seed, Done: progress.done, Keep: keep.record(),
	})
	progress.end()
	if err != nil {
		return fmt.Errorf("stopped: %w", err)
	}
	found := out.Report(r.compare, func(op *operation.Operation) bool { return r.bridged(op, face) })
	found.Skipped = append(r.skipped, found.Skipped...)
	found.Lacking = r.lacking(found)
	c := &report.Comparison{Command: "replay", A: r.name, B: config.shown(), Report: found, Notes: r.notes(out, found)}
	if err := a.writeComparison(&r.f.compareFlags, c); err != nil {
		return err
	}
	if err := keep.finish(r, found); err != nil {
		return err
	}
	return verdictOf(found)
}

// reach asks the server what it speaks, with the credential of the first
// caller that has one.
func (r *replaying) reach(ctx context.Context, b *bridge) (session.Face, error) {
	target := session.Target{Upstream: upstreamName, Principal: session.HashPrincipal("replay", "")}
	for _, step := range r.plan.Steps {
		if value, ok := r.creds[step.Op.Principal]; ok && step.Send {
			target.Principal = session.HashPrincipal("token", value)
			target.Credential = http.Header{"Authorization": {value}}
			break
		}
	}
	return b.routes[0].live.list[0].faces.Face(ctx, target)
}

// replayFailure is the exit code of a server that cannot be replayed against.
func replayFailure(err error, shown string) error {
	if de, ok := errors.AsType[*session.DialError](err); ok && de.Fail == session.FailRefused {
		return &failure{code: exitRefused, name: "upstream_refused", err: fmt.Errorf("%s: %w", shown, de.Err), status: de.Status, url: shown}
	}
	err = probeFailure(err, shown)
	if f, ok := errors.AsType[*failure](err); ok && f.err != nil {
		if de, ok := errors.AsType[*session.DialError](f.err); ok {
			f.err = fmt.Errorf("%s: %w", shown, de.Err)
		}
	}
	return err
}

// bridged: the server is of another era than the one that was recorded. A
// capture that does not tell is one of a client that spoke to its server itself;
// a server of both eras is spoken to in its client's.
func (r *replaying) bridged(op *operation.Operation, face session.Face) bool {
	was, now := r.in.server, face.Era
	if was == translate.EraUnknown {
		was = op.Era
	}
	if face.Dual {
		now = op.Era
	}
	return was != now
}

// maxReplayNotes bounds what is said beside the comparison.
const maxReplayNotes = 50

// notes are what happened beside the protocol.
func (r *replaying) notes(out *replay.Outcome, found *compare.Report) []string {
	var notes []string
	if n := len(found.Skipped); n > 0 {
		notes = append(notes, fmt.Sprintf("%d operations were not replayed; --dry-run says of each why", n))
	}
	if !r.in.whole {
		notes = append(notes, r.name+": "+r.in.why)
	}
	left := 0
	for _, result := range out.Results {
		for _, n := range result.Notes {
			if len(notes) == maxReplayNotes {
				left++
				continue
			}
			notes = append(notes, fmt.Sprintf("operation %d: %s", result.Op.N, n))
		}
	}
	if left > 0 {
		notes = append(notes, fmt.Sprintf("and %d more", left))
	}
	return notes
}
