package offline

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Link makes of a Hub the server of a runner: what that one sends upstream
// reaches the hub as a client's message, as it would over HTTP, without a
// socket. It implements session.Dialer.
type Link struct {
	Hub   session.Hub
	Clock session.Clock
	Tap   session.Tap // sees both directions as a client leg; nil: nobody looks
	// Name begins the names of streams.
	Name string
	// Hide, if set, keeps an exchange from the tap; m is nil for GET and DELETE.
	Hide func(verb string, m *jsonrpc.Message) bool
	// Edit, if set, may change what the hub answers to a request of a method.
	Edit func(method string, m *jsonrpc.Message) []byte

	streams atomic.Int64
}

// Dial implements session.Dialer.
func (l *Link) Dial(_ context.Context, target session.Target) (session.Conn, error) {
	return linkConn{l, target.Principal}, nil
}

type linkConn struct {
	l         *Link
	principal session.Principal
}

func (c linkConn) Close() error { return nil }

// Do implements session.Conn: it hands the message over and waits for the
// first thing said to it.
func (c linkConn) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	s := &linkStream{l: c.l, ctx: ctx, name: c.l.Name + strconv.FormatInt(c.l.streams.Add(1), 10)}
	in, err := c.inbound(s.name, out)
	if err != nil {
		return nil, err
	}
	if in.Frame.Msg != nil {
		s.method = in.Frame.Msg.Method
	}
	s.hidden = c.l.Hide != nil && c.l.Hide(in.Frame.HTTP.Verb, in.Frame.Msg)
	s.session, s.principal = in.Caller.Session, string(c.principal)
	s.tap(in.Frame)
	s.stream = c.l.Hub.NewStream()
	in.Frame.Stream = s.stream.ID
	s.stop = c.l.Clock.OnCancel(ctx, s.gone)
	c.l.Hub.Client(ctx, in, s.stream)
	first, ok := s.stream.NextOn(ctx, c.l.Clock)
	if !ok {
		s.Close()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, &session.DialError{Fail: session.FailBroken, Upstream: "capture", Err: io.ErrUnexpectedEOF}
	}
	s.open(s.edited(first))
	return s, nil
}

// inbound says of a message what the HTTP listener would (downstream).
func (c linkConn) inbound(stream string, out session.Outgoing) (session.Inbound, error) {
	var m *jsonrpc.Message
	if out.Msg != nil {
		var err error
		if m, err = jsonrpc.Decode(out.Msg, jsonrpc.Limits{}); err != nil {
			return session.Inbound{}, err
		}
	}
	h := http.Header{}
	maps.Copy(h, out.Header)
	if out.Version != "" {
		h[translate.HeaderVersion] = []string{out.Version}
	}
	caller := session.Caller{Principal: c.principal, Session: out.Session, Header: h}
	if m == nil {
		caller.Era, caller.Version = translate.Legacy, out.Version
	} else {
		cl, _ := translate.Classify(h, m)
		caller.Era, caller.Version = cl.Era, cl.Version
	}
	shown := maps.Clone(h)
	if out.Session != "" {
		shown[translate.HeaderSession] = []string{out.Session}
	}
	verb := out.Verb
	if verb == "" {
		verb = http.MethodPost
	}
	return session.Inbound{Caller: caller, Frame: translate.Frame{
		Msg: m, Leg: translate.ClientLeg, Dir: translate.ToServer, Stream: stream, Time: c.l.Clock.Now(),
		HTTP: &translate.Envelope{Verb: verb, Header: shown},
	}}, nil
}

// linkStream is the answer to one message.
type linkStream struct {
	l       *Link
	ctx     context.Context
	name    string
	session string
	method  string
	hidden  bool
	stream  *session.ClientStream
	stop    func() bool
	once    sync.Once

	principal string
	env       *translate.Envelope
	next      *session.Out // taken by Do and not given yet
	over      bool
}

func (s *linkStream) open(first session.Out) {
	h := http.Header{}
	maps.Copy(h, first.Header)
	s.env = &translate.Envelope{Status: max(first.Status, http.StatusOK), Header: h}
	if id := h.Get(translate.HeaderSession); id != "" {
		s.session = id
	}
	if first.Final {
		if first.Raw != nil {
			h["Content-Type"] = []string{"application/json"}
		}
	} else {
		s.env.Status = http.StatusOK
		h["Content-Type"] = []string{"text/event-stream"}
	}
	s.next = &first
	s.tapOut(first, s.env)
}

func (s *linkStream) edited(out session.Out) session.Out {
	if s.l.Edit == nil || out.Raw == nil {
		return out
	}
	if m, err := jsonrpc.Decode(out.Raw, jsonrpc.Limits{}); err == nil && m.Kind == jsonrpc.Response {
		out.Raw = s.l.Edit(s.method, m)
	}
	return out
}

// Envelope implements session.Stream.
func (s *linkStream) Envelope() *translate.Envelope { return s.env }

// Next implements session.Stream.
func (s *linkStream) Next() (translate.Frame, error) {
	for {
		if s.over {
			return translate.Frame{}, io.EOF
		}
		var out session.Out
		if s.next != nil {
			out, s.next = *s.next, nil
		} else {
			var ok bool
			if out, ok = s.stream.NextOn(s.ctx, s.l.Clock); !ok {
				if err := s.ctx.Err(); err != nil {
					return translate.Frame{}, err
				}
				return translate.Frame{}, io.EOF
			}
			if out = s.edited(out); out.Raw != nil {
				s.tapOut(out, nil)
			}
		}
		s.over = out.Final
		if out.Raw == nil {
			continue
		}
		m, err := jsonrpc.Decode(out.Raw, jsonrpc.Limits{})
		if err != nil {
			return translate.Frame{}, err
		}
		return translate.Frame{Msg: m, Leg: translate.ServerLeg, Dir: translate.ToClient, Stream: s.name, Time: s.l.Clock.Now()}, nil
	}
}

// Close implements session.Stream.
func (s *linkStream) Close() error {
	s.stop()
	s.gone()
	return nil
}

// gone says once that the reader has left.
func (s *linkStream) gone() { s.once.Do(s.stream.Gone) }

func (s *linkStream) tapOut(out session.Out, env *translate.Envelope) {
	if s.l.Tap == nil || s.hidden {
		return
	}
	f := translate.Frame{Leg: translate.ClientLeg, Dir: translate.ToClient, Stream: s.name, Time: s.l.Clock.Now(), HTTP: env}
	if out.Raw != nil {
		f.Msg, _ = jsonrpc.Decode(out.Raw, jsonrpc.Limits{})
	}
	s.tap(f)
}

func (s *linkStream) tap(f translate.Frame) {
	if s.l.Tap == nil || s.hidden {
		return
	}
	f.Transport, f.Session, f.Principal = "http", s.session, s.principal
	s.l.Tap.Frame(f)
}

func listensToTasks(m *jsonrpc.Message) bool {
	return m != nil && m.Method == "subscriptions/listen" && m.At("params", "notifications", "taskIds").Exists()
}

// pollsOnly is a Hub whose tasks cannot be listened to: a capture shows polls,
// which stand at the times the tasks were looked at.
type pollsOnly struct{ session.Hub }

func (h pollsOnly) Client(ctx context.Context, in session.Inbound, s *session.ClientStream) {
	m := in.Frame.Msg
	if listensToTasks(m) {
		s.Send(session.Out{Raw: jsonrpc.NewError(m.ID, -32601, "Method not found: tasks are polled here", nil), Status: http.StatusNotFound, Final: true})
		return
	}
	h.Hub.Client(ctx, in, s)
}
