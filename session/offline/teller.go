package offline

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"taskbridge/session"
	"taskbridge/session/virtual"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// teller says again what the clients of a capture said, at the recorded times
// of a virtual clock. What the clients waited for when they were recorded they
// wait for here: the reply before the next poll, the question before its answer.
type teller struct {
	w     *virtual.World
	hub   session.Hub
	start time.Time // the first operation's

	mu      sync.Mutex // protects the fields below and all tellings'
	lanes   map[string]*lane
	left    int  // operations not over
	lists   int  // tools/list requests of clients without an answer
	hears   bool // a client listens beyond its requests
	tasks   map[string]string
	order   []*lane // in the order they began
	all     []*telling
	stopped bool
}

// lane is one client: its session, and what it was asked.
type lane struct {
	ops              []*operation.Operation
	session, version string
	opening          bool
	asked            []*heard
	open             map[int]bool // operations not over, by N, without those that listen
	waiting          []*telling
}

// heard is one question that came from the hub.
type heard struct {
	msg  *jsonrpc.Message
	used bool
}

// telling is one operation being said again.
type telling struct {
	t    *teller
	lane *lane
	op   *operation.Operation
	gate session.Gate
	// replies are what came for the request in each part; keys are the names
	// here of the recorded keys of input requests, states those of requestStates.
	replies map[int]*saying
	keys    map[string]string
	states  map[string][]byte
	cursors map[string][]byte
	ends    []context.CancelFunc
}

// saying is one message and what came back for it.
type saying struct {
	reply *jsonrpc.Message
	over  bool
}

func laneKey(op *operation.Operation) string {
	switch {
	case op.Session != "":
		return "session " + op.Session
	case op.Conn != "":
		return "conn " + op.Conn
	}
	return "principal " + op.Principal + " " + op.Client
}

func newTeller(w *virtual.World, hub session.Hub, ops []*operation.Operation) *teller {
	t := &teller{w: w, hub: hub, lanes: map[string]*lane{}, tasks: map[string]string{}}
	for _, op := range ops {
		if len(op.Parts) == 0 {
			continue
		}
		key := laneKey(op)
		if t.lanes[key] == nil {
			t.lanes[key] = &lane{open: map[int]bool{}}
			t.order = append(t.order, t.lanes[key])
		}
		t.lanes[key].ops = append(t.lanes[key].ops, op)
		if t.start.IsZero() || op.Began.Before(t.start) {
			t.start = op.Began
		}
	}
	return t
}

// plan begins every operation at its time.
func (t *teller) plan() {
	for _, ln := range t.order {
		for _, op := range ln.ops {
			x := &telling{t: t, lane: ln, op: op, gate: t.w.Gate(), replies: map[int]*saying{},
				keys: map[string]string{}, states: map[string][]byte{}, cursors: map[string][]byte{}}
			t.hears = t.hears || op.Kind == operation.Listen || op.Transport != "http" && op.Transport != ""
			if op.Kind != operation.Listen {
				t.left++
				ln.open[op.N] = true
			}
			t.all = append(t.all, x)
			t.w.AfterFunc(op.Began.Sub(t.w.Now()), func() { go t.w.Work(x.tell)() })
		}
	}
}

// over says whether every operation is.
func (t *teller) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.left == 0
}

// stop ends all that is still said and heard, and says how many operations were
// not over.
func (t *teller) stop() (unfinished int) {
	t.mu.Lock()
	t.stopped = true
	left := t.left
	var ends []context.CancelFunc
	for _, x := range t.all {
		ends = append(ends, x.ends...)
	}
	t.mu.Unlock()
	for _, end := range ends {
		end()
	}
	for _, x := range t.all {
		x.gate.Open()
	}
	return left
}

// unasked says whether what is sent to the server is a proxy's own doing, which
// no client would have done: a look at the tools' marks, a stream nobody
// listens to, a subscription that is refused here.
func (t *teller) unasked(verb string, m *jsonrpc.Message) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case verb == http.MethodGet:
		return !t.hears
	case m != nil && m.Method == "tools/list":
		return t.lists == 0
	}
	return listensToTasks(m)
}

// until waits for something that only other work brings.
func (x *telling) until(cond func() bool) {
	for {
		x.t.mu.Lock()
		ok, stopped := cond(), x.t.stopped
		if !ok {
			x.lane.waiting = append(x.lane.waiting, x)
		}
		x.t.mu.Unlock()
		if ok {
			return
		}
		if stopped {
			runtime.Goexit() // nothing more will come
		}
		x.gate.Wait()
	}
}

// changed lets those of a lane look again; it needs t.mu.
func (ln *lane) changed() {
	for _, x := range ln.waiting {
		x.gate.Open()
	}
	ln.waiting = nil
}

// sleep waits until the recorded time at.
func (x *telling) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	over := false
	x.t.w.AfterFunc(d, func() {
		x.t.mu.Lock()
		over = true
		x.t.mu.Unlock()
		x.gate.Open()
	})
	for {
		x.gate.Wait()
		x.t.mu.Lock()
		done, stopped := over, x.t.stopped
		x.t.mu.Unlock()
		switch {
		case done:
			return
		case stopped:
			runtime.Goexit()
		}
	}
}

func (x *telling) tell() {
	if x.op.Kind == operation.Listen {
		x.listen()
		return
	}
	x.until(func() bool {
		for _, n := range x.op.After {
			if x.lane.open[n] {
				return false
			}
		}
		return true
	})
	x.ready()
	for i, p := range x.op.Parts {
		x.part(i, p)
	}
	if x.op.Outcome == operation.Cancelled && x.op.Era == translate.Modern {
		x.sleep(x.op.Ended.Sub(x.t.w.Now()))
		for _, end := range x.ends {
			end()
		}
	}
	x.t.mu.Lock()
	x.t.left--
	delete(x.lane.open, x.op.N)
	x.lane.changed()
	x.t.mu.Unlock()
}

// ready sees to it that a legacy client has a session although its capture
// began later.
func (x *telling) ready() {
	if x.op.Era == translate.Modern || x.op.Kind == operation.Open {
		return
	}
	x.t.mu.Lock()
	first := x.lane.session == "" && !x.lane.opening
	if first {
		x.lane.opening = true
	}
	x.t.mu.Unlock()
	if first {
		version := x.op.Version
		if version == "" {
			version = translate.Versions(translate.Legacy)[0]
		}
		params := jsonrpc.NewObject().Str("protocolVersion", version).
			Raw("capabilities", []byte(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`)).
			Raw("clientInfo", []byte(`{"name":"taskbridge-translate","version":"1"}`)).Bytes()
		x.open(x.send(jsonrpc.NewRequest(jsonrpc.StringID("taskbridge-initialize"), "initialize", params), nil))
		x.send(jsonrpc.NewNotification("notifications/initialized", nil), nil)
	}
	x.until(func() bool { return x.lane.session != "" })
}

// open waits for the answer to initialize.
func (x *telling) open(s *saying) {
	x.until(func() bool { return s.over })
	x.t.mu.Lock()
	if s.reply != nil {
		x.lane.version, _ = s.reply.Result().Get("protocolVersion").Str()
	}
	x.lane.changed()
	x.t.mu.Unlock()
}

// part says what the client said in it, or waits for what the server said.
func (x *telling) part(i int, p operation.Part) {
	if p.Record.Dir == translate.ToServer {
		x.sleep(p.Record.Time.Sub(x.t.w.Now()))
		if p.Role == operation.RoleAnswer {
			x.answer(p)
			return
		}
		if p.Role == operation.RoleUpdate && p.Msg != nil {
			x.findKeys(p.Msg)
		}
		s := x.send(x.rewritten(p), &p)
		x.t.mu.Lock()
		x.replies[i] = s
		x.t.mu.Unlock()
		if p.Msg != nil && p.Msg.Method == "initialize" {
			x.open(s)
			if x.op.Transport != "http" && x.op.Transport != "" {
				x.own()
			}
		}
		return
	}
	if p.Role == operation.RoleReply && p.To >= 0 {
		x.heard(p)
	}
}

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

// send hands one message over and reads what comes of it. p is the part it
// repeats, nil: it is ours.
func (x *telling) send(raw []byte, p *operation.Part) *saying {
	s := &saying{}
	ctx, cancel := x.t.w.WithCancel()
	x.t.mu.Lock()
	x.ends = append(x.ends, cancel)
	caller := session.Caller{Principal: session.HashPrincipal("capture", x.op.Principal), Era: translate.Legacy, Session: x.lane.session, Version: x.lane.version}
	x.t.mu.Unlock()
	verb := http.MethodPost
	var m *jsonrpc.Message
	if raw == nil {
		if p != nil && p.Record.Verb != "" {
			verb = p.Record.Verb
		}
	} else {
		var err error
		if m, err = jsonrpc.Decode(raw, jsonrpc.Limits{}); err != nil {
			s.over = true
			return s
		}
		caller = headersOf(caller, m, p)
		if m.Method == "tools/list" {
			x.t.mu.Lock()
			x.t.lists++
			x.t.mu.Unlock()
		}
	}
	stream := x.t.hub.NewStream()
	in := session.Inbound{Caller: caller, Frame: translate.Frame{
		Msg: m, Leg: translate.ClientLeg, Dir: translate.ToServer, Stream: stream.ID, Time: x.t.w.Now(),
		HTTP: &translate.Envelope{Verb: verb, Header: caller.Header},
	}}
	go x.t.w.Work(func() {
		defer stream.Gone()
		x.t.hub.Client(ctx, in, stream)
		x.read(ctx, stream, s)
		if m != nil && m.Method == "tools/list" {
			x.t.mu.Lock()
			x.t.lists--
			x.t.mu.Unlock()
		}
	})()
	return s
}

// headersOf says of the caller what the headers of an HTTP request would.
func headersOf(c session.Caller, m *jsonrpc.Message, p *operation.Part) session.Caller {
	version, modern := m.At("params", "_meta", translate.MetaVersion).Str()
	if !modern {
		if m.Method == "initialize" {
			c.Session, c.Version = "", ""
		}
		c.Header = http.Header{}
		return c
	}
	h := translate.StandardHeaders(m)
	h[translate.HeaderVersion] = []string{version}
	if p != nil {
		for name, values := range translate.RequestHeaders(p.Record.Header, translate.Modern) {
			if h[name] == nil {
				h[name] = values
			}
		}
	}
	c.Era, c.Version, c.Session, c.Header = translate.Modern, version, "", h
	return c
}

// read takes what comes back for one message.
func (x *telling) read(ctx context.Context, stream *session.ClientStream, s *saying) {
	for {
		out, ok := stream.NextOn(ctx, x.t.w)
		x.t.mu.Lock()
		if id := out.Header.Get(translate.HeaderSession); id != "" {
			x.lane.session = id
		}
		if out.Raw != nil {
			if m, err := jsonrpc.Decode(out.Raw, jsonrpc.Limits{}); err == nil {
				switch m.Kind {
				case jsonrpc.Request:
					x.lane.asked = append(x.lane.asked, &heard{msg: m})
				case jsonrpc.Response, jsonrpc.ErrorResponse:
					s.reply = m
				}
			}
		}
		s.over = s.over || !ok || out.Final
		x.lane.changed()
		over := s.over
		x.t.mu.Unlock()
		if over {
			return
		}
	}
}

// own opens a session's own stream where the transport has it from the
// beginning.
func (x *telling) own() {
	x.send(nil, &operation.Part{Record: ownStream})
}

// listen keeps a stream open as long as it was.
func (x *telling) listen() {
	x.ready()
	first := x.op.First()
	x.send(x.rewritten(first), &first)
	if !x.op.Ended.IsZero() {
		x.sleep(x.op.Ended.Sub(x.t.w.Now()))
		for _, end := range x.ends {
			end()
		}
	}
}

var ownStream = &capture.Record{Verb: http.MethodGet}
