package session

import (
	"slices"
	"strconv"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// maxSubscriptions bounds the resources one legacy session subscribes to.
const maxSubscriptions = 1000

// subscribe keeps the set a legacy client builds one by one; the modern
// server is told the whole set in one subscriptions/listen.
func (s *legacySession) subscribe(x *Exec, ev Event) {
	m := ev.Frame.Msg
	uri, ok := m.At("params", "uri").Str()
	if !ok || uri == "" {
		x.refuse(ev.Label, translate.Legacy, m.ID, translate.CondInvalidParams, "params.uri must name a resource", nil)
		return
	}
	had := slices.Contains(s.Subs, uri)
	switch {
	case m.Method == "resources/unsubscribe" && had:
		s.Subs = slices.DeleteFunc(s.Subs, func(u string) bool { return u == uri })
		s.listen(x)
	case m.Method == "resources/subscribe" && !had:
		if len(s.Subs) >= maxSubscriptions {
			x.refuse(ev.Label, translate.Legacy, m.ID, translate.CondInvalidParams, "too many subscriptions in this session", nil)
			return
		}
		s.Subs = append(s.Subs, uri)
		s.listen(x)
	}
	x.reply(ev.Label, jsonrpc.NewResult(m.ID, []byte("{}")))
}

// listen opens subscriptions/listen for what the session wants, while it has
// a GET stream to be told on. The one before ends once the new one is
// acknowledged, so that no change falls between.
func (s *legacySession) listen(x *Exec) {
	if s.Era != translate.Modern || len(s.Gets) == 0 || len(s.Lists)+len(s.Subs) == 0 {
		return
	}
	filter := jsonrpc.NewObject()
	for _, l := range s.Lists {
		filter.Raw(l, []byte("true"))
	}
	if len(s.Subs) > 0 {
		filter.Raw("resourceSubscriptions", mustJSON(s.Subs))
	}
	s.ListenNo++
	label := "listen" + strconv.Itoa(s.ListenNo)
	req := s.modernRequest(false)
	req.LogLevel = ""
	msg := translate.NewModernRequest(jsonrpc.IntID(x.NextID("up/"+x.r.upstream)), "subscriptions/listen", req,
		translate.Param{Key: "notifications", Raw: filter.Bytes()})
	x.Do(Open{Label: label, Upstream: x.r.upstream, As: s.Principal, Out: modernOut(msg, s.ServerVersion, nil)})
	if s.Listen == "" {
		s.Listen = label
	}
}

// heard: a message of a listen stream.
func (s *legacySession) heard(x *Exec, ev Event) {
	m := ev.Frame.Msg
	if m.Kind != jsonrpc.Notification {
		return // the end of the stream follows
	}
	if m.Method == "notifications/subscriptions/acknowledged" {
		s.ListenTries = 0
		for label := range s.Ups {
			if label != ev.Label && len(label) > 6 && label[:6] == "listen" && s.newer(ev.Label, label) {
				x.Do(Shut{Label: label})
			}
		}
		s.Listen = ev.Label
		return
	}
	if len(s.Gets) > 0 && ev.Label == s.Listen {
		x.Do(Send{Stream: s.Gets[0], Out: Out{Raw: translate.Unsubscribed(m)}})
	}
}

// newer compares the numbers of two listen labels.
func (s *legacySession) newer(a, b string) bool {
	x, _ := strconv.Atoi(a[6:])
	y, _ := strconv.Atoi(b[6:])
	return x > y
}
