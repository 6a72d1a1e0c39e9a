package offline

import (
	"context"
	"net/http"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// send hands one message over and reads what comes of it. p is the part it
// repeats, nil: it is ours.
func (x *telling) send(raw []byte, p *operation.Part) *saying {
	s := &saying{}
	ctx, cancel := x.t.w.WithCancel()
	x.t.mu.Lock()
	x.ends = append(x.ends, cancel)
	caller := session.Caller{Principal: session.HashPrincipal("capture", x.op.Principal), Era: translate.Legacy, Session: x.lane.session, Version: x.lane.version}
	x.t.mu.Unlock()
	verb := http.MethodPost
	var m *jsonrpc.Message
	if raw == nil {
		if p != nil && p.Record.Verb != "" {
			verb = p.Record.Verb
		}
	} else {
		var err error
		if m, err = jsonrpc.Decode(raw, jsonrpc.Limits{}); err != nil {
			s.over = true
			return s
		}
		caller = headersOf(caller, m, p)
		if m.Method == "tools/list" {
			x.t.mu.Lock()
			x.t.lists++
			x.t.mu.Unlock()
		}
	}
	stream := x.t.hub.NewStream()
	in := session.Inbound{Caller: caller, Frame: translate.Frame{
		Msg: m, Leg: translate.ClientLeg, Dir: translate.ToServer, Stream: stream.ID, Time: x.t.w.Now(),
		HTTP: &translate.Envelope{Verb: verb, Header: caller.Header},
	}}
	go x.t.w.Work(func() {
		defer stream.Gone()
		x.t.hub.Client(ctx, in, stream)
		x.read(ctx, stream, s)
		if m != nil && m.Method == "tools/list" {
			x.t.mu.Lock()
			x.t.lists--
			x.t.mu.Unlock()
		}
	})()
	return s
}

// headersOf says of the caller what the headers of an HTTP request would.
func headersOf(c session.Caller, m *jsonrpc.Message, p *operation.Part) session.Caller {
	version, modern := m.At("params", "_meta", translate.MetaVersion).Str()
	if !modern {
		if m.Method == "initialize" {
			c.Session, c.Version = "", ""
		}
		c.Header = http.Header{}
		return c
	}
	h := translate.StandardHeaders(m)
	h[translate.HeaderVersion] = []string{version}
	if p != nil {
		for name, values := range translate.RequestHeaders(p.Record.Header, translate.Modern) {
			if h[name] == nil {
				h[name] = values
			}
		}
	}
	c.Era, c.Version, c.Session, c.Header = translate.Modern, version, "", h
	return c
}

// read takes what comes back for one message.
func (x *telling) read(ctx context.Context, stream *session.ClientStream, s *saying) {
	for {
		out, ok := stream.NextOn(ctx, x.t.w)
		x.t.mu.Lock()
		if id := out.Header.Get(translate.HeaderSession); id != "" {
			x.lane.session = id
		}
		if out.Raw != nil {
			if m, err := jsonrpc.Decode(out.Raw, jsonrpc.Limits{}); err == nil {
				switch m.Kind {
				case jsonrpc.Request:
					x.lane.asked = append(x.lane.asked, &heard{msg: m})
				case jsonrpc.Response, jsonrpc.ErrorResponse:
					s.reply = m
				}
			}
		}
		s.over = s.over || !ok || out.Final
		x.lane.changed()
		over := s.over
		x.t.mu.Unlock()
		if over {
			return
		}
	}
}

// own opens a session's own stream where the transport has it from the
// beginning.
func (x *telling) own() {
	x.send(nil, &operation.Part{Record: ownStream})
}

// listen keeps a stream open as long as it was.
func (x *telling) listen() {
	x.ready()
	first := x.op.First()
	x.send(x.rewritten(first), &first)
	if !x.op.Ended.IsZero() {
		x.sleep(x.op.Ended.Sub(x.t.w.Now()))
		for _, end := range x.ends {
			end()
		}
	}
}

var ownStream = &capture.Record{Verb: http.MethodGet}
