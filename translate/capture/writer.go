package capture

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

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
	w.buf = appendHead(w.buf[:0], r)
	if r.Msg != nil {
		w.buf = append(w.buf[:len(w.buf)-1], msgMember...)
		w.buf = jsonrpc.Compact(w.buf, r.Msg)
		w.buf = append(w.buf, '}')
	}
	w.buf = append(w.buf, '\n')
	w.records++
	w.dropped += r.Dropped
	_, err := w.w.Write(w.buf)
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

// appendHead writes what encoding/json would of a head, at a fraction of the
// cost: recording must not slow traffic.
func appendHead(dst []byte, r *Record) []byte {
	dst = append(dst, `{"time":"`...)
	dst = r.Time.AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, '"')
	text := func(name, value string) {
		if value != "" {
			dst = append(append(append(dst, `,"`...), name...), `":`...)
			dst = jsonrpc.AppendString(dst, value)
		}
	}
	number := func(name string, n int) {
		if n != 0 {
			dst = append(append(append(dst, `,"`...), name...), `":`...)
			dst = strconv.AppendInt(dst, int64(n), 10)
		}
	}
	if r.Leg != 0 {
		text("leg", r.Leg.String())
	}
	if r.Dir != 0 {
		text("dir", r.Dir.String())
	}
	text("transport", r.Transport)
	text("conn", r.Conn)
	text("stream", r.Stream)
	text("session", r.Session)
	text("principal", r.Principal)
	text("verb", r.Verb)
	number("status", r.Status)
	if len(r.Header) > 0 {
		dst = append(dst, `,"header":{`...)
		var few [8]string
		for i, name := range sortedNames(few[:0], r.Header) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(jsonrpc.AppendString(dst, name), ':')
			dst = appendStrings(dst, r.Header[name])
		}
		dst = append(dst, '}')
	}
	if len(r.Redacted) > 0 {
		dst = appendStrings(append(dst, `,"redacted":`...), r.Redacted)
	}
	number("dropped", r.Dropped)
	return append(dst, '}')
}

func sortedNames(names []string, h http.Header) []string {
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonrpc.AppendString(dst, s)
	}
	return append(dst, ']')
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
