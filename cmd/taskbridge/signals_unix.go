//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// catchBrokenPipes makes a write to a closed standard output an error instead
// of the end of the process. It is not ignored, which children would inherit.
func catchBrokenPipes() (undo func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}

// ownerOnly runs f while files are made for their owner alone.
func ownerOnly(f func()) {
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	f()
}
