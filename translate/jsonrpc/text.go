package jsonrpc

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// surrogates says what a lone surrogate escape decodes to.
type surrogates bool

const (
	// replaceSurrogates gives U+FFFD: for reading.
	replaceSurrogates surrogates = false
	// keepSurrogates gives the three bytes UTF-8 would have for it: for comparing,
	// where "\ud83d" and "\ufffd" are different.
	keepSurrogates surrogates = true
)

const hexDigits = "0123456789abcdef"

// appendUnescaped decodes the inside of a string token that passed scanString.
func appendUnescaped(dst, text []byte, how surrogates) []byte {
	for i := 0; i < len(text); {
		c := text[i]
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		c = text[i+1]
		if c != 'u' {
			dst = append(dst, unescapeByte(c))
			i += 2
			continue
		}
		r := hex4(text, i+2)
		i += 6
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if byteAt(text, i) == '\\' && byteAt(text, i+1) == 'u' {
				pair = utf16.DecodeRune(r, hex4(text, i+2))
			}
			if pair != utf8.RuneError {
				r = pair
				i += 6
			} else if how == keepSurrogates {
				dst = append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0xBF, 0x80|byte(r)&0xBF)
				continue
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

func unescapeByte(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// AppendString appends s as a JSON string. Only what the grammar demands is
// escaped (no HTML escaping); invalid UTF-8 becomes U+FFFD, except that a lone
// surrogate as member names have it (see Value.Key) becomes its escape again.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[start:i]...)
				dst, n = appendInvalid(dst, s[i:])
				start = i + n
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// appendInvalid writes what stands for the invalid bytes s begins with, and says
// how many they are.
func appendInvalid(dst []byte, s string) ([]byte, int) {
	if len(s) >= 3 && s[0] == 0xED && s[1]&0xE0 == 0xA0 && s[2]&0xC0 == 0x80 {
		dst = append(dst, '\\', 'u', 'd', hexDigits[s[1]>>2&0xF])
		return append(dst, hexDigits[s[1]<<2&0xC|s[2]>>4&0x3], hexDigits[s[2]&0xF]), 3
	}
	return append(dst, "\uFFFD"...), 1
}

// Quote is AppendString to a new slice.
func Quote(s string) []byte { return AppendString(make([]byte, 0, len(s)+2), s) }

// Compact appends raw without its line ends, so that the message is one line in an
// event stream or on stdio. In valid JSON line ends stand between tokens only:
// inside strings they are escaped (RFC 8259 section 7).
func Compact(dst, raw []byte) []byte {
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return append(dst, raw...)
	}
	start := 0
	for i, c := range raw {
		if c == '\n' || c == '\r' {
			dst = append(dst, raw[start:i]...)
			start = i + 1
		}
	}
	return append(dst, raw[start:]...)
}
