package main

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"taskbridge/translate/report"
)

const (
	maxShown      = 200
	maxShownError = 2000
)

// showText makes text of a peer fit for a terminal: what moves the cursor,
// changes colours or turns the direction of writing is shown as an escape, and
// it is cut to about max bytes.
func showText(s string, max int) string { return report.Text(s, max) }

// asciiControls escapes what showText would in JSON text, where it can only
// stand inside strings.
func asciiControls(raw []byte) []byte {
	if !bytes.ContainsFunc(raw, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return raw
	}
	var b bytes.Buffer
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		switch {
		case r < ' ' || unicode.IsPrint(r):
			b.Write(raw[:n]) // in valid JSON a control character is white space between tokens
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		raw = raw[n:]
	}
	return b.Bytes()
}
