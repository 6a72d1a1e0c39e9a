package session

import (
	"slices"
	"strconv"
	"strings"
	"time"

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
	had, opened := slices.Contains(s.Subs, uri), false
	switch {
	case m.Method == "resources/unsubscribe" && had:
		s.Subs = slices.DeleteFunc(s.Subs, func(u string) bool { return u == uri })
		opened = s.listen(x)
	case m.Method == "resources/subscribe" && !had:
		if len(s.Subs) >= maxSubscriptions {
			x.refuse(ev.Label, translate.Legacy, m.ID, translate.CondInvalidParams, "too many subscriptions in this session", nil)
			return
		}
		s.Subs = append(s.Subs, uri)
		opened = s.listen(x)
	}
	if !opened {
		x.reply(ev.Label, jsonrpc.NewResult(m.ID, []byte("{}")))
		return
	}
	// The client may count on updates from the answer on, so it waits for the
	// server's acknowledgement (2026-07-28 basic/patterns/subscriptions).
	s.SubWait = append(s.SubWait, subWait{ev.Label, m.ID.Raw(), s.ListenNo})
	x.Do(Wake{Name: "subs", At: x.Now.Add(subscribePatience)})
}

// subscribePatience: how long a subscription waits for a server to confirm it.
const subscribePatience = 5 * time.Second

// subWait is a client's resources/subscribe or unsubscribe that is answered
// once the listen stream of that number is acknowledged.
type subWait struct {
	Stream string
	ID     []byte
	No     int
}

// subscribed answers those that waited for this listen stream or one before.
func (s *legacySession) subscribed(x *Exec, no int) {
	kept := s.SubWait[:0:0]
	for _, w := range s.SubWait {
		if w.No > no {
			kept = append(kept, w)
			continue
		}
		x.reply(w.Stream, jsonrpc.NewResult(rawID(w.ID), []byte("{}")))
	}
	if s.SubWait = kept; len(kept) == 0 {
		s.SubWait = nil
		x.Do(Unwake{Name: "subs"})
	}
}

// listen opens subscriptions/listen for what the session wants, while it has
// a GET stream to be told on. The one before ends once the new one is
// acknowledged, so that no change falls between.
// False: there is nothing to open.
func (s *legacySession) listen(x *Exec) bool {
	if s.Era != translate.Modern || len(s.Gets) == 0 {
		return false
	}
	if len(s.Lists)+len(s.Subs) == 0 {
		if s.Listen != "" {
			x.Do(Shut{Label: s.Listen})
			s.Listen = ""
		}
		return false
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
	return true
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
		s.subscribed(x, listenNo(ev.Label))
		return
	}
	if len(s.Gets) > 0 && ev.Label == s.Listen {
		x.Do(Send{Stream: s.Gets[0], Out: Out{Raw: translate.Unsubscribed(m)}})
	}
}

// newer compares the numbers of two listen labels.
func (s *legacySession) newer(a, b string) bool {
	return listenNo(a) > listenNo(b)
}

// listenNo is the number of a listen label; 0: it is none.
func listenNo(label string) int {
	number, ok := strings.CutPrefix(label, "listen")
	if !ok {
		return 0
	}
	n, _ := strconv.Atoi(number)
	return n
}
