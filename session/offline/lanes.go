package offline

import (
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
)

// lanes sorts records into conversations that have nothing to do with each
// other: records of one session, connection, HTTP exchange, modern client or
// task belong together, and so does all that any of them belongs to.
type lanes struct {
	ids    map[string]int32 // what records have in common, by its name
	parent []int32
}

func newLanes() *lanes { return &lanes{ids: map[string]int32{}} }

// add gives the group of a record; which groups are one is known at the end.
func (l *lanes) add(r *capture.Record) int32 {
	group := int32(-1)
	join := func(kind, name string) {
		if name == "" {
			return
		}
		id, known := l.ids[kind+name]
		if !known {
			id = int32(len(l.parent))
			l.parent = append(l.parent, id)
			l.ids[kind+name] = id
		}
		if group < 0 {
			group = id
		} else {
			l.union(group, id)
		}
	}
	join("session ", r.Session)
	join("conn ", r.Conn)
	if r.Stream != "" {
		join("stream ", r.Conn+" "+r.Stream)
	}
	if m, err := jsonrpc.Decode(r.Msg, jsonrpc.Limits{}); err == nil {
		if v := m.At("params", "_meta", translate.MetaVersion); v.Exists() && r.Session == "" && r.Conn == "" {
			name, _ := m.At("params", "_meta", translate.MetaClientInfo, "name").Str()
			join("client ", r.Principal+" "+name)
		}
		for _, task := range tasksOf(m) {
			join("task ", r.Principal+" "+task)
		}
	}
	if group < 0 {
		join("principal ", r.Principal+" ")
	}
	return group
}

// tasksOf are the tasks a message names, whatever it answers.
func tasksOf(m *jsonrpc.Message) (ids []string) {
	add := func(v jsonrpc.Value) {
		if id, ok := v.Str(); ok {
			ids = append(ids, id)
		}
	}
	for _, v := range []jsonrpc.Value{m.Params(), m.Result()} {
		if !v.Exists() {
			continue
		}
		add(v.Get("taskId"))
		add(v.Get("task").Get("taskId"))
		add(v.Get("_meta").Get(translate.MetaRelatedTask).Get("taskId"))
		for t := range v.Get("tasks").Elems() {
			add(t.Get("taskId"))
		}
	}
	return ids
}

func (l *lanes) find(id int32) int32 {
	for l.parent[id] != id {
		l.parent[id] = l.parent[l.parent[id]]
		id = l.parent[id]
	}
	return id
}

func (l *lanes) union(a, b int32) {
	a, b = l.find(a), l.find(b)
	l.parent[max(a, b)] = min(a, b)
}
