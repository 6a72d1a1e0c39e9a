package session

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"taskbridge/translate/jsonrpc"
)

// confirming is a resources/subscribe on its way, and the listens that wait.
type confirming struct {
	Label string
	Wait  []OpID
}

// poolSubscribed tells a listen what became of one of its resources.
type poolSubscribed struct {
	URI string
	OK  bool
}

// subscribe keeps the legacy server's subscriptions equal to what the listen
// streams of this session want: the first one subscribes, the last one takes
// it back (2025-11-25 server/resources, Subscriptions). Each listen is told
// what the server says of its resources.
func (p *poolSession) subscribe(x *Exec, ev Event) {
	var uris []string
	if json.Unmarshal(ev.Data, &uris) != nil {
		return
	}
	if p.Subs == nil {
		p.Subs, p.Confirming = map[string]int{}, map[string]confirming{}
	}
	for _, uri := range uris {
		switch {
		case ev.Name == "subscribe" && p.Phase == "ready":
			if p.Subs[uri]++; p.Subs[uri] == 1 {
				p.confirm(x, uri)
			}
			if c, waits := p.Confirming[uri]; waits {
				c.Wait = append(c.Wait, ev.From)
				p.Confirming[uri] = c
				continue
			}
			fallthrough
		case ev.Name == "subscribe":
			x.Do(Tell{To: ev.From, Name: "subscribed", Data: mustJSON(poolSubscribed{uri, p.Phase == "ready"})})
		case p.Subs[uri] > 1:
			p.Subs[uri]--
		case p.Subs[uri] == 1:
			delete(p.Subs, uri)
			delete(p.Confirming, uri)
			p.sayResource(x, "resources/unsubscribe", uri)
		}
	}
}

// confirm subscribes and waits for the server's word.
func (p *poolSession) confirm(x *Exec, uri string) {
	if p.Confirming == nil {
		p.Confirming = map[string]confirming{}
	}
	p.Confirming[uri] = confirming{Label: p.sayResource(x, "resources/subscribe", uri), Wait: p.Confirming[uri].Wait}
}

// confirms finds the resource a stream is to confirm.
func (p *poolSession) confirms(label string) string {
	for uri, c := range p.Confirming {
		if c.Label == label {
			return uri
		}
	}
	return ""
}

// confirmed: what the server does not take is nobody's subscription.
func (p *poolSession) confirmed(x *Exec, uri string, ok bool) {
	for _, op := range p.Confirming[uri].Wait {
		x.Do(Tell{To: op, Name: "subscribed", Data: mustJSON(poolSubscribed{uri, ok})})
	}
	if delete(p.Confirming, uri); !ok {
		delete(p.Subs, uri)
	}
}

// resubscribe is for a new session after the server forgot the old one. What
// changed in between nobody was told, so who listens is told that it may have.
func (p *poolSession) resubscribe(x *Exec) {
	var missed [][]byte
	for _, c := range listChanges {
		missed = append(missed, jsonrpc.NewNotification(c.method, nil))
	}
	for _, uri := range slices.Sorted(maps.Keys(p.Subs)) {
		p.confirm(x, uri)
		missed = append(missed, jsonrpc.NewNotification("notifications/resources/updated", jsonrpc.NewObject().Str("uri", uri).Bytes()))
	}
	for _, op := range p.Listens {
		for _, raw := range missed {
			x.Do(Tell{To: op, Name: "notice", Data: raw})
		}
	}
}

func (p *poolSession) sayResource(x *Exec, method, uri string) (label string) {
	id := x.NextID("up/" + string(x.ID))
	msg := jsonrpc.NewRequest(jsonrpc.IntID(id), method, jsonrpc.NewObject().Str("uri", uri).Bytes())
	label = "say" + string(intRaw(id))
	p.open(x, label, Outgoing{Verb: http.MethodPost, Msg: msg})
	return label
}
