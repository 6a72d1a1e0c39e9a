package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"taskbridge/cmd/taskbridge/config"
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
	audit auditFlag
	tls   tlsFlags

	config                   string
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
		Use:   "serve (--upstream URL | --config FILE | -- CMD ARGS...)",
		Short: "Stand between clients and servers",
		Long: "Listens for MCP clients of any revision and talks to one server of any revision, or to all\n" +
			"those of a configuration file. The file is read again when it changes, on SIGHUP and on\n" +
			"taskbridge admin reload: new work follows it, what is under way goes on.\n" +
			"Every flag can be given as an environment variable: TASKBRIDGE_ and its name in capitals,\n" +
			"with _ for -, lists split at newlines. A flag wins over its variable, both over the file.",
		RunE: guarded(func(cmd *cobra.Command, args []string) error {
			if err := serveArgs(cmd, f.splitCommand(cmd, args)); err != nil {
				return err
			}
			if f.config != "" && cmd.ArgsLenAtDash() >= 0 {
				return usagef("the servers are in the file of %s; a command behind -- would be another one, so leave one of them out", where(cmd.Flags(), "config"))
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
	fs.StringVar(&f.config, "config", "", "YAML `FILE` with listeners, routes and servers (docs/config.md), instead of --upstream; - is standard input")
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8080", "`ADDRESS:PORT` to listen on; port 0 takes a free one")
	fs.StringVar(&f.path, "path", "/mcp", "path of the MCP endpoint")
	fs.StringVar(&f.ssePath, "sse-path", "/sse", "`PATH` of the stream of clients that speak HTTP+SSE (2024-11-05); they post to message beside it; off serves none")
	f.tls.register(fs)
	f.upstreamFlags.register(fs)
	f.registerSharing(fs)
	enumVar(fs, &f.era, "upstream-era", "auto", []string{"auto", "legacy", "modern"}, "what the server speaks; auto finds out")
	f.registerAdmin(fs)
	f.audit.register(fs)
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

// check turns flags into settings with one of everything. What is wrong is exit
// 2.
func (f *serveFlags) check(a *app, fs *pflag.FlagSet) (*settings, error) {
	c := &settings{state: f.state, logs: f.logFlags, drainTimeout: f.drainTimeout}
	c.maxMessage, c.allowOpen = f.maxMessage, f.allowOpen
	if !strings.HasPrefix(f.path, "/") || strings.ContainsAny(f.path, "?# ") {
		return nil, usagef("%s %q: must begin with / and have no query", where(fs, "path"), f.path)
	}
	if err := f.checkEra(fs, f.era); err != nil {
		return nil, err
	}
	ssePath, err := f.checkSSE(fs)
	if err != nil {
		return nil, err
	}
	l := listenerConfig{name: defaultName, address: f.listen, allowedHosts: f.allowedHosts, allowedOrigins: f.origin}
	if l.loopback, err = listenAddress(f.listen); err != nil {
		return nil, usagef("%s %q: %w", where(fs, "listen"), f.listen, err)
	}
	c.audit = config.Audit(f.audit)
	if c.admin, err = f.checkAdmin(fs); err != nil {
		return nil, err
	}
	if err := f.checkProcess(fs, c); err != nil {
		return nil, err
	}
	if c.record, err = f.recordFlags.check(fs); err != nil {
		return nil, err
	}
	s, err := f.resolve(a, fs)
	if err != nil {
		return nil, err
	}
	era, _ := translate.ParseEra(f.era)
	c.routes = oneRoute(s, era, f.connectTimeout)
	r := &c.routes[0]
	r.path, r.ssePath, r.publicURL = f.path, ssePath, map[string]string{l.name: f.publicURL}
	f.limits.apply(&c.bridgeConfig)
	if err = f.policyFlags.apply(fs, &c.bridgeConfig); err != nil {
		return nil, err
	}
	if err := f.checkCallers(fs, c, &l); err != nil {
		return nil, err
	}
	if l.pair, err = f.tls.load(fs); err != nil {
		return nil, err
	}
	c.listeners = []listenerConfig{l}
	c.say = flagNaming{fs}
	return c, c.settle(c.say)
}

// checkProcess is for what a process has once, wherever it was set.
func (f *serveFlags) checkProcess(fs *pflag.FlagSet, c *settings) error {
	if c.maxMessage > 1<<30 {
		return usagef("%s: at most 1GiB", where(fs, "max-message"))
	}
	return checkState(fs, c.state)
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

func checkState(fs *pflag.FlagSet, state string) error {
	kind, _, _ := strings.Cut(state, ":")
	switch {
	case state == "memory":
	case kind == "file" || kind == "redis" || kind == "rediss":
		return usagef("%s %s: is not available yet in this version; use memory", where(fs, "state"), kind)
	default:
		return usagef("%s: want memory", where(fs, "state"))
	}
	return nil
}

// checkCallers reads how callers are told apart.
func (f *serveFlags) checkCallers(fs *pflag.FlagSet, c *settings, l *listenerConfig) error {
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

// advise says what an operator may not expect: at the start all of it, later what
// is a danger.
func (c *bridgeConfig) advise(log *slog.Logger, start bool) {
	if start {
		c.explain(log)
	}
	for i := range c.routes {
		r := &c.routes[i]
		for k := range r.upstreams {
			if s := &r.upstreams[k].server; s.exposed {
				log.Warn("a credential goes over plain http:// to another machine; use https://", "upstream", s.shown)
			}
		}
		if r.shared() && c.principal.ByToken() && c.reached(r) {
			log.Warn("unverified callers use the server's credential: any made-up token gets in", "route", r.name)
		}
	}
}

func (c *bridgeConfig) explain(log *slog.Logger) {
	if len(c.stateKeys) == 0 {
		log.Info("no --state-key: handles of tasks are sealed with a random key and, with --state memory, end with this process")
	}
	if c.principal.ByToken() {
		log.Info("--principal token: callers are told apart by their Authorization; a refreshed token is a new principal and does not see tasks made with the old one")
	}
	if c.jwt != nil && c.jwt.issuer == "" && c.published() {
		log.Info("no --jwt-issuer: clients are not told here who gives them tokens")
	}
}

// load reads what there is to serve: the flags, or the file they name.
func (f *serveFlags) load(a *app, fs *pflag.FlagSet) (*settings, error) {
	if f.config == "" {
		return f.check(a, fs)
	}
	read := contents(f.config)
	_, s, err := f.loadFile(a, fs)
	if err == nil {
		s.read = read
		err = f.checkProcess(fs, s)
	}
	return s, err
}

// loadFile reads the file, with what goes over it.
func (f *serveFlags) loadFile(a *app, fs *pflag.FlagSet) (*config.File, *settings, error) {
	var failed error
	file, problems := config.Load(f.config, a.stdin, os.LookupEnv, func(file *config.File) { failed = f.override(fs, file) })
	if failed != nil {
		return nil, nil, failed
	}
	if len(problems) > 0 {
		return nil, nil, problemError(problems...)
	}
	s, err := f.fromFile(a, file, fileNaming{flagNaming{fs}, file})
	return file, s, err
}

func (a *app) serve(ctx context.Context, f *serveFlags, fs *pflag.FlagSet) error {
	c, err := f.load(a, fs)
	if err != nil {
		return err
	}
	logs, err := c.logs.start(a, fs)
	if err != nil {
		return err
	}
	defer logs.close()
	log := logs.Logger
	manager := newNotifier(log)
	c.log, c.tap, c.metrics = log, debugTap(log), newMetrics()
	// Where the state is this process's alone and nobody can ask it, nothing is
	// counted.
	c.usage = c.admin != nil || c.state != "memory"
	b, err := newBridge(ctx, c.bridgeConfig)
	if err != nil {
		return usagef("%w", err)
	}
	lns, err := b.listen(ctx, c)
	if err != nil {
		b.close()
		return err
	}
	re := newReloader(a, f, fs, c, b, manager)
	re.logs = logs
	admin := newAdmin(adminOptions{unready: b.unready, metrics: c.metrics, log: log}.at(c.admin))
	if b.usage != nil {
		b.serveReport(admin)
	}
	re.serveAdmin(admin)
	stopAdmin, err := a.startAdmin(ctx, c.admin, fs, b.secure(), admin)
	if err != nil {
		closeAll(lns)
		b.close()
		return err
	}
	defer stopAdmin()
	defer re.takeHangups()()
	defer re.watch()()
	c.advise(log, true)
	return a.serveUntil(ctx, re, lns)
}

// serveUntil serves until ctx ends, then drains.
func (a *app) serveUntil(ctx context.Context, re *reloader, lns []net.Listener) error {
	b := re.bridge
	done := make(chan error, len(lns))
	for i, d := range b.doors {
		go func() {
			if err := d.serve(lns[i]); err != nil {
				done <- fmt.Errorf("serve %s: %w", lns[i].Addr(), err)
				return
			}
			done <- nil
		}()
		url := b.address(d, lns[i])
		fmt.Fprintf(a.stderr, "listening on %s\n", url)
		if routes := onDoor(b.current(), d.name); len(routes) > 1 {
			fmt.Fprintf(a.stderr, "routes on %s: %s\n", url, showRoutes(routes))
		}
	}
	re.manager.say("READY=1")
	select {
	case err := <-done:
		closeAll(lns)
		b.close()
		return err
	case <-ctx.Done():
	}
	re.manager.say("STOPPING=1")
	timeout := re.settings().drainTimeout
	b.log.Info("draining", "timeout", timeout)
	b.drain(timeout)
	for range lns {
		<-done
	}
	b.log.Info("stopped")
	return nil
}

// listen opens all listeners, or none.
func (b *bridge) listen(ctx context.Context, c *settings) (lns []net.Listener, err error) {
	for i, l := range c.listeners {
		ln, err := listen(ctx, l.address, l.loopback)
		if err != nil {
			closeAll(lns)
			return nil, listenError(c.say.at("listen", &c.listeners[i], nil), err)
		}
		if d := b.doors[i]; l.pair != nil {
			ln = encrypted(ln, func() *keyPair { return b.certificate(d) })
		}
		lns = append(lns, ln)
	}
	return lns, nil
}

func closeAll(lns []net.Listener) {
	for _, ln := range lns {
		ln.Close()
	}
}

// secure is the certificate of the first listener that has one, for the admin
// address; nil: none has.
func (b *bridge) secure() func() *keyPair {
	for _, d := range b.doors {
		if b.certificate(d) != nil {
			return func() *keyPair { return b.certificate(d) }
		}
	}
	return nil
}

// address is what clients write for a door, with the path where there is one
// route.
func (b *bridge) address(d *door, ln net.Listener) string {
	url := "http://" + ln.Addr().String()
	if b.certificate(d) != nil {
		url = "https://" + ln.Addr().String()
	}
	if routes := onDoor(b.current(), d.name); len(routes) == 1 {
		url += routes[0].path
	}
	return url
}

// maxShownRoutes bounds the routes that are named when the proxy starts.
const maxShownRoutes = 20

// showRoutes names routes with what is theirs: hosts, path and headers.
func showRoutes(routes []*route) string {
	var list []string
	for _, r := range routes[:min(len(routes), maxShownRoutes)] {
		one := []string{r.name, strings.Join(r.hosts, ",") + r.path}
		for _, name := range slices.Sorted(maps.Keys(r.headers)) {
			one = append(one, "("+name+": "+r.headers[name]+")")
		}
		list = append(list, strings.Join(one, " "))
	}
	if n := len(routes) - maxShownRoutes; n > 0 {
		list = append(list, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(list, ", ")
}

func listenError(at string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return usagef("%s: %w; another program listens there, choose another port (0 takes a free one)", at, err)
	}
	return usagef("%s: %w", at, err)
}
