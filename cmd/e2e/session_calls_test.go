package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// ops counts the operations of a kind that are kept.
func (g *bridge) ops(kind string) int {
	list, _ := g.Store.List(context.Background(), "op/"+kind+":", "", 100_000)
	return len(list)
}

// A client that uses one id for many requests at once: each is answered.
func TestSessionCalls_OneIDAtOnce(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, nil)
			g := newRig(t, server.URL, bridgeOptions{})
			c := newCaller(t, g, pair.client, "")
			for round := range 20 {
				var wg sync.WaitGroup
				for range 12 {
					wg.Go(func() {
						if r := c.send("7", "tools/call", c.params(`"name":"ok","arguments":{}`)); len(r.Answers) != 1 || r.Text() != "fine" && r.Code() != -32600 {
							t.Errorf("round %d: %s", round, r)
						}
					})
				}
				wg.Wait()
			}
		})
	}
}

// The end of a session is the end of its calls: nothing hangs on at the server.
func TestSessionCalls_SessionEndsUnderCalls(t *testing.T) {
	for _, pair := range legacyPairs {
		for _, how := range []string{"DELETE", "left, then DELETE", "left, then expiry"} {
			t.Run(pair.name+", "+how, func(t *testing.T) {
				var running atomic.Int32
				server := newScripted(t, pair.server, tools(map[string]func(c *scriptCall){"slow": func(c *scriptCall) {
					running.Add(1)
					defer running.Add(-1)
					c.Begin()
					c.Wait()
				}}))
				clock := newJumpClock()
				g := newRig(t, server.URL, bridgeOptions{Clock: clock})
				c := newCaller(t, g, translate.Legacy, "")
				_, _, leave := c.stream("POST", c.headers("tools/call", "slow"), request("5", "tools/call", c.params(`"name":"slow","arguments":{}`)))
				defer leave()
				eventually(t, "the call runs", func() bool { return running.Load() == 1 })
				if how != "DELETE" {
					leave()
				}
				if !strings.HasSuffix(how, "expiry") {
					if r := c.do(t.Context(), "DELETE", c.headers("", ""), ""); r.Status != 200 {
						t.Error(r)
					}
				}
				eventually(t, "the call is over", func() bool {
					if strings.HasSuffix(how, "expiry") {
						clock.jump(time.Minute)
					}
					return running.Load() == 0
				})
				eventually(t, "nothing is left", func() bool { return g.ops("pass")+g.ops("lcall")+g.ops("session") == 0 })
			})
		}
	}
}

// A server that never answers initialize: what waits for it goes with its client.
func TestSessionCalls_InitializeNobodyWaitsFor(t *testing.T) {
	for _, pair := range legacyPairs {
		t.Run(pair.name, func(t *testing.T) {
			var running atomic.Int32
			var hang atomic.Bool
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				if !hang.Load() || c.Method != "initialize" && c.Method != "server/discover" {
					return false
				}
				running.Add(1)
				defer running.Add(-1)
				c.Wait()
				return true
			})
			g := newRig(t, server.URL, bridgeOptions{Policy: session.Policy{SessionIdle: 6 * time.Second, Sessions: session.Limit{Each: 3, All: 3}}})
			_ = newCaller(t, g, translate.Legacy, "") // the era is known now
			hang.Store(true)
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				c := &caller{t: t, g: g, era: translate.Legacy, http: http.DefaultClient}
				c.postIn(ctx, c.headers("", ""), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
				cancel()
			}
			eventually(t, "the server is not asked any more", func() bool { return running.Load() == 0 })
			hang.Store(false)
			c := newCaller(t, g, translate.Legacy, "")
			if r := c.tool("ok", ""); r.Text() != "fine" {
				t.Error(r)
			}
		})
	}
}
