package translate

import (
	"strconv"

	"taskbridge/translate/jsonrpc"
)

// ResultToLegacy turns a modern server's answer to method into a legacy one.
// What only modern results have leaves (a widely used client refuses any
// extra member in an empty result); lost says what a legacy client will not
// see. tasks: the session negotiated tasks, so tools say they take them.
func ResultToLegacy(method string, m *jsonrpc.Message, tasks bool) (raw []byte, lost []Loss) {
	if m.Kind == jsonrpc.ErrorResponse {
		return errorToLegacy(method, m), nil
	}
	result := m.Result()
	e := m.Edit()
	if v := result.Get("resultType"); v.Exists() {
		e.Delete(v)
	}
	editMeta(e, result, []string{MetaServerInfo})
	switch method {
	case "tools/list":
		lost = toolsToLegacy(e, result.Get("tools"), tasks)
	case "tools/call":
		lost = callResultToLegacy(e, result)
	}
	if cacheable[method] && cacheToLegacy(e, result) {
		lost = append(lost, LossCacheHints)
	}
	return e.Bytes(), lost
}

// cacheToLegacy removes the cache hints and says whether they allowed anything:
// 0 and private are what no hint means.
func cacheToLegacy(e *jsonrpc.Edit, result jsonrpc.Value) (lost bool) {
	ttl, scope := result.Get("ttlMs"), result.Get("cacheScope")
	n, _ := Milliseconds(ttl)
	for _, v := range []jsonrpc.Value{ttl, scope} {
		if v.Exists() {
			e.Delete(v)
		}
	}
	return n > 0 || scope.Is("public")
}

// ShowsTaskSupport: a legacy tools/list result in which a tool says that it
// runs as a task, which modern lists have no word for.
func ShowsTaskSupport(m *jsonrpc.Message) bool {
	for tool := range m.Result().Get("tools").Elems() {
		if s := TaskSupport(tool); s == "required" || s == "optional" {
			return true
		}
	}
	return false
}

// toolsToLegacy: a tool called on a server with the tasks extension may
// become a task or not, which legacy calls "optional" (2025-11-25 tasks,
// Tool-Level Negotiation).
func toolsToLegacy(e *jsonrpc.Edit, tools jsonrpc.Value, tasks bool) (lost []Loss) {
	for tool := range tools.Elems() {
		if tool.Type() != jsonrpc.Object {
			continue
		}
		execution := tool.Get("execution")
		if support := execution.Get("taskSupport"); support.Exists() {
			if execution.Len() == 1 {
				e.Delete(execution)
				execution = jsonrpc.Value{}
			} else {
				e.Delete(support)
			}
		}
		if tasks {
			if execution.Type() == jsonrpc.Object {
				e.Insert(execution, "taskSupport", []byte(`"optional"`))
			} else {
				deleteMember(e, tool, "execution")
				e.Insert(tool, "execution", []byte(`{"taskSupport":"optional"}`))
			}
		}
		if schema := tool.Get("outputSchema"); schema.Exists() && !objectSchema(schema) {
			e.Delete(schema)
			lost = append(lost, LossOutputSchema)
		}
	}
	return lost
}

// objectSchema: legacy revisions allow only schemas whose root says object.
func objectSchema(schema jsonrpc.Value) bool {
	v, err := schema.Parse()
	if err != nil || v.Type() != jsonrpc.Object {
		return false
	}
	t, _ := v.Get("type").Str()
	return t == "object"
}

// callResultToLegacy removes structuredContent that is no object, which
// legacy revisions do not know, and says it as text if nothing else is there.
func callResultToLegacy(e *jsonrpc.Edit, result jsonrpc.Value) []Loss {
	sc := result.Get("structuredContent")
	if !sc.Exists() || sc.Type() == jsonrpc.Object {
		return nil
	}
	e.Delete(sc)
	text := jsonrpc.NewObject().Str("type", "text").Str("text", string(sc.Raw())).Bytes()
	block := append(append([]byte{'['}, text...), ']')
	content := result.Get("content")
	switch v, err := content.Parse(); {
	case !content.Exists():
		e.Insert(result, "content", block)
	case err == nil && v.Type() == jsonrpc.Array && v.Len() == 0:
		e.Replace(content, block)
	}
	return []Loss{LossStructured}
}

// errorToLegacy: 2026-07-28 moved "resource not found" from -32002 to -32602
// (changelog, Minor changes 6). Only where data.uri says that it is this.
func errorToLegacy(method string, m *jsonrpc.Message) []byte {
	code := m.Error().Get("code")
	if n, ok := code.Int(); ok && n == -32602 && method == "resources/read" && m.Error().Get("data").Get("uri").Exists() {
		e := m.Edit()
		e.Replace(code, []byte("-32002"))
		return e.Bytes()
	}
	return m.Raw
}

// retiredCodes must not be emitted in the modern era (2026-07-28 basic/index,
// Error Codes): what stands in their place.
var retiredCodes = map[int64]string{
	-32002: "-32602", // resource not found
	-32042: "-32603", // URL elicitation: asked by input_required, or not at all
}

func retireCode(e *jsonrpc.Edit, rpcError jsonrpc.Value) {
	code := rpcError.Get("code")
	if n, ok := code.Int(); ok && retiredCodes[n] != "" {
		e.Replace(code, []byte(retiredCodes[n]))
	}
}

// ErrorToModern turns a legacy server's error object, as a task or a driven
// call carries it, into a modern one.
func ErrorToModern(rpcError []byte) []byte {
	v := ParseResult(rpcError)
	if !v.Exists() {
		return rpcError
	}
	e := v.Edit()
	retireCode(e, v)
	return e.Bytes()
}

// ResultToModern turns a legacy server's answer to method into a modern one:
// resultType on all, cache hints where the schema wants them (2026-07-28
// server/utilities/caching), serverInfo in _meta (basic/index, Per-response
// protocol fields).
// id, if given, takes the place of the message's own.
func ResultToModern(method string, m *jsonrpc.Message, id, serverInfo []byte) []byte {
	e := m.Edit()
	if len(id) > 0 {
		setMember(e, m.Root(), "id", id)
	}
	if m.Kind == jsonrpc.ErrorResponse {
		retireCode(e, m.Error())
		return e.Bytes()
	}
	result := m.Result()
	setMember(e, result, "resultType", []byte(`"complete"`))
	if cacheable[method] {
		fillCacheHints(e, result)
	}
	var set []member
	if len(serverInfo) > 0 {
		set = append(set, member{MetaServerInfo, serverInfo})
	}
	editMeta(e, result, []string{MetaRelatedTask}, set...)
	if method == "tools/list" {
		for tool := range result.Get("tools").Elems() {
			execution := tool.Get("execution")
			support := execution.Get("taskSupport")
			switch {
			case !support.Exists():
			case execution.Len() == 1:
				e.Delete(execution)
			default:
				e.Delete(support)
			}
		}
	}
	return e.Bytes()
}

func fillCacheHints(e *jsonrpc.Edit, result jsonrpc.Value) {
	ttl := result.Get("ttlMs")
	if n, ok := ttl.Int(); !ok || n < 0 {
		n, _ = Milliseconds(ttl)
		setMember(e, result, "ttlMs", strconv.AppendInt(nil, n, 10))
	}
	if s, _ := result.Get("cacheScope").Str(); s != "public" && s != "private" {
		setMember(e, result, "cacheScope", []byte(`"private"`))
	}
}

// setMember replaces or appends one member of an object.
func setMember(e *jsonrpc.Edit, obj jsonrpc.Value, key string, raw []byte) {
	if v := obj.Get(key); v.Exists() {
		e.Replace(v, raw)
	} else {
		e.Insert(obj, key, raw)
	}
}

// KnownTaskSupport: one of the three words (2025-11-25 tasks, Tool-Level
// Negotiation).
func KnownTaskSupport(s string) bool {
	return s == "required" || s == "optional" || s == "forbidden"
}

// TaskSupport reads execution.taskSupport of one tool of a legacy tools/list.
func TaskSupport(tool jsonrpc.Value) string {
	s, _ := tool.Get("execution").Get("taskSupport").Str()
	return s
}
