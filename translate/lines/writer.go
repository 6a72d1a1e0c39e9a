package lines

import (
	"io"

	"taskbridge/translate/jsonrpc"
)

// piece is what is written at a time: a large message is not copied whole.
const piece = 64 << 10

// Writer writes messages as lines. It is not for concurrent use.
type Writer struct {
	w   io.Writer
	buf []byte
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes one message: its bytes without the line ends between its tokens,
// which would end it early, then a line end. A message of up to 64 KiB is one
// write.
func (w *Writer) Write(msg []byte) error {
	for {
		n := min(len(msg), piece)
		w.buf = jsonrpc.Compact(w.buf[:0], msg[:n])
		if msg = msg[n:]; len(msg) == 0 {
			w.buf = append(w.buf, '\n')
		}
		if len(w.buf) > 0 {
			if _, err := w.w.Write(w.buf); err != nil {
				return err
			}
		}
		if len(msg) == 0 {
			return nil
		}
	}
}
