package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"taskbridge/downstream"
)

// newAdmin returns the admin server; unready says why no new work is taken, or "". It tells nothing that has a name: no
// ids, no URLs, no callers; so a browser page that reached it would learn
// nothing, and the guard keeps pages out in the first place.
func newAdmin(unready func() string, m *metrics, log *slog.Logger) (*http.Server, error) {
	guard, err := downstream.NewGuard(downstream.GuardOptions{Loopback: true, RefuseOrigins: true})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := unready(); why != "" {
			say(w, http.StatusServiceUnavailable, why+"\n")
			return
		}
		say(w, http.StatusOK, "ready\n")
	})
	mux.Handle("GET /metrics", m.handler(log))
	return &http.Server{
		Handler:           guard.Handler(mux),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}, nil
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// listen listens on addr; with local set, on nothing but this machine.
func listen(ctx context.Context, addr string, local bool) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if tcp, ok := ln.Addr().(*net.TCPAddr); local && (!ok || !tcp.IP.IsLoopback()) {
		// A name that should mean this machine does not.
		ln.Close()
		return nil, &net.AddrError{Err: "is not a loopback address", Addr: ln.Addr().String()}
	}
	return ln, nil
}
