package report

import (
	"fmt"
	"io"
	"strings"

	"taskbridge/translate/compare"
)

// JUnit writes a test case for each operation: a failure where it is different,
// an error where it could not be compared, skipped where it was left out; and
// an error for the whole where not all that was asked for was compared.
func (c *Comparison) JUnit(w io.Writer) error {
	suite := Suite{Name: "taskbridge " + c.title()}
	for i := range c.Report.Pairs {
		suite.Cases = append(suite.Cases, caseOf(&c.Report.Pairs[i]))
	}
	for _, s := range c.Report.Skipped {
		suite.Cases = append(suite.Cases, Case{Class: classOf(s.Op.Method, string(s.Op.Kind)), Name: fmt.Sprintf("#%d %s", s.Op.N, operationName(s.Op)), Skipped: s.Reason})
	}
	if c.Report.Lacking != "" {
		suite.Cases = append(suite.Cases, Case{Class: c.Command, Name: "verdict", Error: &Problem{Message: c.Report.Lacking, Kind: string(compare.Inconclusive)}})
	}
	return JUnit(w, suite)
}

func classOf(method, kind string) string {
	if method == "" {
		return kind
	}
	return method
}

func caseOf(p *compare.Pair) Case {
	op := p.Op()
	out := Case{Class: classOf(op.Method, string(op.Kind)), Name: numbers(p) + " " + operationName(op)}
	if p.B != nil && !p.B.Ended.IsZero() {
		out.Time = compare.Took(p.B)
	}
	switch p.Verdict {
	case compare.Different:
		d := gravest(p.Differences)
		out.Failure = &Problem{Message: d.Path + ": " + d.Text, Kind: string(d.Severity) + " " + string(d.Kind), Details: details(p)}
	case compare.Inconclusive:
		out.Error = &Problem{Message: p.Reason, Kind: string(compare.Inconclusive), Details: details(p)}
	}
	return out
}

// gravest is the first of the worst severity.
func gravest(list []compare.Difference) compare.Difference {
	for _, s := range severities {
		for _, d := range list {
			if d.Severity == s {
				return d
			}
		}
	}
	return compare.Difference{}
}

func details(p *compare.Pair) string {
	var b strings.Builder
	for _, d := range p.Differences {
		fmt.Fprintf(&b, "%s %s at %s: %s\n", d.Severity, d.Kind, d.Path, d.Text)
		if d.Unified != "" {
			b.WriteString(d.Unified)
			continue
		}
		if d.Was != "" {
			fmt.Fprintf(&b, "was %s\n", d.Was)
		}
		if d.Now != "" {
			fmt.Fprintf(&b, "now %s\n", d.Now)
		}
	}
	if p.Omitted > 0 {
		fmt.Fprintf(&b, "and %d more\n", p.Omitted)
	}
	return b.String()
}
