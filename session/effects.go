package session

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// execute carries effects out in order. Everything here is quick: exchanges
// run in goroutines of their own, client streams never block, and what an
// operation is told it takes in before the next effect, or it is left to the
// caller as workBox says.
func (r *Runner) execute(id OpID, b *base, x *Exec) (left []OpID) {
	for _, e := range x.effects {
		switch e := e.(type) {
		case Send:
			r.send(e.Stream, named(x.Policy, e.Out))
		case openAt:
			r.open(id, e)
		case shutAt:
			r.shut(id, e.label, e.exchange)
		case Wake:
			r.wake(id, e.Name, e.At)
		case Unwake:
			r.unwake(id, e.Name)
		case Tell:
			left = append(left, r.tell(e.To, Event{Kind: EvOp, From: id, Name: e.Name, Label: e.Label, Data: e.Data, from: x.from})...)
		case Ask:
			e.Raw = named(x.Policy, Out{Raw: e.Raw, Asks: true}).Raw
			r.ask(id, e, x.from.Trace)
		case Unask:
			r.questions.unasked(e)
			_ = r.store.Delete(r.ctx, askKey(e.Session, jsonrpc.IntID(e.ID)), Any)
		case Put:
			if _, err := r.store.Put(r.ctx, e.Key, e.Value, Any); err != nil {
				r.storeFailed("write record", err)
			}
		case Del:
			_ = r.store.Delete(r.ctx, e.Key, Any)
		case Snap:
			r.snaps.Put(e.Key, e.Value)
		case Loss:
			r.lose(x.from, e)
		case Limited:
			r.metrics.Limited(e.Limit)
		case Add:
			r.add(countKey(e.Name), e.N)
		case Attach:
			left = append(left, r.attachID(e.Stream, e.Op)...)
		case Gone:
			left = append(left, r.tell(e.Op, Event{Kind: EvClientGone, Label: e.Stream})...)
		case Cut:
			r.cutStream(e)
		case DropLog:
			r.forgetLog(e.Stream, e.Live)
		case DropLogs:
			for _, stream := range r.sessionLogs(e.Session) {
				left = append(left, r.tell(logOp(stream), Event{Kind: EvOp, Name: "drop"})...)
			}
		case Closed:
			r.sessionOver(e.Session)
		case Left:
			r.serverSessionOver(e)
		case EndCalls:
			left = append(left, r.endCalls(id, e)...)
		case Listens:
			if r.hooks.listens != nil {
				r.hooks.listens(e.Session, e.On)
			}
		case Done:
			r.finish(id, b)
		}
	}
	return left
}

// lose counts a loss of translation and logs it, louder where there is a reason
// to look at.
func (r *Runner) lose(from origin, e Loss) {
	r.lost(from, e.What)
	level := slog.LevelDebug
	if e.Why != "" {
		level = slog.LevelWarn
	}
	r.log.Log(r.ctx, level, "translation loss", "what", e.What, "why", e.Why)
}

// endCalls tells the calls of a session that it is over.
func (r *Runner) endCalls(id OpID, e EndCalls) (left []OpID) {
	r.questions.left(translate.ClientLeg, "", e.Session)
	for _, op := range r.callsOf(e.Session) {
		left = append(left, r.tell(op, Event{Kind: EvOp, From: id, Name: "ended", Data: e.Data})...)
	}
	if r.hooks.ended != nil && !e.Guest {
		r.hooks.ended(e.Session)
	}
	return left
}

// tell delivers an event within another operation's step; it returns what
// workBox does.
func (r *Runner) tell(id OpID, ev Event) (left []OpID) {
	if r.enqueue(id, ev) {
		left = r.workBox(id, r.store.Claim)
	}
	return left
}

// openAt and shutAt are Open and Shut with the exchange's own name.
type (
	openAt struct {
		Open
		exchange string
		trace    TraceContext // of the request it is opened because of
	}
	shutAt struct{ label, exchange string }
)

func (shutAt) effect() {}

// finish drops what a done operation leaves: exchanges and wakes.
func (r *Runner) finish(id OpID, b *base) {
	for label, exchange := range b.Ups {
		r.shut(id, label, exchange)
	}
	if len(b.Wakes) > 0 {
		_ = r.store.Delete(r.ctx, wakeKey(id), Any)
	}
	for _, slot := range b.Slots {
		_ = r.store.Delete(r.ctx, blobKey(id, slot), Any)
	}
}

// NewStream registers a way back to a client.
func (r *Runner) NewStream() *ClientStream {
	s := NewClientStream(r.proc.next(), r.streamBytes)
	r.adopt(s)
	return s
}

// attach says which operation answers on s, so that it hears when the client
// leaves.
func (r *Runner) attach(s *ClientStream, op OpID) {
	r.mu.Lock()
	if a := r.streams[s.ID]; a != nil {
		a.op = op
	}
	r.mu.Unlock()
}

// attachID is attach for an operation that hands its stream on. The runner
// that holds the stream does it; one whose reader has left meanwhile is news
// for op at once. The caller has to work the mailboxes left off.
func (r *Runner) attachID(stream string, op OpID) (left []OpID) {
	if holder := streamRunner(stream); holder != r.id {
		r.post(holder, inboxItem{Stream: stream, Op: op})
		return nil
	}
	r.mu.Lock()
	a := r.streams[stream]
	if a != nil {
		a.op = op
	}
	r.mu.Unlock()
	if _, kept := r.clientLog(stream); kept {
		if r.enqueue(logOp(stream), Event{Kind: EvOp, Name: "op", Data: []byte(op)}) {
			return []OpID{logOp(stream)}
		}
	} else if a == nil && r.enqueue(op, Event{Kind: EvClientGone, Label: stream}) {
		return []OpID{op}
	}
	return nil
}

// askKey names what a client was asked. Ids are compared as JSON values: 10 is
// 1e1.
func askKey(session string, id jsonrpc.ID) string { return "ask/" + session + "/" + shortKey(id) }

// asked is where a client's answer is led to.
type asked struct {
	Op   OpID   `json:"o"`
	Name string `json:"n"`
}

func (r *Runner) ask(id OpID, e Ask, within TraceContext) {
	raw, _ := json.Marshal(asked{Op: id, Name: e.Name})
	if _, err := r.store.Put(r.ctx, askKey(e.Session, jsonrpc.IntID(e.ID)), raw, Any); err != nil {
		r.storeFailed("remember question", err)
		return
	}
	r.send(e.Stream, Out{Raw: e.Raw, Asks: true, Of: e.Session, Trace: within})
}

// exchange is one open exchange with a server.
type exchange struct {
	name   string
	out    Outgoing
	cancel context.CancelFunc
	// answered: the response has come; what is left is drained, so that the
	// connection can be used again, and not canceled.
	answered atomic.Bool
}

func (r *Runner) open(id OpID, e openAt) {
	// Not a child of r.ctx: Close cancels the open exchanges itself, and to
	// enter and leave a parent costs each request a lock.
	ctx, cancel := r.clock.WithCancel()
	ex := &exchange{name: e.exchange, out: e.Out, cancel: cancel}
	key := upKey{id, e.Label}
	r.mu.Lock()
	if r.ctx.Err() != nil {
		r.mu.Unlock()
		cancel()
		return
	}
	if old := r.ups[key]; old != nil {
		old.cancel()
	}
	r.ups[key] = ex
	r.mu.Unlock()
	if e.Label == "result" && id.Kind() == "mtask" {
		r.hold(key)
	}
	r.spawn(func() { r.run(ctx, key, ex, e) })
}

// live says whether ex still is what its operation knows under key.
func (r *Runner) live(key upKey, ex *exchange) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ups[key] == ex
}

// run carries one exchange: every frame becomes an event, then one end.
func (r *Runner) run(ctx context.Context, key upKey, ex *exchange, e openAt) {
	defer ex.cancel()
	end := r.pump(ctx, key, ex, e)
	r.mu.Lock()
	mine := r.ups[key] == ex
	if mine {
		delete(r.ups, key)
	}
	delete(r.holders, key)
	r.mu.Unlock()
	if mine && r.ctx.Err() == nil {
		r.deliver(key.op, end)
	}
}

// pump carries one exchange, and again where its connection broke before anything
// came and its message may be sent again.
func (r *Runner) pump(ctx context.Context, key upKey, ex *exchange, e openAt) Event {
	p := pumping{r: r, key: key, ex: ex}
	for sent := 1; ; sent++ {
		end, err := p.try(ctx, e)
		if err == nil || p.heard || sent > sendsAgain || ctx.Err() != nil || !r.live(key, ex) || !maySendAgain(e.Out, err) {
			return end
		}
		r.log.Debug("sending a request again whose connection broke", "upstream", e.Upstream, "err", err)
		e.Out.Msg = p.anew(e.Out.Msg, sent)
		if sent > 1 {
			sleep(ctx, againPause)
		}
	}
}

// pumping is an exchange while it is carried.
type pumping struct {
	r      *Runner
	key    upKey
	ex     *exchange
	opened bool // the operation has had EvOpened
	heard  bool // it has had a message
	// asked is what its request is called, now the id it was sent again under.
	asked, now jsonrpc.ID
}

// try sends the message once; its error is why the exchange broke.
func (p *pumping) try(ctx context.Context, e openAt) (Event, error) {
	r, key, ex := p.r, p.key, p.ex
	end := Event{Kind: EvServerEnd, Label: e.Label, exchange: ex.name}
	if e.Paced {
		if err := r.looks.wait(ctx, e.As); err != nil {
			return broken(end, err), err
		}
	}
	seen := r.observeExchange(&e)
	stream, err := r.dial(ctx, e, e.Out)
	r.judge(ctx, stream, err)
	if err != nil {
		seen.over(ctx, nil, err)
		return broken(end, err), err
	}
	env := stream.Envelope()
	end.Frame.HTTP = env
	if env != nil && env.Status/100 == 2 && isEventStream(env.Header.Get("Content-Type")) && !p.opened {
		p.opened = true
		r.deliver(key.op, Event{Kind: EvOpened, Label: e.Label, Frame: translate.Frame{HTTP: env}, exchange: ex.name})
	}
	feeds := r.localStream(e.Feeds)
	more := func() bool {
		if !r.live(key, ex) {
			return false
		}
		if feeds != nil {
			feeds.waitRoom(ctx, slowClient)
		}
		return true
	}
	back := comeback{r: r, e: e, env: env}
	err = back.read(ctx, stream, more, func(f translate.Frame) (answered bool) {
		if f.HTTP == nil {
			f.HTTP = env
		}
		f.Msg = translate.ErrorFromServer(f.Msg, e.Out.Version)
		p.heard = true
		within := r.questions.heard(&e, f.Msg, f.HTTP)
		if f.Msg.Kind == jsonrpc.Response || f.Msg.Kind == jsonrpc.ErrorResponse {
			ex.answered.Store(e.Out.Verb == http.MethodPost)
			seen.answered(f.Msg, f.HTTP)
			f.Msg = p.named(f.Msg)
		}
		r.deliverPaced(key.op, Event{Kind: EvServer, Label: e.Label, Frame: f, exchange: ex.name, trace: within})
		return ex.answered.Load()
	})
	seen.over(ctx, env, err)
	if err != nil {
		return broken(end, err), err
	}
	return end, nil
}

// slowClient: how long a client may leave its stream full.
const slowClient = 30 * time.Second

func (r *Runner) localStream(id string) *ClientStream {
	if id == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.streams[id]; a != nil {
		return a.stream
	}
	return nil
}

func isEventStream(contentType string) bool {
	const want = "text/event-stream"
	return len(contentType) >= len(want) && contentType[:len(want)] == want
}

// broken turns a transport's error into the end of an exchange.
func broken(end Event, err error) Event {
	end.Fail, end.Err = FailBroken, err.Error()
	if d, ok := errors.AsType[*DialError](err); ok {
		end.Fail = d.Fail
		if d.Fail == FailProcess {
			end.Err = d.Err.Error() // shown to callers, who did not name the upstream
		}
		if d.HTTP != nil {
			end.Frame.HTTP = d.HTTP
		} else if d.Status != 0 {
			end.Frame.HTTP = &translate.Envelope{Status: d.Status}
		}
	}
	return end
}

// shut ends one exchange, wherever its socket is; a later one of the same
// label is left alone.
func (r *Runner) shut(id OpID, label, name string) {
	if holder := streamRunner(name); holder != r.id && holder != "" {
		r.post(holder, inboxItem{Op: id, Label: label, Exchange: name})
		return
	}
	key := upKey{id, label}
	r.mu.Lock()
	ex := r.ups[key]
	if ex == nil || ex.name != name {
		r.mu.Unlock()
		return
	}
	delete(r.ups, key)
	r.mu.Unlock()
	if !ex.answered.Load() {
		ex.cancel()
	}
}

// inboxItem is what one runner asks of another that holds a socket.
type inboxItem struct {
	Stream   string `json:",omitempty"`
	Out      *Out   `json:",omitempty"`
	Op       OpID   `json:",omitempty"`
	Label    string `json:",omitempty"`
	Exchange string `json:",omitempty"`
	Cut      bool   `json:",omitempty"` // end Stream's connection
	Taken    bool   `json:",omitempty"` // as in the effect
	Unlog    bool   `json:",omitempty"` // keep no more of Stream's events
}

func inboxLog(runner string) string { return "inbox/" + runner }

func (r *Runner) post(runner string, item inboxItem) {
	raw, err := json.Marshal(item)
	if err == nil {
		_, err = r.store.Append(r.ctx, inboxLog(runner), raw, LogBound{})
	}
	if err != nil {
		r.storeFailed("pass on to another runner", err)
	}
}

// followInbox carries out what other runners ask of the sockets held here.
func (r *Runner) followInbox() {
	for r.ctx.Err() == nil {
		r.inbox.Lock()
		after := r.inboxSeq
		r.inbox.Unlock()
		_, err := r.store.Read(r.ctx, inboxLog(r.id), after, 1)
		if err != nil && !errors.Is(err, ErrNotFound) {
			r.storeFailed("read inbox", err)
			sleep(r.ctx, time.Second)
			continue
		}
		for _, op := range r.drainInbox() {
			r.workOff(op)
		}
	}
	_ = r.store.Drop(context.WithoutCancel(r.ctx), inboxLog(r.id))
}

// drainInbox carries out what is in the inbox now, without waiting. The caller
// has to work the mailboxes left off.
func (r *Runner) drainInbox() (left []OpID) {
	r.inbox.Lock()
	defer r.inbox.Unlock()
	for {
		last, err := r.store.Last(r.ctx, inboxLog(r.id))
		if err != nil || last <= r.inboxSeq {
			return left
		}
		entries, err := r.store.Read(r.ctx, inboxLog(r.id), r.inboxSeq, 64)
		if errors.Is(err, ErrNotFound) {
			r.metrics.Dropped("inbox")
			r.inboxSeq++
			continue
		} else if err != nil {
			return left
		}
		for _, e := range entries {
			r.inboxSeq = e.Seq
			var item inboxItem
			if json.Unmarshal(e.Value, &item) != nil {
				continue
			}
			switch {
			case item.Out != nil:
				r.send(item.Stream, *item.Out)
			case item.Cut:
				r.cutStream(Cut{Stream: item.Stream, Taken: item.Taken})
			case item.Unlog:
				r.forgetLog(item.Stream, false)
			case item.Stream != "":
				left = append(left, r.attachID(item.Stream, item.Op)...)
			default:
				r.shut(item.Op, item.Label, item.Exchange)
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// statusOK says whether an HTTP reply carried success.
func statusOK(ev Event) bool {
	return ev.Frame.HTTP == nil || ev.Frame.HTTP.Status/100 == 2 || ev.Frame.HTTP.Status == http.StatusOK
}
