package main

import (
	"context"
	"errors"
	"net/http"

	"taskbridge/session"
	"taskbridge/upstream"
)

// look says whether a server is there, for session.Health: a probe of which
// nothing is kept. One that wants to know first who asks is there. A process of
// ours is not asked: it is there as long as it runs.
func (s *backend) look(ctx context.Context) error {
	if s == nil {
		return nil // not started yet, or closed
	}
	if s.child != nil {
		if s.child.Down() {
			return errors.New("the server process is down")
		}
		return nil
	}
	target := session.Target{Upstream: s.owner}
	o := upstream.ProbeOptions{Upstream: s.owner, Pin: s.era, ClientVersion: buildInfo().Version}
	err := s.ask(ctx, target, o)
	if de, ok := errors.AsType[*session.DialError](err); ok && (de.Status == http.StatusUnauthorized || de.Status == http.StatusForbidden) {
		return nil
	}
	return err
}

func (s *backend) ask(ctx context.Context, target session.Target, o upstream.ProbeOptions) error {
	if s.ws != nil {
		_, err := s.ws.Probe(ctx, target, o)
		return err
	}
	conn, err := s.dialer.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = upstream.Probe(ctx, conn, o)
	return err
}
