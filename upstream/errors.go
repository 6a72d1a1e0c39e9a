package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"taskbridge/session"
)

// ErrClosed is what a closed conn or stream returns; compare with errors.Is.
var ErrClosed = errors.New("connection closed")

var errBusy = errors.New("no memory budget left for the answer; retry later")

// maxErrorText bounds what an error says: net/http puts peer bytes into some.
const maxErrorText = 512

// textError shows a text of ours and keeps the cause for errors.Is and As.
type textError struct {
	text string
	err  error
}

func (e *textError) Error() string { return e.text }
func (e *textError) Unwrap() error { return e.err }

func (e *endpoint) fail(kind session.Fail, err error) *session.DialError {
	return &session.DialError{Fail: kind, Upstream: e.name, Err: err}
}

// cut describes a connection that broke, so that nobody knows what became of the
// message.
func (e *endpoint) cut(err error) *session.DialError {
	de := e.fail(session.FailBroken, err)
	de.Again = session.AgainSafe
	return de
}

// sendError describes an exchange that broke before response headers came.
// reached says that the request may have got to the server, so that it may
// have run.
func (h *HTTP) sendError(s *stream, err error, reached bool) *session.DialError {
	kind := session.FailBroken
	if !reached {
		kind = session.FailUnreachable
	}
	if s.ctx.Err() != nil {
		return s.e.fail(kind, context.Cause(s.ctx))
	}
	verb := "send the request to "
	if !reached {
		verb = "connect to "
	}
	text := verb + s.e.shown + ": " + plain(err)
	if advice := dialAdvice(err, h.opts.ConnectTimeout, "http"); advice != "" {
		text += " (" + advice + ")"
	}
	if reached {
		return s.e.cut(&textError{text, err})
	}
	return s.e.fail(kind, &textError{text, err})
}

// dialAdvice is what to do about err, where we know. plain is the scheme without
// TLS.
func dialAdvice(err error, timeout time.Duration, plain string) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "if the server's certificate is right, give its authority with --upstream-ca FILE"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "use the host name the certificate is made out to"
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return "check the host name in the URL"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return "the server speaks plain HTTP there: use " + plain + "://"
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "is the server running, and listening on that port?"
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return fmt.Sprintf("no connection within %v; see --connect-timeout", timeout)
	}
	return ""
}

// readError describes a body that broke.
func (s *stream) readError(err error) error {
	switch {
	case errors.Is(err, errEndless), s.ctx.Err() != nil && errors.Is(context.Cause(s.ctx), errEndless):
		return s.e.fail(session.FailTooLarge, &textError{
			fmt.Sprintf("%s sent a message over the limit of %d bytes without an end", s.e.shown, s.h.opts.MaxMessage), errEndless,
		})
	case s.ctx.Err() != nil:
		return s.e.fail(session.FailBroken, context.Cause(s.ctx))
	case errors.Is(err, errTooLarge):
		return s.e.fail(session.FailTooLarge, fmt.Errorf("the answer of %s is over the limit of %d bytes", s.e.shown, s.h.opts.MaxMessage))
	case errors.Is(err, errBusy):
		return s.e.fail(session.FailBusy, errBusy)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return s.e.cut(&textError{s.e.shown + " closed the connection in the middle of its answer", err})
	}
	text := "read the answer of " + s.e.shown + ": " + plain(err)
	return s.e.cut(&textError{text, err})
}

// plain is the text of an error of net/http. Peer bytes can be in it; a header
// line it could not read is left out, for what may stand there (Set-Cookie).
func plain(err error) string {
	if _, ok := errors.AsType[textproto.ProtocolError](err); ok {
		return "it sent a malformed response header"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, clip(err.Error(), maxErrorText))
}

// clip cuts s to about n bytes, at a rune.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// quote shows text of a peer: bounded, and escaped so that it can neither
// break a log line nor a terminal.
func quote(s string, n int) string { return strconv.QuoteToASCII(clip(s, n)) }
