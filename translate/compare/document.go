package compare

import (
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// document reads an operation into what is compared.
func document(op *operation.Operation, cross bool, ignore []Ignore) *node {
	doc := object(
		"outcome", str(string(op.Outcome)),
		"result", parse(op.Result),
		"error", parse(errorOf(op, cross)),
		"questions", questionsOf(op),
		"notices", noticesOf(op),
	)
	if op.Kind == operation.Open {
		handshake(doc.get("result"))
	}
	dropAll(doc, op.Method, cross)
	hideIDs(doc, op)
	if cross {
		acrossEras(doc, op)
	}
	for _, i := range ignore {
		i.apply(doc)
	}
	return doc
}

// errorOf gives a legacy server's error the number a modern one has.
func errorOf(op *operation.Operation, cross bool) []byte {
	if op.Error == nil || !cross {
		return op.Error
	}
	if op.Era == translate.Legacy {
		return translate.ErrorToModern(op.Error)
	}
	m, err := jsonrpc.Decode([]byte(`{"jsonrpc":"2.0","id":0,"error":`+string(op.Error)+`}`), jsonrpc.Limits{})
	if err != nil {
		return op.Error
	}
	return translate.ErrorFromServer(m, op.Version).Error().Raw()
}

func questionsOf(op *operation.Operation) *node {
	list := array()
	for _, q := range op.Questions {
		list.kids = append(list.kids, object("method", str(q.Method), "params", parse(q.Params), "answer", parse(q.Answer), "error", parse(q.Error)))
	}
	return list
}

// noticesOf are a server's notifications. Those about a task's status are left
// out of the document: how many there are depends on the clock.
func noticesOf(op *operation.Operation) *node {
	list := array()
	for _, p := range op.Parts {
		if p.IsNotice() && compared(p.Msg.Method) {
			list.kids = append(list.kids, object("method", str(p.Msg.Method), "params", parse(p.Msg.Params().Raw())))
		}
	}
	return list
}

// compared: notices whose content is looked at.
func compared(method string) bool {
	switch method {
	case "notifications/tasks", "notifications/tasks/status", "notifications/cancelled", "notifications/subscriptions/acknowledged":
		return false
	}
	return true
}

// handshake brings the server's name to where both eras have it: initialize
// beside the capabilities, server/discover in _meta.
func handshake(result *node) {
	if result == nil || result.typ != jsonrpc.Object {
		return
	}
	if info := result.at("_meta", translate.MetaServerInfo); info != nil && result.get("serverInfo") == nil {
		result.set("serverInfo", info)
	}
}

// acrossEras is what no row can say.
func acrossEras(doc *node, op *operation.Operation) {
	for _, q := range doc.get("questions").list() {
		if p := q.get("params"); p != nil && p.get("mode") != nil && p.get("mode").raw == "form" {
			p.drop("mode") // none means form (2025-11-25 client/elicitation)
		}
	}
	result := doc.get("result")
	if result == nil || result.typ != jsonrpc.Object {
		return
	}
	if extensions := result.at("capabilities", "extensions"); extensions != nil && len(extensions.kids) == 0 {
		result.get("capabilities").drop("extensions")
	}
	switch op.Method {
	case "tools/call":
		// 2025-11-25 allows only objects (loss structured_content): the bridge
		// says others as text where there is no other content.
		sc := result.get("structuredContent")
		if sc == nil || sc.typ == jsonrpc.Object {
			break
		}
		result.drop("structuredContent")
		if content := result.get("content"); content == nil || len(content.kids) == 0 {
			text := str(jsonText(sc))
			text.text = jsonIn(text.raw)
			result.set("content", array(object("type", str("text"), "text", text)))
		}
	case "tools/list":
		if tools := result.get("tools"); tools != nil {
			for _, tool := range tools.kids {
				// Legacy revisions allow only object schemas (loss output_schema).
				if t := tool.at("outputSchema", "type"); tool.get("outputSchema") != nil && (t == nil || t.raw != "object") {
					tool.drop("outputSchema")
				}
			}
		}
	}
}

// minHidden is the shortest id looked for in text: shorter ones stand there by
// chance.
const minHidden = 8

// hideIDs writes the task's and the session's id over wherever a string holds
// it: servers like to name a task in its result.
func hideIDs(doc *node, op *operation.Operation) {
	var pairs []string
	if len(op.TaskID) >= minHidden {
		pairs = append(pairs, op.TaskID, "(task id)")
	}
	if len(op.Session) >= minHidden {
		pairs = append(pairs, op.Session, "(session id)")
	}
	if pairs != nil {
		hide(doc, strings.NewReplacer(pairs...))
	}
}

func hide(n *node, r *strings.Replacer) {
	if n.typ == jsonrpc.String {
		n.raw = r.Replace(n.raw)
	}
	if n.text != nil {
		hide(n.text, r)
	}
	for _, kid := range n.kids {
		hide(kid, r)
	}
}
