package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"taskbridge/translate"
)

// scripted is a server that behaves well but where its script says otherwise.
type scripted struct {
	URL string
	Era translate.Era
	// Script answers a request and says so; nil or false: the default answer.
	Script func(c *scriptCall) bool

	mu   sync.Mutex
	seen []seenRequest
	last int // number of the last session
}

type seenRequest struct {
	Verb, Method, Tool string
	Header             http.Header
	Body               []byte
}

// scriptCall is one request to the scripted server.
type scriptCall struct {
	s            *scripted
	W            http.ResponseWriter
	R            *http.Request
	Body         []byte
	ID           json.RawMessage
	Method, Tool string
	Params       json.RawMessage
}

func newScripted(t testing.TB, era translate.Era, script func(c *scriptCall) bool) *scripted {
	t.Helper()
	s := &scripted{Era: era, Script: script}
	hs := httptest.NewServer(s)
	t.Cleanup(func() { hs.CloseClientConnections(); hs.Close() })
	s.URL = hs.URL + "/mcp"
	return s
}

// tools makes a script out of what each tool does.
func tools(table map[string]func(c *scriptCall)) func(c *scriptCall) bool {
	return func(c *scriptCall) bool {
		f := table[c.Tool]
		if c.Method != "tools/call" || f == nil {
			return false
		}
		f(c)
		return true
	}
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c := &scriptCall{s: s, W: w, R: r, Body: body}
	var m struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	_ = json.Unmarshal(body, &m)
	c.ID, c.Method, c.Params = m.ID, m.Method, m.Params
	var p struct{ Name string }
	_ = json.Unmarshal(m.Params, &p)
	c.Tool = p.Name
	s.mu.Lock()
	s.seen = append(s.seen, seenRequest{r.Method, c.Method, c.Tool, r.Header.Clone(), body})
	s.mu.Unlock()
	if s.Script != nil && s.Script(c) {
		return
	}
	c.Default()
}

// Requests returns what was asked since the last call of Forget, those of one
// method (empty: all).
func (s *scripted) Requests(method string) []seenRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []seenRequest
	for _, r := range s.seen {
		if method == "" || r.Method == method {
			out = append(out, r)
		}
	}
	return out
}

func (s *scripted) Ran(tool string) int {
	n := 0
	for _, r := range s.Requests("tools/call") {
		if r.Tool == tool {
			n++
		}
	}
	return n
}

func (s *scripted) Forget() {
	s.mu.Lock()
	s.seen = nil
	s.mu.Unlock()
}

const scriptedTools = `[{"name":"ok","inputSchema":{"type":"object"}},{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"jobs","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]`

// Default is how a good server of the era answers.
func (c *scriptCall) Default() {
	modern := c.s.Era == translate.Modern
	switch {
	case c.R.Method == http.MethodGet:
		c.W.WriteHeader(http.StatusMethodNotAllowed)
	case c.R.Method == http.MethodDelete:
		c.W.WriteHeader(http.StatusOK)
	case c.ID == nil || c.Method == "":
		c.W.WriteHeader(http.StatusAccepted)
	case c.Method == "server/discover" && modern:
		c.Result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
	case c.Method == "initialize" && !modern:
		c.s.mu.Lock()
		c.s.last++
		c.W.Header().Set("Mcp-Session-Id", fmt.Sprintf("up-session-%d", c.s.last))
		c.s.mu.Unlock()
		var asked struct{ ProtocolVersion string }
		_ = json.Unmarshal(c.Params, &asked)
		version := translate.NegotiateLegacy(asked.ProtocolVersion)
		c.Result(`{"protocolVersion":"` + version + `","serverInfo":{"name":"scripted","version":"1"},"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}}`)
	case c.Method == "ping" && !modern:
		c.Result(`{}`)
	case c.Method == "tools/list":
		c.Result(c.complete(`"tools":` + scriptedTools))
	case c.Method == "tools/call":
		c.Result(c.text("fine"))
	case strings.HasPrefix(c.Method, "tasks/"):
		c.Error(-32602, "Task not found")
	default:
		status := http.StatusOK
		if modern {
			status = http.StatusNotFound
		}
		c.JSON(status, `{"jsonrpc":"2.0","id":`+string(c.ID)+`,"error":{"code":-32601,"message":"Method not found"}}`)
	}
}

// complete is a result object of the era with these members.
func (c *scriptCall) complete(members string) string {
	if c.s.Era != translate.Modern {
		return "{" + members + "}"
	}
	if c.Method == "tools/list" {
		members += `,"ttlMs":0,"cacheScope":"private"`
	}
	return `{"resultType":"complete",` + members + "}"
}

func (c *scriptCall) text(s string) string {
	return c.complete(`"content":[{"type":"text","text":` + quote(s) + `}]`)
}

func quote(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

func (c *scriptCall) Reply(result string) string {
	return `{"jsonrpc":"2.0","id":` + string(c.ID) + `,"result":` + result + `}`
}

func (c *scriptCall) Result(result string) { c.JSON(200, c.Reply(result)) }

func (c *scriptCall) Error(code int, message string) {
	c.JSON(200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, c.ID, code, message))
}

func (c *scriptCall) JSON(status int, body string) {
	c.W.Header().Set("Content-Type", "application/json")
	c.W.WriteHeader(status)
	_, _ = io.WriteString(c.W, body)
}

// Begin opens an event stream.
func (c *scriptCall) Begin() {
	c.W.Header().Set("Content-Type", "text/event-stream")
	c.W.WriteHeader(200)
	c.flush()
}

func (c *scriptCall) flush() { _ = http.NewResponseController(c.W).Flush() }

// Events writes messages as events.
func (c *scriptCall) Events(messages ...string) {
	for _, m := range messages {
		c.Raw("data: " + m + "\n\n")
	}
}

// Raw writes bytes to an open stream.
func (c *scriptCall) Raw(s string) bool {
	_, err := io.WriteString(c.W, s)
	c.flush()
	return err == nil
}

// SSE answers with a whole event stream.
func (c *scriptCall) SSE(messages ...string) {
	c.Begin()
	c.Events(messages...)
}

// Cut writes bytes on the bare connection and closes it.
func (c *scriptCall) Cut(raw string) {
	conn, buf, err := http.NewResponseController(c.W).Hijack()
	if err != nil {
		return
	}
	_, _ = buf.WriteString(raw)
	_ = buf.Flush()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

// Wait holds the exchange open until the proxy leaves.
func (c *scriptCall) Wait() { <-c.R.Context().Done() }

// counted puts a counter before a server.
type counted struct {
	h http.Handler
	s *scripted // only its list is used
}

func (c counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct{ Method string }
	_ = json.Unmarshal(body, &m)
	c.s.mu.Lock()
	c.s.seen = append(c.s.seen, seenRequest{Verb: r.Method, Method: m.Method, Header: r.Header.Clone(), Body: body})
	c.s.mu.Unlock()
	c.h.ServeHTTP(w, r)
}
