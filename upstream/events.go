package upstream

import (
	"errors"
	"fmt"
	"io"
	"time"

	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/lines"
	"taskbridge/translate/sse"
)

// discardFor is how long the end of a message over the limit is waited for.
const discardFor = 60 * time.Second

// errEndless: a message over the limit had no end.
var errEndless = errors.New("a message over the limit had no end")

// eventReader reads the events of a stream. One over the limit, or without
// room, is discarded to its end, which tells whose message it was.
type eventReader struct {
	*sse.Reader
	scan lines.Scanner
	late *time.Timer
}

// newEvents returns a reader of body that draws on the stream's budget. giveUp is
// called when the end of a discarded event is too long in coming.
func (s *stream) newEvents(body io.Reader, giveUp func()) *eventReader {
	r := &eventReader{Reader: sse.NewReader(body, s.h.opts.MaxMessage)}
	r.Room = s.meter.acquire
	r.Discarding = func(on bool) {
		if !on {
			r.late.Stop()
			return
		}
		s.meter.handedOver()
		r.scan = lines.Scanner{}
		r.late = time.AfterFunc(discardFor, giveUp)
	}
	r.Discarded = func(piece []byte) { r.scan.Scan(piece) }
	return r
}

// next is Next, but with a *lines.TooLong for an event that was discarded.
func (r *eventReader) next() (sse.Event, error) {
	ev, err := r.Next()
	if over, ok := errors.AsType[*sse.TooLarge](err); ok {
		id, call := r.scan.Found()
		err = &lines.TooLong{ID: id, Call: call, Busy: over.Busy, Endless: over.Endless}
	}
	return ev, err
}

// tooLong settles what an event was for that was discarded. An answer ends the
// exchange: a POST has one, and so has the stream a request is resumed on.
func (s *stream) tooLong(ev sse.Event, over *lines.TooLong) {
	ev.Data = nil
	if !over.Busy {
		s.takeEvent(ev)
	}
	s.h.log.Warn("discarded a message of the server", "upstream", s.e.name, "stream", s.id, "why", over.Error(), "limit", s.h.opts.MaxMessage)
	limit := fmt.Sprintf("the message is over the limit of %d bytes", s.h.opts.MaxMessage)
	switch {
	case over.Endless:
		s.end(s.readError(errEndless))
	case over.Call:
		s.refuse(&jsonrpc.DecodeError{Code: jsonrpc.CodeInvalidRequest, Msg: limit, ID: over.ID, Call: true})
	case !s.awaits(over.ID):
	case over.Busy:
		// Its id was not taken: where the server gives ids, it can be had again.
		s.end(s.readError(errBusy))
	default:
		s.end(s.readError(errTooLarge))
	}
}

// awaits: an answer under id is the one the exchange is for.
func (s *stream) awaits(id jsonrpc.ID) bool {
	if id.IsZero() {
		return false
	}
	if len(s.sent.Msg) == 0 {
		return s.sent.Header.Get("Last-Event-ID") != ""
	}
	m, err := jsonrpc.Decode(s.sent.Msg, jsonrpc.Limits{})
	return err == nil && m.Kind == jsonrpc.Request && m.ID.Key() == id.Key()
}
