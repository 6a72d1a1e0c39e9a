package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"taskbridge/translate/compare"
)

// Colours of ECMA-48 that read on dark and on light.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	faint  = "2"
	bold   = "1"
)

var severityColours = map[compare.Severity]string{compare.Worse: red, compare.Changed: yellow, compare.Better: green, compare.Note: faint}

var verdictColours = map[compare.Verdict]string{compare.Same: green, compare.Different: red, compare.Inconclusive: yellow}

// maxName is how much of a name or value a line shows.
const maxName = 200

// terminal writes for people.
type terminal struct {
	w      *bufio.Writer
	colour bool
}

func (t *terminal) paint(s, colour string) string {
	if !t.colour || colour == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// Terminal writes a table of numbers and each difference with its unified diff.
// Peer text is escaped (Text).
func (c *Comparison) Terminal(w io.Writer, colour bool) error {
	t := &terminal{bufio.NewWriter(w), colour}
	verdict := c.Report.Verdict()
	fmt.Fprintf(t.w, "%s: %s\n\n", Text(c.title(), 2*maxName), t.paint(string(verdict), verdictColours[verdict]))
	t.table(c)
	for i := range c.Report.Pairs {
		if p := &c.Report.Pairs[i]; telling(p) {
			t.pair(p)
		}
	}
	return t.w.Flush()
}

func (t *terminal) table(c *Comparison) {
	n := c.Report.Counts()
	compared := n.Same + n.Different + n.Inconclusive
	fmt.Fprintf(t.w, "  operations   %d compared: %d same, %d different, %d inconclusive; %d left out\n", compared, n.Same, n.Different, n.Inconclusive, n.Skipped)
	var parts []string
	for _, s := range severities {
		text := fmt.Sprintf("%d %s", n.BySeverity[s], s)
		if s == compare.Note && n.BySeverity[s] != 1 {
			text += "s"
		}
		if n.BySeverity[s] > 0 {
			text = t.paint(text, severityColours[s])
		}
		parts = append(parts, text)
	}
	fmt.Fprintf(t.w, "  differences  %s\n", strings.Join(parts, ", "))
	for _, r := range reasons(n) {
		fmt.Fprintf(t.w, "  left out     %d: %s\n", n.ByReason[r], Text(r, maxName))
	}
	for _, note := range c.Notes {
		fmt.Fprintf(t.w, "  note         %s\n", Text(note, 2*maxName))
	}
}

func (t *terminal) pair(p *compare.Pair) {
	op := p.Op()
	fmt.Fprintf(t.w, "\n%s %s", t.paint(numbers(p), bold), t.paint(Text(operationName(op), maxName), bold))
	if op.Client != "" {
		fmt.Fprintf(t.w, ", %s", Text(op.Client, maxName))
	}
	fmt.Fprintf(t.w, ": %s\n", t.paint(string(p.Verdict), verdictColours[p.Verdict]))
	if p.Reason != "" {
		fmt.Fprintf(t.w, "  because %s\n", Text(p.Reason, maxName))
	}
	for _, d := range p.Differences {
		t.difference(d)
	}
	if p.Omitted > 0 {
		fmt.Fprintf(t.w, "  and %d more\n", p.Omitted)
	}
}

func (t *terminal) difference(d compare.Difference) {
	fmt.Fprintf(t.w, "  %s %s at %s: %s\n", t.paint(string(d.Severity), severityColours[d.Severity]), d.Kind, Text(d.Path, 2*maxName), Text(d.Text, maxName))
	if d.Unified != "" {
		t.unified(d.Unified)
		return
	}
	if d.Was != "" {
		fmt.Fprintf(t.w, "    was %s\n", Text(d.Was, 2*maxName))
	}
	if d.Now != "" {
		fmt.Fprintf(t.w, "    now %s\n", Text(d.Now, 2*maxName))
	}
}

func (t *terminal) unified(diff string) {
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(line, "\n")
		colour := ""
		switch {
		case strings.HasPrefix(line, "+"):
			colour = green
		case strings.HasPrefix(line, "-"):
			colour = red
		case strings.HasPrefix(line, "@@"):
			colour = faint
		}
		fmt.Fprintf(t.w, "    %s\n", t.paint(Text(line, 4*maxName), colour))
	}
}
