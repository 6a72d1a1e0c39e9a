package session

import (
	"context"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// ExchangeObserver is an Observer that hears of what goes to servers, too.
type ExchangeObserver interface {
	// BeginExchange hears of a message to a server before it is sent. What it
	// returns goes with the message in params._meta (SEP-414); zero: nothing. An
	// observer may set x.Note to find something again at the end.
	BeginExchange(x *Exchange) TraceContext
	// EndExchange hears once for each BeginExchange how it ended: a request by its
	// answer, a notification when the server has taken it.
	EndExchange(x *Exchange, e Ended)
}

// Exchange is a request or notification on its way to a server.
type Exchange struct {
	At              time.Time
	Route, Upstream string
	Kind            jsonrpc.Kind
	// Version is the revision it is sent at; empty before it is agreed on.
	Version string
	// Method as sent; MethodLabel gives one that may be a label. Name, Resource
	// and ID are as in Request.
	Method, Name, Resource, ID string
	// Session is the server's session id: a secret.
	Session string
	// Paced: a look of our own at a task, or a retry.
	Paced bool
	// Parent is the context of the client's request it is sent because of, the
	// newest where there were several; zero: nobody's.
	Parent TraceContext
	// Note is the observers' own, by their place in Options.Observers.
	Note [maxObservers]any
}

// MethodLabel is Method if a revision we know has it, else "_OTHER".
func (x *Exchange) MethodLabel() string { return methodLabel(x.Method) }

// sent is an exchange being observed.
type sent struct {
	r     *Runner
	x     Exchange
	reply *reply // instead of x: an answer to a request of the server's
	task  string // the server's id of the task it is about
	ended bool
}

// observeExchange tells observers of what is about to be sent; with a trace
// context e sends another message. Nil where nobody observes.
func (r *Runner) observeExchange(e *openAt) *sent {
	if len(r.exchangeObservers) == 0 && r.questions == nil || e.Out.Msg == nil {
		return nil
	}
	m, err := jsonrpc.Decode(e.Out.Msg, jsonrpc.Limits{})
	if err != nil {
		return nil
	}
	if m.Kind != jsonrpc.Request && m.Kind != jsonrpc.Notification {
		if p := r.questions.replies(e, m); p != nil {
			return &sent{r: r, reply: p}
		}
		return nil
	}
	var q Request
	q.read(m)
	w := &sent{r: r, task: plainID(q.Task), x: Exchange{
		At: r.clock.Now(), Route: r.route, Upstream: r.upstream, Kind: m.Kind, Version: e.Out.revision(),
		Method: q.Method, Name: q.Name, Resource: q.Resource, ID: q.ID, Session: e.Out.Session, Paced: e.Paced, Parent: e.trace,
	}}
	if w.x.Version == "" {
		w.x.Version = q.Version
	}
	for _, o := range r.exchangeObservers {
		if c := o.BeginExchange(&w.x); c.Parent != "" {
			e.Out.Msg = translate.WithTrace(m, c.Parent, c.State)
		}
	}
	return w
}

// answered: the final answer is there.
func (w *sent) answered(m *jsonrpc.Message, h *translate.Envelope) {
	if w != nil && w.x.Kind == jsonrpc.Request {
		w.end(translate.AnswerOf(m.Raw, statusOf(h)), h, "")
	}
}

// over: nothing more comes.
func (w *sent) over(ctx context.Context, h *translate.Envelope, err error) {
	if w == nil || w.ended {
		return
	}
	a := translate.AnswerOf(nil, statusOf(h))
	var fail string
	switch {
	case err != nil && ctx.Err() != nil:
		a.Outcome = translate.OutcomeCancelled
	case err != nil:
		end := broken(Event{}, err)
		h, fail = end.Frame.HTTP, failWords[end.Fail]
		if a = translate.AnswerOf(nil, statusOf(h)); a.Outcome == "" {
			a.Outcome = translate.OutcomeUnavailable
		}
	case a.Outcome != "":
	case w.x.Kind == jsonrpc.Notification, w.reply != nil:
		a.Outcome = translate.OutcomeAccepted
	default:
		a.Outcome, fail = translate.OutcomeError, failWords[FailBroken] // ended without its answer
	}
	w.end(a, h, fail)
}

func (w *sent) end(a translate.Answer, h *translate.Envelope, fail string) {
	if w.ended {
		return
	}
	w.ended = true
	if w.reply != nil {
		w.r.questions.replied(w.reply, a, h, fail)
		return
	}
	a.Message = shownError(a.Message, w.task, w.x.Session)
	e := Ended{Answer: a, At: w.r.clock.Now(), Status: statusOf(h), Fail: fail, Proto: protoOf(h)}
	for _, o := range w.r.exchangeObservers {
		o.EndExchange(&w.x, e)
	}
}

func protoOf(h *translate.Envelope) string {
	if h == nil {
		return ""
	}
	return h.Proto
}

func statusOf(h *translate.Envelope) int {
	if h == nil {
		return 0
	}
	return h.Status
}

// failWords name how an exchange broke.
var failWords = [...]string{
	FailNone: "", FailUnreachable: "unreachable", FailBroken: "broken", FailTooLarge: "too_large", FailRedirect: "redirect",
	FailNoCredential: "no_credential", FailBusy: "busy", FailRefused: "refused", FailProcess: "process",
}

// exchangeObserversOf are those of a list that hear of exchanges.
func exchangeObserversOf(list []Observer) (out []ExchangeObserver) {
	for _, o := range list {
		if o, ok := o.(ExchangeObserver); ok {
			out = append(out, o)
		}
	}
	return out
}
