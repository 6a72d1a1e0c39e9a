package downstream

import (
	"net/http"
	"strconv"
	"time"

	"taskbridge/session"
	"taskbridge/session/throttle"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Asker is what a Hub implements that can say whether it waits for answers of a
// caller's legacy session. Only then a caller over a limit may send more than
// firstRead: what it sends may be an answer.
type Asker interface {
	Asked(c session.Caller) bool
}

// dues is what limits say of one exchange. A message is counted before memory
// is given to it; what it is, and so whether it may be refused at all, is known
// only once it was read (translate.DueOf).
type dues struct {
	who  throttle.Caller  // zero: no limits
	over throttle.Refusal // the limit in the way, if one is
	held int64
}

// dueKey is under whose name a caller is counted: callers who cannot be told
// apart by their network.
func dueKey(c session.Caller) string {
	if c.Open {
		return "address\x00" + c.Address
	}
	return string(c.Principal)
}

// count counts the request itself.
func (x *exchange) count() {
	x.dues.who = x.s.o.Limiter.Caller(dueKey(x.caller))
	x.dues.over = x.dues.who.Request()
}

// mayBeDue: a post over a limit, unread, may be what is not refused. A modern
// one names its method in a header, which is compared with the body's later.
func (x *exchange) mayBeDue() bool {
	if !translate.ModernHeader(x.r.Header) {
		return true
	}
	x.caller.Era = translate.Modern
	method := x.r.Header.Get(translate.HeaderMethod)
	return translate.DueOfMethod(method) != translate.DueRefused || translate.CanRequireInput(method)
}

// bodyLimit is how much of a post's body may be read. ok is false where the
// post was refused, unread.
func (x *exchange) bodyLimit() (limit int64, ok bool) {
	d, limit := &x.dues, x.s.o.Limits.Body
	if d.who.Free() {
		return limit, true
	}
	n := max(x.r.ContentLength, 0)
	if !d.over.Refused() {
		d.over = d.who.Hold(n)
	}
	if !d.over.Refused() {
		d.held = n
		if d.over = d.who.Send(n); d.over.Refused() {
			d.letGo()
		}
	}
	switch {
	case !d.over.Refused():
		return limit, true
	case !x.mayBeDue():
		x.refuseDue(d.over)
		return 0, false
	case x.asked():
		return limit, true
	case n > firstRead:
		x.refuseDue(d.over)
		return 0, false
	}
	return min(limit, firstRead), true
}

// asked: answers of the caller are waited for, or its headers say that the
// request is one.
func (x *exchange) asked() bool {
	if x.caller.Era == translate.Modern {
		return translate.DueOfMethod(x.r.Header.Get(translate.HeaderMethod)) != translate.DueRefused
	}
	hub, ok := x.s.o.Hub.(Asker)
	if !ok {
		return false
	}
	c := x.caller
	c.Session = x.r.Header.Get(translate.HeaderSession)
	return hub.Asked(c)
}

// bodyCame counts what could not be before: a body of no declared length, or
// of a message over a limit.
func (x *exchange) bodyCame(n int64) {
	d := &x.dues
	if d.who.Free() || d.held > 0 {
		return
	}
	d.who.Sent(n)
	d.who.Keep(n)
	d.held = n
}

// pay says which limit refuses msg, if one does.
func (x *exchange) pay(msg *jsonrpc.Message) throttle.Refusal {
	return payOver(x.dues.who, x.dues.over, msg)
}

// payOver is pay for a message that found a limit in its way.
func payOver(who throttle.Caller, over throttle.Refusal, msg *jsonrpc.Message) throttle.Refusal {
	if !over.Refused() {
		return over
	}
	switch translate.DueOf(msg) {
	case translate.DueNever:
		return throttle.Refusal{}
	case translate.DueEased:
		return who.Eased()
	}
	return over
}

// payAll is pay for an array, which is refused as a whole.
func (x *exchange) payAll(msgs []*jsonrpc.Message) throttle.Refusal {
	for i, m := range msgs {
		if i > 0 && !x.dues.over.Refused() {
			x.dues.over = x.dues.who.Request()
		}
		if r := x.pay(m); r.Refused() {
			return r
		}
	}
	return throttle.Refusal{}
}

// refuseDue answers a request that is over a limit.
func (x *exchange) refuseDue(r throttle.Refusal) {
	x.s.o.Metrics.Limited(r.Limit)
	x.w.Header()["Retry-After"] = []string{strconv.FormatInt(retrySeconds(r.After), 10)}
	x.refuse(translate.CondTooMany, dueText(r.Limit), dueData(r))
}

// retrySeconds rounds up: a client that comes back a little early is refused
// again.
func retrySeconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }

func dueData(r throttle.Refusal) []byte {
	return translate.LimitData(r.Limit, max(1, int64((r.After+time.Millisecond-1)/time.Millisecond)))
}

var dueTexts = map[string]string{
	throttle.Rate:      "too many requests",
	throttle.RateTotal: "too many requests of all callers together",
	throttle.Bytes:     "too many bytes",
	throttle.InFlight:  "too many bytes under way",
}

func dueText(limit string) string { return dueTexts[limit] + "; try again later" }

// letGo ends what the exchange holds.
func (d *dues) letGo() {
	d.who.Let(d.held)
	d.held = 0
}

// payVerb counts GET, DELETE and an upgrade, and says whether they may go on.
func (x *exchange) payVerb(upgrade bool) bool {
	x.count()
	r := x.dues.over
	switch {
	case !r.Refused() || x.r.Method == http.MethodDelete:
		return true
	case !upgrade:
		r = x.pay(nil)
	}
	if r.Refused() {
		x.refuseDue(r)
		return false
	}
	return true
}

// dues is what the client of the link has used.
func (s *clientLink) dues() throttle.Caller {
	if s.o.Dues == nil {
		return throttle.Caller{}
	}
	return s.o.Dues()
}

// count counts n bytes that were read, and says which limit they are over.
func (s *clientLink) count(n int64, who throttle.Caller) throttle.Refusal {
	over := who.Request()
	if !over.Refused() {
		return who.Send(n)
	}
	who.Sent(n)
	return over
}

// pay says which limit refuses a message of the link, if one does. It has been
// read already.
func (s *clientLink) pay(m *jsonrpc.Message) throttle.Refusal {
	who := s.dues()
	return payOver(who, s.count(int64(len(m.Raw)), who), m)
}

// limited tells of a refusal, and says it in words.
func (s *clientLink) limited(r throttle.Refusal) string {
	if s.o.Limited != nil {
		s.o.Limited(r.Limit)
	}
	return dueText(r.Limit)
}

// overDue answers a message of the link that is over a limit: there is no place
// for a status, so the error says when to come again. Notifications have no
// answer.
func (s *clientLink) overDue(m *jsonrpc.Message, b *linkBatch, stream string, r throttle.Refusal, version string) {
	text := s.limited(r)
	if m.Kind != jsonrpc.Request {
		s.o.Logger.Debug("dropped a message of the client", "why", text)
		return
	}
	_, code := translate.StatusOf(translate.CondTooMany, translate.Legacy)
	s.answer(b, stream, jsonrpc.NewError(m.ID, translate.CodeFor(code, version), text, dueData(r)))
}

// hold counts a request as under way, or refuses it.
func (s *clientLink) hold(f *flight) bool {
	n := int64(len(f.msg.Raw))
	f.dues = s.dues()
	r := f.dues.Hold(n)
	if r.Refused() && translate.DueOf(f.msg) == translate.DueRefused {
		s.overDue(f.msg, f.batch, f.tap, r, f.caller.Version)
		return false
	} else if r.Refused() {
		f.dues.Keep(n)
	}
	f.held = n
	return true
}
