package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes; scripts depend on them.
const (
	exitOK          = 0
	exitFailed      = 1 // differences, failed checks, or something broke
	exitUsage       = 2 // the command line or configuration is wrong
	exitUnreachable = 3 // the upstream cannot be reached
	exitRefused     = 4 // the upstream refuses our credential
)

// failure is an error with the exit code it means and what --json says of it.
type failure struct {
	code   int
	name   string // "usage", "upstream_unreachable", …
	err    error
	status int    // HTTP status, 0: none was seen
	url    string // empty: no server was involved
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// shown is the error for people. What is wrong with a file stands on a line for
// each problem, indented so that no text in an error looks like a message of
// ours.
func (f *failure) shown() string {
	_, file := errors.AsType[configError](f.err)
	_, told := errors.AsType[problems](f.err)
	if !file && !told {
		return showText(f.Error(), maxShownError)
	}
	lines := strings.Split(f.Error(), "\n")
	for i, line := range lines {
		lines[i] = showText(line, maxShownError)
	}
	return strings.Join(lines, "\n  ")
}

// problems are what is wrong with a configuration file, a line each, as text.
type problems string

func (p problems) Error() string { return string(p) }

// usagef is an error in what the user wrote.
func usagef(format string, args ...any) error {
	return &failure{code: exitUsage, name: "usage", err: fmt.Errorf(format, args...)}
}

// app is one run of the command. Its writers are safe for concurrent use:
// logs and words go to the same place.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// run is main without a process: it runs a command line until it is done or
// ctx ends, and returns the exit code. Environment variables are the
// process's.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: &lockedWriter{w: stderr}}
	root := a.rootCommand()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return a.report(cmd, err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "taskbridge",
		Short: "Lets MCP clients and servers of different protocol revisions talk to each other",
		Long: "taskbridge is a proxy for the Model Context Protocol. It stands between clients and servers\n" +
			"that speak different revisions: legacy (2025-11-25 and before) and modern (2026-07-28).",
		Version:           buildInfo().text(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              unknownCommand,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return applyEnv(cmd.Flags()) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("taskbridge {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.SuggestionsMinimumDistance = 2
	root.SetIn(a.stdin)
	root.SetOut(a.stdout) // before the completion command is made, which keeps it
	root.SetErr(a.stderr)
	root.AddCommand(a.serveCommand(), a.stdioCommand(), a.probeCommand(), a.demoCommand(), a.versionCommand(), a.translateCommand(), a.diffCommand(), a.replayCommand(), a.checkCommand(), a.adminCommand(), a.configCommand())
	root.InitDefaultCompletionCmd("completion")
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			// cobra would show help for a wrong shell, and exit 0.
			cmd.Args, cmd.RunE = nil, func(*cobra.Command, []string) error {
				return usagef("completion wants a shell: bash, fish, powershell or zsh")
			}
		}
	}
	return root
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see taskbridge --help"
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		hint = "did you mean " + strings.Join(like, " or ") + "?"
	}
	return usagef("unknown command %q; %s", args[0], hint)
}

// guarded gives an error of a command's own work the exit code of a failure
// unless it has one. What cobra itself finds wrong stays without, and is usage.
func guarded(work func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := work(cmd, args)
		if _, ok := errors.AsType[*failure](err); err == nil || ok {
			return err
		}
		return &failure{code: exitFailed, name: "failed", err: err}
	}
}

// report tells the user of err and returns its exit code.
func (a *app) report(cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = &failure{code: exitUsage, name: "usage", err: err}
	}
	if wantsJSON(cmd) {
		a.reportJSON(f)
		return f.code
	}
	fmt.Fprintf(a.stderr, "taskbridge: %s\n", f.shown())
	if f.name == "usage" && cmd != nil && cmd.HasParent() {
		fmt.Fprintf(a.stderr, "See %s --help.\n", cmd.CommandPath())
	}
	return f.code
}

func wantsJSON(cmd *cobra.Command) bool {
	if cmd == nil {
		return false
	}
	f := cmd.Flags().Lookup("json")
	if f != nil && f.Value.Type() == "string" { // the name of a file
		return f.Value.String() != ""
	}
	return f != nil && f.Value.String() == "true"
}

func (a *app) reportJSON(f *failure) {
	type detail struct {
		Code    string  `json:"code"`
		Message string  `json:"message"`
		Status  *int    `json:"status"`
		URL     *string `json:"url"`
	}
	d := detail{Code: f.name, Message: f.Error()}
	if f.status != 0 {
		d.Status = &f.status
	}
	if f.url != "" {
		d.URL = &f.url
	}
	raw, err := json.Marshal(map[string]detail{"error": d})
	if err != nil {
		raw = []byte(`{"error":{"code":"failed","message":"the error cannot be shown","status":null,"url":null}}`)
	}
	fmt.Fprintf(a.stderr, "%s\n", asciiControls(raw))
}

// flagError turns pflag's errors into ours: what was wrong, where, what to do.
func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := e.GetSpecifiedName()
		if e.GetSpecifiedShortnames() != "" {
			return usagef("unknown flag -%s", name)
		}
		if like := nearestFlag(cmd.Flags(), name); like != "" {
			return usagef("unknown flag --%s; did you mean --%s?", name, like)
		}
		return usagef("unknown flag --%s", name)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usagef("--%s needs a value", e.GetFlag().Name)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("--%s %q: %s", e.GetFlag().Name, e.GetValue(), plainValueError(e.Unwrap()))
	}
	return usagef("%w", err)
}

// plainValueError drops the name of the strconv function.
func plainValueError(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, ": invalid syntax"); i >= 0 && strings.HasPrefix(text, "strconv.ParseBool") {
		return "want true or false"
	}
	if strings.HasPrefix(text, "strconv.ParseInt") {
		return "want a number"
	}
	return text
}

// nearestFlag is the flag most like name, if one is like it at all.
func nearestFlag(fs *pflag.FlagSet, name string) string {
	best, least := "", 3 // changes a slip of the keyboard may make
	fs.VisitAll(func(f *pflag.Flag) {
		d := distance(name, f.Name)
		if strings.HasPrefix(f.Name, name) && len(name) >= 3 {
			d = min(d, 1)
		}
		if d < least && !f.Hidden {
			best, least = f.Name, d
		}
	})
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last, row[j+1] = row[j+1], min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// lockedWriter serialises writes.
type lockedWriter struct {
	mu sync.Mutex // protects w
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
