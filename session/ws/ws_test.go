package ws

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"taskbridge/translate/lines"
)

// pair is a client's Conn and the bare other end.
func pair(t testing.TB, o Options) (*Conn, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	go accept(theirs)
	d := websocket.Dialer{NetDialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
	c, _, err := d.DialContext(t.Context(), "ws://h/", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := New(c, o)
	t.Cleanup(func() {
		theirs.Close()
		w.Close(Normal, "")
	})
	return w, theirs
}

// accept answers an upgrade.
func accept(c net.Conn) {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err == nil {
		sum := sha1.Sum([]byte(req.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
			base64.StdEncoding.EncodeToString(sum[:]))
	}
}

// frame is one frame of a server.
func frame(opcode byte, fin bool, data string) []byte {
	head := []byte{opcode, 127, 0, 0, 0, 0, byte(len(data) >> 24), byte(len(data) >> 16), byte(len(data) >> 8), byte(len(data))}
	if fin {
		head[0] |= 0x80
	}
	if len(data) < 126 {
		head = append(head[:1], byte(len(data)))
	}
	return append(head, data...)
}

const (
	cont, text, binary, closing, ping, pong = 0, 1, 2, 8, 9, 10
)

// readFrames gives what a client sends, unmasked.
func readFrames(c net.Conn, out chan<- string) {
	defer close(out)
	r := bufio.NewReader(c)
	for {
		var head [2]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		n := int(head[1] & 0x7f)
		for wide := map[int]int{126: 2, 127: 8}[n]; wide > 0; wide-- {
			b, _ := r.ReadByte()
			if n >= 126 && n <= 127 {
				n = 0
			}
			n = n<<8 | int(b)
		}
		data := make([]byte, 4+n)
		if _, err := io.ReadFull(r, data); err != nil {
			return
		}
		for i := range data[4:] {
			data[4+i] ^= data[i%4]
		}
		out <- fmt.Sprintf("%x %q", head[0]&15, data[4:])
	}
}

// TestConn_KeepAlive: it lives as long as the other end answers pings, and no
// longer.
func TestConn_KeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, theirs := pair(t, Options{})
		frames := make(chan string)
		go readFrames(theirs, frames)
		ended := make(chan error, 1)
		go func() {
			_, err := w.Read()
			ended <- err
		}()
		for range 20 {
			if got := <-frames; got != `9 ""` {
				t.Fatalf("got %s", got)
			}
			theirs.Write(frame(pong, true, ""))
		}
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		default:
		}
		last := time.Now()
		go func() {
			for range frames {
			}
		}()
		err := <-ended
		if ce := (*CloseError)(nil); !errors.As(err, &ce) || ce.Code != 0 || !strings.Contains(err.Error(), "no sign of life") {
			t.Errorf("got %v", err)
		}
		if d := time.Since(last); d != 45*time.Second {
			t.Errorf("after %v", d)
		}
	})
}

// TestConn_Slow: a message that drips ends the connection, whatever else the
// other end says.
func TestConn_Slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, theirs := pair(t, Options{})
		go io.Copy(io.Discard, theirs)
		done := make(chan struct{})
		go func() {
			defer close(done)
			piece := frame(text, false, "x")
			for {
				if _, err := theirs.Write(piece); err != nil {
					return
				}
				piece = append(frame(cont, false, "x"), frame(ping, true, "")...)
				time.Sleep(10 * time.Second)
			}
		}()
		began := time.Now()
		_, err := w.Read()
		if err == nil || !strings.Contains(err.Error(), "too slowly") {
			t.Errorf("got %v", err)
		}
		if d := time.Since(began).Round(time.Second); d != time.Minute {
			t.Errorf("after %v", d)
		}
		theirs.Close()
		<-done
	})
}

// TestConn_NobodyReads: a write has its time.
func TestConn_NobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := pair(t, Options{})
		began := time.Now()
		err := w.Write([]byte(strings.Repeat("x", 160<<10)))
		if err == nil {
			t.Error("it was taken")
		}
		if d := time.Since(began).Round(time.Second); d != 70*time.Second {
			t.Errorf("after %v: %v", d, err)
		}
	})
}

// TestConn_Close: both ends say why; 1005 and 1006 are never sent.
func TestConn_Close(t *testing.T) {
	for _, c := range []struct {
		name   string
		frames []byte
		want   string
		answer string
	}{
		{"code", frame(closing, true, "\x03\xe9bye"), `the other end closed the connection with 1001 "bye"`, `8 "\x03\xe9"`},
		{"none", frame(closing, true, ""), "the other end closed the connection", `8 ""`},
		{"1006", frame(closing, true, "\x03\xee"), "broke", `8 "\x03\xeabad close code 1006"`},
		{"binary", frame(binary, true, "{}"), ErrBinary.Error(), `8 "\x03\xeb"`},
		{"bytes", frame(text, true, "\xff"), ErrUTF8.Error(), `8 "\x03\xef"`},
		{"size", frame(text, true, strings.Repeat("x", 101)), ErrTooLarge.Error(), `8 "\x03\xf1"`},
		{"masked", []byte{0x81, 0x80, 0, 0, 0, 0}, "broke", `8 "\x03\xeabad MASK"`},
		{"compressed", []byte{0xc1, 0}, "broke", `8 "\x03\xeaRSV1 set"`},
		{"negative length", []byte{0x81, 127, 255, 255, 255, 255, 255, 255, 255, 255}, "broke", `8 "\x03\xe8"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, theirs := pair(t, Options{MaxMessage: 100})
				frames := make(chan string, 10)
				go readFrames(theirs, frames)
				go theirs.Write(c.frames)
				_, err := w.Read()
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v", err)
				}
				go w.Close(CodeFor(err), "")
				if got := <-frames; got != c.answer {
					t.Errorf("answered %s", got)
				}
			})
		})
	}
}

// TestConn_Whose: a message over the limit, or without memory for it, still says
// whose it is.
func TestConn_Whose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big := strings.Repeat("x", 100<<10)
		w, theirs := pair(t, Options{MaxMessage: 150 << 10, Budget: none{}})
		go func() {
			theirs.Write(frame(text, true, `{"a":"`+big+`","id":7,"method":"m"}`))
			theirs.Write(frame(text, true, `{}`))
			theirs.Write(frame(text, true, `{"id":8,"a":"`+big+big+`"}`))
			io.Copy(io.Discard, theirs)
		}()
		busy := (*lines.TooLong)(nil)
		if _, err := w.Read(); !errors.As(err, &busy) || !busy.Busy || busy.ID.String() != "7" || !busy.Call {
			t.Errorf("got %v", err)
		}
		if raw, err := w.Read(); string(raw) != "{}" || err != nil {
			t.Errorf("then %s %v", raw, err)
		}
		large := (*TooLarge)(nil)
		if _, err := w.Read(); !errors.As(err, &large) || large.ID.String() != "8" || large.Call {
			t.Errorf("got %v", err)
		}
	})
}

type none struct{}

func (none) TryAcquire(int64) bool { return false }
func (none) Release(int64)         {}

// FuzzRead: whatever the other end sends, reading ends, within its limit.
func FuzzRead(f *testing.F) {
	f.Add(frame(text, true, `{"id":1}`))
	f.Add(append(frame(text, false, `{"id"`), append(frame(ping, true, "x"), frame(cont, true, ":1}")...)...))
	f.Add(append(frame(closing, true, "\x03\xe8"), frame(text, true, "{}")...))
	f.Add([]byte{0x81, 127, 127, 255, 255, 255, 255, 255, 255, 255, 1, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		w, theirs := pair(t, Options{MaxMessage: 1000, Goodbye: 10 * time.Millisecond})
		go io.Copy(io.Discard, theirs)
		go func() {
			theirs.Write(data)
			theirs.Close()
		}()
		for {
			raw, err := w.Read()
			if len(raw) > 1000 || len(raw) > len(data) {
				t.Fatalf("%d bytes", len(raw))
			}
			if err != nil {
				break
			}
		}
	})
}

// FuzzFragments: a message is the same however it is cut into frames, with
// control frames between them.
func FuzzFragments(f *testing.F) {
	f.Add(`{"id":1}`, []byte{1, 2, 3})
	f.Add(strings.Repeat("é", 5000), []byte{200, 0, 7})
	f.Fuzz(func(t *testing.T, msg string, cuts []byte) {
		msg = strings.ToValidUTF8(msg, "?")
		w, theirs := pair(t, Options{Goodbye: 10 * time.Millisecond})
		go io.Copy(io.Discard, theirs)
		var wire bytes.Buffer
		opcode, rest := byte(text), msg
		for _, n := range cuts {
			cut := min(int(n), len(rest))
			wire.Write(frame(opcode, false, rest[:cut]))
			if n%3 == 0 {
				wire.Write(frame(ping, true, "p"))
			}
			opcode, rest = cont, rest[cut:]
		}
		wire.Write(frame(opcode, true, rest))
		go theirs.Write(wire.Bytes())
		if raw, err := w.Read(); err != nil || string(raw) != msg {
			t.Errorf("got %q %v, want %q", raw, err, msg)
		}
	})
}
