package session

import (
	"time"

	"taskbridge/translate"
)

// OpID names an operation: its kind, a colon, and what makes it one of its
// kind ("call:…", "task:…"). Peer text in it is quoted or hashed by whoever
// builds it.
type OpID string

// Kind is the part before the colon.
func (id OpID) Kind() string {
	for i := range len(id) {
		if id[i] == ':' {
			return string(id[:i])
		}
	}
	return string(id)
}

// EventKind says what happened.
type EventKind uint8

const (
	// EvClient: a message of a client; Label is the client stream that takes
	// answers, Caller is who sent it.
	EvClient EventKind = iota + 1
	// EvAnswer: a client's response to a request of ours; Name is what the
	// operation called it when it asked, Label the session that answers.
	EvAnswer
	// EvCancel: the client cancelled the request this operation is about.
	EvCancel
	// EvClientGone: client stream Label was closed by its reader.
	EvClientGone
	// EvOpened: exchange Label got its first sign from the server and it is an
	// event stream; Frame.HTTP holds status and headers, Frame.Msg is nil.
	EvOpened
	// EvServer: a message from the server on exchange Label.
	EvServer
	// EvServerEnd: exchange Label is over. Frame.HTTP holds the status if there
	// was one; Fail says why when it did not end by itself.
	EvServerEnd
	// EvTimer: the wake called Name is due.
	EvTimer
	// EvOp: another operation (From) says Name with Data.
	EvOp
)

// Fail says how an exchange with a server broke.
type Fail uint8

const (
	FailNone         Fail = iota
	FailUnreachable       // no connection, so the request cannot have run
	FailBroken            // broke after the request was sent
	FailTooLarge          // a message over the limit
	FailRedirect          // redirected to another origin
	FailNoCredential      // nothing to authenticate with until the principal's next request
	FailBusy              // our own limits
	FailRefused           // the server refuses the credential the route has of its own
	FailProcess           // the server's process ended or did not start; the text says how, for callers too
)

// Event is one thing that happened to an operation. It is complete: time and
// random bytes are in it, so the same events give the same effects.
type Event struct {
	Kind   EventKind
	Now    time.Time
	Label  string
	Name   string
	Frame  translate.Frame
	Caller Caller
	// Session is the caller's legacy session and Face what the server speaks,
	// both as the router read them.
	Session *legacySession
	Face    Face
	Fail    Fail
	Err     string // for logs and error data, free of secrets
	From    OpID
	Data    []byte
	from    origin // on whose behalf, for observers
	// stepped is called once the event was stepped, or never will be; nil: nobody
	// waits for it.
	stepped func()
	// exchange tells an exchange from an earlier one of the same Label, whose
	// last events may still be on their way.
	exchange string
	// trace is what a server's request is to be passed on in.
	trace TraceContext
}

// Machine is an operation's state machine. Its exported fields are its state,
// encoded as JSON between events. Step must be deterministic: it reads the
// event, its own state and x, and writes its own state and x's effects only.
// A step may be run again from the same state when another runner was faster.
type Machine interface {
	Step(x *Exec, ev Event)
}

// Effect is something a step wants done, in order, once its state is stored.
type Effect interface{ effect() }

type (
	// Send queues Out on a client stream, wherever its reader is.
	Send struct {
		Stream string
		Out    Out
	}
	// Open starts an exchange with the server; its frames come back as EvOpened,
	// EvServer and one EvServerEnd with the same Label.
	Open struct {
		Label    string
		Upstream string
		As       Principal
		Out      Outgoing
		// Feeds names the one client stream the answers go to: the server is
		// then read no faster than that client reads. Empty where several
		// callers share what comes.
		Feeds string
		// Paced: a look of our own, not a client's request; all of them draw on
		// one rate.
		Paced bool
	}
	// Shut closes an exchange this operation opened; its EvServerEnd is not
	// delivered any more.
	Shut struct{ Label string }
	// Wake asks for one EvTimer; a later Wake of the same name replaces it.
	Wake struct {
		Name string
		At   time.Time
	}
	// Unwake forgets a wake.
	Unwake struct{ Name string }
	// Tell delivers EvOp to another operation, which is made if it is new. Label
	// is the event's: of a server's question the session it was asked in.
	Tell struct {
		To    OpID
		Name  string
		Label string
		Data  []byte
	}
	// Ask sends a request of ours to a client and leads its response back as
	// EvAnswer with Name. The id is Exec.AskID's.
	Ask struct {
		Session string
		ID      int64
		Name    string
		Stream  string
		Raw     []byte
	}
	// Unask forgets an asked question: a late answer is dropped and counted.
	Unask struct {
		Session string
		ID      int64
	}
	// Put and Del write records that other operations read with Exec.Get.
	Put struct {
		Key   string
		Value []byte
	}
	Del struct{ Key string }
	// Add moves a counter over all runners; at zero its record goes.
	Add struct {
		Name string
		N    int64
	}
	// Snap keeps the last seen state of a task in the bounded cache.
	Snap struct {
		Key   string
		Value []byte
	}
	// Loss counts something the other dialect cannot say (translate/losses.go).
	// Why, if given, is worth a warning: what was lost and the reason, peer text
	// quoted and clipped.
	Loss struct {
		What string
		Why  string
	}
	// Limited counts work refused for a limit of its caller.
	Limited struct{ Limit string }
	// Attach hands a client stream on: Op hears when its reader leaves.
	Attach struct {
		Stream string
		Op     OpID
	}
	// Gone tells Op that the reader of Stream has left for good.
	Gone struct {
		Op     OpID
		Stream string
	}
	// Cut ends the connection a client stream is read on, and nothing else.
	// Taken: another one goes on with it, and tells what was not written yet.
	Cut struct {
		Stream string
		Taken  bool
	}
	// DropLog drops what is kept of a stream's events; Live: its first
	// connection is still written to.
	DropLog struct {
		Stream string
		Live   bool
	}
	// DropLogs drops all logs of a legacy session.
	DropLogs struct{ Session string }
	// EndCalls tells the calls of a legacy session that it has ended.
	EndCalls struct {
		Session string
		Data    []byte // a sessionEnd
		Guest   bool   // only the part of the session that is here has
	}
	// Listens tells the Route that the client of a session has begun to listen, on
	// one GET stream or more, or listens no more.
	Listens struct {
		Session string
		On      bool
	}
	// Closed tells observers that a legacy session has ended, Left that one of
	// ours with a legacy server has.
	Closed struct{ Session LegacySession }
	Left   struct {
		Session ServerSession
		As      Principal
		ID      string // the server's own, if there is one
	}
	// Done ends the operation: its state, wakes and exchanges are dropped.
	Done struct{}
)

func (Send) effect()     {}
func (Open) effect()     {}
func (Shut) effect()     {}
func (Wake) effect()     {}
func (Unwake) effect()   {}
func (Tell) effect()     {}
func (Ask) effect()      {}
func (Unask) effect()    {}
func (Put) effect()      {}
func (Del) effect()      {}
func (Snap) effect()     {}
func (Loss) effect()     {}
func (Limited) effect()  {}
func (Attach) effect()   {}
func (Add) effect()      {}
func (Gone) effect()     {}
func (Cut) effect()      {}
func (DropLog) effect()  {}
func (DropLogs) effect() {}
func (EndCalls) effect() {}
func (Listens) effect()  {}
func (Closed) effect()   {}
func (Left) effect()     {}
func (Done) effect()     {}
