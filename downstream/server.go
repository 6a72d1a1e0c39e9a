package downstream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"taskbridge/session"
)

// Server is the Streamable HTTP transport toward clients of both eras on one
// endpoint. It is an http.Handler; Serve gives it a listener of its own.
type Server struct {
	o          Options
	guard      *Guard
	large      *session.Budget
	proxySigns bool
	links      *links // clients of HTTP+SSE
	http       *http.Server
	drain      atomic.Bool
	names      atomic.Int64 // of connections and exchanges, for the tap

	// closing is closed when Shutdown begins and ends what has no end of its
	// own; cut is closed at its deadline and ends calls.
	closing, cut       chan struct{}
	closeOnce, cutOnce sync.Once

	mu     sync.Mutex    // protects the fields below
	active int           // exchanges the hub knows of, and WebSocket connections
	socks  int           // WebSocket connections
	idle   chan struct{} // closed when there are none, nil while nobody waits
}

var _ http.Handler = (*Server)(nil)

func newServer(o Options, guard *Guard) *Server {
	total := o.Budget.Total()
	s := &Server{
		o:     o,
		guard: guard,
		links: newLinks(o),
		large: session.NewBudget(max(total/4*3, min(o.Limits.Body, total))),
		// Whoever says that others come in here must not have them taken for
		// this machine's user (session.PrincipalRequest).
		proxySigns: o.PublicURL != "" || foreignHost(o.AllowedHosts),
		closing:    make(chan struct{}),
		cut:        make(chan struct{}),
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true) // where the listener speaks TLS
	// h2c by prior knowledge, for front ends; an Upgrade: h2c is not honoured.
	protocols.SetUnencryptedHTTP2(true)
	s.http = &http.Server{
		Handler:           s,
		ConnContext:       s.watchResets,
		Protocols:         protocols,
		ReadHeaderTimeout: o.Limits.HeaderTimeout,
		IdleTimeout:       o.Limits.IdleTimeout,
		MaxHeaderBytes:    o.Limits.Header,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: o.Limits.Streams,
			WriteByteTimeout:     o.Limits.WriteTimeout,
			SendPingTimeout:      o.Limits.IdleTimeout,
		},
		DisableGeneralOptionsHandler: true,
	}
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
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() { s.http.Close() })
	defer stop()
	// Each request sets deadlines. One that falls before all others wakes the
	// runtime's poller, which costs system calls and a switch of threads;
	// with a timer that is always nearer, none does.
	near := time.NewTicker(time.Second)
	ended := make(chan struct{})
	defer func() {
		near.Stop()
		close(ended)
	}()
	go func() {
		for {
			select {
			case <-near.C: // a ticker nobody waits for is no timer
			case <-ended:
				return
			}
		}
	}()
	err := s.http.Serve(ln)
	if errors.Is(err, http.ErrServerClosed) {
		return context.Cause(ctx)
	}
	return err
}

// Ready says whether new work is taken: readiness for load balancers.
func (s *Server) Ready() bool { return !s.drain.Load() }

func (s *Server) draining() bool { return s.drain.Load() }

// drainPause is how long replies may take to leave after the deadline.
const drainPause = 500 * time.Millisecond

// Shutdown ends the server in order: it stops being ready and refuses new
// requests; it ends listens and GET streams, which have no end of their own;
// it waits for the calls in flight, still taking the answers and cancels they
// depend on; at ctx's deadline it ends those left. It returns ctx's error when
// calls were cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain.Store(true)
	s.closeOnce.Do(func() { close(s.closing) })
	err := s.wait(ctx)
	if err != nil {
		s.cutOnce.Do(func() { close(s.cut) })
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainPause)
	defer cancel()
	if err != nil {
		s.wait(after) // WebSocket connections say why they end
	}
	if s.http.Shutdown(after) != nil {
		return errors.Join(err, s.http.Close())
	}
	return err
}

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
