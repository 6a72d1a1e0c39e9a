package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"taskbridge/upstream/child"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == guardArg {
		child.RunGuard(os.Stdin)
		os.Exit(exitOK)
	}
	ctx, cancel := context.WithCancel(context.Background())
	// Room for both: a second signal that comes before the first is read must
	// not be lost.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	go stopOn(signals, cancel)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// stopOn asks for an orderly end at the first signal; the second ends the
// process at once, however long draining takes.
func stopOn(signals <-chan os.Signal, cancel context.CancelFunc) {
	<-signals
	cancel()
	<-signals
	os.Exit(exitFailed)
}
