package session_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// slowTaker is a legacy server that answers the handshake, works on everything
// else for ever, and is slow to take a notification.
type slowTaker struct {
	*fakeServer
	takes time.Duration // 0: never

	mu    sync.Mutex // protects taken
	taken []string
}

func (s *slowTaker) Dial(_ context.Context, target session.Target) (session.Conn, error) {
	return slowTakerConn{&fakeConn{s.fakeServer, target}, s}, nil
}

type slowTakerConn struct {
	*fakeConn
	to *slowTaker
}

func (c slowTakerConn) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	e := &fakeExchange{out: out, ctx: ctx, events: make(chan fakeEvent, 2), env: &translate.Envelope{Status: 202}}
	if out.Msg == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{})
	if err != nil {
		return nil, err
	}
	switch {
	case m.Method == "initialize":
		e.env = &translate.Envelope{Status: 200, Header: http.Header{"Mcp-Session-Id": {"S"}, "Content-Type": {"application/json"}}}
		answer, err := jsonrpc.Decode(jsonrpc.NewResult(m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)), jsonrpc.Limits{})
		if err != nil {
			return nil, err
		}
		e.events <- fakeEvent{msg: answer}
	case m.Kind == jsonrpc.Request:
		e.env = &translate.Envelope{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}}
		return e, nil
	case m.Method == "notifications/cancelled":
		var after <-chan time.Time
		if c.to.takes > 0 {
			after = time.After(c.to.takes)
		}
		select {
		case <-after:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c.to.mu.Lock()
	c.to.taken = append(c.to.taken, m.Method)
	c.to.mu.Unlock()
	e.events <- fakeEvent{end: true}
	return e, nil
}

// TestRunner_Farewell: a runner that closes says first what its operations have
// to say to the server: a legacy one would work on for a client that has left.
// A server that does not take it holds nobody up for long.
func TestRunner_Farewell(t *testing.T) {
	for name, takes := range map[string]time.Duration{"a slow server": 300 * time.Millisecond, "one that never takes it": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &slowTaker{fakeServer: &fakeServer{}, takes: takes}
				handles, err := session.NewHandles([][]byte{make([]byte, 32)})
				if err != nil {
					t.Fatal(err)
				}
				face := session.Face{Era: translate.Legacy, Version: translate.V20251125}
				r, err := session.New(session.Options{Store: memory.New(), Dialer: server, Faces: fakeFaces{face}, Handles: handles})
				if err != nil {
					t.Fatal(err)
				}
				m, err := jsonrpc.Decode([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`), jsonrpc.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				stream := r.NewStream()
				r.Client(t.Context(), session.Inbound{
					Caller: session.Caller{Principal: session.LocalPrincipal, Era: translate.Modern, Version: translate.V20260728},
					Frame:  translate.Frame{Msg: m, Leg: translate.ClientLeg, Dir: translate.ToServer, Time: time.Now(), HTTP: &translate.Envelope{Verb: http.MethodPost}},
				}, stream)
				time.Sleep(time.Minute) // the call is under way
				stream.Gone()
				r.Close()
				server.mu.Lock()
				defer server.mu.Unlock()
				if got := slices.Contains(server.taken, "notifications/cancelled"); got != (takes > 0) {
					t.Errorf("the server took %q", server.taken)
				}
			})
		})
	}
}
