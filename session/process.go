package session

import (
	"crypto/rand"
	"encoding/base64"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
)

// Process is what the runners of one process share: the id other processes
// know it by, the numbers of client streams and exchanges, and what is bounded
// for the process: streams that wait, events kept for clients that come back.
// So a stream has its name before it is known which runner answers on it. Safe
// for concurrent use.
type Process struct {
	id  string
	seq atomic.Uint64

	once sync.Once
	kept *keptLogs // made with the first runner

	mu      sync.Mutex // protects waiting
	waiting map[waitKind]int64
}

// waitKind is whose streams are counted: of a route or of the whole process, all
// or those of one limitKey.
type waitKind struct {
	whole      bool
	route, key string
}

// keeps counts the events that streams of the process keep; the first runner's
// bound is that of all.
func (p *Process) keeps(bytes int64) *keptLogs {
	p.once.Do(func() { p.kept = newKeptLogs(bytes) })
	return p.kept
}

// admit counts a stream that may stay open for long, by limitKey, and returns
// what it is counted as, for leave; none: there are as many as may be. above is
// the limit over all routes; nil: there is none.
func (p *Process) admit(route, key string, own Limit, above *Limit) []waitKind {
	counted := []waitKind{{route: route}, {route: route, key: key}}
	most := []int64{own.All, own.Each}
	if above != nil {
		counted = append(counted, waitKind{whole: true}, waitKind{whole: true, key: key})
		most = append(most, above.All, above.Each)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, k := range counted {
		if p.waiting[k] >= most[i] {
			return nil
		}
	}
	for _, k := range counted {
		p.waiting[k]++
	}
	return counted
}

// leave is the inverse.
func (p *Process) leave(counted []waitKind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range counted {
		if p.waiting[k]--; p.waiting[k] <= 0 {
			delete(p.waiting, k)
		}
	}
}

// NewProcess returns a Process with a random id from r; nil: crypto/rand.
func NewProcess(r io.Reader) *Process {
	if r == nil {
		r = rand.Reader
	}
	return newProcess(r)
}

func newProcess(r io.Reader) *Process {
	return &Process{id: "r" + randomText(r, 6), waiting: map[waitKind]int64{}}
}

// randomText is n random bytes as header-safe text.
func randomText(r io.Reader, n int) string {
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		panic("session: no random bytes: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// next names a stream or exchange: the process, a point, a number never used
// again.
func (p *Process) next() string {
	b := make([]byte, 0, len(p.id)+21)
	b = append(append(b, p.id...), '.')
	return string(strconv.AppendUint(b, p.seq.Add(1), 10))
}

// adopt makes s a stream of this runner's, whoever had it before. A stream
// whose reader has left already stays nobody's.
func (r *Runner) adopt(s *ClientStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return
	}
	if old := s.home.Swap(r); old != nil && old != r {
		old.mu.Lock()
		delete(old.streams, s.ID)
		old.mu.Unlock()
	}
	s.onGone = func() { r.gone(s) }
	r.mu.Lock()
	r.streams[s.ID] = &attached{stream: s}
	r.mu.Unlock()
}

// whenGone has f called once the reader of s has left, for a stream that no
// runner has.
func (s *ClientStream) whenGone(f func()) {
	s.mu.Lock()
	gone := s.gone
	s.onGone = f
	if old := s.home.Swap(nil); old != nil {
		old.mu.Lock()
		delete(old.streams, s.ID)
		old.mu.Unlock()
	}
	s.mu.Unlock()
	if gone {
		f()
	}
}

// policy is what holds for work that begins now.
func (r *Runner) policy() *Policy { return r.policyNow.Load() }

// SetPolicy changes what holds from the next step on. What is bounded for all
// of the process (ResumeBytes, PollRate) stays as it was made.
func (r *Runner) SetPolicy(p Policy) {
	p = p.withDefaults()
	r.policyNow.Store(&p)
}

// sealKinds are the labels of what is sealed for callers to bring back. Those
// of one upstream open nothing of another's.
type sealKinds struct{ state, upState, upCursor string }

// defaultUpstream is the name of the one upstream that is given by flags, whose
// labels carry no name.
const defaultUpstream = "default"

// upstreamMark stands in kinds between what is sealed and the upstream it is of.
const upstreamMark = "@"

func newSealKinds(upstream string) sealKinds {
	of := ""
	if upstream != defaultUpstream {
		of = upstreamMark + upstream
	}
	return sealKinds{state: kindState + of, upState: kindUpState + of, upCursor: kindUpCursor + of}
}

// openTask opens a handle of this runner's upstream; those of others are
// unknown here.
func (r *Runner) openTask(handle string, p Principal) (TaskRef, bool) {
	ref, ok := r.handles.OpenTask(handle, p)
	return ref, ok && ref.Upstream == r.upstream
}
