// Package compare says in what two lists of operations differ: two captures, or
// a capture and its replay, of one dialect or of two.
//
// Each pair of operations is read into a document: what came of it, less what
// differs from run to run and, across eras, what only one of them has (rules.go
// holds both as rows). Two documents are compared as JSON values and every
// difference is named by its path (RFC 9535), its kind and whether it is for the
// worse.
//
// The document of an operation is
//
//	{"outcome", "status", "result", "error",
//	 "questions": [{"method", "params", "answer", "error"}],
//	 "notices": [{"method", "params"}]}
//
// and a path to ignore is a path in it: $.result.content[0].text.
//
// The package is pure.
package compare

import (
	"bytes"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/operation"
)

// Verdict is what a comparison comes to.
type Verdict string

// The verdicts. Inconclusive: something stood in the way of comparing.
const (
	Same         Verdict = "same"
	Different    Verdict = "different"
	Inconclusive Verdict = "inconclusive"
)

// Severity says how a difference is to be taken.
type Severity string

// The severities, the gravest first. A Note makes nothing different.
const (
	Worse   Severity = "worse"
	Changed Severity = "changed"
	Better  Severity = "better"
	Note    Severity = "note"
)

// Kind says what sort of difference it is.
type Kind string

// The kinds. Gone and Added are about members, elements and items of a listing;
// Spelling is a number of the same value written in another way; Order the same
// elements in another order.
const (
	KindOutcome  Kind = "outcome"
	KindStatus   Kind = "http-status"
	KindCode     Kind = "error-code"
	KindValue    Kind = "value"
	KindType     Kind = "type"
	KindSpelling Kind = "number-spelling"
	KindGone     Kind = "gone"
	KindAdded    Kind = "added"
	KindOrder    Kind = "order"
	KindSchema   Kind = "schema"
	KindNotAsked Kind = "question-not-asked"
	KindAsked    Kind = "question-new"
	KindQuestion Kind = "question"
	KindAnswer   Kind = "answer"
	KindNotice   Kind = "notice"
	KindNoNotice Kind = "notice-missing"
	KindPages    Kind = "pages"
	KindTask     Kind = "task"
	KindSlower   Kind = "slower"
	KindMissing  Kind = "operation-missing"
	KindExtra    Kind = "operation-extra"
)

// Difference is one thing that is not as it was.
type Difference struct {
	// Path leads to it in the operation's document, "$" for the whole.
	Path     string
	Kind     Kind
	Severity Severity
	// Text says it in words of ours; peer text stands in Was and Now only.
	Text string
	// Was and Now are the values, as JSON or in words, cut short; empty where
	// there is none.
	Was, Now string
	// Unified is a short unified diff of the two, empty where they are one line.
	Unified string
}

// Pair is an operation of A and the one of B it was compared with. One of them
// is nil where there is none.
type Pair struct {
	A, B    *operation.Operation
	Verdict Verdict
	// Reason says why it is Inconclusive.
	Reason      string
	Differences []Difference
	// Omitted counts the differences past the limit.
	Omitted int
}

// Op is the operation of A, of B where there is none.
func (p *Pair) Op() *operation.Operation {
	if p.A != nil {
		return p.A
	}
	return p.B
}

// Skip is an operation that was left out, and why.
type Skip struct {
	Op     *operation.Operation
	Reason string
}

// Report is what comparing two lists found.
type Report struct {
	Pairs   []Pair
	Skipped []Skip
	// Lacking says why not all that was asked for was compared, empty if it was:
	// the whole is not Same then.
	Lacking string
}

// Verdict: Different if one pair is; else Inconclusive if one pair is, or
// something is Lacking.
func (r *Report) Verdict() Verdict {
	v := Same
	if r.Lacking != "" {
		v = Inconclusive
	}
	for i := range r.Pairs {
		switch r.Pairs[i].Verdict {
		case Different:
			return Different
		case Inconclusive:
			v = Inconclusive
		}
	}
	return v
}

// Counts are a report's numbers.
type Counts struct {
	Same, Different, Inconclusive, Skipped int
	// BySeverity counts differences, those past the limit left out.
	BySeverity map[Severity]int
	// ByReason counts skipped operations.
	ByReason map[string]int
}

// Counts adds it all up.
func (r *Report) Counts() Counts {
	c := Counts{Skipped: len(r.Skipped), BySeverity: map[Severity]int{}, ByReason: map[string]int{}}
	for i := range r.Pairs {
		switch r.Pairs[i].Verdict {
		case Different:
			c.Different++
		case Inconclusive:
			c.Inconclusive++
		default:
			c.Same++
		}
		for _, d := range r.Pairs[i].Differences {
			c.BySeverity[d.Severity]++
		}
	}
	for _, s := range r.Skipped {
		c.ByReason[s.Reason]++
	}
	return c
}

// Slower is a threshold; both must be passed. The zero value checks nothing.
type Slower struct {
	By     time.Duration
	Factor float64
}

// Options say how to compare. The zero value is strict.
type Options struct {
	// Ignore are paths in the documents, see ParseIgnore.
	Ignore []Ignore
	// IgnoreNumberSpelling: 1, 1.0 and 1e0 are the same.
	IgnoreNumberSpelling bool
	Slower               Slower
	// Bridged: one dialect is spoken on both sides, but the server behind is of
	// the other era on one of them, so that what only one era has is missing or
	// made up there.
	Bridged bool
	// CutA and CutB: that capture is not whole, so an operation that the other
	// has may only be missing from the file.
	CutA, CutB bool
	// Select picks what Captures reports: pairs of which it takes one side. All
	// operations are matched whatever it picks. nil takes all.
	Select func(*operation.Operation) bool
}

// How many differences and notes of one pair are kept; the verdict knows of all.
const (
	maxDifferences = 100
	maxNotes       = 50
)

// Operations compares one operation with what it has become. It is Different
// if a difference is more than a Note.
func Operations(a, b *operation.Operation, o Options) Pair {
	p := Pair{A: a, B: b, Verdict: Same}
	d := &differ{o: o, cross: a.Era != b.Era || o.Bridged, a: a, b: b}
	ended, endedB := outcomeOf(a) != operation.Unfinished, outcomeOf(b) != operation.Unfinished
	switch {
	case !ended && endedB:
		p.Verdict, p.Reason = Inconclusive, "it had not ended where the first capture ends"
		return p
	case ended && !endedB && o.CutB:
		p.Verdict, p.Reason = Inconclusive, "it had not ended where the second capture breaks off"
		return p
	}
	d.operations()
	p.Differences, p.Omitted = d.found, d.omitted
	if d.differs {
		p.Verdict = Different
		p.excuse()
	}
	return p
}

// excuse makes a pair Inconclusive whose difference the captures may have made.
func (p *Pair) excuse() {
	switch {
	case p.A.Gap || p.B.Gap:
		p.Verdict, p.Reason = Inconclusive, "frames were dropped from the capture while it ran"
	case p.A.Redacted != p.B.Redacted:
		p.Verdict, p.Reason = Inconclusive, "something was redacted on one side only"
	}
}

// operations fills d.found.
func (d *differ) operations() {
	a, b := d.a, d.b
	if d.alike() {
		d.pages()
		d.slower()
		return
	}
	d.da, d.db = document(a, d.cross, d.o.Ignore), document(b, d.cross, d.o.Ignore)
	if d.outcome() {
		d.document("result")
		d.document("error")
	}
	d.questions()
	d.notices()
	d.pages()
	if (a.Kind == operation.Task) != (b.Kind == operation.Task) {
		d.add(Difference{Path: "$", Kind: KindTask, Severity: Note, Text: "it ran as a task on one side only", Was: string(a.Kind), Now: string(b.Kind)})
	}
	d.slower()
}

// alike says at a glance that two operations are the same, but for their pages
// and time: most are, and need not be taken apart.
func (d *differ) alike() bool {
	a, b := d.a, d.b
	return !d.cross && a.Kind == b.Kind && a.Outcome == b.Outcome && a.Outcome != operation.Refused &&
		bytes.Equal(a.Result, b.Result) && bytes.Equal(a.Error, b.Error) &&
		len(a.Questions)+len(b.Questions)+len(noticeMethods(a, b)) == 0
}

func (d *differ) pages() {
	a, b := d.a, d.b
	if a.Kind == operation.List && b.Kind == operation.List && (a.Pages != b.Pages || a.More != b.More) {
		d.add(Difference{Path: "$", Kind: KindPages, Severity: Note, Text: "the listing came in another number of pages", Was: pagesText(a), Now: pagesText(b)})
	}
}

// slower compares how long the server took.
func (d *differ) slower() {
	s := d.o.Slower
	if s == (Slower{}) || d.a.Ended.IsZero() || d.b.Ended.IsZero() || d.a.Kind == operation.Listen || d.a.Kind == operation.Notice {
		return
	}
	was, now := Took(d.a), Took(d.b)
	if now-was > s.By && float64(now) > float64(was)*s.Factor {
		d.add(Difference{Path: "$", Kind: KindSlower, Severity: Worse, Text: "it took longer than the threshold allows", Was: was.String(), Now: now.String()})
	}
}

// Took is how long the server had an operation: without the time in which a
// question was the client's to answer, or in which the client had not yet asked
// for the next page or round.
func Took(op *operation.Operation) time.Duration {
	var took time.Duration
	if op.Kind == operation.Task {
		took = op.Ended.Sub(op.Began)
	} else {
		for i, p := range op.Parts {
			if p.Role == operation.RoleReply && p.To >= 0 && op.Parts[p.To].Role == operation.RoleRequest && i > p.To {
				took += p.Record.Time.Sub(op.Parts[p.To].Record.Time)
			}
		}
	}
	for _, q := range op.Questions {
		// Entries of inputRequests come with an answer of their own, after which
		// the clock of a plain call stands still anyway.
		if !q.Answered.IsZero() && (op.Kind == operation.Task || op.Era == translate.Legacy) {
			took -= q.Answered.Sub(q.Asked)
		}
	}
	return max(took, 0)
}
