package session

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Target says whom to speak to upstream and as whom. Credential holds the
// headers that carry authority (Authorization and the route's own --header
// values); it lives in memory only and is never stored, logged or captured.
type Target struct {
	Upstream   string
	Principal  Principal
	Credential http.Header
}

// Outgoing is one message on its way to a server. Msg is nil for the verbs
// that carry none (GET opens a legacy session's own stream, DELETE ends it).
type Outgoing struct {
	Verb    string // POST, GET or DELETE; transports without verbs map them
	Msg     []byte
	Version string // MCP-Protocol-Version; empty before initialize is answered
	Session string // Mcp-Session-Id of a legacy session
	// Revision is what is spoken where that is agreed on, also where Version says
	// nothing, since the revision has no header; for observers.
	Revision string      `json:",omitempty"`
	Header   http.Header // further protocol headers: Mcp-Method, Mcp-Name, Mcp-Param-*, Last-Event-ID, trace context
}

// speaks notes the revision a legacy session has agreed on; newer ones say it in
// a header (2025-06-18 basic/transports, Protocol Version Header).
func (o *Outgoing) speaks(version string) {
	o.Revision = version
	if f, _ := translate.Lookup(version); f.VersionHeader {
		o.Version = version
	}
}

// revision is the one spoken; empty before it is agreed on.
func (o *Outgoing) revision() string { return cmp.Or(o.Version, o.Revision) }

// DialError says why an exchange with an upstream broke. Dialers, conns and
// streams return errors that wrap one; a runner turns it into EvServerEnd with
// errors.As. Its text is for logs and error data: free of credentials, bounded,
// and what comes from a peer is quoted.
type DialError struct {
	Fail     Fail
	Upstream string // the upstream's name
	// Status is the HTTP status that made it an error, 0 where none was seen.
	Status int
	// HTTP is what else was said with Status (WWW-Authenticate, Retry-After);
	// nil without Status.
	HTTP  *translate.Envelope
	Again Again
	Err   error
}

// Again says whether a message may be sent again whose exchange broke.
type Again uint8

const (
	// AgainNever: it may not, or nobody knows.
	AgainNever Again = iota
	// AgainSafe: the connection broke, and the server may have had the message:
	// only what translate.Repeatable allows.
	AgainSafe
	// AgainAny: not one byte of it was written, so the server cannot have had it.
	AgainAny
)

func (e *DialError) Error() string { return fmt.Sprintf("upstream %q: %v", e.Upstream, e.Err) }

func (e *DialError) Unwrap() error { return e.Err }

// Dialer gives connections toward servers. Safe for concurrent use.
type Dialer interface {
	// Dial returns a connection for target; errors wrap *DialError.
	Dial(ctx context.Context, target Target) (Conn, error)
}

// Conn is a connection toward one server. It owns the id space of what it
// sends where several callers share it; over HTTP each request stands alone
// and ids pass as they are. Do may run beside Do and Close; Close ends all
// open streams and may be called twice.
type Conn interface {
	// Do sends one message and returns the stream of what comes back once the
	// server's first sign (HTTP: response headers) is there. ctx bounds the
	// whole exchange; canceling it closes the stream.
	Do(ctx context.Context, out Outgoing) (Stream, error)
	Close() error
}

// Stream yields the frames that answer one Outgoing. One reader at a time;
// Close unblocks it and may be called twice.
type Stream interface {
	// Envelope is what the transport said before the first message: HTTP
	// status and the listed headers (Mcp-Session-Id, WWW-Authenticate,
	// Retry-After, Content-Type). Nil where the transport has none.
	Envelope() *translate.Envelope
	// Next returns the next message, io.EOF after the last one, or why the
	// stream broke. A body that is no JSON-RPC message ends the stream with
	// io.EOF and is described by Envelope alone.
	Next() (translate.Frame, error)
	// Close ends the exchange. Toward a modern HTTP server this is the cancel
	// (2026-07-28 basic/patterns/cancellation).
	Close() error
}

// Tap sees every frame on both legs. Implementations never block and never
// change a frame. They may keep it: nobody changes a message, or what HTTP said
// around it, after it was shown.
type Tap interface {
	Frame(f translate.Frame)
}

// RawTap is a Tap that takes the text of a message nobody has decoded.
type RawTap interface {
	Tap
	// RawFrame is Frame for a message whose text is raw; f.Msg is nil.
	RawFrame(f translate.Frame, raw []byte)
}

// Show shows tap a frame whose message nobody has decoded; raw is its text, nil
// if there is none.
func Show(tap Tap, f translate.Frame, raw []byte) {
	if raw != nil {
		if t, ok := tap.(RawTap); ok {
			t.RawFrame(f, raw)
			return
		}
		f.Msg, _ = jsonrpc.Decode(raw, jsonrpc.Limits{})
	}
	tap.Frame(f)
}
