package main

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// cutter is a network between two ends that can break.
type cutter struct {
	addr, to string
	ln       net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex // protects the fields below
	conns map[net.Conn]net.Conn
	// left, if above zero, is how many bytes may still pass up or down; the last
	// one cuts all connections.
	left   [2]int
	events int // likewise, of blank lines that end events on their way down
	cuts   int
}

const (
	up   = 0
	down = 1
)

// newCutter stands before the address of a URL; url is that URL through it.
func newCutter(t *testing.T, url string) (c *cutter, through string) {
	t.Helper()
	scheme, rest, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(rest, "/")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c = &cutter{addr: ln.Addr().String(), to: host, ln: ln, conns: map[net.Conn]net.Conn{}}
	c.wg.Go(c.serve)
	t.Cleanup(func() {
		ln.Close()
		c.cut()
		c.wg.Wait()
	})
	return c, scheme + "://" + c.addr + "/" + path
}

func (c *cutter) serve() {
	for {
		client, err := c.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.to)
		if err != nil {
			client.Close()
			continue
		}
		c.mu.Lock()
		c.conns[client] = server
		c.mu.Unlock()
		c.wg.Go(func() { c.pump(server, client, up) })
		c.wg.Go(func() { c.pump(client, server, down) })
	}
}

func (c *cutter) pump(to, from net.Conn, way int) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 4<<10)
	for {
		n, err := from.Read(buf)
		pass, over := c.passes(buf[:n], way)
		if _, werr := to.Write(pass); werr != nil {
			return
		}
		if over {
			c.cut()
		}
		if err != nil {
			return
		}
	}
}

// passes is how much of p gets through, and whether that is the end.
func (c *cutter) passes(p []byte, way int) (pass []byte, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if way == down && c.events > 0 {
		for i := 0; ; {
			n := strings.Index(string(p[i:]), "\n\n")
			if n < 0 {
				break
			}
			i += n + 2
			if c.events--; c.events == 0 {
				return p[:i], true
			}
		}
	}
	if c.left[way] > 0 {
		if n := c.left[way]; len(p) >= n {
			c.left[way] = 0
			return p[:n], true
		}
		c.left[way] -= len(p)
	}
	return p, false
}

// cut breaks all connections, as a cable does that is torn out.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts++
	for client, server := range c.conns {
		for _, conn := range []net.Conn{client, server} {
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
	}
	clear(c.conns)
}

func (c *cutter) cutAfter(way, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[way] = bytes
}

func (c *cutter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts = 0
}

func (c *cutter) wasCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts > 0
}
