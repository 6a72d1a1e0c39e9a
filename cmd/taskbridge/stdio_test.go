package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/cmd/peers"
)

// lineClient is a client on the other end of taskbridge stdio.
type lineClient struct {
	t      *testing.T
	modern bool
	in     io.WriteCloser
	stderr *buffer
	done   chan struct{} // the command is over
	code   int           // valid then

	mu      sync.Mutex // protects the fields below
	ids     int
	answers map[string]chan lineMessage
	notices []lineMessage
	hold    bool // questions are kept and not answered
	asked   []lineMessage
	all     []string
	saw     func(out bool, raw string) // every line, if set
}

type lineMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	} `json:"error"`
}

// startStdio runs taskbridge stdio in this process.
func startStdio(t *testing.T, modern bool, args ...string) *lineClient {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &lineClient{t: t, modern: modern, in: inW, stderr: new(buffer), done: make(chan struct{}), answers: map[string]chan lineMessage{}}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(c.done)
		c.code = run(ctx, append([]string{"stdio"}, args...), inR, outW, c.stderr)
		outW.Close()
	}()
	t.Cleanup(func() {
		cancel()
		<-c.done
		if t.Failed() {
			t.Log(c.stderr)
		}
	})
	go c.read(outR)
	return c
}

func (c *lineClient) read(r io.Reader) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var m lineMessage
		if json.Unmarshal(sc.Bytes(), &m) != nil {
			c.t.Errorf("standard output has %q", sc.Text())
			continue
		}
		if c.saw != nil {
			c.saw(false, sc.Text())
		}
		c.mu.Lock()
		c.all = append(c.all, sc.Text()[:min(len(sc.Text()), 400)])
		switch ch := c.answers[string(m.ID)]; {
		case m.Method != "" && m.ID != nil && c.hold:
			c.asked = append(c.asked, m)
		case m.Method != "" && m.ID != nil:
			go c.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"Ada","confirm":true,"colour":"red"}}}`, m.ID)
		case m.Method != "":
			c.notices = append(c.notices, m)
		case ch == nil:
			c.t.Errorf("answer to nothing: %s", sc.Text())
		default:
			delete(c.answers, string(m.ID))
			ch <- m
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.answers {
		close(ch)
	}
	c.answers = nil
}

func (c *lineClient) send(format string, args ...any) {
	if c.saw != nil {
		c.saw(true, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(c.in, format+"\n", args...)
}

// begin sends a request; params is an object.
func (c *lineClient) begin(method string, params map[string]any) (id string, answer chan lineMessage) {
	if params == nil {
		params = map[string]any{}
	}
	if c.modern {
		meta := map[string]any{
			"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
			"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "t", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{}, "extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}},
		}
		params["_meta"] = meta
	}
	raw, err := json.Marshal(params)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.ids++
	id, answer = fmt.Sprint(c.ids), make(chan lineMessage, 1)
	if c.answers == nil {
		close(answer)
	} else {
		c.answers[id] = answer
	}
	c.mu.Unlock()
	c.send(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, raw)
	return id, answer
}

func (c *lineClient) wait(what string, answer chan lineMessage) lineMessage {
	c.t.Helper()
	select {
	case m, ok := <-answer:
		if !ok {
			c.t.Fatalf("%s: the command ended without an answer: %s", what, c.stderr)
		}
		return m
	case <-time.After(time.Minute): // some answers have 12 MiB
		c.t.Fatalf("%s: no answer: %s\n%s", what, strings.Join(c.all, "\n"), c.stderr)
		return lineMessage{}
	}
}

func (c *lineClient) call(method string, params map[string]any) lineMessage {
	c.t.Helper()
	_, answer := c.begin(method, params)
	return c.wait(method, answer)
}

func (c *lineClient) must(method string, params map[string]any, into any) lineMessage {
	c.t.Helper()
	m := c.call(method, params)
	if m.Error != nil {
		c.t.Fatalf("%s: %+v", method, m.Error)
	}
	if into != nil {
		if err := json.Unmarshal(m.Result, into); err != nil {
			c.t.Fatalf("%s: %v: %s", method, err, m.Result)
		}
	}
	return m
}

func (c *lineClient) initialize() {
	c.t.Helper()
	c.must("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"elicitation": map[string]any{}}, "clientInfo": map[string]any{"name": "t", "version": "1"}}, nil)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// tool calls a tool and returns its text; a modern client answers what is asked.
func (c *lineClient) tool(name string, arguments map[string]any) string {
	c.t.Helper()
	params := map[string]any{"name": name, "arguments": arguments}
	for {
		var r struct {
			Content       []struct{ Text string }
			ResultType    string
			RequestState  string
			InputRequests map[string]json.RawMessage
		}
		c.must("tools/call", params, &r)
		if r.ResultType == "input_required" {
			answers := map[string]any{}
			for key := range r.InputRequests {
				answers[key] = map[string]any{"action": "accept", "content": map[string]any{"name": "Ada", "confirm": true}}
			}
			params = map[string]any{"name": name, "arguments": arguments, "inputResponses": answers, "requestState": r.RequestState}
			continue
		}
		if len(r.Content) == 0 {
			c.t.Fatalf("%s: no content", name)
		}
		return r.Content[0].Text
	}
}

// end closes standard input and returns the exit code.
func (c *lineClient) end() int {
	c.t.Helper()
	c.in.Close()
	select {
	case <-c.done:
	case <-time.After(20 * time.Second):
		c.t.Fatalf("stdio did not end: %s", c.stderr)
	}
	return c.code
}

func eraName(modern bool) string {
	if modern {
		return "modern"
	}
	return "legacy"
}

// peerArgs names a peer of that era, as a process or behind HTTP.
func peerArgs(t *testing.T, modern, process bool) []string {
	if process {
		return []string{"-e", asPeer + "=" + eraName(modern), "--", os.Args[0]}
	}
	if modern {
		return []string{peer(t, peers.NewModernServer(peers.ServerOptions{PollInterval: 20 * time.Millisecond}))}
	}
	return []string{peer(t, peers.NewLegacyServer(peers.ServerOptions{PollInterval: 20 * time.Millisecond}))}
}

// TestStdioPairs: each era in front of each, the server a process or behind
// HTTP.
func TestStdioPairs(t *testing.T) {
	for _, clientModern := range []bool{false, true} {
		for _, serverModern := range []bool{false, true} {
			for _, process := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s client, %s server, process %v", eraName(clientModern), eraName(serverModern), process), func(t *testing.T) {
					c := startStdio(t, clientModern, peerArgs(t, serverModern, process)...)
					pairVerbs(t, c)
					if code := c.end(); code != exitOK {
						t.Errorf("exit %d", code)
					}
				})
			}
		}
	}
}

// pairVerbs are what every pair of eras has to do.
func pairVerbs(t *testing.T, c *lineClient) {
	t.Helper()
	if c.modern {
		modernVerbs(c)
	} else {
		c.initialize()
		legacyVerbs(c)
	}
	if got := c.tool("greet", map[string]any{"name": "Ada"}); got != "Hello, Ada!" {
		t.Errorf("greet: %s", got)
	}
	if got := c.tool("ask_name", nil); !strings.Contains(got, "Ada") {
		t.Errorf("ask_name: %s", got)
	}
	if got := c.tool("big", map[string]any{"bytes": 12 << 20}); len(got) != 12<<20 {
		t.Errorf("big: %d bytes", len(got))
	}
	if m := c.call("no/such", nil); m.Error == nil || m.Error.Code != -32601 {
		t.Errorf("no/such: %s %+v", m.Result, m.Error)
	}
}

func legacyVerbs(c *lineClient) {
	c.t.Helper()
	c.must("ping", nil, nil)
	c.must("tools/list", nil, nil)
	var created struct{ Task struct{ TaskID string } }
	c.must("tools/call", map[string]any{"name": "confirm_delete", "arguments": map[string]any{"filename": "x"}, "task": map[string]any{}}, &created)
	id := created.Task.TaskID
	if id == "" {
		c.t.Fatal("no task")
	}
	var task struct{ Status string }
	c.must("tasks/get", map[string]any{"taskId": id}, &task)
	var r struct{ Content []struct{ Text string } }
	c.must("tasks/result", map[string]any{"taskId": id}, &r)
	if len(r.Content) == 0 {
		c.t.Error("no content")
	}
	c.must("tasks/get", map[string]any{"taskId": id}, &task)
	if task.Status != "completed" {
		c.t.Errorf("task is %s", task.Status)
	}
	c.must("tasks/list", nil, nil)
	// A cancelled call gets no answer, or an error; the next is answered.
	id, _ = c.begin("tools/call", map[string]any{"name": "slow_plain", "arguments": map[string]any{"seconds": 60}})
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
	c.must("ping", nil, nil)
}

func modernVerbs(c *lineClient) {
	c.t.Helper()
	var d struct{ SupportedVersions []string }
	c.must("server/discover", nil, &d)
	if len(d.SupportedVersions) == 0 {
		c.t.Error("no versions")
	}
	c.must("tools/list", nil, nil)
	var task struct {
		TaskID, Status string
		InputRequests  map[string]json.RawMessage
		Result         json.RawMessage
	}
	c.must("tools/call", map[string]any{"name": "confirm_delete", "arguments": map[string]any{"filename": "x"}}, &task)
	id := task.TaskID
	for range 500 {
		c.must("tasks/get", map[string]any{"taskId": id}, &task)
		if task.Status == "completed" {
			break
		}
		answers := map[string]any{}
		for key := range task.InputRequests {
			answers[key] = map[string]any{"action": "accept", "content": map[string]any{"confirm": true}}
		}
		if len(answers) > 0 {
			c.must("tasks/update", map[string]any{"taskId": id, "inputResponses": answers}, nil)
		}
		task.InputRequests = nil
		time.Sleep(10 * time.Millisecond)
	}
	if task.Status != "completed" || task.Result == nil {
		c.t.Errorf("task: %+v", task)
	}
	// A listen is acknowledged under its own id and ends by a cancel, in
	// silence.
	listen, answer := c.begin("subscriptions/listen", map[string]any{"notifications": map[string]any{"toolsListChanged": true}})
	eventually(c.t, "acknowledged", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, n := range c.notices {
			if n.Method == "notifications/subscriptions/acknowledged" && strings.Contains(string(n.Params), `"io.modelcontextprotocol/subscriptionId":`+listen) {
				return true
			}
		}
		return false
	})
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, listen)
	call, hang := c.begin("tools/call", map[string]any{"name": "slow_plain", "arguments": map[string]any{"seconds": 60}})
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, call)
	c.must("tools/list", nil, nil)
	select {
	case m := <-answer:
		c.t.Errorf("a cancelled listen was answered: %s", m.Result)
	case m := <-hang:
		c.t.Errorf("a cancelled call was answered: %s", m.Result)
	default:
	}
}
