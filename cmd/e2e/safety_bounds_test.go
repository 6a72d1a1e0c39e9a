package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/translate"
)

// S42: a server without end meets a bound and the client one clear answer.
func TestSafetyS42_EndlessServers(t *testing.T) {
	t.Run("pages of tools", func(t *testing.T) {
		server := newScripted(t, translate.Legacy, func(c *scriptCall) bool {
			if c.Method == "tools/list" {
				c.Result(`{"tools":[{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"forbidden"}}],"nextCursor":"again"}`)
				return true
			}
			return false
		})
		c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), translate.Modern, "")
		if r := c.tool("ok", ""); r.Text() != "fine" {
			t.Errorf("got %s", r)
		}
		if n := len(server.Requests("tools/list")); n > 60 {
			t.Errorf("%d pages were asked for", n)
		}
	})
	asks := func(requests, state string) func(c *scriptCall) {
		return func(c *scriptCall) {
			c.Result(`{"resultType":"input_required"` + requests + state + `}`)
		}
	}
	many := make([]string, 100_000)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`, i)
	}
	one := `,"inputRequests":{"k":{"method":"roots/list"}}`
	server := newScripted(t, translate.Modern, tools(map[string]func(c *scriptCall){
		"state for ever": asks("", `,"requestState":"s"`),
		"many keys":      asks(`,"inputRequests":{`+strings.Join(many, ",")+`}`, ""),
		"array":          asks(`,"inputRequests":[{"method":"elicitation/create"}]`, `,"requestState":"s"`),
		"unknown method": asks(`,"inputRequests":{"k":{"method":"x/y","params":{}}}`, ""),
		"no method":      asks(`,"inputRequests":{"k":5}`, ""),
		"undeclared":     asks(one, ""),
		"nothing":        asks("", ""),
		"big state":      asks(one, `,"requestState":"`+strings.Repeat("s", 10<<20)+`"`),
	}))
	g := newRig(t, server.URL, bridgeOptions{Policy: session.Policy{RetryAfter: time.Millisecond}})
	c, good := newCaller(t, g, translate.Legacy, ""), newCaller(t, g, translate.Legacy, "good")
	for _, tool := range []string{"state for ever", "array", "unknown method", "no method", "undeclared", "nothing", "big state", "many keys"} {
		t.Run(tool, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			c.t = t
			r := c.postIn(ctx, c.headers("tools/call", tool), request(quote(tool), "tools/call", c.params(`"name":`+quote(tool)+`,"arguments":{}`)))
			if len(r.Answers) != 1 || r.Code() != -32603 {
				t.Errorf("got code %d, %d answers: %.300s", r.Code(), len(r.Answers), r)
			}
			if n := server.Ran(tool); n > 12 {
				t.Errorf("the tool was called %d times", n)
			}
			if r := good.tool("ok", ""); r.Text() != "fine" {
				t.Errorf("beside it: %s", r)
			}
		})
	}
}

// S44: large bodies fill their part of the budget; what is over is refused
// with a time to come back, and small calls pass.
func TestSafetyS44_LargeBodiesBesideSmall(t *testing.T) {
	hold := make(chan struct{})
	server := newScripted(t, translate.Modern, tools(map[string]func(c *scriptCall){
		"large": func(c *scriptCall) { <-hold; c.Result(c.text("stored")) },
	}))
	g := newRig(t, server.URL, bridgeOptions{Options: func(o *downstream.Options) { o.Budget = session.NewBudget(16 << 20) }})
	c, good := newCaller(t, g, translate.Modern, ""), newCaller(t, g, translate.Modern, "good")
	body := `"name":"large","arguments":{"a":"` + strings.Repeat("x", 4<<20) + `"}`
	replies := make(chan rawReply, 12)
	for i := range 12 {
		go func() { replies <- c.send(fmt.Sprint(i), "tools/call", c.params(body)) }()
	}
	// With 12 MiB for large ones two or three are taken; the rest comes back.
	busy := 0
	for busy < 9 {
		r := <-replies
		if busy++; r.Status != 503 || r.Header.Get("Retry-After") == "" || len(r.Answers) != 1 {
			t.Fatalf("over the budget: HTTP %d %v %v", r.Status, r.Header, r.Broken)
		}
		if r := good.tool("ok", ""); r.Text() != "fine" {
			t.Fatalf("a small call: %s", r)
		}
	}
	close(hold)
	for range 3 {
		if r := <-replies; r.Text() != "stored" && r.Status != 503 {
			t.Errorf("within the budget: %s", r)
		}
	}
	if r := c.send("99", "tools/call", c.params(body)); r.Text() != "stored" {
		t.Errorf("afterwards: HTTP %d", r.Status)
	}
}

// S46: streams that wait are capped for each principal and in all, and given
// back when they end.
func TestSafetyS46_SlotlessWaiting(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				switch {
				case c.R.Method == http.MethodGet:
					c.Begin()
				case c.Method == "subscriptions/listen":
					c.SSE(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}`)
				default:
					return false
				}
				c.Wait()
				return true
			})
			g := newRig(t, server.URL, bridgeOptions{Policy: session.Policy{Streams: session.Limit{Each: 3, All: 5}}})
			open := func(c *caller) (int, func()) {
				if pair.client == translate.Legacy {
					h := c.headers("", "")
					h.Del("Content-Type")
					_, status, leave := c.stream("GET", h, "")
					return status, leave
				}
				_, status, leave := c.stream("POST", c.headers("subscriptions/listen", ""), request("1", "subscriptions/listen", c.params(`"notifications":{"toolsListChanged":true}`)))
				return status, leave
			}
			a, b := newCaller(t, g, pair.client, "a"), newCaller(t, g, pair.client, "b")
			var leave func()
			for range 3 {
				status := 0
				if status, leave = open(a); status != 200 {
					t.Fatalf("within the limit: %d", status)
				}
			}
			if status, _ := open(a); status != 429 {
				t.Errorf("a's fourth: %d", status)
			}
			for range 2 {
				if status, _ := open(b); status != 200 {
					t.Errorf("b within its limit: %d", status)
				}
			}
			if status, _ := open(b); status != 429 {
				t.Errorf("over the limit of all: %d", status)
			}
			if r := a.tool("ok", ""); r.Text() != "fine" {
				t.Errorf("a call at the limit: %s", r)
			}
			leave()
			eventually(t, "a stream that ended makes room", func() bool {
				status, _ := open(a)
				return status == 200
			})
		})
	}
}

// S48: sessions are capped; abandoned ones leave nothing once they are idle.
func TestSafetyS48_AbandonedSessions(t *testing.T) {
	for _, era := range []translate.Era{translate.Legacy, translate.Modern} {
		t.Run(era.String()+" server", func(t *testing.T) {
			server := newScripted(t, era, nil)
			clock := newJumpClock()
			g := newRig(t, server.URL, bridgeOptions{Clock: clock, Policy: session.Policy{Sessions: session.Limit{Each: 20, All: 30}}})
			keys := func() int {
				list, err := g.Store.List(t.Context(), "", "", 100_000)
				if err != nil {
					t.Fatal(err)
				}
				return len(list)
			}
			start := keys()
			initialize := func(token string) int {
				c := &caller{t: t, g: g, era: translate.Legacy, http: http.DefaultClient, token: token}
				return c.post(c.headers("", ""), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`).Status
			}
			made := map[int]int{}
			for range 25 {
				made[initialize("a")]++
			}
			if made[200] != 20 || made[429] != 5 {
				t.Errorf("a: %v", made)
			}
			for range 25 {
				made[initialize("b")]++
			}
			if made[200] != 30 || made[429] != 20 {
				t.Errorf("in all: %v", made)
			}
			clock.jump(time.Hour)
			eventually(t, "records of idle sessions are gone", func() bool { return keys() <= start+2 })
			if status := initialize("a"); status != 200 {
				t.Errorf("afterwards: %d", status)
			}
			list, _ := g.Store.List(t.Context(), "count/", "", 100)
			for _, e := range list {
				if v := string(e.Value); v != "1" {
					t.Errorf("counter %s is %s with one session", e.Key, v)
				}
			}
			if era == translate.Legacy {
				// The server's sessions are ended with ours.
				deletes := 0
				for _, r := range server.Requests("") {
					if r.Verb == http.MethodDelete {
						deletes++
					}
				}
				if deletes < made[200] {
					t.Errorf("%d sessions of the server were ended, want %d", deletes, made[200])
				}
			}
		})
	}
}

// S50: a server that is down is not asked more than its callers ask.
func TestSafetyS50_RetryStorm(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, tools(map[string]func(c *scriptCall){
				"down": func(c *scriptCall) { c.W.WriteHeader(503) },
			}))
			g := newRig(t, server.URL, bridgeOptions{})
			callers := make([]*caller, 20)
			for i := range callers {
				callers[i] = newCaller(t, g, pair.client, fmt.Sprint("c", i))
				callers[i].tool("ok", "")
			}
			server.Forget()
			var wg sync.WaitGroup
			for _, c := range callers {
				wg.Go(func() {
					for range 10 {
						if r := c.tool("down", ""); r.Status != 503 || len(r.Answers) != 1 {
							t.Errorf("got %s", r)
						}
					}
				})
			}
			wg.Wait()
			if n := len(server.Requests("")); n > 240 {
				t.Errorf("%d requests for 200 calls", n)
			}
			if n := server.Ran("down"); n != 200 {
				t.Errorf("the tool was called %d times for 200 calls", n)
			}
		})
	}
}
