package compare

import (
	"strconv"

	"taskbridge/translate"
	"taskbridge/translate/operation"
)

// outcome compares how the two ended, and says whether what they ended with can
// be compared.
func (d *differ) outcome() bool {
	a, b := outcomeOf(d.a), outcomeOf(d.b)
	ignored := d.da.get("outcome") == nil || d.db.get("outcome") == nil
	if a != b && !ignored && !(d.cross && untold(d.a) != untold(d.b) && failed(a) && failed(b)) {
		x := Difference{Path: "$.outcome", Kind: KindOutcome, Severity: Changed, Text: "it ended in another way", Was: d.ended(d.a, d.da), Now: d.ended(d.b, d.db)}
		ra, known := ranks[a]
		rb, alsoKnown := ranks[b]
		switch {
		case !known || !alsoKnown:
		case b == operation.Unfinished:
			x.Severity, x.Text = Worse, "it never ended"
		case rb > ra:
			x.Severity, x.Text = Worse, "it ended worse"
		case rb < ra:
			x.Severity, x.Text = Better, "it ended better"
		}
		d.add(x)
		return carries(a) && carries(b) // isError set or not: the content may still be the same
	}
	if a == operation.Refused && d.a.Status != d.b.Status {
		d.add(Difference{Path: "$.status", Kind: KindStatus, Severity: Changed, Text: "refused with another HTTP status", Was: strconv.Itoa(d.a.Status), Now: strconv.Itoa(d.b.Status)})
	}
	if untold(d.a) != untold(d.b) {
		d.add(Difference{Path: "$.result", Kind: KindTask, Severity: Note, Text: "one client never fetched the task's result", Was: told(d.a), Now: told(d.b)})
		return false
	}
	return a != operation.Cancelled && d.a.Kind != operation.Listen
}

// carries: such an outcome has a result.
func carries(o operation.Outcome) bool { return o == operation.OK || o == operation.ToolError }

func failed(o operation.Outcome) bool { return o == operation.ToolError || o == operation.Failed }

// untold: a task that ended and whose payload nobody fetched. Legacy calls it
// failed where the modern result has isError (2025-11-25 tasks, Task Status).
func untold(op *operation.Operation) bool {
	return op.Kind == operation.Task && translate.Terminal(op.TaskStatus) && op.TaskStatus != translate.Cancelled && op.Result == nil && op.Error == nil
}

func told(op *operation.Operation) string {
	if untold(op) {
		return "not fetched"
	}
	return "fetched"
}

// ended describes an outcome with what came.
func (d *differ) ended(op *operation.Operation, doc *node) string {
	s := string(op.Outcome)
	switch {
	case op.Outcome == operation.Refused:
		s += " " + strconv.Itoa(op.Status)
	case doc.get("error") != nil:
		s += " " + show(doc.get("error"))
	case op.Outcome == operation.ToolError:
		s += " " + show(doc.at("result", "content"))
	case op.Outcome == operation.Unfinished && op.TaskStatus != "":
		s += ", task " + clip(op.TaskStatus, maxShown)
	}
	return clip(s, maxShown)
}

func pagesText(op *operation.Operation) string {
	s := strconv.Itoa(op.Pages)
	if op.More {
		s += " and more"
	}
	return s
}

// outcomeOf: a stream that was opened and stayed silent was taken, too.
func outcomeOf(op *operation.Operation) operation.Outcome {
	if op.Kind == operation.Listen && op.Outcome == operation.Unfinished {
		return operation.OK
	}
	return op.Outcome
}
