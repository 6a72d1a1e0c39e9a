package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// routeServer is a server of one era that mints the task ids "1", "2", and so
// on, like each of its siblings. What it says names it, and has text that looks
// like an id and is none.
type routeServer struct {
	name string
	era  translate.Era
	as   string // the upstream's name where it is not its own

	mu       sync.Mutex
	tasks    map[string]string // id → status
	minted   int
	sessions int
	down     bool
	noGet    bool // it offers no stream beside requests
	status   int  // HTTP status of all answers; 0: by the rules
	saw      []session.Outgoing
	answers  []*jsonrpc.Message // of clients to its questions
	pushes   map[string]*routeStream
	runs     map[string]int // tool calls by argument
	hung     []*routeStream // calls that are not answered yet
}

func newRouteServer(name string, era translate.Era) *routeServer {
	return &routeServer{name: name, era: era, tasks: map[string]string{}, pushes: map[string]*routeStream{}, runs: map[string]int{}}
}

func (s *routeServer) Dial(context.Context, session.Target) (session.Conn, error) {
	return routeConn{s}, nil
}

func (s *routeServer) Face(context.Context, session.Target) (session.Face, error) {
	if s.era == translate.Legacy {
		return session.Face{Era: translate.Legacy, Version: translate.LatestLegacy}, nil
	}
	return session.Face{Era: translate.Modern, Version: translate.LatestModern, Versions: []string{translate.LatestModern}, Tasks: true}, nil
}

type routeConn struct{ s *routeServer }

func (c routeConn) Close() error { return nil }

// routeStream is the reply to one message.
type routeStream struct {
	env    *translate.Envelope
	frames chan []byte // closed at its end
	ctx    context.Context
}

func (c routeConn) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, &session.DialError{Fail: session.FailUnreachable, Upstream: s.name, Err: errors.New("refused")}
	}
	s.saw = append(s.saw, out)
	st := &routeStream{env: &translate.Envelope{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}}, frames: make(chan []byte, 64), ctx: ctx}
	if s.status != 0 {
		st.env.Status = s.status
		close(st.frames)
		return st, nil
	}
	if out.Msg == nil {
		if out.Verb == http.MethodGet && s.noGet {
			st.env = &translate.Envelope{Status: http.StatusMethodNotAllowed}
		} else if out.Verb == http.MethodGet {
			s.pushes["get/"+out.Session] = st
			return st, nil
		}
		close(st.frames)
		return st, nil
	}
	m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{})
	if err != nil {
		return nil, err
	}
	if m.Kind != jsonrpc.Request {
		st.env.Status = 202
		if m.Kind != jsonrpc.Notification {
			s.answers = append(s.answers, m)
			if s.pushes["task/"+string(m.ID.Raw())] != nil { // the question of task 1
				delete(s.pushes, "task/"+string(m.ID.Raw()))
				s.tasks["1"] = "completed"
				s.paid("1")
			} else if waits := s.pushes["ask/"+string(m.ID.Raw())]; waits != nil {
				delete(s.pushes, "ask/"+string(m.ID.Raw()))
				waits.frames <- s.text(rid(waits), "answered "+string(m.Result().Get("action").Raw()))
				close(waits.frames)
			}
		}
		close(st.frames)
		return st, nil
	}
	if m.Method == "initialize" {
		s.sessions++
		st.env.Header["Mcp-Session-Id"] = []string{fmt.Sprintf("up-%s-%d", s.name, s.sessions)}
	}
	if s.serve(st, m) {
		close(st.frames)
	}
	return st, nil
}

func (st *routeStream) Envelope() *translate.Envelope { return st.env }
func (st *routeStream) Close() error                  { return nil }

func (st *routeStream) Next() (translate.Frame, error) {
	select {
	case raw, ok := <-st.frames:
		if !ok {
			return translate.Frame{}, io.EOF
		}
		m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
		return translate.Frame{Msg: m, Leg: translate.ServerLeg, Dir: translate.ToClient}, err
	case <-st.ctx.Done():
		return translate.Frame{}, st.ctx.Err()
	}
}

// rid is the id of the request a stream answers.
func rid(st *routeStream) jsonrpc.ID {
	id, _ := st.ctx.Value(ridKey{}).(jsonrpc.ID)
	return id
}

type ridKey struct{}

const stamps = `"createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:00Z"`

func (s *routeServer) text(id jsonrpc.ID, text string) []byte {
	extra := ""
	if s.era == translate.Modern {
		extra = `"resultType":"complete",`
	}
	return jsonrpc.NewResult(id, []byte(`{`+extra+`"content":[{"type":"text","text":"`+s.name+` `+strings.ReplaceAll(text, `"`, "'")+` {'taskId':'1'}"}]}`))
}

func (s *routeServer) task(id string) string {
	if s.era == translate.Modern {
		t := `"taskId":"` + id + `","status":"` + s.tasks[id] + `",` + stamps + `,"ttlMs":null,"pollIntervalMs":100`
		if s.tasks[id] == "input_required" {
			t += `,"inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{}}}}}`
		}
		if s.tasks[id] == "failed" {
			t += `,"error":{"code":-32603,"message":"it broke"}`
		}
		if s.tasks[id] == "completed" {
			t += `,"result":{"content":[{"type":"text","text":"` + s.name + ` result {'taskId':'1'}"}]}`
		}
		return t
	}
	return `"taskId":"` + id + `","status":"` + s.tasks[id] + `",` + stamps + `,"ttl":null,"pollInterval":100`
}

// serve answers a request; false: its stream stays open.
func (s *routeServer) serve(st *routeStream, m *jsonrpc.Message) bool {
	st.ctx = context.WithValue(st.ctx, ridKey{}, m.ID)
	reply := func(result string) bool {
		if s.era == translate.Modern {
			result = `{"resultType":"complete",` + strings.TrimPrefix(result, "{")
			result = strings.Replace(result, ",}", "}", 1)
		}
		st.frames <- jsonrpc.NewResult(m.ID, []byte(result))
		return true
	}
	refuse := func(code int) bool {
		st.frames <- jsonrpc.NewError(m.ID, code, "refused by "+s.name, nil)
		return true
	}
	caps := `{"tools":{"listChanged":true},"prompts":{},"resources":{}`
	switch m.Method {
	case "initialize":
		return reply(`{"protocolVersion":"2025-11-25","capabilities":` + caps + `,"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"` + s.name + `","version":"9.9"}}`)
	case "server/discover":
		return reply(`{"supportedVersions":["2026-07-28"],"capabilities":` + caps + `,"extensions":{"io.modelcontextprotocol/tasks":{}}},"serverInfo":{"name":"` + s.name + `","version":"9.9"}}`)
	case "ping", "logging/setLevel":
		return reply(`{}`)
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		member := map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}[m.Method]
		cursor, _ := m.At("params", "cursor").Str()
		switch cursor {
		case "":
			return reply(`{"` + member + `":[],"nextCursor":"page2"}`)
		case "page2":
			return reply(`{"` + member + `":[` + s.item(member) + `]}`)
		}
		return refuse(-32602)
	case "tools/call":
		return s.call(st, m, reply)
	case "prompts/get":
		return reply(`{"messages":[{"role":"user","content":{"type":"text","text":"` + s.name + `"}}]}`)
	case "resources/read":
		return reply(`{"contents":[{"uri":"u:1","text":"` + s.name + `"}]}`)
	case "completion/complete":
		return reply(`{"completion":{"values":["` + s.name + `"]}}`)
	case "subscriptions/listen":
		id := string(m.ID.Raw())
		ids := m.At("params", "notifications", "taskIds")
		granted := `{}`
		if ids.Exists() {
			granted = `{"taskIds":` + string(ids.Raw()) + `}`
		}
		st.frames <- []byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":` + granted + `,"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`)
		s.pushes["listen/"+id] = st
		return false
	case "tasks/list":
		if s.era == translate.Modern {
			return refuse(-32601)
		}
		var list []string
		for i := s.minted; i > 0; i-- {
			list = append(list, "{"+s.task(fmt.Sprint(i))+"}")
		}
		return reply(`{"tasks":[` + strings.Join(list, ",") + `]}`)
	}
	id, _ := m.At("params", "taskId").Str()
	switch {
	case s.era == translate.Modern && m.Method == "tasks/result":
		return refuse(-32601)
	case s.era == translate.Legacy && m.Method == "tasks/cancel" && translate.Terminal(s.tasks[id]):
		return refuse(-32602)
	}
	if s.tasks[id] == "" {
		return refuse(-32602)
	}
	switch m.Method {
	case "tasks/get":
		return reply(`{` + s.task(id) + `}`)
	case "tasks/update":
		s.tasks[id] = "completed"
		return reply(`{}`)
	case "tasks/cancel":
		s.tasks[id] = "cancelled"
		if s.era == translate.Modern {
			return reply(`{}`)
		}
		return reply(`{` + s.task(id) + `}`)
	case "tasks/result":
		s.pushes["result/"+id] = st
		switch s.tasks[id] {
		case "input_required":
			s.pushes["task/7"] = st
			st.frames <- []byte(`{"jsonrpc":"2.0","id":7,"method":"elicitation\/create","params":{"message":"Which?","requestedSchema":{"type":"object","properties":{}},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}}}`)
		case "working":
		default:
			s.paid(id)
		}
		return false
	}
	return refuse(-32601)
}

// paid answers a tasks/result.
func (s *routeServer) paid(id string) {
	if st := s.pushes["result/"+id]; st != nil {
		delete(s.pushes, "result/"+id)
		st.frames <- jsonrpc.NewResult(rid(st), []byte(`{"content":[{"type":"text","text":"`+s.name+` result {'taskId':'1'}"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}}}`))
		close(st.frames)
	}
}

// finish ends a task.
func (s *routeServer) finish(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[id] = "completed"
	s.paid(id)
}

func (s *routeServer) item(member string) string {
	switch member {
	case "tools":
		if s.era == translate.Modern {
			return `{"name":"t","inputSchema":{"type":"object"},"description":"` + s.name + `"}`
		}
		return `{"name":"t","inputSchema":{"type":"object"},"description":"` + s.name + `","execution":{"taskSupport":"optional"}}`
	case "prompts":
		return `{"name":"` + s.name + `"}`
	case "resources":
		return `{"uri":"u:1","name":"` + s.name + `"}`
	}
	return `{"uriTemplate":"u:{x}","name":"` + s.name + `"}`
}

func (s *routeServer) call(st *routeStream, m *jsonrpc.Message, reply func(string) bool) bool {
	_, do, _ := strings.Cut(string(m.At("params", "arguments").Raw()), `"do":"`)
	do, _, _ = strings.Cut(do, `"`)
	s.runs[do]++
	asTask := m.At("params", "task").Exists() || s.era == translate.Modern && translate.DeclaresTasks(m)
	switch {
	case strings.HasPrefix(do, "task") && asTask:
		s.minted++
		id := fmt.Sprint(s.minted)
		s.tasks[id] = "working"
		if s.era == translate.Modern {
			st.frames <- jsonrpc.NewResult(m.ID, []byte(`{"resultType":"task",`+s.task(id)+`}`))
			return true
		}
		return reply(`{"task":{` + s.task(id) + `}}`)
	case do == "ask" && s.era == translate.Modern:
		if m.At("params", "requestState").Exists() {
			state, _ := m.At("params", "requestState").Str()
			st.frames <- s.text(m.ID, "state "+state+" "+string(m.At("params", "inputResponses").Raw()))
			return true
		}
		st.frames <- jsonrpc.NewResult(m.ID, []byte(`{"resultType":"input_required","requestState":"of `+s.name+`","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{}}}}}}`))
		return true
	case do == "ask":
		st.frames <- []byte(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"Which?","requestedSchema":{"type":"object","properties":{}}}}`)
		s.pushes["ask/7"] = st
		return false
	}
	if do == "hang" { // until refuseHung
		s.hung = append(s.hung, st)
		return false
	}
	st.frames <- s.text(m.ID, do)
	return true
}

func (s *routeServer) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// sawMethod counts the requests of a method.
func (s *routeServer) sawMethod(method string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, out := range s.saw {
		if m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{}); err == nil && m.Method == method {
			n++
		}
	}
	return n
}

// push tells all listens of a task what state it is in.
func (s *routeServer) push(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, st := range s.pushes {
		listen, ok := strings.CutPrefix(key, "listen/")
		if ok && s.era == translate.Modern {
			st.frames <- []byte(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{` + s.task(id) + `,"_meta":{"io.modelcontextprotocol/subscriptionId":` + listen + `}}}`)
		}
	}
}

// asks has a task ask its client something. A legacy server asks on the streams
// of tasks/result.
func (s *routeServer) asks(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[id] = "input_required"
}

// openings counts the sessions opened.
func (s *routeServer) openings() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions
}
