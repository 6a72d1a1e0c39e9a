package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"taskbridge/session/replay"
	"taskbridge/translate/compare"
)

// dryRun says what would be sent, and what not and why.
func (a *app) dryRun(plan *replay.Plan) error {
	sent, skipped := 0, 0
	callers := map[string]int{}
	for _, s := range plan.Steps {
		line := fmt.Sprintf("%d %s %s", s.Op.N, showText(s.Op.Method, maxShown), showText(s.Op.Name, maxShown))
		switch {
		case s.Send && s.Selected:
			sent++
			callers[s.Op.Principal]++
			line = "send " + line
		case s.Send:
			line = "send " + line + ": others stand on it"
		case s.Selected:
			skipped++
			line = "skip " + line + ": " + showText(s.Why, maxShownError)
		default:
			continue
		}
		if _, err := fmt.Fprintln(a.stdout, line); err != nil {
			return err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(callers)) {
		if p != "" { // what --credentials knows a caller by
			if _, err := fmt.Fprintf(a.stdout, "principal %s: %d operations\n", showText(p, maxShown), callers[p]); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(a.stdout, "%d operations would be sent and compared, %d would not\n", sent, skipped)
	return err
}

// progress shows on a terminal how far a replay is.
type progress struct {
	w     io.Writer // nil: no terminal
	all   int
	start time.Time

	mu    sync.Mutex // protects the fields below
	over  int
	shown time.Time
}

func (a *app) newProgress(plan *replay.Plan) *progress {
	p := &progress{start: time.Now()}
	for _, s := range plan.Steps {
		if s.Selected && s.Send {
			p.all++
		}
	}
	w := a.stderr
	if l, ok := w.(*lockedWriter); ok {
		w = l.w
	}
	if terminal(w) {
		p.w = a.stderr
	}
	return p
}

// progressEvery bounds how often a line is drawn anew.
const progressEvery = 100 * time.Millisecond

func (p *progress) done(*replay.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over++
	if p.w == nil || time.Since(p.shown) < progressEvery {
		return
	}
	p.shown = time.Now()
	fmt.Fprintf(p.w, "\r\x1b[K%d of %d operations, %v", p.over, p.all, time.Since(p.start).Round(time.Second))
}

// end leaves no line behind.
func (p *progress) end() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// lacking says why the whole is not the same although each operation compared
// is, or "".
func (r *replaying) lacking(found *compare.Report) string {
	switch {
	case len(found.Skipped) > 0:
		return fmt.Sprintf("%d were not replayed", len(found.Skipped))
	case !r.in.whole:
		return "the capture is not whole: " + r.in.why
	}
	return ""
}
