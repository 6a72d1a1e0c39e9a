package ws

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"taskbridge/translate/lines"
)

// Subprotocol is what both ends agree on in the upgrade.
const Subprotocol = "mcp"

// Close codes that are sent (RFC 6455 section 7.4.1). 1005 and 1006 are never on
// the wire.
const (
	Normal     = websocket.CloseNormalClosure
	GoingAway  = websocket.CloseGoingAway
	NotText    = websocket.CloseUnsupportedData
	BadUTF8    = websocket.CloseInvalidFramePayloadData
	Policy     = websocket.ClosePolicyViolation
	TooBig     = websocket.CloseMessageTooBig
	Failed     = websocket.CloseInternalServerErr
	TryLater   = websocket.CloseTryAgainLater
	maxReason  = 123 // bytes of a close frame's text
	noStatus   = websocket.CloseNoStatusReceived
	notOnWire  = websocket.CloseAbnormalClosure
	controlFor = 5 * time.Second // for a ping or close to be written
)

const (
	firstRead = 4 << 10
	// free is what a message may have without drawing on the budget.
	free = 64 << 10
	step = 256 << 10
	// growth is how many times larger a buffer gets that was too small.
	growth = 4
	// rate is the least bytes a second at which a message must come and go once
	// its first time is used up.
	rate = 16 << 10
)

// BufferSize is what connections should be made with, and Buffers the pool for
// writing: a client's message of this size leaves as one frame, a longer one in
// fragments.
const BufferSize = 64 << 10

// Buffers are shared by connections that write.
var Buffers = &sync.Pool{}

// Budget bounds the memory of all connections; *session.Budget is one.
type Budget interface {
	TryAcquire(n int64) bool
	Release(n int64)
}

// Options of a Conn. Zero values work.
type Options struct {
	MaxMessage int    // bytes of one message (0: 64 MiB)
	Budget     Budget // drawn on by messages over 64 KiB while they are read; nil: none
	// Ping is how often the other end is asked for a sign of life, Pong how long it
	// may then take (0: 30 s, 15 s).
	Ping, Pong time.Duration
	// Message is how long one message may take to come or go beyond a least rate of
	// 16 KiB a second (0: 60 s).
	Message time.Duration
	// Goodbye is how long the other end may take to answer a close (0: 2 s).
	Goodbye time.Duration
}

// Errors of Read after which Close should say why; compare with errors.Is.
var (
	ErrTooLarge = errors.New("the message is over the limit")
	ErrBinary   = errors.New("a binary message; messages are text")
	ErrUTF8     = errors.New("a message that is not UTF-8")
	// ErrClosed: the connection was closed from this side.
	ErrClosed = errors.New("connection closed")
)

// CodeFor is the close code for an error of Read.
func CodeFor(err error) int {
	switch {
	case errors.Is(err, ErrTooLarge):
		return TooBig
	case errors.Is(err, ErrBinary):
		return NotText
	case errors.Is(err, ErrUTF8):
		return BadUTF8
	}
	return Normal
}

// TooLarge is an error of Read that is ErrTooLarge. ID and Call are as far as the
// message's beginning tells.
type TooLarge struct{ lines.TooLong }

func (e *TooLarge) Error() string { return ErrTooLarge.Error() }

// Is makes errors.Is(err, ErrTooLarge) work.
func (e *TooLarge) Is(target error) bool { return target == ErrTooLarge }

// CloseError is an error of Read: the other end closed, or the connection broke
// (then Code is 0).
type CloseError struct {
	Code int
	Text string // the other end's words, or what broke
}

func (e *CloseError) Error() string {
	switch {
	case e.Code == 0:
		return "the connection broke: " + e.Text
	case e.Code == noStatus:
		return "the other end closed the connection"
	case e.Text == "":
		return fmt.Sprintf("the other end closed the connection with %d", e.Code)
	}
	return fmt.Sprintf("the other end closed the connection with %d %q", e.Code, e.Text)
}

// Conn is one connection. Read has one caller at a time, Write may be called by
// any number, Close by anybody.
type Conn struct {
	c *websocket.Conn
	o Options

	reading sync.Mutex // held by Read, and by Close once Read is done
	held    int64      // of the budget; with reading
	began   time.Time  // of the message being read; with reading
	got     int        // of it; with reading

	writing sync.Mutex

	mu      sync.Mutex // protects the fields below
	closing bool
	done    chan struct{} // closed with the connection
}

// New takes over a connection after its upgrade and keeps it alive until Close.
func New(c *websocket.Conn, o Options) *Conn {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.Ping, 30*time.Second)
	def(&o.Pong, 15*time.Second)
	def(&o.Message, time.Minute)
	def(&o.Goodbye, 2*time.Second)
	if o.MaxMessage <= 0 {
		o.MaxMessage = 64 << 20
	}
	w := &Conn{c: c, o: o, done: make(chan struct{})}
	pong := c.PingHandler()
	c.SetPingHandler(func(data string) error {
		w.heard()
		return pong(data)
	})
	c.SetPongHandler(func(string) error {
		w.heard()
		return nil
	})
	w.heard()
	go w.keepAlive()
	return w
}

// Done is closed when the connection is.
func (w *Conn) Done() <-chan struct{} { return w.done }

// heard puts off the end of a connection whose other end gave a sign of life. A
// message that is under way has a bound of its own besides. The caller holds
// reading, or is New.
func (w *Conn) heard() {
	at := time.Now().Add(w.o.Ping + w.o.Pong)
	if !w.began.IsZero() {
		if end := w.began.Add(w.allowed(w.got)); end.Before(at) {
			at = end
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closing { // then Close has set the last deadline
		w.c.SetReadDeadline(at)
	}
}

// allowed is how long n bytes of a message may take.
func (w *Conn) allowed(n int) time.Duration {
	return w.o.Message + time.Duration(n)*(time.Second/rate)
}

func (w *Conn) keepAlive() {
	t := time.NewTicker(w.o.Ping)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			w.c.WriteControl(websocket.PingMessage, nil, time.Now().Add(controlFor))
		case <-w.done:
			return
		}
	}
}

// Read returns the next message; the slice is the caller's. After a
// *lines.TooLong that is Busy, a message there was no memory for, reading goes
// on; any other error is the last, and Close should be called with CodeFor it.
func (w *Conn) Read() ([]byte, error) {
	w.reading.Lock()
	defer w.reading.Unlock()
	w.giveBack()
	w.heard() // nobody could hear while nobody read
	kind, r, err := w.c.NextReader()
	if err != nil {
		return nil, w.broken(err)
	}
	if kind != websocket.TextMessage {
		return nil, ErrBinary
	}
	w.began, w.got = time.Now(), 0
	raw, err := w.message(r)
	w.began = time.Time{}
	w.heard()
	if w.isClosing() {
		return nil, ErrClosed
	}
	if err == nil && !utf8.Valid(raw) {
		return nil, ErrUTF8 // RFC 6455 section 8.1
	}
	return raw, err
}

// message reads one message to its end.
func (w *Conn) message(r io.Reader) ([]byte, error) {
	var buf []byte
	for {
		if len(buf) == cap(buf) {
			// One byte past the limit tells that there is more.
			// It grows in large steps: what is grown out of is garbage for a while.
			size := min(max(growth*len(buf), firstRead), w.o.MaxMessage+1)
			buf = append(make([]byte, 0, size), buf...)
		}
		if !w.room(int64(len(buf) + 1)) {
			return nil, w.discard(r, buf)
		}
		w.heard()
		end := cap(buf)
		if w.o.Budget != nil {
			end = min(end, int(free+w.held))
		}
		n, err := r.Read(buf[len(buf):end])
		buf = buf[:len(buf)+n]
		w.got = len(buf)
		switch {
		case len(buf) > w.o.MaxMessage:
			id, call := lines.Identify(buf)
			return nil, &TooLarge{lines.TooLong{ID: id, Call: call}}
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, w.broken(err)
		}
	}
}

// room draws what a message of size bytes needs on the budget.
func (w *Conn) room(size int64) bool {
	for w.o.Budget != nil && size > free+w.held {
		if !w.o.Budget.TryAcquire(step) {
			return false
		}
		w.held += step
	}
	return true
}

func (w *Conn) giveBack() {
	if w.held > 0 {
		w.o.Budget.Release(w.held)
		w.held = 0
	}
}

// discard reads a message there is no memory for to its end, and says whose it
// is.
func (w *Conn) discard(r io.Reader, begun []byte) error {
	var s lines.Scanner
	s.Scan(begun)
	w.giveBack()
	piece := make([]byte, firstRead)
	for {
		w.heard()
		n, err := r.Read(piece)
		s.Scan(piece[:n])
		w.got += n
		id, call := s.Found()
		switch {
		case w.got > w.o.MaxMessage:
			return &TooLarge{lines.TooLong{ID: id, Call: call}}
		case err == io.EOF:
			return &lines.TooLong{ID: id, Call: call, Busy: true}
		case err != nil:
			return w.broken(err)
		}
	}
}

// broken reads an error of the connection.
func (w *Conn) broken(err error) error {
	if w.isClosing() {
		return ErrClosed
	}
	if ce, ok := errors.AsType[*websocket.CloseError](err); ok && ce.Code != notOnWire {
		return &CloseError{Code: ce.Code, Text: ce.Text}
	}
	text := err.Error()
	switch ne := net.Error(nil); {
	case errors.As(err, &ne) && ne.Timeout() && w.began.IsZero():
		text = fmt.Sprintf("no sign of life for %v", w.o.Ping+w.o.Pong)
	case errors.As(err, &ne) && ne.Timeout():
		text = "a message came too slowly"
	case websocket.IsCloseError(err, notOnWire):
		text = "it ended without a close"
	}
	return &CloseError{Text: text}
}

// Write sends one message, which must be valid UTF-8 and may come in parts, as one
// text message. An error is the connection's end: half a message may have gone.
func (w *Conn) Write(msg ...[]byte) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	if w.isClosing() {
		return ErrClosed
	}
	size := 0
	for _, part := range msg {
		size += len(part)
	}
	w.c.SetWriteDeadline(time.Now().Add(w.allowed(size)))
	if err := w.send(msg); err != nil {
		if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
			return &CloseError{Text: "a message was not taken in time"}
		}
		return &CloseError{Text: err.Error()}
	}
	return nil
}

func (w *Conn) send(msg [][]byte) error {
	if len(msg) == 1 {
		return w.c.WriteMessage(websocket.TextMessage, msg[0])
	}
	to, err := w.c.NextWriter(websocket.TextMessage)
	if err != nil {
		return err
	}
	for _, part := range msg {
		if _, err := to.Write(part); err != nil {
			return err
		}
	}
	return to.Close()
}

func (w *Conn) isClosing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closing
}

// Close ends the connection in order: it says why, waits for the other end's
// close for a moment, and closes. What comes meanwhile is discarded. When it
// returns nothing of the connection is left, also to a second caller.
func (w *Conn) Close(code int, reason string) {
	w.mu.Lock()
	if w.closing {
		w.mu.Unlock()
		<-w.done
		return
	}
	w.closing = true
	w.mu.Unlock()
	until := time.Now().Add(w.o.Goodbye)
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	said := w.c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), until)
	w.c.SetReadDeadline(until)
	if said != nil && !errors.Is(said, websocket.ErrCloseSent) {
		w.c.Close() // a broken one, or a write that nobody takes
	}
	w.reading.Lock()
	for {
		if _, _, err := w.c.NextReader(); err != nil {
			break
		}
	}
	w.giveBack()
	w.reading.Unlock()
	w.c.Close()
	close(w.done)
}
