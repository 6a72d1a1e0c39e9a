package session

import (
	"slices"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// A legacy server may refuse a call until its user has been at a URL (-32042,
// 2025-11-25 client/elicitation, URL Elicitation Required Error). The modern
// era has no such error (2026-07-28 basic/index, Error Codes): its client is
// asked by input_required, and the retry sends the call again. Such a call has
// not run, so it may be.

// urlWait is what a call remembers of the URLs its server wants visited.
type urlWait struct {
	URLs []urlAsk `json:",omitempty"`
	// Held: the server has refused the call and it was not sent again yet.
	// Back: the client has agreed and waits; the next thing is to send.
	Held   bool `json:",omitempty"`
	Back   bool `json:",omitempty"`
	Rounds int  `json:",omitempty"`
}

// urlAsk is one URL, asked once in a call's life.
type urlAsk struct {
	Key, URL, ID string // ID: elicitationId
	Entry        []byte `json:",omitempty"` // until the client has agreed
	Agreed       bool   `json:",omitempty"`
	Done         bool   `json:",omitempty"` // notifications/elicitation/complete came
}

func elicitationKey(pool OpID, id string) string { return "elic/" + string(pool) + "/" + id }

// wantsURLs: the server's error is -32042 and the client is asked, or told what
// it would have to declare. False: the error has to be told as it is.
func (c *modernCall) wantsURLs(x *Exec, m *jsonrpc.Message) bool {
	list := m.Error().Get("data").Get("elicitations")
	if !translate.CanRequireInput(c.Method) || c.Gone || list.Len() == 0 || list.Len() > maxQuestions {
		return false
	}
	if caps, _ := jsonrpc.ParseValue(c.Caps); !caps.Get("elicitation").Get("url").Exists() {
		text, _ := m.Error().Get("message").Str()
		data := []byte(`{"requiredCapabilities":{"elicitation":{"url":{}}}}`)
		c.finish(x, refusal(translate.Modern, rawID(c.ID), translate.CondMissingCapability, text, data))
		return true
	}
	if !c.kept(slotRequest) || !c.addURLs(x, list) {
		return false
	}
	if c.URL.Rounds++; c.URL.Rounds > maxRounds {
		c.finish(x, refusal(translate.Modern, rawID(c.ID), translate.CondInternal, "the server asked for input too many times", nil))
		return true
	}
	if c.Fly != "" { // nothing is in flight
		x.Do(Del{Key: c.Fly})
		c.Fly = ""
	}
	c.URL.Held = true
	c.askURLs(x)
	return true
}

// addURLs takes new URLs in; it is false for a list that is none.
func (c *modernCall) addURLs(x *Exec, list jsonrpc.Value) bool {
	for e := range list.Elems() {
		e, err := e.Parse()
		url, ok := e.Get("url").Str()
		if err != nil || !ok || url == "" || !e.Get("mode").Is("url") {
			return false
		}
		if slices.ContainsFunc(c.URL.URLs, func(u urlAsk) bool { return u.URL == url }) || len(c.URL.URLs) >= maxQuestions {
			continue // the same is not asked twice
		}
		if !x.Grow(string(x.ID)+"/ask", c.Park.bytes()+c.URL.bytes()+int64(len(e.Raw()))) {
			return false
		}
		id, _ := e.Get("elicitationId").Str()
		c.Park.Keys++
		c.URL.URLs = append(c.URL.URLs, urlAsk{Key: "q" + string(intRaw(int64(c.Park.Keys))), URL: url, ID: id,
			Entry: translate.QuestionToModern("elicitation/create", e)})
		if id != "" {
			x.Do(Put{Key: elicitationKey(c.Pool, id), Value: []byte(x.ID)})
		}
	}
	return true
}

func (u *urlWait) bytes() int64 {
	n := int64(0)
	for _, a := range u.URLs {
		n += int64(len(a.Entry))
	}
	return n
}

// askURLs parks the call with what the client has not agreed to. If it has
// agreed to all and the server still refuses, the state alone brings it back
// (2026-07-28 basic/patterns/mrtr, Server Requirements).
func (c *modernCall) askURLs(x *Exec) {
	c.Parked, c.URL.Back = true, false
	state := c.Park.sealed(x, c.Owner)
	var keys []string
	var entries [][]byte
	for _, u := range c.URL.URLs {
		if !u.Agreed {
			keys, entries = append(keys, u.Key), append(entries, u.Entry)
		}
	}
	x.reply(c.Stream, jsonrpc.NewResult(rawID(c.ID), translate.InputRequiredResult(keys, entries, state, c.Ready.ServerInfo)))
}

// resumeURLs: the client is back. Whoever declines ends the call.
func (c *modernCall) resumeURLs(x *Exec, m *jsonrpc.Message) {
	for key, answer := range m.At("params", "inputResponses").Members() {
		for i := range c.URL.URLs {
			u := &c.URL.URLs[i]
			if u.Key != key || u.Agreed || answer.Type() != jsonrpc.Object {
				continue
			}
			if action := answer.Get("action"); !action.Is("accept") {
				text := "the user did not agree to visit the URL the server needs"
				c.finish(x, refusal(translate.Modern, m.ID, translate.CondInternal, text, []byte(`{"reason":"url_elicitation_declined"}`)))
				return
			}
			u.Agreed, u.Entry = true, nil
		}
	}
	if slices.ContainsFunc(c.URL.URLs, func(u urlAsk) bool { return !u.Agreed }) {
		c.askURLs(x)
		return
	}
	c.URL.Back = true
	x.Do(Wake{Name: "url", At: x.Now.Add(x.Policy.URLWait)})
	c.sendVisited(x, false)
}

// completed: the server says that the user is done at one of the URLs. Servers
// need not say so, hence the timer.
func (c *modernCall) completed(x *Exec, id string) {
	for i := range c.URL.URLs {
		if u := &c.URL.URLs[i]; u.ID == id {
			u.Done = true
		}
	}
	c.sendVisited(x, false)
}

// sendVisited sends the call again once the user is done everywhere, or when
// the time to wait for that is over.
func (c *modernCall) sendVisited(x *Exec, over bool) {
	undone := slices.ContainsFunc(c.URL.URLs, func(u urlAsk) bool { return !u.Done })
	if !c.URL.Held || !c.URL.Back || undone && !over {
		return
	}
	c.URL.Held, c.URL.Back = false, false
	c.raw, c.msg = x.Kept(slotRequest), nil
	x.Do(Unwake{Name: "url"})
	c.send(x)
}

// landURLs drops what the URLs of a call leave in the store.
func (c *modernCall) landURLs(x *Exec) {
	for _, u := range c.URL.URLs {
		if u.ID != "" {
			x.Do(Del{Key: elicitationKey(c.Pool, u.ID)})
		}
	}
}
