package jsonrpc

import (
	"errors"
	"strconv"
	"strings"
)

// ID is a request id: the JSON token as received, never turned into a number.
// Compare ids by Key; == compares spellings. The zero ID is no id.
type ID struct{ raw string }

const nullToken = "null"

var errID = errors.New("jsonrpc: id is neither a string nor a number")

// IDFromRaw takes a JSON string or number token.
func IDFromRaw(tok []byte) (ID, error) {
	end, t, _, msg := scanScalar(tok, 0)
	if msg != "" || end != len(tok) || t != String && t != Number {
		return ID{}, errID
	}
	return ID{string(tok)}, nil
}

// IntID is the id with this number.
func IntID(n int64) ID { return ID{strconv.FormatInt(n, 10)} }

// StringID is the id with this string.
func StringID(s string) ID { return ID{string(Quote(s))} }

// NullID is the id of an error that answers something unreadable.
func NullID() ID { return ID{nullToken} }

// IsZero says that there is no usable id: none, or null.
func (id ID) IsZero() bool { return id.raw == "" || id.raw == nullToken }

// Raw is the token as received, nil if there was none.
func (id ID) Raw() []byte {
	if id.raw == "" {
		return nil
	}
	return []byte(id.raw)
}

// String is the token as received.
func (id ID) String() string { return id.raw }

// Key is equal for ids that are equal JSON values: "a" and "\u0061", 1 and 1.0
// and 1e0; the string "1" and the number 1 differ. It is for maps, not for the
// wire.
func (id ID) Key() string {
	switch {
	case id.IsZero(), plainInt(id.raw):
		return id.raw
	case id.raw[0] == '"' && strings.IndexByte(id.raw, '\\') < 0:
		return id.raw[:len(id.raw)-1]
	case id.raw[0] == '"':
		return `"` + string(appendUnescaped(make([]byte, 0, len(id.raw)), []byte(id.raw[1:len(id.raw)-1]), keepSurrogates))
	}
	return string(splitNumber([]byte(id.raw)).appendCanonical(nil))
}
