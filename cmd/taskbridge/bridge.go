package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/session/record"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/upstream"
)

// bridgeConfig is all a bridge needs; it has been checked.
type bridgeConfig struct {
	server         server
	era            translate.Era // EraUnknown: found out
	connectTimeout time.Duration

	path                         string
	ssePath                      string // empty: clients of HTTP+SSE are not served
	loopback                     bool
	allowedHosts, allowedOrigins []string
	publicURL                    string
	principal                    session.PrincipalPolicy
	jwt                          *jwtConfig // nil: callers bring no tokens we verify
	trusted                      []netip.Prefix
	// verified: callers nobody vouches for are refused.
	verified bool

	policy     session.Policy
	stateKeys  [][]byte // none: a random one
	maxMessage int64

	// stdio: there is no listener, one client comes over standard input.
	stdio bool
	// local: callers are on this machine, and may see what a server process said
	// before it ended.
	local bool

	log     *slog.Logger
	tap     session.Tap   // nil: none
	record  *recordConfig // nil: nothing is recorded
	metrics *metrics      // nil: none
}

// bridge is a listener's worth of proxy: a server behind, operations, and an
// endpoint for clients.
type bridge struct {
	log    *slog.Logger
	store  *memory.Store
	dialer session.Dialer
	runner *session.Runner
	budget *session.Budget
	faces  session.Faces      // what the server speaks
	tap    session.Tap        // who sees all frames; nil: nobody
	record *record.Recorder   // nil: nothing is recorded
	front  *downstream.Server // nil with stdio
	who    *callers           // nil: no tokens are verified

	transport io.Closer       // of the dialer
	http      *upstream.HTTP  // the dialer, where the server is behind a URL
	child     *upstream.Stdio // where it is a process of ours
	probe     upstream.ProbeOptions
	ws        *upstream.WebSocket
}

// newBridge wires a bridge. Errors are the configuration's fault.
func newBridge(ctx context.Context, c bridgeConfig) (*bridge, error) {
	b := &bridge{log: c.log, store: memory.New()}
	if err := b.wire(ctx, c); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bridge) wire(ctx context.Context, c bridgeConfig) error {
	handles, err := stateHandles(ctx, b.store, c.stateKeys)
	if err != nil {
		return err
	}
	budget := session.NewBudget(max(session.DefaultBudget, 2*c.maxMessage))
	info := buildInfo()
	b.budget = budget
	if c.record != nil {
		if b.record, err = c.record.start(c, handles); err != nil {
			return err
		}
		c.tap = tee(c.tap, b.record)
	}
	b.tap = c.tap
	if err := b.newDialer(c, budget, "taskbridge/"+info.Version); err != nil {
		return err
	}
	dialer := b.dialer
	if c.server.ownAuth {
		dialer = ownAuth{dialer, c.log}
	}
	if c.metrics != nil {
		dialer = countedDialer{dialer, c.metrics}
	}
	eo := upstream.EraOptions{
		Dialer: dialer,
		Pins:   map[string]translate.Era{upstreamName: c.era},
		Probe:  upstream.ProbeOptions{ClientVersion: info.Version},
	}
	if b.child != nil {
		b.probe = eo.Probe
		b.probe.Upstream, b.probe.Pin = upstreamName, c.era
		eo.TTL = childEraTTL
		eo.Ask = func(ctx context.Context, _ session.Target, o upstream.ProbeOptions) (upstream.Result, error) {
			return b.child.Probe(ctx, o)
		}
	}
	if b.ws != nil {
		eo.Ask = b.ws.Probe
		if c.server.ownAuth {
			eo.Ask = ownAuthProbe(eo.Ask, c.log)
		}
	}
	eras := upstream.NewEras(eo)
	b.faces = faces{eras, c.metrics}
	c.policy.Version, c.policy.MessageLimit = info.Version, c.maxMessage
	creds, held := session.NewCredentials(0), session.NewHeldBudget(0)
	o := session.Options{
		Store: b.store, Dialer: dialer, Faces: b.faces, Handles: handles,
		Upstream: upstreamName, Policy: c.policy, Credentials: creds, Held: held, Logger: c.log,
	}
	if c.metrics != nil {
		o.Metrics = c.metrics
	}
	if b.runner, err = session.New(o); err != nil {
		return err
	}
	if c.stdio {
		return nil
	}
	var hub session.Hub = b.runner
	supported := b.runner.Versions
	if c.verified {
		// Who is not known here makes nobody ask the server anything.
		hub, supported = verifiedOnly{hub}, nil
	}
	d := downstream.Options{
		Hub: hub, Path: c.path, SSEPath: c.ssePath, Limits: downstream.Limits{Body: c.maxMessage}, Budget: budget,
		AllowedHosts: c.allowedHosts, AllowedOrigins: c.allowedOrigins, PublicURL: c.publicURL, Loopback: c.loopback,
		Principal: c.principal, TrustedProxies: c.trusted, Logger: c.log, Tap: c.tap,
		Supported: supported,
	}
	if c.jwt != nil {
		if b.who, err = c.jwt.start(ctx, c.log); err != nil {
			return err
		}
		d.Tokens = b.who
	}
	if c.publicURL != "" && (c.jwt.ownMetadata(c.publicURL) != nil || !c.server.ownAuth && b.http != nil) {
		if err := b.publish(c, &d); err != nil {
			return err
		}
	}
	if c.metrics != nil {
		d.Metrics = c.metrics
		c.metrics.watch(creds, held, budget)
		c.metrics.watchKeys(b.who)
	}
	b.front, err = downstream.New(d)
	return err
}

// publish serves the server's protected resource metadata as that of the
// public URL, and says so in challenges; ours, where tokens are verified here
// and their issuer is known. Where the proxy has a credential of its own and
// verifies no tokens, clients need none and find no metadata.
func (b *bridge) publish(c bridgeConfig, d *downstream.Options) error {
	at, err := downstream.MetadataURL(c.publicURL)
	if err != nil {
		return fmt.Errorf("public URL: %w", err)
	}
	u, err := url.Parse(c.publicURL)
	if err != nil {
		return err
	}
	d.ChallengeURL = at
	d.Other = &downstream.ResourceMetadata{
		Paths: []string{u.EscapedPath(), c.path}, Logger: c.log,
		Fetch: func(ctx context.Context) ([]byte, error) {
			if doc := c.jwt.ownMetadata(c.publicURL); doc != nil {
				return doc, nil
			}
			doc, err := b.http.ResourceMetadata(ctx, upstreamName, c.publicURL)
			if errors.Is(err, upstream.ErrNoMetadata) {
				return nil, nil
			}
			return doc, err
		},
	}
	return nil
}

func stateHandles(ctx context.Context, st session.Store, keys [][]byte) (*session.Handles, error) {
	if len(keys) == 0 {
		key, err := session.RandomStateKey(ctx, st)
		if err != nil {
			return nil, err
		}
		keys = [][]byte{key}
	}
	return session.NewHandles(keys)
}

// childEraTTL: what a command starts changes less often than what stands
// behind a URL, and asking costs a process or two (2026-07-28 basic/versioning).
const childEraTTL = time.Hour

// unready says why no new work should come, or "". Nothing may come before it is
// well again, so it looks itself whether a server process that ended comes back.
func (b *bridge) unready() string {
	switch {
	case !b.front.Ready():
		return "draining"
	case b.child != nil && b.child.Down():
		b.child.Revive(b.probe)
		return "the server is down"
	case !b.who.ready():
		return "the keys of callers' tokens are not there"
	}
	return ""
}

// serve takes connections from ln until drain; it closes ln.
func (b *bridge) serve(ln net.Listener) error { return b.front.Serve(context.Background(), ln) }

// drain ends the bridge in order: no new work, calls in flight have until
// timeout, then everything closes. Nothing is cancelled or deleted at the
// server: its tasks outlive us.
func (b *bridge) drain(timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := b.front.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		b.log.Warn("calls were cut off: they took longer than the drain timeout", "timeout", timeout)
	} else if err != nil {
		b.log.Warn("shut the listener down", "err", err)
	}
	b.close()
}

// close releases what newBridge made, as far as it came.
func (b *bridge) close() {
	if b.runner != nil {
		b.runner.Close()
	}
	if b.transport != nil {
		b.transport.Close()
	}
	b.who.close()
	b.store.Close()
	if b.record != nil {
		if err := b.record.Close(); err != nil {
			b.log.Error("the recording is not whole", "file", b.record.File(), "err", err)
		}
	}
}

// faces tells a runner what upstream.Eras knows.
type faces struct {
	eras    *upstream.Eras
	metrics *metrics
}

var _ session.Faces = faces{}

// Face implements session.Faces.
func (f faces) Face(ctx context.Context, target session.Target) (session.Face, error) {
	r, err := f.eras.Era(ctx, target)
	f.metrics.era(r, err)
	if err != nil {
		return session.Face{}, err
	}
	return r.Face(), nil
}

// verifiedOnly refuses callers without identity. Under --principal header:NAME
// those are all who do not come through the trusted proxy, and they must not
// use a credential that is the operator's.
type verifiedOnly struct{ session.Hub }

// Client implements session.Hub.
func (v verifiedOnly) Client(ctx context.Context, in session.Inbound, s *session.ClientStream) {
	if !in.Caller.Open {
		v.Hub.Client(ctx, in, s)
		return
	}
	out := session.Out{Final: true, Status: http.StatusForbidden}
	if m := in.Frame.Msg; m == nil || m.Kind == jsonrpc.Request {
		var id jsonrpc.ID
		if m != nil {
			id = m.ID
		}
		_, code := translate.StatusOf(translate.CondBadOrigin, in.Caller.Era)
		out.Raw = jsonrpc.NewError(id, code, "this server takes only callers that its own front end has identified", nil)
	}
	s.Send(out)
}
