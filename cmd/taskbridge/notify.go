package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
)

// notifier tells the service manager that started us how we are, where it asked
// for that (sd_notify(3): a datagram to the socket in NOTIFY_SOCKET).
type notifier struct {
	path string
	log  *slog.Logger
}

// newNotifier takes the socket's name out of the environment, which server
// processes of ours inherit: only we may say how we are.
func newNotifier(log *slog.Logger) notifier {
	n := notifier{os.Getenv("NOTIFY_SOCKET"), log}
	if n.path != "" {
		os.Unsetenv("NOTIFY_SOCKET")
	}
	return n
}

// say sends a state such as READY=1. Nobody asked: nothing is sent. That it
// cannot be is logged and changes nothing.
func (n notifier) say(state string) {
	if n.path == "" {
		return
	}
	if err := n.send(state); err != nil {
		n.log.Warn("the service manager was not told", "state", state, "err", err)
	}
}

// reloading says that the configuration is being read; READY=1 ends it
// (sd_notify(3): Type=notify-reload needs the time beside it).
func (n notifier) reloading() {
	state := "RELOADING=1"
	if at := monotonic(); at != "" {
		state += "\nMONOTONIC_USEC=" + at
	}
	n.say(state)
}

func (n notifier) send(state string) error {
	addr := &net.UnixAddr{Name: n.path, Net: "unixgram"}
	switch {
	case strings.HasPrefix(n.path, "@"): // package net takes it for an abstract one, too
	case !strings.HasPrefix(n.path, "/"):
		return errors.New("NOTIFY_SOCKET: want a path or the name of an abstract socket")
	}
	conn, err := net.DialUnix("unixgram", nil, addr)
	if err != nil {
		return fmt.Errorf("reach it: %w", err)
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err
}
