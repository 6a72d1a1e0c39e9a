package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"taskbridge/cmd/peers"
)

// startBridge is serve without a process around it, so that tests can look into
// its store. What nobody uses is forgotten soon.
func startBridge(t *testing.T, args ...string) (b *bridge, url string) {
	t.Helper()
	f := &serveFlags{}
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.register(fs)
	if err := fs.Parse(append([]string{"--listen", "127.0.0.1:0"}, args...)); err != nil {
		t.Fatal(err)
	}
	c, err := f.check(&app{}, fs)
	if err != nil {
		t.Fatal(err)
	}
	c.log = slog.New(slog.DiscardHandler)
	p := &c.routes[0].policy
	p.SessionIdle, p.TaskKeep, p.TaskGrace, p.ParkFor = time.Second, 6*time.Second, time.Second, 5*time.Second
	if b, err = newBridge(context.Background(), c.bridgeConfig); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = b.doors[0].serve(ln) }()
	t.Cleanup(func() {
		b.drain(5 * time.Second)
		<-done
	})
	return b, "http://" + ln.Addr().String() + "/mcp"
}

// kept are records that outlive a client by design: numbers never given twice,
// the key handles are sealed with, and which arguments are mirrored.
var kept = []string{"seq", "askseq", "statekey", "marks"}

// recordsOf are the records of a bridge but for those that outlive clients.
func recordsOf(t *testing.T, b *bridge) (out []string) {
	t.Helper()
	after := ""
	for {
		list, err := b.store.List(context.Background(), "", after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			return out
		}
		for _, e := range list {
			after = e.Key
			kind, _, _ := strings.Cut(e.Key, "/")
			if !slices.Contains(kept, kind) {
				out = append(out, e.Key)
			}
		}
	}
}

// cutCase is one pair of ends with a link between two proxies that is cut: it is
// the first one's connection to its server and the second one's to its client.
type cutCase struct {
	clientModern, serverModern bool
	link                       string // websocket, http+sse
	noTasks                    bool   // of a legacy server
	pin                        string // the dialect the link is spoken in, if not the client's
}

func (c cutCase) String() string {
	link := c.link
	if c.pin != "" {
		link = c.pin + " " + link
	}
	return fmt.Sprintf("%s client, %s, %s server", eraName(c.clientModern), link, eraName(c.serverModern))
}

// cutRig is a client, two proxies and a server in a row.
type cutRig struct {
	t      *testing.T
	c      *lineClient
	cutter *cutter
	near   *bridge
	far    *bridge
	url    string       // of near
	slow   atomic.Int32 // calls of slow_plain that reached the server
	gate   gate
}

func newCutRig(t *testing.T, k cutCase) *cutRig {
	t.Helper()
	r := newCutProxies(t, k)
	r.c = r.client(k.clientModern)
	return r
}

// newCutProxies is newCutRig without a client.
func newCutProxies(t *testing.T, k cutCase) *cutRig {
	t.Helper()
	r := &cutRig{t: t}
	var url string
	o := peers.ServerOptions{PollInterval: 20 * time.Millisecond, NoTasks: k.noTasks, Trace: func(e peers.TraceEntry) {
		if !e.Out && bytes.Contains(e.Message, []byte(`"slow_plain"`)) {
			r.slow.Add(1)
		}
		if !e.Out {
			r.gate.pass(e.Message)
		}
	}}
	var server string
	if k.serverModern {
		server = peer(t, peers.NewModernServer(o))
	} else {
		server = peer(t, peers.NewLegacyServer(o))
	}
	r.far, url = startBridge(t, "--upstream", server)
	switch k.link {
	case "websocket":
		url = "ws" + strings.TrimPrefix(url, "http")
	case "http+sse":
		url = strings.TrimSuffix(url, "/mcp") + "/sse"
	}
	r.cutter, url = newCutter(t, url)
	args := []string{"--upstream", url}
	if k.link == "http+sse" {
		args = append(args, "--upstream-transport", "sse")
	}
	if k.pin != "" {
		args = append(args, "--upstream-era", k.pin)
	}
	r.near, r.url = startBridge(t, args...)
	return r
}

func (r *cutRig) client(modern bool) *lineClient {
	r.t.Helper()
	c := startSocket(r.t, modern, r.url)
	c.hold = true
	if !modern {
		c.initialize()
	}
	return c
}

// one waits for the one answer of a call, which says that its connection was
// lost.
func (r *cutRig) one(what string, answer chan lineMessage) {
	r.t.Helper()
	if m := r.c.wait(what, answer); m.Error == nil || m.Error.Message == "" {
		r.t.Errorf("%s: %.200s %+v", what, m.Result, m.Error)
	}
}

// works: new work is served, over a new connection.
func (r *cutRig) works(what string) {
	r.t.Helper()
	for tries := 0; ; tries++ {
		m := r.c.call("tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}})
		if m.Error == nil {
			return
		}
		// A call that crossed the cut is lost: what a server may have taken is not
		// sent twice. A legacy client is told that its session is lost, and begins
		// anew.
		if tries == 3 || r.c.modern && tries == 1 {
			r.t.Errorf("%s: afterwards: %+v", what, m.Error)
			return
		}
		if !r.c.modern {
			r.c.initialize()
		}
	}
}

// noGoroutineLeft holds when the test and all within it are over.
func noGoroutineLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+1; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				buf := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, there were %d:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
			}
		}
	})
}

// noneLeft: when all clients have gone neither proxy holds anything.
func (r *cutRig) noneLeft() {
	r.t.Helper()
	r.c.in.Close()
	for name, b := range map[string]*bridge{"near": r.near, "far": r.far} {
		var left []string
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if left = recordsOf(r.t, b); len(left) == 0 && b.budget.InUse() == 0 {
				break
			}
		}
		if len(left) > 0 || b.budget.InUse() > 0 {
			r.t.Errorf("%s: %d bytes in use, left in the store: %q", name, b.budget.InUse(), left)
		}
	}
}

// TestKill_Connection: the connection is cut in the middle of a call, a
// question, and a message of 12 MiB on its way up or down. Each caller gets one
// answer, which is an error; the next call is served; nothing is left.
func TestKill_Connection(t *testing.T) {
	noGoroutineLeft(t)
	for _, link := range []string{"websocket", "http+sse"} {
		for _, clientModern := range []bool{false, true} {
			for _, serverModern := range []bool{false, true} {
				k := cutCase{clientModern: clientModern, serverModern: serverModern, link: link}
				t.Run(k.String(), func(t *testing.T) {
					t.Parallel()
					r := newCutRig(t, k)
					r.works("before")
					r.inCall()
					r.inQuestion()
					r.inBig(down)
					r.inBig(up)
					r.noneLeft()
				})
			}
		}
	}
}

func (r *cutRig) inCall() {
	r.t.Helper()
	var all []chan lineMessage
	for range 3 {
		_, answer := r.c.begin("tools/call", map[string]any{"name": "slow_plain", "arguments": map[string]any{"seconds": 60}})
		all = append(all, answer)
	}
	// One that comes after the cut goes on.
	eventually(r.t, "the calls are at the server", func() bool { return r.slow.Load() == 3 })
	r.cutter.cut()
	for _, answer := range all {
		r.one("call", answer)
	}
	r.works("call")
}

func (r *cutRig) inQuestion() {
	r.t.Helper()
	_, answer := r.c.begin("tools/call", map[string]any{"name": "ask_name"})
	if r.c.modern {
		r.askedModern(r.c.wait("ask_name", answer))
	} else {
		eventually(r.t, "question", func() bool { r.c.mu.Lock(); defer r.c.mu.Unlock(); return len(r.c.asked) == 1 })
		r.cutter.cut()
		r.c.mu.Lock()
		asked := r.c.asked[0]
		r.c.asked = nil
		r.c.mu.Unlock()
		r.c.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"Ada"}}}`, asked.ID)
		r.c.wait("ask_name", answer)
	}
	r.works("question")
}

// modernReply is a result or a task of a modern server.
type modernReply struct {
	ResultType, RequestState string
	TaskID, Status           string
	InputRequests            map[string]json.RawMessage
	Result, Error            json.RawMessage
}

func (q modernReply) answers() map[string]any {
	out := map[string]any{}
	for key := range q.InputRequests {
		out[key] = map[string]any{"action": "accept", "content": map[string]any{"name": "Ada"}}
	}
	return out
}

// askedModern cuts once a modern client has been asked, in its call or in the
// task that became of it, and answers. That is answered once, whatever the
// answer: a modern server knows of nothing that waits, a legacy one has lost it.
func (r *cutRig) askedModern(m lineMessage) {
	r.t.Helper()
	var q modernReply
	read := func(m lineMessage) {
		r.t.Helper()
		q.InputRequests = nil
		if m.Error != nil || json.Unmarshal(m.Result, &q) != nil {
			r.t.Fatalf("%s %+v", m.Result, m.Error)
		}
	}
	if read(m); q.ResultType != "task" {
		if q.ResultType != "input_required" {
			r.t.Fatalf("ask_name: %s", m.Result)
		}
		r.cutter.cut()
		r.c.call("tools/call", map[string]any{"name": "ask_name", "inputResponses": q.answers(), "requestState": q.RequestState})
		return
	}
	look := func() { read(r.c.call("tasks/get", map[string]any{"taskId": q.TaskID})) }
	eventually(r.t, "the task asks", func() bool { look(); return q.Status == "input_required" })
	r.cutter.cut()
	r.c.call("tasks/update", map[string]any{"taskId": q.TaskID, "inputResponses": q.answers()})
	// The answer is kept until the server asks again; nobody is asked twice.
	eventually(r.t, "the task ends", func() bool {
		look()
		return q.Status == "completed" || q.Status == "failed"
	})
	if q.Result == nil && q.Error == nil {
		r.t.Errorf("the task is %s without a word", q.Status)
	}
}

func (r *cutRig) inBig(way int) {
	r.t.Helper()
	if raceEnabled {
		return // many at once take longer than a client waits
	}
	r.cutter.reset()
	r.cutter.cutAfter(way, 4<<20)
	var answer chan lineMessage
	if way == down {
		_, answer = r.c.begin("tools/call", map[string]any{"name": "big", "arguments": map[string]any{"bytes": 12 << 20}})
	} else {
		_, answer = r.c.begin("tools/call", map[string]any{"name": "echo", "arguments": map[string]any{"text": strings.Repeat("x", 12<<20)}})
	}
	var q modernReply
	if m := r.c.wait("12 MiB", answer); m.Error == nil && json.Unmarshal(m.Result, &q) == nil && q.ResultType == "task" {
		// Its end is what is asked for until it is there.
		eventually(r.t, "the task ends", func() bool {
			m := r.c.call("tasks/get", map[string]any{"taskId": q.TaskID})
			return m.Error == nil && json.Unmarshal(m.Result, &q) == nil && q.Status != "working"
		})
	} else if m.Error == nil || m.Error.Message == "" {
		r.t.Errorf("12 MiB: %.200s %+v", m.Result, m.Error)
	}
	if !r.cutter.wasCut() {
		r.t.Error("12 MiB passed uncut")
	}
	r.works("12 MiB")
}

// TestKill_ConnectionInTask: a task belongs to its caller, not to a connection:
// it goes on when one is cut, and its result can be had.
func TestKill_ConnectionInTask(t *testing.T) {
	noGoroutineLeft(t)
	for _, link := range []string{"websocket", "http+sse"} {
		for _, clientModern := range []bool{false, true} {
			for _, serverModern := range []bool{false, true} {
				k := cutCase{clientModern: clientModern, serverModern: serverModern, link: link}
				t.Run(k.String(), func(t *testing.T) {
					t.Parallel()
					newCutRig(t, k).inTask()
				})
			}
		}
	}
}

func (r *cutRig) inTask() {
	t := r.t
	t.Helper()
	var created struct {
		TaskID string
		Task   struct{ TaskID string }
	}
	r.c.must("tools/call", map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 1, "label": "x"}, "task": map[string]any{}}, &created)
	id := created.TaskID + created.Task.TaskID
	if id == "" {
		t.Fatal("no task")
	}
	r.cutter.cut()
	if !r.c.modern {
		r.works("task")
	}
	var task struct {
		Status, StatusMessage string
		Result                json.RawMessage
	}
	eventually(t, "the task ends", func() bool {
		m := r.c.call("tasks/get", map[string]any{"taskId": id})
		if m.Error == nil && json.Unmarshal(m.Result, &task) != nil {
			t.Fatalf("%s", m.Result)
		}
		return task.Status != "" && task.Status != "working"
	})
	if task.Status != "completed" {
		t.Errorf("the task is %s: %s", task.Status, task.StatusMessage)
	}
	if !r.c.modern {
		task.Result = r.c.must("tasks/result", map[string]any{"taskId": id}, nil).Result
	}
	if len(task.Result) == 0 {
		t.Error("no result")
	}
}

// TestKill_EachEvent: the event stream of HTTP+SSE is cut behind its first
// event, its second, and so on, the probe's and the handshake's among them. Each
// request gets one answer, or its connection is closed with a reason; work goes
// on, and nothing is left.
func TestKill_EachEvent(t *testing.T) {
	noGoroutineLeft(t)
	for _, clientModern := range []bool{false, true} {
		for cut := 1; cut <= 9; cut++ {
			t.Run(fmt.Sprintf("%s client, event %d", eraName(clientModern), cut), func(t *testing.T) {
				t.Parallel()
				r := newCutProxies(t, cutCase{clientModern: clientModern, link: "http+sse", noTasks: true})
				r.cutter.mu.Lock()
				r.cutter.events = cut
				r.cutter.mu.Unlock()
				done := false
				for tries := 0; tries < 4 && !done; tries++ {
					r.c = startSocket(t, clientModern, r.url)
					if done = r.script(); !done {
						r.c.in.Close()
					}
				}
				if !done || !r.cutter.wasCut() {
					t.Errorf("done: %v, cut: %v", done, r.cutter.wasCut())
				}
				r.noneLeft()
			})
		}
	}
}

// script does some work and says whether all of it went well.
func (r *cutRig) script() bool {
	r.t.Helper()
	ask := func(method string, params map[string]any) (modernReply, bool) {
		r.t.Helper()
		_, answer := r.c.begin(method, params)
		select {
		case m, ok := <-answer:
			var q modernReply
			return q, ok && m.Error == nil && json.Unmarshal(m.Result, &q) == nil
		case <-time.After(20 * time.Second):
			r.t.Fatalf("%s: no answer", method)
			return modernReply{}, false
		}
	}
	tool := func(name string, arguments map[string]any) bool {
		params := map[string]any{"name": name, "arguments": arguments}
		q, ok := ask("tools/call", params)
		if ok && q.ResultType == "input_required" {
			_, ok = ask("tools/call", map[string]any{"name": name, "arguments": arguments, "inputResponses": q.answers(), "requestState": q.RequestState})
		}
		return ok
	}
	if !r.c.modern {
		params := map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"elicitation": map[string]any{}}, "clientInfo": map[string]any{"name": "t", "version": "1"}}
		if _, ok := ask("initialize", params); !ok {
			return false
		}
		r.c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return tool("greet", map[string]any{"name": "Ada"}) && tool("ask_name", nil) &&
		tool("progress", map[string]any{"steps": 3}) && tool("big", map[string]any{"bytes": 100_000}) && tool("greet", map[string]any{"name": "Bob"})
}
