package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

const (
	traceColumn = 48 // two of them and what stands between fit 100 columns
	traceQueue  = 4096
	maxMethods  = 10_000
)

// trace prints what passes a bridge in two columns: what the client saw, and
// what the server saw. It is a session.Tap, so it never makes anybody wait:
// what the screen cannot keep up with is left out and counted.
type trace struct {
	out    io.Writer
	colour bool
	frames chan any // translate.Frame, or chan struct{} to close once all before it is printed
	lost   atomic.Int64
	quit   chan struct{}
	once   sync.Once // closes quit
	done   chan struct{}

	methods map[string]string // of requests without an answer yet; the printer's own
}

var _ session.Tap = (*trace)(nil)

func newTrace(out io.Writer, colour bool) *trace {
	t := &trace{out: out, colour: colour, frames: make(chan any, traceQueue), quit: make(chan struct{}), done: make(chan struct{}), methods: map[string]string{}}
	go t.print()
	return t
}

// Frame implements session.Tap.
func (t *trace) Frame(f translate.Frame) {
	select {
	case t.frames <- f:
	default:
		t.lost.Add(1)
	}
}

// flush waits until all that came before is printed.
func (t *trace) flush() {
	printed := make(chan struct{})
	select {
	case t.frames <- printed:
	case <-t.done:
		return
	}
	select {
	case <-printed:
	case <-t.done:
	}
}

// close ends the printer; what comes later is not printed. Twice is fine.
func (t *trace) close() {
	t.once.Do(func() { close(t.quit) })
	<-t.done
}

func (t *trace) print() {
	defer close(t.done)
	for {
		var item any
		select {
		case item = <-t.frames:
		case <-t.quit:
			return
		}
		switch item := item.(type) {
		case chan struct{}:
			close(item)
		case translate.Frame:
			if n := t.lost.Swap(0); n > 0 {
				fmt.Fprintf(t.out, "… %d messages left out …\n", n)
			}
			t.line(item)
		}
	}
}

func (t *trace) header(client, server string) {
	fmt.Fprintf(t.out, "%s │ %s\n", pad(client), server)
	fmt.Fprintf(t.out, "%s─┼─%s\n", strings.Repeat("─", traceColumn), strings.Repeat("─", traceColumn))
}

// line prints a frame in its leg's column.
func (t *trace) line(f translate.Frame) {
	text, colour := t.describe(f)
	if text == "" {
		return
	}
	arrow := "→ "
	if f.Dir == translate.ToClient {
		arrow = "← "
	}
	cell := fit(arrow + text)
	if f.Leg == translate.ClientLeg {
		fmt.Fprintf(t.out, "%s │\n", t.paint(pad(cell), colour))
		return
	}
	fmt.Fprintf(t.out, "%s │ %s\n", pad(""), t.paint(cell, colour))
}

// Colours of ECMA-48 that read on dark and on light.
const (
	plainText   = ""
	requestText = "36" // cyan
	resultText  = "32" // green
	askText     = "33" // yellow
	errorText   = "31" // red
)

func (t *trace) paint(s, colour string) string {
	if !t.colour || colour == plainText {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

func (t *trace) describe(f translate.Frame) (text, colour string) {
	m := f.Msg
	if m == nil {
		if f.HTTP == nil || f.Dir != translate.ToServer {
			return "", plainText
		}
		switch f.HTTP.Verb {
		case "GET":
			return "GET: open the session's own stream", plainText
		case "DELETE":
			return "DELETE: end the session", plainText
		}
		return "", plainText
	}
	switch m.Kind {
	case jsonrpc.Request:
		t.remember(f, m)
		if f.Dir == translate.ToClient {
			return requestLine(m), askText
		}
		return requestLine(m), requestText
	case jsonrpc.Notification:
		return requestLine(m), plainText
	case jsonrpc.ErrorResponse:
		return t.recall(f, m) + ": " + errorLine(m), errorText
	}
	return t.recall(f, m) + ": " + resultLine(m.Result()), resultText
}

// A response is one to a request of the other direction on its leg. Requests
// toward the server are answered on their own stream; a server's questions by
// a request of their own.
func traceKey(f translate.Frame, m *jsonrpc.Message, dir translate.Direction) string {
	stream := ""
	if dir == translate.ToServer {
		stream = f.Stream
	}
	return f.Leg.String() + dir.String() + stream + " " + m.ID.Key()
}

func (t *trace) remember(f translate.Frame, m *jsonrpc.Message) {
	if len(t.methods) >= maxMethods {
		clear(t.methods)
	}
	t.methods[traceKey(f, m, f.Dir)] = m.Method
}

func (t *trace) recall(f translate.Frame, m *jsonrpc.Message) string {
	dir := translate.ToServer
	if f.Dir == translate.ToServer {
		dir = translate.ToClient
	}
	key := traceKey(f, m, dir)
	method := t.methods[key]
	delete(t.methods, key)
	return showText(cmp.Or(method, "answer"), traceColumn)
}

// fit cuts s to a column.
func fit(s string) string {
	if utf8.RuneCountInString(s) <= traceColumn {
		return s
	}
	return string([]rune(s)[:traceColumn-1]) + "…"
}

func pad(s string) string {
	s = fit(s)
	return s + strings.Repeat(" ", traceColumn-utf8.RuneCountInString(s))
}
