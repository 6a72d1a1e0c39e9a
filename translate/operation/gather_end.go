package operation

import (
	"bytes"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Operations is what the records so far make, in the order begun. More may be
// added afterwards; the operations are then the same, grown.
func (g *Gatherer) Operations() []*Operation {
	out := make([]*Operation, len(g.jobs))
	for i, j := range g.jobs {
		j.finish(g.gaps)
		out[i] = j.op
	}
	return out
}

// finish says how an operation stands.
func (j *job) finish(gaps int) {
	op := j.op
	if !j.ended {
		j.until = gaps
	}
	op.Gap = j.until > j.began
	switch {
	case op.Outcome == Refused:
		return
	case j.cancel:
		op.Outcome = Cancelled
	case op.Kind == Task:
		j.finishTask()
	case op.Kind == List:
		j.finishList()
	case op.Error != nil:
		op.Outcome = Failed
	case op.Result != nil && isToolError(op):
		op.Outcome = ToolError
	case j.given:
		op.Outcome = OK
	default:
		op.Outcome = Unfinished
	}
}

func isToolError(op *Operation) bool {
	return op.Method == "tools/call" && translate.IsError(translate.ParseResult(op.Result))
}

// finishTask: a payload says more than a status, which servers of each era word
// in their own way (2025-11-25 tasks, Task Status; tasks extension, Task Status).
func (j *job) finishTask() {
	op := j.op
	switch {
	case op.TaskStatus == translate.Cancelled:
		op.Outcome = Cancelled
	case op.Result != nil && translate.IsError(translate.ParseResult(op.Result)):
		op.Outcome = ToolError
	case op.Result != nil:
		op.Outcome = OK
	case op.Error != nil || op.TaskStatus == translate.Failed:
		op.Outcome = Failed
	case op.TaskStatus == translate.Completed:
		op.Outcome = OK
	case j.pollErr != nil:
		op.Outcome, op.Error = Failed, j.pollErr
	default:
		op.Outcome = Unfinished
	}
}

func (j *job) finishList() {
	op := j.op
	op.Pages = len(j.pages)
	switch {
	case op.Error != nil:
		op.Outcome = Failed
	case len(j.pages) == 0:
		op.Outcome = Unfinished
	default:
		op.Outcome = OK
		op.More = j.pages[len(j.pages)-1].Get("nextCursor").Type() == jsonrpc.String
		op.Result = joinPages(j.pages, listMembers[op.Method])
	}
}

// joinPages is the first page's result with the items of all and no cursor.
func joinPages(pages []jsonrpc.Value, member string) []byte {
	first := pages[0]
	e := first.Edit()
	e.Delete(first.Get("nextCursor"))
	if len(pages) > 1 {
		items := []byte{'['}
		for _, page := range pages {
			list := page.Get(member)
			if list.Type() != jsonrpc.Array {
				continue
			}
			inner := list.Raw()[1 : len(list.Raw())-1]
			if len(bytes.TrimSpace(inner)) == 0 {
				continue
			}
			if len(items) > 1 {
				items = append(items, ',')
			}
			items = append(items, inner...)
		}
		e.Set(first, member, append(items, ']'))
	}
	return e.Bytes()
}
