package downstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"taskbridge/session"
	"taskbridge/translate"
)

// wsClient is the other end of a connection.
type wsClient struct {
	*websocket.Conn
	t     testing.TB
	got   chan string // messages
	ended error       // valid once got is closed
}

// upgrade asks the server for WebSocket.
func (r *rig) upgrade(lines ...string) (*websocket.Conn, *http.Response, error) {
	d := websocket.Dialer{
		Subprotocols:    []string{"mcp"},
		NetDialContext:  func(context.Context, string, string) (net.Conn, error) { return r.ln.Dial() },
		WriteBufferSize: 1 << 20,
	}
	h, url := http.Header{}, "ws://localhost:8080/mcp"
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		if name == "path" {
			url = "ws://localhost:8080" + value
			continue
		}
		h.Add(name, value)
	}
	return d.Dial(url, h)
}

func (r *rig) socket(lines ...string) *wsClient {
	r.t.Helper()
	c, _, err := r.upgrade(lines...)
	if err != nil {
		r.t.Fatal(err)
	}
	w := &wsClient{Conn: c, t: r.t, got: make(chan string, 100)}
	go func() {
		defer close(w.got)
		for {
			_, raw, err := c.ReadMessage()
			if err != nil {
				w.ended = err
				return
			}
			w.got <- string(raw)
		}
	}()
	r.t.Cleanup(func() { c.Close() })
	return w
}

func (w *wsClient) say(text string) {
	w.t.Helper()
	if err := w.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		w.t.Fatal(err)
	}
}

// next is the next message, "" after the last.
func (w *wsClient) next() string { return <-w.got }

// code is the close code the connection ends with, -1 for none. What comes
// before is dropped.
func (w *wsClient) code() int {
	for range w.got {
	}
	if ce := (*websocket.CloseError)(nil); errors.As(w.ended, &ce) && ce.Code != websocket.CloseAbnormalClosure {
		return ce.Code
	}
	return -1
}

const (
	legacyInit = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	legacyCall = `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"x"}}`
)

func modernCallAs(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"x",` + modernMeta + `}}`
}

// legacyHub answers initialize with a session; other requests as on says.
func legacyHub(on func(in session.Inbound, s *session.ClientStream)) *fakeHub {
	n := 0
	h := &fakeHub{}
	h.on = func(in session.Inbound, s *session.ClientStream) {
		switch m := in.Frame.Msg; {
		case m == nil && in.Frame.HTTP.Verb == http.MethodGet: // its own stream
		case m != nil && m.Method == "initialize":
			h.mu.Lock()
			n++
			id := fmt.Sprint("sess-", n)
			h.mu.Unlock()
			s.Send(session.Out{
				Raw:   []byte(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`),
				Final: true, Header: http.Header{translate.HeaderSession: {id}},
			})
		case on != nil:
			on(in, s)
		default:
			echo(in, s)
		}
	}
	return h
}

// TestWebSocket_BothEras: each message has its own; who it is counts from the
// upgrade.
func TestWebSocket_BothEras(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, legacyHub(nil), nil)
		w := r.socket("Authorization: Bearer t", "Mcp-Session-Id: forged", "Mcp-Protocol-Version: 2024-11-05")
		if w.Subprotocol() != "mcp" {
			t.Errorf("subprotocol %q", w.Subprotocol())
		}
		w.say(fmt.Sprintf(legacyCall, "0"))
		if got := w.next(); !strings.Contains(got, "send initialize first") {
			t.Errorf("before initialize: %s", got)
		}
		w.say(legacyInit)
		w.next()
		w.say(notify)
		w.say(fmt.Sprintf(legacyCall, "1"))
		if got := w.next(); got != string(result("1")) {
			t.Errorf("got %s", got)
		}
		w.say(modernCallAs("2"))
		if got := w.next(); got != string(result("2")) {
			t.Errorf("got %s", got)
		}
		w.say("nonsense")
		if got := w.next(); !strings.Contains(got, "-32700") {
			t.Errorf("got %s", got)
		}
		synctest.Wait()
		for _, in := range r.hub.calls() {
			c := in.Caller
			if c.Principal == session.LocalPrincipal || c.Principal == "" || c.Credential.Get("Authorization") != "Bearer t" {
				t.Errorf("caller %+v", c)
			}
			if m := in.Frame.Msg; m != nil && m.Method == "tools/call" {
				want := map[translate.Era]string{translate.Legacy: "sess-1"}[c.Era]
				if c.Session != want {
					t.Errorf("%s in session %q", m.Raw, c.Session)
				}
			}
		}
		// The end of the connection is the end of its session, and a new one's a new one.
		w.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""), time.Now().Add(time.Second))
		if code := w.code(); code != 1000 {
			t.Errorf("close answered with %d", code)
		}
		synctest.Wait()
		all := r.hub.calls()
		if last := all[len(all)-1]; last.Frame.HTTP.Verb != http.MethodDelete || last.Caller.Session != "sess-1" {
			t.Errorf("last %+v", last)
		}
		w = r.socket()
		w.say(fmt.Sprintf(legacyCall, "1"))
		if got := w.next(); !strings.Contains(got, "send initialize first") {
			t.Errorf("a new connection: %s", got)
		}
	})
}

// TestSafety_WebSocketGuard: a page or a rebound name gets no connection, nor
// does what is no upgrade.
func TestSafety_WebSocketGuard(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  int
	}{
		{"foreign origin", []string{"Origin: https://evil.example"}, statusOf(translate.CondBadOrigin, 0)},
		{"null origin", []string{"Origin: null"}, statusOf(translate.CondBadOrigin, 0)},
		{"another port", []string{"Origin: http://localhost:9999"}, statusOf(translate.CondBadOrigin, 0)},
		{"own origin", []string{"Origin: http://localhost:8080"}, 101},
		{"foreign host", []string{"Host: evil.example"}, statusOf(translate.CondBadHost, 0)},
		{"other path", []string{"path: /other"}, 404},
		{"two credentials", []string{"Authorization: a", "Authorization: b"}, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, nil, nil)
				conn, resp, err := r.upgrade(c.lines...)
				if err == nil {
					conn.Close()
				}
				if resp == nil || resp.StatusCode != c.want {
					t.Errorf("got %v %v", resp, err)
				}
			})
		})
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		for _, q := range []*http.Request{
			req("GET", "", "Connection: Upgrade", "Upgrade: websocket"),
			req("GET", "", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: short"),
			req("GET", "{}", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
		} {
			if got := r.do(q); got.status != 400 {
				t.Errorf("got %+v", got)
			}
		}
	})
}

// TestSafetyS38_WebSocket: no compression, asked for or not.
func TestSafetyS38_WebSocket(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		d := websocket.Dialer{
			EnableCompression: true,
			NetDialContext:    func(context.Context, string, string) (net.Conn, error) { return r.ln.Dial() },
		}
		c, resp, err := d.Dial("ws://localhost:8080/mcp", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := resp.Header["Sec-Websocket-Extensions"]; len(got) > 0 {
			t.Errorf("extensions %q", got)
		}
	})
}

// TestCaseB40_WebSocket: size, fragments, ping, close.
func TestCaseB40_WebSocket(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		w := r.socket()
		pong := make(chan string, 1)
		w.SetPongHandler(func(data string) error { pong <- data; return nil })
		msg := strings.Replace(modernCallAs("1"), `"x"`, `"`+strings.Repeat("f", 2<<20)+`"`, 1)
		m, _ := w.NextWriter(websocket.TextMessage)
		m.Write([]byte(msg[:1<<20+10])) // leaves as a fragment
		w.WriteControl(websocket.PingMessage, []byte("between"), time.Now().Add(time.Second))
		if got := <-pong; got != "between" {
			t.Errorf("pong %q", got)
		}
		if len(r.hub.calls()) > 0 {
			t.Error("a fragment was taken for a message")
		}
		m.Write([]byte(msg[1<<20+10:]))
		m.Close()
		if got := w.next(); got != string(result("1")) {
			t.Errorf("got %s", got)
		}
		if n := len(r.hub.calls()[0].Frame.Msg.Raw); n != len(msg) {
			t.Errorf("%d of %d bytes", n, len(msg))
		}
		w.WriteMessage(websocket.BinaryMessage, []byte(ping))
		if code := w.code(); code != 1003 {
			t.Errorf("binary: closed with %d", code)
		}
		w = r.socket()
		w.WriteMessage(websocket.TextMessage, []byte("{\"a\":\"\xff\"}"))
		if code := w.code(); code != 1007 {
			t.Errorf("not UTF-8: closed with %d", code)
		}
	})
}

// TestWebSocket_Cut: without a close, too, everything of the client ends, as its
// era wants it.
func TestWebSocket_Cut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, legacyHub(silent), nil)
		w := r.socket()
		w.say(legacyInit)
		w.next()
		w.say(notify)
		w.say(fmt.Sprintf(legacyCall, "1"))
		w.say(modernCallAs("2"))
		synctest.Wait()
		before := r.hub.left()
		w.NetConn().Close()
		time.Sleep(2 * time.Second)
		if n := r.hub.left() - before; n < 3 { // two calls and the session's own stream
			t.Errorf("%d streams were given up", n)
		}
		var deleted bool
		for _, in := range r.hub.calls() {
			deleted = deleted || in.Frame.HTTP.Verb == http.MethodDelete
		}
		if !deleted {
			t.Error("the session lives on")
		}
	})
}

// TestCaseB59_WebSocket: a message over the limit ends its connection with 1009;
// before that each pending call, and the one that was too large, gets one error.
// Others live on.
func TestCaseB59_WebSocket(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
			if in.Frame.Msg.ID.String() != "9" {
				return
			}
			echo(in, s)
		}}, func(o *Options) { o.Limits.Body = 1 << 20 })
		other := r.socket()
		w := r.socket()
		w.say(modernCallAs("1"))
		w.say(modernCallAs("2"))
		synctest.Wait()
		go w.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","id":3,"method":"tools/call","x":"`+strings.Repeat("x", 1<<20)+`"}`))
		seen := map[string]int{}
		for m := range w.got {
			var e struct {
				ID    json.RawMessage
				Error *struct{ Code int }
			}
			if json.Unmarshal([]byte(m), &e) != nil || e.Error == nil {
				t.Errorf("got %s", m)
			}
			seen[string(e.ID)]++
		}
		if seen["1"] != 1 || seen["2"] != 1 || seen["3"] != 1 || len(seen) != 3 {
			t.Errorf("errors %v", seen)
		}
		if code := w.code(); code != 1009 {
			t.Errorf("closed with %d", code)
		}
		other.say(modernCallAs("9"))
		if got := other.next(); got != string(result("9")) {
			t.Errorf("the other got %s", got)
		}
	})
}

// TestWebSocket_Cancel: a modern request ends at once and without an answer; of
// a legacy one the hub hears.
func TestWebSocket_Cancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, legacyHub(silent), nil)
		w := r.socket()
		w.say(legacyInit)
		w.next()
		w.say(modernCallAs("1"))
		w.say(fmt.Sprintf(legacyCall, "2"))
		w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		synctest.Wait()
		if n := r.hub.left(); n < 1 {
			t.Error("the modern call runs on")
		}
		all := r.hub.calls()
		if m := all[len(all)-1].Frame.Msg; m == nil || m.Method != "notifications/cancelled" || m.At("params", "requestId").Raw()[0] != '2' {
			t.Errorf("last %+v", all[len(all)-1])
		}
		select {
		case m := <-w.got:
			t.Errorf("got %s", m)
		default:
		}
	})
}

// TestWebSocket_Shutdown: calls have until they end, new ones are refused, then
// the connection ends with 1001.
func TestWebSocket_Shutdown(t *testing.T) {
	for _, patient := range []bool{true, false} {
		t.Run(fmt.Sprint("patient ", patient), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
					go func() {
						time.Sleep(10 * time.Second)
						echo(in, s)
					}()
				}}, nil)
				w, idle := r.socket(), r.socket()
				w.say(modernCallAs("1"))
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if !patient {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				}
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- r.server.Shutdown(ctx) }()
				if code := idle.code(); code != 1001 {
					t.Errorf("an idle connection ended with %d", code)
				}
				w.say(modernCallAs("2"))
				if got := w.next(); !strings.Contains(got, "shutting down") {
					t.Errorf("new work: %s", got)
				}
				if patient {
					if got := w.next(); got != string(result("1")) {
						t.Errorf("the call in flight: %s", got)
					}
				}
				if code := w.code(); code != 1001 {
					t.Errorf("ended with %d", code)
				}
				if err := <-done; (err == nil) != patient {
					t.Errorf("Shutdown: %v", err)
				}
				if _, resp, err := r.upgrade(); err == nil || resp != nil && resp.StatusCode == 101 {
					t.Error("a new connection was taken")
				}
				time.Sleep(20 * time.Second)
			})
		})
	}
}

func TestWebSocket_TooMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil, func(o *Options) { o.Limits.WebSockets = 1 })
		w := r.socket()
		if _, resp, err := r.upgrade(); err == nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("got %v %v", resp, err)
		}
		w.Close()
		time.Sleep(3 * time.Second)
		r.socket()
	})
}

// TestWebSocket_ManyRequests: past the bound they are refused, and an answer the
// others wait for still gets through.
func TestWebSocket_ManyRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, &fakeHub{on: silent}, nil)
		w := r.socket()
		for i := range maxFlying + 1 {
			w.say(modernCallAs(fmt.Sprint(i)))
		}
		if got := w.next(); !strings.Contains(got, fmt.Sprint(`"id":`, maxFlying)) || !strings.Contains(got, "-32603") {
			t.Errorf("got %s", got)
		}
		n := len(r.hub.calls())
		w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		synctest.Wait()
		if n != maxFlying {
			t.Errorf("the hub has %d", n)
		}
	})
}

// TestWebSocket_NoServer: there is no HTTP status to say it with.
func TestWebSocket_NoServer(t *testing.T) {
	for status, want := range map[int]int{401: 1008, 502: 1013, 503: 1013} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
				s.Send(session.Out{Status: status, Final: true})
			}}, nil)
			w := r.socket()
			w.say(modernCallAs("1"))
			if code := w.code(); code != want {
				t.Errorf("%d: closed with %d", status, code)
			}
		})
	}
}

// FuzzWebSocket: whatever messages come, each request has at most one answer and
// the connection serves on.
func FuzzWebSocket(f *testing.F) {
	f.Add(legacyInit, modernCallAs("1"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	f.Add("[]", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, "\"")
	f.Add(notify, listen, ping)
	f.Fuzz(func(t *testing.T, a, b, c string) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, legacyHub(nil), nil)
			w := r.socket()
			for _, m := range []string{a, b, c} {
				w.say(strings.ToValidUTF8(m, "?"))
			}
			const last = "918273645"
			w.say(modernCallAs(last))
			for {
				m, ok := <-w.got
				if !ok {
					t.Fatalf("it ended: %v", w.ended)
				}
				if m == string(result(last)) {
					break
				}
			}
			w.Close()
			time.Sleep(5 * time.Second)
		})
	})
}
