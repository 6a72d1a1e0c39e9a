package main

import (
	"fmt"
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// requestLine says in few words what a request or notification is about: the
// members that differ between the eras first.
func requestLine(m *jsonrpc.Message) string {
	p := m.Params()
	parts := []string{showText(m.Method, traceColumn)}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if s := word(p, "name"); s != "" {
		add("%s", s)
	}
	if id := taskIn(p); id != "" {
		add("%s", id)
	}
	if task := p.Get("task"); task.Exists() {
		add("task{ttl %s}", orDash(task.Get("ttl")))
	}
	if v := word(p, "protocolVersion"); v != "" {
		add("%s", v)
	}
	if s := word(p, "status"); s != "" {
		add("%s", s)
	}
	if r := p.Get("inputResponses"); r.Exists() {
		add("answer %s", keys(r))
	}
	if p.Get("requestState").Exists() {
		add("requestState")
	}
	if p.Get("progress").Exists() {
		add("%s/%s", orDash(p.Get("progress")), orDash(p.Get("total")))
	}
	if related := m.At("params", "_meta", translate.MetaRelatedTask); related.Exists() {
		add("%s", taskIn(related))
	}
	if s := word(p, "message"); s != "" {
		add("%q", s)
	}
	if caps := m.At("params", "_meta", translate.MetaClientCaps, "extensions", translate.ExtTasks); caps.Exists() && m.Method == "tools/call" {
		add("+tasks")
	}
	return strings.Join(parts, " ")
}

// resultLine does so for a result.
func resultLine(r jsonrpc.Value) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	task := r
	if nested := r.Get("task"); nested.Exists() {
		add("task{")
		task = nested
	}
	if s := word(r, "resultType"); s != "" && s != "complete" {
		add("%s", s)
	}
	if id := taskIn(task); id != "" {
		add("%s %s", id, word(task, "status"))
	}
	if len(parts) > 0 && parts[0] == "task{" {
		parts = []string{"task{" + strings.Join(parts[1:], " ") + "}"}
	}
	if in := task.Get("inputRequests"); in.Exists() {
		add("asks %s", keys(in))
	}
	if r.Get("requestState").Exists() {
		add("requestState")
	}
	for _, c := range []jsonrpc.Value{r, opened(r.Get("result"))} {
		if text := firstText(c); text != "" {
			add("%q", text)
		}
	}
	for _, name := range []string{"protocolVersion", "action"} {
		if s := word(r, name); s != "" {
			add("%s", s)
		}
	}
	for v := range opened(r.Get("supportedVersions")).Elems() {
		s, _ := v.Str()
		add("%s", showText(s, 16))
	}
	if v := r.Get("tools"); v.Exists() {
		add("%d tools", v.Len())
	}
	if caps := r.Get("capabilities"); caps.Exists() {
		switch {
		case caps.Get("tasks").Exists():
			add("+tasks")
		case caps.Get("extensions").Get(translate.ExtTasks).Exists():
			add("+tasks")
		}
	}
	if len(parts) == 0 {
		return "done"
	}
	return strings.Join(parts, " ")
}

func errorLine(m *jsonrpc.Message) string {
	return "error " + orDash(m.Error().Get("code")) + " " + word(m.Error(), "message")
}

// word is a string member, fit for a terminal.
func word(v jsonrpc.Value, name string) string {
	s, _ := v.Get(name).Str()
	return showText(s, traceColumn)
}

func orDash(v jsonrpc.Value) string {
	if !v.Exists() {
		return "-"
	}
	return showText(string(v.Raw()), 16)
}

// taskIn is a task's id, short: both legs' ids of one task differ, which a few
// characters show.
func taskIn(v jsonrpc.Value) string {
	id, _ := v.Get("taskId").Str()
	if runes := []rune(id); len(runes) > 12 {
		id = string(runes[:3]) + "…" + string(runes[len(runes)-3:])
	}
	return showText(id, 48)
}

func keys(v jsonrpc.Value) string {
	var names []string
	for key := range opened(v).Members() {
		names = append(names, showText(key, 16))
	}
	return strings.Join(names, ",")
}

const maxOpened = 64 << 10

// opened is v with its members to be seen, if it is small enough.
func opened(v jsonrpc.Value) jsonrpc.Value {
	if v.Tracked() || len(v.Raw()) > maxOpened {
		return v
	}
	whole, err := v.Parse()
	if err != nil {
		return v
	}
	return whole
}

func firstText(r jsonrpc.Value) string {
	for block := range opened(r.Get("content")).Elems() {
		if s := word(block, "text"); s != "" {
			return s
		}
	}
	return ""
}
