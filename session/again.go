package session

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// maySendAgain says whether a message whose exchange ended with err may be sent
// once more.
func maySendAgain(out Outgoing, err error) bool {
	de, ok := errors.AsType[*DialError](err)
	if !ok || out.Verb != http.MethodPost || out.Msg == nil {
		return false
	}
	switch de.Again {
	case AgainAny:
		return true
	case AgainSafe:
		m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{})
		return err == nil && translate.Repeatable(m)
	}
	return false
}

const (
	// sendsAgain bounds how often. Twice, since of a server of HTTP+SSE a cut breaks
	// the message's own connection first and the session's stream a moment later.
	sendsAgain = 2
	// againPause is that moment, before the second time.
	againPause = time.Second
)

// anew gives a request that is sent again, for the sent-th time, an id of its own:
// it is another one (2026-07-28 changelog, item 9; 2025-11-25 basic, Requests: no
// id twice in a session).
func (p *pumping) anew(raw []byte, sent int) []byte {
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil || m.Kind != jsonrpc.Request {
		return raw
	}
	if sent == 1 {
		p.asked = m.ID
	}
	p.now = rawID(jsonrpc.Quote("once-more-" + strconv.Itoa(sent) + "-" + string(p.asked.Raw())))
	return withID(m, p.now)
}

// named gives an answer the id its operation knows the request by.
func (p *pumping) named(m *jsonrpc.Message) *jsonrpc.Message {
	if p.now.IsZero() || m.ID.Key() != p.now.Key() {
		return m
	}
	if named, err := jsonrpc.Decode(withID(m, p.asked), jsonrpc.Limits{}); err == nil {
		return named
	}
	return m
}
