package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"taskbridge/translate/capture"
	"taskbridge/translate/compare"
	"taskbridge/translate/operation"
)

// keeper writes what a replay sent and got back as a capture: for -o to a new
// file, for --update beside the capture that it is to take the place of.
type keeper struct {
	a    *app
	file *os.File // nil: nothing is kept, or it goes to standard output
	zip  *gzip.Writer
	buf  *bufio.Writer
	w    *capture.Writer
	into string // the name the file takes in the end; empty: it has its name
	err  error  // of the first write that failed
}

func (a *app) newKeeper(r *replaying) (*keeper, error) {
	k := &keeper{a: a}
	switch {
	case r.f.update && r.f.out != "":
		return nil, usagef("--update and --out: give one of them")
	case r.f.update && r.name == "-":
		return nil, usagef("--update: standard input cannot be written; name the capture")
	case r.f.update && !r.in.whole:
		return nil, usagef("--update: %s is not whole (%s), so it is no expectation to go on with", r.name, r.in.why)
	case r.f.update && r.in.header.Settings["redact"] != "":
		return nil, usagef("--update: things were redacted in %s, and would be in the clear in what takes its place; record anew", r.name)
	case r.f.update:
		return k, k.beside(r)
	case r.f.out == "-":
		return nil, usagef("--out -: the report goes to standard output; name a file")
	case r.f.out != "":
		out, _, err := a.create(r.f.out)
		if err != nil {
			return nil, usagef("--out: %w", err)
		}
		k.file, _ = out.(*os.File)
		return k, k.begin(out, r, r.f.out)
	}
	return k, nil
}

// beside makes a file next to the capture, which only its owner may read, and
// which takes its name when all is well. A symbolic link is not followed.
func (k *keeper) beside(r *replaying) error {
	info, err := os.Lstat(r.name)
	if err != nil {
		return usagef("--update: %w", err)
	}
	if !info.Mode().IsRegular() {
		return usagef("--update: %s is no regular file", r.name)
	}
	if k.file, err = os.CreateTemp(filepath.Dir(r.name), ".replay-*"); err != nil {
		return usagef("--update: %w", err)
	}
	k.into = r.name
	return k.begin(k.file, r, r.name)
}

func (k *keeper) begin(out io.Writer, r *replaying, name string) error {
	if strings.HasSuffix(name, ".gz") {
		k.zip = gzip.NewWriter(out)
		out = k.zip
	}
	k.buf = bufio.NewWriterSize(out, 64<<10)
	var err error
	k.w, err = capture.NewWriter(k.buf, capture.Header{
		Created: time.Now().UTC(), By: "taskbridge " + buildInfo().Version,
		Settings: map[string]string{"replay-of": filepath.Base(r.name), "recorded": r.in.header.Created.Format(time.RFC3339)},
	})
	return err
}

// record is what is told of each record; nil: nobody is.
func (k *keeper) record() func(*capture.Record) {
	if k.w == nil {
		return nil
	}
	return func(rec *capture.Record) {
		if err := k.w.Write(rec); err != nil && k.err == nil {
			k.err = err
		}
	}
}

// finish ends the file and, for --update, puts it in the capture's place, if
// everything in that was said again.
func (k *keeper) finish(r *replaying, found *compare.Report) error {
	if k.w == nil {
		return nil
	}
	if k.into != "" {
		if why := unfit(found); why != "" {
			return fmt.Errorf("--update: %s stays as it is: %s", r.name, why)
		}
	}
	if k.err == nil {
		k.err = k.w.Close(false)
	}
	if k.err == nil {
		k.err = k.buf.Flush()
	}
	if k.zip != nil && k.err == nil {
		k.err = k.zip.Close()
	}
	if k.err != nil {
		return fmt.Errorf("keep what came back: %w", k.err)
	}
	if k.file == nil {
		return nil
	}
	file := k.file
	k.file = nil
	if err := file.Close(); err != nil {
		return err
	}
	if k.into == "" {
		return nil
	}
	if err := os.Rename(file.Name(), k.into); err != nil {
		os.Remove(file.Name())
		return err
	}
	fmt.Fprintf(k.a.stderr, "%s holds what the server says now\n", k.into)
	return nil
}

// unfit says why what came back is nothing to expect from now on: not all was
// said again, or not all came to an end.
func unfit(found *compare.Report) string {
	for _, s := range found.Skipped {
		return fmt.Sprintf("operation %d (%s) was not replayed: %s", s.Op.N, showText(s.Op.Method, maxShown), s.Reason)
	}
	for _, p := range found.Pairs {
		switch {
		case p.Verdict == compare.Inconclusive:
			return fmt.Sprintf("operation %d (%s) was not compared: %s", p.A.N, showText(p.A.Method, maxShown), showText(p.Reason, maxShownError))
		case p.B != nil && p.B.Kind != operation.Listen && p.B.Outcome == operation.Unfinished:
			return fmt.Sprintf("operation %d (%s) came to no end", p.A.N, showText(p.A.Method, maxShown))
		}
	}
	return ""
}

// discard closes what finish did not get to.
func (k *keeper) discard() {
	if k.file == nil {
		return
	}
	k.file.Close()
	if k.into != "" {
		os.Remove(k.file.Name())
	}
	k.file = nil
}
