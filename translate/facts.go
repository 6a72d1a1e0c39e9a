package translate

import "taskbridge/translate/jsonrpc"

// Fact says what a message is, in either era. Spans are Values of the
// message; absent ones do not exist.
type Fact struct {
	// Method is the request's, for responses the one they answer.
	Method string
	// Name is the tool, prompt or resource asked for, or the task's id: what
	// Mcp-Name carries.
	Name string
	// TaskIDs are all places where a task's id stands.
	TaskIDs []jsonrpc.Value
	// Token is the progress token, Cursor a page's, State a requestState.
	Token, Cursor, State jsonrpc.Value
	// Final: the message ends its exchange.
	Final bool
}

// nameRow: which member of params Mcp-Name mirrors (2026-07-28
// streamable-http, Standard Request Headers; tasks extension, Routing
// Headers).
type nameRow struct{ method, member string }

var nameRows = []nameRow{
	{"tools/call", "name"},
	{"prompts/get", "name"},
	{"resources/read", "uri"},
	{"tasks/get", "taskId"},
	{"tasks/update", "taskId"},
	{"tasks/cancel", "taskId"},
}

// NameMember is the member of params that Mcp-Name mirrors, or "".
func NameMember(method string) string {
	for _, r := range nameRows {
		if r.method == method {
			return r.member
		}
	}
	return ""
}

// Facts reads a message. method is its own for requests and notifications,
// and the one it answers for responses.
func Facts(m *jsonrpc.Message, method string) Fact {
	f := Fact{Method: method, Final: m.Kind == jsonrpc.Response || m.Kind == jsonrpc.ErrorResponse}
	if f.Final {
		resultFacts(&f, m.Result())
		return f
	}
	params := m.Params()
	if key := NameMember(method); key != "" {
		f.Name, _ = params.Get(key).Str()
	}
	f.Token = params.Get("_meta").Get(MetaProgress)
	if method == "notifications/progress" {
		f.Token = params.Get("progressToken")
	}
	f.Cursor = params.Get("cursor")
	f.State = params.Get("requestState")
	if TaskMethod(method) {
		f.add(params.Get("taskId"))
	}
	f.add(params.Get("_meta").Get(MetaRelatedTask).Get("taskId"))
	for id := range params.Get("notifications").Get("taskIds").Elems() {
		f.add(id)
	}
	return f
}

func resultFacts(f *Fact, result jsonrpc.Value) {
	if !result.Exists() {
		return
	}
	f.Cursor = result.Get("nextCursor")
	f.State = result.Get("requestState")
	kind, _ := result.Get("resultType").Str()
	if kind == "task" || TaskMethod(f.Method) {
		f.add(result.Get("taskId"))
	}
	if f.Method == "tools/call" {
		f.add(result.Get("task").Get("taskId"))
	}
	if f.Method == "tasks/list" {
		for t := range result.Get("tasks").Elems() {
			f.add(t.Get("taskId"))
		}
	}
	f.add(result.Get("_meta").Get(MetaRelatedTask).Get("taskId"))
}

func (f *Fact) add(v jsonrpc.Value) {
	if v.Exists() && v.Type() == jsonrpc.String {
		f.TaskIDs = append(f.TaskIDs, v)
	}
}

// TaskMethod: methods and notifications whose params or flat result are
// about one task.
func TaskMethod(method string) bool {
	switch method {
	case "tasks/get", "tasks/result", "tasks/update", "tasks/cancel",
		"notifications/tasks", "notifications/tasks/status":
		return true
	}
	return false
}

// DeclaresTasks: a modern request's capabilities hold the tasks extension.
func DeclaresTasks(m *jsonrpc.Message) bool {
	return m.At("params", "_meta", MetaClientCaps, "extensions", ExtTasks).Exists()
}
