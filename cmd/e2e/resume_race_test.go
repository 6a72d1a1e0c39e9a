package e2e

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/session"
)

// Many connections for one stream, and for a session's own, at once: one of
// each lives, and what is said after is read once.
func TestResume_ManyAtOnce(t *testing.T) {
	eachResume(t, session.Policy{}, func(t *testing.T, g *rig, c *caller, s *stepper) {
		post := c.openTool("steps")
		one := post.want(`"progress":1}`)
		post.leave(g)
		own := c.get("")
		own.drop()
		for range own.events {
		}
		var mu sync.Mutex
		var all []*eventStream
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Go(func() {
				last := one.ID
				if i%3 == 2 {
					last = ""
				}
				back := c.get(last)
				mu.Lock()
				defer mu.Unlock()
				if last != "" {
					all = append(all, back)
				} else if back.Status != 200 && back.Status != 409 && back.Status != 405 {
					t.Errorf("own stream: %d", back.Status)
				}
			})
		}
		wg.Wait()
		s.steps <- "2"
		s.steps <- "end"
		var answers int
		for _, back := range all {
			timeout := time.After(patience)
		read:
			for {
				select {
				case ev, ok := <-back.events:
					if !ok {
						break read
					}
					if strings.Contains(ev.Data, "stepped") {
						answers++
					}
				case <-timeout:
					t.Error("a connection hangs")
					break read
				}
			}
		}
		if answers != 1 {
			t.Errorf("the answer was read %d times", answers)
		}
		for _, back := range all {
			back.drop()
		}
		if r := c.do(t.Context(), "DELETE", c.headers("", ""), ""); r.Status != 200 {
			t.Error(r)
		}
		eventually(t, "nothing is left", func() bool { return len(g.logs()) == 0 && g.ops("session")+g.ops("pass")+g.ops("lcall") == 0 })
		c.http.CloseIdleConnections()
		eventually(t, "nobody reads a log any more", func() bool {
			stacks := make([]byte, 1<<20)
			return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "follower).run")
		})
	})
}
