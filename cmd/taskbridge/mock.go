package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/spf13/pflag"

	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/session/offline"
	"taskbridge/translate"
	"taskbridge/translate/operation"
)

// mockConfig is a capture to be served.
type mockConfig struct {
	name   string // of the capture, for people
	ops    []*operation.Operation
	listen string
	path   string
	speed  float64
	log    *slog.Logger
}

// serveCapture is a server made of a capture, for clients of either era, until
// ctx ends. A request the capture has no answer to gets an error, is told at
// once, and makes a failure of it in the end.
func (a *app) serveCapture(ctx context.Context, c mockConfig) error {
	era, all := eraOf(c.ops)
	if all == 0 {
		return usagef("%s: no operation of a client is in this capture, so there is nothing to serve", c.name)
	}
	if n := len(c.ops) - all; n > 0 {
		fmt.Fprintf(a.stderr, "%s: %d operations speak the other dialect than most and are left out\n", c.name, n)
	}
	var missed atomic.Int64
	mock := offline.NewMock(offline.MockOptions{Operations: c.ops, Era: era, Speed: c.speed, Missed: func(m offline.Missed) {
		missed.Add(1)
		fmt.Fprintf(a.stderr, "not in the capture: %s\n", showText(m.String(), 400))
	}})
	loopback, err := listenAddress(c.listen)
	if err != nil {
		return usagef("--serve %q: %w", c.listen, err)
	}
	b := &bridge{log: c.log, store: memory.New(), budget: session.NewBudget(session.DefaultBudget)}
	if err := b.mock(ctx, mock, c, loopback); err != nil {
		b.close()
		return err
	}
	ln, err := listen(ctx, c.listen, loopback)
	if err != nil {
		b.close()
		return usagef("--serve: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- b.doors[0].serve(ln) }()
	fmt.Fprintf(a.stderr, "listening on http://%s%s\n", ln.Addr(), c.path)
	select {
	case err := <-done:
		b.close()
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	b.drain(mockDrain)
	<-done
	if n := missed.Load(); n > 0 {
		return fmt.Errorf("%d requests were not in the capture", n)
	}
	return nil
}

// replayServe is replay --serve.
func (a *app) replayServe(ctx context.Context, f *replayFlags, fs *pflag.FlagSet, name string) error {
	if fs.Changed("upstream") || f.command != nil {
		return usagef("--serve makes the capture the server; leave --upstream and -- CMD out")
	}
	if err := f.check(fs, name); err != nil {
		return err
	}
	log, closeLog, err := f.logFlags.open(a, fs)
	if err != nil {
		return err
	}
	defer closeLog()
	in, err := a.readCapture(name)
	if err != nil {
		return err
	}
	return a.serveCapture(ctx, mockConfig{name: name, ops: in.ops, listen: f.serve, path: f.path, speed: f.speed, log: log})
}

// mockDrain is zero: what a capture leaves unanswered nobody needs to wait for.
const mockDrain = 0

// mock puts an endpoint before a mock.
func (b *bridge) mock(ctx context.Context, mock *offline.Mock, c mockConfig, loopback bool) error {
	handles, err := stateHandles(ctx, b.store, nil)
	if err != nil {
		return err
	}
	runner, err := session.New(session.Options{
		Store: b.store, Dialer: mock, Faces: mock, Handles: handles, Upstream: upstreamName,
		Policy: session.Policy{Version: buildInfo().Version}, Logger: c.log,
	})
	if err != nil {
		return err
	}
	b.routes = []*route{{servers: []*backend{{runner: runner}}}}
	s, err := downstream.New(downstream.Options{
		Hub: runner, Path: c.path, Budget: b.budget, Loopback: loopback, Logger: c.log, Supported: runner.Versions,
	})
	if err != nil {
		return err
	}
	d := &door{front: downstream.NewFront(downstream.FrontOptions{Logger: c.log})}
	b.doors = []*door{d}
	return d.front.Set([]downstream.Endpoint{{Server: s}}, nil)
}

// eraOf is the era most operations speak, and how many do.
func eraOf(ops []*operation.Operation) (translate.Era, int) {
	count := map[translate.Era]int{}
	for _, op := range ops {
		count[op.Era]++
	}
	if count[translate.Modern] > count[translate.Legacy] {
		return translate.Modern, count[translate.Modern]
	}
	return translate.Legacy, count[translate.Legacy]
}
