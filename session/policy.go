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
	// ParkTask turns a call that asks into a task instead of parking it, where
	// the client declared the extension (--park task).
	ParkTask bool
	// InlineWait: how long a fresh task of a legacy server may finish before a
	// modern client gets its handle; 0: not at all.
	InlineWait time.Duration
	// Holders bounds the tasks/result streams kept open toward a legacy
	// server, of this process. 256.
	Holders int
	// PollDefault and PollFloor bound our own polling of a task. 1 s, 100 ms.
	PollDefault, PollFloor time.Duration
	// PollRate bounds our own looks at an upstream, a second, all tasks and
	// retries together. 200.
	PollRate float64
	// RetryAfter: pause before a broken poll is tried again. 1 s.
	RetryAfter time.Duration
	// SessionIdle ends a legacy session without stream or request. 30 min.
	SessionIdle time.Duration
	// TaskKeep: how long we remember a task whose server gave no ttl, and the
	// grace after one. 24 h, 10 min.
	TaskKeep, TaskGrace time.Duration
	// MaxTTL bounds the ttl a client may ask for tasks the proxy holds. 24 h.
	MaxTTL time.Duration
	// ParkFor: how long a parked call waits for its client. 10 min.
	ParkFor time.Duration
	// URLWait: how long a call waits for a legacy server to say that its user is
	// done at a URL, before it is sent again all the same. 30 s.
	URLWait time.Duration
	// Gather: how long a call that a legacy server asks in waits for more
	// questions, so that those asked at once are shown at once. 25 ms;
	// negative: not at all.
	Gather time.Duration
	// ResumeFor: how long a legacy client may stay away from an event stream and
	// still resume it. 5 min. ResumeBytes bounds what is kept for that, of this
	// process; no more than an eighth of it of one event. 64 MiB.
	ResumeFor   time.Duration
	ResumeBytes int64
	// PageSize of tasks/list. 50.
	PageSize int
	// Limits per principal (callers who cannot be told apart: per address) and
	// in all; over them new work is refused, nothing held is dropped.
	Tasks, Sessions, Upstreams, Streams Limit
	// Above are the limits over all that shares Options.CountsAbove; without that
	// there are none.
	Above Limits
	// MessageLimit bounds one message; held results may pass their budget by
	// one such message. 64 MiB.
	MessageLimit int64
	// SealSameEra replaces task ids by handles between peers of one era too:
	// set where callers share a credential and cannot all see each other.
	SealSameEra bool
	// SealRoute does so because a route has, or had, several upstreams: a handle
	// says whose a task is. Set by Route.
	SealRoute bool
	// Asker, if not empty, is named before the message of each elicitation: the
	// upstream that asks, where a route has several. Set by Route.
	Asker string
	// Version is the proxy's own, sent as clientInfo where no client stands
	// behind a request.
	Version string
}

// Limits bound things of callers.
type Limits struct{ Tasks, Sessions, Upstreams, Streams Limit }

// Limit bounds a kind of thing: for one principal, and in all. Zero takes the
// default: tasks 10,000 and 100,000; legacy sessions toward clients 1,000 and
// 10,000; sessions toward servers 100 and 1,000; streams that wait (GET,
// listen, tasks/result) 1,000 and 10,000, of this process.
type Limit struct{ Each, All int64 }

func (l Limit) withDefault(each, all int64) Limit {
	if l.Each <= 0 {
		l.Each = each
	}
	if l.All <= 0 {
		l.All = all
	}
	return l
}

func (l Limits) withDefaults() (tasks, sessions, upstreams, streams Limit) {
	return l.Tasks.withDefault(10000, 100000), l.Sessions.withDefault(1000, 10000), l.Upstreams.withDefault(100, 1000), l.Streams.withDefault(1000, 10000)
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
	def(&p.ParkFor, 10*time.Minute)
	def(&p.URLWait, 30*time.Second)
	if p.Gather == 0 {
		p.Gather = 25 * time.Millisecond
	}
	def(&p.ResumeFor, 5*time.Minute)
	if p.ResumeBytes <= 0 {
		p.ResumeBytes = 64 << 20
	}
	if p.Holders <= 0 {
		p.Holders = 256
	}
	if p.PollRate <= 0 {
		p.PollRate = 200
	}
	if p.PageSize <= 0 {
		p.PageSize = 50
	}
	p.Tasks, p.Sessions, p.Upstreams, p.Streams = Limits{p.Tasks, p.Sessions, p.Upstreams, p.Streams}.withDefaults()
	p.Above.Tasks, p.Above.Sessions, p.Above.Upstreams, p.Above.Streams = p.Above.withDefaults()
	if p.MessageLimit <= 0 {
		p.MessageLimit = 64 << 20
	}
	if p.Version == "" {
		p.Version = "dev"
	}
	return p
}
