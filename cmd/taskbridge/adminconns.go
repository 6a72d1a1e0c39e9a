package main

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// maxAdminConns bounds the connections of the admin address.
const maxAdminConns = 256

// connCap bounds the connections of an HTTP server. At the bound the one that has
// been waiting for a request longest gives its place up, so that whoever holds
// many connections open keeps no health check out; where all are being answered
// the new one is closed. Safe for concurrent use.
type connCap struct {
	most int

	mu   sync.Mutex // protects the fields below
	all  map[net.Conn]*list.Element
	idle list.List // of net.Conn that wait for a request, the oldest first
}

func newConnCap(most int) *connCap { return &connCap{most: most, all: map[net.Conn]*list.Element{}} }

// state is http.Server.ConnState.
func (c *connCap) state(conn net.Conn, s http.ConnState) {
	var give net.Conn
	c.mu.Lock()
	at, known := c.all[conn]
	switch s {
	case http.StateNew:
		if len(c.all) >= c.most {
			give = conn
			if oldest := c.idle.Front(); oldest != nil {
				give, _ = c.idle.Remove(oldest).(net.Conn)
				delete(c.all, give)
			}
		}
		if give != conn {
			c.all[conn] = c.idle.PushBack(conn)
		}
	case http.StateIdle:
		if known && at == nil {
			c.all[conn] = c.idle.PushBack(conn)
		}
	case http.StateActive:
		if at != nil {
			c.idle.Remove(at)
			c.all[conn] = nil
		}
	case http.StateHijacked, http.StateClosed:
		if at != nil {
			c.idle.Remove(at)
		}
		delete(c.all, conn)
	}
	c.mu.Unlock()
	if give != nil {
		give.Close() // its server finds out by itself
	}
}

// open is how many connections there are.
func (c *connCap) open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}
