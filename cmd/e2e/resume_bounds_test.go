package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"taskbridge/session"
	"taskbridge/translate"
)

// lostReply is the id a lost reply's error names.
func lostReply(t *testing.T, s *eventStream) (id int) {
	t.Helper()
	ev := s.want(`"reply_lost"`)
	var m struct {
		ID    int
		Error struct{ Code int }
	}
	if err := json.Unmarshal([]byte(ev.Data), &m); err != nil || m.Error.Code != -32603 {
		t.Errorf("%v: %+v", err, ev)
	}
	s.end()
	return m.ID
}

// What a session keeps is bounded: of the streams that are over the oldest
// leave; where all are live, a new one works as ever but cannot be resumed.
func TestResume_StreamsOfASession(t *testing.T) {
	const most = 32
	for _, pair := range legacyPairs {
		t.Run(pair.name, func(t *testing.T) {
			release := make(chan bool)
			server := newScripted(t, pair.server, tools(map[string]func(c *scriptCall){
				"waits": func(c *scriptCall) {
					c.Begin()
					c.Events(progress("1"))
					select {
					case <-release:
					case <-c.R.Context().Done():
					}
					c.Events(c.Reply(c.text("waited")))
				},
				"streams": func(c *scriptCall) { c.SSE(c.Reply(c.text("streamed"))) },
			}))
			g := newRig(t, server.URL, bridgeOptions{})
			c := newCaller(t, g, translate.Legacy, "")
			other := newCaller(t, g, translate.Legacy, "")
			kept := other.openTool("streams")
			last := kept.want("streamed")
			var streams []*eventStream
			for i := range most + 2 {
				s := c.openTool("waits")
				if one := s.want(`"progress":1}`); (one.ID != "") != (i < most) {
					t.Errorf("stream %d: id %q", i, one.ID)
				}
				streams = append(streams, s)
			}
			close(release)
			for i, s := range streams {
				if ev := s.want("waited"); (ev.ID != "") != (i < most) {
					t.Errorf("stream %d ends with id %q", i, ev.ID)
				}
				s.end()
			}
			var first event
			want := c.id + 1
			for i := range most {
				ev := c.openTool("streams").want("streamed")
				if ev.ID == "" {
					t.Errorf("call %d after the live ones are over has no id", i)
				}
				if i == 0 {
					first = ev
				}
			}
			if n := len(g.logs()); n > most+1 {
				t.Errorf("%d logs are kept", n)
			}
			c.openTool("streams").want("streamed")
			if id := lostReply(t, c.get(strings.TrimSuffix(first.ID, "1")+"0")); id != want {
				t.Errorf("the lost reply is that of %d, want %d", id, want)
			}
			if s := other.get(last.ID); s.Status != 405 { // another session's are its own
				t.Errorf("the other session's stream: %d", s.Status)
			}
		})
	}
}

// What a runner keeps is bounded in bytes: the streams nothing was added to for
// longest leave, and an event that is too large is not kept at all.
func TestResume_BytesOfARunner(t *testing.T) {
	for _, pair := range legacyPairs {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, tools(map[string]func(c *scriptCall){
				"small": func(c *scriptCall) { c.SSE(c.Reply(c.text(strings.Repeat("s", 4<<10)))) },
				"large": func(c *scriptCall) { c.SSE(c.Reply(c.text(strings.Repeat("l", 16<<10)))) },
			}))
			g := newRig(t, server.URL, bridgeOptions{Policy: session.Policy{ResumeBytes: 64 << 10}})
			c := newCaller(t, g, translate.Legacy, "")
			call := func(tool string) (prime event, id int) {
				s := c.openTool(tool)
				prime = <-s.events
				s.want(tool[:1] + tool[:1])
				s.end()
				return prime, c.id
			}
			prime, id := call("large")
			if got := lostReply(t, c.get(prime.ID)); got != id {
				t.Errorf("the lost reply is that of %d, want %d", got, id)
			}
			oldest, id := call("small")
			c.get(oldest.ID).want("ssss")
			var newest event
			for range 20 {
				newest, _ = call("small")
			}
			eventually(t, "the oldest has left", func() bool { return len(g.logs()) < 20 })
			if got := lostReply(t, c.get(oldest.ID)); got != id {
				t.Errorf("the lost reply is that of %d, want %d", got, id)
			}
			c.get(newest.ID).want("ssss")
		})
	}
}
