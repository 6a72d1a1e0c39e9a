package session

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"taskbridge/translate"
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
	// Began is when its initialize came, zero if that is not known; Transport is
	// how, one of translate.Transport….
	Began     time.Time
	Transport string
	// Fail says in a word why it ended, empty where client or idleness ended it.
	Fail string
}

// SessionObserver is an Observer that hears when legacy sessions end, too: by
// DELETE, for being idle, or because the server forgot them.
type SessionObserver interface {
	SessionEnded(s LegacySession, at time.Time)
}

// ServerSession is a session of ours with a legacy server, for one legacy client
// or for the modern clients that share it.
type ServerSession struct {
	Route, Upstream string
	// Version is the negotiated revision.
	Version string
	// Began is when we asked for it, zero if that is not known.
	Began time.Time
	// Fail says in a word why it ended, empty where we ended it.
	Fail string
}

// ServerSessionObserver is an Observer that hears when our sessions with legacy
// servers end, too.
type ServerSessionObserver interface {
	ServerSessionEnded(s ServerSession, at time.Time)
}

// failForgotten: the server answered 404 to a session's id (2025-11-25
// basic/transports, Session Management).
const failForgotten = "404"

// describe is s for observers.
func (r *Runner) describe(s *legacySession) LegacySession {
	l := LegacySession{Route: r.route, Upstream: r.upstream, Version: s.Version, Listening: s.listens(), Began: s.Began, Transport: s.Transport}
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

// closed says that s has ended, and the one with the server that goes with it. A
// part of a session that is bound to another upstream is none of its client's.
func (s *legacySession) closed(x *Exec, lost bool) {
	fail := ""
	if lost {
		fail = failForgotten
	}
	if s.Guest == "" {
		l := x.r.describe(s)
		l.Fail = fail
		x.Do(Closed{l})
	}
	if s.Era == translate.Legacy {
		x.leave(ServerSession{Version: s.Version, Began: s.Began, Fail: fail}, s.Principal, s.UpSession)
	}
}

// leave says that a session with the server has ended.
func (x *Exec) leave(s ServerSession, as Principal, id string) { x.Do(x.r.leaving(s, as, id)) }

func (r *Runner) leaving(s ServerSession, as Principal, id string) Left {
	s.Route, s.Upstream = r.route, r.upstream
	return Left{s, as, id}
}

// serverSessionOver tells observers that a session with the server has ended.
func (r *Runner) serverSessionOver(e Left) {
	r.questions.left(translate.ServerLeg, e.As, e.ID)
	for _, o := range r.observers {
		if o, ok := o.(ServerSessionObserver); ok {
			o.ServerSessionEnded(e.Session, r.clock.Now())
		}
	}
}

// LegacySessions calls f with each legacy session that is open, of all runners
// on the store, until f returns false. It reads them all: not for each request.
func (r *Runner) LegacySessions(ctx context.Context, f func(LegacySession) bool) error {
	return r.legacySessions(ctx, func(s *legacySession) bool { return s.Guest != "" || f(r.describe(s)) })
}

// legacySessions is LegacySessions with the parts of sessions that are bound to
// another upstream.
func (r *Runner) legacySessions(ctx context.Context, f func(*legacySession) bool) error {
	prefix := opKey(sessionOp(""))
	for e, err := range Records(ctx, r.store, prefix) {
		if err != nil {
			return err
		}
		var s legacySession
		if strings.Contains(e.Key[len(prefix):], "/") || json.Unmarshal(e.Value, &s) != nil || s.Phase != sessionReady {
			continue
		}
		if !f(&s) {
			return nil
		}
	}
	return nil
}

// sessionsOver tells observers that all sessions on the store have ended, because
// the store does. The runner is closed.
func (r *Runner) sessionsOver(ctx context.Context) error {
	err := r.legacySessions(ctx, func(s *legacySession) bool {
		if s.Guest == "" {
			r.sessionOver(r.describe(s))
		}
		if s.Era == translate.Legacy {
			r.serverSessionOver(r.leaving(ServerSession{Version: s.Version, Began: s.Began}, s.Principal, s.UpSession))
		}
		return true
	})
	if err != nil {
		return err
	}
	prefix := opKey("pool:")
	for e, err := range Records(ctx, r.store, prefix) {
		if err != nil {
			return err
		}
		var p poolSession
		if strings.Contains(e.Key[len(prefix):], "/") || json.Unmarshal(e.Value, &p) != nil || p.Phase != "ready" {
			continue
		}
		r.serverSessionOver(r.leaving(ServerSession{Version: p.Version, Began: p.Began}, p.As, p.Session))
	}
	return nil
}
