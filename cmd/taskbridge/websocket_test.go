package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

// startSocket is a client of a WebSocket endpoint that writes and reads lines
// like one on stdio.
func startSocket(t *testing.T, modern bool, url string) *lineClient {
	t.Helper()
	return startSocketAs(t, modern, url, "")
}

// startSocketAs is startSocket with a bearer token.
func startSocketAs(t *testing.T, modern bool, url, token string) *lineClient {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{"mcp"}}
	h := http.Header{}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	ws, _, err := d.DialContext(t.Context(), "ws"+strings.TrimPrefix(url, "http"), h)
	if err != nil {
		t.Fatal(err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &lineClient{t: t, modern: modern, in: inW, stderr: new(buffer), done: make(chan struct{}), answers: map[string]chan lineMessage{}}
	go func() {
		r := bufio.NewReader(inR)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil || ws.WriteMessage(websocket.TextMessage, line) != nil {
				ws.Close()
				return
			}
		}
	}()
	go func() {
		defer close(c.done)
		for {
			_, raw, err := ws.ReadMessage()
			if err != nil {
				outW.Close()
				return
			}
			outW.Write(append(raw, '\n'))
		}
	}()
	t.Cleanup(func() {
		inW.Close()
		<-c.done
	})
	go c.read(outR)
	return c
}

// TestWebSocketPairs: each era before each, with WebSocket toward the client,
// and toward a second proxy in between that speaks it to the first.
func TestWebSocketPairs(t *testing.T) {
	for _, clientModern := range []bool{false, true} {
		for _, serverModern := range []bool{false, true} {
			for _, chain := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s client, %s server, chain %v", eraName(clientModern), eraName(serverModern), chain), func(t *testing.T) {
					s := serve(t, "--log-level", "warn", "--upstream", peerArgs(t, serverModern, false)[0])
					if chain {
						s = serve(t, "--log-level", "warn", "--upstream", "ws"+strings.TrimPrefix(s.url, "http"))
					}
					c := startSocket(t, clientModern, s.url)
					pairVerbs(t, c)
					if code := s.end(); code != exitOK {
						t.Errorf("exit %d", code)
					}
				})
			}
		}
	}
}
