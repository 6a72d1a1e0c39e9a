package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"taskbridge/session/record"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/compare"
	"taskbridge/translate/operation"
	"taskbridge/translate/report"
)

// compareFlags say which operations are compared, how, and in what forms that
// is reported.
type compareFlags struct {
	only    []string
	ignore  []string
	slower  string
	numbers bool

	json, junit, html string
}

func (f *compareFlags) register(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.only, "only", nil, "`FILTER` of operations, such as 'tool:greet status:ok' (tool, method, id, task, kind, status, side, era, loss, or text); several must all hold")
	fs.StringArrayVar(&f.ignore, "ignore", nil, "`PATH` (JSONPath, RFC 9535) that may differ, such as $.result.content[0].text")
	fs.StringVar(&f.slower, "slower", "", "an operation is worse where it takes longer by so much and so many times: `DURATION,FACTORx`, such as 100ms,2x")
	fs.BoolVar(&f.numbers, "ignore-number-spelling", false, "1, 1.0 and 1e0 are the same")
	fs.StringVar(&f.json, "json", "", "write the report as JSON to `FILE`; - is standard output")
	fs.StringVar(&f.junit, "junit", "", "write the report as JUnit XML to `FILE`; - is standard output")
	fs.StringVar(&f.html, "html", "", "write the report as a page to `FILE`; - is standard output")
}

// selected is what --only picks.
func (f *compareFlags) selected(fs *pflag.FlagSet) (func(*operation.Operation) bool, error) {
	var filters []operation.Filter
	for _, s := range f.only {
		filter, err := operation.ParseFilter(s)
		if err != nil {
			return nil, usagef("%s %q: %w", where(fs, "only"), s, err)
		}
		filters = append(filters, filter)
	}
	return func(op *operation.Operation) bool {
		for _, filter := range filters {
			if !filter.Match(op) {
				return false
			}
		}
		return true
	}, nil
}

// comparing is how to compare.
func (f *compareFlags) comparing(fs *pflag.FlagSet) (compare.Options, error) {
	o := compare.Options{IgnoreNumberSpelling: f.numbers}
	for _, s := range f.ignore {
		path, err := compare.ParseIgnore(s)
		if err != nil {
			return o, usagef("%s: %w", where(fs, "ignore"), err)
		}
		o.Ignore = append(o.Ignore, path)
	}
	var err error
	if o.Slower, err = compare.ParseSlower(f.slower); err != nil {
		return o, usagef("%s %q: %w", where(fs, "slower"), f.slower, err)
	}
	var toStdout string
	for _, flag := range []struct{ name, value string }{{"json", f.json}, {"junit", f.junit}, {"html", f.html}} {
		switch {
		case flag.value != "-":
		case toStdout != "":
			return o, usagef("%s and %s cannot both go to standard output", where(fs, toStdout), where(fs, flag.name))
		default:
			toStdout = flag.name
		}
	}
	return o, nil
}

// writeComparison reports in every form asked for: for people to standard
// output, unless a report goes there.
func (a *app) writeComparison(f *compareFlags, c *report.Comparison) error {
	words := a.stdout
	for _, form := range []struct {
		file  string
		write func(io.Writer) error
	}{{f.json, c.JSON}, {f.junit, c.JUnit}, {f.html, c.HTML}} {
		switch form.file {
		case "":
		case "-":
			words = a.stderr
			if err := form.write(a.stdout); err != nil {
				return err
			}
		default:
			if err := writeReport(form.file, form.write); err != nil {
				return err
			}
		}
	}
	return c.Terminal(words, colourful(words))
}

// writeReport puts a report in the place of what stood there, for its owner's
// eyes alone; a link is replaced and not followed.
func writeReport(name string, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".taskbridge-report-*") // 0600
	if err != nil {
		return fmt.Errorf("cannot write the report %s: %w", name, err)
	}
	defer os.Remove(tmp.Name())
	err = write(tmp)
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("cannot write the report %s: %w", name, err)
	}
	return nil
}

// side is one capture that is compared.
type side struct {
	name string
	ops  []*operation.Operation
	cut  bool
	// notes are what to say of the file itself.
	notes []string
}

// readSide gathers one leg of a capture. What cannot be read in it counts as
// dropped, so that nothing is concluded from its absence.
func (a *app) readSide(name string, leg translate.Leg) (*side, error) {
	file, err := record.Open(name, a.stdin)
	if err != nil {
		return nil, usagef("%w", err)
	}
	defer file.Close()
	s := &side{name: file.Name}
	g := operation.NewGatherer(leg)
	unreadable := 0
	for {
		r, err := file.Next()
		bad, isBad := errors.AsType[*capture.FormatError](err)
		switch {
		case err == nil:
			g.Add(&r)
			continue
		case isBad:
			if unreadable++; unreadable == 1 {
				s.notes = append(s.notes, fmt.Sprintf("%s: %v", s.name, bad))
			}
			g.Add(&capture.Record{Line: file.Line(), Dropped: 1})
			continue
		case errors.Is(err, capture.ErrNotWhole):
			s.cut = true
			s.notes = append(s.notes, fmt.Sprintf("%s: %v", s.name, err))
		case !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		break
	}
	if unreadable > 1 {
		s.notes = append(s.notes, fmt.Sprintf("%s: %d lines in all cannot be read", s.name, unreadable))
	}
	if n := g.Dropped() - unreadable; n > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%s: %d frames were dropped while it was recorded", s.name, n))
	}
	s.ops = g.Operations()
	return s, nil
}
