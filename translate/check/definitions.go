package check

// revisions in their order; the numbers before members in definitions are
// places in it, from 1. 2026-06-30 differs from 2026-07-28 in error numbers
// only.
var revisions = [...]string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// definitions says what members the messages of all revisions have; see
// notation.go. Names are those of the official schemas, which a test holds the
// rows against. Where the published JSON schemas have "integer" for what the
// specification calls a number (ttl and pollInterval of 2025-11-25, values a
// user gives), it is a number here.
const definitions = `
# Base
RequestId: = string|integer
ProgressToken: = string|integer
Role: = "user"|"assistant"
LoggingLevel: = "debug"|"info"|"notice"|"warning"|"error"|"critical"|"alert"|"emergency"
Icon: src! string; mimeType string; sizes [string]; theme "dark"|"light"
Implementation: name! string; version! string; 3-:title string; 4-:description string; 4-:websiteUrl string; 4-:icons [Icon]
RequestMeta: progressToken ProgressToken; 5:io.modelcontextprotocol/protocolVersion! string; 5:io.modelcontextprotocol/clientCapabilities! ClientCapabilities; 5:io.modelcontextprotocol/clientInfo Implementation; 5:io.modelcontextprotocol/logLevel LoggingLevel; 4:io.modelcontextprotocol/related-task (taskId! string)
NotificationMeta: 5:io.modelcontextprotocol/subscriptionId RequestId; 4:io.modelcontextprotocol/related-task (taskId! string)
ResultMeta: 5:io.modelcontextprotocol/serverInfo Implementation; 4:io.modelcontextprotocol/related-task (taskId! string)
RequestParams: -4:_meta RequestMeta; 5:_meta! RequestMeta
NotificationParams: _meta NotificationMeta
Result: _meta ResultMeta; 5:resultType! string
PaginatedRequestParams: -4:_meta RequestMeta; 5:_meta! RequestMeta; cursor string
TaskMetadata: ttl number
ClientCapabilities: experimental {object}; -4:roots (listChanged boolean); 5:roots object; -3:sampling object; 4-:sampling (context object; tools object); 3:elicitation object; 4-:elicitation (form object; url object); 4:tasks (list object; cancel object; requests (sampling (createMessage object); elicitation (create object))); 5:extensions {object}
ServerCapabilities: experimental {object}; logging object; 2-:completions object; prompts (listChanged boolean); resources (subscribe boolean; listChanged boolean); tools (listChanged boolean); 4:tasks (list object; cancel object; requests (tools (call object))); 5:extensions {object}

# Opening
InitializeRequestParams: _meta RequestMeta; protocolVersion! string; capabilities! ClientCapabilities; clientInfo! Implementation
InitializeResult: _meta ResultMeta; protocolVersion! string; capabilities! ServerCapabilities; serverInfo! Implementation; instructions string
DiscoverResult: _meta ResultMeta; resultType! string; supportedVersions! [string]; capabilities! ServerCapabilities; instructions string; ttlMs! integer; cacheScope! "public"|"private"

# Content
Annotations: audience [Role]; priority number; 3-:lastModified string
TextContent: type! "text"; text! string; annotations Annotations; 3-:_meta object
ImageContent: type! "image"; data! string; mimeType! string; annotations Annotations; 3-:_meta object
AudioContent: type! "audio"; data! string; mimeType! string; annotations Annotations; 3-:_meta object
TextResourceContents: uri! string; text! string; mimeType string; 3-:_meta object
BlobResourceContents: uri! string; blob! string; mimeType string; 3-:_meta object
AnyContents: = <has: text=TextResourceContents, blob=BlobResourceContents>
EmbeddedResource: type! "resource"; resource! AnyContents; annotations Annotations; 3-:_meta object
Resource: uri! string; name! string; 3-:title string; description string; mimeType string; size integer; annotations Annotations; 4-:icons [Icon]; 3-:_meta object
ResourceLink: type! "resource_link"; uri! string; name! string; title string; description string; mimeType string; size integer; annotations Annotations; 4-:icons [Icon]; _meta object
ContentBlock: = <type: text=TextContent, image=ImageContent, 2-:audio=AudioContent, 3-:resource_link=ResourceLink, resource=EmbeddedResource>

# Tools, prompts, resources, completion, logging
ToolAnnotations: title string; readOnlyHint boolean; destructiveHint boolean; idempotentHint boolean; openWorldHint boolean
ToolExecution: taskSupport "forbidden"|"optional"|"required"
ToolSchema: type! "object"; -4:properties {object}; -4:required [string]; 4-:$schema string
OutputSchema: -4:type! "object"; -4:properties {object}; -4:required [string]; 4-:$schema string
Tool: name! string; 3-:title string; description string; inputSchema! ToolSchema; 3-:outputSchema OutputSchema; 2-:annotations ToolAnnotations; 4:execution ToolExecution; 4-:icons [Icon]; 3-:_meta object
ListToolsResult: _meta ResultMeta; tools! [Tool]; nextCursor string; 5:resultType! string; 5:ttlMs! integer; 5:cacheScope! "public"|"private"
CallToolRequestParams: -4:_meta RequestMeta; 5:_meta! RequestMeta; name! string; arguments object; 4:task TaskMetadata; 5:inputResponses InputResponses; 5:requestState string
CallToolResult: _meta ResultMeta; content! [ContentBlock]; isError boolean; 3-4:structuredContent object; 5:resultType! string
CallToolAnswer: = <has: 4:task=CreateTaskResult, -=CallToolResult>
PromptArgument: name! string; 3-:title string; description string; required boolean
Prompt: name! string; 3-:title string; description string; arguments [PromptArgument]; 4-:icons [Icon]; 3-:_meta object
ListPromptsResult: _meta ResultMeta; prompts! [Prompt]; nextCursor string; 5:resultType! string; 5:ttlMs! integer; 5:cacheScope! "public"|"private"
GetPromptRequestParams: -4:_meta RequestMeta; 5:_meta! RequestMeta; name! string; arguments {string}; 5:inputResponses InputResponses; 5:requestState string
PromptMessage: role! Role; content! ContentBlock
GetPromptResult: _meta ResultMeta; description string; messages! [PromptMessage]; 5:resultType! string
ListResourcesResult: _meta ResultMeta; resources! [Resource]; nextCursor string; 5:resultType! string; 5:ttlMs! integer; 5:cacheScope! "public"|"private"
ResourceTemplate: uriTemplate! string; name! string; 3-:title string; description string; mimeType string; annotations Annotations; 4-:icons [Icon]; 3-:_meta object
ListResourceTemplatesResult: _meta ResultMeta; resourceTemplates! [ResourceTemplate]; nextCursor string; 5:resultType! string; 5:ttlMs! integer; 5:cacheScope! "public"|"private"
ReadResourceRequestParams: -4:_meta RequestMeta; 5:_meta! RequestMeta; uri! string; 5:inputResponses InputResponses; 5:requestState string
ReadResourceResult: _meta ResultMeta; contents! [AnyContents]; 5:resultType! string; 5:ttlMs! integer; 5:cacheScope! "public"|"private"
SubscribeRequestParams: _meta RequestMeta; uri! string
PromptReference: type! "ref/prompt"; name! string; 3-:title string
ResourceTemplateReference: type! "ref/resource"; uri! string
CompleteRequestParams: -4:_meta RequestMeta; 5:_meta! RequestMeta; ref! <type: ref/prompt=PromptReference, ref/resource=ResourceTemplateReference>; argument! (name! string; value! string); 3-:context (arguments {string})
CompleteResult: _meta ResultMeta; completion! (values! [string]; total integer; hasMore boolean); 5:resultType! string
SetLevelRequestParams: _meta RequestMeta; level! LoggingLevel

# What clients are asked
ModelPreferences: hints [(name string)]; costPriority number; speedPriority number; intelligencePriority number
ToolUseContent: type! "tool_use"; id! string; name! string; input! object; _meta object
ToolResultContent: type! "tool_result"; toolUseId! string; content! [ContentBlock]; 4:structuredContent object; isError boolean; _meta object
SamplingContent: = <type: text=TextContent, image=ImageContent, 2-:audio=AudioContent, 4-:tool_use=ToolUseContent, 4-:tool_result=ToolResultContent>
SamplingContents: = SamplingContent|[SamplingContent]
SamplingMessage: role! Role; -3:content! SamplingContent; 4-:content! SamplingContents; 4-:_meta object
ToolChoice: mode "auto"|"required"|"none"
CreateMessageRequestParams: -4:_meta RequestMeta; messages! [SamplingMessage]; maxTokens! integer; modelPreferences ModelPreferences; systemPrompt string; includeContext "none"|"thisServer"|"allServers"; temperature number; stopSequences [string]; metadata object; 4:task TaskMetadata; 4-:tools [Tool]; 4-:toolChoice ToolChoice
CreateMessageResult: _meta object; role! Role; -3:content! SamplingContent; 4-:content! SamplingContents; model! string; stopReason string
TextSchema: type! "string"; title string; description string; minLength integer; maxLength integer; format "email"|"uri"|"date"|"date-time"; 4-:default string; enum [string]; enumNames [string]; 4-:oneOf [(const! string; title! string)]
NumberSchema: type! "number"|"integer"; title string; description string; minimum number; maximum number; 4-:default number
BooleanSchema: type! "boolean"; title string; description string; default boolean
ManySchema: type! "array"; title string; description string; minItems integer; maxItems integer; items! <has: enum=ManyPlain, anyOf=ManyTitled>; default [string]
ManyPlain: type! "string"; enum! [string]
ManyTitled: anyOf! [(const! string; title! string)]
PrimitiveSchemaDefinition: = <type: string=TextSchema, number=NumberSchema, integer=NumberSchema, boolean=BooleanSchema, 4-:array=ManySchema>
RequestedSchema: type! "object"; properties! {PrimitiveSchemaDefinition}; required [string]; 4-:$schema string
ElicitRequestFormParams: -4:_meta RequestMeta; 4-:mode "form"; message! string; requestedSchema! RequestedSchema; 4:task TaskMetadata
ElicitRequestURLParams: -4:_meta RequestMeta; mode! "url"; message! string; url! string; 4:elicitationId! string; 4:task TaskMetadata
ElicitRequestParams: = <mode: 4-:url=ElicitRequestURLParams, *=ElicitRequestFormParams, -=ElicitRequestFormParams>
ElicitResult: -4:_meta object; action! "accept"|"decline"|"cancel"; -3:content {string|number|boolean}; 4-:content {string|number|boolean|[string]}
Root: uri! string; name string; 3-:_meta object
ListRootsResult: -4:_meta object; roots! [Root]
AskedSampling: = <has: task=CreateTaskResult, -=CreateMessageResult>
AskedElicitation: = <has: task=CreateTaskResult, -=ElicitResult>

# Rounds of one request
AskElicit: method! "elicitation/create"; params! ElicitRequestParams
AskSampling: method! "sampling/createMessage"; params! CreateMessageRequestParams
AskRoots: method! "roots/list"; params (_meta object)
InputRequest: = <method: elicitation/create=AskElicit, sampling/createMessage=AskSampling, roots/list=AskRoots>
InputRequests: = {InputRequest}
InputResponse: = <has: action=ElicitResult, roots=ListRootsResult, -=CreateMessageResult>
InputResponses: = {InputResponse}
InputRequiredResult: _meta ResultMeta; resultType! "input_required"; inputRequests InputRequests; requestState string
ToolRound: = <resultType: task=CreateTask, input_required=InputRequiredResult, *=CallToolResult, -=CallToolResult>
PromptRound: = <resultType: input_required=InputRequiredResult, *=GetPromptResult, -=GetPromptResult>
ResourceRound: = <resultType: input_required=InputRequiredResult, *=ReadResourceResult, -=ReadResourceResult>

# Tasks of 2025-11-25
TaskStatus: = "working"|"input_required"|"completed"|"failed"|"cancelled"
Task: taskId! string; status! TaskStatus; statusMessage string; createdAt! string; lastUpdatedAt! string; ttl! number|null; pollInterval number
TaskResult: = Result & Task
CreateTaskResult: _meta ResultMeta; task! Task
ListTasksResult: _meta ResultMeta; tasks! [Task]; nextCursor string
TaskIdParams: -4:_meta RequestMeta; 5:_meta! RequestMeta; taskId! string

# Tasks extension
BareTask: taskId! string; status! TaskStatus; statusMessage string; createdAt! string; lastUpdatedAt! string; ttlMs! integer|null; pollIntervalMs integer
RPCError: code! integer; message! string
InputRequiredPart: inputRequests! InputRequests
CompletedPart: result! TaskPayload
TaskPayload: _meta object; content! [ContentBlock]; isError boolean; resultType string
FailedPart: error! RPCError
DetailedTask: = BareTask & <status: input_required=InputRequiredPart, completed=CompletedPart, failed=FailedPart, *=object, -=object>
GetTask: = DetailedTask & (_meta ResultMeta; resultType! "complete")
CreateTask: = BareTask & (_meta ResultMeta; resultType! "task")
Acknowledged: _meta ResultMeta; resultType! "complete"
UpdateTaskParams: _meta! RequestMeta; taskId! string; inputResponses! InputResponses
TaskNotice: = DetailedTask & (_meta NotificationMeta)

# Subscriptions
SubscriptionFilter: toolsListChanged boolean; promptsListChanged boolean; resourcesListChanged boolean; resourceSubscriptions [string]; taskIds [string]
ListenParams: _meta! RequestMeta; notifications! SubscriptionFilter
ListenResult: _meta! (io.modelcontextprotocol/subscriptionId! RequestId; io.modelcontextprotocol/serverInfo Implementation); resultType! string
AcknowledgedParams: _meta NotificationMeta; notifications! SubscriptionFilter

# Notifications
CancelledParams: _meta NotificationMeta; -3:requestId! RequestId; 4:requestId RequestId; 5:requestId! RequestId; reason string
ProgressParams: _meta NotificationMeta; progressToken! ProgressToken; progress! number; total number; 2-:message string
LogParams: _meta NotificationMeta; level! LoggingLevel; logger string; data! any
UpdatedParams: _meta NotificationMeta; uri! string
TaskStatusParams: = NotificationParams & Task
ElicitationCompleteParams: _meta NotificationMeta; elicitationId! string

# Errors that carry data
URLElicitationData: elicitations! [ElicitRequestURLParams]
MissingCapabilityData: requiredCapabilities! ClientCapabilities
UnsupportedVersionData: supported! [string]; requested! string
`
