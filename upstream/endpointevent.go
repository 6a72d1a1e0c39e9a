package upstream

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// maxEndpoint bounds the URL an endpoint event may announce.
const maxEndpoint = 8 << 10

// messageURL is where messages of a session over HTTP+SSE go: what the endpoint
// event says, by the rules of URLs against the address of its stream (2024-11-05
// basic/transports, HTTP with SSE; RFC 3986 section 5). The server chooses the
// place, so it must not lead us, with credential and messages, to another
// scheme, host or port; the error names both. The query stays byte for byte: it
// holds the session.
func messageURL(data string, stream *url.URL) (*url.URL, error) {
	if len(data) > maxEndpoint {
		return nil, fmt.Errorf("%s announces an endpoint of %d bytes, which is too long", shownURL(stream), len(data))
	}
	data = strings.Trim(data, " \t")
	refused := func(why string) error {
		return fmt.Errorf("%s announces the endpoint %s, which is not used: %s", shownURL(stream), quote(withoutQuery(data), 256), why)
	}
	// Backslashes are slashes to browsers and path to others; control characters
	// are dropped by some. What two parsers read in two ways is refused.
	if data == "" || strings.ContainsFunc(data, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return nil, refused("it is not a URL")
	}
	to, err := stream.Parse(data)
	switch {
	case err != nil || to.Host == "" || to.Opaque != "":
		return nil, refused("it is not an http:// or https:// URL")
	case to.User != nil:
		return nil, refused("it carries a user")
	case !sameOrigin(stream, to):
		return nil, refused("another scheme, host or port than the stream's; give that server's own URL instead")
	}
	to.Fragment, to.RawFragment = "", ""
	return to, nil
}

// withoutQuery is what may be shown of a peer's URL: its query can hold a
// secret.
func withoutQuery(s string) string {
	at, _, more := strings.Cut(s, "?")
	if more {
		at += "?…"
	}
	return at
}

// overrideURL is messageURL where the operator has said where messages go: the
// query alone, which holds the session, is the server's.
func overrideURL(data string, at *url.URL) (*url.URL, error) {
	if len(data) > maxEndpoint {
		return nil, fmt.Errorf("the endpoint announced has %d bytes, which is too long", len(data))
	}
	to := *at
	_, query, given := strings.Cut(strings.Trim(data, " \t"), "?")
	query, _, _ = strings.Cut(query, "#")
	if !given {
		return &to, nil
	}
	if strings.ContainsFunc(query, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, errors.New("the endpoint announced is not a URL")
	}
	if to.RawQuery != "" {
		query = to.RawQuery + "&" + query
	}
	to.RawQuery = query
	return &to, nil
}
