package translate

import "taskbridge/translate/jsonrpc"

// The _meta keys the protocol owns (2026-07-28 basic/index, _meta; 2025-11-25
// basic/utilities/tasks, Related Task Metadata).
const (
	MetaVersion      = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo   = "io.modelcontextprotocol/clientInfo"
	MetaClientCaps   = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel     = "io.modelcontextprotocol/logLevel"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
	MetaServerInfo   = "io.modelcontextprotocol/serverInfo"
	MetaRelatedTask  = "io.modelcontextprotocol/related-task"
	MetaProgress     = "progressToken"

	// ExtTasks is the identifier of the tasks extension.
	ExtTasks = "io.modelcontextprotocol/tasks"
)

// requestMeta are the keys that exist on modern requests only: written
// toward modern servers, taken out toward legacy ones.
var requestMeta = []string{MetaVersion, MetaClientInfo, MetaClientCaps, MetaLogLevel}

// WithTrace writes a trace context into a message's params._meta, in place of
// one that is there (SEP-414: traceparent and tracestate, without a prefix). A
// _meta that is no object is left as it is.
func WithTrace(m *jsonrpc.Message, parent, state string) []byte {
	context := jsonrpc.NewObject().Str("traceparent", parent)
	if state != "" {
		context.Str("tracestate", state)
	}
	e := m.Edit()
	params := m.Params()
	meta := params.Get("_meta")
	switch {
	case !params.Exists():
		e.Insert(m.At(), "params", jsonrpc.NewObject().Raw("_meta", context.Bytes()).Bytes())
	case !meta.Exists():
		e.Insert(params, "_meta", context.Bytes())
	case meta.Type() == jsonrpc.Object:
		e.Set(meta, "traceparent", jsonrpc.Quote(parent))
		if state == "" {
			e.Delete(meta.Get("tracestate"))
		} else {
			e.Set(meta, "tracestate", jsonrpc.Quote(state))
		}
	}
	return e.Bytes()
}

// member is a key with its raw JSON value.
type member struct {
	key string
	raw []byte
}

// editMeta changes obj's _meta: removes del, writes set, and takes _meta out
// when nothing is left of it. Keys under other names stay as they are.
func editMeta(e *jsonrpc.Edit, obj jsonrpc.Value, del []string, set ...member) {
	meta := obj.Get("_meta")
	if meta.Type() != jsonrpc.Object {
		if len(set) == 0 {
			return
		}
		b := jsonrpc.NewObject()
		for _, m := range set {
			b.Raw(m.key, m.raw)
		}
		if meta.Exists() {
			e.Replace(meta, b.Bytes())
		} else {
			e.Insert(obj, "_meta", b.Bytes())
		}
		return
	}
	if meta.Tracked() {
		if changeMeta(e, meta, del, set) {
			e.Delete(meta)
		}
		return
	}
	// Not one of the objects the decoder recorded (an entry's of
	// inputResponses): changed as a fragment, or the keys would be missed.
	open, err := meta.Parse()
	if err != nil {
		// A repeated member: none of the two can be trusted.
		open, _ = jsonrpc.ParseValue([]byte("{}"))
	}
	fragment := open.Edit()
	if changeMeta(fragment, open, del, set) {
		e.Delete(meta)
		return
	}
	e.Replace(meta, fragment.Bytes())
}

// changeMeta says whether it emptied meta; one that was empty stays.
func changeMeta(e *jsonrpc.Edit, meta jsonrpc.Value, del []string, set []member) (emptied bool) {
	left := meta.Len()
	emptied = left > 0 && len(set) == 0
	for _, key := range del {
		if v := meta.Get(key); v.Exists() && !sets(set, key) {
			e.Delete(v)
			left--
		}
	}
	for _, m := range set {
		if v := meta.Get(m.key); v.Exists() {
			e.Replace(v, m.raw)
		} else {
			e.Insert(meta, m.key, m.raw)
		}
	}
	return emptied && left == 0
}

func sets(set []member, key string) bool {
	for _, m := range set {
		if m.key == key {
			return true
		}
	}
	return false
}

// relatedTask is the value of MetaRelatedTask.
func relatedTask(taskID string) []byte {
	return jsonrpc.NewObject().Str("taskId", taskID).Bytes()
}

// Subscribed makes a notification of a listen stream: params with the id of
// the listen request in _meta (2026-07-28 basic/patterns/subscriptions).
func Subscribed(method string, params []byte, listen jsonrpc.ID) []byte {
	m, err := jsonrpc.Decode(jsonrpc.NewNotification(method, params), jsonrpc.Limits{})
	if err != nil {
		return jsonrpc.NewNotification(method, nil)
	}
	e := m.Edit()
	editMeta(e, m.Params(), nil, member{MetaSubscription, listen.Raw()})
	return e.Bytes()
}

// Unsubscribed is the inverse: the notification without the listen id.
func Unsubscribed(m *jsonrpc.Message) []byte {
	e := m.Edit()
	editMeta(e, m.Params(), []string{MetaSubscription})
	return e.Bytes()
}
