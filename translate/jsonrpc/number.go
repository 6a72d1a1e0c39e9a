package jsonrpc

import (
	"strconv"
	"strings"
)

// number is a JSON number taken apart without computing it: its value is
// ±digits × 10^exp, digits without zeros at either end (empty for zero). The
// exponent stays text when it is long, so 1e1000000 costs seven digits.
type number struct {
	negative bool
	head     []byte // digits are head then tail, to leave out a point without copying
	tail     []byte
	exp      int64
	bigExp   string // signed decimal when the exponent passes int64, else empty
}

const (
	maxSafeInt = 1<<53 - 1
	// Exponents up to this many digits are computed in int64 with room for the
	// number of mantissa digits.
	maxExpDigits = 17
	// maxPlainDigits is how many digits an integer may have whose canonical
	// form has no exponent.
	maxPlainDigits = 20
)

// splitNumber takes apart a token that passed scanNumber.
func splitNumber(tok []byte) number {
	var n number
	if tok[0] == '-' {
		n.negative, tok = true, tok[1:]
	}
	i := skipDigits(tok, 0)
	n.head = tok[:i]
	if byteAt(tok, i) == '.' {
		start := i + 1
		i = skipDigits(tok, start)
		n.tail = tok[start:i]
	}
	shift := -int64(len(n.tail))
	n.head = trimLeft(n.head)
	if len(n.head) == 0 {
		n.tail = trimLeft(n.tail)
	}
	n.tail = trimRight(n.tail, &shift)
	if len(n.tail) == 0 {
		n.head = trimRight(n.head, &shift)
	}
	if len(n.head)+len(n.tail) == 0 {
		return number{}
	}
	if i < len(tok) {
		n.addExponent(tok[i+1:], shift)
	} else {
		n.exp = shift
	}
	return n
}

func trimLeft(d []byte) []byte {
	for len(d) > 0 && d[0] == '0' {
		d = d[1:]
	}
	return d
}

func trimRight(d []byte, shift *int64) []byte {
	for len(d) > 0 && d[len(d)-1] == '0' {
		d = d[:len(d)-1]
		*shift++
	}
	return d
}

// addExponent sets the exponent to the written one plus shift.
func (n *number) addExponent(written []byte, shift int64) {
	negative := written[0] == '-'
	if negative || written[0] == '+' {
		written = written[1:]
	}
	written = trimLeft(written)
	if len(written) <= maxExpDigits {
		e, _ := strconv.ParseInt("0"+string(written), 10, 64)
		if negative {
			e = -e
		}
		n.exp = e + shift
		return
	}
	if negative {
		shift = -shift
	}
	n.bigExp = string(addToDecimal(written, shift))
	if negative {
		n.bigExp = "-" + n.bigExp
	}
}

// addToDecimal adds delta to a decimal text of more than maxExpDigits digits,
// which is far more than any delta (a count of mantissa digits).
func addToDecimal(digits []byte, delta int64) []byte {
	sum := append([]byte{'0'}, digits...)
	carry := delta
	for i := len(sum) - 1; i >= 0 && carry != 0; i-- {
		carry += int64(sum[i] - '0')
		d := carry % 10
		if d < 0 {
			d += 10
		}
		sum[i] = '0' + byte(d)
		carry = (carry - d) / 10
	}
	return trimLeft(sum)
}

// plainInt says that a token is an integer, in digits only, that is its own
// canonical form.
func plainInt(tok string) bool {
	digits := strings.TrimPrefix(tok, "-")
	if len(digits) == 0 || len(digits) > maxPlainDigits || tok == "-0" {
		return false
	}
	for i := range len(digits) {
		if digits[i]-'0' > 9 {
			return false
		}
	}
	return true
}

// appendCanonical writes a form equal for equal values; see plainInt.
func (n number) appendCanonical(dst []byte) []byte {
	if len(n.head)+len(n.tail) == 0 {
		return append(dst, '0')
	}
	if n.negative {
		dst = append(dst, '-')
	}
	dst = append(dst, n.head...)
	dst = append(dst, n.tail...)
	if n.bigExp != "" {
		return append(append(dst, 'e'), n.bigExp...)
	}
	if n.exp > 0 && n.exp <= maxPlainDigits-int64(len(n.head)+len(n.tail)) {
		for range n.exp {
			dst = append(dst, '0')
		}
		return dst
	}
	if n.exp != 0 {
		dst = strconv.AppendInt(append(dst, 'e'), n.exp, 10)
	}
	return dst
}

func (n number) int() (int64, bool) {
	digits := len(n.head) + len(n.tail)
	if digits == 0 {
		return 0, true
	}
	const maxDigits = 16 // of maxSafeInt
	if n.bigExp != "" || n.exp < 0 || n.exp > maxDigits || digits+int(n.exp) > maxDigits {
		return 0, false
	}
	var i int64
	for _, d := range n.head {
		i = i*10 + int64(d-'0')
	}
	for _, d := range n.tail {
		i = i*10 + int64(d-'0')
	}
	for range n.exp {
		i *= 10
	}
	if i > maxSafeInt {
		return 0, false
	}
	if n.negative {
		i = -i
	}
	return i, true
}
