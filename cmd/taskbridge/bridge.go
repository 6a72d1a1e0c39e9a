package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/session/record"
	"taskbridge/session/telemetry"
	"taskbridge/session/throttle"
	"taskbridge/session/usage"
)

// bridge is a proxy: what a process has once, its routes with the servers
// behind them, and the doors clients come in by.
type bridge struct {
	log     *slog.Logger
	store   *memory.Store
	handles *session.Handles
	process *session.Process
	creds   *session.Credentials
	held    *session.HeldBudget
	budget  *session.Budget
	shared  *downstream.Shared
	limiter *throttle.Limiter // of rates and bytes; over all routes
	tap     session.Tap       // who sees all frames; nil: nobody
	record  *record.Recorder  // nil: nothing is recorded
	metrics *metrics          // nil: none
	usage   *usage.Recorder   // nil: nobody asks who speaks what

	tracing *tracing                     // nil: OpenTelemetry is not told anything
	audit   *auditLog                    // nil: nothing is written down
	peersMu sync.RWMutex                 // protects peers
	peers   map[string][]*telemetry.Peer // of servers that are started, the newest last

	doors []*door // none with stdio

	changing   sync.Mutex // held while a configuration is put to work
	forgetting bool       // keys that were taken out are watched; under changing

	mu      sync.Mutex // protects the fields below
	config  bridgeConfig
	routes  []*route
	leaving map[string]*route // taken out, and not over yet
	who     *callers          // nil: no tokens are verified
	closed  bool
	wg      sync.WaitGroup
	done    chan struct{} // closed with the bridge
}

// door is a listener and the routes that take what comes in by it.
type door struct {
	name  string
	front *downstream.Front

	// Under bridge.changing.
	given
	settled map[string]*downstream.Server // those of the last change that was no failure

	// pair is what the listener shows to clients that connect encrypted; under
	// bridge.mu.
	pair *keyPair
}

// given is what a door's front has been given.
type given struct {
	endpoints []downstream.Endpoint
	unknown   *downstream.Server
	servers   map[string]*downstream.Server // by route
}

// newBridge wires a bridge. Errors are the configuration's fault.
func newBridge(ctx context.Context, c bridgeConfig) (*bridge, error) {
	b := &bridge{log: c.log, store: memory.New(), tap: c.tap, metrics: c.metrics, leaving: map[string]*route{}, done: make(chan struct{})}
	if err := b.wire(ctx, c); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bridge) wire(ctx context.Context, c bridgeConfig) (err error) {
	if b.handles, err = newHandles(ctx, b.store, c.stateKeys); err != nil {
		return err
	}
	b.process = session.NewProcess(nil)
	b.budget = session.NewBudget(max(session.DefaultBudget, 2*c.maxMessage))
	b.shared = downstream.NewShared(b.budget, c.maxMessage)
	b.limiter = throttle.New(c.rates, 0)
	b.creds, b.held = session.NewCredentials(0), session.NewHeldBudget(0)
	if c.record != nil {
		if b.record, err = c.record.start(c, b.handles); err != nil {
			return err
		}
		b.tap = tee(b.tap, b.record)
	}
	if b.tracing, err = b.startTracing(ctx); err != nil {
		return err
	}
	if !c.stdio {
		b.audit = newAuditLog(c.log, b.handles)
	}
	if c.usage {
		if err := b.startUsage(ctx, c.usageFlush); err != nil {
			return err
		}
	}
	for _, l := range c.listeners {
		b.doors = append(b.doors, &door{name: l.name, front: downstream.NewFront(downstream.FrontOptions{Logger: b.log})})
	}
	if b.metrics != nil {
		b.metrics.watch(b.creds, b.held, b.budget)
		b.metrics.watchKeys(b.callers)
	}
	return b.apply(ctx, c)
}

// callers are the keys of callers' tokens, nil if none are verified.
func (b *bridge) callers() *callers {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.who
}

// current are the routes there are now.
func (b *bridge) current() []*route {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.routes
}

// unready says why no new work should come, or "". A server that is down is no
// reason while there is another: then its route alone has nobody to ask.
func (b *bridge) unready() string {
	for _, d := range b.doors {
		if !d.front.Ready() {
			return "draining"
		}
	}
	all, down := 0, 0
	for _, r := range b.current() {
		for i := range r.upstreams {
			all++
			if s := r.live.of(&r.upstreams[i]); s != nil && s.down() {
				down++
			}
		}
	}
	switch {
	case down > 0 && all == 1:
		return "the server is down"
	case down > 0 && down == all:
		return "all servers are down"
	}
	if !b.callers().ready() {
		return "the keys of callers' tokens are not there"
	}
	return ""
}

// certificate is what a door shows to clients that connect encrypted; nil: it
// takes plain HTTP.
func (b *bridge) certificate(d *door) *keyPair {
	b.mu.Lock()
	defer b.mu.Unlock()
	return d.pair
}

// serve takes connections from ln until drain; it closes ln.
func (d *door) serve(ln net.Listener) error { return d.front.Serve(context.Background(), ln) }

// drain ends the bridge in order: no new work, calls in flight have until
// timeout, then everything closes. Nothing is cancelled or deleted at the
// servers: their tasks outlive us.
func (b *bridge) drain(timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ended := make(chan error, len(b.doors))
	for _, d := range b.doors {
		go func() { ended <- d.front.Shutdown(ctx) }()
	}
	var err error
	for range b.doors {
		err = errors.Join(err, <-ended)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		b.log.Warn("calls were cut off: they took longer than the drain timeout", "timeout", timeout)
	} else if err != nil {
		b.log.Warn("shut the listener down", "err", err)
	}
	b.close()
}

// close releases what newBridge made, as far as it came.
func (b *bridge) close() {
	b.changing.Lock()
	b.mu.Lock()
	again := b.closed
	b.closed = true
	routes, who := slices.Concat(b.routes, slices.Collect(maps.Values(b.leaving))), b.who
	b.mu.Unlock()
	b.changing.Unlock()
	if again {
		return
	}
	close(b.done)
	b.wg.Wait()
	var wg sync.WaitGroup
	for _, r := range routes {
		wg.Go(func() {
			_ = r.hub.Close()
			// The store is this process's memory.
			if err := r.hub.SessionsOver(context.Background()); err != nil {
				b.log.Warn("not all sessions were counted that were open at the end", "err", err)
			}
		})
	}
	wg.Wait()
	who.close()
	b.closeUsage()
	b.tracing.close()
	b.audit.close()
	b.store.Close()
	if b.record != nil {
		if err := b.record.Close(); err != nil {
			b.log.Error("the recording is not whole", "file", b.record.File(), "err", err)
		}
	}
}
