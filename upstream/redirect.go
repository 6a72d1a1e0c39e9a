package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

const (
	maxRedirects = 3
	maxLocation  = 8 << 10
)

// redirect returns where resp sends us on to, nil if it does not. Only 307 and
// 308 keep verb and body (RFC 9110 section 15.4), and only the same scheme,
// host and port may get what was meant for this one: net/http's own client
// would carry credential, session id and body to another port of the host. The
// error names both places.
func redirect(resp *http.Response, from *url.URL) (*url.URL, error) {
	code := resp.StatusCode
	if code < 300 || code > 399 || code == http.StatusNotModified {
		return nil, nil
	}
	location := resp.Header.Get("Location")
	if location == "" {
		return nil, fmt.Errorf("%s answered %d without a Location; check the URL", shownURL(from), code)
	}
	to, err := redirectURL(location, from)
	if err == nil && code != http.StatusTemporaryRedirect && code != http.StatusPermanentRedirect {
		err = fmt.Errorf("only 307 and 308 keep the message")
	}
	if err == nil && !sameOrigin(from, to) {
		err = errors.New("another scheme, host or port")
	}
	if err != nil {
		where := "an unreadable place"
		if to != nil {
			where = quote(shownURL(to), 256)
		}
		return nil, fmt.Errorf("%s redirects with %d to %s, which is not followed: %w; if it is right, give that URL instead", shownURL(from), code, where, err)
	}
	return to, nil
}

func redirectURL(location string, from *url.URL) (*url.URL, error) {
	if len(location) > maxLocation {
		return nil, errors.New("its Location is too long")
	}
	to, err := from.Parse(location)
	if err != nil {
		return nil, errors.New("its Location is not a URL")
	}
	if to.User != nil {
		return to, errors.New("its Location carries a user")
	}
	to.Fragment, to.RawFragment = "", ""
	if strings.HasPrefix(from.Scheme, "ws") {
		// The upgrade is an HTTP request, and its answer may name the place so.
		to.Scheme = strings.Replace(strings.ToLower(to.Scheme), "http", "ws", 1)
	}
	return to, nil
}

func sameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if strings.EqualFold(u.Scheme, "https") || strings.EqualFold(u.Scheme, "wss") {
		return "443"
	}
	return "80"
}
