package jsonrpc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Reasons of a scan error; the empty string means no error.
const (
	msgEnd        = "unexpected end of JSON"
	msgControl    = "control character in a string"
	msgUTF8       = "invalid UTF-8 in a string"
	msgEscape     = "invalid escape in a string"
	msgNumber     = "invalid number"
	msgLiteral    = "invalid literal"
	msgSeparator  = "expected a comma or the end of the container"
	msgName       = "expected a member name"
	msgColon      = "expected a colon after the member name"
	msgUnexpected = "unexpected character"
)

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && raw[i] <= ' ' && isSpace(raw[i]) {
		i++
	}
	return i
}

// byteAt reads past the end as NUL, which begins no token.
func byteAt(raw []byte, i int) byte {
	if i < len(raw) {
		return raw[i]
	}
	return 0
}

// specialBytes marks the high bit of each byte that ends a plain run inside a
// string: quote, backslash, control or not ASCII. Among ASCII bytes a
// subtraction sets the high bit of exactly those below what is subtracted; the
// others are marked anyway. Borrows can only mark bytes above a true hit, so the
// lowest mark is always exact.
func specialBytes(x uint64) uint64 {
	quote := x ^ ('"' * lowBits)
	slash := x ^ ('\\' * lowBits)
	return (x | (x - 0x20*lowBits) | (quote - lowBits) | (slash - lowBits)) & highBits
}

// skipPlain passes 32 bytes at a time while there is none that ends a plain run.
func skipPlain(raw []byte, i int) int {
	for ; i+32 <= len(raw); i += 32 {
		b := raw[i : i+32]
		hit := specialBytes(binary.LittleEndian.Uint64(b)) | specialBytes(binary.LittleEndian.Uint64(b[8:])) |
			specialBytes(binary.LittleEndian.Uint64(b[16:])) | specialBytes(binary.LittleEndian.Uint64(b[24:]))
		if hit != 0 {
			break
		}
	}
	return i
}

// scanString checks the string token at raw[i] == '"'. end is the offset after
// the closing quote, or of the fault.
func scanString(raw []byte, i int) (end int, escaped bool, msg string) {
	i++
	for {
		long := i + 32
		for i+8 <= len(raw) {
			hit := specialBytes(binary.LittleEndian.Uint64(raw[i:]))
			if hit != 0 {
				i += bits.TrailingZeros64(hit) >> 3
				break
			}
			if i += 8; i == long {
				i = skipPlain(raw, i)
			}
		}
		if i >= len(raw) {
			return len(raw), escaped, msgEnd
		}
		switch c := raw[i]; {
		case c == '"':
			return i + 1, escaped, ""
		case c == '\\':
			n := escapeLen(raw, i)
			if n == 0 {
				return i, true, msgEscape
			}
			escaped = true
			i += n
		case c < 0x20:
			return i, escaped, msgControl
		case c < utf8.RuneSelf:
			i++
		default:
			if i = skipRunes(raw, i); i < 0 {
				return -i - 1, escaped, msgUTF8
			}
		}
	}
}

// skipRunes passes a run of non-ASCII text; an invalid byte at offset n gives
// -n-1.
func skipRunes(raw []byte, i int) int {
	for i < len(raw) && raw[i] >= utf8.RuneSelf {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 {
			return -i - 1
		}
		i += n
	}
	return i
}

// escapeLen is the length of the escape at raw[i] == '\\', 0 if it is none. Lone
// surrogates are grammatical (RFC 8259 section 8.2) and stay as sent.
func escapeLen(raw []byte, i int) int {
	switch byteAt(raw, i+1) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if hex4(raw, i+2) >= 0 {
			return 6
		}
	}
	return 0
}

// hex4 reads four hexadecimal digits, -1 if they are not there.
func hex4(raw []byte, i int) rune {
	if i+4 > len(raw) {
		return -1
	}
	var r rune
	for _, c := range raw[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

func skipDigits(raw []byte, i int) int {
	for i < len(raw) && raw[i]-'0' <= 9 {
		i++
	}
	return i
}

// scanNumber checks the number token at raw[i], a digit or '-'.
func scanNumber(raw []byte, i int) (end int, msg string) {
	if raw[i] == '-' {
		i++
	}
	start := i
	if i = skipDigits(raw, i); i == start || raw[start] == '0' && i > start+1 {
		return start, msgNumber
	}
	if byteAt(raw, i) == '.' {
		start = i + 1
		if i = skipDigits(raw, start); i == start {
			return i, msgNumber
		}
	}
	if c := byteAt(raw, i); c == 'e' || c == 'E' {
		i++
		if c = byteAt(raw, i); c == '+' || c == '-' {
			i++
		}
		start = i
		if i = skipDigits(raw, i); i == start {
			return i, msgNumber
		}
	}
	return i, ""
}

func scanLiteral(raw []byte, i int) (end int, msg string) {
	rest := raw[i:]
	switch {
	case len(rest) >= 4 && (string(rest[:4]) == "null" || string(rest[:4]) == "true"):
		return i + 4, ""
	case len(rest) >= 5 && string(rest[:5]) == "false":
		return i + 5, ""
	}
	return i, msgLiteral
}

// scanScalar checks the string, number or literal at raw[i].
func scanScalar(raw []byte, i int) (end int, t Type, escaped bool, msg string) {
	switch c := byteAt(raw, i); {
	case c == '"':
		end, escaped, msg = scanString(raw, i)
		return end, String, escaped, msg
	case c == '-' || c-'0' <= 9:
		end, msg = scanNumber(raw, i)
		return end, Number, false, msg
	case c == 't' || c == 'f':
		end, msg = scanLiteral(raw, i)
		return end, Bool, false, msg
	case c == 'n':
		end, msg = scanLiteral(raw, i)
		return end, Null, false, msg
	case i >= len(raw):
		return i, Null, false, msgEnd
	}
	return i, Null, false, msgUnexpected
}
