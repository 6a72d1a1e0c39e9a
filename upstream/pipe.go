package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/lines"
)

const (
	// maxTracked bounds what is remembered of one link: progress tokens that
	// outlive their request, questions nobody has answered, requests whose sender
	// has left, tasks.
	maxTracked = 10000
	// maxPendingBytes bounds what waits for somebody to listen.
	maxPendingBytes = 1 << 20
	maxPendingCount = 64
	// maxPendingNews of them may be notifications.
	maxPendingNews = 16
	// pendingFor is how long a question waits for somebody to be asked.
	pendingFor = 30 * time.Second
)

// pipe is the conversation over one link. All messages share one channel, so
// it sends every request under an id of its own and leads what comes back to
// the stream it belongs to; of a message only ids and tokens are changed.
type pipe struct {
	s    *links
	ch   channel
	out  *sendQueue
	name string // for logs
	slot string // where callers find it; with s.mu
	// modern: no sessions; requests of all callers mix.
	modern bool
	owner  session.Principal // who had it made
	start  *time.Timer       // the start limit, of a link with a session
	ready  chan struct{}     // closed once initialize was answered by a result

	mu        sync.Mutex // protects the fields below
	ids       int64
	calls     map[int64]*pipeStream // requests without an answer
	left      bounded[int64]        // those of them whose sender has left
	tokens    map[int64]token       // progress tokens by our own
	tokenList bounded[int64]
	asks      map[string]ask // the server's own requests
	askList   bounded[string]
	tasks     bounded[string] // it has made
	faces     map[string]*face
	ended     error         // why nothing more can be sent
	gone      chan struct{} // closed with ended
	used      time.Time     // when a request began or ended last
	skipped   int
	init      *jsonrpc.Message // answer to initialize, for those who share the link
}

// face is a client's session over a link.
type face struct {
	id        string
	principal session.Principal
	key       string // linkOptions.key of who opened it
	gets      []*pipeStream
	calls     map[string]int64 // our ids by the sender's
	pending   []*jsonrpc.Message
	bytes     int
	shared    bool // it did not open the link
}

// token is a sender's progress token.
type token struct {
	face *face
	raw  []byte
}

// ask is a request of the server's own that has not been answered.
type ask struct {
	face   *face
	stream *pipeStream
}

func (s *links) newPipe(ch channel, name string, modern bool, owner session.Principal) *pipe {
	return &pipe{
		s: s, ch: ch, name: name, modern: modern, owner: owner, gone: make(chan struct{}), ready: make(chan struct{}), used: time.Now(),
		out:   newSendQueue(ch.write, 2*int64(s.o.MaxMessage)+messageOverhead),
		calls: map[int64]*pipeStream{}, tokens: map[int64]token{}, asks: map[string]ask{}, faces: map[string]*face{},
	}
}

// begin lets a new pipe write and read.
func (s *links) begin(p *pipe) {
	p.ch.start(p.giveUp)
	s.background(p.write)
	s.background(p.read)
}

func newFace(id string, principal session.Principal) *face {
	return &face{id: id, principal: principal, calls: map[string]int64{}}
}

func (p *pipe) write() {
	err := p.out.run()
	if over, ok := errors.AsType[*overError](err); ok {
		p.over(over.why)
	} else if err != nil {
		p.giveUp(err)
	}
}

// read leads what the server says until it says no more.
func (p *pipe) read() {
	for {
		raw, unended, err := p.ch.next()
		tooLong := (*lines.TooLong)(nil)
		if errors.As(err, &tooLong) {
			p.tooLong(tooLong)
			if !tooLong.Endless {
				continue
			}
			p.giveUp(p.s.endless())
		}
		if err != nil {
			break
		}
		p.take(raw, unended)
	}
	p.over(p.ch.ended())
}

// over: the channel has ended by itself.
func (p *pipe) over(why error) {
	p.s.mu.Lock()
	_, alive := p.s.pipes[p]
	p.s.mu.Unlock()
	if !alive {
		why = fmt.Errorf("the %s was ended with its session", p.s.o.noun)
	}
	p.end(why)
	p.ch.stop()
}

// giveUp ends a link that cannot be spoken over.
func (p *pipe) giveUp(why error) {
	p.s.log.Warn("ending a "+p.s.o.noun, p.s.o.kind, p.name, "why", why.Error())
	p.end(fmt.Errorf("the %s was ended: %w", p.s.o.noun, why))
	p.s.background(p.ch.stop)
}

// end fails everything that waits, once.
func (p *pipe) end(cause error) {
	why, ok := cause.(*session.DialError)
	if !ok {
		why = p.s.fail(p.s.o.fail, cause)
	}
	if why.Fail == session.FailBroken && !errors.Is(cause, errStartLimit) {
		why.Again = session.AgainSafe
	}
	p.mu.Lock()
	if p.ended != nil {
		p.mu.Unlock()
		return
	}
	p.ended = why
	close(p.gone)
	var open []*pipeStream
	for _, st := range p.calls {
		if st != nil {
			open = append(open, st)
		}
	}
	for _, f := range p.faces {
		open = append(open, f.gets...)
	}
	p.calls = nil
	p.mu.Unlock()
	p.out.close()
	g := p.s.buried(p, why)
	for _, st := range open {
		if g != nil && aboutTask(st.method) && p.madeTask(st.task) {
			st.push(p.frame(st, g.answer(p.modern, st.method, st.theirs, st.task)))
			st.end(io.EOF)
			continue
		}
		st.lost(why)
	}
}

// common is the face of those who have no session; nil over a legacy link.
func (p *pipe) common() *face {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faces[""]
}

// dead says why nothing can be sent any more.
func (p *pipe) dead() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// request sends a request of f.
func (p *pipe) request(ctx context.Context, f *face, m *jsonrpc.Message, st *pipeStream) error {
	e := m.Edit()
	p.mu.Lock()
	if p.ended != nil {
		p.mu.Unlock()
		return unsent(p.ended)
	}
	p.ids++
	p.used = time.Now()
	id := p.ids
	st.p, st.face, st.ours, st.theirs, st.method = p, f, id, m.ID, m.Method
	st.task, _ = m.At("params", "taskId").Str()
	p.calls[id] = st
	f.calls[m.ID.Key()] = id
	ours := strconv.AppendInt(nil, id, 10)
	e.Replace(m.Root().Get("id"), ours)
	if t := m.At("params", "_meta", translate.MetaProgress); t.Exists() {
		p.addToken(id, token{f, append([]byte(nil), t.Raw()...)})
		e.Replace(t, ours)
	}
	questions := p.flight(f, st)
	p.mu.Unlock()
	if err := p.sendFor(ctx, placeOf(st), e.Pieces(), st); err != nil {
		if _, ok := p.ch.(direct); ok && ctx.Err() != nil {
			st.shut(context.Cause(ctx)) // it may be there: a cancel that follows must find it
			return err
		}
		p.mu.Lock()
		p.drop(st)
		p.mu.Unlock()
		return err
	}
	st.follow(ctx)
	for _, q := range questions {
		st.push(p.frame(st, q))
	}
	return nil
}

// flight takes the questions that wait for a request of f they may belong to;
// it needs p.mu.
func (p *pipe) flight(f *face, st *pipeStream) (questions []*jsonrpc.Message) {
	if p.modern || len(f.pending) == 0 || !translate.CanRequireInput(st.method) {
		return nil
	}
	kept := f.pending[:0:0]
	for _, m := range f.pending {
		if m.Kind == jsonrpc.Request && translate.RelatedTask(m.Params()) == "" {
			questions = append(questions, m)
			p.asks[m.ID.Key()] = ask{f, st}
			f.bytes -= len(m.Raw)
			continue
		}
		kept = append(kept, m)
	}
	f.pending = kept
	return questions
}

func (p *pipe) addToken(id int64, t token) {
	p.tokens[id] = t
	if old, full := p.tokenList.add(id); full {
		delete(p.tokens, old)
	}
}

// drop forgets a request; it needs p.mu.
func (p *pipe) drop(st *pipeStream) {
	delete(p.calls, st.ours)
	p.used = time.Now()
	p.left.drop(st.ours)
	if st.face.calls[st.theirs.Key()] == st.ours {
		delete(st.face.calls, st.theirs.Key())
	}
}

func (p *pipe) dropToken(id int64) {
	delete(p.tokens, id)
	p.tokenList.drop(id)
}

// readerLeft: a stream's reader has closed it.
func (p *pipe) readerLeft(st *pipeStream, unanswered bool) {
	p.mu.Lock()
	if st.ours == 0 { // a session's own stream
		for i, g := range st.face.gets {
			if g == st {
				st.face.gets = append(st.face.gets[:i:i], st.face.gets[i+1:]...)
				break
			}
		}
		p.mu.Unlock()
		return
	}
	if !unanswered || p.ended != nil || p.calls[st.ours] != st {
		p.mu.Unlock()
		return
	}
	if !p.modern {
		// No cancel (2025-11-25 basic/utilities/cancellation): one that follows
		// must still find the request.
		if old, full := p.left.add(st.ours); full {
			if o := p.calls[old]; o != nil {
				p.drop(o)
			}
		}
		p.mu.Unlock()
		if st.start {
			p.giveUp(errors.New("its client left before it had answered initialize"))
		}
		return
	}
	p.drop(st)
	p.dropToken(st.ours)
	p.mu.Unlock()
	params := jsonrpc.NewObject().Int("requestId", st.ours).Bytes()
	p.trySend(jsonrpc.NewNotification("notifications/cancelled", params))
}

// notify sends a notification of f.
func (p *pipe) notify(ctx context.Context, f *face, m *jsonrpc.Message) error {
	raw := m.Raw
	if m.Method == "notifications/cancelled" {
		id, err := jsonrpc.IDFromRaw(m.At("params", "requestId").Raw())
		p.mu.Lock()
		ours, known := f.calls[id.Key()]
		if st := p.calls[ours]; known && st != nil && !st.isOpen() {
			p.drop(st) // nothing more is to come for it
		}
		p.mu.Unlock()
		if err != nil || !known {
			return nil // it was answered meanwhile
		}
		e := m.Edit()
		e.Replace(m.At("params", "requestId"), strconv.AppendInt(nil, ours, 10))
		raw = e.Bytes()
	}
	if m.Method == "notifications/initialized" && f.shared {
		return nil
	}
	return p.send(ctx, placeOfFace(f), raw)
}

// answer sends a client's answer to a request of the server's; it is false where
// this client was not asked that.
func (p *pipe) answer(ctx context.Context, f *face, m *jsonrpc.Message) (bool, error) {
	key := m.ID.Key()
	p.mu.Lock()
	a, ok := p.asks[key]
	if ok = ok && a.face == f; ok {
		delete(p.asks, key)
		p.askList.drop(key)
	}
	p.mu.Unlock()
	if !ok {
		return false, nil
	}
	return true, p.send(ctx, placeOfFace(f), m.Raw)
}

// listen opens a session's own stream and gives it what has waited for one.
func (p *pipe) listen(ctx context.Context, f *face, st *pipeStream) error {
	st.p, st.face = p, f
	st.env = envelope(http.StatusOK, "")
	st.env.Header["Content-Type"] = []string{sseType}
	p.mu.Lock()
	if p.ended != nil {
		p.mu.Unlock()
		return p.ended
	}
	f.gets = append(f.gets, st)
	for _, m := range f.pending {
		st.push(p.frame(st, m))
		if m.Kind == jsonrpc.Request {
			p.asks[m.ID.Key()] = ask{f, st}
		}
	}
	f.pending, f.bytes = nil, 0
	p.mu.Unlock()
	st.follow(ctx)
	return nil
}

func (p *pipe) frame(st *pipeStream, m *jsonrpc.Message) translate.Frame {
	f := translate.Frame{Msg: m, Leg: translate.ServerLeg, Dir: translate.ToClient, Stream: st.id, Time: time.Now()}
	if p.modern && m.Kind == jsonrpc.ErrorResponse {
		f.HTTP = envelope(modernStatus(m), "")
	}
	return f
}

// modernStatus is the HTTP status of a modern server's error (2026-07-28
// streamable-http), which here is the code alone.
func modernStatus(m *jsonrpc.Message) int {
	code, _ := m.Error().Get("code").Int()
	cond := translate.CondInternal
	switch code {
	case -32601:
		cond = translate.CondUnknownMethod
	case codeHeaderMismatch:
		cond = translate.CondHeaderMismatch
	case codeMissingCapability:
		cond = translate.CondMissingCapability
	case codeUnsupportedVersion:
		cond = translate.CondUnsupportedVersion
	}
	return translate.ReplyFor(cond, translate.Modern).Status
}
