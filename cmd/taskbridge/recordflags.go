package main

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"taskbridge/session"
	"taskbridge/session/record"
	"taskbridge/translate/capture"
)

// recordFlags say whether traffic is kept, and what of it.
type recordFlags struct {
	file        string
	rotateSize  int64
	rotateEvery time.Duration
	redact      []string
}

func (r *recordFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&r.file, "record", "", "keep the traffic of both legs in `FILE`, a new one; compressed if it ends in .gz")
	sizeVar(fs, &r.rotateSize, "record-rotate-size", 0, "begin a new file of the recording after so many bytes; the files are numbered, as in FILE-0001.jsonl")
	redactVar(fs, &r.redact)
	durationVar(fs, &r.rotateEvery, "record-rotate-every", 0, "begin a new file of the recording after so long; the files are numbered; 0 never does")
}

// redactVar is the flag that says what is taken out of captures.
func redactVar(fs *pflag.FlagSet, kinds *[]string) {
	fs.StringArrayVar(kinds, "redact", nil, "what to take out of what is kept, both ways: `KIND` is "+capture.RedactKinds+"; may be repeated")
}

// redactor is what the flag asks for, nil if it asks for nothing.
func redactor(fs *pflag.FlagSet, kinds []string) (*capture.Redactor, error) {
	if len(kinds) == 0 {
		return nil, nil
	}
	r, err := capture.NewRedactor(kinds)
	if err != nil {
		return nil, usagef("%s: %w", where(fs, "redact"), err)
	}
	return r, nil
}

// recordConfig is a recording that was asked for.
type recordConfig struct {
	recordFlags
	redactor *capture.Redactor // nil: nothing is taken out
}

// check turns the flags into a configuration, nil if nothing is recorded. What
// is wrong is exit 2.
func (r *recordFlags) check(fs *pflag.FlagSet) (*recordConfig, error) {
	if r.file == "" {
		for _, name := range []string{"record-rotate-size", "record-rotate-every", "redact"} {
			if fs.Changed(name) {
				return nil, usagef("%s: nothing is recorded; name the file with --record FILE", where(fs, name))
			}
		}
		return nil, nil
	}
	red, err := redactor(fs, r.redact)
	if err != nil {
		return nil, err
	}
	return &recordConfig{*r, red}, nil
}

// start makes the file and begins to record.
func (r *recordConfig) start(c bridgeConfig, handles *session.Handles) (*record.Recorder, error) {
	o := record.Options{
		File: r.file, RotateSize: r.rotateSize, RotateEvery: r.rotateEvery,
		Mask: handles.Masks(), By: "taskbridge " + buildInfo().Version, Logger: c.log,
		Settings: map[string]string{"upstream": c.shown(), "listen": "http"},
	}
	if len(c.routes) == 1 && len(c.routes[0].upstreams) == 1 {
		o.Settings["upstream-era"] = c.routes[0].upstreams[0].era.String()
	}
	if c.stdio {
		o.Settings["listen"] = "stdio"
	}
	if r.redactor != nil {
		o.Redact = r.redactor.Record
		o.Settings["redact"] = strings.Join(r.redactor.Kinds(), ", ")
	}
	if c.metrics != nil {
		o.Dropped = c.metrics.unrecorded.Inc
	}
	return record.New(o)
}
