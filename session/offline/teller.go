package offline

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"taskbridge/session"
	"taskbridge/session/virtual"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// teller says again what the clients of a capture said, at the recorded times
// of a virtual clock. What the clients waited for when they were recorded they
// wait for here: the reply before the next poll, the question before its answer.
type teller struct {
	w   *virtual.World
	hub session.Hub

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
