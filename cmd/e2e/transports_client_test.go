package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/translate"
)

// conduit carries a client's messages over one transport. What comes back goes
// to the function it was opened with, one message at a time.
type conduit interface {
	// Send takes one message. It returns once the message is on its way, so that
	// those of one caller keep their order.
	Send(raw []byte) error
	// Cancel withdraws a request the way the transport and the era have it.
	Cancel(id string)
	// Cut loses the connection, with everything that hangs on it.
	Cut()
	// Back connects anew. It is true where the client's session is still there.
	Back() (kept bool, err error)
	// Close is the orderly end.
	Close() error
}

// party is a client of either era, of one transport or another.
type party struct {
	t      testing.TB
	era    translate.Era
	c      conduit
	within time.Duration // how long an answer may take

	mu      sync.Mutex // protects the fields below
	ids     int
	answers map[string]chan partyMessage
	notices []partyMessage
	asked   int  // questions of the server, each answered
	closing bool // what still comes is of no matter
}

type partyMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int
		Message string
	} `json:"error"`
}

func (m partyMessage) String() string {
	if m.Error != nil {
		return fmt.Sprintf("error %d: %s", m.Error.Code, m.Error.Message)
	}
	return fmt.Sprintf("%.500s", m.Result)
}

// text is that of a tool's result.
func (m partyMessage) text() string {
	var r struct{ Content []struct{ Text string } }
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// related is what the answer to a question says of its task, if it has one.
func (m partyMessage) related() string {
	var params struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &params)
	task := params.Meta[translate.MetaRelatedTask]
	if task == nil {
		return ""
	}
	return fmt.Sprintf(`,"_meta":{%q:%s}`, translate.MetaRelatedTask, task)
}

func (m partyMessage) into(v any) { _ = json.Unmarshal(m.Result, v) }

// take reads one message of the other side.
func (p *party) take(raw []byte) {
	var m partyMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		p.t.Errorf("no message: %.200q", raw)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ch := p.answers[string(m.ID)]; {
	case m.Method != "" && m.ID != nil:
		p.asked++
		go p.c.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"Ada","confirm":true}%s}}`, m.ID, m.related()))
	case m.Method != "":
		p.notices = append(p.notices, m)
	case p.closing && string(m.ID) != "null":
	case ch == nil:
		p.t.Errorf("an answer nobody waits for: %.300s", raw)
	default:
		delete(p.answers, string(m.ID))
		ch <- m
	}
}

// params adds what every request of the era carries.
func (p *party) params(params map[string]any) map[string]any {
	if params == nil {
		params = map[string]any{}
	}
	if p.era != translate.Modern {
		return params
	}
	meta := map[string]any{
		translate.MetaVersion:    translate.V20260728,
		translate.MetaClientInfo: map[string]any{"name": "party", "version": "1"},
		translate.MetaClientCaps: map[string]any{"elicitation": map[string]any{}, "extensions": map[string]any{translate.ExtTasks: map[string]any{}}},
	}
	if more, ok := params["_meta"].(map[string]any); ok {
		maps.Copy(meta, more)
	}
	params["_meta"] = meta
	return params
}

// begin sends a request.
func (p *party) begin(method string, params map[string]any) (id string, answer chan partyMessage) {
	p.t.Helper()
	raw, err := json.Marshal(p.params(params))
	if err != nil {
		p.t.Fatal(err)
	}
	return p.beginRaw(method, raw)
}

func (p *party) beginRaw(method string, params []byte) (id string, answer chan partyMessage) {
	p.mu.Lock()
	p.ids++
	id, answer = strconv.Itoa(p.ids), make(chan partyMessage, 1)
	p.answers[id] = answer
	p.mu.Unlock()
	raw := make([]byte, 0, len(params)+100)
	raw = fmt.Appendf(raw, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":`, id, method)
	raw = append(append(raw, params...), '}')
	if err := p.c.Send(raw); err != nil {
		answer <- failedSend(id, err)
	}
	return id, answer
}

// failedSend is what a client has when a request could not be sent at all.
func failedSend(id string, err error) partyMessage {
	var m partyMessage
	_ = json.Unmarshal(fmt.Appendf(nil, `{"id":%s,"error":{"code":0,"message":%q}}`, id, err.Error()), &m)
	return m
}

func (p *party) notify(method string) {
	p.t.Helper()
	if err := p.c.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`, method)); err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
}

func (p *party) wait(what string, answer chan partyMessage) partyMessage {
	p.t.Helper()
	select {
	case m := <-answer:
		return m
	case <-time.After(p.within):
		p.t.Fatalf("%s: no answer", what)
		return partyMessage{}
	}
}

func (p *party) call(method string, params map[string]any) partyMessage {
	p.t.Helper()
	_, answer := p.begin(method, params)
	return p.wait(method, answer)
}

func (p *party) must(method string, params map[string]any) partyMessage {
	p.t.Helper()
	m := p.call(method, params)
	if m.Error != nil {
		p.t.Fatalf("%s: %s", method, m)
	}
	return m
}

// ended is true once for a session that the other side no longer has.
func (p *party) ended() bool {
	c, ok := p.c.(*overHTTP)
	return ok && c.gone.Swap(false)
}

// tool calls a tool to its end: a modern client answers what is asked and calls
// again.
func (p *party) tool(name string, arguments map[string]any) partyMessage {
	p.t.Helper()
	if arguments == nil {
		arguments = map[string]any{}
	}
	params := map[string]any{"name": name, "arguments": arguments}
	for {
		m := p.call("tools/call", params)
		var r struct {
			ResultType, RequestState string
			InputRequests            map[string]json.RawMessage
		}
		m.into(&r)
		if m.Error != nil || r.ResultType != "input_required" {
			return m
		}
		p.mu.Lock()
		p.asked += len(r.InputRequests)
		p.mu.Unlock()
		params = map[string]any{"name": name, "arguments": arguments, "inputResponses": accepted(r.InputRequests), "requestState": r.RequestState}
	}
}

func accepted(asked map[string]json.RawMessage) map[string]any {
	answers := map[string]any{}
	for key := range asked {
		answers[key] = map[string]any{"action": "accept", "content": map[string]any{"name": "Ada", "confirm": true}}
	}
	return answers
}

func (p *party) questions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// told are the notices of a method so far.
func (p *party) told(method string) (list []partyMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.notices {
		if n.Method == method {
			list = append(list, n)
		}
	}
	return list
}

// awaits waits for a notice that holds text.
func (p *party) awaits(method, text string) {
	p.t.Helper()
	eventually(p.t, method+" "+text, func() bool {
		for _, n := range p.told(method) {
			if strings.Contains(string(n.Params), text) {
				return true
			}
		}
		return false
	})
}

// open makes the client ready to ask: a legacy one shakes hands.
func (p *party) open() {
	p.t.Helper()
	if p.era == translate.Modern {
		return
	}
	m := p.must("initialize", map[string]any{
		"protocolVersion": translate.V20251125, "capabilities": map[string]any{"elicitation": map[string]any{}, "roots": map[string]any{"listChanged": true}},
		"clientInfo": map[string]any{"name": "party", "version": "1"},
	})
	var r struct{ ProtocolVersion string }
	if m.into(&r); r.ProtocolVersion != translate.V20251125 {
		p.t.Errorf("initialize: %s", m)
	}
	p.notify("notifications/initialized")
}

// forget: nothing is waited for any more.
func (p *party) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.answers {
		delete(p.answers, id)
	}
}

// close ends the client, once.
func (p *party) close() {
	p.mu.Lock()
	was := p.closing
	p.closing = true
	p.mu.Unlock()
	if was {
		return
	}
	if err := p.c.Close(); err != nil {
		p.t.Errorf("close: %v", err)
	}
}

// conduits are the transports toward clients. at is the address of serve, args
// name the server for a transport that starts a proxy of its own.
var conduits = map[string]func(t testing.TB, p *party, at string, args []string) conduit{
	"http": httpConduit, "stdio": stdioConduit, "ws": socketConduit, "sse": sseConduit,
}

// newParty is a client over a transport, ready to ask.
func newParty(t testing.TB, era translate.Era, transport, at string, args []string) *party {
	t.Helper()
	p := &party{t: t, era: era, within: patience, answers: map[string]chan partyMessage{}}
	p.c = conduits[transport](t, p, at, args)
	t.Cleanup(p.close)
	p.open()
	return p
}
