package record

import (
	"compress/gzip"
	"io"
	"os"
	"strings"

	"taskbridge/translate/capture"
)

// keptLines is from how many bytes on lines are handed to the system: until
// then they wait for others, or the flush.
const keptLines = 64 << 10

// sink is one file of a recording. Only whole lines are ever handed to the
// system, so that whoever is killed leaves a file whose lines can be read.
type sink struct {
	f     *os.File
	z     *gzip.Writer // nil: plain
	w     *capture.Writer
	lines []byte
	size  int64 // written, as the file has it
	fresh bool  // something was written since the last flush
}

func newSink(f *os.File, h capture.Header) (*sink, error) {
	s := &sink{f: f}
	if strings.HasSuffix(f.Name(), ".gz") {
		// Messages of one protocol repeat each other so much that the fastest level
		// is nearly as small as the best.
		s.z, _ = gzip.NewWriterLevel((*fileWriter)(s), gzip.BestSpeed)
	}
	var err error
	if s.w, err = capture.NewWriter((*lineWriter)(s), h); err == nil {
		err = s.flush()
	}
	return s, err
}

// lineWriter gathers lines; capture.Writer writes each in one call.
type lineWriter sink

func (w *lineWriter) Write(line []byte) (int, error) {
	s := (*sink)(w)
	s.fresh = true
	if s.z != nil {
		return s.z.Write(line)
	}
	s.lines = append(s.lines, line...)
	if len(s.lines) >= keptLines {
		return len(line), s.writeLines()
	}
	return len(line), nil
}

func (s *sink) writeLines() error {
	_, err := (*fileWriter)(s).Write(s.lines)
	if s.lines = s.lines[:0]; cap(s.lines) > 4*keptLines {
		s.lines = nil
	}
	return err
}

// fileWriter counts what the file gets.
type fileWriter sink

func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	w.size += int64(n)
	return n, err
}

var _ io.Writer = (*fileWriter)(nil)

// flush hands to the system what waits.
func (s *sink) flush() error {
	if !s.fresh {
		return nil
	}
	s.fresh = false
	if s.z != nil {
		return s.z.Flush()
	}
	return s.writeLines()
}

// full says whether the file has reached limit bytes, as far as that is known
// before compressing.
func (s *sink) full(limit int64) bool { return limit > 0 && s.size+int64(len(s.lines)) >= limit }

// end writes the last line and closes the file.
func (s *sink) end(continued bool) error {
	err := s.w.Close(continued)
	if err == nil {
		err = s.flush()
	}
	if s.z != nil && err == nil {
		err = s.z.Close()
	}
	if e := s.f.Close(); err == nil {
		err = e
	}
	return err
}
