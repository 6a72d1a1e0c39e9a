package downstream

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// exchange is one HTTP request and its reply. It belongs to the goroutine
// that serves it.
type exchange struct {
	s  *Server
	w  http.ResponseWriter
	r  *http.Request
	rc http.ResponseController

	start  time.Time
	caller session.Caller
	until  time.Time  // when the caller's token expires; zero: never
	id     jsonrpc.ID // of the request in the body, if there is one
	kind   kind
	events events
	tap    tapState
	took   reservation
	dues   dues

	takesJSON, takesSSE bool // what the client accepts
	bodyRead            bool
	quiet               bool // no event stream before there is a message
	streaming           bool // the event stream is begun
	opens               bool // a session, whose id the reply's header brings
	status              int  // as sent; 0: nothing yet
	head, buf           []byte
}

// ServeHTTP takes one request through all checks, each before what it
// protects and the cheap ones first:
//
//  1. Host and Origin, before anything is said to a page that has no business
//     here; preflights end there. Then the path.
//  2. The verb, because the rest depends on it.
//  3. Headers that would be read differently by two hops.
//  4. The caller, before memory is given to a body: who is not known here
//     must not take from the budget.
//     Then its limits: over them a body is read only where it may be what is
//     never refused.
//  5. Media type, size and budget, all before the body is read, so that a
//     client that asked for "100 Continue" never sends it.
//  6. The body, within its deadline, and its JSON.
//  7. The era, and what headers say against the body.
//
// Only then does the hub see the message, once.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := s.exchange(w, r)
	defer x.finish()
	if !x.admitted() {
		return
	}
	x.tap.to = s.o.Tap
	if path := r.URL.Path; s.nowhere || path != s.o.Path && path != s.o.Path+"/" {
		if serve := s.links.route(path); serve != nil {
			x.tap.transport = translate.TransportSSE
			serve(x)
			return
		}
		x.tap.to = nil // it is not MCP
		if s.o.Other != nil {
			x.status = -1
			s.o.Other.ServeHTTP(w, r)
			return
		}
		x.refuse(translate.CondNotFound, "", nil)
		return
	}
	switch r.Method {
	case http.MethodPost, http.MethodGet, http.MethodDelete:
	default:
		w.Header()["Allow"] = valMethods
		x.refuse(translate.CondVerb, "", nil)
		return
	}
	if cond, detail := x.readHeaders(); cond != translate.CondNone {
		x.refuse(cond, detail, nil)
		return
	}
	if r.Method == http.MethodPost {
		x.post()
	} else if websocket.IsWebSocketUpgrade(r) {
		x.webSocket()
	} else {
		x.verb()
	}
}

func (s *Server) exchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{s: s, w: w, r: r, rc: *http.NewResponseController(w), start: time.Now()}
	x.took = reservation{all: s.o.Shared.budget, large: s.o.Shared.large}
	return x
}

// admitted is step 1; where it is false all has been said.
func (x *exchange) admitted() bool {
	cond, done := x.s.guard.admit(x.w, x.r)
	switch {
	case done:
		x.status = http.StatusOK
	case cond != translate.CondNone:
		x.refuse(cond, "", nil)
	default:
		return true
	}
	return false
}

// refuseTwice answers a request that no endpoint may have, for a header that
// leads to one of several and stands in it twice.
func (s *Server) refuseTwice(w http.ResponseWriter, r *http.Request, name string) {
	x := s.exchange(w, r)
	defer x.finish()
	if x.admitted() {
		x.refuse(translate.CondBadHeader, name+" is sent twice", nil)
	}
}

// readHeaders is steps 3 and 4. Doubled Mcp-* headers are found by Classify,
// which can answer with the request's id.
func (x *exchange) readHeaders() (translate.Cond, string) {
	h := x.r.Header
	for _, name := range []string{"Authorization", translate.HeaderSession, translate.HeaderLastEvent} {
		if len(h[name]) > 1 {
			return translate.CondBadHeader, name + " is sent twice"
		}
	}
	x.takesJSON, x.takesSSE = accepts(h)
	if cond, detail := x.identify(); cond != translate.CondNone {
		return cond, detail
	}
	if auth := h["Authorization"]; len(auth) > 0 {
		x.caller.Credential = http.Header{"Authorization": auth}
	}
	return translate.CondNone, ""
}

// post serves a message: steps 5 to 7, then the hub.
func (x *exchange) post() {
	h := x.r.Header
	x.count()
	if !x.mediaType() {
		return
	}
	if !x.takesJSON && !x.takesSSE {
		x.refuse(translate.CondNotAcceptable, "want Accept: application/json, text/event-stream", nil)
		return
	}
	raw, ok := x.body()
	if !ok {
		return
	}
	msg, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if errors.Is(err, jsonrpc.ErrBatch) {
		x.batch(raw)
		return
	}
	if err != nil {
		x.refuseDecode(err)
		return
	}
	x.id = msg.ID
	c, cond := translate.Classify(h, msg)
	x.caller.Era, x.caller.Version = c.Era, c.Version
	if cond != translate.CondNone {
		x.refuseClassified(cond, c, msg)
		return
	}
	if over := x.pay(msg); over.Refused() {
		if msg.Kind != jsonrpc.Request {
			x.id = jsonrpc.ID{}
		}
		x.refuseDue(over)
		return
	}
	if msg.Kind == jsonrpc.Request {
		if x.s.draining() {
			x.refuse(translate.CondDraining, "", nil)
			return
		}
	} else {
		// 2025-11-25 and 2026-07-28, Sending Messages: 202 without a body.
		x.id, x.takesSSE, x.takesJSON = jsonrpc.ID{}, false, true
	}
	// The session's id is a header of the reply to initialize, which the hub
	// gives with its first message.
	x.quiet = msg.Method == "initialize" && c.Era == translate.Legacy
	if msg.Kind == jsonrpc.Request && msg.Method == "subscriptions/listen" {
		x.kind = kindListen
		if !x.takesSSE {
			x.refuse(translate.CondNotAcceptable, "want Accept: application/json, text/event-stream", nil)
			return
		}
	}
	x.opens = c.Era == translate.Legacy && msg.Kind == jsonrpc.Request && msg.Method == "initialize"
	x.hand(msg)
}

// mediaType refuses a body that is not what messages are written in.
func (x *exchange) mediaType() bool {
	if isJSON(x.r.Header) && len(x.r.Header["Content-Encoding"]) == 0 {
		return true
	}
	x.refuse(translate.CondMediaType, "want Content-Type: application/json without Content-Encoding", nil)
	return false
}

// body reads the body, or refuses the request.
func (x *exchange) body() ([]byte, bool) {
	limit, ok := x.bodyLimit()
	if !ok {
		return nil, false
	}
	raw, cond := x.s.readBody(x.w, x.r, &x.rc, &x.took, limit)
	if cond == translate.CondTooLarge && limit < x.s.o.Limits.Body {
		x.refuseDue(x.dues.over)
		return nil, false
	}
	if cond != translate.CondNone {
		x.refuse(cond, "", nil)
		return nil, false
	}
	x.bodyRead = true
	x.bodyCame(int64(len(raw)))
	return raw, true
}

// verb serves GET and DELETE, which only legacy sessions have
// (2026-07-28 streamable-http, Earlier Streamable HTTP Revisions: 405).
func (x *exchange) verb() {
	c, cond := translate.ClassifyVerb(x.r.Header)
	x.caller.Era, x.caller.Version = c.Era, c.Version
	if !x.payVerb(false) {
		return
	}
	if cond == translate.CondVerb {
		x.w.Header()["Allow"] = []string{"POST"}
	}
	if cond != translate.CondNone {
		x.refuse(cond, c.Detail, c.Data)
		return
	}
	if x.r.Method == http.MethodGet {
		if !x.takesSSE {
			x.refuse(translate.CondNotAcceptable, "want Accept: text/event-stream", nil)
			return
		}
		if x.r.ContentLength != 0 {
			// While a body is unread net/http does not watch for the client's
			// leaving.
			x.refuse(translate.CondInvalidRequest, "GET with a body", nil)
			return
		}
		if x.s.draining() {
			x.refuse(translate.CondDraining, "", nil)
			return
		}
		x.kind, x.takesJSON = kindGet, false
	} else {
		x.takesJSON, x.takesSSE = true, false
	}
	x.hand(nil)
}

// hand gives the message to the hub and writes what comes back.
func (x *exchange) hand(msg *jsonrpc.Message) {
	stream := x.s.o.Hub.NewStream()
	x.tap.stream, x.events = stream.ID, stream
	x.fillCaller()
	// Counted before the hub sees it: the server may be at work long before
	// Client returns, and Shutdown waits for what is counted only.
	x.s.enter()
	defer x.s.leave()
	x.s.o.Hub.Client(x.r.Context(), x.inbound(stream.ID, msg), stream)
	x.answer(stream)
}

func (x *exchange) fillCaller() {
	h := x.r.Header
	x.caller.Header = translate.RequestHeaders(h, x.caller.Era)
	if x.caller.Era != translate.Modern {
		x.caller.Session = h.Get(translate.HeaderSession)
	}
}

func (x *exchange) inbound(stream string, msg *jsonrpc.Message) session.Inbound {
	in := session.Inbound{Caller: x.caller, Frame: x.frame(stream, msg)}
	x.showRequest(in.Frame)
	return in
}

// isJSON says whether the one Content-Type is JSON in UTF-8, the only
// encoding JSON-RPC messages have (2025-11-25 basic/transports).
func isJSON(h http.Header) bool {
	v := h["Content-Type"]
	if len(v) != 1 {
		return false
	}
	media, params, more := strings.Cut(v[0], ";")
	if !strings.EqualFold(strings.TrimSpace(media), "application/json") {
		return false
	}
	for more {
		var param string
		param, params, more = strings.Cut(params, ";")
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "charset") && !strings.EqualFold(strings.Trim(value, " \t\""), "utf-8") {
			return false
		}
	}
	return true
}

// accepts reads Accept leniently: absent or a wildcard means both forms, a
// quality of 0 takes one out. Clients must list both, many list one or none.
func accepts(h http.Header) (json, sse bool) {
	lines := h["Accept"]
	if len(lines) == 0 {
		return true, true
	}
	if len(lines) == 1 && lines[0] == "application/json, text/event-stream" {
		return true, true
	}
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			media, params, _ := strings.Cut(item, ";")
			if refusedQuality(params) {
				continue
			}
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "*/*", "":
				json, sse = true, true
			case "application/json", "application/*":
				json = true
			case "text/event-stream", "text/*":
				sse = true
			}
		}
	}
	return json, sse
}

func refusedQuality(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(name, "q") && value != "" && strings.Trim(value, "0.") == "" {
			return true
		}
	}
	return false
}
