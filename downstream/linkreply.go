package downstream

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// pump writes what comes back for f.
func (s *clientLink) pump(ctx context.Context, f *flight) {
	defer func() {
		s.mu.Lock()
		f.stream.Gone()
		f.stop()
		if s.flying[f.id.Key()] == f {
			delete(s.flying, f.id.Key())
		}
		s.mu.Unlock()
		if f.took > 0 {
			s.o.Budget.Release(f.took)
		}
		f.dues.Let(f.held)
		if s.o.Watch != nil {
			s.o.Watch.over(f)
		}
		<-s.free
	}()
	for {
		out, ok := f.stream.Next(ctx)
		if !ok {
			if ctx.Err() == nil {
				s.last(f, session.Out{Status: http.StatusInternalServerError})
			}
			return
		}
		if out.Final {
			if next, again := s.renew(f, out); again {
				ctx = next
				continue
			}
			s.last(f, out)
			return
		}
		if s.o.Watch != nil {
			s.o.Watch.heard(f, out)
		}
		if out.Raw != nil {
			s.tell(f.tap, out.Raw)
		}
	}
}

// last writes the answer itself.
func (s *clientLink) last(f *flight, out session.Out) {
	s.mu.Lock()
	silent := f.silent || f.cancelled && out.Raw == nil
	f.silent, f.answered = true, true // no second answer, whoever gives it
	switch {
	case f.caller.Era == translate.Modern:
	case f.msg.Method == "initialize":
		s.greeted(out)
	case out.Status < 300:
		s.legacy.remember(f.msg)
	}
	s.mu.Unlock()
	if silent || s.opening(f, out) {
		return
	}
	if s.o.Watch != nil && s.o.Watch.heard(f, out) {
		s.showStatus(f.tap, out)
		return
	}
	raw := out.Raw
	if raw == nil {
		text := statusText(out)
		if s.o.Watch != nil { // the client is not who started us
			text, _, _ = strings.Cut(text, "; give it with")
		}
		raw = jsonrpc.NewError(f.id, -32603, text, nil)
	}
	s.answer(f.batch, f.tap, raw)
	if f.msg.Method == "subscriptions/listen" && out.Status < 300 {
		// 2026-07-28 basic/patterns/cancellation: a server that tears a
		// subscription down says so.
		params := jsonrpc.NewObject().Raw("requestId", f.id.Raw()).Bytes()
		s.tell(f.tap, jsonrpc.NewNotification("notifications/cancelled", params))
	}
}

// statusText says in words what HTTP says by a status alone.
func statusText(out session.Out) string {
	switch out.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Sprintf("the server wants authorization (HTTP %d); give it with --header 'Authorization: …'", out.Status)
	case 0, http.StatusOK, http.StatusAccepted:
		return "the request ended without an answer"
	}
	return fmt.Sprintf("the request ended without an answer (HTTP %d)", out.Status)
}

// opening: the server behind is not there for the client's first request. A
// modern client would take any JSON-RPC error for a legacy server's, so it gets
// none; the connection ends.
func (s *clientLink) opening(f *flight, out session.Out) bool {
	first := f.msg.Method == "initialize" || f.caller.Era == translate.Modern
	s.mu.Lock()
	was := s.opened
	failed := false
	switch out.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusUnauthorized, http.StatusForbidden:
		failed = true
	default:
		s.opened = true
	}
	s.mu.Unlock()
	if was || !failed || !first {
		return false
	}
	e := &OpeningError{Status: out.Status, Text: statusText(out)}
	if m, err := jsonrpc.Decode(out.Raw, jsonrpc.Limits{}); err == nil {
		e.Text, _ = m.At("error", "message").Str()
	}
	if f.caller.Era != translate.Modern {
		raw := out.Raw
		if raw == nil {
			raw = jsonrpc.NewError(f.id, -32603, e.Text, nil)
		}
		s.answer(f.batch, f.tap, raw)
	}
	s.end(e)
	return true
}
