package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"taskbridge/session"
	"taskbridge/upstream"
)

// ownAuth keeps a server's word about our own Authorization from callers: they
// have no part in it, and a 401 with WWW-Authenticate would send them looking
// for a token this endpoint does not want. They see 502, the log says why.
type ownAuth struct {
	session.Dialer
	upstream string
	log      *slog.Logger
}

// Dial implements session.Dialer.
func (d ownAuth) Dial(ctx context.Context, target session.Target) (session.Conn, error) {
	c, err := d.Dialer.Dial(ctx, target)
	if err != nil {
		return nil, err
	}
	return ownAuthConn{c, d.upstream, d.log}, nil
}

type ownAuthConn struct {
	session.Conn
	upstream string
	log      *slog.Logger
}

// Do implements session.Conn.
func (c ownAuthConn) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	s, err := c.Conn.Do(ctx, out)
	if err != nil {
		return nil, err
	}
	env := s.Envelope()
	if env == nil || env.Status != http.StatusUnauthorized &&
		(env.Status != http.StatusForbidden || env.Header.Get("WWW-Authenticate") == "") {
		return s, nil
	}
	s.Close()
	return nil, ownRefused(c.upstream, c.log, env.Status)
}

func ownRefused(upstream string, log *slog.Logger, status int) error {
	log.Warn("the server refuses the credential given with --header", "upstream", upstream, "status", status)
	return &session.DialError{
		Fail: session.FailRefused, Upstream: upstream,
		Err: fmt.Errorf("the server refuses the proxy's own credential (HTTP %d)", status),
	}
}

type askFunc = func(context.Context, session.Target, upstream.ProbeOptions) (upstream.Result, error)

// ownAuthProbe is ownAuth for probes that go past the dialer.
func ownAuthProbe(ask askFunc, name string, log *slog.Logger) askFunc {
	return func(ctx context.Context, target session.Target, o upstream.ProbeOptions) (upstream.Result, error) {
		r, err := ask(ctx, target, o)
		if de, ok := errors.AsType[*session.DialError](err); ok && (de.Status == http.StatusUnauthorized || de.Status == http.StatusForbidden) {
			err = ownRefused(name, log, de.Status)
		}
		return r, err
	}
}

// countedDialer counts exchanges that break before an answer.
type countedDialer struct {
	session.Dialer
	m *metrics
}

// Dial implements session.Dialer.
func (d countedDialer) Dial(ctx context.Context, target session.Target) (session.Conn, error) {
	c, err := d.Dialer.Dial(ctx, target)
	if err != nil {
		return nil, err
	}
	return countedConn{c, d.m}, nil
}

type countedConn struct {
	session.Conn
	m *metrics
}

// Do implements session.Conn.
func (c countedConn) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	s, err := c.Conn.Do(ctx, out)
	if err != nil && !errors.Is(err, context.Canceled) {
		c.m.upErrors.WithLabelValues(failName(err)).Inc()
	}
	return s, err
}

func failName(err error) string {
	if de, ok := errors.AsType[*session.DialError](err); ok {
		switch de.Fail {
		case session.FailUnreachable:
			return "unreachable"
		case session.FailBroken:
			return "broken"
		case session.FailTooLarge:
			return "too_large"
		case session.FailRedirect:
			return "redirect"
		case session.FailBusy:
			return "busy"
		}
	}
	return other
}
