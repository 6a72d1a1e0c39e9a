package session_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// onGet has a server ask and say something where no request of a client's is
// open: a modern one in its task, a legacy one on the session's GET stream.
func (s *routeServer) onGet(t *testing.T) {
	t.Helper()
	if s.era == translate.Modern {
		s.asks("1")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, st := range s.pushes {
		if strings.HasPrefix(key, "get/") && st.ctx.Err() == nil {
			for _, raw := range []string{
				`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
				`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{` + s.task("1") + `}}`,
				`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"Which?","requestedSchema":{"type":"object","properties":{}},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}}}`,
			} {
				st.frames <- []byte(raw)
			}
			return
		}
	}
	t.Errorf("%s has no GET stream to ask on", s.name)
}

// gets counts the GET streams a legacy server has open.
func (s *routeServer) gets() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, st := range s.pushes {
		if strings.HasPrefix(key, "get/") && st.ctx.Err() == nil {
			n++
		}
	}
	return n
}

// take reads what a stream holds now.
func (c *routeClient) take(s *session.ClientStream) {
	c.rig.t.Helper()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		o, ok := s.Next(ctx)
		cancel()
		if !ok || o.Final {
			return
		}
		r := routeReply{out: o}
		if o.Raw != nil {
			r.msg, _ = jsonrpc.Decode(o.Raw, jsonrpc.Limits{})
		}
		c.took(r)
	}
}

// Where no tasks/result is open for it, a task of another upstream asks its
// client on the stream the session listens on, as one of the session's own does.
func TestRouteTaskOfAnotherServer_AsksOnGet(t *testing.T) {
	for _, e := range eras {
		for _, order := range []string{"listens first", "names the task first"} {
			t.Run(e.name+", "+order, func(t *testing.T) {
				a, b := newRouteServer("a", e.a), newRouteServer("b", e.b)
				routed(t, func(t *testing.T, rig *routeRig) { asksOnGet(t, rig, b, order == "listens first") }, a, b)
			})
		}
	}
}

func asksOnGet(t *testing.T, rig *routeRig, b *routeServer, listensFirst bool) {
	rig.on("b")
	first := rig.legacy("ann")
	id := first.newTask()
	first.delete()
	rig.on("a")
	c := rig.legacy("ann")
	var get *session.ClientStream
	if listensFirst {
		get = c.verb(http.MethodGet, "")
		synctest.Wait()
		c.get(id)
	} else {
		c.get(id)
		synctest.Wait()
		get = c.verb(http.MethodGet, "")
	}
	synctest.Wait()
	if n := b.sawMethod("subscriptions/listen"); n > 1 {
		t.Errorf("b was asked to listen %d times; the session's client has lists of a alone", n)
	}
	b.onGet(t)
	time.Sleep(time.Second)
	c.get(id) // as clients poll; it is how we come to know that a modern server asks
	time.Sleep(5 * time.Second)
	c.take(get)
	if len(c.asks) != 1 {
		t.Fatalf("the client was asked %d times on its GET stream", len(c.asks))
	}
	ask := c.asks[0]
	if text, _ := ask.At("params", "message").Str(); text != "[b] Which?" {
		t.Errorf("the question is %q", text)
	}
	if related := translate.RelatedTask(ask.Params()); related != id {
		t.Errorf("the question is related to %q", related)
	}
	for _, n := range c.notes {
		if n.Method != "notifications/tasks/status" {
			t.Errorf("carried from b: %s", n.Raw)
		}
		if got, _ := n.At("params", "taskId").Str(); got != id {
			t.Errorf("a status of task %q", got)
		}
	}
	c.answer(ask)
	time.Sleep(5 * time.Second)
	if b.era == translate.Modern {
		if s := c.get(id).result("status"); s != "completed" {
			t.Errorf("after the answer the task is %s", s)
		}
	} else {
		b.with(func() {
			if len(b.answers) != 1 || string(b.answers[0].ID.Raw()) != "7" {
				t.Errorf("b got the answers %v", b.answers)
			}
		})
		if b.gets() != 1 {
			t.Errorf("%d GET streams are open at b", b.gets())
		}
	}
	get.Gone()
	synctest.Wait()
	if b.gets() != 0 {
		t.Errorf("a GET stream at b outlived the client's")
	}
	c.delete()
	synctest.Wait()
	for _, s := range rig.route.Status() {
		if !s.Empty && s.Sessions+s.Calls > 0 {
			t.Errorf("after DELETE: %+v", s)
		}
	}
}

// A stream that the other server ends is opened anew while the client listens;
// one it does not offer is not asked for again.
func TestRouteCarriesOn(t *testing.T) {
	for _, offers := range []bool{true, false} {
		a, b := newRouteServer("a", translate.Modern), newRouteServer("b", translate.Legacy)
		b.noGet = !offers
		routed(t, func(t *testing.T, rig *routeRig) {
			rig.on("b")
			id := rig.legacy("ann").newTask()
			rig.on("a")
			c := rig.legacy("ann")
			get := c.verb(http.MethodGet, "")
			c.get(id)
			for range 20 { // each time there is one, it is ended
				time.Sleep(time.Minute)
				b.with(func() {
					for key, st := range b.pushes {
						if strings.HasPrefix(key, "get/") {
							delete(b.pushes, key)
							close(st.frames)
						}
					}
				})
			}
			time.Sleep(time.Minute)
			want := 1
			if offers {
				want = 21
			}
			if n := b.sawGets(); n != want {
				t.Errorf("offers %v: b was asked for %d streams, want %d", offers, n, want)
			}
			get.Gone()
		}, a, b)
	}
}

// sawGets counts the GET requests.
func (s *routeServer) sawGets() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, out := range s.saw {
		if out.Verb == http.MethodGet {
			n++
		}
	}
	return n
}
