package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"taskbridge/downstream"
	"taskbridge/session/throttle"
	"taskbridge/translate"
)

// stdioFlags are the flags of stdio as the user gave them.
type stdioFlags struct {
	upstreamFlags
	policyFlags
	limits limitFlags
	recordFlags
	logFlags

	era          string
	maxMessage   int64
	drainTimeout time.Duration
}

func (a *app) stdioCommand() *cobra.Command {
	f := &stdioFlags{}
	cmd := &cobra.Command{
		Use:   "stdio (URL | -- CMD ARGS...)",
		Short: "Speak to one client over standard input and output",
		Long: "Stands between a client that started it, over standard input and output, and one server, behind a\n" +
			"URL or a process of its own. It takes the place of the server in a client's configuration and ends\n" +
			"with standard input. Logs go to standard error.",
		RunE: guarded(func(cmd *cobra.Command, args []string) error {
			if err := f.givenURL(cmd, f.splitCommand(cmd, args)); err != nil {
				return err
			}
			return a.stdio(cmd.Context(), f, cmd.Flags())
		}),
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *stdioFlags) register(fs *pflag.FlagSet) {
	f.upstreamFlags.register(fs)
	enumVar(fs, &f.era, "upstream-era", "auto", []string{"auto", "legacy", "modern"}, "what the server speaks; auto finds out")
	sizeVar(fs, &f.maxMessage, "max-message", 64<<20, "largest message, either way")
	durationVar(fs, &f.drainTimeout, "drain-timeout", time.Second, "how long calls in flight may take after standard input has ended")
	f.policyFlags.register(fs)
	f.limits.register(fs)
	f.recordFlags.register(fs)
	f.logFlags.register(fs)
}

func (a *app) stdio(ctx context.Context, f *stdioFlags, fs *pflag.FlagSet) error {
	if f.logFlags.file == "-" {
		return usagef("%s -: standard output carries the protocol; name a file", where(fs, "log-file"))
	}
	if f.maxMessage > 1<<30 {
		return usagef("%s: at most 1GiB", where(fs, "max-message"))
	}
	if err := f.checkEra(fs, f.era); err != nil {
		return err
	}
	s, err := f.resolve(a, fs)
	if err != nil {
		return err
	}
	era, _ := translate.ParseEra(f.era)
	c := bridgeConfig{routes: oneRoute(s, era, f.connectTimeout), maxMessage: f.maxMessage, stdio: true}
	c.routes[0].local = true
	f.limits.apply(&c)
	if err := f.policyFlags.apply(fs, &c); err != nil {
		return err
	}
	if c.record, err = f.recordFlags.check(fs); err != nil {
		return err
	}
	log, closeLog, err := f.logFlags.open(a, fs)
	if err != nil {
		return err
	}
	defer closeLog()
	c.log, c.tap = log, debugTap(log)
	if s.exposed {
		log.Warn("a credential goes over plain http:// to another machine; use https://", "upstream", s.shown)
	}
	b, err := newBridge(ctx, c)
	if err != nil {
		return usagef("%w", err)
	}
	defer b.close()
	// A write to a closed standard output must be an error, and not the end of
	// this process before it has ended the server's.
	defer catchBrokenPipes()()
	err = downstream.ServeStdio(ctx, downstream.StdioOptions{
		Hub: b.routes[0].hub, In: a.stdin, Out: a.stdout, MaxMessage: int(f.maxMessage), Budget: b.budget,
		Drain: f.drainTimeout, Supported: b.routes[0].hub.Versions, Logger: log, Tap: b.tap, Limiter: throttle.New(c.rates, 1),
	})
	return stdioFailure(err, s.shown)
}

// stdioFailure is the exit code of an end that was no orderly one.
func stdioFailure(err error, shown string) error {
	opening := (*downstream.OpeningError)(nil)
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, downstream.ErrClientGone):
		return nil
	case errors.As(err, &opening):
		f := &failure{code: exitUnreachable, name: "upstream_unusable", err: err, status: opening.Status, url: shown}
		if opening.Status == http.StatusUnauthorized || opening.Status == http.StatusForbidden {
			f.code, f.name = exitRefused, "upstream_refused"
		}
		return f
	}
	return err
}
