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
// all its pages; Listen is a GET stream (Method "GET") or subscriptions/listen;
// Notice is a message of either side that belongs to nothing else: most often a
// client's notification; Close is DELETE (Method "DELETE").
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
// status without a message. Unfinished: the capture ends before it did; for an
// exchange of several rounds also that the client did not come back. A Listen is
// OK as soon as the server took it. A call the client cancelled is Cancelled
// whatever came after.
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
// and Cancel any of the cancels, the server's of its own question too; Reply
// answers one of these. Ask is a server's own request and Answer what the client
// said to it; Progress, Log and Status are notifications about it
// (notifications/tasks, notifications/tasks/status,
// notifications/elicitation/complete). Other is all else seen on its stream:
// list changes, pings and their answers, headers alone, what cannot be read, and
// notifications/initialized with an Open.
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
	// To is the index in Parts of the request (or notification) this part
	// answers, -1 if it answers none.
	To int
}

// IsNotice: a notification of the server.
func (p Part) IsNotice() bool {
	return p.Msg != nil && p.Msg.Kind == jsonrpc.Notification && p.Record.Dir == translate.ToClient
}

// Question is one thing the client was asked in an operation, by a request of
// the server's own or by an entry of inputRequests.
type Question struct {
	// Key is the entry's key or the request's id, as it stands in JSON.
	Key    string
	Method string
	Params []byte
	// Answer is the result the client gave, Error its JSON-RPC error; both nil
	// if the question was left open or withdrawn.
	Answer, Error []byte
	Asked         time.Time
	Answered      time.Time
	// Withdrawn: the server took it back.
	Withdrawn bool
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
	// Lane is what stands for its session in After: equal for operations of one
	// session, and no name to show.
	Lane string
	// Client is the client's name and version, "name/1.2", where known.
	Client string

	Kind   Kind
	Method string
	// Name is the tool, prompt, resource or (for task methods that stand alone)
	// task asked for.
	Name string

	// Began is its first record's time, Ended that of the one that settled it;
	// zero for an operation that is Unfinished and a Listen that goes on.
	Began, Ended time.Time
	// After are the N of operations of the same session that had ended when
	// this one began, without those they themselves came after: what must
	// happen before it. At most 128, the last to end. It may be shared: not to
	// be changed. Where a dialect has no sessions, a connection counts as one,
	// else the principal's client.
	After []int

	Parts     []Part
	Questions []Question

	Outcome Outcome
	// Status is the HTTP status of a Refused operation.
	Status int
	// Result is the final result, of a task its payload; of a List all pages'
	// items in one array under the list's own member name. Error is the JSON-RPC
	// error. At most one is not nil; for a task that ended and whose payload
	// nobody fetched, both are nil.
	Result, Error []byte
	// Pages counts the answers a List is made of; More: the last of them has a
	// nextCursor that nobody followed.
	Pages int
	More  bool
	// TaskID is the task's id as the capture has it, TaskStatus the last status
	// shown.
	TaskID, TaskStatus string
	// Redacted: something was taken out of one of its messages.
	Redacted bool
	// Losses are what its translation lost, where whoever made the records knows;
	// Gather leaves it empty.
	Losses []translate.Loss
	// Gap: frames were dropped from the capture while it ran, so parts of it may
	// be missing.
	Gap bool
}

// First is the part that began it.
func (o *Operation) First() Part { return o.Parts[0] }
