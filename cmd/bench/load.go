package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// connection sends one canned request after the other on a socket it keeps.
type connection struct {
	c     net.Conn
	r     *bufio.Reader
	req   []byte
	id    []byte // its digits in req
	next  int64
	reply int // bytes a reply has at least
}

// connect opens n connections. Ids are never used twice by one scenario.
func connect(addr string, c *canned, n int, ids *int64) ([]*connection, error) {
	list := make([]*connection, 0, n)
	for i := range n {
		c := c.of(i)
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return list, err
		}
		head := c.head(addr)
		req := append(head, c.body...)
		at := bytes.Index(req[len(head):], []byte(`"id":`)) + len(head) + len(`"id":`)
		k := &connection{c: conn, r: bufio.NewReaderSize(conn, 64<<10), req: req, id: req[at : at+len(strconv.Itoa(firstID))], reply: c.reply}
		*ids += 10_000_000
		k.next = firstID + *ids
		list = append(list, k)
		if err := k.check(); err != nil {
			return list, err
		}
	}
	return list, nil
}

func disconnect(list []*connection) {
	for _, k := range list {
		k.c.Close()
	}
}

// send writes the request under a new id.
func (k *connection) send() error {
	k.next++
	for i, n := len(k.id)-1, k.next; i >= 0; i, n = i-1, n/10 {
		k.id[i] = byte('0' + n%10)
	}
	_, err := k.c.Write(k.req)
	return err
}

var (
	ok200    = []byte("HTTP/1.1 200 ")
	length   = []byte("content-length:")
	newLine  = []byte("\r\n")
	errReply = errors.New("reply is not what it was at first")
)

// replyHead reads a reply's header and returns the length of its body.
func (k *connection) replyHead() (int, error) {
	n, first := -1, true
	for {
		line, err := k.r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		switch {
		case first:
			if !bytes.HasPrefix(line, ok200) {
				return 0, fmt.Errorf("%s", bytes.TrimSpace(line))
			}
			first = false
		case len(line) == len(newLine):
			if n < 0 {
				return 0, errors.New("reply without Content-Length")
			}
			return n, nil
		case len(line) > len(length) && bytes.EqualFold(line[:len(length)], length):
			if n, err = strconv.Atoi(string(bytes.TrimSpace(line[len(length):]))); err != nil {
				return 0, err
			}
		}
	}
}

// do is one exchange.
func (k *connection) do() error {
	if err := k.send(); err != nil {
		return err
	}
	n, err := k.replyHead()
	if err != nil {
		return err
	}
	if n < k.reply {
		return errReply
	}
	_, err = k.r.Discard(n)
	return err
}

// check is an exchange whose reply is looked at.
func (k *connection) check() error {
	if err := k.send(); err != nil {
		return err
	}
	n, err := k.replyHead()
	if err != nil {
		return fmt.Errorf("first reply: %w", err)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(k.r, body); err != nil {
		return err
	}
	if n < k.reply || !bytes.Contains(body, append([]byte(`"id":`), k.id...)) || !bytes.Contains(body, []byte(`"result":`)) {
		return fmt.Errorf("first reply has %d bytes, want a result of %d: %.300s", n, k.reply, body)
	}
	return nil
}

// load keeps all connections busy for d and returns exchanges a second and
// how many there were.
func load(list []*connection, d time.Duration) (perSecond float64, ops int, err error) {
	var (
		wg     sync.WaitGroup
		counts = make([]int, len(list))
		errs   = make([]error, len(list))
		start  = time.Now()
	)
	for i, k := range list {
		wg.Go(func() {
			for time.Since(start) < d && errs[i] == nil {
				errs[i] = k.do()
				counts[i]++
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	for _, n := range counts {
		ops += n
	}
	return float64(ops) / took.Seconds(), ops, errors.Join(errs...)
}
