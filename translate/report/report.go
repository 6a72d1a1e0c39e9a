// Package report writes what commands found in the forms other programs read.
// Text in it comes from peers: every writer escapes it for its form, so that it
// can neither end an element nor move a terminal's cursor.
//
// The package is pure.
package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text makes text of a peer fit for a terminal: what moves the cursor, changes
// colours or turns the direction of writing is shown as an escape, and it is
// cut to about max bytes (0: not).
func Text(s string, max int) string {
	if (max <= 0 || len(s) < max) && plain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if max > 0 && b.Len() >= max {
			return b.String() + "…"
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		i += n
	}
	return b.String()
}

// plain: printable ASCII alone.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
