package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// serverCase is what a hostile server does to one tools/call, and what a
// client of each era gets of it.
type serverCase struct {
	name string
	do   func(c *scriptCall)
	// legacy and modern are "status code" for a client of that era, several
	// parted by commas; code 0: a result.
	legacy, modern string
}

const (
	broken = "502 -32603"
	// An event stream is begun before it breaks: the failure is an error in it.
	inStream = "200 -32603"
)

func serverCases() []serverCase {
	id := func(c *scriptCall) string { return string(c.ID) }
	answer := func(id, result string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}` }
	return []serverCase{
		{name: "wrong-id", do: func(c *scriptCall) { c.JSON(200, answer("424242", c.text("foreign"))) }, legacy: broken, modern: broken},
		{name: "wrong-type-of-id", do: func(c *scriptCall) { c.JSON(200, answer(quote(id(c)), c.text("foreign"))) }, legacy: broken, modern: broken},
		{name: "null-id", do: func(c *scriptCall) { c.JSON(200, answer("null", c.text("x"))) }, legacy: broken, modern: broken},
		{name: "object-id", do: func(c *scriptCall) { c.JSON(200, answer("{}", c.text("x"))) }, legacy: broken, modern: broken},
		{name: "no-id", do: func(c *scriptCall) { c.JSON(200, `{"jsonrpc":"2.0","result":`+c.text("x")+`}`) }, legacy: broken, modern: broken},
		{name: "error-null-id", do: func(c *scriptCall) { c.JSON(200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`) }, legacy: "200 -32600", modern: "200 -32600"},
		{name: "error-no-id", do: func(c *scriptCall) { c.JSON(200, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}`) }, legacy: "200 -32600", modern: "200 -32600"},
		{name: "two-answers", do: func(c *scriptCall) { c.SSE(answer(id(c), c.text("first")), answer(id(c), c.text("second"))) }, legacy: "200 0", modern: "200 0"},
		{name: "answer-and-error", do: func(c *scriptCall) {
			c.SSE(answer(id(c), c.text("first")), `{"jsonrpc":"2.0","id":`+id(c)+`,"error":{"code":1,"message":"late"}}`)
		}, legacy: "200 0", modern: "200 0"},
		{name: "foreign-then-own", do: func(c *scriptCall) { c.SSE(answer("424242", c.text("foreign")), answer(id(c), c.text("own"))) }, legacy: "200 0", modern: "200 0"},
		{name: "only-foreign", do: func(c *scriptCall) { c.SSE(answer("424242", c.text("foreign"))) }, legacy: inStream, modern: inStream},
		{name: "empty-stream", do: func(c *scriptCall) { c.SSE() }, legacy: inStream, modern: inStream},
		{name: "result-text", do: func(c *scriptCall) { c.Result(`"x"`) }, legacy: broken, modern: broken},
		{name: "result-array", do: func(c *scriptCall) { c.Result(`[]`) }, legacy: broken, modern: broken},
		{name: "result-null", do: func(c *scriptCall) { c.Result(`null`) }, legacy: broken, modern: broken},
		{name: "result-and-error", do: func(c *scriptCall) {
			c.JSON(200, `{"jsonrpc":"2.0","id":`+id(c)+`,"result":{},"error":{"code":1,"message":""}}`)
		}, legacy: broken, modern: broken},
		{name: "error-text", do: func(c *scriptCall) { c.JSON(200, `{"jsonrpc":"2.0","id":`+id(c)+`,"error":"x"}`) }, legacy: broken, modern: broken},
		{name: "error-huge-code", do: func(c *scriptCall) {
			c.JSON(200, `{"jsonrpc":"2.0","id":`+id(c)+`,"error":{"code":1e400,"message":"x"}}`)
		}, legacy: broken, modern: broken},
		{name: "content-text", do: func(c *scriptCall) { c.Result(c.complete(`"content":"x","isError":"yes","_meta":[]`)) }, legacy: "200 0", modern: "200 0"},
		{name: "content-twice", do: func(c *scriptCall) { c.Result(c.complete(`"content":[],"content":[{}]`)) }, legacy: broken, modern: broken},
		{name: "bad-utf8", do: func(c *scriptCall) { c.Result(c.complete("\"content\":[{\"type\":\"text\",\"text\":\"\xff\"}]")) }, legacy: broken, modern: broken},
		{name: "bad-utf8-event", do: func(c *scriptCall) { c.SSE(answer(id(c), "{\"content\":[\"\xff\"]}")) }, legacy: inStream, modern: inStream},
		{name: "deep", do: func(c *scriptCall) {
			c.Result(c.complete(`"content":` + strings.Repeat("[", 600) + strings.Repeat("]", 600)))
		}, legacy: broken, modern: broken},
		{name: "too-large", do: func(c *scriptCall) { c.Result(c.text(strings.Repeat("x", 2<<20))) }, legacy: broken, modern: broken},
		{name: "too-large-event", do: func(c *scriptCall) { c.SSE(answer(id(c), c.text(strings.Repeat("x", 2<<20)))) }, legacy: inStream, modern: inStream},
		{name: "endless-line", do: func(c *scriptCall) {
			c.Begin()
			c.Raw("data: ")
			for c.R.Context().Err() == nil && c.Raw(strings.Repeat("y", 64<<10)) {
			}
		}, legacy: inStream, modern: inStream},
		{name: "html", do: func(c *scriptCall) {
			c.W.Header().Set("Content-Type", "text/html")
			_, _ = c.W.Write([]byte("<html><script>alert(1)</script></html>"))
		}, legacy: broken, modern: broken},
		{name: "html-as-json", do: func(c *scriptCall) { c.JSON(200, "<html>") }, legacy: broken, modern: broken},
		{name: "empty-json", do: func(c *scriptCall) { c.JSON(200, "") }, legacy: broken, modern: broken},
		{name: "array-json", do: func(c *scriptCall) { c.JSON(200, "[]") }, legacy: broken, modern: broken},
		{name: "own-request-as-answer", do: func(c *scriptCall) { c.JSON(200, string(c.Body)) }, legacy: "502 -32603,200 -32603", modern: "502 -32603,200 -32603"},
		{name: "204", do: func(c *scriptCall) { c.W.WriteHeader(204) }, legacy: broken, modern: broken},
		{name: "202", do: func(c *scriptCall) { c.W.WriteHeader(202) }, legacy: broken, modern: broken},
		{name: "500-error", do: func(c *scriptCall) {
			c.JSON(500, `{"jsonrpc":"2.0","id":`+id(c)+`,"error":{"code":-32603,"message":"crash"}}`)
		}, legacy: "500 -32603,200 -32603", modern: "500 -32603,200 -32603"},
		{name: "500-html", do: func(c *scriptCall) { c.W.WriteHeader(500); _, _ = c.W.Write([]byte("<html>")) }, legacy: broken, modern: broken},
		{name: "503-later", do: func(c *scriptCall) { c.W.Header().Set("Retry-After", "7"); c.W.WriteHeader(503) }, legacy: "503 -32603", modern: "503 -32603"},
		{name: "429-later", do: func(c *scriptCall) { c.W.Header().Set("Retry-After", "7"); c.W.WriteHeader(429) }, legacy: "429 -32603", modern: "429 -32603"},
		// Between peers of one era the server's own refusal passes.
		{name: "400-empty", do: func(c *scriptCall) { c.W.WriteHeader(400) }, legacy: broken + ",400 -32603", modern: broken + ",400 -32603"},
		{name: "418-result", do: func(c *scriptCall) { c.JSON(418, answer(id(c), c.text("tea"))) }, legacy: "200 0,418 0", modern: "200 0,418 0"},
		{name: "302", do: func(c *scriptCall) { c.W.Header().Set("Location", "http://other.example/"); c.W.WriteHeader(302) }, legacy: broken, modern: broken},
		{name: "307-elsewhere", do: func(c *scriptCall) {
			c.W.Header().Set("Location", "http://127.0.0.1:1/x")
			c.W.WriteHeader(307)
		}, legacy: broken, modern: broken},
		{name: "307-loop", do: func(c *scriptCall) { c.W.Header().Set("Location", "/mcp"); c.W.WriteHeader(307) }, legacy: broken, modern: broken},
		{name: "1xx-flood", do: func(c *scriptCall) {
			c.Cut(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </"+strings.Repeat("l", 1000)+">\r\n\r\n", 1000))
		}, legacy: broken, modern: broken},
		{name: "101", do: func(c *scriptCall) { c.Cut("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n") }, legacy: broken, modern: broken},
		{name: "no-http", do: func(c *scriptCall) { c.Cut("SSH-2.0-x\r\n") }, legacy: broken, modern: broken},
		{name: "cut-at-once", do: func(c *scriptCall) { c.Cut("") }, legacy: broken, modern: broken},
		{name: "cut-in-headers", do: func(c *scriptCall) { c.Cut("HTTP/1.1 200 OK\r\nContent-Ty") }, legacy: broken, modern: broken},
		{name: "cut-after-headers", do: func(c *scriptCall) {
			c.Cut("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n")
		}, legacy: broken, modern: broken},
		{name: "cut-in-json", do: func(c *scriptCall) {
			c.Cut("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n" + `{"jsonrpc":"2.0","id":` + id(c))
		}, legacy: broken, modern: broken},
		{name: "cut-in-chunk", do: func(c *scriptCall) {
			c.Cut("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n{")
		}, legacy: broken, modern: broken},
		{name: "cut-in-event", do: func(c *scriptCall) {
			c.Cut("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n" + "data: {\"jsonrpc\":\"2.0\",\"id\":12345\n\r\n")
		}, legacy: inStream, modern: inStream},
		{name: "cut-after-progress", do: func(c *scriptCall) {
			c.Begin()
			c.Events(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":1}}`)
			c.Cut("")
		}, legacy: inStream, modern: inStream},
		{name: "huge-header", do: func(c *scriptCall) {
			c.W.Header().Set("X-Big", strings.Repeat("h", 1<<20))
			c.Result(c.text("x"))
		}, legacy: broken, modern: broken},
		{name: "brotli", do: func(c *scriptCall) { c.W.Header().Set("Content-Encoding", "br"); c.Result(c.text("x")) }, legacy: broken, modern: broken},
		{name: "gzip-that-is-none", do: func(c *scriptCall) { c.W.Header().Set("Content-Encoding", "gzip"); c.Result(c.text("x")) }, legacy: broken, modern: broken},
		{name: "comments-then-answer", do: func(c *scriptCall) {
			c.Begin()
			for range 2000 {
				c.Raw(": " + strings.Repeat("c", 1000) + "\n\n")
			}
			c.Events(answer(id(c), c.text("at last")))
		}, legacy: "200 0", modern: "200 0"},
		{name: "junk-then-answer", do: func(c *scriptCall) {
			c.SSE("hello", `{"type":"heartbeat"}`, "[]", "5", `{"jsonrpc":"2.0","method":"x","params":[]}`, `{"jsonrpc":"1.0","id":`+id(c)+`,"result":{}}`, answer(id(c), c.text("own")))
		}, legacy: "200 0", modern: "200 0"},
		{name: "notices-of-nothing", do: func(c *scriptCall) {
			c.SSE(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":999}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`,
				`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{},"progress":"x"}}`,
				`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":5}}`, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":[]}}`,
				`{"jsonrpc":"2.0","method":"notifications/tasks","params":{}}`, answer(id(c), c.text("own")))
		}, legacy: "200 0", modern: "200 0"},
		{name: "result-type-unknown", do: func(c *scriptCall) { c.Result(`{"resultType":"surprise","content":[]}`) }, legacy: "200 0", modern: "200 0"},
		{name: "result-type-number", do: func(c *scriptCall) { c.Result(`{"resultType":5,"content":[]}`) }, legacy: "200 0", modern: "200 0"},
	}
}

// Whatever a server does to a call: the client gets one answer with the right
// status, and others' calls go on.
func TestSafetyS51_HostileServers(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			table := map[string]func(c *scriptCall){}
			for _, sc := range serverCases() {
				table[sc.name] = sc.do
			}
			server := newScripted(t, pair.server, tools(table))
			g := newRig(t, server.URL, bridgeOptions{MaxMessage: 1 << 20})
			evil, good := newCaller(t, g, pair.client, ""), newCaller(t, g, pair.client, "good")
			for _, sc := range serverCases() {
				server.Forget()
				r := evil.tool(sc.name, "")
				want := sc.legacy
				if pair.client == translate.Modern {
					want = sc.modern
				}
				if pair.client == translate.Modern && pair.server != translate.Modern && want == inStream {
					// Legacy servers answer everything in event streams, and an error in
					// one may need a status of its own: the reply begins with a message.
					want += "," + broken
				}
				got := fmt.Sprintf("%d %d", r.Status, r.Code())
				if len(r.Answers) != 1 || r.Broken != nil || !contains(strings.Split(want, ","), got) {
					t.Errorf("%s: %d answers, got %s, want %s: %s", sc.name, len(r.Answers), got, want, r)
					continue
				}
				if id := string(r.answer().ID); id != r.ID {
					t.Errorf("%s: answer to %s, want %s", sc.name, id, r.ID)
				}
				if text := r.Text(); text == "second" || text == "foreign" {
					t.Errorf("%s: the client got %q", sc.name, text)
				}
				if strings.Contains(string(r.Body), "<html") || strings.Contains(string(r.Body), "SSH-2.0") {
					t.Errorf("%s: the server's page reached the client: %s", sc.name, r)
				}
				if sc.name == "503-later" && r.Header.Get("Retry-After") != "7" {
					t.Errorf("%s: no Retry-After: %v", sc.name, r.Header)
				}
				if n := server.Ran(sc.name); n != 1 && !strings.HasPrefix(sc.name, "307-loop") {
					t.Errorf("%s: the tool ran %d times", sc.name, n)
				}
				if r := good.tool("ok", ""); r.Text() != "fine" {
					t.Errorf("%s: beside it a good call gets %s", sc.name, r)
				}
			}
		})
	}
}

// Endless silence, comments and pings: the call waits without end, costs
// little, and ends with its client; others go on.
func TestHostileServersWithoutEnd(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			left := make(chan string, 8)
			server := newScripted(t, pair.server, tools(map[string]func(c *scriptCall){
				"silent": func(c *scriptCall) { c.Wait(); left <- "silent" },
				"comments": func(c *scriptCall) {
					c.Begin()
					for c.R.Context().Err() == nil && c.Raw(": "+strings.Repeat("c", 8<<10)+"\n\n") {
					}
					left <- "comments"
				},
				"notices": func(c *scriptCall) {
					c.Begin()
					for c.R.Context().Err() == nil && c.Raw(`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"`+strings.Repeat("n", 8<<10)+`"}}`+"\n\n") {
					}
					left <- "notices"
				},
			}))
			g := newRig(t, server.URL, bridgeOptions{})
			evil, good := newCaller(t, g, pair.client, ""), newCaller(t, g, pair.client, "good")
			for _, tool := range []string{"silent", "comments", "notices"} {
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan struct{})
				params := evil.params(`"name":` + quote(tool) + `,"arguments":{}`)
				go func() {
					defer close(done)
					evil.pour(ctx, evil.headers("tools/call", tool), request("77", "tools/call", params))
				}()
				eventually(t, tool+" is under way", func() bool { return server.Ran(tool) == 1 })
				before := heap()
				for range 20 {
					if r := good.tool("ok", ""); r.Text() != "fine" {
						t.Fatalf("beside %s: %s", tool, r)
					}
				}
				if grew := int64(heap()) - int64(before); grew > 32<<20 {
					t.Errorf("%s: the heap grew by %d MiB", tool, grew>>20)
				}
				if pair.client == translate.Legacy {
					// A dropped stream is no cancel; the notification is.
					if r := evil.post(evil.headers("", ""), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`); r.Status != 202 {
						t.Errorf("cancel: %s", r)
					}
				}
				cancel()
				<-done
				if pair.server == translate.Legacy {
					// The server hears it by notification; its stream it ends itself.
					eventually(t, "the server is told to cancel "+tool, func() bool { return len(server.Requests("notifications/cancelled")) > 0 })
				} else {
					eventually(t, "the server's stream of "+tool+" is closed", func() bool { return len(left) > 0 })
					<-left
				}
				server.Forget()
			}
		})
	}
}

// Hostile handshakes with a legacy server: both kinds of clients get one
// answer, and the bridge serves the next server state.
func TestHostileHandshakes(t *testing.T) {
	init := func(result string) func(c *scriptCall) bool {
		return func(c *scriptCall) bool {
			if c.Method != "initialize" {
				return false
			}
			c.Result(result)
			return true
		}
	}
	for name, script := range map[string]func(c *scriptCall) bool{
		"no version":             init(`{"serverInfo":{"name":"s","version":"1"},"capabilities":{}}`),
		"version number":         init(`{"protocolVersion":5,"serverInfo":{"name":"s","version":"1"},"capabilities":{}}`),
		"version unknown":        init(`{"protocolVersion":"1999-01-01","serverInfo":{"name":"s","version":"1"},"capabilities":{}}`),
		"result empty":           init(`{}`),
		"members of wrong types": init(`{"protocolVersion":"2025-11-25","serverInfo":[],"capabilities":"all","instructions":5}`),
		"session of 10 KiB": func(c *scriptCall) bool {
			if c.Method == "initialize" {
				c.W.Header().Set("Mcp-Session-Id", strings.Repeat("s", 10<<10))
				c.Result(`{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{}}}`)
				return true
			}
			return false
		},
		"error": func(c *scriptCall) bool {
			if c.Method == "initialize" {
				c.Error(-32603, "no")
				return true
			}
			return false
		},
		"initialized refused": func(c *scriptCall) bool {
			if c.Method == "notifications/initialized" {
				c.W.WriteHeader(400)
				return true
			}
			return false
		},
		"discover answered by a page": func(c *scriptCall) bool {
			if c.Method == "server/discover" {
				c.W.Header().Set("Content-Type", "text/html")
				_, _ = c.W.Write([]byte("<html>"))
				return true
			}
			return false
		},
		"GET is no stream": func(c *scriptCall) bool {
			if c.R.Method == http.MethodGet {
				_, _ = c.W.Write([]byte("hello"))
				return true
			}
			return false
		},
		"GET hangs": func(c *scriptCall) bool {
			if c.R.Method == http.MethodGet {
				c.Wait()
				return true
			}
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newScripted(t, translate.Legacy, script)
			g := newRig(t, server.URL, bridgeOptions{})
			modern := newCaller(t, g, translate.Modern, "")
			r := modern.tool("ok", "")
			if len(r.Answers) != 1 && r.Status < 500 || r.Broken != nil {
				t.Errorf("modern client: %s", r)
			}
			if code := r.Code(); code != 0 && code != -32603 && len(r.Answers) == 1 {
				t.Errorf("modern client: %s", r)
			}
			legacy := &caller{t: t, g: g, era: translate.Legacy, http: modern.http}
			r = legacy.post(legacy.headers("", ""), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			if len(r.Answers) != 1 || r.Broken != nil {
				t.Fatalf("legacy client: %s", r)
			}
			if legacy.session = r.Header.Get("Mcp-Session-Id"); r.Code() == 0 && legacy.session != "" {
				if r := legacy.tool("ok", ""); r.Text() != "fine" {
					t.Errorf("legacy client after initialize: %s", r)
				}
			}
		})
	}
}

// Tasks whose servers lie about them.
func TestHostileTasks(t *testing.T) {
	big := strings.Repeat("T", 1<<20)
	births := map[string]string{
		"no-id": `"status":"working"`, "number-id": `"taskId":5,"status":"working"`, "empty-id": `"taskId":"","status":"working"`,
		"null-id": `"taskId":null,"status":"working"`, "big-id": `"taskId":"` + big + `","status":"working"`,
		"odd-types":      `"taskId":"t-odd-types","status":5,"createdAt":{},"ttlMs":"x","ttl":"x","pollIntervalMs":[],"pollInterval":[]`,
		"unknown-status": `"taskId":"t-unknown-status","status":"working"`, "huge-numbers": `"taskId":"t-huge-numbers","status":"working","ttlMs":1e400,"ttl":1e400,"pollIntervalMs":1,"pollInterval":1`,
	}
	for _, pair := range pairings {
		if pair.client == pair.server {
			continue
		}
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				for name, members := range births {
					if c.Method == "tools/call" && c.Tool == name {
						if pair.server == translate.Modern {
							c.Result(`{"resultType":"task",` + members + `}`)
						} else {
							c.Result(`{"task":{` + members + `}}`)
						}
						return true
					}
				}
				if c.Method == "tools/list" && pair.server == translate.Legacy {
					var list []string
					for name := range births {
						list = append(list, `{"name":"`+name+`","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`)
					}
					c.Result(`{"tools":[` + strings.Join(list, ",") + `,{"name":"ok","inputSchema":{"type":"object"}}]}`)
					return true
				}
				if c.Method == "tasks/get" {
					status := `"weird"`
					if strings.Contains(string(c.Params), "odd-types") {
						status = `{}`
					}
					c.Result(c.complete(`"taskId":"t-odd","status":` + status))
					return true
				}
				return false
			})
			g := newRig(t, server.URL, bridgeOptions{Policy: session.Policy{PollFloor: 10 * time.Millisecond, PollDefault: 20 * time.Millisecond}})
			evil, good := newCaller(t, g, pair.client, ""), newCaller(t, g, pair.client, "good")
			for name := range births {
				augment := ""
				if pair.client == translate.Legacy {
					augment = `"task":{}`
				}
				r := evil.tool(name, augment)
				if len(r.Answers) != 1 || r.Broken != nil {
					t.Errorf("%s: %s", name, r)
					continue
				}
				handle := taskIDOf(r)
				named := strings.HasPrefix(name, "odd") || strings.HasPrefix(name, "unknown") || strings.HasPrefix(name, "huge")
				switch {
				case !named && pair.client == translate.Modern && (r.Code() != -32603 || r.Status != 200):
					t.Errorf("%s: a task that nobody can ask for: %s", name, r)
				case named && handle == "":
					t.Errorf("%s: no handle: %s", name, r)
				}
				if handle != "" && named {
					for range 2 {
						r := evil.call("tasks/get", `"taskId":`+quote(handle))
						if r.Code() != 0 || r.field("status") != "working" || r.field("taskId") != handle {
							t.Errorf("%s: tasks/get: %s", name, r)
						}
					}
				}
				if r := good.tool("ok", ""); r.Text() != "fine" {
					t.Errorf("%s: beside it: %s", name, r)
				}
			}
		})
	}
}

// taskIDOf reads the handle of a task an answer made, nested or flat.
func taskIDOf(r rawReply) string {
	var p struct {
		TaskID string
		Task   struct{ TaskID string }
	}
	_ = json.Unmarshal(r.answer().Result, &p)
	if p.TaskID == "" {
		return p.Task.TaskID
	}
	return p.TaskID
}

// heap is what is in use after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
