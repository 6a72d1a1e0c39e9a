package replay

import (
	"bytes"
	"sync"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// answers are the questions a client of the capture was asked, to be answered
// again as it did.
type answers struct {
	mu   sync.Mutex // protects the used of each
	list []*recordedAnswer
}

type recordedAnswer struct {
	op   int
	q    *operation.Question
	used int
}

// maxSame bounds how often one recorded answer is given: a question may be put
// anew after a lost stream, but not for ever.
const maxSame = 3

func newAnswers(steps []*Step) *answers {
	a := &answers{}
	for _, s := range steps {
		for i := range s.Op.Questions {
			a.list = append(a.list, &recordedAnswer{op: s.Op.N, q: &s.Op.Questions[i]})
		}
	}
	return a
}

// take finds what was answered to a question of operation op (0: not known
// which). The operation's own come first, then the session's; in each those with
// the same params, then those with the same message, then any of the method in
// their order. One that was given already is given again only to the very same
// question.
func (a *answers) take(op int, method string, params jsonrpc.Value) *operation.Question {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, level := range []struct {
		own, again bool
		like       func(x, y jsonrpc.Value) bool
	}{
		{own: true, like: sameParams},
		{own: true, like: sameMessage},
		{own: true, like: anyParams},
		{like: sameParams},
		{own: true, again: true, like: sameMessage},
		{again: true, like: sameMessage},
		{like: anyParams},
	} {
		if level.own && op == 0 {
			continue
		}
		for _, r := range a.list {
			switch {
			case r.q.Method != method, level.own && r.op != op:
			case op != 0 && r.op != op && !level.again && !sameQuestion(r, params):
				// Another operation's answer is for the very same question only.
			case r.used > 0 && !level.again, r.used >= maxSame:
			case level.like(parsed(r.q.Params), params):
				r.used++
				return r.q
			}
		}
	}
	return nil
}

func sameQuestion(r *recordedAnswer, params jsonrpc.Value) bool {
	return sameMessage(parsed(r.q.Params), params)
}

func parsed(raw []byte) jsonrpc.Value {
	v, err := jsonrpc.ParseValue(raw)
	if err != nil {
		return jsonrpc.Value{}
	}
	return v
}

func anyParams(_, _ jsonrpc.Value) bool { return true }

// sameMessage: what a person is asked, or a model, is the same.
func sameMessage(x, y jsonrpc.Value) bool {
	for _, key := range []string{"message", "messages"} {
		if !sameText(x.Get(key).Raw(), y.Get(key).Raw()) {
			return false
		}
	}
	return true
}

// sameParams: so is everything but what differs each time.
func sameParams(x, y jsonrpc.Value) bool {
	return sameText(bare(x), bare(y))
}

// bare is a question's params without what is made for each time it is put.
func bare(params jsonrpc.Value) []byte {
	if params.Type() != jsonrpc.Object {
		return []byte("{}")
	}
	e := params.Edit()
	for _, key := range []string{"_meta", "elicitationId", "task"} {
		e.Delete(params.Get(key))
	}
	return e.Bytes()
}

func sameText(x, y []byte) bool {
	return bytes.Equal(x, y) || x != nil && y != nil && jsonrpc.Equal(x, y)
}

// refusal is the answer to a question that was never recorded, as an entry of
// inputResponses; nil: there is none of this method, and only an error says no.
func refusal(method string) []byte {
	raw, ok := translate.RefusedAnswer(method)
	if !ok {
		return nil
	}
	return raw
}

// response answers a legacy server's request as the recorded client did; nil:
// it never did.
func response(q *operation.Question, m *jsonrpc.Message) []byte {
	switch {
	case m.Method == "ping":
		return jsonrpc.NewResult(m.ID, []byte("{}"))
	case q != nil && q.Error != nil:
		return jsonrpc.NewObject().Str("jsonrpc", "2.0").Raw("id", m.ID.Raw()).Raw("error", q.Error).Bytes()
	case q != nil && q.Answer == nil:
		return nil
	}
	answer := refusal(m.Method)
	if q != nil {
		// related-task is the new task's, not the recorded one's.
		answer = translate.AnswerToModern(translate.ParseResult(q.Answer))
	}
	if answer == nil {
		return jsonrpc.NewError(m.ID, -32603, "the capture holds no answer to this question", nil)
	}
	return translate.AnswerToLegacy(m.ID, translate.ParseResult(answer), translate.RelatedTask(m.Params()))
}

// thinking is how long the recorded client took for its answer, as long as that
// is to be repeated.
func (r *replay) thinking(q *operation.Question) time.Duration {
	if r.o.Speed == 0 {
		return 0
	}
	return r.pause(q.Answered.Sub(q.Asked))
}
