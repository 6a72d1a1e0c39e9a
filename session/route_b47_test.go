package session_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// on makes the rig lead new work to one server alone.
func (rig *routeRig) on(server string) {
	rig.t.Helper()
	for i := range rig.ups {
		rig.ups[i].Weight = 0
		if rig.ups[i].Show == server {
			rig.ups[i].Weight = 1
		}
	}
	rig.update(rig.ups...)
	if rig.turns {
		rig.turn++
		if err := rig.handles.SetKeys(testKeys(fmt.Sprint(rig.turn)), time.Now()); err != nil {
			rig.t.Fatal(err)
		}
	}
}

// Two servers that both mint the id "1": what their clients see are two ids,
// none of them guessable, rewritten wherever an id stands and nowhere else, and
// each leads back to its own server, whose own id that one sees.
func TestCaseB47_TwoServersMintOneID(t *testing.T) {
	for _, e := range eras {
		for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
			t.Run(fmt.Sprintf("%v client, %s", era, e.name), func(t *testing.T) {
				a, b := newRouteServer("a", e.a), newRouteServer("b", e.b)
				routed(t, func(t *testing.T, rig *routeRig) {
					rig.on("a")
					c := rig.client(era, "ann")
					ofA := c.newTask()
					rig.on("b")
					if era == translate.Legacy {
						c.open()
					}
					ofB := c.newTask()
					b47Exposed(t, ofA, ofB)
					if era == translate.Modern {
						b47Modern(t, rig, c, map[string]*routeServer{ofA: a, ofB: b})
					} else {
						b47Legacy(t, rig, c, map[string]*routeServer{ofA: a, ofB: b})
					}
					b47Upstream(t, a, b)
				}, a, b)
			})
		}
	}
}

var headerSafe = regexp.MustCompile(`^[A-Za-z0-9_-]{40,}$`)

func b47Exposed(t *testing.T, ids ...string) {
	t.Helper()
	for i, id := range ids {
		if !headerSafe.MatchString(id) {
			t.Errorf("the id %q can be guessed or is not safe in a header", id)
		}
		for _, other := range ids[:i] {
			if id == other {
				t.Errorf("two tasks have the id %q", id)
			}
		}
	}
}

// b47Whole: the text that only looks like an id is as the server wrote it.
func b47Whole(t *testing.T, r routeReply, server string) {
	t.Helper()
	if !strings.Contains(r.raw(), server+" result {'taskId':'1'}") {
		t.Errorf("content text was changed: %s", r.raw())
	}
	if strings.Contains(strings.ReplaceAll(r.raw(), `{'taskId':'1'}`, ""), `"1"`) {
		t.Errorf("a server's own id is shown: %s", r.raw())
	}
}

func b47Modern(t *testing.T, rig *routeRig, c *routeClient, tasks map[string]*routeServer) {
	t.Helper()
	// One listen for both: one acknowledgement, one id.
	ids := make([]string, 0, 2)
	for id := range tasks {
		ids = append(ids, id)
	}
	listen := c.start("subscriptions/listen", `{"notifications":{"toolsListChanged":true,"taskIds":["`+ids[0]+`","`+ids[1]+`","unknown"]}}`)
	listenID := fmt.Sprint(c.n)
	ack, ok := listen.Next(t.Context())
	m, err := jsonrpc.Decode(ack.Raw, jsonrpc.Limits{})
	if !ok || ack.Raw == nil && ack.Begin { // the stream's beginning
		ack, _ = listen.Next(t.Context())
		m, err = jsonrpc.Decode(ack.Raw, jsonrpc.Limits{})
	}
	if err != nil || m.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("no acknowledgement: %s", ack.Raw)
	}
	for _, id := range ids {
		if !strings.Contains(string(ack.Raw), `"`+id+`"`) {
			t.Errorf("%s is not acknowledged: %s", id, ack.Raw)
		}
	}
	if strings.Contains(string(ack.Raw), "unknown") || !strings.Contains(string(ack.Raw), `subscriptionId":`+listenID) {
		t.Errorf("acknowledged: %s", ack.Raw)
	}
	for id, server := range tasks {
		// A header that names another task than the body is refused (2026-07-28
		// streamable-http, Server Validation) before anything goes up.
		in := c.inbound(c.request("tasks/get", `{"taskId":"`+id+`"}`), nil)
		in.Caller.Header.Set("Mcp-Protocol-Version", translate.LatestModern)
		if _, cond := translate.Classify(in.Caller.Header, in.Frame.Msg); cond != translate.CondNone {
			t.Errorf("the header with the task's own id is refused: %s", cond)
		}
		in.Caller.Header.Set("Mcp-Name", "OTHER")
		if _, cond := translate.Classify(in.Caller.Header, in.Frame.Msg); cond != translate.CondHeaderMismatch {
			t.Errorf("a header that names another task: %q", cond)
		}
		r := c.do("tasks/update", `{"taskId":"`+id+`","inputResponses":{}}`)
		if r.code() != 0 {
			t.Errorf("tasks/update: %s", r.raw())
		}
		server.finish("1")
		time.Sleep(2 * time.Second)
		if r = c.get(id); r.result("taskId") != id || r.result("status") != "completed" {
			t.Errorf("tasks/get: %s", r.raw())
		}
		b47Whole(t, r, server.name)
		server.push("1")
	}
	synctest.Wait()
	heard := map[string]bool{}
	for len(heard) < 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		o, ok := listen.Next(ctx)
		cancel()
		if !ok || o.Final {
			t.Fatalf("the listen ended: %s", o.Raw)
		}
		for id := range tasks {
			if strings.Contains(string(o.Raw), `"taskId":"`+id+`"`) {
				heard[id] = true
			}
		}
		if !strings.Contains(string(o.Raw), `subscriptionId":`+listenID) {
			t.Errorf("not under the client's listen id: %s", o.Raw)
		}
	}
	listen.Gone()
	for id := range tasks {
		if r := c.do("tasks/cancel", `{"taskId":"`+id+`"}`); r.code() != 0 {
			t.Errorf("tasks/cancel: %s", r.raw())
		}
	}
}

func b47Legacy(t *testing.T, rig *routeRig, c *routeClient, tasks map[string]*routeServer) {
	t.Helper()
	listed := map[string]bool{}
	for cursor := ""; ; {
		params := "{}"
		if cursor != "" {
			params = `{"cursor":"` + cursor + `"}`
		}
		r := c.do("tasks/list", params)
		if r.code() != 0 {
			t.Fatalf("tasks/list: %s", r.raw())
		}
		for v := range r.msg.Result().Get("tasks").Elems() {
			id, _ := v.Get("taskId").Str()
			if listed[id] {
				t.Errorf("%s is listed twice", id)
			}
			listed[id] = true
		}
		if cursor = r.result("nextCursor"); cursor == "" {
			break
		}
	}
	if len(listed) != 2 {
		t.Errorf("listed: %v", listed)
	}
	for id, server := range tasks {
		if !listed[id] {
			t.Errorf("the task of %s is not listed", server.name)
		}
		if r := c.get(id); r.result("taskId") != id {
			t.Errorf("tasks/get: %s", r.raw())
		}
		server.finish("1")
		r := c.do("tasks/result", `{"taskId":"`+id+`"}`)
		if !strings.Contains(r.raw(), `"taskId":"`+id+`"`) {
			t.Errorf("the result is not related to its task: %s", r.raw())
		}
		b47Whole(t, r, server.name)
		if r := c.do("tasks/cancel", `{"taskId":"`+id+`"}`); r.code() != -32602 && r.result("taskId") != id {
			t.Errorf("tasks/cancel: %s", r.raw())
		}
	}
}

// b47Upstream: what servers saw names tasks by their own id alone, in body and
// header alike.
func b47Upstream(t *testing.T, servers ...*routeServer) {
	t.Helper()
	for _, s := range servers {
		s.with(func() {
			for _, out := range s.saw {
				if strings.Contains(string(out.Msg), "tb1_") {
					t.Errorf("%s saw a handle: %s", s.name, out.Msg)
				}
				if s.era == translate.Modern && strings.Contains(string(out.Msg), `"method":"tasks/`) {
					if got := out.Header.Get("Mcp-Name"); got != "1" && !strings.Contains(string(out.Msg), `"taskId":"unknown"`) {
						t.Errorf("%s: Mcp-Name is %q for %s", s.name, got, out.Msg)
					}
				}
			}
		})
	}
}

// A legacy client's session bound to one server works with tasks of another:
// state, result, cancel, and the questions of its task, answered by ids that
// never meet those of the session's own server.
func TestRouteTaskOfAnotherServer(t *testing.T) {
	for _, e := range eras {
		t.Run(e.name, func(t *testing.T) {
			a, b := newRouteServer("a", e.a), newRouteServer("b", e.b)
			routed(t, func(t *testing.T, rig *routeRig) {
				rig.on("b")
				first := rig.legacy("ann")
				id := first.newTask()
				b.asks("1")
				first.delete()
				rig.on("a")
				c := rig.legacy("ann")
				before := b.openings()
				if c.at() != "a" || b.openings() != before {
					t.Fatalf("a session was opened at b that nobody needed")
				}
				// Its own server asks, too, while the other's task does.
				own := c.start("tools/call", `{"name":"t","arguments":{"do":"ask"}}`)
				result := c.start("tasks/result", `{"taskId":"`+id+`"}`)
				synctest.Wait()
				asked := map[string]*jsonrpc.Message{}
				for name, s := range map[string]*session.ClientStream{"a": own, "b": result} {
					for asked[name] == nil {
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						o, ok := s.Next(ctx)
						cancel()
						if !ok || o.Final {
							t.Fatalf("%s asked nothing: %s", name, o.Raw)
						}
						if m, err := jsonrpc.Decode(o.Raw, jsonrpc.Limits{}); err == nil && m.Kind == jsonrpc.Request {
							asked[name] = m
						}
					}
				}
				if asked["a"].ID.Key() == asked["b"].ID.Key() {
					t.Errorf("two questions have the id %s", asked["a"].ID.Raw())
				}
				for name, m := range asked {
					if text, _ := m.At("params", "message").Str(); text != "["+name+"] Which?" {
						t.Errorf("the question of %s does not name it: %q", name, text)
					}
				}
				if related := translate.RelatedTask(asked["b"].Params()); related != id {
					t.Errorf("the question is related to %q", related)
				}
				c.answer(asked["b"])
				c.answer(asked["a"])
				if r := c.finish(own); !strings.Contains(r.raw(), "accept") {
					t.Errorf("the own server's call: %s", r.raw())
				}
				time.Sleep(3 * time.Second)
				if r := c.finish(result); !strings.Contains(r.raw(), "b result") {
					t.Errorf("the other's result: %s", r.raw())
				}
				if b.openings() > before+1 {
					t.Errorf("%d sessions were opened at b", b.openings()-before)
				}
				c.delete()
				synctest.Wait()
				for _, s := range rig.route.Status() {
					if s.Sessions != 0 {
						t.Errorf("after DELETE: %+v", s)
					}
				}
			}, a, b)
		})
	}
}
