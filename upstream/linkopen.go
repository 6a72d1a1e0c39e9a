package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"taskbridge/session"
	"taskbridge/translate/jsonrpc"
)

// spawn makes a link as target for owner, after a pause if the owner's last ones
// ended early.
func (s *links) spawn(ctx context.Context, owner session.Principal, target session.Target, modern bool) (*pipe, error) {
	return s.spawnBy(ctx, owner, target, modern, s.o.open)
}

// spawnBy is spawn with another way to open the channel.
func (s *links) spawnBy(ctx context.Context, owner session.Principal, target session.Target, modern bool,
	open func(context.Context, string, session.Target) (channel, error),
) (*pipe, error) {
	if err := s.wait(ctx, owner); err != nil {
		return nil, err
	}
	s.makeRoom()
	s.mu.Lock()
	closed, full := s.closed, len(s.pipes)+s.opening >= s.o.Max
	if !closed && !full {
		s.opening++
	}
	s.mu.Unlock()
	switch {
	case closed:
		return nil, s.fail(session.FailUnreachable, ErrClosed)
	case full:
		return nil, s.fail(session.FailBusy, errors.New(s.o.full))
	}
	name := fmt.Sprintf("%s-%d", s.o.Name, s.started.Add(1))
	ch, err := open(ctx, name, target)
	if err != nil {
		s.showRefused(name, target, err)
		s.mu.Lock()
		s.opening--
		s.mu.Unlock()
		if de := (*session.DialError)(nil); ctx.Err() == nil && !(errors.As(err, &de) && passing(de.Status)) {
			s.early(owner)
		}
		return nil, err
	}
	p := s.newPipe(ch, name, modern, owner)
	s.mu.Lock()
	s.opening--
	s.pipes[p] = time.Now()
	closed = s.closed
	s.mu.Unlock()
	s.begin(p)
	if closed { // Close may not have seen it
		go ch.stop()
	}
	return p, nil
}

// wait holds a new link back.
func (s *links) wait(ctx context.Context, principal session.Principal) error {
	held, _ := s.pauses.Get(principal)
	d := time.Until(held.until)
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return s.fail(session.FailUnreachable, context.Cause(ctx))
	case <-s.ctx.Done():
		return s.fail(session.FailUnreachable, ErrClosed)
	}
}

// early notes that a link ended too soon, or could not be made.
func (s *links) early(principal session.Principal) {
	s.down.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	held, _ := s.pauses.Get(principal)
	d := s.o.longest
	if held.times < 6 {
		d = min(d, firstPause<<held.times)
	}
	held.times++
	held.until = time.Now().Add(d)
	s.pauses.Add(principal, held)
}

// buried settles a link that has ended. The grave, nil where its tasks may live
// on, says what has become of them.
func (s *links) buried(p *pipe, why error) (g *grave) {
	s.mu.Lock()
	began, alive := s.pipes[p]
	delete(s.pipes, p)
	s.vacate(p)
	for id, at := range s.faces {
		if at == p {
			delete(s.faces, id)
		}
	}
	closed := s.closed
	s.mu.Unlock()
	p.mu.Lock()
	tasks, owner := p.tasks.keys, p.owner
	p.mu.Unlock()
	if s.o.mortal {
		g = &grave{why: why, principal: owner, at: time.Now()}
		for _, id := range tasks {
			s.lost.Add(id, g)
		}
	}
	if !alive || closed || strings.HasPrefix(string(owner), string(probePrincipal)) { // it was to end, or its probe tells
		return g
	}
	s.log.Warn("a "+s.o.noun+" ended by itself", s.o.kind, p.name, "why", why.Error())
	s.mu.Lock()
	if len(s.pipes) == 0 {
		s.down.Store(true)
	}
	s.mu.Unlock()
	if time.Since(began) < steady {
		s.early(owner)
		return g
	}
	s.pauses.Remove(owner)
	return g
}

// errStartLimit: the server does not answer initialize; it would not another time.
var errStartLimit = errors.New("start limit")

// alive is the link of a slot, if there is one.
func (s *links) alive(key string) *pipe {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl := s.slots[key]; sl != nil && sl.p != nil && sl.p.dead() == nil { // buried may not have looked yet
		return sl.p
	}
	return nil
}

// modernLink is the link the modern callers of target's key share, made if need
// be. One caller makes it; the others wait.
func (s *links) modernLink(ctx context.Context, target session.Target) (*pipe, error) {
	key := s.o.key(target)
	if p := s.alive(key); p != nil {
		return p, nil
	}
	if err := s.takeTurn(ctx, key); err != nil {
		return nil, err
	}
	defer s.endTurn(key)
	if p := s.alive(key); p != nil {
		return p, nil
	}
	p, err := s.spawn(ctx, s.o.owner(target), target, true)
	if err != nil {
		return nil, err
	}
	s.adopt(p, target)
	return p, nil
}

// adopt makes p the modern link of target's key, whose turn is held.
func (s *links) adopt(p *pipe, target session.Target) {
	p.mu.Lock()
	p.owner = s.o.owner(target)
	p.faces[""] = newFace("", "")
	p.mu.Unlock()
	s.occupy(p, s.o.key(target))
}

// occupy puts p into a slot.
func (s *links) occupy(p *pipe, key string) {
	s.mu.Lock()
	p.slot = key
	if s.slots[key] == nil {
		s.slots[key] = &slot{turn: make(chan struct{}, 1)}
	}
	s.slots[key].p = p
	if p.dead() != nil { // buried may have looked before
		s.vacate(p)
	}
	s.mu.Unlock()
}

// vacate takes p out of its slot; it needs s.mu.
func (s *links) vacate(p *pipe) {
	sl := s.slots[p.slot]
	if sl == nil || sl.p != p {
		return
	}
	sl.p = nil
	if sl.users == 0 {
		delete(s.slots, p.slot)
	}
}

// sharedPrincipal owns what all callers share, probePrincipal the links of
// probes. No caller's principal has their form.
const (
	sharedPrincipal = session.Principal("\x00shared")
	probePrincipal  = session.Principal("\x00probe")
)

// takeTurn waits for the right to fill a slot.
func (s *links) takeTurn(ctx context.Context, key string) error {
	s.mu.Lock()
	sl := s.slots[key]
	if sl == nil {
		sl = &slot{turn: make(chan struct{}, 1)}
		s.slots[key] = sl
	}
	sl.users++
	s.mu.Unlock()
	var err error
	select {
	case sl.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-s.ctx.Done():
		err = ErrClosed
	}
	s.leave(key, sl)
	return s.fail(session.FailUnreachable, err)
}

func (s *links) endTurn(key string) {
	s.mu.Lock()
	sl := s.slots[key]
	s.mu.Unlock()
	<-sl.turn
	s.leave(key, sl)
}

func (s *links) leave(key string, sl *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl.users--; sl.users == 0 && sl.p == nil {
		delete(s.slots, key)
	}
}

// open begins a legacy session: a link of its own is made, or the shared one is
// joined.
func (c linkConn) open(ctx context.Context, m *jsonrpc.Message) (session.Stream, error) {
	s := c.s
	if s.o.Share {
		if err := s.takeTurn(ctx, sharedKey); err != nil {
			return nil, err
		}
		defer s.endTurn(sharedKey)
		if p := s.alive(sharedKey); p != nil {
			return c.join(p, m)
		}
	}
	owner := c.target.Principal
	if s.o.Share {
		owner = sharedPrincipal
	}
	p, err := s.spawn(ctx, owner, c.target, false)
	if err != nil {
		return nil, err
	}
	st, err := c.begin(ctx, p, m)
	if err != nil {
		return nil, err
	}
	if s.o.Share {
		select {
		case <-p.ready:
		case <-p.gone:
		case <-ctx.Done():
		}
	}
	return st, nil
}

// begin opens the session of a new link.
func (c linkConn) begin(ctx context.Context, p *pipe, m *jsonrpc.Message) (session.Stream, error) {
	st, err := c.initialize(ctx, p, m)
	if err != nil {
		c.s.retire(p)
		return nil, err
	}
	return st, nil
}

func (c linkConn) initialize(ctx context.Context, p *pipe, m *jsonrpc.Message) (*pipeStream, error) {
	s := c.s
	f := newFace(s.newSessionID(), c.target.Principal)
	f.key = s.o.key(c.target)
	st := s.newStream(envelope(http.StatusOK, f.id))
	st.start = true
	p.mu.Lock()
	p.faces[f.id] = f
	p.mu.Unlock()
	s.mu.Lock()
	s.faces[f.id] = p
	s.mu.Unlock()
	p.start = time.AfterFunc(s.o.StartLimit, func() {
		p.giveUp(&textError{fmt.Sprintf("it did not answer initialize within %v", s.o.StartLimit), errStartLimit})
	})
	return st, p.request(ctx, f, m, st)
}

// greeted: a server answered initialize. Who refused has no session.
func (s *links) greeted(p *pipe, st *pipeStream, m *jsonrpc.Message) {
	p.start.Stop()
	if m.Kind == jsonrpc.ErrorResponse {
		s.mu.Lock()
		delete(s.faces, st.face.id)
		s.mu.Unlock()
		s.retire(p)
		return
	}
	p.mu.Lock()
	p.init = m
	p.mu.Unlock()
	if s.o.Share {
		s.occupy(p, sharedKey)
	}
	close(p.ready)
}

// join opens a further session on a link that all share: it was greeted once,
// and its answer is everybody's.
func (c linkConn) join(p *pipe, m *jsonrpc.Message) (session.Stream, error) {
	f := newFace(c.s.newSessionID(), c.target.Principal)
	f.key, f.shared = c.s.o.key(c.target), true
	p.mu.Lock()
	if p.ended != nil {
		p.mu.Unlock()
		return nil, p.ended
	}
	p.faces[f.id] = f
	init := p.init
	p.mu.Unlock()
	c.s.mu.Lock()
	c.s.faces[f.id] = p
	c.s.mu.Unlock()
	e := init.Edit()
	e.Set(init.Root(), "id", m.ID.Raw())
	st := c.s.said(respell(e, init))
	st.env = envelope(http.StatusOK, f.id)
	return st, nil
}
