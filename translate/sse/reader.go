package sse

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// Event is one event of a stream.
type Event struct {
	Type    string // event field, empty if absent
	ID      string // id field of this event
	HasID   bool   // an id field was there, perhaps an empty one, which clears the last id
	Data    []byte // belongs to the caller
	HasData bool   // a data field was there; with empty Data the event only primes
	Retry   time.Duration
}

// NoRetry is Event.Retry where the event has no retry field.
const NoRetry = time.Duration(-1)

const (
	// DefaultMaxEvent bounds an event where NewReader is given no bound.
	DefaultMaxEvent = 64 << 20
	// MaxField bounds id, event and retry each: an id travels in a header.
	MaxField = 16 << 10
	// MaxRetry is what longer reconnection times are read as.
	MaxRetry = 24 * time.Hour

	bufferSize = 16 << 10
	// endless is how many limits an event may have before it is given up.
	endless = 4
	// freeRoom is what an event may take without Reader.Room.
	freeRoom = 64 << 10
	// step is the least that is asked of Reader.Room at a time.
	step = 256 << 10
	// growth is how many times larger a buffer gets that was too small.
	growth = 4
	// maxName is more than the longest field name with a meaning, and a BOM.
	maxName = 16
)

// ErrTooLarge is what every *TooLarge is; compare with errors.Is.
var ErrTooLarge = errors.New("sse: event too large")

// TooLarge is returned for an event that was not kept, once its end was found,
// beside what else the event said: reading may go on behind it.
type TooLarge struct {
	// Busy: it was within the limit, but Reader.Room had none.
	Busy bool
	// Endless: no end came within four times the limit, reading is over.
	Endless bool
}

func (e *TooLarge) Error() string {
	switch {
	case e.Endless:
		return "sse: no end of the event within four times the limit"
	case e.Busy:
		return "sse: no room for the event"
	}
	return ErrTooLarge.Error()
}

// Is makes errors.Is(err, ErrTooLarge) work.
func (e *TooLarge) Is(target error) bool { return target == ErrTooLarge }

var bom = []byte("\xEF\xBB\xBF")

// Reader reads events from a stream. It is not for concurrent use; closing the
// stream from elsewhere unblocks it.
type Reader struct {
	// Final says whether the data of an event that the end of the stream cut off
	// is a whole message and so to be delivered. If nil, any JSON object or array
	// is.
	Final func(data []byte) bool
	// Room, if set, is asked for every further n bytes the data of an event over
	// 64 KiB takes. They are the caller's to give back, once it has taken the
	// event over or is told to discard it.
	Room func(n int64) bool
	// Discarding, if set, is told when an event begins to be discarded and when
	// that is over: the caller bounds the time. Discarded, if set, gets the data
	// of such an event in pieces, which it must not keep.
	Discarding func(on bool)
	Discarded  func(piece []byte)

	r        io.Reader
	maxEvent int
	buf      []byte
	unread   []byte // part of buf
	err      error  // from r, once unread is used up; or a TooLarge without an end

	skipLF bool // the last line ended with CR: a LF now belongs to it
	begun  bool // the first line is over: no BOM any more

	// The line being read.
	inLine  bool
	inValue bool // past the colon
	blank   bool // right after the colon, where one space is dropped
	name    []byte
	field   field
	value   []byte // of id, event or retry
	cut     bool   // value is not all of it

	// The event being read.
	event    Event
	dataRead int // lines of data so far
	size     int // of all its fields
	held     int64
	over     *TooLarge // it is being discarded
}

type field uint8

const (
	fieldOther field = iota // comments and unknown fields
	fieldData
	fieldEvent
	fieldID
	fieldRetry
)

// NewReader reads r; events of more than maxEvent bytes (0: DefaultMaxEvent) are
// discarded.
func NewReader(r io.Reader, maxEvent int) *Reader {
	if maxEvent <= 0 {
		maxEvent = DefaultMaxEvent
	}
	return &Reader{
		r:        r,
		maxEvent: maxEvent,
		buf:      make([]byte, bufferSize),
		event:    Event{Retry: NoRetry},
	}
}

// Next returns the next event that has data, an id or a retry time; comments and
// events without any of them are passed over. An event that is too large is an
// error, *TooLarge, beside its other fields; its data is gone. At the end Next
// returns the error of the underlying reader, io.EOF if it simply ended.
func (r *Reader) Next() (Event, error) {
	for {
		for len(r.unread) > 0 {
			done := r.step()
			switch {
			case r.over != nil && (done || r.over.Endless):
				return r.refused()
			case done && r.worthwhile():
				return r.take(), nil
			case done:
				r.take()
			}
		}
		if r.err != nil {
			return r.finish()
		}
		var n int
		n, r.err = r.r.Read(r.buf)
		r.unread = r.buf[:n]
	}
}

// step reads a part of a line; done when that was the end of an event.
func (r *Reader) step() (done bool) {
	if r.skipLF {
		r.skipLF = false
		if r.unread[0] == '\n' {
			r.unread = r.unread[1:]
			return false
		}
	}
	end := lineEnd(r.unread)
	if end > 0 {
		r.inLine = true
		r.linePart(r.unread[:end])
	}
	if end == len(r.unread) {
		r.unread = nil
		return false
	}
	r.skipLF = r.unread[end] == '\r'
	r.unread = r.unread[end+1:]
	return r.endLine()
}

// lineEnd is the offset of the first CR or LF, len(b) if there is none.
func lineEnd(b []byte) int {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		end = len(b)
	}
	if cr := bytes.IndexByte(b[:end], '\r'); cr >= 0 {
		end = cr
	}
	return end
}

// linePart takes a part of the current line.
func (r *Reader) linePart(part []byte) {
	if !r.inValue {
		colon := bytes.IndexByte(part, ':')
		name := part
		if colon >= 0 {
			name = part[:colon]
		}
		// One byte too many is kept, which makes the name an unknown one.
		r.name = append(r.name, name[:min(len(name), maxName+1-len(r.name))]...)
		if r.count(len(name)); colon < 0 {
			return
		}
		r.beginValue()
		part = part[colon+1:]
	}
	if r.blank && len(part) > 0 {
		r.blank = false
		if part[0] == ' ' {
			part = part[1:]
		}
	}
	r.valuePart(part)
}

func (r *Reader) beginValue() {
	if !r.begun {
		r.name = bytes.TrimPrefix(r.name, bom)
	}
	r.inValue, r.blank = true, true
	switch string(r.name) {
	case "data":
		r.field = fieldData
		if r.dataRead++; r.dataRead > 1 {
			r.data(lineBreak)
		}
	case "event":
		r.field = fieldEvent
	case "id":
		r.field = fieldID
	case "retry":
		r.field = fieldRetry
	default:
		r.field = fieldOther
	}
}

func (r *Reader) valuePart(part []byte) {
	if len(r.name) == 0 {
		return // a comment: not a part of any event
	}
	r.count(len(part))
	switch r.field {
	case fieldOther:
	case fieldData:
		r.data(part)
	default:
		if r.cut = r.cut || len(r.value)+len(part) > MaxField; r.cut {
			r.discard(false)
			return
		}
		r.value = append(r.value, part...)
	}
}

var lineBreak = []byte{'\n'}

// data takes a part of the event's data.
func (r *Reader) data(part []byte) {
	need := len(r.event.Data) + len(part)
	if more := int64(need-freeRoom) - r.held; r.over == nil && more > 0 && r.Room != nil {
		if more = max(more, step); r.Room(more) {
			r.held += more
		} else {
			r.discard(true)
		}
	}
	if r.over == nil && need > cap(r.event.Data) {
		// In large steps: what is grown out of is garbage for a while.
		size := max(need, min(growth*cap(r.event.Data), r.maxEvent))
		r.event.Data = append(make([]byte, 0, size), r.event.Data...)
	}
	if r.over == nil {
		r.event.Data = append(r.event.Data, part...)
	} else if r.Discarded != nil {
		r.Discarded(part)
	}
}

// count adds to the event's size.
func (r *Reader) count(n int) {
	r.size += n
	if r.size > r.maxEvent {
		r.discard(false)
	}
	if r.size > endless*r.maxEvent {
		r.over.Endless = true
	}
}

// discard keeps nothing more of this event's data. One there was no room for may
// turn out to be over the limit as well.
func (r *Reader) discard(busy bool) {
	if r.over != nil {
		r.over.Busy = r.over.Busy && busy
		return
	}
	r.over = &TooLarge{Busy: busy}
	if r.Discarding != nil {
		r.Discarding(true)
	}
	if r.Discarded != nil && len(r.event.Data) > 0 {
		r.Discarded(r.event.Data)
	}
	r.event.Data, r.held = nil, 0
}

// refused gives out what is left of an event that was discarded.
func (r *Reader) refused() (Event, error) {
	over := r.over
	if over.Endless {
		r.unread, r.err = nil, over
	}
	if r.Discarding != nil {
		r.Discarding(false)
	}
	e := r.take()
	e.HasData = false
	return e, over
}

// endLine takes the current line as a whole; done if it was empty, which ends the
// event.
func (r *Reader) endLine() (done bool) {
	empty := !r.inLine || !r.begun && !r.inValue && bytes.Equal(r.name, bom)
	if !empty {
		if !r.inValue {
			r.beginValue()
		}
		if r.endField(); len(r.name) > 0 {
			r.count(1)
		}
	}
	r.begun = true
	r.inLine, r.inValue, r.blank, r.cut = false, false, false, false
	r.name, r.value, r.field = r.name[:0], r.value[:0], fieldOther
	return empty
}

func (r *Reader) endField() {
	if r.cut {
		return
	}
	switch r.field {
	case fieldEvent:
		r.event.Type = string(r.value)
	case fieldID:
		if bytes.IndexByte(r.value, 0) < 0 {
			r.event.ID, r.event.HasID = string(r.value), true
		}
	case fieldRetry:
		if d, ok := parseRetry(r.value); ok {
			r.event.Retry = d
		}
	}
}

// parseRetry reads milliseconds, digits only, and clamps before it multiplies.
func parseRetry(digits []byte) (time.Duration, bool) {
	const limit = int64(MaxRetry / time.Millisecond)
	var ms int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		ms = min(ms*10+int64(c-'0'), limit)
	}
	return time.Duration(ms) * time.Millisecond, len(digits) > 0
}

func (r *Reader) worthwhile() bool {
	return r.dataRead > 0 || r.event.HasID || r.event.Retry != NoRetry
}

// take returns the event read so far and begins a new one.
func (r *Reader) take() Event {
	e := r.event
	e.HasData = r.dataRead > 0
	r.event = Event{Retry: NoRetry}
	r.dataRead, r.size, r.held, r.over = 0, 0, 0, nil
	return e
}

// finish handles the end of the stream. The standard drops an unfinished event;
// some servers close right after the last one, so it is delivered if its data
// proves that nothing is missing. An unfinished id or retry may be cut short and
// is not taken. The end of an event that is discarded needs no proof, but one that
// broke off is left to be read again.
func (r *Reader) finish() (Event, error) {
	final := r.Final
	if final == nil {
		final = wholeJSON
	}
	switch {
	case r.over != nil && r.err == io.EOF:
		return r.refused()
	case r.over != nil && r.Discarding != nil:
		r.Discarding(false)
	case r.over == nil && r.dataRead > 0 && final(r.event.Data):
		return r.take(), nil
	}
	r.take()
	return Event{}, r.err
}

func wholeJSON(data []byte) bool {
	data = bytes.TrimLeft(data, " \t")
	return len(data) > 0 && (data[0] == '{' || data[0] == '[') && json.Valid(data)
}
