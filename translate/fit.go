package translate

import (
	"fmt"
	"slices"

	"taskbridge/translate/jsonrpc"
)

// contentRow is a type of content block and the first revision that has it.
type contentRow struct {
	Type, Since string
	text        func(block jsonrpc.Value) string
	Becomes     string
}

// contents: a client of an older revision gets these as text; it would refuse
// the whole message otherwise.
var contents = []contentRow{
	{"audio", V20250326, audioText, "a text that names media type and size"},
	{"resource_link", V20250618, linkText, "a text of name, URI and description"},
	{"tool_use", V20251125, jsonText, "its JSON as text"},
	{"tool_result", V20251125, jsonText, "its JSON as text"},
}

// memberSince is a member and the first revision that has it.
type memberSince struct{ Of, Member, Since string }

// newer: members a client of an older revision has no use for. What no
// revision owns, _meta included, stays (case B26).
var newer = []memberSince{
	{"tool", "annotations", V20250326},
	{"tool", "title", V20250618},
	{"tool", "outputSchema", V20250618},
	{"tool", "icons", V20251125},
	{"tool", "execution", V20251125},
	{"prompt", "title", V20250618},
	{"prompt", "icons", V20251125},
	{"prompt argument", "title", V20250618},
	{"resource", "title", V20250618},
	{"resource", "icons", V20251125},
	{"annotations", "lastModified", V20250618},
	{"tool result", "structuredContent", V20250618},
	{"elicitation", "mode", V20251125},
	{"implementation", "title", V20250618},
	{"implementation", "description", V20251125},
	{"implementation", "websiteUrl", V20251125},
	{"implementation", "icons", V20251125},
}

// FitRevision makes a result that is good for 2025-11-25 fit an older legacy
// revision; raw is a whole response to method. Newer revisions and errors pass
// as they are.
func FitRevision(method string, raw []byte, version string) ([]byte, []Loss) {
	if !lacks(version, LatestLegacy) {
		return raw, nil
	}
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil || m.Kind != jsonrpc.Response {
		return raw, nil
	}
	f := fitting{version: version}
	result := f.fragment(m.Result(), func(e *jsonrpc.Edit, r jsonrpc.Value) {
		switch method {
		case "initialize":
			f.drop(e, r.Get("serverInfo"), "implementation")
		case "tools/list":
			f.each(e, r.Get("tools"), "tool")
		case "prompts/list":
			f.each(e, r.Get("prompts"), "prompt")
			for p := range r.Get("prompts").Elems() {
				f.each(e, p.Get("arguments"), "prompt argument")
			}
		case "resources/list":
			f.each(e, r.Get("resources"), "resource")
		case "resources/templates/list":
			f.each(e, r.Get("resourceTemplates"), "resource")
		case "prompts/get":
			for msg := range r.Get("messages").Elems() {
				f.block(e, msg.Get("content"))
			}
		case "tools/call":
			f.toolResult(e, r)
		}
	})
	if len(f.lost) == 0 {
		return raw, nil
	}
	e := m.Edit()
	e.Replace(m.Result(), result)
	return e.Bytes(), f.lost
}

// fitting is one message on its way to an older revision.
type fitting struct {
	version string
	lost    []Loss
}

func (f *fitting) lose(l Loss) {
	if !slices.Contains(f.lost, l) {
		f.lost = append(f.lost, l)
	}
}

// fragment edits a value with everything in it open. One that cannot be read,
// for a member that stands in it twice, stays as it is.
func (f *fitting) fragment(v jsonrpc.Value, edit func(*jsonrpc.Edit, jsonrpc.Value)) []byte {
	open, err := v.Parse()
	if err != nil {
		return v.Raw()
	}
	e := open.Edit()
	edit(e, open)
	return e.Bytes()
}

func (f *fitting) drop(e *jsonrpc.Edit, obj jsonrpc.Value, of string) {
	for _, r := range newer {
		if v := obj.Get(r.Member); r.Of == of && lacks(f.version, r.Since) && v.Exists() {
			e.Delete(v)
			f.lose(LossNewerMember)
		}
	}
	f.dropAnnotations(e, obj.Get("annotations"))
}

func (f *fitting) dropAnnotations(e *jsonrpc.Edit, annotations jsonrpc.Value) {
	for _, r := range newer {
		if v := annotations.Get(r.Member); r.Of == "annotations" && lacks(f.version, r.Since) && v.Exists() {
			e.Delete(v)
			f.lose(LossNewerMember)
		}
	}
}

func (f *fitting) each(e *jsonrpc.Edit, list jsonrpc.Value, of string) {
	for item := range list.Elems() {
		f.drop(e, item, of)
	}
}

// toolResult: structuredContent is said as text where nothing else is there
// (2025-06-18 server/tools, Structured Content: servers give both for clients
// that do not know it).
func (f *fitting) toolResult(e *jsonrpc.Edit, r jsonrpc.Value) {
	content := r.Get("content")
	for block := range content.Elems() {
		f.block(e, block)
	}
	if sc := r.Get("structuredContent"); sc.Exists() && lacks(f.version, V20250618) && content.Len() == 0 {
		block := append(append([]byte{'['}, textBlock(string(sc.Raw()))...), ']')
		if content.Exists() {
			e.Replace(content, block)
		} else {
			e.Insert(r, "content", block)
		}
	}
	f.drop(e, r, "tool result")
}

func (f *fitting) block(e *jsonrpc.Edit, block jsonrpc.Value) {
	e.Replace(block, f.fitBlock(block))
}

// fitBlock is one block of content as the revision knows it.
func (f *fitting) fitBlock(block jsonrpc.Value) []byte {
	for _, r := range contents {
		if lacks(f.version, r.Since) && block.Get("type").Is(r.Type) {
			f.lose(LossContentType)
			return textBlock(r.text(block))
		}
	}
	e := block.Edit()
	f.dropAnnotations(e, block.Get("annotations"))
	return e.Bytes()
}

func textBlock(text string) []byte {
	return jsonrpc.NewObject().Str("type", "text").Str("text", text).Bytes()
}

func audioText(block jsonrpc.Value) string {
	media, _ := block.Get("mimeType").Str()
	size := max(len(block.Get("data").Raw())-2, 0) / 4 * 3
	return fmt.Sprintf("[audio left out: %s, about %d bytes; the protocol revision of this client has no audio]", media, size)
}

func linkText(block jsonrpc.Value) string {
	text, ok := block.Get("title").Str()
	if !ok {
		text, _ = block.Get("name").Str()
	}
	uri, _ := block.Get("uri").Str()
	text += ": " + uri
	if d, ok := block.Get("description").Str(); ok {
		text += "\n" + d
	}
	return text
}

func jsonText(block jsonrpc.Value) string { return string(block.Raw()) }

// FitQuestion is FitRevision for a request to a client: an older one is asked
// in the forms it knows.
func FitQuestion(method string, raw []byte, version string) ([]byte, []Loss) {
	if !lacks(version, LatestLegacy) {
		return raw, nil
	}
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil {
		return raw, nil
	}
	f := fitting{version: version}
	params := f.fragment(m.Params(), func(e *jsonrpc.Edit, p jsonrpc.Value) {
		switch method {
		case "sampling/createMessage":
			f.messages(e, p.Get("messages"))
		case "elicitation/create":
			f.drop(e, p, "elicitation")
			for _, field := range p.Get("requestedSchema").Get("properties").Members() {
				f.titledChoice(e, field)
			}
		}
	})
	if len(f.lost) == 0 {
		return raw, nil
	}
	e := m.Edit()
	e.Replace(m.Params(), params)
	return e.Bytes(), f.lost
}

// messages: in sampling each has one block before 2025-11-25; one of several
// blocks becomes several of the same role.
func (f *fitting) messages(e *jsonrpc.Edit, list jsonrpc.Value) {
	for msg := range list.Elems() {
		content := msg.Get("content")
		if content.Type() != jsonrpc.Array {
			f.block(e, content)
			continue
		}
		f.lose(LossContentType)
		var parts []byte
		for block := range content.Elems() {
			part := msg.Edit()
			part.Replace(content, f.fitBlock(block))
			parts = append(append(parts, ','), part.Bytes()...)
		}
		if len(parts) == 0 { // nothing is said
			e.Delete(msg)
			continue
		}
		e.Replace(msg, parts[1:])
	}
}

// titledChoice: before 2025-11-25 a choice among titled values is an enum with
// enumNames (2025-11-25 changelog, Major changes 5).
func (f *fitting) titledChoice(e *jsonrpc.Edit, field jsonrpc.Value) {
	options := field.Get("oneOf")
	if !field.Get("type").Is("string") || options.Len() == 0 {
		return
	}
	values, names := []byte{'['}, []byte{'['}
	for o := range options.Elems() {
		value, title := o.Get("const"), o.Get("title")
		if value.Type() != jsonrpc.String {
			return
		}
		if title.Type() != jsonrpc.String {
			title = value
		}
		if len(values) > 1 {
			values, names = append(values, ','), append(names, ',')
		}
		values, names = append(values, value.Raw()...), append(names, title.Raw()...)
	}
	e.Delete(options)
	e.Set(field, "enum", append(values, ']'))
	e.Set(field, "enumNames", append(names, ']'))
	f.lose(LossNewerMember)
}
