package downstream

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// legacyLink is the legacy session of a connection. Over HTTP the client would
// carry its id; here the connection does.
type legacyLink struct {
	id, version string
	initialize  *jsonrpc.Message // as the client sent it
	ready       bool             // the client has sent notifications/initialized
	renewing    chan struct{}    // closed when a new session is there, nil: none is being made
	listening   string           // the session whose own stream is open
	// sticky are the requests whose effect lasts as long as the session: the log
	// level, and subscriptions by URI. A new session is told them again.
	sticky map[string]*jsonrpc.Message
}

// maxSticky bounds what is told again.
const maxSticky = 1000

// remember keeps or forgets a request whose effect lasts; it needs s.mu.
func (l *legacyLink) remember(m *jsonrpc.Message) {
	uri, _ := m.At("params", "uri").Str()
	switch m.Method {
	case "logging/setLevel":
		uri = ""
	case "resources/subscribe":
		uri = "uri " + uri
	case "resources/unsubscribe":
		delete(l.sticky, "uri "+uri)
		return
	default:
		return
	}
	if l.sticky == nil {
		l.sticky = map[string]*jsonrpc.Message{}
	}
	if _, known := l.sticky[uri]; known || len(l.sticky) < maxSticky {
		l.sticky[uri] = m
	}
}

// greeted takes what initialize was answered; it needs s.mu.
func (s *clientLink) greeted(out session.Out) {
	s.legacy.id = out.Header.Get(translate.HeaderSession)
	if m, err := jsonrpc.Decode(out.Raw, jsonrpc.Limits{}); err == nil {
		s.legacy.version, _ = m.Result().Get("protocolVersion").Str()
	}
}

func (s *clientLink) legacyCaller() session.Caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.who
	c.Era, c.Session, c.Version = translate.Legacy, s.legacy.id, s.legacy.version
	return c
}

// Pauses before a session's own stream is opened again.
const (
	firstListenPause = 500 * time.Millisecond
	lastListenPause  = 30 * time.Second
)

// listen keeps the session's own stream open: what belongs to no request comes
// there. A server may have none.
func (s *clientLink) listen() {
	caller := s.legacyCaller()
	s.mu.Lock()
	if caller.Session == "" || s.legacy.listening == caller.Session {
		s.mu.Unlock()
		return
	}
	s.legacy.listening = caller.Session
	s.mu.Unlock()
	pause := firstListenPause
	for {
		began := time.Now()
		stream := s.o.Hub.NewStream()
		s.o.Hub.Client(s.ctx, s.inbound(stream.ID, nil, caller, http.MethodGet), stream)
		status := s.relay(stream)
		stream.Gone()
		switch {
		case s.ctx.Err() != nil || s.legacyCaller().Session != caller.Session:
			return
		case status == http.StatusNotFound:
			if s.renewFrom(caller.Session) {
				s.listen()
			}
			return
		case status/100 == 4:
			return
		case time.Since(began) > lastListenPause:
			pause = firstListenPause
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-s.ctx.Done():
			t.Stop()
			return
		}
		if s.legacyCaller().Session != caller.Session {
			return // the new session has its own
		}
		pause = min(2*pause, lastListenPause)
	}
}

// relay writes what comes on a stream of its own until it ends, and says with
// what status. A server's refusal of the stream is no message of the session.
func (s *clientLink) relay(stream *session.ClientStream) int {
	for {
		out, ok := stream.Next(s.ctx)
		if !ok || out.Final {
			return out.Status
		}
		if out.Raw != nil && out.Status < 300 {
			s.tell("", out.Raw)
		}
	}
}

// renew sends a request again that was refused because the server has forgotten
// the session, or its process has ended: it cannot have run. The client
// knows no sessions and could not begin a new one itself.
func (s *clientLink) renew(f *flight, out session.Out) (context.Context, bool) {
	if out.Status != http.StatusNotFound || f.retry || f.caller.Era == translate.Modern || f.caller.Session == "" || f.msg.Method == "initialize" {
		return nil, false
	}
	f.retry = true
	if !s.renewFrom(f.caller.Session) {
		return nil, false
	}
	f.stream.Gone()
	f.stop()
	f.caller = s.legacyCaller()
	s.wg.Go(s.listen)
	return s.launch(f), true
}

// renewFrom begins a new session in place of lost and says whether there is
// one. Of several who find the session lost one does it.
func (s *clientLink) renewFrom(lost string) bool {
	s.mu.Lock()
	for s.legacy.renewing != nil {
		wait := s.legacy.renewing
		s.mu.Unlock()
		select {
		case <-wait:
		case <-s.ctx.Done():
			return false
		}
		s.mu.Lock()
	}
	if s.legacy.id != lost {
		s.mu.Unlock()
		return s.legacyCaller().Session != ""
	}
	init, ready := s.legacy.initialize, s.legacy.ready
	done := make(chan struct{})
	s.legacy.renewing = done
	s.mu.Unlock()
	s.o.Logger.Warn("the session with the server was lost; a new one is begun in its place")
	caller := s.legacyCaller()
	caller.Session, caller.Version = "", ""
	out := s.ask(init, caller)
	s.mu.Lock()
	ok := out.Header.Get(translate.HeaderSession) != ""
	if ok {
		s.greeted(out)
	}
	s.mu.Unlock()
	if ok && ready {
		s.initialized()
	}
	s.mu.Lock()
	s.legacy.renewing = nil
	s.mu.Unlock()
	close(done)
	if ok && ready {
		s.repeat()
	}
	return ok
}

// initializedFor is how long a server may take to accept
// notifications/initialized before requests follow it all the same.
const initializedFor = 5 * time.Second

// initialized says in the client's place that a new session may begin. Nothing
// is sent in it before (2025-11-25 basic/lifecycle, Initialization).
func (s *clientLink) initialized() {
	m, err := jsonrpc.Decode(jsonrpc.NewNotification("notifications/initialized", nil), jsonrpc.Limits{})
	if err == nil {
		s.accepted(s.say(m, s.legacyCaller()))
	}
}

// accepted waits until the server took notifications/initialized: what the client
// says next must not overtake it.
func (s *clientLink) accepted(taken <-chan struct{}) {
	t := time.NewTimer(initializedFor)
	defer t.Stop()
	select {
	case <-taken:
	case <-t.C:
	case <-s.ctx.Done():
	}
}

// repeat tells a new session what the client told the lost one.
func (s *clientLink) repeat() {
	s.mu.Lock()
	told := slices.Collect(maps.Values(s.legacy.sticky))
	s.mu.Unlock()
	for _, m := range told {
		s.ask(m, s.legacyCaller())
	}
}

// ask sends a request of the client's once more; its answer is not the client's.
func (s *clientLink) ask(again *jsonrpc.Message, caller session.Caller) session.Out {
	m, err := jsonrpc.Decode(again.Raw, jsonrpc.Limits{})
	if err != nil {
		return session.Out{}
	}
	stream := s.o.Hub.NewStream()
	defer stream.Gone()
	s.o.Hub.Client(s.ctx, s.inbound(stream.ID, m, caller, http.MethodPost), stream)
	for {
		out, ok := stream.Next(s.ctx)
		if !ok || out.Final {
			return out
		}
	}
}

// goodbyeFor is how long the end of a session may take.
const goodbyeFor = time.Second

// endSession ends the session the client has, if it has one.
func (s *clientLink) endSession() {
	caller := s.legacyCaller()
	if caller.Session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), goodbyeFor)
	defer cancel()
	stream := s.o.Hub.NewStream()
	defer stream.Gone()
	s.o.Hub.Client(ctx, s.inbound(stream.ID, nil, caller, http.MethodDelete), stream)
	for {
		if out, ok := stream.Next(ctx); !ok || out.Final {
			return
		}
	}
}
