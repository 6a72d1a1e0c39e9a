package session

import (
	"context"
	"errors"
	"testing"

	"taskbridge/translate"
)

type statusStream struct {
	Stream
	status int
}

func (s statusStream) Envelope() *translate.Envelope { return &translate.Envelope{Status: s.status} }

// TestRouteJudge: what says that a server is away, is there, or neither. A 500 is
// what a caller can bring about who knows a server's weak point: it takes nothing
// from others.
func TestRouteJudge(t *testing.T) {
	dial := func(d DialError) error { d.Err = errors.New("x"); return &d }
	for _, tt := range []struct {
		name   string
		status int
		err    error
		want   string
	}{
		{"200", 200, nil, "there"},
		{"401", 401, nil, "there"},
		{"500", 500, nil, ""},
		{"501", 501, nil, ""},
		{"502", 502, nil, "away"},
		{"503", 503, nil, "away"},
		{"504", 504, nil, "away"},
		{"unreachable", 0, dial(DialError{Fail: FailUnreachable}), "away"},
		{"process", 0, dial(DialError{Fail: FailProcess}), "away"},
		{"broken", 0, dial(DialError{Fail: FailBroken}), ""},
		{"error 404", 0, dial(DialError{Status: 404}), "there"},
		{"error 500", 0, dial(DialError{Status: 500}), ""},
		{"error 503", 0, dial(DialError{Status: 503}), "away"},
		{"other", 0, errors.New("x"), ""},
	} {
		got := ""
		r := &Runner{}
		r.hooks.health = func(ok bool) { got = map[bool]string{true: "there", false: "away"}[ok] }
		var s Stream
		if tt.err == nil {
			s = statusStream{status: tt.status}
		}
		r.judge(context.Background(), s, tt.err)
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
