package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbridge/translate"
)

// A task made while its route had one server keeps the id its client knows when
// a second one comes, wherever that id stands; the server's owner is looked for
// once.
func TestRouteIDsFromBefore(t *testing.T) {
	for _, second := range []translate.Era{translate.Modern, translate.Legacy} {
		for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
			t.Run(fmt.Sprintf("%v, then a server of %v", era, second), func(t *testing.T) {
				a, b := newRouteServer("a", era), newRouteServer("b", second)
				routed(t, func(t *testing.T, rig *routeRig) {
					c := rig.client(era, "ann")
					id := c.newTask()
					if id != "1" {
						t.Fatalf("the id is %q", id)
					}
					old := *c // a session begun before
					rig.update(rig.ups[0], rig.up(b, 1))
					rig.on("b")
					if era == translate.Legacy {
						c.open() // and one begun after
					}
					ofB := c.newTask()
					if ofB == "1" {
						t.Fatalf("b's own id is shown")
					}
					looks := b.sawMethod("tasks/get")
					for range 3 {
						if r := c.get("1"); r.result("taskId") != "1" || r.result("status") != "working" {
							t.Fatalf("the task from before: %s", r.raw())
						}
					}
					if era == second && b.sawMethod("tasks/get") > looks+1 {
						t.Errorf("b was asked %d times", b.sawMethod("tasks/get")-looks)
					}
					time.Sleep(2 * time.Second)
					if r := c.get(ofB); r.result("taskId") != ofB {
						t.Errorf("the task of b: %s", r.raw())
					}
					stranger := rig.client(era, "bob")
					if r := stranger.get("2"); r.code() != -32602 {
						t.Errorf("an id no server knows: %s", r.raw())
					}
					a.finish("1")
					if era == translate.Modern {
						if r := c.get("1"); !strings.Contains(r.raw(), "a result") {
							t.Errorf("its result: %s", r.raw())
						}
						return
					}
					for _, c := range []*routeClient{&old, c} {
						r := c.do("tasks/result", `{"taskId":"1"}`)
						if !strings.Contains(r.raw(), "a result") || !strings.Contains(r.raw(), `"taskId":"1"`) {
							t.Errorf("its result: %s", r.raw())
						}
					}
					if old.at() != "a" || old.newTask() != "2" {
						t.Error("the session from before does not go on as it did")
					}
				}, a)
			})
		}
	}
}

// A cursor given while its route had one server leads back to that one.
func TestRouteCursorFromBefore(t *testing.T) {
	a, b := newRouteServer("a", translate.Modern), newRouteServer("b", translate.Legacy)
	routed(t, func(t *testing.T, rig *routeRig) {
		c := rig.modern("ann")
		cursor := c.do("tools/list", "").result("nextCursor")
		rig.update(rig.ups[0], rig.up(b, 1))
		rig.on("b")
		if r := c.do("tools/list", `{"cursor":"`+cursor+`"}`); cursor != "page2" || !strings.Contains(r.raw(), `"a"`) {
			t.Errorf("the second page after cursor %q: %s", cursor, r.raw())
		}
	}, a)
}

// Where callers share what goes up nobody's word but the handle's counts.
func TestRouteIDsFromBefore_SharedCredential(t *testing.T) {
	a, b := newRouteServer("a", translate.Modern), newRouteServer("b", translate.Modern)
	routed(t, func(t *testing.T, rig *routeRig) {
		for i := range rig.ups {
			rig.ups[i].Policy.SealSameEra = true
		}
		rig.update(rig.ups...)
		c := rig.modern("ann")
		c.newTask()
		looks := a.sawMethod("tasks/get") + b.sawMethod("tasks/get")
		if r := c.get("1"); r.code() != -32602 {
			t.Errorf("a server's own id opens a task: %s", r.raw())
		}
		if got := a.sawMethod("tasks/get") + b.sawMethod("tasks/get"); got != looks {
			t.Errorf("servers were asked with a credential that is not the caller's")
		}
	}, a, b)
}

// Cursors and states lead back, those from before the second server too.
func TestRouteCursorsAndStates(t *testing.T) { cursorsAndStates(t, false) }

// So do those that were sealed with a key that was taken out since.
func TestRouteKeysChange_CursorsAndStates(t *testing.T) { cursorsAndStates(t, true) }

func cursorsAndStates(t *testing.T, keysChange bool) {
	for _, e := range eras {
		t.Run(e.name, func(t *testing.T) {
			a, b := newRouteServer("a", e.a), newRouteServer("b", e.b)
			routed(t, func(t *testing.T, rig *routeRig) {
				rig.turns = keysChange
				rig.on("a")
				c, other := rig.modern("ann"), rig.modern("bob")
				for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
					rig.on("a")
					cursor := c.do(method, "").result("nextCursor")
					if cursor == "" || cursor == "page2" {
						t.Fatalf("%s: cursor %q", method, cursor)
					}
					rig.on("b")
					if r := c.do(method, `{"cursor":"`+cursor+`"}`); r.code() != 0 || !strings.Contains(r.raw(), `"a"`) {
						t.Errorf("%s: the second page is not a's: %s", method, r.raw())
					}
					if r := other.do(method, `{"cursor":"`+cursor+`"}`); r.code() != -32602 {
						t.Errorf("%s: a stolen cursor: %s", method, r.raw())
					}
				}
				rig.on("a")
				r := c.do("tools/call", `{"name":"t","arguments":{"do":"ask"}}`)
				state := r.result("requestState")
				if state == "" || !strings.Contains(r.raw(), `"[a] Which?"`) {
					t.Fatalf("asked: %s", r.raw())
				}
				key := "k"
				if e.a == translate.Legacy {
					key = "q1"
				}
				rig.on("b")
				params := `{"name":"t","arguments":{"do":"ask"},"requestState":"` + state + `","inputResponses":{"` + key + `":{"action":"accept","content":{}}}}`
				if r := other.do("tools/call", params); r.code() != -32602 {
					t.Errorf("a stolen state: %s", r.raw())
				}
				if r := c.do("tools/call", params); !strings.Contains(r.raw(), "accept") || !strings.Contains(r.raw(), `"text":"a `) {
					t.Errorf("answered: %s", r.raw())
				}
				if b.sawMethod("tools/call") != 0 && e.b == translate.Legacy {
					t.Errorf("b saw a call")
				}
			}, a, b)
		})
	}
}

// A list of tasks goes through the session's own server and then the others.
func TestRouteTaskList(t *testing.T) { taskList(t, false) }

// So it does where the state key changes between its pages.
func TestRouteKeysChange_TaskList(t *testing.T) { taskList(t, true) }

func taskList(t *testing.T, keysChange bool) {
	for _, e := range eras {
		t.Run(e.name, func(t *testing.T) {
			a, b := newRouteServer("a", e.a), newRouteServer("b", e.b)
			routed(t, func(t *testing.T, rig *routeRig) {
				for i := range rig.ups {
					rig.ups[i].Policy.PageSize = 2
				}
				rig.turns = keysChange
				want := map[string]bool{}
				var c *routeClient
				for _, name := range []string{"b", "a"} {
					rig.on(name)
					c = rig.legacy("ann")
					for range 5 {
						want[c.newTask()] = true
					}
				}
				fresh := rig.legacy("bob") // has none, so that nobody else is asked
				before := b.openings()
				if r := fresh.do("tasks/list", ""); r.result("nextCursor") != "" && e.a == translate.Modern || b.openings() != before {
					t.Errorf("for one who has no tasks: %s, %d sessions opened", r.raw(), b.openings()-before)
				}
				got, cursor := map[string]bool{}, ""
				for pages := 0; ; pages++ {
					params := "{}"
					if cursor != "" {
						params = `{"cursor":"` + cursor + `"}`
					}
					r := c.do("tasks/list", params)
					for v := range r.msg.Result().Get("tasks").Elems() {
						id, _ := v.Get("taskId").Str()
						got[id] = true
					}
					if cursor = r.result("nextCursor"); cursor == "" || pages > 20 {
						break
					}
					if r := fresh.do("tasks/list", `{"cursor":"`+cursor+`"}`); r.code() != -32602 {
						t.Errorf("a stolen cursor: %s", r.raw())
					}
					if keysChange {
						rig.on("a")
					}
				}
				for id := range want {
					if !got[id] {
						t.Errorf("%s is not listed", id)
					}
				}
				if len(got) != len(want) {
					t.Errorf("%d tasks are listed, %d were made", len(got), len(want))
				}
			}, a, b)
		})
	}
}
