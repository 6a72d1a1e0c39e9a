package downstream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// FrontOptions configure a Front.
type FrontOptions struct {
	// Limits of connections count here: Header, HeaderTimeout, IdleTimeout,
	// WriteTimeout and Streams. Those of messages are each Server's own.
	Limits Limits
	Logger *slog.Logger // nil: discarded
}

// Front is one listener: it hands each request to the Server whose endpoint it
// names. Set changes what there is while requests are under way; those go on
// with the server that took them. Safe for concurrent use.
type Front struct {
	limits Limits
	http   *http.Server
	table  atomic.Pointer[table]

	mu    sync.Mutex // protects the fields below
	drain bool
	// left are servers that were taken out while they had something to do.
	left []*Server
}

var _ http.Handler = (*Front)(nil)

// NewFront returns a front that does not listen yet and answers nothing before
// the first Set.
func NewFront(o FrontOptions) *Front {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Front{limits: o.Limits.withDefaults()}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true) // where the listener speaks TLS
	// h2c by prior knowledge, for front ends; an Upgrade: h2c is not honoured.
	protocols.SetUnencryptedHTTP2(true)
	f.http = &http.Server{
		Handler:           f,
		ConnContext:       f.watchResets,
		Protocols:         protocols,
		ReadHeaderTimeout: f.limits.HeaderTimeout,
		IdleTimeout:       f.limits.IdleTimeout,
		MaxHeaderBytes:    f.limits.Header,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: f.limits.Streams,
			WriteByteTimeout:     f.limits.WriteTimeout,
			SendPingTimeout:      f.limits.IdleTimeout,
		},
		DisableGeneralOptionsHandler: true,
	}
	f.table.Store(&table{})
	return f
}

// aloneFront is the front of a server that has its listener to itself.
func aloneFront(s *Server) *Front {
	f := NewFront(FrontOptions{Limits: s.o.Limits, Logger: s.o.Logger})
	f.table.Store(&table{sole: s, servers: []*Server{s}})
	return f
}

// Set makes endpoints what there is from now on; unknown answers whatever none
// of them takes, and is never nil. An error says which two of them take the
// same requests; then nothing has changed.
func (f *Front) Set(endpoints []Endpoint, unknown *Server) error {
	t, err := newTable(endpoints, unknown)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.drain {
		for _, s := range t.servers {
			s.beginDrain()
		}
	}
	gone := append(f.left, f.table.Swap(t).servers...)
	f.left = slices.DeleteFunc(gone, func(s *Server) bool { return slices.Contains(t.servers, s) || !s.busy() })
	return nil
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, twice := f.table.Load().find(r)
	switch {
	case s == nil:
		w.WriteHeader(http.StatusServiceUnavailable)
	case twice != "":
		s.refuseTwice(w, r, twice)
	default:
		s.ServeHTTP(w, r)
	}
}

// Serve takes connections from ln until Shutdown, which makes it return nil,
// or until ctx is done, which ends them all at once. It closes ln.
func (f *Front) Serve(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() { f.http.Close() })
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
	err := f.http.Serve(ln)
	if errors.Is(err, http.ErrServerClosed) {
		return context.Cause(ctx)
	}
	return err
}

// Ready says whether new work is taken: readiness for load balancers.
func (f *Front) Ready() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.drain
}

// drainPause is how long replies may take to leave after the deadline.
const drainPause = 500 * time.Millisecond

// Shutdown ends the listener in order: it stops being ready and refuses new
// requests; it ends listens and GET streams, which have no end of their own;
// it waits for the calls in flight, still taking the answers and cancels they
// depend on; at ctx's deadline it ends those left. It returns ctx's error when
// calls were cut off.
func (f *Front) Shutdown(ctx context.Context) error {
	f.mu.Lock()
	f.drain = true
	servers := slices.Concat(f.table.Load().servers, f.left)
	f.mu.Unlock()
	for _, s := range servers {
		s.beginDrain()
	}
	err := waitAll(ctx, servers)
	if err != nil {
		for _, s := range servers {
			s.cutOff()
		}
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainPause)
	defer cancel()
	if err != nil {
		_ = waitAll(after, servers) // WebSocket connections say why they end
	}
	if f.http.Shutdown(after) != nil {
		return errors.Join(err, f.http.Close())
	}
	return err
}

// waitAll returns when no exchange is active on any, or with ctx's error.
func waitAll(ctx context.Context, servers []*Server) error {
	for _, s := range servers {
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
