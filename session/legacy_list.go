package session

import (
	"encoding/json"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// legacyList answers tasks/list from our own index: the modern era has no
// list (tasks extension, Security Considerations). Each task of the page is
// asked for its state; those whose interval is due look at their server.
type legacyList struct {
	base
	Stream string      `json:",omitempty"`
	ID     []byte      `json:",omitempty"`
	Next   string      `json:",omitempty"` // sealed cursor of the next page
	Page   []shownTask `json:",omitempty"`
	Left   int         `json:",omitempty"`
}

// shownTask is a task as its operation shows it; no Task: gone or unknown yet.
type shownTask struct {
	Handle string
	Task   []byte `json:",omitempty"` // nil stays nil in the state
}

const kindCursor = "cursor"

// listPatience bounds how long a page waits for its slowest task.
const listPatience = 10 * time.Second

func (l *legacyList) Step(x *Exec, ev Event) {
	switch ev.Kind {
	case EvClient:
		l.client(x, ev)
	case EvClientGone:
		x.Do(Done{})
	case EvTimer:
		l.finish(x)
	case EvOp:
		if l.Stream == "" {
			x.Do(Done{})
			return
		}
		l.shown(x, ev)
	}
}

func (l *legacyList) client(x *Exec, ev Event) {
	m := ev.Frame.Msg
	l.Stream, l.ID = ev.Label, json.RawMessage(m.ID.Raw())
	owner := taskPrincipal(ev.Caller)
	prefix := indexPrefix(x, owner)
	after := ""
	if cursor := m.At("params", "cursor"); cursor.Exists() {
		s, _ := cursor.Str()
		raw, ok := x.Handles().OpenFor(kindCursor, owner, s)
		if !ok {
			x.refuse(l.Stream, translate.Legacy, m.ID, translate.CondInvalidParams, "invalid cursor", nil)
			x.Do(Done{})
			return
		}
		after = prefix + string(raw)
	}
	entries := x.List(prefix, after, x.Policy.PageSize+1)
	if len(entries) > x.Policy.PageSize {
		entries = entries[:x.Policy.PageSize]
		last := entries[len(entries)-1].Key[len(prefix):]
		l.Next = x.Handles().SealFor(kindCursor, owner, []byte(last))
	}
	for _, e := range entries {
		handle := string(e.Value)
		l.Page = append(l.Page, shownTask{Handle: handle})
		x.Do(Tell{To: taskOp(handle), Name: "show"})
	}
	l.Left = len(entries)
	if l.Left == 0 {
		l.finish(x)
		return
	}
	x.Do(Wake{Name: "patience", At: x.Now.Add(listPatience)})
}

func (l *legacyList) shown(x *Exec, ev Event) {
	var s shownTask
	if ev.Name == "gone" {
		s.Handle = string(ev.Data)
	} else if json.Unmarshal(ev.Data, &s) != nil {
		return
	}
	for i := range l.Page {
		if l.Page[i].Handle == s.Handle {
			l.Page[i].Task = s.Task
		}
	}
	if l.Left--; l.Left == 0 {
		l.finish(x)
	}
}

func (l *legacyList) finish(x *Exec) {
	list := []byte{'['}
	for _, s := range l.Page {
		if len(s.Task) == 0 {
			continue
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, s.Task...)
	}
	b := jsonrpc.NewObject().Raw("tasks", append(list, ']'))
	if l.Next != "" {
		b.Str("nextCursor", l.Next)
	}
	x.reply(l.Stream, jsonrpc.NewResult(rawID(l.ID), b.Bytes()))
	x.Do(Done{})
}
