package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"taskbridge/cmd/peers"
)

// limitOf reads a refusal for a limit, which must say when to come again; "" for
// an answer.
func limitOf(t *testing.T, m lineMessage) string {
	t.Helper()
	if m.Error == nil {
		return ""
	}
	var advice struct {
		Limit        string
		RetryAfterMS int64 `json:"retryAfterMs"`
	}
	if json.Unmarshal(m.Error.Data, &advice) != nil || advice.Limit == "" || advice.RetryAfterMS <= 0 || m.Error.Code != -32603 {
		t.Fatalf("refused without advice: %+v %s", m.Error, m.Error.Data)
	}
	return advice.Limit
}

// beginTask asks for a task that runs until it is cancelled.
func (c *lineClient) beginTask() lineMessage {
	c.t.Helper()
	params := map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 600}}
	if !c.modern {
		params["task"] = map[string]any{}
	}
	return c.call("tools/call", params)
}

func taskOf(t *testing.T, m lineMessage) string {
	t.Helper()
	var r struct {
		TaskID string
		Task   struct{ TaskID string }
	}
	if err := json.Unmarshal(m.Result, &r); err != nil || r.TaskID+r.Task.TaskID == "" {
		t.Fatalf("no task: %s %+v", m.Result, m.Error)
	}
	return r.TaskID + r.Task.TaskID
}

// flood sends n requests at once and returns the last answer that is a refusal.
func (c *lineClient) flood(n int, method string, params map[string]any) (refused lineMessage) {
	c.t.Helper()
	var answers []chan lineMessage
	for range n {
		_, answer := c.begin(method, params)
		answers = append(answers, answer)
	}
	for _, answer := range answers {
		if m := c.wait(method, answer); m.Error != nil {
			refused = m
		}
	}
	return refused
}

// limitUse uses a limit up.
type limitUse struct {
	limit string
	args  []string
	// use works against the limit and returns what is refused then.
	use func(t *testing.T, c *lineClient) lineMessage
	// free makes room again, by hand; nil: time does.
	free func(t *testing.T, c *lineClient)
}

func limitUses() []limitUse {
	var last string
	return []limitUse{
		{"tasks", []string{"--max-tasks", "2"}, func(t *testing.T, c *lineClient) lineMessage {
			for range 2 {
				last = taskOf(t, c.beginTask())
			}
			return c.beginTask()
		}, func(t *testing.T, c *lineClient) { c.must("tasks/cancel", map[string]any{"taskId": last}, nil) }},
		{"rate", []string{"--max-requests-per-second", "4", "--max-requests-burst", "8"}, func(t *testing.T, c *lineClient) lineMessage {
			return c.flood(50, "tools/list", map[string]any{})
		}, nil},
		{"bytes", []string{"--max-bytes-per-second", "100KiB"}, func(t *testing.T, c *lineClient) lineMessage {
			return c.flood(5, "tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": strings.Repeat("x", 100<<10)}})
		}, nil},
	}
}

// TestLimits_OneChannel: each limit of a caller whose messages share one channel,
// WebSocket or standard streams, both eras across: he is refused in JSON-RPC, with
// advice when to come again, the channel goes on, and nobody else is concerned.
func TestLimits_OneChannel(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for _, transport := range []string{"websocket", "stdio"} {
			for _, tt := range limitUses() {
				t.Run(fmt.Sprintf("%s client, %s, %s", eraName(modern), transport, tt.limit), func(t *testing.T) {
					up := peerArgs(t, !modern, false)[0]
					open := func(string) *lineClient { return startStdio(t, modern, append(tt.args, up)...) }
					if transport == "websocket" {
						s := serve(t, append([]string{"--upstream", up}, tt.args...)...)
						open = func(who string) *lineClient { return startSocketAs(t, modern, s.url, who) }
					}
					begin := func(who string) *lineClient {
						c := open(who)
						if !modern {
							c.initialize()
						}
						c.must("tools/list", nil, nil)
						return c
					}
					c := begin("ann")
					if got := limitOf(t, tt.use(t, c)); got != tt.limit {
						t.Fatalf("refused for %q, want %q", got, tt.limit)
					}
					if transport == "websocket" {
						bob := begin("bob")
						if tt.limit == "tasks" {
							taskOf(t, bob.beginTask())
						} else {
							bob.must("tools/list", nil, nil)
						}
						if tt.limit == "tasks" { // hers, by whichever connection
							again := begin("ann")
							if got := limitOf(t, again.beginTask()); got != tt.limit {
								t.Errorf("another connection of hers: %q", got)
							}
						}
					}
					if !modern {
						c.must("ping", nil, nil)
					}
					if tt.free != nil {
						tt.free(t, c)
						eventually(t, "another fits", func() bool { return c.beginTask().Error == nil })
						return
					}
					eventually(t, "a request fits again", func() bool { return c.call("tools/list", nil).Error == nil })
				})
			}
		}
	}
}

// TestLimits_SocketSessions: legacy sessions of connections count while these are
// open.
func TestLimits_SocketSessions(t *testing.T) {
	s := serve(t, "--upstream", peer(t, peers.NewModernServer(peers.ServerOptions{})), "--max-sessions", "1")
	initialize := map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "1"}}
	first, second, bob := startSocketAs(t, false, s.url, "ann"), startSocketAs(t, false, s.url, "ann"), startSocketAs(t, false, s.url, "bob")
	first.must("initialize", initialize, nil)
	if got := limitOf(t, second.call("initialize", initialize)); got != "sessions" {
		t.Errorf("a second session: refused for %q", got)
	}
	bob.must("initialize", initialize, nil)
	second.must("ping", nil, nil)
	first.in.Close()
	<-first.done
	eventually(t, "there is room once the other connection is closed", func() bool { return second.call("initialize", initialize).Error == nil })
	second.must("tools/list", nil, nil)
}

// TestLimits_SocketStreams: requests that wait count, and the answer to one makes
// room.
func TestLimits_SocketStreams(t *testing.T) {
	t.Run("listen", func(t *testing.T) {
		s := serve(t, "--upstream", peer(t, peers.NewLegacyServer(peers.ServerOptions{})), "--max-streams", "1")
		c, bob := startSocketAs(t, true, s.url, "ann"), startSocketAs(t, true, s.url, "bob")
		listen := map[string]any{"notifications": map[string]any{"toolsListChanged": true}}
		id, _ := c.begin("subscriptions/listen", listen)
		eventually(t, "it is acknowledged", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.notices) > 0
		})
		if got := limitOf(t, c.call("subscriptions/listen", listen)); got != "streams" {
			t.Errorf("a second listen: refused for %q", got)
		}
		c.must("tools/list", nil, nil)
		bob.begin("subscriptions/listen", listen)
		eventually(t, "another caller's is acknowledged", func() bool {
			bob.mu.Lock()
			defer bob.mu.Unlock()
			return len(bob.notices) > 0
		})
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
		c.mu.Lock()
		c.notices = nil
		c.mu.Unlock()
		eventually(t, "there is room for another", func() bool {
			c.begin("subscriptions/listen", listen)
			c.must("tools/list", nil, nil)
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.notices) > 0
		})
	})
	t.Run("tasks/result", func(t *testing.T) {
		// One is the session's own stream.
		s := serve(t, "--upstream", peer(t, peers.NewModernServer(peers.ServerOptions{})), "--max-streams", "2")
		c := startSocketAs(t, false, s.url, "ann")
		c.initialize()
		task := taskOf(t, c.beginTask())
		_, waits := c.begin("tasks/result", map[string]any{"taskId": task})
		got := ""
		eventually(t, "a second one is refused", func() bool {
			_, second := c.begin("tasks/result", map[string]any{"taskId": task})
			select {
			case m := <-second:
				got = limitOf(t, m)
				return true
			default:
				return false
			}
		})
		if got != "streams" {
			t.Errorf("refused for %q", got)
		}
		c.must("tasks/cancel", map[string]any{"taskId": task}, nil)
		if m := c.wait("tasks/result", waits); m.Error == nil {
			t.Errorf("the result of a cancelled task: %s", m.Result)
		}
		c.must("ping", nil, nil)
	})
}

// TestReload_LimitsOfOpenSockets: limits that come with a reload, of all routes or
// one, hold for connections that are open.
func TestReload_LimitsOfOpenSockets(t *testing.T) {
	up := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	text := func(top, own string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\n%sroutes:\n  - {name: a, path: /a, upstream: %q%s}\n", top, up, own)
	}
	const limits = "limits: {per-principal: {requests-per-second: 0.01, requests-burst: 4}}"
	for name, later := range map[string]string{"of all": text(limits+"\n", ""), "of its route": text("", ", "+limits)} {
		t.Run(name, func(t *testing.T) {
			f := startFile(t, text("", ""))
			c := startSocketAs(t, true, f.root+"/a", "ann")
			for range 10 {
				c.must("tools/list", nil, nil)
			}
			if err := f.put(later); err != nil {
				t.Fatal(err)
			}
			fit := 0
			for ; fit < 10 && limitOf(t, c.call("tools/list", nil)) == ""; fit++ {
			}
			if fit != 4 {
				t.Errorf("%d requests fitted, want 4", fit)
			}
			if err := f.put(text("", "")); err != nil {
				t.Fatal(err)
			}
			c.must("tools/list", nil, nil)
		})
	}
}
