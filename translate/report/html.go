package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"taskbridge/translate/compare"
	"taskbridge/translate/operation"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var page = template.Must(template.New("page").Parse(pageText))

// What one page holds; the JSON report holds all.
const (
	maxRows    = 2000
	maxPairs   = 500
	maxParts   = 40
	maxMessage = 4000 // bytes of one message
)

// policy lets the page load nothing and run nothing; its one style is named by
// its digest.
func policy() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}

type counted struct {
	Name  string
	Count int
}

type pageData struct {
	Policy, Title, A, B, Verdict string
	Style                        template.CSS
	Counts                       compare.Counts
	Severities, Reasons          []counted
	Notes                        []string
	Height                       int
	Rows                         []pageRow
	RowsLeft, PairsLeft          int
	Pairs                        []pagePair
}

type pageRow struct {
	Verdict, Label, Anchor string
	TextY                  int
	A, B                   pageBar
}

type pageBar struct {
	X, Width string // of the 1000 units the drawing is wide; empty: no bar
	Y        int
	Title    string
}

type pagePair struct {
	Anchor, Numbers, Name, Verdict, Reason string
	Differences                            []pageDifference
	Omitted                                int
	Sides                                  []pageSide
}

type pageDifference struct {
	Severity, Kind, Path, Text, Was, Now string
	Lines                                []pageLine
}

type pageLine struct{ Class, Text string }

type pageSide struct {
	Title string
	Parts []pagePart
	Left  int
}

type pagePart struct{ Head, Text string }

// HTML writes one page that needs nothing else: no script, no font, no picture
// from anywhere. What peers said is text in it, escaped as for a terminal and
// then by html/template.
func (c *Comparison) HTML(w io.Writer) error {
	n := c.Report.Counts()
	d := pageData{
		Policy: policy(), Title: Text("taskbridge "+c.title(), 2*maxName), A: Text(c.A, maxName), B: Text(c.B, maxName),
		Verdict: string(c.Report.Verdict()), Style: template.CSS(pageStyle), Counts: n,
	}
	for _, s := range severities {
		d.Severities = append(d.Severities, counted{string(s), n.BySeverity[s]})
	}
	for _, r := range reasons(n) {
		d.Reasons = append(d.Reasons, counted{Text(r, maxName), n.ByReason[r]})
	}
	for _, note := range c.Notes {
		d.Notes = append(d.Notes, Text(note, 2*maxName))
	}
	d.timeline(c.Report)
	for i := range c.Report.Pairs {
		p := &c.Report.Pairs[i]
		switch {
		case !telling(p):
		case len(d.Pairs) == maxPairs:
			d.PairsLeft++
		default:
			d.Pairs = append(d.Pairs, c.pagePairOf(i, p))
		}
	}
	return page.Execute(w, d)
}

func anchor(i int) string { return fmt.Sprintf("op-%d", i+1) }

// timeline draws a row for each pair, the ones with something to say first
// where there are too many.
func (d *pageData) timeline(r *compare.Report) {
	var chosen []int
	for i := range r.Pairs {
		chosen = append(chosen, i)
	}
	if len(chosen) > maxRows {
		slices.SortStableFunc(chosen, func(i, j int) int {
			return rank(&r.Pairs[i]) - rank(&r.Pairs[j])
		})
		d.RowsLeft = len(chosen) - maxRows
		chosen = chosen[:maxRows]
		slices.Sort(chosen)
	}
	a, b := spanOf(r, func(p *compare.Pair) *operation.Operation { return p.A }), spanOf(r, func(p *compare.Pair) *operation.Operation { return p.B })
	whole := max(a.to.Sub(a.from), b.to.Sub(b.from), time.Millisecond)
	const rowHeight = 16
	told := 0
	for row, i := range chosen {
		p := &r.Pairs[i]
		y := row * rowHeight
		out := pageRow{Verdict: string(p.Verdict), Label: Text(numbers(p)+" "+operationName(p.Op()), 60), TextY: y + 10}
		out.A, out.B = a.bar(p.A, whole, y+1), b.bar(p.B, whole, y+8)
		if telling(p) && told < maxPairs {
			out.Anchor = anchor(i)
			told++
		}
		d.Rows = append(d.Rows, out)
	}
	d.Height = max(len(chosen), 1) * rowHeight
}

func rank(p *compare.Pair) int {
	if telling(p) {
		return 0
	}
	return 1
}

// span is the time one side's operations took.
type span struct{ from, to time.Time }

func spanOf(r *compare.Report, side func(*compare.Pair) *operation.Operation) (s span) {
	for i := range r.Pairs {
		op := side(&r.Pairs[i])
		if op == nil {
			continue
		}
		if s.from.IsZero() || op.Began.Before(s.from) {
			s.from = op.Began
		}
		if end := endOf(op); end.After(s.to) {
			s.to = end
		}
	}
	return s
}

// endOf is when it was settled, else when it was last heard of.
func endOf(op *operation.Operation) time.Time {
	if op.Ended.IsZero() {
		return op.Parts[len(op.Parts)-1].Record.Time
	}
	return op.Ended
}

// labels take the first units of the drawing's width.
const labels = 300

func (s span) bar(op *operation.Operation, whole time.Duration, y int) pageBar {
	if op == nil {
		return pageBar{}
	}
	unit := func(t time.Duration) float64 { return float64(t) / float64(whole) * (1000 - labels) }
	x := min(max(unit(op.Began.Sub(s.from)), 0), 1000-labels-1)
	width := min(max(unit(endOf(op).Sub(op.Began)), 1), 1000-labels-x)
	title := fmt.Sprintf("%s after %s", op.Outcome, op.Began.Sub(s.from).Round(time.Microsecond))
	if t := took(op); t != "" {
		title += ", took " + t
	}
	return pageBar{X: fmt.Sprintf("%.1f", labels+x), Width: fmt.Sprintf("%.1f", width), Y: y, Title: title}
}

func (c *Comparison) pagePairOf(i int, p *compare.Pair) pagePair {
	out := pagePair{
		Anchor: anchor(i), Numbers: numbers(p), Name: Text(operationName(p.Op()), maxName),
		Verdict: string(p.Verdict), Reason: Text(p.Reason, maxName), Omitted: p.Omitted,
		Sides: []pageSide{sideOf(c.A, p.A), sideOf(c.B, p.B)},
	}
	for _, d := range p.Differences {
		x := pageDifference{Severity: string(d.Severity), Kind: string(d.Kind), Path: Text(d.Path, 2*maxName), Text: Text(d.Text, maxName), Was: Text(d.Was, 2*maxName), Now: Text(d.Now, 2*maxName)}
		for line := range strings.Lines(d.Unified) {
			line = strings.TrimSuffix(line, "\n")
			x.Lines = append(x.Lines, pageLine{lineClass(line), Text(line, 4*maxName)})
		}
		out.Differences = append(out.Differences, x)
	}
	return out
}

func lineClass(line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return "add"
	case strings.HasPrefix(line, "-"):
		return "del"
	case strings.HasPrefix(line, "@@"):
		return "at"
	}
	return "ctx"
}

func sideOf(name string, op *operation.Operation) pageSide {
	if op == nil {
		return pageSide{Title: Text(name, maxName) + ": not there"}
	}
	side := pageSide{Title: Text(fmt.Sprintf("%s: #%d, %s", name, op.N, op.Outcome), 2*maxName)}
	if t := took(op); t != "" {
		side.Title += ", " + t
	}
	for i, p := range op.Parts {
		if i == maxParts {
			side.Left = len(op.Parts) - maxParts
			break
		}
		side.Parts = append(side.Parts, partOf(op, p))
	}
	return side
}

func partOf(op *operation.Operation, p operation.Part) pagePart {
	r := p.Record
	head := fmt.Sprintf("+%s %s %s", r.Time.Sub(op.Began).Round(time.Microsecond), r.Dir, p.Role)
	if r.Verb != "" {
		head += " " + r.Verb
	}
	if r.Status != 0 {
		head += fmt.Sprintf(" HTTP %d", r.Status)
	}
	if r.Line != 0 {
		head += fmt.Sprintf(", line %d", r.Line)
	}
	out := pagePart{Head: Text(head, maxName)}
	if len(r.Msg) == 0 {
		return out
	}
	text := r.Msg
	var b bytes.Buffer
	if len(text) <= 16*maxMessage && json.Indent(&b, text, "", "  ") == nil {
		text = b.Bytes()
	}
	if len(text) > maxMessage {
		text = append(text[:maxMessage:maxMessage], "…"...)
	}
	out.Text = lines(string(text))
	return out
}
