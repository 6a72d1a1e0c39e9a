package peers

import (
	"encoding/json"
	"slices"
)

// listener is one open subscriptions/listen.
type listener struct {
	box    *outbox
	id     json.RawMessage
	filter listenFilter
}

type listenFilter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitempty"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"`
	TaskIDs               []string `json:"taskIds,omitempty"`
}

func (l *listener) push(method string, params json.RawMessage) {
	l.box.push(requestMessage(nil, method, with(params, "_meta", l.meta())))
}

func (l *listener) meta() json.RawMessage { return object(KeySubscriptionID, l.id) }

// listen serves a subscription stream until the client closes it, or ends it
// gracefully when the server closes (2026-07-28 subscriptions).
func (c *modernCall) listen() (json.RawMessage, *RPCError) {
	var p struct{ Notifications *listenFilter }
	if json.Unmarshal(c.params, &p) != nil || p.Notifications == nil {
		return nil, rpcErrorf(CodeInvalidParams, "notifications is missing")
	}
	l := &listener{box: newOutbox(), id: c.id, filter: *p.Notifications}
	if l.filter.TaskIDs != nil {
		if c.s.o.NoTasks {
			l.filter.TaskIDs = nil
		} else if !c.meta.tasks {
			return nil, missingTasks()
		}
	}
	// Only what we agree to is acknowledged.
	l.filter.TaskIDs = slices.DeleteFunc(l.filter.TaskIDs, func(id string) bool { return c.s.tasks.get(id, "") == nil })
	l.filter.ResourceSubscriptions = slices.DeleteFunc(l.filter.ResourceSubscriptions, func(uri string) bool { return uri != readmeURI })
	// The acknowledgement is queued before changes can be: it comes first.
	l.push("notifications/subscriptions/acknowledged", object("notifications", l.filter))
	c.s.lmu.Lock()
	c.s.listeners[l] = true
	c.s.lmu.Unlock()
	defer func() {
		c.s.lmu.Lock()
		delete(c.s.listeners, l)
		c.s.lmu.Unlock()
	}()
	c.out.begin()
	for {
		for _, msg := range l.box.take() {
			if c.out.send(msg) != nil {
				return nil, nil
			}
		}
		if !c.s.idle(c.ctx, c.out, l.box.wake, nil) {
			return object("resultType", "complete", "_meta", l.meta()), nil
		}
	}
}

// each runs f for the open subscriptions.
func (s *ModernServer) each(f func(*listener)) {
	s.lmu.Lock()
	defer s.lmu.Unlock()
	for l := range s.listeners {
		f(l)
	}
}

// taskChanged sends notifications/tasks with the whole task, as tasks/get would
// give it. It runs with the store's mutex held.
func (s *ModernServer) taskChanged(t *task) {
	s.each(func(l *listener) {
		if slices.Contains(l.filter.TaskIDs, t.id) {
			l.push("notifications/tasks", t.modernView(s.o.PollInterval))
		}
	})
}

// ToolsChanged sends notifications/tools/list_changed to those who listen.
func (s *ModernServer) ToolsChanged() {
	s.each(func(l *listener) {
		if l.filter.ToolsListChanged {
			l.push("notifications/tools/list_changed", object())
		}
	})
}

// ResourceUpdated sends notifications/resources/updated to those who listen.
func (s *ModernServer) ResourceUpdated(uri string) {
	s.each(func(l *listener) {
		if slices.Contains(l.filter.ResourceSubscriptions, uri) {
			l.push("notifications/resources/updated", object("uri", uri))
		}
	})
}

// Listeners returns how many subscriptions are open.
func (s *ModernServer) Listeners() int {
	s.lmu.Lock()
	defer s.lmu.Unlock()
	return len(s.listeners)
}
