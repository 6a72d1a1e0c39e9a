package usage

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Keys of the store. Names in them are escaped or hashed: what a peer calls
// itself is never part of a key.
//
//	usage/day/ROUTE/WHO/DAY  record: what WHO did on DAY ("0": before all days)
//	usage/who/ROUTE          index: the clients of a route that are told apart
//	usage/all                how many those are on all routes
//	usage/route/ROUTE        routeRecord: coverage by processes that are gone
//	usage/face/ROUTE/WHO     face: what a server speaks
//	usage/process/ID         process: when it counted
//	usage/served/ID          served: which routes it had, and when
//	usage/compact            claim of who compacts
const (
	prefixDay     = "usage/day/"
	prefixWho     = "usage/who/"
	prefixRoute   = "usage/route/"
	prefixFace    = "usage/face/"
	prefixProcess = "usage/process/"
	prefixServed  = "usage/served/"
	keyAll        = "usage/all"
	keyCompact    = "usage/compact"
)

// Forms of WHO: a client or server by the hash of its names, those of one
// principal that are not told apart, all others that are not.
const (
	whoClient = "c"
	whoServer = "s"
	whoFolded = "o"
)

func escaped(name string) string { return url.PathEscape(name) }

func unescaped(name string) string {
	if s, err := url.PathUnescape(name); err == nil {
		return s
	}
	return name
}

// whoKey is WHO for a kind and the names that make it.
func whoKey(kind string, names ...string) string {
	h := sha256.New()
	for _, n := range names {
		fmt.Fprintf(h, "%d:%s", len(n), n)
	}
	return kind + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

func routePrefix(route string) string { return prefixDay + escaped(route) + "/" }

func dayKey(route, who string, d day) string {
	return routePrefix(route) + who + "/" + strconv.Itoa(int(d))
}

// parseDayKey is the inverse, of a key without its route's prefix.
func parseDayKey(rest string) (who string, d day, ok bool) {
	who, number, ok := strings.Cut(rest, "/")
	n, err := strconv.ParseInt(number, 10, 32)
	return who, day(n), ok && err == nil && who != ""
}
