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
			c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), pair.client, "")
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
			c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), pair.client, "")
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
			g := newRig(t, server.URL, bridgeOptions{})
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
			c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), pair.client, "")
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
			g := newRig(t, server.URL, bridgeOptions{})
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
				c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), pair.client, "")
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
			g := newRig(t, server.URL, bridgeOptions{})
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
			c := newCaller(t, newRig(t, server.URL, bridgeOptions{Policy: session.Policy{RetryAfter: 10 * time.Millisecond}}), pair.client, "")
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
			g := newRig(t, server.URL, bridgeOptions{})
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
	c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), translate.Modern, "")
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
