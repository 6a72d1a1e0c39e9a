package capture

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
)

// Source is a capture that is read from its beginning, whatever form it is
// kept in.
type Source interface {
	// Header is that of the capture, or says what was imported.
	Header() Header
	// Next returns the next record, whose bytes are its own. After the last it
	// is io.EOF if the capture is whole and ErrNotWhole if it is not. A
	// *FormatError says which line cannot be read; Next may be called again, to
	// go on behind it, and ends where nothing can be read.
	Next() (Record, error)
	// End is the capture's last line: nil before it was read, and where there is
	// none.
	End() *End
	// Line is the line that was read last, from 1.
	Line() int
}

var _ Source = (*Reader)(nil)

// NewAnyReader reads a capture of any form that is known, told by its content,
// compressed by gzip or not: our own, JSON-RPC lines with a direction, HAR 1.2,
// the Protocol and Network exports of MCP Inspector, mcpsnoop's JSONL and
// mcporter's NDJSON. One that is none is a *FormatError.
//
// What is imported is the client's leg alone; credentials in it are left out.
func NewAnyReader(r io.Reader) (Source, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	magic, err := br.Peek(2)
	if len(magic) < 2 && err != nil && err != io.EOF {
		return nil, err
	}
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, &FormatError{1, errDamaged}
		}
		br = bufio.NewReaderSize(unzipped{z}, 64<<10)
	}
	return anyForm(br)
}

var errDamaged = errors.New("the compressed file is damaged from here on")

// unzipped ends where a compressed file was cut: what came before it is good,
// and that the end is missing the capture itself tells.
type unzipped struct{ r io.Reader }

func (u unzipped) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = io.EOF
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		err = errDamaged
	default:
		if _, ok := errors.AsType[flate.CorruptInputError](err); ok {
			err = errDamaged
		}
	}
	return n, err
}
