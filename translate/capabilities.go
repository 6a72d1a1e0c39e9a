package translate

import "taskbridge/translate/jsonrpc"

// InitializeOptions is what a legacy client is offered besides what the
// modern server said.
type InitializeOptions struct {
	Version  string // negotiated legacy revision
	TaskList bool   // tasks/list may be offered (callers can be told apart)
	Fallback string // server name when the server gave none
}

// InitializeResult makes the result of initialize from a discover result
// (2025-11-25 basic/lifecycle; 2026-07-28 server/discover). Members neither
// era owns stay as the server wrote them.
func InitializeResult(discover jsonrpc.Value, o InitializeOptions) []byte {
	e := discover.Edit()
	for _, key := range []string{"resultType", "supportedVersions", "ttlMs", "cacheScope", "protocolVersion"} {
		if v := discover.Get(key); v.Exists() {
			e.Delete(v)
		}
	}
	e.Insert(discover, "protocolVersion", jsonrpc.Quote(o.Version))
	info := discover.Get("serverInfo")
	if info.Type() != jsonrpc.Object {
		if info.Exists() {
			e.Delete(info)
		}
		raw := jsonrpc.NewObject().Str("name", o.Fallback).Str("version", "0").Bytes()
		if v := discover.Get("_meta").Get(MetaServerInfo); v.Type() == jsonrpc.Object {
			raw = v.Raw()
		}
		e.Insert(discover, "serverInfo", raw)
	}
	editMeta(e, discover, []string{MetaServerInfo})
	caps := discover.Get("capabilities")
	if caps.Type() != jsonrpc.Object {
		if caps.Exists() {
			e.Delete(caps)
		}
		e.Insert(discover, "capabilities", []byte("{}"))
		return e.Bytes()
	}
	serverCapsToLegacy(e, caps, o)
	return e.Bytes()
}

func serverCapsToLegacy(e *jsonrpc.Edit, caps jsonrpc.Value, o InitializeOptions) {
	ext := caps.Get("extensions")
	tasks := ext.Get(ExtTasks)
	if tasks.Exists() {
		if ext.Len() == 1 {
			e.Delete(ext)
		} else {
			e.Delete(tasks)
		}
	}
	if old := caps.Get("tasks"); old.Exists() {
		e.Delete(old)
	}
	f, _ := Lookup(o.Version)
	if f.Version == V20241105 {
		// completions was added in 2025-03-26.
		if v := caps.Get("completions"); v.Exists() {
			e.Delete(v)
		}
	}
	if f.Tasks && tasks.Exists() && caps.Get("tools").Exists() {
		b := jsonrpc.NewObject()
		if o.TaskList {
			b.Raw("list", []byte("{}"))
		}
		b.Raw("cancel", []byte("{}")).Raw("requests", []byte(`{"tools":{"call":{}}}`))
		e.Insert(caps, "tasks", b.Bytes())
	}
}

// DiscoverResult makes the result of server/discover from a legacy
// initialize result: versions are ours, capabilities.tasks becomes the
// extension when the server takes tools/call as a task.
func DiscoverResult(initialize jsonrpc.Value) []byte {
	e := initialize.Edit()
	for _, key := range []string{"protocolVersion", "serverInfo", "resultType", "ttlMs", "cacheScope", "supportedVersions"} {
		if v := initialize.Get(key); v.Exists() {
			e.Delete(v)
		}
	}
	e.Insert(initialize, "resultType", []byte(`"complete"`))
	e.Insert(initialize, "supportedVersions", modernVersions())
	e.Insert(initialize, "ttlMs", []byte("0"))
	e.Insert(initialize, "cacheScope", []byte(`"private"`))
	if info := initialize.Get("serverInfo"); info.Type() == jsonrpc.Object {
		editMeta(e, initialize, nil, member{MetaServerInfo, info.Raw()})
	}
	caps := initialize.Get("capabilities")
	if caps.Type() != jsonrpc.Object {
		if caps.Exists() {
			e.Delete(caps)
		}
		e.Insert(initialize, "capabilities", []byte("{}"))
		return e.Bytes()
	}
	ext := caps.Get("extensions")
	if tasks := caps.Get("tasks"); tasks.Exists() {
		e.Delete(tasks)
	}
	if !LegacyTakesTasks(caps) {
		if v := ext.Get(ExtTasks); v.Exists() {
			e.Delete(v)
		}
		return e.Bytes()
	}
	switch {
	case ext.Type() != jsonrpc.Object:
		if ext.Exists() {
			e.Delete(ext)
		}
		e.Insert(caps, "extensions", []byte(`{"`+ExtTasks+`":{}}`))
	case !ext.Get(ExtTasks).Exists():
		e.Insert(ext, ExtTasks, []byte("{}"))
	}
	return e.Bytes()
}

// LegacyTakesTasks: capabilities.tasks.requests.tools.call is declared
// (2025-11-25 tasks, Tool-Level Negotiation).
func LegacyTakesTasks(caps jsonrpc.Value) bool {
	return caps.Get("tasks").Get("requests").Get("tools").Get("call").Exists()
}

// ModernTakesTasks: the server declares the tasks extension.
func ModernTakesTasks(caps jsonrpc.Value) bool {
	return caps.Get("extensions").Get(ExtTasks).Exists()
}

// ClientCapsToModern turns the capabilities of a legacy initialize into those
// of a modern request: client-hosted tasks never cross eras, roots.listChanged
// is gone, and the tasks extension is declared where withTasks says so.
func ClientCapsToModern(raw []byte, withTasks bool) []byte {
	caps, err := jsonrpc.ParseValue(raw)
	if err != nil || caps.Type() != jsonrpc.Object {
		caps, _ = jsonrpc.ParseValue([]byte("{}"))
	}
	e := caps.Edit()
	if v := caps.Get("tasks"); v.Exists() {
		e.Delete(v)
	}
	if v := caps.Get("roots").Get("listChanged"); v.Exists() {
		e.Delete(v)
	}
	ext := caps.Get("extensions")
	own := ext.Get(ExtTasks)
	switch {
	case withTasks && ext.Type() != jsonrpc.Object:
		if ext.Exists() {
			e.Delete(ext)
		}
		e.Insert(caps, "extensions", []byte(`{"`+ExtTasks+`":{}}`))
	case withTasks && !own.Exists():
		e.Insert(ext, ExtTasks, []byte("{}"))
	case !withTasks && own.Exists():
		e.Delete(own)
	}
	return e.Bytes()
}

// ClientCapsToLegacy turns the capabilities of a modern request into those
// of an initialize: extensions pass but the tasks extension.
func ClientCapsToLegacy(raw []byte) []byte {
	caps, err := jsonrpc.ParseValue(raw)
	if err != nil || caps.Type() != jsonrpc.Object {
		return []byte("{}")
	}
	e := caps.Edit()
	for _, v := range []jsonrpc.Value{caps.Get("tasks"), caps.Get("roots").Get("listChanged")} {
		if v.Exists() {
			e.Delete(v)
		}
	}
	if ext := caps.Get("extensions"); ext.Get(ExtTasks).Exists() {
		if ext.Len() == 1 {
			e.Delete(ext)
		} else {
			e.Delete(ext.Get(ExtTasks))
		}
	}
	return e.Bytes()
}

// ClientCan says whether capabilities (legacy or modern) declare what a
// server's request needs: elicitation form or url, sampling (with tools),
// roots. A missing elicitation mode means form, and an empty elicitation
// object declares form (2025-11-25 client/elicitation, Capabilities).
func ClientCan(caps jsonrpc.Value, method string, params jsonrpc.Value) bool {
	switch method {
	case "elicitation/create":
		el := caps.Get("elicitation")
		if !el.Exists() {
			return false
		}
		if mode, _ := params.Get("mode").Str(); mode == "url" {
			return el.Get("url").Exists()
		}
		return el.Len() == 0 || el.Get("form").Exists() || !el.Get("url").Exists()
	case "sampling/createMessage":
		s := caps.Get("sampling")
		if params.Get("tools").Exists() || params.Get("toolChoice").Exists() {
			return s.Get("tools").Exists()
		}
		return s.Exists()
	case "roots/list":
		return caps.Get("roots").Exists()
	}
	return false
}
