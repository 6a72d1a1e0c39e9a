package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/upstream/child"
)

// spawn starts a child, after a pause if the principal's last ones ended early.
func (s *Stdio) spawn(ctx context.Context, principal session.Principal, modern bool) (*pipe, error) {
	if err := s.wait(ctx, principal); err != nil {
		return nil, err
	}
	s.mu.Lock()
	full := len(s.pipes) >= s.o.MaxChildren
	closed := s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, s.fail(session.FailUnreachable, ErrClosed)
	case full:
		return nil, s.fail(session.FailBusy, fmt.Errorf("%d server processes are running, as many as may; try again later, or see --max-children", s.o.MaxChildren))
	}
	name := fmt.Sprintf("%s-%d", s.o.Name, s.started.Add(1))
	proc, err := child.Start(child.Spec{
		Path: s.o.Command[0], Args: s.o.Command[1:], Env: s.o.Env, Dir: s.o.Dir,
		CloseGrace: s.o.CloseGrace, TermGrace: s.o.TermGrace, Guard: s.o.Guard,
		Log: func(line string) { s.log.Info("server process says", "process", name, "line", quote(line, 2<<10)) },
	})
	if err != nil {
		s.early(principal)
		return nil, s.fail(session.FailProcess, s.hidden("the server process could not be started", err.Error()))
	}
	s.log.Debug("started a server process", "process", name, "pid", proc.PID())
	p := s.newPipe(proc, name, modern)
	p.mu.Lock()
	p.owner = principal
	p.mu.Unlock()
	s.mu.Lock()
	s.pipes[p] = time.Now()
	closed = s.closed
	s.mu.Unlock()
	if closed { // Close may not have seen it
		go proc.Stop()
	}
	return p, nil
}

// wait holds a restart back.
func (s *Stdio) wait(ctx context.Context, principal session.Principal) error {
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

// early notes that a child ended too soon, or did not start.
func (s *Stdio) early(principal session.Principal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, _ := s.pauses.Get(principal)
	d := lastPause
	if held.times < 6 {
		d = firstPause << held.times
	}
	held.times++
	held.until = time.Now().Add(d)
	s.pauses.Add(principal, held)
}

// buried settles a child that has ended.
func (s *Stdio) buried(p *pipe, why error) {
	s.mu.Lock()
	began, alive := s.pipes[p]
	delete(s.pipes, p)
	if s.modern == p {
		s.modern = nil
	}
	if s.shared == p {
		s.shared = nil
	}
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
	g := &grave{why: why, principal: owner, at: time.Now()}
	for _, id := range tasks {
		s.lost.Add(id, g)
	}
	if !alive || closed || owner == probePrincipal { // it was to end, or its probe tells
		return
	}
	s.log.Warn("a server process ended by itself", "process", p.name, "why", why.Error())
	if time.Since(began) < steady {
		s.early(owner)
		return
	}
	s.pauses.Remove(owner)
}

// exitError says how a child ended by itself.
func (s *Stdio) exitError(p *pipe) error {
	s.mu.Lock()
	_, alive := s.pipes[p]
	s.mu.Unlock()
	if !alive {
		return s.fail(session.FailProcess, errors.New("the server process was ended with its session"))
	}
	e := p.proc.Exit()
	text := "the server process ended"
	if e.Text != "" {
		text += ": " + e.Text
	}
	var tail []string
	for _, line := range e.Tail {
		tail = append(tail, quote(line, 256))
	}
	return s.fail(session.FailProcess, s.hidden(text, strings.Join(tail, " ")))
}

// hidden is an error whose detail only callers on this machine see: it may hold
// what is none of others' business (case S56). Those get a reference to a line
// in the log.
func (s *Stdio) hidden(text, detail string) error {
	switch {
	case detail == "":
		return errors.New(text)
	case s.o.ShowTail:
		return fmt.Errorf("%s; it said: %s", text, detail)
	}
	ref := rand.Text()[:8]
	s.log.Warn(text, "reference", ref, "detail", detail)
	return fmt.Errorf("%s; reference %s in the proxy's log", text, ref)
}

// modernAlive is the shared modern child, if there is one.
func (s *Stdio) modernAlive() *pipe {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.modern
}

// modernChild is the shared modern child, started if need be. One caller
// starts it; the others wait.
func (s *Stdio) modernChild(ctx context.Context) (*pipe, error) {
	if p := s.modernAlive(); p != nil {
		return p, nil
	}
	if err := s.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer s.endTurn()
	if p := s.modernAlive(); p != nil {
		return p, nil
	}
	p, err := s.spawn(ctx, sharedPrincipal, true)
	if err != nil {
		return nil, err
	}
	s.adopt(p)
	return p, nil
}

// adopt makes p the shared modern child.
func (s *Stdio) adopt(p *pipe) {
	p.mu.Lock()
	p.owner = sharedPrincipal
	p.faces[""] = newFace("", "")
	p.mu.Unlock()
	s.mu.Lock()
	s.modern = p
	s.mu.Unlock()
	if p.dead() != nil { // buried may have looked before
		s.mu.Lock()
		if s.modern == p {
			s.modern = nil
		}
		s.mu.Unlock()
	}
}

// sharedPrincipal owns what all callers share, probePrincipal the children of
// probes. No caller's principal has their form.
const (
	sharedPrincipal = session.Principal("\x00shared")
	probePrincipal  = session.Principal("\x00probe")
)

func (s *Stdio) takeTurn(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return s.fail(session.FailUnreachable, context.Cause(ctx))
	case <-s.ctx.Done():
		return s.fail(session.FailUnreachable, ErrClosed)
	}
}

func (s *Stdio) endTurn() { <-s.turn }

// open begins a legacy session: a child of its own is started, or the shared
// one is joined.
func (c stdioConn) open(ctx context.Context, m *jsonrpc.Message) (session.Stream, error) {
	s := c.s
	if s.o.Share {
		if err := s.takeTurn(ctx); err != nil {
			return nil, err
		}
		defer s.endTurn()
		s.mu.Lock()
		p := s.shared
		s.mu.Unlock()
		if p != nil {
			return c.join(p, m)
		}
	}
	owner := c.principal
	if s.o.Share {
		owner = sharedPrincipal
	}
	p, err := s.spawn(ctx, owner, false)
	if err != nil {
		return nil, err
	}
	st, err := c.initialize(ctx, p, m)
	if err != nil {
		s.retire(p)
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

func (c stdioConn) initialize(ctx context.Context, p *pipe, m *jsonrpc.Message) (*pipeStream, error) {
	s := c.s
	f := newFace(newSessionID(), c.principal)
	st := s.newStream(envelope(http.StatusOK, f.id))
	st.start = true
	p.mu.Lock()
	p.faces[f.id] = f
	p.mu.Unlock()
	s.mu.Lock()
	s.faces[f.id] = p
	s.mu.Unlock()
	p.start = time.AfterFunc(s.o.StartLimit, func() {
		p.giveUp(fmt.Errorf("it did not answer initialize within %v", s.o.StartLimit))
	})
	return st, p.request(ctx, f, m, st)
}

// greeted: a child answered initialize. One that refused has no session.
func (s *Stdio) greeted(p *pipe, st *pipeStream, m *jsonrpc.Message) {
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
		s.mu.Lock()
		s.shared = p
		s.mu.Unlock()
	}
	close(p.ready)
}

// join opens a further session on a child that all share: it was greeted once,
// and its answer is everybody's.
func (c stdioConn) join(p *pipe, m *jsonrpc.Message) (session.Stream, error) {
	f := newFace(newSessionID(), c.principal)
	f.shared = true
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

// grave is what is remembered of a child that has ended: its tasks have ended
// with it (case B39).
type grave struct {
	why       error
	principal session.Principal
	at        time.Time
}

// made says whether the child made the task m names.
func (p *pipe) made(m *jsonrpc.Message) bool {
	id, _ := m.At("params", "taskId").Str()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tasks.known[id]
}

// buriedTask finds the grave of the child that had the task a request names.
func (s *Stdio) buriedTask(m *jsonrpc.Message, principal session.Principal) *grave {
	switch m.Method {
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/update":
	default:
		return nil
	}
	id, _ := m.At("params", "taskId").Str()
	g, ok := s.lost.Get(id)
	if !ok || g.principal != principal && g.principal != sharedPrincipal {
		return nil
	}
	return g
}

// text is what a caller is told of it.
func (g *grave) text() string {
	var de *session.DialError
	if errors.As(g.why, &de) {
		return de.Err.Error()
	}
	return g.why.Error()
}

func (g *grave) failed(m *jsonrpc.Message) *jsonrpc.ObjectBuilder {
	id, _ := m.At("params", "taskId").Str()
	at := g.at.UTC().Format(time.RFC3339Nano)
	return jsonrpc.NewObject().Str("taskId", id).Str("status", translate.Failed).Str("statusMessage", g.text()).
		Str("createdAt", at).Str("lastUpdatedAt", at)
}

func (g *grave) legacyAnswer(m *jsonrpc.Message) *jsonrpc.Message {
	switch m.Method {
	case "tasks/get":
		return mustMessage(jsonrpc.NewResult(m.ID, g.failed(m).Raw("ttl", []byte("null")).Bytes()))
	case "tasks/cancel":
		return mustMessage(jsonrpc.NewError(m.ID, -32602, "the task has ended: "+g.text(), nil))
	}
	return mustMessage(jsonrpc.NewError(m.ID, -32603, g.text(), nil))
}

func (g *grave) modernAnswer(m *jsonrpc.Message) *jsonrpc.Message {
	if m.Method != "tasks/get" {
		return mustMessage(jsonrpc.NewResult(m.ID, []byte(`{"resultType":"complete"}`)))
	}
	failure := jsonrpc.NewObject().Int("code", -32603).Str("message", g.text()).Bytes()
	return mustMessage(jsonrpc.NewResult(m.ID, g.failed(m).Raw("ttlMs", []byte("null")).Raw("error", failure).Str("resultType", "complete").Bytes()))
}

func mustMessage(raw []byte) *jsonrpc.Message {
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil {
		panic("upstream: a message of ours cannot be read: " + err.Error())
	}
	return m
}
