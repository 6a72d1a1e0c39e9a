package downstream

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Server is the Streamable HTTP transport toward clients of both eras on one
// endpoint. It is an http.Handler; a Front puts it beside others on a listener,
// Serve gives it a listener of its own.
type Server struct {
	o          Options
	guard      *Guard
	proxySigns bool
	nowhere    bool          // it has no endpoint
	links      *links        // clients of HTTP+SSE
	alone      func() *Front // for a listener of its own
	drain      atomic.Bool

	// closing is closed when Shutdown begins and ends what has no end of its
	// own; cut is closed at its deadline and ends calls.
	closing, cut       chan struct{}
	closeOnce, cutOnce sync.Once

	mu     sync.Mutex    // protects the fields below
	active int           // exchanges the hub knows of, and WebSocket connections
	idle   chan struct{} // closed when there are none, nil while nobody waits
}

var _ http.Handler = (*Server)(nil)

func newServer(o Options, guard *Guard) *Server {
	s := &Server{
		o:     o,
		guard: guard,
		links: newLinks(o),
		// Whoever says that others come in here must not have them taken for
		// this machine's user (session.PrincipalRequest).
		proxySigns: o.PublicURL != "" || foreignHost(o.AllowedHosts),
		closing:    make(chan struct{}),
		cut:        make(chan struct{}),
	}
	s.o.Follows = nil // which would hold all that ever were
	s.alone = sync.OnceValue(func() *Front { return aloneFront(s) })
	return s
}

func foreignHost(hosts []string) bool {
	for _, h := range hosts {
		if name, _, _ := splitHost(h); !loopbackName(name) {
			return true
		}
	}
	return false
}

// Serve takes connections from ln until Shutdown, which makes it return nil,
// or until ctx is done, which ends them all at once. It closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error { return s.alone().Serve(ctx, ln) }

// Ready says whether new work is taken: readiness for load balancers.
func (s *Server) Ready() bool { return !s.drain.Load() }

func (s *Server) draining() bool { return s.drain.Load() }

// Shutdown is that of a Front with this server alone.
func (s *Server) Shutdown(ctx context.Context) error { return s.alone().Shutdown(ctx) }

// Leave ends in order what the server has under way, as Shutdown does: it was
// taken out of its Front and is not coming back. It waits for nothing.
func (s *Server) Leave() { s.beginDrain() }

// beginDrain refuses new requests and ends what has no end of its own.
func (s *Server) beginDrain() {
	s.drain.Store(true)
	s.closeOnce.Do(func() { close(s.closing) })
}

// cutOff ends the calls that are left.
func (s *Server) cutOff() { s.cutOnce.Do(func() { close(s.cut) }) }

// end is closed when exchanges of this kind are to end.
func (s *Server) end(k kind) <-chan struct{} {
	if k == kindCall {
		return s.cut
	}
	return s.closing
}

// wait returns when no exchange is active, or with ctx's error.
func (s *Server) wait(ctx context.Context) error {
	s.mu.Lock()
	idle := s.idle
	if s.active > 0 && idle == nil {
		idle = make(chan struct{})
		s.idle = idle
	}
	none := s.active == 0
	s.mu.Unlock()
	if none {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// busy: an exchange is active.
func (s *Server) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active > 0
}

func (s *Server) enter() {
	s.mu.Lock()
	s.active++
	s.mu.Unlock()
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active--; s.active == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}
