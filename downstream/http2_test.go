package downstream

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
)

// Frames of HTTP/2 (RFC 9113 section 6), by hand: no client makes the wrong
// ones.
const (
	h2Data         = 0
	h2Headers      = 1
	h2Reset        = 3
	h2Settings     = 4
	h2Continuation = 9

	h2EndStream  = 1
	h2EndHeaders = 4
	h2Ack        = 1
)

func h2Frame(kind, flags byte, stream uint32, payload string) string {
	head := make([]byte, 9, 9+len(payload))
	head[0], head[1], head[2] = byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload))
	head[3], head[4] = kind, flags
	binary.BigEndian.PutUint32(head[5:], stream)
	return string(append(head, payload...))
}

// h2Fields is the header block of a POST to the endpoint, names from the static
// table of RFC 7541 appendix A, values as they are.
func h2Fields() string {
	field := func(index byte, value string) string {
		name := string([]byte{index})
		if index >= 15 {
			name = string([]byte{15, index - 15})
		}
		return name + string([]byte{byte(len(value))}) + value
	}
	return "\x83\x86" + field(1, "localhost:8080") + field(4, "/mcp") + field(31, "application/json") + field(19, "application/json, text/event-stream")
}

// h2Conn is a connection of a client that keeps to no rule.
type h2Conn struct {
	net.Conn
	kinds map[byte]int // of the frames that came; the connection's own until done
	done  chan struct{}
}

func (r *rig) h2Raw() *h2Conn {
	r.t.Helper()
	c, err := r.ln.Dial()
	if err != nil {
		r.t.Fatal(err)
	}
	h := &h2Conn{Conn: c, kinds: map[byte]int{}, done: make(chan struct{})}
	r.t.Cleanup(func() { c.Close() })
	go func() {
		defer close(h.done)
		head := make([]byte, 9)
		for {
			if _, err := io.ReadFull(c, head); err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, c, int64(head[0])<<16|int64(head[1])<<8|int64(head[2])); err != nil {
				return
			}
			h.kinds[head[3]]++
		}
	}()
	h.say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2Frame(h2Settings, 0, 0, "") + h2Frame(h2Settings, h2Ack, 0, ""))
	return h
}

// say is false once the server has closed the connection.
func (h *h2Conn) say(text string) bool {
	_, err := io.WriteString(h.Conn, text)
	return err == nil
}

func (h *h2Conn) call(stream uint32) bool {
	return h.say(h2Frame(h2Headers, h2EndHeaders, stream, h2Fields()) + h2Frame(h2Data, h2EndStream, stream, ping))
}

// TestSafetyS8_HTTP2Abuse: streams are capped, floods end the connection, work
// that was begun is bounded and cancelled, and others go on.
func TestSafetyS8_HTTP2Abuse(t *testing.T) {
	const streams = 50
	for _, c := range []struct {
		name  string
		abuse func(h *h2Conn)
		ends  bool // the server closes the connection
		most  int  // calls
	}{
		{"1,000 streams at once", func(h *h2Conn) {
			for i := range uint32(1000) {
				if !h.call(2*i + 1) {
					return
				}
			}
		}, false, streams},
		{"10,000 streams reset at once", func(h *h2Conn) {
			for i := range uint32(10_000) {
				if !h.call(2*i+1) || !h.say(h2Frame(h2Reset, 0, 2*i+1, "\x00\x00\x00\x08")) {
					return
				}
			}
		}, true, 10 * streams},
		{"100 streams reset: a front end whose users leave", func(h *h2Conn) {
			for i := range uint32(100) {
				h.call(2*i + 1)
				h.say(h2Frame(h2Reset, 0, 2*i+1, "\x00\x00\x00\x08"))
			}
		}, false, 100},
		{"headers without end", func(h *h2Conn) {
			h.say(h2Frame(h2Headers, 0, 1, h2Fields()))
			for h.say(h2Frame(h2Continuation, 0, 1, "\x00\x01x"+"\x7f\x81\x7f"+strings.Repeat("y", 1000))) {
			}
		}, true, 0},
		{"unknown kinds of frames", func(h *h2Conn) {
			for kind := byte(0x0a); kind <= 0x0f; kind++ {
				h.say(h2Frame(kind, 0xff, 0, strings.Repeat("z", 1000)) + h2Frame(kind, 0xff, 5, "z"))
			}
			h.call(1)
		}, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
					if in.Caller.Credential.Get("Authorization") != "" {
						echo(in, s)
					}
				}}
				r := newRig(t, hub, func(o *Options) { o.Limits.Streams = streams })
				h := r.h2Raw()
				over := make(chan struct{})
				go func() { defer close(over); c.abuse(h) }()
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if got := r.post(ping, "Authorization: Bearer good"); got.status != 200 {
					t.Errorf("another client: %+v", got)
				}
				select {
				case <-h.done:
					if !c.ends {
						t.Errorf("the connection was closed; frames %v", h.kinds)
					}
				default:
					if c.ends {
						t.Error("the connection is open")
					}
				}
				h.Close()
				<-over
				<-h.done
				time.Sleep(5 * time.Second)
				if n := len(hub.calls()) - 1; n > c.most || c.most == 1 && n != 1 {
					t.Errorf("%d calls were begun", n)
				}
				if n := hub.left(); n != len(hub.calls()) {
					t.Errorf("%d of %d calls were left", n, len(hub.calls()))
				}
			})
		})
	}
}
