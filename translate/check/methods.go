package check

import (
	"strings"

	"taskbridge/translate/jsonrpc"
)

// sender says who may send a message.
type sender uint8

const (
	byClient sender = 1 << iota
	byServer
	byBoth = byClient | byServer
)

// methodRow is one request or notification in a range of revisions. A method
// that changed has several rows. Params and Result are definitions; a request's
// Result is what answers it, empty for a notification.
type methodRow struct {
	Method         string
	By             sender
	From, To       revision
	Params, Result string
	// Needs is the capability whose owner is the receiver: a server's for what
	// clients send, a client's for what servers send; blanks part the names on
	// the way down. Empty: none.
	Needs string
}

// The places of revisions.
const (
	r20241105 revision = iota + 1
	r20250326
	r20250618
	r20251125
	r20260728
)

// methods of all revisions (schemas of each; tasks extension). Notifications
// have no Result.
var methods = []methodRow{
	{"initialize", byClient, 1, 4, "InitializeRequestParams", "InitializeResult", ""},
	{"ping", byBoth, 1, 4, "RequestParams", "Result", ""},
	{"server/discover", byClient, 5, 5, "RequestParams", "DiscoverResult", ""},
	{"subscriptions/listen", byClient, 5, 5, "ListenParams", "ListenResult", ""},
	{"tools/list", byClient, 1, 5, "PaginatedRequestParams", "ListToolsResult", "tools"},
	{"tools/call", byClient, 1, 4, "CallToolRequestParams", "CallToolAnswer", "tools"},
	{"tools/call", byClient, 5, 5, "CallToolRequestParams", "ToolRound", "tools"},
	{"prompts/list", byClient, 1, 5, "PaginatedRequestParams", "ListPromptsResult", "prompts"},
	{"prompts/get", byClient, 1, 4, "GetPromptRequestParams", "GetPromptResult", "prompts"},
	{"prompts/get", byClient, 5, 5, "GetPromptRequestParams", "PromptRound", "prompts"},
	{"resources/list", byClient, 1, 5, "PaginatedRequestParams", "ListResourcesResult", "resources"},
	{"resources/templates/list", byClient, 1, 5, "PaginatedRequestParams", "ListResourceTemplatesResult", "resources"},
	{"resources/read", byClient, 1, 4, "ReadResourceRequestParams", "ReadResourceResult", "resources"},
	{"resources/read", byClient, 5, 5, "ReadResourceRequestParams", "ResourceRound", "resources"},
	{"resources/subscribe", byClient, 1, 4, "SubscribeRequestParams", "Result", "resources subscribe"},
	{"resources/unsubscribe", byClient, 1, 4, "SubscribeRequestParams", "Result", "resources subscribe"},
	{"completion/complete", byClient, 1, 1, "CompleteRequestParams", "CompleteResult", ""},
	{"completion/complete", byClient, 2, 5, "CompleteRequestParams", "CompleteResult", "completions"},
	{"logging/setLevel", byClient, 1, 4, "SetLevelRequestParams", "Result", "logging"},
	{"sampling/createMessage", byServer, 1, 3, "CreateMessageRequestParams", "CreateMessageResult", "sampling"},
	{"sampling/createMessage", byServer, 4, 4, "CreateMessageRequestParams", "AskedSampling", "sampling"},
	{"elicitation/create", byServer, 3, 3, "ElicitRequestFormParams", "ElicitResult", "elicitation"},
	{"elicitation/create", byServer, 4, 4, "ElicitRequestParams", "AskedElicitation", "elicitation"},
	{"roots/list", byServer, 1, 4, "RequestParams", "ListRootsResult", "roots"},
	{"tasks/get", byBoth, 4, 4, "TaskIdParams", "TaskResult", "tasks"},
	{"tasks/result", byBoth, 4, 4, "TaskIdParams", "", "tasks"}, // answered as the task's request would be
	{"tasks/list", byBoth, 4, 4, "PaginatedRequestParams", "ListTasksResult", "tasks list"},
	{"tasks/cancel", byBoth, 4, 4, "TaskIdParams", "TaskResult", "tasks cancel"},
	{"tasks/get", byClient, 5, 5, "TaskIdParams", "GetTask", ""},
	{"tasks/update", byClient, 5, 5, "UpdateTaskParams", "Acknowledged", ""},
	{"tasks/cancel", byClient, 5, 5, "TaskIdParams", "Acknowledged", ""},

	{"notifications/initialized", byClient, 1, 4, "NotificationParams", "", ""},
	{"notifications/cancelled", byBoth, 1, 5, "CancelledParams", "", ""},
	{"notifications/progress", byBoth, 1, 4, "ProgressParams", "", ""},
	{"notifications/progress", byServer, 5, 5, "ProgressParams", "", ""},
	{"notifications/message", byServer, 1, 5, "LogParams", "", ""},
	{"notifications/resources/updated", byServer, 1, 5, "UpdatedParams", "", ""},
	{"notifications/resources/list_changed", byServer, 1, 5, "NotificationParams", "", ""},
	{"notifications/tools/list_changed", byServer, 1, 5, "NotificationParams", "", ""},
	{"notifications/prompts/list_changed", byServer, 1, 5, "NotificationParams", "", ""},
	{"notifications/roots/list_changed", byClient, 1, 4, "NotificationParams", "", ""},
	{"notifications/tasks/status", byBoth, 4, 4, "TaskStatusParams", "", ""},
	{"notifications/elicitation/complete", byServer, 4, 4, "ElicitationCompleteParams", "", ""},
	{"notifications/subscriptions/acknowledged", byServer, 5, 5, "AcknowledgedParams", "", ""},
	{"notifications/tasks", byServer, 5, 5, "TaskNotice", "", ""},
}

// errorRow: the definition of error.data for a code.
type errorRow struct {
	Code     int64
	From, To revision
	Data     string
}

var errorData = []errorRow{
	{-32042, 4, 4, "URLElicitationData"},
	{-32021, 5, 5, "MissingCapabilityData"},
	{-32022, 5, 5, "UnsupportedVersionData"},
}

// methodsByName holds the rows of a method.
var methodsByName = func() map[string][]*methodRow {
	m := map[string][]*methodRow{}
	for i := range methods {
		m[methods[i].Method] = append(m[methods[i].Method], &methods[i])
	}
	return m
}()

// rowOf is the row of a method in a revision. known: another revision has it.
func rowOf(method string, rev revision) (row *methodRow, known bool) {
	rows := methodsByName[method]
	for _, r := range rows {
		if r.From <= rev && rev <= r.To {
			return r, true
		}
	}
	return nil, len(rows) > 0
}

// notification: the method is one without an answer.
func notification(method string) bool {
	return strings.HasPrefix(method, "notifications/")
}

// declared follows a capability's name down.
func declared(caps jsonrpc.Value, path string) bool {
	for name := range strings.FieldsSeq(path) {
		if caps = caps.Get(name); !caps.Exists() || caps.Type() == jsonrpc.Null {
			return false
		}
		if on, isBool := caps.Bool(); isBool && !on {
			return false
		}
	}
	return true
}
