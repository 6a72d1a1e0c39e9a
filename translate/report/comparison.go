package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"taskbridge/translate/compare"
	"taskbridge/translate/operation"
)

// Comparison is what diff and replay have found, to be written in one of the
// forms: Terminal, JSON, JUnit, HTML.
type Comparison struct {
	// Command made it: "diff", "replay".
	Command string
	// A and B name the two sides: a file, a server.
	A, B   string
	Report *compare.Report
	// Notes are said beside it: that a capture is not whole, that frames were
	// dropped.
	Notes []string
}

func (c *Comparison) title() string { return c.Command + " " + c.A + " → " + c.B }

// operationName is an operation in few words, peer text in it not escaped.
func operationName(op *operation.Operation) string {
	words := []string{op.Method}
	if op.Method == "" {
		words[0] = string(op.Kind)
	}
	if op.Name != "" {
		words = append(words, op.Name)
	}
	return strings.Join(words, " ")
}

// numbers are the N of both sides: "#12", "#12 ↔ #14", "#12 ↔ -".
func numbers(p *compare.Pair) string {
	n := func(op *operation.Operation) string {
		if op == nil {
			return "-"
		}
		return fmt.Sprintf("#%d", op.N)
	}
	if p.A != nil && p.B != nil && p.A.N == p.B.N {
		return n(p.A)
	}
	return n(p.A) + " ↔ " + n(p.B)
}

// took is how long a side took, empty where it is not known.
func took(op *operation.Operation) string {
	if op == nil || op.Ended.IsZero() {
		return ""
	}
	return compare.Took(op).Round(time.Microsecond).String()
}

// severities in the order they are told.
var severities = []compare.Severity{compare.Worse, compare.Changed, compare.Better, compare.Note}

// reasons are a report's skip reasons, in alphabetical order.
func reasons(c compare.Counts) []string {
	out := make([]string, 0, len(c.ByReason))
	for r := range c.ByReason {
		out = append(out, r)
	}
	slices.Sort(out)
	return out
}

// telling: a pair there is something to say about.
func telling(p *compare.Pair) bool {
	return p.Verdict != compare.Same || len(p.Differences) > 0
}
