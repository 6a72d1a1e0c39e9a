package jsonrpc

import (
	"errors"
	"fmt"
)

// Error codes of JSON-RPC 2.0 section 5.1 that decoding itself gives.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
)

// Limits bound one Decode. The zero value gives the defaults.
type Limits struct {
	MaxDepth   int // nested containers; 0 means 512
	MaxMembers int // recorded members and elements; 0 means 65536
}

// Kind says what a message is.
type Kind uint8

// The kinds of message. The zero Kind is none of them.
const (
	_ Kind = iota
	Request
	Notification
	Response      // carries result
	ErrorResponse // carries error
)

func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case Response:
		return "response"
	case ErrorResponse:
		return "error response"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Message is one decoded JSON-RPC message. It keeps the slice it was decoded
// from, which must not change afterwards.
type Message struct {
	Raw    []byte // as given to Decode, white space around it included
	Kind   Kind
	ID     ID     // zero for a notification and an error without id
	Method string // decoded; empty for responses

	doc                    doc
	params, result, errObj uint32 // node of the member, 0 for none
}

// DecodeError says why bytes were refused.
type DecodeError struct {
	Code   int    // CodeParse or CodeInvalidRequest
	Msg    string // never quotes more than a member name of the input
	Offset int    // byte offset of the fault
	ID     ID     // of the refused message, zero if it could not be read
	Call   bool   // the refused message has a method, so its sender waits for an answer to ID
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode message: %s at byte %d", e.Msg, e.Offset)
}

// ErrBatch is what Decode returns for an array; it is a *DecodeError. Arrays
// exist in 2025-03-26 only (basic, Batching), where DecodeBatch reads them.
var ErrBatch error = &DecodeError{Code: CodeInvalidRequest, Msg: "batch arrays are not part of this protocol version"}

// MaxBatch is the number of messages DecodeBatch takes in one array.
const MaxBatch = 100

// Decode checks and reads one message. Errors are *DecodeError.
func Decode(raw []byte, lim Limits) (*Message, error) {
	if byteAt(raw, skipSpace(raw, 0)) == '[' {
		return nil, ErrBatch
	}
	p := newParser(raw, lim)
	defer p.release()
	if err := p.parseWhole(trackEnvelope); err != nil {
		return nil, p.withID(err)
	}
	return p.message(raw)
}

// DecodeBatch reads an array of messages. One bad message refuses the array: to
// answer a part of it would leave the sender guessing which part. Each Raw is a
// sub-slice of raw; MaxMembers counts over the whole array.
func DecodeBatch(raw []byte, lim Limits) ([]*Message, error) {
	pos := skipSpace(raw, 0)
	if byteAt(raw, pos) != '[' {
		return nil, &DecodeError{Code: CodeInvalidRequest, Msg: "not an array", Offset: pos}
	}
	if pos = skipSpace(raw, pos+1); byteAt(raw, pos) == ']' {
		return nil, &DecodeError{Code: CodeInvalidRequest, Msg: "empty batch", Offset: pos}
	}
	var batch []*Message
	for {
		if len(batch) == MaxBatch {
			return nil, &DecodeError{Code: CodeInvalidRequest, Msg: fmt.Sprintf("batch of more than %d messages", MaxBatch), Offset: pos}
		}
		m, used, err := decodeElement(raw[pos:], lim)
		if err != nil {
			err.Offset += pos
			return nil, err
		}
		batch = append(batch, m)
		lim.MaxMembers = used
		pos = skipSpace(raw, pos+len(m.Raw))
		switch c := byteAt(raw, pos); {
		case c == ',':
			pos = skipSpace(raw, pos+1)
		case c == ']' && skipSpace(raw, pos+1) == len(raw):
			return batch, nil
		default:
			return nil, &DecodeError{Code: CodeParse, Msg: "expected a comma or the end of the batch", Offset: pos}
		}
	}
}

// decodeElement reads the message raw begins with, and returns how many members
// the rest of the batch may still have.
func decodeElement(raw []byte, lim Limits) (m *Message, left int, failed *DecodeError) {
	p := newParser(raw, lim)
	defer p.release()
	end, err := p.parse(0, trackEnvelope)
	if err == nil {
		err = p.repeated
	}
	if err != nil {
		return nil, 0, p.withID(err)
	}
	p.raw = raw[:end:end]
	m, bad := p.message(p.raw)
	if bad != nil {
		errors.As(bad, &failed)
		return nil, 0, failed
	}
	return m, max(p.maxNodes-len(p.nodes), 1), nil
}

// withID adds the id to an error, when the envelope's id was read before it and
// is the only one.
func (p *parser) withID(err *DecodeError) *DecodeError {
	if len(p.nodes) == 0 || Type(p.nodes[0].flags&flagType) != Object {
		return err
	}
	d := &doc{raw: p.raw, nodes: p.nodes}
	var id uint32
	for i := uint32(1); i != 0 && i < uint32(len(p.nodes)); i = p.nodes[i].next {
		err.Call = err.Call || d.keyIs(i, "method")
		if !d.keyIs(i, "id") {
			continue
		}
		if id != 0 {
			return err
		}
		id = i
	}
	if id != 0 {
		err.ID, _ = IDFromRaw(d.span(id)) // zero where it is of a wrong type
	}
	return err
}

func (p *parser) message(raw []byte) (*Message, error) {
	m := &Message{Raw: raw, doc: doc{raw: raw, nodes: p.takeNodes()}}
	if err := m.readEnvelope(); err != nil {
		return nil, p.withID(err)
	}
	return m, nil
}

// Root is the whole envelope.
func (m *Message) Root() Value { return Value{d: &m.doc, parent: noParent} }

// At follows member names from the envelope; absent where a member is missing or
// its container is not tracked.
func (m *Message) At(path ...string) Value {
	v := m.Root()
	for _, name := range path {
		v = v.Get(name)
	}
	return v
}

// Params is the params member, absent if there is none.
func (m *Message) Params() Value { return m.envelopeMember(m.params) }

// Result is the result member of a Response.
func (m *Message) Result() Value { return m.envelopeMember(m.result) }

// Error is the error member of an ErrorResponse.
func (m *Message) Error() Value { return m.envelopeMember(m.errObj) }

func (m *Message) envelopeMember(i uint32) Value {
	if i == 0 {
		return Value{}
	}
	return Value{d: &m.doc, i: i}
}
