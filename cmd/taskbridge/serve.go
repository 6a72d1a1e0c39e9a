package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/translate"
)

// serveFlags are the flags of serve as the user gave them.
type serveFlags struct {
	upstreamFlags
	policyFlags
	limits limitFlags
	recordFlags
	logFlags
	jwtFlags
	adminFlags
	tls tlsFlags

	listen, path, era, state string
	ssePath                  string

	principal                     string
	trusted, allowedHosts, origin []string
	publicURL                     string
	allowOpen                     bool

	drainTimeout time.Duration
	maxMessage   int64
}

func (a *app) serveCommand() *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve (--upstream URL | -- CMD ARGS...)",
		Short: "Stand between clients and a server",
		Long: "Listens for MCP clients of any revision and talks to one server of any revision.\n" +
			"Every flag can be given as an environment variable: TASKBRIDGE_ and its name in capitals,\n" +
			"with _ for -, lists split at newlines. A flag wins over its variable.",
		RunE: guarded(func(cmd *cobra.Command, args []string) error {
			if err := serveArgs(cmd, f.splitCommand(cmd, args)); err != nil {
				return err
			}
			up := cmd.Flags().Lookup("upstream")
			if err := f.oneServer(cmd, up.Changed && len(up.Annotations[fromEnv]) == 0); err != nil {
				return err
			}
			return a.serve(cmd.Context(), f, cmd.Flags())
		}),
	}
	f.register(cmd.Flags())
	return cmd
}

func serveArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && strings.Contains(args[0], "://") {
		return usagef("%s takes no arguments; name the server with --upstream URL", cmd.Name())
	}
	return noArgs(cmd, args)
}

func (f *serveFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8080", "`ADDRESS:PORT` to listen on; port 0 takes a free one")
	fs.StringVar(&f.path, "path", "/mcp", "path of the MCP endpoint")
	fs.StringVar(&f.ssePath, "sse-path", "/sse", "`PATH` of the stream of clients that speak HTTP+SSE (2024-11-05); they post to message beside it; off serves none")
	f.tls.register(fs)
	f.upstreamFlags.register(fs)
	f.registerSharing(fs)
	enumVar(fs, &f.era, "upstream-era", "auto", []string{"auto", "legacy", "modern"}, "what the server speaks; auto finds out")
	f.registerAdmin(fs)
	fs.StringVar(&f.state, "state", "memory", "where state is kept; memory ends with the process")
	fs.StringVar(&f.principal, "principal", "token", "how callers are told apart: `token`, header:NAME, or jwt:JWKS with the file or URL of a key set")
	f.jwtFlags.register(fs)
	fs.StringArrayVar(&f.trusted, "trusted-proxy", nil, "`CIDR` of front ends whose header:NAME is believed")
	fs.StringVar(&f.publicURL, "public-url", "", "`URL` under which clients reach this endpoint")
	fs.StringArrayVar(&f.allowedHosts, "allowed-host", nil, "`HOST` clients may address us as, with or without port")
	fs.StringArrayVar(&f.origin, "allowed-origin", nil, "browser `ORIGIN` that may send requests, as https://HOST")
	f.policyFlags.register(fs)
	f.limits.register(fs)
	fs.BoolVar(&f.allowOpen, "allow-open", false, "let unverified callers use the credential given with --header")
	durationVar(fs, &f.drainTimeout, "drain-timeout", 10*time.Second, "how long calls in flight may take after SIGTERM")
	sizeVar(fs, &f.maxMessage, "max-message", 64<<20, "largest message, either way")
	f.recordFlags.register(fs)
	f.logFlags.register(fs)
}

// check turns flags into a configuration with one of everything. What is wrong
// is exit 2.
func (f *serveFlags) check(a *app, fs *pflag.FlagSet) (bridgeConfig, error) {
	c := bridgeConfig{maxMessage: f.maxMessage, allowOpen: f.allowOpen}
	if !strings.HasPrefix(f.path, "/") || strings.ContainsAny(f.path, "?# ") {
		return c, usagef("%s %q: must begin with / and have no query", where(fs, "path"), f.path)
	}
	if err := f.checkEra(fs, f.era); err != nil {
		return c, err
	}
	ssePath, err := f.checkSSE(fs)
	if err != nil {
		return c, err
	}
	if f.maxMessage > 1<<30 {
		return c, usagef("%s: at most 1GiB", where(fs, "max-message"))
	}
	l := listenerConfig{name: defaultName, address: f.listen, allowedHosts: f.allowedHosts, allowedOrigins: f.origin}
	if l.loopback, err = listenAddress(f.listen); err != nil {
		return c, usagef("%s %q: %w", where(fs, "listen"), f.listen, err)
	}
	if c.admin, err = f.checkAdmin(fs); err != nil {
		return c, err
	}
	if err := f.checkState(fs); err != nil {
		return c, err
	}
	if c.record, err = f.recordFlags.check(fs); err != nil {
		return c, err
	}
	s, err := f.resolve(a, fs)
	if err != nil {
		return c, err
	}
	era, _ := translate.ParseEra(f.era)
	c.routes = oneRoute(s, era, f.connectTimeout)
	r := &c.routes[0]
	r.path, r.ssePath, r.publicURL = f.path, ssePath, map[string]string{l.name: f.publicURL}
	f.limits.apply(&c)
	if err = f.policyFlags.apply(fs, &c); err != nil {
		return c, err
	}
	if err := f.checkCallers(fs, &c, &l); err != nil {
		return c, err
	}
	c.listeners = []listenerConfig{l}
	return c, c.settle(flagNaming{fs})
}

// checkSSE is the path for clients of HTTP+SSE, if they are served. The default
// path makes way for an endpoint that was there first.
func (f *serveFlags) checkSSE(fs *pflag.FlagSet) (string, error) {
	if f.ssePath == "off" {
		return "", nil
	}
	err := downstream.CheckSSEPath(f.ssePath, f.path)
	switch {
	case err == nil:
		return f.ssePath, nil
	case fs.Changed("sse-path"):
		return "", usagef("%s: %w", where(fs, "sse-path"), err)
	}
	return "", nil
}

func (f *serveFlags) checkState(fs *pflag.FlagSet) error {
	kind, _, _ := strings.Cut(f.state, ":")
	switch {
	case f.state == "memory":
	case kind == "file" || kind == "redis" || kind == "rediss":
		return usagef("%s %s: is not available yet in this version; use memory", where(fs, "state"), kind)
	default:
		return usagef("%s: want memory", where(fs, "state"))
	}
	return nil
}

// checkCallers reads how callers are told apart.
func (f *serveFlags) checkCallers(fs *pflag.FlagSet, c *bridgeConfig, l *listenerConfig) error {
	var err error
	if c.principal, err = session.ParsePrincipalPolicy(f.principal); err != nil {
		return usagef("%s: %w", where(fs, "principal"), err)
	}
	for _, s := range f.trusted {
		p, err := parsePrefix(s)
		if err != nil {
			return usagef("%s %q: want an address or a CIDR such as 10.0.0.0/8", where(fs, "trusted-proxy"), s)
		}
		l.trusted = append(l.trusted, p)
	}
	c.jwt, err = f.jwtFlags.check(fs, c.principal.JWKS(), f.publicURL)
	return err
}

// flagNaming names settings as they stand on a command line or in the
// environment.
type flagNaming struct{ fs *pflag.FlagSet }

func (n flagNaming) at(setting string, _ *listenerConfig, _ *routeConfig) string {
	f := n.fs.Lookup(setting)
	if f.Value.Type() == "bool" {
		return where(n.fs, setting)
	}
	return where(n.fs, setting) + " " + f.Value.String()
}

func (flagNaming) give(setting, value string) string {
	return strings.TrimSuffix("--"+setting+" "+value, " ")
}

func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

// listenAddress says whether addr is this machine's own.
func listenAddress(addr string) (loopback bool, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false, errors.New("want ADDRESS:PORT, such as 127.0.0.1:8080")
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return false, fmt.Errorf("port %q: want a number from 0 to 65535", port)
	}
	return loopbackHost(host), nil
}

// advise says at startup what an operator may not expect.
func (c *bridgeConfig) advise(log *slog.Logger) {
	if len(c.stateKeys) == 0 {
		log.Info("no --state-key: handles of tasks are sealed with a random key and, with --state memory, end with this process")
	}
	if c.principal.ByToken() {
		log.Info("--principal token: callers are told apart by their Authorization; a refreshed token is a new principal and does not see tasks made with the old one")
	}
	if c.jwt != nil && c.jwt.issuer == "" && c.published() {
		log.Info("no --jwt-issuer: clients are not told here who gives them tokens")
	}
	for i := range c.routes {
		r := &c.routes[i]
		for k := range r.upstreams {
			if s := &r.upstreams[k].server; s.exposed {
				log.Warn("a credential goes over plain http:// to another machine; use https://", "upstream", s.shown)
			}
		}
		if r.shared() && c.principal.ByToken() && c.reached(r) {
			log.Warn("unverified callers use the server's credential: any made-up token gets in")
		}
	}
}

func (a *app) serve(ctx context.Context, f *serveFlags, fs *pflag.FlagSet) error {
	c, err := f.check(a, fs)
	if err != nil {
		return err
	}
	secure, err := f.tls.load(fs)
	if err != nil {
		return err
	}
	log, closeLog, err := f.logFlags.open(a, fs)
	if err != nil {
		return err
	}
	defer closeLog()
	manager := newNotifier(log)
	c.log, c.tap, c.metrics = log, debugTap(log), newMetrics()
	// Where the state is this process's alone and nobody can ask it, nothing is
	// counted.
	c.usage = c.admin != nil || f.state != "memory"
	b, err := newBridge(ctx, c)
	if err != nil {
		return usagef("%w", err)
	}
	ln, err := listen(ctx, f.listen, c.listeners[0].loopback)
	if err != nil {
		b.close()
		return listenError(fs, "listen", err)
	}
	ln, scheme := encrypted(ln, secure)
	admin := newAdmin(adminOptions{unready: b.unready, metrics: c.metrics, log: log}.at(c.admin))
	if b.usage != nil {
		b.serveReport(admin)
	}
	stopAdmin, err := a.startAdmin(ctx, c.admin, fs, secure, admin)
	if err != nil {
		ln.Close()
		b.close()
		return err
	}
	defer stopAdmin()
	defer takeHangups(log)()
	c.advise(log)
	done := make(chan error, 1)
	go func() { done <- b.doors[0].serve(ln) }()
	fmt.Fprintf(a.stderr, "listening on %s://%s%s\n", scheme, ln.Addr(), f.path)
	manager.say("READY=1")
	select {
	case err := <-done:
		b.close()
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	manager.say("STOPPING=1")
	log.Info("draining", "timeout", f.drainTimeout)
	b.drain(f.drainTimeout)
	<-done
	log.Info("stopped")
	return nil
}

// takeHangups makes SIGHUP no longer end the process: to a service it says read
// your configuration again, and until there is a file of it that is nothing.
// The command's own handler of it is replaced, until undo.
func takeHangups(log *slog.Logger) (undo func()) {
	c, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Reset(syscall.SIGHUP)
	signal.Notify(c, syscall.SIGHUP)
	go func() {
		defer close(done)
		for range c {
			log.Info("SIGHUP: there is nothing to reload, the configuration is the command line")
		}
	}()
	return func() { signal.Stop(c); close(c); <-done }
}

func listenError(fs *pflag.FlagSet, flag string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return usagef("%s: %w; another program listens there, choose another port (0 takes a free one)", where(fs, flag), err)
	}
	return usagef("%s: %w", where(fs, flag), err)
}
