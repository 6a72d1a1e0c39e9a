package session

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// headerMarks knows, for one principal at a modern server, which arguments of
// its tools headers must mirror (2026-07-28 server/tools, x-mcp-header). It is
// filled by the lists that pass by; where a server misses a header, the list is
// fetched anew. Calls read its record without waking it.
type headerMarks struct {
	base
	As      Principal `json:",omitempty"`
	Key     string    `json:",omitempty"`
	Waiting []OpID    `json:",omitempty"`
	Pages   int       `json:",omitempty"`
	Fresh   []byte    `json:",omitempty"` // while pages come
	Need    marksNeed `json:",omitzero"`
	Tools   []string  `json:",omitempty"` // of calls that waited, the newest first
}

// marksNeed is what a call says when it needs the list fetched.
type marksNeed struct {
	As      Principal
	Request translate.ModernRequest
	Tool    string
}

// maxMarksBytes bounds what is kept of one list; a tool past it is mirrored once
// its server has missed a header, and is kept then.
const maxMarksBytes = 64 << 10

// maxMissed bounds the tools that are kept before all others.
const maxMissed = 64

// marksOp is who keeps the marks a session's calls need. Callers who cannot be
// told apart share nothing.
func marksOp(x *Exec, sess *legacySession) OpID {
	if sess.Open {
		return OpID("marks:" + sess.ID)
	}
	return marksOf(x, sess.Principal)
}

func marksOf(x *Exec, p Principal) OpID {
	return OpID("marks:" + x.r.mask("marks", x.r.upstream+"\x00"+string(p)))
}

func marksKey(op OpID) string { return "marks/" + op.rest()[1:] }

// knownMarks is a record: a line a tool that has marks, its name as a JSON
// string, a colon, the marks.
type knownMarks []byte

// of returns the marks of one tool.
func (k knownMarks) of(name string) (marks []translate.ParamMark) {
	key := append(append([]byte{'\n'}, jsonrpc.Quote(name)...), ':')
	if _, rest, ok := bytes.Cut(k, key); ok {
		line, _, _ := bytes.Cut(rest, []byte{'\n'})
		_ = json.Unmarshal(line, &marks)
	}
	return marks
}

// with returns the record after a page of the list. What does not fit leaves at
// its end; the tools named first stand at its beginning.
func (k knownMarks) with(page map[string][]translate.ParamMark, first []string) knownMarks {
	out := knownMarks{'\n'}
	add := func(name string) {
		if len(page[name]) == 0 {
			return
		}
		line := append(append(jsonrpc.Quote(name), ':'), mustJSON(page[name])...)
		if len(out)+len(line) < maxMarksBytes {
			out = append(append(out, line...), '\n')
		}
	}
	for _, name := range first {
		add(name)
	}
	for line := range bytes.Lines(k) {
		name, _, ok := bytes.Cut(line, []byte(`":`))
		if !ok {
			continue
		}
		var known string
		if json.Unmarshal(append(name, '"'), &known) == nil {
			if _, listed := page[known]; !listed && len(out)+len(line) <= maxMarksBytes {
				out = append(out, line...)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(page)) {
		if !slices.Contains(first, name) {
			add(name)
		}
	}
	return out
}

func (h *headerMarks) Step(x *Exec, ev Event) {
	switch ev.Kind {
	case EvOp:
		h.told(x, ev)
	case EvServer:
		if m := ev.Frame.Msg; m.Kind == jsonrpc.Response || m.Kind == jsonrpc.ErrorResponse {
			x.Do(Shut{Label: "list"})
			delete(h.Ups, "list")
			h.page(x, m)
		}
	case EvServerEnd:
		h.fetched(x)
	case EvTimer:
		if ev.Name == "list" {
			if h.up("list") {
				x.Do(Shut{Label: "list"})
				h.fetched(x)
			}
			return
		}
		x.Do(Del{Key: marksKey(x.ID)}, Done{})
	}
}

func (h *headerMarks) told(x *Exec, ev Event) {
	switch ev.Name {
	case "page": // of a list that passed by
		var page map[string][]translate.ParamMark
		if json.Unmarshal(ev.Data, &page) != nil {
			return
		}
		old, _ := x.Get(marksKey(x.ID))
		h.keep(x, knownMarks(old).with(page, nil))
	case "fetch":
		var need marksNeed
		if json.Unmarshal(ev.Data, &need) != nil {
			return
		}
		h.Waiting = append(h.Waiting, ev.From)
		h.Tools = slices.DeleteFunc(h.Tools, func(name string) bool { return name == need.Tool })
		h.Tools = slices.Insert(h.Tools, 0, need.Tool)
		if !h.up("list") {
			h.Need, h.Pages, h.Fresh = need, 0, nil
			h.list(x, "")
		}
	}
}

func (h *headerMarks) keep(x *Exec, known knownMarks) {
	x.Do(Put{Key: marksKey(x.ID), Value: known}, Wake{Name: "expire", At: x.Now.Add(x.Policy.SessionIdle)})
}

func (h *headerMarks) list(x *Exec, cursor string) {
	h.Pages++
	var params []translate.Param
	if cursor != "" {
		params = append(params, translate.Param{Key: "cursor", Raw: jsonrpc.Quote(cursor)})
	}
	id := jsonrpc.IntID(x.NextID("up/" + x.r.upstream))
	msg := translate.NewModernRequest(id, "tools/list", h.Need.Request, params...)
	x.Do(Open{Label: "list", Upstream: x.r.upstream, As: h.Need.As, Out: modernOut(msg, h.Need.Request.Version, nil)})
	x.Do(Wake{Name: "list", At: x.Now.Add(askPatience)})
}

func (h *headerMarks) page(x *Exec, m *jsonrpc.Message) {
	if m.Kind == jsonrpc.ErrorResponse {
		h.fetched(x)
		return
	}
	_, page, _ := translate.MarkedTools(m)
	h.Fresh = knownMarks(h.Fresh).with(page, h.Tools)
	if cursor, _ := m.Result().Get("nextCursor").Str(); cursor != "" && h.Pages < maxToolPages {
		h.list(x, cursor)
		return
	}
	h.keep(x, h.Fresh)
	h.fetched(x)
}

// fetched: the calls that wait go on with what is known.
func (h *headerMarks) fetched(x *Exec) {
	for _, op := range h.Waiting {
		x.Do(Tell{To: op, Name: "marks"})
	}
	h.Waiting, h.Fresh, h.Need = nil, nil, marksNeed{}
	size := 0
	for i, name := range h.Tools {
		if size += len(name); i == maxMissed || size > maxMarksBytes/8 {
			h.Tools = h.Tools[:i]
			break
		}
	}
	x.Do(Unwake{Name: "list"})
	_, expires := h.Wakes["expire"]
	if _, known := x.Get(marksKey(x.ID)); !known && !expires {
		x.Do(Wake{Name: "expire", At: x.Now.Add(x.Policy.SessionIdle)})
	}
}

// mirror adds the headers that mirror a tool's arguments. It ends the call and
// says false where an argument fits no header: the value would have to be
// rounded or cut (case B25).
func (c *legacyCall) mirror(x *Exec, sess *legacySession, m *jsonrpc.Message, h http.Header) bool {
	if m.Method != "tools/call" {
		return true
	}
	known, _ := x.Get(marksKey(marksOp(x, sess)))
	if len(known) == 0 {
		return true
	}
	name, _ := m.At("params", "name").Str()
	marks := knownMarks(known).of(name)
	mirrors, err := translate.ParamHeaders(m, marks)
	if err != nil {
		c.failed(x, refusal(translate.Legacy, rawID(c.ID), translate.CondInvalidParams, err.Error(), nil))
		return false
	}
	maps.Copy(h, mirrors)
	if c.Marks = nil; len(marks) > 0 {
		c.Marks = mustJSON(marks)
	}
	return true
}

// headerMissed: the server misses a header or finds one that differs, so what
// we knew of the tool is old. The list is fetched anew and the call, which has
// not run, sent once more (streamable-http, Client Behavior).
func (c *legacyCall) headerMissed(x *Exec, ev Event) bool {
	code, _ := ev.Frame.Msg.Error().Get("code").Int()
	if code != -32020 || c.Method != "tools/call" || c.Relist != "" || ev.Frame.HTTP == nil || !c.kept(slotRequest) {
		return false
	}
	sess := new(legacySession)
	if !x.r.load(sessionOp(c.Session), sess) {
		return false
	}
	c.Relist = "asked"
	x.Keep(&c.base, slotPayload, ev.Frame.Msg.Raw)
	x.Do(Tell{To: marksOp(x, sess), Name: "fetch", Data: mustJSON(marksNeed{c.As, sess.modernRequest(false), c.toolName(x)})})
	return true
}

// toolName is the tool of a call that is kept.
func (c *legacyCall) toolName(x *Exec) string {
	m, err := jsonrpc.Decode(x.Kept(slotRequest), jsonrpc.Limits{})
	if err != nil {
		return ""
	}
	name, _ := m.At("params", "name").Str()
	return name
}

// relisted sends the call again, or gives the server's answer where the list
// says nothing new.
func (c *legacyCall) relisted(x *Exec) {
	if c.Relist != "asked" {
		return
	}
	c.Relist = "done"
	if c.Cancelled {
		c.over(x)
		return
	}
	before := c.Marks
	m, sess, ok := c.again(x)
	if !ok {
		return
	}
	if c.kept(slotRetry) {
		if round, err := jsonrpc.Decode(x.Kept(slotRetry), jsonrpc.Limits{}); err == nil {
			m = round
		}
	}
	h := translate.StandardHeaders(m)
	if !c.mirror(x, sess, m, h) {
		return
	}
	if bytes.Equal(before, c.Marks) {
		c.refused(x, x.Kept(slotPayload))
		return
	}
	x.Unkeep(&c.base, slotPayload)
	c.openAs(x, c.anew(m.Raw), h, c.Version)
}

// listed reads the marks of a list on its way to a legacy client and takes out
// the tools whose marks break the rules; a warning names them.
func (c *legacyCall) listed(x *Exec, sess *legacySession, m *jsonrpc.Message) *jsonrpc.Message {
	raw, page, bad := translate.MarkedTools(m)
	for _, tool := range bad {
		x.Do(Loss{What: string(translate.LossHeaderTool), Why: strconv.Quote(clip(tool[0], 128)) + ": " + tool[1]})
	}
	learnMarks(x, marksOp(x, sess), page)
	if len(bad) == 0 {
		return m
	}
	if edited, err := jsonrpc.Decode(raw, jsonrpc.Limits{}); err == nil {
		return edited
	}
	return m
}

// learnMarks notes a page of a list, unless nothing is or was marked.
func learnMarks(x *Exec, op OpID, page map[string][]translate.ParamMark) {
	_, known := x.Get(marksKey(op))
	for _, marks := range page {
		known = known || len(marks) > 0
	}
	if known {
		x.Do(Tell{To: op, Name: "page", Data: mustJSON(page)})
	}
}

// mismatched says what is wrong with the headers a modern client sent with a
// tools/call: toward it we are the server that must check them (streamable-
// http, Server Behavior for Custom Headers), by the list it was shown. A
// client without headers is not on HTTP.
func mismatched(x *Exec, caller Caller, m *jsonrpc.Message) string {
	if m.Method != "tools/call" || caller.Open || len(caller.Header[translate.HeaderMethod]) == 0 {
		return ""
	}
	known, _ := x.Get(marksKey(marksOf(x, caller.Principal)))
	if len(known) == 0 {
		return ""
	}
	name, _ := m.At("params", "name").Str()
	return translate.CheckParamHeaders(caller.Header, m, knownMarks(known).of(name))
}

// listed reads the marks of a list on its way to a modern client, and counts
// what the list cannot say there.
func (c *modernCall) listed(x *Exec, m *jsonrpc.Message) {
	if !c.Private {
		_, page, _ := translate.MarkedTools(m)
		learnMarks(x, marksOf(x, c.As), page)
	}
	if translate.ShowsTaskSupport(m) {
		x.Do(Loss{What: string(translate.LossTaskSupport)})
	}
}

// clip bounds a peer's text for a log line.
func clip(s string, most int) string {
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
