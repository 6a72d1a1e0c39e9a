package offline

import (
	"bufio"
	"fmt"
	"os"

	"taskbridge/translate/capture"
)

// spool keeps records on disk and gives each back by its place.
type spool struct {
	f   *os.File
	buf *bufio.Writer
	w   *capture.Writer
	n   int64 // bytes written
}

// place is where a record stands in a spool.
type place struct {
	off  int64
	size int32
	line int32 // in the capture it came from
}

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "taskbridge-*") // 0600, says its documentation
	if err != nil {
		return nil, fmt.Errorf("room for the capture: %w", err)
	}
	s := &spool{f: f}
	s.buf = bufio.NewWriterSize(f, 1<<20)
	if s.w, err = capture.NewWriter(s, capture.Header{}); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// Write implements io.Writer for the capture writer.
func (s *spool) Write(p []byte) (int, error) {
	s.n += int64(len(p))
	return s.buf.Write(p)
}

func (s *spool) add(r *capture.Record) (place, error) {
	p := place{off: s.n, line: int32(r.Line)}
	if err := s.w.Write(r); err != nil {
		return p, fmt.Errorf("room for the capture: %w", err)
	}
	p.size = int32(s.n - p.off)
	return p, nil
}

// flush must come between the last add and the first get.
func (s *spool) flush() error { return s.buf.Flush() }

// line is a record as it was written, its line end included.
func (s *spool) line(p place) ([]byte, error) {
	line := make([]byte, p.size)
	if n, err := s.f.ReadAt(line, p.off); n < len(line) {
		return nil, err
	}
	return line, nil
}

func (s *spool) get(p place) (*capture.Record, error) {
	line, err := s.line(p)
	if err != nil {
		return nil, err
	}
	r, _, err := capture.ParseLine(line[:len(line)-1])
	r.Line = int(p.line)
	return &r, err
}

func (s *spool) close() {
	s.f.Close()
	os.Remove(s.f.Name())
}
