package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"taskbridge/session/offline"
	"taskbridge/session/record"
	"taskbridge/translate/capture"
)

// translateFlags are the flags of translate as the user gave them.
type translateFlags struct {
	logFlags
	to, out string
	redact  []string
}

func (a *app) translateCommand() *cobra.Command {
	f := &translateFlags{}
	cmd := &cobra.Command{
		Use:   "translate CAPTURE --to REVISION",
		Short: "Say a capture again in the other dialect",
		Long: "Reads a capture (or standard input: -) and writes the same conversation as it would have been held in the\n" +
			"other dialect, by the rules that carry live traffic: a blocking tasks/result becomes polls and updates, and\n" +
			"back. Nothing is sent to anybody. What the other dialect cannot say is counted on standard error.",
		RunE: guarded(func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("translate wants one capture, a file or - for standard input")
			}
			return a.translate(cmd.Context(), f, cmd.Flags(), args[0])
		}),
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *translateFlags) register(fs *pflag.FlagSet) {
	enumVar(fs, &f.to, "to", "2026-07-28", []string{"2025-11-25", "2026-07-28"}, "revision to translate to; what speaks its dialect already is kept as it is")
	fs.StringVarP(&f.out, "out", "o", "-", "`FILE` to write, which must not be there yet; - is standard output")
	redactVar(fs, &f.redact)
	f.logFlags.register(fs)
}

func (a *app) translate(ctx context.Context, f *translateFlags, fs *pflag.FlagSet, name string) error {
	log, closeLog, err := f.logFlags.open(a, fs)
	if err != nil {
		return err
	}
	defer closeLog()
	red, err := redactor(fs, f.redact)
	if err != nil {
		return err
	}
	file, err := record.Open(name, a.stdin)
	if err != nil {
		return usagef("%w", err)
	}
	defer file.Close()
	out, closeOut, err := a.create(f.out)
	if err != nil {
		return usagef("%s: %w", where(fs, "out"), err)
	}
	defer closeOut()
	buffered := bufio.NewWriterSize(out, 1<<20)
	report, err := a.translateTo(ctx, buffered, f.to, file, red, log)
	if err != nil {
		return fmt.Errorf("translate %s: %w", name, err)
	}
	if file.End() == nil {
		fmt.Fprintf(a.stderr, "%s: %v\n", file.Name, capture.ErrNotWhole)
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if err := closeOut(); err != nil {
		return err
	}
	a.tellTranslation(report)
	return nil
}

// translateTo writes a whole capture to out: file, said again in the dialect of
// revision to and redacted by red, if that is not nil.
func (a *app) translateTo(ctx context.Context, out io.Writer, to string, file *record.File, red *capture.Redactor, log *slog.Logger) (*offline.Report, error) {
	settings := map[string]string{"translated-to": to, "from": file.Header().By}
	if red != nil {
		settings["redact"] = strings.Join(red.Kinds(), ", ")
	}
	w, err := capture.NewWriter(out, capture.Header{Created: time.Now().UTC(), By: "taskbridge " + buildInfo().Version, Settings: settings})
	if err != nil {
		return nil, err
	}
	// Little is in memory at a time and much is thrown away: most of the time
	// would go to the collector.
	defer debug.SetGCPercent(debug.SetGCPercent(translateGC))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(translateMemory))
	set, shown := func(int64) {}, func() {}
	report, err := offline.TranslateSource(ctx, offline.SourceOptions{
		Source: file, To: to, Logger: log, Out: w,
		Change: func(r *capture.Record) {
			if red != nil {
				red.Record(r)
			}
		},
		Progress: func(done, all int) {
			if done == 0 {
				set, shown = a.bar(file, int64(all), false)
			}
			set(int64(done))
		},
		Unreadable: func(err error) { fmt.Fprintf(a.stderr, "%s: %v; the line is left out\n", file.Name, err) },
	})
	shown()
	if err != nil {
		return report, err
	}
	return report, w.Close(false)
}

// translateGC lets the heap grow to five times what is in use, as long as all
// stays under translateMemory.
const (
	translateGC     = 400
	translateMemory = 160 << 20
)

// create makes a file that only its owner may read and that was not there
// before; - is standard output. The returned function may be called twice.
func (a *app) create(name string) (io.Writer, func() error, error) {
	if name == "-" {
		return a.stdout, func() error { return nil }, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, nil, fmt.Errorf("%s is there already; name another file or remove it", name)
	}
	if err != nil {
		return nil, nil, err
	}
	closed := false
	return f, func() error {
		if closed {
			return nil
		}
		closed = true
		return f.Close()
	}, nil
}

func (a *app) tellTranslation(r *offline.Report) {
	fmt.Fprintf(a.stderr, "%d operations translated, %d kept as they are\n", r.Operations, r.Kept)
	if r.Unfinished > 0 {
		fmt.Fprintf(a.stderr, "%d operations came to no end in the other dialect\n", r.Unfinished)
	}
	for _, name := range r.LossNames() {
		fmt.Fprintf(a.stderr, "lost: %s, %d times (docs/mapping.md says what that is)\n", name, r.Losses[name])
	}
	for _, m := range r.Missed {
		fmt.Fprintf(a.stderr, "not in the capture: %s\n", showText(m.String(), 400))
	}
	if n := r.Misses - len(r.Missed); n > 0 {
		fmt.Fprintf(a.stderr, "not in the capture: %d more requests\n", n)
	}
}
