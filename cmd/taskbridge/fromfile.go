package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"taskbridge/cmd/taskbridge/config"
	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/session/bearer"
	"taskbridge/session/throttle"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/upstream"
)

// fromFile turns a configuration file into settings, with what flags and
// environment say over it. What is wrong is exit 2.
func (f *serveFlags) fromFile(a *app, file *config.File, say fileNaming) (*settings, error) {
	s := &settings{
		state: file.State, say: say, logs: logFlags{file.Log.Level, file.Log.Format, file.Log.File},
		drainTimeout: file.DrainTimeout,
	}
	s.maxMessage, s.allowOpen, s.rates = file.MaxMessage, file.AllowOpen, ratesOf(file.Limits)
	s.audit = file.Telemetry.Audit
	var err error
	if s.admin, err = adminOf(f, file, say); err != nil {
		return nil, err
	}
	if s.stateKeys, err = stateKeysOf(file); err != nil {
		return nil, err
	}
	if s.principal, err = session.ParsePrincipalPolicy(file.Principal); err != nil {
		return nil, problemError(file.Problem("principal", "%v", err))
	}
	if s.jwt, err = jwtOf(file, s.principal.JWKS()); err != nil {
		return nil, err
	}
	if s.record, err = recordOf(file); err != nil {
		return nil, err
	}
	for i := range file.Listeners {
		if err := s.addListener(file, i); err != nil {
			return nil, err
		}
	}
	for i := range file.Routes {
		if err := s.addRoute(a, file, i); err != nil {
			return nil, err
		}
	}
	return s, s.settle(say)
}

// configError is what is wrong with a file.
type configError struct{ problems []config.Problem }

func (e configError) Error() string {
	lines := make([]string, len(e.problems))
	for i, p := range e.problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// problemError is what is wrong with a file, as exit 2.
func problemError(list ...config.Problem) error { return usagef("%w", configError{list}) }

// unusable is what serve would refuse in a file that reads well: keys,
// certificates and header files that are not what they should be. Nothing is
// connected to.
func (a *app) unusable(file *config.File) []config.Problem {
	f := &serveFlags{}
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.register(fs)
	s, err := f.fromFile(a, file, fileNaming{flagNaming{fs}, file})
	if err == nil {
		err = f.checkProcess(fs, s)
	}
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[configError](err); ok {
		return e.problems
	}
	return []config.Problem{{File: file.Name, Text: err.Error()}}
}

// adminOf is where operators come in; what is wrong with it names the flags
// where they were given.
func adminOf(f *serveFlags, file *config.File, say fileNaming) (*adminPlace, error) {
	in := adminFlags{file.Admin.Address, file.Admin.TokenFile}
	place, err := in.checkAdmin(say.flags.fs)
	if err != nil && f.admin == "" && f.adminToken == "" {
		err = problemError(file.Problem("admin", "%v", err))
	}
	return place, err
}

func stateKeysOf(file *config.File) (keys [][]byte, err error) {
	for i, k := range file.StateKeys {
		var key []byte
		if k.Env != "" {
			key, err = session.ParseStateKey([]byte(os.Getenv(k.Env)))
		} else {
			key, err = session.LoadStateKey(k.File)
		}
		if err != nil {
			return nil, problemError(file.Problem(fmt.Sprintf("state-keys[%d]", i), "%v", err))
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func jwtOf(file *config.File, source string) (*jwtConfig, error) {
	if source == "" {
		return nil, nil
	}
	algorithms := file.JWTAlgorithms
	if len(algorithms) == 0 {
		algorithms = bearer.Algorithms
	}
	c, at, err := newJWT(source, file.JWTAudience, file.JWTIssuer, algorithms)
	if err != nil {
		return nil, problemError(file.Problem(at, "%v", err))
	}
	return c, nil
}

func recordOf(file *config.File) (*recordConfig, error) {
	r := file.Record
	if r.File == "" {
		return nil, nil
	}
	c := &recordConfig{recordFlags: recordFlags{r.File, r.RotateSize, r.RotateEvery, r.Redact}}
	if len(r.Redact) > 0 {
		var err error
		if c.redactor, err = capture.NewRedactor(r.Redact); err != nil {
			return nil, problemError(file.Problem("record.redact", "%v", err))
		}
	}
	return c, nil
}

func (s *settings) addListener(file *config.File, i int) error {
	in := file.Listeners[i]
	l := listenerConfig{
		name: in.Name, address: in.Address, allowedHosts: in.AllowedHosts, allowedOrigins: in.AllowedOrigins, trusted: in.TrustedProxies,
	}
	var err error
	at := fmt.Sprintf("listeners[%d]", i)
	if l.loopback, err = listenAddress(in.Address); err != nil {
		return problemError(file.Problem(at+".address", "%v", err))
	}
	if in.TLSCert != "" {
		if l.pair, err = newKeyPair(in.TLSCert, in.TLSKey); err != nil {
			return problemError(file.Problem(at+".tls", "%v", err))
		}
	}
	s.listeners = append(s.listeners, l)
	return nil
}

func (s *settings) addRoute(a *app, file *config.File, i int) error {
	in := &file.Routes[i]
	r := routeConfig{
		name: in.Name, path: in.Path, ssePath: in.SSEPath, listeners: in.Listeners,
		publicURL: map[string]string{}, policy: policyOf(&in.Policies), prefix: "r/" + in.Name + "/",
	}
	r.policy.Above = limitsOf(file.Limits)
	limit(&r.policy, r.policy.Above)
	if in.Limits != (config.Limits{}) {
		own := lower(file.Limits, in.Limits)
		limit(&r.policy, limitsOf(own))
		rates := ratesOf(own)
		r.rates = &rates
	}
	if in.Host != "" {
		r.hosts = []string{bracketed(in.Host)}
	}
	for _, h := range in.Headers {
		if r.headers == nil {
			r.headers = map[string]string{}
		}
		r.headers[h.Name] = h.Value
	}
	for _, l := range file.Listeners {
		r.publicURL[l.Name] = file.PublicURL(l, *in)
	}
	if err := downstream.CheckSSEPath(r.ssePath, r.path); err != nil {
		return problemError(file.Problem(fmt.Sprintf("routes[%d].sse-path", i), "%v", err))
	}
	for k := range in.Upstreams {
		u, err := upstreamOf(a, in, &in.Upstreams[k])
		if err != nil {
			return problemError(file.Problem(file.UpstreamPath(i, k), "%v", err))
		}
		r.upstreams = append(r.upstreams, u)
	}
	s.routes = append(s.routes, r)
	return nil
}

// bracketed writes an IPv6 address as a Host header does.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

func policyOf(p *config.Policies) session.Policy {
	return session.Policy{
		ToolErrorsCompleted: p.ToolErrors == "completed",
		RefuseUndeclared:    p.UndeclaredTasks == "refuse",
		ParkTask:            p.Park == "task",
		TaskHandleAfter:     p.TaskHandleAfter, InlineWait: p.InlineWait,
		SessionIdle: p.Lifetimes.SessionIdle, TaskKeep: p.Lifetimes.TaskKeep, TaskGrace: p.Lifetimes.TaskGrace,
		MaxTTL: p.Lifetimes.MaxTTL, ParkFor: p.Lifetimes.ParkFor, URLWait: p.Lifetimes.URLWait, ResumeFor: p.Lifetimes.ResumeFor,
	}
}

// ratesOf are the limits of what callers send.
func ratesOf(l config.Limits) throttle.Limits {
	return throttle.Limits{
		Rate: l.PerPrincipal.Requests, RateTotal: l.Total.Requests, Burst: l.PerPrincipal.RequestsBurst,
		Bytes: l.PerPrincipal.Bytes, InFlight: l.PerPrincipal.BytesInFlight,
	}
}

// limitsOf are the limits of what callers have.
func limitsOf(l config.Limits) session.Limits {
	each, all := l.PerPrincipal, l.Total
	return session.Limits{
		Tasks:     session.Limit{Each: each.Tasks, All: all.Tasks},
		Sessions:  session.Limit{Each: each.Sessions, All: all.Sessions},
		Upstreams: session.Limit{Each: each.ServerSessions, All: all.ServerSessions},
		Streams:   session.Limit{Each: each.Streams, All: all.Streams},
	}
}

// limit puts limits into a policy.
func limit(p *session.Policy, l session.Limits) {
	p.Tasks, p.Sessions, p.Upstreams, p.Streams = l.Tasks, l.Sessions, l.Upstreams, l.Streams
}

// lower takes the lower of two limits each; zero is none.
func lower(a, b config.Limits) config.Limits {
	p, q, t, u := a.PerPrincipal, b.PerPrincipal, a.Total, b.Total
	return config.Limits{
		PerPrincipal: config.PrincipalLimits{
			Tasks: least(p.Tasks, q.Tasks), Sessions: least(p.Sessions, q.Sessions), ServerSessions: least(p.ServerSessions, q.ServerSessions),
			Streams: least(p.Streams, q.Streams), Requests: least(p.Requests, q.Requests), RequestsBurst: least(p.RequestsBurst, q.RequestsBurst),
			Bytes: least(p.Bytes, q.Bytes), BytesInFlight: least(p.BytesInFlight, q.BytesInFlight),
		},
		Total: config.TotalLimits{
			Tasks: least(t.Tasks, u.Tasks), Sessions: least(t.Sessions, u.Sessions), ServerSessions: least(t.ServerSessions, u.ServerSessions),
			Streams: least(t.Streams, u.Streams), Requests: least(t.Requests, u.Requests),
		},
	}
}

func least[T int | int64 | float64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// upstreamOf makes a server of a route. Its errors hold no URL and no value.
func upstreamOf(a *app, r *config.Route, in *config.Upstream) (upstreamConfig, error) {
	u := upstreamConfig{
		owner: r.Name + "/" + in.Name, show: in.Name, connectTimeout: in.ConnectTimeout, weight: in.Weight,
		health: session.Health(in.Health),
	}
	if u.health.FailAfter == 0 {
		u.health.FailAfter = -1
	}
	u.era, _ = translate.ParseEra(in.Era)
	for _, c := range in.Pins.Clients {
		u.pins = append(u.pins, session.Pin{Client: c.Name, Version: c.Version})
	}
	for _, p := range in.Pins.Principals {
		u.pins = append(u.pins, session.Pin{Principal: p})
	}
	var err error
	if len(in.Command) > 0 {
		u.server = server{
			child: &upstream.StdioOptions{
				Command: in.Command, Env: in.Env, Dir: in.Cwd, StartLimit: in.StartTimeout,
				Share: in.ShareChild, MaxChildren: in.MaxChildren, Guard: newGuard(),
			},
			shared: true, shown: in.Command[0],
		}
	} else if u.server, err = urlServerOf(a, in); err != nil {
		return u, err
	}
	u.key = keyOf(&u, in)
	// A changed server has a part of its own: what the other one gave means
	// nothing to it.
	u.prefix = "u/" + u.owner + "/" + u.key + "/"
	return u, nil
}

func urlServerOf(a *app, in *config.Upstream) (server, error) {
	h, err := a.readHeaders("header-files", nil, in.HeaderFiles)
	if err != nil {
		return server{}, err
	}
	for _, one := range in.Headers {
		h.Add(one.Name, one.Value)
	}
	addr, err := url.Parse(in.URL)
	if err != nil {
		return server{}, errors.New("the URL cannot be parsed; give it as https://HOST/PATH")
	}
	s := newURLServer(addr, upstream.HTTPUpstream{URL: in.URL, Header: h, Transport: transports[in.Transport], MessageURL: in.MessageURL})
	if in.CA != "" {
		if s.roots, err = readCA(in.CA); err != nil {
			return server{}, fmt.Errorf("ca: %w", err)
		}
	}
	return s, nil
}

// keyOf tells one server from another that has its name: what is not only how
// much work it gets. It shows nothing of what it is made of.
func keyOf(u *upstreamConfig, in *config.Upstream) string {
	what := *in
	what.Name, what.Weight, what.Pins, what.Health, what.Headers = "", 0, config.Pins{}, config.Health{}, nil
	var header http.Header
	if u.server.child == nil {
		header = u.server.http.Header
	}
	raw, err := json.Marshal([]any{what, header, slices.Sorted(slices.Values(in.Env))})
	if err != nil {
		panic("taskbridge: " + err.Error()) // plain values only
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
