package session

import (
	"context"

	"taskbridge/translate"
)

// Batcher is what a Hub implements that can say whether a caller's session
// takes arrays of messages: those of 2025-03-26 alone do (basic, Batching).
type Batcher interface {
	TakesBatch(c Caller) bool
}

var _ Batcher = (*Runner)(nil)

// TakesBatch is part of Batcher. Sessions that are unknown or another's are
// left to Client, which refuses them in their own words.
func (r *Runner) TakesBatch(c Caller) bool {
	sess := new(legacySession)
	if c.Session == "" || len(c.Session) > 128 || !r.load(sessionOp(c.Session), sess) || sess.Principal != c.Principal {
		return true
	}
	f, _ := translate.Lookup(sess.Version)
	return f.Batch
}

// Hub is what a downstream transport hands messages to; *Runner implements
// it. Safe for concurrent use.
type Hub interface {
	// NewStream registers a way back to a client. The caller must call Gone on
	// it when its client has left or has been answered.
	NewStream() *ClientStream
	// Client takes one message in. It returns once the message has been handed
	// to its operation; every answer, errors included, comes on s, which ends
	// with exactly one Final Out (202 for notifications and responses). ctx
	// bounds the handing over only, not the work. Raw bytes of in.Frame.Msg
	// belong to the hub from then on.
	Client(ctx context.Context, in Inbound, s *ClientStream)
}

var _ Hub = (*Runner)(nil)
