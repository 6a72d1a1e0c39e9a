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
	srv, end, err := serveMock(ctx, mock, c, loopback)
	if err != nil {
		return err
	}
	defer end()
	ln, err := listen(ctx, c.listen, loopback)
	if err != nil {
		return usagef("--serve: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(context.Background(), ln) }()
	fmt.Fprintf(a.stderr, "listening on http://%s%s\n", ln.Addr(), c.path)
	select {
	case err := <-done:
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	// What a capture leaves unanswered nobody needs to wait for.
	now, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	_ = srv.Shutdown(now)
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

// serveMock is an endpoint before a mock, until end.
func serveMock(ctx context.Context, mock *offline.Mock, c mockConfig, loopback bool) (srv *downstream.Server, end func(), err error) {
	store := memory.New()
	defer func() {
		if err != nil {
			store.Close()
		}
	}()
	handles, err := newHandles(ctx, store, nil)
	if err != nil {
		return nil, nil, err
	}
	runner, err := session.New(session.Options{
		Store: store, Dialer: mock, Faces: mock, Handles: handles, Upstream: upstreamName,
		Policy: session.Policy{Version: buildInfo().Version}, Logger: c.log,
	})
	if err != nil {
		return nil, nil, err
	}
	srv, err = downstream.New(downstream.Options{
		Hub: runner, Path: c.path, Loopback: loopback, Logger: c.log, Supported: runner.Versions,
	})
	if err != nil {
		runner.Close()
		return nil, nil, err
	}
	return srv, func() { runner.Close(); store.Close() }, nil
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
