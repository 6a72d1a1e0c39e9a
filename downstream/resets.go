package downstream

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// resetWindow is the time in which a connection may have its requests reset
// four times as often as it may have requests in flight. To begin a request and
// reset it costs a client nothing, and us a call of the server and its cancel
// (safety case S8).
const resetWindow = 10 * time.Second

// resets counts the requests of one HTTP/2 connection its client has given up.
type resets struct {
	conn net.Conn
	most int

	mu    sync.Mutex // protects the fields below
	since time.Time
	n     int
}

type resetsKey struct{}

// watchResets is http.Server.ConnContext.
func (f *Front) watchResets(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, resetsKey{}, &resets{conn: c, most: 4 * f.limits.Streams})
}

// givenUp: a request has ended that its client no longer waited for. One too
// many closes the connection.
func givenUp(r *http.Request) (closed bool) {
	c, ok := r.Context().Value(resetsKey{}).(*resets)
	if !ok || r.ProtoMajor != 2 || r.Context().Err() == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.since) > resetWindow {
		c.since, c.n = now, 0
	}
	if c.n++; c.n != c.most {
		return false
	}
	c.conn.Close()
	return true
}
