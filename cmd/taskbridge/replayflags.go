package main

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"taskbridge/session/replay"
)

// replayFlags are the flags of replay as the user gave them.
type replayFlags struct {
	upstreamFlags
	policyFlags
	compareFlags
	logFlags

	era        string
	maxMessage int64

	allow            []string
	allowUnannotated bool
	credentials      string
	as               string
	speed            float64
	concurrency      int
	timeout          time.Duration
	seed             uint64
	dryRun, update   bool
	serve, path      string
	out              string
}

func (f *replayFlags) register(fs *pflag.FlagSet) {
	f.upstreamFlags.register(fs)
	enumVar(fs, &f.era, "upstream-era", "auto", []string{"auto", "legacy", "modern"}, "what the server speaks; auto finds out")
	sizeVar(fs, &f.maxMessage, "max-message", 64<<20, "largest message, either way")
	fs.StringArrayVar(&f.allow, "allow", nil, "`NAME` of a tool that may be run again although it does not say readOnlyHint")
	fs.BoolVar(&f.allowUnannotated, "allow-unannotated", false, "run tools again that have no annotations")
	fs.StringVar(&f.credentials, "credentials", "", "`FILE` with one 'PRINCIPAL VALUE' a line: what is sent as Authorization for a principal of the capture")
	enumVar(fs, &f.as, "as", "recorded", []string{"recorded", "2025-11-25", "2026-07-28"}, "dialect the clients speak")
	fs.Float64Var(&f.speed, "speed", 0, "keep the recorded gaps, `X` times shorter; 0: as fast as one thing follows from another")
	fs.IntVar(&f.concurrency, "concurrency", replay.DefaultConcurrency, "most operations at a time")
	durationVar(fs, &f.timeout, "timeout", replay.DefaultTimeout, "bound for one operation, beside the time it took in the capture")
	fs.Uint64Var(&f.seed, "seed", 0, "start what may start in a random order that `N` decides; 0: in the capture's")
	fs.StringVar(&f.serve, "serve", "", "`ADDRESS:PORT` to be the capture's server on, in place of replaying; port 0 takes a free one")
	fs.StringVar(&f.path, "path", "/mcp", "with --serve, path of the MCP endpoint")
	fs.BoolVar(&f.dryRun, "dry-run", false, "say what would be sent and what not, and why, and send nothing")
	fs.BoolVar(&f.update, "update", false, "put what the server says now in the place of CAPTURE, as what is to be expected from now on")
	fs.StringVarP(&f.out, "out", "o", "", "`FILE`, a new one, to keep what was sent and what came back in, as a capture")
	f.compareFlags.register(fs)
	f.policyFlags.register(fs)
	f.logFlags.register(fs)
	// What a bridge tells of its work would stand between the lines of a report.
	f.logFlags.level, fs.Lookup("log-level").DefValue = "warn", "warn"
}

// check refuses what has no meaning.
func (f *replayFlags) check(fs *pflag.FlagSet, name string) error {
	stdins := 0
	for _, file := range append([]string{name, f.credentials}, f.files...) {
		if file == "-" {
			stdins++
		}
	}
	switch {
	case stdins > 1:
		return usagef("standard input can be read once: by the capture, %s or %s", where(fs, "credentials"), where(fs, "header-file"))
	case f.maxMessage > 1<<30:
		return usagef("%s: at most 1GiB", where(fs, "max-message"))
	case f.concurrency < 1:
		return usagef("%s: must be above zero", where(fs, "concurrency"))
	case f.speed < 0:
		return usagef("%s: must not be below zero", where(fs, "speed"))
	case f.update && f.as != "recorded":
		return usagef("%s: what is expected in one dialect is not in another; leave %s out", where(fs, "update"), where(fs, "as"))
	case f.update && len(f.only) > 0:
		return usagef("%s: the whole capture is replaced, so all of it must be replayed; leave %s out", where(fs, "update"), where(fs, "only"))
	}
	return f.checkEra(fs, f.era)
}

// readCredentials reads --credentials: one principal of the capture and the
// value of its Authorization header a line. Errors never show a value.
func (a *app) readCredentials(name string) (map[string]string, error) {
	if name == "" {
		return nil, nil
	}
	in := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	out := map[string]string{}
	sc := bufio.NewScanner(io.LimitReader(in, 16<<20))
	sc.Buffer(nil, maxHeaderLine)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		line, err := expandVars(line)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		hash, value, _ := strings.Cut(line, " ")
		value = strings.TrimSpace(value)
		if value == "" {
			return nil, fmt.Errorf("%s, line %d: want 'PRINCIPAL VALUE', as in 'a1b2c3 Bearer …'", name, n)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, fmt.Errorf("%s, line %d: the value holds a control character", name, n)
		}
		out[strings.TrimSuffix(hash, ":")] = value
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// plainRemote: what is sent can be read on the way.
func plainRemote(s server) bool {
	scheme, rest, _ := strings.Cut(s.shown, "://")
	host, _, _ := strings.Cut(rest, "/")
	u := url.URL{Host: host}
	return (scheme == "http" || scheme == "ws") && !loopbackHost(u.Hostname())
}
