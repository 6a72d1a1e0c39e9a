package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the longest line a Reader takes, in bytes: the largest message a
// proxy can be told to take, and what stands around it.
const MaxLine = 1<<30 + 1<<20

// msgMember begins a record's message, its last member.
var msgMember = []byte(`,"msg":`)

// Reader reads one capture from the beginning.
type Reader struct {
	lineReader
	header Header
	end    *End
	last   error // what Next goes on returning
}

// NewReader reads the first line. A file that is something else or newer than
// this program is a *FormatError.
func NewReader(r io.Reader) (*Reader, error) {
	c := &Reader{lineReader: newLineReader(r)}
	line, err := c.next()
	if err == io.EOF {
		return nil, &FormatError{1, errors.New("the file is empty")}
	}
	if err != nil {
		return nil, err
	}
	if err := unmarshal(line, &c.header); err != nil || c.header.Kind != kind {
		return nil, &FormatError{1, fmt.Errorf("not a capture of taskbridge: its first line would hold \"capture\":%q", kind)}
	}
	if c.header.Format > Format {
		return nil, &FormatError{1, fmt.Errorf("format %d is newer than this program, which reads up to %d", c.header.Format, Format)}
	}
	if c.header.Format < 1 {
		return nil, &FormatError{1, fmt.Errorf("format %d: there is none before 1", c.header.Format)}
	}
	return c, nil
}

// Header is the first line.
func (c *Reader) Header() Header { return c.header }

// End is the last line, nil before it was read and where there is none.
func (c *Reader) End() *End { return c.end }

// Line is the line that was read last, from 1.
func (c *Reader) Line() int { return c.line }

// Next returns the next record, whose bytes are its own. After the last it is
// io.EOF for a capture that is whole and ErrNotWhole for one that is not; a
// line that cannot be read is a *FormatError, after which Next goes on with the
// line behind it.
func (c *Reader) Next() (Record, error) {
	if c.last != nil {
		return Record{}, c.last
	}
	line, err := c.next()
	if err != nil {
		c.last = err
		if _, ok := errors.AsType[*FormatError](err); ok || err == io.EOF && c.end == nil {
			c.last = ErrNotWhole
		}
		if err == io.EOF {
			err = c.last
		}
		return Record{}, err
	}
	if c.end != nil {
		return Record{}, &FormatError{c.line, errors.New("stands behind the capture's last line; were two files put together?")}
	}
	if c.cut && !json.Valid(line) {
		// Whoever wrote it was stopped in the middle of a line.
		c.last = ErrNotWhole
		return Record{}, c.last
	}
	r, end, err := ParseLine(line)
	if err != nil {
		return Record{}, &FormatError{c.line, err}
	}
	if end != nil {
		c.end = end
		return c.Next()
	}
	r.Line = c.line
	return r, nil
}

// ParseLine reads one line behind the first: a record or the end. The record's
// Msg is a part of line.
func ParseLine(line []byte) (Record, *End, error) {
	if r, ok := parseOwn(line); ok {
		return r, nil, nil
	}
	var any struct {
		head
		Msg  json.RawMessage `json:"msg"`
		End  *End            `json:"end"`
		Kind string          `json:"capture"`
	}
	if err := unmarshal(line, &any); err != nil {
		return Record{}, nil, err
	}
	switch {
	case any.End != nil:
		return Record{}, any.End, nil
	case any.Kind != "":
		return Record{}, nil, errors.New("another capture begins here; were two files put together?")
	}
	r, err := any.record()
	if len(any.Msg) > 0 && string(any.Msg) != "null" {
		r.Msg = any.Msg
	}
	return r, nil, err
}

// parseOwn reads a line as Writer writes it: all but the message is small and
// stands before it, so the message need not be looked at.
func parseOwn(line []byte) (Record, bool) {
	at := bytes.Index(line, msgMember)
	if at < 0 || len(line) > 0 && line[len(line)-1] != '}' {
		return Record{}, false
	}
	var h head
	small := append(bytes.Clone(line[:at]), '}')
	if json.Unmarshal(small, &h) != nil || h.Leg == "" {
		return Record{}, false
	}
	r, err := h.record()
	r.Msg = line[at+len(msgMember) : len(line)-1]
	return r, err == nil
}
