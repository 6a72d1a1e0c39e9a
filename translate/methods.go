package translate

import "slices"

// Action says what the proxy does with a client's message when the server
// speaks the other era. Within one era every method passes.
type Action uint8

const (
	// Refuse: -32601 in the words of the client's era, nothing is forwarded.
	Refuse Action = iota
	// Forward: the same method goes to the server, params and result edited by
	// the rules in requests.go and results.go.
	Forward
	// Local: the proxy answers by itself.
	Local
	// Swallow: a notification the other era does not have; accepted and dropped.
	Swallow
	// Operate: the task operations take it (session/task_*.go).
	Operate
)

func (a Action) String() string {
	return [...]string{"refuse", "forward", "local", "swallow", "operate"}[a]
}

type methodRow struct {
	Method string
	// Legacy: a legacy client asks, the server is modern. Modern: the reverse.
	Legacy, Modern Action
	Note           string
}

// methods: what becomes of a client's method when the eras differ.
var methods = []methodRow{
	{"initialize", Local, Refuse, "answered from server/discover; the modern face has no handshake"},
	{"notifications/initialized", Swallow, Swallow, "modern servers keep no session"},
	{"ping", Local, Refuse, "answered by the proxy; removed from the modern revision"},
	{"server/discover", Refuse, Local, "answered from the legacy initialize result"},
	{"subscriptions/listen", Refuse, Local, "acknowledged with what a legacy server can deliver"},
	{"tools/list", Forward, Forward, "taskSupport and cache members are edited"},
	{"tools/call", Forward, Forward, "task augmentation is translated; see tasks.go"},
	{"prompts/list", Forward, Forward, ""},
	{"prompts/get", Forward, Forward, ""},
	{"resources/list", Forward, Forward, ""},
	{"resources/templates/list", Forward, Forward, ""},
	{"resources/read", Forward, Forward, "-32002 and -32602 are exchanged for a resource that is not there"},
	{"resources/subscribe", Local, Refuse, "remembered for the session; modern clients use subscriptions/listen"},
	{"resources/unsubscribe", Local, Refuse, "as resources/subscribe"},
	{"completion/complete", Forward, Forward, ""},
	{"logging/setLevel", Local, Refuse, "kept for the session and sent as _meta logLevel with each request"},
	{"tasks/get", Operate, Operate, ""},
	{"tasks/result", Operate, Refuse, "blocks in the proxy; modern results are inline"},
	{"tasks/list", Operate, Refuse, "answered from the proxy's own index"},
	{"tasks/cancel", Operate, Operate, ""},
	{"tasks/update", Refuse, Operate, "answers go to the legacy server as responses to its own requests"},
	{"notifications/cancelled", Operate, Operate, "legacy: the notification; modern: the stream is closed"},
	{"notifications/progress", Swallow, Swallow, "clients report progress on tasks they host, which do not cross eras"},
	{"notifications/roots/list_changed", Swallow, Swallow, "removed from the modern revision, but a widely used client sends it and gives up at a refusal"},
	{"notifications/tasks/status", Swallow, Swallow, "tasks hosted by clients do not cross eras"},
}

// ActionFor says what to do with a client's method when its era is client and
// the server's is the other one. Methods nobody defined are forwarded: they
// belong to extensions both ends may know.
func ActionFor(method string, client Era) Action {
	for i := range methods {
		if methods[i].Method == method {
			if client == Modern {
				return methods[i].Modern
			}
			return methods[i].Legacy
		}
	}
	return Forward
}

// Defined: a revision we know has the method.
func Defined(method string) bool {
	return slices.ContainsFunc(methods, func(r methodRow) bool { return r.Method == method })
}

// NoSuchMethod: a server that answers a request with nothing but this HTTP
// status does not know the method, if no revision does either. A widely used
// SDK says 400 in plain text where 2025-11-25 basic/index wants -32601.
func NoSuchMethod(method string, status int) bool {
	return !Defined(method) && (status == 400 || status == 404 || status == 501)
}

// cacheable: results that must carry ttlMs and cacheScope toward modern
// clients (2026-07-28 server/utilities/caching).
var cacheable = map[string]bool{
	"server/discover":          true,
	"tools/list":               true,
	"prompts/list":             true,
	"resources/list":           true,
	"resources/templates/list": true,
	"resources/read":           true,
}

// CanRequireInput: results of these may be input_required (2026-07-28
// basic/patterns/mrtr, Supported Requests).
func CanRequireInput(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}
