package capture

import (
	"encoding/json"
	"io"

	"taskbridge/translate/jsonrpc"
)

// Writer writes one capture. It is not for concurrent use.
type Writer struct {
	w       io.Writer
	buf     []byte
	records int
	dropped int
}

// NewWriter writes h as the first line; its Kind and Format are filled in.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.Kind, h.Format = kind, Format
	line, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(append(line, '\n'))
	return &Writer{w: w}, err
}

// Write adds a record, in one write. Its Line is not used.
func (w *Writer) Write(r *Record) error {
	line, err := json.Marshal(r.head())
	if err != nil {
		return err
	}
	w.buf = append(w.buf[:0], line...)
	if r.Msg != nil {
		w.buf = append(w.buf[:len(w.buf)-1], msgMember...)
		w.buf = jsonrpc.Compact(w.buf, r.Msg)
		w.buf = append(w.buf, '}')
	}
	w.buf = append(w.buf, '\n')
	w.records++
	w.dropped += r.Dropped
	_, err = w.w.Write(w.buf)
	return err
}

// WriteLine adds a record's line as another Writer made it, its line end
// included. dropped is the record's.
func (w *Writer) WriteLine(line []byte, dropped int) error {
	w.records++
	w.dropped += dropped
	_, err := w.w.Write(line)
	return err
}

// Close writes the last line. It does not close what is beneath.
func (w *Writer) Close(continued bool) error {
	line, err := json.Marshal(struct {
		End End `json:"end"`
	}{End{Records: w.records, Dropped: w.dropped, Continued: continued}})
	if err != nil {
		return err
	}
	_, err = w.w.Write(append(line, '\n'))
	return err
}
