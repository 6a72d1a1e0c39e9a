// Package operation gathers the records of a capture into operations: what a
// client wanted once, whatever number of messages that took in the dialect
// spoken. A tool call is one operation with the task it became, every poll,
// question and answer; so is an exchange of several rounds (2026-07-28 basic,
// Multi Round-Trip Requests). check, diff, replay and the mock server all read
// operations, so that none of them knows a dialect's round trips.
//
// The package is pure.
package operation

import (
	"time"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
)

// Kind says what sort of operation it is.
type Kind string

// The kinds. Open is initialize or server/discover; Call is tools/call,
// prompts/get, resources/read and completion/complete, or any method not known;
// Task is a tool call that became a task; List is a listing of one kind with
// all its pages; Listen is a GET stream or subscriptions/listen; Notice is a
// client's notification that belongs to nothing else; Close is DELETE.
const (
	Open   Kind = "open"
	Call   Kind = "call"
	Task   Kind = "task"
	List   Kind = "list"
	Listen Kind = "listen"
	Notice Kind = "notice"
	Close  Kind = "close"
)

// Outcome says how an operation ended.
type Outcome string

// The outcomes. ToolError is a result with isError:true. Refused is an HTTP
// status without a message. Unfinished: the capture ends before it did.
const (
	OK         Outcome = "ok"
	ToolError  Outcome = "tool-error"
	Failed     Outcome = "error" // a JSON-RPC error
	Cancelled  Outcome = "cancelled"
	Refused    Outcome = "refused"
	Unfinished Outcome = "unfinished"
)

// Role says what a part is to its operation.
type Role string

// The roles. Request begins it or one of its rounds or pages; Poll is any
// further look at its task (tasks/get, tasks/result); Update is tasks/update
// and Cancel any of the two cancels; Reply answers one of these. Ask is a
// server's own request and Answer what the client said to it; Progress, Log
// and Status are notifications about it.
const (
	RoleRequest  Role = "request"
	RolePoll     Role = "poll"
	RoleUpdate   Role = "update"
	RoleCancel   Role = "cancel"
	RoleReply    Role = "reply"
	RoleAsk      Role = "ask"
	RoleAnswer   Role = "answer"
	RoleProgress Role = "progress"
	RoleLog      Role = "log"
	RoleStatus   Role = "status"
	RoleOther    Role = "other"
)

// Part is one record of an operation.
type Part struct {
	Record *capture.Record
	// Msg is the record's message, decoded; nil where it has none.
	Msg  *jsonrpc.Message
	Role Role
	// To is the index in Parts of the request this part answers, -1 if it
	// answers none.
	To int
}

// Question is one thing the client was asked in an operation, by a request of
// the server's own or by an entry of inputRequests.
type Question struct {
	// Key is the entry's key or the request's id.
	Key    string
	Method string
	Params []byte
	// Answer is the result the client gave, Error its JSON-RPC error; both nil
	// if the question was left open or withdrawn.
	Answer, Error []byte
	Asked         time.Time
	Answered      time.Time
}

// Operation is one thing a client wanted, on one leg.
type Operation struct {
	// N counts the operations of a leg from 1, in the order they began.
	N         int
	Leg       translate.Leg
	Era       translate.Era
	Version   string // the revision spoken, empty if the capture does not tell
	Transport string
	Conn      string
	Session   string
	Principal string
	// Client is the client's name and version, "name/1.2", where known.
	Client string

	Kind   Kind
	Method string
	// Name is the tool, prompt, resource or (for task methods that stand alone)
	// task asked for.
	Name string

	// Began and Ended are its first and last records' times; Ended is zero for
	// an operation that is Unfinished.
	Began, Ended time.Time
	// After are the N of operations of the same session that had ended when
	// this one began, without those they themselves came after: what must
	// happen before it.
	After []int

	Parts     []Part
	Questions []Question

	Outcome Outcome
	// Status is the HTTP status of a Refused operation.
	Status int
	// Result is the final result, of a task its payload; of a List all pages'
	// items in one array under the list's own member name. Error is the JSON-RPC
	// error. At most one is not nil.
	Result, Error []byte
	// TaskID is the task's id as the capture has it, TaskStatus the last status
	// shown.
	TaskID, TaskStatus string
	// Redacted: something was taken out of one of its messages.
	Redacted bool
}

// First is the part that began it.
func (o *Operation) First() Part { return o.Parts[0] }
