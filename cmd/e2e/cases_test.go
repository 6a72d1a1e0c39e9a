package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/session"
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
			c := newCaller(t, newRig(t, server.URL, rigOptions{}), pair.client, "")
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
			g := newRig(t, server.URL, rigOptions{})
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
			c := newCaller(t, newRig(t, server.URL, rigOptions{}), pair.client, "")
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
	c := newCaller(t, newRig(t, server.URL, rigOptions{}), translate.Legacy, "")
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
	g := newRig(t, server.URL, rigOptions{})
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
		c := newCaller(t, newRig(t, server.URL, rigOptions{}), translate.Modern, "")
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
		c := newCaller(t, newRig(t, server.URL, rigOptions{}), translate.Legacy, "")
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
			c := newCaller(t, newRig(t, server.URL, rigOptions{}), pair.client, "")
			handle := taskIDOf(c.send("9", "tools/call", c.params(join(`"name":"job","arguments":{}`, augment(pair.client)))))
			c.post(c.headers("notifications/cancelled", ""), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
			if r := c.call("tasks/get", `"taskId":`+quote(handle)); r.field("status") != "working" || server.cancels.Load() != 0 {
				t.Errorf("after a cancel of its request: %s, %d cancels", r, server.cancels.Load())
			}
		})
	}
}

// tricky are values every relay must keep as they are.
const (
	numbers = `{"id":9223372036854775807,"x":1.0,"y":1e3,"z":0.1000,"m":-0,"big":123456789012345678901234567890,"exp":1e400,"E":1E+2}`
	escapes = `"\ud83d <b>&\u2028\u0000 \u00e9 \ud83d\ude00 \/ é"`
)

// B25: numbers keep their digits: arguments, results, _meta, error.data, and
// inside a task.
func TestCaseB25_NumbersBeyondDoubles(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newTaskServer(t, pair.server)
			server.result = `{"content":[],"structuredContent":` + numbers + `,"_meta":{"n":` + numbers + `}}`
			inner := server.script
			server.Script = func(c *scriptCall) bool {
				switch c.Tool {
				case "numbers":
					c.Result(c.complete(`"content":[],"structuredContent":` + numbers + `,"_meta":{"n":` + numbers + `}`))
				case "error":
					c.JSON(200, `{"jsonrpc":"2.0","id":`+string(c.ID)+`,"error":{"code":-32000,"message":"m","data":`+numbers+`}}`)
				default:
					return inner(c)
				}
				return true
			}
			c := newCaller(t, newRig(t, server.URL, rigOptions{}), pair.client, "")
			for _, id := range []string{`9223372036854775807`, `"9007199254740993"`, `1`} {
				meta := c.meta(`,"com.x/n":` + numbers)
				r := c.send(id, "tools/call", `{"name":"numbers","arguments":`+numbers+`,"_meta":`+meta+`}`)
				if strings.Count(string(r.Body), numbers) != 2 || string(r.answer().ID) != id {
					t.Errorf("result: %s", r)
				}
			}
			for _, up := range server.Requests("tools/call") {
				if strings.Count(string(up.Body), numbers) != 2 {
					t.Errorf("sent up: %s", up.Body)
				}
			}
			if r := c.tool("error", ""); !strings.Contains(string(r.Body), `"data":`+numbers) {
				t.Errorf("error: %s", r)
			}
			handle := taskIDOf(c.tool("job", augment(pair.client)))
			server.set("completed")
			method := "tasks/get"
			if pair.client == translate.Legacy {
				method = "tasks/result"
			}
			id := handle
			var r rawReply
			eventually(t, "the task's result", func() bool {
				r = c.call(method, `"taskId":`+quote(id))
				return strings.Contains(string(r.Body), "structuredContent") || pair.client == pair.server
			})
			if pair.client != pair.server && strings.Count(string(r.Body), numbers) != 2 {
				t.Errorf("task: %s", r)
			}
		})
	}
}

// B26: what nobody here knows passes, at every level, empty things too.
func TestCaseB26_UnknownMembers(t *testing.T) {
	const content = `[{"type":"text","text":"x","annotations":{"audience":["user"]},"_meta":{"v/k":1},"vendorX":[1,{},[],null]}]`
	const tool = `"title":"T","inputSchema":{"type":"object","x-vendor":{"a":[]}},"outputSchema":{"type":"object","$defs":{}},"annotations":{"readOnlyHint":true,"x":null},"icons":[],"_meta":{"v/k":{}},"vendorY":{}`
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				const about = `"instructions":"read\nme","experimental":{}`
				const caps = `"capabilities":{"tools":{},"experimental":{"v/x":{"a":[]}},"vendorCaps":{}}`
				switch {
				case c.Method == "initialize":
					c.Result(`{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1","icons":[{"src":"x"}],"vendorZ":null},` + about + `,` + caps + `}`)
				case c.Method == "server/discover":
					c.Result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1","icons":[{"src":"x"}],"vendorZ":null}},` + about + `,` + caps + `}`)
				case c.Method == "tools/list":
					c.Result(c.complete(`"tools":[{"name":"keep",` + tool + `}],"futureField":{"a":[]}`))
				case c.Tool == "keep":
					c.Result(c.complete(`"content":` + content + `,"structuredContent":{"s":7,"e":{},"n":null,"l":[]},"_meta":{"com.x/t":"1","traceparent":"00-a-b-01","empty":{}},"futureField":true`))
				case c.Tool == "error":
					c.JSON(200, `{"jsonrpc":"2.0","id":`+string(c.ID)+`,"error":{"code":-32000,"message":"m","data":{"a":{},"b":[],"c":null},"vendorE":1}}`)
				default:
					return false
				}
				return true
			})
			c := newCaller(t, newRig(t, server.URL, rigOptions{}), pair.client, "")
			expect := func(what string, body []byte, parts ...string) {
				t.Helper()
				for _, p := range parts {
					if !strings.Contains(string(body), p) {
						t.Errorf("%s lost %s: %.900s", what, p, body)
					}
				}
			}
			r := c.send("1", "tools/call", `{"name":"keep","arguments":{"e":{},"l":[],"n":null},"vendorP":{"a":[]},"_meta":`+c.meta(`,"traceparent":"00-a-b-01","com.x/c":{}`)+`}`)
			expect("result", r.Body, content, `"structuredContent":{"s":7,"e":{},"n":null,"l":[]}`, `"com.x/t":"1"`, `"traceparent":"00-a-b-01"`, `"empty":{}`, `"futureField":true`)
			calls := server.Requests("tools/call")
			expect("request", calls[len(calls)-1].Body, `"arguments":{"e":{},"l":[],"n":null}`, `"vendorP":{"a":[]}`, `"traceparent":"00-a-b-01"`, `"com.x/c":{}`)
			expect("error", c.tool("error", "").Body, `"data":{"a":{},"b":[],"c":null}`)
			expect("tools/list", c.call("tools/list", "").Body, tool, `"futureField":{"a":[]}`)
			method := "server/discover"
			if pair.client == translate.Legacy {
				method = "initialize"
			}
			r = c.send("2", method, c.params(`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
			expect(method, r.Body, `"icons":[{"src":"x"}]`, `"vendorZ":null`, `"instructions":"read\nme"`, `"v/x":{"a":[]}`, `"vendorCaps":{}`)
		})
	}
}

// B28: batches are for 2025-03-26 sessions alone.
func TestCaseB28_Batches(t *testing.T) {
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`
	for _, era := range []translate.Era{translate.Legacy, translate.Modern} {
		t.Run(era.String()+" server", func(t *testing.T) {
			server := newScripted(t, era, nil)
			g := newRig(t, server.URL, rigOptions{})
			old := &caller{t: t, g: g, era: translate.Legacy, http: http.DefaultClient}
			r := old.post(old.headers("", ""), `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			if old.session = r.Header.Get("Mcp-Session-Id"); old.session == "" {
				t.Fatal(r)
			}
			h := old.headers("", "")
			delete(h, "Mcp-Protocol-Version") // that revision has no such header
			server.Forget()
			r = old.post(h, batch)
			var answers []answer
			if json.Unmarshal(r.Body, &answers) != nil {
				for _, raw := range r.Answers {
					var a answer
					_ = json.Unmarshal(raw, &a)
					answers = append(answers, a)
				}
			}
			ids := map[string]bool{}
			for _, a := range answers {
				ids[string(a.ID)] = a.Result != nil
			}
			if r.Status != 200 || len(answers) != 2 || !ids["1"] || !ids["2"] {
				t.Errorf("batch: %s", r)
			}
			for _, up := range server.Requests("") {
				if strings.HasPrefix(string(up.Body), "[") {
					t.Errorf("an array went up: %s", up.Body)
				}
			}
			if r := old.post(h, `[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}},{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]`); r.Status != 202 || len(r.Body) != 0 {
				t.Errorf("notifications: %s", r)
			}
			newer := newCaller(t, g, translate.Legacy, "n")
			modern := newCaller(t, g, translate.Modern, "m")
			server.Forget()
			for _, r := range []rawReply{newer.post(newer.headers("", ""), batch), modern.post(modern.headers("ping", ""), batch), old.post(h, `[]`)} {
				if r.Status != 400 || r.Code() != -32600 {
					t.Errorf("refused: %s", r)
				}
			}
			if n := len(server.Requests("")); n != 0 {
				t.Errorf("%d requests reached the server", n)
			}
		})
	}
}

// B29: strings keep value and bytes; a message with bad UTF-8 is refused alone.
func TestCaseB29_UnicodeAndEscapes(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, tools(map[string]func(c *scriptCall){
				"text": func(c *scriptCall) {
					c.Result(c.complete(`"content":[{"type":"text","text":` + escapes + `}],"structuredContent":{` + escapes + `:` + escapes + `}`))
				},
				"event": func(c *scriptCall) { c.SSE(c.Reply(c.complete(`"content":[{"type":"text","text":` + escapes + `}]`))) },
				"bad":   func(c *scriptCall) { c.SSE(c.Reply("{\"content\":[\"\xff\"]}"), c.Reply(c.text("good"))) },
			}))
			c := newCaller(t, newRig(t, server.URL, rigOptions{}), pair.client, "")
			r := c.send("1", "tools/call", c.params(`"name":"text","arguments":{"a":`+escapes+`,`+escapes+`:1}`))
			if strings.Count(string(r.Body), escapes) != 3 {
				t.Errorf("result: %q", r.Body)
			}
			calls := server.Requests("tools/call")
			if up := string(calls[len(calls)-1].Body); strings.Count(up, escapes) != 2 {
				t.Errorf("sent up: %q", up)
			}
			if r := c.tool("event", ""); !strings.Contains(string(r.Body), escapes) {
				t.Errorf("event: %q", r.Body)
			}
			if r := c.post(c.headers("tools/call", "text"), request("2", "tools/call", c.params("\"name\":\"text\",\"arguments\":{\"a\":\"\xff\"}"))); r.Status != 400 || r.Code() != -32700 {
				t.Errorf("bad UTF-8 in: %s", r)
			}
			// On a stream it is dropped and the stream goes on.
			if r := c.tool("bad", ""); r.Text() != "good" || len(r.Answers) != 1 {
				t.Errorf("bad UTF-8 out: %s", r)
			}
			if strings.Contains(string(r.Body), "\ufffd") {
				t.Errorf("a replacement character: %q", r.Body)
			}
		})
	}
}

// B31: priming events and heartbeats of a server are no messages.
func TestCaseB31_PrimingAndHeartbeats(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, tools(map[string]func(c *scriptCall){
				"primed": func(c *scriptCall) {
					c.Begin()
					c.Raw("id: 7\nretry: 500\ndata:\n\n: hi\n\n")
					c.Events(`{"type":"heartbeat"}`, `ping`, c.Reply(c.text("at last")))
				},
			}))
			g := newRig(t, server.URL, rigOptions{})
			c := newCaller(t, g, pair.client, "")
			r := c.tool("primed", "")
			if r.Text() != "at last" || len(r.Answers) != 1 || len(r.Others) != 0 {
				t.Errorf("got %s", r)
			}
			if strings.Contains(string(r.Body), "heartbeat") || pair.client == translate.Modern && strings.Contains(string(r.Body), "\nid:") {
				t.Errorf("went through: %s", r)
			}
			if n := strings.Count(g.Log.String(), "no JSON-RPC message"); n != 1 {
				t.Errorf("logged %d times: %s", n, g.Log)
			}
		})
	}
}

// B32: any 2xx to a notification is an acceptance; ours is always 202 with
// nothing in it.
func TestCaseB32_AcceptedNotifications(t *testing.T) {
	for name, accept := range map[string]func(c *scriptCall){
		"200 null id":  func(c *scriptCall) { c.JSON(200, `{"jsonrpc":"2.0","id":null}`) },
		"200 null":     func(c *scriptCall) { c.JSON(200, `null`) },
		"200 text":     func(c *scriptCall) { c.W.Header().Set("Content-Type", "text/plain"); _, _ = c.W.Write([]byte("ok")) },
		"200 empty":    func(c *scriptCall) { c.W.WriteHeader(200) },
		"200 chunked":  func(c *scriptCall) { c.W.WriteHeader(200); c.flush() },
		"204":          func(c *scriptCall) { c.W.WriteHeader(204) },
		"202 answer":   func(c *scriptCall) { c.JSON(202, `{"jsonrpc":"2.0","id":1,"result":{}}`) },
		"200 events":   func(c *scriptCall) { c.SSE(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`) },
		"200 an error": func(c *scriptCall) { c.JSON(200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}`) },
	} {
		for _, pair := range pairings {
			t.Run(name+"/"+pair.name, func(t *testing.T) {
				server := newScripted(t, pair.server, func(c *scriptCall) bool {
					if c.R.Method == http.MethodPost && c.ID == nil && c.Method != "" {
						accept(c)
						return true
					}
					return false
				})
				// newCaller sends notifications/initialized and wants 202.
				c := newCaller(t, newRig(t, server.URL, rigOptions{}), pair.client, "")
				if r := c.tool("ok", ""); r.Text() != "fine" {
					t.Fatalf("after the handshake: %s", r)
				}
				r := c.post(c.headers("notifications/cancelled", ""), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`)
				if r.Status != 202 || len(r.Body) != 0 || r.Header["Content-Type"] != nil {
					t.Errorf("notification: %s %v", r, r.Header)
				}
			})
		}
	}
}

// B36: 401 and 403 reach the client whole, of calls, handshakes and probes;
// one met by a poll of ours is shown on nobody's other request.
func TestCaseB36_Challenges(t *testing.T) {
	const challenge = `Bearer realm="m", error="invalid_token", scope="a b", resource_metadata="https://up.example/.well-known/oauth-protected-resource/mcp"`
	deny := func(status int) func(c *scriptCall) {
		return func(c *scriptCall) {
			c.W.Header().Add("WWW-Authenticate", challenge)
			c.W.Header().Add("WWW-Authenticate", `Basic realm="second"`)
			c.JSON(status, `{"error":"invalid_token"}`)
		}
	}
	whole := func(t *testing.T, what string, status int, r rawReply) {
		t.Helper()
		v := r.Header["Www-Authenticate"]
		if r.Status != status || len(v) != 2 || v[0] != challenge || v[1] != `Basic realm="second"` {
			t.Errorf("%s: HTTP %d %q", what, r.Status, v)
		}
	}
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				switch {
				case c.R.Header.Get("Authorization") == "Bearer expired", c.Tool == "401":
					deny(401)(c)
				case c.Tool == "403":
					deny(403)(c)
				default:
					return false
				}
				return true
			})
			g := newRig(t, server.URL, rigOptions{})
			// Before anything is known of the server: the probe meets it.
			fresh := &caller{t: t, g: g, era: pair.client, http: http.DefaultClient, caps: tasksCaps, token: "expired"}
			first := func() rawReply {
				if pair.client == translate.Modern {
					return fresh.tool("ok", "")
				}
				return fresh.post(fresh.headers("", ""), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			}
			whole(t, "probe", 401, first())
			c := newCaller(t, g, pair.client, "good")
			whole(t, "call", 401, c.tool("401", ""))
			whole(t, "call", 403, c.tool("403", ""))
			whole(t, "handshake", 401, first())
			if r := c.tool("ok", ""); r.Text() != "fine" {
				t.Errorf("another caller: %s", r)
			}
			for _, up := range server.Requests("") {
				if v := up.Header["Authorization"]; len(v) != 1 || v[0] != "Bearer good" && v[0] != "Bearer expired" {
					t.Errorf("credential %v", v)
				}
			}
		})
	}
	for _, pair := range pairings[:2] {
		t.Run("poll, "+pair.name, func(t *testing.T) {
			server := newTaskServer(t, pair.server)
			server.result = `{"content":[{"type":"text","text":"42"}]}`
			inner := server.script
			var denied atomic.Int32
			server.Script = func(c *scriptCall) bool {
				if strings.HasPrefix(c.Method, "tasks/") && denied.Load() < 2 {
					denied.Add(1)
					deny(401)(c)
					return true
				}
				return inner(c)
			}
			c := newCaller(t, newRig(t, server.URL, rigOptions{Policy: session.Policy{RetryAfter: 10 * time.Millisecond}}), pair.client, "")
			handle := taskIDOf(c.tool("job", augment(pair.client)))
			if pair.client == translate.Legacy {
				lines, status, _ := c.stream("POST", c.headers("", ""), request("50", "tasks/result", `{"taskId":`+quote(handle)+`}`))
				eventually(t, "our polls are denied", func() bool { return denied.Load() == 2 })
				server.set("completed")
				if l := nextLine(t, lines, `"id":50`); status != 200 || !strings.Contains(l, "42") {
					t.Errorf("tasks/result: %d %s", status, l)
				}
			} else {
				server.set("completed")
				eventually(t, "the result", func() bool {
					r := c.call("tasks/get", `"taskId":`+quote(handle))
					return strings.Contains(string(r.Body), "42")
				})
			}
			if r := c.tool("ok", ""); r.Status != 200 || r.Header["Www-Authenticate"] != nil {
				t.Errorf("another request: %s", r)
			}
		})
	}
}

// B52: requests that overtake initialized are served; toward a server nothing
// goes before it was accepted.
func TestCaseB52_RequestsBeforeInitialized(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			var accepted atomic.Bool
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				switch {
				case pair.server == translate.Modern && (c.Method == "notifications/initialized" || c.Method == "ping" || c.Method == "initialize"):
					t.Errorf("%s reached a modern server", c.Method)
				case pair.server == translate.Legacy && c.Method == "notifications/initialized":
					time.Sleep(50 * time.Millisecond)
					accepted.Store(true)
				case pair.server == translate.Legacy && pair.client == translate.Modern && c.R.Method == http.MethodPost && c.Method != "initialize" && c.Method != "server/discover" && !accepted.Load():
					t.Errorf("%s came before initialized was accepted", c.Method)
				}
				return false
			})
			g := newRig(t, server.URL, rigOptions{})
			if pair.client == translate.Modern {
				accepted.Store(false)
				c := newCaller(t, g, translate.Modern, "")
				if r := c.tool("ok", ""); r.Text() != "fine" {
					t.Errorf("got %s", r)
				}
				return
			}
			c := &caller{t: t, g: g, era: translate.Legacy, http: http.DefaultClient}
			if r := c.post(c.headers("", ""), `{"jsonrpc":"2.0","id":1,"method":"ping"}`); r.Status != 200 || string(r.answer().Result) != "{}" {
				t.Errorf("ping without a session: %s", r)
			}
			if r := c.post(c.headers("", ""), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); r.Status != 400 || r.Code() != -32600 {
				t.Errorf("a request without a session: %s", r)
			}
			r := c.post(c.headers("", ""), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			c.session = r.Header.Get("Mcp-Session-Id")
			if r := c.call("tools/list", ""); r.Code() != 0 || r.Status != 200 {
				t.Errorf("before initialized: %s", r)
			}
			if r := c.call("ping", ""); string(r.answer().Result) != "{}" {
				t.Errorf("ping: %s", r)
			}
			if r := c.post(c.headers("", ""), `{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.Status != 202 {
				t.Errorf("initialized: %s", r)
			}
			modern := newCaller(t, g, translate.Modern, "")
			if r := modern.tool("ok", ""); r.Text() != "fine" {
				t.Errorf("a modern request on the same endpoint: %s", r)
			}
		})
	}
}

// Sampling in the middle of a list call, questions with bad params and floods
// of pings from a legacy server: each request of the server is answered, and
// the call that carried them goes on.
func TestHostileServerRequests(t *testing.T) {
	answered := make(chan string, 4096)
	server := newScripted(t, translate.Legacy, func(c *scriptCall) bool {
		switch {
		case c.R.Method == http.MethodPost && c.Method == "" && c.ID != nil:
			answered <- string(c.Body)
			c.W.WriteHeader(202)
		case c.Method == "prompts/list":
			c.Begin()
			c.Events(`{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`)
			want := <-answered
			if !strings.Contains(want, `"s1"`) || !strings.Contains(want, `"error"`) {
				t.Errorf("sampling in a list: %s", want)
			}
			c.Events(c.Reply(`{"prompts":[]}`))
		case c.Tool == "pings":
			c.Begin()
			for i := range 200 {
				c.Events(fmt.Sprintf(`{"jsonrpc":"2.0","id":"p%d","method":"ping"}`, i))
			}
			for range 200 {
				<-answered
			}
			c.Events(c.Reply(c.text("ponged")))
		case c.Tool == "unknown-request":
			c.Begin()
			c.Events(`{"jsonrpc":"2.0","id":"u","method":"tasks/get","params":{"taskId":"x"}}`)
			if a := <-answered; !strings.Contains(a, "-32601") {
				t.Errorf("tasks/get of a server: %s", a)
			}
			c.Events(c.Reply(c.text("went on")))
		case c.Tool == "bad-question":
			c.Begin()
			c.Events(`{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":["x"]}`)
			if a := <-answered; !strings.Contains(a, `"e"`) || !strings.Contains(a, `"error"`) {
				t.Errorf("a question with bad params: %s", a)
			}
			c.Events(c.Reply(c.text("went on")))
		default:
			return false
		}
		return true
	})
	c := newCaller(t, newRig(t, server.URL, rigOptions{}), translate.Modern, "")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if r := c.postIn(ctx, c.headers("prompts/list", ""), request("1", "prompts/list", c.params(""))); r.Code() != 0 {
		t.Errorf("prompts/list: %s", r)
	}
	for tool, text := range map[string]string{"pings": "ponged", "unknown-request": "went on", "bad-question": "went on"} {
		if r := c.tool(tool, ""); r.Text() != text || len(r.Answers) != 1 {
			t.Errorf("%s: %s", tool, r)
		}
	}
}
