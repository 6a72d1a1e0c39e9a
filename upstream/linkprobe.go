package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Probe finds out which era the server belongs to, over links of its own: some
// servers end on a first message they do not know, others never answer it
// (2026-07-28 stdio, Backward Compatibility). The first link is asked
// server/discover; when it ends, answers like no modern server does, or is
// silent, a second one gets initialize, and the first good answer wins. A modern
// link is kept for the callers to come. Errors are as Probe's.
func (s *links) Probe(ctx context.Context, target session.Target, o ProbeOptions) (Result, error) {
	if o.ClientName == "" {
		o.ClientName = "taskbridge"
	}
	if o.ClientVersion == "" {
		o.ClientVersion = "0"
	}
	o.Timeout = s.o.StartLimit
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.StartLimit, &textError{fmt.Sprintf("no answer within %v", s.o.StartLimit), context.DeadlineExceeded})
	defer cancel()
	pr := &linkProbe{s: s, target: target, o: o, answers: make(chan probeAnswer, 2)}
	defer pr.end()
	r, err := pr.run(ctx)
	if de := (*session.DialError)(nil); err == nil {
		s.pauses.Remove(s.o.prober(target))
	} else if ctx.Err() == nil && !(errors.As(err, &de) && passing(de.Status)) {
		s.early(s.o.prober(target))
	}
	if err == nil && r.Dual && o.LegacyFace {
		r = pr.legacyFace(ctx, r)
	}
	r.Transport = s.o.speaks
	return r, err
}

// linkProbe is one probe. Its fields are run's own.
type linkProbe struct {
	s       *links
	target  session.Target
	o       ProbeOptions
	answers chan probeAnswer // one from each link
	pipes   []*pipe
	kept    *pipe // the link to be kept
	why     string
}

// probeAnswer is what a server had to say over one link.
type probeAnswer struct {
	pipe   *pipe
	modern bool // to server/discover
	f      finding
	m      *jsonrpc.Message
	result Result
	err    error
}

func (pr *linkProbe) run(ctx context.Context) (Result, error) {
	if pr.o.Pin != translate.Legacy {
		if err := pr.askModern(ctx); err != nil {
			return Result{}, err
		}
	} else if err := pr.askLegacy(ctx, translate.LatestLegacy); err != nil {
		return Result{}, err
	}
	silence := time.NewTimer(pr.s.o.Silence)
	defer silence.Stop()
	asked := pr.o.Pin == translate.Legacy // whether initialize is under way
	waiting := 1
	var failed []error
	for waiting > 0 {
		select {
		case <-silence.C:
			if !asked && pr.o.Pin != translate.Modern {
				asked = true
				if err := pr.askLegacy(ctx, translate.LatestLegacy); err == nil {
					waiting++
				}
			}
			continue
		case a := <-pr.answers:
			waiting--
			r, next, err := pr.judge(ctx, a)
			if err == nil && next == "" {
				return r, nil
			}
			if next != "" && !asked {
				asked = true
				if err = pr.askLegacy(ctx, next); err == nil {
					waiting++
					continue
				}
			}
			if err != nil {
				failed = append(failed, err)
			}
		}
	}
	return Result{}, pr.failure(failed)
}

// judge reads one answer: a result, or the revision to try initialize with, or
// why this link is of no use.
func (pr *linkProbe) judge(ctx context.Context, a probeAnswer) (r Result, next string, err error) {
	p := &prober{conn: openPipe{a.pipe, newFace("", "")}, o: pr.o}
	switch {
	case !a.modern:
		return a.result, "", a.err
	case a.err != nil && ctx.Err() != nil:
		return Result{}, "", p.broken("server/discover", a.err)
	case a.err != nil: // it ended
		pr.why = "server/discover: " + a.err.Error()
		if pr.o.Pin == translate.Modern {
			return Result{}, "", p.broken("server/discover", a.err)
		}
		return Result{}, translate.LatestLegacy, p.broken("server/discover", a.err)
	case a.f.verdict == modern:
		p.o.LegacyFace = false
		if r, err = p.modern(ctx, a.f, a.m); err == nil {
			pr.kept = a.pipe
		}
		return r, "", err
	case a.f.verdict == foreign:
		return Result{}, "", p.fail(fmt.Errorf("it speaks only %s; this proxy speaks %s and %s; a newer proxy may help", quoteList(a.f.versions),
			strings.Join(translate.Versions(translate.Modern), ", "), strings.Join(translate.Versions(translate.Legacy), ", ")))
	case pr.o.Pin == translate.Modern:
		return Result{}, "", p.fail(fmt.Errorf("it is pinned to the modern era but answered server/discover with %s; use --upstream-era auto or legacy", a.f.why))
	}
	pr.why = "server/discover got " + a.f.why
	if next = newestLegacy(a.f.versions); next == "" {
		next = translate.LatestLegacy
	}
	return Result{}, next, nil
}

// failure is the error of a probe no link of which was of use: the last one
// tells most.
func (pr *linkProbe) failure(failed []error) error {
	if len(failed) == 0 {
		return pr.s.fail(session.FailBroken, fmt.Errorf("%w: %s", ErrUndecided, pr.why))
	}
	return failed[len(failed)-1]
}

// askModern asks over a link server/discover.
func (pr *linkProbe) askModern(ctx context.Context) error {
	p, err := pr.spawn(ctx, true)
	if err != nil {
		return err
	}
	pr.s.background(func() {
		pb := &prober{conn: openPipe{p, newFace("", "")}, o: pr.o}
		a := probeAnswer{pipe: p, modern: true}
		a.f, _, a.m, a.err = pb.discover(ctx, translate.LatestModern)
		pr.answers <- a
	})
	return nil
}

// askLegacy asks over another link to initialize.
func (pr *linkProbe) askLegacy(ctx context.Context, version string) error {
	p, err := pr.spawn(ctx, false)
	if err != nil {
		return err
	}
	pr.s.background(func() {
		pb := &prober{conn: openPipe{p, newFace("", "")}, o: pr.o}
		a := probeAnswer{pipe: p}
		a.result, a.err = pb.legacyOnly(ctx, version, strings.TrimPrefix(pr.why, "server/discover got "))
		pr.answers <- a
	})
	return nil
}

// spawn makes a link that is the probe's: how it ends is no reason to hold
// others back.
func (pr *linkProbe) spawn(ctx context.Context, modern bool) (*pipe, error) {
	p, err := pr.s.spawn(ctx, pr.s.o.prober(pr.target), pr.target, modern)
	if err != nil {
		return nil, err
	}
	pr.pipes = append(pr.pipes, p)
	return p, nil
}

// legacyFace asks a dual-era server to initialize over a link of its own.
func (pr *linkProbe) legacyFace(ctx context.Context, r Result) Result {
	p, err := pr.spawn(ctx, false)
	if err != nil {
		return r
	}
	pb := &prober{conn: openPipe{p, newFace("", "")}, o: pr.o}
	face, err := pb.initialize(ctx, r.LegacyVersion)
	if err != nil {
		r.Dual, r.LegacyVersion = false, ""
		return r
	}
	r.Initialize, r.LegacyTasks, r.LegacyVersion = face.Initialize, face.Tasks, face.Version
	return r
}

// end ends the probe's links but the one to be kept.
func (pr *linkProbe) end() {
	for _, p := range pr.pipes {
		if p == pr.kept && pr.s.keep(p, pr.target) {
			continue
		}
		pr.s.retire(p)
	}
}

// keep makes a probe's link that of the target's modern callers, if there is none.
func (s *links) keep(p *pipe, target session.Target) bool {
	key := s.o.key(target)
	if s.takeTurn(s.ctx, key) != nil {
		return false
	}
	defer s.endTurn(key)
	if s.alive(key) != nil {
		return false
	}
	s.adopt(p, target)
	return true
}
