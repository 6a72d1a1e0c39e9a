package upstream

import (
	"errors"
	"time"

	"taskbridge/session"
)

// errUnused: the link was ended because nobody used it. What comes now gets
// another.
var errUnused = errors.New("the connection was closed, as nobody used it")

// sweep ends links nobody has used for long.
func (s *links) sweep() {
	t := time.NewTicker(s.o.idle / 2)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			for _, p := range s.modernLinks() {
				s.endUnused(p, time.Now().Add(-s.o.idle))
			}
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *links) modernLinks() []*pipe {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*pipe
	for _, sl := range s.slots {
		if sl.p != nil && sl.p.modern {
			all = append(all, sl.p)
		}
	}
	return all
}

// makeRoom ends the link unused for longest where there are too many.
func (s *links) makeRoom() {
	s.mu.Lock()
	full := s.o.idle > 0 && len(s.pipes)+s.opening >= s.o.Max
	s.mu.Unlock()
	if !full {
		return
	}
	var oldest *pipe
	var since time.Time
	for _, p := range s.modernLinks() {
		p.mu.Lock()
		if len(p.calls) == 0 && (oldest == nil || p.used.Before(since)) {
			oldest, since = p, p.used
		}
		p.mu.Unlock()
	}
	if oldest != nil {
		s.endUnused(oldest, since)
	}
}

// endUnused ends p if it has no request and has had none after since.
func (s *links) endUnused(p *pipe, since time.Time) {
	p.mu.Lock()
	if p.ended != nil || len(p.calls) > 0 || p.used.After(since) {
		p.mu.Unlock()
		return
	}
	p.ended = s.fail(session.FailUnreachable, errUnused)
	close(p.gone)
	p.calls = nil
	p.mu.Unlock()
	s.mu.Lock()
	delete(s.pipes, p)
	s.vacate(p)
	s.mu.Unlock()
	p.out.close()
	s.background(p.ch.stop)
}
