package session

import (
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// A modern client's listen to a server process ends when that process does,
// though what it listens for does not: the next process is asked for the same,
// and the client is told what it may have missed.

const (
	// maxListenAgain bounds a listen that is kept to be sent again.
	maxListenAgain = 16 << 10
	// listenTries bounds the tries in a row without an acknowledgement.
	listenTries = 10
)

// passListen is a listen that can be sent again.
type passListen struct {
	As    Principal
	Out   Outgoing
	Acked bool `json:",omitempty"` // the client has its acknowledgement
	Again bool `json:",omitempty"` // sent again, and not acknowledged yet
	Tries int  `json:",omitempty"`
}

// listens keeps a listen of a modern client.
func (p *passCall) listens(as Principal, out Outgoing) {
	if p.Era == translate.Modern && p.Method == "subscriptions/listen" && len(out.Msg) <= maxListenAgain {
		p.Listen = &passListen{As: as, Out: out}
	}
}

// acknowledged notes an acknowledgement, and is true for one the client has had:
// then it is told of all that may have changed in between.
func (p *passCall) acknowledged(x *Exec, m *jsonrpc.Message) bool {
	l := p.Listen
	if l == nil || m.Method != "notifications/subscriptions/acknowledged" {
		return false
	}
	again := l.Again
	l.Acked, l.Again, l.Tries = true, false, 0
	if !again {
		return false
	}
	granted := m.At("params", "notifications")
	for _, c := range listChanges {
		if string(granted.Get(c.filter).Raw()) == "true" {
			p.missed(x, c.method, jsonrpc.NewObject())
		}
	}
	for uri := range granted.Get("resourceSubscriptions").Elems() {
		if s, ok := uri.Str(); ok {
			p.missed(x, "notifications/resources/updated", jsonrpc.NewObject().Str("uri", s))
		}
	}
	return true
}

func (p *passCall) missed(x *Exec, method string, params *jsonrpc.ObjectBuilder) {
	meta := jsonrpc.NewObject().Raw(translate.MetaSubscription, p.ID).Bytes()
	x.Do(Send{Stream: p.Stream, Out: Out{Raw: jsonrpc.NewNotification(method, params.Raw("_meta", meta).Bytes())}})
}

// listensAgain is true where the exchange ended with the server's process and
// the listen goes on with the next.
func (p *passCall) listensAgain(x *Exec, ev Event) bool {
	l := p.Listen
	if l == nil || !l.Acked || ev.Fail != FailProcess || l.Tries >= listenTries {
		return false
	}
	x.Do(Wake{Name: "listen", At: x.Now.Add(backoff(x.Policy.RetryAfter, l.Tries))})
	l.Tries++
	return true
}

// listenAgain sends it to the next process.
func (p *passCall) listenAgain(x *Exec) {
	p.Listen.Again = true
	x.Do(Open{Label: "up", Upstream: x.r.upstream, As: p.Listen.As, Out: p.Listen.Out, Feeds: p.Stream})
}
