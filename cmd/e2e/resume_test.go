package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// event is one event as a client reads it.
type event struct{ ID, Data, Retry string }

// eventStream is an open reply of events.
type eventStream struct {
	t      testing.TB
	events chan event // closed with the reply
	Status int
	drop   func()
	last   string // id of the last event next has given
}

// open sends a request and reads its reply as events.
func (c *caller) open(verb string, h http.Header, body string) *eventStream {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c.t.Cleanup(cancel)
	req, _ := http.NewRequestWithContext(ctx, verb, c.g.URL, strings.NewReader(body))
	req.Header = h
	resp, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	s := &eventStream{t: c.t, events: make(chan event, 4096), Status: resp.StatusCode, drop: cancel}
	go func() {
		defer close(s.events)
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		var ev event
		for {
			line, err := lines.ReadString('\n')
			name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
			switch name {
			case "id":
				ev.ID = value
			case "retry":
				ev.Retry = value
			case "data":
				ev.Data = value
			case "":
				if line == "\n" && ev != (event{}) {
					s.events <- ev
					ev = event{}
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return s
}

// initializeAs opens a session of a revision.
func (c *caller) initializeAs(version string) {
	c.t.Helper()
	h := c.headers("initialize", "")
	delete(h, "Mcp-Protocol-Version")
	r := c.post(h, `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":`+quote(version)+`,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	c.session, c.version = r.Header.Get("Mcp-Session-Id"), r.field("protocolVersion")
	if r.Status != 200 || c.session == "" {
		c.t.Fatalf("initialize: %s", r)
	}
}

// openTool opens a tools/call.
func (c *caller) openTool(name string) *eventStream {
	c.t.Helper()
	c.id++
	return c.open("POST", c.headers("tools/call", name), request(fmt.Sprint(c.id), "tools/call", `{"name":`+quote(name)+`,"arguments":{},"_meta":`+c.meta(`,"progressToken":"p"`)+`}`))
}

// get opens a GET stream, or goes on with the one of an event.
func (c *caller) get(last string) *eventStream {
	c.t.Helper()
	h := c.headers("", "")
	h.Del("Content-Type")
	h.Set("Accept", "text/event-stream")
	if last != "" {
		h.Set("Last-Event-ID", last)
	}
	return c.open("GET", h, "")
}

// next is the next event with data; ok is false at the end.
func (s *eventStream) next() (event, bool) {
	s.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case ev, ok := <-s.events:
			if !ok || ev.Data != "" {
				s.last = ev.ID
				return ev, ok
			}
		case <-limit:
			s.t.Fatal("no event")
		}
	}
}

// want reads the next event and holds it to contain part.
func (s *eventStream) want(part string) event {
	s.t.Helper()
	ev, ok := s.next()
	if !ok || !strings.Contains(ev.Data, part) {
		s.t.Fatalf("got %v %+v, want %s", ok, ev, part)
	}
	return ev
}

// end holds the stream to end without a further message.
func (s *eventStream) end() {
	s.t.Helper()
	if ev, ok := s.next(); ok {
		s.t.Fatalf("after the end: %+v", ev)
	}
}

// leave drops the connection and waits until the proxy has seen it.
func (s *eventStream) leave(g *bridge) {
	s.t.Helper()
	s.drop()
	for range s.events {
	}
	eventually(s.t, "the proxy sees that the client is away", func() bool { return g.away() > 0 })
	for _, r := range g.Runners {
		r.Forget()
	}
}

// away counts the event logs nobody reads.
func (g *bridge) away() (n int) {
	for _, l := range g.logs() {
		if l.Reader == "" {
			n++
		}
	}
	return n
}

type logState struct {
	Stream, Reader string
	Over           bool
}

func (g *bridge) logs() (all []logState) {
	list, _ := g.Store.List(context.Background(), "op/log:", "", 1000)
	for _, e := range list {
		var l logState
		_ = json.Unmarshal(e.Value, &l)
		all = append(all, l)
	}
	return all
}

// stepper is a tool that sends progress 1, and then at each step a progress
// and, at "end", its answer.
type stepper struct{ steps chan string }

func newStepper() *stepper { return &stepper{make(chan string)} }

func progress(n string) string {
	return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":` + n + `}}`
}

func (s *stepper) run(c *scriptCall) {
	c.Begin()
	c.Events(progress("1"))
	for {
		select {
		case step := <-s.steps:
			if step == "end" {
				c.Events(c.Reply(c.text("stepped")))
				return
			}
			c.Events(progress(step))
		case <-c.R.Context().Done():
			return
		}
	}
}

// legacyPairs are the pairs with a legacy client.
var legacyPairs = []pairing{pairings[0], pairings[2]}

// each runs f over the pairs with a legacy client, on one runner and on two.
func eachResume(t *testing.T, p session.Policy, f func(t *testing.T, g *bridge, c *caller, s *stepper)) {
	for _, pair := range legacyPairs {
		for runners := 1; runners <= 2; runners++ {
			t.Run(fmt.Sprintf("%s, runners %d", pair.name, runners), func(t *testing.T) {
				s := newStepper()
				server := newScripted(t, pair.server, tools(map[string]func(c *scriptCall){"steps": s.run}))
				g := newRig(t, server.URL, bridgeOptions{Runners: runners, Policy: p})
				f(t, g, newCaller(t, g, translate.Legacy, ""), s)
				if n := server.Ran("steps"); n > 1 {
					t.Errorf("the tool ran %d times", n)
				}
			})
		}
	}
}

// A client that lost the reply of a plain call fetches the rest of it: what
// came while it was away, what comes later, once, in order, to the answer.
func TestResume_LostReply(t *testing.T) {
	eachResume(t, session.Policy{}, func(t *testing.T, g *bridge, c *caller, s *stepper) {
		post := c.openTool("steps")
		prime := <-post.events
		if prime.ID == "" || prime.Data != "" || prime.Retry == "" {
			t.Fatalf("the stream begins with %+v", prime)
		}
		one := post.want(`"progress":1}`)
		s.steps <- "2"
		two := post.want(`"progress":2}`)
		if one.ID == "" || two.ID == "" || one.ID == two.ID || one.ID == prime.ID {
			t.Errorf("ids %q %q %q", prime.ID, one.ID, two.ID)
		}
		post.leave(g)
		s.steps <- "3"
		back := c.get(one.ID)
		if back.Status != 200 {
			t.Fatal(back.Status)
		}
		if ev := back.want(`"progress":2}`); ev.ID != two.ID {
			t.Errorf("event 2 has id %q, then %q", two.ID, ev.ID)
		}
		back.want(`"progress":3}`)
		s.steps <- "4"
		four := back.want(`"progress":4}`)
		back.leave(g)
		s.steps <- "5"
		s.steps <- "end"
		eventually(t, "the call is over", func() bool { return g.logs()[0].Over })
		again := c.get(four.ID)
		again.want(`"progress":5}`)
		last := again.want("stepped")
		again.end()
		// The answer may have been lost on its way, too.
		again = c.get(prime.ID)
		for i := range 5 {
			again.want(fmt.Sprintf(`"progress":%d}`, i+1))
		}
		again.want("stepped")
		again.end()
		if done := c.get(last.ID); done.Status != 405 {
			t.Errorf("nothing is left: %d", done.Status)
		}
		if r := c.do(t.Context(), "DELETE", c.headers("", ""), ""); r.Status != 200 {
			t.Errorf("DELETE: %s", r)
		}
		eventually(t, "nothing is kept after the session's end", func() bool {
			logs, _ := g.Store.List(t.Context(), "logs/", "", 10)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := g.Store.Read(ctx, "events/"+strings.Split(prime.ID, "/")[1], 0, 1)
			return len(logs)+len(g.logs()) == 0 && err != nil
		})
	})
}

// S24: an event id opens its own session's stream and no other.
func TestSafetyS24_ReplayByEventID(t *testing.T) {
	eachResume(t, session.Policy{}, func(t *testing.T, g *bridge, a *caller, s *stepper) {
		a.token = "a"
		a.initialize()
		b, other := newCaller(t, g, translate.Legacy, "b"), newCaller(t, g, translate.Legacy, "a")
		post := a.openTool("steps")
		one := post.want(`"progress":1}`)
		post.leave(g)
		s.steps <- "2"
		refused := func(c *caller, last string, status int) {
			t.Helper()
			r := c.get(last)
			if ev, ok := r.next(); r.Status != status || ok {
				t.Errorf("%s: %d %+v", last, r.Status, ev)
			}
		}
		refused(b, one.ID, 400)
		refused(other, one.ID, 400)
		thief := &caller{t: t, g: g, era: translate.Legacy, http: b.http, token: "b", session: a.session}
		refused(thief, one.ID, 404)
		parts := strings.Split(one.ID, "/")
		for i := range parts {
			forged := strings.Split(one.ID, "/")
			forged[i] += "1"
			if i < 4 { // the number is no secret
				refused(a, strings.Join(forged, "/"), 400)
			}
		}
		for _, id := range []string{"0", "x", strings.Repeat("y", 5000), "////", "../../x", strings.Join(parts[:4], "/")} {
			refused(a, id, 400)
		}
		// Another stream of the same session is not replayed with it.
		beside := a.openTool("ok")
		for range beside.events {
		}
		back := a.get(one.ID)
		back.want(`"progress":2}`)
		s.steps <- "end"
		back.want("stepped")
		back.end()
	})
}

// Of two connections to one stream the newer lives, so that each message is
// read once; what it missed in between is not sent twice.
func TestResume_NewestConnectionLives(t *testing.T) {
	eachResume(t, session.Policy{}, func(t *testing.T, g *bridge, c *caller, s *stepper) {
		post := c.openTool("steps")
		one := post.want(`"progress":1}`)
		first := c.get(one.ID)
		post.end()
		s.steps <- "2"
		two := first.want(`"progress":2}`)
		second := c.get(two.ID)
		first.end()
		s.steps <- "3"
		second.want(`"progress":3}`)
		s.steps <- "end"
		second.want("stepped")
		second.end()
	})
}

// A reply that is no longer kept is answered with an error to its request: no
// client waits for ever, none gets something else.
func TestResume_ReplyNoLongerKept(t *testing.T) {
	check := func(t *testing.T, c *caller, last string) {
		t.Helper()
		back := c.get(last)
		ev := back.want(`"reply_lost"`)
		var m struct {
			ID    int
			Error struct{ Code int }
		}
		if err := json.Unmarshal([]byte(ev.Data), &m); err != nil || m.ID != c.id || m.Error.Code != -32603 {
			t.Errorf("%d: %v %+v", c.id, err, ev)
		}
		back.end()
	}
	t.Run("stayed away", func(t *testing.T) {
		eachResume(t, session.Policy{ResumeFor: 10 * time.Millisecond}, func(t *testing.T, g *bridge, c *caller, s *stepper) {
			post := c.openTool("steps")
			one := post.want(`"progress":1}`)
			post.drop()
			eventually(t, "the stream is given up", func() bool { return len(g.logs()) == 0 })
			check(t, c, one.ID)
		})
	})
	t.Run("too large", func(t *testing.T) {
		eachResume(t, session.Policy{ResumeBytes: 1024}, func(t *testing.T, g *bridge, c *caller, s *stepper) {
			post := c.openTool("steps")
			one := post.want(`"progress":1}`)
			post.leave(g)
			s.steps <- "1." + strings.Repeat("5", 200) // left out: progress may be missed
			s.steps <- "2"
			back := c.get(one.ID)
			back.want(`"progress":2}`)
			back.leave(g)
			g.Runners[0].Forget()
			s.steps <- "end"
			again := c.get(one.ID)
			again.want(`"progress":2}`)
			again.want("stepped")
		})
	})
	t.Run("more than the bound of one stream", func(t *testing.T) {
		eachResume(t, session.Policy{}, func(t *testing.T, g *bridge, c *caller, s *stepper) {
			post := c.openTool("steps")
			one := post.want(`"progress":1}`)
			post.leave(g)
			for i := range 300 {
				s.steps <- fmt.Sprint(i + 2)
			}
			s.steps <- "end"
			eventually(t, "the call is over", func() bool { return g.logs()[0].Over })
			back := c.get(one.ID)
			back.want(`"progress":47}`) // the oldest that is left of 256
			for i := 48; i <= 301; i++ {
				back.want(fmt.Sprintf(`"progress":%d}`, i))
			}
			back.want("stepped")
			back.end()
		})
	})
}

// A cancelled request has no answer: its stream ends, and a client that comes
// back for more is told that there is none, instead of coming back for ever.
func TestResume_CancelledRequest(t *testing.T) {
	for runners := 1; runners <= 2; runners++ {
		s := newStepper()
		server := newScripted(t, translate.Modern, tools(map[string]func(c *scriptCall){"steps": s.run}))
		g := newRig(t, server.URL, bridgeOptions{Runners: runners})
		c := newCaller(t, g, translate.Legacy, "")
		post := c.openTool("steps")
		prime := <-post.events
		one := post.want(`"progress":1}`)
		if r := c.post(c.headers("", ""), fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.id)); r.Status != 202 {
			t.Errorf("cancel: %s", r)
		}
		post.end()
		eventually(t, "the stream is over", func() bool { return g.logs()[0].Over })
		if back := c.get(one.ID); back.Status != 405 {
			t.Errorf("nothing is left: %d", back.Status)
		}
		back := c.get(prime.ID)
		back.want(`"progress":1}`)
		back.end()
	}
}

// A server that ends its GET stream: the client that comes back for it gets a
// new one.
func TestResume_GetStreamThatEnded(t *testing.T) {
	var opened atomic.Int32
	server := newScripted(t, translate.Legacy, func(c *scriptCall) bool {
		if c.R.Method != http.MethodGet {
			return false
		}
		c.Begin()
		c.Events(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, opened.Add(1)))
		if opened.Load() > 1 {
			c.Wait()
		}
		return true
	})
	g := newRig(t, server.URL, bridgeOptions{})
	c := newCaller(t, g, translate.Legacy, "")
	get := c.get("")
	prime := <-get.events
	one := get.want(`"data":1`)
	get.end()
	eventually(t, "the stream is over", func() bool { return g.logs()[0].Over })
	rest := c.get(prime.ID)
	rest.want(`"data":1`)
	rest.end()
	c.get(one.ID).want(`"data":2`)
}
