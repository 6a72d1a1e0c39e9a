// Package capture is the form in which traffic is kept: newline-delimited
// JSON, one record a line. It is pure: readers and writers are the caller's,
// and times come with the records.
//
// The first line is a [Header], the last an [End]; between them stands one
// [Record] for each message seen on either leg, in the order seen. A capture
// without its End was cut short, and says so by that alone.
package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"taskbridge/translate"
)

// Format is the version of the form that Writer writes. Reader reads it and
// those before.
const Format = 1

// Header is the first line of a capture.
type Header struct {
	// Kind is "taskbridge-capture".
	Kind   string `json:"capture"`
	Format int    `json:"format"`
	// Created is when recording began, By the program and its version.
	Created time.Time `json:"created"`
	By      string    `json:"by,omitempty"`
	// Part counts the files of one rotated recording from 1.
	Part int `json:"part,omitempty"`
	// Settings are what was recorded and how, for people and for replay:
	// upstream (without credentials), transports, redactions.
	Settings map[string]string `json:"settings,omitempty"`
}

const kind = "taskbridge-capture"

// Record is one frame as it is kept, or word that some were dropped.
type Record struct {
	// Line is where the record stands in its file, from 1 (the header's).
	Line int
	Time time.Time
	Leg  translate.Leg
	Dir  translate.Direction
	// Transport is how the leg is spoken: http, stdio, websocket or sse.
	Transport string
	// Conn is the connection of transports that have one (stdio, websocket,
	// sse); Stream the exchange: for HTTP one POST or GET and what answers it.
	Conn, Stream string
	// Session is the legacy session and Principal the caller, as keyed hashes.
	Session, Principal string
	// Verb and Status are what HTTP said around the message, Header the
	// protocol's own headers. A request has a Verb, a reply's first record a
	// Status.
	Verb   string
	Status int
	Header http.Header
	// Redacted are the kinds of redaction that took something here.
	Redacted []string
	// Msg is the message, nil where the transport spoke without one.
	Msg []byte
	// Dropped, if not 0, is how many frames were lost at this place; all but
	// Line and Time is then zero.
	Dropped int
}

// head is a record's line without its message, which is its last member.
type head struct {
	Time      time.Time   `json:"time"`
	Leg       string      `json:"leg,omitempty"`
	Dir       string      `json:"dir,omitempty"`
	Transport string      `json:"transport,omitempty"`
	Conn      string      `json:"conn,omitempty"`
	Stream    string      `json:"stream,omitempty"`
	Session   string      `json:"session,omitempty"`
	Principal string      `json:"principal,omitempty"`
	Verb      string      `json:"verb,omitempty"`
	Status    int         `json:"status,omitempty"`
	Header    http.Header `json:"header,omitempty"`
	Redacted  []string    `json:"redacted,omitempty"`
	Dropped   int         `json:"dropped,omitempty"`
}

// End is the last line of a whole capture.
type End struct {
	// Records and Dropped count the whole file. Continued: the next part goes
	// on.
	Records   int  `json:"records"`
	Dropped   int  `json:"dropped"`
	Continued bool `json:"continued,omitempty"`
}

// FormatError says why a file is no capture that can be read, and where.
type FormatError struct {
	Line int
	Err  error
}

func (e *FormatError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *FormatError) Unwrap() error { return e.Err }

// ErrNotWhole is what Reader.Next returns after the last record of a capture
// that has no End: it was cut short, and what came later is missing.
var ErrNotWhole = errors.New("the capture is not whole: its last line is missing, so recording was cut short")

func (h *head) record() (Record, error) {
	r := Record{
		Time: h.Time, Transport: h.Transport, Conn: h.Conn, Stream: h.Stream, Session: h.Session, Principal: h.Principal,
		Verb: h.Verb, Status: h.Status, Header: h.Header, Redacted: h.Redacted, Dropped: h.Dropped,
	}
	if h.Dropped > 0 {
		return r, nil
	}
	switch h.Leg {
	case translate.ClientLeg.String():
		r.Leg = translate.ClientLeg
	case translate.ServerLeg.String():
		r.Leg = translate.ServerLeg
	default:
		return r, fmt.Errorf("leg %q: want client or server", clip(h.Leg))
	}
	switch h.Dir {
	case translate.ToServer.String():
		r.Dir = translate.ToServer
	case translate.ToClient.String():
		r.Dir = translate.ToClient
	default:
		return r, fmt.Errorf("dir %q: want to-server or to-client", clip(h.Dir))
	}
	return r, nil
}

func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// unmarshal reads one small line; errors name no content.
func unmarshal(line []byte, v any) error {
	if err := json.Unmarshal(line, v); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return fmt.Errorf("not JSON at byte %d", syntax.Offset)
		}
		return fmt.Errorf("not a record: %w", err)
	}
	return nil
}
