package sse

import (
	"strconv"
	"time"
)

// AppendEvent appends one event with JSON data. Line ends between the tokens are
// left out so that the data is one line; the JSON value is the same, since inside
// strings they are escaped (RFC 8259 section 7). An empty id gives no id field,
// empty data the empty data field of a priming event (MCP 2025-11-25
// basic/transports, Sending Messages to the Server).
func AppendEvent(dst []byte, id string, data []byte) []byte {
	return append(appendLine(AppendHead(dst, "", id), data), End...)
}

// AppendHead begins an event with a type and an id, unless they are empty, up to
// its data, which is written by itself, without line ends. [End] ends the event.
func AppendHead(dst []byte, name, id string) []byte {
	if name != "" {
		dst = append(appendLine(append(dst, "event: "...), name), '\n')
	}
	if id != "" {
		dst = append(appendLine(append(dst, "id: "...), id), '\n')
	}
	return append(dst, "data: "...)
}

// End is the end of an event whose data was written by itself.
const End = "\n\n"

// AppendNamed is AppendEvent with a type and without an id, for clients of
// HTTP+SSE (MCP 2024-11-05 basic/transports).
func AppendNamed(dst []byte, name string, data []byte) []byte {
	return append(appendLine(AppendHead(dst, name, ""), data), End...)
}

// AppendComment appends a comment, which readers skip: a keep-alive.
func AppendComment(dst []byte, text string) []byte {
	return append(appendLine(append(dst, ": "...), text), "\n\n"...)
}

// AppendRetry appends the reconnection time, which belongs to the event that
// follows or stands alone.
func AppendRetry(dst []byte, d time.Duration) []byte {
	dst = strconv.AppendInt(append(dst, "retry: "...), max(d.Milliseconds(), 0), 10)
	return append(dst, '\n')
}

// appendLine leaves out what would end the line or, in an id, void the field.
func appendLine[T string | []byte](dst []byte, text T) []byte {
	start := 0
	for i := range len(text) {
		if c := text[i]; c == '\n' || c == '\r' || c == 0 {
			dst = append(dst, text[start:i]...)
			start = i + 1
		}
	}
	return append(dst, text[start:]...)
}
