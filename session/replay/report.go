package replay

import (
	"slices"

	"taskbridge/translate"
	"taskbridge/translate/compare"
	"taskbridge/translate/operation"
)

// Report compares each selected operation with what has become of it. bridged
// says whether the server is of another era than the one the operation was
// recorded with; nil: it never is.
func (o *Outcome) Report(opts compare.Options, bridged func(*operation.Operation) bool) *compare.Report {
	again := map[int]*operation.Operation{}
	for _, op := range operation.Gather(slices.Values(o.Records), translate.ClientLeg) {
		if n := OperationOf(op); n > 0 && again[n] == nil {
			again[n] = op
		}
	}
	report := &compare.Report{}
	for _, r := range o.Results {
		switch {
		case !r.Selected:
		case !r.Send:
			report.Skipped = append(report.Skipped, compare.Skip{Op: r.Op, Reason: string(r.Reason)})
		default:
			one := opts
			one.Bridged = bridged != nil && bridged(r.Op)
			report.Pairs = append(report.Pairs, r.pair(again[r.Op.N], one))
		}
	}
	return report
}

func (r *Result) pair(now *operation.Operation, o compare.Options) compare.Pair {
	switch {
	case r.Full:
		return compare.Pair{A: r.Op, B: now, Verdict: compare.Inconclusive, Reason: "more came back than is kept"}
	case now == nil && len(r.Notes) > 0:
		return compare.Pair{A: r.Op, Verdict: compare.Inconclusive, Reason: r.Notes[0]}
	case now == nil:
		return compare.Pair{A: r.Op, Verdict: compare.Inconclusive, Reason: "nothing came of it"}
	}
	p := compare.Operations(r.Op, now, o)
	if r.Endless {
		p.Verdict = compare.Different
		p.Differences = append(p.Differences, compare.Difference{
			Path: "$", Kind: compare.KindPages, Severity: compare.Worse, Text: "the listing has no end: a page leads back to one before it",
		})
	}
	return p
}
