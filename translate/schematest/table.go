package schematest

// Kind says what a message is.
type Kind uint8

// The kinds of message.
const (
	Request Kind = iota + 1
	Notification
	Result
	Error
)

func (k Kind) String() string {
	return [...]string{"kind 0", "request", "notification", "result", "error"}[k]
}

// extTasks names the schema of the tasks extension, latestModern the revision
// whose definitions its own build on.
const (
	extTasks     = "ext-tasks"
	latestLegacy = "2025-11-25"
	latestModern = "2026-07-28"
)

// row: the definition of one method's message. Part is what of the message is
// held against it: "" the whole, else this member.
type row struct {
	Method     string
	Kind       Kind
	Definition string
	Part       string
}

// legacyRows of 2025-11-25; earlier revisions lack some definitions, and with
// them the methods.
var legacyRows = []row{
	{"initialize", Request, "InitializeRequest", ""},
	{"ping", Request, "PingRequest", ""},
	{"tools/list", Request, "ListToolsRequest", ""},
	{"tools/call", Request, "CallToolRequest", ""},
	{"prompts/list", Request, "ListPromptsRequest", ""},
	{"prompts/get", Request, "GetPromptRequest", ""},
	{"resources/list", Request, "ListResourcesRequest", ""},
	{"resources/templates/list", Request, "ListResourceTemplatesRequest", ""},
	{"resources/read", Request, "ReadResourceRequest", ""},
	{"resources/subscribe", Request, "SubscribeRequest", ""},
	{"resources/unsubscribe", Request, "UnsubscribeRequest", ""},
	{"completion/complete", Request, "CompleteRequest", ""},
	{"logging/setLevel", Request, "SetLevelRequest", ""},
	{"tasks/get", Request, "GetTaskRequest", ""},
	{"tasks/result", Request, "GetTaskPayloadRequest", ""},
	{"tasks/list", Request, "ListTasksRequest", ""},
	{"tasks/cancel", Request, "CancelTaskRequest", ""},
	{"elicitation/create", Request, "ElicitRequest", ""},
	{"sampling/createMessage", Request, "CreateMessageRequest", ""},
	{"roots/list", Request, "ListRootsRequest", ""},

	{"initialize", Result, "InitializeResult", "result"},
	{"ping", Result, "EmptyResult", "result"},
	{"tools/list", Result, "ListToolsResult", "result"},
	{"tools/call", Result, "CallToolResult", "result"}, // or CreateTaskResult, see shapes
	{"prompts/list", Result, "ListPromptsResult", "result"},
	{"prompts/get", Result, "GetPromptResult", "result"},
	{"resources/list", Result, "ListResourcesResult", "result"},
	{"resources/templates/list", Result, "ListResourceTemplatesResult", "result"},
	{"resources/read", Result, "ReadResourceResult", "result"},
	{"resources/subscribe", Result, "EmptyResult", "result"},
	{"resources/unsubscribe", Result, "EmptyResult", "result"},
	{"completion/complete", Result, "CompleteResult", "result"},
	{"logging/setLevel", Result, "EmptyResult", "result"},
	{"tasks/get", Result, "GetTaskResult", "result"},
	{"tasks/result", Result, "CallToolResult", "result"}, // of the one request that can be a task
	{"tasks/list", Result, "ListTasksResult", "result"},
	{"tasks/cancel", Result, "CancelTaskResult", "result"},
	{"elicitation/create", Result, "ElicitResult", "result"},
	{"sampling/createMessage", Result, "CreateMessageResult", "result"},
	{"roots/list", Result, "ListRootsResult", "result"},

	{"notifications/initialized", Notification, "InitializedNotification", ""},
	{"notifications/cancelled", Notification, "CancelledNotification", ""},
	{"notifications/progress", Notification, "ProgressNotification", ""},
	{"notifications/message", Notification, "LoggingMessageNotification", ""},
	{"notifications/resources/updated", Notification, "ResourceUpdatedNotification", ""},
	{"notifications/resources/list_changed", Notification, "ResourceListChangedNotification", ""},
	{"notifications/tools/list_changed", Notification, "ToolListChangedNotification", ""},
	{"notifications/prompts/list_changed", Notification, "PromptListChangedNotification", ""},
	{"notifications/roots/list_changed", Notification, "RootsListChangedNotification", ""},
	{"notifications/tasks/status", Notification, "TaskStatusNotification", ""},
	{"notifications/elicitation/complete", Notification, "ElicitationCompleteNotification", ""},
}

// modernRows of 2026-07-28.
var modernRows = []row{
	{"server/discover", Request, "DiscoverRequest", ""},
	{"subscriptions/listen", Request, "SubscriptionsListenRequest", ""},
	{"tools/list", Request, "ListToolsRequest", ""},
	{"tools/call", Request, "CallToolRequest", ""},
	{"prompts/list", Request, "ListPromptsRequest", ""},
	{"prompts/get", Request, "GetPromptRequest", ""},
	{"resources/list", Request, "ListResourcesRequest", ""},
	{"resources/templates/list", Request, "ListResourceTemplatesRequest", ""},
	{"resources/read", Request, "ReadResourceRequest", ""},
	{"completion/complete", Request, "CompleteRequest", ""},
	{"tasks/get", Request, "RequestParams", "params"}, // and extRows
	{"tasks/update", Request, "RequestParams", "params"},
	{"tasks/cancel", Request, "RequestParams", "params"},

	{"server/discover", Result, "DiscoverResult", "result"},
	{"subscriptions/listen", Result, "SubscriptionsListenResult", "result"},
	{"tools/list", Result, "ListToolsResult", "result"},
	{"tools/call", Result, "CallToolResult", "result"}, // or another, see shapes
	{"prompts/list", Result, "ListPromptsResult", "result"},
	{"prompts/get", Result, "GetPromptResult", "result"},
	{"resources/list", Result, "ListResourcesResult", "result"},
	{"resources/templates/list", Result, "ListResourceTemplatesResult", "result"},
	{"resources/read", Result, "ReadResourceResult", "result"},
	{"completion/complete", Result, "CompleteResult", "result"},
	{"tasks/get", Result, "Result", "result"},
	{"tasks/update", Result, "EmptyResult", "result"},
	{"tasks/cancel", Result, "EmptyResult", "result"},

	{"notifications/cancelled", Notification, "CancelledNotification", ""},
	{"notifications/progress", Notification, "ProgressNotification", ""},
	{"notifications/message", Notification, "LoggingMessageNotification", ""},
	{"notifications/resources/updated", Notification, "ResourceUpdatedNotification", ""},
	{"notifications/resources/list_changed", Notification, "ResourceListChangedNotification", ""},
	{"notifications/tools/list_changed", Notification, "ToolListChangedNotification", ""},
	{"notifications/prompts/list_changed", Notification, "PromptListChangedNotification", ""},
	{"notifications/subscriptions/acknowledged", Notification, "SubscriptionsAcknowledgedNotification", ""},
	{"notifications/tasks", Notification, "NotificationParams", "params"},
}

// extRows of the tasks extension, beside those of modernRows.
var extRows = []row{
	{"tasks/get", Request, "GetTaskRequest", ""},
	{"tasks/update", Request, "UpdateTaskRequest", ""},
	{"tasks/cancel", Request, "CancelTaskRequest", ""},
	{"tasks/get", Result, "GetTaskResult", "result"},
	{"tasks/update", Result, "UpdateTaskResult", "result"},
	{"tasks/cancel", Result, "CancelTaskResult", "result"},
	{"notifications/tasks", Notification, "TaskStatusNotification", ""},
}

// errorDefinitions of codes that have one of their own.
var errorDefinitions = map[string]map[string]string{
	latestLegacy: {"-32042": "URLElicitationRequiredError"},
	latestModern: {
		"-32020": "HeaderMismatchError",
		"-32021": "MissingRequiredClientCapabilityError",
		"-32022": "UnsupportedProtocolVersionError",
	},
}
