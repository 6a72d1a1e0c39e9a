package main

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"
)

// TestConnCap: which connection goes at the bound.
func TestConnCap(t *testing.T) {
	c := newConnCap(2)
	conns := make([]*closedConn, 5)
	for i := range conns {
		conns[i] = new(closedConn)
	}
	closed := func(want ...int) {
		t.Helper()
		var got []int
		for i, conn := range conns {
			if conn.closed {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, want) || c.open() > 2 {
			t.Fatalf("closed %v, want %v; %d are open", got, want, c.open())
		}
	}
	c.state(conns[0], http.StateNew)
	c.state(conns[0], http.StateActive)
	c.state(conns[1], http.StateNew)
	closed()
	c.state(conns[2], http.StateNew) // the one that has asked for nothing goes
	closed(1)
	c.state(conns[1], http.StateClosed)
	c.state(conns[2], http.StateActive)
	c.state(conns[3], http.StateNew) // both are being answered
	closed(1, 3)
	c.state(conns[3], http.StateClosed)
	c.state(conns[0], http.StateIdle)
	c.state(conns[4], http.StateNew)
	closed(0, 1, 3)
	c.state(conns[2], http.StateClosed)
	c.state(conns[4], http.StateClosed)
	if c.open() != 0 || c.idle.Len() != 0 {
		t.Errorf("%d are open, %d idle", c.open(), c.idle.Len())
	}
}

type closedConn struct {
	net.Conn
	closed bool
}

func (c *closedConn) Close() error { c.closed = true; return nil }

// TestAdminConns: whoever opens many connections to the admin address and says
// nothing holds no more than the bound, and keeps nobody out.
func TestAdminConns(t *testing.T) {
	m := newAdmin(adminOptions{unready: func() string { return "" }, metrics: newMetrics(), log: slog.New(slog.DiscardHandler), local: true})
	srv, err := m.server()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { srv.Close(); <-done })
	var held []net.Conn
	t.Cleanup(func() {
		for _, c := range held {
			c.Close()
		}
	})
	for range 2 * maxAdminConns {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	eventually(t, "most of them are closed again", func() bool { return m.conns.open() == maxAdminConns })
	if status, _, _ := ask(t, http.MethodGet, "http://"+ln.Addr().String()+"/healthz", nil, ""); status != 200 {
		t.Errorf("a health check: %d", status)
	}
	_ = held[0].SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := bufio.NewReader(held[0]).ReadByte(); err != io.EOF {
		t.Errorf("the oldest one: %v", err)
	}
}
