package session

import (
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// ServerRequestObserver is an Observer that hears, too, of requests servers make
// of clients (sampling, elicitation, roots, ping). On the server's leg one
// begins when it comes and ends when our answer has been sent; on the client's
// leg it begins when it goes out and ends when the client's answer is there. A
// modern peer is asked by results and has no such requests.
type ServerRequestObserver interface {
	// BeginServerRequest hears of a request before anything is done with it. The
	// context it returns is continued on the client's leg, and written into
	// params._meta there (SEP-414); zero: nothing. An observer may set q.Note to
	// find something again at the end.
	BeginServerRequest(q *ServerRequest) TraceContext
	// EndServerRequest hears once for each BeginServerRequest how it ended.
	EndServerRequest(q *ServerRequest, e Ended)
}

// ServerRequest is a request of a server's on one leg.
type ServerRequest struct {
	At              time.Time
	Route, Upstream string
	// Leg is the one it is seen on: of the server, who asks us, or of the client,
	// whom we ask.
	Leg translate.Leg
	// Version is the revision spoken on that leg, Transport one of
	// translate.Transport… on the client's leg, empty on the server's; Proto is the
	// version of HTTP it came over.
	Version, Transport, Proto string
	// Method as sent; MethodLabel gives one that may be a label. ID is as in
	// Request.
	Method, ID string
	// Session is the legacy session's id as the peer of that leg knows it: a
	// secret.
	Session string
	// Parent is the context it continues: what the server sent in params._meta,
	// else that of the client's request it is asked in.
	Parent TraceContext
	// Note is the observers' own, by their place in Options.Observers.
	Note [maxObservers]any

	ended atomic.Bool
}

// MethodLabel is Method if a revision we know has it, else "_OTHER".
func (q *ServerRequest) MethodLabel() string {
	if translate.IsQuestion(q.Method) {
		return q.Method
	}
	return methodLabel(q.Method)
}

// maxServerRequests bounds those a runner knows to be open; past it the oldest
// are given up, as if nobody had answered.
const maxServerRequests = 1024

// serverRequests are those that wait for their answer, by leg, session and id.
// Only a runner with observers has them.
type serverRequests struct {
	r         *Runner
	observers []ServerRequestObserver
	open      *lru.Cache[string, *ServerRequest]
}

func newServerRequests(r *Runner) *serverRequests {
	s := &serverRequests{r: r}
	for _, o := range r.observers {
		if o, ok := o.(ServerRequestObserver); ok {
			s.observers = append(s.observers, o)
		}
	}
	if len(s.observers) == 0 {
		return nil
	}
	s.open, _ = lru.NewWithEvict(maxServerRequests, func(_ string, q *ServerRequest) {
		s.end(q, Ended{Answer: translate.Answer{Outcome: translate.OutcomeGone}})
	})
	return s
}

// openSession begins the keys of a session's requests; one toward a server may
// have no id, and then is its caller's.
func openSession(leg translate.Leg, as Principal, session string) string {
	if leg == translate.ServerLeg {
		return "s" + session + "\x00" + string(as) + "\x00"
	}
	return "c" + session + "\x00"
}

func (s *serverRequests) begin(key string, q *ServerRequest) TraceContext {
	q.At, q.Route, q.Upstream = s.r.clock.Now(), s.r.route, s.r.upstream
	if known, _ := s.open.ContainsOrAdd(key, q); known {
		return TraceContext{} // said again, on a second stream or to who came back
	}
	var c TraceContext
	for _, o := range s.observers {
		if got := o.BeginServerRequest(q); got.Parent != "" {
			c = got
		}
	}
	return c
}

func (s *serverRequests) end(q *ServerRequest, e Ended) {
	if q.ended.Swap(true) {
		return
	}
	e.At, e.Message = s.r.clock.Now(), shownError(e.Message, q.Session)
	for _, o := range s.observers {
		o.EndServerRequest(q, e)
	}
}

// over ends the one under key, if there is one.
func (s *serverRequests) over(key string, e Ended) {
	if q, ok := s.open.Peek(key); ok {
		s.end(q, e)
		s.open.Remove(key)
	}
}

// cancelled: who asked does not want an answer any more.
func (s *serverRequests) cancelled(key string) {
	s.over(key, Ended{Answer: translate.Answer{Outcome: translate.OutcomeCancelled}})
}

// left ends what is open in a session that is over.
func (s *serverRequests) left(leg translate.Leg, as Principal, session string) {
	if s == nil || s.open.Len() == 0 {
		return
	}
	prefix := openSession(leg, as, session)
	for _, key := range s.open.Keys() {
		if strings.HasPrefix(key, prefix) {
			s.over(key, Ended{Answer: translate.Answer{Outcome: translate.OutcomeGone}})
		}
	}
}

// heard looks at what a legacy server says on exchange e; the context is what
// an observer wants continued.
func (s *serverRequests) heard(e *openAt, m *jsonrpc.Message, h *translate.Envelope) TraceContext {
	if s == nil || m.Kind != jsonrpc.Request && m.Method != "notifications/cancelled" {
		return TraceContext{}
	}
	if f, known := translate.Lookup(e.Out.Version); known && f.Era == translate.Modern {
		return TraceContext{} // it has none, and is not answered
	}
	session := e.Out.Session
	if session == "" && h != nil {
		session = h.Header.Get(headerSession)
	}
	keys := openSession(translate.ServerLeg, e.As, session)
	if m.Kind != jsonrpc.Request {
		if id, err := jsonrpc.IDFromRaw(m.At("params", "requestId").Raw()); err == nil {
			s.cancelled(keys + shortKey(id))
		}
		return TraceContext{}
	}
	q := &ServerRequest{Leg: translate.ServerLeg, Version: e.Out.revision(), Session: session, Proto: protoOf(h)}
	q.read(m, e.trace)
	return s.begin(keys+shortKey(m.ID), q)
}

// read takes from a message what observers want to know.
func (q *ServerRequest) read(m *jsonrpc.Message, within TraceContext) {
	var r Request
	r.read(m)
	q.Method, q.ID, q.Parent = r.Method, r.ID, r.Parent
	if q.Parent.Parent == "" {
		q.Parent = within
	}
}

// reply is an answer of ours on its way to a server.
type reply struct {
	key    string
	answer translate.Answer
}

// replies says which open request of a server's e answers; nil: none.
func (s *serverRequests) replies(e *openAt, m *jsonrpc.Message) *reply {
	if s == nil {
		return nil
	}
	key := openSession(translate.ServerLeg, e.As, e.Out.Session) + shortKey(m.ID)
	if !s.open.Contains(key) {
		return nil
	}
	return &reply{key, translate.AnswerOf(m.Raw, 0)}
}

// replied: the exchange that carried it is over, as how says. That it may be sent
// again where it did not arrive is not waited for.
func (s *serverRequests) replied(p *reply, how translate.Answer, h *translate.Envelope, fail string) {
	if how.Outcome == translate.OutcomeAccepted {
		how = p.answer
	}
	s.over(p.key, Ended{Answer: how, Status: statusOf(h), Fail: fail})
}

// asks looks at what goes to a client: a request gets the context an observer
// wants there.
func (s *serverRequests) asks(o Out) Out {
	if s == nil || o.Of == "" {
		return o
	}
	m, err := jsonrpc.Decode(o.Raw, jsonrpc.Limits{})
	if err != nil {
		return o
	}
	keys := openSession(translate.ClientLeg, "", o.Of)
	switch {
	case m.Method == "notifications/cancelled":
		if id, err := jsonrpc.IDFromRaw(m.At("params", "requestId").Raw()); err == nil {
			s.cancelled(keys + shortKey(id))
		}
	case m.Kind == jsonrpc.Request:
		sess, ok := s.r.session(o.Of)
		if !ok {
			return o
		}
		q := &ServerRequest{Leg: translate.ClientLeg, Version: sess.Version, Transport: sess.Transport, Session: o.Of}
		if q.read(m, o.Trace); o.Trace.Parent != "" {
			q.Parent = o.Trace // the server's own is an ancestor of it
		}
		if c := s.begin(keys+shortKey(m.ID), q); c.Parent != "" {
			o.Raw = translate.WithTrace(m, c.Parent, c.State)
		}
	}
	return o
}

// answered: a client says something that answers a request.
func (s *serverRequests) answered(session string, m *jsonrpc.Message) {
	if s == nil || m == nil || m.Kind != jsonrpc.Response && m.Kind != jsonrpc.ErrorResponse {
		return
	}
	s.over(openSession(translate.ClientLeg, "", session)+shortKey(m.ID), Ended{Answer: translate.AnswerOf(m.Raw, 0)})
}

// unasked: a question of ours is not waited for any more.
func (s *serverRequests) unasked(e Unask) {
	if s != nil {
		s.cancelled(openSession(translate.ClientLeg, "", e.Session) + shortKey(jsonrpc.IntID(e.ID)))
	}
}

// close ends all that is open.
func (s *serverRequests) close() {
	if s != nil {
		s.open.Purge()
	}
}
