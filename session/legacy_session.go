package session

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Phases of a legacy session.
const (
	sessionReady  = "ready"
	headerSession = "Mcp-Session-Id"
)

// legacySession is a legacy client's session with us (2025-11-25
// basic/transports, Session Management). Its id is ours, bound to the
// principal, whatever stands behind.
type legacySession struct {
	base
	ID        string
	Phase     string    `json:",omitempty"`
	Principal Principal `json:",omitempty"`
	Open      bool      `json:",omitempty"`
	Limit     string    `json:",omitempty"` // counted under
	Sealed    bool      `json:",omitempty"` // begun while its route had several upstreams
	// Guest: the session is one of another upstream's, and this the part of it
	// that its client has here; the text marks what is asked in it.
	Guest string `json:",omitempty"`
	// Era is the face of the server this session speaks to; ServerVersion the
	// revision toward it.
	Era           translate.Era
	ServerVersion string `json:",omitempty"`
	Version       string `json:",omitempty"`
	ClientInfo    []byte `json:",omitempty"`
	ClientCaps    []byte `json:",omitempty"`
	PlainCaps     []byte `json:",omitempty"` // ClientCaps as modern requests carry them
	TaskCaps      []byte `json:",omitempty"` // with the tasks extension
	// UpSession is the server's own session id where it is legacy.
	UpSession string   `json:",omitempty"`
	LogLevel  string   `json:",omitempty"`
	Tasks     bool     `json:",omitempty"`
	Gets      []string `json:",omitempty"` // open GET streams, oldest first
	Held      []string `json:",omitempty"` // passed-through GET streams, oldest first
	Used      time.Time
	// Began is when initialize came, Transport how; for observers.
	Began     time.Time `json:",omitzero"`
	Transport string    `json:",omitempty"`
	// Lists are the list changes the modern server reports, Subs the resources
	// the client subscribed to; Listen is the exchange that brings both.
	Lists       []string  `json:",omitempty"`
	Subs        []string  `json:",omitempty"`
	Listen      string    `json:",omitempty"`
	ListenNo    int       `json:",omitempty"`
	ListenTries int       `json:",omitempty"`
	SubWait     []subWait `json:",omitempty"`

	// Opening: the initialize that waits for the server.
	Waiting waiter `json:",omitzero"`
	Left    bool   `json:",omitempty"` // by its client: nobody will ever know the session
	Request []byte `json:",omitempty"`
	Modern  string `json:",omitempty"` // modern revision to fall back to
	// ModernTasks: the modern face has the tasks extension.
	ModernTasks bool `json:",omitempty"`
}

func (s *legacySession) Step(x *Exec, ev Event) {
	was := s.listens()
	s.step(x, ev)
	if on := s.listens(); on != was && s.ID != "" && s.Guest == "" {
		x.Do(Listens{Session: s.ID, On: on})
	}
}

// listens: the client has a stream for what belongs to no request.
func (s *legacySession) listens() bool { return len(s.Gets)+len(s.Held) > 0 }

func (s *legacySession) step(x *Exec, ev Event) {
	switch ev.Kind {
	case EvClient:
		s.client(x, ev)
	case EvServer:
		s.server(x, ev)
	case EvServerEnd:
		s.serverEnd(x, ev)
	case EvClientGone:
		s.gone(x, ev)
	case EvTimer:
		switch ev.Name {
		case "listen":
			s.listen(x)
			return
		case "subs":
			s.subscribed(x, s.ListenNo)
			return
		case "left":
			if s.Phase == "" {
				s.refused(x, Out{Final: true})
			}
			return
		}
		s.idle(x)
	case EvOp:
		s.told(x, ev)
		s.keep(x)
	}
}

// gone: a stream of the client's is over.
func (s *legacySession) gone(x *Exec, ev Event) {
	if ev.Name == "unheard" && s.Phase == sessionReady {
		s.end(x, false) // nobody has its id
		x.Do(Done{})
		return
	}
	for i, id := range s.Gets {
		if id == ev.Label {
			s.Gets = append(s.Gets[:i], s.Gets[i+1:]...)
			break
		}
	}
	s.Used = x.Now
	if s.Phase == "" && s.Waiting.Stream != "" {
		s.Left = true
		x.Do(Wake{Name: "left", At: x.Now.Add(x.Policy.SessionIdle / leftShare)})
	}
	if len(s.Gets) == 0 && s.Listen != "" {
		x.Do(Shut{Label: s.Listen})
		s.Listen = ""
		s.subscribed(x, s.ListenNo)
	}
	s.keep(x)
}

// told is news from another operation.
func (s *legacySession) told(x *Exec, ev Event) {
	switch ev.Name {
	case "touch":
		s.Used = x.Now
	case "hold":
		s.Held = append(s.Held, string(ev.Data))
	case "unhold":
		s.Held = slices.DeleteFunc(s.Held, func(id string) bool { return id == string(ev.Data) })
		s.Used = x.Now
	case "stray":
		s.stray(x, ev.Data)
	case "lost":
		s.end(x, true)
		x.Do(Done{})
	}
}

// stray: a legacy server said something in reply to a message that has no
// answer. It belongs on the client's GET stream; without one nobody hears it,
// and a request is answered here.
func (s *legacySession) stray(x *Exec, raw []byte) {
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil || s.Phase != sessionReady {
		return
	}
	asks := m.Kind == jsonrpc.Request
	switch {
	case len(s.Held) > 0:
		x.Do(Send{Stream: s.Held[0], Out: Out{Raw: raw, Asks: asks, Of: s.ID}})
	case asks && m.Method == "ping":
		sayTo(x, s.Principal, s.up(jsonrpc.NewResult(m.ID, []byte("{}"))))
	case asks:
		sayTo(x, s.Principal, s.up(nobody(m)))
	default:
		x.r.metrics.Dropped("notice")
	}
}

// up is a message of ours in the session's own with a legacy server.
func (s *legacySession) up(raw []byte) Outgoing {
	out := Outgoing{Verb: http.MethodPost, Msg: raw, Session: s.UpSession}
	out.speaks(s.Version)
	return out
}

// keep drops a session that never was opened: events for one that is gone
// must not bring it back.
func (s *legacySession) keep(x *Exec) {
	if s.Phase == "" && s.Waiting.Stream == "" {
		x.Do(Done{})
	}
}

func (s *legacySession) client(x *Exec, ev Event) {
	m := ev.Frame.Msg
	switch {
	case s.Phase == "" && (m == nil || m.Method != "initialize"): // it ended meanwhile
		x.refuse(ev.Label, translate.Legacy, messageID(m), translate.CondUnknownSession, "unknown session; send initialize again", nil)
		s.keep(x)
	case m == nil && ev.Frame.HTTP != nil && ev.Frame.HTTP.Verb == http.MethodDelete:
		s.end(x, false)
		x.Do(Send{Stream: ev.Label, Out: Out{Final: true, Status: 200}}, Done{})
	case m == nil:
		s.Gets = append(s.Gets, ev.Label)
		s.Used = x.Now
		x.Do(Send{Stream: ev.Label, Out: Out{Begin: true}})
		if s.Listen == "" {
			s.listen(x)
		}
	case m.Method == "initialize":
		s.initialize(x, ev)
	case m.Method == "logging/setLevel":
		s.setLevel(x, ev)
	default: // resources/subscribe, resources/unsubscribe
		s.subscribe(x, ev)
	}
}

// logLevels of RFC 5424, least severe first (server/utilities/logging).
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

func levelRank(level string) int {
	for i, l := range logLevels {
		if l == level {
			return i
		}
	}
	return -1
}

func (s *legacySession) setLevel(x *Exec, ev Event) {
	m := ev.Frame.Msg
	level, _ := m.At("params", "level").Str()
	if levelRank(level) < 0 {
		x.refuse(ev.Label, translate.Legacy, m.ID, translate.CondInvalidParams, "unknown log level; one of debug, info, notice, warning, error, critical, alert, emergency", nil)
		return
	}
	s.LogLevel = level
	x.reply(ev.Label, jsonrpc.NewResult(m.ID, []byte("{}")))
}

func rawOr(v jsonrpc.Value, def string) json.RawMessage {
	if v.Type() == jsonrpc.Object {
		return json.RawMessage(v.Raw())
	}
	return json.RawMessage(def)
}

func (s *legacySession) server(x *Exec, ev Event) {
	m := ev.Frame.Msg
	if strings.HasPrefix(ev.Label, "listen") {
		s.heard(x, ev)
		return
	}
	if m.Kind != jsonrpc.Response && m.Kind != jsonrpc.ErrorResponse {
		if ev.Label == "init" {
			x.Do(Send{Stream: s.Waiting.Stream, Out: Out{Raw: m.Raw, Header: http.Header{headerSession: {s.ID}}}})
		}
		return
	}
	if s.Phase == sessionReady {
		return
	}
	status := 0
	if ev.Frame.HTTP != nil {
		status = ev.Frame.HTTP.Status
	}
	if m.Kind == jsonrpc.ErrorResponse {
		raw := m.Raw
		if ev.Label == "discover" {
			raw = withID(m, s.Waiting.id())
			status = 200
		}
		s.refused(x, Out{Raw: raw, Final: true, Status: status})
		return
	}
	if ev.Label == "discover" {
		s.discovered(x, m)
		return
	}
	s.initialized(x, ev)
}

// leftShare: of the time a session may be idle, how much of it a server has to
// answer an initialize whose client has left. Then its own session can be ended.
const leftShare = 60

func (s *legacySession) serverEnd(x *Exec, ev Event) {
	if no := listenNo(ev.Label); no > 0 && (ev.Label == s.Listen || no == s.ListenNo && s.Listen != "") {
		s.subscribed(x, no)
		if ev.Label == s.Listen {
			s.Listen = ""
		}
		s.ListenTries++
		x.Do(Wake{Name: "listen", At: x.Now.Add(backoff(x.Policy.RetryAfter, s.ListenTries))})
		return
	}
	// A dual-era server's initialize ends after its answer, when its modern
	// face may be asked already.
	awaited := "init"
	if s.Era == translate.Modern {
		awaited = "discover"
	}
	if s.Phase == sessionReady || ev.Label != awaited {
		return
	}
	s.refused(x, failedOut(translate.Legacy, s.Waiting.id(), ev))
}

// refused: the session does not come to be.
func (s *legacySession) refused(x *Exec, out Out) {
	s.uncount(x)
	x.Do(Send{Stream: s.Waiting.Stream, Out: out}, Done{})
}

// failedOut tells a client that its exchange with the server ended without an
// answer: the server's own status where it has a meaning for the client
// , else one of ours.
func failedOut(era translate.Era, id jsonrpc.ID, ev Event) Out {
	cond, message := translate.CondUpstreamBroken, "the upstream server gave no answer"
	switch ev.Fail {
	case FailNone:
		if h := ev.Frame.HTTP; h != nil && h.Status/100 != 2 && h.Status != 0 {
			message = "the upstream server answered with HTTP " + strconv.Itoa(h.Status) + " and no message"
		}
	case FailUnreachable:
		cond, message = translate.CondUpstreamDown, "the upstream server could not be reached"
	case FailTooLarge:
		message = "the upstream server's answer is over the message limit"
	case FailRedirect:
		cond, message = translate.CondUpstreamDown, "the upstream server redirects to another origin: "+ev.Err
	case FailRefused:
		cond, message = translate.CondUpstreamRefused, "the upstream server refuses the credential this proxy was given; its operator must mend that"
	case FailProcess:
		message = ev.Err
	case FailBusy:
		cond, message = translate.CondBusy, "out of memory budget; try again"
	case FailNoCredential:
		message = "no credential for the upstream server until your next request"
	}
	out := refusal(era, id, cond, message, nil)
	if h := ev.Frame.HTTP; h != nil && ev.Fail == FailNone {
		switch h.Status {
		case 401, 403:
			return Out{Final: true, Status: h.Status, Header: h.Header}
		case 429, 503:
			out.Status, out.Header = h.Status, h.Header
		}
	}
	return out
}

// withID puts the client's id on a server's message; an error that carries
// none gets one.
func withID(m *jsonrpc.Message, id jsonrpc.ID) []byte {
	e := m.Edit()
	e.Set(m.Root(), "id", id.Raw())
	return e.Bytes()
}

// idle ends a session nobody uses; its tasks live on.
func (s *legacySession) idle(x *Exec) {
	due := s.Used.Add(x.Policy.SessionIdle)
	switch {
	case s.listens():
		due = x.Now.Add(x.Policy.SessionIdle)
	case !due.After(x.Now) && x.r.calling(s.ID):
		// In use until the call's end, which nobody tells us of.
		s.Used, due = x.Now, x.Now.Add(x.Policy.SessionIdle/8)
	}
	if due.After(x.Now) {
		x.Do(Wake{Name: "idle", At: due})
		return
	}
	s.end(x, false)
	x.Do(Done{})
}

// uncount: the session takes no place any more.
func (s *legacySession) uncount(x *Exec) {
	if s.Guest == "" {
		x.Do(counted(countSessions, s.Limit, -1)...)
	}
}

// end closes what hangs on the session. A server's own session goes with it,
// unless the server has lost it.
func (s *legacySession) end(x *Exec, lost bool) {
	if s.Phase != sessionReady {
		return
	}
	s.uncount(x)
	x.Do(Del{Key: "askseq/" + s.ID}, DropLogs{Session: s.ID})
	s.closed(x, lost)
	if lost {
		s.UpSession = ""
	}
	for _, g := range s.Gets {
		x.Do(Send{Stream: g, Out: Out{Final: true}})
	}
	x.Do(EndCalls{Session: s.ID, Guest: s.Guest != "", Data: mustJSON(sessionEnd{Lost: lost, As: s.Principal, Up: s.up(nil)})})
	if s.UpSession != "" {
		x.Do(Tell{To: OpID("pass:end-" + s.ID), Name: "delete", Data: mustJSON(passDelete{s.UpSession, s.Version, s.Principal})})
	}
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("session: encode state: " + err.Error())
	}
	return raw
}
