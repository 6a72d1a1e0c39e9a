package jsonrpc

import "strconv"

func appendEnvelope(dst []byte, id ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if id.raw != "" {
		dst = append(append(dst, `,"id":`...), id.raw...)
	}
	return dst
}

// envelopeRoom is more than the fixed members of any envelope take.
const envelopeRoom = 64

// NewResult builds a response around a result object.
func NewResult(id ID, result []byte) []byte {
	dst := appendEnvelope(make([]byte, 0, envelopeRoom+len(id.raw)+len(result)), id)
	dst = append(append(dst, `,"result":`...), result...)
	return append(dst, '}')
}

// NewError builds an error response. The zero ID gives no id member (allowed
// since MCP 2025-11-25), NullID gives null. data may be nil.
func NewError(id ID, code int, message string, data []byte) []byte {
	dst := appendEnvelope(make([]byte, 0, 2*envelopeRoom+len(id.raw)+len(message)+len(data)), id)
	dst = strconv.AppendInt(append(dst, `,"error":{"code":`...), int64(code), 10)
	dst = AppendString(append(dst, `,"message":`...), message)
	if data != nil {
		dst = append(append(dst, `,"data":`...), data...)
	}
	return append(dst, "}}"...)
}

// NewRequest builds a request; params may be nil.
func NewRequest(id ID, method string, params []byte) []byte {
	dst := make([]byte, 0, envelopeRoom+len(id.raw)+len(method)+len(params))
	return appendCall(appendEnvelope(dst, id), method, params)
}

// NewNotification builds a notification; params may be nil.
func NewNotification(method string, params []byte) []byte {
	return NewRequest(ID{}, method, params)
}

func appendCall(dst []byte, method string, params []byte) []byte {
	dst = AppendString(append(dst, `,"method":`...), method)
	if params != nil {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

// ObjectBuilder builds one JSON object member by member. It does not look for
// repeated keys.
type ObjectBuilder struct{ buf []byte }

// NewObject begins an empty object.
func NewObject() *ObjectBuilder { return &ObjectBuilder{} }

func (b *ObjectBuilder) key(key string) {
	if b.buf == nil {
		b.buf = append(b.buf, '{')
	} else {
		b.buf = append(b.buf, ',')
	}
	b.buf = append(AppendString(b.buf, key), ':')
}

// Raw adds a member with a JSON text.
func (b *ObjectBuilder) Raw(key string, raw []byte) *ObjectBuilder {
	b.key(key)
	b.buf = append(b.buf, raw...)
	return b
}

// Str adds a string member.
func (b *ObjectBuilder) Str(key, s string) *ObjectBuilder {
	b.key(key)
	b.buf = AppendString(b.buf, s)
	return b
}

// Int adds an integer member.
func (b *ObjectBuilder) Int(key string, n int64) *ObjectBuilder {
	b.key(key)
	b.buf = strconv.AppendInt(b.buf, n, 10)
	return b
}

// Null adds a member that is null.
func (b *ObjectBuilder) Null(key string) *ObjectBuilder {
	return b.Raw(key, []byte(nullToken))
}

// Bytes is the object so far, in a new slice.
func (b *ObjectBuilder) Bytes() []byte {
	if b.buf == nil {
		return []byte("{}")
	}
	out := make([]byte, 0, len(b.buf)+1)
	return append(append(out, b.buf...), '}')
}
