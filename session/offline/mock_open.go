package offline

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// Face implements session.Faces: what the capture's server speaks.
func (m *Mock) Face(context.Context, session.Target) (session.Face, error) { return m.face, nil }

func (m *Mock) look() session.Face {
	f := session.Face{Era: m.o.Era, Tasks: m.tasked()}
	for _, op := range m.o.Operations {
		if op.Era == m.o.Era && op.Version != "" {
			f.Version = op.Version
		}
	}
	if f.Version == "" {
		f.Version = translate.Versions(m.o.Era)[0]
	}
	if m.o.Era == translate.Modern {
		f.Versions = []string{f.Version}
	}
	return f
}

// tasked: the server was seen to know tasks.
func (m *Mock) tasked() bool {
	return slices.ContainsFunc(m.o.Operations, func(op *operation.Operation) bool {
		if op.Era != m.o.Era {
			return false
		}
		if op.Kind != operation.Open || op.Result == nil {
			return op.Kind == operation.Task
		}
		v, err := jsonrpc.ParseValue(op.Result)
		if err != nil {
			return false
		}
		caps := v.Get("capabilities")
		return caps.Get("tasks").Exists() || caps.Get("extensions").Get(translate.ExtTasks).Exists()
	})
}

// open answers initialize and server/discover as the capture has it, else with
// what its messages show of the server.
func (m *Mock) open(s *stream, msg *jsonrpc.Message) {
	m.mu.Lock()
	op := m.opens.take()
	m.sessions++
	name := "mock-" + strconv.Itoa(m.sessions)
	m.mu.Unlock()
	result := m.guess(msg)
	if op != nil && op.Method == msg.Method && op.Result != nil {
		result = op.Result
	}
	var h http.Header
	if msg.Method == "initialize" {
		h = http.Header{translate.HeaderSession: {name}}
	}
	s.put(jsonrpc.NewResult(msg.ID, result), true, http.StatusOK, h)
}

// guess is the handshake of a server whose own was not recorded.
func (m *Mock) guess(msg *jsonrpc.Message) []byte {
	caps := jsonrpc.NewObject()
	have := map[string]bool{}
	for _, op := range m.o.Operations {
		have[op.Method] = true
	}
	for _, c := range []struct {
		name    string
		methods []string
	}{
		{"tools", []string{"tools/list", "tools/call"}},
		{"prompts", []string{"prompts/list", "prompts/get"}},
		{"resources", []string{"resources/list", "resources/read", "resources/templates/list"}},
		{"completions", []string{"completion/complete"}},
		{"logging", []string{"logging/setLevel"}},
	} {
		if slices.ContainsFunc(c.methods, func(m string) bool { return have[m] }) {
			caps.Raw(c.name, []byte("{}"))
		}
	}
	info := jsonrpc.NewObject().Str("name", "capture").Str("version", "1").Bytes()
	if msg.Method == "server/discover" {
		if m.face.Tasks {
			caps.Raw("extensions", jsonrpc.NewObject().Raw(translate.ExtTasks, []byte("{}")).Bytes())
		}
		return jsonrpc.NewObject().Str("resultType", "complete").Raw("supportedVersions", append(append([]byte{'['}, jsonrpc.Quote(m.face.Version)...), ']')).
			Raw("capabilities", caps.Bytes()).Raw("_meta", jsonrpc.NewObject().Raw(translate.MetaServerInfo, info).Bytes()).
			Int("ttlMs", 0).Str("cacheScope", "private").Bytes()
	}
	if m.face.Tasks {
		caps.Raw("tasks", []byte(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`))
	}
	version, _ := msg.At("params", "protocolVersion").Str()
	return jsonrpc.NewObject().Str("protocolVersion", version).Raw("capabilities", caps.Bytes()).Raw("serverInfo", info).Bytes()
}

// toolList names the tools the capture shows in use, where it holds no list.
func (m *Mock) toolList() []byte {
	seen := map[string]bool{}
	list := []byte{'['}
	for _, op := range m.o.Operations {
		if op.Method != "tools/call" || seen[op.Name] || op.Era != m.o.Era {
			continue
		}
		seen[op.Name] = true
		if len(list) > 1 {
			list = append(list, ',')
		}
		t := jsonrpc.NewObject().Str("name", op.Name).Raw("inputSchema", []byte(`{"type":"object"}`))
		if op.Kind == operation.Task && m.o.Era == translate.Legacy {
			t.Raw("execution", []byte(`{"taskSupport":"optional"}`))
		}
		list = append(list, t.Bytes()...)
	}
	o := jsonrpc.NewObject()
	if m.o.Era == translate.Modern {
		o.Str("resultType", "complete").Int("ttlMs", 0).Str("cacheScope", "private")
	}
	return o.Raw("tools", append(list, ']')).Bytes()
}

// listen is a legacy session's own stream: what was recorded on one is said
// again, then it stays open.
func (m *Mock) listen(s *stream) {
	m.mu.Lock()
	var op *operation.Operation
	if m.gets.next < len(m.gets.ops) {
		op = m.gets.ops[m.gets.next]
		m.gets.next++
	}
	m.listens = append(m.listens, s)
	m.mu.Unlock()
	s.gone = func() {
		m.mu.Lock()
		m.listens = slices.DeleteFunc(m.listens, func(l *stream) bool { return l == s })
		m.mu.Unlock()
	}
	if op != nil && op.Outcome == operation.Refused {
		s.refuse(op.Status, nil)
		return
	}
	s.begin()
	if op != nil {
		m.repeat(s, op, nil)
	}
}

// repeat says op's notifications at their times. id, if given, is the
// subscription's here.
func (m *Mock) repeat(s *stream, op *operation.Operation, id []byte) {
	for _, p := range op.Parts {
		if !p.IsNotice() || translate.TaskMethod(p.Msg.Method) {
			continue
		}
		raw := p.Msg.Raw
		if sub := p.Msg.At("params", "_meta", translate.MetaSubscription); sub.Exists() && id != nil {
			e := p.Msg.Edit()
			e.Replace(sub, id)
			raw = e.Bytes()
		}
		m.after(p.Record.Time.Sub(op.Began), func() { s.say(raw) })
	}
}

// subscribe is a modern client's subscriptions/listen.
func (m *Mock) subscribe(s *stream, msg *jsonrpc.Message) {
	m.mu.Lock()
	op := m.shelves[requestKey(msg)].take()
	if op == nil && len(m.methods["subscriptions/listen\x00"]) > 0 {
		op = m.methods["subscriptions/listen\x00"][0]
	}
	m.mu.Unlock()
	if op == nil || op.Outcome == operation.Refused || op.Outcome == operation.Failed {
		s.end(jsonrpc.NewError(msg.ID, -32601, "Method not found: the capture has no subscriptions/listen", nil))
		return
	}
	m.repeat(s, op, msg.ID.Raw())
}
