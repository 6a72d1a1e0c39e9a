package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// backStep is one stream of a server: its status, then its events, then how it
// ends. A dial that fails has err alone.
type backStep struct {
	status int
	plain  bool // no event stream
	silent bool // about the time to stay away
	events []backEvent
	err    error
	lasts  time.Duration // before its end
}

type backEvent struct{ id, data string }

type backStream struct {
	step   backStep
	id     string
	retry  time.Duration
	closed bool
}

func (s *backStream) Envelope() *translate.Envelope {
	h := http.Header{"Content-Type": {"text/event-stream"}}
	if s.step.plain {
		h = http.Header{"Content-Type": {"application/json"}}
	}
	return &translate.Envelope{Status: s.step.status, Header: h}
}

func (s *backStream) Next() (translate.Frame, error) {
	for len(s.step.events) > 0 {
		ev := s.step.events[0]
		s.step.events = s.step.events[1:]
		if ev.id != "" {
			s.id = ev.id
		}
		if ev.data == "" {
			continue
		}
		m, err := jsonrpc.Decode([]byte(ev.data), jsonrpc.Limits{})
		return translate.Frame{Msg: m}, err
	}
	time.Sleep(s.step.lasts)
	if s.step.err != nil {
		return translate.Frame{}, s.step.err
	}
	return translate.Frame{}, io.EOF
}

func (s *backStream) Close() error         { s.closed = true; return nil }
func (s *backStream) LastEventID() string  { return s.id }
func (s *backStream) Retry() time.Duration { return s.retry }

// backServer plays its steps one after the other and notes what was asked.
type backServer struct {
	steps []backStep
	retry time.Duration
	start time.Time
	asked []string
	open  []*backStream
}

func (b *backServer) Dial(context.Context, Target) (Conn, error) { return b, nil }
func (b *backServer) Close() error                               { return nil }
func (b *backServer) Do(_ context.Context, out Outgoing) (Stream, error) {
	b.asked = append(b.asked, fmt.Sprintf("%v %s %s", time.Since(b.start), out.Verb, out.Header.Get(translate.HeaderLastEvent)))
	if len(b.steps) == 0 {
		return nil, errors.New("no server")
	}
	step := b.steps[0]
	b.steps = b.steps[1:]
	if step.status == 0 {
		return nil, step.err
	}
	s := &backStream{step: step, retry: b.retry}
	if step.silent {
		s.retry = 0
	}
	b.open = append(b.open, s)
	return s, nil
}

const (
	backRequest = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`
	backAnswer  = `{"jsonrpc":"2.0","id":7,"result":{}}`
)

func backNote(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d}}`, n)
}

// A legacy server's stream that ends after an event with an id is resumed with
// GET and Last-Event-ID, no sooner than the server asked for, in bounds; what
// came before does not come again.
func TestComeback(t *testing.T) {
	broken := errors.New("reset")
	primed := backStep{status: 200, events: []backEvent{{"a", ""}}}
	for _, c := range []struct {
		name  string
		out   Outgoing
		retry time.Duration
		steps []backStep
		asked []string // after the first
		got   []string
		fail  bool // the exchange ends as broken
	}{
		{name: "closed by the server, then answered", retry: 500 * time.Millisecond,
			steps: []backStep{primed, {status: 200, events: []backEvent{{"b", backAnswer}}}},
			asked: []string{"500ms GET a"}, got: []string{backAnswer}},
		{name: "broken", steps: []backStep{{status: 200, events: []backEvent{{"a", backNote(1)}}, err: broken}, {status: 200, events: []backEvent{{"b", backAnswer}}}},
			asked: []string{"1s GET a"}, got: []string{backNote(1), backAnswer}},
		{name: "polled: each stream gives a newer id", retry: 200 * time.Millisecond,
			steps: []backStep{primed, {status: 200, events: []backEvent{{"b", ""}}}, {status: 200, events: []backEvent{{"c", backNote(2)}}}, {status: 200, events: []backEvent{{"d", backAnswer}}}},
			asked: []string{"200ms GET a", "400ms GET b", "600ms GET c"}, got: []string{backNote(2), backAnswer}},
		{name: "polled without a newer id", retry: 200 * time.Millisecond,
			steps: append(slices.Repeat([]backStep{{status: 200, events: []backEvent{{"a", ""}}, lasts: 5 * time.Second}}, 8), backStep{status: 200, events: []backEvent{{"b", backAnswer}}}),
			asked: []string{"5.2s GET a", "10.4s GET a", "15.6s GET a", "20.8s GET a", "26s GET a", "31.2s GET a", "36.4s GET a", "41.6s GET a"}, got: []string{backAnswer}},
		{name: "the server replays what we have", retry: 100 * time.Millisecond,
			steps: []backStep{{status: 200, events: []backEvent{{"a", backNote(1)}, {"b", backNote(2)}}}, {status: 200, events: []backEvent{{"a", backNote(1)}, {"b", backNote(2)}, {"c", backNote(3)}, {"d", backAnswer}}}},
			asked: []string{"100ms GET b"}, got: []string{backNote(1), backNote(2), backNote(3), backAnswer}},
		{name: "the time to stay away holds for later streams", retry: 9 * time.Second,
			steps: []backStep{primed, {status: 200, silent: true, events: []backEvent{{"b", ""}}}, {status: 200, events: []backEvent{{"c", backAnswer}}}},
			asked: []string{"9s GET a", "18s GET b"}, got: []string{backAnswer}},
		{name: "one id for all events", retry: 100 * time.Millisecond,
			steps: []backStep{{status: 200, events: []backEvent{{"a", backNote(1)}, {"a", backNote(2)}}}, {status: 200, events: []backEvent{{"a", backNote(2)}, {"a", backNote(3)}, {"a", backAnswer}}}},
			asked: []string{"100ms GET a"}, got: []string{backNote(1), backNote(2), backNote(3), backAnswer}},
		{name: "ids that begin anew", retry: 100 * time.Millisecond,
			steps: []backStep{{status: 200, events: []backEvent{{"1", backNote(1)}}}, {status: 200, events: []backEvent{{"1", backNote(2)}, {"2", backAnswer}}}},
			asked: []string{"100ms GET 1"}, got: []string{backNote(1), backNote(2), backAnswer}},
		{name: "several messages in a replayed event, then one without an id", retry: 100 * time.Millisecond,
			steps: []backStep{{status: 200, events: []backEvent{{"a", backNote(1)}, {"", backNote(2)}}}, {status: 200, events: []backEvent{{"a", backNote(1)}, {"", backNote(2)}, {"", backNote(3)}, {"b", backNote(4)}, {"", backAnswer}}}},
			asked: []string{"100ms GET a"}, got: []string{backNote(1), backNote(2), backNote(3), backNote(4), backAnswer}},
		{name: "no id", steps: []backStep{{status: 200, events: []backEvent{{"", backNote(1)}}}}, got: []string{backNote(1)}},
		{name: "no id, broken", steps: []backStep{{status: 200, events: []backEvent{{"", backNote(1)}}, err: broken}}, got: []string{backNote(1)}, fail: true},
		{name: "answered before it broke", steps: []backStep{{status: 200, events: []backEvent{{"a", backAnswer}}, err: broken}}, got: []string{backAnswer}, fail: true},
		{name: "an answer over the limit, which it would be again", retry: 100 * time.Millisecond,
			steps: []backStep{{status: 200, events: []backEvent{{"a", backNote(1)}}, err: &DialError{Fail: FailTooLarge, Err: broken}}, primed},
			got:   []string{backNote(1)}, fail: true},
		{name: "no room, which there may be later", retry: 100 * time.Millisecond,
			steps: []backStep{{status: 200, events: []backEvent{{"a", backNote(1)}}, err: &DialError{Fail: FailBusy, Err: broken}}, {status: 200, events: []backEvent{{"b", backAnswer}}}},
			asked: []string{"100ms GET a"}, got: []string{backNote(1), backAnswer}},
		{name: "refused", retry: 100 * time.Millisecond, steps: []backStep{primed, {status: 404}}, asked: []string{"100ms GET a"}},
		{name: "no event stream", retry: 100 * time.Millisecond, steps: []backStep{primed, {status: 200, plain: true}}, asked: []string{"100ms GET a"}},
		{name: "down for good", retry: 100 * time.Millisecond, steps: []backStep{{status: 200, events: []backEvent{{"a", ""}}, err: broken}},
			asked: []string{"100ms GET a", "2.1s GET a", "6.1s GET a", "14.1s GET a", "30.1s GET a"}, fail: true},
		{name: "down for a while", retry: 100 * time.Millisecond,
			steps: []backStep{primed, {err: broken}, {status: 503}, {status: 200, events: []backEvent{{"b", backAnswer}}}},
			asked: []string{"100ms GET a", "2.1s GET a", "6.1s GET a"}, got: []string{backAnswer}},
		{name: "a server that ends each stream at once", retry: 100 * time.Millisecond, steps: slices.Repeat([]backStep{primed}, 100),
			asked: []string{"100ms GET a", "2.1s GET a", "6.1s GET a", "14.1s GET a", "30.1s GET a"}},
		{name: "modern server", out: Outgoing{Version: translate.LatestModern}, steps: []backStep{primed}},
		{name: "reply to a notification", out: Outgoing{Msg: []byte(`{"jsonrpc":"2.0","method":"notifications/x"}`)}, steps: []backStep{primed}},
		{name: "GET stream", out: Outgoing{Verb: http.MethodGet}, retry: 300 * time.Millisecond,
			steps: []backStep{{status: 200, events: []backEvent{{"a", backNote(1)}}}, {status: 200, events: []backEvent{{"b", backNote(2)}}}, {status: 405}},
			asked: []string{"300ms GET a", "600ms GET b"}, got: []string{backNote(1), backNote(2)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &backServer{steps: c.steps, retry: c.retry, start: time.Now()}
				out := c.out
				if out.Verb == "" {
					out.Verb = http.MethodPost
				}
				if out.Msg == nil && out.Verb == http.MethodPost {
					out.Msg = []byte(backRequest)
				}
				got, broke := pumped(t, server, out)
				if !slices.Equal(got, c.got) {
					t.Errorf("got %q, want %q", got, c.got)
				}
				if !slices.Equal(server.asked[1:], c.asked) {
					t.Errorf("asked %q, want %q", server.asked[1:], c.asked)
				}
				if (broke != nil) != c.fail {
					t.Errorf("ended with %v", broke)
				}
				for i, s := range server.open {
					if !s.closed {
						t.Errorf("stream %d is left open", i)
					}
				}
			})
		})
	}
}

// pumped reads one exchange and returns its messages and why it broke.
func pumped(t *testing.T, server *backServer, out Outgoing) (got []string, broke error) {
	t.Helper()
	r := &Runner{dialer: server, creds: NewCredentials(1), log: slog.New(slog.DiscardHandler), metrics: noMetrics{}, looks: newPacer(RealClock{}, 1e9, func(time.Duration) {})}
	e := openAt{Open: Open{Out: out}}
	first, err := r.dial(t.Context(), e, out)
	if err != nil {
		t.Fatal(err)
	}
	c := comeback{r: r, e: e, env: first.Envelope()}
	broke = c.read(t.Context(), first, func() bool { return len(got) < 100 }, func(f translate.Frame) bool {
		got = append(got, string(f.Msg.Raw))
		return f.Msg.Kind == jsonrpc.Response
	})
	return got, broke
}
