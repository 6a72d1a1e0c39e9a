package replay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/session/replay"
	"taskbridge/translate/operation"
)

// TestPages: lists go to their end however the server cuts them.
func TestPages(t *testing.T) {
	play := func(t *testing.T, hc *http.Client) {
		c := &peers.LegacyClient{URL: testURL, HTTP: hc}
		if _, err := c.Initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		cursor := ""
		for {
			var params any
			if cursor != "" {
				params = map[string]string{"cursor": cursor}
			}
			r, err := c.Call(t.Context(), "tools/list", params)
			var page struct{ NextCursor string }
			if err == nil {
				err = r.Decode(&page)
			}
			if err != nil {
				t.Fatal(err)
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		_ = c.Close()
	}
	bubble(t, func(t *testing.T) {
		ops := recorded(t, peers.NewLegacyServer(peers.ServerOptions{PageSize: 5}), func(hc *http.Client) { play(t, hc) })
		all := replayed(t, peers.NewLegacyServer(peers.ServerOptions{PageSize: 2}), ops, replay.Options{})
		wantSame(t, all)
		for _, p := range all {
			if p.Op.Kind == operation.List && (p.Op.Pages != 3 || p.New.Pages != 6) {
				t.Errorf("%d pages and %d, want 3 and 6", p.Op.Pages, p.New.Pages)
			}
		}
	})
}

// TestCancels: what the client ended early is ended early again, at a server
// that would take for ever.
func TestCancels(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			play := func(t *testing.T, hc *http.Client) {
				c := &peers.LegacyClient{URL: testURL, HTTP: hc}
				if _, err := c.Initialize(t.Context()); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				_, err := c.Call(ctx, "tools/call", tool("slow_plain", map[string]any{"seconds": 5000}))
				if cancel(); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				params := tool("slow_compute", map[string]any{"seconds": 5000})
				params["task"] = map[string]any{"ttl": 6e6}
				r, err := c.Call(t.Context(), "tools/call", params)
				if err != nil {
					t.Fatal(err)
				}
				var made struct{ Task struct{ TaskID string } }
				_ = r.Decode(&made)
				time.Sleep(2 * time.Second)
				if r, err = c.Call(t.Context(), "tasks/cancel", map[string]string{"taskId": made.Task.TaskID}); err != nil || r.Err() != nil {
					t.Fatal(err, r.Err())
				}
				// One whose status was told on the session's stream before.
				if err := c.OpenGET(t.Context()); err != nil {
					t.Fatal(err)
				}
				params["arguments"] = map[string]any{"seconds": 40}
				if r, err = c.Call(t.Context(), "tools/call", params); err != nil {
					t.Fatal(err)
				}
				_ = r.Decode(&made)
				time.Sleep(25 * time.Second)
				if r, err = c.Call(t.Context(), "tasks/cancel", map[string]string{"taskId": made.Task.TaskID}); err != nil || r.Err() != nil {
					t.Fatal(err, r.Err())
				}
				_ = c.Close()
			}
			bubble(t, func(t *testing.T) {
				ops := recorded(t, newPeer("legacy"), func(hc *http.Client) { play(t, hc) })
				all := replayed(t, newPeer(era), ops, replay.Options{})
				wantNoOther(t, all, bridged(t))
				n := 0
				for _, p := range all {
					if p.New != nil && p.New.Outcome == operation.Cancelled {
						n++
					}
				}
				if n != 3 {
					t.Errorf("%d operations were cancelled, want 3", n)
				}
			})
		})
	}
}

// TestEndOfSession: a call that the client's own DELETE ended is ended so again.
func TestEndOfSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ops := recorded(t, newPeer("legacy"), func(hc *http.Client) {
			c := &peers.LegacyClient{URL: testURL, HTTP: hc}
			if _, err := c.Initialize(t.Context()); err != nil {
				t.Fatal(err)
			}
			h := http.Header{"Mcp-Session-Id": {c.SessionID()}}
			var calls sync.WaitGroup
			calls.Go(func() {
				_, _ = c.Call(t.Context(), "tools/call", tool("slow_plain", map[string]any{"seconds": 5000}))
			})
			time.Sleep(10 * time.Second)
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, testURL, nil)
			req.Header = h
			resp, err := hc.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			calls.Wait()
			_ = c.Close()
		})
		calls := 0
		for _, p := range replayed(t, newPeer("legacy"), ops, replay.Options{}) {
			if p.Op.Name != "slow_plain" {
				continue
			}
			calls++
			if p.Op.Outcome == operation.Unfinished || p.New == nil || p.New.Outcome != p.Op.Outcome {
				t.Errorf("%s, then %+v %q", p.Op.Outcome, p.New, p.Notes)
			}
		}
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
	})
}

// TestWithoutTheBeginning: a capture that began in the middle of a session is
// replayed in a session of our own.
func TestWithoutTheBeginning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ops := recorded(t, newPeer("legacy"), playLegacy(t))
		i := slices.IndexFunc(ops, func(op *operation.Operation) bool { return op.Kind == operation.List })
		for _, p := range replayed(t, newPeer("modern"), ops[i:], replay.Options{}) {
			if p.New == nil || p.New.Outcome != p.Op.Outcome {
				t.Errorf("operation %d: %+v %q", p.Op.N, p.New, p.Notes)
			}
		}
	})
}

// TestAtSpeed: gaps are kept, divided.
func TestAtSpeed(t *testing.T) {
	play := func(t *testing.T, hc *http.Client) {
		c := &peers.ModernClient{URL: testURL, HTTP: hc}
		for range 3 {
			if _, err := c.Call(t.Context(), "tools/call", tool("greet", map[string]any{"name": "Ada"})); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		_ = c.Close()
	}
	bubble(t, func(t *testing.T) {
		ops := recorded(t, newPeer("modern"), func(hc *http.Client) { play(t, hc) })
		for _, c := range []struct {
			speed float64
			want  time.Duration
		}{{0, 0}, {1, 2 * time.Minute}, {10, 12 * time.Second}} {
			began := time.Now()
			wantSame(t, replayed(t, newPeer("modern"), ops, replay.Options{Speed: c.speed}))
			if took := time.Since(began).Truncate(time.Second); took != c.want {
				t.Errorf("speed %v: took %v, want %v", c.speed, took, c.want)
			}
		}
	})
}

// crowd are several clients at once, each with calls at once.
func crowd(t *testing.T, n int) func(*http.Client) {
	return func(hc *http.Client) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { playLegacy(t)(hc) })
			wg.Go(func() { playModernWith(t, fmt.Sprintf("%d.txt", i))(hc) })
			wg.Go(func() {
				c := &peers.LegacyClient{URL: testURL, HTTP: hc, OnRequest: peers.Accept(map[string]any{"name": "Ada"})}
				if _, err := c.Initialize(t.Context()); err != nil {
					t.Error(err)
				}
				var calls sync.WaitGroup
				for range 4 {
					calls.Go(func() {
						if _, err := c.Call(t.Context(), "tools/call", tool("slow_plain", map[string]any{"seconds": 0.1})); err != nil {
							t.Error(err)
						}
					})
				}
				calls.Wait()
				_ = c.Close()
			})
		}
		wg.Wait()
	}
}

// TestUnchangedServer: a server that has not changed is never said to differ,
// in whatever order and at whatever pace things happen.
func TestUnchangedServer(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			var ops []*operation.Operation
			bubble(t, func(t *testing.T) { ops = recorded(t, newPeer(era), crowd(t, 1)) })
			runs := uint64(50) // of each era
			if testing.Short() {
				runs = 5
			}
			for seed := range runs {
				bubble(t, func(t *testing.T) {
					jitter := &faulty{peer: newPeer(era), late: func(ctx context.Context, _ string, _ []byte) {
						select {
						case <-time.After(rand.N(50 * time.Millisecond)):
						case <-ctx.Done():
						}
					}}
					wantSame(t, replayed(t, jitter, ops, replay.Options{Concurrency: 8, Seed: seed + 1}))
				})
				if t.Failed() {
					t.Fatalf("with seed %d", seed+1)
				}
			}
		})
	}
}

// TestStoppedHalfway: when the context ends nothing goes on, and what is done is
// there.
func TestStoppedHalfway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ops := recorded(t, newPeer("legacy"), crowd(t, 2))
		ctx, cancel := context.WithCancel(t.Context())
		done := 0
		_, err := replay.Run(ctx, replay.Options{
			Hub: newRunner(t, newPeer("legacy")), Plan: replay.NewPlan(ops, nil, everyTool), Concurrency: 2,
			Done: func(*replay.Result) {
				if done++; done == 5 {
					cancel()
				}
			},
		})
		if !errors.Is(err, context.Canceled) || done < 5 || done > 20 {
			t.Errorf("%v after %d operations", err, done)
		}
	})
}

// TestCredentials: each caller's own value goes up, and none of another's.
func TestCredentials(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ops := recorded(t, newPeer("modern"), playModern(t))
		for i, op := range ops {
			if i%2 == 1 {
				op.Principal = "other"
			}
		}
		var mu sync.Mutex
		seen := map[string]int{}
		h := &faulty{peer: newPeer("modern"), ask: func(method string, h http.Header, body []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			seen[strings.Join(h["Authorization"], ",")]++
			return body
		}}
		wantSame(t, replayed(t, h, ops, replay.Options{Credentials: map[string]string{"someone": "Bearer a", "other": "Bearer b"}}))
		if len(seen) != 2 || seen["Bearer a"] == 0 || seen["Bearer b"] == 0 {
			t.Errorf("the server saw %v", seen)
		}
	})
}

// TestServersOfManyKinds: a server that asks on another stream, answers without
// streams or ties tasks to sessions is replayed against like any.
func TestServersOfManyKinds(t *testing.T) {
	for name, o := range map[string]peers.ServerOptions{
		"questions on the session's stream": {NeedGET: true},
		"answers without streams":           {JSONResponses: true},
		"tasks of a session":                {TasksPerSession: true},
		"slow polls":                        {PollInterval: 5 * time.Second},
	} {
		for clientName, play := range map[string]func(*testing.T) func(*http.Client){"legacy": playLegacy, "modern": playModern} {
			for _, era := range []string{"legacy", "modern"} {
				serve := func() peer {
					if era == "legacy" {
						return peers.NewLegacyServer(o)
					}
					return peers.NewModernServer(o)
				}
				t.Run(name+", "+clientName+" client "+era+" server", func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						ops := recorded(t, serve(), play(t))
						wantSame(t, replayed(t, serve(), ops, replay.Options{Concurrency: 8}))
					})
				})
			}
		}
	}
}
