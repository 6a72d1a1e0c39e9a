package session

import (
	"encoding/json"
	"slices"
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// listenCall is a modern client's subscriptions/listen before a legacy
// server (2026-07-28 basic/patterns/subscriptions): acknowledged with what
// can be delivered, then each notice under the client's own listen id.
type listenCall struct {
	base
	Stream string   `json:",omitempty"`
	ID     []byte   `json:",omitempty"`
	Pool   OpID     `json:",omitempty"`
	Tasks  []string `json:",omitempty"`
	// Wants maps the legacy notification to whether it was asked for.
	Wants map[string]bool `json:",omitempty"`
	Acked bool            `json:",omitempty"`
	URIs  []string        `json:",omitempty"` // resources it subscribes to
	Left  []string        `json:",omitempty"` // those the server has not confirmed yet
	Asked bool            `json:",omitempty"` // the session was told of them
	Grant []string        `json:",omitempty"` // filter members of list changes that come
}

// listChanges: filter member and the notification both eras know.
var listChanges = []struct{ filter, method, capability string }{
	{"toolsListChanged", "notifications/tools/list_changed", "tools"},
	{"promptsListChanged", "notifications/prompts/list_changed", "prompts"},
	{"resourcesListChanged", "notifications/resources/list_changed", "resources"},
}

// maxListenTasks bounds the tasks one listen stream may name.
const maxListenTasks = 1000

func (l *listenCall) Step(x *Exec, ev Event) {
	if l.Stream == "" && ev.Kind != EvClient {
		x.Do(Done{}) // news for a stream that is closed
		return
	}
	switch ev.Kind {
	case EvClient:
		l.client(x, ev)
	case EvClientGone:
		l.close(x)
	case EvTimer:
		l.ack(x)
	case EvOp:
		l.told(x, ev)
	}
	if l.Stream == "" {
		x.Do(Done{})
	}
}

func (l *listenCall) client(x *Exec, ev Event) {
	m := ev.Frame.Msg
	meta := m.At("params", "_meta")
	info := rawOr(meta.Get(translate.MetaClientInfo), `{"name":"unknown","version":"0"}`)
	caps := translate.ClientCapsToLegacy(meta.Get(translate.MetaClientCaps).Raw())
	l.Stream, l.ID = ev.Label, json.RawMessage(m.ID.Raw())
	l.Pool = poolOf(x, ev.Caller, info, caps, ev.Label)
	filter := m.At("params", "notifications")
	l.Wants = map[string]bool{}
	for _, c := range listChanges {
		if string(filter.Get(c.filter).Raw()) == "true" {
			l.Wants[c.method] = true
		}
	}
	for uri := range filter.Get("resourceSubscriptions").Elems() {
		if s, _ := uri.Str(); s != "" && len(l.URIs) < maxSubscriptions && !slices.Contains(l.URIs, s) {
			l.URIs = append(l.URIs, s)
		}
	}
	for id := range filter.Get("taskIds").Elems() {
		handle, _ := id.Str()
		if _, ok := x.r.openTask(handle, taskPrincipal(ev.Caller)); ok && len(l.Tasks) < maxListenTasks {
			l.Tasks = append(l.Tasks, handle)
		}
	}
	x.Do(Tell{To: l.Pool, Name: "need", Data: mustJSON(poolNeed{ev.Caller.Principal, info, caps, ev.Caller.Open, x.r.limitKey(ev.Caller)})})
}

func (l *listenCall) told(x *Exec, ev Event) {
	switch ev.Name {
	case "ready":
		l.ready(x, ev)
	case "subscribed":
		l.confirmed(x, ev)
	case "notice":
		m, err := jsonrpc.Decode(ev.Data, jsonrpc.Limits{})
		if err == nil && l.Acked && (l.Wants[m.Method] || l.subscribed(m)) {
			params := []byte("{}")
			if m.Params().Exists() {
				params = m.Params().Raw()
			}
			l.notify(x, m.Method, params)
		}
	case "task":
		if l.Acked {
			l.notify(x, "notifications/tasks", ev.Data)
		}
	}
}

func (l *listenCall) ready(x *Exec, ev Event) {
	if l.Acked || l.Asked {
		return
	}
	var r poolReady
	if json.Unmarshal(ev.Data, &r) != nil {
		return
	}
	if r.Version == "" {
		out := refusal(translate.Modern, rawID(l.ID), translate.CondUpstreamDown, "", nil)
		if r.Out != nil {
			out.Status = r.Out.Status
		}
		x.Do(Send{Stream: l.Stream, Out: out}, Done{})
		return
	}
	pool := new(poolSession)
	x.r.load(l.Pool, pool)
	caps := translate.ParseResult(pool.Init).Get("capabilities")
	for _, c := range listChanges {
		if l.Wants[c.method] && string(caps.Get(c.capability).Get("listChanged").Raw()) == "true" {
			l.Grant = append(l.Grant, c.filter)
		} else if l.Wants[c.method] {
			delete(l.Wants, c.method)
			x.Do(Loss{What: string(translate.LossListFilter)})
		}
	}
	x.Do(Tell{To: l.Pool, Name: "listen"})
	if len(l.URIs) > 0 && string(caps.Get("resources").Get("subscribe").Raw()) == "true" {
		// What is acknowledged comes from then on, so the server confirms first.
		l.Asked, l.Left = true, slices.Clone(l.URIs)
		x.Do(Tell{To: l.Pool, Name: "subscribe", Data: mustJSON(l.URIs)}, Wake{Name: "ack", At: x.Now.Add(subscribePatience)})
		return
	}
	if len(l.URIs) > 0 {
		l.URIs = nil
		x.Do(Loss{What: string(translate.LossListFilter)})
	}
	l.ack(x)
}

// confirmed: the server's word on one resource.
func (l *listenCall) confirmed(x *Exec, ev Event) {
	var s poolSubscribed
	if json.Unmarshal(ev.Data, &s) != nil || !slices.Contains(l.Left, s.URI) {
		return
	}
	l.Left = slices.DeleteFunc(l.Left, func(uri string) bool { return uri == s.URI })
	if !s.OK {
		l.URIs = slices.DeleteFunc(l.URIs, func(uri string) bool { return uri == s.URI })
		x.Do(Loss{What: string(translate.LossListFilter)})
	}
	if len(l.Left) == 0 {
		x.Do(Unwake{Name: "ack"})
		l.ack(x)
	}
}

// acknowledgement are the params of a listen's first message: what will come
// (2026-07-28 basic/patterns/subscriptions).
func acknowledgement(lists, uris, tasks []string) []byte {
	granted := jsonrpc.NewObject()
	for _, member := range lists {
		granted.Raw(member, []byte("true"))
	}
	if len(uris) > 0 {
		granted.Raw("resourceSubscriptions", mustJSON(uris))
	}
	if len(tasks) > 0 {
		granted.Raw("taskIds", mustJSON(tasks))
	}
	return jsonrpc.NewObject().Raw("notifications", granted.Bytes()).Bytes()
}

// ack is the first message: what will come.
func (l *listenCall) ack(x *Exec) {
	if l.Acked {
		return
	}
	l.Acked = true
	l.notify(x, "notifications/subscriptions/acknowledged", acknowledgement(l.Grant, l.URIs, l.Tasks))
	for _, handle := range l.Tasks {
		x.Do(Tell{To: OpID("mtask:" + handle), Name: "watch"})
	}
}

// notify sends one notification under the client's listen id.
func (l *listenCall) notify(x *Exec, method string, params []byte) {
	x.Do(Send{Stream: l.Stream, Out: Out{Raw: translate.Subscribed(method, params, rawID(l.ID))}})
}

// subscribed: an update of a resource this stream asked for, or of one below
// it (2025-11-25 server/resources, Subscriptions).
func (l *listenCall) subscribed(m *jsonrpc.Message) bool {
	if m.Method != "notifications/resources/updated" {
		return false
	}
	uri, _ := m.At("params", "uri").Str()
	return slices.ContainsFunc(l.URIs, func(u string) bool {
		return uri == u || strings.HasPrefix(uri, strings.TrimSuffix(u, "/")+"/")
	})
}

func (l *listenCall) close(x *Exec) {
	if len(l.URIs) > 0 && l.Asked {
		x.Do(Tell{To: l.Pool, Name: "unsubscribe", Data: mustJSON(l.URIs)})
	}
	x.Do(Tell{To: l.Pool, Name: "unlisten"})
	for _, handle := range l.Tasks {
		x.Do(Tell{To: OpID("mtask:" + handle), Name: "unwatch"})
	}
	x.Do(Done{})
}
