package offline

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/operation"
)

// SourceOptions are TranslateOptions for a capture that need not fit in memory.
type SourceOptions struct {
	Source capture.Source
	To     string
	Out    *capture.Writer
	// Change, if set, may change each translated record: redaction.
	Change func(*capture.Record)
	// Unreadable is told of lines that are left out; nil: nobody.
	Unreadable func(error)
	// Progress is told now and then how many records are done, at first 0; one
	// call at a time; nil: nobody.
	Progress func(done, all int)
	Logger   *slog.Logger
}

// TranslateSource translates a capture one conversation after the other (as
// many at once as there are processors), so that no more than these are in
// memory; the rest waits on disk. Records of the server leg are left out: they
// are another conversation.
func TranslateSource(ctx context.Context, o SourceOptions) (*Report, error) {
	in, err := newSpool()
	if err != nil {
		return nil, err
	}
	defer in.close()
	out, err := newSpool()
	if err != nil {
		return nil, err
	}
	defer out.close()
	t := &sourceTranslation{o: o, in: in, out: out, report: &Report{Losses: map[string]int{}}}
	if err := t.read(ctx); err != nil {
		return nil, err
	}
	if o.Progress != nil {
		o.Progress(0, t.all)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for n, records := range t.byLane {
		group.Go(func() error { return t.lane(ctx, n, records) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return t.report, t.write()
}

type sourceTranslation struct {
	o       SourceOptions
	in, out *spool
	byLane  [][]place
	all     int

	mu     sync.Mutex // protects the fields below, out and o.Progress
	report *Report
	said   []said
	done   int
}

// said is a translated record's place and what it is ordered by.
type said struct {
	place
	at      int64
	lane    int32
	seq     int32
	dropped int
}

// read puts the capture on disk and finds what belongs together.
func (t *sourceTranslation) read(ctx context.Context) error {
	l := newLanes()
	var places []place
	var groups []int32
	for ctx.Err() == nil {
		r, err := t.o.Source.Next()
		bad, unreadable := errors.AsType[*capture.FormatError](err)
		switch {
		case unreadable:
			if t.o.Unreadable != nil {
				t.o.Unreadable(bad)
			}
			continue
		case errors.Is(err, io.EOF), errors.Is(err, capture.ErrNotWhole):
			t.sort(l, places, groups)
			return t.in.flush()
		case err != nil:
			return err
		}
		if r.Dropped == 0 && r.Leg != translate.ClientLeg {
			continue
		}
		if r.Dropped > 0 {
			if err := t.keep(&r, -1, len(t.said)); err != nil {
				return err
			}
			continue
		}
		p, err := t.in.add(&r)
		if err != nil {
			return err
		}
		places, groups = append(places, p), append(groups, l.add(&r))
	}
	return ctx.Err()
}

func (t *sourceTranslation) sort(l *lanes, places []place, groups []int32) {
	t.all = len(places)
	index := map[int32]int{}
	for i, p := range places {
		root := l.find(groups[i])
		n, known := index[root]
		if !known {
			n = len(t.byLane)
			index[root] = n
			t.byLane = append(t.byLane, nil)
		}
		t.byLane[n] = append(t.byLane[n], p)
	}
}

// lane translates one conversation.
func (t *sourceTranslation) lane(ctx context.Context, n int, places []place) error {
	g := operation.NewGatherer(translate.ClientLeg)
	for _, p := range places {
		r, err := t.in.get(p)
		if err != nil {
			return err
		}
		g.Add(r)
	}
	seq := 0
	report, err := Translate(ctx, TranslateOptions{
		Operations: g.Operations(), To: t.o.To, Logger: t.o.Logger, Lane: n,
		Out: func(r *capture.Record) error {
			seq++
			t.mu.Lock()
			defer t.mu.Unlock()
			return t.keep(r, int32(n), seq)
		},
	})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.add(report)
	t.done += len(places)
	if t.o.Progress != nil {
		t.o.Progress(t.done, t.all)
	}
	return nil
}

// keep puts a translated record on disk; it needs t.mu once lanes run.
func (t *sourceTranslation) keep(r *capture.Record, lane int32, seq int) error {
	if t.o.Change != nil {
		t.o.Change(r)
	}
	p, err := t.out.add(r)
	t.said = append(t.said, said{p, r.Time.UnixNano(), lane, int32(seq), r.Dropped})
	return err
}

// write hands the translated records on in the order of their times.
func (t *sourceTranslation) write() error {
	if err := t.out.flush(); err != nil {
		return err
	}
	slices.SortFunc(t.said, func(a, b said) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.lane, b.lane), cmp.Compare(a.seq, b.seq))
	})
	for _, s := range t.said {
		line, err := t.out.line(s.place)
		if err == nil {
			err = t.o.Out.WriteLine(line, s.dropped)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add takes the figures of a part.
func (r *Report) add(part *Report) {
	r.Operations += part.Operations
	r.Kept += part.Kept
	r.Misses += part.Misses
	r.Unfinished += part.Unfinished
	for name, n := range part.Losses {
		r.Losses[name] += n
	}
	r.Missed = append(r.Missed, part.Missed[:min(len(part.Missed), maxMissed-len(r.Missed))]...)
}
