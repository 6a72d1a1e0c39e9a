package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// A client of each legacy revision gets its own where it is served, else the
// newest legacy one (2025-11-25 basic/lifecycle, Version Negotiation), and
// works then without and with the version header.
func TestLifecycle_RevisionsOfClients(t *testing.T) {
	for _, pair := range legacyPairs {
		server := newScripted(t, pair.server, nil)
		g := newRig(t, server.URL, bridgeOptions{})
		for asked, want := range map[string]string{
			"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
			"2023-01-01": "2025-11-25", "2026-07-28": "2025-11-25", "2999-01-01": "2025-11-25", "x": "2025-11-25",
		} {
			t.Run(pair.name+" "+asked, func(t *testing.T) {
				c := &caller{t: t, g: g, era: translate.Legacy, http: http.DefaultClient}
				c.initializeAs(asked)
				if c.version != want {
					t.Fatalf("%s is answered with %s, want %s", asked, c.version, want)
				}
				for _, header := range []string{"", want} {
					h := c.headers("", "")
					h.Del("Mcp-Protocol-Version")
					if header != "" {
						h.Set("Mcp-Protocol-Version", header)
					}
					if r := c.post(h, request("5", "tools/list", "{}")); r.Status != 200 || r.Code() != 0 || len(r.Answers) != 1 {
						t.Errorf("header %q: %s", header, r)
					}
				}
			})
		}
	}
}

// A legacy server of any revision serves modern clients; one that answers with
// a revision nobody here speaks is left at once, and its session ended.
func TestLifecycle_RevisionsOfServers(t *testing.T) {
	for version, ok := range map[string]bool{"2024-11-05": true, "2025-03-26": true, "2025-06-18": true, "2025-11-25": true, "1999-01-01": false, "2026-07-28": false, "latest": false} {
		t.Run(version, func(t *testing.T) {
			server := newScripted(t, translate.Legacy, func(c *scriptCall) bool {
				if c.Method != "initialize" {
					return false
				}
				c.W.Header().Set("Mcp-Session-Id", "up-1")
				c.Result(`{"protocolVersion":` + quote(version) + `,"serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{}}}`)
				return true
			})
			c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), translate.Modern, "")
			r := c.tool("ok", "")
			deletes := func() (n int) {
				for _, up := range server.Requests("") {
					if up.Verb == http.MethodDelete {
						n++
					}
				}
				return n
			}
			if !ok {
				if len(r.Answers) != 1 || r.Code() != -32603 || server.Ran("ok") != 0 {
					t.Errorf("got %s", r)
				}
				eventually(t, "the session is ended", func() bool { return deletes() == 1 })
				return
			}
			if r.Text() != "fine" {
				t.Fatalf("got %s", r)
			}
			for _, up := range server.Requests("tools/call") {
				want := ""
				if version >= "2025-06-18" { // older revisions do not know the header
					want = version
				}
				if got := up.Header.Get("Mcp-Protocol-Version"); got != want {
					t.Errorf("version header %q, want %q", got, want)
				}
			}
		})
	}
}

// What a legacy client is refused, and how.
func TestLifecycle_LegacyRefusals(t *testing.T) {
	for _, pair := range legacyPairs {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, nil)
			g := newRig(t, server.URL, bridgeOptions{})
			c := newCaller(t, g, translate.Legacy, "")
			list, ping := request("1", "tools/list", "{}"), request("2", "ping", "{}")
			for _, row := range []struct {
				name, verb, body, session, version string
				status, code                       int
			}{
				{"unknown revision", "POST", list, c.session, "1999-01-01", 400, -32600},
				{"no revision", "POST", list, c.session, "latest", 400, -32600},
				{"unknown revision, GET", "GET", "", c.session, "1999-01-01", 400, -32600},
				{"unknown revision, DELETE", "DELETE", "", c.session, "1999-01-01", 400, -32600},
				{"another served revision", "POST", list, c.session, "2025-03-26", 200, 0},
				{"unknown session", "POST", list, "AAAAAAAAAAAAAAAAAAAAAAAA", "2025-11-25", 404, -32600},
				{"unknown session, GET", "GET", "", "AAAAAAAAAAAAAAAAAAAAAAAA", "2025-11-25", 404, -32600},
				{"unknown session, DELETE", "DELETE", "", "AAAAAAAAAAAAAAAAAAAAAAAA", "2025-11-25", 404, -32600},
				{"unknown session, notification", "POST", `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, "AAAA", "2025-11-25", 404, -32600},
				{"no session", "POST", list, "", "2025-11-25", 400, -32600},
				{"no session, GET", "GET", "", "", "2025-11-25", 400, -32600},
				{"no session, DELETE", "DELETE", "", "", "2025-11-25", 400, -32600},
				{"ping without a session", "POST", ping, "", "", 200, 0},
				{"ping", "POST", ping, c.session, "2025-11-25", 200, 0},
			} {
				h := c.headers("", "")
				h.Del("Mcp-Session-Id")
				h.Del("Mcp-Protocol-Version")
				if row.session != "" {
					h.Set("Mcp-Session-Id", row.session)
				}
				if row.version != "" {
					h.Set("Mcp-Protocol-Version", row.version)
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				r := c.do(ctx, row.verb, h, row.body)
				cancel()
				if r.Status != row.status || r.Code() != row.code {
					t.Errorf("%s: %s, want %d %d", row.name, r, row.status, row.code)
				}
			}
			// The session is none the worse for it.
			if r := c.tool("ok", ""); r.Text() != "fine" {
				t.Error(r)
			}
		})
	}
}

// What a modern client is refused, and how; no server hears of it.
func TestLifecycle_ModernRefusals(t *testing.T) {
	for _, pair := range []pairing{pairings[1], pairings[3]} {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, nil)
			g := newRig(t, server.URL, bridgeOptions{})
			c := newCaller(t, g, translate.Modern, "")
			if r := c.call("server/discover", ""); r.Status != 200 || r.Code() != 0 || !strings.Contains(string(r.answer().Result), `"2026-07-28"`) {
				t.Errorf("server/discover: %s", r)
			}
			server.Forget()
			meta := func(drop, version string) string {
				var m map[string]json.RawMessage
				_ = json.Unmarshal([]byte(c.meta("")), &m)
				delete(m, drop)
				if version != "" {
					m[translate.MetaVersion] = json.RawMessage(quote(version))
				}
				raw, _ := json.Marshal(m)
				return `{"_meta":` + string(raw) + `}`
			}
			for _, row := range []struct {
				name, verb, params, version, method string
				status, code                        int
			}{
				{"no _meta", "POST", `{}`, "2026-07-28", "tools/list", 400, -32602},
				{"no version", "POST", meta(translate.MetaVersion, ""), "2026-07-28", "tools/list", 400, -32602},
				{"no capabilities", "POST", meta(translate.MetaClientCaps, ""), "2026-07-28", "tools/list", 400, -32602},
				{"no header", "POST", meta("", ""), "", "tools/list", 400, -32020},
				{"two versions", "POST", meta("", "2026-06-30"), "2026-07-28", "tools/list", 400, -32020},
				{"unknown version", "POST", meta("", "2027-01-01"), "2027-01-01", "tools/list", 400, -32022},
				{"legacy version in _meta", "POST", meta("", "2025-11-25"), "2025-11-25", "tools/list", 400, -32022},
				{"legacy method", "POST", meta("", ""), "2026-07-28", "initialize", 404, -32601},
				{"GET", "GET", "", "2026-07-28", "", 405, -32600},
				{"DELETE", "DELETE", "", "2026-07-28", "", 405, -32600},
			} {
				h := c.headers(row.method, "")
				h.Set("Mcp-Protocol-Version", row.version)
				if row.version == "" {
					h.Del("Mcp-Protocol-Version")
				}
				body := ""
				if row.verb == "POST" {
					body = request("1", row.method, row.params)
				}
				r := c.do(t.Context(), row.verb, h, body)
				if r.Status != row.status || r.Code() != row.code {
					t.Errorf("%s: %s, want %d %d", row.name, r, row.status, row.code)
				}
				if row.code == -32022 && !strings.Contains(string(r.Body), `"supported":["2026-07-28"`) {
					t.Errorf("%s: no list of what is supported: %s", row.name, r)
				}
				if row.status == 405 && r.Header.Get("Allow") != "POST" {
					t.Errorf("%s: Allow is %q", row.name, r.Header.Get("Allow"))
				}
			}
			if n := len(server.Requests("")); n != 0 {
				t.Errorf("%d requests reached the server", n)
			}
		})
	}
}

// Arrays are legal in sessions of 2025-03-26, whatever the header says or
// leaves out; elsewhere nothing of them is forwarded.
func TestLifecycle_BatchesByTheSessionsRevision(t *testing.T) {
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`
	for _, pair := range legacyPairs {
		server := newScripted(t, pair.server, nil)
		g := newRig(t, server.URL, bridgeOptions{})
		for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
			for _, header := range []string{"", "2025-03-26", "2025-11-25"} {
				t.Run(pair.name+" "+version+" header "+header, func(t *testing.T) {
					c := &caller{t: t, g: g, era: translate.Legacy, http: http.DefaultClient}
					c.initializeAs(version)
					h := c.headers("", "")
					h.Del("Mcp-Protocol-Version")
					if header != "" {
						h.Set("Mcp-Protocol-Version", header)
					}
					server.Forget()
					r := c.post(h, batch)
					if version == "2025-03-26" && header != "2025-11-25" {
						var all []json.RawMessage
						if _ = json.Unmarshal(r.Body, &all); r.Status != 200 || len(all)+len(r.Answers) < 2 {
							t.Errorf("got %s", r)
						}
						return
					}
					if r.Status != 400 || r.Code() != -32600 || len(server.Requests("")) != 0 {
						t.Errorf("got %s, %d requests went up", r, len(server.Requests("")))
					}
				})
			}
		}
	}
}

// ping is answered at once in both directions, whatever else is under way, and
// never reaches a modern peer.
func TestLifecycle_Ping(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			answers := new(answerBox)
			release := make(chan bool)
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				if answers.take(c) {
					return true
				}
				if c.Tool != "pings" {
					return false
				}
				c.Begin()
				if pair.server == translate.Legacy {
					c.Events(`{"jsonrpc":"2.0","id":"up","method":"ping"}`)
				}
				select {
				case <-release:
				case <-c.R.Context().Done():
				}
				c.Events(c.Reply(c.text("pinged")))
				return true
			})
			g := newRig(t, server.URL, bridgeOptions{})
			c := newCaller(t, g, pair.client, "")
			call := c.openTool("pings")
			if pair.server == translate.Legacy {
				if pair.client == translate.Legacy { // the client itself is asked
					call.want(`"method":"ping"`)
					if r := c.post(c.headers("", ""), `{"jsonrpc":"2.0","id":"up","result":{}}`); r.Status != 202 {
						t.Error(r)
					}
				}
				eventually(t, "the server's ping is answered", func() bool { return strings.Contains(answers.of(`"up"`), `"result":{}`) })
			}
			r := c.send("77", "ping", c.params(""))
			switch {
			case pair.client == translate.Modern && (r.Status != 404 || r.Code() != -32601):
				t.Errorf("ping of a modern client: %s", r)
			case pair.client == translate.Legacy && (r.Status != 200 || string(r.answer().Result) != "{}"):
				t.Errorf("ping: %s", r)
			}
			if n := len(server.Requests("ping")); pair.server == translate.Modern && n != 0 {
				t.Errorf("%d pings reached a modern server", n)
			}
			close(release)
			call.want("pinged")
		})
	}
}

// A session ends by the client's DELETE or when nobody uses it; the server's
// own session ends with it, and what names it is 404 from then on.
func TestLifecycle_SessionEnds(t *testing.T) {
	for _, pair := range legacyPairs {
		for _, how := range []string{"DELETE", "expiry"} {
			t.Run(pair.name+" "+how, func(t *testing.T) {
				server := newScripted(t, pair.server, nil)
				clock := newJumpClock()
				c := newCaller(t, newRig(t, server.URL, bridgeOptions{Clock: clock}), translate.Legacy, "")
				if how == "expiry" {
					clock.jump(time.Hour)
				} else {
					if r := c.do(t.Context(), "DELETE", c.headers("", ""), ""); r.Status != 200 || len(r.Body) != 0 {
						t.Errorf("DELETE: %s", r)
					}
				}
				if pair.server == translate.Legacy {
					eventually(t, "the server's session is ended", func() bool {
						return slices.ContainsFunc(server.Requests(""), func(up seenRequest) bool {
							return up.Verb == "DELETE" && up.Header.Get("Mcp-Session-Id") == "up-session-1"
						})
					})
				}
				eventually(t, "the session is unknown", func() bool {
					list, _ := c.g.Store.List(t.Context(), "op/session:", "", 10)
					return len(list) == 0
				})
				for _, verb := range []string{"POST", "GET", "DELETE"} {
					body := ""
					if verb == "POST" {
						body = request("3", "tools/list", "{}")
					}
					if r := c.do(t.Context(), verb, c.headers("", ""), body); r.Status != 404 {
						t.Errorf("%s afterwards: %s", verb, r)
					}
				}
				if c.initialize(); c.tool("ok", "").Text() != "fine" {
					t.Error("a new session does not work")
				}
			})
		}
	}
}

// A legacy server that forgot the session: a modern client's call is asked
// again in a new one, for it cannot have run; a legacy client is told, as by
// the server itself. A call that broke off is never sent again.
func TestLifecycle_ServerForgotTheSession(t *testing.T) {
	for _, pair := range beforeLegacy {
		t.Run(pair.name, func(t *testing.T) {
			var forgot atomic.Pointer[string]
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				switch s := forgot.Load(); {
				case s != nil && c.R.Header.Get("Mcp-Session-Id") == *s && c.Method != "initialize":
					c.W.WriteHeader(404)
				case c.Tool == "breaks":
					c.Cut("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
				default:
					return false
				}
				return true
			})
			c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), pair.client, "")
			if r := c.tool("ok", ""); r.Text() != "fine" {
				t.Fatal(r)
			}
			first := server.Requests("tools/call")[0].Header.Get("Mcp-Session-Id")
			server.Forget()
			forgot.Store(&first)
			r := c.tool("ok", "")
			if pair.client == translate.Legacy {
				if r.Status != 404 {
					t.Fatalf("got %s", r)
				}
				c.initialize()
				r = c.tool("ok", "")
			}
			if r.Text() != "fine" || len(server.Requests("initialize")) != 1 {
				t.Errorf("got %s after %d handshakes", r, len(server.Requests("initialize")))
			}
			if r := c.tool("breaks", ""); r.Code() != -32603 || server.Ran("breaks") != 1 {
				t.Errorf("ran %d times: %s", server.Ran("breaks"), r)
			}
		})
	}
}

// A server that offers no GET stream or no DELETE: the client hears it where
// both are legacy, else nothing depends on it.
func TestLifecycle_NotAllowed(t *testing.T) {
	server := newScripted(t, translate.Legacy, func(c *scriptCall) bool {
		if c.R.Method == http.MethodPost {
			return false
		}
		c.W.Header().Set("Allow", "POST")
		c.W.WriteHeader(405)
		return true
	})
	g := newRig(t, server.URL, bridgeOptions{})
	c := newCaller(t, g, translate.Legacy, "")
	if get := c.get(""); get.Status != 405 {
		t.Errorf("GET: %d", get.Status)
	}
	if r := c.do(t.Context(), "DELETE", c.headers("", ""), ""); r.Status != 200 {
		t.Errorf("DELETE: %s", r) // ours ends all the same
	}
	if m := newCaller(t, g, translate.Modern, ""); m.tool("ok", "").Text() != "fine" {
		t.Error("a modern client is not served")
	}
}

// Of many clients that open sessions at once no more than the limit get one;
// attempts that failed are not counted.
func TestLifecycle_SessionLimitAtOnce(t *testing.T) {
	for _, pair := range legacyPairs {
		t.Run(pair.name, func(t *testing.T) {
			var fail atomic.Bool
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				if fail.Load() && (c.Method == "initialize" || c.Method == "server/discover") {
					c.W.WriteHeader(500)
					return true
				}
				return false
			})
			const limit = 5
			g := newRig(t, server.URL, bridgeOptions{Policy: session.Policy{Sessions: session.Limit{Each: limit}}})
			c := &caller{t: t, g: g, era: translate.Legacy, http: http.DefaultClient}
			open := func() rawReply {
				return c.post(c.headers("initialize", ""), `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			}
			if r := open(); r.Status != 200 {
				t.Fatal(r)
			}
			fail.Store(true)
			for range 3 * limit {
				if r := open(); r.Status < 500 {
					t.Fatalf("a server that is down: %s", r)
				}
			}
			fail.Store(false)
			var got [600]atomic.Int32
			var wg sync.WaitGroup
			for range 8 * limit {
				wg.Go(func() { got[open().Status].Add(1) })
			}
			wg.Wait()
			if got[200].Load() != limit-1 || got[429].Load() != 8*limit-(limit-1) {
				t.Errorf("%d opened, %d refused", got[200].Load(), got[429].Load())
			}
		})
	}
}

// A legacy server's request that cannot be read is answered with an error,
// where its id can; what it says in reply to a notification reaches the client.
func TestLifecycle_WhatAServerSaysAmiss(t *testing.T) {
	for _, pair := range beforeLegacy {
		t.Run(pair.name, func(t *testing.T) {
			answers := new(answerBox)
			notified := make(chan bool, 1)
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				switch {
				case answers.take(c):
				case c.Tool == "mumbles":
					c.Begin()
					c.Events(`{"jsonrpc":"2.0","id":"twice","method":"elicitation/create","params":{"message":"a","message":"b"}}`,
						`{"jsonrpc":"2.0","id":"list","method":"roots/list","params":[]}`, `{"jsonrpc":"2.0","id":"old","result":[]}`, `{"id":5}`)
					answers.wait(c, 2)
					c.Events(c.Reply(c.text("mumbled")))
				case c.Method == "notifications/roots/list_changed":
					c.SSE(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"heard"}}`, `{"jsonrpc":"2.0","id":"r","method":"roots/list"}`)
					notified <- true
				case c.R.Method == http.MethodGet:
					c.Begin()
					c.Wait()
				default:
					return false
				}
				return true
			})
			c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), pair.client, "")
			if r := c.tool("mumbles", ""); r.Text() != "mumbled" || len(r.Answers) != 1 {
				t.Errorf("got %s", r)
			}
			for id, code := range map[string]int{"twice": -32600, "list": -32600} {
				if a := answers.of(quote(id)); !strings.Contains(a, fmt.Sprintf(`"code":%d`, code)) {
					t.Errorf("%s is answered with %q", id, a)
				}
			}
			if a := answers.of(`"old"`) + answers.of("5"); a != "" {
				t.Errorf("what is no request is answered with %s", a)
			}
			if pair.client != translate.Legacy {
				return
			}
			notify := func() {
				t.Helper()
				if r := c.post(c.headers("", ""), `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`); r.Status != 202 || len(r.Body) != 0 {
					t.Errorf("notification: %s", r)
				}
				<-notified
			}
			notify() // nobody can be asked, and the server is told
			eventually(t, "the server's request is answered", func() bool { return strings.Contains(answers.of(`"r"`), "-32603") })
			get := c.get("")
			<-get.events // it is open
			notify()
			get.want(`"data":"heard"`)
			get.want(`"roots/list"`)
		})
	}
}
