package downstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"taskbridge/session"
	"taskbridge/session/throttle"
	"taskbridge/translate"
)

// Limits bound what one client can take. Zero fields mean the default.
type Limits struct {
	Body   int64 // bytes of one message; 64 MiB
	Header int   // bytes of a header block; 128 KiB

	HeaderTimeout time.Duration // until the header block is read; 10 s
	// BodyTimeout is how long a body may take beside the time it would take at
	// 16 KiB/s; 15 s.
	BodyTimeout time.Duration
	IdleTimeout time.Duration // between requests on a connection; 2 min

	// Silence is how long a request waits for its plain reply before it is
	// answered with an event stream; 2 s.
	Silence time.Duration
	// KeepAlive is the longest silence on an event stream; 15 s.
	KeepAlive time.Duration
	// WriteTimeout bounds one write of at most 64 KiB; 30 s.
	WriteTimeout time.Duration
	// Streams bounds the requests in flight on one HTTP/2 connection; 256.
	Streams int
	// WebSockets bounds the WebSocket connections at a time; 1024.
	WebSockets int
	// Links bounds the clients of HTTP+SSE, CallerLinks those of one caller (of
	// one address where callers cannot be told apart); 10,000 and 1,000.
	Links, CallerLinks int
}

func (l Limits) withDefaults() Limits {
	l.Body = cmp.Or(l.Body, 64<<20)
	l.Header = cmp.Or(l.Header, 128<<10)
	l.HeaderTimeout = cmp.Or(l.HeaderTimeout, 10*time.Second)
	l.BodyTimeout = cmp.Or(l.BodyTimeout, 15*time.Second)
	l.IdleTimeout = cmp.Or(l.IdleTimeout, 2*time.Minute)
	l.Silence = cmp.Or(l.Silence, 2*time.Second)
	l.KeepAlive = cmp.Or(l.KeepAlive, 15*time.Second)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, 30*time.Second)
	l.Streams = cmp.Or(l.Streams, 256)
	l.WebSockets = cmp.Or(l.WebSockets, 1024)
	l.Links = cmp.Or(l.Links, 10_000)
	l.CallerLinks = cmp.Or(l.CallerLinks, 1000)
	return l
}

// Metrics is told what happens. Implementations are safe for concurrent use
// and do not block.
type Metrics interface {
	// Request: a request was answered, after d.
	Request(era translate.Era, verb string, status int, d time.Duration)
	// Refused: this transport itself refused a request.
	Refused(cond translate.Cond)
	// Limited: a message was refused for a limit of its caller, by name
	// (session/throttle).
	Limited(limit string)
	// Streams: event streams opened (1) or ended (-1).
	Streams(delta int)
}

type noMetrics struct{}

func (noMetrics) Request(translate.Era, string, int, time.Duration) {}
func (noMetrics) Refused(translate.Cond)                            {}
func (noMetrics) Limited(string)                                    {}
func (noMetrics) Streams(int)                                       {}

// TokenVerifier says whom a bearer token stands for, and until when it does. It
// is safe for concurrent use. Errors wrap session.ErrTokenRefused or
// session.ErrTokenUndecided, and their texts hold nothing of the token.
type TokenVerifier interface {
	Verify(ctx context.Context, token string) (session.Principal, time.Time, error)
}

// Options configure a Server.
type Options struct {
	Hub  session.Hub // required
	Path string      // of the MCP endpoint; "/mcp"
	// SSEPath is where clients of HTTP+SSE (2024-11-05) open their stream; they
	// post to "message" beside it. Empty: they are not served.
	SSEPath string

	Limits Limits
	Budget *session.Budget // of bodies being read or worked on; nil: one of its own
	// Shared is what all servers of a process draw on; nil: the server has its
	// own. Budget is that of Shared where both are given.
	Shared *Shared

	// Follows is the server this one takes the place of, with other settings: it
	// goes on with its clients of HTTP+SSE.
	Follows *Server
	// Limiter says what each caller may send; nil: whatever they like.
	Limiter *throttle.Limiter

	// AllowedHosts are the Host names taken beside the loopback names of a
	// loopback listener, with or without port. Other listeners take any Host
	// while the list is empty.
	AllowedHosts []string
	// AllowedOrigins are the browser origins taken, as "scheme://host[:port]",
	// beside the listener's own on loopback.
	AllowedOrigins []string
	PublicURL      string // its host is an allowed Host
	// ChallengeURL is said in WWW-Authenticate instead of the server's own
	// resource_metadata (RFC 9728 section 5.1); empty: the header passes whole.
	ChallengeURL string
	Loopback     bool // the listener takes connections of this machine only

	Principal session.PrincipalPolicy
	// Tokens verifies callers where Principal is jwt:JWKS, and only there.
	Tokens         TokenVerifier
	TrustedProxies []netip.Prefix

	// Supported lists the revisions a caller can ask for, for the refusal of
	// one that is not among them; nil, or an empty answer: all we know.
	Supported func(context.Context, session.Caller) []string

	// Other takes requests to other paths once Host and Origin are checked;
	// nil: 404.
	Other http.Handler

	Logger  *slog.Logger // nil: discarded
	Tap     session.Tap  // nil: nobody looks
	Metrics Metrics      // nil: nobody counts
}

// New returns a server that does not listen yet.
func New(o Options) (*Server, error) {
	if o.Hub == nil {
		return nil, errors.New("downstream: Options.Hub is required")
	}
	return prepare(o)
}

// NewNowhere returns a server without an endpoint: who may speak to it is told
// 404, everybody else what they are told elsewhere. Options that belong to an
// endpoint are not looked at.
func NewNowhere(o Options) (*Server, error) {
	o.Path, o.SSEPath, o.Other, o.Follows = "/", "", nil, nil
	o.Principal, o.Tokens = session.PrincipalPolicy{}, nil
	s, err := prepare(o)
	if err == nil {
		s.nowhere = true
	}
	return s, err
}

func prepare(o Options) (*Server, error) {
	o.Path = cmp.Or(o.Path, "/mcp")
	if !strings.HasPrefix(o.Path, "/") || strings.ContainsAny(o.Path, "?#") {
		return nil, fmt.Errorf("path %q: must begin with / and have no query", o.Path)
	}
	if (o.Principal.JWKS() != "") != (o.Tokens != nil) {
		return nil, errors.New("downstream: Options.Tokens goes with jwt:JWKS")
	}
	if err := CheckSSEPath(o.SSEPath, o.Path); err != nil {
		return nil, err
	}
	guard, err := NewGuard(GuardOptions{
		AllowedHosts:   o.AllowedHosts,
		AllowedOrigins: o.AllowedOrigins,
		PublicURL:      o.PublicURL,
		Loopback:       o.Loopback,
	})
	if err != nil {
		return nil, err
	}
	o.Limits = o.Limits.withDefaults()
	if o.Shared == nil {
		o.Shared = NewShared(o.Budget, o.Limits.Body)
	}
	o.Budget = o.Shared.budget
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	return newServer(o, guard), nil
}
