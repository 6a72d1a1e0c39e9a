package peers

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// MemListener is a net.Listener whose connections are in-memory pipes, so that
// real HTTP servers and clients run inside a testing/synctest bubble.
type MemListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

var _ net.Listener = (*MemListener)(nil)

// NewMemListener returns an open listener.
func NewMemListener() *MemListener {
	return &MemListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Accept waits for the next Dial.
func (l *MemListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial; open connections stay. Twice is fine.
func (l *MemListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr returns a placeholder address.
func (l *MemListener) Addr() net.Addr { return memAddr{} }

// Dial connects to the listener.
func (l *MemListener) Dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// DialContext is Dial in the shape of http.Transport.DialContext; the address
// is ignored.
func (l *MemListener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	return l.Dial(ctx)
}

// Client returns an HTTP client that reaches only this listener, whatever the
// URL's host. Call CloseIdleConnections on it when done.
func (l *MemListener) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: l.DialContext}}
}

type memAddr struct{}

func (memAddr) Network() string { return "mem" }
func (memAddr) String() string  { return "mem" }
