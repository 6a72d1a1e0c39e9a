package session

import (
	"encoding/json"
	"net/http"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// initialize: the client's first message. What it says of itself is kept, and the
// server is asked in its dialect: with initialize, or with server/discover.
func (s *legacySession) initialize(x *Exec, ev Event) {
	m := ev.Frame.Msg
	s.ID = string(x.ID[len("session:"):])
	s.Principal, s.Open, s.Used = ev.Caller.Principal, ev.Caller.Open, x.Now
	s.Began, s.Transport = x.Now, ev.Frame.Transport
	s.Limit = x.r.limitKey(ev.Caller)
	s.Sealed, s.Guest = x.Policy.SealRoute, string(ev.Data)
	s.ClientInfo = rawOr(m.At("params", "clientInfo"), `{"name":"unknown","version":"0"}`)
	s.ClientCaps = rawOr(m.At("params", "capabilities"), "{}")
	s.PlainCaps = translate.ClientCapsToModern(s.ClientCaps, false)
	s.TaskCaps = translate.ClientCapsToModern(s.ClientCaps, true)
	asked, _ := m.At("params", "protocolVersion").Str()
	s.Version = translate.NegotiateLegacy(asked)
	s.Waiting = waiter{Stream: ev.Label, ID: json.RawMessage(m.ID.Raw())}
	if ev.Face.Era == translate.Modern {
		s.Modern, s.ModernTasks = ev.Face.Version, ev.Face.Tasks
	}
	if ev.Face.Era == translate.Modern && !ev.Face.Dual {
		s.discover(x)
		return
	}
	s.Era = translate.Legacy
	x.Do(Open{Label: "init", Upstream: x.r.upstream, As: s.Principal, Out: Outgoing{Verb: http.MethodPost, Msg: m.Raw, Header: ev.Caller.Header}})
}

// modernRequest is what this session's requests carry toward a modern server.
func (s *legacySession) modernRequest(withTasks bool) translate.ModernRequest {
	r := translate.ModernRequest{Version: s.ServerVersion, ClientInfo: s.ClientInfo, LogLevel: s.LogLevel, ClientCaps: s.PlainCaps}
	if withTasks {
		r.ClientCaps = s.TaskCaps
	}
	return r
}

func (s *legacySession) discover(x *Exec) {
	s.Era, s.ServerVersion = translate.Modern, s.Modern
	msg := translate.NewModernRequest(jsonrpc.IntID(1), "server/discover", s.modernRequest(true))
	x.Do(Open{Label: "discover", Upstream: x.r.upstream, As: s.Principal, Out: modernOut(msg, s.ServerVersion, nil)})
}

// modernOut is a message of ours toward a modern server with the headers it
// wants (2026-07-28 streamable-http, Standard Request Headers).
func modernOut(raw []byte, version string, header http.Header) Outgoing {
	out := Outgoing{Verb: http.MethodPost, Msg: raw, Version: version, Header: header}
	if m, err := jsonrpc.Decode(raw, jsonrpc.Limits{}); err == nil {
		out.Header = modernHeaders(m, header)
	}
	return out
}

// modernHeaders joins the headers m wants with the caller's.
func modernHeaders(m *jsonrpc.Message, header http.Header) http.Header {
	out := translate.StandardHeaders(m)
	for k, v := range header {
		if _, ours := out[k]; !ours {
			out[k] = v
		}
	}
	return out
}

// initialized: the server's legacy face answered. A face that offers less
// than the modern one is left for it.
func (s *legacySession) initialized(x *Exec, ev Event) {
	m := ev.Frame.Msg
	if ev.Frame.HTTP != nil {
		s.UpSession = ev.Frame.HTTP.Header.Get(headerSession)
	}
	version, _ := m.Result().Get("protocolVersion").Str()
	less := s.UpSession == "" || s.ModernTasks && !translate.LegacyTakesTasks(m.Result().Get("capabilities"))
	if s.Modern != "" && less && s.Version == translate.LatestLegacy {
		if s.UpSession != "" {
			x.Do(Open{Label: "delete", Upstream: x.r.upstream, As: s.Principal, Out: Outgoing{Verb: http.MethodDelete, Session: s.UpSession, Version: version}})
		}
		s.UpSession = ""
		s.discover(x)
		return
	}
	if version != "" {
		s.Version = version
	}
	s.listChanges(m.Result().Get("capabilities"))
	s.ready(x, m.Raw)
}

func (s *legacySession) discovered(x *Exec, m *jsonrpc.Message) {
	f, _ := translate.Lookup(s.Version)
	caps := m.Result().Get("capabilities")
	s.Tasks = f.Tasks && translate.ModernTakesTasks(caps) && caps.Get("tools").Exists()
	s.listChanges(caps)
	result := translate.InitializeResult(m.Result(), translate.InitializeOptions{Version: s.Version, TaskList: !s.Open, Fallback: "mcp-server"})
	raw, lost := translate.FitRevision("initialize", jsonrpc.NewResult(s.Waiting.id(), result), s.Version)
	x.lose(lost)
	s.ready(x, raw)
}

// listChanges notes which changes of lists the server reports; the lists of a
// session's client are not those of a server that has a part of it.
func (s *legacySession) listChanges(caps jsonrpc.Value) {
	if s.Guest != "" {
		return
	}
	for _, c := range listChanges {
		if string(caps.Get(c.capability).Get("listChanged").Raw()) == "true" {
			s.Lists = append(s.Lists, c.filter)
		}
	}
}

// primes: the client takes an event without data, which primes it to resume.
func (s *legacySession) primes() bool {
	f, _ := translate.Lookup(s.Version)
	return f.Priming
}

func (s *legacySession) ready(x *Exec, raw []byte) {
	s.Phase = sessionReady
	x.Do(Send{Stream: s.Waiting.Stream, Out: Out{Raw: raw, Final: true, Header: http.Header{headerSession: {s.ID}}}})
	x.Do(Wake{Name: "idle", At: x.Now.Add(x.Policy.SessionIdle)})
	s.Waiting, s.Request, s.Modern, s.ModernTasks = waiter{}, nil, "", false
	if s.Left {
		s.end(x, false)
		x.Do(Done{})
	}
}
