package session

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"taskbridge/translate/jsonrpc"
)

// subscribe keeps the legacy server's subscriptions equal to what the listen
// streams of this session want: the first one subscribes, the last one takes
// it back (2025-11-25 server/resources, Subscriptions).
func (p *poolSession) subscribe(x *Exec, ev Event) {
	var uris []string
	if json.Unmarshal(ev.Data, &uris) != nil || p.Phase != "ready" {
		return
	}
	if p.Subs == nil {
		p.Subs = map[string]int{}
	}
	for _, uri := range uris {
		switch {
		case ev.Name == "subscribe":
			if p.Subs[uri]++; p.Subs[uri] == 1 {
				p.sayResource(x, "resources/subscribe", uri)
			}
		case p.Subs[uri] > 1:
			p.Subs[uri]--
		case p.Subs[uri] == 1:
			delete(p.Subs, uri)
			p.sayResource(x, "resources/unsubscribe", uri)
		}
	}
}

// resubscribe is for a new session after the server forgot the old one.
func (p *poolSession) resubscribe(x *Exec) {
	for _, uri := range slices.Sorted(maps.Keys(p.Subs)) {
		p.sayResource(x, "resources/subscribe", uri)
	}
}

func (p *poolSession) sayResource(x *Exec, method, uri string) {
	id := x.NextID("up/" + string(x.ID))
	msg := jsonrpc.NewRequest(jsonrpc.IntID(id), method, jsonrpc.NewObject().Str("uri", uri).Bytes())
	p.open(x, "say"+string(intRaw(id)), Outgoing{Verb: http.MethodPost, Msg: msg})
}
