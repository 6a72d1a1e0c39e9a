package session

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"taskbridge/translate/jsonrpc"
)

// LegacySession is a legacy client's session as observers know it.
type LegacySession struct {
	Who
	Route, Upstream string
	// Version is the negotiated revision.
	Version string
	// Listening: the client holds a stream open in it.
	Listening bool
}

// SessionObserver is an Observer that hears when legacy sessions end, too: by
// DELETE, for being idle, or because the server forgot them.
type SessionObserver interface {
	SessionEnded(s LegacySession, at time.Time)
}

// describe is s for observers.
func (r *Runner) describe(s *legacySession) LegacySession {
	l := LegacySession{Route: r.route, Upstream: r.upstream, Version: s.Version, Listening: s.listens()}
	l.Principal, l.Open = s.Principal, s.Open
	if info, err := jsonrpc.ParseValue(s.ClientInfo); err == nil {
		l.client(info)
	}
	return l
}

// sessionOver tells observers that a session has ended.
func (r *Runner) sessionOver(s LegacySession) {
	for _, o := range r.observers {
		if o, ok := o.(SessionObserver); ok {
			o.SessionEnded(s, r.clock.Now())
		}
	}
}

// closed says that s has ended; a part of a session that is bound to another
// upstream was never told of.
func (s *legacySession) closed(x *Exec) {
	if s.Guest == "" {
		x.Do(Closed{x.r.describe(s)})
	}
}

// LegacySessions calls f with each legacy session that is open, of all runners
// on the store, until f returns false. It reads them all: not for each request.
func (r *Runner) LegacySessions(ctx context.Context, f func(LegacySession) bool) error {
	prefix := opKey(sessionOp(""))
	for e, err := range Records(ctx, r.store, prefix) {
		if err != nil {
			return err
		}
		var s legacySession
		if strings.Contains(e.Key[len(prefix):], "/") || json.Unmarshal(e.Value, &s) != nil || s.Phase != sessionReady || s.Guest != "" {
			continue
		}
		if !f(r.describe(&s)) {
			return nil
		}
	}
	return nil
}
