package config

import (
	"net/netip"
	"time"
)

// File is a configuration that has been checked, every default filled in. Files
// it names are absolute or relative to the working directory: names in it are
// relative to its own folder.
type File struct {
	// Name is where it was read from, as shown to people.
	Name string

	Listeners []Listener // at least one; names are unique
	Admin     Admin
	State     string     // as --state takes it
	StateKeys []StateKey // the first seals, all open

	// How callers are told apart, of all routes.
	Principal     string // as --principal takes it
	JWTAudience   []string
	JWTIssuer     string
	JWTAlgorithms []string // none: not said
	AllowOpen     bool

	Limits       Limits // of the process, over all routes
	Log          Log
	Record       Record
	Telemetry    Telemetry
	DrainTimeout time.Duration
	MaxMessage   int64 // bytes

	Routes []Route // at least one; names are unique

	// where each value stands, by its path.
	marks map[string]mark
	// written are the texts with variables in them, by path.
	written map[string]string
}

// Listener is where clients come in.
type Listener struct {
	Name    string // "default" unless given
	Address string // HOST:PORT
	// TLSCert and TLSKey are PEM files; both or none.
	TLSCert, TLSKey string
	AllowedHosts    []string
	AllowedOrigins  []string
	TrustedProxies  []netip.Prefix
	// PublicURL is what clients write before a route's path, without a slash at
	// its end; empty: not known.
	PublicURL string
}

// Admin is where operators come in.
type Admin struct {
	Address   string // HOST:PORT or unix:PATH; empty: nowhere
	TokenFile string // required where Address is reached from other machines
}

// StateKey names a key; one of the two is set.
type StateKey struct {
	File string
	Env  string // the environment variable that holds the key itself
}

// Log is what is logged.
type Log struct {
	Level, Format string
	File          string // empty: standard error
}

// Record says whether traffic is kept.
type Record struct {
	File        string // empty: nothing is
	RotateSize  int64  // bytes; 0: never
	RotateEvery time.Duration
	Redact      []string
}

// Telemetry is what is told about requests, OpenTelemetry aside, which is
// switched on by its own environment variables.
type Telemetry struct {
	// Audit says where audit lines go.
	Audit Audit
}

// Audit is off where both are zero.
type Audit struct {
	Log  bool // into the log
	File string
}

// Route is a path clients send to, and the servers behind it.
type Route struct {
	Name string

	// What a request must have to come here.
	Path      string
	Host      string // in lower case, without port; empty: any
	Headers   []HeaderMatch
	Listeners []string // names of File.Listeners, never none

	// PublicURL is the whole URL clients use, where it is not the listener's and
	// Path.
	PublicURL string
	SSEPath   string // empty: clients of HTTP+SSE are not served

	Policies
	Upstreams []Upstream // at least one; names are unique in the route, weights not all zero
}

// HeaderMatch is a request header that must have exactly one value, this one.
type HeaderMatch struct{ Name, Value string }

// Policies are what a route may say, and Defaults for those that do not.
type Policies struct {
	Era             string // auto, legacy, modern: of upstreams that do not say it themselves
	ToolErrors      string // failed, completed
	UndeclaredTasks string // drive, refuse
	Park            string // state, task
	TaskHandleAfter time.Duration
	InlineWait      time.Duration // 0: not at all
	Lifetimes       Lifetimes
	Limits          Limits // of this route
}

// Lifetimes are how long things are kept; the fields of session.Policy have the
// same names.
type Lifetimes struct {
	SessionIdle time.Duration
	TaskKeep    time.Duration
	TaskGrace   time.Duration
	MaxTTL      time.Duration
	ParkFor     time.Duration
	URLWait     time.Duration
	ResumeFor   time.Duration
}

// Limits bound what callers may do. Zero: the default for the process, no bound
// beside the process's for a route.
type Limits struct {
	PerPrincipal PrincipalLimits
	Total        TotalLimits
}

// PrincipalLimits bound one caller. Rates that are zero are no bound.
type PrincipalLimits struct {
	Tasks          int64 // alive at a time
	Sessions       int64 // legacy sessions toward clients
	ServerSessions int64 // sessions toward servers
	Streams        int64 // that wait: GET, listen, tasks/result
	// Requests a second, and how many may come at once beyond that; a burst of
	// zero is two seconds' worth, at least 10.
	Requests      float64
	RequestsBurst int
	Bytes         int64 // a second, of requests
	BytesInFlight int64
}

// TotalLimits bound all callers together.
type TotalLimits struct {
	Tasks, Sessions, ServerSessions, Streams int64
	Requests                                 float64 // a second; 0: no bound
}

// Upstream is one server of a route. It has a URL or a command.
type Upstream struct {
	Name   string // "default" for a route's only one
	Era    string // auto, legacy, modern
	Weight int    // of the route's sum; 0: pins and old work only

	URL            string
	Transport      string // auto, http, sse
	MessageURL     string
	Headers        []Header
	HeaderFiles    []string
	CA             string // PEM file
	ConnectTimeout time.Duration

	Command      []string
	Env          []string // KEY=VALUE
	Cwd          string
	StartTimeout time.Duration
	ShareChild   bool
	MaxChildren  int

	Pins   Pins
	Health Health
}

// Header is sent to the server with every request. Value may be a secret.
type Header struct{ Name, Value string }

// Pins bind callers to an upstream whatever the weights say.
type Pins struct {
	Clients    []ClientPin
	Principals []string // masked, as in logs and the report
}

// ClientPin is the clientInfo of a client; empty Version: any.
type ClientPin struct{ Name, Version string }

// Health says when a server gets no new work.
type Health struct {
	// FailAfter exchanges in a row that could not begin, or began with 502, 503 or 504,
	// eject it for EjectFor, and for longer each time it fails again at once.
	FailAfter int // 0: never
	EjectFor  time.Duration
	// Interval is between looks at the server; 0: it is not looked at. Timeout is
	// of one look. PassAfter good ones in a row end an ejection early.
	Interval  time.Duration
	Timeout   time.Duration
	PassAfter int
}
