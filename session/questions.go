package session

import (
	"encoding/json"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// maxQuestions bounds the questions one call or task may have open at once,
// maxKeys those of its whole life: answered keys are kept, so that a late look
// that still lists one does not ask it again.
const (
	maxQuestions = 64
	maxKeys      = 1024
)

// question is one entry of a modern server's inputRequests on its way to a
// legacy client.
type question struct {
	Key    string `json:"k"`
	Method string `json:"m"`
	Params []byte `json:"p,omitempty"`
	// Asks are our requests to clients for it; each may still be answered, the
	// first answer wins.
	Asks []ask `json:"i,omitempty"`
	// Early: the call asked before the server made a task of it; the answers go
	// into the call's retry.
	Early   bool   `json:"e,omitempty"`
	Answer  []byte `json:"a,omitempty"`
	Sent    bool   `json:"t,omitempty"` // tasks/update is on its way
	Acked   bool   `json:"d,omitempty"` // the server has the answer
	Back    bool   `json:"b,omitempty"` // put back once, after the server refused an answer
	Refused bool   `json:"r,omitempty"` // the client cannot or will not
}

// ask is one request of ours to a client; no Stream: the stream it went out on
// is lost.
type ask struct {
	ID      int64  `json:"i"`
	Session string `json:"n"`
	Stream  string `json:"s,omitempty"`
}

// live: the client was asked on a stream that is still there.
func (item *question) live() bool {
	for _, a := range item.Asks {
		if a.Stream != "" {
			return true
		}
	}
	return false
}

// waiting: the client still has to answer.
func (item *question) waiting() bool { return item.Answer == nil && !item.Refused }

// lost forgets a stream; what was asked on it is asked again on another.
func (q *questions) lost(stream string) {
	for i := range q.Open {
		for j := range q.Open[i].Asks {
			if a := &q.Open[i].Asks[j]; a.Stream == stream {
				a.Stream = ""
			}
		}
	}
}

// questions are the open ones of a call or task, in the server's order.
type questions struct {
	Open []question `json:"q,omitempty"`
}

func (q *questions) find(key string) *question {
	for i := range q.Open {
		if q.Open[i].Key == key {
			return &q.Open[i]
		}
	}
	return nil
}

// add takes new keys of an inputRequests object in; known keys are left as
// they are, so that nothing is asked twice (tasks extension, Task Update
// Requests).
func (q *questions) add(x *Exec, requests jsonrpc.Value) {
	open := 0
	for _, item := range q.Open {
		if !item.Acked {
			open++
		}
	}
	for key, entry := range requests.Members() {
		if q.find(key) != nil || open >= maxQuestions || len(q.Open) >= maxKeys {
			continue
		}
		open++
		method, _ := entry.Get("method").Str()
		item := question{Key: key, Method: method}
		if p := entry.Get("params"); p.Type() == jsonrpc.Object {
			item.Params = json.RawMessage(p.Raw())
		}
		if !translate.IsQuestion(method) {
			item.Refused = true
			if method == "" {
				item.Method = "an answer to what is no request"
			}
		}
		q.Open = append(q.Open, item)
	}
}

// ask puts the unasked questions to a client on one of its streams. A mode
// the client did not declare is never shown: an elicitation is answered
// "cancel", the rest is marked refused.
func (q *questions) ask(x *Exec, sess *legacySession, stream, handle string) {
	for i := range q.Open {
		item := &q.Open[i]
		switch {
		case !item.waiting() || item.live():
		case item.fits(sess):
			item.put(x, sess, stream, handle)
		default:
			item.refuse(x)
		}
	}
}

// fits: the session's client declared the mode this question needs.
func (item *question) fits(sess *legacySession) bool {
	caps, _ := jsonrpc.ParseValue(sess.ClientCaps)
	return translate.ClientCan(caps, item.Method, questionParams(item.Params))
}

// questionParams reads kept params with the members a rule reads open.
func questionParams(raw []byte) jsonrpc.Value {
	if len(raw) == 0 {
		return jsonrpc.Value{}
	}
	m, err := jsonrpc.Decode(jsonrpc.NewNotification("q", raw), jsonrpc.Limits{})
	if err != nil {
		return jsonrpc.Value{}
	}
	return m.Params()
}

// put asks a client on one of its streams.
func (item *question) put(x *Exec, sess *legacySession, stream, handle string) {
	params := questionParams(item.Params)
	id := x.AskID(sess.ID)
	elicitation := ""
	if mode, _ := params.Get("mode").Str(); item.Method == "elicitation/create" && mode == "url" {
		elicitation = x.Token(18)
	}
	item.Asks = append(item.Asks, ask{id, sess.ID, stream})
	raw := translate.QuestionToLegacy(jsonrpc.IntID(id), item.Method, params, handle, elicitation)
	raw, lost := translate.FitQuestion(item.Method, raw, sess.Version)
	x.lose(lost)
	x.Do(Ask{Session: sess.ID, ID: id, Name: item.Key, Stream: stream, Raw: raw})
}

func (item *question) refuse(x *Exec) {
	x.Do(Loss{What: string(translate.LossUnaskableInput)})
	item.settle(x, "", jsonrpc.ID{})
	if raw, ok := translate.RefusedAnswer(item.Method); ok {
		item.Answer = raw
		return
	}
	item.Refused = true
}

// refused names the method of a question that can get no answer, or "".
func (q *questions) refused() string {
	for _, item := range q.Open {
		if item.Refused {
			return item.Method
		}
	}
	return ""
}

// answered takes a client's response in. method is empty for a key that is
// not waiting; rpcError is set when the client's error has no other form.
func (q *questions) answered(x *Exec, session, key string, m *jsonrpc.Message) (method string, rpcError []byte) {
	item := q.find(key)
	if item == nil || item.Answer != nil {
		return "", nil
	}
	item.settle(x, session, m.ID)
	if m.Kind == jsonrpc.Response {
		item.Answer = translate.AnswerToModern(m.Result())
		return item.Method, nil
	}
	if raw, ok := translate.RefusedAnswer(item.Method); ok {
		item.Answer = raw
		return item.Method, nil
	}
	return item.Method, m.Error().Raw()
}

// complete: no question waits for its client.
func (q *questions) complete() bool {
	for _, item := range q.Open {
		if item.Answer == nil {
			return false
		}
	}
	return true
}

// responses is the inputResponses object of all answers.
func (q *questions) responses() []byte {
	b := jsonrpc.NewObject()
	for _, item := range q.Open {
		if item.Answer != nil {
			b.Raw(item.Key, item.Answer)
		}
	}
	return b.Bytes()
}

// withdraw takes back what the client was asked and has not answered.
func (q *questions) withdraw(x *Exec) {
	for i := range q.Open {
		q.Open[i].settle(x, "", jsonrpc.ID{})
	}
}

// settle ends all requests for one question but the answered one of session,
// which the store has taken already: late answers are dropped, the client is told.
func (item *question) settle(x *Exec, session string, answered jsonrpc.ID) {
	for _, a := range item.Asks {
		if a.Session == session && answered.Key() == jsonrpc.IntID(a.ID).Key() {
			continue
		}
		x.Do(Unask{Session: a.Session, ID: a.ID})
		if a.Stream != "" {
			params := jsonrpc.NewObject().Int("requestId", a.ID).Str("reason", "no longer needed").Bytes()
			x.Do(Send{Stream: a.Stream, Out: Out{Raw: jsonrpc.NewNotification("notifications/cancelled", params)}})
		}
	}
	item.Asks = nil
}
