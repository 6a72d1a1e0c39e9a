package config

import (
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Checks of texts: each says what is wrong with one and what would be right,
// or nothing. Texts that may hold a secret are not quoted.

func listenAddress(v string) string {
	host, port, err := net.SplitHostPort(v)
	_, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || strings.ContainsAny(host, "/ \t") {
		return "is no address to listen on; want ADDRESS:PORT, such as 127.0.0.1:8080, with a port from 0 to 65535"
	}
	return ""
}

func adminAddress(v string) string {
	if name, ok := strings.CutPrefix(v, "unix:"); ok {
		if name == "" {
			return "names no socket; want unix:PATH"
		}
		return ""
	}
	if listenAddress(v) != "" {
		return "is no address to listen on; want ADDRESS:PORT, such as 127.0.0.1:9090, or unix:PATH"
	}
	return ""
}

// loopback: only what always means this machine.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// hostForm are the characters of a host for editors: printable ASCII but / @ * ? #.
const hostForm = `^[!"$-)+-.0->A-~]+$`

// asciiHost refuses names with other letters, which stand in requests in a form
// of their own (RFC 5890), so that they would match none.
func asciiHost(v string) string {
	if strings.ContainsFunc(v, func(r rune) bool { return r > '~' }) {
		return "has letters that no request has; want the name as it is sent, such as xn--bcher-kva.example"
	}
	return ""
}

func allowedHost(v string) string {
	const want = "is no host; want a name or address, with or without a port, such as mcp.example.com"
	if wrong := asciiHost(v); wrong != "" {
		return wrong
	}
	if strings.ContainsAny(v, "/@*?# ") {
		return want
	}
	u, err := url.Parse("http://" + v)
	if err != nil || u.Host != v || u.Hostname() == "" || !portFits(u.Port()) {
		return want
	}
	return ""
}

func portFits(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

func allowedOrigin(v string) string {
	scheme, rest, ok := strings.Cut(v, "://")
	if wrong := asciiHost(rest); wrong != "" {
		return wrong
	}
	if !ok || scheme == "" || allowedHost(rest) != "" {
		return "is no origin; want https://HOST or https://HOST:PORT, one origin; null and * would let every page in"
	}
	return ""
}

func cidr(v string) string {
	if _, err := parsePrefix(v); err != nil {
		return "is neither; want an address or a CIDR such as 10.0.0.0/8"
	}
	return ""
}

func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

// webURL wants one of the schemes. URLs are never quoted: they may hold a
// secret.
func webURL(v, want string, schemes ...string) (u *url.URL, wrong string) {
	u, err := url.Parse(v)
	if err != nil || u.Hostname() == "" || !portFits(u.Port()) || !slices.Contains(schemes, strings.ToLower(u.Scheme)) {
		return nil, "is no such URL; want " + want
	}
	return u, ""
}

func upstreamURL(v string) string {
	_, wrong := webURL(v, "an http://, https://, ws:// or wss:// URL such as https://HOST/PATH", "http", "https", "ws", "wss")
	return wrong
}

func messageURL(v string) string {
	const want = "an http:// or https:// URL such as https://HOST/PATH, without a user"
	u, wrong := webURL(v, want, "http", "https")
	if wrong == "" && u.User != nil {
		wrong = "holds a user; want " + want
	}
	return wrong
}

func publicURL(v string) string {
	const want = "the http:// or https:// URL clients use, such as https://HOST or https://HOST/PREFIX, without a query"
	u, wrong := webURL(v, want, "http", "https")
	if wrong == "" && (u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		wrong = "holds a user, query or fragment; want " + want
	}
	if wrong == "" {
		wrong = asciiHost(u.Host)
	}
	return wrong
}

func routePath(v string) string {
	if !strings.HasPrefix(v, "/") || strings.ContainsAny(v, "?#%\\ \t") || path.Clean(v) != v && path.Clean(v)+"/" != v {
		return "is no path; want one that begins with / and has no query, escape or blank, such as /mcp"
	}
	return ""
}

func ssePath(v string) string {
	if v == "off" {
		return ""
	}
	if v == "/" || !strings.HasPrefix(v, "/") || strings.ContainsAny(v, "?#%\\ \t") || path.Clean(v) != v {
		return "is no path; want one that begins with / and has no query, escape or blank, such as /sse, or off"
	}
	return ""
}

// messagePath is where clients of a stream of HTTP+SSE post to.
func messagePath(sse string) string { return path.Join(path.Dir(sse), "message") }

func hostMatch(v string) string {
	if wrong := asciiHost(v); wrong != "" {
		return wrong
	}
	if allowedHost(v) != "" || strings.Contains(strings.Trim(v, "[]"), ":") && net.ParseIP(strings.Trim(v, "[]")) == nil {
		return "is no host; want a name without a port, such as mcp.example.com"
	}
	return ""
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// plainName: names become labels of metrics and parts of handles.
func plainName(v string) string {
	if !nameForm.MatchString(v) {
		return "is no name; want up to 63 letters, digits, '.', '_' and '-', such as billing-v2"
	}
	return ""
}

func stateKind(v string) string {
	kind, _, _ := strings.Cut(v, ":")
	switch {
	case v == "memory":
		return ""
	case kind == "file" || kind == "redis" || kind == "rediss":
		return "names a kind of state that is not available yet in this version; use memory"
	}
	return "is unknown; want memory"
}

func stateKey(v string) string {
	if name, ok := strings.CutPrefix(v, "env:"); ok && !IsVarName(name) {
		return "names no environment variable; want env:NAME, or the name of a file"
	}
	return ""
}

func principalKind(v string) string {
	const want = "want token, header:NAME or jwt:JWKS, the file or URL of a key set"
	kind, arg, _ := strings.Cut(v, ":")
	switch {
	case v == "token":
		return ""
	case kind == "header":
		return principalHeader(arg)
	case kind == "jwt" && strings.Contains(arg, "://"):
		if _, wrong := webURL(arg, "", "http", "https"); wrong != "" {
			return "names a URL that is none; want jwt:https://HOST/PATH, or the file of a key set"
		}
		return ""
	case kind == "jwt" && arg != "":
		return ""
	}
	return "is unknown; " + want
}

var principalHeaderForm = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

func principalHeader(name string) string {
	lower := strings.ToLower(name)
	switch {
	case !principalHeaderForm.MatchString(name):
		return "names no header; want header:NAME of letters, digits and '-', such as header:X-User"
	case lower == "authorization":
		return "is what token does; want token"
	case slices.Contains([]string{"host", "connection", "cookie", "te", "trailer", "transfer-encoding", "upgrade", "keep-alive", "content-length", "forwarded", "via"}, lower),
		strings.HasPrefix(lower, "proxy-"), strings.HasPrefix(lower, "mcp-"), strings.HasPrefix(lower, "x-forwarded-"):
		return "names a header with a meaning of its own; want one that your front end sets for this, such as header:X-User"
	}
	return ""
}

// asymmetric are the signatures a token may have.
var asymmetric = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

func auditKind(v string) string {
	if v == "off" || v == "log" || strings.HasPrefix(v, "file:") && len(v) > len("file:") {
		return ""
	}
	return "is unknown; want off, log or file:PATH"
}

var redactForm = regexp.MustCompile(`^(secrets|(key|value|path):.+)$`)

func redactKind(v string) string {
	if !redactForm.MatchString(v) {
		return "is unknown; want secrets, key:NAME, value:REGEX or path:JSONPATH"
	}
	if re, ok := strings.CutPrefix(v, "value:"); ok {
		if _, err := regexp.Compile(re); err != nil {
			return "holds a regular expression that is none; want Go's syntax (RE2)"
		}
	}
	return ""
}

var principalHashForm = regexp.MustCompile(`^[0-9A-Za-z_-]{8,64}$`)

func principalHash(v string) string {
	if !principalHashForm.MatchString(v) {
		return "is no principal; want its hash as the log and taskbridge admin report show it"
	}
	return ""
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// ownHeaders are set by the proxy itself.
var ownHeaders = []string{
	"accept", "accept-encoding", "content-type", "content-encoding", "content-length", "transfer-encoding", "trailer", "te",
	"connection", "keep-alive", "proxy-connection", "upgrade", "expect", "mcp-protocol-version", "mcp-session-id",
}

func headerLine(name, value string) (Header, string) {
	value = strings.TrimSpace(value)
	switch {
	case !headerName.MatchString(name):
		return Header{}, "is no header name; want NAME: value"
	case slices.Contains(ownHeaders, strings.ToLower(name)):
		return Header{}, "is a header the proxy sets itself; leave it out"
	case value == "":
		return Header{}, "the header has no value; give it one or leave it out"
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return Header{}, "the value holds a line end or control character; a header is one line"
	}
	return Header{name, value}, ""
}

func headerMatch(name, value string) (HeaderMatch, string) {
	h := Header{name, strings.TrimSpace(value)}
	wrong := ""
	if !headerName.MatchString(name) {
		wrong = "is no header name; want NAME: value"
	}
	if wrong == "" && strings.Contains(name, "_") {
		wrong = "headers with _ are dropped on the way in, as front ends mix them up with -; want a name without"
	}
	return HeaderMatch(h), wrong
}

func envPair(name, value string) (string, string) {
	switch {
	case !IsVarName(name):
		return "", "is no name of an environment variable; want letters, digits and _, such as API_KEY"
	case strings.Contains(value, "\x00"):
		return "", "the value holds a NUL character"
	}
	return name + "=" + value, ""
}
