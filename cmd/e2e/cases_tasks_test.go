package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/translate"
)

// augment is what a legacy client adds to make a task of a call.
func augment(era translate.Era) string {
	if era == translate.Legacy {
		return `"task":{}`
	}
	return ""
}

// taskServer makes a task "t1" of each call of "job" and answers for it as its
// fields say; result and rpcError end the task.
type taskServer struct {
	*scripted
	status  atomic.Pointer[string] // status word
	result  string
	gets    atomic.Int32
	results atomic.Int32
	cancels atomic.Int32
	polling atomic.Int32 // tasks/get under way
	crowded atomic.Bool  // two were at once
	birth   string       // further members of the task
}

func newTaskServer(t testing.TB, era translate.Era) *taskServer {
	s := &taskServer{birth: `,"pollInterval":20,"pollIntervalMs":20`}
	s.set("working")
	s.scripted = newScripted(t, era, s.script)
	return s
}

func (s *taskServer) set(status string) { s.status.Store(&status) }

func (s *taskServer) task(more string) string {
	return `"taskId":"t1","status":` + quote(*s.status.Load()) + `,"createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:05Z","ttl":60000,"ttlMs":60000` + s.birth + more
}

func (s *taskServer) script(c *scriptCall) bool {
	modern := s.Era == translate.Modern
	known := strings.Contains(string(c.Params), `"t1"`)
	switch {
	case c.Method == "tools/call" && c.Tool == "job" && modern:
		c.Result(`{"resultType":"task",` + s.task("") + `}`)
	case c.Method == "tools/call" && c.Tool == "job":
		c.Result(`{"task":{` + s.task("") + `}}`)
	case c.Method == "tasks/get" && known:
		s.gets.Add(1)
		if s.polling.Add(1) > 1 {
			s.crowded.Store(true)
		}
		defer s.polling.Add(-1)
		time.Sleep(10 * time.Millisecond) // so that others would meet it
		more := ""
		if modern && *s.status.Load() == "completed" {
			more = `,"result":` + s.result
		}
		c.Result(c.complete(s.task(more)))
	case c.Method == "tasks/result" && known && !modern:
		s.results.Add(1)
		for *s.status.Load() == "working" && c.R.Context().Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		c.Result(s.result)
	case c.Method == "tasks/cancel" && known:
		s.cancels.Add(1)
		switch {
		case modern:
			c.Result(`{"resultType":"complete"}`)
		case *s.status.Load() != "working":
			c.Error(-32602, "Cannot cancel task: already in terminal status")
		default:
			s.set("cancelled")
			c.Result(`{` + s.task("") + `}`)
		}
	default:
		return false
	}
	return true
}

// B6: cancel of a finished task: an error to legacy clients, an ack to modern
// ones; the task stays as it ended.
func TestCaseB6_CancelOfAFinishedTask(t *testing.T) {
	for _, pair := range pairings[:2] {
		t.Run(pair.name, func(t *testing.T) {
			server := newTaskServer(t, pair.server)
			server.result = `{"content":[{"type":"text","text":"42"}]}`
			c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), pair.client, "")
			handle := taskIDOf(c.tool("job", augment(pair.client)))
			server.set("completed")
			get := func() rawReply { return c.call("tasks/get", `"taskId":`+quote(handle)) }
			eventually(t, "the task is completed", func() bool { return get().field("status") == "completed" })
			before := get()
			r := c.call("tasks/cancel", `"taskId":`+quote(handle))
			want := -32602
			if pair.client == translate.Modern {
				want = 0
			}
			if r.Code() != want || r.Status != 200 || want == 0 && r.field("resultType") != "complete" {
				t.Errorf("cancel: %s", r)
			}
			if r := get(); string(r.answer().Result) != string(before.answer().Result) {
				t.Errorf("afterwards: %s, before: %s", r, before)
			}
			if pair.client == translate.Legacy {
				if r := c.call("tasks/result", `"taskId":`+quote(handle)); r.Text() != "42" {
					t.Errorf("result: %s", r)
				}
			}
			for _, unknown := range []string{"done1", handle[:len(handle)-4] + "AAAA", "tb1_"} {
				if r := c.call("tasks/cancel", `"taskId":`+quote(unknown)); r.Code() != -32602 {
					t.Errorf("unknown task %q: %s", unknown, r)
				}
			}
		})
	}
}

// B8: tasks belong to the principal, not to the session; a lost session of
// the server is opened anew, once.
func TestCaseB8_TaskAfterReconnect(t *testing.T) {
	for _, pair := range pairings[:2] {
		t.Run(pair.name, func(t *testing.T) {
			server := newTaskServer(t, pair.server)
			inner := server.script
			var lost atomic.Pointer[string]
			server.Script = func(c *scriptCall) bool {
				if l := lost.Load(); l != nil && *l != "" && c.R.Header.Get("Mcp-Session-Id") == *l && c.Method != "initialize" {
					c.W.WriteHeader(404)
					return true
				}
				return inner(c)
			}
			g := newRig(t, server.URL, bridgeOptions{})
			c := newCaller(t, g, pair.client, "a")
			handle := taskIDOf(c.tool("job", augment(pair.client)))
			first := c.session
			if pair.client == translate.Legacy {
				c.initialize()
				if c.session == first {
					t.Fatal("the same session")
				}
			}
			for _, r := range server.Requests("tools/call") {
				id := r.Header.Get("Mcp-Session-Id")
				lost.Store(&id)
			}
			server.Forget()
			eventually(t, "the server is asked", func() bool {
				r := c.call("tasks/get", `"taskId":`+quote(handle))
				if r.field("status") != "working" || r.field("taskId") != handle {
					t.Fatalf("after the reconnect: %s", r)
				}
				return len(server.Requests("tasks/get")) > 0
			})
			if n := len(server.Requests("initialize")); pair.server == translate.Legacy && n != 1 {
				t.Errorf("initialize was sent %d times", n)
			}
			other := newCaller(t, g, pair.client, "b")
			foreign, unknown := other.send("1", "tasks/get", other.params(`"taskId":`+quote(handle))), other.send("1", "tasks/get", other.params(`"taskId":"nope"`))
			if foreign.Code() != -32602 || string(foreign.Body) != string(unknown.Body) {
				t.Errorf("foreign %s, unknown %s", foreign, unknown)
			}
		})
	}
}

// B9: the forms of ttl and pollInterval, both ways.
func TestCaseB9_TTLAndPollInterval(t *testing.T) {
	for _, row := range []struct{ birth, ttlMs, ttl, pollMs, poll string }{
		{`,"ttl":null,"ttlMs":null,"pollInterval":null,"pollIntervalMs":null`, "null", "null", "", ""},
		{`,"ttl":0,"ttlMs":0,"pollInterval":0,"pollIntervalMs":0`, "0", "0", "0", "0"},
		{``, "null", "null", "", ""},
		{`,"ttl":1500.0,"ttlMs":1500.0,"pollInterval":500,"pollIntervalMs":500`, "1500", "1500", "500", "500"},
	} {
		for _, pair := range pairings[:2] {
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				if c.Tool != "job" || c.Method != "tools/call" {
					return false
				}
				task := `"taskId":"t1","status":"working","createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:05Z"` + row.birth
				if pair.server == translate.Modern {
					c.Result(`{"resultType":"task",` + task + `}`)
				} else {
					c.Result(`{"task":{` + task + `}}`)
				}
				return true
			})
			c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), pair.client, "")
			r := c.tool("job", augment(pair.client))
			var flat map[string]json.RawMessage
			_ = json.Unmarshal(r.answer().Result, &flat)
			want := map[string]string{"ttlMs": row.ttlMs, "pollIntervalMs": row.pollMs}
			if pair.client == translate.Legacy {
				_ = json.Unmarshal(flat["task"], &flat)
				want = map[string]string{"ttl": row.ttl, "pollInterval": row.poll}
			}
			for k, v := range want {
				if got := string(flat[k]); got != v {
					t.Errorf("%s, %s: %s is %q, want %q: %s", pair.name, row.birth, k, got, v, r)
				}
			}
		}
	}
	// What a legacy client asks for.
	server := newTaskServer(t, translate.Modern)
	c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), translate.Legacy, "")
	for _, task := range []string{`{}`, `{"ttl":null}`, `{"ttl":0}`, `{"ttl":60000}`} {
		if r := c.tool("job", `"task":`+task); taskIDOf(r) == "" {
			t.Errorf("task %s: %s", task, r)
		}
	}
	server.Forget()
	for _, task := range []string{`{"ttl":-1}`, `{"ttl":"60"}`, `{"ttl":[]}`, `{"ttl":true}`, `5`, `null`} {
		if r := c.tool("job", `"task":`+task); r.Code() != -32602 || r.Status != 200 {
			t.Errorf("task %s: %s", task, r)
		}
	}
	if n := len(server.Requests("")); n != 0 {
		t.Errorf("%d requests reached the server", n)
	}
}

// B11: a blocked tasks/result is a stream that begins with a comment; many
// waiters share one poll; who drops out cancels nothing.
func TestCaseB11_BlockingResult(t *testing.T) {
	server := newTaskServer(t, translate.Modern)
	server.birth = `,"pollIntervalMs":100`
	server.result = `{"resultType":"complete","content":[{"type":"text","text":"42"}]}`
	g := newRig(t, server.URL, bridgeOptions{})
	c := newCaller(t, g, translate.Legacy, "")
	handle := taskIDOf(c.tool("job", `"task":{}`))
	wait := func(id int) (<-chan string, func()) {
		lines, status, leave := c.stream("POST", c.headers("", ""), request(fmt.Sprint(id), "tasks/result", `{"taskId":`+quote(handle)+`}`))
		if status != 200 {
			t.Fatalf("tasks/result: %d", status)
		}
		return lines, leave
	}
	lines, leave := wait(100)
	if first := <-lines; !strings.HasPrefix(first, ":") {
		t.Errorf("the first line is %q", first)
	}
	leave() // no cancel
	const waiters = 20
	streams := make([]<-chan string, waiters)
	ready := make(chan struct{}, waiters)
	for i := range streams {
		go func() {
			streams[i], _ = wait(200 + i)
			ready <- struct{}{}
		}()
	}
	for range waiters {
		<-ready // each has had its 200: its stream is open
	}
	if r := c.call("tasks/get", `"taskId":`+quote(handle)); r.field("status") != "working" {
		t.Errorf("meanwhile: %s", r)
	}
	// Polls come one after the other, never one for each waiter.
	before := server.gets.Load()
	eventually(t, "three more polls", func() bool { return server.gets.Load() >= before+3 })
	server.set("completed")
	for i, lines := range streams {
		l := nextLine(t, lines, `"result"`)
		if !strings.Contains(l, fmt.Sprintf(`"id":%d`, 200+i)) || !strings.Contains(l, `"42"`) || !strings.Contains(l, "related-task") {
			t.Errorf("waiter %d got %s", i, l)
		}
	}
	if server.crowded.Load() {
		t.Error("two polls at once")
	}
	if server.cancels.Load() != 0 {
		t.Error("a dropped stream cancelled the task")
	}
	if r := c.call("tasks/result", `"taskId":`+quote(handle)); r.Text() != "42" {
		t.Errorf("again: %s", r)
	}
}

// B22: a closed stream is a cancel of modern clients, never of legacy ones;
// what became a task only tasks/cancel stops.
func TestCaseB22_DisconnectOrCancel(t *testing.T) {
	t.Run("modern client, legacy server", func(t *testing.T) {
		server := newScripted(t, translate.Legacy, tools(map[string]func(c *scriptCall){"slow": func(c *scriptCall) { c.Begin(); c.Wait() }}))
		c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), translate.Modern, "")
		_, _, leave := c.stream("POST", c.headers("tools/call", "slow"), request("5", "tools/call", c.params(`"name":"slow","arguments":{}`)))
		eventually(t, "the call runs", func() bool { return server.Ran("slow") == 1 })
		leave()
		eventually(t, "the server is told", func() bool { return len(server.Requests("notifications/cancelled")) == 1 })
		var call, cancel struct {
			ID     json.RawMessage
			Params struct{ RequestID json.RawMessage }
		}
		_ = json.Unmarshal(server.Requests("tools/call")[0].Body, &call)
		_ = json.Unmarshal(server.Requests("notifications/cancelled")[0].Body, &cancel)
		if string(call.ID) != string(cancel.Params.RequestID) {
			t.Errorf("call %s, cancelled %s", call.ID, cancel.Params.RequestID)
		}
	})
	t.Run("legacy client, modern server", func(t *testing.T) {
		var closed atomic.Int32
		server := newScripted(t, translate.Modern, tools(map[string]func(c *scriptCall){"slow": func(c *scriptCall) {
			c.Begin()
			c.Wait()
			closed.Add(1)
		}}))
		c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), translate.Legacy, "")
		for _, id := range []string{"5", "6"} {
			_, _, leave := c.stream("POST", c.headers("", ""), request(id, "tools/call", `{"name":"slow","arguments":{}}`))
			leave()
		}
		eventually(t, "both run", func() bool { return server.Ran("slow") == 2 })
		if r := c.tool("ok", ""); r.Text() != "fine" {
			t.Error(r)
		}
		if closed.Load() != 0 {
			t.Error("a dropped stream closed the server's")
		}
		if r := c.post(c.headers("", ""), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`); r.Status != 202 {
			t.Error(r)
		}
		eventually(t, "one stream is closed", func() bool { return closed.Load() == 1 })
	})
	for _, pair := range pairings[:2] {
		t.Run("task, "+pair.name, func(t *testing.T) {
			server := newTaskServer(t, pair.server)
			c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), pair.client, "")
			handle := taskIDOf(c.send("9", "tools/call", c.params(join(`"name":"job","arguments":{}`, augment(pair.client)))))
			c.post(c.headers("notifications/cancelled", ""), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
			if r := c.call("tasks/get", `"taskId":`+quote(handle)); r.field("status") != "working" || server.cancels.Load() != 0 {
				t.Errorf("after a cancel of its request: %s, %d cancels", r, server.cancels.Load())
			}
		})
	}
}
