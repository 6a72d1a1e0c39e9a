package upstream

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"taskbridge/session"
	"taskbridge/session/ws"
)

// wsServer is childServer over WebSocket: a connection is a child.
type wsServer struct {
	*httptest.Server
	how   string
	conns atomic.Int32
	logs  *logs

	mu     sync.Mutex
	closes []int                                                 // codes of the clients
	seen   []http.Header                                         // of upgrades
	before func(w http.ResponseWriter, r *http.Request) bool     // true: answered
	speak  func(c *websocket.Conn, r *http.Request, text []byte) // instead of childServer
}

func newWSServer(t *testing.T, how string) *wsServer {
	s := &wsServer{how: how, logs: &logs{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *wsServer) url() string { return "ws" + strings.TrimPrefix(s.URL, "http") + "/mcp?key=secret" }

func (s *wsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r.Header.Clone())
	before, speak := s.before, s.speak
	s.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	up := websocket.Upgrader{Subprotocols: []string{"mcp"}}
	c, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer c.Close()
	out := &wsLines{c: c}
	child := newChildServer(s.how)
	child.pid, child.err, child.out = fmt.Sprint("conn-", s.conns.Add(1)), s.logs, bufio.NewWriter(out)
	child.exit = func(int) {
		out.cut()
		runtime.Goexit()
	}
	if child.words["dies"] {
		return
	}
	for {
		_, text, err := c.ReadMessage()
		if err != nil {
			if ce, ok := err.(*websocket.CloseError); ok {
				s.mu.Lock()
				s.closes = append(s.closes, ce.Code)
				s.mu.Unlock()
			}
			return
		}
		if speak != nil {
			speak(c, r, text)
			continue
		}
		var m childMessage
		if json.Unmarshal(text, &m) == nil {
			m.raw = text
			child.message(&m)
		}
	}
}

func (s *wsServer) closed() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.closes...)
}

func (s *wsServer) upgrades() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]http.Header(nil), s.seen...)
}

// wsLines sends each line written to it as a message.
type wsLines struct {
	c    *websocket.Conn
	rest []byte
}

func (w *wsLines) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte{'\n'})
		if !ok {
			return len(p), nil
		}
		if err := w.c.WriteMessage(websocket.TextMessage, line); err != nil {
			return 0, err
		}
		w.rest = rest
	}
}

// cut ends the connection, in the middle of what was not ended by a line end.
func (w *wsLines) cut() {
	if len(w.rest) > 0 {
		if m, err := w.c.NextWriter(websocket.TextMessage); err == nil {
			m.Write(w.rest)
		}
	}
	w.c.NetConn().Close()
}

func newWS(t *testing.T, url string, change ...func(*WebSocketOptions)) (*WebSocket, *logs) {
	t.Helper()
	l := &logs{}
	o := WebSocketOptions{
		Name: "up", Server: HTTPUpstream{URL: url},
		Silence: 200 * time.Millisecond, StartLimit: 20 * time.Second, Conn: ws.Options{Goodbye: 500 * time.Millisecond},
		Logger: slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&o)
	}
	w, err := NewWebSocket(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Close()
		if t.Failed() {
			t.Log(l.String())
		}
		if strings.Contains(l.String(), "secret") {
			t.Error("a secret is in the log")
		}
	})
	return w, l
}

func dialWS(t *testing.T, w *WebSocket, who session.Principal, token string) session.Conn {
	t.Helper()
	target := session.Target{Upstream: "up", Principal: who}
	if token != "" {
		target.Credential = http.Header{"Authorization": {token}}
	}
	c, err := w.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// acceptKey: RFC 6455 section 4.2.2.
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}
