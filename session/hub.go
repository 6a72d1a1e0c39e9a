package session

import "context"

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
