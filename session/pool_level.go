package session

import (
	"net/http"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// A legacy server knows one log level a session (2025-11-25
// server/utilities/logging), a modern request says its own (2026-07-28
// server/utilities/logging): the session's is the most verbose one wanted so
// far, and each request gets what it asked for of what comes.

// verboser tells whether a level lets more through than the session's.
func verboser(level, than string) bool {
	return than == "" || levelRank(level) < levelRank(than)
}

// level: a call wants lines of this level and waits until the server knows.
func (p *poolSession) level(x *Exec, ev Event) {
	want := string(ev.Data)
	if p.Phase != "ready" || !verboser(want, p.View.Level) {
		x.Do(Tell{To: ev.From, Name: "level"})
		return
	}
	p.Used = x.Now
	p.LevelWait = append(p.LevelWait, ev.From)
	if verboser(want, p.Level) {
		p.Level = want
	}
	p.setLevel(x)
}

func (p *poolSession) setLevel(x *Exec) {
	if p.up("level") {
		return
	}
	p.LevelSent = p.Level
	params := jsonrpc.NewObject().Str("level", p.Level).Bytes()
	msg := jsonrpc.NewRequest(jsonrpc.IntID(x.NextID("up/"+string(x.ID))), "logging/setLevel", params)
	p.open(x, "level", Outgoing{Verb: http.MethodPost, Msg: msg})
}

// levelSet: the server has answered. One that refuses keeps a level of its
// own; it is not asked twice for the same one.
func (p *poolSession) levelSet(x *Exec) {
	p.View.Level = p.LevelSent
	if p.Level != p.LevelSent { // a more verbose one is wanted by now
		p.setLevel(x)
		return
	}
	p.levelOver(x)
}

func (p *poolSession) levelOver(x *Exec) {
	for _, op := range p.LevelWait {
		x.Do(Tell{To: op, Name: "level"})
	}
	p.LevelWait = nil
}

// logLine: a line outside of any request's stream belongs to the one call in
// flight, if there is one.
func (p *poolSession) logLine(x *Exec, m *jsonrpc.Message) {
	if p.View.Level == "" {
		return // nobody has asked for any
	}
	if fly := x.List(flyPrefix(x.ID), "", 2); len(fly) == 1 {
		x.Do(Tell{To: OpID(fly[0].Value), Name: "log", Data: m.Raw})
		return
	}
	x.Do(Loss{What: string(translate.LossLogLine)})
}

// leveled tells whether the server sends log lines as verbose as this call
// wants them; if not, its session is told to ask for them and "level" comes.
func (c *modernCall) leveled(x *Exec) bool {
	if c.LogLevel == "" || !c.Ready.Logging || c.Leveled || !verboser(c.LogLevel, c.Ready.Level) {
		return true
	}
	c.Leveled = true
	if !c.kept(slotRequest) {
		x.Keep(&c.base, slotRequest, c.raw)
	}
	x.Do(Tell{To: c.Pool, Name: "level", Data: []byte(c.LogLevel)})
	return false
}

// logLine gives a log line to the client as far as it asked for it.
func (c *modernCall) logLine(x *Exec, m *jsonrpc.Message) {
	if c.Parked || c.Hosted != "" {
		return // nobody listens
	}
	level, _ := m.At("params", "level").Str()
	if c.LogLevel != "" && levelRank(level) >= levelRank(c.LogLevel) {
		x.Do(Send{Stream: c.Stream, Out: Out{Raw: m.Raw}})
	}
}
