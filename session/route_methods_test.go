package session_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// methodRow is a method and what it is sent with; TASK stands for a task of the
// other server than the one that new work goes to.
type methodRow struct {
	method, params string
	// other: it is led to the other server, since it names something of it.
	other bool
	// local: no server need see it.
	local bool
	// code of the answer; 0: a result.
	code int64
}

var modernMethods = []methodRow{
	{method: "server/discover"},
	{method: "tools/list"},
	{method: "tools/call", params: `{"name":"t","arguments":{"do":"x"}}`},
	{method: "prompts/list"},
	{method: "prompts/get", params: `{"name":"p"}`},
	{method: "resources/list"},
	{method: "resources/templates/list"},
	{method: "resources/read", params: `{"uri":"u:1"}`},
	{method: "completion/complete", params: `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`},
	{method: "tasks/get", params: `{"taskId":"TASK"}`, other: true},
	{method: "tasks/update", params: `{"taskId":"TASK","inputResponses":{}}`, other: true},
	{method: "tasks/cancel", params: `{"taskId":"TASK"}`, other: true},
	{method: "tasks/result", params: `{"taskId":"TASK"}`, local: true, code: -32601},
	{method: "tasks/list", local: true, code: -32601},
	{method: "tasks/get", params: `{"taskId":"TASKx"}`, local: true, code: -32602},
	{method: "tasks/update", params: `{"taskId":"TASKx","inputResponses":{}}`, local: true, code: -32602},
	{method: "tasks/cancel", params: `{"taskId":"TASKx"}`, local: true, code: -32602},
	{method: "tools/list", params: `{"cursor":"TASK"}`, local: true, code: -32602},
	{method: "tools/call", params: `{"name":"t","requestState":"TASK","inputResponses":{}}`, local: true, code: -32602},
}

var legacyMethods = []methodRow{
	{method: "ping", local: true},
	{method: "tools/list"},
	{method: "tools/call", params: `{"name":"t","arguments":{"do":"x"}}`},
	{method: "prompts/list"},
	{method: "prompts/get", params: `{"name":"p"}`},
	{method: "resources/list"},
	{method: "resources/templates/list"},
	{method: "resources/read", params: `{"uri":"u:1"}`},
	{method: "completion/complete", params: `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`},
	{method: "logging/setLevel", params: `{"level":"info"}`, local: true},
	{method: "tasks/list", local: true},
	{method: "tasks/get", params: `{"taskId":"TASK"}`, other: true},
	{method: "tasks/result", params: `{"taskId":"TASK"}`, other: true},
	{method: "tasks/cancel", params: `{"taskId":"TASK"}`, other: true, code: -32602}, // it is over by now
	{method: "tasks/get", params: `{"taskId":"TASKx"}`, local: true, code: -32602},
	{method: "tasks/result", params: `{"taskId":"TASKx"}`, local: true, code: -32602},
	{method: "tasks/cancel", params: `{"taskId":"TASKx"}`, local: true, code: -32602},
	{method: "tasks/list", params: `{"cursor":"TASK"}`, local: true, code: -32602},
}

// Each method, of either era, on routes of one era and of two: led to the server
// its session or weights say, or to the one that has what it names; nothing of
// it reaches another. What a stranger brings is unknown, in the same words.
func TestRouteEveryMethod(t *testing.T) {
	for _, e := range eras {
		for era, rows := range map[translate.Era][]methodRow{translate.Modern: modernMethods, translate.Legacy: legacyMethods} {
			t.Run(fmt.Sprintf("%v client, %s", era, e.name), func(t *testing.T) {
				a, b := newRouteServer("a", e.a), newRouteServer("b", e.b)
				routed(t, func(t *testing.T, rig *routeRig) {
					rig.on("b")
					c := rig.client(era, "ann")
					task := c.newTask()
					b.finish("1")
					rig.on("a")
					if era == translate.Legacy {
						c.open()
					}
					stranger := rig.client(era, "bob")
					for _, row := range rows {
						time.Sleep(2 * time.Second)
						everyMethod(t, c, row, task, a, b)
						if row.other {
							r := stranger.do(row.method, strings.ReplaceAll(row.params, "TASK", task))
							u := stranger.do(row.method, strings.ReplaceAll(row.params, "TASK", "nothing"))
							if r.code() != -32602 || string(r.msg.Error().Raw()) != string(u.msg.Error().Raw()) {
								t.Errorf("%s with a stolen id: %s; with an unknown one: %s", row.method, r.raw(), u.raw())
							}
						}
					}
				}, a, b)
			})
		}
	}
}

func everyMethod(t *testing.T, c *routeClient, row methodRow, task string, a, b *routeServer) {
	t.Helper()
	before := map[*routeServer]int{a: a.sawMethod(row.method), b: b.sawMethod(row.method)}
	r := c.do(row.method, strings.ReplaceAll(row.params, "TASK", task))
	if r.msg == nil || r.code() != row.code {
		t.Errorf("%s %s: %s, want code %d", row.method, row.params, r.raw(), row.code)
	}
	if row.local || row.code != 0 {
		return
	}
	to, not := a, b
	if row.other {
		to, not = b, a
	}
	if not.sawMethod(row.method) != before[not] {
		t.Errorf("%s: %s saw it", row.method, not.name)
	}
	// What the proxy knows already, no server need see.
	cached := row.other || row.method == "server/discover"
	if to.sawMethod(row.method) == before[to] && !cached {
		t.Errorf("%s: %s did not see it", row.method, to.name)
	}
	if strings.Contains(r.raw(), `"`+not.name+`"`) || strings.Contains(r.raw(), `"text":"`+not.name+` `) {
		t.Errorf("%s: answered by %s: %s", row.method, not.name, r.raw())
	}
}

// A legacy session's messages that are no requests find the server they are
// for: cancels, progress, changes of roots, and streams that are resumed.
func TestRouteSessionMessages(t *testing.T) {
	a, b := newRouteServer("a", translate.Legacy), newRouteServer("b", translate.Legacy)
	routed(t, func(t *testing.T, rig *routeRig) {
		rig.on("b")
		c := rig.legacy("ann")
		id := c.newTask()
		c.delete()
		rig.on("a")
		c.open()
		result := c.start("tasks/result", `{"taskId":"`+id+`"}`)
		reply := result // read a little, then leave and come back
		synctest.Wait()
		b.with(func() {
			b.pushes["result/1"].frames <- []byte(`{"jsonrpc":"2.0","id":9,"method":"roots/list","params":{"_meta":{"progressToken":5}}}`)
		})
		var ask *jsonrpc.Message
		prime, began := reply.OpenEvents(nil)
		if !began {
			t.Fatal("the stream cannot be resumed")
		}
		for ask == nil {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			o, ok := reply.Next(ctx)
			cancel()
			if !ok || o.Final {
				t.Fatalf("the server's question is missing: %s", o.Raw)
			}
			if m, err := jsonrpc.Decode(o.Raw, jsonrpc.Limits{}); err == nil && m.Kind == jsonrpc.Request {
				ask = m
			}
		}
		token, _ := ask.At("params", "_meta", translate.MetaProgress).Str()
		if text, _ := ask.At("id").Str(); !strings.HasPrefix(text, "tb-") || !strings.HasPrefix(token, "tb-") {
			t.Errorf("the other server's question has the id %s and the token %q", ask.ID.Raw(), token)
		}
		c.note("notifications/progress", `{"progressToken":"`+token+`","progress":1}`)
		c.note("notifications/roots/list_changed", "")
		c.send([]byte(`{"jsonrpc":"2.0","id":` + string(ask.ID.Raw()) + `,"result":{"roots":[]}}`))
		c.note("notifications/cancelled", `{"requestId":99}`)
		synctest.Wait()
		for name, want := range map[string][2]int{"notifications/progress": {0, 1}, "notifications/roots/list_changed": {1, 1}, "notifications/cancelled": {1, 0}} {
			if got := [2]int{a.sawMethod(name), b.sawMethod(name)}; got != want {
				t.Errorf("%s: seen by a and b %v, want %v", name, got, want)
			}
		}
		b.with(func() {
			if len(b.answers) != 1 || string(b.answers[0].ID.Raw()) != "9" {
				t.Errorf("b has the answers %v", b.answers)
			}
			for _, out := range b.saw {
				if strings.Contains(string(out.Msg), "tb-") {
					t.Errorf("b saw a marked id: %s", out.Msg)
				}
			}
		})
		result.Gone()
		synctest.Wait()
		resumed := c.verb(http.MethodGet, prime.EventID)
		b.finish("1")
		seen := ""
		for !strings.Contains(seen, "b result") {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			o, ok := resumed.Next(ctx)
			cancel()
			seen += string(o.Raw)
			if !ok || o.Final && !strings.Contains(seen, "b result") {
				t.Fatalf("the stream was not resumed: %s (status %d)", seen, o.Status)
			}
		}
		if !strings.Contains(seen, `"tb-`) {
			t.Errorf("a question was replayed under the server's own id: %s", seen)
		}
		resumed.Gone()
		// Another's session is unknown here, with or without such an id.
		thief := rig.legacy("bob")
		thief.session = c.session
		if r := thief.get(id); r.out.Status != 404 {
			t.Errorf("another's session: %d %s", r.out.Status, r.raw())
		}
		if r := thief.send([]byte(`{"jsonrpc":"2.0","id":` + string(ask.ID.Raw()) + `,"result":{}}`)); r.out.Status != 404 {
			t.Errorf("an answer in another's session: %d", r.out.Status)
		}
	}, a, b)
}

// A cancel finds the request of a session that runs at another server.
func TestRouteCancelElsewhere(t *testing.T) {
	for _, e := range eras {
		t.Run(e.name, func(t *testing.T) {
			a, b := newRouteServer("a", e.a), newRouteServer("b", e.b)
			routed(t, func(t *testing.T, rig *routeRig) {
				rig.on("b")
				c := rig.legacy("ann")
				id := c.newTask()
				rig.on("a")
				c.open()
				result := c.start("tasks/result", `{"taskId":"`+id+`"}`)
				request := c.n
				synctest.Wait()
				c.note("notifications/cancelled", fmt.Sprintf(`{"requestId":%d}`, request))
				synctest.Wait()
				if n := a.sawMethod("notifications/cancelled"); n != 0 {
					t.Errorf("a saw the cancel")
				}
				if e.b == translate.Legacy {
					if n := b.sawMethod("notifications/cancelled"); n != 1 {
						t.Errorf("b saw %d cancels", n)
					}
				} else if r := c.finish(result); r.out.Raw != nil {
					t.Errorf("the wait was answered: %s", r.raw())
				}
			}, a, b)
		})
	}
}
