package translate

// Loss names something one dialect says and the other cannot. Every loss is
// counted in taskbridge_translation_loss_total{route,what}.
type Loss string

// The losses; their rows in losses say what each of them is.
const (
	LossRequestedTTL     Loss = "requested_ttl"
	LossRequestState     Loss = "request_state"
	LossStructured       Loss = "structured_content"
	LossOutputSchema     Loss = "output_schema"
	LossHeaderTool       Loss = "header_tool"
	LossCacheHints       Loss = "cache_hints"
	LossTaskSupport      Loss = "task_support"
	LossContentType      Loss = "content_type"
	LossNewerMember      Loss = "newer_member"
	LossHeldBudget       Loss = "held_budget"
	LossCancel           Loss = "task_cancel"
	LossStatusNotice     Loss = "status_notice"
	LossListFilter       Loss = "listen_filter"
	LossUnaskableInput   Loss = "unaskable_input"
	LossUnattached       Loss = "unattached_question"
	LossLateAnswer       Loss = "late_answer"
	LossServerTaskMethod Loss = "server_task_method"
	LossLogLine          Loss = "log_line"
)

type lossRow struct {
	What        Loss
	Direction   string
	Description string
}

var losses = []lossRow{
	{LossRequestedTTL, "legacy client → modern server", "the ttl a client asks for has no place in a modern tools/call; the server chooses"},
	{LossTaskSupport, "legacy server → modern client", "execution.taskSupport is not shown; the server alone decides whether a call becomes a task"},
	{LossCacheHints, "modern server → legacy client", "ttlMs and cacheScope of lists have no legacy form"},
	{LossRequestState, "modern server → legacy client", "requestState stays with the proxy"},
	{LossStructured, "modern server → legacy client", "structuredContent that is no object is removed; its JSON is added as text if there is no other content"},
	{LossOutputSchema, "modern server → legacy client", "outputSchema whose root is no object schema is removed"},
	{LossContentType, "modern server → legacy client", "content of a type the client's revision lacks becomes text"},
	{LossNewerMember, "modern server → legacy client", "members the client's revision lacks are removed"},
	{LossHeaderTool, "modern server → legacy client", "a tool whose x-mcp-header marks break the rules is left out of tools/list"},
	{LossHeldBudget, "modern server → legacy client", "a held result over the byte budget ends its task as failed"},
	{LossCancel, "modern client → legacy server", "a server without tasks.cancel goes on; the client is acknowledged"},
	{LossStatusNotice, "legacy server → modern client", "a status notice for a task nobody listens to is dropped"},
	{LossListFilter, "modern client → legacy server", "a listen filter the server cannot serve is left out of the acknowledgement"},
	{LossUnaskableInput, "server → client", "a question in a mode the client did not declare is answered by the proxy"},
	{LossUnattached, "legacy server → modern client", "a question that belongs to no task or call is answered with an error"},
	{LossLateAnswer, "client → server", "an answer to a question that is gone is dropped"},
	{LossLogLine, "legacy server → modern client", "a log line outside of any request's stream is dropped unless exactly one call is in flight"},
	{LossServerTaskMethod, "legacy server → modern client", "tasks hosted by clients do not exist in the modern era; the server gets -32601"},
}

// Losses lists every loss, its direction and what happens.
func Losses() [][3]string {
	out := make([][3]string, len(losses))
	for i, l := range losses {
		out[i] = [3]string{string(l.What), l.Direction, l.Description}
	}
	return out
}
