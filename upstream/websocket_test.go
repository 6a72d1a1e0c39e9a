package upstream

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"taskbridge/session"
	"taskbridge/translate"
)

// TestWebSocket_OneConnectionAPrincipal: modern callers of one principal share a
// connection, with the ids and tokens of each kept apart.
func TestWebSocket_OneConnectionAPrincipal(t *testing.T) {
	srv := newWSServer(t, "modern")
	w, _ := newWS(t, srv.url())
	var all sync.WaitGroup
	conns := make([]string, 8)
	for i := range conns {
		all.Go(func() {
			c := dialWS(t, w, session.Principal(fmt.Sprint("p", i%2)), fmt.Sprint("Bearer t", i%2))
			st := do(t, c, modernCallOf("7", "pid", ""))
			m := next(t, st)
			if m.ID.String() != "7" {
				t.Errorf("id %s", m.ID)
			}
			conns[i] = resultText(m)
			if _, err := st.Next(); err != io.EOF {
				t.Errorf("after the answer: %v", err)
			}
		})
	}
	all.Wait()
	for i, c := range conns {
		if c != conns[i%2] || c == "" {
			t.Errorf("connections %q", conns)
		}
	}
	if conns[0] == conns[1] {
		t.Errorf("two principals share %s", conns[0])
	}
	for _, h := range srv.upgrades() {
		if h.Get("Sec-Websocket-Protocol") != "mcp" || h.Get("Sec-Websocket-Extensions") != "" {
			t.Errorf("upgrade %v", h)
		}
	}
}

// TestWebSocket_Credential: it is fixed at the upgrade, so another one is
// another connection, and another session.
func TestWebSocket_Credential(t *testing.T) {
	srv := newWSServer(t, "modern")
	w, _ := newWS(t, srv.url(), func(o *WebSocketOptions) { o.Server.Header = http.Header{"X-Key": {"k"}} })
	one := resultText(next(t, do(t, dialWS(t, w, me, "Bearer 1"), modernCallOf("1", "pid", ""))))
	two := resultText(next(t, do(t, dialWS(t, w, me, "Bearer 2"), modernCallOf("1", "pid", ""))))
	again := resultText(next(t, do(t, dialWS(t, w, me, "Bearer 1"), modernCallOf("1", "pid", ""))))
	if one == two || one != again {
		t.Errorf("connections %s %s %s", one, two, again)
	}
	sent := srv.upgrades()
	if len(sent) != 2 || sent[0].Get("Authorization") != "Bearer 1" || sent[1].Get("Authorization") != "Bearer 2" || sent[0].Get("X-Key") != "k" {
		t.Errorf("upgrades %v", sent)
	}

	legacy := newWSServer(t, "legacy")
	w, _ = newWS(t, legacy.url())
	id, _ := openSession(t, dialWS(t, w, me, "Bearer 1"))
	if st := do(t, dialWS(t, w, me, "Bearer 2"), legacyCallOf(id, "1", "pid", "")); st.Envelope().Status != 404 {
		t.Errorf("with another credential: %+v", st.Envelope())
	}
	if st := do(t, dialWS(t, w, "other", "Bearer 1"), legacyCallOf(id, "1", "pid", "")); st.Envelope().Status != 404 {
		t.Errorf("with another principal: %+v", st.Envelope())
	}
	if st := do(t, dialWS(t, w, me, "Bearer 2"), session.Outgoing{Verb: "DELETE", Session: id}); st.Envelope().Status != 200 {
		t.Errorf("DELETE: %+v", st.Envelope())
	}
	eventually(t, "close", func() bool { return slices.Equal(legacy.closed(), []int{websocket.CloseNormalClosure}) })
}

// TestWebSocket_OwnAuthorization: ours is the only one that is sent.
func TestWebSocket_OwnAuthorization(t *testing.T) {
	srv := newWSServer(t, "modern")
	url := strings.Replace(srv.url(), "://", "://user:secret@", 1)
	w, _ := newWS(t, url, func(o *WebSocketOptions) { o.Server.Header = http.Header{"Host": {"other.example"}} })
	do(t, dialWS(t, w, me, "Bearer theirs"), modernCallOf("1", "pid", ""))
	h := srv.upgrades()[0]
	if got := h["Authorization"]; len(got) != 1 || got[0] != basicAuth("user", "secret") {
		t.Errorf("Authorization %q", got)
	}
	for _, bad := range []string{"Sec-WebSocket-Protocol", "Upgrade", "Mcp-Session-Id"} {
		_, err := NewWebSocket(WebSocketOptions{Name: "up", Server: HTTPUpstream{URL: srv.url(), Header: http.Header{bad: {"x"}}}})
		if err == nil {
			t.Errorf("header %s was taken", bad)
		}
	}
}

func TestWebSocket_BytesPassButForIDs(t *testing.T) {
	srv := newWSServer(t, "modern")
	w, _ := newWS(t, srv.url())
	const head, tail = "{\"jsonrpc\":\"2.0\",\n\"id\":", `,"method":"tools/call","params":{"name":"raw","arguments":{"text":"<&> \u2028 \ud83d é"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	m := next(t, do(t, dialWS(t, w, me, ""), session.Outgoing{Msg: []byte(head + `"a"` + tail), Version: "2026-07-28"}))
	if sent, err := hex.DecodeString(resultText(m)); err != nil || string(sent) != head+"1"+tail {
		t.Errorf("the server got %s", sent)
	}
}

func TestWebSocket_ModernCancelAndListen(t *testing.T) {
	srv := newWSServer(t, "modern")
	w, _ := newWS(t, srv.url())
	c := dialWS(t, w, me, "")
	st := do(t, c, modernCallOf("7", "hang", ""))
	if token, _ := next(t, st).At("params", "progressToken").Str(); token != "tok" {
		t.Errorf("progress under %s", token)
	}
	st.Close()
	eventually(t, "cancel", func() bool { return strings.Contains(srv.logs.String(), "cancelled 1") })
	listen := do(t, c, modernMessage(`"a"`, "subscriptions/listen", ""))
	for range 2 {
		if sub, _ := next(t, listen).At("params", "_meta", translate.MetaSubscription).Str(); sub != "a" {
			t.Errorf("listen id %s", sub)
		}
	}
}

// TestWebSocket_Question: a legacy session's questions go to its client, the
// answer back over the connection that asked.
func TestWebSocket_Question(t *testing.T) {
	srv := newWSServer(t, "legacy")
	w, _ := newWS(t, srv.url())
	c := dialWS(t, w, me, "")
	id, _ := openSession(t, c)
	st := do(t, c, legacyCallOf(id, "1", "ask", ""))
	if m := next(t, st); m.Method != "elicitation/create" {
		t.Fatalf("got %s", m.Raw)
	}
	do(t, c, legacyMessage(id, `{"jsonrpc":"2.0","id":"q-1","result":{"action":"accept"}}`))
	if got := resultText(next(t, st)); got != `{"action":"accept"}` {
		t.Errorf("the server got %s", got)
	}
}

// TestWebSocket_Reconnect: a cut connection ends its calls, each with one error;
// new work gets a new connection, a legacy session is gone with its own.
func TestWebSocket_Reconnect(t *testing.T) {
	srv := newWSServer(t, "modern")
	w, _ := newWS(t, srv.url())
	c := dialWS(t, w, me, "")
	hang := do(t, c, modernCallOf("1", "hang", ""))
	next(t, hang)
	half := do(t, c, modernCallOf("2", "half", "")) // cut in the middle of 12 MiB
	for _, st := range []session.Stream{hang, half} {
		_, err := st.Next()
		var de *session.DialError
		if !errors.As(err, &de) || de.Fail != session.FailBroken || !strings.Contains(err.Error(), "without a close") {
			t.Errorf("got %v", err)
		}
	}
	if conn := resultText(next(t, do(t, c, modernCallOf("3", "pid", "")))); conn != "conn-2" {
		t.Errorf("then %s", conn)
	}

	legacy := newWSServer(t, "legacy")
	w, _ = newWS(t, legacy.url())
	c = dialWS(t, w, me, "")
	id, _ := openSession(t, c)
	if _, err := do(t, c, legacyCallOf(id, "1", "bye", "")).Next(); err == nil {
		t.Error("no error")
	}
	eventually(t, "the session is lost", func() bool {
		st := do(t, c, legacyCallOf(id, "2", "pid", ""))
		return st.Envelope().Status == 404
	})
	openSession(t, c)
}

// TestWebSocket_Refused: what a server says of a caller's credential is the
// caller's to know.
func TestWebSocket_Refused(t *testing.T) {
	srv := newWSServer(t, "modern")
	srv.before = func(w http.ResponseWriter, r *http.Request) bool {
		switch r.Header.Get("Authorization") {
		case "Bearer good":
			return false
		case "Bearer gone":
			w.WriteHeader(404)
		default:
			w.Header().Set("WWW-Authenticate", `Bearer scope="x"`)
			w.Header().Set("Set-Cookie", "a=b")
			w.WriteHeader(401)
		}
		return true
	}
	w, _ := newWS(t, srv.url())
	st := do(t, dialWS(t, w, me, "Bearer bad"), modernCallOf("1", "pid", ""))
	if env := st.Envelope(); env.Status != 401 || env.Header.Get("WWW-Authenticate") == "" || env.Header.Get("Set-Cookie") != "" {
		t.Errorf("%+v", env)
	}
	if _, err := st.Next(); err != io.EOF {
		t.Errorf("then %v", err)
	}
	// It holds nobody back.
	next(t, do(t, dialWS(t, w, me, "Bearer good"), modernCallOf("1", "pid", "")))
	_, err := dialWS(t, w, "third", "Bearer gone").Do(t.Context(), modernCallOf("1", "pid", ""))
	var de *session.DialError
	if !errors.As(err, &de) || de.Fail != session.FailUnreachable || de.Status != 404 {
		t.Errorf("got %v", err)
	}
	_, err = w.Probe(t.Context(), session.Target{Upstream: "up"}, ProbeOptions{Upstream: "up"})
	if !errors.As(err, &de) || de.Status != 401 || de.HTTP.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("probe: %v", err)
	}
}

func TestWebSocket_Redirects(t *testing.T) {
	other := newWSServer(t, "modern")
	for _, c := range []struct {
		name, to string
		code     int
		ok       bool
	}{
		{"path", "/other", 307, true},
		{"as http", "http://SAME/other", 308, true},
		{"as ws", "ws://SAME/other", 308, true},
		{"302", "/other", 302, false},
		{"other port", other.URL + "/", 307, false},
		{"tls", "wss://SAME/other", 307, false},
		{"loop", "/mcp", 307, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := newWSServer(t, "modern")
			srv.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/mcp" {
					return false
				}
				http.Redirect(w, r, strings.ReplaceAll(c.to, "SAME", r.Host), c.code)
				return true
			}
			w, _ := newWS(t, srv.url())
			st, err := dialWS(t, w, me, "Bearer x").Do(t.Context(), modernCallOf("1", "pid", ""))
			if c.ok {
				if err != nil {
					t.Fatal(err)
				}
				next(t, st)
				return
			}
			var de *session.DialError
			if !errors.As(err, &de) || de.Fail != session.FailRedirect {
				t.Errorf("got %v", err)
			}
		})
	}
	if len(other.upgrades()) > 0 {
		t.Error("another origin was asked")
	}
}

// TestCaseB40_WebSocketUpstream: size, fragments, ping, close.
func TestCaseB40_WebSocketUpstream(t *testing.T) {
	srv := newWSServer(t, "modern")
	pong := make(chan string, 1)
	srv.speak = func(c *websocket.Conn, r *http.Request, text []byte) {
		c.SetPongHandler(func(data string) error { pong <- data; return nil })
		switch {
		case bytes.Contains(text, []byte("fragments")):
			raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"%s"}]}}`, strings.Repeat("f", 2<<20))
			net := c.NetConn()
			third := len(raw) / 3
			frame(net, 1, false, raw[:third])
			frame(net, 9, true, "between")
			frame(net, 0, false, raw[third:2*third])
			frame(net, 0, true, raw[2*third:])
		case bytes.Contains(text, []byte("binary")):
			c.WriteMessage(websocket.BinaryMessage, []byte(`{"jsonrpc":"2.0","id":2,"result":{}}`))
		case bytes.Contains(text, []byte("nonsense")):
			frame(c.NetConn(), 1, true, "{\"jsonrpc\":\"\xff\"}")
		case bytes.Contains(text, []byte("large")):
			c.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","id":2,"result":{"x":"`+strings.Repeat("x", 4<<20)+`"}}`))
		}
	}
	w, _ := newWS(t, srv.url(), func(o *WebSocketOptions) { o.MaxMessage = 3 << 20 })
	c := dialWS(t, w, me, "")
	if got := resultText(next(t, do(t, c, modernCallOf("1", "fragments", "")))); len(got) != 2<<20 {
		t.Errorf("got %d bytes", len(got))
	}
	if got := <-pong; got != "between" {
		t.Errorf("pong %q", got)
	}
	for i, c2 := range []struct {
		what string
		code int
		text string
	}{
		{"binary", 1003, "a binary message"},
		{"nonsense", 1007, "not UTF-8"},
		{"large", 1009, "over the limit of 3145728 bytes"},
	} {
		c := dialWS(t, w, session.Principal(c2.what), "")
		hang := do(t, c, modernCallOf("1", "wait", ""))
		st := do(t, c, modernCallOf("2", c2.what, ""))
		for _, s := range []session.Stream{hang, st} {
			_, err := s.Next()
			var de *session.DialError
			if !errors.As(err, &de) || !strings.Contains(err.Error(), c2.text) {
				t.Errorf("%s: %v", c2.what, err)
			}
			if want := c2.what == "large" && s == st; want != (de != nil && de.Fail == session.FailTooLarge) {
				t.Errorf("%s: %v", c2.what, err)
			}
		}
		eventually(t, "close", func() bool { return len(srv.closed()) > i })
		if got := srv.closed()[i]; got != c2.code {
			t.Errorf("%s: close code %d", c2.what, got)
		}
	}
}

// frame writes one frame of a server.
func frame(w io.Writer, opcode byte, fin bool, data string) {
	head := []byte{opcode, 0}
	if fin {
		head[0] |= 0x80
	}
	switch n := len(data); {
	case n < 126:
		head[1] = byte(n)
	case n < 1<<16:
		head = append(head, byte(n>>8), byte(n))
		head[1] = 126
	default:
		head = append(head, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
		head[1] = 127
	}
	w.Write(append(head, data...))
}

// TestSafetyS38_WebSocketUpstream: an extension nobody offered is refused.
func TestSafetyS38_WebSocketUpstream(t *testing.T) {
	for answer, want := range map[string]string{
		"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n": "an extension",
		"Sec-WebSocket-Protocol: soap\r\n":               "subprotocol",
		"X-Long: " + strings.Repeat("x", 1<<20) + "\r\n": "too long",
	} {
		srv := newWSServer(t, "modern")
		srv.before = func(w http.ResponseWriter, r *http.Request) bool {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				upgradeRaw(c, r, answer)
				c.Close()
			}
			return true
		}
		w, _ := newWS(t, srv.url())
		_, err := dialWS(t, w, me, "").Do(t.Context(), modernCallOf("1", "pid", ""))
		var de *session.DialError
		if !errors.As(err, &de) || de.Fail != session.FailUnreachable || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
}

// upgradeRaw answers an upgrade by hand.
func upgradeRaw(c net.Conn, r *http.Request, more string) {
	fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n%s\r\n",
		acceptKey(r.Header.Get("Sec-Websocket-Key")), more)
	io.Copy(io.Discard, c)
}

// TestCaseB59_WebSocketUpstream: 12 MiB both ways.
func TestCaseB59_WebSocketUpstream(t *testing.T) {
	srv := newWSServer(t, "modern")
	budget := session.NewBudget(64 << 20)
	w, _ := newWS(t, srv.url(), func(o *WebSocketOptions) { o.Budget = budget })
	c := dialWS(t, w, me, "")
	big := strings.Repeat("y", 12<<20)
	if got := resultText(next(t, do(t, c, modernCallOf("1", "echo", `"text":"`+big+`"`)))); got != big {
		t.Errorf("got %d bytes back", len(got))
	}
	next(t, do(t, c, modernCallOf("2", "pid", "")))
	if n := budget.InUse(); n != 0 {
		t.Errorf("%d bytes of the budget are held", n)
	}
	// No memory for a message: its request is told, the connection lives on.
	took := int64(63 << 20)
	if !budget.TryAcquire(took) {
		t.Fatal("no budget")
	}
	var de *session.DialError
	if _, err := do(t, c, modernCallOf("3", "big-id-last", "")).Next(); !errors.As(err, &de) || de.Fail != session.FailBusy {
		t.Errorf("without memory: %v", err)
	}
	budget.Release(took)
	if got := resultText(next(t, do(t, c, modernCallOf("4", "pid", "")))); got != "conn-1" {
		t.Errorf("then %s", got)
	}
}

func TestWebSocketProbe(t *testing.T) {
	for _, c := range probeCases("ended") {
		t.Run(c.how, func(t *testing.T) {
			srv := newWSServer(t, c.how)
			w, _ := newWS(t, srv.url(), func(o *WebSocketOptions) {
				if c.how == "silent" {
					o.StartLimit = time.Second
				}
			})
			r, err := w.Probe(t.Context(), session.Target{Upstream: "up", Principal: me}, ProbeOptions{Upstream: "up", LegacyFace: true})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Era != c.era || r.Version != c.version || r.Dual != c.dual {
				t.Errorf("%+v", r)
			}
			if c.era != translate.Modern {
				return
			}
			// The probe's connection is the principal's.
			if got := resultText(next(t, do(t, dialWS(t, w, me, ""), modernCallOf("1", "pid", "")))); got != "conn-1" {
				t.Errorf("the call went over %s", got)
			}
		})
	}
}

func TestWebSocket_Unreachable(t *testing.T) {
	srv := newWSServer(t, "modern")
	srv.Close()
	w, _ := newWS(t, srv.url())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := dialWS(t, w, me, "").Do(ctx, modernCallOf("1", "pid", ""))
	var de *session.DialError
	if !errors.As(err, &de) || de.Fail != session.FailUnreachable || !strings.Contains(err.Error(), "is the server running") {
		t.Errorf("got %v", err)
	}
	for url, want := range map[string]string{
		"http://h/": "ws://", "ws:///x": "names no host", "h": "ws://",
	} {
		if _, err := NewWebSocket(WebSocketOptions{Name: "up", Server: HTTPUpstream{URL: url}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestWebSocket_Unused: connections nobody uses leave, at once where there are
// too many.
func TestWebSocket_Unused(t *testing.T) {
	srv := newWSServer(t, "modern")
	w, _ := newWS(t, srv.url(), func(o *WebSocketOptions) { o.MaxConns = 1 })
	next(t, do(t, dialWS(t, w, "a", ""), modernCallOf("1", "pid", "")))
	if got := resultText(next(t, do(t, dialWS(t, w, "b", ""), modernCallOf("1", "pid", "")))); got != "conn-2" {
		t.Errorf("b has %s", got)
	}
	eventually(t, "close", func() bool { return slices.Equal(srv.closed(), []int{1000}) })
	hang := do(t, dialWS(t, w, "b", ""), modernCallOf("1", "hang", ""))
	next(t, hang)
	_, err := dialWS(t, w, "a", "").Do(t.Context(), modernCallOf("1", "pid", ""))
	var de *session.DialError
	if !errors.As(err, &de) || de.Fail != session.FailBusy {
		t.Errorf("while b works: %v", err)
	}

	srv = newWSServer(t, "modern")
	w, _ = newWS(t, srv.url(), func(o *WebSocketOptions) { o.Idle = 50 * time.Millisecond })
	c := dialWS(t, w, "a", "")
	for i := range 3 {
		next(t, do(t, c, modernCallOf("1", "pid", "")))
		eventually(t, "close", func() bool { return len(srv.closed()) > i })
	}
}
