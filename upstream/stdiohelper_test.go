package upstream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// childVar makes the test binary a server on stdio; its value says how it
// behaves: blank-separated words of childServer.
const childVar = "UPSTREAM_TEST_CHILD"

func TestMain(m *testing.M) {
	if how := os.Getenv(childVar); how != "" {
		newChildServer(how).run()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childServer is a server that is as good or bad as its words say:
//
//	modern, legacy, dual    what it speaks
//	exit-on-discover        exits with 1 when it meets server/discover
//	silent-on-discover      never answers it
//	silent                  never answers anything
//	dies                    prints a secret and exits with 7 at once
type childServer struct {
	words map[string]bool
	pid   string
	err   io.Writer
	exit  func(code int) // does not return

	mu    sync.Mutex // protects out and asked
	out   *bufio.Writer
	asked map[string]chan json.RawMessage
	stops map[string]chan struct{}
}

func newChildServer(how string) *childServer {
	s := &childServer{words: map[string]bool{}, pid: fmt.Sprint(os.Getpid()), err: os.Stderr, exit: os.Exit, out: bufio.NewWriter(os.Stdout), asked: map[string]chan json.RawMessage{}, stops: map[string]chan struct{}{}}
	for w := range strings.FieldsSeq(how) {
		s.words[w] = true
	}
	return s
}

type childMessage struct {
	raw    []byte
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string                     `json:"name"`
		Arguments map[string]json.RawMessage `json:"arguments"`
		RequestID json.RawMessage            `json:"requestId"`
		TaskID    string                     `json:"taskId"`
		Task      json.RawMessage            `json:"task"`
		Meta      map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
}

func (s *childServer) run() {
	if s.words["dies"] {
		fmt.Fprintln(s.err, "key=hunter2")
		s.exit(7)
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		var m childMessage
		if json.Unmarshal(line, &m) == nil {
			m.raw = line
			s.message(&m)
		}
		if err != nil {
			return
		}
	}
}

func (s *childServer) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
	s.out.Flush()
}

func (s *childServer) message(m *childMessage) {
	if s.words["silent"] {
		return
	}
	_, modernRequest := m.Params.Meta[translate.MetaVersion]
	switch m.Method {
	case "server/discover":
		switch {
		case s.words["exit-on-discover"]:
			fmt.Fprintln(s.err, "unexpected first message")
			s.exit(1)
		case s.words["silent-on-discover"]:
		case s.words["dual"]:
			s.say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}},"serverInfo":{"name":"child","version":"1"}}}`, m.ID)
		case s.words["modern"]:
			s.say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"child","version":"1"}}}`, m.ID)
		default:
			s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Invalid request parameters"}}`, m.ID)
		}
	case "initialize":
		if s.words["modern"] {
			s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
			return
		}
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"child","version":"1"}}}`, m.ID)
	case "notifications/cancelled":
		fmt.Fprintf(s.err, "cancelled %s\n", m.Params.RequestID)
		s.mu.Lock()
		stop := s.stops[string(m.Params.RequestID)]
		delete(s.stops, string(m.Params.RequestID))
		s.mu.Unlock()
		if stop != nil {
			close(stop)
		}
	case "subscriptions/listen":
		s.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{}}}`, m.ID)
		s.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, m.ID)
	case "tasks/get":
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"taskId":%q,"status":"working","ttl":null,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"}}`, m.ID, m.Params.TaskID)
	case "tools/call":
		stop := make(chan struct{})
		s.mu.Lock()
		s.stops[string(m.ID)] = stop
		s.mu.Unlock()
		go s.call(m, stop, modernRequest)
	case "":
		s.mu.Lock()
		ch := s.asked[string(m.ID)]
		delete(s.asked, string(m.ID))
		s.mu.Unlock()
		if ch != nil {
			ch <- m.Result
		}
	default:
		if len(m.ID) > 0 {
			s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
		}
	}
}

func (s *childServer) text(id json.RawMessage, text string) {
	quoted, _ := json.Marshal(text)
	s.say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":%s}]}}`, id, quoted)
}

// call runs a tool.
func (s *childServer) call(m *childMessage, stop chan struct{}, modernRequest bool) {
	switch m.Params.Name {
	case "echo":
		var text string
		_ = json.Unmarshal(m.Params.Arguments["text"], &text)
		s.text(m.ID, text)
	case "pid":
		s.text(m.ID, s.pid)
	case "task":
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"task":{"taskId":"t9","status":"working","ttl":null,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"}}}`, m.ID)
	case "modern-task":
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"task","taskId":"t9","status":"working","ttlMs":null,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"}}`, m.ID)
	case "raw": // the message as it came, in one line of hexadecimal digits
		s.text(m.ID, fmt.Sprintf("%x", m.raw))
	case "bye":
		fmt.Fprintln(s.err, "key=hunter2")
		s.exit(3)
	case "hang":
		if token := m.Params.Meta["progressToken"]; token != nil {
			s.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, token)
		}
		<-stop
	case "ask":
		ch := make(chan json.RawMessage, 1)
		s.mu.Lock()
		s.asked[`"q-1"`] = ch
		s.mu.Unlock()
		s.say(`{"jsonrpc":"2.0","id":"q-1","method":"elicitation/create","params":{"message":"?"}}`)
		s.text(m.ID, string(<-ch))
	case "big":
		var n int
		_ = json.Unmarshal(m.Params.Arguments["bytes"], &n)
		s.text(m.ID, strings.Repeat("x", n))
	case "big-id-last":
		s.say(`{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"%s"}]},"id":%s}`, strings.Repeat("x", 2<<20), m.ID)
	case "half":
		s.mu.Lock()
		fmt.Fprintf(s.out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s`, m.ID, strings.Repeat("x", 12<<20))
		s.out.Flush()
		s.exit(3)
	case "endless":
		s.mu.Lock()
		fmt.Fprintf(s.out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, m.ID)
		for {
			s.out.WriteString(strings.Repeat("x", 64<<10))
		}
	case "noise":
		s.say("Server listening, have fun!")
		s.say(`{"jsonrpc":"2.0","id":999,"result":{}}`)
		s.say(`{"jsonrpc":"2.0","id":null,"result":{}}`)
		s.text(m.ID, "first")
		s.text(m.ID, "second")
	case "log":
		s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}`)
		s.text(m.ID, "logged")
	case "ping":
		ch := make(chan json.RawMessage, 1)
		s.mu.Lock()
		s.asked[`"p-1"`] = ch
		s.mu.Unlock()
		s.say(`{"jsonrpc":"2.0","id":"p-1","method":"ping"}`)
		s.text(m.ID, string(<-ch))
	}
}

// logs collects what is logged.
type logs struct {
	mu sync.Mutex // protects b
	b  strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const me = session.Principal("me")

func newStdio(t *testing.T, how string, change ...func(*StdioOptions)) (*Stdio, *logs) {
	t.Helper()
	l := &logs{}
	o := StdioOptions{
		Name: "up", Command: []string{os.Args[0]}, Env: []string{childVar + "=" + how}, ShowTail: true,
		Silence: 200 * time.Millisecond, StartLimit: 20 * time.Second,
		Logger: slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&o)
	}
	s, err := NewStdio(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if t.Failed() {
			t.Log(l.String())
		}
	})
	return s, l
}

func dialStdio(t *testing.T, s *Stdio, who session.Principal) session.Conn {
	t.Helper()
	c, err := s.Dial(t.Context(), session.Target{Upstream: "up", Principal: who})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func modernMessage(id, method, params string) session.Outgoing {
	msg := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":"tok"}}}`, id, method, params)
	return session.Outgoing{Verb: "POST", Msg: []byte(msg), Version: "2026-07-28"}
}

func modernCallOf(id, tool, arguments string) session.Outgoing {
	return modernMessage(id, "tools/call", fmt.Sprintf(`"name":%q,"arguments":{%s},`, tool, arguments))
}

func legacyMessage(sess, raw string) session.Outgoing {
	return session.Outgoing{Verb: "POST", Msg: []byte(raw), Session: sess, Version: "2025-11-25"}
}

func legacyCallOf(sess, id, tool, arguments string) session.Outgoing {
	return legacyMessage(sess, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{%s}}}`, id, tool, arguments))
}

// do sends out and returns its stream.
func do(t *testing.T, c session.Conn, out session.Outgoing) session.Stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	st, err := c.Do(ctx, out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func next(t *testing.T, st session.Stream) *jsonrpc.Message {
	t.Helper()
	f, err := st.Next()
	if err != nil {
		t.Fatal(err)
	}
	return f.Msg
}

// openSession initializes a legacy session and opens its own stream.
func openSession(t *testing.T, c session.Conn) (id string, get session.Stream) {
	t.Helper()
	st := do(t, c, legacyMessage("", `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
	id = st.Envelope().Header.Get("Mcp-Session-Id")
	if m := next(t, st); id == "" || m.ID.String() != `"init"` || m.Kind != jsonrpc.Response {
		t.Fatalf("session %q, %s", id, m.Raw)
	}
	do(t, c, legacyMessage(id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	return id, do(t, c, session.Outgoing{Verb: "GET", Session: id})
}

func resultText(m *jsonrpc.Message) string {
	var r struct {
		Result struct{ Content []struct{ Text string } }
	}
	if json.Unmarshal(m.Raw, &r) != nil || len(r.Result.Content) == 0 {
		return string(m.Raw[:min(len(m.Raw), 300)])
	}
	return r.Result.Content[0].Text
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}
