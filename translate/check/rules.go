package check

import (
	"slices"
	"strings"
)

// Severity says how bad a finding is.
type Severity uint8

// The severities: Error breaks a MUST, Warning a SHOULD or what widely used
// peers trip over, Note is worth knowing.
const (
	Note Severity = iota + 1
	Warning
	Error
)

func (s Severity) String() string {
	return [...]string{"", "note", "warning", "error"}[s]
}

// ParseSeverity reads what String writes.
func ParseSeverity(s string) (Severity, bool) {
	i := slices.Index([]string{"note", "warning", "error"}, s)
	return Severity(i + 1), i >= 0
}

// Rule is one row.
type Rule struct {
	// ID is stable: group/name.
	ID       string
	Severity Severity
	// Says is what holds where the rule is kept.
	Says string
	// Legacy and Modern are where the specification says so, as page#section
	// below Spec or Ext; empty where the era has no such rule.
	Legacy, Modern string
	// Once: said of each side of a leg once, and no more.
	Once bool
	// History: it needs all of what came before, and keeps quiet behind a gap.
	History bool
}

// Where the pages are.
const (
	Spec = "https://modelcontextprotocol.io/specification/"
	Ext  = "https://github.com/modelcontextprotocol/ext-tasks/blob/main/specification/draft/tasks.md"
	RPC  = "https://www.jsonrpc.org/specification"
)

// Reference is a place in the specification.
type Reference struct {
	// Text names page and section, URL leads there.
	Text, URL string
}

// Reference is where the specification has the rule, for one era or the only
// one that has it.
func (r *Rule) Reference(modern bool) Reference {
	at := r.Legacy
	if modern && r.Modern != "" || at == "" {
		at = r.Modern
	}
	page, section, _ := strings.Cut(at, "#")
	words := strings.ReplaceAll(section, "-", " ")
	switch {
	case page == "tasks":
		return Reference{"tasks extension, " + words, Ext + "#" + section}
	case page == "json-rpc":
		return Reference{"JSON-RPC 2.0, " + words, RPC + "#" + section}
	case page == "":
		return Reference{}
	}
	revision, rest, _ := strings.Cut(page, "/")
	text := revision + " " + rest
	if words != "" {
		text += ", " + words
	}
	return Reference{text, strings.TrimSuffix(Spec+page+"#"+section, "#")}
}

const (
	old = "2025-11-25/"
	now = "2026-07-28/"
)

// rules, by group. A page is the newest of its era: revisions before 2025-11-25
// say the same where they have the thing at all.
var rules = []Rule{
	{ID: "capture/line", Severity: Error, Says: "every line of the capture can be read"},
	{ID: "capture/dropped", Severity: Note, Says: "no frames are missing; rules that need what came before keep quiet behind a gap"},
	{ID: "capture/not-whole", Severity: Warning, Says: "the capture has its last line"},
	{ID: "capture/unchecked", Severity: Note, Says: "a message is small enough for its members to be checked"},

	{ID: "json/malformed", Severity: Error, Says: "a message is JSON in UTF-8, not nested out of bounds", Legacy: "json-rpc#overview", Modern: "json-rpc#overview"},
	{ID: "json/repeated-member", Severity: Error, Says: "no member stands twice in one object: readers differ in which they take", Legacy: old + "basic/index#messages", Modern: now + "basic/index#messages"},
	{ID: "message/envelope", Severity: Error, Says: "a message is a JSON-RPC request, notification or response", Legacy: old + "basic/index#messages", Modern: now + "basic/index#messages"},
	{ID: "message/batch", Severity: Error, Says: "messages come one by one; arrays exist in 2025-03-26 only", Legacy: old + "basic/transports#sending-messages-to-the-server", Modern: now + "basic/transports/streamable-http#sending-messages"},
	{ID: "message/member-missing", Severity: Error, Says: "required members are there", Legacy: old + "schema", Modern: now + "schema"},
	{ID: "message/member-type", Severity: Error, Says: "members have their JSON type", Legacy: old + "schema", Modern: now + "schema"},
	{ID: "message/member-value", Severity: Error, Says: "members that take certain words have one of them", Legacy: old + "schema", Modern: now + "schema"},
	{ID: "message/other-dialect", Severity: Warning, Says: "members of one era do not stand in messages of the other", Legacy: now + "changelog#major-changes", Modern: now + "changelog#major-changes"},

	{ID: "id/null", Severity: Error, Says: "a request's id is not null", Legacy: old + "basic/index#requests", Modern: now + "basic/index#requests"},
	{ID: "id/type", Severity: Error, Says: "an id is a string or an integer", Legacy: old + "basic/index#requests", Modern: now + "basic/index#requests"},
	{ID: "id/reused", Severity: Error, Says: "a request's id was not used before: in its session (legacy), in flight (modern)", Legacy: old + "basic/index#requests", Modern: now + "basic/index#requests"},
	{ID: "id/unknown-response", Severity: Error, Says: "a response answers a request", Legacy: old + "basic/index#responses", Modern: now + "basic/index#responses", History: true},
	{ID: "id/answered-twice", Severity: Error, Says: "a request is answered once", Legacy: old + "basic/index#responses", Modern: now + "basic/index#responses"},
	{ID: "id/null-response", Severity: Warning, Says: "an error has the id of the request it answers, where that could be read", Legacy: old + "basic/index#error-responses", Modern: now + "basic/index#error-responses"},
	{ID: "id/notification-answered", Severity: Error, Says: "a notification gets no response", Legacy: old + "basic/index#notifications", Modern: now + "basic/index#notifications"},

	{ID: "method/not-in-revision", Severity: Error, Says: "a method is one of the revision spoken", Legacy: old + "schema", Modern: now + "changelog#major-changes"},
	{ID: "method/removed-notification", Severity: Warning, Says: "a notification is one of the revision spoken", Legacy: old + "schema", Modern: now + "changelog#major-changes"},
	{ID: "method/direction", Severity: Error, Says: "a method is sent by the side that may send it", Legacy: old + "schema", Modern: now + "basic/patterns/index"},
	{ID: "method/server-request", Severity: Error, Says: "servers send no requests", Modern: now + "basic/patterns/index"},
	{ID: "method/client-response", Severity: Error, Says: "clients send no responses", Modern: now + "basic/patterns/index"},
	{ID: "method/kind", Severity: Error, Says: "requests have an id and notifications none", Legacy: old + "basic/index#notifications", Modern: now + "basic/index#notifications"},

	{ID: "lifecycle/no-initialize", Severity: Error, Says: "initialize comes first", Legacy: old + "basic/lifecycle#initialization", History: true},
	{ID: "lifecycle/initialize-twice", Severity: Error, Says: "a session is initialized once", Legacy: old + "basic/lifecycle#initialization"},
	{ID: "lifecycle/before-answer", Severity: Warning, Says: "before initialize is answered a client sends only ping", Legacy: old + "basic/lifecycle#initialization"},
	{ID: "lifecycle/no-initialized", Severity: Error, Says: "a client says notifications/initialized before it goes on", Legacy: old + "basic/lifecycle#initialization"},
	{ID: "lifecycle/server-too-early", Severity: Warning, Says: "before notifications/initialized a server sends only ping", Legacy: old + "basic/lifecycle#initialization"},
	{ID: "lifecycle/initialize-cancelled", Severity: Error, Says: "initialize is not cancelled", Legacy: old + "basic/utilities/cancellation#behavior-requirements"},
	{ID: "lifecycle/version-answer", Severity: Warning, Says: "initialize is answered with a revision of the legacy era", Legacy: old + "basic/lifecycle#version-negotiation"},

	{ID: "meta/required", Severity: Error, Says: "a request's _meta has protocolVersion and clientCapabilities", Modern: now + "basic/index#meta"},
	{ID: "meta/client-info", Severity: Note, Says: "a request's _meta has clientInfo", Modern: now + "basic/index#meta", Once: true},
	{ID: "meta/server-info", Severity: Note, Says: "a result's _meta has serverInfo", Modern: now + "basic/index#meta", Once: true},
	{ID: "meta/key", Severity: Warning, Says: "_meta keys have a well-formed prefix and name", Legacy: old + "basic/index#meta", Modern: now + "basic/index#meta"},

	{ID: "header/version-missing", Severity: Error, Says: "requests have MCP-Protocol-Version (legacy: after initialize, from 2025-06-18 on)", Legacy: old + "basic/transports#protocol-version-header", Modern: now + "basic/transports/streamable-http#protocol-version-header"},
	{ID: "header/version-mismatch", Severity: Error, Says: "MCP-Protocol-Version is the revision in _meta (modern)", Modern: now + "basic/transports/streamable-http#protocol-version-header"},
	{ID: "header/version-negotiated", Severity: Warning, Says: "MCP-Protocol-Version is the revision negotiated (legacy)", Legacy: old + "basic/transports#protocol-version-header"},
	{ID: "header/method", Severity: Error, Says: "Mcp-Method is the body's method", Modern: now + "basic/transports/streamable-http#standard-request-headers"},
	{ID: "header/name", Severity: Error, Says: "Mcp-Name is the name, uri or taskId in the body, encoded where it must be", Modern: now + "basic/transports/streamable-http#standard-request-headers"},
	{ID: "header/param", Severity: Error, Says: "Mcp-Param-* mirrors the arguments that the tool's schema marks", Modern: now + "basic/transports/streamable-http#client-behavior"},
	{ID: "header/doubled", Severity: Error, Says: "a header of the protocol is sent once", Legacy: old + "basic/transports#protocol-version-header", Modern: now + "basic/transports/streamable-http#server-validation"},
	{ID: "header/accept", Severity: Error, Says: "Accept lists application/json and text/event-stream (GET: the latter)", Legacy: old + "basic/transports#sending-messages-to-the-server", Modern: now + "basic/transports/streamable-http#sending-messages"},
	{ID: "session/missing", Severity: Error, Says: "every request after initialize has the session id that was given", Legacy: old + "basic/transports#session-management"},
	{ID: "session/ended", Severity: Error, Says: "after 404 or DELETE a client begins a new session", Legacy: old + "basic/transports#session-management"},
	{ID: "session/served", Severity: Error, Says: "a session that ended is answered with 404", Legacy: old + "basic/transports#session-management"},
	{ID: "session/modern", Severity: Warning, Says: "there are no session ids", Modern: now + "basic/transports/streamable-http#earlier-streamable-http-revisions", Once: true},

	{ID: "http/accepted", Severity: Error, Says: "an accepted notification or response is answered with 202 and no body", Legacy: old + "basic/transports#sending-messages-to-the-server", Modern: now + "basic/transports/streamable-http#sending-messages"},
	{ID: "http/result-status", Severity: Error, Says: "a result comes with status 200", Legacy: old + "basic/transports#sending-messages-to-the-server", Modern: now + "basic/transports/streamable-http#sending-messages"},
	{ID: "http/error-status", Severity: Error, Says: "an error that has a status of its own comes with it", Modern: now + "basic/transports/streamable-http#server-validation"},
	{ID: "http/content-type", Severity: Error, Says: "an answer is application/json or text/event-stream (GET: the latter)", Legacy: old + "basic/transports#sending-messages-to-the-server", Modern: now + "basic/transports/streamable-http#sending-messages"},
	{ID: "http/bad-version", Severity: Error, Says: "a request with a revision the server cannot know is answered with 400", Legacy: old + "basic/transports#protocol-version-header"},
	{ID: "http/verb", Severity: Warning, Says: "clients only POST", Modern: now + "basic/transports/streamable-http#earlier-streamable-http-revisions"},
	{ID: "http/verb-served", Severity: Warning, Says: "GET and DELETE are answered with 405", Modern: now + "basic/transports/streamable-http#earlier-streamable-http-revisions"},
	{ID: "http/response-on-get", Severity: Error, Says: "a stream opened by GET carries no response, unless it resumes another", Legacy: old + "basic/transports#listening-for-messages-from-the-server"},
	{ID: "http/wrong-stream", Severity: Error, Says: "a response comes on the stream of its request", Modern: now + "basic/transports/streamable-http#receiving-messages"},

	{ID: "capability/server", Severity: Error, Says: "a client uses what the server declared", Legacy: old + "basic/lifecycle#operation"},
	{ID: "capability/client", Severity: Error, Says: "a server asks for what the client declared, mode by mode", Legacy: old + "basic/lifecycle#operation", Modern: now + "basic/patterns/mrtr#server-requirements-basic-workflow"},
	{ID: "capability/undeclared-notice", Severity: Warning, Says: "a server sends the notifications its capabilities announce", Legacy: old + "basic/lifecycle#operation"},
	{ID: "capability/task-call", Severity: Error, Says: "a client asks for a task only where server and tool take one, and always where the tool requires it", Legacy: old + "basic/utilities/tasks#tool-level-negotiation"},
	{ID: "capability/tasks-undeclared", Severity: Error, Says: "tasks are used by clients that declare the extension on the request", Modern: "tasks#capability-negotiation"},
	{ID: "capability/tasks-served", Severity: Error, Says: "a task request without the extension is refused with -32021", Modern: "tasks#protocol-errors"},

	{ID: "error/retired-code", Severity: Error, Says: "-32002 and -32042 are not sent", Modern: now + "basic/index#error-codes"},
	{ID: "error/reserved-code", Severity: Error, Says: "codes of -32020 to -32099 are those defined", Modern: now + "basic/index#error-codes"},
	{ID: "error/later-code", Severity: Warning, Says: "-32042 came with 2025-11-25", Legacy: old + "client/elicitation#error-handling"},

	{ID: "result/type-missing", Severity: Error, Says: "a result has resultType", Modern: now + "basic/index#result-responses"},
	{ID: "result/type", Severity: Error, Says: "resultType is one that the method may have", Modern: now + "basic/index#resulttype"},
	{ID: "result/input-empty", Severity: Error, Says: "input_required has inputRequests or requestState", Modern: now + "basic/patterns/mrtr#server-requirements-basic-workflow"},
	{ID: "result/ttl-negative", Severity: Error, Says: "ttlMs is 0 or more", Modern: now + "server/utilities/caching#time-to-live-ttl-field"},
	{ID: "result/structured-missing", Severity: Error, Says: "a tool with an outputSchema gives structuredContent", Legacy: old + "server/tools#output-schema", Modern: now + "server/tools#output-schema"},
	{ID: "tool/header-marks", Severity: Error, Says: "x-mcp-header marks keep their rules", Modern: now + "server/tools#x-mcp-header"},

	{ID: "mrtr/unknown-state", Severity: Error, Says: "requestState is echoed as it was given", Modern: now + "basic/patterns/mrtr#client-requirements-basic-workflow", History: true},
	{ID: "mrtr/foreign-state", Severity: Error, Says: "requestState is used for the request it was given for", Modern: now + "basic/patterns/mrtr#client-requirements-basic-workflow"},
	{ID: "mrtr/same-id", Severity: Error, Says: "a retry has an id of its own", Modern: now + "basic/patterns/mrtr#client-requirements-basic-workflow"},

	{ID: "task/unasked", Severity: Error, Says: "a call becomes a task only where the caller asked for it or declared the extension", Legacy: old + "basic/utilities/tasks#creating-tasks", Modern: "tasks#capability-negotiation"},
	{ID: "task/not-created", Severity: Error, Says: "a call accepted as a task is answered with the task", Legacy: old + "basic/utilities/tasks#result-retrieval"},
	{ID: "task/created-status", Severity: Error, Says: "a task begins as working", Legacy: old + "basic/utilities/tasks#task-status-lifecycle"},
	{ID: "task/id-reused", Severity: Error, Says: "a task's id is new", Legacy: old + "basic/utilities/tasks#task-id-requirements", Modern: "tasks#task-creation"},
	{ID: "task/terminal-changed", Severity: Error, Says: "a terminal status never changes", Legacy: old + "basic/utilities/tasks#task-status-lifecycle", Modern: "tasks#task-status"},
	{ID: "task/told-late", Severity: Note, Says: "a status notification comes before the end it was sent before", Legacy: old + "basic/utilities/tasks#task-status-notification", Modern: "tasks#task-status-notifications"},
	{ID: "task/other-id", Severity: Error, Says: "the task shown is the one asked for", Legacy: old + "basic/utilities/tasks#getting-tasks", Modern: "tasks#response"},
	{ID: "task/payload", Severity: Error, Says: "result, error and inputRequests stand exactly at completed, failed and input_required", Modern: "tasks#task-status"},
	{ID: "task/key-reused", Severity: Error, Says: "a key of inputRequests means one request for the task's life", Modern: "tasks#task-update-requests"},
	{ID: "task/unknown-key", Severity: Error, Says: "inputResponses answers keys that were asked", Modern: "tasks#task-update-requests", History: true},
	{ID: "task/not-durable", Severity: Error, Says: "a task can be asked for as soon as it was given", Modern: "tasks#task-creation"},
	{ID: "task/gone-early", Severity: Warning, Says: "a task is kept for its ttl", Legacy: old + "basic/utilities/tasks#ttl-and-resource-management", Modern: "tasks#task-polling"},
	{ID: "task/unknown", Severity: Note, Says: "a task that is asked for was given before", Legacy: old + "basic/utilities/tasks#protocol-errors", Modern: "tasks#protocol-errors", History: true},
	{ID: "task/unknown-code", Severity: Error, Says: "an unknown task is -32602", Legacy: old + "basic/utilities/tasks#protocol-errors", Modern: "tasks#protocol-errors", History: true},
	{ID: "task/result-early", Severity: Error, Says: "tasks/result is answered when the task has ended", Legacy: old + "basic/utilities/tasks#result-retrieval"},
	{ID: "task/result-changed", Severity: Error, Says: "tasks/result gives the same result each time", Legacy: old + "basic/utilities/tasks#result-retrieval"},
	{ID: "task/cancel-terminal", Severity: Error, Says: "cancelling a task that ended is -32602", Legacy: old + "basic/utilities/tasks#task-cancellation"},
	{ID: "task/cancel-status", Severity: Error, Says: "tasks/cancel answers with the task as cancelled", Legacy: old + "basic/utilities/tasks#task-cancellation"},
	{ID: "task/cancel-notification", Severity: Error, Says: "a task is cancelled by tasks/cancel, not by notifications/cancelled", Legacy: old + "basic/utilities/cancellation#behavior-requirements", Modern: "tasks#task-cancellation"},
	{ID: "task/timestamp", Severity: Error, Says: "createdAt and lastUpdatedAt are ISO 8601 times", Legacy: old + "basic/utilities/tasks#ttl-and-resource-management", Modern: "tasks#tasks"},
	{ID: "task/created-changed", Severity: Warning, Says: "createdAt stays what it was", Legacy: old + "basic/utilities/tasks#task", Modern: "tasks#tasks"},

	{ID: "related/missing", Severity: Error, Says: "what belongs to a task says so: tasks/result, questions, answers, progress", Legacy: old + "basic/utilities/tasks#related-task-metadata"},
	{ID: "related/other-task", Severity: Error, Says: "related-task names the task it belongs to", Legacy: old + "basic/utilities/tasks#associating-task-related-messages"},
	{ID: "related/unwanted", Severity: Warning, Says: "tasks/get, tasks/list, tasks/cancel and status notifications have no related-task", Legacy: old + "basic/utilities/tasks#associating-task-related-messages"},
	{ID: "related/modern", Severity: Warning, Says: "there is no related-task", Modern: now + "basic/index#meta"},

	{ID: "progress/unknown-token", Severity: Error, Says: "progress has the token of a request", Legacy: old + "basic/utilities/progress#behavior-requirements", Modern: now + "basic/patterns/progress#behavior-requirements", History: true},
	{ID: "progress/after-end", Severity: Error, Says: "progress stops when its request or task ended", Legacy: old + "basic/utilities/progress#behavior-requirements", Modern: now + "basic/patterns/progress#implementation-notes"},
	{ID: "progress/not-rising", Severity: Error, Says: "progress rises with each notification", Legacy: old + "basic/utilities/progress#progress-flow", Modern: now + "basic/patterns/progress#progress-flow"},
	{ID: "progress/token-reused", Severity: Error, Says: "no two requests in flight have one token", Legacy: old + "basic/utilities/progress#progress-flow", Modern: now + "basic/patterns/progress#progress-flow"},
	{ID: "progress/on-task", Severity: Error, Says: "tasks have no progress notifications", Modern: "tasks#task-status-notifications"},

	{ID: "cancel/unknown", Severity: Error, Says: "a cancellation names a request of its own direction", Legacy: old + "basic/utilities/cancellation#behavior-requirements", Modern: now + "basic/patterns/cancellation#behavior-requirements", History: true},
	{ID: "cancel/server", Severity: Error, Says: "a server cancels nothing but a subscription", Modern: now + "basic/patterns/cancellation#behavior-requirements"},
	{ID: "cancel/http", Severity: Note, Says: "over HTTP the closed stream is the cancellation", Modern: now + "basic/patterns/cancellation#transport-specific-cancellation"},

	{ID: "log/not-asked", Severity: Error, Says: "log messages go to requests that asked for them", Modern: now + "server/utilities/logging#per-request-log-level"},
	{ID: "log/below-level", Severity: Error, Says: "log messages are at or above the level asked for", Modern: now + "server/utilities/logging#per-request-log-level"},

	{ID: "listen/acknowledged", Severity: Error, Says: "a subscription's first message is its acknowledgement", Modern: now + "basic/patterns/subscriptions#acknowledgment"},
	{ID: "listen/subscription-id", Severity: Error, Says: "what a subscription delivers has the id of its request", Modern: now + "basic/patterns/subscriptions#receiving-notifications"},
	{ID: "listen/not-asked", Severity: Error, Says: "a subscription delivers what was asked for", Modern: now + "basic/patterns/subscriptions#opening-a-stream"},
	{ID: "listen/request-scoped", Severity: Error, Says: "progress and log messages do not go to subscriptions", Modern: now + "basic/transports/streamable-http#receiving-messages"},
}

// Rules lists them.
func Rules() []Rule { return slices.Clone(rules) }

var ruleByID = func() map[string]*Rule {
	m := make(map[string]*Rule, len(rules))
	for i := range rules {
		m[rules[i].ID] = &rules[i]
	}
	return m
}()
