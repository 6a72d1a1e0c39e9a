package translate

import "taskbridge/translate/jsonrpc"

type repeatRow struct {
	Method string
	Repeat bool
	Note   string
}

// repeats: the requests that may be sent once more where the connection broke
// before anything came back, so that nobody knows whether the server has had
// them. All others may not: what has run once must not run twice. (2026-07-28
// basic/transports/streamable-http has a broken request issued anew by who wants
// it; what asks only may be issued anew by anybody.)
var repeats = []repeatRow{
	{"initialize", true, "a session that nobody was told of is used by nobody"},
	{"ping", true, "changes nothing"},
	{"server/discover", true, "reads"},
	{"tools/list", true, "reads"},
	{"tools/call", false, "may have run; a tool's idempotentHint is the word of a server nobody vouches for"},
	{"prompts/list", true, "reads"},
	{"prompts/get", true, "reads; not with inputResponses or requestState, which a server may take once only"},
	{"resources/list", true, "reads"},
	{"resources/templates/list", true, "reads"},
	{"resources/read", true, "reads; not with inputResponses or requestState"},
	{"resources/subscribe", true, "sets what twice is the same"},
	{"resources/unsubscribe", true, "sets what twice is the same"},
	{"completion/complete", true, "reads"},
	{"logging/setLevel", true, "sets what twice is the same"},
	{"subscriptions/listen", false, "its messages carry its id; who listens begins anew, or the proxy does once it was acknowledged"},
	{"tasks/get", true, "reads"},
	{"tasks/result", true, "reads; the server keeps the result for the task's ttl"},
	{"tasks/list", true, "reads"},
	{"tasks/cancel", false, "the second is refused (-32602) where the first has cancelled: a wrong answer"},
	{"tasks/update", false, "a server should ignore an answer it has had, but need not"},
}

// Repeatable says whether a request may be sent once more though the server may
// have had it. Methods nobody defined may not.
func Repeatable(m *jsonrpc.Message) bool {
	if m.Kind != jsonrpc.Request {
		return false
	}
	for i := range repeats {
		if repeats[i].Method == m.Method {
			return repeats[i].Repeat && !m.At("params", "requestState").Exists() && !m.At("params", "inputResponses").Exists()
		}
	}
	return false
}
