package session_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// taskEnds are ways a legacy client's task comes to its end. do is what its tool
// is told; end, if not nil, ends the n-th task a server has, whose client knows it
// by id.
var taskEnds = []struct {
	status, name string
	do           string
	end          func(s *routeServer, c *routeClient, n, id string)
	// ours: only the proxy knows how the task ended.
	ours bool
}{
	{"completed", "completed", "task", func(s *routeServer, _ *routeClient, n, _ string) { s.ends(n, "completed") }, false},
	{"failed", "failed", "task", func(s *routeServer, _ *routeClient, n, _ string) { s.ends(n, "failed") }, false},
	{"cancelled", "cancelled by its client", "task", func(_ *routeServer, c *routeClient, _, id string) { c.do("tasks/cancel", `{"taskId":"`+id+`"}`) }, false},
	{"cancelled", "cancelled by its server", "task", func(s *routeServer, _ *routeClient, n, _ string) { s.ends(n, "cancelled") }, false},
	{"completed", "answered at once", "plain", nil, true},
	{"failed", "refused by its server before that had a task", "hang", func(s *routeServer, _ *routeClient, _, _ string) { s.refuseHung() }, true},
	{"cancelled", "cancelled before its server had a task", "hang", func(_ *routeServer, c *routeClient, _, id string) { c.do("tasks/cancel", `{"taskId":"`+id+`"}`) }, true},
}

func (s *routeServer) ends(id, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[id] = status
}

// refuseHung answers all calls that hang with an error.
func (s *routeServer) refuseHung() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.hung {
		st.frames <- jsonrpc.NewError(rid(st), -32603, "refused by "+s.name, nil)
		close(st.frames)
	}
	s.hung = nil
}

// beginTask asks a legacy client's tool for a task; refused says that a limit was
// in the way, and then whether it was said as it should be.
func (c *routeClient) beginTask(do string) (id string, refused bool) {
	c.rig.t.Helper()
	r := c.do("tools/call", `{"name":"t","arguments":{"do":"`+do+`"},"task":{}}`)
	if id = r.result("task", "taskId"); id != "" {
		return id, false
	}
	if r.out.Status != http.StatusTooManyRequests || !strings.Contains(r.raw(), `"limit":"tasks"`) || !strings.Contains(r.raw(), "retryAfterMs") {
		c.rig.t.Fatalf("no task, and no limit: %d %s", r.out.Status, r.raw())
	}
	return "", true
}

// The limit of concurrent tasks of a legacy client counts none that has ended,
// however it did, and remembers it.
func TestLimitEndedTasks_LegacyClient(t *testing.T) {
	for _, tt := range taskEnds {
		t.Run(tt.name, func(t *testing.T) {
			a := newRouteServer("a", translate.Modern)
			routed(t, func(t *testing.T, rig *routeRig) {
				rig.policy.Tasks = session.Limit{Each: 3, All: 100}
				rig.update(rig.up(a, 1))
				c := rig.legacy("ann")
				for round := range 2 {
					var ids []string
					for range 3 {
						id, refused := c.beginTask(tt.do)
						if refused {
							t.Fatalf("round %d: refused after %d", round, len(ids))
						}
						ids = append(ids, id)
					}
					if _, refused := c.beginTask("task"); tt.end != nil && !refused {
						t.Fatalf("round %d: a fourth task at a time", round)
					} else if tt.end == nil && refused {
						t.Fatalf("round %d: ended tasks count", round)
					} else if tt.end == nil {
						return
					}
					for i, id := range ids {
						tt.end(a, c, fmt.Sprint(3*round+i+1), id)
						time.Sleep(time.Second)
						if r := c.get(id); r.result("status") != tt.status {
							t.Fatalf("%s is %s, want %s", id, r.raw(), tt.status)
						}
					}
					if tt.ours {
						return // a second round is TestLimitEndedTasks_Bound
					}
				}
			}, a)
		})
	}
}

// Ended tasks are remembered, as many for a caller as he may have at a time. Those
// above that are forgotten soon where their server knows them, and found there
// again; those only the proxy knows are kept for their time, and while they fill
// the bound there are no new ones.
func TestLimitEndedTasks_Bound(t *testing.T) {
	for _, tt := range taskEnds {
		t.Run(tt.name, func(t *testing.T) {
			a := newRouteServer("a", translate.Modern)
			routed(t, func(t *testing.T, rig *routeRig) {
				rig.policy.Tasks = session.Limit{Each: 2, All: 100}
				rig.update(rig.up(a, 1))
				c := rig.legacy("ann")
				var ids []string
				for n := 1; n <= 6; n++ {
					id, refused := c.beginTask(tt.do)
					if refused {
						break
					}
					time.Sleep(time.Second)
					ids = append(ids, id)
					if tt.end != nil {
						tt.end(a, c, fmt.Sprint(n), id)
						time.Sleep(time.Second)
					}
					if r := c.get(id); r.result("status") != tt.status {
						t.Fatalf("%s is %s, want %s", id, r.raw(), tt.status)
					}
				}
				time.Sleep(time.Minute)
				asked := a.sawMethod("tasks/get")
				for _, id := range ids {
					if r := c.get(id); r.result("status") != tt.status {
						t.Errorf("%s is %s, want %s", id, r.raw(), tt.status)
					}
				}
				asked = a.sawMethod("tasks/get") - asked
				if tt.ours {
					if len(ids) != 3 || asked != 0 {
						t.Errorf("%d tasks, %d asked about; want 3 that are kept", len(ids), asked)
					}
					time.Sleep(25 * time.Hour)
					c.open() // the session was idle for too long
					if _, refused := c.beginTask(tt.do); refused {
						t.Error("refused although their time is over")
					}
					return
				}
				if len(ids) != 6 || asked != 4 {
					t.Errorf("%d tasks, %d asked about; want 6, of which two are remembered", len(ids), asked)
				}
			}, a)
		})
	}
}

// The same for a modern client before a legacy server: two ended tasks of six are
// remembered, the rest is asked for again, and none is lost.
func TestLimitEndedTasks_ModernClient(t *testing.T) {
	a := newRouteServer("a", translate.Legacy)
	routed(t, func(t *testing.T, rig *routeRig) {
		rig.policy.Tasks = session.Limit{Each: 2, All: 100}
		rig.update(rig.up(a, 1))
		c := rig.modern("ann")
		var ids []string
		for n := 1; n <= 6; n++ {
			id := c.newTask()
			ids = append(ids, id)
			a.finish(fmt.Sprint(n))
			time.Sleep(time.Second)
			if r := c.get(id); r.result("status") != "completed" {
				t.Fatalf("task %d: %s", n, r.raw())
			}
		}
		for _, wait := range []time.Duration{0, time.Minute} {
			time.Sleep(wait)
			asked := a.sawMethod("tasks/get")
			for n, id := range ids {
				if r := c.get(id); r.result("status") != "completed" || !strings.Contains(r.raw(), "a result") {
					t.Errorf("task %d: %s", n+1, r.raw())
				}
			}
			asked = a.sawMethod("tasks/get") - asked
			if want := map[time.Duration]int{0: 0, time.Minute: 4}[wait]; asked != want {
				t.Errorf("after %v more %d were asked about, want %d", wait, asked, want)
			}
		}
	}, a)
}
