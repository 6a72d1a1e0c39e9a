package translate

import "taskbridge/translate/jsonrpc"

// LegacyUse is a set of things that only legacy revisions have: what a client
// must do without, or in another way, before the old dialect can be switched
// off.
type LegacyUse uint32

const (
	UseInitialize LegacyUse = 1 << iota
	UsePing
	UseGetStream
	UseResume
	UseSubscribe
	UseLogLevel
	UseTaskParam
	UseTaskResult
	UseTaskList
	UseServerRequest
	UseRootsChanged
	UseSSE
)

type legacyUseRow struct {
	use  LegacyUse
	name string
	note string // what the modern era has instead
}

var legacyUses = []legacyUseRow{
	{UseInitialize, "initialize", "server/discover, and version and capabilities in each request"},
	{UsePing, "ping", "nothing"},
	{UseGetStream, "get_stream", "subscriptions/listen"},
	{UseResume, "resume", "tasks; a stream that broke is a request that broke"},
	{UseSubscribe, "resources_subscribe", "subscriptions/listen with resourceSubscriptions"},
	{UseLogLevel, "logging_set_level", "_meta logLevel of each request"},
	{UseTaskParam, "task_param", "the tasks extension: the server decides"},
	{UseTaskResult, "tasks_result", "tasks/get brings the result"},
	{UseTaskList, "tasks_list", "nothing"},
	{UseServerRequest, "server_requests", "input_required"},
	{UseRootsChanged, "roots_list_changed", "nothing"},
	{UseSSE, "http_sse", "Streamable HTTP"},
}

// Names lists what is in the set, in the order of the table.
func (u LegacyUse) Names() (names []string) {
	for _, r := range legacyUses {
		if u&r.use != 0 {
			names = append(names, r.name)
		}
	}
	return names
}

// LegacyUses lists every name and what the modern era has in its place.
func LegacyUses() [][2]string {
	out := make([][2]string, len(legacyUses))
	for i, r := range legacyUses {
		out[i] = [2]string{r.name, r.note}
	}
	return out
}

// LegacyUseOf says what a legacy client's frame makes use of: a message, or a
// verb without one. Questions of the server are seen when they are asked.
func LegacyUseOf(f Frame) (u LegacyUse) {
	if f.Transport == TransportSSE {
		u |= UseSSE
	}
	if f.HTTP != nil && f.HTTP.Verb == "GET" && f.Msg == nil {
		u |= UseGetStream
		if f.HTTP.Header.Get(HeaderLastEvent) != "" {
			u |= UseResume
		}
	}
	if f.Msg == nil {
		return u
	}
	switch f.Msg.Method {
	case "initialize":
		u |= UseInitialize
	case "ping":
		u |= UsePing
	case "resources/subscribe", "resources/unsubscribe":
		u |= UseSubscribe
	case "logging/setLevel":
		u |= UseLogLevel
	case "tasks/result":
		u |= UseTaskResult
	case "tasks/list":
		u |= UseTaskList
	case "notifications/roots/list_changed":
		u |= UseRootsChanged
	}
	if f.Msg.Kind == jsonrpc.Request && f.Msg.At("params", "task").Exists() {
		u |= UseTaskParam
	}
	return u
}
