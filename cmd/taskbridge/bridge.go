package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/session/record"
	"taskbridge/session/throttle"
	"taskbridge/session/usage"
)

// bridge is a proxy: what a process has once, its routes with the servers
// behind them, and the doors clients come in by.
type bridge struct {
	log     *slog.Logger
	store   *memory.Store
	handles *session.Handles
	creds   *session.Credentials
	held    *session.HeldBudget
	budget  *session.Budget
	shared  *downstream.Shared
	limiter *throttle.Limiter // of rates and bytes; over all routes
	tap     session.Tap       // who sees all frames; nil: nobody
	record  *record.Recorder  // nil: nothing is recorded
	metrics *metrics          // nil: none
	who     *callers          // nil: no tokens are verified
	usage   *usage.Recorder   // nil: nobody asks who speaks what

	routes []*route
	doors  []*door // none with stdio
}

// door is a listener and the routes that take what comes in by it.
type door struct {
	listenerConfig
	front *downstream.Front
}

// newBridge wires a bridge. Errors are the configuration's fault.
func newBridge(ctx context.Context, c bridgeConfig) (*bridge, error) {
	b := &bridge{log: c.log, store: memory.New(), tap: c.tap, metrics: c.metrics}
	if err := b.wire(ctx, c); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bridge) wire(ctx context.Context, c bridgeConfig) (err error) {
	if b.handles, err = stateHandles(ctx, b.store, c.stateKeys); err != nil {
		return err
	}
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
	if c.usage {
		if err := b.startUsage(ctx, c.usageFlush); err != nil {
			return err
		}
	}
	for i := range c.routes {
		r, err := b.newRoute(&c, &c.routes[i])
		if err != nil {
			return err
		}
		b.routes = append(b.routes, r)
	}
	b.countRoutes()
	if c.stdio {
		return nil
	}
	if c.jwt != nil {
		if b.who, err = c.jwt.start(ctx, c.log); err != nil {
			return err
		}
	}
	if b.metrics != nil {
		b.metrics.watch(b.creds, b.held, b.budget)
		b.metrics.watchKeys(b.who)
	}
	for _, l := range c.listeners {
		d := &door{listenerConfig: l, front: downstream.NewFront(downstream.FrontOptions{Logger: b.log})}
		b.doors = append(b.doors, d)
		if err := b.open(&c, d); err != nil {
			return err
		}
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

// unready says why no new work should come, or "".
func (b *bridge) unready() string {
	for _, d := range b.doors {
		if !d.front.Ready() {
			return "draining"
		}
	}
	for _, r := range b.routes {
		if why := r.unready(); why != "" {
			return why
		}
	}
	if !b.who.ready() {
		return "the keys of callers' tokens are not there"
	}
	return ""
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
	for _, r := range b.routes {
		r.close()
	}
	b.who.close()
	b.closeUsage()
	b.store.Close()
	if b.record != nil {
		if err := b.record.Close(); err != nil {
			b.log.Error("the recording is not whole", "file", b.record.File(), "err", err)
		}
	}
}
