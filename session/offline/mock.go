package offline

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// MockOptions are what a Mock is made of.
type MockOptions struct {
	// Operations are one leg's, all of one era: what the server said to them is
	// what the mock says.
	Operations []*operation.Operation
	Era        translate.Era
	Clock      session.Clock // nil: the machine's
	// Speed is how many times faster than recorded answers come; 0: at once.
	Speed float64
	// Missed hears of each request the capture has no answer to; nil: nobody.
	Missed func(Missed)
}

// Missed is a request that a capture has no answer to.
type Missed struct {
	Method, Name string
	// Nearest says which recorded operation comes closest, empty if none does.
	Nearest string
}

func (m Missed) String() string {
	s := m.Method
	if m.Name != "" {
		s += " " + strconv.Quote(m.Name)
	}
	if m.Nearest == "" {
		return s + ": the capture has no such request"
	}
	return s + ": no recorded request has these params; nearest is " + m.Nearest
}

// Mock is a server made of a capture. It speaks the era it was recorded in:
// calls are answered as recorded, in the recorded order where they are equal;
// tasks go through their recorded states, wait for the answers to their
// questions, and can be asked any number of times. It implements
// session.Dialer and session.Faces. Safe for concurrent use.
type Mock struct {
	o     MockOptions
	clock session.Clock
	face  session.Face

	mu       sync.Mutex // protects the fields below and all tasks'
	shelves  map[string]*shelf
	methods  map[string][]*operation.Operation // by method and name
	opens    shelf
	gets     shelf // legacy: GET streams; each is said again once
	tasks    map[string]*mockTask
	states   map[string]round        // modern: by requestState
	asks     map[string]func([]byte) // by the id asked with
	plays    map[string]*play        // legacy: by session and request id
	listens  []*stream
	numbers  int
	sessions int
}

// shelf holds operations that a request cannot tell apart, in their order.
type shelf struct {
	ops  []*operation.Operation
	next int
}

// take gives the next one; the last is given again and again.
func (s *shelf) take() *operation.Operation {
	if s == nil || len(s.ops) == 0 {
		return nil
	}
	op := s.ops[s.next]
	if s.next < len(s.ops)-1 {
		s.next++
	}
	return op
}

// NewMock returns a server that answers as o.Operations were answered.
func NewMock(o MockOptions) *Mock {
	m := &Mock{
		o: o, clock: o.Clock, shelves: map[string]*shelf{}, methods: map[string][]*operation.Operation{}, tasks: map[string]*mockTask{},
		states: map[string]round{}, asks: map[string]func([]byte){}, plays: map[string]*play{},
	}
	if m.clock == nil {
		m.clock = session.RealClock{}
	}
	m.face = m.look()
	for _, op := range o.Operations {
		if len(op.Parts) == 0 || op.Era != o.Era {
			continue
		}
		if op.Parts[0].Msg == nil {
			if op.Kind == operation.Listen {
				m.gets.ops = append(m.gets.ops, op)
			}
			continue
		}
		if op.Kind == operation.Open {
			if op.Outcome == operation.OK {
				m.opens.ops = append(m.opens.ops, op)
			}
			continue
		}
		key := requestKey(op.Parts[0].Msg)
		if m.shelves[key] == nil {
			m.shelves[key] = &shelf{}
		}
		m.shelves[key].ops = append(m.shelves[key].ops, op)
		alike := op.Method + "\x00" + op.Name
		m.methods[alike] = append(m.methods[alike], op)
	}
	return m
}

// notOfTheKey are the members of params that do not say what is wanted.
var notOfTheKey = []string{"_meta", "task", "requestState", "inputResponses", "cursor"}

// requestKey is equal for requests that want the same.
func requestKey(m *jsonrpc.Message) string {
	var members []string
	for key, v := range m.Params().Members() {
		if !slices.Contains(notOfTheKey, key) {
			members = append(members, strconv.Quote(key)+":"+string(v.Raw()))
		}
	}
	slices.Sort(members)
	return m.Method + "\x00" + strings.Join(members, ",")
}

// Dial implements session.Dialer.
func (m *Mock) Dial(context.Context, session.Target) (session.Conn, error) { return mockConn{m}, nil }

type mockConn struct{ m *Mock }

func (mockConn) Close() error { return nil }

// Do implements session.Conn.
func (c mockConn) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	s := newStream(ctx, c.m.clock)
	if err := c.m.take(s, out); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.opened(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (m *Mock) take(s *stream, out session.Outgoing) error {
	if out.Msg == nil {
		if out.Verb == http.MethodGet {
			m.listen(s)
		} else {
			s.refuse(http.StatusOK, nil)
		}
		return nil
	}
	msg, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{})
	if err != nil {
		return &session.DialError{Fail: session.FailBroken, Upstream: "capture", Err: err}
	}
	switch msg.Kind {
	case jsonrpc.Request:
		m.request(s, out.Session, msg)
		return nil
	case jsonrpc.Notification:
		if msg.Method == "notifications/cancelled" {
			m.cancelled(out.Session, msg)
		}
	default:
		m.answered(msg)
	}
	s.refuse(http.StatusAccepted, nil)
	return nil
}

// request leads a request to what answers it.
func (m *Mock) request(s *stream, sess string, msg *jsonrpc.Message) {
	switch msg.Method {
	case "initialize", "server/discover":
		m.open(s, msg)
		return
	case "ping":
		s.end(jsonrpc.NewResult(msg.ID, []byte("{}")))
		return
	case "subscriptions/listen":
		m.subscribe(s, msg)
		return
	}
	if translate.TaskMethod(msg.Method) {
		m.task(s, msg)
		return
	}
	m.mu.Lock()
	r, ok := m.find(msg)
	m.mu.Unlock()
	switch {
	case ok:
		m.play(s, sess, msg, r)
	case msg.Method == "tasks/list":
		s.end(jsonrpc.NewResult(msg.ID, m.taskList()))
	case msg.Method == "tools/list":
		s.end(jsonrpc.NewResult(msg.ID, m.toolList()))
	case msg.Method == "logging/setLevel", msg.Method == "resources/subscribe", msg.Method == "resources/unsubscribe":
		s.end(jsonrpc.NewResult(msg.ID, m.empty()))
	default:
		m.missed(s, msg)
	}
}

// empty is a result without content in the mock's era.
func (m *Mock) empty() []byte {
	if m.o.Era == translate.Modern {
		return []byte(`{"resultType":"complete"}`)
	}
	return []byte("{}")
}

// round is one request of an operation and what came of it.
type round struct {
	op   *operation.Operation
	part int // of the request
}

// find looks for the recorded round that msg asks for; it needs m.mu.
func (m *Mock) find(msg *jsonrpc.Message) (round, bool) {
	if state, ok := msg.At("params", "requestState").Str(); ok {
		if r, ok := m.states[state]; ok {
			return r, true
		}
	}
	shelf := m.shelves[requestKey(msg)]
	if shelf == nil {
		shelf = m.alike(msg)
	}
	if cursor := msg.At("params", "cursor"); cursor.Exists() && shelf != nil {
		for _, op := range shelf.ops {
			for i, p := range op.Parts {
				if p.Role == operation.RoleRequest && p.Msg != nil && jsonrpc.Equal(p.Msg.At("params", "cursor").Raw(), cursor.Raw()) {
					return round{op, i}, true
				}
			}
		}
		return round{}, false
	}
	if msg.At("params", "inputResponses").Exists() && shelf != nil { // a retry without a state
		op := shelf.ops[max(0, shelf.next-1)]
		for i, p := range op.Parts {
			if p.Role == operation.RoleRequest && p.Msg != nil && p.Msg.At("params", "inputResponses").Exists() {
				return round{op, i}, true
			}
		}
	}
	op := shelf.take()
	return round{op, 0}, op != nil
}

// maxAlike bounds the operations that are compared one by one.
const maxAlike = 256

// alike finds an operation whose params are the same values spelled otherwise.
func (m *Mock) alike(msg *jsonrpc.Message) *shelf {
	list := m.methods[msg.Method+"\x00"+translate.Facts(msg, msg.Method).Name]
	for _, op := range list[:min(len(list), maxAlike)] {
		first := op.Parts[0].Msg
		if sameParams(first, msg) {
			return m.shelves[requestKey(first)]
		}
	}
	return nil
}

// sameParams compares what two requests want. Absent arguments are empty ones.
func sameParams(a, b *jsonrpc.Message) bool {
	wanted := func(m *jsonrpc.Message) []byte {
		o := jsonrpc.NewObject()
		for key, v := range m.Params().Members() {
			if slices.Contains(notOfTheKey, key) || key == "arguments" && string(v.Raw()) == "{}" {
				continue
			}
			o.Raw(key, v.Raw())
		}
		return o.Bytes()
	}
	return jsonrpc.Equal(wanted(a), wanted(b))
}

// missed answers what nobody recorded, loudly.
func (m *Mock) missed(s *stream, msg *jsonrpc.Message) {
	miss := Missed{Method: msg.Method, Name: translate.Facts(msg, msg.Method).Name}
	m.mu.Lock()
	if list := m.methods[msg.Method+"\x00"+miss.Name]; len(list) > 0 {
		near := nearest(list, msg)
		miss.Nearest = fmt.Sprintf("operation %d on line %d", near.N, near.Parts[0].Record.Line)
	}
	m.mu.Unlock()
	if m.o.Missed != nil {
		m.o.Missed(miss)
	}
	s.end(jsonrpc.NewError(msg.ID, -32603, "not in the capture: "+miss.String(), nil))
}

// nearest is the operation of list whose params share the most members.
func nearest(list []*operation.Operation, msg *jsonrpc.Message) *operation.Operation {
	best, most := list[0], -1
	args, _ := msg.At("params", "arguments").Parse()
	for _, op := range list[:min(len(list), maxAlike)] {
		n := 0
		theirs, _ := op.Parts[0].Msg.At("params", "arguments").Parse()
		for key, v := range args.Members() {
			if t := theirs.Get(key); t.Exists() && jsonrpc.Equal(t.Raw(), v.Raw()) {
				n++
			}
		}
		if n > most {
			best, most = op, n
		}
	}
	return best
}

// after carries f out when what took d in the capture would be over here.
func (m *Mock) after(d time.Duration, f func()) func() bool {
	if m.o.Speed <= 0 || d < 0 {
		d = 0
	} else {
		d = time.Duration(float64(d) / m.o.Speed)
	}
	return m.clock.AfterFunc(d, f)
}
