package e2e

import (
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

// beforeLegacy are the pairs with a legacy server.
var beforeLegacy = []pairing{pairings[1], pairings[2]}

// A legacy server that closes a call's stream, or loses it, is asked for the
// rest of it: the tool runs once, each message arrives once, one answer comes.
// The client notices nothing.
func TestComeback_CallOfALegacyServer(t *testing.T) {
	for _, pair := range beforeLegacy {
		for _, broken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, broken %v", pair.name, broken), func(t *testing.T) {
				var call atomic.Pointer[scriptCall]
				var gets atomic.Int32
				server := newScripted(t, pair.server, func(c *scriptCall) bool {
					step := func(n string) string {
						return strings.Replace(progress(n), `"p"`, call.Load().token(), 1)
					}
					switch last := c.R.Header.Get("Last-Event-ID"); {
					case c.Tool == "polled":
						call.Store(c)
						c.Begin()
						c.Raw("id: e0\nretry: 100\ndata:\n\n")
						c.Raw("id: e1\ndata: " + step("1") + "\n\n")
						if broken {
							c.Raw("id: e2\ndata: {\"jsonrpc\":")
							c.Cut("")
						}
					case last == "e1":
						gets.Add(1)
						c.Begin()
						c.Raw("id: e1\ndata: " + step("1") + "\n\n") // it has been asked to begin after it
						c.Raw("id: e2\ndata: " + step("2") + "\n\n")
					case last == "e2":
						gets.Add(1)
						c.Begin()
						c.Raw("id: e3\ndata: " + call.Load().Reply(c.text("polled")) + "\n\n")
						c.Wait()
					default:
						return false
					}
					return true
				})
				g := newRig(t, server.URL, bridgeOptions{})
				c := newCaller(t, g, pair.client, "")
				r := c.send("41", "tools/call", `{"name":"polled","arguments":{},"_meta":`+c.meta(`,"progressToken":"p"`)+`}`)
				if len(r.Answers) != 1 || r.Text() != "polled" {
					t.Errorf("got %s", r)
				}
				for _, n := range []string{"1", "2"} {
					if k := strings.Count(string(r.Body), `"progress":`+n+`}`); k != 1 {
						t.Errorf("progress %s came %d times: %s", n, k, r.Body)
					}
				}
				if server.Ran("polled") != 1 || gets.Load() != 2 {
					t.Errorf("ran %d times, %d times resumed", server.Ran("polled"), gets.Load())
				}
				for _, up := range server.Requests("") {
					if up.Header.Get("Last-Event-ID") != "" && (up.Verb != "GET" || up.Header.Get("Mcp-Session-Id") == "" || up.Header.Get("Mcp-Protocol-Version") != "2025-11-25") {
						t.Errorf("resumed with %s %v", up.Verb, up.Header)
					}
				}
			})
		}
	}
}

// token is the progress token of a call.
func (c *scriptCall) token() string {
	var p struct {
		Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
	}
	_ = json.Unmarshal(c.Params, &p)
	return string(p.Meta.ProgressToken)
}

// The session's own stream of a legacy server is resumed as well, so that no
// notice is lost; ids of the server never reach the client, nor the client's
// the server.
func TestComeback_OwnStreamOfALegacyServer(t *testing.T) {
	notice := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	server := newScripted(t, translate.Legacy, func(c *scriptCall) bool {
		if c.R.Method != http.MethodGet {
			return false
		}
		c.Begin()
		switch c.R.Header.Get("Last-Event-ID") {
		case "":
			c.Raw("id: up-1\nretry: 100\ndata: " + notice + "\n\n")
		case "up-1":
			c.Raw("id: up-2\ndata: " + notice + "\n\n")
			c.Wait()
		}
		return true
	})
	g := newRig(t, server.URL, bridgeOptions{})
	c := newCaller(t, g, translate.Legacy, "")
	get := c.get("")
	one := get.want("list_changed")
	two := get.want("list_changed")
	if one.ID == "" || strings.Contains(one.ID+two.ID, "up-") || one.ID == two.ID {
		t.Errorf("ids %q and %q", one.ID, two.ID)
	}
	get.leave(g)
	c.get(one.ID).want("list_changed")
	for _, up := range server.Requests("") {
		if strings.Contains(up.Header.Get("Last-Event-ID"), "get/") {
			t.Errorf("%s goes up", up.Header.Get("Last-Event-ID"))
		}
	}
}

// A client that opens its GET stream anew goes on with the server's one: some
// servers refuse a second while they believe the first to be open.
func TestResume_NewGetStream(t *testing.T) {
	push := make(chan string)
	var open atomic.Int32
	server := newScripted(t, translate.Legacy, func(c *scriptCall) bool {
		if c.R.Method != http.MethodGet {
			return false
		}
		if open.Add(1) > 1 {
			open.Add(-1)
			c.W.WriteHeader(http.StatusConflict)
			return true
		}
		defer open.Add(-1)
		c.Begin()
		for {
			select {
			case m := <-push:
				c.Events(m)
			case <-c.R.Context().Done():
				return true
			}
		}
	})
	notice := func(n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, n)
	}
	g := newRig(t, server.URL, bridgeOptions{})
	c := newCaller(t, g, translate.Legacy, "")
	get := c.get("")
	push <- notice(1)
	get.want(`"data":1`)
	get.leave(g)
	push <- notice(2) // nobody asks for it again
	eventually(t, "the proxy has it", func() bool {
		n, _ := g.Store.Last(t.Context(), "events/"+strings.Split(get.last, "/")[1])
		return n == 2
	})
	again := c.get("")
	if again.Status != 200 {
		t.Fatal(again.Status)
	}
	eventually(t, "the stream left is given up", func() bool { return g.away() == 0 })
	push <- notice(3)
	again.want(`"data":3`)
	again.leave(g)
	push <- notice(4)
	back := c.get(again.last)
	back.want(`"data":4`)
}

// Messages of a GET stream that are no longer kept: the client gets a new one
// and is told which of its lists may be out of date.
func TestResume_GetStreamNoLongerKept(t *testing.T) {
	for _, pair := range legacyPairs {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				if c.R.Method != http.MethodGet {
					return false
				}
				c.Begin()
				c.Wait()
				return true
			})
			g := newRig(t, server.URL, bridgeOptions{Policy: session.Policy{ResumeFor: 10 * time.Millisecond}})
			c := newCaller(t, g, translate.Legacy, "")
			get := c.get("")
			prime := <-get.events
			get.drop()
			eventually(t, "the stream is given up", func() bool { return len(g.logs()) == 0 })
			back := c.get(prime.ID)
			if ev := back.want("notifications/tools/list_changed"); ev.ID == "" || strings.HasPrefix(ev.ID, strings.TrimSuffix(prime.ID, "0")) {
				t.Errorf("a new stream's event has the id %q, the old one's was %q", ev.ID, prime.ID)
			}
		})
	}
}

// A question asked while the client was away is waiting when it comes back.
func TestResume_QuestionWhileAway(t *testing.T) {
	for _, pair := range legacyPairs {
		for runners := 1; runners <= 2; runners++ {
			t.Run(fmt.Sprintf("%s, runners %d", pair.name, runners), func(t *testing.T) {
				ask := make(chan bool)
				answers := new(answerBox)
				server := newScripted(t, pair.server, func(c *scriptCall) bool {
					question := `"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{}}}`
					switch {
					case answers.take(c):
					case c.Tool != "asks":
						return false
					case strings.Contains(string(c.Params), "inputResponses"):
						c.Result(c.text("asked"))
					case pair.server == translate.Modern:
						c.Begin()
						c.Events(progress("1"))
						<-ask
						c.Events(c.Reply(`{"resultType":"input_required","requestState":"s","inputRequests":{"k":{` + question + `}}}`))
					default:
						c.Begin()
						c.Events(progress("1"))
						<-ask
						c.Events(`{"jsonrpc":"2.0","id":"q1",` + question + `}`)
						if answers.wait(c, 1) {
							c.Events(c.Reply(c.text("asked")))
						}
					}
					return true
				})
				g := newRig(t, server.URL, bridgeOptions{Runners: runners})
				c := newCaller(t, g, translate.Legacy, "")
				post := c.openTool("asks")
				one := post.want(`"progress":1}`)
				post.leave(g)
				ask <- true
				back := c.get(one.ID)
				q := back.want("elicitation/create")
				id := between(q.Data, `"id":`, ",")
				if r := c.post(c.headers("", ""), `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept","content":{}}}`); r.Status != 202 {
					t.Errorf("answer: %s", r)
				}
				back.want("asked")
				back.end()
			})
		}
	}
}

func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}

// Older clients get ids with their events, but no event without data: they
// would run their JSON parser on it.
func TestResume_OlderRevisions(t *testing.T) {
	for _, pair := range legacyPairs {
		for _, version := range []string{"2025-03-26", "2025-06-18"} {
			t.Run(pair.name+" "+version, func(t *testing.T) {
				s := newStepper()
				server := newScripted(t, pair.server, func(c *scriptCall) bool {
					if c.Method == "initialize" {
						c.W.Header().Set("Mcp-Session-Id", "up")
						c.Result(`{"protocolVersion":"` + version + `","serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{}}}`)
						return true
					}
					return tools(map[string]func(c *scriptCall){"steps": s.run})(c)
				})
				g := newRig(t, server.URL, bridgeOptions{})
				c := &caller{t: t, g: g, era: translate.Legacy, http: http.DefaultClient}
				c.initializeAs(version)
				post := c.openTool("steps")
				if one := <-post.events; one.Data == "" || one.ID == "" {
					t.Errorf("the first event is %+v", one)
				} else {
					post.leave(g)
					s.steps <- "2"
					back := c.get(one.ID)
					back.want(`"progress":2}`)
					s.steps <- "end"
					back.want("stepped")
				}
			})
		}
	}
}
