package downstream

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/session/throttle"
	"taskbridge/translate/jsonrpc"
)

// dueCalls are a call of each era, padded to a length, under an id.
func dueCall(era string, id int, length int) string {
	call := fmt.Sprintf(legacyCall, fmt.Sprint(id))
	if era == "modern" {
		call = modernCallAs(fmt.Sprint(id))
	}
	return call[:len(call)-1] + strings.Repeat(" ", max(0, length-len(call))) + "}"
}

// TestDuesLink: each limit of a caller who has a connection for all he says, in
// both eras: the refusal says which limit and when to come again, the connection
// goes on, and a caller beside him is not concerned, but for the limit of all.
func TestDuesLink(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		for _, tt := range []struct {
			name   string
			limits throttle.Limits
			length int           // of each call
			fit    int           // calls before the first refusal
			after  time.Duration // until the next fits
			shared bool
		}{
			{throttle.Rate, throttle.Limits{Rate: 1, Burst: 4}, 0, 3, time.Second, false},
			{throttle.Bytes, throttle.Limits{Bytes: 64 << 10}, 100 << 10, 1, time.Second, false},
			{throttle.RateTotal, throttle.Limits{RateTotal: 1}, 0, 9, time.Second, true},
		} {
			t.Run(era+" "+tt.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					hub := newDueHub()
					lim := throttle.New(tt.limits, 0)
					r := newRig(t, hub.fakeHub, func(o *Options) { o.Limiter, o.Hub = lim, hub })
					open := func(who string) *wsClient {
						w := r.socket("Authorization: Bearer " + who)
						w.say(legacyInit)
						w.next()
						return w
					}
					ann, again, bob := open("ann"), open("ann"), open("bob")
					time.Sleep(time.Minute) // what that took is given back
					ann.say(`{"jsonrpc":"2.0","id":"p","method":"tools/list"}`)
					ann.next()
					fit := 0
					for ; fit < 20; fit++ {
						ann.say(dueCall(era, fit, tt.length))
						if got := errorOut(t, ann.next()); got == "error "+tt.name {
							break
						} else if got != "ok" {
							t.Fatalf("call %d: %s", fit, got)
						}
					}
					if fit != tt.fit {
						t.Errorf("%d calls fitted, want %d", fit, tt.fit)
					}
					if !tt.shared {
						bob.say(dueCall(era, 1, tt.length))
						if got := errorOut(t, bob.next()); got != "ok" {
							t.Errorf("another caller: %s", got)
						}
						again.say(dueCall(era, 1, tt.length))
						if got := errorOut(t, again.next()); got != "error "+tt.name {
							t.Errorf("another connection of the same caller: %s", got)
						}
					}
					ann.say(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
					if got := errorOut(t, ann.next()); got != "ok" {
						t.Errorf("a ping: %s", got)
					}
					time.Sleep(tt.after + 10*time.Second)
					ann.say(dueCall(era, 50, 0))
					if got := errorOut(t, ann.next()); got != "ok" {
						t.Errorf("later: %s", got)
					}
				})
			})
		}
	}
}

// TestDuesLink_InFlight: bytes under way are counted for the caller, whatever
// connections they came on, and given back with the answers.
func TestDuesLink_InFlight(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hold := make(chan struct{})
				hub := dueHub{fakeHub: legacyHub(func(in session.Inbound, s *session.ClientStream) {
					if in.Frame.Msg == nil || in.Frame.Msg.Kind != jsonrpc.Request {
						echo(in, s)
						return
					}
					go func() { <-hold; echo(in, s) }()
				})}
				lim := throttle.New(throttle.Limits{InFlight: 1000}, 0)
				r := newRig(t, hub.fakeHub, func(o *Options) { o.Limiter, o.Hub = lim, hub })
				open := func(who string) *wsClient {
					w := r.socket("Authorization: Bearer " + who)
					w.say(legacyInit)
					w.next()
					return w
				}
				ann, again, bob := open("ann"), open("ann"), open("bob")
				ann.say(dueCall(era, 1, 600))
				synctest.Wait()
				for _, w := range []*wsClient{ann, again} {
					w.say(dueCall(era, 2, 600))
					if got := errorOut(t, w.next()); got != "error in_flight" {
						t.Errorf("the second: %s", got)
					}
				}
				bob.say(dueCall(era, 1, 600))
				synctest.Wait()
				if len(bob.got) != 0 {
					t.Errorf("another caller: %s", bob.next())
				}
				close(hold)
				ann.next()
				synctest.Wait()
				again.say(dueCall(era, 3, 600))
				if got := errorOut(t, again.next()); got != "ok" {
					t.Errorf("after the answer: %s", got)
				}
			})
		})
	}
}

// TestDuesLink_Garbage: what cannot be read counts like what can.
func TestDuesLink_Garbage(t *testing.T) {
	for name, garbage := range map[string]string{
		"no JSON":             `{"jsonrpc":`,
		"no message":          `{"jsonrpc":"2.0","id":7}`,
		"an array":            `[{"jsonrpc":"2.0","id":7,"method":"ping"}]`,
		"an array of nothing": `[]`,
	} {
		for _, transport := range []string{"websocket", "stdio"} {
			t.Run(name+", "+transport, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					hub := newDueHub()
					c := dueTransports[transport](t, hub, throttle.New(throttle.Limits{Rate: 1, Burst: 5}, 0))
					sent, over := 0, ""
					for ; over == "" && sent < 20; sent++ {
						if got := c.raw(garbage); strings.Contains(got, `"limit":"rate"`) && strings.Contains(got, "retryAfterMs") {
							over = got
						}
					}
					if over == "" || sent > 6 {
						t.Errorf("%d were let in; %q", sent, over)
					}
					if got := c.send(fmt.Sprintf(legacyCall, "1"), ""); got != "error rate" {
						t.Errorf("a call then: %s", got)
					}
					time.Sleep(2 * time.Second)
					if got := c.send(fmt.Sprintf(legacyCall, "2"), ""); got != "ok" {
						t.Errorf("a call later: %s", got)
					}
				})
			})
		}
	}
}

// TestDuesLink_Later: limits that are set, or changed, hold for the connections
// that are open, and a caller that was forgotten meanwhile has no share for each
// of his.
func TestDuesLink_Later(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newDueHub()
		lim := throttle.New(throttle.Limits{}, 1)
		r := newRig(t, hub.fakeHub, func(o *Options) { o.Limiter, o.Hub = lim, hub })
		ann, again := r.socket("Authorization: Bearer ann"), r.socket("Authorization: Bearer ann")
		for _, w := range []*wsClient{ann, again} {
			w.say(legacyInit)
			w.next()
		}
		fitting := func() (n int) {
			for i := range 40 {
				w := []*wsClient{ann, again}[i%2]
				w.say(fmt.Sprintf(legacyCall, fmt.Sprint(i)))
				if errorOut(t, w.next()) == "ok" {
					n++
				}
			}
			return n
		}
		if n := fitting(); n != 40 {
			t.Errorf("%d of 40 fitted without limits", n)
		}
		lim.Set(throttle.Limits{Rate: 1, Burst: 6})
		if n := fitting(); n != 6 {
			t.Errorf("%d fitted once there was a limit, want 6", n)
		}
		for range 3 {
			time.Sleep(time.Minute)
			if got := r.post(ping, "Authorization: Bearer bob"); got.status != 200 { // there is room for one caller
				t.Errorf("bob: %+v", got)
			}
			time.Sleep(time.Minute)
			if n := fitting(); n != 6 {
				t.Errorf("%d fitted after the caller had been forgotten, want 6", n)
			}
		}
	})
}
