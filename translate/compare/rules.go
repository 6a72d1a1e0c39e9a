package compare

import (
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/operation"
)

// dropRow leaves something out of both documents before they are compared.
type dropRow struct {
	// methods the row is for, parted by blanks; empty: all.
	methods string
	// path from the document down; * stands for any member or element.
	path string
	// cross: only where the two operations are of different eras.
	cross bool
	why   string
}

// drops: what differs from run to run, and what only one era has.
var drops = []dropRow{
	{"", "result nextCursor", false, "cursors are the server's own and of one run"},
	{"", "result requestState", false, "so is requestState"},
	{"", "result isError", false, "the outcome says it"},
	{"", "result _meta progressToken", false, "the client's token"},
	{"", "result _meta traceparent", false, "of one run (trace context)"},
	{"", "result _meta tracestate", false, "of one run"},
	{"", "result _meta baggage", false, "of one run"},
	{"", "result _meta " + translate.MetaRelatedTask, false, "names the task"},
	{"", "result _meta " + translate.MetaServerInfo, false, "the same in every result; compared once, in the handshake"},
	{"", "result _meta " + translate.MetaSubscription, false, "the listen request's id"},
	{"", "result ttlMs", false, "a cache or task lifetime counts down"},
	{"tasks/get tasks/result tasks/cancel tasks/update", "result taskId", false, "task ids are of one run"},
	{"tasks/get tasks/result tasks/cancel tasks/update", "result createdAt", false, "a time"},
	{"tasks/get tasks/result tasks/cancel tasks/update", "result lastUpdatedAt", false, "a time"},
	{"tasks/get tasks/result tasks/cancel tasks/update", "result statusMessage", false, "depends on when it is asked for"},
	{"tasks/get tasks/result tasks/cancel tasks/update", "result ttl", false, "counts down in some servers"},
	{"tasks/get tasks/result tasks/cancel tasks/update", "result pollInterval", false, "may follow the load"},
	{"tasks/get tasks/result tasks/cancel tasks/update", "result pollIntervalMs", false, "may follow the load"},
	{"tasks/list", "result tasks *", false, "which tasks there are depends on what ran before"},
	{"", "error data elicitations * elicitationId", false, "minted for each question"},
	{"", "questions * params elicitationId", false, "minted for each question; not in 2026-07-28"},
	{"", "questions * params task", false, "a task the client would host"},
	{"", "questions * params _meta " + translate.MetaRelatedTask, false, "names the task"},
	{"", "questions * params _meta progressToken", false, "the server's token"},
	{"", "notices * params progressToken", false, "the client's token"},
	{"", "notices * params elicitationId", false, "minted for each question"},
	{"", "notices * params _meta " + translate.MetaRelatedTask, false, "names the task"},
	{"", "notices * params _meta " + translate.MetaSubscription, false, "the listen request's id"},

	{"", "result resultType", true, "on every modern result, on no legacy one"},
	{"", "result cacheScope", true, "modern results only"},
	{"tools/list", "result tools * execution", true, "taskSupport is legacy only: a modern server decides"},
	{"initialize server/discover", "result protocolVersion", true, "each era negotiates in its own way"},
	{"initialize server/discover", "result supportedVersions", true, "each era negotiates in its own way"},
	{"initialize server/discover", "result capabilities tasks", true, "tasks: a capability in one era, an extension in the other"},
	{"initialize server/discover", "result capabilities extensions " + translate.ExtTasks, true, "tasks: an extension in one era, a capability in the other"},
}

// keyedRow is an array whose elements have names, so that one more or less does
// not shift the others, and where one more does no harm.
type keyedRow struct{ path, key, what string }

var keyed = []keyedRow{
	{"result tools", "name", "tool"},
	{"result prompts", "name", "prompt"},
	{"result resources", "uri", "resource"},
	{"result resourceTemplates", "uriTemplate", "resource template"},
}

// sets: arrays whose order says nothing (JSON Schema validation, required).
var sets = []string{
	"result tools * inputSchema ** required",
	"result tools * inputSchema required",
	"result tools * outputSchema ** required",
	"result tools * outputSchema required",
}

// graveRow says how a difference at a path is to be taken.
type graveRow struct {
	path     string
	kind     Kind // as found; empty: any
	severity Severity
	as       Kind // what it is called; empty: as found
	text     string
	now      string // the string it is now; empty: any
}

// graves: the first row that fits counts; see defaults for the rest. ** stands
// for any number of members and elements.
var graves = []graveRow{
	{"result tools *", KindGone, Worse, "", "a tool is gone", ""},
	{"result tools *", KindAdded, Note, "", "a tool is new", ""},
	{"result prompts *", KindGone, Worse, "", "a prompt is gone", ""},
	{"result prompts *", KindAdded, Note, "", "a prompt is new", ""},
	{"result resources *", KindGone, Worse, "", "a resource is gone", ""},
	{"result resources *", KindAdded, Note, "", "a resource is new", ""},
	{"result resourceTemplates *", KindGone, Worse, "", "a resource template is gone", ""},
	{"result resourceTemplates *", KindAdded, Note, "", "a resource template is new", ""},
	{"result tools * inputSchema ** required *", KindAdded, Worse, KindSchema, "an argument is now required", ""},
	{"result tools * inputSchema ** required *", KindGone, Better, KindSchema, "an argument is no longer required", ""},
	{"result tools * inputSchema required", KindAdded, Worse, KindSchema, "arguments are now required", ""},
	{"result tools * inputSchema ** properties *", KindGone, Worse, KindSchema, "an argument is gone", ""},
	{"result tools * inputSchema ** properties *", KindAdded, Changed, KindSchema, "an argument is new", ""},
	{"result tools * inputSchema ** enum *", KindGone, Worse, KindSchema, "a value is no longer allowed", ""},
	{"result tools * inputSchema ** type", "", Worse, KindSchema, "an argument's type is another", ""},
	{"result tools * inputSchema **", "", Changed, KindSchema, "the tool takes other arguments", ""},
	{"result tools * outputSchema ** properties *", KindGone, Worse, KindSchema, "a member of the tool's output is gone", ""},
	{"result tools * outputSchema", KindGone, Worse, KindSchema, "the tool no longer says what its output is", ""},
	{"result tools * outputSchema **", "", Changed, KindSchema, "the tool's output is another", ""},
	{"result tools * execution taskSupport", "", Note, "", "the tool can now be called either way, plainly and as a task", "optional"},
	{"result tools * execution taskSupport", "", Worse, "", "plain calls of the tool are refused now", "required"},
	{"result tools * execution taskSupport", "", Worse, "", "the tool cannot be run as a task any more", "forbidden"},
	{"result tools * execution", KindAdded, Note, "", "the tool can now be run as a task", ""},
	{"result tools * execution **", KindGone, Worse, "", "the tool cannot be run as a task any more", ""},
	{"result capabilities **", KindGone, Worse, "", "the server can no longer do this", ""},
	{"result capabilities **", KindAdded, Note, "", "the server can do more", ""},
	{"result serverInfo **", "", Note, "", "the server has another name or version", ""},
	{"result cacheScope", KindValue, Note, "", "fewer may share a cached copy", "private"},
	{"error code", "", Changed, KindCode, "the error has another code", ""},
	{"error message", "", Changed, "", "the error has another message", ""},
	{"questions * params **", "", Changed, KindQuestion, "the question is another", ""},
	{"notices", KindOrder, Changed, "", "notices in another order", ""},
	{"notices **", "", Changed, KindNotice, "the notice is another", ""},
}

// defaults: by kind, where no row of graves fits.
var defaults = map[Kind]graveRow{
	KindGone:     {"", "", Worse, "", "no longer there", ""},
	KindAdded:    {"", "", Changed, "", "was not there", ""},
	KindType:     {"", "", Worse, "", "another type of value", ""},
	KindValue:    {"", "", Changed, "", "another value", ""},
	KindSpelling: {"", "", Changed, "", "the same number, spelled another way", ""},
	KindOrder:    {"", "", Changed, "", "the same elements in another order", ""},
}

// ranks: how good an outcome is, the best first. Cancelled is the client's
// choice and neither better nor worse than another.
var ranks = map[operation.Outcome]int{
	operation.OK:         0,
	operation.ToolError:  1,
	operation.Failed:     2,
	operation.Refused:    3,
	operation.Unfinished: 4,
}

// When a row of missingNotices applies.
const (
	anywhere   = ""
	acrossEra  = "across eras"
	whileATask = "while a task runs"
	onListen   = "on a stream of the session's"
)

// noticeRow says what it means that a kind of notice, of which there were some,
// is missing altogether. Without a row it is worse.
type noticeRow struct {
	method string // empty: any
	when   string
	why    string
}

// missingNotices are those it is only a note about.
var missingNotices = []noticeRow{
	{"notifications/message", acrossEra, "a log line crosses eras only where one call is in flight (loss log_line)"},
	{"notifications/message", onListen, "log lines of a session come as they come"},
	{"notifications/tasks", anywhere, "servers tell of tasks where they choose to"},
	{"notifications/tasks/status", anywhere, "servers tell of tasks where they choose to"},
	{"", whileATask, "what is seen of a task depends on when it is looked at, and who listens"},
}

// housekeeping: what clients do for themselves, and bridges for them. One more
// or less of it says nothing about the server; where both have it, it is
// compared.
var housekeeping = map[operation.Kind]string{
	operation.Open:   "handshakes are the client's affair",
	operation.Listen: "clients of each era listen in their own way, or not at all",
	operation.Close:  "whether a session is ended is the client's affair",
	operation.Notice: "a message that belongs to no request",
}

// timed: requests a client sends by its own clock. How many there are says
// nothing about the server.
var timed = map[string]string{
	"ping": "a client pings by its own clock",
}

// noCounterpart: methods the other era has no form for, beside those that a
// proxy answers itself (translate.ActionFor).
var noCounterpart = map[string]string{
	"tasks/list": "2026-07-28 has no tasks/list",
}

// fits says whether a pattern of names, * and ** stands for a path.
func fits(pattern string, path []step) bool {
	return fitsAt(strings.Fields(pattern), path)
}

func fitsAt(pattern []string, path []step) bool {
	for i, p := range pattern {
		if p == "**" {
			for skip := 0; skip <= len(path)-i; skip++ {
				if fitsAt(pattern[i+1:], path[i+skip:]) {
					return true
				}
			}
			return false
		}
		if i >= len(path) || p != "*" && (path[i].name != p || path[i].index >= 0) {
			return false
		}
	}
	return len(pattern) == len(path)
}

// drop takes what the rows name out of a document.
func dropAll(doc *node, method string, cross bool) {
	for _, r := range drops {
		if r.cross && !cross || r.methods != "" && !hasWord(r.methods, method) {
			continue
		}
		dropAt(doc, strings.Fields(r.path))
	}
}

func hasWord(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}

func dropAt(n *node, path []string) {
	if n == nil {
		return
	}
	switch {
	case len(path) == 1 && path[0] == "*":
		n.keys, n.kids = nil, nil
	case len(path) == 1:
		n.drop(path[0])
	case path[0] == "*":
		for _, kid := range n.kids {
			dropAt(kid, path[1:])
		}
	default:
		kid := n.get(path[0])
		dropAt(kid, path[1:])
		if kid != nil && path[0] == "_meta" && len(kid.kids) == 0 {
			n.drop("_meta") // empty says as much as none
		}
	}
}
