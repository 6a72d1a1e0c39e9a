package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

const (
	// DefaultProbeTimeout bounds each exchange of a probe.
	DefaultProbeTimeout = 15 * time.Second
	// maxProbeAnswer bounds what a server may say about itself: it is kept.
	maxProbeAnswer = 1 << 20
	maxProbeFrames = 256
	goodbyeTimeout = 5 * time.Second
)

// Transports a server may answer over, as Result.Transport names them.
const (
	SpokeHTTP      = "streamable-http"
	SpokeSSE       = "http+sse" // of 2024-11-05
	SpokeWebSocket = "websocket"
	SpokeStdio     = "stdio"
)

// ErrUndecided is what a probe's error wraps when the server's era stays open
// and asking again may help; a time-out wraps context.DeadlineExceeded too.
var ErrUndecided = errors.New("the server's era could not be found out")

// ProbeOptions configures Probe. The zero value works.
type ProbeOptions struct {
	Upstream      string        // its name, for errors
	ClientName    string        // clientInfo ("taskbridge")
	ClientVersion string        // ("0")
	Timeout       time.Duration // of each exchange (15 s)
	// Pin asks for one era only and takes the other for an error.
	Pin translate.Era
	// LegacyFace makes a dual-era server answer initialize too, which tells
	// what its legacy face offers.
	LegacyFace bool
}

// Result says what a server speaks. All of it is the server's own word; raw
// members are JSON, checked, at most 1 MiB, and must be escaped when shown.
type Result struct {
	Era translate.Era
	// Version is the revision to speak with it, in Era.
	Version string
	// Versions as the server listed them, unknown ones too; a legacy server's
	// list is the one it negotiated.
	Versions []string
	// Dual: a modern server that lists legacy revisions we speak as well;
	// LegacyVersion is the newest of them, or a legacy server's own.
	Dual          bool
	LegacyVersion string
	// Tasks: tools/call can become a task in Era (the extension; legacy:
	// tasks.requests.tools.call). LegacyTasks and Session are known once
	// initialize was answered: Session means it gave out an Mcp-Session-Id.
	Tasks, LegacyTasks, Session bool
	// Pinned: nothing was asked, the era was given.
	Pinned bool
	// Transport is which one the answers came over, a Spoke constant; empty where
	// nothing was asked.
	Transport string

	// Discover and Initialize are the result objects, nil if not asked or not
	// answered by one (a server may say -32022 to discover and yet be modern).
	// The three below are parts of Era's one.
	Discover, Initialize     []byte
	ServerInfo, Capabilities []byte
	Instructions             string
}

// Probe finds out which era the server behind conn belongs to: server/discover
// first, initialize only after an answer no modern server gives (2026-07-28
// streamable-http, Backward Compatibility). Errors wrap *session.DialError,
// with Status and headers where the server refused (401, 403), and ErrUndecided
// where nothing was learned; silence has Status 504. A session opened by the probe is ended again.
func Probe(ctx context.Context, conn session.Conn, o ProbeOptions) (Result, error) {
	if o.ClientName == "" {
		o.ClientName = "taskbridge"
	}
	if o.ClientVersion == "" {
		o.ClientVersion = "0"
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultProbeTimeout
	}
	p := &prober{conn: conn, o: o}
	if o.Pin == translate.Legacy {
		return p.legacyOnly(ctx, translate.LatestLegacy, "")
	}
	f, env, m, err := p.discover(ctx, translate.LatestModern)
	if err != nil {
		return Result{}, p.broken("server/discover", err)
	}
	switch f.verdict {
	case refused, undecided:
		return Result{}, p.status("server/discover", f.why, env)
	case foreign:
		return Result{}, p.fail(fmt.Errorf("it speaks only %s; this proxy speaks %s and %s; a newer proxy may help", quoteList(f.versions),
			strings.Join(translate.Versions(translate.Modern), ", "), strings.Join(translate.Versions(translate.Legacy), ", ")))
	case legacy:
		if o.Pin == translate.Modern {
			return Result{}, p.fail(fmt.Errorf("it is pinned to the modern era but answered server/discover with %s; use --upstream-era auto or legacy", f.why))
		}
		version := newestLegacy(f.versions)
		if version == "" {
			version = translate.LatestLegacy
		}
		return p.legacyOnly(ctx, version, f.why)
	}
	return p.modern(ctx, f, m)
}

// prober runs one probe.
type prober struct {
	conn session.Conn
	o    ProbeOptions
	ids  int64
}

// modern completes the result of a server known to be modern.
func (p *prober) modern(ctx context.Context, f finding, m *jsonrpc.Message) (Result, error) {
	r := Result{Era: translate.Modern, Version: translate.LatestModern, Versions: f.versions, Transport: SpokeHTTP}
	if v := translate.ChooseModern(f.versions); v != "" {
		r.Version = v
	}
	if m.Kind == jsonrpc.ErrorResponse && r.Version != translate.LatestModern {
		// basic/versioning: select from the supported list and retry, once. If
		// it refuses that too it is modern all the same.
		again, _, answer, err := p.discover(ctx, r.Version)
		if err != nil {
			return Result{}, p.broken("server/discover", err)
		}
		if answer != nil && again.verdict == modern {
			m = answer
		}
	}
	r.LegacyVersion = newestLegacy(r.Versions)
	r.Dual = r.LegacyVersion != ""
	if m.Kind == jsonrpc.Response {
		r.Discover = m.Result().Raw()
		r.describe(m, m.At("result", "_meta", translate.MetaServerInfo))
		r.Tasks = translate.ModernTakesTasks(m.At("result", "capabilities"))
	}
	if !r.Dual || !p.o.LegacyFace {
		return r, nil
	}
	face, err := p.initialize(ctx, r.LegacyVersion)
	if err != nil {
		// It said so itself, but does not: then it has no legacy face.
		r.Dual, r.LegacyVersion = false, ""
		return r, nil
	}
	r.Initialize, r.LegacyTasks, r.Session, r.LegacyVersion = face.Initialize, face.Tasks, face.Session, face.Version
	return r, nil
}

// describe takes what Era's result says about the server.
func (r *Result) describe(m *jsonrpc.Message, info jsonrpc.Value) {
	if info.Type() == jsonrpc.Object {
		r.ServerInfo = info.Raw()
	} else if info = m.At("result", "serverInfo"); info.Type() == jsonrpc.Object {
		r.ServerInfo = info.Raw()
	}
	if caps := m.At("result", "capabilities"); caps.Type() == jsonrpc.Object {
		r.Capabilities = caps.Raw()
	}
	r.Instructions, _ = m.At("result", "instructions").Str()
}

// legacyOnly tries initialize with a server that is not modern; why says how
// we know.
func (p *prober) legacyOnly(ctx context.Context, version, why string) (Result, error) {
	r, err := p.initialize(ctx, version)
	if err == nil {
		return r, nil
	}
	if why != "" {
		if de, ok := errors.AsType[*session.DialError](err); ok {
			de.Err = fmt.Errorf("server/discover got %s, so it is not modern; then %w", why, de.Err)
		}
	}
	return Result{}, err
}

// initialize opens a legacy session and ends it again.
func (p *prober) initialize(ctx context.Context, version string) (Result, error) {
	params := jsonrpc.NewObject().Str("protocolVersion", version).Raw("capabilities", []byte("{}")).Raw("clientInfo", p.clientInfo()).Bytes()
	env, m, err := p.exchange(ctx, session.Outgoing{Verb: http.MethodPost}, "initialize", params)
	if err != nil {
		return Result{}, p.broken("initialize", err)
	}
	if m == nil || m.Kind != jsonrpc.Response {
		return Result{}, p.status("initialize", describe(env, m), env)
	}
	chosen, _ := m.At("result", "protocolVersion").Str()
	id := ""
	if env != nil {
		id = env.Header.Get("Mcp-Session-Id")
	}
	f, known := translate.Lookup(chosen)
	if known && f.Era == translate.Legacy {
		p.quietly(ctx, session.Outgoing{Verb: http.MethodPost, Msg: jsonrpc.NewNotification("notifications/initialized", nil), Version: chosen, Session: id})
	}
	if id != "" {
		p.quietly(ctx, session.Outgoing{Verb: http.MethodDelete, Version: chosen, Session: id})
	}
	if !known || f.Era != translate.Legacy {
		return Result{}, p.fail(fmt.Errorf("initialize chose version %s, which this proxy does not speak (%s)", quote(chosen, maxVersionText),
			strings.Join(translate.Versions(translate.Legacy), ", ")))
	}
	r := Result{
		Era: translate.Legacy, Version: chosen, Versions: []string{chosen}, LegacyVersion: chosen,
		Initialize: m.Result().Raw(), Session: id != "", Transport: SpokeHTTP,
	}
	if madeHere(id) {
		r.Transport = SpokeSSE
	}
	r.describe(m, m.At("result", "serverInfo"))
	r.Tasks = f.Tasks && translate.LegacyTakesTasks(m.At("result", "capabilities"))
	r.LegacyTasks = r.Tasks
	return r, nil
}

func (p *prober) clientInfo() []byte {
	return jsonrpc.NewObject().Str("name", p.o.ClientName).Str("version", p.o.ClientVersion).Bytes()
}

// discover asks server/discover at one revision.
func (p *prober) discover(ctx context.Context, version string) (finding, *translate.Envelope, *jsonrpc.Message, error) {
	meta := jsonrpc.NewObject().
		Str(translate.MetaVersion, version).
		Raw(translate.MetaClientInfo, p.clientInfo()).
		Raw(translate.MetaClientCaps, []byte("{}")).Bytes()
	out := session.Outgoing{
		Verb:    http.MethodPost,
		Version: version,
		Header:  http.Header{"Mcp-Method": {"server/discover"}},
	}
	env, m, err := p.exchange(ctx, out, "server/discover", jsonrpc.NewObject().Raw("_meta", meta).Bytes())
	if err != nil {
		return finding{}, nil, nil, err
	}
	return classify(env, m), env, m, nil
}

// exchange sends a request and waits for its response; m is nil if the server
// answered without one.
func (p *prober) exchange(ctx context.Context, out session.Outgoing, method string, params []byte) (*translate.Envelope, *jsonrpc.Message, error) {
	p.ids++
	id := jsonrpc.IntID(p.ids)
	out.Msg = jsonrpc.NewRequest(id, method, params)
	silence := &textError{fmt.Sprintf("no answer within %v", p.o.Timeout), context.DeadlineExceeded}
	ctx, cancel := context.WithTimeoutCause(ctx, p.o.Timeout, silence)
	defer cancel()
	st, err := p.conn.Do(ctx, out)
	if err != nil {
		return nil, nil, err
	}
	defer st.Close()
	env := st.Envelope()
	for range maxProbeFrames {
		f, err := st.Next()
		if err == io.EOF {
			return env, nil, nil
		}
		if _, ok := errors.AsType[*jsonrpc.DecodeError](err); ok {
			return env, nil, nil // an unrecognised body
		}
		if err != nil {
			return nil, nil, err
		}
		if len(f.Msg.Raw) > maxProbeAnswer {
			return nil, nil, fmt.Errorf("its answer is over %d bytes", maxProbeAnswer)
		}
		if answers(f.Msg, id) {
			return env, f.Msg, nil
		}
	}
	return nil, nil, fmt.Errorf("no answer in %d messages", maxProbeFrames)
}

// answers: an error without an id, or with null, is about the request its HTTP
// response belongs to.
func answers(m *jsonrpc.Message, id jsonrpc.ID) bool {
	switch m.Kind {
	case jsonrpc.Response:
		return m.ID.Key() == id.Key()
	case jsonrpc.ErrorResponse:
		return m.ID.IsZero() || m.ID.Key() == id.Key()
	}
	return false
}

// quietly sends what needs no answer; the probe knows enough already.
func (p *prober) quietly(ctx context.Context, out session.Outgoing) {
	ctx, cancel := context.WithTimeout(ctx, goodbyeTimeout)
	defer cancel()
	if st, err := p.conn.Do(ctx, out); err == nil {
		st.Close()
	}
}

func (p *prober) fail(err error) error {
	return &session.DialError{Upstream: p.o.Upstream, Err: err}
}

// broken is the error of an exchange without an answer: nothing was decided.
func (p *prober) broken(method string, err error) error {
	de, ok := errors.AsType[*session.DialError](err)
	if !ok {
		return &session.DialError{Fail: session.FailBroken, Upstream: p.o.Upstream, Err: fmt.Errorf("%w: %s: %w", ErrUndecided, method, err)}
	}
	out := *de
	out.Err = fmt.Errorf("%w: %s: %w", ErrUndecided, method, de.Err)
	if out.Status == 0 && errors.Is(de.Err, context.DeadlineExceeded) {
		out.Status = http.StatusGatewayTimeout
	}
	return &out
}

// status is the error of an answer that decides nothing, or ends the matter.
func (p *prober) status(method, why string, env *translate.Envelope) error {
	de := &session.DialError{Upstream: p.o.Upstream, HTTP: env}
	if env != nil {
		de.Status = env.Status
	}
	switch {
	case de.Status == http.StatusUnauthorized || de.Status == http.StatusForbidden:
		de.Err = fmt.Errorf("%s was refused with %s; check the credential (--header 'Authorization: …')", method, why)
	case transient(de.Status):
		de.Err = fmt.Errorf("%w: %s got %s; try again, or pin the era with --upstream-era", ErrUndecided, method, why)
	case de.Status == http.StatusNotFound || de.Status == http.StatusMethodNotAllowed:
		de.Err = fmt.Errorf("%s got %s; check the path in the URL (that of an HTTP+SSE server is its event stream's, such as /sse)", method, why)
	default:
		de.Err = fmt.Errorf("%s got %s; is this an MCP endpoint?", method, why)
	}
	return de
}
