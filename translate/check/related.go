package check

import (
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// related-task (2025-11-25 basic/utilities/tasks, Associating Task-Related
// Messages): legacy revisions with tasks only.

func relatedOf(body jsonrpc.Value) (id string, ok bool) {
	v := body.Get("_meta").Get(translate.MetaRelatedTask)
	if !v.Exists() {
		return "", false
	}
	id, _ = v.Get("taskId").Str()
	return id, true
}

// relatedResult: tasks/result has it, the others that name their task do not.
func (c *Checker) relatedResult(ev *event) {
	if ev.modern {
		if _, ok := relatedOf(ev.m.Result()); ok {
			c.find(ev, "related/modern", "")
		}
		return
	}
	if ev.rev != r20251125 || len(ev.r.Redacted) > 0 {
		return
	}
	id, has := relatedOf(ev.m.Result())
	switch ev.req.method {
	case "tasks/result":
		switch {
		case !has:
			c.find(ev, "related/missing", "the result of tasks/result has no related-task")
		case hash(id) != ev.req.taskID:
			c.find(ev, "related/other-task", "related-task is %q", clip(id))
		}
	case "tasks/get", "tasks/list", "tasks/cancel":
		if has {
			c.find(ev, "related/unwanted", "the result of %s has related-task", ev.req.method)
		}
	case "elicitation/create", "sampling/createMessage", "roots/list":
		switch {
		case ev.req.related == 0:
		case !has:
			c.find(ev, "related/missing", "the answer to a question of a task has no related-task")
		case hash(id) != ev.req.related:
			c.find(ev, "related/other-task", "related-task is %q, which is not what was asked with", clip(id))
		}
	}
}

// relatedRequest: the client's requests about a task.
func (c *Checker) relatedRequest(ev *event) {
	if _, has := relatedOf(ev.m.Params()); has && !ev.modern {
		c.find(ev, "related/unwanted", "%s has related-task beside its taskId", ev.m.Method)
	}
}

// relatedQuestion: a question on the stream of tasks/result belongs to its task.
func (c *Checker) relatedQuestion(ev *event) {
	id, has := relatedOf(ev.m.Params())
	if has {
		ev.req.related = hash(id)
	}
	if ev.st == nil || ev.st.req == nil || ev.st.req.method != "tasks/result" || !translate.IsQuestion(ev.m.Method) {
		return
	}
	switch {
	case !has:
		c.find(ev, "related/missing", "%s came on the stream of tasks/result without related-task", ev.m.Method)
	case hash(id) != ev.st.req.taskID && ev.st.req.taskID != 0:
		// Servers may send any task's messages on any stream.
		return
	}
}

// relatedProgress: what a call reports once it is a task.
func (c *Checker) relatedProgress(ev *event, req *request) {
	if req.task == nil || req.modern || req.rev != r20251125 || len(ev.r.Redacted) > 0 {
		return
	}
	id, has := relatedOf(ev.m.Params())
	switch {
	case !has:
		c.find(ev, "related/missing", "progress of a task has no related-task")
	case hash(id) != req.taskID:
		c.find(ev, "related/other-task", "related-task is %q", clip(id))
	}
}
