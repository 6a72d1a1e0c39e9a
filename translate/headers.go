package translate

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"taskbridge/translate/jsonrpc"
)

// The protocol's own headers, in the canonical form net/http keys them by
// (2026-07-28 basic/transports/streamable-http, Request Metadata; 2025-11-25
// basic/transports, Session Management).
const (
	HeaderVersion     = "Mcp-Protocol-Version"
	HeaderSession     = "Mcp-Session-Id"
	HeaderMethod      = "Mcp-Method"
	HeaderName        = "Mcp-Name"
	HeaderParamPrefix = "Mcp-Param-"
	HeaderLastEvent   = "Last-Event-Id"
)

// MaxHeaderValue bounds one mirrored value: common servers refuse header
// blocks of more than 8 or 16 KiB without a word about which line it was.
const MaxHeaderValue = 8 << 10

const (
	sentinelPrefix = "=?base64?"
	sentinelSuffix = "?="
)

// Errors of ParamHeader.
var (
	ErrParamType  = errors.New("value is no string, integer or boolean")
	ErrParamRange = errors.New("integer is outside ±(2^53-1)")
	ErrParamSize  = errors.New("value is over 8 KiB")
)

// EncodeHeader writes a value as a header can carry it: as it is, or between
// base64 markers when it has other bytes than visible ASCII, blank and tab,
// blanks at its ends, or looks encoded already (streamable-http, Value
// Encoding).
func EncodeHeader(value string) string {
	if plainHeader(value) && !(strings.HasPrefix(value, sentinelPrefix) && strings.HasSuffix(value, sentinelSuffix)) {
		return value
	}
	return sentinelPrefix + base64.StdEncoding.EncodeToString([]byte(value)) + sentinelSuffix
}

// DecodeHeader is the inverse of EncodeHeader. ok is false for bytes no header
// may have, bad base64 and base64 of something that is no UTF-8. The markers
// are case-sensitive: "=?BASE64?…?=" is a plain value.
func DecodeHeader(header string) (value string, ok bool) {
	if !plainHeader(header) {
		return "", false
	}
	if len(header) < len(sentinelPrefix)+len(sentinelSuffix) ||
		!strings.HasPrefix(header, sentinelPrefix) || !strings.HasSuffix(header, sentinelSuffix) {
		return header, true
	}
	text := header[len(sentinelPrefix) : len(header)-len(sentinelSuffix)]
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || !utf8.Valid(raw) {
		return "", false
	}
	return string(raw), true
}

// plainHeader: visible ASCII, inner blanks and tabs (RFC 9110 section 5.5).
func plainHeader(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c > ' ' && c < 0x7f:
		case (c == ' ' || c == '\t') && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return true
}

// ParamHeader is the value of the Mcp-Param header that mirrors an argument.
// An absent or null argument has none: ok is false without an error.
// Integers are written as plain decimals however the body spells them; what a
// double cannot hold exactly is refused, never rounded.
func ParamHeader(v jsonrpc.Value) (header string, ok bool, err error) {
	switch v.Type() {
	case jsonrpc.Absent, jsonrpc.Null:
		return "", false, nil
	case jsonrpc.Bool:
		return string(v.Raw()), true, nil
	case jsonrpc.Number:
		n, fits := v.Int()
		if !fits {
			return "", false, ErrParamRange
		}
		return strconv.FormatInt(n, 10), true, nil
	case jsonrpc.String:
		if len(v.Raw()) > 6*MaxHeaderValue { // \u0000 spells one byte with six
			return "", false, ErrParamSize
		}
		s, _ := v.Str()
		if header = EncodeHeader(s); len(header) > MaxHeaderValue {
			return "", false, ErrParamSize
		}
		return header, true, nil
	}
	return "", false, ErrParamType
}

// ParamMatches compares an incoming Mcp-Param header with the argument it
// mirrors; integers are compared as numbers, so 42.0 mirrors 42
// (streamable-http, Server Validation).
func ParamMatches(header string, v jsonrpc.Value) bool {
	text, ok := DecodeHeader(header)
	if !ok {
		return false
	}
	switch v.Type() {
	case jsonrpc.String:
		return equalText(v, text)
	case jsonrpc.Bool:
		return string(v.Raw()) == text
	case jsonrpc.Number:
		id, err := jsonrpc.IDFromRaw([]byte(text))
		return err == nil && numberKey(id) == numberKey(idOf(v))
	}
	return false
}

// Ids have the only comparison of numbers by value that never goes through a
// float.
func idOf(v jsonrpc.Value) jsonrpc.ID {
	id, _ := jsonrpc.IDFromRaw(v.Raw())
	return id
}

func numberKey(id jsonrpc.ID) string { return id.Key() }

// equalText says whether v is the JSON string s. It copies nothing where v
// has no escapes.
func equalText(v jsonrpc.Value, s string) bool {
	if v.Type() != jsonrpc.String {
		return false
	}
	raw := v.Raw()
	raw = raw[1 : len(raw)-1]
	if slices.Contains(raw, '\\') {
		text, _ := v.Str()
		return text == s
	}
	return string(raw) == s
}

// MirroredName is the value Mcp-Name has to carry for a message; ok is false
// where the method has no such header or the member is no string.
func MirroredName(msg *jsonrpc.Message) (name string, ok bool) {
	key := NameMember(msg.Method)
	if key == "" {
		return "", false
	}
	return msg.Params().Get(key).Str()
}

// StandardHeaders are Mcp-Method and, where the method has one, Mcp-Name of a
// request we send. Mcp-Protocol-Version is the transport's own.
func StandardHeaders(msg *jsonrpc.Message) http.Header {
	h := http.Header{HeaderMethod: {EncodeHeader(msg.Method)}}
	if name, ok := MirroredName(msg); ok {
		h[HeaderName] = []string{EncodeHeader(name)}
	}
	return h
}

// upHeaders are the request headers that go to the server beside the
// protocol's own: trace context, and the language people read errors in.
// Everything else stays with us. Authorization is not listed because it
// travels as a credential, chosen by route; User-Agent because the server
// speaks to this proxy, Accept and Accept-Encoding because we do the reading.
var upHeaders = []string{"Traceparent", "Tracestate", "Baggage", "Accept-Language"}

// downHeaders are the response headers a client is shown: the challenge, in
// all its lines, and when to come back.
var downHeaders = []string{"Www-Authenticate", "Retry-After"}

// RequestHeaders picks what goes up with a client's message. A header named
// in Connection is hop-by-hop, whatever its name, and is taken out first
// (RFC 9110 section 7.6.1), so that no client can have a listed one removed
// or smuggled by a later hop. Legacy callers' Mcp-Method, Mcp-Name and
// Mcp-Param-* are dropped: nobody checked them against the body. Their
// Last-Event-ID names an event of ours, never one of the server's.
func RequestHeaders(in http.Header, e Era) http.Header {
	out := http.Header{}
	pick := func(name string) {
		if v := in[name]; len(v) > 0 && !hopByHop(in, name) {
			out[name] = v
		}
	}
	for _, name := range upHeaders {
		pick(name)
	}
	if e != Modern {
		return out
	}
	pick(HeaderMethod)
	pick(HeaderName)
	for name := range in {
		if strings.HasPrefix(name, HeaderParamPrefix) {
			pick(name)
		}
	}
	return out
}

// ResponseHeaders picks what comes down from a server's answer. Cookies,
// CORS and session headers of the server never do: they were meant for us.
func ResponseHeaders(in http.Header) http.Header {
	out := http.Header{}
	for _, name := range downHeaders {
		if v := in[name]; len(v) > 0 && !hopByHop(in, name) {
			out[name] = v
		}
	}
	return out
}

// hopByHop says whether a listed header is named in Connection. The standing
// hop-by-hop headers (Connection, Keep-Alive, Proxy-*, Te, Trailer,
// Transfer-Encoding, Upgrade) are in no list and need no look.
func hopByHop(in http.Header, name string) bool {
	for _, line := range in["Connection"] {
		for field := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(field), name) {
				return true
			}
		}
	}
	return false
}
