package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"taskbridge/translate"
	"taskbridge/translate/compare"
	"taskbridge/translate/report"
)

// diffFlags are the flags of diff as the user gave them.
type diffFlags struct {
	compareFlags
	leg string
}

func (a *app) diffCommand() *cobra.Command {
	f := &diffFlags{}
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two captures, operation by operation",
		Long: "Reads two captures (one may be -, standard input) and says what is not the same in the second: results,\n" +
			"errors, questions, notices, tools that are gone. A call, a task with all its polls and an exchange of several\n" +
			"rounds is one operation each, whatever the dialect; ids, cursors and times of one run are left out.\n" +
			"Exit 0: the same; 1: something differs or could not be compared.",
		RunE: guarded(func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("diff wants two captures")
			}
			return a.diff(f, cmd.Flags(), args[0], args[1])
		}),
	}
	enumVar(cmd.Flags(), &f.leg, "leg", "client", []string{"client", "server"}, "which half of the traffic: between the clients and the bridge, or between it and the server")
	f.register(cmd.Flags())
	return cmd
}

func (a *app) diff(f *diffFlags, fs *pflag.FlagSet, nameA, nameB string) error {
	if nameA == "-" && nameB == "-" {
		return usagef("only one of the two captures can come from standard input")
	}
	selected, err := f.selected(fs)
	if err != nil {
		return err
	}
	o, err := f.comparing(fs)
	if err != nil {
		return err
	}
	leg := translate.ClientLeg
	if f.leg == "server" {
		leg = translate.ServerLeg
	}
	before, err := a.readSide(nameA, leg)
	if err != nil {
		return err
	}
	after, err := a.readSide(nameB, leg)
	if err != nil {
		return err
	}
	for _, s := range []*side{before, after} {
		if len(s.ops) == 0 {
			return usagef("%s: nothing was recorded on the %s's leg", s.name, f.leg)
		}
	}
	o.CutA, o.CutB = before.cut, after.cut
	o.Select = selected
	c := &report.Comparison{
		Command: "diff", A: before.name, B: after.name,
		Report: compare.Captures(before.ops, after.ops, o), Notes: slices.Concat(before.notes, after.notes),
	}
	if len(c.Report.Pairs)+len(c.Report.Skipped) == 0 {
		return usagef("%s picks no operation of either capture", where(fs, "only"))
	}
	if err := a.writeComparison(&f.compareFlags, c); err != nil {
		return err
	}
	return verdictOf(c.Report)
}

// verdictOf is the exit code of a comparison.
func verdictOf(r *compare.Report) error {
	n := r.Counts()
	all := n.Same + n.Different + n.Inconclusive
	switch r.Verdict() {
	case compare.Different:
		return &failure{code: exitFailed, name: "different", err: fmt.Errorf("different: %d of %d operations", n.Different, all)}
	case compare.Inconclusive:
		if n.Inconclusive == 0 {
			return &failure{code: exitFailed, name: "inconclusive", err: fmt.Errorf("inconclusive: %d operations are the same, but %s", n.Same, r.Lacking)}
		}
		return &failure{code: exitFailed, name: "inconclusive", err: fmt.Errorf("inconclusive: %d of %d operations could not be compared", n.Inconclusive, all)}
	}
	return nil
}
