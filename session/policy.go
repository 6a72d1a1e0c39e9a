package session

import "time"

// Policy is what an operator may choose about operations. Zero fields take
// the defaults named beside them.
type Policy struct {
	// ToolErrorsCompleted shows a tool result with isError as completed toward
	// legacy clients (--tool-errors completed).
	ToolErrorsCompleted bool
	// RefuseUndeclared answers a plain call of a task-only tool with -32021
	// instead of driving the task here (--undeclared-tasks refuse).
	RefuseUndeclared bool
	// TaskHandleAfter: how long a legacy tools/call with task waits for the
	// server's answer before it gets a handle of ours. 500 ms.
	TaskHandleAfter time.Duration
	// PollDefault and PollFloor bound our own polling of a task. 1 s, 100 ms.
	PollDefault, PollFloor time.Duration
	// RetryAfter: pause before a broken poll is tried again. 1 s.
	RetryAfter time.Duration
	// SessionIdle ends a legacy session without stream or request. 30 min.
	SessionIdle time.Duration
	// TaskKeep: how long we remember a task whose server gave no ttl, and the
	// grace after one. 24 h, 10 min.
	TaskKeep, TaskGrace time.Duration
	// MaxTTL bounds the ttl a client may ask for tasks the proxy holds. 24 h.
	MaxTTL time.Duration
	// PageSize of tasks/list. 50.
	PageSize int
	// MaxTasks bounds remembered tasks of one principal. 10,000.
	MaxTasks int
	// MessageLimit bounds one message; held results may pass their budget by
	// one such message. 64 MiB.
	MessageLimit int64
	// SealSameEra replaces task ids by handles between peers of one era too:
	// set where callers share a credential and cannot all see each other.
	SealSameEra bool
	// Version is the proxy's own, sent as clientInfo where no client stands
	// behind a request.
	Version string
}

func (p Policy) withDefaults() Policy {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&p.TaskHandleAfter, 500*time.Millisecond)
	def(&p.PollDefault, time.Second)
	def(&p.PollFloor, 100*time.Millisecond)
	def(&p.RetryAfter, time.Second)
	def(&p.SessionIdle, 30*time.Minute)
	def(&p.TaskKeep, 24*time.Hour)
	def(&p.TaskGrace, 10*time.Minute)
	def(&p.MaxTTL, 24*time.Hour)
	if p.PageSize <= 0 {
		p.PageSize = 50
	}
	if p.MaxTasks <= 0 {
		p.MaxTasks = 10000
	}
	if p.MessageLimit <= 0 {
		p.MessageLimit = 64 << 20
	}
	if p.Version == "" {
		p.Version = "dev"
	}
	return p
}
