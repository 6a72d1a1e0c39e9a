package offline

import (
	"strconv"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// heard waits for the reply that p was in the capture and learns its names. A
// task's state may show later here than it did: then the poll is repeated.
func (x *telling) heard(p operation.Part) {
	for range maxRepeats {
		x.t.mu.Lock()
		s := x.replies[p.To]
		x.t.mu.Unlock()
		if s == nil {
			return
		}
		x.until(func() bool { return s.over })
		if p.Msg == nil || s.reply == nil {
			return
		}
		x.learn(p.Msg, s.reply)
		asked := x.op.Parts[p.To]
		if asked.Msg == nil || asked.Msg.Method != "tasks/get" || !behind(p.Msg, s.reply) {
			return
		}
		x.sleep(repeatAfter)
		again := x.send(x.rewritten(asked), &asked)
		x.t.mu.Lock()
		x.replies[p.To] = again
		x.t.mu.Unlock()
	}
}

const (
	repeatAfter = 200 * time.Millisecond
	maxRepeats  = 5000
)

// behind: the task is not yet in the state it had.
func behind(was, is *jsonrpc.Message) bool {
	want, _ := was.Result().Get("status").Str()
	have, _ := is.Result().Get("status").Str()
	return want != have && have != "" && want != "working" && !translate.Terminal(have)
}

// findKeys looks at a task until the questions are there that update answers:
// its client may have seen them elsewhere than in a poll, or later than now.
func (x *telling) findKeys(update *jsonrpc.Message) {
	for n := range maxRepeats {
		missing := false
		for key := range update.At("params", "inputResponses").Members() {
			missing = missing || x.keys[key] == ""
		}
		if !missing {
			return
		}
		x.sleep(min(time.Duration(n), 1) * repeatAfter)
		e := update.Edit()
		e.Replace(update.At("method"), []byte(`"tasks/get"`))
		e.Replace(update.At("id"), jsonrpc.Quote("taskbridge-look-"+strconv.Itoa(n)))
		e.Delete(update.At("params", "inputResponses"))
		look := operation.Part{Role: operation.RolePoll, To: -1}
		if look.Msg, _ = jsonrpc.Decode(e.Bytes(), jsonrpc.Limits{}); look.Msg == nil {
			return
		}
		s := x.send(x.rewritten(look), nil)
		x.until(func() bool { return s.over })
		if s.reply == nil || s.reply.Kind == jsonrpc.ErrorResponse {
			return
		}
		x.match(s.reply.Result().Get("inputRequests"))
	}
}

// match notes the keys here of the recorded questions.
func (x *telling) match(theirs jsonrpc.Value) {
	for _, q := range x.op.Questions {
		for key, r := range theirs.Members() {
			if m, _ := r.Get("method").Str(); m == q.Method && x.keys[q.Key] == "" && !x.known(key) {
				if was, err := jsonrpc.ParseValue(q.Params); err != nil || jsonrpc.Equal(plainQuestion(was), plainQuestion(r.Get("params"))) {
					x.keys[q.Key] = key
				}
			}
		}
	}
}

// known: the key here stands for a recorded one.
func (x *telling) known(key string) bool {
	for _, k := range x.keys {
		if k == key {
			return true
		}
	}
	return false
}

// learn notes the names here of what the recorded reply names.
func (x *telling) learn(was, is *jsonrpc.Message) {
	x.t.mu.Lock()
	defer x.t.mu.Unlock()
	a, b := translate.Facts(was, x.op.Method), translate.Facts(is, x.op.Method)
	for i := range min(len(a.TaskIDs), len(b.TaskIDs)) {
		old, _ := a.TaskIDs[i].Str()
		now, _ := b.TaskIDs[i].Str()
		x.t.tasks[old] = now
	}
	if s, ok := a.State.Str(); ok && b.State.Exists() {
		x.states[s] = b.State.Raw()
	}
	if s, ok := a.Cursor.Str(); ok && b.Cursor.Exists() {
		x.cursors[s] = b.Cursor.Raw()
	}
	taken := map[string]bool{}
	theirs := is.Result().Get("inputRequests")
	for key, q := range was.Result().Get("inputRequests").Members() {
		fallback := ""
		for k, r := range theirs.Members() {
			if taken[k] {
				continue
			}
			if sameQuestion(q, r) {
				fallback = k
				break
			}
			if fallback == "" {
				fallback = k
			}
		}
		if fallback != "" {
			taken[fallback] = true
			x.keys[key] = fallback
		}
	}
}

// sameQuestion compares two input requests, or two server requests' envelopes.
func sameQuestion(a, b jsonrpc.Value) bool {
	if m, _ := a.Get("method").Str(); !b.Get("method").Is(m) {
		return false
	}
	return jsonrpc.Equal(plainQuestion(a.Get("params")), plainQuestion(b.Get("params")))
}

// plainQuestion is what is asked, without what each dialect adds.
func plainQuestion(params jsonrpc.Value) []byte {
	v, err := params.Parse()
	if err != nil {
		return params.Raw()
	}
	e := v.Edit()
	for _, key := range []string{"_meta", "elicitationId", "task"} {
		e.Delete(v.Get(key))
	}
	if v.Get("mode").Is("form") { // the default
		e.Delete(v.Get("mode"))
	}
	return e.Bytes()
}

// rewritten is a recorded message of the client's with the names of here.
func (x *telling) rewritten(p operation.Part) []byte {
	if p.Msg == nil {
		return nil
	}
	x.t.mu.Lock()
	defer x.t.mu.Unlock()
	e := p.Msg.Edit()
	f := translate.Facts(p.Msg, p.Msg.Method)
	for _, v := range f.TaskIDs {
		old, _ := v.Str()
		if now, ok := x.t.tasks[old]; ok && now != old {
			e.Replace(v, jsonrpc.Quote(now))
		}
	}
	if s, ok := f.State.Str(); ok && x.states[s] != nil {
		e.Replace(f.State, x.states[s])
	}
	if s, ok := f.Cursor.Str(); ok && x.cursors[s] != nil {
		e.Replace(f.Cursor, x.cursors[s])
	}
	for key, v := range p.Msg.At("params", "inputResponses").Members() {
		if now := x.keys[key]; now != "" && now != key {
			e.Rename(v, now)
		}
	}
	return e.Bytes()
}

// answer waits for the question that p answered and answers it.
func (x *telling) answer(p operation.Part) {
	if p.To < 0 || x.op.Parts[p.To].Msg == nil || p.Msg == nil {
		return
	}
	asked := x.op.Parts[p.To]
	var h *heard
	x.until(func() bool { h = x.lane.find(asked.Msg); return h != nil })
	e := p.Msg.Edit()
	e.Replace(p.Msg.At("id"), h.msg.ID.Raw())
	f := translate.Facts(p.Msg, "")
	x.t.mu.Lock()
	for _, v := range f.TaskIDs {
		old, _ := v.Str()
		if now := x.t.tasks[old]; now != "" && now != old {
			e.Replace(v, jsonrpc.Quote(now))
		}
	}
	x.t.mu.Unlock()
	x.send(e.Bytes(), &p)
}

// find takes the question that is recorded's like: the same one, else the first
// of its method.
func (ln *lane) find(recorded *jsonrpc.Message) *heard {
	var alike *heard
	for _, h := range ln.asked {
		if h.used || h.msg.Method != recorded.Method {
			continue
		}
		if sameQuestion(recorded.Root(), h.msg.Root()) {
			h.used = true
			return h
		}
		if alike == nil && !ln.expects(h.msg) {
			alike = h
		}
	}
	if alike != nil {
		alike.used = true
	}
	return alike
}

// expects says whether a question is one that was recorded, so that it has an
// answer of its own.
func (ln *lane) expects(msg *jsonrpc.Message) bool {
	for _, op := range ln.ops {
		for _, p := range op.Parts {
			if p.Role == operation.RoleAsk && p.Msg != nil && sameQuestion(p.Msg.Root(), msg.Root()) {
				return true
			}
		}
	}
	return false
}
