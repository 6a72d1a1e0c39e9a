package upstream

import (
	"context"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// DefaultEraTTL is how long a found era is believed: servers are upgraded
// while we run.
const DefaultEraTTL = 5 * time.Minute

// EraOptions configures NewEras.
type EraOptions struct {
	Dialer session.Dialer           // required unless Ask is set
	TTL    time.Duration            // 0: 5 min
	Pins   map[string]translate.Era // by upstream; EraUnknown and absent mean auto
	Probe  ProbeOptions             // Upstream and Pin are filled in
	// Ask, if set, probes in place of Probe over a connection of Dialer: servers
	// behind stdio are asked in processes of their own.
	Ask func(ctx context.Context, target session.Target, o ProbeOptions) (Result, error)
	Now func() time.Time // nil: time.Now
}

// Eras remembers what each upstream speaks. Only a decided era is kept, and
// never for longer than its time; who is refused or unlucky asks again. It
// never moves what already runs: sessions and tasks keep the era they began
// in. Safe for concurrent use.
type Eras struct {
	o      EraOptions
	flight singleflight.Group

	mu    sync.Mutex // protects known
	known map[string]*knownEra
}

type knownEra struct {
	result    Result
	principal session.Principal // whom the server told
	public    bool              // its discover result is for everyone
	until     time.Time         // zero: nothing known
	forgets   int               // calls of Forget so far
}

var _ session.Faces = (*Eras)(nil)

// NewEras returns an empty cache over o.Dialer.
func NewEras(o EraOptions) *Eras {
	if o.TTL <= 0 {
		o.TTL = DefaultEraTTL
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Eras{o: o, known: make(map[string]*knownEra)}
}

// Era says what target's upstream speaks, probing if that is not known. One
// probe runs for all callers of the same principal at a time; it goes on when
// its first caller leaves. The era, versions and flags are the server's and
// are shared; the raw texts (Discover, Initialize, ServerInfo, Capabilities,
// Instructions) were told to one principal and are nil for others, unless the
// server declared its answer public (2026-07-28 server/utilities/caching).
func (e *Eras) Era(ctx context.Context, target session.Target) (Result, error) {
	if pin := e.o.Pins[target.Upstream]; pin != translate.EraUnknown {
		return pinned(pin), nil
	}
	if r, ok := e.lookup(target); ok {
		return r, nil
	}
	key := strconv.Quote(target.Upstream) + string(target.Principal)
	ch := e.flight.DoChan(key, func() (any, error) { return e.probe(context.WithoutCancel(ctx), target) })
	select {
	case res := <-ch:
		if res.Err != nil {
			return Result{}, res.Err
		}
		return res.Val.(Result), nil
	case <-ctx.Done():
		return Result{}, &session.DialError{Upstream: target.Upstream, Err: context.Cause(ctx)}
	}
}

// Face is Era as a session.Runner wants to know it.
func (e *Eras) Face(ctx context.Context, target session.Target) (session.Face, error) {
	r, err := e.Era(ctx, target)
	if err != nil {
		return session.Face{}, err
	}
	return r.Face(), nil
}

// Face is what a session.Runner wants to know of r. Nobody has asked a server
// whose era was given, so its list is empty.
func (r Result) Face() session.Face {
	f := session.Face{Era: r.Era, Version: r.Version, Dual: r.Dual, Tasks: r.Tasks}
	if !r.Pinned {
		f.Versions = r.Versions
	}
	return f
}

// Forget drops what is known about an upstream: it answered like a server of
// the other era. A probe under way is not kept either.
func (e *Eras) Forget(upstream string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.entry(upstream)
	*k = knownEra{forgets: k.forgets + 1}
}

// entry must be called with mu held.
func (e *Eras) entry(upstream string) *knownEra {
	k := e.known[upstream]
	if k == nil {
		k = &knownEra{}
		e.known[upstream] = k
	}
	return k
}

func (e *Eras) lookup(target session.Target) (Result, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.known[target.Upstream]
	if k == nil || !e.o.Now().Before(k.until) {
		return Result{}, false
	}
	r := k.result
	if k.principal != target.Principal && !k.public {
		r.Discover, r.ServerInfo, r.Capabilities, r.Instructions = nil, nil, nil, ""
	}
	if k.principal != target.Principal {
		r.Initialize = nil
	}
	return r, true
}

func public(discover []byte) bool {
	v, err := jsonrpc.ParseValue(discover)
	if err != nil {
		return false
	}
	scope, _ := v.Get("cacheScope").Str()
	return scope == "public"
}

func (e *Eras) probe(ctx context.Context, target session.Target) (Result, error) {
	e.mu.Lock()
	forgets := e.entry(target.Upstream).forgets
	e.mu.Unlock()
	o := e.o.Probe
	o.Upstream, o.Pin = target.Upstream, translate.EraUnknown
	r, err := e.ask(ctx, target, o)
	if err != nil {
		return Result{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if k := e.entry(target.Upstream); k.forgets == forgets {
		k.result, k.principal, k.public, k.until = r, target.Principal, public(r.Discover), e.o.Now().Add(e.o.TTL)
	}
	return r, nil
}

func (e *Eras) ask(ctx context.Context, target session.Target, o ProbeOptions) (Result, error) {
	if e.o.Ask != nil {
		return e.o.Ask(ctx, target, o)
	}
	conn, err := e.o.Dialer.Dial(ctx, target)
	if err != nil {
		return Result{}, err
	}
	defer conn.Close()
	return Probe(ctx, conn, o)
}

func pinned(era translate.Era) Result {
	r := Result{Era: era, Pinned: true, Version: translate.LatestModern}
	if era == translate.Legacy {
		r.Version, r.LegacyVersion = translate.LatestLegacy, translate.LatestLegacy
	}
	r.Versions = []string{r.Version}
	return r
}
