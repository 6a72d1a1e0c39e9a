package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"taskbridge/session/record"
	"taskbridge/translate/capture"
	"taskbridge/translate/check"
	"taskbridge/translate/report"
)

// checkFlags are the flags of check as the user gave them.
type checkFlags struct {
	form   string
	failOn []string
	leg    string
	out    string
	rules  bool
}

func (a *app) checkCommand() *cobra.Command {
	f := &checkFlags{}
	cmd := &cobra.Command{
		Use:   "check CAPTURE",
		Short: "Hold a capture against the specification",
		Long: "Reads a capture (or standard input: -) and says where it breaks the rules of the revision spoken: members,\n" +
			"ids, lifecycle, tasks, progress, capabilities, headers and status. Each finding names the line, the rule, whose\n" +
			"fault it is and where the specification says so. What the proxy only passed on is the peer's fault.\n" +
			"Exit 0: nothing that --fail-on names; 1: there is; 2: the file cannot be read.",
		RunE: guarded(func(cmd *cobra.Command, args []string) error {
			switch {
			case f.rules && len(args) == 0:
				_, err := io.WriteString(a.stdout, rulesText())
				return err
			case f.rules:
				return usagef("--rules reads no capture")
			case len(args) != 1:
				return usagef("check wants one capture, a file or - for standard input")
			}
			return a.check(f, cmd.Flags(), args[0])
		}),
	}
	fs := cmd.Flags()
	enumVar(fs, &f.form, "format", "text", report.Forms, "form of the report")
	fs.StringSliceVar(&f.failOn, "fail-on", []string{"error"}, "exit 1 for these, a `LIST` of severities (error, warning, note; one includes those above it), rules (id/reused), groups of rules (task/) or none")
	enumVar(fs, &f.leg, "leg", "both", []string{"both", "client", "server"}, "report one half of the traffic only")
	fs.StringVarP(&f.out, "out", "o", "-", "`FILE` to write the report to; - is standard output")
	fs.BoolVar(&f.rules, "rules", false, "list the rules and read nothing")
	return cmd
}

func rulesText() string {
	var b strings.Builder
	for _, r := range check.Rules() {
		fmt.Fprintf(&b, "%-30s %-8s %s\n", r.ID, r.Severity, r.Says)
	}
	return b.String()
}

// failing reads --fail-on.
func (f *checkFlags) failing(fs *pflag.FlagSet) (func(*check.Finding) bool, error) {
	rules := check.Rules()
	least := check.Error + 1
	var prefixes []string
	for _, word := range f.failOn {
		if word == "none" || word == "" {
			continue
		}
		if s, ok := check.ParseSeverity(word); ok {
			least = min(least, s)
			continue
		}
		known := slices.ContainsFunc(rules, func(r check.Rule) bool {
			return r.ID == word || strings.HasPrefix(r.ID, strings.TrimSuffix(word, "/")+"/")
		})
		if !known {
			return nil, usagef("%s %q: no severity and no rule; see taskbridge check --rules", where(fs, "fail-on"), word)
		}
		prefixes = append(prefixes, strings.TrimSuffix(word, "/"))
	}
	return func(x *check.Finding) bool {
		return x.Severity >= least || slices.ContainsFunc(prefixes, func(p string) bool {
			return x.Rule.ID == p || strings.HasPrefix(x.Rule.ID, p+"/")
		})
	}, nil
}

func (a *app) check(f *checkFlags, fs *pflag.FlagSet, name string) error {
	fails, err := f.failing(fs)
	if err != nil {
		return err
	}
	file, err := record.Open(name, a.stdin)
	if err != nil {
		return usagef("%w", err)
	}
	defer file.Close()
	failed := 0
	work := func(w io.Writer) error {
		failed, err = a.checkTo(w, f, file, fails)
		return err
	}
	if f.out == "-" {
		err = work(a.stdout)
	} else {
		err = writeReport(f.out, work)
	}
	switch {
	case err != nil:
		if _, isFormat := errors.AsType[*capture.FormatError](err); isFormat {
			return usagef("%s: %w", file.Name, err)
		}
		return err
	case failed > 0:
		return &failure{code: exitFailed, name: "failed_checks", err: fmt.Errorf("%s: %d findings fail the check", file.Name, failed)}
	}
	return nil
}

// checkTo writes the report and counts what fails the check.
func (a *app) checkTo(w io.Writer, f *checkFlags, file *record.File, fails func(*check.Finding) bool) (failed int, err error) {
	out := report.NewFindings(w, f.form, file.Name, buildInfo().Version)
	records := 0
	c := check.New(check.OptionsFor(file.Header()), func(x check.Finding) {
		if f.leg != "both" && x.Leg != 0 && x.Leg.String() != f.leg {
			return
		}
		if fails(&x) {
			failed++
		}
		out.Add(x)
	})
	tick, done := a.progress(file)
	err = c.Capture(file, func() { records++; tick() })
	done()
	if err != nil {
		return failed, err
	}
	return failed, out.Close(records)
}

// longFile is the size from which a bar is shown, in bytes.
const longFile = 8 << 20

// progress shows on a terminal how far a long file was read. It is drawn at most
// ten times a second, whatever the number of records.
func (a *app) progress(file *record.File) (tick, done func()) {
	_, size := file.Progress()
	set, done := a.bar(file, size, true)
	n := 0
	return func() {
		if n++; n%64 == 0 {
			read, _ := file.Progress()
			set(read)
		}
	}, done
}

// bar shows on a terminal how much of all is done with a long file.
func (a *app) bar(file *record.File, all int64, bytes bool) (set func(int64), done func()) {
	var w io.Writer = a.stderr
	if l, ok := w.(*lockedWriter); ok {
		w = l.w
	}
	if _, size := file.Progress(); size < longFile || !terminal(w) {
		return func(int64) {}, func() {}
	}
	bar := progressbar.NewOptions64(all,
		progressbar.OptionSetWriter(w), progressbar.OptionShowBytes(bytes), progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	return func(n int64) { _ = bar.Set64(n) }, func() { _ = bar.Finish() }
}
