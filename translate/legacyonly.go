package translate

import (
	"iter"
	"net/http"

	"taskbridge/translate/jsonrpc"
)

// LegacyOnly is a set of what the legacy dialect alone has: whoever uses one of
// them has something to change before it is switched off. The zero value is the
// empty set; sets are joined with |.
type LegacyOnly uint32

// The members; their rows in legacyOnly say what each of them is.
const (
	OnlyHandshake LegacyOnly = 1 << iota
	OnlyPing
	OnlySubscribe
	OnlyUnsubscribe
	OnlySetLevel
	OnlyTaskParam
	OnlyTasksResult
	OnlyTasksList
	OnlyServerRequest
	OnlyRootsChanged
	OnlyClientTask
	OnlyGetStream
	OnlyResume
	OnlyEndSession
	OnlyBatch
	OnlyHTTPSSE
)

type legacyOnlyRow struct {
	Bit  LegacyOnly
	Name string
	// Method is the client's message that alone tells, or "".
	Method string
	// What it is, and what modern peers do Instead.
	What, Instead string
}

// legacyOnly: each method the modern face refuses (methods.go) has a row, a
// test sees to it.
var legacyOnly = []legacyOnlyRow{
	{OnlyHandshake, "initialize", "initialize", "the handshake that opens a session", "`_meta` in every request, `server/discover`"},
	{OnlyPing, "ping", "ping", "a sign of life asked for", "nothing: the revision has none"},
	{OnlySubscribe, "resources/subscribe", "resources/subscribe", "word of a resource's changes asked for", "`subscriptions/listen` with `resourceSubscriptions`"},
	{OnlyUnsubscribe, "resources/unsubscribe", "resources/unsubscribe", "the end of that", "the listen stream is closed"},
	{OnlySetLevel, "logging/setLevel", "logging/setLevel", "the session's log level", "`_meta[\"" + MetaLogLevel + "\"]` of a request"},
	{OnlyTaskParam, "task_param", "", "`params.task` in a request: the client wants it carried out as a task", "the tasks extension is declared, the server decides"},
	{OnlyTasksResult, "tasks/result", "tasks/result", "the blocking wait for a task's result", "`tasks/get`, which has the result inline"},
	{OnlyTasksList, "tasks/list", "tasks/list", "the list of the caller's tasks", "nothing: the client remembers its tasks"},
	{OnlyServerRequest, "server_request", "", "a request of the server that reached the client (elicitation, sampling, roots, ping)", "`input_required` and a retry with `inputResponses`; `tasks/update`"},
	{OnlyRootsChanged, "notifications/roots/list_changed", "notifications/roots/list_changed", "word that the client's roots changed", "nothing: the server asks each time"},
	{OnlyClientTask, "notifications/tasks/status", "notifications/tasks/status", "a task that the client hosts for its server", "nothing: clients host no tasks"},
	{OnlyGetStream, "get_stream", "", "the GET that opens a stream for what the server says unasked", "`subscriptions/listen`"},
	{OnlyResume, "resume", "", "`Last-Event-ID`: events of a broken stream fetched again", "nothing: requests are repeated, tasks asked for again"},
	{OnlyEndSession, "delete_session", "", "the DELETE that ends a session", "nothing: there are no sessions"},
	{OnlyBatch, "batch", "", "an array of messages (2025-03-26 alone)", "a message each"},
	{OnlyHTTPSSE, "http_sse", "", "the HTTP+SSE transport of 2024-11-05", "Streamable HTTP"},
}

// LegacyOnlyOf says what of the legacy dialect a frame between a legacy client
// and us uses, either direction. What a frame does not show is the transport's
// to add: OnlyBatch. It allocates nothing.
func LegacyOnlyOf(f *Frame) LegacyOnly {
	var set LegacyOnly
	if f.Transport == TransportSSE {
		set |= OnlyHTTPSSE
	}
	if f.Dir == ToClient {
		if f.Msg != nil && f.Msg.Kind == jsonrpc.Request {
			set |= OnlyServerRequest
		}
		return set
	}
	if f.Msg == nil {
		if f.Transport == TransportHTTP || f.Transport == "" { // elsewhere we say the verb ourselves
			set |= onlyVerb(f.HTTP)
		}
		return set
	}
	if f.Msg.Method == "" {
		return set
	}
	for i := range legacyOnly {
		if legacyOnly[i].Method == f.Msg.Method {
			set |= legacyOnly[i].Bit
			break
		}
	}
	if f.Msg.Kind == jsonrpc.Request && f.Msg.At("params", "task").Exists() {
		set |= OnlyTaskParam
	}
	return set
}

// onlyVerb: what a request without a message is (2025-11-25 basic/transports,
// Listening for Messages, Resumability and Redelivery, Session Management).
func onlyVerb(h *Envelope) LegacyOnly {
	switch {
	case h == nil:
		return 0
	case h.Verb == http.MethodDelete:
		return OnlyEndSession
	case h.Verb != http.MethodGet:
		return 0
	case len(h.Header[HeaderLastEvent]) > 0:
		return OnlyGetStream | OnlyResume
	}
	return OnlyGetStream
}

// Names lists what is in the set, in the table's order.
func (l LegacyOnly) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range legacyOnly {
			if l&legacyOnly[i].Bit != 0 && !yield(legacyOnly[i].Name) {
				return
			}
		}
	}
}

// LegacyOnlyNames lists all names Names can give, in the table's order.
func LegacyOnlyNames() []string {
	out := make([]string, len(legacyOnly))
	for i := range legacyOnly {
		out[i] = legacyOnly[i].Name
	}
	return out
}
