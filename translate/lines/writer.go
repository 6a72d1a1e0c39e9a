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

// Write writes one message, which may come in parts: its bytes without the line
// ends between its tokens, which would end it early, then a line end. A message
// of up to 64 KiB is one write.
func (w *Writer) Write(msg ...[]byte) error {
	w.buf = w.buf[:0]
	for _, part := range msg {
		for len(part) > 0 {
			if len(w.buf) >= piece {
				if _, err := w.w.Write(w.buf); err != nil {
					return err
				}
				w.buf = w.buf[:0]
			}
			n := min(len(part), piece-len(w.buf))
			w.buf = jsonrpc.Compact(w.buf, part[:n])
			part = part[n:]
		}
	}
	w.buf = append(w.buf, '\n')
	_, err := w.w.Write(w.buf)
	return err
}
