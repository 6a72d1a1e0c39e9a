package session

import (
	"net/http"
	"time"

	"taskbridge/translate/jsonrpc"
)

// farewellFor is how long Close waits for what is said to servers in parting.
const farewellFor = time.Second

// farewell gives what a server is told without being asked anything a moment to
// get there: that a call is cancelled, that a session has ended. A legacy server
// behind HTTP would go on with the work of clients that have left: to it a closed
// connection says nothing (2025-11-25 basic/transports, Sending Messages to the
// Server). On a virtual clock all work has come to rest before.
func (r *Runner) farewell() {
	if _, real := r.clock.(RealClock); !real {
		return
	}
	for end := time.Now().Add(farewellFor); r.parting() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}

// parting: an operation is at work, which may have a last word, or such a word
// is on its way.
func (r *Runner) parting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, box := range r.boxes {
		if box.running {
			return true
		}
	}
	for _, ex := range r.ups {
		if ex.oneWay() {
			return true
		}
	}
	return false
}

// oneWay: no result is waited for.
func (ex *exchange) oneWay() bool {
	if ex.out.Verb == http.MethodDelete {
		return true
	}
	m, err := jsonrpc.Decode(ex.out.Msg, jsonrpc.Limits{})
	return err == nil && m.Kind != jsonrpc.Request
}
