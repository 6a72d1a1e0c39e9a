package session

import (
	"bytes"
	"net/http"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

func toolsKey(pool OpID) string { return "tools/" + string(pool) }

// maxToolPages bounds how far a list is followed.
const maxToolPages = 50

// toolSupport is what calls need to know of a server's tools: a line each,
// the name as a JSON string, a colon, the taskSupport. Kept as text so that a
// call finds its tool without decoding a list of thousands.
type toolSupport []byte

func (s toolSupport) add(name, support string) toolSupport {
	if len(s) == 0 {
		s = append(s, '\n')
	}
	s = append(s, jsonrpc.Quote(name)...)
	s = append(s, ':')
	s = append(s, support...)
	return append(s, '\n')
}

// of returns the taskSupport of a tool, or "". A JSON string holds no line
// end, so a match at a line's start is the tool itself.
func (s toolSupport) of(name string) string {
	key := append(append([]byte{'\n'}, jsonrpc.Quote(name)...), ':')
	_, rest, ok := bytes.Cut(s, key)
	if !ok {
		return ""
	}
	support, _, _ := bytes.Cut(rest, []byte{'\n'})
	return string(support)
}

func (p *poolSession) listTools(x *Exec) {
	if p.Phase != "ready" || p.up("tools") {
		return
	}
	p.Tools, p.Pages = nil, 0
	p.openTools(x, "")
}

func (p *poolSession) openTools(x *Exec, cursor string) {
	params := jsonrpc.NewObject()
	if cursor != "" {
		params.Str("cursor", cursor)
	}
	p.Pages++
	msg := jsonrpc.NewRequest(jsonrpc.IntID(x.NextID("up/"+string(x.ID))), "tools/list", params.Bytes())
	p.open(x, "tools", Outgoing{Verb: http.MethodPost, Msg: msg})
}

func (p *poolSession) toolPage(x *Exec, m *jsonrpc.Message) {
	for tool := range m.Result().Get("tools").Elems() {
		name, ok := tool.Get("name").Str()
		if support := translate.TaskSupport(tool); ok && translate.KnownTaskSupport(support) {
			p.Tools = p.Tools.add(name, support)
		}
	}
	if cursor, _ := m.Result().Get("nextCursor").Str(); cursor != "" && p.Pages < maxToolPages {
		p.openTools(x, cursor)
		return
	}
	p.toolsDone(x)
}

func (p *poolSession) toolsDone(x *Exec) {
	x.Do(Put{Key: toolsKey(x.ID), Value: append([]byte{}, p.Tools...)})
	p.toolsFailed(x)
}

// toolsFailed: the calls that wait go on with what is known; the next one asks
// again.
func (p *poolSession) toolsFailed(x *Exec) {
	for _, op := range p.ToolWait {
		x.Do(Tell{To: op, Name: "tools"})
	}
	p.ToolWait, p.Tools = nil, nil
}
