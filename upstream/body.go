package upstream

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"

	"taskbridge/session"
	"taskbridge/translate/jsonrpc"
)

const (
	// budgetFree is what a message may have without drawing on the budget: the
	// number of exchanges bounds it already.
	budgetFree = 64 << 10
	budgetStep = 256 << 10
	firstRead  = 4 << 10
)

var errTooLarge = errors.New("message over the limit")

// encodingError is a Content-Encoding we cannot read.
type encodingError struct{ encoding string }

func (e *encodingError) Error() string {
	return fmt.Sprintf("Content-Encoding %s, which was not asked for and is not read here: only gzip and br are", quote(e.encoding, 64))
}

// decoded is the body without its Content-Encoding. None was asked for, but
// gzip and brotli are undone wherever the header says so; events come out as
// the server flushes them.
func (s *stream) decoded() (io.Reader, error) {
	var codings []string
	for _, line := range s.codings {
		for coding := range strings.SplitSeq(line, ",") {
			coding = strings.ToLower(strings.TrimSpace(coding))
			if coding != "" && coding != "identity" {
				codings = append(codings, coding)
			}
		}
	}
	switch {
	case len(codings) == 0:
		return s.resp.Body, nil
	case len(codings) == 1 && (codings[0] == "gzip" || codings[0] == "x-gzip"):
		return &gunzip{body: s.resp.Body}, nil
	case len(codings) == 1 && codings[0] == "br":
		return brotli.NewReader(s.resp.Body), nil
	}
	return nil, &encodingError{strings.Join(codings, ", ")}
}

// gunzip reads the gzip header with the first Read, as it waits for the peer.
type gunzip struct {
	body io.Reader
	zr   *gzip.Reader
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.zr == nil {
		zr, err := gzip.NewReader(g.body)
		if err != nil {
			return 0, err
		}
		g.zr = zr
	}
	return g.zr.Read(p)
}

// meter draws on the budget for what is read through it. Only the stream's
// reader touches it. It never holds much more than one message limit, because
// comments, which are kept nowhere, count like the rest.
type meter struct {
	r      io.Reader
	budget *session.Budget
	max    int64
	seen   int64 // since the last message was handed over
	held   int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.seen += int64(n)
	for m.seen > budgetFree+m.held && m.held < m.max {
		if !m.acquire(budgetStep) {
			return n, errBusy
		}
	}
	return n, err
}

func (m *meter) acquire(n int64) bool {
	if m.budget != nil && !m.budget.TryAcquire(n) {
		return false
	}
	m.held += n
	return true
}

// handedOver gives back what the last message held.
func (m *meter) handedOver() {
	if m.held > 0 && m.budget != nil {
		m.budget.Release(m.held)
	}
	m.held, m.seen = 0, 0
}

// fillFromBody reads a body that is one message, or none.
func (s *stream) fillFromBody() {
	raw, err := s.readBody()
	if err != nil {
		s.end(s.bodyError(err))
		return
	}
	if len(raw) == 0 {
		s.end(io.EOF)
		return
	}
	msgs, err := s.decode(raw)
	if err != nil {
		s.note(raw)
		s.end(s.bodyError(err))
		return
	}
	s.show(msgs)
	s.pending = msgs
	s.end(io.EOF)
}

// bodyError is how an exchange ends whose body could not be read as messages.
// Where the status says all (an error), or nothing was to come (any 2xx to a
// notification or response means accepted), it simply ends.
func (s *stream) bodyError(err error) error {
	if s.ctx.Err() != nil {
		return s.readError(err)
	}
	if s.resp.StatusCode >= 400 || !s.expectsMessage() {
		s.h.log.Debug("body is no message", "upstream", s.e.name, "stream", s.id, "status", s.resp.StatusCode, "error", err)
		return io.EOF
	}
	if enc, ok := errors.AsType[*encodingError](err); ok {
		return s.e.fail(session.FailBroken, fmt.Errorf("%s answered with %w", s.e.shown, enc))
	}
	if bad, ok := errors.AsType[*jsonrpc.DecodeError](err); ok {
		if t := mediaType(s.resp); t != jsonType {
			return io.EOF
		}
		return s.e.fail(session.FailBroken, &textError{
			fmt.Sprintf("%s answered %d with what is no JSON-RPC message: %s", s.e.shown, s.resp.StatusCode, clip(bad.Error(), maxErrorText)),
			bad,
		})
	}
	return s.readError(err)
}

// expectsMessage: a request or a GET is to be answered by messages. It is
// asked for when something is wrong only, so it reads the message anew.
func (s *stream) expectsMessage() bool {
	if len(s.sent.Msg) == 0 {
		return s.resp.Request.Method == http.MethodGet
	}
	m, err := jsonrpc.Decode(s.sent.Msg, jsonrpc.Limits{})
	return err != nil || m.Kind == jsonrpc.Request
}

// note logs the beginning of a body that is no message; clients never see it.
func (s *stream) note(raw []byte) {
	s.h.log.Debug("answer is no JSON-RPC message", "upstream", s.e.name, "stream", s.id, "status", s.resp.StatusCode,
		"type", quote(mediaType(s.resp), 128), "body", quote(string(raw[:min(len(raw), maxNote)]), maxNote))
}

// readBody reads a whole body that looks like JSON, whatever its type says:
// servers send JSON-RPC errors as text/plain too. Of another one it reads the
// beginning for the log, and a little more so that the socket can be used
// again.
func (s *stream) readBody() ([]byte, error) {
	limit := s.h.opts.MaxMessage
	declared := s.resp.ContentLength
	if s.meter.r != io.Reader(s.resp.Body) {
		declared = -1 // it counts the compressed bytes
	}
	if declared > int64(limit) {
		return nil, errTooLarge
	}
	if declared > budgetFree && !s.meter.acquire(declared) {
		return nil, errBusy
	}
	if declared >= 0 && mediaType(s.resp) == jsonType {
		return readExactly(&s.meter, int(declared))
	}
	head, err := readHead(&s.meter)
	if err == io.EOF {
		return head, nil
	}
	if err != nil {
		return nil, err
	}
	if !looksJSON(head) {
		_, _ = io.CopyN(io.Discard, &s.meter, drainBytes)
		return head, nil
	}
	return readAll(&s.meter, head, limit)
}

// readHead reads enough to tell what a body is; io.EOF says that it was all.
func readHead(r io.Reader) ([]byte, error) {
	head := make([]byte, 0, maxNote)
	for len(head) < cap(head) {
		n, err := r.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
		if err != nil {
			return head, err
		}
	}
	return head, nil
}

// readExactly reads a body of n bytes, and past them: the end is what frees
// the socket.
func readExactly(r io.Reader, n int) ([]byte, error) {
	raw := make([]byte, n)
	if _, err := io.ReadFull(r, raw); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	var end [1]byte
	if _, err := r.Read(end[:]); err != nil && err != io.EOF {
		return nil, err
	}
	return raw, nil
}

// readAll reads to the end, at most limit bytes, behind what was read before.
func readAll(r io.Reader, raw []byte, limit int) ([]byte, error) {
	for {
		if len(raw) > limit {
			return nil, errTooLarge
		}
		if len(raw) == cap(raw) {
			raw = slices.Grow(raw, max(len(raw), firstRead))
		}
		n, err := r.Read(raw[len(raw):cap(raw)])
		raw = raw[:len(raw)+n]
		if err == io.EOF {
			if len(raw) > limit {
				return nil, errTooLarge
			}
			return raw, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func looksJSON(head []byte) bool {
	for _, c := range head {
		switch c {
		case ' ', '\t', '\r', '\n':
		case '{', '[':
			return true
		default:
			return false
		}
	}
	return true // blanks so far
}
