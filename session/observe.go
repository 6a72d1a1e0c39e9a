package session

import (
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	lru "github.com/hashicorp/golang-lru/v2"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Observer hears what clients ask and how it ends. Its methods are called from
// many goroutines, must not block, and must keep nothing of a *Request after
// End. What peers chose in it (Method, Name, Client, ClientVersion, Resource) is
// cut at MaxShown bytes but otherwise as they sent it: no label without a bound
// of its own may be made of it.
type Observer interface {
	// Begin hears of a request, a notification or a stream (GET) once it is known
	// whose it is and what it is for; q.At is when it came in. An observer may set
	// q.Trace, and q.Note to find something again at End.
	Begin(q *Request)
	// End hears once for each Begin how it ended.
	End(q *Request, e Ended)
	// Loss hears what one dialect said and the other cannot.
	Loss(l Lost)
}

// maxObservers is how many a runner has room for.
const maxObservers = 4

// PollObserver is an Observer that hears, too, how long looks of our own at a
// route's servers waited for their turn (Policy.PollRate).
type PollObserver interface {
	PollLag(route string, d time.Duration)
}

// pollLag tells observers.
func (r *Runner) pollLag(d time.Duration) {
	for _, o := range r.observers {
		if o, ok := o.(PollObserver); ok {
			o.PollLag(r.route, d)
		}
	}
}

// maxTaskID bounds ids that observers are told.
const maxTaskID = 4096

// MaxShown bounds names that peers chose where they are shown or counted.
const MaxShown = 128

// Who is a client as it names itself, and whom it acts for.
type Who struct {
	Principal Principal
	// Open: nobody vouches for the caller (Caller.Open).
	Open bool
	// Client and ClientVersion are clientInfo's; empty: not said.
	Client, ClientVersion string
}

// Request is one message of a client, or a stream it opens with GET, or the
// DELETE of its session.
type Request struct {
	Who
	At              time.Time
	Route, Upstream string
	// Down is the era the client speaks, Up the one the server is spoken to in;
	// EraUnknown where the request was refused before that was known.
	Down, Up translate.Era
	// Version is the client's revision: of a legacy session the negotiated one.
	Version string
	// Transport is one of translate.Transport…, of the client's leg; Proto the
	// version of HTTP there, Peer who calls (translate.Envelope), zero: not known.
	Transport, Proto string
	Peer             netip.AddrPort
	// Kind is 0 for a stream or DELETE, whose Verb says which.
	Kind jsonrpc.Kind
	Verb string
	// Method as sent; MethodLabel gives one that may be a label.
	Method string
	// Name is the tool's or prompt's, Resource the URI of a resource without its
	// query.
	Name, Resource string
	// ID is the request's, as JSON text; empty for notifications and where it is
	// longer than MaxShown.
	ID string
	// Task is the id in a tasks/* request, as JSON text: whoever has it may have a
	// right to the task, so it may be shown as a keyed hash only.
	Task string
	// Session is the legacy session's id as the client knows it: whoever has it
	// is the client, so it may be shown as a keyed hash only.
	Session string
	// Uses are the legacy-only features seen so far.
	Uses translate.LegacyOnly
	// Parent is the trace context of params._meta, Link that of HTTP headers,
	// both as sent.
	Parent, Link TraceContext
	// Trace is what exchanges with the server on behalf of the request continue.
	Trace TraceContext
	// Note is the observers' own, by their place in Options.Observers.
	Note [maxObservers]any
}

// TraceContext is a W3C trace context, as in params._meta.
type TraceContext struct{ Parent, State string }

// Ended says how a request ended.
type Ended struct {
	translate.Answer
	At time.Time
	// Status is the HTTP status of the reply, 0 for 200 or where there is none.
	Status int
	// Fail says in a word how an exchange with a server broke; of a client's
	// request it is empty.
	Fail string
	// Proto is the version of HTTP an exchange with a server was answered over.
	Proto string
	// Uses are all legacy-only features the request made use of.
	Uses translate.LegacyOnly
}

// Lost is a loss of translation (translate/losses.go).
type Lost struct {
	Who
	Route, Upstream string
	What            string
}

// MethodLabel is method if a revision we know has it, else "_OTHER"; of a
// stream or DELETE its verb.
func (q *Request) MethodLabel() string {
	if q.Kind == 0 {
		return q.Verb
	}
	return methodLabel(q.Method)
}

func methodLabel(method string) string {
	if method == "" || translate.Defined(method) {
		return method
	}
	return "_OTHER"
}

// Shown cuts text of a peer at MaxShown bytes, never inside a character.
func Shown(s string) string {
	if len(s) <= MaxShown {
		return s
	}
	n := MaxShown
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n])
}

// seen is a request being observed: it goes with its client stream.
type seen struct {
	r     *Runner
	q     Request
	begun bool
	ended atomic.Bool
	uses  atomic.Uint32 // found out later
}

// observe prepares s for a message; nil where nobody observes.
func (r *Runner) observe(in Inbound, s *ClientStream) *seen {
	if len(r.observers) == 0 {
		return nil
	}
	w := &seen{r: r}
	q, c, f := &w.q, in.Caller, in.Frame
	q.At, q.Route, q.Upstream = r.clock.Now(), r.route, r.upstream
	q.Principal, q.Open, q.Down, q.Version, q.Session = c.Principal, c.Open, c.Era, Shown(c.Version), c.Session
	q.Transport = f.Transport
	if c.Era == translate.Modern {
		q.Session = ""
	} else {
		q.Uses = translate.LegacyOnlyOf(&f)
		if in.Batch {
			q.Uses |= translate.OnlyBatch
		}
	}
	if f.HTTP != nil {
		q.Verb, q.Proto, q.Peer = f.HTTP.Verb, f.HTTP.Proto, f.HTTP.Peer
		q.Link = TraceContext{f.HTTP.Header.Get("Traceparent"), f.HTTP.Header.Get("Tracestate")}
	}
	if f.Msg != nil {
		q.read(f.Msg)
	}
	s.seen = w
	return w
}

// read takes from a message what observers want to know.
func (q *Request) read(m *jsonrpc.Message) {
	q.Kind, q.Method = m.Kind, Shown(m.Method)
	if m.Kind == jsonrpc.Response || m.Kind == jsonrpc.ErrorResponse {
		q.Uses |= translate.OnlyServerRequest
		return
	}
	if raw := m.ID.Raw(); m.Kind == jsonrpc.Request && len(raw) <= MaxShown {
		q.ID = string(raw)
	}
	p := m.Params()
	switch m.Method {
	case "tools/call", "prompts/get":
		name, _ := p.Get("name").Str()
		q.Name = Shown(name)
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		uri, _ := p.Get("uri").Str()
		q.Resource = Shown(plainURI(uri))
	}
	if strings.HasPrefix(m.Method, "tasks/") {
		if raw := p.Get("taskId").Raw(); len(raw) <= maxTaskID {
			q.Task = string(raw)
		}
	}
	meta := p.Get("_meta")
	q.Parent.Parent, _ = meta.Get("traceparent").Str()
	q.Parent.State, _ = meta.Get("tracestate").Str()
	info := meta.Get(translate.MetaClientInfo)
	if m.Method == "initialize" {
		info = p.Get("clientInfo")
		v, _ := p.Get("protocolVersion").Str()
		q.Version = Shown(v)
	}
	q.client(info)
}

func (w *Who) client(info jsonrpc.Value) {
	name, _ := info.Get("name").Str()
	version, _ := info.Get("version").Str()
	w.Client, w.ClientVersion = Shown(name), Shown(version)
}

// plainURI is a URI without what may hold secrets: user, query and fragment.
func plainURI(uri string) string {
	if i := strings.IndexAny(uri, "?#"); i >= 0 {
		uri = uri[:i]
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return uri
	}
	host, path, slash := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	if slash {
		path = "/" + path
	}
	return scheme + "://" + host + path
}

// of says which legacy session a request belongs to.
func (w *seen) of(sess *legacySession) {
	if w == nil {
		return
	}
	w.q.Version, w.q.Up = sess.Version, sess.Era
	who, ok := w.r.clients.Get(sess.ID)
	if !ok {
		if info, err := jsonrpc.ParseValue(sess.ClientInfo); err == nil {
			who.client(info)
		}
		w.r.clients.Add(sess.ID, who)
	}
	w.q.Client, w.q.ClientVersion = who.Client, who.ClientVersion
}

// up says which face of the server a request goes to, as far as it is known
// before the session is: legacy clients get the legacy one of two.
func (w *seen) up(f Face) {
	if w == nil {
		return
	}
	w.q.Up = f.Era
	if f.Dual && w.q.Down == translate.Legacy {
		w.q.Up = translate.Legacy
	}
}

// begin tells observers; all that is known before the end is known now.
func (w *seen) begin() {
	if w == nil || w.begun {
		return
	}
	w.begun = true
	for _, o := range w.r.observers {
		o.Begin(&w.q)
	}
}

// asks: a question of the server goes to a legacy client as a request.
func (w *seen) asks() {
	if w != nil {
		w.uses.Or(uint32(translate.OnlyServerRequest))
	}
}

// end tells observers the end, once. A final Out without message or status
// ends a stream, or a call its client cancelled.
func (w *seen) end(o Out) {
	if w == nil || w.ended.Swap(true) {
		return
	}
	w.begin()
	a := translate.AnswerOf(o.Raw, o.Status)
	switch {
	case a.Outcome != "":
	case w.q.Kind == jsonrpc.Request:
		a.Outcome = translate.OutcomeCancelled
	case w.q.Kind == 0:
		a.Outcome = translate.OutcomeClosed
	default:
		a.Outcome = translate.OutcomeAccepted
	}
	w.tell(a, o.Status)
}

// left: the reader is gone and nothing is kept for it.
func (w *seen) left() {
	if w == nil || w.ended.Swap(true) {
		return
	}
	w.begin()
	a := translate.Answer{Outcome: translate.OutcomeGone}
	switch w.q.Kind {
	case 0:
		a.Outcome = translate.OutcomeClosed
	case jsonrpc.Request:
	default:
		a.Outcome = translate.OutcomeAccepted
	}
	w.tell(a, 0)
}

func (w *seen) tell(a translate.Answer, status int) {
	if a.Message != "" {
		a.Message = shownError(a.Message, append(w.q.taskIDs(w.r.handles), w.q.Session)...)
	}
	e := Ended{Answer: a, At: w.r.clock.Now(), Status: status, Uses: w.q.Uses | translate.LegacyOnly(w.uses.Load())}
	for _, o := range w.r.observers {
		o.End(&w.q, e)
	}
}

// away keeps a request whose client has left and may come back for the answer,
// by its stream; one that is kept no longer has lost its client.
func newAways() *lru.Cache[string, *seen] {
	aways, _ := lru.NewWithEvict(warmMax, func(_ string, w *seen) { w.left() })
	return aways
}

// keepSeen is called when the reader of s has left.
func (r *Runner) keepSeen(s *ClientStream) {
	switch _, kept := r.clientLog(s.ID); {
	case s.seen == nil:
	case s.finished(): // whoever sent the answer says so
	case kept && s.away():
		r.aways.Add(s.ID, s.seen)
	default:
		s.seen.left()
	}
}

// endAway ends a request whose client is away; answered: with o.
func (r *Runner) endAway(stream string, o Out, answered bool) {
	if w, ok := r.aways.Get(stream); ok {
		if answered {
			w.end(o)
		}
		r.aways.Remove(stream)
	}
}

// origin says on whose behalf an operation works, in few bytes: observers alone
// want to know, so it is empty where there are none.
type origin struct {
	// Who is a key of Runner.whos. One that has left it is nobody.
	Who string `json:"q,omitempty"`
	// Trace is the context exchanges continue.
	Trace TraceContext `json:"t,omitzero"`
}

// origin of what a request begins.
func (w *seen) origin() origin {
	if w == nil {
		return origin{}
	}
	who := w.q.Who
	sum := sha256.Sum256([]byte(strings.Join([]string{string(who.Principal), who.Client, who.ClientVersion}, "\x00")))
	key := base64.RawURLEncoding.EncodeToString(sum[:8])
	w.r.whos.Add(key, who)
	return origin{Who: key, Trace: w.q.Trace}
}

// lost counts a loss.
func (r *Runner) lost(from origin, what string) {
	r.metrics.Loss(what)
	if len(r.observers) == 0 {
		return
	}
	who, _ := r.whos.Get(from.Who)
	for _, o := range r.observers {
		o.Loss(Lost{Who: who, Route: r.route, Upstream: r.upstream, What: what})
	}
}

// shared are the kinds of operation that work for many clients at once: none
// of these is the one a loss is for.
var shared = map[string]bool{"pool": true, "lwatch": true, "marks": true}

// adopt notes whom an operation works for.
func (b *base) adopt(id OpID, ev Event) {
	if ev.from.Who == "" || shared[id.Kind()] {
		return
	}
	if b.From.Who == "" || ev.Kind == EvClient {
		b.From = ev.from
	}
}

// whose is on whose behalf a step is taken: its event's sender's, else that of
// the client the operation works for.
func (b *base) whose(ev Event) origin {
	if ev.from.Who != "" {
		return ev.from
	}
	return b.From
}
