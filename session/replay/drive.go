package replay

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// drive does one operation again.
type drive struct {
	r   *replay
	c   *client
	op  *operation.Operation
	ctx context.Context
	wg  sync.WaitGroup
	seq atomic.Int64 // exchanges

	full, endless atomic.Bool

	opened chan struct{} // of a Listen: closed once the server has taken it
	over   chan struct{} // closed when what the server says has come to its end
	beside time.Duration // of a Close: how long others had been under way

	mu     sync.Mutex // protects the fields below
	notes  []string
	signs  signs
	change chan struct{}  // closed and made anew at each sign
	left   bool           // its task was cancelled
	sent   map[string]int // requests about its task, by method
}

// signs count what was heard for an operation: what a client may have waited
// for before it did something.
type signs struct {
	asks, notices, replies int
	ended                  bool // its task is over
}

// reached: at least as much as o has been heard.
func (s signs) reached(o signs) bool {
	return s.asks >= o.asks && s.notices >= o.notices && s.replies >= o.replies && (s.ended || !o.ended)
}

func newDrive(r *replay, c *client, op *operation.Operation) *drive {
	return &drive{r: r, c: c, op: op, opened: make(chan struct{}), over: make(chan struct{}), change: make(chan struct{})}
}

// run does it, within the time it may take.
func (d *drive) run(ctx context.Context, during func() <-chan struct{}) {
	limit := d.r.o.Timeout
	if !d.op.Ended.IsZero() {
		limit += d.op.Ended.Sub(d.op.Began)
	}
	var cancel context.CancelFunc
	if d.op.Kind == operation.Listen {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errTooLong)
	}
	defer cancel()
	d.ctx = ctx
	if err := d.c.ready(ctx, d.op); err != nil {
		d.note("no session could be begun: %v", err)
		return
	}
	switch d.op.Kind {
	case operation.Open:
		d.open()
	case operation.List:
		d.list()
	case operation.Listen:
		d.listen(during)
	case operation.Close:
		d.close()
	case operation.Notice:
		d.post(d.rewritten(d.op.First()), d.op.First().Record).read()
	default:
		d.call()
	}
	close(d.over)
	d.wg.Wait()
	if context.Cause(ctx) == errTooLong {
		d.note("it was not over after %v", limit)
	}
	d.r.ids.put(d.op.TaskID, "")
}

type timeoutError struct{}

func (timeoutError) Error() string { return "the operation took too long" }

var errTooLong error = timeoutError{}

func (d *drive) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.notes) < maxNotes {
		d.notes = append(d.notes, fmt.Sprintf(format, args...))
	}
}

const maxNotes = 16

// heard counts a message of the server's.
func (d *drive) heard(m *jsonrpc.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch m.Kind {
	case jsonrpc.Request:
		d.signs.asks++
	case jsonrpc.Notification:
		d.signs.notices++
	default:
		d.signs.replies++
		d.signs.asks += m.Result().Get("inputRequests").Len()
		if status, ok := translate.TaskOf(m.Result()).Get("status").Str(); ok && translate.Terminal(status) {
			d.signs.ended = true
		}
		if status, ok := m.Result().Get("status").Str(); ok && translate.Terminal(status) {
			d.signs.ended = true
		}
	}
	close(d.change)
	d.change = make(chan struct{})
}

// waitSigns waits until as much was heard as s, and says whether it was. Past
// limit, or once the operation is over, nothing more is waited for.
func (d *drive) waitSigns(ctx context.Context, s signs, limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	for {
		d.mu.Lock()
		done, change := d.signs.reached(s), d.change
		d.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-change:
		case <-d.over:
			return false
		case <-t.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// post sends one message of the operation's.
func (d *drive) post(raw []byte, model *capture.Record) *exchange {
	e := &exchange{c: d.c, d: d, ctx: d.ctx}
	e.send(raw, model)
	return e
}

// own is the record of a message of ours in the operation's place: it has no
// headers that could contradict it.
func (d *drive) own() *capture.Record {
	first := d.op.First().Record
	return &capture.Record{
		Transport: first.Transport, Conn: first.Conn, Session: d.op.Session, Principal: first.Principal,
		Header: d.c.versionHeader(first.Transport),
	}
}

// rewritten is a recorded message of the client's with the ids of now.
func (d *drive) rewritten(p operation.Part) []byte {
	return d.r.ids.edits(d.ctx, p.Msg, p.Msg.Method).Bytes()
}

// freshID is the id of a request the capture has no like of.
func (d *drive) freshID() jsonrpc.ID {
	return jsonrpc.StringID("replay-" + streamName(d.op.N, int(d.seq.Add(1))))
}

// parts of a role that the client sent, in their order.
func (d *drive) parts(role operation.Role, method string) []operation.Part {
	var out []operation.Part
	for _, p := range d.op.Parts {
		if p.Role == role && p.Record.Dir == translate.ToServer && p.Msg != nil && (method == "" || p.Msg.Method == method) {
			out = append(out, p)
		}
	}
	return out
}

// open begins a session, or asks what a server offers.
func (d *drive) open() {
	first := d.op.First()
	if first.Msg.Method != "initialize" {
		d.post(d.rewritten(first), first.Record).read()
		return
	}
	d.c.opening.Lock()
	defer d.c.opening.Unlock()
	e := d.post(d.rewritten(first), first.Record)
	e.read()
	d.c.greeted(e)
	for _, p := range d.parts(operation.RoleOther, "notifications/initialized") {
		d.post(d.rewritten(p), p.Record).read()
		d.initialized()
	}
}

// initialized: on one channel for all messages the session's own stream is
// there from now on; over HTTP the client opens it with a GET of its own.
func (d *drive) initialized() {
	if !overHTTP(d.op.First().Record) {
		d.c.listen()
	}
}

// close ends the session. What is still under way in it then is ended by that,
// as it was in the capture, so it is given the time to get there.
func (d *drive) close() {
	first := d.op.First()
	if !wait(d.ctx, d.r.pause(d.beside)) {
		return
	}
	d.c.stop()
	e := &exchange{c: d.c, d: d, ctx: d.ctx}
	e.delete(first.Record)
	e.read()
	d.c.mu.Lock()
	d.c.session = ""
	d.c.mu.Unlock()
}

// list asks for all pages that the recorded client asked for: to the end if it
// went to the end, however the server cuts them now.
func (d *drive) list() {
	pages := d.parts(operation.RoleRequest, d.op.Method)
	raw, model := d.rewritten(pages[0]), pages[0].Record
	seen := map[string]bool{}
	for n := 1; ; n++ {
		e := d.post(raw, model)
		e.read()
		if e.reply == nil {
			return
		}
		cursor := translate.Facts(e.reply, d.op.Method).Cursor
		text, ok := cursor.Str()
		if !ok || d.op.More && n >= d.op.Pages {
			return
		}
		if seen[text] || n >= maxPages {
			d.endless.Store(true)
			return
		}
		seen[text] = true
		base := pages[min(n, len(pages)-1)]
		raw, model = d.page(base, n < len(pages), cursor.Raw()), base.Record
	}
}

const maxPages = 10_000

// page is a request for the page at cursor. Where the capture has one in this
// place its id is kept.
func (d *drive) page(base operation.Part, recorded bool, cursor []byte) []byte {
	e := d.r.ids.edits(d.ctx, base.Msg, base.Msg.Method)
	if params := base.Msg.Params(); params.Type() == jsonrpc.Object {
		e.Set(params, "cursor", cursor)
	} else {
		e.Set(base.Msg.Root(), "params", jsonrpc.NewObject().Raw("cursor", cursor).Bytes())
	}
	if !recorded {
		e.Replace(base.Msg.At("id"), d.freshID().Raw())
	}
	return e.Bytes()
}

// listen keeps a stream open as long as the operations last that ran beside it,
// and as long after as notices are missing that the recorded client got.
func (d *drive) listen(during func() <-chan struct{}) {
	first := d.op.First()
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	e := &exchange{c: d.c, d: d, ctx: ctx, opened: d.opened}
	want := signs{}
	for _, p := range d.op.Parts {
		if p.IsNotice() {
			want.notices++
		}
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		if first.Msg == nil {
			e.get(first.Record)
		} else {
			e.send(d.rewritten(first), first.Record)
		}
		e.read()
		e.sign()
	})
	ended := make(chan struct{})
	go func() { defer close(ended); reading.Wait() }()
	select {
	case <-during():
		d.waitSigns(ctx, want, missingWithin)
	case <-ended:
	case <-ctx.Done():
	}
	cancel()
	<-ended
}

// missingWithin is how long a notice may be late.
const missingWithin = time.Second
