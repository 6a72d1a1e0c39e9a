package translate

import "taskbridge/translate/jsonrpc"

// IsQuestion: requests a server may put to a client (2025-11-25 client/*;
// 2026-07-28 basic/patterns/mrtr, InputRequests).
func IsQuestion(method string) bool {
	return method == "elicitation/create" || method == "sampling/createMessage" || method == "roots/list"
}

// QuestionToLegacy makes the request a legacy client is asked with from an
// entry of inputRequests. taskID empty: outside a task, no related-task.
func QuestionToLegacy(id jsonrpc.ID, method string, params jsonrpc.Value, taskID, elicitationID string) []byte {
	if params.Type() != jsonrpc.Object {
		params, _ = jsonrpc.ParseValue([]byte("{}"))
	}
	e := params.Edit()
	deleteMember(e, params, "task")
	if elicitationID != "" {
		setMember(e, params, "elicitationId", jsonrpc.Quote(elicitationID))
	}
	if taskID != "" {
		editMeta(e, params, nil, member{MetaRelatedTask, relatedTask(taskID)})
	}
	return jsonrpc.NewRequest(id, method, e.Bytes())
}

// QuestionToModern makes an entry of inputRequests from a legacy server's
// request: no id, no related-task, no elicitationId (2026-07-28 changelog,
// Minor changes 11), no task augmentation.
func QuestionToModern(method string, params jsonrpc.Value) []byte {
	b := jsonrpc.NewObject().Str("method", method)
	if params.Type() != jsonrpc.Object {
		return b.Raw("params", []byte("{}")).Bytes()
	}
	e := params.Edit()
	deleteMember(e, params, "task")
	deleteMember(e, params, "elicitationId")
	editMeta(e, params, []string{MetaRelatedTask, MetaProgress})
	return b.Raw("params", e.Bytes()).Bytes()
}

// RelatedTask reads the task a legacy message belongs to, or "".
func RelatedTask(params jsonrpc.Value) string {
	id, _ := params.Get("_meta").Get(MetaRelatedTask).Get("taskId").Str()
	return id
}

// AnswerToModern makes an entry of inputResponses from a legacy client's
// result.
func AnswerToModern(result jsonrpc.Value) []byte {
	e := result.Edit()
	editMeta(e, result, []string{MetaRelatedTask})
	return e.Bytes()
}

// AnswerToLegacy makes the response to a legacy server's own request from an
// entry of inputResponses; related-task goes with it (2025-11-25 tasks,
// Associating Task-Related Messages). taskID empty: outside a task.
func AnswerToLegacy(id jsonrpc.ID, answer jsonrpc.Value, taskID string) []byte {
	e := answer.Edit()
	deleteMember(e, answer, "resultType")
	if taskID != "" {
		editMeta(e, answer, nil, member{MetaRelatedTask, relatedTask(taskID)})
	}
	return jsonrpc.NewResult(id, e.Bytes())
}

// RefusedAnswer is what a modern server is told when a legacy client answered
// its elicitation with an error: there is no other form.
// ok is false for sampling and roots, which end the call or task instead.
func RefusedAnswer(method string) (raw []byte, ok bool) {
	if method == "elicitation/create" {
		return []byte(`{"action":"cancel"}`), true
	}
	return nil, false
}
