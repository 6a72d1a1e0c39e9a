package lines

import (
	"bytes"
	"errors"
	"io"

	"taskbridge/translate/jsonrpc"
)

// endless is how many limits a line may have before it is given up.
const endless = 4

const (
	firstRead = 4 << 10
	// keptBuffer is what a reader keeps of its buffer between two lines.
	keptBuffer = 64 << 10
	step       = 256 << 10
	// growth is how many times larger a buffer gets that was too small.
	growth = 4
)

// ErrEndless is returned for a line that has not ended within four times the
// limit: nothing more can be read. Compare with errors.Is.
var ErrEndless = errors.New("no line end within four times the message limit")

// TooLong is returned for a line over the limit, or one there was no room for,
// once its end was found: reading may go on behind it.
type TooLong struct {
	// ID is the message's own id, the zero ID if it has none that can be told.
	ID jsonrpc.ID
	// Call: the message has a method, so ID (if any) is its sender's.
	Call bool
	// Busy: it was within the limit, but Options.Room had none.
	Busy bool
	// Endless: its end was not found, reading is over.
	Endless bool
}

func (e *TooLong) Error() string {
	switch {
	case e.Endless:
		return ErrEndless.Error()
	case e.Busy:
		return "no room for the message"
	}
	return "message over the limit"
}

// Is makes errors.Is(err, ErrEndless) work.
func (e *TooLong) Is(target error) bool { return target == ErrEndless && e.Endless }

// Options of a Reader.
type Options struct {
	Limit int // bytes of one line without its end; required
	// Room, if set, is asked for every further n bytes a line over 64 KiB takes;
	// Give takes back what was granted, when the reader comes for the next line.
	Room func(n int64) bool
	Give func(n int64)
	// Discarding, if set, is told when a line over the limit begins to be
	// discarded and when its end was found: the caller bounds the time.
	Discarding func(on bool)
}

// Reader reads lines. It is not for concurrent use.
type Reader struct {
	r    io.Reader
	o    Options
	buf  []byte // bytes read and not given out
	seen int    // of buf: known to hold no line end
	held int64  // granted by Room
	open bool   // the last line given out had no end
	err  error
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader, o Options) *Reader { return &Reader{r: r, o: o} }

// Next returns the next line that is not blank, without its end (LF or CRLF);
// the slice is the caller's. The last line needs no end. Errors: *TooLong,
// after which reading may go on unless it is ErrEndless; io.EOF; what the
// reader below says, with what came before it lost.
func (r *Reader) Next() ([]byte, error) {
	r.giveBack()
	for {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
	}
}

// Unended says that the line given out last had no end: it may be half a
// message.
func (r *Reader) Unended() bool { return r.open }

// Close gives back what the reader holds.
func (r *Reader) Close() { r.giveBack() }

func (r *Reader) giveBack() {
	if r.held > 0 && r.o.Give != nil {
		r.o.Give(r.held)
	}
	r.held = 0
}

func (r *Reader) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(r.buf[r.seen:], '\n'); i >= 0 {
			end := r.seen + i
			if line := trimCR(r.buf[:end]); len(line) > r.o.Limit {
				return nil, r.discard(false)
			}
			return r.take(end, end+1), nil
		}
		r.seen = len(r.buf)
		if len(r.buf) > r.o.Limit+1 { // one more may be a CR
			return nil, r.discard(false)
		}
		if r.err != nil {
			if r.err == io.EOF && len(r.buf) > 0 {
				if len(trimCR(r.buf)) > r.o.Limit {
					return nil, r.discard(false)
				}
				r.open = true
				return r.take(len(r.buf), len(r.buf)), nil
			}
			return nil, r.err
		}
		if !r.fill() {
			return nil, r.discard(true)
		}
	}
}

// take gives out the first end bytes; the next line begins at next.
func (r *Reader) take(end, next int) []byte {
	line := trimCR(r.buf[:end:end])
	rest := r.buf[next:]
	if len(line) < firstRead && cap(r.buf) > 2*firstRead {
		// A small line must not keep a large buffer alive.
		line = bytes.Clone(line)
		r.buf, r.seen = rest, 0
		return line
	}
	if cap(r.buf) > keptBuffer && len(rest) < firstRead {
		rest = bytes.Clone(rest) // nor must what follows a large one
	}
	r.buf, r.seen = rest, 0
	return line
}

func trimCR(line []byte) []byte { return bytes.TrimSuffix(line, []byte{'\r'}) }

// fill reads once; it is false when there was no room for more.
func (r *Reader) fill() bool {
	if len(r.buf) == cap(r.buf) {
		// In large steps: what is grown out of is garbage for a while.
		size := firstRead
		for size <= len(r.buf) {
			size *= growth
		}
		size = min(size, max(r.o.Limit+2+firstRead, firstRead))
		// What lies behind buf in its array may be a line that was given out.
		r.buf = append(make([]byte, 0, size), r.buf...)
	}
	end := cap(r.buf)
	if r.o.Room != nil && end > keptBuffer {
		if int64(len(r.buf)-keptBuffer) >= r.held {
			if !r.o.Room(step) {
				return false
			}
			r.held += step
		}
		end = min(end, keptBuffer+int(r.held))
	}
	n, err := r.r.Read(r.buf[len(r.buf):end])
	r.buf = r.buf[:len(r.buf)+n]
	r.err = err
	return true
}

// discard reads a line to its end without keeping it, and says whose it was.
func (r *Reader) discard(busy bool) error {
	if r.o.Discarding != nil {
		r.o.Discarding(true)
		defer r.o.Discarding(false)
	}
	var s idScanner
	total := 0
	most := endless * r.o.Limit
	for {
		i := bytes.IndexByte(r.buf, '\n')
		if i >= 0 {
			s.scan(r.buf[:i])
			// A copy: the array may be as large as the limit.
			r.buf, r.seen = bytes.Clone(r.buf[i+1:]), 0
			id, call := s.found()
			return &TooLong{ID: id, Call: call, Busy: busy && total+i <= r.o.Limit}
		}
		s.scan(r.buf)
		total += len(r.buf)
		if cap(r.buf) > keptBuffer || cap(r.buf) == 0 {
			r.buf = make([]byte, 0, keptBuffer)
			r.giveBack()
		}
		r.buf, r.seen = r.buf[:0], 0
		if r.err == nil && total <= most {
			r.refill()
			continue
		}
		id, call := s.found()
		if r.err == nil {
			r.err = ErrEndless
			return &TooLong{ID: id, Call: call, Endless: true}
		}
		if r.err == io.EOF {
			return &TooLong{ID: id, Call: call}
		}
		return r.err
	}
}

func (r *Reader) refill() {
	n, err := r.r.Read(r.buf[:cap(r.buf)])
	r.buf, r.err = r.buf[:n], err
}

// Identify finds what TooLong says of a message in one that was refused for
// another reason.
func Identify(raw []byte) (id jsonrpc.ID, call bool) {
	var s idScanner
	s.scan(raw)
	return s.found()
}

// Scanner is Identify for a message that comes in pieces. The zero value is
// ready.
type Scanner struct{ s idScanner }

// Scan reads the next piece; it keeps nothing of it.
func (s *Scanner) Scan(piece []byte) { s.s.scan(piece) }

// Found is what the pieces tell.
func (s *Scanner) Found() (id jsonrpc.ID, call bool) { return s.s.found() }
