package replay

import (
	"fmt"
	"slices"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// Reason says in a word why an operation is not replayed.
type Reason string

// The reasons. NotReadOnly: the tool's annotations do not say readOnlyHint:true
// (whose default is false, 2025-11-25 server/tools and schema, ToolAnnotations).
// Unannotated: the tool has none, or was never listed, or the method is one
// nobody knows. Needs: it names a task that another operation does not make, or
// that was made before the capture began; a List, that its first page is not in
// the capture.
const (
	Redacted    Reason = "redacted"
	NotReadOnly Reason = "not-read-only"
	Unannotated Reason = "unannotated"
	Unfinished  Reason = "unfinished"
	Gap         Reason = "gap"
	Needs       Reason = "needs-another"
)

// Safety says which tools may be run again.
type Safety struct {
	// Allow names tools (and methods no specification knows) that may.
	Allow []string
	// AllowUnannotated lets those without annotations, too.
	AllowUnannotated bool
}

// Step is what a plan has in mind for one operation.
type Step struct {
	Op *operation.Operation
	// Selected: it was asked for. Others are sent where a selected one needs
	// them.
	Selected bool
	Send     bool
	// Reason says why a selected one is not sent, Why it in words.
	Reason Reason
	Why    string
}

// Plan says of each operation of a capture whether it is replayed.
type Plan struct {
	Steps   []*Step
	makers  map[string]*Step // by the task's id in the capture
	clients map[string]*planned
	safety  Safety
	tools   map[string]annotation
}

// planned are the steps of one client of the capture.
type planned struct {
	key   string
	steps []*Step
}

type annotation uint8

const (
	annotatedNot annotation = iota
	annotatedReadOnly
	annotatedOther
)

// NewPlan looks at all operations of a capture's client leg, in their order.
// selected is asked for each; nil selects all.
func NewPlan(ops []*operation.Operation, selected func(*operation.Operation) bool, s Safety) *Plan {
	p := &Plan{makers: map[string]*Step{}, clients: map[string]*planned{}, safety: s, tools: map[string]annotation{}}
	for _, op := range ops {
		p.learn(op)
		if op.First().Record.Dir == translate.ToClient {
			continue // nothing a client did
		}
		step := &Step{Op: op, Selected: selected == nil || selected(op)}
		p.Steps = append(p.Steps, step)
		if op.TaskID != "" && p.makers[op.TaskID] == nil && op.Kind == operation.Task && op.Method == "tools/call" {
			p.makers[op.TaskID] = step
		}
		key := clientKey(op)
		if p.clients[key] == nil {
			p.clients[key] = &planned{key: key}
		}
		p.clients[key].steps = append(p.clients[key].steps, step)
	}
	for _, step := range p.Steps {
		if step.Selected || standing(step.Op) {
			p.decide(step)
		}
	}
	return p
}

// standing: what later operations of the session stand on, whether they are
// selected or not.
func standing(op *operation.Operation) bool {
	return op.Era != translate.Modern && (op.Kind == operation.Open || op.Kind == operation.Listen || op.Method == "logging/setLevel" || op.Method == "notifications/initialized")
}

// clientKey tells the clients of a capture apart: a legacy one is its session,
// or its connection; modern ones differ by who speaks.
func clientKey(op *operation.Operation) string {
	switch {
	case op.Era == translate.Modern:
		return "modern " + op.Principal + " " + op.Conn + " " + op.Client
	case op.Session != "":
		return "session " + op.Session
	}
	return "conn " + op.Conn + " " + op.Principal
}

// learn keeps what a list says of tools. Where lists differ the worst counts.
func (p *Plan) learn(op *operation.Operation) {
	if op.Kind != operation.List || op.Method != "tools/list" || op.Result == nil {
		return
	}
	result, err := jsonrpc.ParseValue(op.Result)
	if err != nil {
		return
	}
	for tool := range result.Get("tools").Elems() {
		name, _ := tool.Get("name").Str()
		a := annotatedNot
		if hints := tool.Get("annotations"); hints.Get("readOnlyHint").Exists() || hints.Get("destructiveHint").Exists() {
			a = annotatedOther
			destructive, _ := hints.Get("destructiveHint").Bool()
			if readOnly, _ := hints.Get("readOnlyHint").Bool(); readOnly && !destructive {
				a = annotatedReadOnly
			}
		}
		if was, known := p.tools[name]; !known || was == annotatedReadOnly || a == annotatedOther {
			p.tools[name] = a
		}
	}
}

// decide says whether a step is sent, and what it needs with it.
func (p *Plan) decide(step *Step) {
	if step.Send || step.Reason != "" {
		return
	}
	step.Reason, step.Why = p.refuse(step)
	step.Send = step.Reason == ""
}

func (p *Plan) refuse(step *Step) (Reason, string) {
	op := step.Op
	for _, part := range op.Parts {
		if part.Record.Dir == translate.ToServer && len(part.Record.Redacted) > 0 {
			return Redacted, fmt.Sprintf("line %d: something was taken out of what the client sent", part.Record.Line)
		}
	}
	if op.First().Msg == nil && op.Method != "GET" && op.Method != "DELETE" {
		return Needs, "the capture does not hold its message"
	}
	if m := op.First().Msg; m != nil && m.Method == "" {
		return Needs, "it answers a question that is not in the capture"
	}
	if reason, why := p.unsafe(op); reason != "" {
		return reason, why
	}
	switch {
	case op.Gap:
		return Gap, "frames were dropped from the capture while it ran"
	case op.Outcome == operation.Unfinished && op.Kind != operation.Listen:
		return Unfinished, "the capture ends before it did"
	}
	return p.needs(step)
}

// unsafe says why an operation must not be done twice without leave.
func (p *Plan) unsafe(op *operation.Operation) (Reason, string) {
	name, what := op.Name, "tool"
	a := p.tools[name]
	if op.Method != "tools/call" {
		if translate.Defined(op.Method) || op.Method == "GET" || op.Method == "DELETE" || op.Kind == operation.Open {
			return "", ""
		}
		name, what, a = op.Method, "method", annotatedNot
	}
	switch {
	case a == annotatedReadOnly, slices.Contains(p.safety.Allow, name):
		return "", ""
	case a == annotatedOther:
		return NotReadOnly, fmt.Sprintf("%s %s may change something; allow it with --allow %s", what, name, name)
	case p.safety.AllowUnannotated:
		return "", ""
	}
	return Unannotated, fmt.Sprintf("nothing says that %s %s only reads; allow it with --allow %s or --allow-unannotated", what, name, name)
}

// needs looks for what the capture must have shown before.
func (p *Plan) needs(step *Step) (Reason, string) {
	op := step.Op
	if op.Outcome != operation.OK && op.Outcome != operation.ToolError && op.Outcome != operation.Cancelled {
		return "", "" // what is refused without it may be refused again
	}
	first := op.First()
	if first.Msg == nil {
		return "", ""
	}
	f := translate.Facts(first.Msg, op.Method)
	if f.Cursor.Exists() && f.Cursor.Type() == jsonrpc.String {
		return Needs, "its first page is not in the capture"
	}
	if f.State.Exists() {
		return Needs, "what its requestState stands for is not in the capture"
	}
	for _, id := range f.TaskIDs {
		text, _ := id.Str()
		maker := p.makers[text]
		if maker == nil {
			return Needs, "it names a task whose beginning is not in the capture"
		}
		if maker == step {
			continue
		}
		if p.decide(maker); !maker.Send {
			return Needs, fmt.Sprintf("it names the task of operation %d, which is not replayed", maker.Op.N)
		}
	}
	return "", ""
}
