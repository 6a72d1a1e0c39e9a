package upstream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"taskbridge/session"
)

const (
	acceptPost = "application/json, text/event-stream"
	acceptGet  = "text/event-stream"
	jsonType   = "application/json"
	sseType    = "text/event-stream"
)

// Shared values of headers: net/http only reads them.
var (
	valJSON       = []string{jsonType}
	valAcceptPost = []string{acceptPost}
	valAcceptGet  = []string{acceptGet}
)

// ownHeaders are set here and nowhere else, so neither an upstream's own
// headers nor an Outgoing's can name them: what frames the message, what the
// protocol derives from the message, and hop-by-hop headers (RFC 9110 section
// 7.6.1). Keys are canonical.
var ownHeaders = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Content-Type": true, "Content-Encoding": true,
	"Content-Length": true, "Transfer-Encoding": true, "Trailer": true, "Te": true,
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Upgrade": true,
	"Expect": true, "Mcp-Protocol-Version": true, "Mcp-Session-Id": true,
}

// authorityHeaders carry somebody's authority or address: they come from the
// target or the upstream's own headers, never with a message.
var authorityHeaders = map[string]bool{
	"Authorization": true, "Cookie": true, "Proxy-Authorization": true, "Host": true,
	"User-Agent": true, "Forwarded": true, "X-Forwarded-For": true, "X-Forwarded-Host": true,
	"X-Forwarded-Proto": true, "X-Forwarded-Port": true, "X-Real-Ip": true, "Set-Cookie": true,
}

// setOwn takes one of an upstream's own headers. Values are never shown.
func (e *endpoint) setOwn(name string, values []string) error {
	switch {
	case ownHeaders[name]:
		return fmt.Errorf("header %s is set by the proxy itself; leave it out", name)
	case !validHeaderName(name):
		return fmt.Errorf("%s is not a header name", quote(name, 64))
	}
	for _, v := range values {
		if !validHeaderValue(v) {
			return fmt.Errorf("the value of header %s holds characters a header cannot carry", name)
		}
	}
	switch {
	case len(values) == 0:
	case name == "Host":
		e.host = values[0]
	case name == "Authorization" && len(values) > 1:
		return fmt.Errorf("header Authorization is given %d times; give it once", len(values))
	default:
		e.header[name] = append([]string(nil), values...)
	}
	return nil
}

// requestHeader builds the header of one request. The order matters: what an
// Outgoing brings comes first, so that nothing in it can stand for a header of
// the upstream or of ours.
func (c *httpConn) requestHeader(out session.Outgoing) http.Header {
	e := c.e
	hd := relayedHeader(out, len(e.header)+len(c.target.Credential))
	e.authorize(hd, c.target.Credential)
	maps.Copy(hd, e.header)
	delete(hd, "Host")
	setMessageHeaders(hd, out)
	return hd
}

// relayedHeader is what of out's own header goes up, with room for the four of
// setMessageHeaders and more others.
func relayedHeader(out session.Outgoing, more int) http.Header {
	hd := make(http.Header, len(out.Header)+more+4)
	for name, values := range out.Header {
		name = http.CanonicalHeaderKey(name)
		if !ownHeaders[name] && !authorityHeaders[name] {
			hd[name] = values
		}
	}
	return hd
}

// setMessageHeaders says in hd what out is: revision, session, and what is sent and
// wanted.
func setMessageHeaders(hd http.Header, out session.Outgoing) {
	if out.Version != "" {
		hd["Mcp-Protocol-Version"] = []string{out.Version}
	}
	if out.Session != "" {
		hd["Mcp-Session-Id"] = []string{out.Session}
	}
	switch verbOf(out) {
	case http.MethodPost:
		hd["Content-Type"] = valJSON
		hd["Accept"] = valAcceptPost
	case http.MethodGet:
		hd["Accept"] = valAcceptGet
	}
}

// authorize puts a caller's credential into hd.
func (e *endpoint) authorize(hd, credential http.Header) {
	for name, values := range credential {
		name = http.CanonicalHeaderKey(name)
		// The caller's credential was issued for someone else where the
		// upstream has its own (2025-11-25 security best practices, Token
		// Passthrough). And one request carries one Authorization.
		if ownHeaders[name] || len(values) == 0 || e.auth && name == "Authorization" {
			continue
		}
		if name == "Authorization" {
			values = values[:1]
		}
		hd[name] = values
	}
}

func verbOf(out session.Outgoing) string {
	if out.Verb == "" {
		return http.MethodPost
	}
	return out.Verb
}

// send sends out and follows the redirects that stay with the endpoint.
func (h *HTTP) send(s *stream, out session.Outgoing) (*http.Response, error) {
	header := s.c.requestHeader(out)
	jar := cmp.Or(s.c.jar, out.Session)
	h.cookies.add(header, s.c.target, jar)
	at := s.e.url
	for hop := 0; ; hop++ {
		resp, err := h.transport.RoundTrip(newRequest(s.ctx, s.e, at, header, out))
		if err != nil {
			return nil, h.sendError(s, err, s.reached.Load())
		}
		if resp.StatusCode < 200 {
			resp.Body.Close()
			return nil, s.e.fail(session.FailBroken, fmt.Errorf("%s answered %d, which was not asked for; is this an MCP endpoint?", s.e.shown, resp.StatusCode))
		}
		h.cookies.keep(resp, s.c.target, jar)
		next, err := redirect(resp, at)
		if err == nil && next != nil && hop == maxRedirects {
			err = fmt.Errorf("%s redirects more than %d times", s.e.shown, maxRedirects)
		}
		if err != nil {
			resp.Body.Close()
			s.showStatus(resp)
			return nil, &session.DialError{Fail: session.FailRedirect, Upstream: s.e.name, Status: resp.StatusCode, Err: err}
		}
		if next == nil {
			return resp, nil
		}
		if 0 < resp.ContentLength && resp.ContentLength <= drainBytes {
			_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
		}
		resp.Body.Close()
		at = next
	}
}

func newRequest(ctx context.Context, e *endpoint, at *url.URL, header http.Header, out session.Outgoing) *http.Request {
	req := &http.Request{
		Method: verbOf(out),
		URL:    at,
		Header: header,
		Host:   e.host,
	}
	if msg := out.Msg; len(msg) > 0 {
		// A reader net/http knows for one that never blocks: header and a small
		// body leave in one write.
		req.Body = io.NopCloser(bytes.NewReader(msg))
		req.ContentLength = int64(len(msg))
		// Lets the transport start over where nothing was sent yet.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(msg)), nil }
	}
	return req.WithContext(ctx)
}

func (h *HTTP) nextID() string {
	return string(strconv.AppendInt([]byte("up-"), h.streams.Add(1), 10))
}

func basicAuth(user, pass string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+pass))
}

// validHeaderName and validHeaderValue: RFC 9110 sections 5.1 and 5.5.
func validHeaderName(s string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

func validHeaderValue(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
