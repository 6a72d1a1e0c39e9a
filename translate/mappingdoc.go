package translate

import (
	"bytes"
	"fmt"
	"strings"
)

// MappingDoc writes the tables of this package as a Markdown page: what
// becomes of each revision, method, status, member and condition, and what is
// lost. A test keeps docs/mapping.md equal to it.
func MappingDoc() []byte {
	d := &docPage{}
	d.text(`# What becomes of what

<!-- Generated from the tables in translate/. Do not edit: change the table, then run
     go test ./translate -run TestMappingDoc -update -->

*Legacy* are the revisions that open with ` + "`initialize`" + `, *modern* those that carry version
and capabilities in every request. Between peers of one era bytes pass as they are.`)
	d.revisions()
	d.methods()
	d.dues()
	d.repeats()
	d.tasks()
	d.conditions()
	d.older()
	d.codes()
	d.legacyOnly()
	d.losses()
	return d.Bytes()
}

// docPage is the page; a method a section.
type docPage struct{ bytes.Buffer }

func (d *docPage) revisions() {
	d.text(`## Revisions

The table is in ` + "`translate/era.go`" + `.`)
	d.table("revision", "era", "batches", "tasks of its own", "structuredContent", "elicitation", "its URL mode", "SSE priming", "version header", "note")
	for _, f := range revisions {
		note := ""
		if f.OldModernCodes {
			note = "numbers three errors -32001, -32003, -32004"
		}
		d.row(f.Version, f.Era.String(), yes(f.Batch), yes(f.Tasks), yes(f.StructuredContent), yes(f.Elicitation), yes(f.ElicitURL), yes(f.Priming), yes(f.VersionHeader), note)
	}
}

func (d *docPage) methods() {
	d.text(`## Methods

What the proxy does with a client's method when the server speaks the other era. *forward*: the
same method goes on, params and result edited; *local*: the proxy answers; *operate*: the task
operations take it; *swallow*: accepted and dropped; *refuse*: -32601. Methods nobody defined
are forwarded. The table is in ` + "`translate/methods.go`" + `.`)
	d.table("method", "legacy client, modern server", "modern client, legacy server", "result may be `input_required`", "modern result has cache hints", "note")
	for _, r := range methods {
		d.row(code(r.Method), r.Legacy.String(), r.Modern.String(), yes(CanRequireInput(r.Method)), yes(cacheable[r.Method]), r.Note)
	}
}

func (d *docPage) dues() {
	d.text(`## Messages over a limit

What becomes of a message when its sender has used up its requests or bytes. Messages that are not
listed are refused. *never refused*: nobody could say it again and somebody waits for it; it counts
all the same. *eased*: refused only where its sender passes the limit with such messages alone.
Responses are never refused; a request with ` + "`requestState` or `inputResponses`" + ` and GET are eased, DELETE
is never refused. The table is in ` + "`translate/dues.go`" + `.`)
	d.table("method", "", "why")
	for _, r := range dues {
		d.row(code(r.Method), r.Due.String(), r.Note)
	}
}

func (d *docPage) repeats() {
	d.text(`## Requests that are sent again

What becomes of a request when the connection to the server breaks before anything came back, so that
nobody knows whether the server has had it. Methods that are not listed are not sent again, nor those
of a server's process that ended; who asked gets an error. A request of which nothing was written is
sent again whatever it is. Twice at most. The table is in ` + "`translate/repeats.go`" + `.`)
	d.table("method", "sent again", "why")
	for _, r := range repeats {
		d.row(code(r.Method), yes(r.Repeat), r.Note)
	}
}

func (d *docPage) tasks() {
	d.text("## Task statuses\n\nThe table is in `translate/tasks.go`.")
	d.table("modern", "when", "legacy", "note")
	for _, r := range statuses {
		d.row(code(r.Modern), r.When, code(r.Legacy), r.Note)
	}

	d.text("## Task members\n\nMembers in neither column stay as they are. The table is in `translate/tasks.go`.")
	d.table("modern", "legacy", "note")
	for _, r := range members {
		d.row(code(r.Modern), code(r.Legacy), r.Note)
	}
}

func (d *docPage) conditions() {
	d.text(`## Conditions

What a peer is told of what the proxy itself finds wrong: HTTP status (where no byte was sent
yet) and JSON-RPC code. A server's own errors pass, but for the codes below. The table is in
` + "`translate/status.go`" + `.`)
	d.table("condition", "to legacy", "to modern", "source")
	for _, r := range conditions {
		d.row(string(r.Cond), fmt.Sprintf("%d, %d", r.Legacy.Status, r.Legacy.Code), fmt.Sprintf("%d, %d", r.Modern.Status, r.Modern.Code), r.Source)
	}
}

func (d *docPage) older() {
	d.text(`## What older revisions lack

A client of an older revision than the one named gets such content as text, and results without
these members; each is a loss. Members no revision owns stay. The tables are in ` + "`translate/fit.go`" + `.`)
	d.table("content type", "since", "becomes")
	for _, r := range contents {
		d.row(code(r.Type), r.Since, r.Becomes)
	}
	d.table("of", "member", "since")
	for _, r := range newer {
		d.row(r.Of, code(r.Member), r.Since)
	}
}

func (d *docPage) codes() {
	d.text("## Codes of a server's own errors\n\nThe rules are in `translate/results.go`.")
	d.table("from", "to", "code", "becomes", "when")
	d.row("modern server", "legacy client", "-32602", "-32002", "`resources/read` with `data.uri`")
	d.row("legacy server", "modern client", "-32002", retiredCodes[-32002], "always")
	d.row("legacy server", "modern client", "-32042", retiredCodes[-32042], "in a task's error, and where the client cannot be asked; else `input_required`, and the call is sent again")

	d.text("The three numbers 2026-06-30 has for itself, both ways with a peer that speaks it. From other\nmodern servers the old number counts only with the member of `data` named. The table is in\n`translate/codes.go`.")
	d.table("error", "2026-06-30", "2026-07-28", "with")
	for _, r := range codes {
		d.row(r.What, fmt.Sprint(r.Old), fmt.Sprint(r.New), code(r.Telling))
	}
}

func (d *docPage) legacyOnly() {
	d.text(`## Of the legacy dialect alone

What a client has to change before the legacy dialect is switched off. The report of who still
needs it (` + "`taskbridge admin report`" + `) counts each under its name. The table is in
` + "`translate/legacyonly.go`" + `.`)
	d.table("name", "what it is", "instead")
	for _, r := range legacyOnly {
		d.row(code(r.Name), r.What, r.Instead)
	}
}

func (d *docPage) losses() {
	d.text(`## Losses

What one dialect says and the other cannot. Each is counted under its name in
` + "`taskbridge_translation_loss_total{route,what}`" + `. The table is in ` + "`translate/losses.go`" + `.`)
	d.table("what", "direction", "what happens")
	for _, l := range losses {
		d.row(code(string(l.What)), l.Direction, l.Description)
	}
}

func (d *docPage) text(s string) {
	if d.Len() > 0 {
		d.WriteByte('\n')
	}
	d.WriteString(s)
	d.WriteByte('\n')
}

func (d *docPage) table(columns ...string) {
	d.WriteByte('\n')
	d.row(columns...)
	d.WriteString("|" + strings.Repeat(" --- |", len(columns)) + "\n")
}

func (d *docPage) row(cells ...string) {
	d.WriteByte('|')
	for _, c := range cells {
		if c = strings.ReplaceAll(c, "|", `\|`); c != "" {
			d.WriteString(" " + c)
		}
		d.WriteString(" |")
	}
	d.WriteByte('\n')
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
