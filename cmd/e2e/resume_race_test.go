package e2e

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/translate"
)

// lateStore is a store whose runners hear nothing of each other until it is
// told to let them.
type lateStore struct {
	session.Store
	hear chan struct{}
}

func (s *lateStore) late(log string) bool {
	select {
	case <-s.hear:
		return false
	default:
		return strings.HasPrefix(log, "inbox/")
	}
}

func (s *lateStore) Read(ctx context.Context, log string, after uint64, limit int) ([]session.LogEntry, error) {
	if s.late(log) {
		select {
		case <-s.hear:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.Store.Read(ctx, log, after, limit)
}

func (s *lateStore) Last(ctx context.Context, log string) (uint64, error) {
	if s.late(log) {
		return 0, nil
	}
	return s.Store.Last(ctx, log)
}

// A stream is taken over at another runner while the one that wrote to it has
// not heard of it: what is said from then on comes on the new connection alone.
func TestResume_TakenOverUnheard(t *testing.T) {
	for _, pair := range legacyPairs {
		t.Run(pair.name, func(t *testing.T) {
			s := newStepper()
			server := newScripted(t, pair.server, tools(map[string]func(c *scriptCall){"steps": s.run}))
			store := &lateStore{memory.New(), make(chan struct{})}
			g := newRig(t, server.URL, bridgeOptions{Runners: 2, Store: store})
			c := newCaller(t, g, translate.Legacy, "")
			first := c.openTool("steps")
			one := first.want(`"progress":1}`)
			second := c.get(one.ID)
			s.steps <- "2"
			two := second.want(`"progress":2}`)
			third := c.get(two.ID)
			s.steps <- "3"
			s.steps <- "end"
			third.want(`"progress":3}`)
			third.want("stepped")
			third.end()
			close(store.hear)
			first.end()
			second.end()
		})
	}
}

// Many connections for one stream, and for a session's own, at once: one of
// each lives, and what is said after is read once.
func TestResume_ManyAtOnce(t *testing.T) {
	eachResume(t, session.Policy{}, func(t *testing.T, g *bridge, c *caller, s *stepper) {
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
