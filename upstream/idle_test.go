package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Node's and uvicorn's servers close a connection that was idle for five seconds.
// A call that is sent in that moment breaks, and may not be sent again (RFC 9112
// section 9.3.1): so no connection is used that was idle for nearly as long.
func TestIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		d := pipeServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(pongMsg))
		}), func(o *HTTPOptions) {
			dial := o.DialContext
			o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials++
				return dial(ctx, network, addr)
			}
		})
		c := dialUp(t, d, nil)
		for _, step := range []struct {
			idle  time.Duration
			dials int
		}{{0, 1}, {0, 1}, {3 * time.Second, 1}, {3 * time.Second, 1}, {4500 * time.Millisecond, 2}, {5 * time.Second, 3}, {time.Minute, 4}} {
			time.Sleep(step.idle)
			synctest.Wait()
			if frames, err := readAllFrames(mustDo(t, c, post(pingMsg))); err != io.EOF || len(frames) != 1 {
				t.Fatalf("after %v: %v %v", step.idle, frames, err)
			}
			if dials != step.dials {
				t.Errorf("after %v: %d connections, want %d", step.idle, dials, step.dials)
			}
		}
	})
}
